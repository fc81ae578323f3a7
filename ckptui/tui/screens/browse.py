"""The main screen: runs, their checkpoints, the curve and the details."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Input, Static

from ckptui.errors import UsageError
from ckptui.tui import filters, keys, listing, runs
from ckptui.tui.screens import actions
from ckptui.tui.screens.base import BrowserScreen
from ckptui.tui.text import fit, fit_path, plain, safe
from ckptui.tui.widgets.chart import Chart
from ckptui.tui.widgets.detail import Detail
from ckptui.tui.widgets.keybar import KeyBar
from ckptui.tui.widgets.table import Column, Table

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from textual.widget import Widget

    from ckptui.tui.messages import Copied
    from ckptui.tui.snapshot import Row, RunView

WAITING_SECONDS = 2.0
"""How long the disk may take before the first line says that it is waited for."""


class BrowseScreen(BrowserScreen):
    """Everything at a glance; the screen that stays open."""

    BINDINGS: ClassVar[list[BindingType]] = keys.bindings(keys.BROWSE)

    def __init__(self) -> None:
        super().__init__(id="browse")
        self.marked: set[str] = set()
        self.sort = ("step", True)
        """The column that orders the list, and whether descending."""
        self._filter_text = ""
        self._filter: filters.Test | None = None
        self._complaint: str | None = None
        self._said = ""
        self._listed: Path | None = None

    def parts(self) -> Iterable[Widget]:
        """Header, panes, the line of words, the keys."""
        plain_only = self.browser.ascii_only
        yield Static(id="header")
        with Horizontal(id="body"):
            yield Detail(id="detail", ascii_only=plain_only)
            yield Table[RunView](
                id="runs",
                key=lambda view: view.run.path,
                cell=lambda view, column: runs.cell(view, column, self.browser.path),
                columns=runs.COLUMNS,
                ascii_only=plain_only,
            )
            with Vertical(id="main"):
                yield Table[Row](
                    id="checkpoints",
                    key=lambda row: row.key,
                    cell=self._cell,
                    ascii_only=plain_only,
                )
                yield Chart(id="chart", ascii_only=plain_only)
        yield Input(id="filter", compact=True, placeholder="filter: words, step>=2000, state:ok")
        yield Static(id="status")
        yield KeyBar(keys.hints(keys.BROWSE))

    def on_mount(self) -> None:
        """Start in the list."""
        self.query_one("#runs", Table).border_title = "Runs"
        self.checkpoints.focus()
        self.show_views()

    @property
    def checkpoints(self) -> Table[Row]:
        """The list of checkpoints."""
        return self.query_one("#checkpoints", Table)

    @property
    def run_list(self) -> Table[RunView]:
        """The list of runs."""
        return self.query_one("#runs", Table)

    @property
    def current(self) -> Row | None:
        """The checkpoint under the cursor."""
        return self.checkpoints.current

    @property
    def chosen(self) -> list[Row]:
        """The marked checkpoints, or the one under the cursor."""
        view = self.browser.view
        found = [row for row in view.rows if row.key in self.marked] if view else []
        return found or ([self.current] if self.current is not None else [])

    @property
    def look(self) -> listing.Look:
        """What the cells depend on besides their row."""
        browser = self.browser
        names = browser.metrics
        others = [n for n in names if n != browser.metric]
        return listing.Look(
            now=browser.clock(),
            series=browser.current_series,
            metric=browser.metric,
            second=others[0] if others else None,
            marked=frozenset(self.marked),
        )

    def _cell(self, row: Row, column: Column) -> listing.Cell:
        return listing.cell(row, column, self._look)

    # What the app tells

    def show_views(self) -> None:
        """Show what a scan has found."""
        if not self.is_mounted:
            return
        browser = self.browser
        views = list(browser.views.values())
        several = len(views) > 1
        self.set_class(several, "-several")
        self.run_list.set_rows(views)
        if browser.run_path is not None:
            self.run_list.select(browser.run_path)
        self.show_run()

    def show_run(self) -> None:
        """Show the checkpoints of the run that is listed."""
        if not self.is_mounted:
            return
        browser = self.browser
        view = browser.view
        if browser.run_path != self._listed:
            self._listed = browser.run_path
            self.marked.clear()
        table = self.checkpoints
        self._look = self.look
        rows = list(view.rows) if view is not None else []
        self.marked &= {row.key for row in rows}
        if view is None:
            table.set_empty(plain_lines(runs.nothing_found(browser.path, browser.found, browser.failure)))
        elif not rows:
            table.set_empty(plain_lines(runs.no_checkpoints(view)))
        else:
            table.set_empty("No checkpoint matches the filter. esc clears it.")
        if self._filter is not None:
            context = filters.Context(self._look.series, self._look.now)
            rows = [row for row in rows if self._filter(row, context)]
        table.set_columns(listing.columns(rows, self._look))
        key, descending = self.sort
        table.set_rows(
            listing.sort_rows(rows, key, self._look, descending=descending),
            follow=lambda old, new: old.checkpoint.staged and old.checkpoint.name == new.checkpoint.name,
        )
        self._show_chart()
        self.show_header()
        self._show_status()

    def select(self, checkpoint: Path) -> None:
        """Put the cursor on a checkpoint."""
        self.checkpoints.select(str(checkpoint))

    def say(self, words: str) -> None:
        """Show a line of words until the next one."""
        self._said = words
        if self.is_mounted:
            self._show_status()

    def copied(self, event: Copied) -> None:
        """Say what was copied, and which way."""
        self.say(f"Copied by {event.way}: {event.what}")

    def show_header(self) -> None:
        """The first line: what is browsed, how it is, and whether the disk answers."""
        if not self.is_mounted:
            return
        browser = self.browser
        width = self.size.width
        view = browser.view
        right = runs.head(view, browser.found) if view is not None else []
        job = browser.jobs.oldest_running()
        if job is not None and job.seconds >= WAITING_SECONDS:
            right = [f"waiting for the disk: {job.label}, {job.seconds:.0f} s"]
        elif browser.failure is not None and view is not None:
            right = [f"! {browser.failure}"]
        elif browser.paused:
            right.insert(0, "PAUSED")
        elif browser.found is None:
            right.append("scanning")
        tail = "   ".join(plain(part) for part in right)
        room = max(12, width - len(tail) - 13)
        shown = actions.short_path(view.run.path if view is not None else browser.path)
        text = f" ckptui  {fit_path(plain(shown), room)}"
        text = fit(text, max(len(text), width - len(tail) - 1)) + tail
        self.query_one("#header", Static).update(safe(fit(text, width)))

    # Panes

    @on(Table.Moved, "#runs")
    def _run_moved(self) -> None:
        view = self.run_list.current
        if view is not None and self.run_list.has_focus:
            self.browser.choose_run(view.run.path)

    @on(Table.Chosen, "#runs")
    def _run_chosen(self) -> None:
        self.checkpoints.focus()

    @on(Table.Moved, "#checkpoints")
    def _checkpoint_moved(self) -> None:
        row = self.current
        self.query_one("#detail", Detail).show(row, self.look if row is not None else None)
        self.query_one("#chart", Chart).set_cursor(row.key if row is not None else None)
        self._show_title()

    @on(Table.Chosen, "#checkpoints")
    def _checkpoint_chosen(self) -> None:
        actions.open_detail(self)

    def _show_title(self) -> None:
        table = self.checkpoints
        view = self.browser.view
        total = len(view.rows) if view is not None else 0
        at = f"{table.cursor + 1} of {len(table.rows)}" if table.rows else "none"
        more = f", {total} in all" if len(table.rows) != total else ""
        several = self.has_class("-several") and view is not None
        title = runs.name(view, self.browser.path) if several and view is not None else "Checkpoints"
        table.border_title = safe(title)  # type: ignore[assignment] # its setter takes Content too
        table.border_subtitle = safe(at + more)  # type: ignore[assignment] # as above

    def _show_chart(self) -> None:
        actions.fill_chart(self.query_one("#chart", Chart), self)

    def _show_status(self) -> None:
        key, descending = self.sort
        left = self._said
        if self._complaint is not None:
            left = f"filter: {self._complaint}"
        elif self._filter_text and not left:
            left = f"/ {self._filter_text}"
        right = []
        if self.marked:
            right.append(f"{len(self.marked)} marked")
        if self._filter_text and self._said:
            right.append("filtered")
        word = dict(listing.SORTS)[key].lower()
        right.append(f"by {word}, {'highest' if descending else 'lowest'} first")
        tail = "   ".join(right)
        width = self.size.width
        room = width - len(tail) - 3
        text = " " + fit(plain(left), room) + " " + tail if room > 20 else " " + plain(left or tail)
        self.query_one("#status", Static).update(safe(fit(text, width)))

    def on_resize(self) -> None:
        """The one-line texts are made to measure."""
        self.call_after_refresh(self.show_header)
        self.call_after_refresh(self._show_status)

    # The filter

    def action_filter(self) -> None:
        """Type a filter."""
        self.add_class("-filtering")
        line = self.query_one("#filter", Input)
        line.value = self._filter_text
        line.focus()

    @on(Input.Changed, "#filter")
    def _filter_changed(self, event: Input.Changed) -> None:
        self.set_filter(event.value)

    def set_filter(self, text: str) -> None:
        """Show only rows that match; a bad filter keeps the last good list and says why."""
        self._said = ""
        self._filter_text = text
        try:
            self._filter = filters.parse_filter(text) if text.strip() else None
            self._complaint = None
        except UsageError as e:
            self._complaint = str(e)
            self._show_status()
            return
        self.show_run()

    @on(Input.Submitted, "#filter")
    def _filter_done(self) -> None:
        self.remove_class("-filtering")
        self.checkpoints.focus()

    def action_back(self) -> None:
        """One step back: out of the filter, then the marks, then to the runs. Never out."""
        if self.has_class("-filtering") or self._filter_text:
            self.set_filter("")
            self._filter_done()
        elif self.marked:
            self.marked.clear()
            self.show_run()
        elif self.has_class("-several") and not self.run_list.has_focus:
            self.run_list.focus()
        else:
            self.say("q quits, ? shows all keys.")
