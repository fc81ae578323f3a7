"""Safetensors files with the standard library alone: headers, and a search for NaN and infinity.

The format is that of https://github.com/huggingface/safetensors (README, "Format"): eight bytes of
header length, little-endian; a JSON header; the tensors' bytes, contiguous and in order. A header
is checked as strictly as the official reader does before anything in it is believed.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, TypeGuard

from ckptui import schema
from ckptui.durable import open_file
from ckptui.errors import FormatError, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

BITS: Mapping[str, int] = {
    "BOOL": 8,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "U8": 8,
    "I8": 8,
    "F8_E5M2": 8,
    "F8_E4M3": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "C64": 64,
    "F64": 64,
    "I64": 64,
    "U64": 64,
}
"""Bits of one element of every dtype that safetensors 0.8 knows."""

_LFS = b"version https://git-lfs"
_CHUNK = 2**22


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor as a header describes it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    """First byte, counted from the end of the header."""
    end: int


@dataclass(frozen=True, slots=True)
class Header:
    """A safetensors file without its data."""

    tensors: tuple[TensorInfo, ...]
    """By position in the file."""
    metadata: Mapping[str, str]
    data_start: int
    """Where the tensors' bytes begin in the file."""


def read_header(path: Path) -> Header:
    """The checked header of a safetensors file.

    Raises:
        FileNotFoundError: There is no such file.
        FormatError: It is no whole safetensors file; the message tells why.
        StorageError: It cannot be read.
    """
    try:
        with _open(path) as f:
            size = os.fstat(f.fileno()).st_size
            start = f.read(8)
            if start + f.read(len(_LFS) - 8) == _LFS:
                raise _wrong(path, "is a Git LFS pointer, not the file it stands for")
            length = _header_length(path, start, size)
            f.seek(8)
            text = f.read(length)
    except FileNotFoundError:
        raise
    except OSError as e:
        msg = f"{path} cannot be read: {e.strerror}."
        raise StorageError(msg, path=path) from e
    return _parse(path, text, size - 8 - length)


def _open(path: Path) -> BinaryIO:
    """The file; a FIFO or a device under its name must not hang us."""
    return open(path, "rb", opener=lambda name, _: open_file(name))


def _wrong(path: Path, what: str) -> FormatError:
    msg = f"{path.name} {what}."
    return FormatError(msg, path=path)


def _header_length(path: Path, start: bytes, size: int) -> int:
    if not size:
        raise _wrong(path, "is empty")
    if len(start) < 8:
        raise _wrong(path, f"has {size} bytes, fewer than any safetensors file")
    length = int.from_bytes(start, "little")
    if length > schema.MAX_HEADER_SIZE:
        what = f"claims a header of {length} bytes, more than the format allows"
        raise _wrong(path, f"is no safetensors file: it {what}")
    if length > size - 8:
        raise _wrong(path, f"is cut off within its header, {length + 8 - size} bytes short")
    return length


def _parse(path: Path, text: bytes, data_size: int) -> Header:
    try:
        raw = json.loads(
            text.decode("utf-8"),
            object_pairs_hook=_no_duplicates,
            parse_constant=_no_constant,
            parse_float=_in_range,
            parse_int=_whole,
        )
        if b"\\ud" in text.lower():
            json.dumps(raw, ensure_ascii=False).encode()  # half a surrogate pair is no text
    except (ValueError, RecursionError):
        raise _wrong(path, "has a header that is not valid JSON") from None
    if not isinstance(raw, dict) or not text.startswith(b"{"):
        raise _wrong(path, "has a header that is no JSON object")
    metadata = raw.pop("__metadata__", None)
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise _wrong(path, "has metadata that are not texts")
    tensors = sorted(
        (_tensor(path, name, value) for name, value in raw.items()),
        key=lambda t: (t.start, t.end),
    )
    position = 0
    for tensor in tensors:
        if tensor.start != position:
            raise _wrong(path, f"has a hole or an overlap before tensor {tensor.name}")
        position = tensor.end
    if position > data_size:
        raise _wrong(path, f"is cut off, {position - data_size} bytes short")
    if position < data_size:
        raise _wrong(path, f"has {data_size - position} bytes after its last tensor")
    return Header(tuple(tensors), metadata, len(text) + 8)


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        msg = "a key stands twice"
        raise ValueError(msg)
    return found


def _no_constant(name: str) -> None:
    msg = f"{name} is no JSON"
    raise ValueError(msg)


