"""A metric over the steps of a run, with its checkpoints as ticks below and a cursor on one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from textual.strip import Strip
from textual.widget import Widget

from ckptui import display
from ckptui.display.plot import Domain, Plot, domain, draw
from ckptui.tui.text import fit, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ckptui.display.plot import Point

_LABEL = 9
"""Cells for the numbers on the left."""
_UNDER = 3
"""Lines below the curve: ticks, steps, and what the cursor stands on."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A checkpoint below the curve."""

    key: str
    name: str
    step: int
    letter: str
    """What it is: `|` or one of the flags of the list."""
    value: str
    """Its own value of the metric, or a word."""


_WEIGHT = "|R*P~!"
"""Which letter wins where several checkpoints share a cell: the later one."""


class Chart(Widget, can_focus=False):
    """A curve drawn line by line; a full width of values costs one pass over the points."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "chart--axis",
        "chart--curve",
        "chart--cursor",
        "chart--tick",
        "chart--gap",
        "chart--text",
    }

    def __init__(self, *, ascii_only: bool = False, id: str | None = None) -> None:  # noqa: A002 - the name that every widget uses
        super().__init__(id=id)
        self._ascii = ascii_only
        self._points: Sequence[Point] = ()
        self._ticks: Sequence[Tick] = ()
        self._cursor: str | None = None
        self._log = False
        self._empty = ""
        self._drawn: tuple[Domain, Plot] | None = None

    def show(
        self, points: Sequence[Point], ticks: Sequence[Tick], *, empty: str = "", log: bool = False
    ) -> None:
        """Show a curve.

        Args:
            points: Ascending by step.
            ticks: The checkpoints, ascending by step.
            empty: What stands there if no value is finite.
            log: Use a logarithmic scale.
        """
        self._points, self._ticks, self._empty, self._log = points, ticks, empty, log
        self._drawn = None
        self.refresh()

    def set_cursor(self, key: str | None) -> None:
        """Put the cursor on a checkpoint."""
        if key != self._cursor:
            self._cursor = key
            self.refresh()

    @property
    def cursor_tick(self) -> Tick | None:
        """The checkpoint under the cursor."""
        return next((t for t in self._ticks if t.key == self._cursor), None)

    @property
    def plot(self) -> Plot:
        """The curve as drawn."""
        return self._layout()[1]

    def on_resize(self) -> None:
        """Draw to the new size."""
        self._drawn = None

    def _layout(self) -> tuple[Domain, Plot]:
        if self._drawn is None:
            width = max(1, self.size.width - _LABEL - 3)
            over = domain(self._points, [t.step for t in self._ticks], width)
            height = max(1, self.size.height - _UNDER)
            plot = draw(self._points, over, height, log=self._log, ascii_only=self._ascii)
            self._drawn = (over, plot)
        return self._drawn

    def render_line(self, y: int) -> Strip:
        """One line: of the curve, the ticks, the steps or the words below."""
        width = self.size.width
        axis = self.get_component_rich_style("chart--axis")
        if width < _LABEL + 8 or self.size.height < _UNDER + 2:
            return Strip.blank(width, axis)
        over, plot = self._layout()
        height = len(plot.lines)
        if y < height:
            segments = self._curve_line(y, over, plot)
        elif y == height:
            segments = self._tick_line(over, plot)
        elif y == height + 1:
            segments = [Segment(self._step_labels(over), axis)]
        elif y == height + 2:
            text = fit(" " + self._caption(plot), width - 1)
            segments = [Segment(text, self.get_component_rich_style("chart--text"))]
        else:
            segments = []
        return Strip(segments).adjust_cell_length(width, axis)

    def _curve_line(self, y: int, over: Domain, plot: Plot) -> list[Segment]:
        axis = self.get_component_rich_style("chart--axis")
        curve = self.get_component_rich_style("chart--curve")
        bar = "|" if self._ascii else "│"
        head = Segment(fit(self._label(y, plot), _LABEL, right=True) + " " + bar, axis)
        line = plot.lines[y]
        if plot.low is None:
            middle = y == len(plot.lines) // 2
            return [head, Segment(fit(" " + self._empty if middle else "", over.width), axis)]
        tick = self.cursor_tick
        if tick is None:
            return [head, Segment(line, curve)]
        x = over.column(tick.step)
        here = line[x] if line[x] != " " else bar
        return [
            head,
            Segment(line[:x], curve),
            Segment(here, self.get_component_rich_style("chart--cursor")),
            Segment(line[x + 1 :], curve),
        ]

    def _label(self, y: int, plot: Plot) -> str:
        last = len(plot.lines) - 1
        if plot.low is None or plot.high is None:
            return ""
        if y == 0:
            return display.number(plot.high)
        if y == last:
            return display.number(plot.low)
        if y == last // 2 and last >= 4 and not self._log:
            share = y / last
            return display.number(plot.high * (1 - share) + plot.low * share)
        return ""

    def _tick_line(self, over: Domain, plot: Plot) -> list[Segment]:
        axis = self.get_component_rich_style("chart--axis")
        corner, rule = ("+", "-") if self._ascii else ("└", "─")
        letters = [rule] * over.width
        for x in plot.gaps:
            letters[x] = "?"
        for tick in self._ticks:
            x = over.column(tick.step)
            if _WEIGHT.find(tick.letter) >= _WEIGHT.find(letters[x]):
                letters[x] = tick.letter
        tick_style = self.get_component_rich_style("chart--tick")
        gap_style = self.get_component_rich_style("chart--gap")
        here = self.cursor_tick
        at = over.column(here.step) if here is not None else -1
        segments = [Segment(" " * (_LABEL + 1) + corner, axis)]
        for x, letter in enumerate(letters):
            if x == at:
                shown = letter if letter in "RP*~!" else "^"
                segments.append(Segment(shown, self.get_component_rich_style("chart--cursor")))
            else:
                style = axis if letter == rule else gap_style if letter == "?" else tick_style
                segments.append(Segment(letter, style))
        return list(Segment.simplify(segments))

    def _step_labels(self, over: Domain) -> str:
        line = [" "] * (over.width + 1)
        taken = -2
        for place in range(5):
            step = over.first + (over.last - over.first) * place // 4
            text = str(step)
            if place == 4:
                start = over.width - len(text)
            else:
                start = max(0, over.column(step) - len(text) // 2)
            if start <= taken + 1 or start + len(text) > over.width or start < 0:
                continue
            if place < 4 and start + len(text) + len(str(over.last)) + 2 > over.width:
                continue
            line[start : start + len(text)] = text
            taken = start + len(text)
            if over.first == over.last:
                break
        return " " * (_LABEL + 2) + "".join(line)

    def _caption(self, plot: Plot) -> str:
        tick = self.cursor_tick
        parts = [] if tick is None else [f"{plain(tick.name)}: {plain(tick.value)}"]
        if plot.gaps:
            parts.append("? not finite")
        return "   ".join(parts)
