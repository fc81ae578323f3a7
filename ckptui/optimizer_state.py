"""An optimizer's state by parameter name, out of it and into it again exactly.

The names are those of the bare model, so that compiling, wrapping or reordering parameters does not
change what is on disk. Tensors come back with the dtype they had: `Optimizer.load_state_dict` would
cast them to the parameter's. torch is imported inside functions only; `Any` stands for its types.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ckptui.errors import NotResumableError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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
    }
)
"""Wrappers without state of their own; `AveragedModel`, which counts, is none."""


def bare(module: Any) -> Any:
    """The module inside the wrappers of torch around it."""
    while _is_wrapper(module):
        inner = next((module._modules[w] for w in _WRAPPERS if w in module._modules), None)
        if inner is None:
            break
        module = inner
    return module


def _is_wrapper(module: Any) -> bool:
    """Whether torch's own class says so: a model may have a part called `module` itself."""
    return any(
        kind.__name__ in _WRAPPER_CLASSES and kind.__module__.partition(".")[0] == "torch"
        for kind in type(module).__mro__
    )


def parts(module: Any) -> tuple[tuple[str, Any], ...]:
    """The bare module and all parts below it, by the prefix of the names they hold, in order.

    Wrappers anywhere in the tree are left out, and a part that refers to the whole is not entered.
    A save asks for this while training waits, so the answer is kept until the tree changes.
    """
    top = bare(module)
    known = _PARTS.get(top)
    if known is None or any(_children(part) != below for _, part, below in known):
        known = tuple(
            (prefix, part, _children(part)) for prefix, part in _walk(top, "", frozenset())
        )
        _PARTS[top] = known
    return tuple((prefix, part) for prefix, part, _ in known)


_PARTS: WeakKeyDictionary[Any, tuple[tuple[str, Any, tuple[Any, ...]], ...]] = WeakKeyDictionary()
"""Module -> prefix, part and children of each part, as they were found last."""


def _children(module: Any) -> tuple[Any, ...]:
    return tuple(map(id, module._modules.values()))


def _walk(module: Any, prefix: str, above: frozenset[int]) -> Iterable[tuple[str, Any]]:
    if id(module) in above:
        return
    yield prefix, module
    for name, child in module._modules.items():
        if child is not None:
            yield from _walk(bare(child), f"{prefix}{name}.", above | {id(module)})


def parameter_names(modules: Mapping[str, Any]) -> dict[int, str]:
    """`id(parameter)` -> its name in the bare module; tied parameters have their first name.

    Args:
        modules: By the name they are registered under. The names of one module stand alone; those
            of several carry the module's name in front.
    """
    names: dict[int, str] = {}
    for lead, module in modules.items():
        start = f"{lead}." if len(modules) > 1 else ""
        for prefix, part in parts(module):
            for name, parameter in part._parameters.items():
                if parameter is not None:
                    names.setdefault(id(parameter), start + prefix + name)
    return names


@dataclass(frozen=True, slots=True)
class Frozen:
    """An optimizer's groups and state as they were at one moment, their tensors aside."""

    kind: str
    groups: tuple[dict[str, Any], ...]
    state: tuple[tuple[Any, dict[str, Any]], ...]
    """Parameter and its state; parameters never stepped are absent."""

    def tensors(self) -> list[Any]:
        """The tensors of the state that stand by themselves, which a step changes in place."""
        return [value for _, values in self.state for value in values.values() if _is_tensor(value)]

    def named(self, names: Mapping[int, str]) -> dict[str, Any]:
        """The groups and state by parameter name, as the recipe state has them.

        Args:
            names: From `parameter_names`.

        Raises:
            RefusedError: A parameter belongs to no registered module.
        """
        groups = []
        for index, group in enumerate(self.groups):
            fields = {k: v for k, v in group.items() if k not in ("params", "param_names")}
            where = f"group {index} of {self.kind}"
            groups.append({**fields, "params": [_name(names, p, where) for p in group["params"]]})
        where = f"the state of {self.kind}"
        state = {_name(names, parameter, where): values for parameter, values in self.state}
        everything = {name for group in groups for name in group["params"]}
        return {
            "class": self.kind,
            "param_groups": groups,
            "state": dict(sorted(state.items())),
            # Told apart from state that got lost.
            "stateless": sorted(everything - state.keys()),
        }


