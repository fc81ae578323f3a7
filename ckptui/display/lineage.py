"""Where a checkpoint came from, and what is inside it: the long form that `show` gives."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ckptui import schema
from ckptui.checkpoint import FileEntry
from ckptui.display.forms import checkpoint_form, parent_form
from ckptui.errors import StorageError
from ckptui.layouts.files import list_files
from ckptui.layouts.marker import MarkerError, read_marker
from ckptui.layouts.native_checkpoint import is_outside
from ckptui.recipe_state import read_json
from ckptui.tensors import read_header

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ckptui.checkpoint import Checkpoint, Parent
    from ckptui.standing import Standing

_MOST_ANCESTORS = 10_000


def ancestors(checkpoint: Checkpoint) -> list[Parent]:
    """The checkpoints that training went through, nearest first, as far as they can be told."""
    found: list[Parent] = []
    run, parent = checkpoint.run, checkpoint.parent
    while parent is not None and parent not in found and len(found) < _MOST_ANCESTORS:
        found.append(parent)
        path = Path(parent.path) if parent.path is not None else run / parent.name
        # A marker may claim any path; only where a checkpoint could be is it looked at.
        if not path.is_absolute() or schema.parse_name(path.name) is None:
            break
        try:
            marker = read_marker(str(path))
        except (OSError, ValueError, MarkerError):
            break
        if marker is None or (
            parent.attempt is not None
            and (marker.run_id, marker.attempt) != (parent.run_id, parent.attempt)
        ):
            break  # another checkpoint has taken the name since
        run, parent = path.parent, marker.parent
    return found


def detail_form(checkpoint: Checkpoint, standing: Standing) -> dict[str, Any]:
    """A CHECKPOINT with its files, tensors, recipe state and lineage."""
    form = checkpoint_form(checkpoint, standing)
    files = checkpoint.files or _files_there(checkpoint)
    state = None
    try:
        state = read_json(checkpoint.path)
    except FileNotFoundError:
        pass
    except (OSError, StorageError) as e:
        form["problems"].append(
            {"path": str(checkpoint.path / schema.RECIPE_STATE_JSON), "what": str(e)}
        )
    return {
        **form,
        "files": [{"name": f.name, "size": f.size, "digest": f.digest} for f in files],
        "tensors": _tensors(checkpoint, files, form["problems"]),
        "recipe_state": state,
        "lineage": [parent_form(p) for p in ancestors(checkpoint)],
    }


def _files_there(checkpoint: Checkpoint) -> Sequence[FileEntry]:
    """The files that lie in a checkpoint whose marker names none."""
    try:
        sizes = list_files(checkpoint.path).sizes
    except OSError:
        return ()
    return [FileEntry(name, size, None) for name, size in sorted(sizes.items())]


def _tensors(
    checkpoint: Checkpoint, files: Sequence[FileEntry], problems: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The tensors that the headers name; what is wrong with a header is added to `problems`."""
    found: list[dict[str, Any]] = []
    for file in files:
        path = checkpoint.path / file.name
        if not file.name.endswith(".safetensors") or is_outside(file.name) or path.is_symlink():
            continue
        try:
            header = read_header(path)
        except FileNotFoundError:
            continue  # the listing has told it already
        except (OSError, StorageError) as e:
            problems.append({"path": str(path), "what": str(e)})
            continue
        found += [
            {"name": t.name, "dtype": t.dtype, "shape": t.shape, "file": file.name}
            for t in header.tensors
        ]
    return found
