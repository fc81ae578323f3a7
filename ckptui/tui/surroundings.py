"""The pages of the detail screen about what stands around a checkpoint.

Its metrics beside those of others, its settings beside those it came from, and its lineage.

Functions for background threads, as in `pages`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ckptui import display, schema
from ckptui.contents import config_of, parent_folder, read_config
from ckptui.differences import DIFFERENT, Difference, Kind, compare_values, directions
from ckptui.display.differences import metric_change, signed, value_text
from ckptui.display.lineage import ancestors
from ckptui.display.plot import spark
from ckptui.display.units import teller
from ckptui.ranking import counts
from ckptui.tui import descent, inspecting
from ckptui.tui.inspecting import began_here, is_parent
from ckptui.tui.pages import Entry, Page, columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ckptui.checkpoint import Checkpoint, Parent, Run
    from ckptui.contents import Config, Value
    from ckptui.tui.series import Series
    from ckptui.tui.snapshot import Row
    from ckptui.tui.widgets.table import Cell

_CURVE_POINTS = 200
"""Checkpoints that a curve of one line is made from, the last ones before this."""

_MOST_BEFORE = 10_000
"""Checkpoints that a lineage is followed back to."""

# Metrics


def metrics_page(row: Row, run: Run, before: Series | None, *, ascii_only: bool) -> Page:
    """Every metric at this step, beside the best and the previous checkpoint.

    Raises:
        CkptuiError: The log cannot be read.
    """
    here = row.checkpoint
    series = inspecting.read_series(run, before)
    values = inspecting.values_at(here, series)
    modes = directions(run, values)
    ranked = [c for c in run.checkpoints if counts(c) and c.run_id == here.run_id]
    earlier = [c for c in ranked if (c.step or 0) < (here.step or 0) and c.step is not None]
    last = earlier[-1] if earlier else None
    entries = []
    for name, value in values.items():
        own = [(series.at(c, name)[1], c) for c in ranked]
        best = _best(own, modes.get(name))
        was = series.at(last, name)[1] if last is not None else None
        curve = [v for v, c in own if (c.step or 0) <= (here.step or 0)][-_CURVE_POINTS:]
        entries.append(
            _metric(
                name,
                value,
                best=best,
                mode=modes.get(name),
                here=here,
                last=(last, was),
                curve=spark(curve, 16, ascii_only=ascii_only) if len(curve) > 1 else "",
            )
        )
    doubt = "" if entries else _why_not_known(here, series)
    told = "metrics not known" if doubt else display.plural(len(entries), "metric")
    return Page(
        columns=columns(
            ("Metric", 12, "grows 0"),
            ("Here", 9, "right 1"),
            ("To best", 9, "right 2"),
            ("Best", 14, "4"),
            ("Since last", 16, "3"),
            ("Last", 9, "right 5"),
            ("Until here", 16, "6"),
        ),
        entries=tuple(entries),
        title=f"{told}, {_came_after(here, run, last)}",
        empty=doubt or "No metric was logged at exactly this step, and its marker carries none.",
        problems=series.problems,
    )


def _why_not_known(here: Checkpoint, series: Series) -> str:
    """Why nothing is known of a checkpoint's metrics, in a sentence; empty where it has none."""
    if here.step is None:
        return "Nothing tells at which step it was saved: its metrics are not known."
    if series.in_doubt(here):
        return (
            "The log has values at this step, but nothing tells which attempt saved this "
            "checkpoint: its own are not known."
        )
    return ""


def _came_after(here: Checkpoint, run: Run, last: Checkpoint | None) -> str:
    """What is known of the checkpoint before, in a few words."""
    if last is not None:
        return f"previous checkpoint {last.name}"
    if here.parent is not None:
        there = any(is_parent(c, here.parent) for c in run.checkpoints)
        words = "" if there or here.parent.path is not None else ", which is removed"
        return f"came from {here.parent.name}{words}"
    return "the first checkpoint" if began_here(here) else "no previous checkpoint is known"


