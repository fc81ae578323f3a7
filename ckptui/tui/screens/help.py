"""The keys, the letters and the words, searched as one types; Enter does what an entry says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual import on
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from ckptui.tui import palette, runs
from ckptui.tui.planned import wrap
from ckptui.tui.screens.base import BrowserScreen
from ckptui.tui.text import plain, safe
from ckptui.tui.widgets.keybar import KeyBar
from ckptui.tui.widgets.line import Line
from ckptui.tui.widgets.options import Options
from ckptui.tui.widgets.words import OneLine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events

    from ckptui.tui.jobs import Job
    from ckptui.tui.palette import Entry
    from ckptui.tui.snapshot import RunView

_KEY_WIDTH = 11
"""Cells for a key; what it does stands after them, also where it goes on in the next line."""


class Search(Line):
    """The line at the top; `?` and `:` in an empty one mean what they meant before."""

    def on_key(self, event: events.Key) -> None:
        """Leave alone what is no search."""
        if not self.value and event.character in {"?", ":", "/"}:
            event.prevent_default()
            event.stop()
            if event.character == "?":
                self.screen.dismiss()


class HelpScreen(BrowserScreen):
    """All there is to know, as a list that can be searched and acted on."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "up", show=False),
        Binding("down", "move(1)", "down", show=False),
        Binding("pageup", "page(-1)", "page up", show=False),
        Binding("pagedown", "page(1)", "page down", show=False),
        Binding("f1", "back", "back", show=False),
    ]

    @dataclass
    class LookedUp(Message):
        """The other screens and the names are known."""

        screens: Sequence[type[BrowserScreen]]
        names: palette.Names

    def __init__(self, screen: BrowserScreen | None = None, *, search: bool = False) -> None:
        """Prepare the page.

        Args:
            screen: Where it is opened from, which does what an entry says; None is the first one.
            search: Whether the names of runs and checkpoints are looked for as well.
        """
        super().__init__()
        self._from = screen
        self._search = search
        self._shown: tuple[Entry | None, ...] = ()
        """What stands at each place of the list; None for a heading."""
        self._names = palette.Names(())
        self._named: tuple[RunView, ...] = ()
        """The runs whose names are known."""
        self._all: list[Entry] = []
        self._others: list[Entry] = []
        """The keys of other screens, once they are known."""

    def parts(self) -> Sequence[Line | OptionList | Static | KeyBar]:
        """The line to search with, the list, a line of words, the keys."""
        return (
            Search(id="search", placeholder="type to search", select_on_focus=False),
            Options(id="entries"),
            OneLine(id="status"),
            KeyBar([("enter", "do it"), ("up down", "move"), ("type", "search")], last=_WAY_OUT),
        )

    def on_mount(self) -> None:
        """Type right away."""
        line = self.query_one("#search", Line)
        line.border_title = "Go to, or do" if self._search else "Help"
        self.set_focus(line)
        self._all = [
            *palette.of_screen(self._opened_from),
            *palette.moves(self._opened_from),
            *palette.words(),
        ]
        self.query_one(OptionList).can_focus = False
        self._fill()
        self._look_up()

    @property
    def _opened_from(self) -> BrowserScreen:
        return self._from if self._from is not None else self.browser.main

    # What is listed

    def _look_up(self) -> None:
        """Find in the background what takes longer: the other screens, thousands of names."""
        views = tuple(self.browser.reader.views.values()) if self._names_wanted else ()
        self._named = views
        root = self.browser.path

        def look(_: Job) -> Message:
            # Only here: the browser starts faster without the screens that are not open yet.
            from ckptui.tui.every_key import all_screens  # noqa: PLC0415

            names = palette.Names((runs.name(view, root), view.run) for view in views)
            return self.LookedUp(all_screens(), names)

        self.browser.start("help", "looking up names", look, target=self)

    @property
    def _names_wanted(self) -> bool:
        return self._search and self._opened_from is self.browser.main

    @on(LookedUp)
    def _looked_up(self, event: LookedUp) -> None:
        self._names = event.names
        self._others = palette.of_others(self._opened_from, event.screens)
        self._fill()

    def state_changed(self) -> None:
        """Runs and checkpoints came or went: their names are looked up anew."""
        views = tuple(self.browser.reader.views.values())
        same = len(views) == len(self._named) and all(
            a is b for a, b in zip(views, self._named, strict=True)
        )
        if self.is_mounted and self._names_wanted and not same:
            self._look_up()

    def _fill(self, *, stay: bool = True) -> None:
        """Show what matches; the cursor stays on its entry, or goes to the first one."""
        text = self.query_one("#search", Line).value
        found = palette.find([*self._all, *self._others], text)
        if text.strip():
            deeds = [e for e in found if e.act is not None]
            rest = [e for e in found if e.act is None]
            found = [*deeds, *self._names.find(text), *rest]
        width = max(20, self.size.width - 6)
        rows: list[tuple[Entry | None, Content]] = []
        group = None
        for entry in found:
            if entry.group != group:
                group = entry.group
                rows.append((None, Content.styled(f" {plain(group)}", "bold")))
            rows.append((entry, _lines(entry, width)))
        options = self.query_one(OptionList)
        at = options.highlighted
        before = self._shown[at] if stay and at is not None and at < len(self._shown) else None
        self._shown = tuple(entry for entry, _ in rows)
        options.set_options([Option(content, disabled=entry is None) for entry, content in rows])
        first = next((i for i, e in enumerate(self._shown) if e is not None), None)
        kept = before is not None and before in self._shown
        options.highlighted = self._shown.index(before) if kept else first
        if options.highlighted == first:
            options.scroll_home(animate=False)  # the heading above it
        none = "Nothing is called so." if self._search else "Nothing like that; : looks for names."
        self.say("" if rows else none)

    def on_resize(self) -> None:
        """The lines are made to measure."""
        self.call_after_refresh(self._fill)

    def say(self, words: str) -> None:
        """Show a line of words."""
        self.query_one("#status", Static).update(safe(f" {words}"))

    # Keys

    @on(Input.Changed)
    def _typed(self) -> None:
        self._fill(stay=False)

    def action_move(self, by: int) -> None:
        """Move in the list by entries, wherever the focus is; headings are no entries."""
        options = self.query_one(OptionList)
        places = [i for i, entry in enumerate(self._shown) if entry is not None]
        if options.highlighted is None or not places:
            return
        at = places.index(options.highlighted) + by
        options.highlighted = places[max(0, min(at, len(places) - 1))]
        if at <= 0:
            options.scroll_home(animate=False)  # the heading above the first one

    def action_page(self, by: int) -> None:
        """Move in the list by as many entries as fit at least."""
        self.action_move(by * max(1, self.query_one(OptionList).size.height // 2))

    def action_back(self) -> None:
        """Forget what was typed, then go back."""
        line = self.query_one("#search", Line)
        if line.value:
            line.value = ""
        else:
            self.dismiss()

    @on(Input.Submitted)
    def _submitted(self) -> None:
        at = self.query_one(OptionList).highlighted
        if at is not None:
            self._do(self._shown[at])

    @on(OptionList.OptionSelected)
    def _clicked(self, event: OptionList.OptionSelected) -> None:
        self._do(self._shown[event.option_index])

    def _do(self, entry: Entry | None) -> None:
        if entry is None:
            return
        if entry.why_not is not None:
            self.say(f"Not now: {entry.why_not}")
        elif entry.act is not None:
            self.dismiss()
            self.browser.call_later(self._opened_from.action_press, entry.act)
        elif entry.place is not None and entry.run is not None:
            self.dismiss()
            self.browser.choose_run(entry.run)
            if entry.place != entry.run:
                self.browser.main.select(entry.place)
        else:
            self.say(f"This is only to be read; it belongs to: {entry.group}.")


_WAY_OUT = ("esc", "back")


def _lines(entry: Entry, width: int) -> Content:
    """A key and what it does, in lines of at most `width` cells with a hanging indent."""
    text = plain(entry.text)
    if entry.why_not is not None:
        text += f" (not now: {plain(entry.why_not)})"
    style = "dim" if entry.why_not is not None else ""
    shown = plain(entry.shown)
    if not shown:
        return Content.styled(f"  {text}", style)
    lines = wrap(text, width - _KEY_WIDTH - 3)
    gap = " " * max(1, _KEY_WIDTH - cell_len(shown))
    first = Content.assemble((f"  {shown}", "bold"), (gap + lines[0], style))
    indent = " " * (_KEY_WIDTH + 2)
    return Content("\n").join(
        [first, *(Content.styled(indent + line, style) for line in lines[1:])]
    )
