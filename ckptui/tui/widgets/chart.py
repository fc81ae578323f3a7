"""Metrics over the steps of a run, with its checkpoints as ticks below and a cursor on one.

The lines are made when what they show changes, and only those that differ are sent to the terminal.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from ckptui.display import picture
from ckptui.display.picture import LETTERS, Axes, AxisChoice, Picture, Trace
from ckptui.display.plot import Domain
from ckptui.tui.text import fit, plain
from ckptui.tui.ticks import Tick, Ticks, step_labels, whole

if TYPE_CHECKING:
    from textual import events

__all__ = ["Chart", "Shown", "Tick", "Ticks"]

_STYLES = 6
"""Curves that have a colour of their own."""
_BETWEEN = "   "
"""What stands between two items of a line of words."""
_LEAST = 5
"""Cells for the numbers at a side, at least."""
_NEAR = 8
"""Cells between two changes of a line up to which they are sent to the terminal as one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """How the curves are looked at."""

    log: bool = False
    robust: bool = False
    """Leave the lowest and highest percent of the values beyond the edges."""
    axes: AxisChoice = "auto"
    steps: tuple[int, int] | None = None
    """From which to which step; None for all."""


@dataclass(slots=True)
class _Drawn:
    over: Domain
    axes: Axes
    picture: Picture
    legend: list[str]
    remarks: list[str]
    left: dict[int, str]
    right: dict[int, str] | None
    gutter: int
    letters: list[str]
    labels: str


_BOLD = Style(bold=True)
_WEIGHT = "|R*P~!"
"""Which letter wins where several checkpoints share a cell: the later one."""