def _in_range(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(text)
    return value


def _whole(text: str) -> int | float:
    return -0.0 if text == "-0" else int(text)  # the official reader takes no sign for a size


def _tensor(path: Path, name: str, value: object) -> TensorInfo:
    if not isinstance(value, dict):
        raise _wrong(path, f"describes tensor {name} by something that is no object")
    dtype, shape, offsets = value.get("dtype"), value.get("shape"), value.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in BITS:
        raise _wrong(path, f"has a tensor {name} of an unknown dtype")
    if not _are_sizes(shape) or not _are_sizes(offsets) or len(offsets) != 2:
        raise _wrong(path, f"has a tensor {name} with a malformed shape or place")
    start, end = offsets
    bits = _product(shape) * BITS[dtype]
    if bits % 8 or end - start != bits // 8:
        raise _wrong(path, f"has a tensor {name} whose shape does not fit its bytes")
    return TensorInfo(name, dtype, tuple(shape), start, end)


def _product(shape: list[int]) -> int:
    """The number of elements; whatever it is once it is beyond 64 bits, also before a zero."""
    product = 1
    for side in shape:
        product *= side
        if product >= 2**64:
            return 2**64
    return product


def _are_sizes(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(n) is int and 0 <= n < 2**64 for n in value)


def nonfinite_tensors(
    path: Path,
    *,
    progress: Callable[[int], None] | None = None,
    also: Callable[[bytes], object] | None = None,
) -> tuple[str, ...]:
    """The names of the tensors in a safetensors file that hold NaN or infinity.

    Args:
        path: The file; it is read once, in pieces.
        progress: Called with the bytes read since the last call.
        also: Called with every piece of the file in order, to digest it in the same reading.

    Raises:
        FileNotFoundError: There is no such file.
        FormatError: It is no whole safetensors file.
        StorageError: It cannot be read.
    """
    header = read_header(path)
    found = []
    try:
        with _open(path) as f:
            for _ in _pieces(f, header.data_start, progress, also):
                pass
            for tensor in header.tensors:
                look = _LOOKS.get(tensor.dtype)
                size = tensor.end - tensor.start
                if look is None and also is None:
                    f.seek(size, os.SEEK_CUR)
                    continue
                for piece in _pieces(f, size, progress, also):
                    if look is not None and look(piece):
                        found.append(tensor.name)
                        look = None
    except FileNotFoundError:
        raise
    except OSError as e:
        msg = f"{path} cannot be read: {e.strerror}."
        raise StorageError(msg, path=path) from e
    return tuple(found)


def _pieces(
    f: BinaryIO,
    size: int,
    progress: Callable[[int], None] | None,
    also: Callable[[bytes], object] | None,
) -> Iterator[bytes]:
    """The next `size` bytes, if the file has as many; every piece is of whole elements."""
    while size > 0:
        piece = f.read(min(size, _CHUNK))
        if not piece:
            return
        size -= len(piece)
        if progress is not None:
            progress(len(piece))
        if also is not None:
            also(piece)
        yield piece


def _by_top_byte(width: int, tops: set[int], second: int) -> Callable[[bytes], bool]:
    """A look at floats whose exponent fills `tops` of the highest byte and `second` of the next.

    Slicing out every element's highest byte and deleting the harmless values runs at the speed of
    C; only a piece where one is left, a huge number at least, has the next bytes looked at.
    """
    harmless = bytes(b for b in range(256) if b not in tops)
    is_top = bytes(b in tops for b in range(256))
    is_second = bytes(b & second == second for b in range(256))

    def look(piece: bytes) -> bool:
        top = piece[width - 1 :: width]
        if not top.translate(None, harmless):
            return False
        if second == 0:
            return True
        below = piece[width - 2 :: width][: len(top)]
        # One long number each, for Python ands numbers at the speed of C too.
        left = int.from_bytes(top.translate(is_top), "little")
        return left & int.from_bytes(below.translate(is_second), "little") != 0

    return look


_LOOKS: Mapping[str, Callable[[bytes], bool]] = {
    "F32": _by_top_byte(4, {0x7F, 0xFF}, 0x80),
    "C64": _by_top_byte(4, {0x7F, 0xFF}, 0x80),
    "BF16": _by_top_byte(2, {0x7F, 0xFF}, 0x80),
    "F64": _by_top_byte(8, {0x7F, 0xFF}, 0xF0),
    "F16": _by_top_byte(2, {b for b in range(256) if b & 0x7C == 0x7C}, 0),
    "F8_E5M2": _by_top_byte(1, {b for b in range(256) if b & 0x7C == 0x7C}, 0),
    "F8_E4M3": _by_top_byte(1, {0x7F, 0xFF}, 0),
    "F8_E8M0": _by_top_byte(1, {0xFF}, 0),
    "F8_E4M3FNUZ": _by_top_byte(1, {0x80}, 0),
    "F8_E5M2FNUZ": _by_top_byte(1, {0x80}, 0),
}
"""For each dtype that can hold NaN or infinity, whether a piece of it does. Little-endian."""
