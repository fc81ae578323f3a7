"""Several curves in one plot: each with a letter and a pattern, on an axis that suits it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final, Literal

from ckptui.display.plot import Domain, Shape, fill_bits, shape
from ckptui.display.scales import Scale, limits, spelled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ckptui.columns import Curve

AxisChoice = Literal["auto", "one", "own"]
Line = tuple[tuple[str, str], ...]
"""Pieces of text, each with its kind: empty, a trace's number, or that and `f` for a faint one."""

LETTERS: Final = "abcdefghij"
"""What the curves of one plot are called; no plot has more."""
_PATTERNS: Final = ((1, 1), (4, 6), (1, 2), (6, 8), (2, 6))
"""How many of how many places of a line are drawn, by the number of its curve."""
_FLAT: Final = 0.1
"""Part of the height below which half a curve looks like a flat line."""
_SEEN: Final = 0.02
"""Part of the height from which something is to be seen of it."""
_LETTER_EVERY: Final = 30
"""Cells from one letter on a curve to the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A curve to draw."""

    label: str
    """For the legend."""
    metric: str
    curve: Curve
    smooth: Curve | None = None
    """Drawn instead, with the curve itself faint behind it."""


@dataclass(frozen=True, slots=True)
class Axes:
    """The vertical axes of a plot."""

    scales: tuple[Scale | None, ...]
    """Of each trace; None where it has nothing to show."""
    left: Scale | None
    right: Scale | None
    sides: tuple[str, ...]
    """Of each trace: `left`, `right`, or `own` where no axis can be labelled for it."""


@dataclass(frozen=True, slots=True)
class Picture:
    """Drawn curves."""

    lines: tuple[Line, ...]
    """From top to bottom, each exactly as wide as the domain."""
    gaps: frozenset[int]
    """Cells in which a value could not be shown."""


def axes(
    traces: Sequence[Trace],
    first: int,
    last: int,
    *,
    log: bool = False,
    robust: bool = False,
    choice: AxisChoice = "auto",
) -> Axes:
    """The axes for the part of the curves from one step to another.

    Args:
        traces: The curves.
        first: The step at the left edge.
        last: The step at the right edge.
        log: Logarithmic.
        robust: Leave outliers beyond the edges.
        choice: One axis for all, one for each metric, or whichever shows more.
    """
    over = Domain(first, last, 1)
    groups = _groups(traces, over, choice, log=log)
    scale_of: dict[str, Scale | None] = {}
    for metrics in groups:
        of_group = [t for t in traces if t.metric in metrics]
        edges = _limits(of_group, over, log=log, robust=robust)
        scale = Scale(*edges, log=log) if edges is not None else None
        scale_of.update(dict.fromkeys(metrics, scale))
    places = ["left", "right"] if len(groups) <= 2 else ["own"] * len(groups)
    side_of = {m: side for metrics, side in zip(groups, places, strict=False) for m in metrics}
    scales = [scale_of[metrics[0]] for metrics in groups]
    return Axes(
        scales=tuple(scale_of[t.metric] for t in traces),
        left=scales[0] if scales and len(groups) <= 2 else None,
        right=scales[1] if len(groups) == 2 else None,
        sides=tuple(side_of[t.metric] for t in traces),
    )


def _limits(
    traces: Sequence[Trace], over: Domain, *, log: bool, robust: bool = False
) -> tuple[float, float] | None:
    shown = []
    for trace in traces:
        first, last = over.indexes(trace.curve)
        if last - first < 2:  # what is seen is the line between points that are not
            first, last = max(0, first - 1), min(len(trace.curve), last + 1)
        shown.append((trace.curve, first, last))
    return limits(shown, log=log, robust=robust)


def _groups(
    traces: Sequence[Trace], over: Domain, choice: AxisChoice, *, log: bool
) -> list[list[str]]:
    """Metrics by the axis they share."""
    metrics = list(dict.fromkeys(t.metric for t in traces))
    if choice == "own":
        return [[m] for m in metrics]
    if choice == "one":
        return [metrics] if metrics else []
    found: list[tuple[list[str], tuple[float, float] | None]] = []
    for metric in metrics:
        edges = _limits([t for t in traces if t.metric == metric], over, log=log)
        for i, (group, of_group) in enumerate(found):
            if _kind(group[0]) == _kind(metric) or _alike(of_group, edges):
                group.append(metric)
                known = [e for e in (of_group, edges) if e is not None]
                wider = (min(e[0] for e in known), max(e[1] for e in known)) if known else None
                found[i] = (group, wider)
                break
        else:
            found.append(([metric], edges))
    return [group for group, _ in found]


