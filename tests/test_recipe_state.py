from __future__ import annotations

import json
import random
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ckptui.errors import FormatError, NotResumableError, StorageError, UsageError
from ckptui.recipe_state import capture_rng, read, read_json, restore_rng, write
from ckptui.state_codec import CodecError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import torch
else:
    torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch

JSON, TENSORS = "recipe_state.json", "recipe_state.safetensors"


def back(folder: Path, state: dict[str, Any]) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    write(folder, state)
    return read(folder)


def bits(tensor: Any) -> list[int]:
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return list(flat.view(torch.uint8).tolist())


DTYPES = [
    *("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"),
    *("float16", "bfloat16", "float32", "float64", "complex64"),
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
]


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (5,), (2, 3)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_and_shape_comes_back_bit_for_bit(
    dtype: str, shape: tuple[int, ...], tmp_path: Path
) -> None:
    kind = getattr(torch, dtype)
    count = 1
    for side in shape:
        count *= side
    generator = torch.Generator().manual_seed(count)
    high = 2 if dtype == "bool" else 256
    raw = torch.randint(0, high, (count * kind.itemsize,), dtype=torch.uint8, generator=generator)
    tensor = raw.view(kind).reshape(shape)
    found = back(tmp_path, {"x": {"deep": [tensor]}})["x"]["deep"][0]
    assert found.dtype is kind
    assert found.shape == tensor.shape
    assert bits(found) == bits(tensor)


def test_views_come_back_as_their_elements(tmp_path: Path) -> None:
    base = torch.arange(24.0).reshape(4, 6)
    complex_base = torch.view_as_complex(torch.randn(3, 2))
    views = {
        "transposed": base.T,
        "strided": base[::2, 1::2],
        "expanded": base[:1].expand(4, 6),
        "offset": base[2:],
        "whole": base,
        "again": base,
        "conjugate": complex_base.conj(),
        "negative": complex_base.conj().imag,
        "parameter": torch.nn.Parameter(base),
    }
    found = back(tmp_path, {"views": views})["views"]
    for name, view in views.items():
        assert torch.equal(found[name], view.detach()), name
    assert found["whole"].data_ptr() != found["again"].data_ptr()
    assert type(found["parameter"]) is torch.Tensor


def test_names_that_meet_stay_apart(tmp_path: Path) -> None:
    one, two, three = (torch.full((1,), float(i)) for i in range(3))
    state = {
        "a.b": one,
        "a": {"b": two, "$b": three, "\udc80": one, "é\n": two},
        "__metadata__": one,
    }
    found = back(tmp_path, state)
    assert found["a.b"].item() == 0
    assert found["a"]["b"].item() == 1
    assert found["a"]["$b"].item() == 2
    assert found["a"]["\udc80"].item() == 0
    assert found["a"]["é\n"].item() == 1
    assert found["__metadata__"].item() == 0


def test_dtypes_and_sizes_come_back(tmp_path: Path) -> None:
    state = {"dtype": torch.bfloat16, "size": torch.Size((2, 3)), "none": torch.Size(())}
    found = back(tmp_path, state)
    assert found == state
    assert type(found["size"]) is torch.Size


def unstorable() -> dict[str, Any]:
    class Ours(torch.Tensor):
        pass

    return {
        "sparse": torch.eye(2).to_sparse(),
        "complex128": torch.zeros(1, dtype=torch.complex128),
        "meta": torch.zeros(1, device="meta"),
        "subclass": torch.zeros(1).as_subclass(Ours),
        "generator": torch.Generator(),
        "module": torch.nn.Linear(1, 1),
        "device": torch.device("cpu"),
    }


@pytest.mark.parametrize("kind", list(unstorable()))
def test_other_tensors_are_refused_by_their_path(kind: str, tmp_path: Path) -> None:
    with pytest.raises(CodecError, match=r"^ema\.1\.x is a "):
        write(tmp_path, {"ema": [0, {"x": unstorable()[kind]}]})
    assert list(tmp_path.iterdir()) == []


def test_a_state_that_holds_itself_is_refused(tmp_path: Path) -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(CodecError, match="too deeply"):
        write(tmp_path, {"loop": loop})


