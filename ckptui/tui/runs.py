"""The list of runs: its columns, what stands in them, and the words where there is nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from rich.cells import cell_len

from ckptui import display
from ckptui.fields import no_such_metric
from ckptui.tui.pulse import Life
from ckptui.tui.text import plain
from ckptui.tui.widgets.table import Cell, Column

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from ckptui.tui.filters import RowFilter
    from ckptui.tui.snapshot import RunView, Snapshot

FAR = timedelta(days=14)
"""A disk that is full later than this is not worth a word."""
MANY_SAVES = 1000
"""A forecast over more saves than this is no more than a guess."""
NORMAL, HUGE = 76, 150
"""From where on a screen is so, as `Browser.HORIZONTAL_BREAKPOINTS` has them."""
LEAST_WIDTH, HUGE_WIDTH = 30, 44
"""Columns of the list of runs beside the other list, at the least; on a huge screen."""
_BESIDE_NAMES = 20
"""Of those, what the frame and the first columns take."""
COLUMNS = (
    Column(key="flag", title="", width=1, rank=3),
    Column(key="name", title="Run", width=9, grows=True, rank=0, tail=True),
    Column(key="count", title="Ckpts", width=5, right=True, rank=1),
    Column(key="last", title="Last", width=7, right=True, rank=2),
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
            return _life(view)
        case "step":
            return _step(view)
        case _:
            return display.size(run.size), ""


def name(view: RunView, root: Path) -> str:
    """A run's path below the root that is browsed."""
    path = view.run.path
    if path == root or not path.is_relative_to(root):
        return view.run.name
    return path.relative_to(root).as_posix()


def _life(view: RunView) -> Cell:
    """The state of the trainer; where nobody trains, when the run was last saved to."""
    words = {Life.LIVE: "LIVE", Life.STALE: "STALE", Life.CRASHED: "CRASHED"}
    word = words.get(view.pulse.life)
    if word is not None:
        return word, "accent" if view.pulse.life is Life.LIVE else "bad"
    return display.age(view.summary.last_saved, view.when), "dim"


def _flag(view: RunView) -> Cell:
    summary, owner = view.summary, view.run.owner
    if summary.troubled:
        return "!", "bad"
    saving = view.run.live and owner is not None and owner.saving
    return "~" if saving or summary.writing else "", "accent"


def _step(view: RunView) -> Cell:
    """The step that training is at; of a run that is not trained, the last one saved."""
    owner = view.run.owner
    if view.run.live and owner is not None and owner.step is not None:
        return str(owner.step), "accent"
    last = view.summary.last_step
    return ("-" if last is None else str(last)), "dim"


def head(view: RunView, found: Snapshot | None) -> list[str]:
    """What the first line says about a run, in the order in which it matters."""
    run = view.run
    parts = []
    if view.pulse.words:
        parts.append(view.pulse.words)
    if run.problems:
        more = f" and {len(run.problems) - 1} more" if len(run.problems) > 1 else ""
        parts.append(f"! {run.problems[0].what}{more}")
    count = len(run.checkpoints)
    if run.unread:
        total = max(count, len(run.unread))
        parts.append(f"{display.plural(total, 'checkpoint')}, {total - len(run.unread)} read")
        return parts
    parts.append(f"{display.plural(count, 'checkpoint')}, {display.size(run.size)}")
    if run.trash_count:
        parts.append(f"trash {run.trash_count}, {display.size(run.trash_size)}")
    if found is not None and found.disk_used is not None:
        parts.append(f"disk {found.disk_used:.0%}" + (" !" if found.disk_used >= 0.9 else ""))
    parts += outlook(view)
    parts += ignored(view, found)
    return parts


def ignored(view: RunView, found: Snapshot | None) -> list[str]:
    """How many names ckptui does not know, in the run and beside the runs."""
    beside = found.ignored if found is not None else ()
    count = len(view.run.ignored) + len(beside)
    return [f"{display.plural(count, 'other name')} ignored"] if count else []


def fitted(
    views: Iterable[RunView], root: Path, width: int
) -> tuple[int | None, tuple[Column, ...]]:
    """The list of runs made for its names: how wide it is, None for as wide as ever; its columns.

    Args:
        views: The runs.
        root: What is browsed.
        width: Columns of the screen.
    """
    longest = max((cell_len(plain(name(view, root))) for view in views), default=0)
    if width < NORMAL:
        return None, COLUMNS  # alone on the screen
    if width >= HUGE:
        return None, _with_names(min(longest, HUGE_WIDTH - _BESIDE_NAMES))
    room = LEAST_WIDTH + max(0, 3 + (width - 80) // 2)
    wanted = max(LEAST_WIDTH, min(longest + _BESIDE_NAMES, room))
    return wanted, _with_names(min(longest, wanted - _BESIDE_NAMES))


def _with_names(cells: int) -> tuple[Column, ...]:
    return tuple(replace(c, width=max(c.width, cells)) if c.tail else c for c in COLUMNS)


def outlook(view: RunView) -> list[str]:
    """When the disk is full, if the run goes on as it does and that is soon enough to matter."""
    ahead = view.forecast
    if ahead is None or ahead.saves_left is None or ahead.time_left is None:
        return []
    if ahead.saves_left == 0:
        return ["no room for the next save"]
    if ahead.time_left > FAR or ahead.saves_left > MANY_SAVES:
        return []
    when = view.when + ahead.time_left
    return [f"disk full in {display.age(view.when, when)} ({ahead.saves_left} saves)"]


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


def nothing_matches(chosen: RowFilter | None, known: Sequence[str]) -> str:
    """What stands there when the filter lets nothing through.

    Args:
        chosen: The filter.
        known: The metrics of the run; nothing is said of those while there are none.
    """
    lines = ["No checkpoint matches the filter. esc clears it."]
    asked = chosen.metrics if chosen is not None and known else ()
    lines += [no_such_metric(name, known) for name in asked if name not in known]
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
