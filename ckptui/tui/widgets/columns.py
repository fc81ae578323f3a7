"""Columns of a table: how wide each is, and which of them fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Cell = str | tuple[str, str]
"""A cell's text, or that and the word that styles it: dim, good, warn, bad, accent, strong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """How a column looks."""

    key: str
    title: str
    width: int
    """Cells; the least of them where it grows."""
    room: int = 0
    """Where it grows: cells that it gets before columns of higher rank come in."""
    right: bool = False
    grows: bool = False
    """It takes the cells that are left over."""
    rank: int = 0
    """Those of high rank are left out first."""
    tail: bool = False
    """What is too long loses its beginning: of paths the end tells them apart."""
    stays: bool = False
    """It is not scrolled out of sight."""


def arrange(
    columns: Sequence[Column], width: int, gap: int = 1, *, skip: int = 0
) -> tuple[tuple[Column, int], ...]:
    """The columns that fit into `width` cells, with the cells of each.

    Args:
        columns: All of them, as they stand from left to right.
        width: Cells for them together.
        gap: Cells between two.
        skip: How many of those that would be shown first make room for the ones after them; the
            most important one always stays.
    """
    by_rank = sorted(columns, key=lambda c: c.rank)
    if skip:
        # What was left out for want of room comes in, the most important first.
        shown = {c.key for c, _ in arrange(columns, width, gap)}
        first = [c for c in by_rank if c is by_rank[0] or (c.stays and c.key in shown)]
        line = [c for c in columns if c.key in shown and c not in first]
        line += [c for c in by_rank if c.key not in shown]
        by_rank = [*first, *line[skip:], *reversed(line[:skip])]
    taken: list[Column] = []
    left, kept = width, 0
    for column in by_rank:
        need = column.width + (gap if taken else 0)
        if need > left - kept and taken:
            break
        taken.append(column)
        left -= need
        kept += max(0, column.room - column.width)
    growing = [c for c in taken if c.grows]
    extra = max(0, left) // len(growing) if growing else 0
    return tuple((c, c.width + (extra if c.grows else 0)) for c in columns if c in taken)
