"""Nested values to JSON and a set of tensors, and back to exactly what they were.

What JSON has no form for becomes an object with one tagged key: `$tuple`, `$float` (a value that is
not finite), `$bytes`, `$dict` (keys that are no strings, or begin with `$`), `$ordered` and
`$counter` (the two further dicts that `state_dict` hands out), `$numpy`, `$dtype`, `$size` and
`$tensor`, which names an entry of the safetensors file beside the JSON. Anything else is refused,
subclasses too: they would come back as something else than they were.
"""

from __future__ import annotations

import base64
import math
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, Any

from ckptui.errors import RefusedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

Tensors = dict[str, Any]
"""Name in the safetensors file -> torch.Tensor; `Any`, for torch is imported only where needed."""


class CodecError(UsageError):
    """A value that the recipe state has no safe form for; the message names its path."""

    exit_code = 1


class DamagedError(RefusedError):
    """Stored state that does not decode."""


_DTYPES = frozenset(
    [
        *("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"),
        *("float16", "bfloat16", "float32", "float64", "complex64"),
        *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
        "float4_e2m1fn_x2",
    ]
)
"""The dtypes of torch that a safetensors file can hold."""


def encode(value: object, path: str, tensors: Tensors) -> Any:
    """The JSON form of `value`; its tensors are added to `tensors` under names made from `path`.

    The tensors share their memory with those of `value`: use them before anything changes.

    Raises:
        CodecError: Something in it has no safe form.
    """
    kind = type(value)
    if value is None or kind in (bool, str, int):
        return value
    if isinstance(value, float) and kind is float:
        return value if math.isfinite(value) else {"$float": _float_name(value)}
    if isinstance(value, bytes) and kind is bytes:
        return {"$bytes": base64.b64encode(value).decode("ascii")}
    if isinstance(value, dict) and kind in (dict, OrderedDict, Counter):
        return _encode_dict(value, path, tensors)
    if isinstance(value, list | tuple) and kind in (list, tuple):
        items = [encode(v, f"{path}.{i}", tensors) for i, v in enumerate(value)]
        return items if kind is list else {"$tuple": items}
    if kind.__module__.partition(".")[0] == "numpy":
        return _encode_numpy(value, path)
    return _encode_torch(value, path, tensors)


def _refused(path: str, value: object) -> CodecError:
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    return CodecError(
        f"{path} is a {name}, which the recipe state cannot hold safely; "
        "use numbers, texts, bytes, lists, tuples, dicts, numpy values or tensors."
    )


def _float_name(value: float) -> str:
    if value != value:
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _encode_dict(value: dict[Any, Any], path: str, tensors: Tensors) -> Any:
    plain = type(value) is dict
    if plain and all(type(k) is str and not k.startswith("$") for k in value):
        return {k: encode(v, f"{path}.{k}", tensors) for k, v in value.items()}
    tag = "$dict" if plain else "$counter" if isinstance(value, Counter) else "$ordered"
    return {
        tag: [
            [encode(k, f"{path}.<key>", tensors), encode(v, f"{path}.{k}", tensors)]
            for k, v in value.items()
        ]
    }


def _encode_numpy(value: Any, path: str) -> Any:
    import numpy as np  # noqa: PLC0415 - only where numpy values are

    if isinstance(value, np.generic):
        return {"$numpy": [value.dtype.str, _raw(value, path)]}
    if type(value) is np.ndarray:
        return {"$numpy": [value.dtype.str, _raw(value, path), list(value.shape)]}
    raise _refused(path, value)


def _raw(array: Any, path: str) -> str:
    """The bytes of an array or scalar in base64, elements in C order."""
    if array.dtype.hasobject or array.dtype.kind == "V":
        raise _refused(path, array)
    return base64.b64encode(array.tobytes()).decode("ascii")


def _encode_torch(value: Any, path: str, tensors: Tensors) -> Any:
    try:
        import torch  # noqa: PLC0415 - only where tensors may be
    except ImportError:
        raise _refused(path, value) from None
    if type(value) in (torch.Tensor, torch.nn.Parameter):
        dtype = str(value.dtype).removeprefix("torch.")
        if value.layout is not torch.strided or value.is_meta or dtype not in _DTYPES:
            raise _refused(path, value)
        # What the file holds are the elements: no lazy conjugation, no strides.
        plain = value.detach()
        if plain.is_conj() or plain.is_neg():
            plain = plain.resolve_conj().resolve_neg()
        name = _free_name(path, tensors)
        tensors[name] = plain
        return {"$tensor": name}
    if isinstance(value, torch.Size):
        return {"$size": list(value)}
    if isinstance(value, torch.dtype):
        return {"$dtype": str(value).removeprefix("torch.")}
    raise _refused(path, value)


def _free_name(path: str, tensors: Tensors) -> str:
    """A name for a tensor: `a.b` as a key and as a path may meet, and the format reserves one."""
    name = path.encode("utf-8", "backslashreplace").decode("utf-8")
    while name in tensors or name == "__metadata__":
        name += "_"
    return name


def decode(value: Any, path: str, tensors: Mapping[str, Any]) -> Any:
    """What `encode` was given.

    Raises:
        DamagedError: It is no such form, or a tensor is missing.
    """
    if isinstance(value, list):
        return [decode(v, f"{path}.{i}", tensors) for i, v in enumerate(value)]
    if not isinstance(value, dict):
        return value
    tag = next(iter(value), "")
    if len(value) != 1 or not tag.startswith("$"):
        return {k: decode(v, f"{path}.{k}", tensors) for k, v in value.items()}
    try:
        return _decode_tagged(tag, value[tag], path, tensors)
    except (ArithmeticError, AttributeError, ImportError, LookupError, TypeError, ValueError) as e:
        msg = f"{path} in the recipe state is damaged: its {tag} cannot be read."
        raise DamagedError(msg) from e


def _decode_tagged(tag: str, inner: Any, path: str, tensors: Mapping[str, Any]) -> Any:
    match tag:
        case "$tuple":
            return tuple(decode(v, f"{path}.{i}", tensors) for i, v in enumerate(inner))
        case "$float":
            return {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}[inner]
        case "$bytes":
            return base64.b64decode(inner, validate=True)
        case "$dict" | "$ordered" | "$counter":
            pairs = {
                decode(k, f"{path}.<key>", tensors): decode(v, f"{path}.{k}", tensors)
                for k, v in inner
            }
            return {"$dict": dict, "$ordered": OrderedDict, "$counter": Counter}[tag](pairs)
        case "$numpy":
            return _decode_numpy(inner)
        case "$tensor":
            return tensors[inner]
        case "$dtype":
            import torch  # noqa: PLC0415 - only where a dtype was stored

            found = getattr(torch, inner)
            if not isinstance(found, torch.dtype):
                raise TypeError(inner)
            return found
        case "$size":
            import torch  # noqa: PLC0415 - only where a shape was stored

            return torch.Size(inner)
    raise ValueError(tag)


def _decode_numpy(inner: list[Any]) -> Any:
    import numpy as np  # noqa: PLC0415 - only where numpy values were stored

    dtype = np.dtype(inner[0])
    if dtype.hasobject:
        raise TypeError(inner[0])
    data = base64.b64decode(inner[1], validate=True)
    shape = inner[2] if len(inner) == 3 else ()
    # numpy itself pads an empty text to one character.
    if dtype.itemsize and len(data) != math.prod(shape) * dtype.itemsize:
        raise ValueError(inner[0])
    array = np.ndarray(shape, dtype, data).copy()
    return array if len(inner) == 3 else array[()]
