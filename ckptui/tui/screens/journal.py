"""What was done to a run, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import on

from ckptui.journal import Event
from ckptui.tui import messages, work
from ckptui.tui.screens.base import BrowserScreen
from ckptui.tui.text import safe
from ckptui.tui.widgets.keybar import KeyBar
from ckptui.tui.widgets.table import Cell, Column, Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.widget import Widget

    from ckptui.checkpoint import Run

COLUMNS = (
    Column(key="time", title="Time (UTC)", width=19, rank=2),
    Column(key="what", title="What", width=8, rank=0),
    Column(key="names", title="Checkpoints", width=14, grows=True, rank=1),
    Column(key="reason", title="Reason", width=14, grows=True, rank=3),
    Column(key="who", title="Who", width=14, rank=4),
)

Line = tuple[int, Event]


class JournalScreen(BrowserScreen):
    """A list of events."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run = run

    def parts(self) -> Iterable[Widget]:
        """The list."""
        yield Table[Line](
            id="journal",
            key=lambda line: line[0],
            cell=_cell,
            columns=COLUMNS,
            empty="Reading the journal ...",
            ascii_only=self.browser.ascii_only,
        )
        yield KeyBar([("up down", "move"), ("esc", "back")])

    def on_mount(self) -> None:
        """Read it in the background."""
        table = self.query_one(Table)
        table.border_title = safe(f"Journal of {self._run.name}")
        table.focus()
        path = self._run.path
        self.browser.start(
            "journal", "reading the journal", lambda _: work.read_journal(path), target=self
        )

    @on(messages.JournalRead)
    def _read(self, event: messages.JournalRead) -> None:
        table: Table[Line] = self.query_one(Table)
        table.set_empty("Nothing was recorded yet.")
        table.set_rows(list(enumerate(event.events))[::-1])
        if event.problems:
            table.border_subtitle = safe("; ".join(event.problems))

    @on(messages.JobFailed)
    def _failed(self, event: messages.JobFailed) -> None:
        event.stop()
        self.query_one(Table).set_empty(event.what)


def _cell(line: Line, column: Column) -> Cell:
    event = line[1]
    match column.key:
        case "time":
            return (f"{event.time:%Y-%m-%d %H:%M:%S}" if event.time else "-"), "dim"
        case "what":
            return event.what, "strong"
        case "names":
            return ", ".join(event.checkpoints)
        case "reason":
            return event.reason or "", "dim"
        case _:
            return "@".join(part for part in (event.who, event.host) if part), "dim"
