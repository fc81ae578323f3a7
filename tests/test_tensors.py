from __future__ import annotations

import contextlib
import json
import math
import os
import struct
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
import safetensors
import xxhash
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ckptui import tensors
from ckptui.errors import FormatError
from ckptui.tensors import BITS, Header, TensorInfo, nonfinite_tensors, read_header
from tests.factory import safetensors_bytes

if TYPE_CHECKING:
    from pathlib import Path

shared_folder = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=300
)


def file_of(header: object, data: bytes = b"", *, length: int | None = None) -> bytes:
    """The bytes of a file with this header, a text or what JSON makes of a value."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def put(folder: Path, content: bytes, name: str = "model.safetensors") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def info(dtype: str, shape: list[Any], offsets: list[Any], **more: Any) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets, **more}


def tensor_file(dtype: str, data: bytes, count: int | None = None) -> bytes:
    elements = len(data) * 8 // BITS[dtype] if count is None else count
    return file_of({"x": info(dtype, [elements], [0, len(data)])}, data)


# --- headers that are right


def test_a_header_tells_names_dtypes_shapes_and_places(tmp_path: Path) -> None:
    header = {
        "__metadata__": {"format": "pt"},
        "b": info("F32", [2, 1], [4, 12]),
        "a": info("BF16", [2], [0, 4]),
        "empty": info("I64", [0, 3], [4, 4]),
        "scalar": info("U8", [], [12, 13]),
    }
    content = file_of(header, bytes(13))
    found = read_header(put(tmp_path, content))
    assert found == Header(
        (
            TensorInfo("a", "BF16", (2,), 0, 4),
            TensorInfo("empty", "I64", (0, 3), 4, 4),
            TensorInfo("b", "F32", (2, 1), 4, 12),
            TensorInfo("scalar", "U8", (), 12, 13),
        ),
        {"format": "pt"},
        len(content) - 13,
    )


def test_a_file_without_tensors_is_whole(tmp_path: Path) -> None:
    found = read_header(put(tmp_path, file_of({"__metadata__": {"format": "pt"}})))
    assert found.tensors == ()
    assert found.metadata == {"format": "pt"}


@pytest.mark.torch
def test_every_dtype_that_torch_saves_is_known(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    saved = {}
    for name, dtype in vars(torch).items():
        if isinstance(dtype, torch.dtype):
            with contextlib.suppress(KeyError, TypeError, RuntimeError, NotImplementedError):
                one = torch.zeros(8 * dtype.itemsize, dtype=torch.uint8).view(dtype)
                save_file({"x": one}, tmp_path / "one.safetensors")
                saved[name] = one
    assert len(saved) > 18
    save_file(saved, tmp_path / "all.safetensors", metadata={"format": "pt"})
    found = read_header(tmp_path / "all.safetensors")
    assert {t.name for t in found.tensors} == set(saved)
    for tensor in found.tensors:
        assert tensor.end - tensor.start == saved[tensor.name].nbytes
    assert nonfinite_tensors(tmp_path / "all.safetensors") == ()


# --- headers that are wrong, each with its cause


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "is empty"),
        (b"\x01\x02", "has 2 bytes, fewer than any safetensors file"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 123\n",
            "is a Git LFS pointer, not the file it stands for",
        ),
        (struct.pack("<Q", 2**40) + b"{}", "claims a header of 1099511627776 bytes"),
        (struct.pack("<Q", 100_000_001) + b"{}", "more than the format allows"),
        (struct.pack("<Q", 100_000_000) + b"{}", "cut off within its header, 99999998 bytes short"),
        (struct.pack("<Q", 10) + b'{"a": 1', "cut off within its header, 3 bytes short"),
        (file_of(b""), "header that is not valid JSON"),
        (file_of(b'{"a": '), "header that is not valid JSON"),
        (file_of(b"\xff\xfe{}"), "header that is not valid JSON"),
        (file_of(b"[" * 100_000), "header that is not valid JSON"),
        (file_of(b'{"x": {}, "x": {}}'), "header that is not valid JSON"),
        (file_of(b'{"x": NaN}'), "header that is not valid JSON"),
        (file_of(b'{"\\ud800": 1}'), "header that is not valid JSON"),
        (file_of(b"[]"), "header that is no JSON object"),
        (file_of(b" {}"), "header that is no JSON object"),
        (file_of({"__metadata__": {"a": 1}}), "metadata that are not texts"),
        (file_of({"__metadata__": []}), "metadata that are not texts"),
        (file_of({"x": 1}), "describes tensor x by something that is no object"),
        (file_of({"x": {}}), "tensor x of an unknown dtype"),
        (file_of({"x": info("F33", [], [0, 0])}), "tensor x of an unknown dtype"),
        (file_of({"x": info("F32", [1.0], [0, 4])}, bytes(4)), "malformed shape or place"),
        (file_of({"x": info("F32", [True], [0, 4])}, bytes(4)), "malformed shape or place"),
        (file_of({"x": info("F32", [-1], [0, 4])}, bytes(4)), "malformed shape or place"),
        (file_of({"x": info("F32", [1], [0, 4, 4])}, bytes(4)), "malformed shape or place"),
        (file_of({"x": info("F32", [1], [0, 8])}, bytes(8)), "shape does not fit its bytes"),
        (file_of({"x": info("F32", [1], [8, 4])}, bytes(8)), "shape does not fit its bytes"),
        (file_of({"x": info("F4", [3], [0, 2])}, bytes(2)), "shape does not fit its bytes"),
        (
            file_of({"x": info("F32", [2**40] * 5000, [0, 4])}, bytes(4)),
            "shape does not fit its bytes",
        ),
        (file_of({"x": info("F32", [1], [4, 8])}, bytes(8)), "hole or an overlap before tensor x"),
        (
            file_of({"x": info("U8", [4], [0, 4]), "y": info("U8", [4], [2, 6])}, bytes(6)),
            "hole or an overlap before tensor y",
        ),
        (file_of({"x": info("F32", [1], [0, 4])}, bytes(3)), "is cut off, 1 bytes short"),
        (file_of({"x": info("F32", [1], [0, 4])}, bytes(7)), "has 3 bytes after its last tensor"),
    ],
)
def test_b35_each_fault_is_told_in_a_plain_sentence(
    content: bytes, what: str, tmp_path: Path
) -> None:
    path = put(tmp_path, content)
    with pytest.raises(FormatError) as caught:
        read_header(path)
    assert what in str(caught.value)
    assert str(caught.value).startswith("model.safetensors ")
    assert str(caught.value).endswith(".")
    assert caught.value.path == path
    with pytest.raises(FormatError):
        nonfinite_tensors(path)


def test_b27_a_cut_off_file_says_how_much_is_missing(tmp_path: Path) -> None:
    whole = safetensors_bytes({"a": [1.0, 2.0], "b": [3.0]})
    with pytest.raises(FormatError, match="cut off, 5 bytes short"):
        read_header(put(tmp_path, whole[:-5]))


def test_b35_a_hostile_length_allocates_nothing(tmp_path: Path) -> None:
    small = put(tmp_path, struct.pack("<Q", 99_000_000) + b"{}", "small.safetensors")
    huge = put(tmp_path, struct.pack("<Q", 2**63) + b"{}", "huge.safetensors")
    tracemalloc.start()
    try:
        for path in (small, huge):
            with pytest.raises(FormatError):
                read_header(path)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_what_is_no_file_is_told_and_does_not_hang(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_header(tmp_path / "absent.safetensors")
    with pytest.raises(FileNotFoundError):
        nonfinite_tensors(tmp_path / "absent.safetensors")
    with pytest.raises(FormatError, match="not a regular file"):
        read_header(tmp_path)
    os.mkfifo(tmp_path / "fifo.safetensors")
    with pytest.raises(FormatError, match="not a regular file"):
        read_header(tmp_path / "fifo.safetensors")


# --- the official reader agrees

names = st.one_of(st.sampled_from(["a", "b", "__metadata__", ""]), st.text(max_size=3))
sizes = st.one_of(
    st.integers(-1, 9),
    st.sampled_from([2**31, 2**32, 2**61, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**70]),
    st.sampled_from([0.0, 1.5, True, None, "1"]),
)
infos: st.SearchStrategy[Any] = st.one_of(
    st.fixed_dictionaries(
        {
            "dtype": st.one_of(st.sampled_from(sorted(BITS)), st.sampled_from(["f32", "", None])),
            "shape": st.lists(sizes, max_size=3),
            "data_offsets": st.lists(sizes, min_size=1, max_size=3),
        },
        optional={"more": st.just(1)},
    ),
    st.sampled_from([None, 1, "x", [], {}, {"format": "pt"}, {"a": 1}, {"a": None}]),
)


@st.composite
def nearly_right(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A right header with at most one thing changed, and the data it asks for or nearly."""
    header: dict[str, Any] = {}
    place = 0
    for number in range(draw(st.integers(0, 4))):
        dtype = draw(st.sampled_from(sorted(BITS)))
        shape = draw(st.lists(st.integers(0, 4), max_size=3))
        size = (math.prod(shape) * BITS[dtype] + 7) // 8
        header[f"t{number}"] = info(dtype, shape, [place, place + size])
        place += size
    if draw(st.booleans()) and header:
        name = draw(st.sampled_from(sorted(header)))
        key = draw(st.sampled_from(["dtype", "shape", "data_offsets", "all"]))
        if key == "all":
            header[name] = draw(infos)
        elif key == "dtype":
            header[name][key] = draw(st.sampled_from(sorted(BITS)))
        else:
            values = header[name][key]
            if values:
                values[draw(st.integers(0, len(values) - 1))] = draw(sizes)
            else:
                values.append(draw(sizes))
    if draw(st.booleans()):
        header["__metadata__"] = draw(
            st.one_of(infos, st.dictionaries(st.text(max_size=2), st.text(max_size=2)))
        )
    text = json.dumps(header).encode() + b" " * draw(st.integers(0, 3))
    return text, bytes(max(0, place + draw(st.sampled_from([0, 0, 0, 0, 1, -1]))))


