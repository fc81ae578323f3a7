"""Files written straight from memory are what the official library and transformers read."""

from __future__ import annotations

import errno
import math
import os
from typing import TYPE_CHECKING, Any

import pytest
import xxhash

from ckptui import output, tensor_files
from ckptui.errors import RefusedError
from ckptui.tensor_files import file_size, is_finite, memory_of, write_tensor_file
from ckptui.tensors import BITS, nonfinite_tensors, read_header

if TYPE_CHECKING:
    from pathlib import Path

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

DTYPES = [name for name in tensor_files._DTYPES if name != "float4_e2m1fn_x2"]
FLOATS = [name for name in DTYPES if name.startswith(("float", "bfloat"))]
SHAPES = [(), (0, 3), (3, 5), (7,), (1, 1, 2)]


def of(dtype: str, shape: tuple[int, ...]) -> Any:
    """A tensor of random bytes; of bools zeros and ones."""
    kind = getattr(torch, dtype)
    size = math.prod(shape) * torch.empty(0, dtype=kind).element_size()
    high = 2 if dtype == "bool" else 256
    return torch.randint(0, high, (size,), dtype=torch.uint8).view(kind).reshape(shape)


def raw(tensor: Any) -> bytes:
    plain = tensor.contiguous()
    return bytes(memory_of(plain)) if plain.numel() else b""


def mixed() -> dict[str, Any]:
    torch.manual_seed(0)
    found = {f"{d}.{i}": of(d, s) for d in DTYPES for i, s in enumerate(SHAPES)}
    # Names that JSON has to escape, and others that it need not.
    found |= {'a "quoted" \\ name': torch.ones(3), "größe": torch.ones(2), "\n": torch.ones(1)}
    found["turned"] = torch.rand(4, 6).t()
    return found


def test_every_dtype_and_shape_is_read_back_by_the_official_library(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    tensors = mixed()
    written = write_tensor_file(tmp_path / "t.safetensors", tensors)
    found = load_file(tmp_path / "t.safetensors")
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert (found[name].dtype, found[name].shape) == (tensor.dtype, tensor.shape), name
        assert raw(found[name]) == raw(tensor), name
    data = (tmp_path / "t.safetensors").read_bytes()
    assert (written.size, file_size(tensors)) == (len(data), len(data))
    assert written.digest == f"xxh3_128:{xxhash.xxh3_128(data).hexdigest()}"


def test_the_data_is_aligned_and_the_names_are_sorted(tmp_path: Path) -> None:
    import json

    write_tensor_file(tmp_path / "t.safetensors", mixed())
    found = read_header(tmp_path / "t.safetensors")
    assert found.data_start % 8 == 0
    for tensor in found.tensors:
        assert (found.data_start + tensor.start) % max(1, BITS[tensor.dtype] // 8) == 0, tensor
    data = (tmp_path / "t.safetensors").read_bytes()
    names = [n for n in json.loads(data[8 : found.data_start]) if n != "__metadata__"]
    assert names == sorted(names)


def test_of_one_dtype_the_bytes_are_those_of_the_official_writer(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    tensors = {f"w{i}": torch.rand(i % 7, 3) for i in range(1200)}
    write_tensor_file(tmp_path / "ours", dict(reversed(tensors.items())))
    save_file(tensors, tmp_path / "theirs", metadata={"format": "pt"})
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()


def test_large_tensors_are_written_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from safetensors.torch import load_file

    monkeypatch.setattr(tensor_files, "PIECE", 64)
    tensors = {"large": torch.rand(1000), "small": torch.rand(3), "none": torch.empty(0)}
    tensors["large"][777] = math.nan
    written = write_tensor_file(tmp_path / "t", tensors, look=True)
    assert written.nonfinite == ("large",)
    data = (tmp_path / "t").read_bytes()
    assert written.digest == f"xxh3_128:{xxhash.xxh3_128(data).hexdigest()}"
    assert all(raw(v) == raw(tensors[k]) for k, v in load_file(tmp_path / "t").items())


def test_a_system_that_writes_less_than_it_is_given_gets_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from safetensors.torch import load_file

    write, writev = os.write, os.writev
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, bytes(data)[:7]))
    monkeypatch.setattr(os, "writev", lambda fd, parts: writev(fd, [bytes(parts[0])[:5]]))
    tensors = {f"w{i}": torch.rand(9) for i in range(20)}
    write_tensor_file(tmp_path / "t", tensors)
    monkeypatch.undo()
    assert all(torch.equal(v, tensors[k]) for k, v in load_file(tmp_path / "t").items())


def test_a_disk_that_takes_nothing_more_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "write", lambda *_: 0)
    monkeypatch.setattr(os, "writev", lambda *_: 0)
    with pytest.raises(OSError, match="No space") as caught:
        write_tensor_file(tmp_path / "t", {"w": torch.rand(9)})
    assert caught.value.errno == errno.ENOSPC


