"""What was done to a run, newest first."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import BindingType
from textual.widgets import Input, Static

from ckptui.journal import Event
from ckptui.tui import keys, messages, work
from ckptui.tui.keys import same
from ckptui.tui.screens.base import BrowserScreen
from ckptui.tui.screens.copying import CopyMenu
from ckptui.tui.text import lines, safe
from ckptui.tui.widgets.line import Line
from ckptui.tui.widgets.table import Cell, Column, Table
from ckptui.tui.widgets.words import OneLine, SomeLines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.widget import Widget

    from ckptui.checkpoint import Run
    from ckptui.tui.widgets.keybar import Hint

COLUMNS = (
    Column(key="time", title="Time (UTC)", width=19, rank=2),
    Column(key="what", title="What", width=8, rank=0),
    Column(key="names", title="Checkpoints", width=14, grows=True, rank=1),
    Column(key="reason", title="Reason", width=14, grows=True, rank=3),
    Column(key="who", title="Who", width=14, rank=4),
)

Row = tuple[int, Event, str]
"""Its place in the journal, the event, and what a search looks at."""


class JournalScreen(BrowserScreen):
    """A list of events."""

    HEADING = "Journal"
    KEYS = (
        same("filter", help="show only events that hold all the words", word="search"),
        same("copy", help="copy the event, or the command that lists the journal"),
        keys.BACK,
    )
    BINDINGS: ClassVar[list[BindingType]] = keys.bindings(KEYS)

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run = run
        self._rows: tuple[Row, ...] = ()

    def parts(self) -> Iterable[Widget]:
        """The line to search with, the list, the event in full, what is wrong with the journal."""
        yield Line(id="words", classes="framed", select_on_focus=False)
        yield Table[Row](
            id="journal",
            key=lambda row: row[0],
            cell=_cell,
            columns=COLUMNS,
            empty="Reading the journal ...",
            ascii_only=self.browser.ascii_only,
        )
        yield SomeLines(id="found")
        yield OneLine(id="status")

    def on_mount(self) -> None:
        """Read it in the background."""
        line = self.query_one("#words", Line)
        line.border_title = "Search"
        line.display = False
        self.table.border_title = safe(f"Journal of {self._run.name}")
        self.set_focus(self.table)
        self._read_again()

    @property
    def table(self) -> Table[Row]:
        """The events."""
        return self.query_one("#journal", Table)

    def _read_again(self) -> None:
        path = self._run.path
        self.browser.start(
            "journal", "reading the journal", lambda _: work.read_journal(path), target=self
        )

    def state_changed(self) -> None:
        """Something was done to the run: it may stand in the journal."""
        if self.is_mounted and not self.browser.jobs.running("journal"):
            self._read_again()

    def say(self, words: str) -> None:
        """Show a line of words."""
        self.query_one("#status", Static).update(safe(f" {words}"))

    @on(messages.JournalRead)
    def _read(self, event: messages.JournalRead) -> None:
        events = tuple(enumerate(event.events))
        self._rows = tuple((i, e, " ".join(_pieces(e)).lower()) for i, e in reversed(events))
        if event.problems:
            self.say(f"! {'; '.join(event.problems)}")
        self._show()

    @on(messages.JobFailed)
    def _failed(self, event: messages.JobFailed) -> None:
        event.stop()
        self.table.set_empty(event.what)
        self.say(f"! {event.what}")

    def _show(self) -> None:
        wanted = self.query_one("#words", Line).value.lower().split()
        rows = [row for row in self._rows if all(word in row[2] for word in wanted)]
        table = self.table
        none = "Nothing was recorded yet." if not self._rows else "No event holds these words."
        table.set_empty(none)
        table.set_rows(rows)
        count = f"{len(rows)} of {len(self._rows)}" if wanted else str(len(self._rows))
        table.border_subtitle = safe(f"{count} event{'' if len(self._rows) == 1 else 's'}")

    @on(Table.Moved)
    def _show_event(self) -> None:
        row = self.table.current
        pieces = [f" {piece}" for piece in _pieces(row[1])[1:]] if row is not None else []
        self.query_one("#found", Static).update(lines(*pieces))

    # Keys

    def action_filter(self) -> None:
        """Type words to search for."""
        line = self.query_one("#words", Line)
        line.display = True
        self.set_focus(line)

    @on(Input.Changed, "#words")
    def _typed(self) -> None:
        self._show()

    @on(Input.Submitted, "#words")
    def _searched(self) -> None:
        self.set_focus(self.table)

    def line_hints(self) -> tuple[list[Hint], Hint] | None:
        """In the line that is searched for."""
        if not any(line.has_focus for line in self.query("#words")):
            return None
        return [("enter", "to the list")], ("esc", "show all")

    def on_descendant_focus(self) -> None:
        """Other keys count in the line than elsewhere."""
        self.show_keys()

    def action_copy(self) -> None:
        """Copy the event under the cursor, or the command that lists them all."""
        found = [("command: the journal", shlex.join(["ckptui", "log", str(self._run.path)]))]
        row = self.table.current
        if row is not None:
            event = row[1]
            found.insert(0, ("this event", "  ".join(_pieces(event))))
            if event.checkpoints:
                found.append(("names of the checkpoints", " ".join(event.checkpoints)))
        self.browser.push_screen(CopyMenu("Copy", found))

    def action_back(self) -> None:
        """Forget the search, then go back."""
        line = self.query_one("#words", Line)
        if not line.display:
            self.dismiss()
            return
        line.value = ""
        line.display = False
        self.set_focus(self.table)


def _pieces(event: Event) -> list[str]:
    """An event in full: when and what, the checkpoints, why, who."""
    found = [f"{_time(event)} {event.what}"]
    if event.checkpoints:
        found.append(", ".join(event.checkpoints))
    if event.reason:
        found.append(f"reason: {event.reason}")
    who = _who(event)
    return [*found, f"by {who}"] if who else found


def _time(event: Event) -> str:
    return f"{event.time:%Y-%m-%d %H:%M:%S}" if event.time else "-"


def _who(event: Event) -> str:
    return "@".join(part for part in (event.who, event.host) if part)


def _cell(row: Row, column: Column) -> Cell:
    event = row[1]
    match column.key:
        case "time":
            return _time(event), "dim"
        case "what":
            return event.what, "strong"
        case "names":
            return ", ".join(event.checkpoints)
        case "reason":
            return event.reason or "", "dim"
        case _:
            return _who(event), "dim"
