"""A model's weights to and from safetensors: tied ones once, every dtype as it is.

torch is imported inside functions only; `Any` stands for its types.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ckptui import schema
from ckptui.durable import read_json_object, to_json
from ckptui.errors import NotResumableError, RefusedError
from ckptui.optimizer_state import bare, parts
from ckptui.tensor_files import size_of, why_unplain, write_tensor_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ckptui.tensor_files import Written

SHARD_SIZE = 5 * 10**9
"""Bytes of weights in one file, unless somebody wants otherwise."""


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
    known = set()
    for key, value in named_state(module).items():
        known.add(id(value))
        if isinstance(value, torch.Tensor) and why_unplain(value) is None and _overlaps(value):
            msg = (
                f"The elements of {name}.{key} share memory, as those of an expanded tensor do, so "
                "they could not be put back; clone() it."
            )
            raise RefusedError(msg)
    for key, value in bare(module).state_dict(keep_vars=True).items():
        if id(value) not in known:
            msg = (
                f"{name}.{key} is in the module's state_dict, but is neither a parameter nor a "
                "buffer of it; it cannot be saved exactly."
            )
            raise RefusedError(msg)


def _overlaps(tensor: Any) -> bool:
    """Whether several elements of a tensor lie in one place."""
    sides = zip(tensor.shape, tensor.stride(), strict=True)
    return any(side > 1 and not stride for side, stride in sides)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """A module's weights on their way to disk, tied ones once."""

    name: str
    """What the module is registered under."""
    module: Any
    """The bare module."""
    files: Mapping[str, Mapping[str, Any]]
    """File -> name in it -> tensor, sharing the module's memory."""
    converted: bool
    """The model stores its weights in another form than it has in memory: `files` are a way to
    carry them, and transformers itself writes them."""
    shard_size: int

    def write(self, folder: Path, files: Mapping[str, Mapping[str, Any]]) -> dict[str, Written]:
        """Write the weights; a Hugging Face model also gets its config.

        Args:
            folder: Where to.
            files: As `self.files`, or a copy of them.

        Returns:
            What is known of the files written: name -> size and digest.

        Raises:
            OSError: The disk refused.
        """
        if self.name == "model" and is_pretrained(self.module):
            # Without weights it writes all but them.
            state = {k: v for f in files.values() for k, v in f.items()} if self.converted else {}
            self._let_it_write(folder, state)
            if self.converted:
                return {}
        written = {
            file: write_tensor_file(folder / file, tensors, look=True)
            for file, tensors in files.items()
        }
        if len(files) > 1:
            (folder / schema.MODEL_INDEX).write_bytes(self._index())
        return written

    def _let_it_write(self, folder: Path, state: Mapping[str, Any]) -> None:
        from safetensors import SafetensorError  # noqa: PLC0415 - training is at work

        try:
            self.module.save_pretrained(
                folder, state_dict=dict(state), max_shard_size=self.shard_size
            )
        except SafetensorError as e:
            # The tensors' writer has an error of its own for a disk that refuses.
            raise OSError(str(e)) from e

    def _index(self) -> bytes:
        """The index of the shards, as `from_pretrained` reads it."""
        sizes = [size_of(t) for tensors in self.files.values() for t in tensors.values()]
        counts = [int(t.numel()) for tensors in self.files.values() for t in tensors.values()]
        places = {name: file for file, tensors in self.files.items() for name in tensors}
        metadata = {"total_parameters": sum(counts), "total_size": sum(sizes)}
        return to_json({"metadata": metadata, "weight_map": dict(sorted(places.items()))})


def capture_weights(
    name: str,
    module: Any,
    state: Mapping[str, Any],
    *,
    converted: bool,
    shard_size: int = SHARD_SIZE,
) -> Weights:
    """Which files a module's weights go into; nothing is copied.

    Args:
        name: What the module is registered under.
        module: The module, in wrappers or not.
        state: Its parameters and persistent buffers, see `named_state`.
        converted: From `is_converted`.
        shard_size: Most bytes of weights in one file.

    Raises:
        RefusedError: Its state holds something that is no tensor.
    """
    inner = bare(module)
    tensors = {
        key: tensor.resolve_conj().resolve_neg() if tensor.is_conj() or tensor.is_neg() else tensor
        for key, tensor in _untied(inner, name, state).items()
    }
    if name == "model" and not converted:
        files = _sharded(tensors, shard_size)
    else:
        files = {weights_file(name): tensors}
    return Weights(name=name, module=inner, files=files, converted=converted, shard_size=shard_size)


def write_weights(
    folder: Path, name: str, module: Any, *, shard_size: int = SHARD_SIZE
) -> dict[str, Written]:
    """Write a module's weights; a Hugging Face model also gets its config.

    Raises:
        RefusedError: Its state holds something that is no tensor.
        OSError: The disk refused.
    """
    converted = is_converted(name, module)
    state = named_state(module)
    weights = capture_weights(name, module, state, converted=converted, shard_size=shard_size)
    return weights.write(folder, weights.files)


