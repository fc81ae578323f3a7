"""A plan on the screen: columns, cells and the words around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

from ckptui import display
from ckptui.retention import Action
from ckptui.tui import text
from ckptui.tui.widgets.table import Cell, Column

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from ckptui.checkpoint import Run
    from ckptui.prune import Removal
    from ckptui.retention import PlanRow
    from ckptui.tui.messages import RemovalEnded
    from ckptui.tui.previews import Preview
    from ckptui.tui.series import Series

_STYLE = {Action.KEEP: "good", Action.THIN: "warn", Action.REMOVE: "bad", Action.SKIP: "dim"}
_GOES = {Action.REMOVE, Action.THIN}


def header(path: str, word: str, progress: str, width: int, *, ellipsis: str) -> str:
    """The first line: which run it is about, what is done to it, and how far that is."""
    state = f"{word} preview: nothing has been moved yet"
    if progress:
        state = f"{word}: {progress}"
    elif width < 76:
        state = f"{word}: nothing moved yet"
    start = " ckptui  " if width >= 60 else " "
    room = max(8, width - len(start) - len(state) - 4)
    path = text.fit_path(text.plain(path), room, ellipsis=ellipsis)
    return text.fit(f"{start}{path}   {state}", width, ellipsis=ellipsis)


def columns(run: Run, metric: str | None) -> tuple[Column, ...]:
    """The columns of a plan."""
    width = min(26, max([10, *(len(c.name) for c in run.checkpoints)]))
    found = [
        Column(key="action", title="Action", width=7, rank=1),
        Column(key="name", title="Checkpoint", width=width, rank=0),
        Column(key="state", title="State", width=8, rank=4),
    ]
    if metric is not None:
        found.append(Column(key="metric", title=metric, width=9, right=True, rank=5))
    found += [
        Column(key="frees", title="Frees", width=9, right=True, rank=2),
        Column(key="why", title="Why", width=12, grows=True, rank=3),
    ]
    return tuple(found)


def cell(row: PlanRow, column: Column, result: Removal | None, unmoved: str | None) -> Cell:
    """What stands in a column of a planned row.

    Args:
        row: The row.
        column: Any but the metric's.
        result: What came of it.
        unmoved: Why nothing was done, once all is over.
    """
    match column.key:
        case "action":
            if result is not None:
                return ("moved", "good") if result.done else ("failed", "bad")
            if unmoved is not None:
                return "unmoved", "warn"
            return row.action.value, _STYLE[row.action]
        case "name":
            return row.checkpoint.name, "strong"
        case "state":
            return row.checkpoint.state.value
        case "frees":
            frees = row.action in _GOES and unmoved is None
            return display.size(row.frees) if frees else "-"
        case _:
            if result is not None and result.error is not None:
                return result.error, "bad"
            if unmoved is not None:
                return unmoved
            return ", ".join(row.reasons), "" if row.action in _GOES else "dim"


def metric_cell(row: PlanRow, series: Series, metric: str | None) -> str:
    """What stands in the column of the metric."""
    there, value = series.at(row.checkpoint, metric) if metric is not None else (False, None)
    return display.number(value) if there else "-"


def about(row: PlanRow, result: Removal | None = None, unmoved: str | None = None) -> str:
    """A row in one sentence, for when its column is too narrow."""
    name = row.checkpoint.name
    if result is not None:
        return f"{name}: {result.error or 'in the trash'}"
    if unmoved is not None:
        return f"{name} was not moved: {unmoved}"
    word = {"keep": "stays", "remove": "goes", "thin": "keeps its weights only"}
    return f"{name} {word.get(row.action, 'is left alone')}: {', '.join(row.reasons)}"


def unmoved(found: Preview, ended: RemovalEnded) -> dict[Path, str]:
    """What a plan removes and was not even tried once it was carried out, and why."""
    tried = {r.checkpoint.path for r in ended.removals}
    told = dict(line.split(": ", 1) for line in ended.changed if ": " in line)
    return {
        row.checkpoint.path: told.get(row.checkpoint.name, "stopped before it")
        for row in found.plan.removals
        if row.checkpoint.path not in tried
    }


def title(
    found: Preview | None, results: Mapping[Path, Removal], unmoved: Mapping[Path, str]
) -> str:
    """How many go and stay, how many have gone, and what became of the others."""
    if found is None:
        return "Plan"
    counts = {action.value: count for action, count in found.counts.items()}
    counts["moved"] = sum(1 for r in results.values() if r.done)
    counts["failed"] = len(results) - counts["moved"]
    counts["unmoved"] = len(unmoved)
    counts["remove"] -= len(results) + len(unmoved)
    order = ("moved", "failed", "unmoved", "remove", "thin", "keep", "skip")
    return "Plan   " + "  ".join(f"{word} {counts[word]}" for word in order if counts[word])


def summary(
    found: Preview,
    width: int,
    *,
    runs: Iterable[Run] = (),
    verified: Mapping[tuple[object, ...], str] | None = None,
) -> list[str]:
    """What must be read before anything is moved, the most important first.

    Args:
        found: The plan.
        width: Cells of a line.
        runs: Those that are known: others may have begun from a checkpoint that goes.
        verified: What verifications of this session came to, by path and identity.
    """
    plan = found.plan
    warnings = [f"! {w}" for w in plan.warnings]
    bad = _failed(found, verified or {})
    if bad:
        warnings.insert(0, f"! Failed when verified, but no rule knows of it: {', '.join(bad)}.")
    notes = ["; ".join(plan.notes)] if plan.notes else []
    if not found.going:
        return ["Nothing goes by this plan.", *warnings, *notes]
    if found.run.live:
        warnings.append("! A trainer is at work here; it may count on what you remove.")
    forks = [run for run in runs if run.path != found.run.path]
    warnings += _forks(found.going, forks)
    later = f"{display.size(found.frees)} once the trash is emptied{_disk(found)}"
    return [
        f"Frees {display.size(0)} now, {later}",
        _resumable(found, width, bad),
        *warnings,
        *notes,
    ]


def _failed(found: Preview, verified: Mapping[tuple[object, ...], str]) -> list[str]:
    """What stays though it failed when verified; one that has taken its place did not."""
    there = found.run.checkpoints if verified else ()
    failed = [c for c in there if verified.get((c.path, *c.identity)) == "failed"]
    return sorted(c.name for c in failed if str(c.path) not in found.going)


def _disk(found: Preview) -> str:
    if found.disk is None or not found.disk[1]:
        return "."
    used, total = found.disk
    after = max(0, used - found.frees)
    for digits in (0, 1):
        before, then = f"{used / total:.{digits}%}", f"{after / total:.{digits}%}"
        if before != then:
            return f"; disk {before} -> {then}"
    return f"; disk stays at {used / total:.0%}"


def _resumable(found: Preview, width: int, bad: Sequence[str]) -> str:
    """Which checkpoints training can continue from afterwards, newest first, as many as fit.

    Those of `bad` are left out: training refuses what was damaged since it was written.
    """
    names = [name for name in found.resumable if name not in bad]
    after = found.resumable_after - (len(found.resumable) - len(names))
    if not names:
        return "! Nothing will be resumable afterwards."
    tail = f"({after} of {found.resumable_now})"
    line = "Still resumable afterwards:"
    for i, name in enumerate(names):
        more = "" if i == after - 1 else " ..."
        if i and cell_len(f"{line} {name}{more} {tail}") > width:
            return f"{line} ... {tail}"
        line += f" {name}"
    more = "" if len(names) == after else " ..."
    return f"{line}{more} {tail}"


def _forks(going: Mapping[str, str], runs: Iterable[Run]) -> list[str]:
    found = []
    for run in runs:
        parent = run.attempts[0].parent if run.attempts else None
        name = going.get(parent.path or "") if parent is not None else None
        if name is not None:
            found.append(f"! {run.name} began from {name}; it goes on without it.")
    return found


def room(height: int) -> int:
    """Lines for what is to know on a screen of so many: those that the styles give."""
    return 9 if height >= 34 else 5 if height >= 20 else 2


def fitted(lines: Sequence[str], width: int, height: int) -> list[str]:
    """As many of the lines as fit once they are wrapped, and how many more there are."""
    wrapped = [len(wrap(line, width)) for line in lines]
    if sum(wrapped) <= height:
        return list(lines)
    shown: list[str] = []
    left = height - 1
    for line, need in zip(lines, wrapped, strict=True):
        if need > left:
            if not shown:  # the most important one is cut rather than left out
                shown.append(line[: left * width])
            break
        shown.append(line)
        left -= need
    return [*shown, f"{len(lines) - len(shown)} more: i shows all"]


def wrap(line: str, width: int) -> list[str]:
    """Words in lines of at most `width` cells."""
    lines = [""]
    for word in line.split():
        if lines[-1] and cell_len(lines[-1]) + 1 + cell_len(word) > width:
            lines.append(word)
        else:
            lines[-1] += f" {word}" if lines[-1] else word
    return lines


def report(ended: RemovalEnded) -> list[str]:
    """What came of it."""
    done = [r for r in ended.removals if r.done]
    failed = [r for r in ended.removals if not r.done]
    size = sum(r.checkpoint.size for r in done)
    them = "it" if len(done) == 1 else "them"
    lines = [f"Moved {len(done)} to the trash ({display.size(size)}). z brings {them} back."]
    if not done:
        lines = ["Nothing was moved."]
    if ended.stopped:
        lines.append("Stopped before the rest.")
    lines += [f"! {r.error or r.checkpoint.name}" for r in failed[:3]]
    if len(failed) > 3:
        lines.append(f"! and {len(failed) - 3} more failed")
    lines += list(ended.changed[:3])
    if len(ended.changed) > 3:
        lines.append(f"and {len(ended.changed) - 3} more were not moved")
    if done:
        lines.append("The space comes back when the trash is emptied (T in the list).")
    return lines


def short(run: Path | str, width: int) -> str:
    """A path for the command line on the screen: its end, where it is too long."""
    path = str(run)
    return path if cell_len(path) <= width else "..." + path[-(width - 3) :]
