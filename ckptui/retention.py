"""Which checkpoints stay and why: from records, rules and the time to a plan.

Pure: no clock, no paths followed, no I/O. A checkpoint is kept if any rule keeps it; rules work
for each run id on its own. Only complete, current checkpoints are ranked and counted. Whatever the
rules say, these stay: the newest resumable one, pinned ones, the targets of links, and what is in
use.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from ckptui.checkpoint import Checkpoint, State, order
from ckptui.errors import NotFoundError, RefusedError, UnsafePruneError, UsageError
from ckptui.keeping import by_run_id, keep_always, keep_healthy, kept_by_rules
from ckptui.ranking import best, choose_metric, counts, newest_complete, newest_resumable
from ckptui.rules import (
    KeepBest,
    KeepEvery,
    KeepLast,
    KeepNames,
    KeepWithin,
    Mode,
    Rule,
    direction,
    parse_best,
    parse_count,
    parse_duration,
    parse_rule,
)
from ckptui.standing import Standing, standings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

__all__ = [
    "Action",
    "KeepBest",
    "KeepEvery",
    "KeepLast",
    "KeepNames",
    "KeepWithin",
    "Mode",
    "PlanRow",
    "PrunePlan",
    "Rule",
    "Standing",
    "best",
    "choose_metric",
    "counts",
    "direction",
    "newest_complete",
    "newest_resumable",
    "order",
    "parse_best",
    "parse_count",
    "parse_duration",
    "parse_rule",
    "plan_ahead",
    "plan_prune",
    "plan_remove",
    "standings",
]

NO_RULE = "no rule keeps it"


class Action(StrEnum):
    """What a plan does with a checkpoint."""

    KEEP = "keep"
    THIN = "thin"
    REMOVE = "remove"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One checkpoint of a plan."""

    checkpoint: Checkpoint
    action: Action
    reasons: tuple[str, ...]
    frees: int = 0
    """Bytes that come back once it is deleted, after those of the rows above."""


@dataclass(frozen=True, slots=True)
class PrunePlan:
    """What would happen to every checkpoint."""

    rows: tuple[PlanRow, ...]
    """Ascending by step."""
    notes: tuple[str, ...] = ()
    """How the rules were read: which metric, which direction."""
    warnings: tuple[str, ...] = ()

    @property
    def frees(self) -> int:
        """Bytes that come back once everything removed is deleted."""
        return sum(row.frees for row in self.rows)

    @property
    def removals(self) -> tuple[PlanRow, ...]:
        """The rows that go."""
        return tuple(row for row in self.rows if row.action is Action.REMOVE)


def plan_prune(
    checkpoints: Iterable[Checkpoint],
    rules: Sequence[Rule],
    *,
    now: datetime,
    incomplete: bool = False,
    protected: Mapping[str, str] | None = None,
    policy: Sequence[Rule] = (),
    live: bool = False,
) -> PrunePlan:
    """Decide what `rules` keep, without touching the disk.

    Args:
        checkpoints: All of one run's folder.
        rules: Kept is what any of them keeps.
        now: For `KeepWithin`.
        incomplete: Whether incomplete ones go; alone it keeps every complete one.
        protected: Names that something in use needs, with the reason.
        policy: The run's own rules, which tell the metric where `KeepBest` names none.
        live: Whether a trainer is at work, whose incomplete folders may still be written.

    Raises:
        UnsafePruneError: No rule was given, or one ranks by a metric nobody has.
        RefusedError: A metric or its direction cannot be told.
        NotFoundError: A name to keep is not there.
        UsageError: Names to keep are all that was given.
    """
    rows = sorted(checkpoints, key=order)
    real = [r for r in rules if not isinstance(r, KeepNames)]
    named = {n for r in rules if isinstance(r, KeepNames) for n in r.names}
    _check_rules(rows, real, named, incomplete=incomplete)
    notes: list[str] = []
    warnings: list[str] = []
    reasons: dict[int, list[str]] = {}
    for group in by_run_id(rows):
        kept = kept_by_rules(group, real, now=now, policy=policy, notes=notes)
        if not real:
            for c in group:
                if counts(c):
                    kept.setdefault(id(c), []).append("complete")
        keep_always(group, kept, named, protected or {})
        keep_healthy(group, kept, warnings)
        reasons |= kept
    decided = [_decide(c, reasons, incomplete=incomplete, live=live) for c in rows]
    return PrunePlan(_with_frees(decided), tuple(dict.fromkeys(notes)), tuple(warnings))


def _check_rules(
    rows: Sequence[Checkpoint], rules: Sequence[Rule], named: set[str], *, incomplete: bool
) -> None:
    absent = named - {c.name for c in rows}
    if absent:
        msg = f"There is no {', '.join(sorted(absent))} to keep."
        raise NotFoundError(msg, candidates=[c.name for c in rows])
    if rules or incomplete:
        return
    if named:
        msg = "--keep only protects names; add a rule such as --keep-last 3."
        raise UsageError(msg)
    msg = "No rule was given, so nothing would be kept; give one such as --keep-last 3."
    raise UnsafePruneError(msg)


