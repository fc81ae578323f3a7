"""The list of a run's checkpoints: arranged, marked, and true to the row under the cursor."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, cast

from textual import on
from textual.message import Message

from ckptui.tui import listing, messages
from ckptui.tui.arrangement import (
    AT_ONCE,
    Arrangement,
    Order,
    arrange,
    carries_on,
    with_ghost,
    without_ghosts,
)
from ckptui.tui.marks import Marks
from ckptui.tui.snapshot import Row
from ckptui.tui.widgets.table import Cell, Column, Table

if TYPE_CHECKING:
    from ckptui.tui.app import Browser
    from ckptui.tui.jobs import Job
    from ckptui.tui.listing import Look


class CheckpointList(Table[Row]):
    """Thousands of checkpoints, whatever becomes of them meanwhile."""

    @dataclass
    class Listed(Message):
        """An arrangement is on the screen."""

        lost: int
        """Marked rows that are no longer there."""
        missed: str | None = None
        """Why the cursor could not go where it was to go, in a sentence."""

    def __init__(self, *, ascii_only: bool, id: str) -> None:  # noqa: A002 - the name that every widget uses
        super().__init__(key=lambda row: row.key, cell=self._cell_of, ascii_only=ascii_only, id=id)
        self.order = Order()
        """Which rows are shown, and in which order."""
        self.shown = Arrangement()
        """The list as it was drawn last."""
        self.marks = Marks()
        self.look = listing.Look(now=datetime.now(UTC))
        """What the cells say depends on this besides their rows."""
        self._arranging: Job | None = None
        self._by_user = False
        """Whether what is being arranged was changed by the user."""
        self._ghost: str | None = None
        """Key of a row that is gone, or hidden, and still under the cursor."""
        self._news: set[str] = set()
        """Keys of rows that came while the list was shown, and that were not on the screen yet."""
        self._wanted: str | None = None
        """Key of a row that the cursor goes to once it is listed."""

    @property
    def _browser(self) -> Browser:
        return cast("Browser", self.app)

    def _cell_of(self, row: Row, column: Column) -> Cell:
        return listing.cell(row, column, self.look)

    def begin(self) -> None:
        """Forget what was about another run."""
        self.marks.clear()
        self.shown = Arrangement()
        self._ghost = self._wanted = None
        self._news.clear()

    def show_all(self, source: tuple[Row, ...], look: Look, *, by_user: bool) -> None:
        """Show rows; a long list is arranged in the background, what is there stays until then.

        Args:
            source: All rows of the run, ascending.
            look: What the cells depend on.
            by_user: Something the user did changes the list, so that a row may leave the cursor.
        """
        self.look = look
        if self._arranging is not None:
            self._arranging.cancelled = True
            self._arranging = None
            by_user = by_user or self._by_user  # that is not shown yet
        self._by_user = by_user
        if len(source) <= AT_ONCE:
            found = arrange(source, look, self.order)
            if found is not None:  # nobody gives it up
                self._take(found, by_user=by_user)
            return
        order = self.order

        def work(job: Job) -> Message:
            found = arrange(source, look, order, given_up=job.is_cancelled)
            return messages.ListArranged(found, by_user=by_user, job=job)

        self._arranging = self._browser.start("arrange", "sorting the list", work, target=self)

    @on(messages.ListArranged)
    def _list_arranged(self, event: messages.ListArranged) -> None:
        event.stop()
        if event.job is self._arranging and event.arrangement is not None:
            self._arranging = None
            self._take(event.arrangement, by_user=event.by_user)

    def _take(self, new: Arrangement, *, by_user: bool) -> None:
        """Show an arrangement; the row under the cursor stays, though it be gone."""
        old = self.current
        stays = old is not None and not by_user and old.key in self.shown.index
        if (
            stays
            and old is not None
            and not (old.key in new.index or old.key in self._browser.moved)
        ):
            new = with_ghost(new, self.shown, self.cursor)
            self._ghost = old.key if old.key in new.index else None
        if self.shown.source and not by_user:
            self._news |= new.keys - self.shown.keys
        lost = self.marks.keep_only(new.source, self.shown.keys)
        if self.marks.keys != self.look.marked:
            self.look = replace(self.look, marked=frozenset(self.marks.keys))
        self.shown = new
        self.set_columns(new.columns)
        self.set_rows(new.rows, index=new.index, follow=carries_on)
        wanted, self._wanted = self._wanted, None
        missed = self._go_or_why(wanted) if wanted is not None else None
        self.post_message(self.Listed(lost, missed))

    @property
    def news_above(self) -> list[str]:
        """Checkpoints that came in above what is on the screen and were not seen, newest first."""
        top = round(self.scroll_y)
        came = [row for row in self.rows[:top] if row.key in self._news] if self._news else []
        self._news = {row.key for row in came}
        came.sort(key=lambda row: row.checkpoint.step or 0, reverse=True)
        return [row.checkpoint.name for row in came]

    def leave_ghost(self) -> bool:
        """Drop a gone row that the cursor has left; whether there was one."""
        row = self.current
        if self._ghost is None or (row is not None and row.key == self._ghost):
            return False
        self._ghost = None
        self.shown = without_ghosts(self.shown, row)
        self.set_rows(self.shown.rows, index=self.shown.index)
        return True

    def go_to(self, key: str) -> str | None:
        """Put the cursor on a row, or as soon as the list is arranged; why not, if it cannot be."""
        self._wanted = None
        why_not = self._go_or_why(key)
        if why_not is not None and self._arranging is not None:
            self._wanted = key
            return None
        return why_not

    def _go_or_why(self, key: str) -> str | None:
        if self.select(key, index=self.shown.index):
            return None
        name = PurePath(key).name
        if key in self.shown.keys:
            return f"{name} is hidden by the filter; esc shows all."
        return f"{name} is not in this list."

    def watch_cursor(self, old: int, new: int) -> None:
        """Wherever the cursor was still to go, it has gone elsewhere."""
        self._wanted = None
        super().watch_cursor(old, new)

    def toggle_range(self) -> str | None:
        """Begin a range at the cursor, or mark all rows to it; what there is to say of it."""
        row, start = self.current, self.marks.start
        if row is None:
            return None
        if start is not None and start not in self.shown.index:
            self.marks.start = None
            what = "hidden by the filter" if start in self.shown.keys else "gone"
            return f"The row at which the range began is {what}; v begins another one."
        if not self.marks.range_to(self.rows, self.cursor):
            return None
        return f"Range from {row.checkpoint.name}: move, then v marks it. esc gives it up."

    def look_again(self, look: Look) -> None:
        """Draw the rows of which a cell says something else by now."""
        self.look = look
        self.refresh_rows()

    def show_ages(self, now: datetime) -> None:
        """Bring the ages up to date."""
        self.look_again(replace(self.look, now=now))
