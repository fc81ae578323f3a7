"""What the charts show of a run: curves of metrics, its checkpoints as ticks, and words."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from typing import TYPE_CHECKING

from ckptui import display
from ckptui.checkpoint import State
from ckptui.columns import MAX_STEP, Curve
from ckptui.display.picture import Trace
from ckptui.display.units import measured
from ckptui.retention import direction
from ckptui.tui import listing
from ckptui.tui.arrangement import carries_on
from ckptui.tui.ticks import Ticks
from ckptui.tui.widgets.chart import Shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ckptui.tui.listing import Look
    from ckptui.tui.snapshot import Row
    from ckptui.tui.ticks import Tick
    from ckptui.tui.widgets.chart import Chart

NOTHING = Curve.of(())
PERHAPS = "logged at this step, not known to be its own"
"""Said of a value that may be another attempt's: which one saved the checkpoint is not known."""
_BROKEN = frozenset({State.BROKEN, State.PARTIAL})


def stepped(rows: Iterable[Row]) -> list[Row]:
    """The rows that have a place on the axis, ascending by step."""
    return sorted(
        (row for row in rows if row.checkpoint.step is not None and row.checkpoint.current),
        key=lambda row: row.checkpoint.step or 0,
    )


def ticks_of(rows: Iterable[Row], look: Look) -> Ticks:  # noqa: ARG001 - as the list asks for it
    """A tick for every current checkpoint with a step."""
    placed = stepped(rows)
    return Ticks([(row.key, row.checkpoint.step or 0, letter(row)) for row in placed], placed)


def gone(old: Row, rows: Iterable[Row]) -> Row | None:
    """A row that is not there any more, as one that is gone; None where it only took its name."""
    if any(carries_on(old, row) for row in rows):
        return None
    return replace(old, gone=old.gone or "removed elsewhere")


def replaced(old: Row, new: Row) -> bool:
    """Whether another checkpoint has taken the place of one that was complete."""
    a, b = old.checkpoint, new.checkpoint
    known = a.complete and b.complete and not (old.unread or new.unread)
    return known and old.key == new.key and a.identity != b.identity


def all_gone(ticks: Ticks, why: str) -> Ticks:
    """The same places, all of them of checkpoints that are gone."""
    places = zip(ticks.keys, ticks.steps, strict=True)
    rows = [replace(row, gone=row.gone or why) for row in ticks.rows]
    return Ticks([(key, step, "!") for key, step in places], rows)


def beyond_steps(ticks: Ticks, metrics: Sequence[str]) -> int:
    """How many checkpoints have a value of a metric, but at a step that no curve can hold."""
    large = ticks.rows[bisect_right(ticks.steps, MAX_STEP) :]
    return sum(1 for row in large if any(name in row.checkpoint.metrics for name in metrics))


def letter(row: Row) -> str:
    """The letter of a checkpoint below the curve: of its flags the one that matters most."""
    c = row.checkpoint
    if c.state in _BROKEN or c.nonfinite or row.gone:
        return "!"
    if c.state is State.WRITING:
        return "~"
    if c.pin is not None:
        return "P"
    if row.standing.best:
        return "*"
    return "R" if listing.resumed_from(row) else "|"


def curve_of(look: Look, name: str | None) -> Curve:
    """The curve of a metric; without points where there is none."""
    return look.series.curves.get(name, NOTHING) if name is not None else NOTHING


def why_empty(look: Look) -> str:
    """What stands in place of a curve."""
    if look.metric is None:
        return "no metrics were logged in this run"
    if look.series.curves:
        return f"no finite value of {look.metric}"
    return "reading the metrics ..."


def fill(
    chart: Chart,
    rows: Iterable[Row],
    look: Look,
    *,
    log: bool = False,
    ticks: Sequence[Tick] | None = None,
) -> None:
    """Show the metric that is looked at; with `ticks` of the same rows, where they are made."""
    marks = ticks if isinstance(ticks, Ticks) else ticks_of(rows, look)

    def caption(key: str) -> list[str]:
        row = marks.row(key)
        return [f"{row.checkpoint.name}: {value_words(row, look)}"] if row is not None else []

    name = look.metric or ""
    trace = Trace(label=name, metric=name, curve=curve_of(look, look.metric))
    chart.show([trace], marks, shown=Shown(log=log), empty=why_empty(look), caption=caption)


def perhaps_its_own(row: Row, curve: Curve) -> tuple[float | None] | None:
    """The value at a checkpoint's step, where it is not known which attempt saved that.

    None where there is no value, or where the attempt is known: then the value is another's.
    """
    c = row.checkpoint
    if c.attempt is not None or c.step is None:
        return None
    there, value = curve.at(c.step)
    return (value,) if there else None


def value_words(row: Row, look: Look) -> str:
    """The metric's own value at a checkpoint and what distinguishes it."""
    text = listing.metric_text(row, look.metric, look.series)[0]
    if text == "-" and look.metric:
        logged = perhaps_its_own(row, curve_of(look, look.metric))
        none = f"no {look.metric} at this step"
        text = f"{display.number(logged[0])} {PERHAPS}" if logged is not None else none
    words = [text]
    words += [f"best by {name}" for name in row.standing.best]
    if row.checkpoint.pinned:
        words.append(listing.pin_text(row))
    return ", ".join(words)


def lowest(
    curve: Curve, mode: str, first: int | None = None, last: int | None = None
) -> tuple[int, float] | None:
    """The step and value of the best point, the first of several.

    Args:
        curve: The points.
        mode: What is best, `min` or `max`.
        first: The step to look from.
        last: The step to look to.
    """
    begin = 0 if first is None else curve.find(first)
    end = len(curve) if last is None else curve.find(last + 1)
    low, high = curve.extent(begin, end)
    value = low if mode == "min" else high
    at = curve.place(value, begin, end) if low <= high else None
    return None if at is None else (curve.steps[at], value)


def title(look: Look, *, log: bool = False) -> str:
    """The metric's name and what there is to know about its curve."""
    if look.metric is None:
        return "no metrics"
    parts = [look.metric + (" (log)" if log else "")]
    parts += best_words(curve_of(look, look.metric), look.metric)
    return "   ".join(parts)


def best_words(curve: Curve, name: str) -> list[str]:
    """The best value of a metric and where it is; the last one where no direction is known."""
    mode = direction(name)
    best = lowest(curve, mode) if mode is not None else None
    if best is not None:
        return [f"{mode} {measured(name, best[1])} at step {best[0]}"]
    last = next((v for _, v in reversed(curve[-1000:]) if v is not None), None)
    return [f"last {measured(name, last)}"] if last is not None else []
