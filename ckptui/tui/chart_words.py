"""What the chart says of the checkpoint under the cursor, and of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckptui import display
from ckptui.display.picture import LETTERS
from ckptui.display.units import teller
from ckptui.tui import curve, facts, listing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ckptui.display.picture import Trace
    from ckptui.tui.listing import Look
    from ckptui.tui.plotted import Source
    from ckptui.tui.snapshot import Row
    from ckptui.tui.widgets.chart import Shown


def values(row: Row, look: Look, traces: Sequence[Trace], sources: Sequence[Source]) -> str:
    """A checkpoint's name and its values of what is drawn, each with the letter of its curve."""
    several = len(traces) > 1
    found = [row.checkpoint.name]
    for i, (trace, (run, _)) in enumerate(zip(traces, sources, strict=True)):
        words = _value(row, look, trace, own=run == row.run.path, alone=not several)
        found.append(f"{LETTERS[i]} {words}" if several else words)
    return "   ".join(found)


def _value(row: Row, look: Look, trace: Trace, *, own: bool, alone: bool) -> str:
    step = row.checkpoint.step or 0
    if own:
        there, value = look.series.at(row.checkpoint, trace.metric)
    else:
        there, value = trace.curve.at(step)
    if not there:
        logged = curve.perhaps_its_own(row, trace.curve) if own else None
        if logged is not None:
            words = teller(trace.metric, logged[0])(logged[0])
            if not alone:
                return f"{words} (perhaps its own)"
            return f"{trace.metric} {words} {curve.PERHAPS}"
        return f"no {trace.metric} at this step" if alone else "-"
    told = teller(trace.metric, value)
    words = f"{trace.metric} {told(value)}" if alone else told(value)
    if own and not row.gone and trace.metric in row.standing.best:
        words += " best"
    smooth = trace.smooth.at(step)[1] if trace.smooth is not None else None
    return words if smooth is None else f"{words} (smoothed {told(smooth)})"


def no_place(row: Row | None, name: str) -> str:
    """Why the cursor is on no checkpoint, and how it gets to one."""
    why = "has no step" if row is not None else "is gone"
    why = "is not read yet" if row is not None and row.unread else why
    return f"{name} {why}: it has no place here; [ and ] go to those that have one."


def about(row: Row, look: Look, *, marked: bool) -> str:
    """Where a checkpoint stands, how old it is, and why it stays."""
    c, why = row.checkpoint, listing.why(row)
    parts = [f"step {c.step}"]
    if not c.current:
        parts.append("of an abandoned branch")
    if row.gone:
        parts.append(f"GONE, {row.gone}")
    elif c.pinned:
        parts.append(listing.pin_text(row))
    if facts.verdict(row, look) == "failed":
        parts.append(facts.FAILED)
    if c.created is not None:
        age = display.age(c.created, look.now)
        parts.append("saved in the future" if age == "future" else f"saved {age} ago")
    if row.gone or (c.complete and not c.current):
        pass
    elif not c.complete:
        parts.append(f"{c.state.value}: {why}" if why != "-" else c.state.value)
    elif why not in {"-", listing.pin_text(row)}:
        why = why.removesuffix(f", {listing.pin_text(row)}") if c.pinned else why
        itself = why.startswith("goes") or why == listing.ABANDONED
        parts.append(why if itself else f"kept by {why}")
    if marked:
        parts.append("marked")
    if c.epoch is not None:
        parts.append(f"epoch {c.epoch:g}")
    if c.created is not None:
        parts.append(f"{c.created:%Y-%m-%d %H:%M:%S} UTC")
    return "   ".join(parts)


def title(run: str, traces: Sequence[Trace], *, log: bool) -> str:
    """The run, its metrics, and the best of the only curve."""
    names = list(dict.fromkeys(t.metric for t in traces))
    if not names:
        return f"{run}   no metrics"
    parts = [run, ", ".join(names) + (" (log)" if log else "")]
    if len(traces) == 1:
        parts += curve.best_words(traces[0].curve, names[0])
    return "   ".join(parts)


def ways(shown: Shown, weight: float, *hints: str) -> str:
    """How the curves are looked at, where that is not the ordinary way, and what to know of it."""
    found = [f"smoothed {weight:g}"] if weight else []
    if shown.robust:
        found.append("without 1 % at each end")
    if shown.axes != "auto":
        found.append("one axis" if shown.axes == "one" else "an axis for each")
    if shown.steps is not None:
        found.append("steps {} to {}, 0 shows all".format(*shown.steps))
    return "   ".join([*found, *hints])