def test_a_disk_that_fails_while_more_is_written_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system tells an error once: a later sync of the same file would succeed."""
    failed: list[int] = []

    def fail(descriptor: int) -> None:
        if not failed:
            failed.append(descriptor)
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(tensor_files, "PIECE", 64)
    monkeypatch.setattr(output, "LARGE", 128)
    monkeypatch.setattr(output, "_DIRECT", 0)
    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(OSError, match="Input/output"):
        write_tensor_file(tmp_path / "t", {"w": torch.rand(1000)})
    assert failed


@pytest.mark.parametrize("refuses", ["nothing", "to open", "to write", "later"])
@pytest.mark.parametrize("extra", [0, 1, 1000])
def test_a_large_file_goes_past_the_cache_where_the_disk_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refuses: str, extra: int
) -> None:
    from safetensors.torch import load_file

    monkeypatch.setattr(output, "LARGE", 4096)
    monkeypatch.setattr(output, "PIECE", 8192)
    monkeypatch.setattr(tensor_files, "PIECE", 8192)
    real_open, real_write = os.open, os.write
    direct, writes = getattr(os, "O_DIRECT", 0), []

    def opening(path: Any, flags: int, *more: Any) -> int:
        if refuses == "to open" and flags & direct:
            os.close(real_open(path, flags & ~direct, *more))  # as some do
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return real_open(path, flags, *more)

    def writing(descriptor: int, data: memoryview) -> int:
        import fcntl

        is_direct = bool(fcntl.fcntl(descriptor, fcntl.F_GETFL) & direct)
        writes.append(is_direct)
        if is_direct and (refuses == "to write" or (refuses == "later" and len(writes) > 2)):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return real_write(descriptor, data)

    monkeypatch.setattr(os, "open", opening)
    monkeypatch.setattr(os, "write", writing)
    tensors = {f"w{i}": torch.rand(2000 + i) for i in range(9)} | {"x": torch.ones(extra)}
    written = write_tensor_file(tmp_path / "t", tensors)
    monkeypatch.undo()
    if refuses == "nothing" and direct:
        assert any(writes)
    data = (tmp_path / "t").read_bytes()
    assert written.size == len(data) == file_size(tensors)
    assert written.digest == f"xxh3_128:{xxhash.xxh3_128(data).hexdigest()}"
    assert all(torch.equal(v, tensors[k]) for k, v in load_file(tmp_path / "t").items())


def test_a_name_that_is_taken_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("mine")
    with pytest.raises(FileExistsError):
        write_tensor_file(tmp_path / "t", {"w": torch.rand(9)})
    assert (tmp_path / "t").read_text() == "mine"


def test_a_dtype_without_a_form_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="complex128"):
        write_tensor_file(tmp_path / "t", {"w": torch.ones(1, dtype=torch.complex128)})


@pytest.mark.parametrize("by", ["numpy", "torch"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", FLOATS)
def test_what_is_not_finite_is_seen_in_every_dtype(
    tmp_path: Path, dtype: str, value: float, by: str
) -> None:
    """The reader of files, written without torch or numpy, must be of the same opinion."""
    kind = getattr(torch, dtype)
    look = is_finite if by == "numpy" else tensor_files._is_finite_by_torch
    largest = torch.full((1000,), float(torch.finfo(kind).max), dtype=torch.float64).to(kind)
    assert look(memory_of(largest), kind), "large numbers overflow a sum, and are finite"
    bad = torch.ones(100_000)
    bad[77_777] = value
    bad = bad.to(kind)  # some dtypes have no infinity
    expected = bool(torch.isfinite(bad.to(torch.float32)).all())
    assert look(memory_of(bad), kind) == expected
    written = write_tensor_file(tmp_path / "t", {"w": bad, "n": torch.ones(3).int()}, look=True)
    assert written.nonfinite == nonfinite_tensors(tmp_path / "t") == (() if expected else ("w",))


def test_both_parts_of_complex_numbers_are_looked_at(tmp_path: Path) -> None:
    value = torch.ones(10, dtype=torch.complex64)
    value[4] = complex(1, math.nan)
    assert write_tensor_file(tmp_path / "t", {"w": value}, look=True).nonfinite == ("w",)
