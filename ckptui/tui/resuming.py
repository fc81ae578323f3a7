"""Whether training can continue from a checkpoint, point by point, and the command that does it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ckptui import schema
from ckptui.display import plural
from ckptui.errors import CkptuiError, NotFoundError, RefusedError
from ckptui.resume import ids_of, why_not_resumable
from ckptui.resume_command import resume_command
from ckptui.retention import counts, newest_resumable, order
from ckptui.settings import flat, read_settings
from ckptui.tui.work import read_run
from ckptui.verify import verify_checkpoint

if TYPE_CHECKING:
    from ckptui.checkpoint import Checkpoint, Run
    from ckptui.resume_command import ResumeCommand
    from ckptui.tui.snapshot import Scan


@dataclass(frozen=True, slots=True)
class Check:
    """One point that was looked at."""

    passed: bool | None
    """None where it is only to be known."""
    words: str


@dataclass(frozen=True, slots=True)
class Examined:
    """What came of looking at a checkpoint."""

    checks: tuple[Check, ...]
    command: ResumeCommand | None
    why_not: str = ""
    """Why there is no command."""
    instead: Checkpoint | None = None
    """The newest one that training can continue from, where this one is none."""


def examine(
    path: Path,
    checkpoint: Checkpoint,
    scan: Scan,
    *,
    config: Path | None = None,
    verified: str | None = None,
) -> Examined:
    """Look at a checkpoint as it lies on the disk now.

    Args:
        path: Its run.
        checkpoint: Where to continue from, as it was listed.
        scan: Reads the disk.
        config: Also write the settings to this file, which the command then names.
        verified: What a verification of it in this session came to, if there was one.

    Raises:
        RefusedError: Something stands where the settings should be written.
        CkptuiError: The run cannot be read, or the checkpoint is gone.
    """
    run = read_run(path, scan)
    same = (checkpoint.path, checkpoint.identity)
    found = next((c for c in run.checkpoints if (c.path, c.identity) == same), None)
    if found is None:
        msg = f"{checkpoint.name} is gone or has changed meanwhile."
        raise NotFoundError(msg)
    if config is not None and os.path.lexists(config):
        msg = f"{config} is there already, so it was left alone."
        raise RefusedError(msg)
    checks = _content(found)
    if verified == "failed":
        checks.append(Check(False, "a verification in this session failed: V tells of what"))
    elif verified == "verified":
        checks.append(Check(True, "every byte was verified in this session"))
    try:
        command = resume_command(run, found, write_config=config)
    except CkptuiError as e:
        if config is not None:
            raise
        ids = {found.run_id} if found.run_id is not None else set(run.run_ids)
        known = [c for c in run.checkpoints if c.run_id in ids]
        newest = newest_resumable(known) if len(ids) == 1 else None
        instead = newest if newest is not None and newest.path != found.path else None
        return Examined(tuple(checks), None, str(e), instead)
    checks.append(_settings(command))
    checks.append(_place(run, found, command))
    return Examined(tuple(checks), command)


def _content(c: Checkpoint) -> list[Check]:
    if not c.complete:
        what = c.problems[0].what if c.problems else "something is missing"
        return [Check(False, f"{c.state}, not complete: {what}")]
    checks = [Check(True, "complete")]
    if not c.resumable:
        return [*checks, Check(False, why_not_resumable(c))]
    checks.append(Check(True, "holds what resuming needs"))
    report = verify_checkpoint(c)
    if report.status == "failed":
        first = report.problems[0]
        return [*checks, Check(False, f"{first.file} {first.what}".strip())]
    count = len(c.files)
    there = f"all {count} files are there, with their sizes" if count > 1 else "its file is there"
    return [*checks, Check(True, there)]


def _settings(command: ResumeCommand) -> Check:
    if command.config is None:
        return Check(None, "the run brings its own command")
    # One by one, as their page and a comparison list them.
    count = len(flat(read_settings(command.checkpoint.path / schema.RECIPE_CONFIG)))
    return Check(True, f"its {plural(count, 'setting')} can be read")


def _place(run: Run, c: Checkpoint, command: ResumeCommand) -> Check:
    """Where the command trains, and what becomes of what lies there."""
    mine = [o for o in run.checkpoints if o.run_id == c.run_id and counts(o)]
    newer = [o for o in mine if order(o) > order(c)]
    if command.output == run.path:
        several = len(ids_of(run)) > 1
        what = "the newest of its run id" if several else "the newest one"
        if newer:  # these hold weights only
            what += " that can be resumed"
        return Check(None, f"it is {what}: training continues in the same run")
    if not c.current:
        why = "it lies on an abandoned branch"
    elif len(newer) == 1:
        why = "1 newer one stays as it is"
    else:
        why = f"{len(newer)} newer ones stay as they are"
    return Check(None, f"{why}: training forks into a new run {command.output}")


def config_path(run: Path, checkpoint: Checkpoint) -> Path:
    """Where the settings are offered to be written: beside the run, under a name of their own."""
    return run.with_name(f"{run.name}-from-{checkpoint.name}.yaml")


def typed_path(text: str) -> Path:
    """A path as it was typed: `~` is home, and from here where it is relative."""
    path = Path(text.strip())
    try:
        path = path.expanduser()
    except RuntimeError:  # no such user
        return path.absolute()
    return path.absolute()
