"""What processes that were killed have left in a run is finished or taken away by the next owner.

`remove` does the removing; here it is found out what nobody is at work on any more.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from ckptui import process, remove, schema
from ckptui.durable import read_json_object, refuse_links
from ckptui.errors import NotFoundError, RefusedError, StorageError
from ckptui.trash import is_linked

_TEMPORARY = (f".{schema.RUN_FILE}.", f".{schema.CONFIG_FILE}.")


def clear(run: Path) -> int:
    """Delete what writers and removals that are gone have left half done; bytes given back.

    Only for the owner of the run's lock: nobody else can know that those writers are gone.
    """
    freed = clear_trash(run)
    for part in (schema.PINS, schema.LEASES, schema.REQUESTS):
        _clear_temporary(run, part)
    if is_linked(run, schema.STAGING):
        return freed
    with contextlib.suppress(OSError):
        for name in os.listdir(run):
            if name.endswith(".tmp") and name.startswith(_TEMPORARY):
                (run / name).unlink()
    try:
        with os.scandir(run / schema.TOOL_DIR / schema.STAGING) as entries:
            left = [e.path for e in entries if e.is_dir(follow_symlinks=False)]
    except OSError:
        return freed
    return freed + sum(remove.drop_staging(Path(path)) for path in left)


def _clear_temporary(run: Path, part: str) -> None:
    """Remove the temporary files of writers that were killed, unless one may still be at it."""
    folder = run / schema.TOOL_DIR / part
    with contextlib.suppress(OSError, RefusedError):
        refuse_links(run, part)
        for name in os.listdir(folder):
            if name.startswith(".") and name.endswith(".tmp"):
                _unlink_if_old(folder / name)


def _unlink_if_old(path: Path) -> None:
    with contextlib.suppress(OSError):
        if time.time() - path.lstat().st_mtime > _AT_WORK_SECONDS:
            path.unlink()


def clear_trash(run: Path) -> int:
    """Finish what a kill cut off in the trash; bytes given back.

    An item whose deletion had begun is deleted: nothing could be restored from it. One that nothing
    was moved into is forgotten, unless its maker may still be at it.
    """
    if is_linked(run, schema.TRASH):
        return 0
    folder = run / schema.TOOL_DIR / schema.TRASH
    try:
        with os.scandir(folder) as entries:
            ids = [e.name for e in entries if e.is_dir(follow_symlinks=False)]
    except OSError:
        return 0
    freed = 0
    for item_id in ids:
        try:
            item = remove.find_item(run, item_id)
        except NotFoundError:
            if item_id.endswith(remove.DELETING) or _is_left(folder / item_id):
                remove.forget(folder / item_id)
            continue
        if item_id.endswith(remove.DELETING):
            freed += remove.empty(item).freed
    return freed


def _is_left(item: Path) -> bool:
    """Whether whoever made an item, and moved nothing into it, is gone."""
    try:
        entry = read_json_object(item / schema.TRASH_ENTRY, limit=schema.MAX_JSON_SIZE)
        if process.is_gone(entry.get("process")):
            return True
    except (OSError, StorageError):
        pass  # it has none yet, or never gets one
    with contextlib.suppress(OSError):
        return time.time() - item.lstat().st_mtime > _AT_WORK_SECONDS
    return False


_AT_WORK_SECONDS = 60.0
"""So long may pass between two things that one writer does right after each other."""
