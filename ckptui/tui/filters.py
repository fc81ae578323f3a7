"""The filter line of the browser: `ckptui.filters` for the rows of the list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ckptui import filters
from ckptui.fields import Facts

if TYPE_CHECKING:
    from datetime import datetime

    from ckptui.tui.series import Series
    from ckptui.tui.snapshot import Row


@dataclass(frozen=True, slots=True)
class Context:
    """What a filter looks at besides the row."""

    series: Series
    now: datetime


Test = Callable[["Row", Context], bool]


def parse_filter(text: str) -> Test:
    """A test for rows.

    Raises:
        UsageError: The text is no filter; the message says which part and where.
    """
    test = filters.parse_filter(text).test

    def holds(row: Row, context: Context) -> bool:
        at, now = context.series.at, context.now
        return test(Facts(row.checkpoint, row.standing, row.run, at, now))

    return holds
