"""Everything about one checkpoint, page by page."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import Input, Static

from ckptui import display
from ckptui.tui import facts, inspecting, keys, messages
from ckptui.tui.page_reader import AROUND, PageRead, PageReader
from ckptui.tui.pages import Entry, Page
from ckptui.tui.screens import about, actions
from ckptui.tui.screens.base import BrowserScreen
from ckptui.tui.screens.compare import CompareScreen
from ckptui.tui.screens.detail_keys import ABOUT_IT, KEYS, TABS
from ckptui.tui.text import lines, safe
from ckptui.tui.widgets.detail import fact_lines
from ckptui.tui.widgets.line import Line
from ckptui.tui.widgets.table import Cell, Column, Table
from ckptui.tui.widgets.tabs import Tabs
from ckptui.tui.widgets.words import OneLine, SomeLines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from textual.binding import BindingType
    from textual.widget import Widget

    from ckptui.tui.keys import Key
    from ckptui.tui.listing import Look
    from ckptui.tui.snapshot import Row, RunView
    from ckptui.tui.widgets.keybar import Hint

PATIENCE: Final = 0.3
"""Seconds before a page says that it is being read."""


class DetailScreen(BrowserScreen):
    """Pages about one checkpoint: each is read when it is first opened."""

    KEYS = KEYS
    HEADING = "One checkpoint"
    BINDINGS: ClassVar[list[BindingType]] = keys.bindings(KEYS)

    def __init__(self, row: Row, look: Look) -> None:
        super().__init__()
        self._row = row
        self._look = look
        self.gone: str | None = None
        """Why the checkpoint cannot be acted on any more, in a sentence."""
        self.tab = TABS[0]
        self._filters: dict[str, str] = {}
        self._doubted: set[Path] = set()
        """Checkpoints that looked complete and are not; read again once."""
        self._everything = False
        self._about = ""
        """The page that the line of words tells a problem of, if it does."""
        self._view: RunView | None = None
        self._drawn: tuple[object, ...] = ()
        """What the table and the titles were made from."""
        self._of: tuple[Row, Look] = (row, look)
        self._asked: tuple[object, ...] = ()
        """What the overview was made from, and how."""
        self._ready = False

    def parts(self) -> Iterable[Widget]:
        """The names of the pages, the pages, the line under the cursor in full, words."""
        yield Tabs(TABS, id="tabs")
        with VerticalScroll(id="overview", classes="page"):
            yield Static(id="page-text")
        for tab in TABS[1:]:
            table = Table[Entry](
                id=tab, key=lambda e: e.key, cell=_cell, ascii_only=self.browser.ascii_only
            )
            table.display = False
            yield table
        yield SomeLines(id="whole")
        with Horizontal(id="filter-line") as line:
            line.display = False
            yield Static(" / ")
            yield Line(id="filter", compact=True, placeholder="words that a line must hold")
        yield OneLine(id="status")

    @property
    def row(self) -> Row:
        """The checkpoint."""
        return self._row

    @property
    def page(self) -> Page | None:
        """The page that is open, as far as it is read."""
        return self._reader.pages.get(self.tab)

    @property
    def table(self) -> Table[Entry]:
        """The table of the open page; not for the overview."""
        return self.query_one(f"#{self.tab}", Table)

    def on_mount(self) -> None:
        """Show the overview."""
        self._reader = PageReader(self.browser, self)
        self._ready = True
        self._open(self.tab)
        self.state_changed()

    def on_screen_resume(self) -> None:
        """What was done on another screen meanwhile, verified for one, is shown."""
        self.state_changed()

    def on_resize(self) -> None:
        """Wrap to the width there is."""
        self.call_after_refresh(self._draw_overview)

    # What the app tells

    def state_changed(self) -> None:
        """The same checkpoint as it is known now; pages that may say something else are read."""
        if not self._ready:
            return
        old, old_view = self._row, self._view
        self._find()
        if old.checkpoint != self._row.checkpoint:
            self._reader.outdate(TABS)
        elif self._view is not None and old_view is not None and self._view.rows != old_view.rows:
            self._reader.outdate(AROUND)
        before, self._look = facts.verdict(old, self._look), self.browser.main.look
        if before != facts.verdict(self._row, self._look):
            self._reader.outdate(["files"])
        self._read_if_due()
        self._show()

    def _read_if_due(self) -> None:
        """Read the open page where it is not read, or outdated."""
        if self.tab == "overview" or self._reader.asked(self.tab):
            return
        if self.gone is not None and self.page is not None and self.tab != "lineage":
            return  # what was seen last is better than an error
        self._reader.read(self.tab, self._row, self._view)
        self.set_timer(PATIENCE, self._say_reading)

    def _find(self) -> None:
        """Look the checkpoint up in what is known, by its path and identity."""
        c = self._row.checkpoint
        view = self.browser.reader.views.get(self._row.run.path)
        self.gone = f"{c.name} is gone."
        if view is None:
            return
        self._view = view
        for row in view.rows:
            if row.checkpoint.name != c.name or row.gone:
                continue
            published = c.staged and not row.checkpoint.staged
            if row.checkpoint.path != c.path and not published:
                continue
            if row.checkpoint.identity != c.identity and not (published or c.staged or row.unread):
                self.gone = f"{c.name} is gone; another checkpoint has its name now."
                continue
            self._row, self.gone = row, None
            return

    # Pages

    def _open(self, tab: str) -> None:
        self.tab = tab
        if self._about not in {"", tab}:
            self.say("")  # it was about another page
            self._about = ""
        self._show_filter_line(shown=False)
        for name in TABS:
            self.query_one(f"#{name}").display = name == tab
        self.set_class(tab == "overview", "-overview")
        self.set_focus(self._lines_shown)
        self._read_if_due()
        self._show()
        self._moved()
        # What was hidden has no width before it is laid out.
        self.call_after_refresh(self._draw_overview)

    @property
    def _lines_shown(self) -> Widget:
        """What shows the open page."""
        return self.query_one(f"#{self.tab}")

    def _say_reading(self) -> None:
        if self.tab != "overview" and self.page is None and not self._reader.failures:
            self.table.set_empty("Reading ...")

    @on(PageRead)
    def _page_read(self, event: PageRead) -> None:
        if self._reader.take(event):
            if event.page.problems and event.tab == self.tab:
                self.say(event.page.problems[0])
                self._about = event.tab
            self._show()
            c = self._row.checkpoint
            if event.page.damaged and c.complete and c.path not in self._doubted:
                # The list looks at files again only where their folder has changed.
                self._doubted.add(c.path)
                self.say("Files are not as recorded: the run is read again.")
                self.browser.reader.read_all()

    @on(messages.JobFailed)
    def _failed(self, event: messages.JobFailed) -> None:
        event.stop()
        if self._reader.take_failure(event):
            self._show()
        else:
            self.say(event.what)

    @on(Tabs.Chosen)
    def _tab_clicked(self, event: Tabs.Chosen) -> None:
        self._open(TABS[event.index])

    # What is shown

    def _show(self) -> None:
        self._show_tabs()
        if self.tab == "overview":
            self._draw_overview()
        else:
            self._show_table()
        self.show_keys()

    def _show_tabs(self) -> None:
        listed, at = self._place()
        place = "" if at is None else f"{at + 1} of {len(listed)}"
        self.query_one(Tabs).show(TABS.index(self.tab), place)

    def _title(self) -> str:
        c = self._row.checkpoint
        pin = ", pinned" if c.pinned else ""
        failed = f", {facts.FAILED}" if facts.verdict(self._row, self._look) == "failed" else ""
        return f"{c.name}  GONE" if self.gone else f"{c.name}  {c.state}{failed}{pin}"

    def _draw_overview(self) -> None:
        page = self.query_one("#overview")
        width = page.scrollable_content_region.width
        wanted = self._filters.get(self.tab, "")
        of, asked = (self._row, self._look), (width, self._title(), self.gone, wanted)
        same = self._asked == asked and all(a is b for a, b in zip(of, self._of, strict=True))
        if self.tab != "overview" or width <= 0 or same:
            return
        self._of, self._asked = of, asked
        row = self._row
        if self.gone is not None:
            row = replace(row, gone=f"{self.gone} What follows is the last that was seen.")
        found = facts.full(row, self._look, width=width, ascii_only=self.browser.ascii_only)
        count = len(found)
        if wanted:
            found = facts.holding(found, wanted)
        drawn = ("overview", self._title(), width, found, wanted)
        if drawn != self._drawn:
            self._drawn = drawn
            page.border_title = safe(self._title())
            shown = f"/{wanted}: {len(found)} of {count} shown" if wanted else ""
            page.border_subtitle = safe(shown)
            none = [facts.Fact("", f"No line holds {wanted}.", "dim", wide=True)]
            self.query_one("#page-text", Static).update(fact_lines(found or none, width))

    def _show_table(self) -> None:
        table, page = self.table, self.page
        failure = self._reader.failures.get(self.tab)
        wanted = self._filters.get(self.tab, "")
        drawn = (self.tab, self._title(), page, failure, wanted, self._everything)
        if drawn == self._drawn:
            return  # a screen full of the same is not written again
        self._drawn = drawn
        table.border_title = safe(self._title())
        if page is None:  # what another checkpoint said must not stand under this one's name
            table.set_empty(self.gone or failure or "")
            table.set_rows(())
            table.border_subtitle = ""
            return
        if failure is not None:
            self.say(failure)
            self._about = self.tab
        table.set_columns(page.columns)
        shown = self._filtered(page)
        none = f"No line holds {wanted}." if wanted else page.empty
        table.set_empty(none if page.entries or self.gone is None else self.gone)
        table.set_rows(shown)
        count = f"/{wanted}: {len(shown)} of {len(page.entries)} shown, " if wanted else ""
        problems = f", {display.plural(len(page.problems), 'problem')}" if page.problems else ""
        table.border_subtitle = safe(count + page.title + problems)

    def _filtered(self, page: Page) -> list[Entry]:
        words = self._filters.get(self.tab, "").lower().split()
        everything = self.tab != "config" or self._everything
        return [
            e
            for e in page.entries
            if (everything or e.differs) and all(word in e.words for word in words)
        ]

    @on(Table.Moved)
    def _moved(self) -> None:
        if self.tab == "overview":
            return
        entry, page = self.table.current, self.page
        if entry is not None:
            text = lines(*(f" {line}" for line in entry.whole if line))
        else:
            text = lines(*(f" {line}" for line in (page.problems[:3] if page else ())))
        self.query_one("#whole", Static).update(text)

    @on(Table.Chosen)
    def _chosen(self) -> None:
        self.action_back()

    def say(self, words: str) -> None:
        """Show a line of words."""
        if self._ready:
            self.query_one("#status", Static).update(safe(f" {words}"))

    # Keys

    def why_not(self, key: Key) -> str | None:
        """Keys of single pages, and deeds that need the checkpoint to be there."""
        if key.act in ABOUT_IT and self.gone is not None:
            return self.gone
        if key.act == "only" and self.tab != "config":
            return f"o is for the settings: {TABS.index('config') + 1} opens them."
        if key.act == "compare" and self._row.checkpoint.parent is None:
            return inspecting.no_parent(self._row.checkpoint)
        if key.act == "compare" and inspecting.parent_is_removed(self._row, self._view):
            return "Its parent is removed, so there is nothing to compare with."
        return super().why_not(key)

    def usable(self, key: Key) -> bool:
        """What is gone can be pinned no more than removed."""
        return super().usable(key) and not (key.act in ABOUT_IT and self.gone is not None)

    def hints(self) -> list[Hint]:
        """The key that shows all settings says what it does next."""
        words = {"all": "differing"} if self._everything else {}
        return [(shown, words.get(word, word)) for shown, word in super().hints()]

    def line_hints(self) -> tuple[list[Hint], Hint] | None:
        """In the line of the filter."""
        if not self.has_class("-filtering"):
            return None
        return [("enter", "to the lines"), ("tab", "page")], ("esc", "show all")

    async def perform(self, act: str) -> None:
        """Do the deed of this name; pages are opened by their own."""
        if act.startswith("open_"):
            self._open(act.removeprefix("open_"))
        else:
            await super().perform(act)

    def action_next_tab(self) -> None:
        """Open the next page."""
        self._open(TABS[(TABS.index(self.tab) + 1) % len(TABS)])

    def action_previous_tab(self) -> None:
        """Open the page before."""
        self._open(TABS[(TABS.index(self.tab) - 1) % len(TABS)])

    def action_only(self) -> None:
        """Show all settings, or only those that differ."""
        self._everything = not self._everything
        self._show()

    def action_pin(self) -> None:
        """Pin the checkpoint, or take its pin away."""
        actions.toggle_pin(self.browser, self._row)

    def action_note(self) -> None:
        """Give it a note."""
        actions.ask_note(self.browser, self._row)

    def action_resume(self) -> None:
        """Show how to resume from it."""
        actions.open_resume(self.browser, self._row)

    def action_verify(self) -> None:
        """Compare its files with their digests."""
        about.open_verify(self.browser, self._row)

    def action_copy(self) -> None:
        """Choose what of it to copy."""
        about.open_copy(self.browser, self._row)

    def action_trash_chosen(self) -> None:
        """Show the plan that moves it to the trash."""
        run = self._view.run if self._view is not None else self._row.run
        about.open_trash(self.browser, run, self._row)

    def action_compare(self) -> None:
        """Compare it with its parent."""
        about.compare_with_parent(self, self._row)

    @on(about.ParentRead)
    def _parent_read(self, event: about.ParentRead) -> None:
        if self.browser.screen is self and event.child.key == self._row.key:
            self.browser.push_screen(CompareScreen(event.parent, event.child))

    def _place(self) -> tuple[Sequence[Row], int | None]:
        """The checkpoints in the list's order, or where it is not among them in the run's."""
        table = self.browser.main.checkpoints
        c = self._row.checkpoint
        if table.current is not None and table.current.checkpoint is c:
            return table.rows, table.cursor
        view = self.browser.reader.views.get(self._row.run.path)
        for rows in (table.rows, view.rows if view is not None else ()):
            for i, row in enumerate(rows):
                if row.checkpoint.name == c.name and row.checkpoint.path == c.path:
                    return rows, i
        return (), None

    def action_next_checkpoint(self) -> None:
        """Show the next checkpoint of the list on the same page."""
        self._step(1)

    def action_previous_checkpoint(self) -> None:
        """Show the one before it in the list."""
        self._step(-1)

    def _step(self, by: int) -> None:
        listed, at = self._place()
        if at is None or not 0 <= at + by < len(listed):
            self.say(f"{self._row.checkpoint.name} is the {'last' if by > 0 else 'first'} here.")
            return
        self._row = listed[at + by]
        self._reader.forget()
        self.say("")
        self.browser.main.select(self._row.checkpoint.path)
        self.state_changed()
        self._open(self.tab)

    # The filter

    def action_filter(self) -> None:
        """Type words that the lines shown must hold."""
        self._show_filter_line(shown=True)
        line = self.query_one("#filter", Line)
        line.value = self._filters.get(self.tab, "")
        self.set_focus(line)

    def _show_filter_line(self, *, shown: bool) -> None:
        """Show the line to type into in place of the words."""
        self.set_class(shown, "-filtering")
        self.query_one("#filter-line").display = shown
        self.query_one("#status").display = not shown
        self.show_keys()

    @on(Input.Changed, "#filter")
    def _filter_changed(self, event: Input.Changed) -> None:
        if self.has_class("-filtering"):
            self._filters[self.tab] = event.value.strip()
            self._show()

    @on(Input.Submitted, "#filter")
    def _filter_done(self) -> None:
        self._show_filter_line(shown=False)
        self.set_focus(self._lines_shown)

    def action_back(self) -> None:
        """One step back: the filter, then the screen."""
        if self.has_class("-filtering") or self._filters.get(self.tab):
            self._filters.pop(self.tab, None)
            self._filter_done()
            self._show()
        else:
            self._reader.stop()
            self.dismiss()


def _cell(entry: Entry, column: Column) -> Cell:
    return entry.cells[int(column.key)]