def official(content: bytes) -> dict[str, Any] | None:
    """What the official reader finds; None where it refuses."""
    try:
        return dict(safetensors.deserialize(content))  # type: ignore[no-untyped-call] # has no types
    except safetensors.SafetensorError:
        return None


def compare(folder: Path, content: bytes) -> None:
    theirs = official(content)
    try:
        ours = read_header(put(folder, content))
    except FormatError:
        assert theirs is None
        return
    assert theirs is not None
    assert {t.name: (t.dtype, list(t.shape)) for t in ours.tensors} == {
        name: (found["dtype"], found["shape"]) for name, found in theirs.items()
    }
    for tensor in ours.tensors:
        start = ours.data_start + tensor.start
        assert content[start : start + tensor.end - tensor.start] == theirs[tensor.name]["data"]


@shared_folder
@given(nearly_right())
def test_the_official_reader_takes_and_refuses_the_same_files(
    tmp_path: Path, case: tuple[bytes, bytes]
) -> None:
    compare(tmp_path, file_of(*case))


@shared_folder
@given(st.dictionaries(names, infos, max_size=3), st.binary(max_size=9))
@example({"a": info("U8", [2**62, 2**62, 0], [0, 0])}, b"")
@example({"a": info("U8", [0, 2**62, 2**62], [0, 0])}, b"")
@example({"a": info("F64", [2**61, 0], [0, 0])}, b"")
@example({"a": info("F64", [2**62, 0], [0, 0])}, b"")
@example({"a": info("U8", [0], [2**64 - 1, 2**64 - 1])}, b"")
@example({"a": info("U8", [0, 2**63], [0, 0])}, b"")
@example({"a": info("U8", [0, 2**64 - 1], [0, 0])}, b"")
@example({"a": info("U8", [0, 2**64], [0, 0])}, b"")
@example({"a": info("F4", [2**64], [0, 2**63])}, b"")
@example({"__metadata__": None}, b"")
@example({"a": info("F4", [1], [0, 0])}, b"")
@example({"a": info("F6_E2M3", [4], [0, 3])}, b"abc")
def test_the_official_reader_agrees_on_strange_headers(
    tmp_path: Path, header: dict[str, Any], data: bytes
) -> None:
    compare(tmp_path, file_of(header, data))


