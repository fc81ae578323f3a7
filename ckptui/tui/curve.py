"""What the chart shows of a run: the curve of a metric, and its checkpoints as ticks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ckptui import display
from ckptui.retention import direction
from ckptui.tui import listing
from ckptui.tui.widgets.chart import Tick

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ckptui.columns import Point
    from ckptui.tui.listing import Look
    from ckptui.tui.snapshot import Row
    from ckptui.tui.widgets.chart import Chart


def stepped(rows: Iterable[Row]) -> list[Row]:
    """The rows that have a place on the axis, ascending by step."""
    return sorted(
        (row for row in rows if row.checkpoint.step is not None and row.checkpoint.current),
        key=lambda row: row.checkpoint.step or 0,
    )


def ticks_of(rows: Iterable[Row], look: Look) -> list[Tick]:
    """A tick for every current checkpoint with a step."""
    return [
        Tick(
            key=row.key,
            name=row.checkpoint.name,
            step=row.checkpoint.step or 0,
            letter=next((f for f in listing.flags(row) if f in "!~P*R"), "|"),
            value=_value(row, look),
        )
        for row in stepped(rows)
    ]


def _value(row: Row, look: Look) -> str:
    text = listing.metric_text(row, look.metric, look.series)[0]
    words = [f"no {look.metric} at this step" if text == "-" and look.metric else text]
    words += [f"best by {name}" for name in row.standing.best]
    if row.checkpoint.pinned:
        words.append(listing.pin_text(row))
    return ", ".join(words)


def points(look: Look) -> Sequence[Point]:
    """The curve of the metric that is looked at."""
    return look.series.curves.get(look.metric, ()) if look.metric is not None else ()


def fill(
    chart: Chart,
    rows: Iterable[Row],
    look: Look,
    *,
    log: bool = False,
    ticks: Sequence[Tick] | None = None,
) -> None:
    """Show the metric that is looked at; with `ticks` of the same rows, where they are made."""
    if look.metric is None:
        empty = "no metrics were logged in this run"
    elif look.series.curves:
        empty = f"no finite value of {look.metric}"
    else:
        empty = "reading the metrics ..."
    marks = ticks if ticks is not None else ticks_of(rows, look)
    chart.show(points(look), marks, empty=empty, log=log)


def title(look: Look, *, log: bool = False) -> str:
    """The metric's name and what there is to know about its curve."""
    if look.metric is None:
        return "no metrics"
    known = [(value, step) for step, value in points(look) if value is not None]
    known = [pair for pair in known if math.isfinite(pair[0])]
    parts = [look.metric + (" (log)" if log else "")]
    mode = direction(look.metric)
    if known and mode is not None:
        value, step = (min if mode == "min" else max)(known)
        parts.append(f"{mode} {display.number(value)} at step {step}")
    elif known:
        parts.append(f"last {display.number(known[-1][0])}")
    return "   ".join(parts)
