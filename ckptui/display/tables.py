"""Tables of plain text: full names, numbers to the right, nothing cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckptui.checkpoint import State
from ckptui.display.text import cells, plural, size, visible
from ckptui.layouts.files import size_once
from ckptui.rules import direction, is_about_the_machine

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from ckptui.checkpoint import Checkpoint, Owner, Run
    from ckptui.retention import PlanRow
    from ckptui.standing import Standing


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, right: Iterable[int] = ()) -> str:
    """Columns as wide as they need, what is in them made visible; `right` names the numbers."""
    lines = [
        [c if c.isascii() and c.isprintable() else visible(c) for c in r] for r in (head, *rows)
    ]
    to_right = set(right)
    columns = []
    for i, column in enumerate(zip(*lines, strict=True)):
        widths = [len(c) if c.isascii() else cells(c) for c in column]
        widest = max(widths)
        gaps = [" " * (widest - width) for width in widths]
        pairs = zip(gaps, column, strict=True)
        columns.append([g + c if i in to_right else c + g for g, c in pairs])
    return "\n".join("  ".join(line).rstrip() for line in zip(*columns, strict=True))


def flags(
    checkpoint: Checkpoint, standing: Standing, metrics: Collection[str] | None = None
) -> str:
    """Letters: `P` pinned, `*` best, `~` being written, `!` something is wrong, `-` abandoned.

    Best by any of `metrics`, the ones that are shown; without, by any at all.
    """
    best = standing.best if metrics is None else [m for m in standing.best if m in metrics]
    return "".join(
        letter
        for letter, there in (
            ("P", checkpoint.pinned),
            ("*", best),
            ("~", checkpoint.state is State.WRITING),
            ("!", checkpoint.state in (State.PARTIAL, State.BROKEN) or checkpoint.nonfinite),
            ("-", not checkpoint.current),
        )
        if there
    )


def chosen_metrics(checkpoints: Iterable[Checkpoint]) -> list[str]:
    """The metrics worth a column: those with a known direction first, three at most."""
    names = {m for c in checkpoints for m in c.metrics}
    return sorted(
        (m for m in names if not is_about_the_machine(m)),
        key=lambda m: (direction(m) is None, not m.startswith("eval"), m),
    )[:3]


def kept_text(checkpoint: Checkpoint, standing: Standing) -> str:
    """Why it stays, or what is wrong with it."""
    if not checkpoint.complete and checkpoint.problems:
        return checkpoint.problems[0].what
    if standing.kept_by:
        return ", ".join(standing.kept_by)
    if checkpoint.pin is not None:
        return f"pin: {checkpoint.note}" if checkpoint.note else "pinned"
    if not checkpoint.current:
        return "abandoned branch"
    return ", ".join(f"link {a}" for a in checkpoint.aliases) or "-"


def live_text(owner: Owner | None) -> str:
    """What the lock tells about a run in training: its step, and the save that is in flight."""
    at = f" at step {owner.step}" if owner is not None and owner.step is not None else ""
    saving = f", saving {visible(owner.saving)}" if owner is not None and owner.saving else ""
    return f"LIVE{at}{saving}"


def run_heading(run: Run, shown: Sequence[Checkpoint] | None = None) -> str:
    """One line about a run: where, how many, how large, live or not.

    Args:
        run: With all its checkpoints.
        shown: Those that are listed, where it is not all.
    """
    total = size(size_once((c.size, c.shared) for c in run.checkpoints))
    parts = [visible(str(run.path)), plural(len(run.checkpoints), "checkpoint"), total]
    if shown is not None and len(shown) != len(run.checkpoints):
        of_them = size(size_once((c.size, c.shared) for c in shown))
        parts[1:] = [f"{len(shown)} of {parts[1]}", f"{of_them} of {total}"]
    if run.live and run.owner is not None:
        parts.append(live_text(run.owner))
    elif run.owner is not None:
        parts.append("its trainer is gone")
    if run.layout != "native":
        parts.append(f"layout {run.layout}")
    if run.trash_count:
        parts.append(f"trash {plural(run.trash_count, 'item')}, {size(run.trash_size)}")
    if run.policy:
        parts.append("policy " + ", ".join(map(visible, run.policy)))
    if run.ignored:
        parts.append(f"{plural(len(run.ignored), 'other name')} ignored")
    return "   ".join(parts)


def plan_table(rows: Sequence[PlanRow]) -> str:
    """Every checkpoint with what happens to it and why."""
    return table(
        ["action", "name", "step", "state", "frees", "why"],
        [
            [
                str(row.action),
                row.checkpoint.name,
                "-" if row.checkpoint.step is None else str(row.checkpoint.step),
                str(row.checkpoint.state),
                size(row.frees) if row.action == "remove" else "-",
                ", ".join(row.reasons),
            ]
            for row in rows
        ],
        right=[2, 4],
    )
