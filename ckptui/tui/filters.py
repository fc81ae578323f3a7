"""The filter line of the browser: `ckptui.filters` for the rows of the list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ckptui import filters
from ckptui.fields import Facts

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from ckptui.tui.series import Series
    from ckptui.tui.snapshot import Row


@dataclass(frozen=True, slots=True)
class Context:
    """What a filter looks at besides the row."""

    series: Series
    now: datetime


@dataclass(frozen=True, slots=True)
class RowFilter:
    """What lets a row through."""

    test: Callable[[Row, Context], bool]
    metrics: tuple[str, ...] = ()
    """The metrics that it asks about."""
    timed: bool = False
    """Whether it asks about ages, so that rows come and go as time goes by."""


def parse_filter(text: str) -> RowFilter:
    """A filter for rows.

    Raises:
        UsageError: The text is no filter; the message says which part and where.
    """
    parsed = filters.parse_filter(text)

    def holds(row: Row, context: Context) -> bool:
        at, now = context.series.at, context.now
        return parsed.test(Facts(row.checkpoint, row.standing, row.run, at, now))

    return RowFilter(holds, parsed.metrics, parsed.timed)
