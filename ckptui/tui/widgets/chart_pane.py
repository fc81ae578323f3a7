"""The curve beside the list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Vertical

from ckptui.tui.text import safe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ckptui.tui.listing import Look
    from ckptui.tui.snapshot import Row
    from ckptui.tui.widgets.chart import Chart, Tick


class ChartPane(Vertical):
    """A place for the curve of a run, where there is room for one."""

    def __init__(self, *, ascii_only: bool, id: str) -> None:  # noqa: A002 - the name that every widget uses
        super().__init__(id=id)
        self.chart: Chart | None = None
        """None until there was room and something to show."""
        self._ascii_only = ascii_only

    def show(
        self, rows: Sequence[Row], look: Look, current: Row | None, ticks: Sequence[Tick] | None
    ) -> None:
        """Show the curve of a run; it is made once it has something to show.

        Args:
            rows: All checkpoints of the run.
            look: Which metric, and its values.
            current: The checkpoint under the cursor.
            ticks: The marks of the rows, if they are made already.
        """
        from ckptui.tui import curve  # noqa: PLC0415 - a low window shows no curve

        if self.chart is None:
            from ckptui.tui.widgets.chart import Chart  # noqa: PLC0415 - as above

            self.chart = Chart(id="chart", ascii_only=self._ascii_only)
            self.mount(self.chart)
        curve.fill(self.chart, rows, look, ticks=ticks)
        self.point_at(current)
        self.border_title = safe(curve.title(look))

    def point_at(self, row: Row | None) -> None:
        """Put the cursor on a checkpoint."""
        if self.chart is not None:
            self.chart.set_cursor(row.key if row is not None else None)
