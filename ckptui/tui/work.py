"""What the browser does to a disk: functions for background threads, without a widget in sight.

Whatever removes is planned anew at the moment of acting, and acts on nothing that the plan on the
screen did not name.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ckptui import forecast, journal, pins, prune, remove, requests, verify
from ckptui.errors import CkptuiError, NotFoundError
from ckptui.keeping import HEALTHY
from ckptui.retention import Action, PlanRow, PrunePlan, parse_rule, plan_prune, plan_remove
from ckptui.tui import messages, whereabouts
from ckptui.tui.rules_line import parse_rules

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from pathlib import Path

    from textual.message import Message

    from ckptui.checkpoint import Checkpoint, Run
    from ckptui.remove import TrashItem, Why
    from ckptui.retention import Rule
    from ckptui.tui.jobs import Job
    from ckptui.tui.snapshot import Scan


SAVE_SECONDS = 120.0
"""How long a trainer is waited for that was asked to save."""


@dataclass(frozen=True, slots=True)
class ByRules:
    """Remove what no rule keeps."""

    text: str
    keep: frozenset[str] = frozenset()
    """Names kept besides, chosen row by row."""
    also: tuple[Checkpoint, ...] = ()
    """What goes besides, chosen row by row: as `ckptui rm` would remove it."""

    why: Why = "prune"


@dataclass(frozen=True, slots=True)
class ByName:
    """Remove exactly these."""

    chosen: tuple[Checkpoint, ...]
    keep: frozenset[str] = frozenset()
    """Names among them that stay after all, chosen row by row."""
    why: Why = "rm"


Request = ByRules | ByName

BY_HAND = "kept by hand"
"""Why a row stays that was taken out of a plan."""
LET_GO = "let go by hand"
"""Why a row goes that no rule removes."""


def read_run(path: Path, scan: Scan) -> Run:
    """A run as it is on the disk now.

    Raises:
        NotFoundError: It is gone.
        CkptuiError: It cannot be read.
    """
    for run in scan(path).runs:
        if run.path == path:
            return run
    raise NotFoundError(_no_run(path))


def make_plan(path: Path, request: Request, scan: Scan, now: datetime) -> PrunePlan:
    """What the request would remove, by the disk as it is now.

    Raises:
        CkptuiError: The request is refused, or the run cannot be read.
    """
    return plan_for(read_run(path, scan), request, now)


def plan_for(run: Run, request: Request, now: datetime) -> PrunePlan:
    """What the request would remove of a run as it was read.

    Raises:
        CkptuiError: The request is refused.
    """
    if isinstance(request, ByRules):
        return _by_rules(run, request, now)
    wanted = {_identity(c) for c in request.chosen}
    there = [c for c in run.checkpoints if _identity(c) in wanted]
    if not there:
        msg = f"{', '.join(c.name for c in request.chosen)} is gone or has changed meanwhile."
        raise NotFoundError(msg)
    going = [c for c in there if c.name not in request.keep]
    plan = plan_remove(run.checkpoints, going, protected=run.protected, live=run.live)
    named = {row.checkpoint.path: row for row in plan.rows}
    rows = [named.get(c.path, PlanRow(c, Action.KEEP, (BY_HAND,))) for c in there]
    return replace(plan, rows=tuple(rows))


def _by_rules(run: Run, request: ByRules, now: datetime) -> PrunePlan:
    there = {c.name for c in run.checkpoints}
    rules, incomplete = parse_rules(request.text, request.keep & there)
    plan = plan_prune(
        run.checkpoints,
        rules,
        now=now,
        incomplete=incomplete,
        protected=run.protected,
        policy=_policy(run),
        live=run.live,
    )
    plan = replace(plan, rows=tuple(_by_hand(row, request.keep) for row in plan.rows))
    wanted = {_identity(c) for c in request.also}
    also = [c for c in run.checkpoints if _identity(c) in wanted]
    if not also:
        return plan
    going = {row.checkpoint.path for row in plan.removals} | {c.path for c in also}
    # Planned anew together: what comes back depends on which hard links go besides.
    both = plan_remove(
        run.checkpoints,
        [c for c in run.checkpoints if c.path in going],
        protected=run.protected,
        live=run.live,
    )
    named = {row.checkpoint.path: row for row in both.rows}
    rows = [_joined(row, named.get(row.checkpoint.path)) for row in plan.rows]
    return replace(plan, rows=tuple(rows), warnings=(*plan.warnings, *both.warnings))


def _by_hand(row: PlanRow, keep: frozenset[str]) -> PlanRow:
    if row.checkpoint.name not in keep or row.action is not Action.KEEP:
        return row
    return replace(row, reasons=tuple(BY_HAND if r == "named" else r for r in row.reasons))


def _joined(row: PlanRow, named: PlanRow | None) -> PlanRow:
    if named is None:
        return row
    # A rule that removes it as well is the reason: then no command has to name it.
    reasons = row.reasons if row.action is Action.REMOVE else (LET_GO,)
    return replace(named, reasons=reasons)


def why_it_stays(run: Run, row: PlanRow) -> str | None:
    """Why a row of a plan cannot be made to go by naming it; None where it can."""
    c = row.checkpoint
    if HEALTHY in row.reasons:
        return f"{c.name} stays: {HEALTHY}."
    if c.aliases:
        return f"{c.name} stays: the link {', '.join(c.aliases)} points to it."
    try:
        plan_remove(run.checkpoints, [c], protected=run.protected, live=run.live)
    except CkptuiError as e:
        return str(e)
    return None


def may_go(run: Run, checkpoint: Checkpoint) -> bool:
    """Whether a checkpoint can be moved to the trash by naming it."""
    try:
        plan_remove(run.checkpoints, [checkpoint], protected=run.protected, live=run.live)
    except CkptuiError:
        return False
    return True


def _policy(run: Run) -> tuple[Rule, ...]:
    rules = []
    for text in run.policy or ():
        try:
            rules.append(parse_rule(text))
        except CkptuiError:
            continue  # a rule of a newer version; it only fails to tell a metric
    return tuple(rules)


def _identity(c: Checkpoint) -> tuple[object, ...]:
    return (c.path, *c.identity)


def agreed(fresh: PrunePlan, shown: PrunePlan) -> tuple[PrunePlan, tuple[str, ...]]:
    """A fresh plan cut down to what a shown one named, and what was named but stays, with why."""
    named = {_identity(row.checkpoint) for row in shown.removals}
    rows = [
        row
        if row.action is not Action.REMOVE or _identity(row.checkpoint) in named
        else PlanRow(row.checkpoint, Action.KEEP, ("not in the plan that was confirmed",))
        for row in fresh.rows
    ]
    left = {_identity(row.checkpoint): row for row in rows}
    changed = []
    for row in shown.removals:
        now = left.get(_identity(row.checkpoint))
        if now is None:
            changed.append(f"{row.checkpoint.name}: gone or changed meanwhile")
        elif now.action is not Action.REMOVE:
            changed.append(f"{row.checkpoint.name}: stays ({', '.join(now.reasons)})")
    return replace(fresh, rows=tuple(rows)), tuple(changed)


def move_to_trash(
    path: Path, request: Request, shown: PrunePlan, scan: Scan, now: datetime, job: Job
) -> Message:
    """Move what the shown plan removes, if it still may go; stops between two when told to.

    Raises:
        CkptuiError: The request is refused by now, so nothing was moved.
    """
    plan, changed = agreed(make_plan(path, request, scan, now), shown)
    of = len(plan.removals)
    removals = []
    steps = prune.execute(plan, why=request.why)
    while not job.cancelled:
        removal = next(steps, None)
        if removal is None:
            break
        removals.append(removal)
        job.post(messages.CheckpointRemoved(path, removal, len(removals), of))
    return messages.RemovalEnded(path, removals, changed, stopped=len(removals) < of)


def set_pin(checkpoint: Checkpoint, *, note: str | None = None, again: str = "") -> Message:
    """Pin a checkpoint.

    Args:
        checkpoint: What to pin.
        note: The note its pin is to have; None leaves what is there.
        again: The note that its pin had before it was taken away.

    Raises:
        CkptuiError: It is gone, not ours, or the pin cannot be written.
    """
    if note is None and again and pins.read_pin(checkpoint.run, checkpoint.name) is None:
        note = again
    else:
        again = ""  # somebody has pinned it meanwhile: theirs holds
    changed = pins.pin(checkpoint, note=note)
    return messages.PinChanged(checkpoint, pinned=True, changed=changed, note=again)


def take_pin(checkpoint: Checkpoint, run: Run | None, now: datetime) -> Message:
    """Take a checkpoint's pin away, and see what the run's own rules do to it then.

    Args:
        checkpoint: What is pinned.
        run: Its run as it is known; None where it is not.
        now: The present time, aware.

    Raises:
        CkptuiError: Another one has taken its place, or the pin cannot be removed.
    """
    pin = pins.read_pin(checkpoint.run, checkpoint.name)
    changed = pins.unpin(checkpoint)
    goes = changed and run is not None and forecast.goes_unpinned(run, checkpoint, now=now)
    note = pin.note if pin is not None else ""
    return messages.PinChanged(checkpoint, pinned=False, changed=changed, note=note, goes=goes)


def save_now(run: Path) -> Message:
    """Ask the trainer of a run to save, and wait for what comes of it.

    Raises:
        CkptuiError: It cannot be asked.
    """
    try:
        request = requests.ask(run)
    except requests.NotTrainedError:
        return messages.SaveAnswered(run, None)
    return messages.SaveAnswered(run, requests.wait(run, request, timeout=SAVE_SECONDS))


def restore(run: Path, ids: Sequence[str], names: Sequence[str] = ()) -> Message:
    """Put trash items back; one that fails does not stop the others.

    Args:
        run: Whose trash.
        ids: The items.
        names: What is known to have been moved into them, for what is said of those that are gone.

    Raises:
        NotFoundError: The run is gone, and the trash with it.
    """
    _see(run)
    back: list[str] = []
    errors = []
    missing = []
    for item_id in ids:
        try:
            item = remove.find_item(run, item_id)
        except NotFoundError as e:
            missing.append((item_id, str(e)))
            continue
        try:
            back += remove.restore(item)
        except NotFoundError as e:
            missing.append((item_id, str(e)))
        except CkptuiError as e:
            back += whereabouts.moved_back(item)
            errors.append(str(e))
    if missing and not run.is_dir():
        errors.append(_no_run(run))
    elif missing and names:
        left = [n for n in names if n not in back]
        errors += whereabouts.of_missing(run, [item_id for item_id, _ in missing], left)
    else:
        errors += [what for _, what in missing]
    return messages.ItemsRestored(run, back, errors)


def list_trash(run: Path) -> Message:
    """Read the trash of a run.

    Raises:
        CkptuiError: It cannot be listed, or the run is gone.
    """
    _see(run)
    return messages.TrashListed(run, remove.list_trash(run))


def empty_trash(run: Path, items: Sequence[TrashItem], job: Job) -> Message:
    """Delete trash items for good; stops between two when told to.

    Raises:
        NotFoundError: The run is gone, and the trash with it.
    """
    _see(run)
    freed, count, errors = 0, 0, []
    for item in items:
        if job.cancelled:
            break
        emptied = remove.empty(item)
        freed += emptied.freed
        if emptied.error is not None:
            named = item.name in emptied.error
            errors.append(f"{emptied.error}." if named else f"{item.name}: {emptied.error}.")
        elif emptied.last:
            count += 1
        else:
            errors.append(f"{item.name} was not in the trash any more.")
        if not run.is_dir():
            break  # the others went with it, and nothing is known of them
    return messages.TrashEmptied(run, count, freed, errors)


def _see(run: Path) -> None:
    """See that a run is there: what it kept of itself is not empty but gone with it.

    Raises:
        NotFoundError: It is gone.
    """
    if not run.is_dir():
        raise NotFoundError(_no_run(run))


def _no_run(run: Path) -> str:
    return f"There is no run at {run} any more."


def read_journal(run: Path) -> Message:
    """Read the journal of a run.

    Raises:
        CkptuiError: It cannot be read, or the run is gone.
    """
    _see(run)
    events, problems = journal.read(run)
    return messages.JournalRead(run, events, tuple(p.what for p in problems))


class _StoppedError(Exception):
    """Raised from a progress callback to leave a verification."""


def verify_all(checkpoints: Sequence[Checkpoint], job: Job, *, full: bool) -> Message:
    """Verify checkpoints one after the other; stops within a file when told to.

    Raises:
        NotFoundError: The run is gone, and not only a checkpoint of it.
    """
    for checkpoint in checkpoints:
        if job.cancelled:
            break
        progress = _Progress(checkpoint, job)
        try:
            report = verify.verify_checkpoint(checkpoint, full=full, progress=progress)
        except _StoppedError:
            break
        if report.status == "failed" and not os.path.lexists(checkpoint.path):
            _see(checkpoint.run)
            job.post(messages.CheckpointMissed(checkpoint))
            continue
        job.post(messages.CheckpointVerified(report))
    return messages.VerifyEnded(stopped=job.cancelled)


class _Progress:
    """Counts bytes and reports them every few megabytes."""

    def __init__(self, checkpoint: Checkpoint, job: Job) -> None:
        self._checkpoint = checkpoint
        self._job = job
        self._read = 0
        self._told = 0
        self._every = max(2**22, checkpoint.size // 200)

    def __call__(self, count: int) -> None:
        self._read += count
        if self._job.cancelled:
            raise _StoppedError
        if self._read - self._told >= self._every:
            self._told = self._read
            self._job.post(messages.BytesVerified(self._checkpoint, self._read))