def _untied(module: Any, name: str, state: Mapping[str, Any]) -> dict[str, Any]:
    """The module's state, of tied tensors the one that the model's own loading asks for."""
    state = _checked(state, name)
    by_place: dict[tuple[Any, ...], list[str]] = {}
    for key, value in state.items():
        if value.numel():
            place = (value.device, value.data_ptr(), value.dtype, value.shape, value.stride())
            by_place.setdefault(place, []).append(key)
    if len(by_place) == len(state):
        return state
    copies = [re.compile(pattern) for pattern in _tied_patterns(module)]
    for keys in by_place.values():
        originals = [k for k in keys if not any(copy.search(k) for copy in copies)]
        for key in keys:
            if key != (originals or keys)[0]:
                del state[key]
    return state


def _tied_patterns(module: Any) -> set[str]:
    """Patterns of the names that a Hugging Face model ties to others when it is loaded."""
    found: set[str] = set()
    for part in module.modules():
        found.update(getattr(part, "_tied_weights_keys", None) or ())
    return found


def is_converted(name: str, module: Any) -> bool:
    """Whether a Hugging Face model stores other tensors than it has in memory.

    So it is with some mixtures of experts, with quantized models and with adapters.
    """
    model = bare(module)
    if name != "model" or not is_pretrained(model):
        return False
    if getattr(model, "hf_quantizer", None) is not None:
        return True
    if getattr(model, "_hf_peft_config_loaded", False):
        return True
    try:
        from transformers.core_model_loading import (  # noqa: PLC0415 - the model is of transformers
            revert_weight_conversion,
        )
    except ImportError:
        return True  # it knows how, we do not
    outlines = {
        key: value.detach().to("meta")
        for key, value in _untied(model, name, named_state(model)).items()
    }
    stored = revert_weight_conversion(model, dict(outlines))
    return {k: (v.dtype, v.shape) for k, v in stored.items()} != {
        k: (v.dtype, v.shape) for k, v in outlines.items()
    }


def _sharded(tensors: Mapping[str, Any], limit: int) -> dict[str, dict[str, Any]]:
    """The tensors by file, none of more than `limit` bytes unless one tensor alone is."""
    shards: list[dict[str, Any]] = [{}]
    size = 0
    for name, tensor in tensors.items():
        if shards[-1] and size + size_of(tensor) > limit:
            shards.append({})
            size = 0
        shards[-1][name] = tensor
        size += size_of(tensor)
    if len(shards) == 1:
        return {schema.MODEL_FILE: shards[0]}
    stem, dot, ending = schema.MODEL_FILE.rpartition(".")
    return {
        f"{stem}-{number:05}-of-{len(shards):05}{dot}{ending}": shard
        for number, shard in enumerate(shards, 1)
    }


def _checked(state: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The parameters and buffers of a module, sorted by name.

    Raises:
        RefusedError: One of them is no tensor, or none whose memory holds its values.
    """
    for key, value in state.items():
        check_tensor(f"{name}.{key}", value)
    return dict(sorted(state.items()))


def check_tensor(where: str, value: Any) -> None:
    """Make sure that a parameter or buffer can be written.

    Raises:
        RefusedError: It is no tensor, or none whose memory holds its values.
    """
    import torch  # noqa: PLC0415 - training is at work

    why = why_unplain(value) if isinstance(value, torch.Tensor) else "is no tensor"
    if why is not None:
        msg = f"{where} {why}, so the weights file cannot hold it."
        raise RefusedError(msg)


def named_state(module: Any) -> dict[str, Any]:
    """Like `state_dict(keep_vars=True)`, with wrappers anywhere in the tree left out."""
    return named_parameters(module) | named_buffers(module)


def named_parameters(module: Any) -> dict[str, Any]:
    """The parameters by the bare module's names, tied ones under each of theirs."""
    return {
        prefix + name: parameter
        for prefix, part in parts(module)
        for name, parameter in part._parameters.items()
        if parameter is not None
    }


def named_buffers(module: Any) -> dict[str, Any]:
    """The persistent buffers by the bare module's names."""
    return {
        prefix + name: buffer
        for prefix, part in parts(module)
        for name, buffer in part._buffers.items()
        if buffer is not None and name not in part._non_persistent_buffers_set
    }


def read_weights(folder: Path, name: str, module: Any) -> None:
    """Copy stored weights into a module of the same parameters and dtypes.

    Raises:
        NotResumableError: They are those of another model, or damaged.
    """
    import torch  # noqa: PLC0415 - training is at work

    inner = bare(module)
    target = _checked(named_state(inner), name)
    stored = _stored(folder, name)
    if stored.keys() - target.keys() and name == "model" and is_pretrained(inner):
        # Some models store their weights under other names than they have in memory.
        loaded = type(inner).from_pretrained(folder, dtype=inner.dtype)
        stored = _checked(named_state(loaded), name)
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
    from safetensors.torch import load_file  # noqa: PLC0415 - as above

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
