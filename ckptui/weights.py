"""A model's weights to and from safetensors: tied ones once, every dtype as it is.

torch is imported inside functions only; `Any` stands for its types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ckptui import schema
from ckptui.durable import read_json_object
from ckptui.errors import NotResumableError, RefusedError
from ckptui.recipe_state import bare

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def is_pretrained(module: Any) -> bool:
    """Whether a module is a Hugging Face model, which writes its own folder."""
    return callable(getattr(bare(module), "save_pretrained", None))


def weights_file(name: str) -> str:
    """The file of a module that is registered under `name`."""
    return schema.MODEL_FILE if name == "model" else f"{name}.safetensors"


def check_module(name: str, module: Any) -> None:
    """Make sure that a module's parameters and buffers are all the state it has.

    Raises:
        RefusedError: A module in it keeps extra state, which the weights file cannot hold.
    """
    import torch  # noqa: PLC0415 - training is at work

    for path, part in bare(module).named_modules():
        if type(part).get_extra_state is not torch.nn.Module.get_extra_state:
            where = f"{name}.{path}" if path else name
            msg = (
                f"{where} is a {type(part).__name__}, which keeps state beside its parameters and "
                "buffers (get_extra_state); it cannot be saved exactly."
            )
            raise RefusedError(msg)


def write_weights(folder: Path, name: str, module: Any) -> None:
    """Write a module's weights; a Hugging Face model also gets its config, shards and index.

    Raises:
        RefusedError: Its state holds something that is no tensor.
        OSError: The disk refused.
    """
    inner = bare(module)
    if name == "model" and is_pretrained(inner):
        inner.save_pretrained(folder)
        return
    from safetensors.torch import save_file  # noqa: PLC0415 - training is at work

    tensors: dict[str, Any] = {}
    seen: set[tuple[Any, ...]] = set()
    for key, value in _state(inner, name).items():
        if value.numel():
            place = (value.device, value.data_ptr(), tuple(value.shape), value.stride())
            if place in seen:
                continue  # tied: the module ties it again
            seen.add(place)
        tensors[key] = value.detach().cpu().clone().contiguous()
    save_file(tensors, folder / weights_file(name), metadata={"format": "pt"})


def _state(module: Any, name: str) -> Mapping[str, Any]:
    """The module's parameters and persistent buffers, by the bare module's names."""
    import torch  # noqa: PLC0415 - training is at work

    found = {}
    for key, value in _named_state(module, "").items():
        if not isinstance(value, torch.Tensor):
            msg = f"{name}.{key} is no tensor, so the weights file cannot hold it."
            raise RefusedError(msg)
        found[key] = value
    return dict(sorted(found.items()))


def _named_state(module: Any, prefix: str) -> dict[str, Any]:
    """Like `state_dict(keep_vars=True)`, with wrappers anywhere in the tree left out."""
    found: dict[str, Any] = {}
    for child_name, child in module._modules.items():
        if child is not None:
            found |= _named_state(bare(child), f"{prefix}{child_name}.")
    for key, value in (*module._parameters.items(), *module._buffers.items()):
        if value is not None and key not in module._non_persistent_buffers_set:
            found[prefix + key] = value
    return found


def read_weights(folder: Path, name: str, module: Any) -> None:
    """Copy stored weights into a module of the same parameters and dtypes.

    Raises:
        NotResumableError: They are those of another model, or damaged.
    """
    import torch  # noqa: PLC0415 - training is at work

    inner = bare(module)
    target = _state(inner, name)
    stored = _stored(folder, name)
    if stored.keys() - target.keys() and name == "model" and is_pretrained(inner):
        # Some models store their weights under other names than they have in memory.
        stored = dict(_state(type(inner).from_pretrained(folder, dtype=inner.dtype), name))
    unknown = sorted(stored.keys() - target.keys())
    if unknown:
        msg = f"{folder} holds weights that the model lacks: {', '.join(unknown[:3])}."
        raise NotResumableError(msg)
    places = {_place(target[key]) for key in stored}
    lacking = [
        key for key, value in target.items() if value.numel() and _place(value) not in places
    ]
    if lacking:
        msg = f"{folder} lacks weights of the model: {', '.join(lacking[:3])}."
        raise NotResumableError(msg)
    for key, value in stored.items():
        into = target[key]
        if (into.shape, into.dtype) != (value.shape, value.dtype):
            msg = (
                f"{key} is {value.dtype} of shape {tuple(value.shape)} in {folder}, "
                f"but {into.dtype} of shape {tuple(into.shape)} in the model."
            )
            raise NotResumableError(msg)
    with torch.no_grad():
        for key, value in stored.items():
            target[key].copy_(value)


def _place(tensor: Any) -> tuple[Any, int]:
    return (tensor.device, tensor.data_ptr())


def _stored(folder: Path, name: str) -> dict[str, Any]:
    from safetensors import SafetensorError  # noqa: PLC0415 - training is at work
    from safetensors.torch import load_file  # noqa: PLC0415

    files = [weights_file(name)]
    index = folder / schema.MODEL_INDEX
    try:
        if name == "model" and index.exists():
            mapping = read_json_object(index, limit=schema.MAX_JSON_SIZE)["weight_map"]
            files = sorted(set(mapping.values()))
        found: dict[str, Any] = {}
        for file in files:
            found |= load_file(folder / file)
    except FileNotFoundError as e:
        msg = f"{folder} lacks {e.filename or files[0]}, so training cannot continue from it."
        raise NotResumableError(msg) from e
    except (SafetensorError, KeyError, TypeError, AttributeError) as e:
        msg = f"The weights in {folder} are damaged: {e}."
        raise NotResumableError(msg) from e
    return found