@shared_folder
@given(st.binary(max_size=40))
@example(file_of(b'{"a":{"dtype":"U8","shape":[-0],"data_offsets":[0,0]}}'))
@example(file_of(b'{"a":{"dtype":"U8","shape":[],"data_offsets":[0,1],"dtype":"U8"}}', b"x"))
@example(file_of(b'{"a":{"dtype":"U8","shape":[],"data_offsets":[0,1],"more":[1e999]}}', b"x"))
@example(file_of(b'{"a":{"dtype":"U8","shape":[],"data_offsets":[0,1],"more":"\\ud800"}}', b"x"))
@example(file_of(b'{"a":{"dtype":"U8","shape":[],"data_offsets":[0,1],"more":-Infinity}}', b"x"))
@example(file_of(b"{}\x00"))
@example(file_of(b"{}\n\t "))
def test_any_bytes_are_a_file_or_a_told_fault(tmp_path: Path, content: bytes) -> None:
    compare(tmp_path, content)


@shared_folder
@given(st.data())
def test_any_damage_is_told_as_the_official_reader_does(
    tmp_path: Path, data: st.DataObject
) -> None:
    whole = bytearray(safetensors_bytes({"a": [1.0, 2.0], "b": [3.0]}))
    for _ in range(data.draw(st.integers(1, 2))):
        place = data.draw(st.integers(0, len(whole) - 1))
        whole[place] = data.draw(st.integers(0, 255))
    compare(tmp_path, bytes(whole))


