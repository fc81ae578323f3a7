"""The list as it is shown: filtered, in order, with its columns. Put together away from the screen.

Twenty thousand rows take a tenth of a second: too long for the thread that answers the keys.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ckptui.tui import listing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ckptui.tui.filters import RowFilter
    from ckptui.tui.listing import Look
    from ckptui.tui.snapshot import Row
    from ckptui.tui.widgets.chart import Tick
    from ckptui.tui.widgets.table import Column

AT_ONCE = 1000
"""Rows up to which arranging takes no time that anybody could feel."""


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be shown, and in which order."""

    sort: str = "step"
    descending: bool = True
    filter: RowFilter | None = None


@dataclass(frozen=True, slots=True)
class Arrangement:
    """A list ready to be drawn."""

    source: tuple[Row, ...] = ()
    """All rows of the run, ascending, as they were arranged."""
    rows: tuple[Row, ...] = ()
    index: Mapping[str, int] = field(default_factory=dict)
    """Where the row of a key stands."""
    columns: tuple[Column, ...] = ()
    keys: frozenset[str] = frozenset()
    """Of all rows, those that the filter hides too."""
    ticks: Sequence[Tick] | None = None
    """Its marks below the curve, where the list is long."""


def arrange(
    source: tuple[Row, ...],
    look: Look,
    order: Order,
    *,
    given_up: Callable[[], bool] = lambda: False,
) -> Arrangement | None:
    """Filter, sort and measure rows; None if it was given up meanwhile."""
    rows: Sequence[Row] = source
    if order.filter is not None:
        test, context = order.filter.test, listing.context(look)
        kept = []
        for i, row in enumerate(source):
            if i % 500 == 0 and given_up():
                return None
            if test(row, context):
                kept.append(row)
        rows = kept
    rows = listing.sort_rows(rows, order.sort, look, descending=order.descending)
    if given_up():
        return None
    long = len(source) > AT_ONCE
    return Arrangement(
        source=source,
        rows=tuple(rows),
        index={row.key: i for i, row in enumerate(rows)},
        columns=listing.columns(rows, look),
        keys=frozenset(row.key for row in source),
        ticks=listing.ticks(source, look) if long else None,
    )


def with_ghost(new: Arrangement, shown: Arrangement, at: int) -> Arrangement:
    """The arrangement with a row that it has no more, as gone or as hidden, among its neighbours.

    The cursor stands on it: moved to another row without a word, the next key would act on that.

    Args:
        new: The rows that there are now.
        shown: Those that were shown so far.
        at: Which of them the cursor stands on.
    """
    old = shown.rows[at]
    if any(carries_on(old, row) for row in new.rows):
        return new
    if old.key in new.keys:
        there = next(row for row in new.source if row.key == old.key)
        ghost = replace(there, hidden=True)
    else:
        why = "removed by the run's own rules" if old.going else "removed elsewhere"
        ghost = replace(old, gone=old.gone or why, going=False, hidden=False)
    at = _place(new, shown.rows, at)
    return _of_rows(new, (*new.rows[:at], ghost, *new.rows[at:]))


def _place(new: Arrangement, rows: Sequence[Row], at: int) -> int:
    """Where a row belongs: before what came after it, or else behind what came before it."""
    below = (new.index.get(row.key) for row in rows[at + 1 :])
    found = next((i for i in below if i is not None), None)
    if found is not None:
        return found
    above = (new.index.get(rows[i].key) for i in range(at - 1, -1, -1))
    return next((i + 1 for i in above if i is not None), 0)


def without_ghosts(shown: Arrangement, but: Row | None) -> Arrangement:
    """The arrangement without rows that are gone or hidden, save one."""
    stay = (r for r in shown.rows if not (r.gone or r.hidden) or r is but)
    return _of_rows(shown, tuple(stay))


def _of_rows(shown: Arrangement, rows: tuple[Row, ...]) -> Arrangement:
    return replace(shown, rows=rows, index={row.key: i for i, row in enumerate(rows)})


def carries_on(old: Row, new: Row) -> bool:
    """Whether a row is what a staged one has become."""
    return old.checkpoint.staged and old.checkpoint.name == new.checkpoint.name