def _kind(metric: str) -> str:
    """What a metric measures: the last word of its name."""
    return re.split(r"[^a-z]+", metric.lower().rstrip("0123456789_ "))[-1]


def _alike(one: tuple[float, float] | None, other: tuple[float, float] | None) -> bool:
    """Whether two ranges can share an axis without one becoming a flat line."""
    if one is None or other is None:
        return True
    together = max(one[1], other[1]) / 2 - min(one[0], other[0]) / 2
    least = min(one[1] / 2 - one[0] / 2, other[1] / 2 - other[0] / 2)
    return together <= 2 * least


def compose(
    traces: Sequence[Trace],
    over: Domain,
    on: Axes,
    height: int,
    *,
    robust: bool = False,
    ascii_only: bool = False,
) -> Picture:
    """Draw curves into `height` lines."""
    canvas = _Canvas(over.width, height, several=len(traces) > 1, ascii_only=ascii_only)
    fine = not ascii_only
    gaps: set[int] = set()
    raw: list[tuple[int, Shape]] = []
    lines: list[tuple[int, Shape]] = []
    for i, (trace, scale) in enumerate(zip(traces, on.scales, strict=True)):
        drawn = shape(trace.curve, over, scale or Scale(1.0, 1.0), canvas.down, fine=fine)
        gaps |= {x // (1 + fine) for x in drawn.gaps}
        if scale is None:
            continue
        if trace.smooth is None:
            lines.append((i, drawn))
        else:
            raw.append((i, drawn))
            lines.append((i, shape(trace.smooth, over, scale, canvas.down, fine=fine)))
    raw.sort(key=_area, reverse=True)
    # What covers more goes below: a line on a broad band shows, a band on a line hides it.
    lines.sort(key=_area, reverse=True)
    for i, drawn in raw:
        canvas.draw(i, drawn, faint=True)
    for i, drawn in lines:
        canvas.draw(i, drawn)
    if robust:
        for i, drawn in [*raw, *lines]:
            canvas.point_beyond(i, drawn)
    for i, drawn in lines:
        canvas.write_letters(i, drawn, len(traces))
    return Picture(canvas.lines(), frozenset(gaps))


def _area(numbered: tuple[int, Shape]) -> int:
    return sum(span[1] - span[0] + 1 for span in numbered[1].spans if span is not None)


def left_out(
    traces: Sequence[Trace], first: int, last: int, on: Axes, *, robust: bool = False
) -> list[str]:
    """What the curves leave out between two steps, in words."""
    over = Domain(first, last, 1)
    not_finite = not_positive = beyond = 0
    for trace, scale in zip(traces, on.scales, strict=True):
        begin, end = over.indexes(trace.curve)
        not_finite += len(trace.curve.gaps_between(begin, end))
        low, high = trace.curve.extent(begin, end)
        if scale is None or scale.log:
            not_positive += _count_not_positive(trace.curve, begin, end) if low <= 0 else 0
        if robust and scale is not None:
            beyond += low < scale.low or high > scale.high
    remarks = [f"? not finite: {not_finite}"] if not_finite else []
    if not_positive:
        remarks.append(f"? not above 0, so not on a log scale: {not_positive}")
    if beyond:
        remarks.append("^ v go on beyond the edges")
    return remarks


def seen_better(trace: Trace, first: int, last: int) -> tuple[str, ...]:
    """What shows more of a curve whose last half takes under a tenth of a linear axis.

    `log` for a logarithmic one, `outliers` for one without them.
    """
    curve = trace.curve
    begin, end = Domain(first, last, 1).indexes(curve)
    low, high = curve.extent(begin, end)
    tail = curve.extent(curve.find((first + last) // 2), end)
    if not (low < high and tail[0] < tail[1]):
        return ()
    now = _share(tail, (low, high))
    if now >= _FLAT:
        return ()
    other = {"log": _share(tail, (low, high), log=True) if low > 0 else 0.0}
    most = limits([(curve, begin, end)], robust=True)
    other["outliers"] = _share(tail, most) if most is not None else 0.0
    return tuple(way for way, share in other.items() if share > max(2 * now, _SEEN))


def flat_from(trace: Trace, first: int, last: int) -> int:
    """The step from which on a curve takes less than a tenth of a linear axis, to its end."""
    curve = trace.curve
    begin, end = Domain(first, last, 1).indexes(curve)
    edges = curve.extent(begin, end)
    low, high = begin, end - 1  # the end alone is always flat
    while low < high:
        middle = (low + high) // 2
        tail = curve.extent(middle, end)
        if tail[0] > tail[1] or _share(tail, edges) < _FLAT:
            high = middle
        else:
            low = middle + 1
    return curve.steps[low]


def _share(tail: tuple[float, float], edges: tuple[float, float], *, log: bool = False) -> float:
    """How much of an axis a range of values takes."""
    scale = Scale(*edges, log=log)
    if not scale.low < scale.high:
        return 0.0
    return min(1.0, scale.row(tail[0], 2)) - max(0.0, scale.row(tail[1], 2))


def _count_not_positive(curve: Curve, begin: int, end: int) -> int:
    return sum(map((0.0).__ge__, curve.values[begin:end]))


def legend(traces: Sequence[Trace], on: Axes) -> list[str]:
    """For each curve its letter, its label, and where its axis is."""
    several = len(set(on.sides)) > 1
    found = []
    for letter, trace, side, scale in zip(LETTERS, traces, on.sides, on.scales, strict=False):
        where = f" ({side})" if several else ""
        if side == "own":
            ends = " to ".join(spelled([scale.low, scale.high])) if scale else "nothing to show"
            where = f" ({ends})"
        found.append(f"{letter} {trace.label}{where}")
    return found


class _Canvas:
    """Cells that several curves are drawn into."""

    def __init__(self, width: int, height: int, *, several: bool, ascii_only: bool) -> None:
        self._width = width
        self._several = several
        self._ascii = ascii_only
        self.down = height * (3 if ascii_only else 4)
        self._bits = [[0] * width for _ in range(height)]
        self._text = [[""] * width for _ in range(height)]
        self._kinds = [[""] * width for _ in range(height)]

    def draw(self, number: int, drawn: Shape, *, faint: bool = False) -> None:
        """Draw a curve over what is there."""
        kind = f"{number}f" if faint else f"{number}"
        if self._ascii:
            self._draw_ascii(number, drawn, kind, faint=faint)
            return
        on, period = _PATTERNS[number % len(_PATTERNS)]
        for x, span in enumerate(drawn.spans):
            if span is None or (not faint and x % period >= on):
                continue
            cell = x // 2
            for row in range(span[0] // 4, span[1] // 4 + 1):
                bits = fill_bits(*span, row, x % 2)
                if faint:
                    bits &= _EVERY_OTHER[x % 2]
                if bits:
                    if self._kinds[row][cell] != kind:
                        self._bits[row][cell] = 0
                        self._kinds[row][cell] = kind
                    self._bits[row][cell] |= bits

    def _draw_ascii(self, number: int, drawn: Shape, kind: str, *, faint: bool) -> None:
        for x, span in enumerate(drawn.spans):
            if span is None:
                continue
            first, last = span[0] // 3, span[1] // 3
            for row in range(first, last + 1):
                if faint:
                    text = ":" if first < last else "."
                elif self._several:
                    text = LETTERS[number % len(LETTERS)]
                else:
                    text = "|" if first < last else "'-."[sum(span) // 2 % 3]
                self._text[row][x] = text
                self._kinds[row][x] = kind

    def point_beyond(self, number: int, drawn: Shape) -> None:
        """Mark where a curve goes on beyond the edges."""
        for row, text, places in ((0, "^", drawn.above), (-1, "v", drawn.below)):
            for place in places:
                x = place // (1 if self._ascii else 2)
                self._text[row][x] = text
                self._kinds[row][x] = f"{number}"

    def write_letters(self, number: int, drawn: Shape, count: int) -> None:
        """Write a curve's letter on it here and there."""
        if not self._several or self._ascii:
            return
        begin = _LETTER_EVERY * (2 * number + 1) // (2 * count)
        for x in (*range(begin, self._width, _LETTER_EVERY), self._width - 1):
            span = drawn.spans[2 * x] or drawn.spans[2 * x + 1]
            if span is not None:
                row = sum(span) // 8
                if self._text[row][x] == "":
                    self._text[row][x] = LETTERS[number % len(LETTERS)]
                    self._kinds[row][x] = f"{number}"

    def lines(self) -> tuple[Line, ...]:
        """What was drawn."""
        found = []
        for texts, bits, kinds in zip(self._text, self._bits, self._kinds, strict=True):
            cells = [
                (text or (chr(0x2800 + b) if b else " "), kind)
                for text, b, kind in zip(texts, bits, kinds, strict=True)
            ]
            found.append(
                tuple(
                    ("".join(text for text, _ in part), kind)
                    for kind, part in groupby(cells, key=lambda cell: cell[1])
                )
            )
        return tuple(found)


_EVERY_OTHER: Final = (0x01 | 0x04, 0x10 | 0x80)
"""Dots that a faint curve is drawn with, on the left and the right side of a cell."""