class Chart(Widget, can_focus=False):
    """Curves drawn line by line."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "chart--axis",
        "chart--faint",
        "chart--cursor",
        "chart--tick",
        "chart--gap",
        "chart--text",
        *(f"chart--curve-{i}" for i in range(_STYLES)),
    }

    @dataclass
    class Pointed(Message):
        """A checkpoint was pointed at with the mouse."""

        key: str

    def __init__(
        self,
        *,
        ascii_only: bool = False,
        words: int = 1,
        id: str | None = None,  # noqa: A002 - the name that every widget uses
    ) -> None:
        """An empty chart.

        Args:
            ascii_only: Use no character beyond ASCII.
            words: Lines of words below the curve.
            id: As of every widget.
        """
        super().__init__(id=id)
        self._ascii = ascii_only
        self._ellipsis = "~" if ascii_only else "…"
        self._words = words
        self._traces: Sequence[Trace] = ()
        self._ticks = Ticks()
        self._shown = Shown()
        self._empty = ""
        self._caption: Callable[[str], Sequence[str]] = lambda _: ()
        self._cursor: str | None = None
        self._drawn: _Drawn | None = None
        self._strips: list[Strip] = []

    def show(
        self,
        traces: Sequence[Trace],
        ticks: Ticks,
        *,
        shown: Shown = Shown(),
        empty: str = "",
        caption: Callable[[str], Sequence[str]] = lambda _: (),
    ) -> None:
        """Show curves.

        Args:
            traces: The first is the one that matters most.
            ticks: The checkpoints.
            shown: How to look at them.
            empty: What stands there if no value is finite.
            caption: What to say of the checkpoint of a key, in lines.
        """
        same = (
            self._ticks is ticks
            and (self._shown, self._empty) == (shown, empty)
            and len(self._traces) == len(traces)
            and all(map(_same, self._traces, traces))
        )
        self._traces, self._ticks, self._shown = traces, ticks, shown
        self._empty, self._caption = empty, caption
        if not same:
            self._drawn = None
        self._update()

    def set_cursor(self, key: str | None) -> None:
        """Put the cursor on a checkpoint."""
        if key != self._cursor:
            self._cursor = key
            self._update()

    @property
    def cursor_tick(self) -> Tick | None:
        """The checkpoint under the cursor."""
        at = self._ticks.find(self._cursor)
        return None if at is None else self._ticks[at]

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the curves leave out, in words."""
        return tuple(self._drawn.remarks) if self._drawn is not None else ()

    def on_resize(self) -> None:
        """Draw to the new size."""
        self._drawn = None
        self._strips = []
        self.refresh()

    def notify_style_update(self) -> None:
        """Forget lines drawn in the old style."""
        super().notify_style_update()
        self._strips = []
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        """Tell the screen which checkpoint is nearest to the pointer."""
        offset = event.get_content_offset(self)
        if self._drawn is None or offset is None:
            return
        x = offset.x - self._drawn.gutter - 2
        starts = self._drawn.over.beginnings(self._drawn.over.width)
        at = self._ticks.nearest(starts[x]) if 0 <= x < len(starts) else None
        if at is not None:
            self.post_message(self.Pointed(self._ticks.keys[at]))

    # Drawing

    def _update(self) -> None:
        """Draw anew and send the lines that have changed."""
        if not self._strips:
            self.refresh()
            return
        old, self._strips = self._strips, self._draw_all()
        regions = [
            Region(x, y, length, 1)
            for y, (before, now) in enumerate(zip_longest(old, self._strips))
            if before != now
            for x, length in _differing(before, now, self.size.width)
        ]
        if regions:
            self.refresh(*regions)

    def render_line(self, y: int) -> Strip:
        """One line: of the legend, the curves, the ticks, the steps or the words below."""
        if not self._strips:
            self._strips = self._draw_all()
        if y < len(self._strips):
            return self._strips[y]
        return Strip.blank(self.size.width, self.get_component_rich_style("chart--axis"))

    def _draw_all(self) -> list[Strip]:
        width, height = self.size
        axis = self.get_component_rich_style("chart--axis")
        if width < 20 or height < 5:
            return [Strip.blank(width, axis)] * height
        if self._drawn is None:
            self._drawn = self._lay_out(width, height)
        drawn = self._drawn
        text = self.get_component_rich_style("chart--text")
        lines = [self._legend_line(line) for line in drawn.legend]
        lines += [self._curve_line(y, drawn) for y in range(len(drawn.picture.lines))]
        lines.append(self._tick_line(drawn))
        lines.append([Segment(drawn.labels, axis)])
        captions = [f" {line}" for line in self._captions(drawn)]
        captions[0] = self._whole_items(captions[0], width - 1)
        lines += [[Segment(self._fit(line, width - 1), text)] for line in captions]
        return [Strip(line).adjust_cell_length(width, axis) for line in lines]

    def _lay_out(self, width: int, height: int) -> _Drawn:
        first, last = self._shown.steps or whole(self._traces, self._ticks)
        log, robust = self._shown.log, self._shown.robust
        axes = picture.axes(
            self._traces, first, last, log=log, robust=robust, choice=self._shown.axes
        )
        legend = self._legend(axes, width, height // 3) if len(self._traces) > 1 else []
        remarks = picture.left_out(self._traces, first, last, axes, robust=robust)
        words = self._lines_of_words
        height -= len(legend) + 2 + words + bool(remarks and words > 1)
        left = axes.left.labels(height) if axes.left is not None else {}
        right = axes.right.labels(height) if axes.right is not None else None
        gutter = max([_LEAST, *map(len, left.values())])
        across = width - gutter - 2
        if right is not None:
            across -= max([_LEAST, *map(len, right.values())]) + 2
        over = Domain(first, last, max(1, across))
        height = max(1, height)
        drawn = picture.compose(
            self._traces, over, axes, height, robust=robust, ascii_only=self._ascii
        )
        return _Drawn(
            over=over,
            axes=axes,
            picture=drawn,
            legend=legend,
            remarks=remarks,
            left=left,
            right=right,
            gutter=gutter,
            letters=self._letters(over),
            labels=" " * (gutter + 2) + step_labels(over),
        )

    def _legend(self, axes: Axes, width: int, lines: int) -> list[str]:
        """As many lines as there is room for."""
        found = [""]
        for entry in map(plain, picture.legend(self._traces, axes)):
            longer = f"{found[-1]}   {entry}" if found[-1] else entry
            if found[-1] and len(longer) > width - 2:
                found.append(entry)
            else:
                found[-1] = longer
        return [self._fit(f" {line}", width - 1) for line in found[: max(1, lines)]]

    def _legend_line(self, line: str) -> list[Segment]:
        """The letters as their curves look."""
        text = self.get_component_rich_style("chart--text")
        segments, place = [], 0
        for i in range(len(self._traces)):
            at = line.find(f" {LETTERS[i]} ", place)
            if at >= 0:
                segments += [Segment(line[place : at + 1], text)]
                segments += [Segment(LETTERS[i], self._style(f"{i}") + _BOLD)]
                place = at + 2
        return [*segments, Segment(line[place:], text)]

    def _whole_items(self, line: str, width: int) -> str:
        """The line with as many of its items as fit, whole: a number cut short is another one."""
        items = line.split(_BETWEEN)
        while len(items) > 2 and cell_len(line) > width:
            items.pop()
            line = f"{_BETWEEN.join(items)} {self._ellipsis}"
        return line

    def _fit(self, text: str, width: int) -> str:
        return fit(text, width, ellipsis=self._ellipsis)

    def _style(self, kind: str) -> Style:
        if not kind:
            return self.get_component_rich_style("chart--axis")
        curve = f"chart--curve-{int(kind.rstrip('f')) % _STYLES}"
        return self.get_component_rich_style(curve, *(["chart--faint"] if "f" in kind else []))

    def _curve_line(self, y: int, drawn: _Drawn) -> list[Segment]:
        axis = self.get_component_rich_style("chart--axis")
        bar, mark = ("|", "+") if self._ascii else ("│", "┤")
        label = drawn.left.get(y, "")
        head = f"{label:>{drawn.gutter}} {mark if label else bar}"
        segments = [Segment(head, axis)]
        if all(scale is None for scale in drawn.axes.scales):
            middle = y == len(drawn.picture.lines) // 2
            words = self._fit(f" {plain(self._empty)}" if middle else "", drawn.over.width)
            return [*segments, Segment(words, axis)]
        tick = self.cursor_tick
        at = -1
        if tick is not None and drawn.over.first <= tick.step <= drawn.over.last:
            at = drawn.over.column(tick.step)
        x = 0
        for text, kind in drawn.picture.lines[y]:
            style = self._style(kind)
            if x <= at < x + len(text):
                here = text[at - x]
                cursor = self.get_component_rich_style("chart--cursor")
                segments += [
                    Segment(text[: at - x], style),
                    # Heavy: beside the frame, or without colours, it is no frame.
                    Segment(here if here != " " else "#" if self._ascii else "┃", cursor),
                    Segment(text[at - x + 1 :], style),
                ]
            else:
                segments.append(Segment(text, style))
            x += len(text)
        if drawn.right is not None:
            label = drawn.right.get(y, "")
            mark = "+" if self._ascii else "├"
            segments.append(Segment(f"{mark if label else bar} {label}", axis))
        return segments

    def _letters(self, over: Domain) -> list[str]:
        """For each cell the letter of the checkpoint in it that matters most, or a space."""
        steps = self._ticks.steps
        metrics = frozenset(t.metric for t in self._traces)
        letters = self._ticks.letters_for(metrics)
        found = []
        place = bisect_left(steps, over.first)
        end = bisect_right(steps, over.last)
        for start in [*over.beginnings(2 * over.width)[2::2], over.last + 1]:
            after = bisect_left(steps, start, place, end)
            part = letters[place:after]
            found.append(max(part, key=_WEIGHT.find) if part else " ")
            place = after
        for i in range(bisect_left(steps, over.first), end if self._ticks.rows else 0):
            # Of a best one that is pinned both letters stand there, as in the list.
            if letters[i] == "P" and metrics.intersection(self._ticks.rows[i].standing.best):
                x = over.column(steps[i])
                free = [n for n in (x - 1, x + 1) if 0 <= n < len(found) and found[n] == " "]
                if found[x] == "P" and free:
                    found[free[0]] = "*"
        return found

    def _tick_line(self, drawn: _Drawn) -> list[Segment]:
        axis = self.get_component_rich_style("chart--axis")
        corner, rule = ("+", "-") if self._ascii else ("└", "─")
        segments = [Segment(" " * (drawn.gutter + 1) + corner, axis)]
        tick = self.cursor_tick
        at = -1
        if tick is not None and drawn.over.first <= tick.step <= drawn.over.last:
            at = drawn.over.column(tick.step)
        for x, letter in enumerate(drawn.letters):
            if x == at:
                shown = _sign(letter)
                segments.append(Segment(shown, self.get_component_rich_style("chart--cursor")))
            elif letter != " ":
                segments.append(Segment(letter, self.get_component_rich_style("chart--tick")))
            elif x in drawn.picture.gaps:
                segments.append(Segment("?", self.get_component_rich_style("chart--gap")))
            else:
                segments.append(Segment(rule, axis))
        return list(Segment.simplify(segments))

    def _captions(self, drawn: _Drawn) -> list[str]:
        tick = self.cursor_tick
        lines = [plain(line) for line in self._caption(tick.key)] if tick is not None else []
        if tick is not None and lines:
            # By the sign below the curve one finds where these words belong.
            x = drawn.over.column(tick.step)
            letter = drawn.letters[x] if x < len(drawn.letters) else " "
            lines[0] = f"{_sign(letter)} {lines[0]}"
        remarks, words = "   ".join(drawn.remarks), self._lines_of_words
        if words > 1:
            return [*(lines + [""] * words)[:words], *([remarks] if remarks else [])]
        return ["   ".join(filter(None, [*lines[:1], remarks]))]

    @property
    def _lines_of_words(self) -> int:
        return max(1, min(self._words, self.size.height // 5))


def _sign(letter: str) -> str:
    """What stands below the cursor: the letter there, where it says anything."""
    return letter if letter in "RP*~!" else "^"


def _differing(before: Strip | None, now: Strip | None, width: int) -> list[tuple[int, int]]:
    """Where a line differs from what it was, and over how many cells."""
    if before is None or now is None:
        return [(0, width)]
    cells = [[(text, part.style) for part in line for text in part.text] for line in (before, now)]
    if not len(cells[0]) == len(cells[1]) == before.cell_length == now.cell_length:
        return [(0, width)]  # characters of two cells
    found: list[tuple[int, int]] = []
    for x, (one, other) in enumerate(zip(*cells, strict=True)):
        if one != other:
            start, length = found[-1] if found else (0, 0)
            # Cells that are nearly side by side cost less together.
            if found and x < start + length + _NEAR:
                found[-1] = (start, x + 1 - start)
            else:
                found.append((x, 1))
    return found


def _same(one: Trace, other: Trace) -> bool:
    return (
        one.curve is other.curve
        and one.smooth is other.smooth
        and (one.label, one.metric) == (other.label, other.metric)
    )
