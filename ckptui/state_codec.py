"""Nested values to JSON and a set of tensors, and back to exactly what they were.

What JSON has no form for becomes an object with one tagged key: `$tuple`, `$float` (a value that is
not finite), `$bytes`, `$dict` (keys that are no strings, or begin with `$`), `$numpy`, `$dtype` and
`$tensor`, which names an entry of the safetensors file beside the JSON. Anything else is refused.
"""

from __future__ import annotations

import base64
import math
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


def encode(value: object, path: str, tensors: Tensors) -> Any:
    """The JSON form of `value`; its tensors are added to `tensors` under names made from `path`.

    Raises:
        CodecError: Something in it has no safe form.
    """
    if value is None or (isinstance(value, bool | str) and type(value) in (bool, str)):
        return value
    kind = type(value)
    if kind is int:
        return value
    if kind is float:
        return value if math.isfinite(value) else {"$float": _float_name(value)}  # type: ignore[arg-type] # kind says float
    if kind is bytes:
        return {"$bytes": base64.b64encode(value).decode("ascii")}  # type: ignore[arg-type] # kind says bytes
    if isinstance(value, dict):
        return _encode_dict(value, path, tensors)
    if isinstance(value, list):
        return [encode(v, f"{path}.{i}", tensors) for i, v in enumerate(value)]
    if isinstance(value, tuple):
        return {"$tuple": [encode(v, f"{path}.{i}", tensors) for i, v in enumerate(value)]}
    module = kind.__module__.partition(".")[0]
    if module == "numpy":
        return _encode_numpy(value, path)
    if module == "torch":
        return _encode_torch(value, path, tensors)
    if isinstance(value, float | int | str):
        # A subclass (an enum, say) would come back as something else than it was.
        raise _refused(path, value)
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
    if all(type(k) is str and not k.startswith("$") for k in value):
        return {k: encode(v, f"{path}.{k}", tensors) for k, v in value.items()}
    return {
        "$dict": [
            [encode(k, f"{path}.<key>", tensors), encode(v, f"{path}.{k}", tensors)]
            for k, v in value.items()
        ]
    }


def _encode_numpy(value: Any, path: str) -> Any:
    import numpy as np  # noqa: PLC0415 - only where numpy values are

    if isinstance(value, np.generic):
        return {"$numpy": [value.dtype.str, _raw(np.asarray(value), path)]}
    if isinstance(value, np.ndarray):
        return {"$numpy": [value.dtype.str, _raw(value, path), list(value.shape)]}
    raise _refused(path, value)


def _raw(array: Any, path: str) -> str:
    if array.dtype.hasobject or array.dtype.kind == "V":
        raise _refused(path, array)
    return base64.b64encode(array.tobytes()).decode("ascii")


def _encode_torch(value: Any, path: str, tensors: Tensors) -> Any:
    try:
        import torch  # noqa: PLC0415 - only where tensors may be
    except ImportError:
        raise _refused(path, value) from None
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or value.is_quantized or value.is_meta:
            raise _refused(path, value)
        name = path
        while name in tensors:
            name += "_"  # `a.b` as a key and as a path may meet
        # A copy of its own: safetensors refuses tensors that share memory or have strides.
        tensors[name] = value.detach().to("cpu", copy=True).contiguous()
        return {"$tensor": name}
    if isinstance(value, torch.dtype):
        return {"$dtype": str(value).removeprefix("torch.")}
    raise _refused(path, value)


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
    except (KeyError, TypeError, ValueError, AttributeError) as e:
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
        case "$dict":
            return {
                decode(k, f"{path}.<key>", tensors): decode(v, f"{path}.{k}", tensors)
                for k, v in inner
            }
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
    raise ValueError(tag)


def _decode_numpy(inner: list[Any]) -> Any:
    import numpy as np  # noqa: PLC0415 - only where numpy values were stored

    dtype = np.dtype(inner[0])
    if dtype.hasobject:
        raise TypeError(inner[0])
    flat = np.frombuffer(base64.b64decode(inner[1], validate=True), dtype=dtype)
    return flat[0] if len(inner) == 2 else flat.reshape(inner[2]).copy()
