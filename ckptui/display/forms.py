"""The JSON forms of everything the commands answer: strict, version 1, unknown is null.

Sizes are bytes, times UTC in ISO 8601, paths absolute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ckptui import schema
from ckptui.ranking import newest_resumable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime
    from pathlib import Path

    from ckptui.checkpoint import Checkpoint, Parent, Problem, Root, Run
    from ckptui.errors import CkptuiError
    from ckptui.journal import Event
    from ckptui.metrics import MetricRow
    from ckptui.prune import Removal
    from ckptui.remove import TrashItem
    from ckptui.resume_command import ResumeCommand
    from ckptui.retention import PrunePlan
    from ckptui.standing import Standing
    from ckptui.verify import Report

VERSION = 1

Form = dict[str, Any]


def time_form(when: datetime | None) -> str | None:
    """A time, or null."""
    return schema.format_time(when) if when else None


def problem_forms(problems: Iterable[Problem]) -> list[Form]:
    """Problems as `{"path", "what"}`."""
    return [{"path": str(p.path), "what": p.what} for p in problems]


def checkpoint_form(checkpoint: Checkpoint, standing: Standing) -> Form:
    """A CHECKPOINT."""
    c = checkpoint
    return {
        "run": str(c.run),
        "name": c.name,
        "path": str(c.path),
        "step": c.step,
        "epoch": c.epoch,
        "run_id": c.run_id,
        "attempt": c.attempt,
        "current": c.current,
        "state": str(c.state),
        "complete": c.complete,
        "resumable": c.resumable,
        "latest": standing.latest,
        "best": standing.best,
        "pinned": c.pinned,
        "note": c.pin.note or None if c.pin else None,
        "size": c.size,
        "created": time_form(c.created),
        "metrics": c.metrics,
        "aliases": c.aliases,
        "kept_by": standing.kept_by,
        "nonfinite": c.nonfinite,
        "problems": problem_forms(c.problems),
    }


def run_form(
    run: Run, rows: Iterable[tuple[Checkpoint, Standing]], *, whole: Run | None = None
) -> Form:
    """A RUN with the checkpoints in `rows`; `whole` has all of them, where `run` has only some."""
    everything = (whole or run).checkpoints
    several = len({c.run_id for c in everything if c.complete}) > 1
    newest = None if several else newest_resumable(everything)
    return {
        "path": str(run.path),
        "name": run.name,
        "run_id": run.run_id,
        "layout": run.layout,
        "live": run.live,
        "step": run.owner.step if run.live and run.owner else None,
        "saving": run.owner.saving if run.live and run.owner else None,
        "resume_from": newest.name if newest else None,
        "checkpoints": [checkpoint_form(c, s) for c, s in rows],
        "ignored": run.ignored,
        "trash": {"count": run.trash_count, "size": run.trash_size},
        "policy": run.policy,
        "size": run.size,
        "problems": problem_forms(run.problems),
    }


def root_form(
    root: Root,
    runs: Iterable[tuple[Run, Iterable[tuple[Checkpoint, Standing]]]],
    *,
    whole: Run | None = None,
) -> Form:
    """What `ls` answers: each run with those of its checkpoints that are shown.

    `whole` is the run of the one checkpoint that was asked for.
    """
    return {
        "version": VERSION,
        "root": str(root.path),
        "runs": [run_form(run, rows, whole=whole) for run, rows in runs],
        "problems": problem_forms(root.problems),
    }


def changes_form(
    changed: Iterable[tuple[Checkpoint, Standing]],
    unchanged: Iterable[tuple[Checkpoint, Standing]],
    failed: Iterable[tuple[Checkpoint, str]],
) -> Form:
    """What `pin` and `unpin` answer."""
    return {
        "version": VERSION,
        "changed": [checkpoint_form(c, s) for c, s in changed],
        "unchanged": [checkpoint_form(c, s) for c, s in unchanged],
        "failed": [
            {"run": str(c.run), "name": c.name, "path": str(c.path), "error": error}
            for c, error in failed
        ],
    }


def parent_form(parent: Parent | None) -> Form | None:
    """A parent, or null."""
    if parent is None:
        return None
    return {
        "name": parent.name,
        "step": parent.step,
        "run_id": parent.run_id,
        "attempt": parent.attempt,
        "path": parent.path,
    }


def metrics_form(run: Path, rows: Iterable[MetricRow], problems: Iterable[Problem]) -> Form:
    """What `metrics` answers."""
    return {
        "version": VERSION,
        "run": str(run),
        "rows": [
            {
                "step": row.step,
                "epoch": row.epoch,
                "time": time_form(row.time),
                "attempt": row.attempt,
                "metrics": row.metrics,
            }
            for row in rows
        ],
        "problems": problem_forms(problems),
    }


def plan_form(
    plans: Sequence[PrunePlan], *, executed: bool, results: Sequence[Removal] = ()
) -> Form:
    """What `prune` and `rm` answer."""
    return {
        "version": VERSION,
        "plan": [
            {
                "run": str(row.checkpoint.run),
                "name": row.checkpoint.name,
                "path": str(row.checkpoint.path),
                "action": str(row.action),
                "reasons": row.reasons,
                "frees": row.frees,
            }
            for plan in plans
            for row in plan.rows
        ],
        "frees": sum(plan.frees for plan in plans),
        "notes": [note for plan in plans for note in plan.notes],
        "warnings": [warning for plan in plans for warning in plan.warnings],
        "executed": executed,
        "results": [
            {
                "run": str(r.checkpoint.run),
                "name": r.checkpoint.name,
                "action": str(r.action),
                "done": r.done,
                "error": r.error,
                "freed": r.freed,
                "item": r.item,
            }
            for r in results
        ],
        "freed": sum(r.freed for r in results),
    }


def trash_form(items: Iterable[TrashItem]) -> Form:
    """What `trash list` answers."""
    return {
        "version": VERSION,
        "items": [
            {
                "id": item.id,
                "name": item.name,
                "path": str(item.path),
                "run": str(item.run),
                "step": item.step,
                "size": item.size,
                "when": time_form(item.when),
                "why": item.why,
                "pinned": item.pinned,
                "names": item.names,
                "problems": problem_forms(item.problems),
            }
            for item in items
        ],
    }


def trash_results_form(results: Iterable[tuple[TrashItem, str | None, int]]) -> Form:
    """What `trash restore` and `trash empty` answer: item, error, bytes freed."""
    return {
        "version": VERSION,
        "results": [
            {
                "id": item.id,
                "name": item.name,
                "done": error is None,
                "error": error,
                "freed": freed,
            }
            for item, error, freed in results
        ],
    }


def reports_form(reports: Iterable[Report]) -> Form:
    """What `verify` answers."""
    return {
        "version": VERSION,
        "checkpoints": [
            {
                "run": str(r.checkpoint.run),
                "name": r.checkpoint.name,
                "path": str(r.checkpoint.path),
                "level": r.level,
                "status": r.status,
                "problems": [{"file": p.file, "what": p.what} for p in r.problems],
            }
            for r in reports
        ],
    }


def resume_form(command: ResumeCommand, standing: Standing) -> Form:
    """What `resume-cmd` answers."""
    return {
        "version": VERSION,
        "checkpoint": checkpoint_form(command.checkpoint, standing),
        "argv": command.argv,
        "shell": command.shell,
        "config": command.config,
        "warnings": command.warnings,
    }


def save_now_form(
    run: Path,
    checkpoint: Checkpoint | None,
    error: str | None,
    *,
    standing: Standing | None = None,
) -> Form:
    """What `save-now` answers; neither a checkpoint nor an error: asked, and not waited for."""
    saved = checkpoint_form(checkpoint, standing) if checkpoint and standing else None
    return {"version": VERSION, "run": str(run), "checkpoint": saved, "error": error}


def events_form(run: Path, events: Iterable[Event], problems: Iterable[Problem]) -> Form:
    """What `log` answers."""
    return {
        "version": VERSION,
        "run": str(run),
        "events": [
            {
                "time": time_form(e.time),
                "who": e.who,
                "host": e.host,
                "what": e.what,
                "checkpoints": e.checkpoints,
                "reason": e.reason,
            }
            for e in events
        ],
        "problems": problem_forms(problems),
    }


def error_form(error: CkptuiError) -> Form:
    """What every command answers instead, where it fails as a whole."""
    return {
        "version": VERSION,
        "error": {
            "kind": error.kind,
            "message": error.message,
            "candidates": error.candidates,
        },
    }
