"""The only file that removes a checkpoint or staging: into the trash, back, or for good.

A removal renames first, so nobody ever sees half a checkpoint, and looks at the pin and the
identity of what it has in hand second; whatever changed meanwhile is renamed back. Deleting renames
the whole trash item to `<id>.deleting` before the first file goes, so no half can be restored.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ckptui import guard, journal, leases, process, schema
from ckptui.durable import (
    make_dir,
    read_bytes,
    refuse_links,
    sync_dir,
    to_json,
    token,
    tool_dir,
    write_file,
)
from ckptui.errors import CkptuiError, NotFoundError, RefusedError, StorageError
from ckptui.layouts.marker import MarkerError, read_marker
from ckptui.moving import NO_FOLDER_RENAME, move_folder
from ckptui.pins import is_pinned, pin_path
from ckptui.trash import DELETING, TrashItem, fate, find_item, list_trash

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ckptui.checkpoint import Checkpoint

__all__ = [
    "DELETING",
    "FULL",
    "NO_FOLDER_RENAME",
    "ChangedError",
    "Emptied",
    "TrashItem",
    "Why",
    "delete_in_place",
    "drop_staging",
    "empty",
    "find_item",
    "forget",
    "list_trash",
    "move_folder",
    "move_to_trash",
    "restore",
]

Why = Literal["prune", "rm", "rewind"]

FULL = {errno.ENOSPC, errno.EDQUOT}
"""What a disk answers that has no room, not even for a folder's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Emptied:
    """What deleting gave back, and what stopped it."""

    freed: int
    """Bytes whose last link went."""
    error: str | None = None
    last: bool = True
    """Whether this call took the folder itself away, and not another one that deleted it too."""


class ChangedError(CkptuiError):
    """The target is no longer what the plan meant, or is protected now; it stays where it was."""


def move_to_trash(checkpoints: Sequence[Checkpoint], *, why: Why, reason: str | None = None) -> str:
    """Move checkpoints of one run into the trash as one item, and return the item's id.

    Raises:
        NotFoundError: None of them is there any more.
        ChangedError: One is pinned, needed or replaced by now; those moved before it stay moved.
        RefusedError: A link stands where the trash should, or changes are forbidden.
        StorageError: The disk refused.
    """
    run = checkpoints[0].run
    guard.require_changes_allowed(
        f"move {', '.join(c.name for c in checkpoints)} to the trash", run
    )
    item = f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}-{token(3)}"
    folder = run / schema.TOOL_DIR / schema.TRASH / item
    try:
        tool_dir(run, schema.TRASH, item)
        _write_entry(folder, _entry(item, checkpoints, why, reason))
        sync_dir(folder)
        sync_dir(folder.parent)
    except OSError as e:
        _forget(folder)
        msg = f"{run} cannot take a trash entry: {e.strerror}."
        raise StorageError(msg, path=folder) from e
    moved = []
    try:
        for checkpoint in checkpoints:
            if _move(checkpoint, folder / checkpoint.name, staying=why != "rewind"):
                moved.append(checkpoint.name)
        sync_dir(folder)
        sync_dir(run)
    except OSError as e:
        raise _storage_error(checkpoint.path, e) from e
    finally:
        if moved:
            journal.record(run, why, checkpoints=moved, reason=reason)
        else:
            _forget(folder)
    if not moved:
        msg = f"{checkpoints[0].name} is gone from {run} already."
        raise NotFoundError(msg)
    return item


def _write_entry(folder: Path, content: bytes) -> None:
    """Record what an item is; a full disk must not keep anybody from making room.

    The item's id and the names of its folders are enough to list it and to bring it back.
    """
    path = folder / schema.TRASH_ENTRY
    try:
        write_file(path, content)
    except OSError as e:
        if e.errno not in FULL:
            raise
        path.unlink(missing_ok=True)


def _entry(item: str, checkpoints: Sequence[Checkpoint], why: Why, reason: str | None) -> bytes:
    return to_json(
        {
            "format": schema.FORMAT,
            "id": item,
            "why": why,
            "reason": reason,
            "when": schema.now_text(),
            "who": journal.user(),
            "host": journal.host(),
            "process": process.identity(),
            "checkpoints": [
                {
                    "name": c.name,
                    "from": c.path.relative_to(c.run).as_posix(),
                    "step": c.step,
                    "run_id": c.run_id,
                    "attempt": c.attempt,
                    "created": c.created_text,
                }
                for c in checkpoints
            ],
        }
    )


