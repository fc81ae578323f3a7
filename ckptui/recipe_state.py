"""The state that resuming needs besides the weights: `recipe_state.json` and `.safetensors`.

Optimizer state is keyed by the bare model's parameter names, so that compiling, wrapping or
reordering groups does not change what is on disk. Tensors come back with the dtype they had:
`Optimizer.load_state_dict` would cast them to the parameter's. torch is imported inside functions
only; `Any` stands for its types.
"""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING, Any

from ckptui import schema
from ckptui.durable import read_json_object, to_json
from ckptui.errors import FormatError, NotResumableError, RefusedError
from ckptui.state_codec import DamagedError, Tensors, decode, encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

FORMAT = 1

_WRAPPERS = (
    "_orig_mod",  # torch.compile
    "module",  # DistributedDataParallel, DataParallel
    "_fsdp_wrapped_module",
    "_checkpoint_wrapped_module",
)
"""Attributes under which wrappers of torch hold the module they wrap."""

_WRAPPER_CLASSES = frozenset(
    {
        "OptimizedModule",
        "DistributedDataParallel",
        "DataParallel",
        "FullyShardedDataParallel",
        "CheckpointWrapper",
        "AveragedModel",
    }
)


def bare(module: Any) -> Any:
    """The module inside the wrappers of torch around it."""
    while type(module).__name__ in _WRAPPER_CLASSES:
        inner = next((module._modules[w] for w in _WRAPPERS if w in module._modules), None)
        if inner is None:
            break
        module = inner
    return module


def parameter_names(modules: Mapping[str, Any]) -> dict[int, str]:
    """`id(parameter)` -> its name in the bare module; tied parameters have their first name.

    Args:
        modules: By the name they are registered under. The names of one module stand alone; those
            of several carry the module's name in front.
    """
    names: dict[int, str] = {}
    for prefix, module in modules.items():
        lead = f"{prefix}." if len(modules) > 1 else ""
        for name, parameter in _named_parameters(bare(module), ""):
            names.setdefault(id(parameter), lead + name)
    return names


def _named_parameters(module: Any, prefix: str) -> Iterable[tuple[str, Any]]:
    """Like `named_parameters`, with wrappers anywhere in the tree left out of the names."""
    for name, parameter in module._parameters.items():
        if parameter is not None:
            yield prefix + name, parameter
    for name, child in module._modules.items():
        if child is not None:
            yield from _named_parameters(bare(child), f"{prefix}{name}.")


def capture_optimizer(optimizer: Any, modules: Mapping[str, Any]) -> dict[str, Any]:
    """The optimizer's groups and state, by parameter name; parameters never stepped are absent.

    Raises:
        RefusedError: A parameter belongs to no registered module, or the optimizer keeps state that
            is not per parameter (LBFGS).
    """
    names = parameter_names(modules)
    kind = _class_name(optimizer)
    if type(optimizer).__name__ == "LBFGS":
        msg = "torch.optim.LBFGS keeps state outside its parameters; it cannot be saved exactly."
        raise RefusedError(msg)
    groups = []
    for index, group in enumerate(optimizer.param_groups):
        fields = {k: v for k, v in group.items() if k not in ("params", "param_names")}
        params = [_name(names, p, f"group {index} of {kind}") for p in group["params"]]
        groups.append({**fields, "params": params})
    state = {
        _name(names, parameter, f"the state of {kind}"): dict(values)
        for parameter, values in optimizer.state.items()
        if values
    }
    return {"class": kind, "param_groups": groups, "state": dict(sorted(state.items()))}


def _class_name(optimizer: Any) -> str:
    kind = type(optimizer)
    return f"{kind.__module__}.{kind.__qualname__}"


def _name(names: Mapping[int, str], parameter: Any, where: str) -> str:
    found = names.get(id(parameter))
    if found is None:
        shape = tuple(getattr(parameter, "shape", ()))
        msg = (
            f"A parameter of shape {shape} in {where} belongs to no registered module; "
            "register every module that is trained."
        )
        raise RefusedError(msg)
    return found


def restore_optimizer(
    optimizer: Any, modules: Mapping[str, Any], stored: Mapping[str, Any]
) -> None:
    """Put stored groups and state into an optimizer over the same parameters.

    Raises:
        NotResumableError: It is another optimizer, or over other parameters or groups.
    """
    kind = _class_name(optimizer)
    if stored.get("class") != kind:
        msg = f"The checkpoint's optimizer is {stored.get('class')}, this one is {kind}."
        raise NotResumableError(msg)
    names = parameter_names(modules)
    groups, kept = stored.get("param_groups"), stored.get("state")
    if not isinstance(groups, list) or not isinstance(kept, dict):
        msg = "The checkpoint's optimizer state is damaged."
        raise NotResumableError(msg)
    if len(groups) != len(optimizer.param_groups):
        msg = (
            f"The checkpoint's optimizer has {len(groups)} parameter groups, this one has "
            f"{len(optimizer.param_groups)}."
        )
        raise NotResumableError(msg)
    by_name: dict[str, tuple[Any, dict[str, Any]]] = {}
    for index, (group, saved) in enumerate(zip(optimizer.param_groups, groups, strict=True)):
        mine = [_name(names, p, f"group {index} of {kind}") for p in group["params"]]
        if sorted(mine) != sorted(saved["params"]):
            other = sorted(set(mine) ^ set(saved["params"]))
            msg = (
                f"Group {index} of the checkpoint's optimizer holds other parameters, "
                f"{', '.join(other[:3]) or 'in another number'}."
            )
            raise NotResumableError(msg)
        by_name |= {n: (p, group) for n, p in zip(mine, group["params"], strict=True)}
    unknown = sorted(set(kept) - set(by_name))
    if unknown:
        msg = (
            f"The checkpoint has optimizer state for unknown parameters: {', '.join(unknown[:3])}."
        )
        raise NotResumableError(msg)
    for group, saved in zip(optimizer.param_groups, groups, strict=True):
        group.update({k: v for k, v in saved.items() if k != "params"})
    optimizer.state.clear()
    for name, values in kept.items():
        parameter, group = by_name[name]
        optimizer.state[parameter] = {
            key: _placed(key, value, parameter, group) for key, value in values.items()
        }


