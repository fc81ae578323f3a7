"""What was removed and can still come back."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.widgets import Static

from ckptui import display
from ckptui.remove import DELETING, TrashItem
from ckptui.tui import keys, messages, work
from ckptui.tui.keys import Key, same
from ckptui.tui.screens.base import BrowserScreen
from ckptui.tui.screens.copying import CopyDialog
from ckptui.tui.screens.dialogs import InputDialog
from ckptui.tui.text import lines, safe
from ckptui.tui.widgets.table import Cell, Column, Table
from ckptui.tui.widgets.words import OneLine, SomeLines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual.widget import Widget

    from ckptui.checkpoint import Run

_DEEDS = {"restore", "restore_all", "delete_items", "empty_trash", "mark", "copy"}
"""What needs something in the trash."""


class TrashScreen(BrowserScreen):
    """A list of items; nothing goes for good without its number typed."""

    HEADING = "Trash"
    KEYS = (
        Key(
            key="r",
            shown="r",
            act="restore",
            word="restore",
            help="bring the marked items, or this one, back to where they were (also enter)",
            bar=True,
            changes=True,
        ),
        same("mark", help="mark the item for r, D and y"),
        Key(
            key="a",
            shown="a",
            act="restore_all",
            word="restore all",
            help="bring everything back",
            bar=True,
            changes=True,
        ),
        Key(
            key="E",
            shown="E",
            act="empty_trash",
            word="empty",
            help="delete everything in the trash for good, once its number is typed",
            bar=True,
            changes=True,
        ),
        Key(
            key="D",
            shown="D",
            act="delete_items",
            word="delete",
            help="delete the marked items, or this one, for good, once their number is typed",
            bar=True,
            changes=True,
        ),
        same("copy", help="copy the command that restores the marked items, or this one"),
        keys.BACK,
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        *keys.bindings(KEYS),
        Binding("T", "back", "back", show=False),
    ]

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run = run
        self._marked: set[str] = set()
        """Ids of the marked items."""
        self.items: tuple[TrashItem, ...] | None = None
        """What is in the trash, newest first; None until it was read."""
        self._failure = ""
        """Why it cannot be read now."""

    def parts(self) -> Iterable[Widget]:
        """The list, what is to know of one item, a line of words."""
        yield Table[TrashItem](
            id="trash",
            key=lambda item: item.id,
            cell=self._cell,
            columns=_columns(()),
            empty="Reading the trash ...",
            ascii_only=self.browser.ascii_only,
        )
        yield SomeLines(id="found")
        yield OneLine(id="status")

    def on_mount(self) -> None:
        """Read it in the background."""
        self.table.border_title = safe(f"Trash of {self._run.name}")
        self.set_focus(self.table)
        self._read_again()

    @property
    def table(self) -> Table[TrashItem]:
        """The items."""
        return self.query_one("#trash", Table)

    @property
    def chosen(self) -> list[TrashItem]:
        """The marked items, or the one under the cursor."""
        marked = [item for item in self.table.rows if item.id in self._marked]
        current = self.table.current
        return marked or ([current] if current is not None else [])

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
        if self.is_mounted and not self.browser.jobs.running("trash"):
            self._read_again()

    @on(messages.TrashListed)
    def _listed(self, event: messages.TrashListed) -> None:
        items = tuple(reversed(event.items))
        self.items = items
        if self._failure:
            self._failure = ""
            self.say("")
        self._marked &= {item.id for item in items}
        table = self.table
        table.set_empty("The trash is empty.")
        table.set_columns(_columns(items))
        table.set_rows(items)
        self._show_total()
        self.show_keys()

    @on(messages.JobFailed)
    def _failed(self, event: messages.JobFailed) -> None:
        event.stop()
        # What was read before may be anywhere by now: no key acts on it.
        self._failure, self.items = event.what, None
        self.table.set_empty(event.what)
        self.table.set_rows(())
        self.table.border_subtitle = ""
        self.say(event.what)
        self.show_keys()

    # What is shown

    def _show_total(self) -> None:
        items = self.table.rows
        count = display.plural(len(items), "item")
        words = f"{count}, emptying frees {_size(items)}" if items else "empty"
        marked = [item for item in items if item.id in self._marked]
        if marked:
            words = f"{len(marked)} marked, {_size(marked)}; {words}"
        self.table.border_subtitle = safe(words)

    @on(Table.Moved)
    def _show_item(self) -> None:
        item = self.table.current
        found = [] if item is None else [f" {line}" for line in about(item)]
        self.query_one("#found", Static).update(lines(*found))

    def _cell(self, item: TrashItem, column: Column) -> Cell:
        match column.key:
            case "flag":
                flags = "x" * (item.id in self._marked)
                flags += "!" * bool(item.problems) + "P" * item.pinned
                return flags, "bad" if item.problems else "accent"
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

    # Keys

    def why_not(self, key: Key) -> str | None:
        """Why a key does nothing now."""
        return self._out_of_place(key) or super().why_not(key)

    def usable(self, key: Key) -> bool:
        """Whether a key is worth a place in the key bar now."""
        return self._out_of_place(key) is None and super().usable(key)

    def _out_of_place(self, key: Key) -> str | None:
        if key.act in _DEEDS and not self.items:
            if self.items is None:
                return self._failure or "The trash is being read."
            return "The trash is empty."
        return None

    @on(Table.Chosen)
    async def _enter(self) -> None:
        await self.action_press("restore")

    def action_mark(self) -> None:
        """Mark the item under the cursor, or unmark it, and go on to the next."""
        item = self.table.current
        if item is not None:
            self._marked ^= {item.id}
            self.table.refresh_rows()
            self.table.action_move(1)
            self._show_total()

    def action_restore(self) -> None:
        """Bring the chosen items back."""
        self._restore(self.chosen)

    def action_restore_all(self) -> None:
        """Bring everything back."""
        self._restore(self.items or ())

    def _restore(self, items: Iterable[TrashItem]) -> None:
        items = tuple(items)
        ids = [item.id for item in items]
        names = [name for item in items for name in item.names]
        if self.browser.jobs.running("restore"):
            self.say("Still restoring; try again in a moment.")
            return
        self.say(f"Restoring {len(ids)} ...")
        self.browser.changes.restore(self._run.path, ids, names)

    def action_empty_trash(self) -> None:
        """Delete everything in the trash for good, once its number is typed."""
        self._delete("Empty the trash", self.items or (), named=False)

    def action_delete_items(self) -> None:
        """Delete the chosen items for good, once their number is typed."""
        self._delete("Delete for good", self.chosen, named=True)

    def _delete(self, title: str, items: Sequence[TrashItem], *, named: bool) -> None:
        """Ask, and delete exactly what was named then."""
        if self.browser.jobs.running("empty"):
            self.say("Still deleting; try again in a moment.")
            return
        count = len(items)
        names = ", ".join(item.name for item in items[:5])
        more = f" and {count - 5} more" if count > 5 else ""
        pinned = sum(1 for item in items if item.pinned)
        them = "it" if count == 1 else "them"
        words = [
            f"This deletes {display.plural(count, 'item')} ({_size(items)}) for good: "
            f"{names}{more}. Nothing brings {them} back."
        ]
        if pinned:
            words.append(f"! {pinned} of them {'is' if pinned == 1 else 'are'} pinned.")
        words.append(f"Type {count} to do it.")

        def answered(line: str | None) -> None:
            if line is not None:
                self.say(f"Deleting {count} ...")
                self.browser.changes.empty_trash(self._run.path, items)

        ids = [item.id for item in items] if named else []
        same = shlex.join(["ckptui", "trash", "empty", *ids, "--run", str(self._run.path)])
        self.browser.push_screen(
            InputDialog(title, words, wanted=str(count), command=lambda _: same), answered
        )

    def action_copy(self) -> None:
        """Copy the command that restores the chosen items."""
        ids = [item.id for item in self.chosen]
        line = shlex.join(["ckptui", "trash", "restore", *ids, "--run", str(self._run.path)])
        self.browser.push_screen(CopyDialog("Restore from a shell", line))

    def action_back(self) -> None:
        """Forget the marks, then go back."""
        if self._marked:
            self._marked.clear()
            self.table.refresh_rows()
            self._show_total()
        else:
            self.dismiss()


def about(item: TrashItem) -> list[str]:
    """What there is to know of an item before it is brought back or deleted."""
    found = []
    if item.id.endswith(DELETING):
        found.append("! Its deletion had begun, so it cannot come back; D finishes it.")
    found += [f"! {p.what}" for p in item.problems if not item.id.endswith(DELETING)]
    if item.why == "rewind":
        found.append(
            f"A rewind left {'this' if len(item.names) == 1 else 'these'} behind: a later attempt "
            "trained the steps anew. Restored, it is an abandoned branch that no rule counts."
        )
    if len(item.names) > 1:
        found.append(f"{len(item.names)} checkpoints come back together: {item.name}")
    if item.pinned:
        found.append("Its pin waits for it: restored it is pinned again; deleting drops the pin.")
    return found or [f"{item.name}: in the trash by {item.why}, id {item.id}"]


def _size(items: Iterable[TrashItem]) -> str:
    return display.size(sum(item.size for item in items))


def _columns(items: Sequence[TrashItem]) -> tuple[Column, ...]:
    width = min(30, max([10, *(len(item.name) for item in items)]))
    return (
        Column(key="flag", title="", width=3, rank=1),
        Column(key="name", title="Checkpoint", width=width, rank=0),
        Column(key="size", title="Size", width=9, right=True, rank=2),
        Column(key="age", title="Moved", width=7, right=True, rank=3),
        Column(key="why", title="By", width=6, rank=4),
        Column(key="id", title="Item", width=20, grows=True, rank=5),
    )