def _best(
    own: Sequence[tuple[float | None, Checkpoint]], mode: str | None
) -> tuple[float, Checkpoint] | None:
    known = [(value, c) for value, c in own if value is not None]
    if mode is None or not known:
        return None
    sign = -1 if mode == "max" else 1
    return min(known, key=lambda pair: (sign * pair[0], -(pair[1].step or 0)))


def _metric(
    name: str,
    value: float | None,
    *,
    best: tuple[float, Checkpoint] | None,
    mode: str | None,
    here: Checkpoint,
    last: tuple[Checkpoint | None, float | None],
    curve: str,
) -> Entry:
    number = teller(name, value)
    is_best = best is not None and best[1].path == here.path
    if best is None:
        gap, top, told = "-", "-", "whether low or high is better is not known"
    else:
        gap = "best" if is_best else "-" if value is None else signed(value - best[0], number)
        top = "this one" if is_best else f"{number(best[0])} @{best[1].step}"
        better = "lower" if mode == "min" else "higher"
        told = f"best {best[0]!r} at {best[1].name}, {better} is better"
    before, was = last
    change = (
        metric_change(value - was, mode, number) if value is not None and was is not None else "-"
    )
    style = "good" if is_best else "warn" if value is None else ""
    return Entry(
        key=name,
        cells=(
            (name, "strong"),
            (number(value), style),
            (gap, style),
            (top, "dim"),
            change,
            number(was) if was is not None else "-",
            (curve, "accent"),
        ),
        whole=(
            f"{name} {'is not finite here' if value is None else repr(value)}",
            told,
            f"before: {was!r} at {before.name}" if before is not None and was is not None else "",
        ),
    )


# Settings


def config_page(row: Row, run: Run) -> Page:
    """The settings here, beside those of the parent and those that the run began with."""
    here = config_of(row.checkpoint)
    parent = _parent_config(row.checkpoint)
    first = _first_config(row.checkpoint, run)
    there = [(name, config) for name, config in (parent, first) if config is not None]
    others = [(name, config) for name, config in there if config.values is not None]
    if here.values is None:
        return Page((), (), "no settings", _why_none(here))
    keys = dict.fromkeys(here.values)
    for _, config in others:
        keys.update(dict.fromkeys(config.values or {}))
    compared = [
        {d.key: d for d in compare_values(config.values or {}, here.values)} for _, config in others
    ]
    entries = []
    for key in keys:
        own = value_text(here.values[key]) if key in here.values else "not set"
        cells: list[Cell] = [(own, "" if key in here.values else "dim")]
        whole = [f"{key}: {own}"]
        differs = False
        for (name, _), differences in zip(others, compared, strict=True):
            d = differences.get(key)
            text = "-" if d is None else "not set" if d.kind is Kind.ADDED else value_text(d.a)
            if d is not None and d.kind in DIFFERENT:
                differs = True
                cells.append((text, "warn"))
            else:
                cells.append(("same", "dim"))
            whole.append(f"{name}: {text}")
        sign = ("~", "warn") if differs else ("=", "dim")
        whole[0] = f"{'~ differs' if differs else '= the same'}: {whole[0]}"
        entries.append(Entry(key, (sign, (key, "strong"), *cells), tuple(whole), differs))
    return Page(
        columns=columns(
            ("", 1, "0"),
            ("Setting", 16, "grows 0"),
            ("Here", 10, "grows 0"),
            *((name.split()[0], 10, f"grows {i + 1}") for i, (name, _) in enumerate(others)),
        ),
        entries=tuple(entries),
        title=_config_title([(n, d) for (n, _), d in zip(others, compared, strict=True)]),
        empty="No setting differs; o shows them all.",
        problems=tuple(f"{name}: {_why_none(c)}" for name, c in there if c.values is None),
    )


