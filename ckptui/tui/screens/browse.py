"""The main screen: runs, their checkpoints, the curve and the details."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Input, Static

from ckptui.display import plural
from ckptui.errors import UsageError
from ckptui.tui import keys, listing, lost, refusals, runs
from ckptui.tui.headline import headline, status
from ckptui.tui.screens.base import BrowserScreen
from ckptui.tui.snapshot import Row
from ckptui.tui.text import safe
from ckptui.tui.widgets.chart_pane import ChartPane
from ckptui.tui.widgets.checkpoints import CheckpointList
from ckptui.tui.widgets.detail import Detail
from ckptui.tui.widgets.run_list import RunList
from ckptui.tui.widgets.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence, Set
    from pathlib import Path

    from textual.events import DescendantFocus
    from textual.widget import Widget

    from ckptui.tui.arrangement import Arrangement, Order
    from ckptui.tui.keys import Key
    from ckptui.tui.screens.about import ParentRead
    from ckptui.tui.widgets.chart import Chart
    from ckptui.tui.widgets.filter_line import FilterLine
    from ckptui.tui.widgets.keybar import Hint


SAID_SECONDS = 20.0
"""How long a line of words stays that nothing else has taken the place of."""


class BrowseScreen(BrowserScreen):
    """Everything at a glance; the screen that stays open."""

    CSS_PATH = None  # what it needs is in the app's own
    KEYS = keys.BROWSE
    HEADING = "Checkpoints"
    BINDINGS: ClassVar[list[BindingType]] = keys.bindings(KEYS)

    def __init__(self) -> None:
        super().__init__(id="browse")
        self.compare_from: Path | None = None
        """The run that another one is to be compared with."""
        self.columns: tuple[str, ...] | None = None
        """Names of the columns of the list; None for the usual ones."""
        self.filter_text = ""
        """As it is typed; a bad one is not yet in the list's order."""
        self._filter_line: FilterLine | None = None
        """Made when a filter is typed for the first time."""
        self.complaint: str | None = None
        self.said = ""
        self._said_at = 0.0
        self._refusal = ""
        """What was said of a key that could do nothing."""
        self._missed: str | None = None
        """Why the cursor could not go where it was sent."""
        self._lost: Path | None = None
        """The run of which it was said that it is gone."""
        self._title = ""
        self._lines: dict[str, str] = {}
        """What the one-line texts say."""
        self._ready = False
        self._hinted_live = False
        self._hinted: tuple[object, ...] = ()
        """What the key bar was made for."""
        self._listed: Path | None = None

    def parts(self) -> Iterable[Widget]:
        """Header, panes, the line of words, the keys."""
        plain_only = self.browser.ascii_only
        yield Static(id="header")
        with Horizontal(id="body"):
            yield Detail(id="detail", ascii_only=plain_only)
            yield RunList(self.browser.path, id="runs", ascii_only=plain_only)
            with Vertical(id="main"):
                yield CheckpointList(id="checkpoints", ascii_only=plain_only)
                yield ChartPane(id="chart-pane", ascii_only=plain_only)
        yield Static(id="status")

    def on_mount(self) -> None:
        """Start in the list."""
        self._ready = True
        self.columns = self.browser.wishes.preferences.columns
        if self.lost_keys:
            self.said = f"No key any more, by your configuration: {', '.join(self.lost_keys)}"
        self.run_list.border_title = "Runs"
        self.set_focus(self.checkpoints)
        if self.browser.wishes.filter_text:
            self.set_filter(self.browser.wishes.filter_text)
        self.state_changed()

    @property
    def checkpoints(self) -> CheckpointList:
        """The list of checkpoints."""
        return self.query_one("#checkpoints", CheckpointList)

    @property
    def _chart_pane(self) -> ChartPane:
        return self.query_one("#chart-pane", ChartPane)

    @property
    def chart(self) -> Chart | None:
        """The curve beside the list; None until there was room and something to show."""
        return self._chart_pane.chart

    @property
    def run_list(self) -> RunList:
        """The list of runs."""
        return self.query_one("#runs", RunList)

    @property
    def current(self) -> Row | None:
        """The checkpoint under the cursor."""
        return self.checkpoints.current

    @property
    def marked(self) -> Set[str]:
        """Keys of the marked rows."""
        return self.checkpoints.marks.keys

    @property
    def chosen(self) -> list[Row]:
        """The marked checkpoints, or the one under the cursor."""
        view = self.browser.reader.view
        found = [row for row in view.rows if row.key in self.marked] if view else []
        here = self.current
        return found or ([here] if here is not None and not (here.gone or here.unread) else [])

    @property
    def shown(self) -> Arrangement:
        """The list as it was drawn last."""
        return self.checkpoints.shown

    @property
    def order(self) -> Order:
        """Which rows the list shows, and in which order."""
        return self.checkpoints.order

    @property
    def sort(self) -> tuple[str, bool]:
        """The column that orders the list, and whether descending."""
        return self.order.sort, self.order.descending

    @property
    def look(self) -> listing.Look:
        """What the cells depend on besides their row."""
        browser = self.browser
        names = browser.reader.metrics
        others = [n for n in names if n != browser.reader.metric]
        return listing.Look(
            now=browser.clock(),
            series=browser.reader.current_series,
            metric=browser.reader.metric,
            second=others[0] if others else None,
            marked=frozenset(self.marked),
            verified=browser.verified,
            columns=self.columns,
        )

    # What the app tells

    def state_changed(self) -> None:
        """Show what is known now."""
        if not self._ready:
            return
        browser = self.browser
        reader = browser.reader
        views = lost.among(reader.views.values(), reader.lost, self.run_list.rows)
        if len(views) <= 1 and self.run_list.has_focus:
            self.set_focus(self.checkpoints)  # before its own place goes
        self.set_class(len(views) > 1, "-several")
        self.run_list.show(views, reader.lost)
        if reader.run_path is not None:
            self.run_list.select(reader.run_path)
        self._tell_of_lost()
        self.show_run()

    def _tell_of_lost(self) -> None:
        """Say once that a run is gone: the one that is listed, or one to be compared."""
        reader, first = self.browser.reader, self.compare_from
        if first is not None and first not in reader.views:
            self.compare_from = None
            self.say(f"{first.name} is gone; = in Runs begins to compare anew.")
        before, self._lost = self._lost, reader.run_path if reader.lost is not None else None
        if reader.lost is not None and before is None:
            self.browser.say(lost.words(reader.lost, self.browser.path))
        elif reader.lost is None and before is not None:
            self.said = ""

    def show_run(self, *, by_user: bool = False) -> None:
        """Show the checkpoints of the run that is listed.

        Args:
            by_user: Something the user did changes the list, so that a row may leave the cursor.
        """
        if not self._ready:
            return
        browser = self.browser
        view = browser.reader.view
        table = self.checkpoints
        gone = browser.reader.lost
        if browser.reader.run_path != self._listed or gone is not None:
            self._listed = browser.reader.run_path
            table.begin()
            by_user = True
        rows = view.rows if view is not None else ()
        if gone is not None:
            words = lost.empty_list(gone, browser.path)
        elif view is None:
            words = runs.nothing_found(browser.path, browser.reader.found, browser.reader.failure)
        elif not rows:
            words = runs.no_checkpoints(view)
        else:
            words = runs.nothing_matches(self.order.filter, browser.reader.metrics)
        table.set_empty(words)
        self.show_header()
        table.show_all(rows, self.look, by_user=by_user)

    @on(CheckpointList.Listed)
    def _listed_anew(self, event: CheckpointList.Listed) -> None:
        if event.lost:
            self.said = f"{plural(event.lost, 'marked checkpoint')} went away meanwhile."
        if event.missed is not None:
            self._tell_missed(event.missed)
        self._show_chart()
        self._show_status()

    def select(self, checkpoint: Path) -> None:
        """Put the cursor on a checkpoint, at once or as soon as the list shows it."""
        self._tell_missed(self.checkpoints.go_to(str(checkpoint)))

    def _tell_missed(self, words: str | None) -> None:
        before, self._missed = self._missed, words
        if words is not None:
            self.say(words)
        elif before is not None and self.said == before:
            self.say("")

    def say(self, words: str) -> None:
        """Show a line of words until the next one."""
        self.said, self._said_at = words, time.monotonic()
        if self._ready:
            self._show_status()

    def show_ages(self) -> None:
        """Bring the ages up to date; only lines that say something else are drawn."""
        if self.order.filter is not None and self.order.filter.timed:
            self.show_run()
        self.checkpoints.show_ages(self.browser.clock())
        if self.said and time.monotonic() - self._said_at > SAID_SECONDS:
            self.say("")
        row = self.current
        if row is not None:
            self.query_one("#detail", Detail).show(row, self.look)

    def show_header(self) -> None:
        """The first line: what is browsed, how it is, and whether the disk answers."""
        if not self._ready:
            return
        view = self.browser.reader.view
        self._hinted_live = view is not None and view.run.live
        no_run = self.browser.reader.lost is not None
        hinted = (self._hinted_live, self.browser.looks_read_only, no_run, self.runs_alone)
        if hinted != self._hinted:
            self._hinted = hinted
            self.show_keys()
        line = headline(self.browser, self.size.width)
        self._put("#header", line)

    # Panes

    @on(Table.Moved, "#runs")
    def _run_moved(self) -> None:
        view = self.run_list.current
        if view is not None and self.run_list.has_focus:
            self.browser.choose_run(view.run.path)

    @on(Table.Chosen, "#runs")
    def _run_chosen(self) -> None:
        self.remove_class("-choosing")
        self.set_focus(self.checkpoints)

    @on(Table.Moved, "#checkpoints")
    def _checkpoint_moved(self) -> None:
        row = self.current
        if self.said and self.said == self._refusal:
            self.said = ""
        if self.checkpoints.leave_ghost():
            return
        self.query_one("#detail", Detail).show(row, self.look if row is not None else None)
        self._chart_pane.point_at(row)
        self._show_title()
        self._show_status()

    @on(Table.Chosen, "#checkpoints")
    def _checkpoint_chosen(self) -> None:
        row = self.current
        reason = refusals.of(row) if row is not None else None
        picks = self.browser.wishes.pick and row is not None
        if picks and row is not None:
            reason = reason or refusals.no_pick(row)
        if reason is not None:
            self.say(reason)
            return
        if picks and row is not None:
            self.browser.leave_with(str(row.checkpoint.path))
            return
        from ckptui.tui.screens import actions  # noqa: PLC0415 - see `screens`

        actions.open_detail(self)

    def on_parent_read(self, event: ParentRead) -> None:
        """The parent of a checkpoint, which lies in another run, can be compared with it."""
        from ckptui.tui.screens.compare import CompareScreen  # noqa: PLC0415 - see `screens`

        self.browser.push_screen(CompareScreen(event.parent, event.child))

    def _show_title(self) -> None:
        view = self.browser.reader.view or self.browser.reader.lost
        several = self.has_class("-several") and view is not None
        title = (
            runs.name(view, self.browser.path) if several and view is not None else "Checkpoints"
        )
        if title != self._title:  # a new title draws the whole list anew
            self._title = title
            self.checkpoints.border_title = safe(title)

    def _show_chart(self) -> None:
        """Show the curve where there is room."""
        reader, pane = self.browser.reader, self._chart_pane
        view = reader.view or reader.lost
        if pane.display and view is not None and not view.run.unread:
            rows = view.rows if view is reader.view else ()
            ticks = self.shown.ticks if rows is self.shown.source else None
            pane.show(rows, self.checkpoints.look, self.current, ticks)

    def _show_status(self) -> None:
        self._put("#status", status(self, self.size.width))

    def _put(self, where: str, line: str) -> None:
        """Show a line of a fixed height; one that says the same costs nothing."""
        if self._lines.get(where) != line:
            self._lines[where] = line
            self.query_one(where, Static).update(safe(line), layout=False)

    def on_resize(self) -> None:
        """The one-line texts are made to measure, and the chart may have appeared."""
        self.call_after_refresh(self.run_list.fit)
        self.call_after_refresh(self._show_chart)
        self.call_after_refresh(self.show_header)
        self.call_after_refresh(self._show_status)

    @property
    def runs_alone(self) -> bool:
        """Whether the list of runs has the whole place, where there is none for both lists."""
        return all(self.has_class(name) for name in ("-narrow", "-several", "-choosing"))

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """The pane that has the focus is the one that stays where there is room for one."""
        if event.widget is self.run_list or event.widget is self.checkpoints:
            self.set_class(event.widget is self.run_list, "-choosing")
            self.show_header()

    # Keys

    def why_not(self, key: Key) -> str | None:
        """Nothing can be done about a run or a checkpoint that is gone, or that is not read yet."""
        looks = (refusals.no_list, refusals.nothing_there, refusals.no_row)
        found = (look(self, key) for look in looks)
        return next((reason for reason in found if reason is not None), super().why_not(key))

    def usable(self, key: Key) -> bool:
        """A key for live runs only is worth its place with one."""
        if (key.live and not self._hinted_live) or refusals.no_list(self, key) is not None:
            return False
        return not key.changes or self.browser.looks_read_only is None

    def refuse(self, reason: str) -> None:
        """Say why a key does nothing now, until the cursor moves on or another key does something.

        Args:
            reason: A sentence.
        """
        self._refusal = reason
        self.say(reason)

    async def perform(self, act: str) -> None:
        """Do the deed of this name; what was said of an earlier one is over."""
        if self.said:
            self.say("")
        from ckptui.tui.screens import actions  # noqa: PLC0415 - see `screens`

        if act == "filter":
            await self.open_filter()
        else:
            actions.ACTIONS[act](self)

    def toggle_mark(self) -> None:
        """Mark the checkpoint under the cursor, or unmark it, and go on to the next."""
        row = self.current
        if row is not None:
            self.flip_mark(row)
            self.checkpoints.action_move(1)

    def flip_mark(self, row: Row) -> None:
        """Mark a row, or take its mark away."""
        self.checkpoints.marks.flip(row)
        self._marks_changed()

    def toggle_range(self) -> None:
        """Begin a range at the cursor, or mark all rows from where one began to the cursor."""
        words = self.checkpoints.toggle_range()
        self._marks_changed()
        if words is not None:
            self.say(words)

    def mark_rows(self, rows: Iterable[Row]) -> None:
        """Mark rows."""
        self.checkpoints.marks.add(rows)
        self._marks_changed()

    def invert_marks(self) -> None:
        """Mark what the list shows unmarked, and the other way round."""
        self.checkpoints.marks.invert(self.checkpoints.rows)
        self._marks_changed()

    def _marks_changed(self) -> None:
        self.said = ""
        self.show_marks()
        self._show_status()

    def show_marks(self) -> None:
        """Draw the letters before the names anew, and what is told of the one below the cursor."""
        self.checkpoints.look_again(self.look)
        if self.current is not None:
            self.query_one("#detail", Detail).show(self.current, self.look)

    def set_columns(self, names: Sequence[str] | None) -> None:
        """Give the list other columns; None for the usual ones."""
        self.columns = tuple(names) if names is not None else None
        self.show_run(by_user=True)

    def set_sort(self, key: str, *, descending: bool) -> None:
        """Order the list."""
        self.checkpoints.order = replace(self.order, sort=key, descending=descending)
        self.said = ""
        self.show_run(by_user=True)

    async def open_filter(self) -> None:
        """Type a filter."""
        from ckptui.tui.widgets.filter_line import FilterLine  # noqa: PLC0415 - see `screens`

        if self._filter_line is None:
            self._filter_line = FilterLine()
            await self.mount(self._filter_line, before="#status")
        self._filter_line.open(self.filter_text)
        self._filtering(on=True)

    def _filtering(self, *, on: bool) -> None:
        """The keys are those of the line while it is open; words about it stand below."""
        self.set_class(on, "-filtering")
        self._show_status()
        self.show_keys()

    def line_hints(self) -> tuple[list[Hint], Hint] | None:
        """In the line of the filter."""
        if not self.has_class("-filtering"):
            return None
        return [("enter", "accept")], ("esc", "as before")

    def hints(self) -> list[Hint]:
        """Where a checkpoint is picked, that key is the first."""
        picking = [("enter", "pick")] if self.browser.wishes.pick else []
        return [*picking, *super().hints()]

    def on_filter_line_typed(self, event: FilterLine.Typed) -> None:
        """Show what matches while it is typed."""
        if event.value != self.filter_text:
            self.set_filter(event.value)

    def set_filter(self, text: str) -> None:
        """Show only rows that match; a bad filter keeps the last good list and says why."""
        from ckptui.tui import filters  # noqa: PLC0415 - see `screens`

        self.said = ""
        self.filter_text = text
        try:
            chosen = filters.parse_filter(text) if text.strip() else None
            self.complaint = None
        except UsageError as e:
            self.complaint = str(e)
            self._show_status()
            return
        self.checkpoints.order = replace(self.order, filter=chosen)
        self.show_run(by_user=True)

    @on(Input.Submitted, "#filter")
    def _filter_done(self) -> None:
        typed = self._filter_line.take() if self._filter_line is not None else None
        if typed is not None:
            self.set_filter(typed)
        if self.complaint is None:  # a bad one is to be mended, not to be left
            self._leave_filter()

    def _leave_filter(self) -> None:
        if self._filter_line is not None:
            self._filter_line.close()
        self._filtering(on=False)
        self.set_focus(self.checkpoints)

    def action_back(self) -> None:
        """One step back: the scan, the filter, the marks, the runs. Never out of the program."""
        if self.browser.reader.stop_scan():
            self.say("Scan stopped; ctrl+r scans again.")
        elif self.has_class("-filtering") and self._filter_line is not None:
            self.set_filter(self._filter_line.before)
            self._leave_filter()
        elif self.checkpoints.marks.start is not None:
            self.checkpoints.marks.start = None
            self.say("No range.")
        elif self.filter_text:
            self.set_filter("")
        elif self.checkpoints.marks.keys:
            self.checkpoints.marks.clear()
            self._marks_changed()
        elif self.has_class("-several") and not self.run_list.has_focus:
            self.add_class("-choosing")
            self.run_list.focus()
        else:
            self.say("q quits, ? shows all keys.")
