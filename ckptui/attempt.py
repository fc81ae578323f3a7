"""The beginning of an attempt: whose run it is, what it goes on from, what it abandons.

The order is such that a kill anywhere leaves a run that can be started again: the lease that
protects a fork's source comes before the fork's `run.json`, and what a rewind abandons is moved
only once the attempt that abandons it is recorded.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shlex
import sys
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ckptui import journal, leases, leftovers, remove, schema
from ckptui.checkpoint import Attempt, is_current
from ckptui.durable import token
from ckptui.errors import FormatError, NewerFormatError, RefusedError
from ckptui.resume import parent_of
from ckptui.run_file import RunFile, read_run_file, write_run_file
from ckptui.scan import scan_run
from ckptui.settings import write_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ckptui.checkpoint import Checkpoint, Parent
    from ckptui.resume import Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What the trainer says of itself, for `run.json`."""

    recipe: str | None
    command: str | None
    policy: tuple[str, ...]
    config: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """An attempt that has begun."""

    run_id: str
    attempt: int
    parent: Parent | None
    lent_by: Path | None
    """The run that keeps the source of this fork until it has saved."""


def begin(
    path: Path,
    decision: Decision,
    about: About,
    *,
    rewind: bool,
    report: Callable[[str], None],
) -> Begun:
    """Record the attempt that was decided on; the caller holds the run's lock.

    Args:
        path: The run's folder.
        decision: From `decide`.
        about: What `run.json` shall say.
        rewind: Whether what the attempt abandons goes to the trash.
        report: Takes each line the user should read.

    Raises:
        CkptuiError: A newer ckptui wrote the run, or what is abandoned cannot be moved.
        OSError: The disk refused.
    """
    for message in decision.messages:
        report(message)
    record = _record(path, report)
    source = decision.checkpoint
    run_id = (record.run_id if record else None) or _inherited_id(decision)
    leftovers.clear(path)
    parent, lent_by = None, None
    if source is not None:
        forked = decision.action == "fork"
        parent = parent_of(source, forked=forked)
        if forked and _lend(source, fork=path, fork_run_id=run_id, report=report):
            lent_by = source.run
    if about.config is not None:
        write_settings(path / schema.CONFIG_FILE, about.config)
    attempt = Attempt(
        attempt=decision.attempt,
        start_step=(source.step or 0) if source else 0,
        parent=parent,
        started=schema.now_text(),
        host=journal.host(),
        argv=tuple(sys.argv),
    )
    base = record or RunFile(run_id=run_id, created=schema.now_text())
    write_run_file(
        path,
        replace(
            base.with_attempt(attempt),
            run_id=run_id,
            recipe=about.recipe or base.recipe,
            command=about.command or base.command,
            argv=tuple(sys.argv),
            cwd=_working_directory(),
            python=platform.python_version(),
            policy=about.policy or None,
        ),
    )
    if rewind:
        _set_abandoned_aside(path, report)
    begun = f"from {source.path}" if source else "from step 0"
    journal.record(path, "start", reason=f"attempt {decision.attempt} {begun}")
    return Begun(run_id=run_id, attempt=decision.attempt, parent=parent, lent_by=lent_by)


def _record(path: Path, report: Callable[[str], None]) -> RunFile | None:
    try:
        return read_run_file(path)
    except NewerFormatError:
        raise
    except FormatError as e:
        damaged = path / f"{schema.RUN_FILE}.damaged"
        if os.path.lexists(damaged):
            damaged = path / f"{schema.RUN_FILE}.{token(3)}.damaged"
        (path / schema.RUN_FILE).replace(damaged)
        report(f"{e} It was set aside as {damaged.name}; the run goes on with a new one.")
        return None


def _inherited_id(decision: Decision) -> str:
    """The id for a new `run.json`: a run that lost its own keeps that of its checkpoints."""
    if decision.action in ("continue", "rewind") and decision.checkpoint is not None:
        return decision.checkpoint.run_id or uuid.uuid4().hex
    return uuid.uuid4().hex


def _lend(
    source: Checkpoint, *, fork: Path, fork_run_id: str, report: Callable[[str], None]
) -> bool:
    try:
        leases.write_lease(source, fork=fork, fork_run_id=fork_run_id)
    except (OSError, RefusedError) as e:
        why = e.strerror if isinstance(e, OSError) else str(e).rstrip(".")
        report(
            f"{source.run} cannot be written ({why}), so nothing protects {source.name} "
            "there until this fork has saved."
        )
        return False
    return True


def _working_directory() -> str | None:
    with contextlib.suppress(OSError):  # it may have been removed under the process
        return os.getcwd()  # noqa: PTH109 - the text that a shell's cd takes
    return None


def _set_abandoned_aside(path: Path, report: Callable[[str], None]) -> None:
    """Move what this rewind abandons into the trash, as one item."""
    run = scan_run(path)
    abandoned = [
        c
        for c in run.checkpoints
        if c.complete
        and not c.staged
        and c.step is not None
        and not is_current(c.attempt or 1, c.step, run.attempts)
        and not c.pinned
    ]
    if abandoned:
        item = remove.move_to_trash(abandoned, why="rewind", reason="abandoned by a rewind")
        names = ", ".join(c.name for c in abandoned)
        undo = f"ckptui trash restore {item} --run {shlex.quote(str(path))}"
        report(f"Moved {names} to the trash; `{undo}` undoes it.")