def _why_none(config: Config) -> str:
    """Why settings could not be read, with the file's name alone: the page says whose it is."""
    return (config.problem or "").replace(str(config.path), config.path.name)


def _config_title(compared: Sequence[tuple[str, Mapping[str, Difference[Value]]]]) -> str:
    found: list[str] = []
    for name, differences in compared:
        count = sum(1 for d in differences.values() if d.kind in DIFFERENT)
        # Short: it stands in the frame of a narrow window too.
        word, _, checkpoint = name.partition(" ")
        told = "the first" if word == "first" else checkpoint or name
        found.append(f"{count} differ from {told}" if not found else f"{count} from {told}")
    return ", ".join(found) or "nothing to compare with"


def _parent_config(checkpoint: Checkpoint) -> tuple[str, Config | None]:
    if checkpoint.parent is None:
        return "", None
    name = f"parent {checkpoint.parent.name}"
    folder = parent_folder(checkpoint.run, checkpoint.parent)
    if folder is None:
        return name, None
    return name, read_config(folder / schema.RECIPE_CONFIG)


def _first_config(checkpoint: Checkpoint, run: Run) -> tuple[str, Config | None]:
    """What the run began with: its oldest checkpoint of the first attempt, else `config.yaml`."""
    candidates = [
        c
        for c in run.checkpoints
        if c.complete and not c.staged and c.run_id == checkpoint.run_id and c.step is not None
    ]
    first = min(candidates, key=lambda c: (c.attempt or 0, c.step or 0), default=None)
    if first is None or first.path == checkpoint.path:
        return schema.CONFIG_FILE, read_config(run.path / schema.CONFIG_FILE)
    return f"first {first.name}", config_of(first)


# Lineage


def lineage_page(row: Row, run: Run, runs: Sequence[Run]) -> Page:
    """Where a checkpoint came from and what went on from it, the newest on top."""
    here = row.checkpoint
    entries = [_continued(c, here) for c in _children(here, runs)]
    entries += [_later(c) for c in reversed(descent.after(here, run))]
    there = any(c.path == here.path and c.identity == here.identity for c in run.checkpoints)
    state = str(here.state) if there or row.unread else "gone"
    entries.append(
        _step("this one", here.name, here.step, here.attempt, state, here.path, "accent")
    )
    entries += _came_from(here, run)
    entries += _attempts(run)
    before = sum(1 for e in entries if e.key.startswith("from"))
    none = "none before it" if began_here(here) else "what was before it is not known"
    after = sum(1 for e in entries if e.key.startswith("next"))
    return Page(
        columns=columns(
            ("", 12, "0"),
            ("Checkpoint", 14, "grows 0"),
            ("Step", 8, "right 2"),
            ("Attempt", 7, "right 3"),
            ("State", 14, "grows 1"),
        ),
        entries=tuple(entries),
        title=(f"{before} before it" if before else none)
        + ", "
        + (display.plural(after, "continuation") if after else "no continuation is known"),
        empty="",
    )


def _step(
    relation: str,
    name: str,
    step: int | None,
    attempt: int | None,
    words: str,
    path: Path,
    style: str = "",
    *,
    told: str = "",
) -> Entry:
    kind = {"this one": "this", "came from": "from", "earlier": "from"}.get(relation, "next")
    return Entry(
        key=f"{kind} {path} {attempt}",
        cells=(
            (relation, style or "dim"),
            (name, "strong"),
            "-" if step is None else str(step),
            "-" if attempt is None else str(attempt),
            (words, "dim"),
        ),
        whole=(f"{relation}: {name}, {words}", told, str(path)),
    )


def _children(here: Checkpoint, runs: Sequence[Run]) -> list[Checkpoint]:
    found = [c for run in runs for c in run.checkpoints if _came_of(c, here)]
    return sorted(found, key=lambda c: (c.step or 0, c.created_text or ""), reverse=True)


