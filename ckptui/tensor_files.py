"""Writing safetensors files straight from the tensors' memory, digested while they are written.

The format is that of https://github.com/huggingface/safetensors (README, "Format"). The header's
names are sorted and nothing in it depends on time, so the same tensors give the same bytes. The
data is ordered by the size of an element and then by name: everything is aligned for its dtype,
with no padding in between, as the official writer does it.

torch is imported inside functions only; `Any` stands for its types.
"""

from __future__ import annotations

import ctypes
import json
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from ckptui.errors import RefusedError
from ckptui.output import PIECE, open_output
from ckptui.tensors import BITS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_DTYPES: Mapping[str, str] = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "uint16": "U16",
    "int16": "I16",
    "uint32": "U32",
    "int32": "I32",
    "uint64": "U64",
    "int64": "I64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "complex64": "C64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2": "F8_E5M2",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float8_e8m0fnu": "F8_E8M0",
    "float4_e2m1fn_x2": "F4",
}
"""torch's name of each dtype -> the format's."""

_LOOK = 2**15
"""Elements that torch does not split among threads, which would compete with those of training."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A file that was written and synced."""

    size: int
    """Bytes."""
    digest: str
    """As the marker has it, `xxh3_128:<hex>`."""
    nonfinite: tuple[str, ...] = ()
    """Tensors that hold NaN or infinity, where that was looked for."""


def dtype_name(tensor: Any) -> str:
    """The format's name of a tensor's dtype.

    Raises:
        RefusedError: The format has none.
    """
    return _name(tensor.dtype)


@cache
def _name(dtype: Any) -> str:
    name = _DTYPES.get(str(dtype).removeprefix("torch."))
    if name is None:
        msg = f"A safetensors file cannot hold tensors of {dtype}."
        raise RefusedError(msg)
    return name


def why_unplain(tensor: Any) -> str | None:
    """What keeps a tensor from being written as it lies in memory; None where nothing does.

    Subclasses that wrap other tensors, as those of tensor parallelism or of quantization do, have
    no memory of their own.
    """
    import torch  # noqa: PLC0415 - there is a tensor
    from torch.utils._python_dispatch import (  # noqa: PLC0415 - as above
        is_traceable_wrapper_subclass,
    )

    if torch.nn.parameter.is_lazy(tensor):
        return "is not initialized yet"
    if tensor.layout is not torch.strided or tensor.is_nested:
        return "is sparse or nested"
    if tensor.is_meta:
        return "is on the meta device and has no values"
    if type(tensor) in (torch.Tensor, torch.nn.Parameter):
        return None
    if is_traceable_wrapper_subclass(tensor) or (tensor.numel() and not tensor.data_ptr()):
        kind = type(tensor.data).__name__
        return f"is a {kind}, which keeps its values in other tensors"
    return None


def size_of(tensor: Any) -> int:
    """Bytes of a tensor's elements."""
    return int(tensor.numel()) * int(tensor.element_size())


def in_file_order(tensors: Mapping[str, Any]) -> list[str]:
    """The names in the order in which their data lies in the file."""
    return sorted(tensors, key=lambda name: (-BITS[dtype_name(tensors[name])], name))


def header(tensors: Mapping[str, Any]) -> bytes:
    """What stands before the data: eight bytes of length and the JSON, padded to eight bytes."""
    places: dict[str, Any] = {}
    position = 0
    for name in in_file_order(tensors):
        tensor = tensors[name]
        end = position + size_of(tensor)
        dtype, shape = dtype_name(tensor), list(tensor.shape)
        if dtype == "F4":
            shape[-1] *= 2  # torch counts pairs, the format elements
        places[name] = {"dtype": dtype, "shape": shape, "data_offsets": [position, end]}
        position = end
    text = json.dumps(
        {"__metadata__": {"format": "pt"}, **{name: places[name] for name in sorted(places)}},
        ensure_ascii=False,
        separators=(",", ":"),
    ).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def file_size(tensors: Mapping[str, Any]) -> int:
    """Bytes of the file that these tensors make."""
    return len(header(tensors)) + sum(map(size_of, tensors.values()))


def memory_of(tensor: Any) -> memoryview:
    """The bytes of a contiguous tensor on the CPU, shared with it; the tensor must stay alive."""
    data = (ctypes.c_ubyte * size_of(tensor)).from_address(tensor.data_ptr())
    return memoryview(data).cast("B")


