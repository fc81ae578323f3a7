"""Carrying a plan out, one removal at a time: stopping between two leaves everything sound."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ckptui import guard, remove
from ckptui.errors import CkptuiError, NotFoundError, StorageError
from ckptui.retention import Action

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ckptui.checkpoint import Checkpoint
    from ckptui.remove import Why
    from ckptui.retention import PlanRow, PrunePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What became of one row of a plan."""

    checkpoint: Checkpoint
    action: Action
    done: bool
    error: str | None = None
    """Why it stayed, or what of it could not be deleted."""
    freed: int = 0
    """Bytes given back by this call: 0 for a move into the trash."""
    item: str | None = None
    """The trash item that holds it now."""


def execute(plan: PrunePlan, *, why: Why = "prune", delete: bool = False) -> Iterator[Removal]:
    """Remove what the plan removes, and yield what happened to each.

    Every target is looked at again at its moment: pinned, needed, replaced or gone by then, it is
    left alone. One failure does not stop the others.

    Args:
        plan: From `plan_prune` or `plan_remove`.
        why: What the journal and the trash say.
        delete: Give the space back at once instead of keeping it restorable.

    Raises:
        ReadOnlyError: Changes are forbidden; told by the call itself, before the first removal.
    """
    for run in {row.checkpoint.run for row in plan.removals}:
        guard.require_changes_allowed(f"{why} checkpoints of {run.name}", run)
    return _execute(plan, why=why, delete=delete)


def _execute(plan: PrunePlan, *, why: Why, delete: bool) -> Iterator[Removal]:
    anchors = _anchors(plan)
    for row in plan.rows:
        if row.action is Action.REMOVE:
            yield _remove(row, anchors, why=why, delete=delete)


def _remove(
    row: PlanRow, anchors: dict[tuple[Path, str | None], list[Path]], *, why: Why, delete: bool
) -> Removal:
    checkpoint = row.checkpoint
    stays = anchors.get((checkpoint.run, checkpoint.run_id))
    if stays and checkpoint.complete and not any(os.path.lexists(p) for p in stays):
        error = f"{checkpoint.name} was left alone: what the plan would keep is gone by now."
        return Removal(checkpoint=checkpoint, action=row.action, done=False, error=error)
    try:
        item = remove.move_to_trash([checkpoint], why=why, reason="; ".join(row.reasons) or None)
    except NotFoundError:
        return Removal(checkpoint=checkpoint, action=row.action, done=True)
    except StorageError as e:
        cause = e.__cause__
        impossible = remove.NO_FOLDER_RENAME | remove.FULL
        if delete and isinstance(cause, OSError) and cause.errno in impossible:
            return _delete_in_place(row)
        return Removal(checkpoint=checkpoint, action=row.action, done=False, error=str(e))
    except CkptuiError as e:
        return Removal(checkpoint=checkpoint, action=row.action, done=False, error=str(e))
    if not delete:
        return Removal(checkpoint=checkpoint, action=row.action, done=True, item=item)
    try:
        emptied = remove.empty(remove.find_item(checkpoint.run, item))
    except NotFoundError:
        emptied = remove.Emptied(freed=0)  # somebody emptied the trash, or brought it back
    except CkptuiError as e:
        emptied = remove.Emptied(freed=0, error=str(e))
    return Removal(
        checkpoint=checkpoint,
        action=row.action,
        done=emptied.error is None,
        error=emptied.error,
        freed=emptied.freed,
        item=None if emptied.error is None else item,
    )


def _delete_in_place(row: PlanRow) -> Removal:
    try:
        emptied = remove.delete_in_place(row.checkpoint)
    except CkptuiError as e:
        return Removal(checkpoint=row.checkpoint, action=row.action, done=False, error=str(e))
    return Removal(
        checkpoint=row.checkpoint,
        action=row.action,
        done=emptied.error is None,
        error=emptied.error,
        freed=emptied.freed,
    )


def _anchors(plan: PrunePlan) -> dict[tuple[Path, str | None], list[Path]]:
    """For each run id, the resumable checkpoints that the plan lets stay: one must still stand."""
    found: dict[tuple[Path, str | None], list[Path]] = {}
    for row in plan.rows:
        c = row.checkpoint
        if row.action is Action.KEEP and c.resumable and c.current:
            found.setdefault((c.run, c.run_id), []).append(c.path)
    return found
