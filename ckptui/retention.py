"""Which checkpoints stay and why: from records, rules and the time to a plan.

Pure: no clock, no paths followed, no I/O. A checkpoint is kept if any rule keeps it; rules work
for each run id on its own. Only complete, current checkpoints are ranked and counted. Whatever the
rules say, these stay: the newest resumable one, pinned ones, the targets of links, and what is in
use.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from ckptui.checkpoint import Checkpoint, State
from ckptui.errors import NotFoundError, RefusedError, UnsafePruneError, UsageError
from ckptui.layouts.native_checkpoint import order
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

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from ckptui.checkpoint import Run

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
    "direction",
    "newest_complete",
    "newest_resumable",
    "order",
    "parse_best",
    "parse_count",
    "parse_duration",
    "parse_rule",
    "plan_prune",
    "plan_remove",
    "standings",
]

NEWEST = "newest resumable"
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


@dataclass(frozen=True, slots=True)
class Standing:
    """How a checkpoint stands among the others of its run."""

    latest: bool = False
    best: tuple[str, ...] = ()
    """The metrics in which no other is better."""
    kept_by: tuple[str, ...] | None = None
    """Why the run's own policy keeps it; None where the run has no policy."""


def counts(checkpoint: Checkpoint) -> bool:
    """Whether a checkpoint is ranked and counted: complete, current and in place."""
    return checkpoint.complete and checkpoint.current and not checkpoint.staged


def newest_complete(checkpoints: Iterable[Checkpoint]) -> Checkpoint | None:
    """The newest complete current checkpoint; one without a step only where none has one."""
    return max(filter(counts, checkpoints), key=_age, default=None)


def newest_resumable(checkpoints: Iterable[Checkpoint]) -> Checkpoint | None:
    """The newest complete current checkpoint that training can continue from."""
    return max((c for c in checkpoints if counts(c) and c.resumable), key=_age, default=None)


def _age(checkpoint: Checkpoint) -> tuple[int, int, int, str, str]:
    missing, *rest = order(checkpoint)
    return (-missing, *rest)  # type: ignore[return-value] # mypy loses the length of *rest


def best(checkpoints: Iterable[Checkpoint], metric: str, mode: str) -> Checkpoint | None:
    """The best of the complete current checkpoints by a metric; of equal ones the later step."""
    ranked = _ranked(checkpoints, metric, mode)
    return ranked[0] if ranked else None


def _ranked(checkpoints: Iterable[Checkpoint], metric: str, mode: str) -> list[Checkpoint]:
    """Those with a finite value, best first, later steps before earlier ones of the same value."""
    valued = [c for c in checkpoints if counts(c) and c.metrics.get(metric) is not None]
    valued.sort(key=_age, reverse=True)
    valued.sort(key=lambda c: c.metrics[metric] or 0.0, reverse=mode == "max")
    return valued


def choose_metric(checkpoints: Iterable[Checkpoint], policy: Sequence[Rule]) -> tuple[str, Mode]:
    """The metric and direction that "best" means where none is named.

    Raises:
        RefusedError: Neither the run's policy nor `eval_loss` gives one; the candidates are named.
    """
    checkpoints = list(checkpoints)
    for rule in policy:
        if isinstance(rule, KeepBest) and rule.metric is not None:
            return rule.metric, _mode(rule.metric, rule.mode)
    known = _metrics(checkpoints)
    if "eval_loss" in known:
        return "eval_loss", "min"
    msg = "Best by which metric? Neither the run's policy nor eval_loss tells."
    if known:
        msg += f" There are: {', '.join(known)}."
    raise RefusedError(msg, candidates=known)


def _metrics(checkpoints: Iterable[Checkpoint]) -> list[str]:
    return sorted(
        {m for c in checkpoints if counts(c) for m, v in c.metrics.items() if v is not None}
    )


def _mode(metric: str, mode: Mode | None) -> Mode:
    found = mode or direction(metric)
    if found is None:
        msg = (
            f"Whether a low or a high {metric} is better is not known; "
            f"write {metric}:min or {metric}:max."
        )
        raise RefusedError(msg)
    return found


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
    for group in _by_run_id(rows):
        kept = _kept_by_rules(group, real, now=now, policy=policy, notes=notes)
        if not real:
            for c in group:
                if counts(c):
                    kept.setdefault(id(c), []).append("complete")
        _keep_always(group, kept, named, protected or {})
        _keep_healthy(group, kept, warnings)
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


def _by_run_id(rows: Sequence[Checkpoint]) -> list[list[Checkpoint]]:
    groups: dict[str | None, list[Checkpoint]] = {}
    for c in rows:
        groups.setdefault(c.run_id, []).append(c)
    return list(groups.values())


def _kept_by_rules(
    group: Sequence[Checkpoint],
    rules: Sequence[Rule],
    *,
    now: datetime,
    policy: Sequence[Rule],
    notes: list[str],
) -> dict[int, list[str]]:
    kept: dict[int, list[str]] = {}
    ranked = [c for c in group if counts(c)]
    if not ranked:
        return kept

    def keep(chosen: Iterable[Checkpoint], reason: str) -> None:
        for c in chosen:
            kept.setdefault(id(c), []).append(reason)

    stepped = [c for c in ranked if c.step is not None]
    for rule in rules:
        match rule:
            case KeepLast(count):
                keep(stepped[-count:], f"last {count}")
            case KeepEvery(steps):
                keep((c for c in stepped if (c.step or 0) % steps == 0), f"every {steps}")
            case KeepWithin(period, text):
                keep((c for c in ranked if c.created is None), "when it was saved is unknown")
                dated = [c for c in ranked if c.created is not None]
                keep((c for c in dated if c.created and c.created > now), "saved in the future")
                keep(
                    (c for c in dated if c.created and now - period <= c.created <= now),
                    f"within {text}",
                )
            case KeepBest(count, metric, mode):
                if metric is None:
                    metric, mode = choose_metric(ranked, policy)
                mode = _mode(metric, mode)
                best_first = _ranked(ranked, metric, mode)
                if not best_first:
                    raise _no_values(metric, ranked)
                better = "lower" if mode == "min" else "higher"
                notes.append(f"best by {metric}: {better} is better")
                keep(best_first[:count], f"best {count} by {metric}")
            case KeepNames():
                pass
    if rules:
        keep((c for c in ranked if c.step is None), "its step is unknown")
    return kept


