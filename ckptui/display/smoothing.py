"""Smoothed curves: an exponential average without the bias of its beginning, as TensorBoard's."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ckptui.columns import Column, Curve

if TYPE_CHECKING:
    from array import array

WEIGHTS = (0.0, 0.6, 0.9, 0.99)
"""Share of the average so far in the next one, weakest smoothing first; 0 is none."""
_CHUNK = 5000


class Smoother:
    """A smoothed curve that grows with the curve it follows."""

    def __init__(self, weight: float) -> None:
        self.weight = weight
        self._start()

    def _start(self) -> None:
        self._column = Column()
        self._average = 0.0
        self._share = 1.0
        """What the zero that the average began from still weighs in it."""
        self._steps: array[int] | None = None
        self._values: array[float] | None = None
        self._done = 0

    def smooth(self, curve: Curve) -> Curve:
        """The curve smoothed; only points that are new are looked at. Gaps stay gaps."""
        grown = self._steps is curve.steps and self._values is curve.values
        if not grown or self._done > len(curve):
            self._start()
        self._steps, self._values = curve.steps, curve.values
        for first in range(self._done, len(curve), _CHUNK):
            self._add(curve, first, min(first + _CHUNK, len(curve)))
            time.sleep(0)  # the interface thread may have been waiting for its turn
        self._done = len(curve)
        return self._column.curve()

    def _add(self, curve: Curve, first: int, last: int) -> None:
        weight, average, share = self.weight, self._average, self._share
        append = self._column.append
        for step, value in zip(curve.steps[first:last], curve.values[first:last], strict=True):
            if value != value:  # NaN, at a tenth of a call's cost
                append(step, None)
                continue
            average = weight * average + (1 - weight) * value
            share *= weight
            append(step, average / (1 - share))
        self._average, self._share = average, share
