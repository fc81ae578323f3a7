"""What keeps a checkpoint: rules, and what no rule can override, each with its reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckptui.errors import UnsafePruneError
from ckptui.ranking import (
    age,
    choose_metric,
    counts,
    metric_names,
    mode_of,
    newest_complete,
    newest_resumable,
    ranked,
)
from ckptui.rules import KeepBest, KeepEvery, KeepLast, KeepNames, KeepWithin, Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from ckptui.checkpoint import Checkpoint

NEWEST = "newest resumable"
NEWEST_COMPLETE = "newest complete"
HEALTHY = "newest healthy one: later weights hold NaN"


def by_run_id(rows: Iterable[Checkpoint]) -> list[list[Checkpoint]]:
    """The checkpoints of each run id, those of unknown ones together; in their order."""
    groups: dict[str | None, list[Checkpoint]] = {}
    for c in rows:
        groups.setdefault(c.run_id, []).append(c)
    return list(groups.values())


def kept_by_rules(
    group: Sequence[Checkpoint],
    rules: Sequence[Rule],
    *,
    now: datetime,
    policy: Sequence[Rule],
    notes: list[str],
) -> dict[int, list[str]]:
    """What `rules` keep of one run id: `id(checkpoint)` -> reasons.

    Args:
        group: In their order; only those that count are looked at.
        rules: Any of them keeps.
        now: For `KeepWithin`.
        policy: Tells the metric where `KeepBest` names none.
        notes: Takes how the rules were read.

    Raises:
        UnsafePruneError: A rule ranks by a metric nobody has.
        RefusedError: A metric or its direction cannot be told.
    """
    kept: dict[int, list[str]] = {}
    counted = [c for c in group if counts(c)]
    stepped = [c for c in counted if c.step is not None]
    if not counted:
        return kept

    def keep(chosen: Iterable[Checkpoint], reason: str) -> None:
        for c in chosen:
            kept.setdefault(id(c), []).append(reason)

    for rule in rules:
        match rule:
            case KeepLast(count):
                keep(stepped[-count:], f"last {count}")
            case KeepEvery(steps):
                keep((c for c in stepped if (c.step or 0) % steps == 0), f"every {steps}")
            case KeepWithin(period, text):
                for c in counted:
                    if c.created is None:
                        keep([c], "when it was saved is unknown")
                    elif c.created > now:
                        keep([c], "saved in the future")
                    elif now - c.created <= period:
                        keep([c], f"within {text}")
            case KeepBest(count, metric, mode):
                if metric is None:
                    metric, mode = choose_metric(counted, policy)
                mode = mode_of(metric, mode)
                best_first = ranked(counted, metric, mode)
                if not best_first:
                    raise _no_values(metric, counted)
                better = "lower" if mode == "min" else "higher"
                notes.append(f"best by {metric}: {better} is better")
                keep(best_first[:count], f"best {count} by {metric}")
            case KeepNames():
                pass
    if rules:
        keep((c for c in counted if c.step is None), "its step is unknown")
    return kept


def _no_values(metric: str, counted: Sequence[Checkpoint]) -> UnsafePruneError:
    known = metric_names(counted)
    msg = f"No complete checkpoint has a finite value of {metric}, so none can be the best."
    if known:
        msg += f" There are: {', '.join(known)}."
    return UnsafePruneError(msg, candidates=known)


def keep_always(
    group: Sequence[Checkpoint],
    kept: dict[int, list[str]],
    named: set[str],
    protected: Mapping[str, str],
) -> None:
    """Add to `kept` what stays whatever the rules say, and what was named."""
    newest = newest_resumable(group)
    if newest is not None:
        kept.setdefault(id(newest), []).insert(0, NEWEST)
    else:
        newest = newest_complete(group)
        if newest is not None:
            kept.setdefault(id(newest), []).insert(0, NEWEST_COMPLETE)
    for c in group:
        if c.name in named:
            kept.setdefault(id(c), []).append("named")
        if c.staged:
            continue
        if c.name in protected:
            kept.setdefault(id(c), []).append(protected[c.name])
        if c.aliases:
            links = " and ".join(f"'{a}'" for a in c.aliases)
            point = f"links {links} point" if len(c.aliases) > 1 else f"link {links} points"
            kept.setdefault(id(c), []).append(f"{point} here")
        if c.pin is not None:
            kept.setdefault(id(c), []).append(f"pin: {c.note}" if c.note else "pinned")


def keep_healthy(
    group: Sequence[Checkpoint], kept: dict[int, list[str]], warnings: list[str]
) -> None:
    """Where the newest one holds NaN, the newest one before it that does not stays as well.

    It stays whether or not a rule keeps an older healthy one: otherwise a further rule, by keeping
    such a one, would make this one go.
    """
    usable = [c for c in group if counts(c)]
    usable = [c for c in usable if c.resumable] or usable
    newest = max(usable, key=age, default=None)
    if newest is None or not newest.nonfinite:
        return
    kind = NEWEST if newest.resumable else NEWEST_COMPLETE
    warnings.append(f"The {kind} checkpoint, {newest.name}, holds NaN or infinity.")
    healthy = [c for c in usable if not c.nonfinite]
    if not healthy:
        return
    last = max(healthy, key=age)
    if not any(id(c) in kept for c in healthy):
        warnings.append(
            f"The rules would remove every checkpoint with finite weights; {last.name} is kept."
        )
    kept.setdefault(id(last), []).append(HEALTHY)