def _placed(key: str, value: Any, parameter: Any, group: Mapping[str, Any]) -> Any:
    """A stored value on the device where the optimizer keeps it, in its stored dtype."""
    import torch  # noqa: PLC0415 - training is at work

    if not isinstance(value, torch.Tensor):
        return value
    if key == "step" and not (group.get("fused") or group.get("capturable")):
        return value.clone()  # plain and foreach optimizers count on the CPU
    return value.to(parameter.device, copy=True)


def capture_rng() -> dict[str, Any]:
    """The state of every random generator that training may draw from."""
    import torch  # noqa: PLC0415 - training is at work

    state: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        state["numpy"] = numpy.random.get_state()
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    if torch.backends.mps.is_available():
        state["mps"] = torch.mps.get_rng_state()
    return state


def restore_rng(stored: Mapping[str, Any]) -> None:
    """Set every random generator back; the last thing to do before training goes on.

    Raises:
        NotResumableError: A state is missing or damaged: going on would draw other numbers.
    """
    import torch  # noqa: PLC0415 - training is at work

    part = "python"
    try:
        random.setstate(stored["python"])
        part = "torch"
        torch.set_rng_state(stored["torch"])
        if "numpy" in stored:
            part = "numpy"
            import numpy as np  # noqa: PLC0415 - the checkpoint was written with numpy at hand

            np.random.set_state(stored["numpy"])
        if "cuda" in stored and torch.cuda.is_available():
            part = "cuda"
            for device, state in enumerate(stored["cuda"][: torch.cuda.device_count()]):
                torch.cuda.set_rng_state(state, device)
        if "mps" in stored and torch.backends.mps.is_available():
            part = "mps"
            torch.mps.set_rng_state(stored["mps"])
    except (KeyError, TypeError, ValueError, RuntimeError, ImportError) as e:
        msg = f"The checkpoint's {part} random state is missing or damaged ({e})."
        raise NotResumableError(msg) from e


def write(folder: Path, state: Mapping[str, object]) -> None:
    """Write the state into a checkpoint's folder; the same state gives the same bytes.

    Raises:
        CodecError: A value has no safe form; the message names its path.
        OSError: The disk refused.
    """
    from safetensors.torch import save_file  # noqa: PLC0415 - training is at work

    tensors: Tensors = {}
    body = {k: encode(v, k, tensors) for k, v in state.items()}
    save_file(tensors, folder / schema.RECIPE_STATE_TENSORS, metadata={"format": "pt"})
    (folder / schema.RECIPE_STATE_JSON).write_bytes(to_json({"format": FORMAT, **body}))


def read_json(folder: Path) -> dict[str, Any]:
    """`recipe_state.json` as it stands, tensors as references; needs no torch.

    Raises:
        FileNotFoundError: There is none.
        FormatError: It is damaged, or of a newer format.
        StorageError: It cannot be read.
    """
    path = folder / schema.RECIPE_STATE_JSON
    raw = read_json_object(path, limit=schema.MAX_JSON_SIZE)
    version = raw.pop("format", None)
    if version != FORMAT:
        msg = f"{path} has format {version!r}, which this version of ckptui does not know."
        raise FormatError(msg, path=path)
    return raw


def read(folder: Path) -> dict[str, Any]:
    """The whole state, tensors in their stored dtype on the CPU.

    Raises:
        NotResumableError: It is missing or damaged.
        StorageError: It cannot be read.
    """
    from safetensors import SafetensorError  # noqa: PLC0415 - training is at work
    from safetensors.torch import load_file  # noqa: PLC0415

    path = folder / schema.RECIPE_STATE_TENSORS
    try:
        raw = read_json(folder)
        tensors = load_file(path)
        return {k: decode(v, k, tensors) for k, v in raw.items()}
    except FileNotFoundError as e:
        msg = f"{folder} lacks {e.filename or path.name}, so training cannot continue from it."
        raise NotResumableError(msg) from e
    except (SafetensorError, FormatError, DamagedError) as e:
        msg = f"The recipe state in {folder} is damaged: {e}"
        raise NotResumableError(msg) from e