def test_the_key_of_the_format_is_taken(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'format'"):
        write(tmp_path, {"format": 2})


def test_the_same_state_gives_the_same_bytes(tmp_path: Path) -> None:
    def make() -> dict[str, Any]:
        torch.manual_seed(3)
        return {
            "values": {"b": torch.randn(3), "a": torch.ones(2, dtype=torch.bfloat16)},
            "n": 0.1,
            "rng": {"torch": torch.get_rng_state(), "python": random.Random(1).getstate()},
        }

    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, make())
    for file in (JSON, TENSORS):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    write(tmp_path, {"n": 0.1})
    turned = {"b": torch.zeros(1), "a": torch.zeros(1)}
    (tmp_path / "three").mkdir()
    write(tmp_path / "three", {"values": turned})
    (tmp_path / "four").mkdir()
    write(tmp_path / "four", {"values": dict(reversed(turned.items()))})
    three, four = ((tmp_path / n / TENSORS).read_bytes() for n in ("three", "four"))
    assert three == four


def test_what_was_read_does_not_hang_on_the_file(tmp_path: Path) -> None:
    found = back(tmp_path, {"values": {"x": torch.ones(1000)}})
    with (tmp_path / TENSORS).open("r+b") as f:
        size = f.seek(0, 2)
        f.seek(0)
        f.write(bytes(size))
    assert found["values"]["x"].sum().item() == 1000


def test_a_state_without_tensors_is_written_and_read(tmp_path: Path) -> None:
    assert back(tmp_path, {"steps_run": 3}) == {"steps_run": 3}
    assert sorted(p.name for p in tmp_path.iterdir()) == [JSON, TENSORS]


def test_the_json_is_read_without_torch(tmp_path: Path) -> None:
    write(tmp_path, {"steps_run": 3, "x": torch.ones(1), "t": (1, float("nan"))})
    code = (
        "import sys, json, pathlib; from ckptui.recipe_state import read_json\n"
        "print(json.dumps(read_json(pathlib.Path(sys.argv[1]))))\n"
        "assert not {'torch', 'numpy', 'safetensors'} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], check=True, capture_output=True
    )
    assert json.loads(done.stdout) == {
        "steps_run": 3,
        "x": {"$tensor": "x"},
        "t": {"$tuple": [1, {"$float": "NaN"}]},
    }


# --- damage


@pytest.mark.parametrize("file", [JSON, TENSORS])
def test_a_missing_file_means_it_cannot_be_resumed(file: str, tmp_path: Path) -> None:
    write(tmp_path, {"x": torch.ones(1)})
    (tmp_path / file).unlink()
    with pytest.raises(NotResumableError, match=f"lacks {file}"):
        read(tmp_path)


@pytest.mark.parametrize("content", [b"", b'{"step": 21', b"[]", b"\xff", b'{"format": 2}', b"{}"])
def test_b28_damaged_json_means_it_cannot_be_resumed(content: bytes, tmp_path: Path) -> None:
    write(tmp_path, {"x": 1})
    (tmp_path / JSON).write_bytes(content)
    with pytest.raises(NotResumableError, match="damaged"):
        read(tmp_path)
    with pytest.raises(FormatError):
        read_json(tmp_path)


@pytest.mark.parametrize("keep", [0, 7, 8, 30, -1])
def test_a_cut_off_tensor_file_means_it_cannot_be_resumed(keep: int, tmp_path: Path) -> None:
    write(tmp_path, {"x": torch.ones(10)})
    data = (tmp_path / TENSORS).read_bytes()
    (tmp_path / TENSORS).write_bytes(data[:keep])
    with pytest.raises(NotResumableError, match="damaged"):
        read(tmp_path)


def test_b106_a_tensor_that_is_not_there_is_named(tmp_path: Path) -> None:
    write(tmp_path, {"optimizers": {"o": {"w": torch.ones(10)}}})
    (tmp_path / "other").mkdir()
    write(tmp_path / "other", {})
    (tmp_path / "other" / TENSORS).replace(tmp_path / TENSORS)
    with pytest.raises(NotResumableError, match=r"optimizers\.o\.w in the recipe state"):
        read(tmp_path)


