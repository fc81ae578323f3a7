"""A training state between the loop and the disk: at one moment, and as it is to be written.

torch is not needed here; `Any` stands for its types.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ckptui import schema
from ckptui.tensor_files import size_of, write_tensor_file
from ckptui.weights import capture_weights

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ckptui.optimizer_state import Frozen
    from ckptui.recipe_state import Encoded
    from ckptui.tensor_files import Written
    from ckptui.weights import Weights


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What changes between two optimizer steps, as it was right after one."""

    step: int
    state: Encoded
    rng: Mapping[str, Any]
    buffers: Mapping[str, Mapping[str, Any]]
    """Module -> name of a persistent buffer -> a copy of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A training state at one moment: copies of what moves on by itself, references to the rest.

    Taking it is all that training waits for; `capture` may be called in another thread.
    """

    state: Encoded
    """All of the recipe state but the optimizers."""
    optimizers: Mapping[str, Frozen]
    modules: Mapping[str, Any]
    tensors: Mapping[str, Mapping[str, Any]]
    """Module -> name -> parameter, or copy of a buffer."""
    names: Mapping[int, str]
    """From `parameter_names`, at that moment."""
    converted: Mapping[str, bool]
    shard_size: int
    first: tuple[str, ...]
    """Keys that come first in the file, as a person looks for them first."""

    def weights(self) -> list[Any]:
        """The parameters, and copies of the buffers."""
        return [t for tensors in self.tensors.values() for t in tensors.values()]

    def live(self) -> list[Any]:
        """The tensors that the next optimizer step will change."""
        return self.weights() + [t for o in self.optimizers.values() for t in o.tensors()]

    def capture(self) -> Captured:
        """All parts as they are to be written; weights and optimizer state are not copied.

        Raises:
            CkptuiError: Something in the state has no exact form on disk.
        """
        self.state.add({"optimizers": {n: o.named(self.names) for n, o in self.optimizers.items()}})
        body = self.state.body
        self.state.body = {k: body[k] for k in dict.fromkeys((*self.first, *body))}
        weights = tuple(
            capture_weights(
                name,
                module,
                self.tensors[name],
                converted=self.converted[name],
                shard_size=self.shard_size,
            )
            for name, module in self.modules.items()
        )
        files = {file: tensors for w in weights for file, tensors in w.files.items()}
        files[schema.RECIPE_STATE_TENSORS] = self.state.tensors
        return Captured(weights=weights, state=self.state, files=files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """A training state on its way to disk."""

    weights: tuple[Weights, ...]
    state: Encoded
    files: Mapping[str, Mapping[str, Any]]
    """File -> name of a tensor in it -> the tensor. Weights and optimizer state are those that
    train: the next optimizer step changes them."""

    @property
    def size(self) -> int:
        """Bytes of all tensors."""
        return sum(size_of(t) for tensors in self.files.values() for t in tensors.values())

    def write(self, folder: Path, files: Mapping[str, Mapping[str, Any]]) -> dict[str, Written]:
        """Write all parts into a checkpoint's folder.

        Args:
            folder: Where to.
            files: As `self.files`, or a copy of them.

        Returns:
            What is known of the files written: name -> size and digest.

        Raises:
            CkptuiError: A dtype has no form on disk.
            OSError: The disk refused.
        """
        written: dict[str, Written] = {}
        for weights in self.weights:
            written |= weights.write(folder, {file: files[file] for file in weights.files})
        name = schema.RECIPE_STATE_TENSORS
        written[name] = write_tensor_file(folder / name, files[name])
        self.state.write_json(folder)
        return written
