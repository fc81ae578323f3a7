"""Where a checkpoint came from, and what is inside it: the long form that `show` gives."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ckptui.display.forms import checkpoint_form, clean, parent_form
from ckptui.errors import CkptuiError, StorageError
from ckptui.layouts.native_checkpoint import describe_checkpoint
from ckptui.recipe_state import read_json
from ckptui.tensors import read_header

if TYPE_CHECKING:
    from ckptui.checkpoint import Checkpoint, Parent
    from ckptui.retention import Standing

_MOST_ANCESTORS = 10_000


def ancestors(checkpoint: Checkpoint) -> list[Parent]:
    """The checkpoints that training went through, nearest first, as far as they can be told."""
    found: list[Parent] = []
    run, parent = checkpoint.run, checkpoint.parent
    while parent is not None and parent not in found and len(found) < _MOST_ANCESTORS:
        found.append(parent)
        name = parent.name
        if parent.path is not None:
            run, name = Path(parent.path).parent, Path(parent.path).name
        try:
            there = describe_checkpoint(run, name)
        except (OSError, CkptuiError, ValueError):
            break
        parent = there.parent if there is not None else None
    return found


def detail_form(checkpoint: Checkpoint, standing: Standing) -> dict[str, Any]:
    """A CHECKPOINT with its files, tensors, recipe state and lineage."""
    form = checkpoint_form(checkpoint, standing)
    tensors: list[dict[str, Any]] = []
    for file in checkpoint.files:
        if not file.name.endswith(".safetensors"):
            continue
        try:
            header = read_header(checkpoint.path / file.name)
        except (OSError, StorageError) as e:
            form["problems"].append(
                clean({"path": str(checkpoint.path / file.name), "what": str(e)})
            )
            continue
        tensors += [
            clean({"name": t.name, "dtype": t.dtype, "shape": t.shape, "file": file.name})
            for t in header.tensors
        ]
    try:
        state = clean(read_json(checkpoint.path))
    except (OSError, StorageError):
        state = None
    return {
        **form,
        "files": [
            clean({"name": f.name, "size": f.size, "digest": f.digest}) for f in checkpoint.files
        ],
        "tensors": tensors,
        "recipe_state": state,
        "lineage": [parent_form(p) for p in ancestors(checkpoint)],
    }
