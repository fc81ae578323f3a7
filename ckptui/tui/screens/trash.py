"""What was removed and can still come back."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.widgets import Static

from ckptui import display
from ckptui.remove import TrashItem
from ckptui.tui import messages, work
from ckptui.tui.screens.base import BrowserScreen
from ckptui.tui.screens.dialogs import InputDialog
from ckptui.tui.text import safe
from ckptui.tui.widgets.keybar import KeyBar
from ckptui.tui.widgets.table import Cell, Column, Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.widget import Widget

    from ckptui.checkpoint import Run

HINTS = [("enter", "restore"), ("a", "restore all"), ("E", "empty the trash"), ("esc", "back")]


class TrashScreen(BrowserScreen):
    """A list of items; nothing goes for good without its number typed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "restore", "restore", show=False),
        Binding("a", "restore_all", "restore all", show=False),
        Binding("E", "empty", "empty the trash", show=False),
        Binding("T", "back", "back", show=False),
    ]

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run = run

    def parts(self) -> Iterable[Widget]:
        """The list and a line of words."""
        yield Table[TrashItem](
            id="trash",
            key=lambda item: item.id,
            cell=self._cell,
            columns=self._columns(()),
            empty="Reading the trash ...",
            ascii_only=self.browser.ascii_only,
        )
        yield Static(id="status")
        yield KeyBar(HINTS)

    def on_mount(self) -> None:
        """Read it in the background."""
        self.table.border_title = safe(f"Trash of {self._run.name}")
        self.table.focus()
        self._read_again()

    @property
    def table(self) -> Table[TrashItem]:
        """The items."""
        return self.query_one("#trash", Table)

    def say(self, words: str) -> None:
        """Show a line of words."""
        self.query_one("#status", Static).update(safe(f" {words}"))

    def _read_again(self) -> None:
        path = self._run.path
        self.browser.start(
            "trash", "reading the trash", lambda _: work.list_trash(path), target=self
        )

    def state_changed(self) -> None:
        """The run was read again: so is its trash."""
        if not self.browser.jobs.running("trash"):
            self._read_again()

    @on(messages.TrashListed)
    def _listed(self, event: messages.TrashListed) -> None:
        items = list(reversed(event.items))
        self.table.set_empty("The trash is empty.")
        self.table.set_columns(self._columns(items))
        self.table.set_rows(items)
        total = display.size(sum(item.size for item in items))
        self.table.border_subtitle = safe(f"{len(items)} items, {total}")

    @on(messages.JobFailed)
    def _failed(self, event: messages.JobFailed) -> None:
        event.stop()
        self.table.set_empty(event.what)
        self.say(event.what)

    def _columns(self, items: Iterable[TrashItem]) -> tuple[Column, ...]:
        width = min(26, max([10, *(len(item.name) for item in items)]))
        return (
            Column(key="flag", title="", width=1, rank=4),
            Column(key="name", title="Checkpoint", width=width, rank=0),
            Column(key="size", title="Size", width=9, right=True, rank=1),
            Column(key="age", title="Moved", width=9, right=True, rank=2),
            Column(key="why", title="By", width=6, rank=3),
            Column(key="id", title="Id", width=22, grows=True, rank=5),
        )

    def _cell(self, item: TrashItem, column: Column) -> Cell:
        match column.key:
            case "flag":
                return ("!", "bad") if item.problems else ("P" if item.pinned else "", "accent")
            case "name":
                return item.name, "strong"
            case "size":
                return display.size(item.size)
            case "age":
                return display.age(item.when, self.browser.clock()), "dim"
            case "why":
                return item.why
            case _:
                problems = "; ".join(p.what for p in item.problems)
                return (problems, "bad") if problems else (item.id, "dim")

    @on(Table.Chosen)
    def _chosen(self) -> None:
        self.action_restore()

    def action_restore(self) -> None:
        """Bring the item under the cursor back."""
        item = self.table.current
        if item is not None:
            self._restore([item])

    def action_restore_all(self) -> None:
        """Bring everything back."""
        self._restore(self.table.rows)

    def _restore(self, items: Iterable[TrashItem]) -> None:
        ids = [item.id for item in items]
        if self.browser.jobs.running("restore") or not ids:
            return
        self.say(f"Restoring {len(ids)} ...")
        self.browser.changes.restore(self._run.path, ids)

    def action_empty(self) -> None:
        """Delete everything in the trash for good, once its number is typed."""
        items = self.table.rows
        if not items:
            self.say("There is nothing to delete.")
            return
        count = len(items)
        total = display.size(sum(item.size for item in items))
        words = (
            f"This deletes {count} item{'' if count == 1 else 's'} ({total}) for good; "
            f"nothing brings them back.\nType {count} to do it."
        )

        def answered(line: str | None) -> None:
            if line is not None:
                self.say(f"Deleting {count} ...")
                self.browser.changes.empty_trash(self._run.path, items)

        self.browser.push_screen(InputDialog("Empty the trash", words, wanted=str(count)), answered)
