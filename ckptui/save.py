"""The only file that creates a checkpoint: staged, durable, and visible only once it is complete.

The order is what makes it safe. Everything is written into `.ckptui/staging/`, every file and
folder is synced, the marker is written last, the metric log is synced, the owner makes sure that
the run is still its own, and one rename makes the name appear. A crash leaves the old state or the
new one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING

from ckptui import journal, remove, schema
from ckptui.checkpoint import State
from ckptui.durable import sync_dir, sync_file, to_json, token, tool_dir, write_file
from ckptui.errors import CheckpointExistsError, NotFoundError, StorageError, UsageError
from ckptui.layouts.files import list_files
from ckptui.layouts.native_checkpoint import describe_checkpoint
from ckptui.metrics import json_number
from ckptui.pins import is_pinned
from ckptui.run_file import parent_json
from ckptui.tensor_files import Written
from ckptui.tensors import nonfinite_tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ckptui.checkpoint import Checkpoint, Parent
    from ckptui.lock import RunLock

_CHUNK = 2**22


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What the marker of a new checkpoint will say about it."""

    name: str
    step: int
    """Optimizer steps completed."""
    epoch: int | None
    run_id: str
    attempt: int
    parent: Parent | None = None
    contains: tuple[str, ...]
    resumable: bool
    metrics: Mapping[str, float] = field(default_factory=dict)


def save_checkpoint(
    run: Path,
    draft: Draft,
    write: Callable[[Path], Mapping[str, Written] | None],
    *,
    lock: RunLock | None = None,
    before_publish: Callable[[], None] | None = None,
) -> Checkpoint:
    """Write a checkpoint and publish it; one that stands already for this step is returned.

    Args:
        run: The run's folder.
        draft: Name and marker.
        write: Fills the folder that it is given, and tells what it knows of files that it has
            written and synced: name -> size and digest.
        lock: Checked right before the name appears.
        before_publish: Called when all is durable but the name, to make the metric log so too.

    Raises:
        CheckpointExistsError: A pinned checkpoint of another attempt holds the name, or one that
            ckptui does not understand.
        LockedError: Another process took the run over; nothing was published.
        RefusedError: A link stands where staging should.
        StorageError: The disk refused; staging is gone, everything older is untouched.
    """
    standing = _standing(run, draft)
    if standing is not None:
        return standing
    owner = lock.token if lock else ""
    part = f"{draft.name}-{owner}{token()}"
    staging = run / schema.TOOL_DIR / schema.STAGING / part
    begun = time.monotonic()
    try:
        tool_dir(run, schema.STAGING)
        staging.mkdir()
        written = write(staging) or {}
        _seal(staging, draft, written, begun)
        if before_publish is not None:
            _prepare(before_publish, draft)
        published = _publish(run, staging, draft, lock)
    except OSError as e:
        msg = (
            f"Saving {draft.name} in {run} failed: {e.strerror or e}. "
            "Older checkpoints are untouched."
        )
        raise StorageError(msg, path=run / draft.name) from e
    finally:
        # Published staging has its new name; any other way out leaves it here to be dropped.
        remove.drop_staging(staging)
    journal.record(run, "save", checkpoints=[draft.name])
    return published


def _prepare(before_publish: Callable[[], None], draft: Draft) -> None:
    try:
        before_publish()
    except StorageError as e:
        msg = f"{draft.name} was not saved, for its metrics could not be made durable: {e}"
        raise StorageError(msg, path=e.path) from e


def _standing(run: Path, draft: Draft) -> Checkpoint | None:
    """The same checkpoint, if it stands already.

    Raises:
        CheckpointExistsError: Another one holds the name and must stay.
    """
    there = describe_checkpoint(run, draft.name)
    if there is None:
        return None
    if there.state is State.UNKNOWN:
        what = there.problems[0].what if there.problems else "nothing explains it"
        msg = f"{draft.name} in {run} is not known to be ours and is not replaced: {what}."
        raise CheckpointExistsError(msg)
    same = (there.run_id, there.attempt, there.step) == (draft.run_id, draft.attempt, draft.step)
    if there.complete and same:
        return there
    if is_pinned(run, draft.name):
        msg = (
            f"{draft.name} in {run} is pinned and belongs to attempt {there.attempt}; it is not "
            "replaced. Unpin it, or train into another folder."
        )
        raise CheckpointExistsError(msg)
    return None