def _decide(
    c: Checkpoint, reasons: Mapping[int, list[str]], *, incomplete: bool, live: bool
) -> PlanRow:
    why = tuple(reasons.get(id(c), ()))
    if c.state is State.UNKNOWN:
        return PlanRow(c, Action.SKIP, ("not ours: never touched",))
    if c.state is State.WRITING:
        return PlanRow(c, Action.KEEP, ("being written: never touched",))
    if why:
        return PlanRow(c, Action.KEEP, why)
    if not c.complete:
        if not incomplete:
            return PlanRow(c, Action.SKIP, ("incomplete: only with --incomplete",))
        if live:
            return PlanRow(c, Action.SKIP, ("may still be being written",))
        return PlanRow(c, Action.REMOVE, ("incomplete",))
    if not c.current:
        return PlanRow(c, Action.SKIP, ("abandoned branch: only when named",))
    return PlanRow(c, Action.REMOVE, (NO_RULE,))


def _with_frees(rows: Sequence[PlanRow]) -> tuple[PlanRow, ...]:
    """The rows with what each gives back: an inode's bytes go with its last link."""
    gone: dict[tuple[int, int], int] = {}
    found = []
    for row in rows:
        if row.action is not Action.REMOVE:
            found.append(row)
            continue
        frees = row.checkpoint.size
        for file in row.checkpoint.shared:
            key = (file.device, file.inode)
            gone[key] = gone.get(key, 0) + file.here
            if gone[key] < file.links:
                frees -= file.size
        found.append(PlanRow(row.checkpoint, row.action, row.reasons, frees))
    return tuple(found)


def plan_ahead(
    checkpoints: Iterable[Checkpoint],
    rules: Sequence[Rule],
    *,
    coming: Checkpoint,
    now: datetime,
    protected: Mapping[str, str] | None = None,
    policy: Sequence[Rule] = (),
    live: bool = False,
) -> PrunePlan:
    """What `plan_prune` decides of the same checkpoints as if `coming` stood beside them.

    It has no row itself. It may never stand, so whatever would be needed then stays too: of each
    run id the newest one that training can continue from, and the newest healthy one.

    Raises:
        UnsafePruneError: No rule was given, or one ranks by a metric nobody has.
        RefusedError: A metric or its direction cannot be told.
        NotFoundError: A name to keep is not there.
        UsageError: Names to keep are all that was given.
    """
    standing = list(checkpoints)
    stay = dict(protected or {})
    for group in by_run_id(standing):
        newest = newest_resumable(group) or newest_complete(group)
        healthy: dict[int, list[str]] = {}
        keep_healthy(group, healthy, [])
        for c in group:
            if c is newest or id(c) in healthy:
                stay.setdefault(c.name, f"needed until {coming.name} stands")
    plan = plan_prune([*standing, coming], rules, now=now, protected=stay, policy=policy, live=live)
    return replace(plan, rows=tuple(r for r in plan.rows if r.checkpoint is not coming))


def plan_remove(
    checkpoints: Iterable[Checkpoint],
    chosen: Sequence[Checkpoint],
    *,
    protected: Mapping[str, str] | None = None,
    live: bool = False,
) -> PrunePlan:
    """The plan that removes exactly the chosen checkpoints of one run.

    Incomplete and abandoned ones may be chosen.

    Raises:
        RefusedError: One is pinned, in use, being written, not ours, or the newest resumable one.
    """
    everything = sorted(checkpoints, key=order)
    warnings = []
    for c in chosen:
        newest = newest_resumable(o for o in everything if o.run_id == c.run_id)
        why = _refusal(c, newest, protected or {}, live=live)
        if why is not None:
            msg = f"{c.name} is not removed: {why}."
            raise RefusedError(msg)
        if c.aliases:
            warnings.append(f"Link {', '.join(c.aliases)} will point to nothing without {c.name}.")
    paths = {c.path for c in chosen}
    rows = [PlanRow(c, Action.REMOVE, ("named",)) for c in everything if c.path in paths]
    for group in by_run_id(everything):
        warnings += _losses(group, paths)
    return PrunePlan(_with_frees(rows), (), tuple(warnings))


def _losses(group: Sequence[Checkpoint], paths: set[Path]) -> Iterable[str]:
    """What a run will lack once the checkpoints at `paths` are gone."""
    complete = [c for c in group if counts(c)]
    resumable = [c for c in complete if c.resumable]
    healthy = [c for c in resumable or complete if not c.nonfinite]
    if complete and all(c.path in paths for c in complete):
        yield "No complete checkpoint will be left."
    elif healthy and all(c.path in paths for c in healthy):
        yield "No checkpoint with finite weights will be left."


def _refusal(
    c: Checkpoint, newest: Checkpoint | None, protected: Mapping[str, str], *, live: bool
) -> str | None:
    if c.state is State.UNKNOWN:
        return "ckptui does not know what wrote it, so it never touches it"
    if c.state is State.WRITING or (live and not c.complete and not c.pinned):
        return "it may still be being written"
    if c.pinned and not c.staged:
        return "it is pinned; unpin it first"
    if newest is not None and c.path == newest.path:
        return "it is the newest one that training can continue from"
    return protected.get(c.name) if not c.staged else None
