"""Which rows of the list are marked: one by one, from here to there, or all that are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ckptui.tui.snapshot import Row


class Marks:
    """Keys of marked rows, and where a range was begun."""

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self.start: str | None = None
        """Key of the row at which a range was begun."""

    def clear(self) -> None:
        """No marks, no range."""
        self.keys.clear()
        self.start = None

    def flip(self, row: Row) -> None:
        """Mark a row, or take its mark away."""
        self.keys ^= {row.key}

    def add(self, rows: Iterable[Row]) -> None:
        """Mark rows."""
        self.keys |= {row.key for row in rows if not row.gone}

    def invert(self, rows: Sequence[Row]) -> None:
        """Mark what is not marked of some rows, and the other way round."""
        self.keys ^= {row.key for row in rows if not row.gone}

    def range_to(self, rows: Sequence[Row], at: int) -> bool:
        """Begin a range at a row, or mark all from where one began; whether one has begun."""
        shown = [row.key for row in rows]
        if self.start not in shown:
            self.start = shown[at]
            return True
        first, last = sorted((at, shown.index(self.start)))
        self.start = None
        self.add(rows[first : last + 1])
        return False

    def keep_only(self, there: frozenset[str]) -> int:
        """Forget the marks of rows that are no longer there; how many those were."""
        lost = len(self.keys - there)
        self.keys &= there
        return lost
