"""A plan on the screen: columns, cells and the words around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckptui import display
from ckptui.retention import Action
from ckptui.tui.widgets.table import Cell, Column

if TYPE_CHECKING:
    from ckptui.checkpoint import Run
    from ckptui.prune import Removal
    from ckptui.retention import PlanRow, PrunePlan
    from ckptui.tui.messages import RemovalEnded
    from ckptui.tui.series import Series

_STYLE = {Action.KEEP: "good", Action.THIN: "warn", Action.REMOVE: "bad", Action.SKIP: "dim"}


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
            return display.size(row.frees) if row.action is Action.REMOVE else "-"
        case _:
            if result is not None and result.error is not None:
                return result.error, "bad"
            return ", ".join(row.reasons), "" if row.action is Action.REMOVE else "dim"


def title(plan: PrunePlan | None) -> str:
    """How many go and stay."""
    if plan is None:
        return "Plan"
    counts = [(a.value, sum(1 for row in plan.rows if row.action is a)) for a in Action]
    order = {"remove": 0, "thin": 1, "keep": 2, "skip": 3}
    counts.sort(key=lambda pair: order[pair[0]])
    return "Plan   " + "  ".join(f"{word} {n}" for word, n in counts if n)


def summary(
    plan: PrunePlan | None, refused: str | None, ended: RemovalEnded | None, *, live: bool
) -> list[str]:
    """What must be read before, or what came of it."""
    if ended is not None:
        return _report(ended)
    if plan is None:
        return [refused or "..."]
    if not plan.removals:
        return ["Nothing goes by these rules.", *plan.notes, *(f"! {w}" for w in plan.warnings)]
    lines = [
        f"Frees {display.size(plan.frees)} once the trash is emptied, nothing before; z undoes."
    ]
    if plan.notes:
        lines.append("; ".join(plan.notes))
    lines += [f"! {w}" for w in plan.warnings]
    if live:
        lines.append("! A trainer is at work here; it may count on what you remove.")
    return lines


def _report(ended: RemovalEnded) -> list[str]:
    done = [r for r in ended.removals if r.done]
    failed = [r for r in ended.removals if not r.done]
    size = sum(r.checkpoint.size for r in done)
    lines = [f"Moved {len(done)} to the trash ({display.size(size)}). z brings them back."]
    if ended.stopped:
        lines.append("Stopped before the rest.")
    lines += [f"! {r.error or r.checkpoint.name}" for r in failed[:3]]
    if len(failed) > 3:
        lines.append(f"! and {len(failed) - 3} more failed")
    lines += list(ended.changed[:3])
    if len(ended.changed) > 3:
        lines.append(f"and {len(ended.changed) - 3} more stayed")
    return lines
