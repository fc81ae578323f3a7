"""The list of runs: its columns, what stands in them, and the words where there is nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckptui import display
from ckptui.checkpoint import State
from ckptui.display.tables import live_text
from ckptui.tui.widgets.table import Cell, Column

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from ckptui.checkpoint import Run
    from ckptui.tui.snapshot import RunView, Snapshot

COLUMNS = (
    Column(key="flag", title="", width=1, rank=3),
    Column(key="name", title="Run", width=9, grows=True, rank=0),
    Column(key="count", title="n", width=4, right=True, rank=1),
    Column(key="last", title="Last", width=5, right=True, rank=2),
    Column(key="size", title="Size", width=9, right=True, rank=4),
    Column(key="step", title="Step", width=8, right=True, rank=5),
)


def cell(view: RunView, column: Column, root: Path) -> Cell:
    """What stands in a column of a run."""
    run = view.run
    match column.key:
        case "flag":
            return _flag(view)
        case "name":
            return name(view, root), "strong"
        case "count":
            return str(len(run.checkpoints)), ""
        case "last":
            return ("LIVE", "accent") if run.live else (_last(view), "dim")
        case "step":
            return _step(run)
        case _:
            return display.size(run.size), ""


def name(view: RunView, root: Path) -> str:
    """A run's path below the root that is browsed."""
    path = view.run.path
    if path == root or not path.is_relative_to(root):
        return view.run.name
    return path.relative_to(root).as_posix()


def _flag(view: RunView) -> Cell:
    states = {c.state for c in view.run.checkpoints}
    if State.BROKEN in states or State.PARTIAL in states or view.run.problems:
        return "!", "bad"
    saving = view.run.live and view.run.owner is not None and view.run.owner.saving
    return "~" if saving or State.WRITING in states else "", "accent"


def _step(run: Run) -> Cell:
    """The step that training is at; of a run that is not trained, the last one saved."""
    if run.live and run.owner is not None and run.owner.step is not None:
        return str(run.owner.step), "accent"
    steps = [c.step for c in run.checkpoints if c.step is not None and c.current and c.complete]
    return (str(max(steps)) if steps else "-"), "dim"


def last_saved(view: RunView) -> datetime | None:
    """When the newest checkpoint was saved."""
    return max((c.created for c in view.run.checkpoints if c.created), default=None)


def _last(view: RunView) -> str:
    return display.age(last_saved(view), view.when)


def head(view: RunView, found: Snapshot | None) -> list[str]:
    """What the first line says about a run, in the order in which it matters."""
    run = view.run
    parts = []
    if run.live:
        parts.append(live_text(run.owner))
    count = len(run.checkpoints)
    parts.append(f"{count} checkpoint{'' if count == 1 else 's'}, {display.size(run.size)}")
    if run.trash_count:
        parts.append(f"trash {run.trash_count}, {display.size(run.trash_size)}")
    if found is not None and found.disk_used is not None:
        parts.append(f"disk {found.disk_used:.0%}" + (" !" if found.disk_used >= 0.9 else ""))
    return parts


def nothing_found(path: Path, found: Snapshot | None, failure: str | None) -> str:
    """What stands there when no run is shown."""
    if failure is not None:
        return f"{failure}\n\nctrl+r tries again, q quits."
    if found is None:
        return f"Looking for runs in {path} ..."
    lines = [f"No run in {path}."]
    if found.ignored:
        shown = ", ".join(found.ignored[:6])
        more = f" and {len(found.ignored) - 6} more" if len(found.ignored) > 6 else ""
        lines.append(f"There are: {shown}{more}.")
    lines += [f"{p.path}: {p.what}" for p in found.problems[:3]]
    lines += [
        "",
        "A run holds run.json or folders named step_N or epoch_N.",
        "ckptui demo trains a small model and makes one.",
        "",
        "ctrl+r looks again, q quits.",
    ]
    return "\n".join(lines)


def no_checkpoints(view: RunView) -> str:
    """What stands there when a run has no checkpoint."""
    run = view.run
    lines = ["No checkpoints in this run yet." if run.live else "No checkpoints in this run."]
    if run.trash_count:
        lines.append(f"{run.trash_count} in the trash (T).")
    if run.ignored:
        shown = ", ".join(run.ignored[:6])
        more = f" and {len(run.ignored) - 6} more" if len(run.ignored) > 6 else ""
        lines.append(f"Not checkpoints: {shown}{more}.")
    lines += [p.what for p in run.problems[:3]]
    return "\n".join(lines)