# --- NaN and infinity


def f32(pattern: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", pattern))[0])


EXACT: dict[str, tuple[int, Any]] = {
    "F64": (8, lambda p: struct.unpack("<d", struct.pack("<Q", p))[0]),
    "F32": (4, f32),
    "F16": (2, lambda p: struct.unpack("<e", struct.pack("<H", p))[0]),
    "BF16": (2, lambda p: f32(p << 16)),
}


@pytest.mark.parametrize("dtype", ["F16", "BF16"])
def test_every_pattern_of_two_bytes_is_judged_rightly(dtype: str) -> None:
    _, value = EXACT[dtype]
    look = tensors._LOOKS[dtype]
    for pattern in range(2**16):
        assert look(struct.pack("<H", pattern)) is not math.isfinite(value(pattern))


@pytest.mark.torch
@pytest.mark.parametrize(
    ("dtype", "kind"),
    [
        ("F8_E4M3", "float8_e4m3fn"),
        ("F8_E5M2", "float8_e5m2"),
        ("F8_E4M3FNUZ", "float8_e4m3fnuz"),
        ("F8_E5M2FNUZ", "float8_e5m2fnuz"),
        ("F8_E8M0", "float8_e8m0fnu"),
    ],
)
def test_every_pattern_of_one_byte_is_judged_as_torch_does(dtype: str, kind: str) -> None:
    torch = pytest.importorskip("torch")
    every = torch.arange(256, dtype=torch.uint8).view(getattr(torch, kind)).to(torch.float32)
    finite = torch.isfinite(every).tolist()
    look = tensors._LOOKS[dtype]
    assert [not look(bytes([pattern])) for pattern in range(256)] == finite


@given(
    st.sampled_from(["F32", "F64"]),
    st.lists(
        st.one_of(
            st.integers(0, 2**64 - 1),
            st.sampled_from([0x7F, 0xFF, 0x7FF, 0xFFF, 0x7F7F, 0x7F8, 0x7FE, 0x7FEF]).map(
                lambda top: top << (64 - top.bit_length()) if top > 0x7FF else top << 52
            ),
            st.tuples(st.sampled_from([0x7F, 0xFF, 0x7E, 0x80]), st.integers(0, 2**56 - 1)).map(
                lambda pair: pair[0] << 56 | pair[1]
            ),
        ),
        max_size=12,
    ),
)
def test_floats_are_judged_by_their_bits(dtype: str, patterns: list[int]) -> None:
    width, value = EXACT[dtype]
    cut = [p >> (64 - 8 * width) for p in patterns]
    data = b"".join(p.to_bytes(width, "little") for p in cut)
    assert tensors._LOOKS[dtype](data) is not all(math.isfinite(value(p)) for p in cut)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 1, 7, 8, 9, 15, 16, 40])
