"""A curve as lines of text: braille dots, or ASCII where the terminal knows nothing else.

Every column draws the range from its lowest to its highest value, so that no spike is lost,
however many values share the column. A value that is not finite breaks the curve.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Point = tuple[int, float | None]
"""An optimizer step and its value; None was logged and is not finite."""

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bit of the braille dot at (row, column) of a cell, from the top left."""
_BARS = "▁▂▃▄▅▆▇█"
_ASCII_BARS = "_.-=+*%#"


@dataclass(frozen=True, slots=True)
class Domain:
    """The steps that a plot spans, laid out over a number of cells."""

    first: int
    last: int
    width: int

    def column(self, step: int) -> int:
        """The cell in which a step lies."""
        return self.position(step, self.width)

    def position(self, step: int, places: int) -> int:
        """The place of a step among `places` equal places from the first step to the last."""
        if self.last <= self.first or places < 2:
            return 0
        share = (step - self.first) / (self.last - self.first)
        return min(places - 1, max(0, round(share * (places - 1))))


@dataclass(frozen=True, slots=True)
class Plot:
    """A drawn curve."""

    lines: tuple[str, ...]
    """From top to bottom, each exactly as wide as the domain."""
    low: float | None
    high: float | None
    """The values at the lower and upper edge; None where nothing was finite."""
    gaps: frozenset[int]
    """Cells in which a value was not finite."""


def domain(points: Sequence[Point], steps: Sequence[int], width: int) -> Domain:
    """The steps from the first to the last of a curve and of what is marked on it."""
    every = [p[0] for p in points] + list(steps)
    return Domain(min(every, default=0), max(every, default=0), max(1, width))


def draw(
    points: Sequence[Point],
    over: Domain,
    height: int,
    *,
    log: bool = False,
    ascii_only: bool = False,
) -> Plot:
    """Draw points, ascending by step, into `height` lines.

    Args:
        points: The curve.
        over: Which steps the width stands for.
        height: Lines.
        log: Use a logarithmic scale; values that have no logarithm are left out as gaps.
        ascii_only: Use no character beyond ASCII.
    """
    across = over.width * (1 if ascii_only else 2)
    down = height * (3 if ascii_only else 4)
    scaled = [(over.position(step, across), _scale(value, log=log)) for step, value in points]
    cells_per_place = 1 if ascii_only else 2
    gaps = frozenset(x // cells_per_place for x, value in scaled if value is None)
    finite = [value for _, value in scaled if value is not None]
    if not finite or height < 1:
        return Plot((" " * over.width,) * max(0, height), None, None, gaps)
    low, high = min(finite), max(finite)
    ranges = _ranges(scaled, across, down, low, high)
    lines = (_ascii_lines if ascii_only else _braille_lines)(ranges, height)
    edges = (10**low, 10**high) if log else (low, high)
    return Plot(lines, edges[0], edges[1], gaps)


def spark(values: Sequence[float | None], width: int, *, ascii_only: bool = False) -> str:
    """A curve in one line: the mean of each of `width` equal slices; a gap is a space."""
    bars = _ASCII_BARS if ascii_only else _BARS
    if not values or width < 1:
        return ""
    count = min(width, len(values))
    slices: list[float | None] = []
    for i in range(count):
        part = values[i * len(values) // count : (i + 1) * len(values) // count]
        known = [v for v in part if v is not None and math.isfinite(v)]
        slices.append(sum(v / len(known) for v in known) if known else None)
    known = [v for v in slices if v is not None]
    if not known:
        return " " * count
    low, high = min(known), max(known)
    span = high / 2 - low / 2  # halves, since the difference of huge values may overflow
    top = len(bars) - 1
    return "".join(
        " " if v is None else bars[round((v / 2 - low / 2) / span * top) if span else top // 2]
        for v in slices
    )


def _scale(value: float | None, *, log: bool) -> float | None:
    if value is None or not math.isfinite(value):
        return None
    if not log:
        return value
    return math.log10(value) if value > 0 else None


def _ranges(
    scaled: Sequence[tuple[int, float | None]], across: int, down: int, low: float, high: float
) -> list[tuple[int, int] | None]:
    """The lowest and highest dot of every column, counted from the top; None for none."""
    tops: list[float] = [math.inf] * across
    bottoms: list[float] = [-math.inf] * across
    span = high / 2 - low / 2

    def row(value: float) -> float:
        return (down - 1) * ((high / 2 - value / 2) / span) if span else (down - 1) / 2

    before: tuple[int, float] | None = None
    for x, value in scaled:
        if value is None:
            before = None
            continue
        y = row(value)
        tops[x] = min(tops[x], y)
        bottoms[x] = max(bottoms[x], y)
        if before is not None and before[0] < x:
            x0, y0 = before
            slope = (y - y0) / (x - x0)
            for column in range(x0, x + 1):
                left = y0 + slope * (max(x0, column - 0.5) - x0)
                right = y0 + slope * (min(x, column + 0.5) - x0)
                tops[column] = min(tops[column], left, right)
                bottoms[column] = max(bottoms[column], left, right)
        before = (x, y)
    return [
        (round(top), round(bottom)) if top <= bottom else None
        for top, bottom in zip(tops, bottoms, strict=True)
    ]


def _braille_lines(ranges: Sequence[tuple[int, int] | None], height: int) -> tuple[str, ...]:
    width = len(ranges) // 2
    cells = [[0] * width for _ in range(height)]
    for x, span in enumerate(ranges):
        if span is not None:
            for y in range(span[0], span[1] + 1):
                cells[y // 4][x // 2] |= _DOTS[y % 4][x % 2]
    return tuple("".join(chr(0x2800 + bits) if bits else " " for bits in line) for line in cells)


def _ascii_lines(ranges: Sequence[tuple[int, int] | None], height: int) -> tuple[str, ...]:
    lines = [[" "] * len(ranges) for _ in range(height)]
    for x, span in enumerate(ranges):
        if span is None:
            continue
        top, bottom = span
        if top // 3 == bottom // 3:
            lines[top // 3][x] = "'-."[(top + bottom) // 2 % 3]
        else:
            for y in range(top // 3, bottom // 3 + 1):
                lines[y][x] = "|"
    return tuple("".join(line) for line in lines)
