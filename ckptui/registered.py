"""What a training loop registered: written as weights and recipe state, and put back exactly.

torch is imported inside functions only; `Any` stands for its types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ckptui import schema
from ckptui.errors import NotResumableError, RefusedError, UsageError
from ckptui.moment import Mark, Moment
from ckptui.optimizer_state import (
    freeze_optimizer,
    parameter_names,
    parts,
    restore_optimizer,
)
from ckptui.recipe_state import Encoded, capture_rng, read, restore_rng
from ckptui.weights import (
    check_module,
    check_tensor,
    is_converted,
    named_buffers,
    named_parameters,
    read_weights,
    weights_file,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ckptui.checkpoint import Checkpoint

OWN_KEYS = frozenset(
    {"format", "steps_run", "optimizers", "schedulers", "objects", "values", "rng", "loggers"}
)
"""Keys of the recipe state that the loop's own state may not use."""

_KINDS = ("optimizers", "schedulers", "objects", "values")


class Registered:
    """The parts of a training state by name: modules, optimizers, schedulers and plain state."""

    def __init__(self) -> None:
        self.modules: dict[str, Any] = {}
        self.optimizers: dict[str, Any] = {}
        self.schedulers: dict[str, Any] = {}
        self.objects: dict[str, Any] = {}
        self.values: dict[str, dict[Any, Any]] = {}
        self._converted: dict[str, bool] = {}
        self._mark: Mark | None = None
        self._passed: int | None = None
        """The step whose mark another optimizer step has made void."""

    def add(self, name: str, value: Any) -> None:
        """Take one part in.

        Raises:
            UsageError: It has no state that could be saved, or its name cannot be used.
            RefusedError: It is a module whose state cannot be saved exactly.
        """
        import torch  # noqa: PLC0415 - training is at work

        # Names become files, and some file systems do not tell `A` from `a`.
        if name.casefold() in {n.casefold() for n in self.names()}:
            msg = f"{name} is registered already."
            raise UsageError(msg)
        if isinstance(value, torch.nn.Module):
            if weights_file(name) == schema.RECIPE_STATE_TENSORS:
                msg = f"A module cannot be named {name}: its file has another use."
                raise UsageError(msg)
            check_module(name, value)
            self.modules[name] = value
        elif isinstance(value, torch.optim.Optimizer):
            if not hasattr(value, "_optimizer_step_pre_hooks"):
                msg = (
                    f"{name} is a {type(value).__name__} around another optimizer; register the "
                    "one inside it."
                )
                raise UsageError(msg)
            more = sorted(value.state_dict().keys() - {"state", "param_groups"})
            if more:
                msg = (
                    f"{name} is a {type(value).__name__}, which keeps {', '.join(more)} beside its "
                    "state by parameter; it cannot be saved exactly."
                )
                raise RefusedError(msg)
            self.optimizers[name] = value
        elif isinstance(value, torch.optim.lr_scheduler.LRScheduler):
            self.schedulers[name] = value
        elif isinstance(value, dict):
            self.values[name] = value
        elif callable(getattr(value, "state_dict", None)) and callable(
            getattr(value, "load_state_dict", None)
        ):
            self.objects[name] = value
        else:
            msg = f"{name} is a {type(value).__name__}, which has no state that could be saved."
            raise UsageError(msg)

    def names(self) -> set[str]:
        """All names in use."""
        return {
            *self.modules,
            *self.optimizers,
            *self.schedulers,
            *self.objects,
            *self.values,
        }

    @property
    def resumable(self) -> bool:
        """Whether a checkpoint of this is more than weights."""
        return bool(self.optimizers or self.objects or self.values)

    def contains(self, extra: Mapping[str, Any]) -> tuple[str, ...]:
        """What a checkpoint of this holds, in the marker's words."""
        kinds = {
            "weights": self.modules,
            "optimizer": self.optimizers,
            "scheduler": self.schedulers or "lr_scheduler" in extra,
            "rng": True,
            "data": "data" in extra,
            "state": self.objects or self.values,
        }
        return tuple(kind for kind, there in kinds.items() if there)

    def mark(self, step: int) -> None:
        """Keep what changes between two optimizer steps as it is now, when this one is all done.

        Raises:
            CkptuiError: Something in it has no exact form on disk.
        """
        # A forward pass that changes weights leaves nothing of the boundary to be kept.
        moves = any(_limits_norm(part) for m in self.modules.values() for _, part in parts(m))
        self._mark = None if moves else self._moving(step)
        self._passed = None

    def unmark(self) -> None:
        """The weights are about to change: what was marked is a state that is gone."""
        mark, self._mark = self._mark, None
        if mark is not None:
            self._passed = mark.step

    def _moving(self, step: int) -> Mark:
        """A copy of all that forward passes, data loading and the loop itself may change."""
        state = Encoded()
        state.add(
            {
                "schedulers": {n: s.state_dict() for n, s in self.schedulers.items()},
                "objects": {n: o.state_dict() for n, o in self.objects.items()},
                "values": self.values,
            },
            own=True,
        )
        for name, module in self.modules.items():
            for key, buffer in named_buffers(module).items():
                check_tensor(f"{name}.{key}", buffer)
        buffers = {
            name: {key: buffer.detach().clone() for key, buffer in named_buffers(module).items()}
            for name, module in self.modules.items()
        }
        return Mark(step=step, state=state, rng=capture_rng(), buffers=buffers)

    def freeze(self, step: int, extra: Mapping[str, Any], *, shard_size: int) -> Moment:
        """The state now, as a save needs it.

        Args:
            step: Optimizer steps completed. If `mark` was called for it, what moves on between
                optimizer steps is as it was then.
            extra: The loop's own state, kept at the top level of the recipe state.
            shard_size: Most bytes of weights in one file.

        Raises:
            CkptuiError: Something in the state has no exact form on disk.
        """
        if step == self._passed:
            msg = f"An optimizer step was taken since mark({step}), so that state is gone."
            raise UsageError(msg)
        mark = self._mark
        if mark is None or mark.step != step:
            mark = self._moving(step)
        state = Encoded()
        state.body.update(mark.state.body)
        state.tensors.update(mark.state.tensors)
        state.add({"steps_run": step, **extra}, own=True)
        state.add({"rng": mark.rng})
        for name, module in self.modules.items():
            for key, parameter in named_parameters(module).items():
                check_tensor(f"{name}.{key}", parameter)
            if name not in self._converted:
                self._converted[name] = is_converted(name, module)
        return Moment(
            state=state,
            optimizers={name: freeze_optimizer(o) for name, o in self.optimizers.items()},
            modules=dict(self.modules),
            tensors={
                name: {
                    **{k: p.detach() for k, p in named_parameters(module).items()},
                    **mark.buffers[name],
                }
                for name, module in self.modules.items()
            },
            names=parameter_names(self.modules),
            converted=dict(self._converted),
            shard_size=shard_size,
            first=("steps_run", *extra),
        )

    def refuse_background(self) -> None:
        """Make sure that only the registered optimizers' `step` changes the weights.

        Raises:
            RefusedError: A parameter is stepped during the backward pass, or trained by an
                optimizer that is not registered.
        """
        stepped = {
            id(p)
            for o in self.optimizers.values()
            for group in o.param_groups
            for p in group["params"]
        }
        for name, module in self.modules.items():
            for prefix, part in parts(module):
                if _limits_norm(part):
                    msg = (
                        f"{name}.{prefix.rstrip('.')} has a max_norm, so its forward pass changes "
                        "its weights while a copy of them is made; use save() instead of "
                        "async_save()."
                    )
                    raise RefusedError(msg)
            parameters = named_parameters(module)
            trained = any(id(parameter) in stepped for parameter in parameters.values())
            for key, parameter in parameters.items():
                if getattr(parameter, "_post_accumulate_grad_hooks", None):
                    msg = (
                        f"{name}.{key} has a hook that may change it during the backward pass, "
                        "while a copy of it is made; use save() instead of async_save()."
                    )
                    raise RefusedError(msg)
                if trained and parameter.requires_grad and id(parameter) not in stepped:
                    msg = (
                        f"{name}.{key} is trained by no registered optimizer, so nothing would "
                        "keep it from changing while a copy of it is made; register its optimizer, "
                        "or use save() instead of async_save()."
                    )
                    raise RefusedError(msg)

    def load(self, source: Checkpoint) -> dict[str, Any]:
        """Put everything back from a checkpoint, the random generators last.

        Returns:
            The loop's own state that was saved with it.

        Raises:
            NotResumableError: What is stored is not what is registered.
        """
        self._mark = self._passed = None
        stored = read(source.path)
        step = stored.get("steps_run")
        if type(step) is not int or step != source.step:
            msg = f"{source.name} says step {source.step}, its recipe state says {step}."
            raise NotResumableError(msg)
        found = {kind: _names_in(stored, kind, source) for kind in _KINDS}
        mine = {kind: getattr(self, kind) for kind in _KINDS}
        for kind in _KINDS:
            for name in sorted(mine[kind].keys() - found[kind].keys()):
                msg = f"{source.name} holds no state of {name}, which is registered now."
                raise NotResumableError(msg)
            for name in sorted(found[kind].keys() - mine[kind].keys()):
                msg = f"{source.name} holds state of {name}, which is not registered now."
                raise NotResumableError(msg)
        for name, module in self.modules.items():
            read_weights(source.path, name, module)
        for name, optimizer in self.optimizers.items():
            restore_optimizer(optimizer, self.modules, found["optimizers"][name])
        for name, scheduler in self.schedulers.items():
            scheduler.load_state_dict(found["schedulers"][name])
        for name, value in self.objects.items():
            value.load_state_dict(found["objects"][name])
        for name, values in self.values.items():
            values.clear()
            values.update(found["values"][name])
        restore_rng(stored.get("rng") or {})
        return {k: v for k, v in stored.items() if k not in OWN_KEYS}


def _limits_norm(part: Any) -> bool:
    """Whether a module is an embedding that renormalises its weights when it is used."""
    import torch  # noqa: PLC0415 - training is at work

    kinds = (torch.nn.Embedding, torch.nn.EmbeddingBag)
    return isinstance(part, kinds) and part.max_norm is not None


def _names_in(stored: Mapping[str, Any], kind: str, source: Checkpoint) -> Mapping[str, Any]:
    found = stored.get(kind, {})
    if not isinstance(found, dict):
        msg = f"The {kind} in the recipe state of {source.name} are damaged."
        raise NotResumableError(msg)
    return found