def test_a_tensor_file_that_is_a_folder_is_told(tmp_path: Path) -> None:
    write(tmp_path, {"x": 1})
    (tmp_path / TENSORS).unlink()
    (tmp_path / TENSORS).mkdir()
    with pytest.raises((StorageError, NotResumableError)):
        read(tmp_path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(st.data())
def test_any_damage_to_the_files_is_told_or_harmless(tmp_path: Path, data: st.DataObject) -> None:
    for file in (JSON, TENSORS):
        (tmp_path / file).unlink(missing_ok=True)  # of the example before
    write(tmp_path, {"x": torch.ones(3), "t": (1, b"x", {2: None}), "f": float("inf")})
    file = data.draw(st.sampled_from([JSON, TENSORS]))
    content = bytearray((tmp_path / file).read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] = data.draw(st.integers(0, 255))
    (tmp_path / file).write_bytes(content)
    try:
        read(tmp_path)
    except NotResumableError as e:
        assert str(tmp_path) in str(e)  # noqa: PT017 - other errors must surface as they are


# --- random generators


@pytest.fixture
def _own_random() -> Iterator[None]:
    """The test may do to the generators what it likes."""
    np = pytest.importorskip("numpy")
    python, legacy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng():
        yield
    random.setstate(python)
    np.random.set_state(legacy)


def draws() -> list[Any]:
    import numpy as np

    return [
        random.random(),
        random.gauss(0, 1),
        np.random.rand(2).tolist(),
        np.random.standard_normal(),
        torch.rand(2).tolist(),
        torch.randn(3).tolist(),
        torch.nn.functional.dropout(torch.ones(8), 0.5).tolist(),
    ]


@pytest.mark.usefixtures("_own_random")
def test_b107_every_generator_draws_what_it_would_have_drawn(tmp_path: Path) -> None:
    random.seed(3)
    torch.manual_seed(3)
    draws()  # leaves one gaussian in reserve in python and numpy
    state = capture_rng()
    expected = draws() + draws()
    found = back(tmp_path, {"rng": state})["rng"]
    for seed in (4, 5):
        random.seed(seed)
        torch.manual_seed(seed)
        draws()
        restore_rng(found)
        assert draws() + draws() == expected


@pytest.mark.usefixtures("_own_random")
def test_numpy_is_captured_only_where_it_is_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "numpy" in capture_rng()
    monkeypatch.delitem(sys.modules, "numpy")
    without = capture_rng()
    assert "numpy" not in without
    restore_rng(without)


def damaged() -> list[tuple[str, Any]]:
    import numpy as np

    values: list[Any] = [
        None,
        3,
        "text",
        [],
        (),
        {},
        b"",
        (3, (1, 2), None),
        (3, (-1,) * 625, None),
        (3, (2**40,) * 625, None),
        (3, ("x",) * 625, None),
        (9, (0,) * 625, None),
        ("MT19937", np.zeros(3, dtype=np.uint32), 0, 0, 0.0),
        ("MT19937",),
        ("PCG64", np.zeros(624, dtype=np.uint32), 0, 0, 0.0),
        ("MT19937", [object()], 0, 0, 0.0),
        torch.zeros(3),
        torch.zeros(3, dtype=torch.uint8),
        torch.full((5056,), 255, dtype=torch.uint8),
        torch.zeros(5056, dtype=torch.uint8),
    ]
    return [(part, value) for part in ("python", "numpy", "torch") for value in values]


@pytest.mark.usefixtures("_own_random")
def test_b108_a_damaged_state_is_never_swallowed() -> None:
    good = capture_rng()
    for part, value in damaged():
        with pytest.raises(NotResumableError, match=f"{part} random state is missing or damaged"):
            restore_rng({**good, part: value})


@pytest.mark.usefixtures("_own_random")
@pytest.mark.parametrize("part", ["python", "torch"])
def test_b108_a_missing_state_is_never_swallowed(part: str) -> None:
    with pytest.raises(NotResumableError, match=f"{part} random state is missing"):
        restore_rng({k: v for k, v in capture_rng().items() if k != part})
    with pytest.raises(NotResumableError):
        restore_rng({})


@pytest.mark.usefixtures("_own_random")
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_every_cuda_device_draws_what_it_would_have_drawn(tmp_path: Path) -> None:
    torch.cuda.manual_seed_all(3)
    state = capture_rng()
    devices = range(torch.cuda.device_count())
    expected = [torch.rand(5, device=f"cuda:{i}").tolist() for i in devices]
    found = back(tmp_path, {"rng": state})["rng"]
    restore_rng(found)
    assert [torch.rand(5, device=f"cuda:{i}").tolist() for i in devices] == expected
    for broken in (None, ["text"], [torch.zeros(3)], [torch.zeros(3, dtype=torch.uint8)]):
        with pytest.raises(NotResumableError, match="cuda random state"):
            restore_rng({**found, "cuda": broken})
