"""A run that is listed and gone: it keeps its place until the user chooses another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckptui.tui import runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from ckptui.tui.snapshot import RunView
    from ckptui.tui.widgets.table import Cell, Column


def words(lost: RunView, root: Path) -> str:
    """That it is gone, in a sentence."""
    return f"{runs.name(lost, root)} is gone: removed or renamed elsewhere."


def empty_list(lost: RunView, root: Path) -> str:
    """What stands in place of its checkpoints."""
    return f"{words(lost, root)}\n\nChoose another run in Runs (esc). ctrl+r looks again."


def among(
    views: Iterable[RunView], lost: RunView | None, shown: Sequence[RunView]
) -> tuple[RunView, ...]:
    """All runs, with the lost one where it stood among those that were shown."""
    found = list(views)
    if lost is not None:
        paths = [view.run.path for view in shown]
        at = paths.index(lost.run.path) if lost.run.path in paths else len(found)
        found.insert(at, lost)
    return tuple(found)


def cell(lost: RunView, column: Column, root: Path) -> Cell:
    """What stands in a column of it."""
    match column.key:
        case "flag":
            return "!", "bad"
        case "name":
            return runs.name(lost, root), "dim"
        case "last":
            return "gone", "bad"
        case _:
            return "-", "dim"