def _move(checkpoint: Checkpoint, target: Path, *, staying: bool) -> bool:
    """Rename one checkpoint away if it is still what was meant; False if it is gone.

    Args:
        checkpoint: As it was when the removal was decided.
        target: Where it goes.
        staying: Whether a fork's need for it counts; a rewind keeps its own source anyway.
    """
    try:
        found = checkpoint.path.lstat()
    except FileNotFoundError:
        return False
    if not stat.S_ISDIR(found.st_mode):
        msg = f"{checkpoint.name} is no folder any more, so it was left alone."
        raise ChangedError(msg)
    try:
        _check(checkpoint, checkpoint.path, staying=staying)
        move_folder(checkpoint.path, target)
    except FileNotFoundError:
        if os.path.lexists(checkpoint.path):
            raise  # it is the trash that went away
        return False
    try:
        _check(checkpoint, target, staying=staying)
    except ChangedError:
        move_folder(target, checkpoint.path)
        raise
    return True


def _check(checkpoint: Checkpoint, path: Path, *, staying: bool) -> None:
    """Look at pin, leases and identity of what stands at `path` now.

    Raises:
        ChangedError: It must not go.
        FileNotFoundError: Another process has removed it meanwhile.
    """
    if not checkpoint.staged and is_pinned(checkpoint.run, checkpoint.name):
        msg = f"{checkpoint.name} is pinned now, so it was left alone."
        raise ChangedError(msg)
    need = leases.leased(checkpoint.run).get(checkpoint.name) if staying else None
    if need is not None and not checkpoint.staged:
        msg = f"{checkpoint.name} was left alone: {need}."
        raise ChangedError(msg)
    try:
        marker = read_marker(str(path))
    except (MarkerError, OSError):
        marker = None
    if marker is None:
        path.lstat()  # gone is not changed: whoever removed it did what was wanted
    now = (marker.run_id, marker.attempt, marker.created) if marker else (None, None, None)
    if now != (checkpoint.run_id, checkpoint.attempt, checkpoint.created_text):
        msg = f"{checkpoint.name} has changed since this was decided, so it was left alone."
        raise ChangedError(msg)


def delete_in_place(checkpoint: Checkpoint) -> Emptied:
    """Delete where folders cannot be renamed: the marker first, so that no rest looks complete.

    Raises:
        ChangedError: It is pinned, needed or replaced by now.
        ReadOnlyError: Changes are forbidden.
    """
    guard.require_changes_allowed(f"delete {checkpoint.name}", checkpoint.run)
    try:
        _check(checkpoint, checkpoint.path, staying=True)
    except FileNotFoundError:
        return Emptied(freed=0)
    emptied = _delete_tree(checkpoint.path)
    journal.record(checkpoint.run, "delete", checkpoints=[checkpoint.name])
    return emptied


def restore(item: TrashItem) -> tuple[str, ...]:
    """Bring everything in an item back to where it stood, and return the names.

    Raises:
        NotFoundError: The item is gone.
        RefusedError: A name is taken, the item's deletion had begun, or changes are forbidden.
        StorageError: The disk refused; what is back by then is back.
    """
    guard.require_changes_allowed(f"restore {item.name}", item.run)
    if item.id.endswith(DELETING):
        msg = f"{item.id} cannot be restored: its deletion had begun."
        raise RefusedError(msg)
    refuse_links(item.run, schema.TRASH, item.id)
    refuse_links(item.run, schema.STAGING)
    homes = [item.run / home for home in item.homes]
    for home in homes:
        if os.path.lexists(home):
            msg = f"{item.id} cannot be restored: {home} is taken."
            raise RefusedError(msg)
    back = []
    try:
        for name, home in zip(item.names, homes, strict=True):
            make_dir(home.parent)
            move_folder(item.folder / name, home)
            back.append(name)
        sync_dir(item.run)
    except FileNotFoundError:
        if not back:
            msg = f"{item.id} is not in the trash of {item.run} any more."
            raise NotFoundError(msg) from None
    except OSError as e:
        raise _storage_error(item.folder, e) from e
    finally:
        if back:
            journal.record(item.run, "restore", checkpoints=back)
    _forget(item.folder)
    return tuple(back)