def _no_values(metric: str, ranked: Sequence[Checkpoint]) -> UnsafePruneError:
    known = _metrics(ranked)
    msg = f"No complete checkpoint has a finite value of {metric}, so none can be the best."
    if known:
        msg += f" There are: {', '.join(known)}."
    return UnsafePruneError(msg, candidates=known)


def _keep_always(
    group: Sequence[Checkpoint],
    kept: dict[int, list[str]],
    named: set[str],
    protected: Mapping[str, str],
) -> None:
    newest = newest_resumable(group)
    if newest is not None:
        kept.setdefault(id(newest), []).insert(0, NEWEST)
    else:
        newest = newest_complete(group)
        if newest is not None:
            kept.setdefault(id(newest), []).insert(0, "newest complete")
    for c in group:
        if c.staged:
            continue
        if c.name in named:
            kept.setdefault(id(c), []).append("named")
        if c.name in protected:
            kept.setdefault(id(c), []).append(protected[c.name])
        if c.aliases:
            links = " and ".join(f"'{a}'" for a in c.aliases)
            points = "point" if len(c.aliases) > 1 else "points"
            kept.setdefault(id(c), []).append(f"link {links} {points} here")
        if c.pin is not None:
            kept.setdefault(id(c), []).append(f"pin: {c.note}" if c.note else "pinned")


def _keep_healthy(
    group: Sequence[Checkpoint], kept: dict[int, list[str]], warnings: list[str]
) -> None:
    """Never let the last checkpoint go whose weights are all finite."""
    usable = [c for c in group if counts(c) and c.resumable]
    healthy = [c for c in usable if not c.nonfinite]
    newest = newest_resumable(group)
    if newest is not None and newest.nonfinite:
        warnings.append(f"The newest resumable checkpoint, {newest.name}, holds NaN or infinity.")
    if not healthy or any(id(c) in kept for c in healthy):
        return
    last = max(healthy, key=_age)
    kept[id(last)] = ["newest healthy one: later weights hold NaN"]
    warnings.append(
        f"The rules would remove every checkpoint with finite weights; {last.name} is kept."
    )


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
        others = [o for o in everything if o.run_id == c.run_id]
        newest = newest_resumable(others) or newest_complete(others)
        why = _refusal(c, newest, protected or {}, live=live)
        if why is not None:
            msg = f"{c.name} is not removed: {why}."
            raise RefusedError(msg)
        if c.aliases:
            warnings.append(f"Link {', '.join(c.aliases)} will point to nothing without {c.name}.")
    paths = {c.path for c in chosen}
    rows = [PlanRow(c, Action.REMOVE, ("named",)) for c in everything if c.path in paths]
    healthy = [c for c in everything if counts(c) and c.resumable and not c.nonfinite]
    if healthy and all(c.path in paths for c in healthy):
        warnings.append("No checkpoint with finite weights will be left.")
    return PrunePlan(_with_frees(rows), (), tuple(warnings))


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


def standings(run: Run, *, now: datetime) -> tuple[Standing, ...]:
    """How each of `run.checkpoints` stands: latest, best, and why the run's own policy keeps it."""
    policy = []
    for text in run.policy or ():
        try:
            policy.append(parse_rule(text))
        except UsageError:
            continue  # a rule of a newer version: it must not hide what the others say
    latest: set[int] = set()
    best_in: dict[int, list[str]] = {}
    kept: dict[int, list[str]] = {}
    for group in _by_run_id(run.checkpoints):
        newest = newest_complete(group)
        if newest is not None:
            latest.add(id(newest))
        for metric, mode in _judged(group, policy):
            top = best(group, metric, mode)
            if top is not None:
                best_in.setdefault(id(top), []).append(metric)
        for rule in policy:
            try:
                by_rule = _kept_by_rules(group, [rule], now=now, policy=policy, notes=[])
            except RefusedError:
                continue  # a metric that nobody has yet keeps nothing yet
            for key, reasons in by_rule.items():
                kept.setdefault(key, []).extend(reasons)
        _keep_always(group, kept, set(), run.protected)
    has_policy = run.policy is not None
    return tuple(
        Standing(
            latest=id(c) in latest,
            best=tuple(best_in.get(id(c), ())),
            kept_by=tuple(dict.fromkeys(kept.get(id(c), ()))) if has_policy else None,
        )
        for c in run.checkpoints
    )


_NEVER_BEST = frozenset({"lr", "grad_norm", "tokens_per_second", "peak_memory"})


def _judged(group: Sequence[Checkpoint], policy: Sequence[Rule]) -> list[tuple[str, Mode]]:
    """The metrics in which a best one is told, with their direction."""
    found: dict[str, Mode] = {}
    for rule in policy:
        if isinstance(rule, KeepBest) and rule.metric is not None:
            mode = rule.mode or direction(rule.metric)
            if mode is not None:
                found[rule.metric] = mode
    for metric in _metrics(group):
        mode = direction(metric)
        if metric not in found and mode is not None and metric not in _NEVER_BEST:
            found[metric] = mode
    return sorted(found.items())
