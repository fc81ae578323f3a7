"""The JSON forms of everything the commands answer: strict, version 1, unknown is null.

Sizes are bytes, times UTC in ISO 8601, paths absolute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ckptui import schema
from ckptui.display.text import encodable
from ckptui.retention import newest_resumable, standings

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
    from ckptui.retention import PrunePlan, Standing
    from ckptui.verify import Report

VERSION = 1

Form = dict[str, Any]


def clean(value: Any) -> Any:
    """The value with no text in it that JSON's UTF-8 could not carry."""
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, dict):
        return {encodable(str(k)): clean(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [clean(v) for v in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value


def time_form(when: datetime | None) -> str | None:
    """A time, or null."""
    return schema.format_time(when) if when else None


def problem_forms(problems: Iterable[Problem]) -> list[Form]:
    """Problems as `{"path", "what"}`."""
    return [{"path": encodable(str(p.path)), "what": encodable(p.what)} for p in problems]


def checkpoint_form(checkpoint: Checkpoint, standing: Standing) -> Form:
    """A CHECKPOINT."""
    c = checkpoint
    return {
        "run": encodable(str(c.run)),
        "name": encodable(c.name),
        "path": encodable(str(c.path)),
        "step": c.step,
        "epoch": c.epoch,
        "run_id": c.run_id,
        "attempt": c.attempt,
        "current": c.current,
        "state": str(c.state),
        "complete": c.complete,
        "resumable": c.resumable,
        "latest": standing.latest,
        "best": [encodable(m) for m in standing.best],
        "pinned": c.pinned,
        "note": clean(c.pin.note or None) if c.pin else None,
        "size": c.size,
        "created": time_form(c.created),
        "metrics": clean(c.metrics),
        "aliases": clean(c.aliases),
        "kept_by": clean(standing.kept_by),
        "nonfinite": clean(c.nonfinite),
        "problems": problem_forms(c.problems),
    }


def run_form(run: Run, *, now: datetime) -> Form:
    """A RUN with its checkpoints."""
    several = len({c.run_id for c in run.checkpoints if c.complete}) > 1
    newest = None if several else newest_resumable(run.checkpoints)
    return {
        "path": encodable(str(run.path)),
        "name": encodable(run.name),
        "run_id": run.run_id,
        "layout": run.layout,
        "live": run.live,
        "resume_from": newest.name if newest else None,
        "checkpoints": [
            checkpoint_form(c, s)
            for c, s in zip(run.checkpoints, standings(run, now=now), strict=True)
        ],
        "ignored": clean(run.ignored),
        "trash": {"count": run.trash_count, "size": run.trash_size},
        "policy": clean(run.policy),
        "size": run.size,
        "problems": problem_forms(run.problems),
    }


def root_form(root: Root, *, now: datetime) -> Form:
    """What `ls` answers."""
    return {
        "version": VERSION,
        "root": encodable(str(root.path)),
        "runs": [run_form(run, now=now) for run in root.runs],
        "problems": problem_forms(root.problems),
    }


def parent_form(parent: Parent | None) -> Form | None:
    """A parent, or null."""
    if parent is None:
        return None
    return {
        "name": encodable(parent.name),
        "step": parent.step,
        "run_id": parent.run_id,
        "attempt": parent.attempt,
        "path": clean(parent.path),
    }


def metrics_form(run: Path, rows: Iterable[MetricRow], problems: Iterable[Problem]) -> Form:
    """What `metrics` answers."""
    return {
        "version": VERSION,
        "run": encodable(str(run)),
        "rows": [
            {
                "step": row.step,
                "epoch": row.epoch,
                "time": time_form(row.time),
                "attempt": row.attempt,
                "metrics": clean(row.metrics),
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
                "run": encodable(str(row.checkpoint.run)),
                "name": encodable(row.checkpoint.name),
                "path": encodable(str(row.checkpoint.path)),
                "action": str(row.action),
                "reasons": clean(row.reasons),
                "frees": row.frees,
            }
            for plan in plans
            for row in plan.rows
        ],
        "frees": sum(plan.frees for plan in plans),
        "notes": clean([note for plan in plans for note in plan.notes]),
        "warnings": clean([warning for plan in plans for warning in plan.warnings]),
        "executed": executed,
        "results": [
            {
                "run": encodable(str(r.checkpoint.run)),
                "name": encodable(r.checkpoint.name),
                "action": str(r.action),
                "done": r.done,
                "error": clean(r.error),
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
                "id": encodable(item.id),
                "name": encodable(item.name),
                "path": encodable(str(item.path)),
                "run": encodable(str(item.run)),
                "step": item.step,
                "size": item.size,
                "when": time_form(item.when),
                "why": item.why,
                "pinned": item.pinned,
                "names": clean(item.names),
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
                "id": encodable(item.id),
                "name": encodable(item.name),
                "done": error is None,
                "error": clean(error),
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
                "run": encodable(str(r.checkpoint.run)),
                "name": encodable(r.checkpoint.name),
                "path": encodable(str(r.checkpoint.path)),
                "level": r.level,
                "status": r.status,
                "problems": [
                    {"file": encodable(p.file), "what": encodable(p.what)} for p in r.problems
                ],
            }
            for r in reports
        ],
    }


def resume_form(command: ResumeCommand, standing: Standing) -> Form:
    """What `resume-cmd` answers."""
    return {
        "version": VERSION,
        "checkpoint": checkpoint_form(command.checkpoint, standing),
        "argv": clean(command.argv),
        "shell": encodable(command.shell),
        "config": clean(command.config),
        "warnings": clean(command.warnings),
    }


def events_form(run: Path, events: Iterable[Event]) -> Form:
    """What `log` answers."""
    return {
        "version": VERSION,
        "run": encodable(str(run)),
        "events": [
            {
                "time": time_form(e.time),
                "who": clean(e.who),
                "host": clean(e.host),
                "what": encodable(e.what),
                "checkpoints": clean(e.checkpoints),
                "reason": clean(e.reason),
            }
            for e in events
        ],
    }


def error_form(error: CkptuiError) -> Form:
    """What every command answers instead, where it fails as a whole."""
    return {
        "version": VERSION,
        "error": {
            "kind": error.kind,
            "message": encodable(error.message),
            "candidates": clean(error.candidates),
        },
    }
