"""What there is to say about one checkpoint, as lines of text, short and long."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rich.cells import cell_len

from ckptui import display, schema
from ckptui.checkpoint import State, order
from ckptui.display.units import measured, teller
from ckptui.ranking import counts
from ckptui.tui import listing
from ckptui.tui.text import fit, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ckptui.checkpoint import Checkpoint
    from ckptui.tui.listing import Look
    from ckptui.tui.snapshot import Row

_SPARK_POINTS = 500
"""Values that a curve of one line is made from; a long log is sampled."""
_RECENT = 12
"""Checkpoints whose values make the small curve beside a metric: this one and those before it."""
FAILED = "FAILED when verified"
_IN_DOUBT = "not known: nothing tells which attempt saved it"
_MEANING = {
    State.OK: "complete and resumable",
    State.WEIGHTS: "complete, weights only: not resumable",
    State.ADAPTER: "complete, an adapter only: not resumable",
    State.WRITING: "it takes its name once it is complete",
    State.PARTIAL: "not complete, so never counted and never resumed",
    State.BROKEN: "a file is missing or has the wrong size",
    State.UNKNOWN: "not ours, never touched",
}


@dataclass(frozen=True, slots=True)
class Fact:
    """A labelled line; an empty label goes on with the one above."""

    label: str
    text: str
    style: str = ""
    wide: bool = False
    """It has no label and takes the whole width."""


def holding(found: list[Fact], text: str) -> list[Fact]:
    """The facts that hold all words of a text, each with the label that it goes on with."""
    words, label = text.lower().split(), ""
    kept: list[Fact] = []
    for fact in found:
        label = "" if fact.wide else fact.label or label
        if all(word in f"{label} {fact.text}".lower() for word in words):
            same = any(f.label == label for f in kept[-1:]) and not fact.label
            kept.append(fact if same or fact.wide else replace(fact, label=label))
    return kept


def verdict(row: Row, look: Look) -> str:
    """What a verification in this session came to: `failed`, `verified`, or nothing."""
    c = row.checkpoint
    return look.verified.get((c.path, *c.identity), "") if look.verified else ""


def short(row: Row, look: Look, *, width: int, ascii_only: bool = False) -> list[str]:
    """Four lines for the pane below the list."""
    c = row.checkpoint
    metrics = []
    if look.metric is not None and width >= 76:
        metrics.append(_spark_of_run(look, min(24, width - 60), ascii_only=ascii_only))
    # What has no room is left out whole: a number that is cut reads as another one.
    for item in _metrics(row, look):
        wide = cell_len("   ".join([*metrics, plain(item)]))
        if wide <= width or not metrics:
            metrics.append(plain(item))
    words, text, _ = _fate(row)
    return [
        "   ".join(_standing(row, look)),
        "   ".join(metrics).strip(),
        f"{words.lower():<9} {text}",
        f"path      {c.path}",
    ]


def _spark_of_run(look: Look, width: int, *, ascii_only: bool) -> str:
    from ckptui.display.plot import spark  # noqa: PLC0415 - names are shown without

    points = look.series.curves.get(look.metric or "", ())
    values = [value for _, value in points[:: max(1, len(points) // _SPARK_POINTS)]]
    return spark(values, width, ascii_only=ascii_only)


def _fate(row: Row) -> tuple[str, str, str]:
    """Whether it stays, as a label, words and their style."""
    c = row.checkpoint
    if row.gone:
        return "Gone", row.gone, "bad"
    if row.unread:
        return "Reading", "only its name is known so far", "dim"
    if row.going:
        return "Goes", "at the next save, by the run's own rules; p keeps it", "warn"
    if not c.complete:
        return "State", listing.why(row), "bad" if c.problems else ""
    why = listing.why(row)
    if why == listing.ABANDONED:
        return "Branch", "abandoned: a later attempt trained these steps anew", "dim"
    if why != "-":
        return "Kept by", why, ""
    policy = row.standing.kept_by is not None
    return "Kept by", "no rule of the run" if policy else "the run has no policy", "dim"


def _standing(row: Row, look: Look) -> list[str]:
    c = row.checkpoint
    if row.unread:
        return [c.name]
    state = f"gone, was {c.state.value}" if row.gone else c.state.value
    parts = [c.name, state + (", latest" if row.standing.latest and not row.gone else "")]
    if verdict(row, look) == "failed":
        parts.append(FAILED)
    if c.pinned:
        parts.append(f"pinned: {c.note}" if c.note else "pinned")
    if not c.current:
        parts.append("abandoned")
    if c.step is not None and c.name != schema.step_name(c.step):
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
            star = "*" if name in row.standing.best and not row.gone else ""
            found.append(f"{name} {measured(name, value)}{star}")
    none = f"metrics {_IN_DOUBT}" if look.series.in_doubt(row.checkpoint) else ""
    return found or [none or "no metrics at this step"]


def _metric_names(row: Row, look: Look) -> list[str]:
    first = [look.metric] if look.metric is not None else []
    names = [*first, *look.series.names, *row.checkpoint.metrics]
    return list(dict.fromkeys(names))


def full(row: Row, look: Look, *, width: int = 60, ascii_only: bool = False) -> list[Fact]:
    """Everything known, for the pane beside the list and the screen of its own.

    Args:
        row: The checkpoint.
        look: What is known besides.
        width: Cells for a line.
        ascii_only: Whether to keep to ASCII.
    """
    c = row.checkpoint
    label, words, style = _fate(row)
    if row.unread:
        return [Fact(label, words, style), Fact("Path", str(c.path))]
    found = verdict(row, look)
    if found == "failed":
        meaning = "by the sizes of its files, but not by their content"
        facts = [
            Fact("State", f"{c.state.value} {meaning}", "bad"),
            Fact("Verified", "FAILED in this session; V says which file", "bad"),
        ]
    else:
        was = "was " if row.gone else ""
        facts = [Fact("State", f"{was}{c.state.value}: {_MEANING[c.state]}", "strong")]
    if found == "verified":
        facts.append(Fact("Verified", "in this session: every byte is as it was written", "good"))
    if row.gone:
        facts.insert(0, Fact(label, words, style))
    if c.state is not State.WRITING:  # of that one only that it is being written
        facts += [Fact("", p.what, "bad") for p in c.problems]
    if c.nonfinite:
        more = f" and {len(c.nonfinite) - 1} more" if len(c.nonfinite) > 1 else ""
        facts.append(Fact("Weights", f"NaN or infinity in {c.nonfinite[0]}{more}", "bad"))
    if c.complete and not row.gone:
        facts.append(Fact(label, words, style))
    if row.standing.best and not row.gone:
        facts.append(Fact("Best by", ", ".join(row.standing.best), "good"))
    if row.standing.latest and not row.gone:
        facts.append(Fact("Latest", "newest complete checkpoint"))
    facts += _pin(row, look)
    facts += _saved(row, look)
    facts += _measured(row, look, width, ascii_only=ascii_only)
    facts += _inside(c)
    facts.append(Fact("Path", str(c.path)))
    return facts


def _pin(row: Row, look: Look) -> list[Fact]:
    pin = row.checkpoint.pin
    if pin is None:
        return [Fact("Pin", "none", "dim")]
    by = f" by {pin.who}" if pin.who else ""
    age = display.age(pin.when, look.now)
    when = "" if pin.when is None else ", in the future" if age == "future" else f", {age} ago"
    facts = [Fact("Pin", f"pinned{by}{when}: no rule removes it", "accent")]
    if pin.note:
        facts.append(Fact("Note", pin.note, "accent"))
    if not pin.readable:
        facts.append(Fact("", "the pin file cannot be read; it protects all the same", "warn"))
    elif pin.created is not None and pin.created != row.checkpoint.created_text:
        facts.append(Fact("", "it was set for another checkpoint of this name", "warn"))
    return facts


def _saved(row: Row, look: Look) -> list[Fact]:
    c = row.checkpoint
    facts = []
    if c.created is not None:
        took = f", took {seconds(c.save_seconds)}" if c.save_seconds is not None else ""
        facts.append(Fact("Saved", f"{c.created:%Y-%m-%d %H:%M:%S} UTC"))
        facts.append(Fact("", _ago(row, look).removeprefix("saved ") + took))
    where = [f"step {c.step}"] if c.step is not None else []
    where += [f"epoch {c.epoch:g}"] if c.epoch is not None else []
    facts.append(Fact("Position", ", ".join(where) or "unknown"))
    lineage = [f"attempt {c.attempt}"] if c.attempt is not None else []
    if c.parent is not None:
        lineage.append(f"from {c.parent.name}" + (f" of {c.parent.path}" if c.parent.path else ""))
    if not c.current:
        lineage.append("abandoned branch")
    if listing.resumed_from(row):
        lineage.append("the run was last resumed from it")
    if lineage:
        facts.append(Fact("Lineage", ", ".join(lineage)))
    if c.resumable and not row.gone and verdict(row, look) != "failed":
        facts.append(Fact("Resume", _resume(row)))
    return facts


def _resume(row: Row) -> str:
    c = row.checkpoint
    if not c.current:
        return "forks from an abandoned branch (r)"
    same = (o for o in reversed(row.run.checkpoints) if o.run_id == c.run_id)
    newest = next((o for o in same if counts(o) and o.resumable), None)
    if newest is not None and newest.path == c.path:
        return "goes on in place (r)"
    return "forks; newer checkpoints stay (r)"


def seconds(count: float) -> str:
    """How long something took: `9 ms`, `3.1 s`, `2 m 5 s`."""
    if count < 0.9995:
        return f"{count * 1000:.0f} ms"
    if count < 60:
        return f"{count:.1f} s"
    return f"{int(count) // 60} m {int(count) % 60} s"


# Metrics


def _measured(row: Row, look: Look, width: int, *, ascii_only: bool) -> list[Fact]:
    c = row.checkpoint
    values = [
        (name, value)
        for name in _metric_names(row, look)
        for there, value in [look.series.at(c, name)]
        if there
    ]
    if not values:
        none = _IN_DOUBT if look.series.in_doubt(c) else "none at this step"
        return [Fact("Metrics", none, "dim")]
    before = list(_earlier(row, _RECENT - 1))
    since = f", and since {before[0].name}" if before else ""
    facts = [Fact("", "", wide=True), Fact("", f"Metrics here{since}", "strong", wide=True)]
    names = min(24, max(cell_len(plain(name)) for name, _ in values), max(8, width - 21))
    for name, value in values:
        text, style = _metric_line(row, look, (name, value), before, names)
        bars = width - len(text) - 1
        if bars >= 4 and len(before) > 1:
            text += " " + _spark_here(row, look, name, before, min(bars, _RECENT), ascii_only)
        facts.append(Fact("", text, style, wide=True))
    return facts


def _metric_line(
    row: Row,
    look: Look,
    known: tuple[str, float | None],
    before: list[Checkpoint],
    names: int,
) -> tuple[str, str]:
    name, value = known
    told = teller(name, value)
    last = look.series.at(before[0], name)[1] if before else None
    if value is None or last is None:
        change = ""
    else:
        change = f"{'-' if value < last else '+'}{told(abs(value - last))}"
        change = "same" if value == last else change
    best = name in row.standing.best and not row.gone
    style = "good" if best else "warn" if value is None else ""
    number = told(value) + ("*" if best else "")
    return f"{fit(plain(name), names)} {number:>9} {change:>9}", style


def _spark_here(
    row: Row, look: Look, name: str, before: list[Checkpoint], width: int, ascii_only: bool
) -> str:
    from ckptui.display.plot import spark  # noqa: PLC0415 - names are shown without

    values = [look.series.at(c, name)[1] for c in reversed(before)]
    values.append(look.series.at(row.checkpoint, name)[1])
    return spark(values[-width:], width, ascii_only=ascii_only)


def _earlier(row: Row, count: int) -> Iterator[Checkpoint]:
    """The complete checkpoints of the present history before this one, the nearest first."""
    c, every = row.checkpoint, row.run.checkpoints
    at = bisect_left(every, order(c), key=order)
    for earlier in reversed(every[max(0, at - 4 * count) : at]):
        if count and earlier.complete and earlier.current and earlier.run_id == c.run_id:
            count -= 1
            yield earlier


# What is inside


def _inside(c: Checkpoint) -> list[Fact]:
    size = display.size(c.size)
    facts = [Fact("", "", wide=True), Fact("Size", size)]
    if c.state is State.WRITING:
        facts[-1] = Fact("Size", f"{size} so far")
    elif c.files and c.state is State.BROKEN:
        # The kinds below are as the marker has them; what is missing is told by the state.
        recorded = display.size(sum(file.size for file in c.files))
        facts[-1] = Fact("Size", f"{size} there")
        facts.append(Fact("Recorded", f"{recorded} in {display.plural(len(c.files), 'file')}:"))
    elif c.files:
        files = display.plural(len(c.files), "file")
        facts[-1] = Fact("Size", f"{size}, {files} recorded")
    for label, sizes in _kinds(c).items():
        if sizes:
            files = f", {len(sizes)} files" if len(sizes) > 1 else ""
            facts.append(Fact("", f"{display.size(sum(sizes)):>8} {label}{files}"))
    if c.contains:
        facts.append(Fact("Inside", ", ".join(c.contains)))
    if c.aliases:
        facts.append(Fact("Links", ", ".join(c.aliases)))
    if c.shared:
        have = "has" if len(c.shared) == 1 else "have"
        shared = display.plural(len(c.shared), "file")
        facts.append(Fact("Shared", f"{shared} {have} further hard links"))
    return facts


def _kinds(c: Checkpoint) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {"weights": [], "recipe state": [], "the rest": []}
    state = {schema.RECIPE_STATE_JSON, schema.RECIPE_STATE_TENSORS}
    for file in c.files:
        if schema.is_weights_file(file.name):
            found["weights"].append(file.size)
        else:
            found["recipe state" if file.name in state else "the rest"].append(file.size)
    return found