def _came_of(child: Checkpoint, here: Checkpoint) -> bool:
    """Whether training went on from `here` to `child`; a run may have been moved since."""
    parent = child.parent
    if parent is None or parent.name != here.name or child.path == here.path:
        return False
    if parent.attempt is not None and parent.attempt != here.attempt:
        return False
    if parent.path is None:
        return child.run == here.run
    return parent.path == str(here.path) or (
        parent.run_id is not None and (parent.run_id, parent.step) == (here.run_id, here.step)
    )


def _continued(child: Checkpoint, here: Checkpoint) -> Entry:
    forked = child.run != here.run
    words = f"fork {child.run.name}" if forked else str(child.state)
    if not child.current:
        words += ", abandoned branch"
    relation = "went on to"
    return _step(relation, child.name, child.step, child.attempt, words, child.path)


def _later(c: Checkpoint) -> Entry:
    """One that training came to by way of checkpoints that are removed."""
    last = c.parent.name if c.parent is not None else ""
    told = f"by way of {last}, which was removed"
    return _step(
        "went on to", c.name, c.step, c.attempt, f"{c.state}, via {last}", c.path, told=told
    )


def _came_from(here: Checkpoint, run: Run) -> list[Entry]:
    entries: list[Entry] = []
    start: Checkpoint | None = here
    while start is not None and len(entries) < _MOST_BEFORE:
        found, lost = _recorded(start, run)
        entries += found
        start = descent.before(lost, run) if lost is not None else None
        if start is not None and lost is not None:
            told = f"{lost.name} was removed; whether others were between is not known"
            state = str(start.state)
            entries.append(
                _step(
                    "earlier", start.name, start.step, start.attempt, state, start.path, told=told
                )
            )
        elif lost is not None:
            entries.append(_lost(lost, run))
    return entries


def _lost(lost: Parent, run: Run) -> Entry:
    """Where the records end: whether there was anything before is not claimed."""
    cells: tuple[Cell, ...] = (("earlier", "dim"), "not known", "", "", "")
    told = [f"{lost.name} was removed; only it recorded whether anything was before it."]
    start = next((a for a in run.attempts if a.attempt == lost.attempt), None)
    if start is not None and start.parent is None and lost.path is None:
        told.append(f"Attempt {start.attempt} began from the start.")
    return Entry("lost", cells, ("earlier: not known", *told))


def _recorded(start: Checkpoint, run: Run) -> tuple[list[Entry], Parent | None]:
    """What the markers say from one checkpoint back; and the removed one where that ends."""
    there = {(c.name, c.attempt): c for c in run.checkpoints}
    entries = []
    place, lost = run.path, None
    for parent in ancestors(start):
        path = Path(parent.path) if parent.path is not None else place / parent.name
        place = path.parent
        known = there.get((parent.name, parent.attempt)) if place == run.path else None
        if known is not None:
            words = str(known.state)
        elif place == run.path:
            words = "removed"
        else:
            words = f"in {place}"
        entries.append(_step("came from", parent.name, parent.step, parent.attempt, words, path))
        lost = parent if words == "removed" else None
    return entries, lost


def _attempts(run: Run) -> list[Entry]:
    entries = []
    for attempt in reversed(run.attempts):
        source = f"from {attempt.parent.name}" if attempt.parent is not None else "from the start"
        where = f" of {attempt.parent.path}" if attempt.parent and attempt.parent.path else ""
        started = schema.parse_time(attempt.started)
        when = f"{started:%Y-%m-%d %H:%M}" if started else "unknown time"
        host = f" on {attempt.host}" if attempt.host else ""
        entries.append(
            Entry(
                key=f"attempt {attempt.attempt}",
                cells=(
                    (f"attempt {attempt.attempt}", "dim"),
                    source,
                    str(attempt.start_step),
                    str(attempt.attempt),
                    (f"{when}{host}", "dim"),
                ),
                whole=(
                    f"attempt {attempt.attempt}, step {attempt.start_step}, {source}{where}",
                    f"{when} UTC{host}",
                ),
            )
        )
    return entries