def empty(item: TrashItem, *, reason: str | None = None) -> Emptied:
    """Delete an item for good; what could not be deleted stays in the trash and is told.

    A pin goes with the checkpoint it protected once nothing of that name is left.

    Args:
        item: As it was found.
        reason: What the journal says; what stopped the deletion stands beside it.

    Raises:
        RefusedError: A link stands where the item or the trash should, or changes are forbidden.
    """
    guard.require_changes_allowed(f"delete {item.name} from the trash", item.run)
    refuse_links(item.run, schema.TRASH, item.id)
    folder = item.folder
    pins = {
        name: _content(pin_path(item.run, name))
        for name, home in zip(item.names, item.homes, strict=True)
        if home == name
    }
    if not item.id.endswith(DELETING):
        doomed = folder.with_name(item.id + DELETING)
        try:
            folder.rename(doomed)
            sync_dir(folder.parent)
        except FileNotFoundError:
            return Emptied(freed=0, error=_elsewhere(item), last=False)
        except OSError as e:
            if e.errno not in NO_FOLDER_RENAME:
                return Emptied(freed=0, error=str(_storage_error(folder, e)))
            doomed = folder
        folder = doomed
    freed, error = 0, None
    gone = []
    for name in item.names:
        emptied = _delete_tree(folder / name)
        freed += emptied.freed
        error = error or emptied.error
        if emptied.last or emptied.error is not None:
            gone.append(name)
    rest = _delete_tree(folder) if error is None else Emptied(freed=0)
    error = error or rest.error
    if not gone and error is None:
        return Emptied(freed=freed, error=_elsewhere(item), last=False)
    for name, content in pins.items():
        if name not in gone or error is not None or content is None:
            continue
        if not os.path.lexists(item.run / name):
            _drop_pin(pin_path(item.run, name), content)
    said = "; ".join(text for text in (reason, error) if text)
    journal.record(item.run, "empty", checkpoints=gone, reason=said or None)
    return Emptied(freed=freed, error=error, last=bool(gone))


def _elsewhere(item: TrashItem) -> str | None:
    """Where an item is that is not in the trash any more; None where another one deleted it."""
    if not item.run.is_dir():
        return f"there is no run at {item.run} any more"
    back = [
        home
        for name, home in zip(item.names, item.homes, strict=True)
        if os.path.lexists(item.run / home) and fate(item.run, name, item.when) != "empty"
    ]
    return f"{', '.join(back)} was brought back meanwhile" if back else None


def _content(path: Path) -> bytes | None:
    try:
        return read_bytes(path, limit=schema.MAX_LINE_SIZE)
    except (OSError, StorageError):
        return None


def _drop_pin(path: Path, content: bytes) -> None:
    """Remove a pin that is still what it was: one made since is for a checkpoint made since."""
    if _content(path) == content:
        with contextlib.suppress(OSError):
            path.unlink()


def drop_staging(path: Path) -> int:
    """Remove a staging folder that nobody writes any more; bytes given back.

    What will not go is swept later.

    Raises:
        ReadOnlyError: Changes are forbidden.
    """
    guard.require_changes_allowed(f"remove {path.name}", path.parent.parent.parent)
    return _delete_tree(path).freed


def _delete_tree(path: Path) -> Emptied:
    """Delete a folder and all in it, the marker first, links as links.

    What vanishes meanwhile is gone as wished; the first failure is told and the rest still goes.
    """
    freed = 0
    error: str | None = None
    if path.is_symlink():
        return Emptied(freed=0, error=f"{path} is a link and was left alone")
    marker = path / schema.MARKER
    folders = [os.fspath(path)]
    for folder in folders:
        try:
            with os.scandir(folder) as entries:
                names = [(e.path, e.is_dir(follow_symlinks=False)) for e in entries]
        except FileNotFoundError:
            continue
        except OSError as e:
            error = error or f"{folder} cannot be listed: {e.strerror}"
            continue
        names.sort(key=lambda n: n[0] != os.fspath(marker))
        for name, is_folder in names:
            if is_folder:
                folders.append(name)
                continue
            try:
                info = os.lstat(name)
                os.unlink(name)  # noqa: PTH108 - a string, thousands of times
                freed += info.st_size if info.st_nlink == 1 and stat.S_ISREG(info.st_mode) else 0
            except FileNotFoundError:
                continue
            except OSError as e:
                error = error or f"{name} cannot be deleted: {e.strerror}"
    last = False
    for folder in reversed(folders):
        try:
            os.rmdir(folder)  # noqa: PTH106 - as above
            last = folder == folders[0]
        except FileNotFoundError:
            continue
        except OSError as e:
            error = error or f"{folder} cannot be deleted: {e.strerror}"
    return Emptied(freed=freed, error=error, last=last)


def forget(folder: Path) -> None:
    """Take away an item's own record and folder once nothing else is in it.

    Raises:
        ReadOnlyError: Changes are forbidden.
    """
    guard.require_changes_allowed(f"tidy up {folder.name}", folder.parent.parent.parent)
    _forget(folder)


def _forget(folder: Path) -> None:
    with contextlib.suppress(OSError):
        with os.scandir(folder) as entries:
            names = [(e.path, e.is_dir(follow_symlinks=False)) for e in entries]
        if not any(is_folder for _, is_folder in names):
            for name, _ in names:
                Path(name).unlink(missing_ok=True)
            folder.rmdir()


def _storage_error(path: Path, e: OSError) -> StorageError:
    if e.errno in NO_FOLDER_RENAME:
        msg = f"{path} cannot be moved: this file system renames neither folders nor files."
    else:
        msg = f"{path} cannot be moved: {e.strerror}."
    return StorageError(msg, path=path)
