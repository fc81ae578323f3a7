"""Curves as lines of text: braille dots, or ASCII where the terminal knows nothing else.

Every column draws the range from its lowest to its highest value, so that no spike is lost,
however many values share the column. A value that is not finite breaks the curve.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ckptui.columns import Curve, Point
from ckptui.display.scales import Scale, limits

__all__ = ["Domain", "Plot", "Point", "Shape", "domain", "draw", "shape", "spark"]

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
        return self.position(step, 2 * self.width) // 2

    def position(self, step: int, places: int) -> int:
        """The place of a step among `places` equal places from the first step to the last."""
        return min(places - 1, max(0, self.place(step, places)))

    def place(self, step: int, places: int) -> int:
        """The same for any step: beyond the places where it is beyond the domain."""
        span = self.last - self.first
        if span <= 0 or places < 2:
            return 0
        # In integers: a curve and the mark below it must never part by a rounding.
        return (2 * (step - self.first) * (places - 1) + span) // (2 * span)

    def beginnings(self, places: int) -> list[int]:
        """The first step of each of `places` places."""
        span, apart = self.last - self.first, 2 * (places - 1)
        if span <= 0 or places < 2:
            return [self.first] + [self.last + 1] * (places - 1)
        # The least step that `place` puts there: a division that rounds up.
        return [self.first - (-(2 * place - 1) * span // apart) for place in range(places)]

    def indexes(self, curve: Curve) -> tuple[int, int]:
        """From and before which index the points of a curve lie here."""
        return curve.find(self.first), curve.find(self.last + 1)


@dataclass(frozen=True, slots=True)
class Shape:
    """What a curve covers of a plot: for every place across, from which dot to which."""

    spans: tuple[tuple[int, int] | None, ...]
    """Counted from the top, both ends included; None where there is nothing."""
    gaps: frozenset[int]
    """Places in which a value is not finite, or has no logarithm."""
    above: frozenset[int]
    below: frozenset[int]
    """Places where it goes on beyond the upper or the lower edge."""


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
    """The steps from the first to the last of a curve, ascending, and of what is marked on it."""
    ends = [points[0][0], points[-1][0]] if points else []
    first, last = min([*ends, *steps], default=0), max([*ends, *steps], default=0)
    return Domain(first, last, max(1, width))


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
    curve = Curve.of(points)
    edges = limits([(curve, *over.indexes(curve))], log=log)
    scale = Scale(*(edges or (1.0, 1.0)), log=log)
    drawn = shape(curve, over, scale, height * (3 if ascii_only else 4), fine=not ascii_only)
    gaps = frozenset(place // (1 if ascii_only else 2) for place in drawn.gaps)
    if edges is None or height < 1:
        return Plot((" " * over.width,) * max(0, height), None, None, gaps)
    lines = (ascii_lines if ascii_only else braille_lines)(drawn.spans, height)
    return Plot(lines, edges[0], edges[1], gaps)


def shape(curve: Curve, over: Domain, scale: Scale, down: int, *, fine: bool) -> Shape:
    """What a curve covers.

    Args:
        curve: The points; those outside of the domain only lead the line to its edges.
        over: Which steps the width stands for.
        scale: Which values the height stands for; what is beyond stands at the edge.
        down: Dots from top to bottom.
        fine: Two places to a cell instead of one.
    """
    dots = 2 * over.width
    begin, end = over.indexes(curve)
    starts = over.beginnings(dots)[:: 1 if fine else 2]
    across = len(starts)
    tops: list[float] = [math.inf] * across
    bottoms: list[float] = [-math.inf] * across
    gaps: set[int] = set()
    before = _point_outside(curve, begin - 1, over, scale, down, across)
    index = begin
    for x in range(across):
        if index >= end:
            break
        first = index
        index = curve.find(starts[x + 1], index) if x + 1 < across else end
        if first == index:
            continue
        low, high, known_first, known_last = _known(curve, first, index, scale)
        if (
            known_last - known_first < index - first - 1
            or low > high
            or _holes(curve, first, index, scale)
        ):
            gaps.add(x)
        if low > high:
            before = None
            continue
        tops[x] = min(tops[x], scale.row(high, down))
        bottoms[x] = max(bottoms[x], scale.row(low, down))
        if before is not None and before[2] == known_first - 1:
            _link(tops, bottoms, before[:2], (x, scale.row(curve.values[known_first], down)))
        before = (x, scale.row(curve.values[known_last], down), known_last)
    after = _point_outside(curve, end, over, scale, down, across)
    if before is not None and after is not None and before[2] == end - 1:
        _link(tops, bottoms, before[:2], after[:2])
    edge = down - 1
    return Shape(
        tuple(
            (min(edge, max(0, round(top))), min(edge, max(0, round(bottom))))
            if top <= bottom
            else None
            for top, bottom in zip(tops, bottoms, strict=True)
        ),
        frozenset(gaps),
        frozenset(x for x, top in enumerate(tops) if top < -0.5),
        frozenset(x for x, bottom in enumerate(bottoms) if bottom > edge + 0.5),
    )


def _shown(value: float, scale: Scale) -> bool:
    return value > 0 if scale.log else not math.isnan(value)


def _holes(curve: Curve, first: int, last: int, scale: Scale) -> bool:
    if scale.log and curve.extent(first, last)[0] <= 0:
        return True
    return bool(curve.gaps_between(first, last))


def _known(curve: Curve, first: int, last: int, scale: Scale) -> tuple[float, float, int, int]:
    """Lowest and highest value that can be shown, and the first and last index that has one."""
    low, high = curve.extent(first, last)
    if low > high or (scale.log and high <= 0):
        return math.inf, -math.inf, first, first
    if scale.log and low <= 0:
        low = min(v for v in curve.values[first:last] if v > 0)
    values, last = curve.values, last - 1
    while not _shown(values[first], scale):
        first += 1
    while not _shown(values[last], scale):
        last -= 1
    return low, high, first, last


def _point_outside(
    curve: Curve, index: int, over: Domain, scale: Scale, down: int, across: int
) -> tuple[int, float, int] | None:
    """The nearest point outside of the domain, from or to which the line goes."""
    if not 0 <= index < len(curve) or not _shown(curve.values[index], scale):
        return None
    place = over.place(curve.steps[index], across)
    return place, scale.row(curve.values[index], down), index


def _link(
    tops: list[float], bottoms: list[float], one: tuple[int, float], other: tuple[int, float]
) -> None:
    """Draw the line between two points of different columns."""
    (x0, y0), (x1, y1) = one, other
    if x0 >= x1:
        return
    slope = (y1 - y0) / (x1 - x0)
    for x in range(max(0, x0), min(len(tops) - 1, x1) + 1):
        left = y0 + slope * (max(x0, x - 0.5) - x0)
        right = y0 + slope * (min(x1, x + 0.5) - x0)
        tops[x] = min(tops[x], left, right)
        bottoms[x] = max(bottoms[x], left, right)


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


def fill_bits(top: int, bottom: int, row: int, side: int) -> int:
    """Braille dots of the cell in `row` that a span from `top` to `bottom` covers on one side."""
    first, last = max(0, top - 4 * row), min(3, bottom - 4 * row)
    return _FILLED[side][first][last] if first <= last else 0


_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""Bits of the braille dots of the left and the right side of a cell, from the top."""
_FILLED = tuple(
    tuple(tuple(sum(side[first : last + 1]) for last in range(4)) for first in range(4))
    for side in _DOTS
)


def braille_lines(spans: Sequence[tuple[int, int] | None], height: int) -> tuple[str, ...]:
    """Spans of dots, two places and four dots to a cell."""
    cells = [[0] * (len(spans) // 2) for _ in range(height)]
    for x, span in enumerate(spans):
        if span is not None:
            for row in range(span[0] // 4, span[1] // 4 + 1):
                cells[row][x // 2] |= fill_bits(*span, row, x % 2)
    return tuple("".join(chr(0x2800 + bits) if bits else " " for bits in line) for line in cells)


def ascii_lines(spans: Sequence[tuple[int, int] | None], height: int) -> tuple[str, ...]:
    """Spans of dots, one place and three dots to a cell."""
    lines = [[" "] * len(spans) for _ in range(height)]
    for x, span in enumerate(spans):
        if span is None:
            continue
        top, bottom = span
        if top // 3 == bottom // 3:
            lines[top // 3][x] = "'-."[(top + bottom) // 2 % 3]
        else:
            for y in range(top // 3, bottom // 3 + 1):
                lines[y][x] = "|"
    return tuple("".join(line) for line in lines)
