"""What lies in the trash of a run: read only; `remove` alone puts in, brings back and deletes."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ckptui import journal, schema
from ckptui.checkpoint import Problem
from ckptui.durable import read_json_object, refuse_links
from ckptui.errors import NotFoundError, RefusedError, StorageError
from ckptui.layouts.files import list_files, size_once
from ckptui.pins import is_pinned
from ckptui.run_file import whole

if TYPE_CHECKING:
    from pathlib import Path

DELETING = ".deleting"
"""How the name of an item ends whose deletion has begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrashItem:
    """What one removal moved into the trash: a checkpoint, or the branch that a rewind left."""

    id: str
    name: str
    """The checkpoint's name, or the names of several, joined by commas."""
    path: Path
    """The folder of the single checkpoint, or of the item."""
    run: Path
    step: int | None
    """Of several, the lowest."""
    size: int
    """Bytes, a hard link counted once."""
    when: datetime | None
    why: str
    pinned: bool
    names: tuple[str, ...]
    homes: tuple[str, ...] = ()
    """Where each of `names` stood, relative to the run."""
    problems: tuple[Problem, ...] = ()

    @property
    def folder(self) -> Path:
        """The item's own folder in the trash."""
        return self.run / schema.TOOL_DIR / schema.TRASH / self.id


def list_trash(run: Path) -> tuple[TrashItem, ...]:
    """What lies in the trash of a run, oldest first; half-deleted items carry a problem.

    Raises:
        StorageError: The trash cannot be listed.
    """
    folder = run / schema.TOOL_DIR / schema.TRASH
    if is_linked(run, schema.TRASH):
        return ()  # what lies elsewhere is not ours to delete
    try:
        ids = sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as e:
        msg = f"{folder} cannot be listed: {e.strerror}."
        raise StorageError(msg, path=folder) from e
    items = (_read_item(run, folder / item_id) for item_id in ids)
    return tuple(item for item in items if item is not None)


def _read_item(run: Path, folder: Path) -> TrashItem | None:
    if folder.parent.name != schema.TRASH or folder.name in _DOTS or folder.is_symlink():
        return None
    try:
        with os.scandir(folder) as entries:
            there = {e.name for e in entries if e.is_dir(follow_symlinks=False)}
    except OSError:
        return None
    if not there:
        return None  # what a crash left of a removal that moved nothing
    try:
        entry = read_json_object(folder / schema.TRASH_ENTRY, limit=schema.MAX_JSON_SIZE)
    except (OSError, StorageError):
        entry = {}
    listed = entry.get("checkpoints")
    rows = {
        row["name"]: row
        for row in (listed if isinstance(listed, list) else [])
        if isinstance(row, dict) and isinstance(row.get("name"), str)
    }
    names = tuple(sorted(there, key=lambda n: (_number(rows.get(n, {}), n), n)))
    problems = []
    if folder.name.endswith(DELETING):
        problems.append(Problem(path=folder, what="its deletion was not finished"))
    sizes = []
    for name in names:
        with contextlib.suppress(OSError):
            files = list_files(folder / name)
            sizes.append((files.size, files.shared))
    steps = [s for s in (_step(rows.get(n, {}), n) for n in names) if s is not None]
    when = schema.parse_time(entry.get("when"))
    if when is None:
        with contextlib.suppress(OSError):
            when = datetime.fromtimestamp(folder.stat().st_mtime, UTC)
    why = entry.get("why")
    return TrashItem(
        id=folder.name,
        name=", ".join(names),
        path=folder / names[0] if len(names) == 1 else folder,
        run=run,
        step=min(steps, default=None),
        size=size_once(sizes),
        when=when,
        why=why if why in ("prune", "rm", "rewind") else "rm",
        pinned=any(_owns_pin(run, n, _home(rows.get(n, {}), n)) for n in names),
        names=names,
        homes=tuple(_home(rows.get(n, {}), n) for n in names),
        problems=tuple(problems),
    )


def _owns_pin(run: Path, name: str, home: str) -> bool:
    """Whether the pin of a name is that of what lies in the trash, not of one that stands now."""
    return home == name and is_pinned(run, name) and not os.path.lexists(run / name)


def _step(row: dict[str, object], name: str) -> int | None:
    step = whole(row.get("step"))
    parsed = schema.parse_name(name)
    if step is None and parsed is not None and parsed.kind == "step":
        return parsed.number
    return step


def _number(row: dict[str, object], name: str) -> int:
    step = _step(row, name)
    return -1 if step is None else step


def _home(row: dict[str, object], name: str) -> str:
    """Where an entry says it stood, if that is a place of ours; else its name in the run."""
    home = row.get("from")
    parts = home.split("/") if isinstance(home, str) else []
    if len(parts) == 3 and parts[:2] == [schema.TOOL_DIR, schema.STAGING] and parts[2] not in _DOTS:
        return "/".join(parts)
    return name


_DOTS = {"", ".", ".."}


def find_item(run: Path, item_id: str) -> TrashItem:
    """The trash item of this id.

    Raises:
        NotFoundError: It is not there.
    """
    item = None
    if "/" not in item_id and not is_linked(run, schema.TRASH):
        item = _read_item(run, run / schema.TOOL_DIR / schema.TRASH / item_id)
    if item is None:
        msg = f"{item_id} is not in the trash of {run}."
        raise NotFoundError(msg)
    return item


def fate(run: Path, name: str, since: datetime | None) -> str | None:
    """What the journal tells last of a checkpoint in the trash: `restore` or `empty`; else None.

    Args:
        run: Whose trash.
        name: The checkpoint.
        since: When it was moved there; what was done to another one of that name is older.
    """
    try:
        events, _ = journal.read(run)
    except StorageError:
        return None
    for event in reversed(events):
        if since is not None and event.time is not None and event.time < since:
            return None
        if event.what in {"restore", "empty"} and name in event.checkpoints:
            return event.what
    return None


def is_linked(run: Path, part: str) -> bool:
    """Whether a link stands where a folder of our own, or the one above it, should."""
    try:
        refuse_links(run, part)
    except RefusedError:
        return True
    return False
