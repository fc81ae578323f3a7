"""What became of checkpoints that are not in the trash any more, in sentences."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ckptui import remove, schema, trash
from ckptui.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_SHOWN = 5


def of_missing(run: Path, ids: Sequence[str], names: Sequence[str]) -> list[str]:
    """What became of the items `ids`, told by those among `names` that may have been in them."""
    folder = run / schema.TOOL_DIR / schema.TRASH
    begun = [i for i in ids if os.path.lexists(folder / f"{i}{remove.DELETING}")]
    said = [f"{i} cannot be restored: its deletion had begun." for i in begun]
    count = len(ids) - len(begun)
    since = min((t for t in map(_moved, ids) if t is not None), default=None)
    try:
        lying = {name for item in remove.list_trash(run) for name in item.names}
    except StorageError:
        lying = set()
    away = [name for name in names if not os.path.lexists(run / name)]
    if begun:
        away = [name for name in away if name not in lying]
    away = away[:count]
    again = [name for name in away if name in lying]
    deleted = [n for n in away if n not in again and trash.fate(run, n, since) == "empty"]
    unknown = [name for name in away if name not in again and name not in deleted]
    for what, of in (
        ("Deleted from the trash for good meanwhile", deleted),
        ("Brought back and moved to the trash again meanwhile", again),
        ("Not in the trash any more", unknown),
    ):
        if of:
            more = f" and {len(of) - _SHOWN} more" if len(of) > _SHOWN else ""
            said.append(f"{what}: {', '.join(of[:_SHOWN])}{more}.")
    if count > len(away):
        said.append(f"Brought back already: {count - len(away)}.")
    return said


def moved_back(item: remove.TrashItem) -> list[str]:
    """What of an item is back where it stood after restoring the rest of it has failed."""
    return [
        name
        for name, home in zip(item.names, item.homes, strict=True)
        if os.path.lexists(item.run / home) and not os.path.lexists(item.folder / name)
    ]


def _moved(item_id: str) -> datetime | None:
    """When an item was made, by its id."""
    try:
        return datetime.strptime(item_id.split("-")[0], "%Y%m%dT%H%M%S%f").replace(tzinfo=UTC)
    except ValueError:
        return None
