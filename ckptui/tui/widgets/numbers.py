"""The numbers of a chart: a row a step, newest first, with the checkpoint that was saved there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckptui import display
from ckptui.display.picture import LETTERS
from ckptui.tui.text import safe
from ckptui.tui.ticks import Ticks, whole
from ckptui.tui.widgets.table import Cell, Column, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ckptui.display.picture import Trace

MOST = 10_000
"""Rows that are shown; there is zooming for the others."""


class Numbers(Table[int]):
    """Steps and what was logged at them."""

    def __init__(self, *, ascii_only: bool, id: str | None = None) -> None:  # noqa: A002 - as widgets
        super().__init__(
            key=lambda step: step, cell=self._text, ascii_only=ascii_only, empty="no metrics", id=id
        )
        self._traces: Sequence[Trace] = ()
        self._ticks = Ticks()
        self._own = 0
        self._letters = ""

    def show(
        self,
        traces: Sequence[Trace],
        ticks: Ticks,
        steps: tuple[int, int] | None,
        *,
        own: int | None = None,
    ) -> None:
        """Show the numbers of curves.

        Args:
            traces: The curves.
            ticks: The checkpoints.
            steps: From which to which step; None for all.
            own: How many of the first curves are of the checkpoints' own run; None for all.
        """
        self._traces, self._ticks = traces, ticks
        self._own = len(traces) if own is None else own
        self._letters = ticks.letters_for(frozenset(t.metric for t in traces))
        first, last = steps or whole(traces, ticks)
        found: set[int] = set()
        total = 0
        for trace in traces:
            begin, end = trace.curve.find(first), trace.curve.find(last + 1)
            total = max(total, end - begin)
            found.update(trace.curve.steps[max(begin, end - MOST) : end])
        found.update(step for step in ticks.steps if first <= step <= last)
        rows = sorted(found, reverse=True)[:MOST]
        several = len(traces) > 1
        width = max([4, *(len(f"{rows[i]}") for i in (0, -1) if rows)])
        columns = [Column(key="step", title="Step", width=width, right=True)]
        for i, trace in enumerate(traces):
            title = display.visible(f"{LETTERS[i]} {trace.label}" if several else trace.label)
            room = max(9, min(24, len(title)))
            columns.append(Column(key=f"{i}", title=title, width=room, right=True, rank=1 + i))
        if any(t.smooth is not None for t in traces[:1]):
            columns.append(Column(key="smooth", title="smoothed", width=9, right=True, rank=30))
        columns.append(Column(key="checkpoint", title="Checkpoint", width=14, grows=True, rank=1))
        self.set_columns(columns)
        self.set_rows(rows)
        more = total > MOST
        words = (
            f"newest {MOST} of {total}: zoom the curves for others"
            if more
            else display.plural(len(rows), "step")
        )
        self.border_subtitle = safe(words)

    def go(self, step: int | None) -> None:
        """Put the cursor on a step, or the nearest one before it."""
        if step is None:
            return
        rows = self.rows
        low, high = 0, len(rows)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if rows[middle] > step else (low, middle)
        self.cursor = low

    def _text(self, step: int, column: Column) -> Cell:
        if column.key == "step":
            return f"{step}", ""
        if column.key == "checkpoint":
            at = self._ticks.nearest(step)
            if at is None or self._ticks.steps[at] != step or not self._ticks.rows:
                return "", ""
            letter = self._letters[at]
            name = self._ticks.rows[at].checkpoint.name
            return (f"{letter} {name}" if letter != "|" else f"  {name}"), "strong"
        if column.key == "smooth":
            smooth = self._traces[0].smooth
            there, value = smooth.at(step) if smooth is not None else (False, None)
        else:
            number = int(column.key)
            there, value = self._traces[number].curve.at(step)
            if not there and number < self._own:
                there, value = self._aside(step, self._traces[number].metric)
        if not there:
            return "-", "dim"
        return display.number(value), ("warn" if value is None else "")

    def _aside(self, step: int, metric: str) -> tuple[bool, float | None]:
        """What a checkpoint carried that is gone, or not of this curve."""
        at = self._ticks.nearest(step)
        row = self._ticks.rows[at] if at is not None and self._ticks.rows else None
        if row is None or row.checkpoint.step != step:
            return False, None
        if row.checkpoint.current and not row.gone:
            return False, None
        found = row.checkpoint.metrics
        return metric in found, found.get(metric)