def _seal(staging: Path, draft: Draft, written: Mapping[str, Written], begun: float) -> None:
    """Make all content durable and write the marker over it."""
    files = list_files(staging)
    if files.error is not None:
        raise files.error
    if not files.sizes:
        msg = f"Nothing was written for {draft.name}, so there is no checkpoint."
        raise UsageError(msg)
    entries = []
    nonfinite: list[str] = []
    for name in sorted(files.sizes):
        known = written.get(name)
        if known is None or known.size != files.sizes[name]:
            known = _read(staging / name)
        entries.append({"name": name, "size": known.size, "digest": known.digest})
        # Of several modules each has a file of its own.
        if name != schema.RECIPE_STATE_TENSORS:
            nonfinite += known.nonfinite
    folders = {staging / parent for name in files.sizes for parent in PurePath(name).parents}
    for folder in sorted(folders, reverse=True):
        sync_dir(folder)
    marker = {
        "format": schema.FORMAT,
        "run_id": draft.run_id,
        "attempt": draft.attempt,
        "parent": parent_json(draft.parent),
        "step": draft.step,
        "epoch": draft.epoch,
        "created": schema.now_text(),
        "save_seconds": round(time.monotonic() - begun, 6),
        "contains": draft.contains,
        "resumable": draft.resumable,
        "metrics": {name: json_number(name, v) for name, v in draft.metrics.items()},
        "nonfinite": sorted(nonfinite),
        "files": entries,
    }
    write_file(staging / schema.MARKER, to_json(marker))
    _share(staging, files.sizes)
    sync_dir(staging)


def _read(path: Path) -> Written:
    """What there is to know of a file that somebody else has written, made durable."""
    import xxhash  # noqa: PLC0415 - a listing never needs it

    sync_file(path)
    digest = xxhash.xxh3_128()
    nonfinite: tuple[str, ...] = ()
    if path.name.endswith(".safetensors"):
        nonfinite = nonfinite_tensors(path, also=digest.update)
    else:
        with path.open("rb") as f:
            while chunk := f.read(_CHUNK):
                digest.update(chunk)
    return Written(
        size=path.stat().st_size, digest=f"xxh3_128:{digest.hexdigest()}", nonfinite=nonfinite
    )


def _share(staging: Path, names: Mapping[str, int]) -> None:
    """Give every file the mode that new files have here: transformers may leave 0600 behind."""
    mode = (staging / schema.MARKER).stat().st_mode & 0o777
    for name in names:
        path = staging / name
        if path.stat().st_mode & 0o777 != mode:
            # Some mounts have no modes to change; the checkpoint is good all the same.
            with contextlib.suppress(OSError):
                path.chmod(mode)


def _publish(run: Path, staging: Path, draft: Draft, lock: RunLock | None) -> Checkpoint:
    target = run / draft.name
    for _ in range(3):
        standing = _standing(run, draft)
        if standing is not None:
            return standing
        if lock is not None:
            lock.check()
        if os.path.lexists(target):
            _set_aside(run, draft.name)
        try:
            remove.move_folder(staging, target)
        except OSError as e:
            if e.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            continue  # another process published this name between our look and our rename
        sync_dir(run)
        found = describe_checkpoint(run, draft.name)
        if found is not None:
            return found
    msg = f"{draft.name} in {run} could not be put in place: its name is taken again and again."
    raise StorageError(msg, path=target)


def _set_aside(run: Path, name: str) -> None:
    """Move an incomplete or abandoned checkpoint that holds the name into the trash."""
    there = describe_checkpoint(run, name)
    if there is None:
        msg = f"{run / name} is in the way: it is no folder."
        raise CheckpointExistsError(msg)
    with contextlib.suppress(NotFoundError):
        remove.move_to_trash([there], why="rewind", reason="its name is saved anew")
