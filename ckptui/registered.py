"""What a training loop registered: written as weights and recipe state, and put back exactly.

torch is imported inside functions only; `Any` stands for its types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ckptui import schema
from ckptui.errors import NotResumableError, UsageError
from ckptui.optimizer_state import capture_optimizer, restore_optimizer
from ckptui.recipe_state import capture_rng, read, restore_rng, write
from ckptui.weights import check_module, read_weights, weights_file, write_weights

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ckptui.checkpoint import Checkpoint

OWN_KEYS = frozenset(
    {"format", "steps_run", "optimizers", "schedulers", "objects", "values", "rng"}
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
        parts = {
            "weights": self.modules,
            "optimizer": self.optimizers,
            "scheduler": self.schedulers or "lr_scheduler" in extra,
            "rng": True,
            "data": "data" in extra,
            "state": self.objects or self.values,
        }
        return tuple(part for part, there in parts.items() if there)

    def write(self, folder: Path, step: int, extra: Mapping[str, Any]) -> None:
        """Write all parts into a checkpoint's folder.

        Args:
            folder: Where to.
            step: Optimizer steps completed.
            extra: The loop's own state, kept at the top level of the recipe state.

        Raises:
            CkptuiError: Something in the state has no exact form on disk.
            OSError: The disk refused.
        """
        from safetensors import SafetensorError  # noqa: PLC0415 - training is at work

        state = {
            "steps_run": step,
            **extra,
            "optimizers": {
                n: capture_optimizer(o, self.modules) for n, o in self.optimizers.items()
            },
            "schedulers": {n: s.state_dict() for n, s in self.schedulers.items()},
            "objects": {n: o.state_dict() for n, o in self.objects.items()},
            "values": self.values,
            "rng": capture_rng(),
        }
        try:
            for name, module in self.modules.items():
                write_weights(folder, name, module)
            write(folder, state)
        except SafetensorError as e:
            # The tensors' writer has an error of its own for a disk that refuses.
            raise OSError(str(e)) from e

    def load(self, source: Checkpoint) -> dict[str, Any]:
        """Put everything back from a checkpoint, the random generators last.

        Returns:
            The loop's own state that was saved with it.

        Raises:
            NotResumableError: What is stored is not what is registered.
        """
        stored = read(source.path)
        step = stored.get("steps_run")
        if type(step) is not int or step != source.step:
            msg = f"{source.name} says step {source.step}, its recipe state says {step}."
            raise NotResumableError(msg)
        parts = {kind: _names_in(stored, kind, source) for kind in _KINDS}
        mine = {kind: getattr(self, kind) for kind in _KINDS}
        for kind in _KINDS:
            for name in sorted(mine[kind].keys() - parts[kind].keys()):
                msg = f"{source.name} holds no state of {name}, which is registered now."
                raise NotResumableError(msg)
            for name in sorted(parts[kind].keys() - mine[kind].keys()):
                msg = f"{source.name} holds state of {name}, which is not registered now."
                raise NotResumableError(msg)
        for name, module in self.modules.items():
            read_weights(source.path, name, module)
        for name, optimizer in self.optimizers.items():
            restore_optimizer(optimizer, self.modules, parts["optimizers"][name])
        for name, scheduler in self.schedulers.items():
            scheduler.load_state_dict(parts["schedulers"][name])
        for name, value in self.objects.items():
            value.load_state_dict(parts["objects"][name])
        for name, values in self.values.items():
            values.clear()
            values.update(parts["values"][name])
        restore_rng(stored.get("rng") or {})
        return {k: v for k, v in stored.items() if k not in OWN_KEYS}


def _names_in(stored: Mapping[str, Any], kind: str, source: Checkpoint) -> Mapping[str, Any]:
    found = stored.get(kind, {})
    if not isinstance(found, dict):
        msg = f"The {kind} in the recipe state of {source.name} are damaged."
        raise NotResumableError(msg)
    return found
