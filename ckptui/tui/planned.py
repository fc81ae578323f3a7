"""A plan on the screen: columns, cells and the words around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

from ckptui import display
from ckptui.retention import Action
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


def cell(
    row: PlanRow, column: Column, result: Removal | None, series: Series, metric: str | None
) -> Cell:
    """What stands in a column of a planned row."""
    c = row.checkpoint
    match column.key:
        case "action":
            if result is not None:
                return ("moved", "good") if result.done else ("failed", "bad")
            return row.action.value, _STYLE[row.action]
        case "name":
            return c.name, "strong"
        case "state":
            return c.state.value
        case "metric":
            there, value = series.at(c, metric) if metric is not None else (False, None)
            return display.number(value) if there else "-"
        case "frees":
            return display.size(row.frees) if row.action in _GOES else "-"
        case _:
            if result is not None and result.error is not None:
                return result.error, "bad"
            return ", ".join(row.reasons), "" if row.action in _GOES else "dim"


def about(row: PlanRow | None, result: Removal | None) -> str:
    """The row under the cursor in one sentence, for when its column is too narrow."""
    if row is None:
        return ""
    if result is not None:
        return f"{row.checkpoint.name}: {result.error or 'in the trash'}"
    word = {"keep": "stays", "remove": "goes", "thin": "keeps its weights only"}
    return (
        f"{row.checkpoint.name} {word.get(row.action, 'is left alone')}: {', '.join(row.reasons)}"
    )


def title(found: Preview | None, *, moved: int = 0) -> str:
    """How many go and stay, and how many have gone."""
    if found is None:
        return "Plan"
    counts = {action.value: count for action, count in found.counts.items()}
    counts["moved"] = moved
    counts["remove"] -= moved
    order = ("moved", "remove", "thin", "keep", "skip")
    return "Plan   " + "  ".join(f"{word} {counts[word]}" for word in order if counts[word])


def summary(
    found: Preview, width: int, *, forks: Iterable[Run] = (), failed: Iterable[Path] = ()
) -> list[str]:
    """What must be read before anything is moved, the most important first.

    Args:
        found: The plan.
        width: Cells of a line.
        forks: Other runs, which may have begun from a checkpoint that goes.
        failed: Checkpoints that failed when they were verified.
    """
    plan = found.plan
    warnings = [f"! {w}" for w in plan.warnings]
    bad = sorted(path.name for path in failed if str(path) not in found.going)
    if bad:
        warnings.insert(0, f"! Failed when verified, but no rule knows of it: {', '.join(bad)}.")
    notes = ["; ".join(plan.notes)] if plan.notes else []
    if not found.going:
        return ["Nothing goes by this plan.", *warnings, *notes]
    if found.run.live:
        warnings.append("! A trainer is at work here; it may count on what you remove.")
    warnings += _forks(found.going, forks)
    return [
        f"Frees 0 now, {display.size(found.frees)} once the trash is emptied{_disk(found)}",
        _resumable(found, width, bad),
        *warnings,
        *notes,
    ]


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


def wrap(text: str, width: int) -> list[str]:
    """Words in lines of at most `width` cells."""
    lines = [""]
    for word in text.split():
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
    lines = [f"Moved {len(done)} to the trash ({display.size(size)}). z brings them back."]
    if not done:
        lines = ["Nothing was moved."]
    if ended.stopped:
        lines.append("Stopped before the rest.")
    lines += [f"! {r.error or r.checkpoint.name}" for r in failed[:3]]
    if len(failed) > 3:
        lines.append(f"! and {len(failed) - 3} more failed")
    lines += list(ended.changed[:3])
    if len(ended.changed) > 3:
        lines.append(f"and {len(ended.changed) - 3} more stayed")
    if done:
        lines.append("The space comes back when the trash is emptied (T in the list).")
    return lines


def short(run: Path | str, width: int) -> str:
    """A path for the command line on the screen: its end, where it is too long."""
    text = str(run)
    return text if cell_len(text) <= width else "..." + text[-(width - 3) :]
