"""A list of thousands of rows that draws only the lines on the screen.

Rows have a key that outlives a refresh: the cursor stays on its key, and on its line, when rows
come and go above it. Columns are left out by rank where the width does not suffice for all.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from ckptui.tui.text import fit, fit_path, plain
from ckptui.tui.widgets.columns import Cell, Column, arrange

__all__ = ["Cell", "Column", "Table", "arrange"]

T = TypeVar("T")


class Table(ScrollView, Generic[T], can_focus=True):
    """Rows of cells with a cursor."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "table--header",
        "table--row",
        "table--cursor",
        "table--dim",
        "table--good",
        "table--warn",
        "table--bad",
        "table--accent",
        "table--strong",
        "table--empty",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("down,j", "move(1)", "down", show=False),
        Binding("pageup,ctrl+b", "page(-1)", "page up", show=False),
        Binding("pagedown,ctrl+f", "page(1)", "page down", show=False),
        Binding("home,g", "first", "first", show=False),
        Binding("end,G", "last", "last", show=False),
        Binding("left", "sideways(-1)", "columns to the left", show=False),
        Binding("right", "sideways(1)", "columns to the right", show=False),
        Binding("enter", "choose", "open", show=False),
    ]

    cursor: reactive[int] = reactive(0, init=False, repaint=False)
    """Index of the row under the cursor."""

    @dataclass
    class Moved(Message):
        """The cursor stands on another row, or the row under it was replaced."""

        table: ScrollView

        @property
        def control(self) -> ScrollView:
            """The table, for selectors."""
            return self.table

    @dataclass
    class Chosen(Message):
        """Enter was pressed on a row, or it was clicked when the cursor stood there."""

        table: ScrollView

        @property
        def control(self) -> ScrollView:
            """The table, for selectors."""
            return self.table

    def __init__(
        self,
        *,
        key: Callable[[T], Hashable],
        cell: Callable[[T, Column], Cell],
        columns: Sequence[Column] = (),
        empty: str = "",
        ascii_only: bool = False,
        id: str | None = None,  # noqa: A002 - the name that every widget uses
    ) -> None:
        super().__init__(id=id)
        self._key = key
        self._cell = cell
        self._columns = tuple(columns)
        self._rows: tuple[T, ...] = ()
        self._empty = empty
        self._ellipsis = "~" if ascii_only else "…"
        self._on_screen: list[Strip | None] = []
        """What every line was drawn as last."""
        self._skip = 0
        """Columns that were scrolled out to the left."""
        self._layout: tuple[tuple[Column, int], ...] = ()
        self._arranged: tuple[tuple[Column, ...], int, int] | None = None
        """The columns and the width that `_layout` is made for."""
        self._drawn: dict[tuple[int, bool], Strip] = {}

    @property
    def rows(self) -> tuple[T, ...]:
        """All rows, in the order shown."""
        return self._rows

    @property
    def current(self) -> T | None:
        """The row under the cursor."""
        return self._rows[self.cursor] if 0 <= self.cursor < len(self._rows) else None

    @property
    def shown_columns(self) -> tuple[str, ...]:
        """Keys of the columns that fit."""
        return tuple(c.key for c, _ in self._fitted)

    @property
    def all_shown(self) -> bool:
        """Whether no column has to be left out."""
        return len(self._fitted) == len(self._columns)

    def set_columns(self, columns: Sequence[Column]) -> None:
        """Show other columns."""
        if tuple(columns) != self._columns:
            self._columns = tuple(columns)
            self._redraw()

    def set_empty(self, text: str) -> None:
        """What stands in place of rows where there are none."""
        if text != self._empty:
            self._empty = text
            if not self._rows:
                self.refresh()

    def set_rows(
        self,
        rows: Sequence[T],
        *,
        index: Mapping[Any, int] | None = None,
        follow: Callable[[T, T], bool] | None = None,
    ) -> None:
        """Replace the rows; the cursor stays on its row if that is still there.

        Args:
            rows: The new rows, each with its own key.
            index: Where the row of a key stands, if the caller knows already.
            follow: Tells whether a new row carries on for the old one under the cursor, whose key
                is gone.
        """
        old, old_index = self.current, self.cursor
        self._rows = tuple(rows)
        at = self._find(old, old_index, index, follow)
        line = old_index - round(self.scroll_y)
        self._resize_virtual()
        self._drawn.clear()
        self.set_reactive(Table.cursor, at)
        if old is not None and self.is_mounted:
            # The row keeps its line on the screen when others appear above it; at the very top the
            # new ones are what is watched for, so there they are let in.
            top = 0 if self.scroll_y == 0 and at < self._height else max(0, at - line)
            self.scroll_to(y=top, animate=False, force=True)
        self._show_cursor()
        self._redraw_changed()
        self.post_message(self.Moved(self))

    def _redraw_changed(self) -> None:
        """Draw the lines anew that say something else than what is on the screen."""
        region = self.scrollable_content_region
        if region.height != len(self._on_screen):
            self.refresh()
            return
        for y, old in enumerate(self._on_screen):
            if old is None or self._strip(y) != old:
                self.refresh(Region(0, y, self.size.width, 1))

    def _find(
        self,
        old: T | None,
        at: int,
        index: Mapping[Any, int] | None,
        follow: Callable[[T, T], bool] | None,
    ) -> int:
        if old is not None:
            found = self._index_of(self._key(old), index)
            if found is not None:
                return found
            if follow is not None:
                for i, row in enumerate(self._rows):
                    if follow(old, row):
                        return i
        return max(0, min(at, len(self._rows) - 1))

    def _index_of(self, key: Hashable, index: Mapping[Any, int] | None) -> int | None:
        if index is not None:
            return index.get(key)
        return next((i for i, row in enumerate(self._rows) if self._key(row) == key), None)

    def select(self, key: Hashable, *, index: Mapping[Any, int] | None = None) -> bool:
        """Put the cursor on the row of a key, if there is one."""
        found = self._index_of(key, index)
        if found is not None:
            self.cursor = found
        return found is not None

    def refresh_rows(self) -> None:
        """Draw the rows anew of which a cell says something else."""
        self._drawn.clear()
        self._redraw_changed()

    def watch_cursor(self, old: int, new: int) -> None:
        """Redraw the two rows concerned and tell the screen."""
        for index in (old, new):
            self._drawn.pop((index, True), None)
            self.refresh(Region(0, index + 1 - round(self.scroll_y), self.size.width, 1))
        self._show_cursor()
        self.post_message(self.Moved(self))

    def validate_cursor(self, cursor: int) -> int:
        """Keep the cursor on a row."""
        return max(0, min(cursor, len(self._rows) - 1))

    def action_move(self, by: int) -> None:
        """Move the cursor by rows."""
        self.cursor += by

    def action_page(self, by: int) -> None:
        """Move the cursor by screens."""
        self.cursor += by * max(1, self._height - 1)

    def action_first(self) -> None:
        """Go to the first row."""
        self.cursor = 0

    def action_last(self) -> None:
        """Go to the last row."""
        self.cursor = len(self._rows) - 1

    def action_sideways(self, by: int) -> None:
        """Show columns that have no room; back at the first ones with the other key."""
        width = self.scrollable_content_region.width - 2
        there = {c.key for c, _ in arrange(self._columns, width, skip=self._skip)}
        first = {c.key for c, _ in arrange(self._columns, width)}
        # On to the right only as long as something was not seen yet.
        last = max(self._columns, key=lambda c: (c.key not in first, c.rank), default=None)
        if by > 0 and (last is None or last.key in there):
            return
        skip = max(0, self._skip + by)
        if skip != self._skip:
            self._skip = skip
            self._redraw()

    def action_choose(self) -> None:
        """Tell the screen that the row under the cursor is meant."""
        if self.current is not None:
            self.post_message(self.Chosen(self))

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the row that was clicked."""
        index = event.y - self.gutter.top - 1 + round(self.scroll_y)
        if event.y - self.gutter.top >= 1 and index < len(self._rows):
            if index == self.cursor and event.chain > 1:
                self.action_choose()
            self.cursor = index

    def on_resize(self) -> None:
        """Choose the columns that fit now."""
        self._resize_virtual()
        self._redraw()
        self._show_cursor()

    def on_focus(self) -> None:
        """The cursor row looks different with the focus."""
        self._redraw()

    def on_blur(self) -> None:
        """The cursor row looks different without the focus."""
        self._redraw()

    def notify_style_update(self) -> None:
        """Forget lines drawn in the old style."""
        super().notify_style_update()
        self._redraw()

    @property
    def _height(self) -> int:
        """Lines for rows."""
        return max(1, self.scrollable_content_region.height - 1)

    @property
    def _fitted(self) -> tuple[tuple[Column, int], ...]:
        """The columns that fit now. Not made when a resize is told: that comes after drawing."""
        width = self.scrollable_content_region.width
        if self._arranged != (self._columns, width, self._skip):
            self._arranged = (self._columns, width, self._skip)
            self._layout = arrange(self._columns, width - 2, skip=self._skip)
            self._drawn.clear()
        return self._layout

    def _resize_virtual(self) -> None:
        width = self.scrollable_content_region.width
        self.virtual_size = Size(width, len(self._rows) + 1)

    def _redraw(self) -> None:
        self._drawn.clear()
        self.refresh()

    def _show_cursor(self) -> None:
        top = round(self.scroll_y)
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False, force=True)
        elif self.cursor >= top + self._height:
            self.scroll_to(y=self.cursor - self._height + 1, animate=False, force=True)

    def render_line(self, y: int) -> Strip:
        """One line of the screen: the heading, a row, or nothing."""
        height = self.scrollable_content_region.height
        if len(self._on_screen) != height:
            self._on_screen = [None] * height
        strip = self._strip(y)
        if y < height:
            self._on_screen[y] = strip
        return strip

    def _strip(self, y: int) -> Strip:
        width = self.size.width
        if not self._rows:
            return self._empty_line(y, width)
        fitted = self._fitted
        if y == 0:
            heads = [fit(c.title, w, right=c.right, ellipsis=self._ellipsis) for c, w in fitted]
            line = self._line([(head, "") for head in heads], width, "table--header", " ")
            return self._with_more(line, width) if not self.all_shown else line
        index = y - 1 + round(self.scroll_y)
        if index >= len(self._rows):
            return Strip.blank(width, self.get_component_rich_style("table--row"))
        at_cursor = index == self.cursor
        strip = self._drawn.get((index, at_cursor))
        if strip is None:
            strip = self._row_line(self._rows[index], width, at_cursor=at_cursor)
            self._drawn[index, at_cursor] = strip
        return strip

    def _with_more(self, line: Strip, width: int) -> Strip:
        """The heading with a sign on the side where further columns are a key away."""
        style = self.get_component_rich_style("table--header")
        sign = "<>" if self._skip else ">"
        start = line.crop(0, width - len(sign))
        return Strip([*start, Segment(sign, style)])

    def _row_line(self, row: T, width: int, *, at_cursor: bool) -> Strip:
        cells = []
        for column, cells_wide in self._fitted:
            cell = self._cell(row, column)
            text, style = (cell, "") if isinstance(cell, str) else cell
            text = plain(text)
            if column.tail:
                text = fit_path(text, cells_wide, ellipsis=self._ellipsis)
            text = fit(text, cells_wide, right=column.right, ellipsis=self._ellipsis)
            cells.append((text, style))
        base = "table--cursor" if at_cursor else "table--row"
        return self._line(cells, width, base, ">" if at_cursor else " ")

    def _line(self, cells: Sequence[tuple[str, str]], width: int, base: str, lead: str) -> Strip:
        style = self.get_component_rich_style(base)
        segments = [Segment(lead, style)]
        for i, (text, word) in enumerate(cells):
            # On the cursor row the words keep their meaning but not their colour: it must stay
            # readable on whatever the cursor looks like.
            own = (
                self.get_component_rich_style(base, f"table--{word}")
                if word and base == "table--row"
                else style
            )
            segments.append(Segment(text, own))
            if i < len(cells) - 1:
                segments.append(Segment(" ", style))
        return Strip(segments).adjust_cell_length(width, style)

    def _empty_line(self, y: int, width: int) -> Strip:
        style = self.get_component_rich_style("table--empty")
        text = _wrapped(self._empty, width - 2)
        line = text[y] if y < len(text) else ""
        return Strip([Segment(" " + fit(line, width - 1, ellipsis=self._ellipsis), style)])


def _wrapped(text: str, width: int) -> list[str]:
    """Words in lines of at most `width` cells; line breaks of our own are kept."""
    result = []
    for paragraph in text.split("\n"):
        line = ""
        for word in plain(paragraph).split(" "):
            candidate = f"{line} {word}" if line else word
            if line and len(candidate) > width:
                result.append(line)
                line = word
            else:
                line = candidate
        result.append(line)
    return result