def write_tensor_file(path: Path, tensors: Mapping[str, Any], *, look: bool = False) -> Written:
    """Write tensors into a new safetensors file and make its content durable.

    No second copy of them is made, but of one at a time that is not on the CPU or not contiguous.

    Args:
        path: The file; its name is durable after `sync_dir`.
        tensors: By name. Nothing may change them meanwhile.
        look: Tell which of them hold NaN or infinity.

    Raises:
        FileExistsError: The name is taken.
        RefusedError: A dtype has no form in the format.
        OSError: The disk refused; a part of the file may be left.
    """
    import xxhash  # noqa: PLC0415 - only where something is saved

    digest = xxhash.xxh3_128()
    size = 0
    nonfinite: list[str] = []
    output = open_output(path, file_size(tensors))
    try:
        for together in _gathered(_pieces(tensors, nonfinite if look else None)):
            pieces = [piece for piece, _ in together]
            for piece in pieces:
                digest.update(piece)
                size += len(piece)
            output.write(pieces)
        output.finish()
    finally:
        output.close()
    return Written(
        size=size, digest=f"xxh3_128:{digest.hexdigest()}", nonfinite=tuple(sorted(nonfinite))
    )


def _pieces(
    tensors: Mapping[str, Any], nonfinite: list[str] | None
) -> Iterator[tuple[memoryview, Any]]:
    """The file's bytes in order, each piece with what keeps its memory alive.

    Names of tensors that are not finite are added on the way.
    """
    yield memoryview(header(tensors)), None
    for name in in_file_order(tensors):
        tensor = tensors[name].detach()
        if not size_of(tensor):
            continue
        tensor = tensor.cpu().contiguous()
        data = memory_of(tensor)
        found = nonfinite
        for start in range(0, len(data), PIECE):
            piece = data[start : start + PIECE]
            if found is not None and not is_finite(piece, tensor.dtype):
                found.append(name)
                found = None
            yield piece, tensor


def _gathered(
    pieces: Iterator[tuple[memoryview, Any]],
) -> Iterator[list[tuple[memoryview, Any]]]:
    """Small pieces together, so that a thousand norms do not cost a thousand calls."""
    together: list[tuple[memoryview, Any]] = []
    size = 0
    for piece, owner in pieces:
        if together and (size + len(piece) > PIECE or len(together) == _MOST):
            yield together
            together, size = [], 0
        together.append((piece, owner))
        size += len(piece)
    if together:
        yield together


_MOST = 512
"""Pieces in one call; every system takes that many."""


def is_finite(data: memoryview, dtype: Any) -> bool:
    """Whether no element is NaN or infinite.

    Args:
        data: Whole elements, each part of a complex one counting as one.
        dtype: What they are, as torch has it.
    """
    import torch  # noqa: PLC0415 - there is a tensor

    if dtype.is_complex:
        dtype = torch.float32 if dtype is torch.complex64 else torch.float64
    if not dtype.is_floating_point or _name(dtype) == "F4":
        return True
    try:
        import numpy as np  # noqa: PLC0415 - mostly there, and it keeps to one thread
    except ImportError:
        return _is_finite_by_torch(data, dtype)
    if dtype in (torch.float32, torch.float64):
        floats = np.frombuffer(data, np.float32 if dtype is torch.float32 else np.float64)
        with np.errstate(all="ignore"):
            # A sum is quick and hides nothing; where it overflows the elements themselves tell.
            return bool(np.isfinite(floats.sum())) or bool(np.isfinite(floats).all())
    exponent = {torch.float16: 0x7C00, torch.bfloat16: 0x7F80}.get(dtype)
    if exponent is None:
        return _is_finite_by_torch(data, dtype)
    bits = np.bitwise_and(np.frombuffer(data, np.uint16), np.uint16(exponent))
    return bool(bits.max(initial=0) != exponent)


def _is_finite_by_torch(data: memoryview, dtype: Any) -> bool:
    import torch  # noqa: PLC0415 - there is a tensor

    for part in torch.split(torch.frombuffer(data, dtype=dtype), _LOOK):
        values = part if part.element_size() > 1 else part.to(torch.float32)
        if not torch.isfinite(values.sum()) and not torch.isfinite(values).all():
            return False
    return True