def test_one_bad_value_anywhere_is_found(
    value: float, place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensors, "_CHUNK", 32)
    values = [3.4e38, -3.4e38, 1e-45, 0.0, -0.0] * 9
    values[place] = value
    path = put(tmp_path, safetensors_bytes({"a": [1.0] * 9, "b": values, "c": [3.4e38], "d": []}))
    assert nonfinite_tensors(path) == ("b",)
    values[place] = 3.4e38
    put(tmp_path, safetensors_bytes({"a": [1.0] * 9, "b": values, "c": [3.4e38], "d": []}))
    assert nonfinite_tensors(path) == ()


@pytest.mark.parametrize("dtype", ["C64", "F64", "F32", "BF16", "F16"])
def test_each_float_dtype_is_looked_at(dtype: str, tmp_path: Path) -> None:
    code, width = {"C64": ("f", 8), "F64": ("d", 8), "F32": ("f", 4), "F16": ("e", 2)}.get(
        dtype, ("f", 2)
    )

    def packed(value: float) -> bytes:
        raw = struct.pack("<" + code, value)
        return raw[-2:] if dtype == "BF16" else raw.rjust(width, b"\x00")

    good, bad = packed(1.0) * 5, packed(1.0) * 4 + packed(math.nan)
    assert nonfinite_tensors(put(tmp_path, tensor_file(dtype, good))) == ()
    assert nonfinite_tensors(put(tmp_path, tensor_file(dtype, bad))) == ("x",)


def test_both_parts_of_a_complex_number_are_looked_at(tmp_path: Path) -> None:
    for parts in ((math.nan, 0.0), (0.0, math.inf)):
        data = struct.pack("<4f", 1.0, 2.0, *parts)
        assert nonfinite_tensors(put(tmp_path, tensor_file("C64", data))) == ("x",)


def test_a_value_beyond_the_first_piece_is_found(tmp_path: Path) -> None:
    data = bytearray(2**22 + 400)
    data[-4:] = struct.pack("<f", math.nan)
    path = put(tmp_path, tensor_file("F32", bytes(data)))
    assert nonfinite_tensors(path) == ("x",)


@pytest.mark.parametrize("dtype", ["BOOL", "U8", "I8", "I16", "U16", "I32", "U32", "I64", "U64"])
def test_integers_are_always_finite(dtype: str, tmp_path: Path) -> None:
    path = put(tmp_path, tensor_file(dtype, b"\xff" * 64))
    assert nonfinite_tensors(path) == ()


def test_the_file_is_read_once_and_can_be_digested_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensors, "_CHUNK", 32)
    header = {
        "a": info("F32", [20], [0, 80]),
        "b": info("I8", [40], [80, 120]),
        "c": info("F32", [5], [120, 140]),
        "d": info("F32", [5], [140, 160]),
    }
    bad = struct.pack("<5f", 1, math.nan, 2, math.inf, 3)
    content = file_of(header, bad + bytes(60) + b"\xff" * 40 + bytes(20) + bad)
    path = put(tmp_path, content)
    digest = xxhash.xxh3_128()
    counts: list[int] = []
    assert nonfinite_tensors(path, progress=counts.append, also=digest.update) == ("a", "d")
    assert digest.hexdigest() == xxhash.xxh3_128_hexdigest(content)
    assert sum(counts) == len(content)
    assert max(counts) <= 32
    counts.clear()
    assert nonfinite_tensors(path, progress=counts.append) == ("a", "d")
    assert sum(counts) <= len(content) - 40