def freeze_optimizer(optimizer: Any) -> Frozen:
    """The optimizer's groups and state now; quick, for training waits.

    Raises:
        RefusedError: The optimizer keeps state that is not per parameter (LBFGS).
    """
    import torch  # noqa: PLC0415 - training is at work

    kind = _class_name(optimizer)
    if isinstance(optimizer, torch.optim.LBFGS):
        msg = f"{kind} keeps a history that is of no one parameter; it cannot be saved exactly."
        raise RefusedError(msg)
    if not all(map(_is_tensor, optimizer.state)):
        msg = f"{kind} keeps state outside its parameters; it cannot be saved exactly."
        raise RefusedError(msg)
    return Frozen(
        kind,
        # A learning rate may be a tensor, which schedulers change without a step.
        tuple(
            {k: list(v) if k == "params" else _own(v) for k, v in group.items()}
            for group in optimizer.param_groups
        ),
        tuple((p, dict(values)) for p, values in optimizer.state.items() if values),
    )


def _own(value: Any) -> Any:
    """A field of a group, its tensors copied."""
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return type(value)(_own(v) for v in value)
    return value.detach().clone() if _is_tensor(value) else value


def _is_tensor(value: object) -> bool:
    import torch  # noqa: PLC0415 - training is at work

    return isinstance(value, torch.Tensor)


def capture_optimizer(optimizer: Any, modules: Mapping[str, Any]) -> dict[str, Any]:
    """The optimizer's groups and state, by parameter name; parameters never stepped are absent.

    Raises:
        RefusedError: A parameter belongs to no registered module, or the optimizer keeps state that
            is not per parameter (LBFGS).
    """
    return freeze_optimizer(optimizer).named(parameter_names(modules))


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
    groups, kept = _checked(stored)
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
    lost = sorted(by_name.keys() - kept.keys() - set(stored["stateless"]))
    if lost:
        msg = f"The checkpoint lacks the optimizer state of {', '.join(lost[:3])}."
        raise NotResumableError(msg)
    unknown = sorted(kept.keys() - by_name.keys())
    if unknown:
        msg = (
            f"The checkpoint has optimizer state for unknown parameters: {', '.join(unknown[:3])}."
        )
        raise NotResumableError(msg)
    for group, saved in zip(optimizer.param_groups, groups, strict=True):
        for key, value in saved.items():
            if key not in _NOT_STATE:
                group[key] = _set(group.get(key), value)
    optimizer.state.clear()
    for name, values in kept.items():
        parameter, group = by_name[name]
        optimizer.state[parameter] = {
            key: _placed(key, value, parameter, group) for key, value in values.items()
        }


_NOT_STATE = frozenset({"params", "foreach", "fused", "capturable"})
"""Fields of a group that stay as this process has them: they choose kernels for its device."""


def _checked(
    stored: Mapping[str, Any],
) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """The stored groups and state, in the form they must have.

    Raises:
        NotResumableError: They have another.
    """
    groups, kept = stored.get("param_groups"), stored.get("state")
    if (
        isinstance(groups, list)
        and all(isinstance(g, dict) and _are_texts(g.get("params")) for g in groups)
        and isinstance(kept, dict)
        and all(isinstance(values, dict) for values in kept.values())
        and _are_texts(stored.get("stateless"))
    ):
        return groups, kept
    msg = "The checkpoint's optimizer state is damaged."
    raise NotResumableError(msg)


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in value)


def _set(present: Any, value: Any) -> Any:
    """A stored field of a group; a tensor keeps its identity, for compiled steps hold on to it."""
    import torch  # noqa: PLC0415 - training is at work

    if not isinstance(value, torch.Tensor):
        return value
    if not isinstance(present, torch.Tensor):
        return value.clone()
    if (present.dtype, present.shape) != (value.dtype, value.shape):
        return value.to(present.device, copy=True)
    with torch.no_grad():
        return present.copy_(value)


def _placed(key: str, value: Any, parameter: Any, group: Mapping[str, Any]) -> Any:
    """A copy of a stored value on the device where the optimizer keeps it, in its stored dtype."""
    import torch  # noqa: PLC0415 - training is at work

    if isinstance(value, list | tuple):
        return type(value)(_placed(key, v, parameter, group) for v in value)
    if isinstance(value, dict):
        return {k: _placed(key, v, parameter, group) for k, v in value.items()}
    if not isinstance(value, torch.Tensor):
        return value
    if key == "step" and not (group.get("fused") or group.get("capturable")):
        return value.clone()  # plain and foreach optimizers count on the CPU
    if value.shape != parameter.shape or parameter.is_contiguous():
        return value.to(parameter.device, copy=True)
    # Moments lie in memory as their parameter does; the file knows the order of elements alone.
    return torch.empty_like(parameter, dtype=value.dtype).copy_(value)
