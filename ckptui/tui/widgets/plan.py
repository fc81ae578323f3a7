"""The rows of a plan, before they go, while they go and after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckptui.retention import PlanRow
from ckptui.tui import planned
from ckptui.tui.widgets.table import Cell, Column, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ckptui.checkpoint import Run
    from ckptui.prune import Removal
    from ckptui.tui.previews import Preview
    from ckptui.tui.series import Series


class PlanTable(Table[PlanRow]):
    """What is done with every checkpoint of a plan, and what came of it."""

    def __init__(
        self, run: Run, *, metric: str | None, series: Callable[[], Series], ascii_only: bool
    ) -> None:
        """Make a table without rows.

        Args:
            run: Whose checkpoints are planned for.
            metric: Its metric that the rows show.
            series: The values of that run's metrics, as far as they are read by now.
            ascii_only: Whether only ASCII can be shown.
        """
        super().__init__(
            id="plan",
            key=lambda row: row.checkpoint.path,
            cell=self._planned_cell,
            columns=planned.columns(run, metric),
            empty="Making the plan ...",
            ascii_only=ascii_only,
        )
        self._metric = metric
        self._series = series
        self.results: dict[Path, Removal] = {}
        """What came of those that were moved, or could not be."""
        self.unmoved: Mapping[Path, str] = {}
        """Why others were not, once all is over."""

    @property
    def about(self) -> str:
        """The row under the cursor in one sentence."""
        row = self.current
        if row is None:
            return ""
        path = row.checkpoint.path
        return planned.about(row, self.results.get(path), self.unmoved.get(path))

    def title(self, found: Preview | None) -> str:
        """How many go and stay, and what came of the rest."""
        return planned.title(found, self.results, self.unmoved)

    def _planned_cell(self, row: PlanRow, column: Column) -> Cell:
        path = row.checkpoint.path
        result, unmoved = self.results.get(path), self.unmoved.get(path)
        if column.key == "metric":
            return planned.metric_cell(row, self._series(), self._metric)
        return planned.cell(row, column, result, unmoved)
