"""Which rows of the list are marked: one by one, from here to there, or all that are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckptui.tui.arrangement import carries_on

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence, Set

    from ckptui.tui.snapshot import Row


class Marks:
    """The marked rows, and where a range was begun."""

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}
        """As they were seen last: a mark is for a checkpoint, not for whatever has its name."""
        self.start: str | None = None
        """Key of the row at which a range was begun."""

    @property
    def keys(self) -> Set[str]:
        """Keys of the marked rows."""
        return self._rows.keys()

    def clear(self) -> None:
        """No marks, no range."""
        self._rows.clear()
        self.start = None

    def flip(self, row: Row) -> None:
        """Mark a row, or take its mark away; one that is gone has nothing to be marked for."""
        if self._rows.pop(row.key, None) is None and not row.gone:
            self._rows[row.key] = row

    def add(self, rows: Iterable[Row]) -> None:
        """Mark rows that the list has."""
        self._rows |= {row.key: row for row in rows if _listed(row)}

    def invert(self, rows: Sequence[Row]) -> None:
        """Mark what is not marked of some rows, and the other way round."""
        for row in rows:
            if _listed(row):
                self.flip(row)

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

    def keep_only(self, there: Sequence[Row], before: Set[str]) -> int:
        """Keep the marks of checkpoints that are still there; how many are not.

        Args:
            there: All rows of the run, those that the filter hides too.
            before: Keys of those that there were so far.
        """
        if not self._rows:
            return 0
        now = {row.key: row for row in there if row.key in self._rows}
        kept = {key: now[key] for key, old in self._rows.items() if _same(old, now.get(key))}
        # What was being written is listed by another key once it is complete.
        staged = [r for k, r in self._rows.items() if k not in now and r.checkpoint.staged]
        for old in staged:
            new = (r for r in there if carries_on(old, r) and r.key not in before)
            kept |= {row.key: row for row in new}
        lost = len(self._rows) - len(kept)
        self._rows = kept
        return lost


def _listed(row: Row) -> bool:
    return not row.gone and not row.hidden


def _same(old: Row, new: Row | None) -> bool:
    """Whether two rows of one key are about one checkpoint, as far as both were read."""
    if new is None or old.unread or new.unread:
        return new is not None
    return old.checkpoint.staged or old.checkpoint.identity == new.checkpoint.identity
