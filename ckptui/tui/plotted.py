"""What the large chart shows: which metrics of which runs, smoothed how, which of their steps."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ckptui.display.picture import LETTERS, Trace
from ckptui.display.smoothing import WEIGHTS, Smoother
from ckptui.tui.curve import NOTHING
from ckptui.tui.series import EMPTY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from ckptui.columns import Curve
    from ckptui.tui.series import Series

Source = tuple["Path", str]
"""A run and one of its metrics."""
MOST = len(LETTERS)
"""Curves in one chart."""
_LEAST_STEPS = 8
"""Steps that are shown at least."""


@dataclass(slots=True)
class _Smoothed:
    by: Smoother
    of: Curve | None = None
    result: Curve | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """Curves to smooth in the background, each with who does it."""

    weight: float
    of: Mapping[Source, tuple[Smoother, Curve]]

    def done(self) -> dict[Source, tuple[Curve, Curve]]:
        """Each of the curves, and smoothed."""
        return {source: (curve, by.smooth(curve)) for source, (by, curve) in self.of.items()}


class Smoothing:
    """Smoothed curves of one weight; those not made yet, or not anew, are told."""

    def __init__(self) -> None:
        self.weight = 0.0
        self._known: dict[Source, _Smoothed] = {}

    def step(self, by: int) -> None:
        """Smooth more or less."""
        at = WEIGHTS.index(self.weight) + by
        self.weight = WEIGHTS[max(0, min(len(WEIGHTS) - 1, at))]
        self._known.clear()

    def of(self, source: Source) -> Curve | None:
        """A curve as it was smoothed last; None where it was not."""
        known = self._known.get(source)
        return known.result if known is not None and known.result else None

    def to_do(self, curves: Mapping[Source, Curve], *, anew: bool) -> Work | None:
        """What is not smoothed yet as it is now.

        Args:
            curves: What is wanted.
            anew: Nobody is at work on it; else it is told only what nobody has begun.
        """
        if not self.weight or not (anew or not self._known):
            return None
        self._known = {s: known for s, known in self._known.items() if s in curves}
        stale = {}
        for source, curve in curves.items():
            known = self._known.setdefault(source, _Smoothed(Smoother(self.weight)))
            if known.of is not curve and curve:
                stale[source] = (known.by, curve)
        return Work(self.weight, stale) if stale else None

    def take(self, weight: float, done: Mapping[Source, tuple[Curve, Curve]]) -> None:
        """Take in what was smoothed, unless another weight is wanted by now."""
        if weight == self.weight:
            for source, (curve, result) in done.items():
                if source in self._known:
                    self._known[source].of, self._known[source].result = curve, result


def curves(
    runs: Sequence[Path], metrics: Sequence[str], series: Mapping[Path, Series]
) -> dict[Source, Curve]:
    """The curves of some metrics of some runs, all of the first run first; not more than fit."""
    wanted = [(run, name) for run in runs for name in metrics][:MOST]
    return {(run, name): series.get(run, EMPTY).curves.get(name, NOTHING) for run, name in wanted}


def traces(
    found: Mapping[Source, Curve],
    smoothing: Smoothing,
    *,
    names: Mapping[Path, str],
    unread: frozenset[Path],
) -> list[Trace]:
    """The curves with what the legend says of them.

    Args:
        found: The curves.
        smoothing: Whatever is known of them smoothed.
        names: Of the runs, where there are several.
        unread: Runs whose metrics are not read yet.
    """
    several = len({name for _, name in found}) > 1
    result = []
    for (run, name), curve in found.items():
        words = [names[run]] if run in names else []
        words += [name] if several or not words else []
        if not curve:
            words.append("(reading)" if run in unread else f"(no {name})")
        smooth = smoothing.of((run, name)) if smoothing.weight else None
        result.append(Trace(label=" ".join(words), metric=name, curve=curve, smooth=smooth))
    return result


def command(sources: Iterable[Source], series: Mapping[Path, Series]) -> str:
    """A line that prints the numbers of curves: for each run what its log holds of them.

    What only the checkpoints carry is printed by the listing. One command's failure does not stop
    the next.
    """
    wanted: dict[Path, list[str]] = {}
    for run, name in sources:
        wanted.setdefault(run, []).append(name)
    lines = []
    for run, names in wanted.items():
        known = series.get(run, EMPTY)
        logged = [name for name in names if name in known.printed]
        if logged:
            options = [f"--metric={name}" for name in logged]
            lines.append(shlex.join(["ckptui", "metrics", str(run), *options, "--json"]))
        if any(name in known.curves for name in names if name not in logged):
            lines.append(shlex.join(["ckptui", "ls", str(run), "--json"]))
    return "; ".join(lines)


class Window:
    """The steps that are shown: all, or some around the cursor."""

    def __init__(self) -> None:
        self.steps: tuple[int, int] | None = None

    def zoom(self, whole: tuple[int, int], cursor: int | None, *, closer: bool) -> None:
        """Show half as many steps, or twice as many; the cursor stays where it is on the screen."""
        first, last = self.steps or whole
        span = last - first
        middle = cursor if cursor is not None and first <= cursor <= last else (first + last) // 2
        wanted = max(span // 2, _LEAST_STEPS) if closer else span * 2
        if wanted * 20 >= (whole[1] - whole[0]) * 19:  # nearly all, after halving odd numbers
            self.steps = None
            return
        begin = middle - (middle - first) * wanted // max(1, span)
        self._put(begin, wanted, whole)

    def follow(self, whole: tuple[int, int], cursor: int | None) -> None:
        """Bring the cursor into sight, where it left it."""
        if self.steps is None or cursor is None:
            return
        first, last = self.steps
        if not first <= cursor <= last:
            self._put(cursor - (last - first) // 2, last - first, whole)

    def _put(self, begin: int, span: int, whole: tuple[int, int]) -> None:
        begin = max(whole[0], min(begin, whole[1] - span))
        self.steps = (begin, begin + span)
