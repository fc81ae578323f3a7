"""The list of runs: as wide as its names need, where the screen has the room."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckptui.tui import runs
from ckptui.tui.snapshot import RunView
from ckptui.tui.widgets.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class RunList(Table[RunView]):
    """The runs below a root."""

    def __init__(self, root: Path, *, ascii_only: bool, id: str) -> None:  # noqa: A002 - the name that every widget uses
        super().__init__(
            id=id,
            key=lambda view: view.run.path,
            cell=lambda view, column: runs.cell(view, column, root),
            columns=runs.COLUMNS,
            ascii_only=ascii_only,
        )
        self._root = root
        self._wide: int | None = None
        """How wide it was made; None where the style sheet tells."""

    def show(self, views: Sequence[RunView]) -> None:
        """Show runs."""
        self.set_rows(views)
        self.fit()

    def fit(self) -> None:
        """Take the columns that the names need, on a screen of this width."""
        wide, columns = runs.fitted(self.rows, self._root, self.screen.size.width)
        if wide != self._wide:  # set anew it lays out the whole screen
            self._wide = self.styles.width = wide
        self.set_columns(columns)
