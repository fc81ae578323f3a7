"""What there is to say about one checkpoint, as lines of text, short and long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ckptui import display
from ckptui.checkpoint import State
from ckptui.display.plot import spark
from ckptui.tui import listing

if TYPE_CHECKING:
    from ckptui.tui.listing import Look
    from ckptui.tui.snapshot import Row

_SPARK_POINTS = 2000
"""Values that a curve of one line is made from; a long log is sampled."""
_MEANING = {
    State.OK: "complete and resumable",
    State.WEIGHTS: "complete, weights only: not resumable",
    State.ADAPTER: "complete, an adapter only: not resumable",
    State.WRITING: "being written: it takes its name once it is complete",
    State.PARTIAL: "incomplete: never counted, never resumed",
    State.BROKEN: "a file is missing or has the wrong size",
    State.UNKNOWN: "not ours: never touched",
}


@dataclass(frozen=True, slots=True)
class Fact:
    """A labelled line; an empty label goes on with the one above."""

    label: str
    text: str
    style: str = ""


def short(row: Row, look: Look, *, width: int, ascii_only: bool = False) -> list[str]:
    """Four lines for the pane below the list."""
    c = row.checkpoint
    lines = ["   ".join(_standing(row, look)), "   ".join(_metrics(row, look))]
    if look.metric is not None:
        points = look.series.curves.get(look.metric, ())
        curve = [value for _, value in points[:: max(1, len(points) // _SPARK_POINTS)]]
        bars = spark(curve, max(0, min(24, width - 60)), ascii_only=ascii_only)
        lines[1] = f"{bars}   {lines[1]}" if bars else lines[1]
    lines.append(f"kept by   {listing.why(row)}" if c.complete else listing.why(row))
    lines.append(f"path      {c.path}")
    return lines


def _standing(row: Row, look: Look) -> list[str]:
    c = row.checkpoint
    parts = [c.state.value + (", latest" if row.standing.latest else "")]
    if not c.current:
        parts.append("abandoned")
    if c.step is not None:
        parts.append(f"step {c.step}")
    if c.epoch is not None:
        parts.append(f"epoch {c.epoch:g}")
    if c.attempt is not None:
        parts.append(f"attempt {c.attempt}")
    if c.parent is not None:
        parts.append(f"from {c.parent.name}")
    if c.created is not None:
        parts.append(_ago(row, look))
    return parts


def _ago(row: Row, look: Look) -> str:
    age = display.age(row.checkpoint.created, look.now)
    return "saved in the future" if age == "future" else f"saved {age} ago"


def _metrics(row: Row, look: Look) -> list[str]:
    found = []
    for name in _metric_names(row, look):
        there, value = look.series.at(row.checkpoint, name)
        if there:
            star = "*" if name in row.standing.best else ""
            found.append(f"{name} {display.number(value)}{star}")
    return found or ["no metrics at this step"]


def _metric_names(row: Row, look: Look) -> list[str]:
    first = [look.metric] if look.metric is not None else []
    names = [*first, *look.series.names, *row.checkpoint.metrics]
    return list(dict.fromkeys(names))


def full(row: Row, look: Look) -> list[Fact]:
    """Everything known, for the pane beside the list and the screen of its own."""
    c = row.checkpoint
    facts = [Fact("State", f"{c.state.value}: {_MEANING[c.state]}", "strong")]
    facts += [Fact("", p.what, "bad") for p in c.problems]
    if c.nonfinite:
        more = f" and {len(c.nonfinite) - 1} more" if len(c.nonfinite) > 1 else ""
        facts.append(Fact("Weights", f"NaN or infinity in {c.nonfinite[0]}{more}", "bad"))
    if c.complete:
        facts.append(Fact("Kept by", _kept(row)))
    if row.standing.best:
        facts.append(Fact("Best by", ", ".join(row.standing.best), "good"))
    if row.standing.latest:
        facts.append(Fact("Latest", "newest complete checkpoint"))
    facts.append(_pin(row, look))
    facts += _saved(row, look)
    facts += _inside(row)
    values = [name for name in _metric_names(row, look) if look.series.at(c, name)[0]]
    facts.append(Fact("Metrics", "" if values else "none at this step", "dim"))
    width = min(24, max((len(name) for name in values), default=0))
    for name in values:
        value = display.number(look.series.at(c, name)[1])
        star = " best" if name in row.standing.best else ""
        facts.append(Fact("", f"{name:{width}}  {value}{star}", "good" if star else ""))
    return facts


def _kept(row: Row) -> str:
    why = listing.why(row)
    if why != "-":
        return why
    return "no rule of the run" if row.standing.kept_by is not None else "the run has no policy"


def _pin(row: Row, look: Look) -> Fact:
    pin = row.checkpoint.pin
    if pin is None:
        return Fact("Pin", "none", "dim")
    by = f" by {pin.who}" if pin.who else ""
    when = f", {display.age(pin.when, look.now)} ago" if pin.when else ""
    note = f": {pin.note}" if pin.note else ""
    if not pin.readable:
        note = ": the pin file cannot be read; it protects all the same"
    elif pin.created is not None and pin.created != row.checkpoint.created_text:
        note += " (set for another checkpoint of this name)"
    return Fact("Pin", f"pinned{by}{when}{note}", "accent")


def _saved(row: Row, look: Look) -> list[Fact]:
    c = row.checkpoint
    facts = []
    if c.created is not None:
        took = f", took {c.save_seconds:.1f} s" if c.save_seconds is not None else ""
        facts.append(Fact("Saved", f"{c.created:%Y-%m-%d %H:%M:%S} UTC"))
        facts.append(Fact("", _ago(row, look) + took))
    where = [f"step {c.step}" if c.step is not None else "", ""]
    where[1] = f"epoch {c.epoch:g}" if c.epoch is not None else ""
    facts.append(Fact("Position", ", ".join(w for w in where if w) or "unknown"))
    lineage = [f"attempt {c.attempt}"] if c.attempt is not None else []
    if c.parent is not None:
        lineage.append(f"from {c.parent.name}" + (f" of {c.parent.path}" if c.parent.path else ""))
    if not c.current:
        lineage.append("abandoned branch")
    if lineage:
        facts.append(Fact("Lineage", ", ".join(lineage)))
    return facts


def _inside(row: Row) -> list[Fact]:
    c = row.checkpoint
    facts = [Fact("Size", display.size(c.size) + (f" in {len(c.files)} files" if c.files else ""))]
    if c.contains:
        facts.append(Fact("Inside", ", ".join(c.contains)))
    if c.aliases:
        facts.append(Fact("Links", ", ".join(c.aliases)))
    if c.shared:
        facts.append(Fact("Shared", f"{len(c.shared)} files have further hard links"))
    facts.append(Fact("Path", str(c.path)))
    return facts
