"""The list of runs: as wide as its names need, where the screen has the room."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckptui.tui import lost, runs
from ckptui.tui.snapshot import RunView
from ckptui.tui.widgets.table import Cell, Column, Table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class RunList(Table[RunView]):
    """The runs below a root."""

    def __init__(self, root: Path, *, ascii_only: bool, id: str) -> None:  # noqa: A002 - the name that every widget uses
        super().__init__(
            id=id,
            key=lambda view: view.run.path,
            cell=self._text,
            columns=runs.COLUMNS,
            ascii_only=ascii_only,
        )
        self._root = root
        self._lost: RunView | None = None
        self._wide: int | None = None
        """How wide it was made; None where the style sheet tells."""

    def show(self, views: Sequence[RunView], gone: RunView | None) -> None:
        """Show runs.

        Args:
            views: The runs.
            gone: The one of them that is listed although it is gone.
        """
        self._lost = gone
        self.set_rows(views)
        self.fit()

    def fit(self) -> None:
        """Take the columns that the names need, on a screen of this width."""
        wide, columns = runs.fitted(self.rows, self._root, self.screen.size.width)
        if wide != self._wide:  # set anew it lays out the whole screen
            self._wide = self.styles.width = wide
        self.set_columns(columns)

    def _text(self, view: RunView, column: Column) -> Cell:
        told = lost.cell if view is self._lost else runs.cell
        return told(view, column, self._root)
