"""Axes: where a value stands on one, and the round numbers that label it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ckptui.display.text import number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ckptui.columns import Curve

LABEL = 9
"""Cells that a label takes at most."""
_UNITS = (("T", 1e12, 1e12), ("G", 1e9, 1e9), ("M", 1e6, 1e6), ("k", 1e3, 1e4))
"""Letters, what they stand for, and from which size on numbers are told in them."""
_SAMPLE = 4000
"""Values by which the limits without outliers are judged."""


@dataclass(frozen=True, slots=True)
class Scale:
    """A vertical axis from its lower to its upper edge."""

    low: float
    high: float
    log: bool = False

    def row(self, value: float, rows: int) -> float:
        """Where a value stands, counted in rows from the top; beyond the edges goes on counting."""
        high, low, at = self._on(self.high), self._on(self.low), self._on(value)
        # Halves, since the difference of huge values may overflow.
        span = high / 2 - low / 2
        return (rows - 1) * ((high / 2 - at / 2) / span) if span else (rows - 1) / 2

    def _on(self, value: float) -> float:
        return math.log10(value) if self.log else value

    def labels(self, rows: int) -> dict[int, str]:
        """Round numbers at the rows where they stand; the edges where none do."""
        values = self._round(rows)
        texts = [_alone(v) for v in values] if self.log else spelled(values)
        if len(set(texts)) < len(texts):
            texts = spelled(values)
        found: dict[int, str] = {}
        for value, text in zip(values, texts, strict=True):
            row = min(rows - 1, max(0, int(self.row(value, rows * 4) / 4)))
            found.setdefault(row, text)
        return found

    def _round(self, rows: int) -> list[float]:
        if not self.low < self.high:
            return [self.low]
        least, most = (3 if rows > 8 else 2), max(2, rows // 2)
        if self.log:
            decades = range(math.floor(math.log10(self.low)), math.floor(math.log10(self.high)) + 1)
            for factors in ((1,), (1, 2, 5)):
                values = [float(f"{f}e{d}") for d in decades for f in factors]
                values = [v for v in values if self.low <= v <= self.high]
                if len(values) >= least:
                    return values[:: -(-len(values) // most)]
        for count in range(max(2, rows // 3), most + 1):
            values = round_numbers(self.low, self.high, count)
            if least <= len(values) <= most + 1:
                return values
        return [self.low, self.high]


def round_numbers(low: float, high: float, count: int, *, whole: bool = False) -> list[float]:
    """About `count` round numbers from `low` to `high`, evenly spaced.

    Args:
        low: The least of them may be this.
        high: The largest of them may be this.
        count: How many at most.
        whole: Only whole numbers.
    """
    # Halves, since the difference of huge values may overflow.
    rough = (high / 2 - low / 2) / max(1, count) * 2
    if not 0 < rough < math.inf:
        return [low] if low == high else [low, high]
    size = 10.0 ** math.floor(math.log10(rough))
    if not size:
        return [low, high]
    step = next(size * f for f in (1, 2, 5, 10) if size * f >= rough * (1 - 1e-9))
    step = max(step, 1.0) if whole else step
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    if last - first > 2 * count:  # beyond what floats can tell apart
        return [low, high]
    digits = max(0, 3 - math.floor(math.log10(step)))
    return [round(i * step, digits) if digits < 300 else i * step for i in range(first, last + 1)]


def spelled(values: Sequence[float]) -> list[str]:
    """Numbers in one form, with just the digits that tell them apart: `10k`, `0.25`, `1e-5`."""
    if not values:
        return []
    largest = max(map(abs, values))
    forms: list[list[str]] = []
    if largest >= 1e15 or 0 < largest < 1e-3:
        forms = [[_exponent(v, digits) for v in values] for digits in range(4)]
    else:
        unit, suffix = next(((u, s) for s, u, least in _UNITS if largest >= least), (1.0, ""))
        if suffix:
            forms = [[_in_unit(v / unit, digits, suffix) for v in values] for digits in range(3)]
        forms += [[f"{v:.{digits}f}" for v in values] for digits in range(8)]
    fitting = [f for f in forms if max(map(len, f), default=0) <= LABEL and _faithful(f, values)]
    if not fitting:
        return [number(v) for v in values]
    return min(fitting, key=lambda form: max(map(len, form), default=0))


def _alone(value: float) -> str:
    """A number whose neighbours are of another size."""
    text = spelled([value])[0]
    return number(value) if len(text) > 6 and value < 1 else text


def _in_unit(value: float, digits: int, suffix: str) -> str:
    return f"{value:.{digits}f}{suffix}" if value else "0"


def _exponent(value: float, digits: int) -> str:
    mantissa, exponent = f"{value:.{digits}e}".split("e")
    return f"{mantissa}e{int(exponent)}" if value else "0"


def _faithful(form: Sequence[str], values: Sequence[float]) -> bool:
    """Whether the texts say what the values are, not just something near."""
    spread = (max(values) - min(values)) / max(1, len(values) - 1) or abs(values[0])
    for text, value in zip(form, values, strict=True):
        unit = next((u for s, u, _ in _UNITS if text.endswith(s)), 1.0)
        if abs(float(text.rstrip("TGMk")) * unit - value) > spread / 50:
            return False
    return True


def limits(
    curves: Iterable[tuple[Curve, int, int]], *, log: bool = False, robust: bool = False
) -> tuple[float, float] | None:
    """The lowest and highest value to show; None where there is none.

    Args:
        curves: Curves, each with the indexes from and before which its points are shown.
        log: Only positive values can be shown.
        robust: Leave the lowest and the highest percent out.
    """
    low, high = math.inf, -math.inf
    for curve, first, last in curves:
        least, most = _quantiles(curve, first, last, log=log) if robust else (math.inf, -math.inf)
        if not least < most:
            least, most = curve.extent(first, last)
            if log and least <= 0 < most:
                least = min(v for v in curve.values[first:last] if v > 0)
        if log and most <= 0:
            continue
        low, high = min(low, least), max(high, most)
    return (low, high) if low <= high else None


def _quantiles(curve: Curve, first: int, last: int, *, log: bool) -> tuple[float, float]:
    part = curve.values[first : last : max(1, (last - first) // _SAMPLE)]
    known = sorted(v for v in part if not math.isnan(v) and (v > 0 or not log))
    if not known:
        return math.inf, -math.inf
    return known[len(known) // 100], known[-1 - len(known) // 100]
