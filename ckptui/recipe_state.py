"""The state that resuming needs besides the weights: `recipe_state.json` and `.safetensors`.

What is in it goes through `state_codec`, the optimizer through `optimizer_state`. torch is imported
inside functions only; `Any` stands for its types.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ckptui import schema
from ckptui.durable import read_json_object, to_json
from ckptui.errors import FormatError, NotResumableError, StorageError, UsageError
from ckptui.optimizer_state import bare, capture_optimizer, parameter_names, restore_optimizer
from ckptui.state_codec import CodecError, DamagedError, Tensors, decode, encode
from ckptui.tensor_files import write_tensor_file

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "Encoded",
    "bare",
    "capture_optimizer",
    "capture_rng",
    "parameter_names",
    "read",
    "read_json",
    "restore_optimizer",
    "restore_rng",
    "write",
]

FORMAT = 1


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
    except (
        ArithmeticError,
        AttributeError,
        ImportError,
        LookupError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as e:
        msg = f"The checkpoint's {part} random state is missing or damaged ({e})."
        raise NotResumableError(msg) from e


class Encoded:
    """A state on its way to disk: what JSON holds, and the tensors by the names they will have."""

    def __init__(self) -> None:
        self.body: dict[str, Any] = {}
        self.tensors: Tensors = {}

    def add(self, state: Mapping[str, object], *, own: bool = False) -> None:
        """Take values in.

        Args:
            state: By key.
            own: Copy the tensors now, for they may change before they are written.

        Raises:
            CodecError: A value has no safe form; the message names its path.
            UsageError: A key is the state's own.
        """
        if "format" in state:
            msg = "'format' is a key of the recipe state's own."
            raise UsageError(msg)
        found: Tensors = _Names(self.tensors)
        try:
            for key, value in state.items():
                self.body[key] = encode(value, key, found)
        except RecursionError:
            msg = "The recipe state is nested too deeply, or holds itself."
            raise CodecError(msg) from None
        for name, tensor in found.items():
            self.tensors[name] = tensor.clone() if own else tensor

    def write_json(self, folder: Path) -> None:
        """Write `recipe_state.json`; `tensors` belong into the file beside it.

        Raises:
            OSError: The disk refused.
        """
        content = to_json({"format": FORMAT, **self.body})
        (folder / schema.RECIPE_STATE_JSON).write_bytes(content)


class _Names(Tensors):
    """New tensors, whose names meet none of those that were there before."""

    def __init__(self, before: Tensors) -> None:
        self._before = before

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self._before


def write(folder: Path, state: Mapping[str, object]) -> None:
    """Write the state into a checkpoint's folder; the same state gives the same bytes.

    Raises:
        CodecError: A value has no safe form; the message names its path.
        UsageError: A key is the state's own.
        OSError: The disk refused.
    """
    encoded = Encoded()
    encoded.add(state)
    write_tensor_file(folder / schema.RECIPE_STATE_TENSORS, encoded.tensors)
    encoded.write_json(folder)


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
    from safetensors.torch import load_file  # noqa: PLC0415 - as above

    path = folder / schema.RECIPE_STATE_TENSORS
    try:
        raw = read_json(folder)
        tensors = load_file(path)
        for name, tensor in tensors.items():
            # What was loaded is mapped from the file, and would be read from it long after a
            # pruning removed it. `restore_optimizer` copies, so that the largest part is not twice
            # in memory.
            if not name.startswith("optimizers."):
                tensors[name] = tensor.clone()
        return {k: decode(v, k, tensors) for k, v in raw.items()}
    except FileNotFoundError as e:
        lacking = Path(e.filename).name if e.filename else path.name
        msg = f"{folder} lacks {lacking}, so training cannot continue from it."
        raise NotResumableError(msg) from e
    except (SafetensorError, FormatError, DamagedError) as e:
        msg = f"The recipe state in {folder} is damaged: {e}"
        raise NotResumableError(msg) from e
    except OSError as e:
        msg = f"{path} cannot be read: {e.strerror or e}."
        raise StorageError(msg, path=path) from e
