"""The values of a metric by optimizer step, in columns of plain numbers: 16 bytes a point.

A `Column` grows at its end. A `Curve` is what a column held at one moment; it shares the column's
memory and stays as it was while the column goes on growing, in another thread too.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Point = tuple[int, float | None]
"""An optimizer step and its value; None was logged and is not finite."""

MAX_STEP = 2**63 - 1
"""The largest step that a column holds."""
_BLOCK = 128
"""Points whose lowest and highest value are known beforehand."""
_EXACT = 2**53


class Column:
    """Values by step, ascending; of two at one step the later wins."""

    __slots__ = ("_gaps", "_highs", "_integers", "_late", "_lows", "_steps", "_values")

    def __init__(self, points: Iterable[Point] = ()) -> None:
        self._steps = array("q")
        self._values = array("d")
        self._gaps = array("q")
        """Indexes of values that are not finite; NaN stands for those."""
        self._lows = array("d")
        """Of every whole block, the lowest finite value; infinity where there is none."""
        self._highs = array("d")
        self._integers = True
        """Whether every finite value was logged as an integer, and can be given back as one."""
        self._late: dict[int, float | None] = {}
        """Points that came out of order, not yet put in their places."""
        for step, value in points:
            self.append(step, value)

    def append(self, step: int, value: float | None) -> None:
        """Add a point."""
        steps = self._steps
        if steps and step <= steps[-1]:
            self._late[step] = value
            return
        if value is None or not math.isfinite(value):
            self._gaps.append(len(steps))
            value = math.nan
        elif self._integers and (type(value) is not int or not -_EXACT < value < _EXACT):
            self._integers = False
        steps.append(step)
        self._values.append(value)

    def extend(self, curve: Curve, first: int, last: int) -> None:
        """Add the points of a curve with the indexes `first` to before `last`, all beyond ours."""
        shift = len(self._steps) - first
        self._steps.extend(curve.steps[first:last])
        self._values.extend(curve.values[first:last])
        self._gaps.extend(i + shift for i in curve.gaps_between(first, last))
        self._integers = self._integers and curve.integers

    def curve(self) -> Curve:
        """What the column holds now."""
        if self._late:
            self._settle()
        self._summarise()
        return Curve(
            self._steps, self._values, self._gaps, self._lows, self._highs, integers=self._integers
        )

    def _settle(self) -> None:
        """Put late points in their places: in new columns, since curves share the old ones."""
        late, self._late = self._late, {}
        result = merged(self.curve(), late)
        for name in ("_steps", "_values", "_gaps", "_lows", "_highs", "_integers"):
            setattr(self, name, getattr(result, name))

    def _summarise(self) -> None:
        values, lows, highs = self._values, self._lows, self._highs
        for start in range(len(lows) * _BLOCK, len(values) - _BLOCK + 1, _BLOCK):
            low, high = _extent(values[start : start + _BLOCK])
            lows.append(low)
            highs.append(high)


class Curve(Sequence[Point]):
    """Points ascending by step, never changing."""

    __slots__ = ("_count", "_highs", "_lows", "gaps", "integers", "steps", "values")

    def __init__(
        self,
        steps: array[int],
        values: array[float],
        gaps: array[int],
        lows: array[float],
        highs: array[float],
        *,
        integers: bool,
        count: int | None = None,
    ) -> None:
        self.steps = steps
        """May go on beyond the last point of the curve, as may `values` and `gaps`."""
        self.values = values
        """NaN where a value is not finite."""
        self.gaps = gaps
        """Indexes of those."""
        self.integers = integers
        self._lows = lows
        self._highs = highs
        self._count = len(steps) if count is None else count

    @classmethod
    def of(cls, points: Iterable[Point]) -> Curve:
        """A curve of any points; of two at one step the later wins."""
        return points if isinstance(points, Curve) else Column(points).curve()

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Point]:
        for i in range(self._count):
            yield self.steps[i], self._value(i)

    @overload
    def __getitem__(self, index: int) -> Point: ...
    @overload
    def __getitem__(self, index: slice) -> list[Point]: ...
    def __getitem__(self, index: int | slice) -> Point | list[Point]:
        if isinstance(index, slice):
            return [(self.steps[i], self._value(i)) for i in range(*index.indices(self._count))]
        i = index + self._count if index < 0 else index
        if not 0 <= i < self._count:
            raise IndexError(index)
        return self.steps[i], self._value(i)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment] # equal to a tuple, hashed unlike one

    def _value(self, index: int) -> float | None:
        value = self.values[index]
        if math.isnan(value):
            return None
        return int(value) if self.integers else value

    def until(self, step: float) -> Curve:
        """The points up to and with a step."""
        count = self.find(math.floor(step) + 1) if step < MAX_STEP else self._count
        return self if count == self._count else self._first(count)

    def _first(self, count: int) -> Curve:
        return Curve(
            self.steps,
            self.values,
            self.gaps,
            self._lows,
            self._highs,
            integers=self.integers,
            count=count,
        )

    def find(self, step: int, start: int = 0) -> int:
        """The index of the first point at or beyond a step; the length where there is none."""
        return bisect_left(self.steps, step, start, self._count)

    def at(self, step: int) -> tuple[bool, float | None]:
        """Whether there is a point at exactly this step, and its value."""
        i = self.find(step)
        if i < self._count and self.steps[i] == step:
            return True, self._value(i)
        return False, None

    def gaps_between(self, first: int, last: int) -> array[int]:
        """Indexes from `first` to before `last` whose values are not finite."""
        return self.gaps[bisect_left(self.gaps, first) : bisect_left(self.gaps, last)]

    def extent(self, first: int, last: int) -> tuple[float, float]:
        """The lowest and highest finite value among indexes from `first` to before `last`.

        Where there is none the lowest is infinity and the highest minus infinity.
        """
        begin, end = -(-first // _BLOCK), last // _BLOCK
        if begin >= end or len(self._lows) < end:
            return _extent(self.values[first:last])
        head = _extent(self.values[first : begin * _BLOCK])
        tail = _extent(self.values[end * _BLOCK : last])
        low = min(head[0], tail[0], min(self._lows[begin:end]))
        return low, max(head[1], tail[1], max(self._highs[begin:end]))

    def place(self, value: float, first: int, last: int) -> int | None:
        """The index of the first point with this value among `first` to before `last`."""
        for start in range(first, last, 4096):
            part = self.values[start : min(start + 4096, last)]
            if value in part:
                return start + part.index(value)
        return None

    def changed(self, changes: Mapping[int, float | None]) -> Curve:
        """The curve with other values at some steps; itself where they are what it has."""
        news = {step: v for step, v in changes.items() if self.at(step) != (True, v)}
        return merged(self, news).curve() if news else self


def merged(curve: Curve, changes: Mapping[int, float | None]) -> Column:
    """A column of a curve's points and others, which win at their steps."""
    result, place = Column(), 0
    for step in sorted(changes):
        here = curve.find(step, place)
        result.extend(curve, place, here)
        result.append(step, changes[step])
        place = bisect_right(curve.steps, step, here, len(curve))
    result.extend(curve, place, len(curve))
    return result


def _extent(values: array[float]) -> tuple[float, float]:
    if not values:
        return math.inf, -math.inf
    if math.isnan(sum(values)):  # a sum of finite values may overflow, but is no NaN
        values = array("d", [v for v in values if not math.isnan(v)])
        return (min(values), max(values)) if values else (math.inf, -math.inf)
    return min(values), max(values)
