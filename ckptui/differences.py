"""What differs between two checkpoints, or between two runs.

Reading (`checkpoint_side`, `run_side`) and comparing (`compare`) are apart: comparing takes values
and returns values, so it says the same of sides that were read at any time, from anywhere.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from ckptui import schema
from ckptui.contents import (
    Config,
    FoundTensor,
    Tensors,
    Value,
    config_of,
    files_of,
    read_config,
    read_tensors,
)
from ckptui.errors import UsageError
from ckptui.ranking import counts, newest_resumable
from ckptui.rules import KeepBest, Mode, direction, parse_rule

if TYPE_CHECKING:
    from pathlib import Path

    from ckptui.checkpoint import Checkpoint, FileEntry, Run

T = TypeVar("T")


class Kind(StrEnum):
    """How a thing of one side stands to that of the other."""

    SAME = "same"
    CHANGED = "changed"
    REMOVED = "removed"
    """Only the first side has it."""
    ADDED = "added"
    """Only the second side has it."""
    UNKNOWN = "unknown"
    """Both have it and nothing tells them apart, but their content was not compared."""


Point = tuple[int, float | None]
"""An optimizer step and a metric's value there."""

METRICS_IN_DOUBT = "its metrics are not known, since nothing tells which attempt saved it"
DIFFERENT = frozenset({Kind.CHANGED, Kind.REMOVED, Kind.ADDED})


class Measured(NamedTuple):
    """A metric's value, and the optimizer step it belongs to."""

    value: float | None
    """None was logged and is not finite."""
    step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference(Generic[T]):
    """One thing on both sides."""

    key: str
    a: T | None
    """None where the first side lacks it, and where it is null there: `kind` tells them apart."""
    b: T | None
    kind: Kind
    which: str = ""
    """Which of several values of that name: for the metrics of runs `best` or `last`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two things that are compared, as it was read."""

    what: str
    """`checkpoint` or `run`."""
    name: str
    path: Path
    facts: Mapping[str, Value] = field(default_factory=dict)
    config: Config
    metrics: Mapping[tuple[str, str], Measured] = field(default_factory=dict)
    """By name and by which of its values: an empty text, `best` or `last`."""
    measured: bool = True
    """False where it may have metrics and nothing tells which."""
    directions: Mapping[str, Mode] = field(default_factory=dict)
    """Whether low or high is better, for the metrics of which it is known."""
    files: tuple[FileEntry, ...] = ()
    tensors: Tensors = field(default_factory=Tensors)
    problems: tuple[str, ...] = ()
    """What could not be read besides the settings, in sentences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Everything on both sides, what is the same included."""

    a: Side
    b: Side
    facts: tuple[Difference[Value], ...]
    config: tuple[Difference[Value], ...]
    metrics: tuple[Difference[Measured], ...]
    files: tuple[Difference[FileEntry], ...]
    tensors: tuple[Difference[FoundTensor], ...]

    @property
    def problems(self) -> tuple[str, ...]:
        """What could not be compared, in sentences; settings that neither side has are none."""
        a, b = self.a, self.b
        neither = a.config.missing and b.config.missing
        unread = [c.problem for c in (a.config, b.config) if c.problem is not None]
        return (*(() if neither else unread), *a.problems, *b.problems)

    @property
    def differs(self) -> bool:
        """Whether anything differs, or could not be compared."""
        if self.problems or any(f.kind is Kind.UNKNOWN for f in self.files):
            return True
        parts = (self.facts, self.config, self.metrics, self.files, self.tensors)
        return any(d.kind in DIFFERENT for part in parts for d in part)


def compare(a: Side, b: Side) -> Comparison:
    """What differs between two sides, in the order of the first, what only the second has last."""
    digests_a = {f.name: f.digest for f in a.files}
    digests_b = {f.name: f.digest for f in b.files}

    def tensor_kind(one: FoundTensor, other: FoundTensor) -> Kind:
        if (one.dtype, one.shape) != (other.dtype, other.shape):
            return Kind.CHANGED
        digest = digests_a.get(one.file)
        same = digest is not None and digest == digests_b.get(other.file)
        return Kind.SAME if same else Kind.UNKNOWN

    return Comparison(
        a=a,
        b=b,
        facts=compare_values(a.facts, b.facts),
        # Settings that one side lacks as a whole are told once, not one by one.
        config=()
        if a.config.values is None or b.config.values is None
        else compare_values(a.config.values, b.config.values),
        # As with settings: what is not known of one side is not lacking there.
        metrics=_metrics(a.metrics, b.metrics) if a.measured and b.measured else (),
        files=_pairs({f.name: f for f in a.files}, {f.name: f for f in b.files}, _file_kind),
        # Nor can those be told apart of which one side is in a form that is not read.
        tensors=()
        if a.tensors.all_unread or b.tensors.all_unread
        else _pairs(
            {t.name: t for t in a.tensors.tensors},
            {t.name: t for t in b.tensors.tensors},
            tensor_kind,
        ),
    )


def compare_values(a: Mapping[str, Value], b: Mapping[str, Value]) -> tuple[Difference[Value], ...]:
    """Settings or facts by name: same, changed, only here, only there."""
    return _pairs(a, b, lambda x, y: Kind.SAME if _equal(x, y) else Kind.CHANGED)


def _equal(x: Value, y: Value) -> bool:
    # True == 1 in Python, but not for who reads the file.
    return x == y and isinstance(x, bool) == isinstance(y, bool)


def _file_kind(x: FileEntry, y: FileEntry) -> Kind:
    if x.size != y.size:
        return Kind.CHANGED
    # Digests of two kinds cannot be compared.
    if not x.digest or not y.digest or x.digest.split(":")[0] != y.digest.split(":")[0]:
        return Kind.UNKNOWN
    return Kind.SAME if x.digest == y.digest else Kind.CHANGED


def _pairs(
    a: Mapping[str, T], b: Mapping[str, T], kind: Callable[[T, T], Kind]
) -> tuple[Difference[T], ...]:
    found: list[Difference[T]] = []
    for key, x in a.items():
        if key in b:
            found.append(Difference(key=key, a=x, b=b[key], kind=kind(x, b[key])))
        else:
            found.append(Difference(key=key, a=x, b=None, kind=Kind.REMOVED))
    found += [
        Difference(key=key, a=None, b=y, kind=Kind.ADDED) for key, y in b.items() if key not in a
    ]
    return tuple(found)


def _metrics(
    a: Mapping[tuple[str, str], Measured], b: Mapping[tuple[str, str], Measured]
) -> tuple[Difference[Measured], ...]:
    found = []
    for name, which in dict.fromkeys([*a, *b]):
        x, y = a.get((name, which)), b.get((name, which))
        if x is None or y is None:
            kind = Kind.ADDED if x is None else Kind.REMOVED
        else:
            kind = Kind.SAME if x.value == y.value else Kind.CHANGED
        found.append(Difference(key=name, a=x, b=y, kind=kind, which=which))
    return tuple(found)


def change(difference: Difference[Measured]) -> float | None:
    """By how much the second value is above the first; None where that cannot be told."""
    x = difference.a.value if difference.a else None
    y = difference.b.value if difference.b else None
    if x is None or y is None or not math.isfinite(y - x):
        return None
    return y - x


# Reading


def checkpoint_side(
    checkpoint: Checkpoint,
    run: Run,
    *,
    logged: Mapping[str, float | None] | None = None,
    in_doubt: bool = False,
    known: dict[str, tuple[FoundTensor, ...]] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Side:
    """A checkpoint, read for comparing.

    Args:
        checkpoint: What is read.
        run: Its run; the policy may tell which direction of a metric is better.
        logged: What the log says at exactly its step and attempt; its marker wins.
        in_doubt: The log has values at its step, but nothing tells which attempt saved it.
        known: As for `ckptui.contents.read_tensors`; one for both sides saves reading twice.
        cancelled: Whether to stop soon.
    """
    c = checkpoint
    config = config_of(c)
    # No marker lists itself, so where none can be read it is no file that only this side has.
    files = tuple(f for f in files_of(c) if f.name != schema.MARKER)
    tensors = read_tensors(c.path, files, known=known, cancelled=cancelled)
    values = {**(logged or {}), **c.metrics}
    return Side(
        what="checkpoint",
        name=c.name,
        path=c.path,
        facts={
            "step": c.step,
            "epoch": c.epoch,
            "attempt": c.attempt,
            "state": str(c.state),
            "resumable": c.resumable,
            "holds": list(c.contains),
        },
        config=config,
        metrics={(name, ""): Measured(values[name], c.step) for name in sorted(values)},
        directions=directions(run, values),
        files=files,
        tensors=tensors,
        measured=not in_doubt,
        problems=(*tensors.problems, *((f"{c.name}: {METRICS_IN_DOUBT}.",) if in_doubt else ())),
    )


def run_side(run: Run, curves: Mapping[str, Sequence[Point]]) -> Side:
    """A run, read for comparing: its settings, the best and last values of its metrics, numbers.

    Args:
        run: What is read.
        curves: The log's present history by metric, each ascending by step; the checkpoints' own
            values win over it.
    """
    config = read_config(run.path / schema.CONFIG_FILE)
    own: dict[str, dict[int, float | None]] = {}
    for c in run.checkpoints:
        if c.current and c.step is not None:
            for name, value in c.metrics.items():
                own.setdefault(name, {})[c.step] = value
    names = dict.fromkeys(name for name in (*curves, *own) if curves.get(name) or name in own)
    known = directions(run, names)
    metrics: dict[tuple[str, str], Measured] = {}
    steps = [c.step for c in run.checkpoints if c.step is not None]
    for name in sorted(names, key=lambda n: (n not in known, n)):
        logged, carried = curves.get(name, ()), own.get(name, {})
        if name in known:
            points = chain((p for p in logged if p[0] not in carried), carried.items())
            best = best_of(points, known[name])
            if best is not None:
                metrics[name, "best"] = best
        step, value = max([*logged[-1:], *carried.items()], key=lambda p: (p[0], p[0] in carried))
        metrics[name, "last"] = Measured(carried.get(step, value), step)
        steps.append(step)
    newest = newest_resumable(run.checkpoints)
    return Side(
        what="run",
        name=run.name,
        path=run.path,
        facts={
            "last_step": max(steps, default=None),
            "attempts": len(run.attempts),
            "checkpoints": len(run.checkpoints),
            "complete": sum(1 for c in run.checkpoints if counts(c)),
            "resumes_from": newest.name if newest is not None else None,
            "size": run.size,
            "in_training": run.live,
            "policy": None if run.policy is None else list(run.policy),
            "recipe": run.recipe,
        },
        config=config,
        metrics=metrics,
        directions=known,
        problems=tuple(p.what for p in run.problems),
    )


def best_of(points: Iterable[Point], mode: Mode) -> Measured | None:
    """The best finite value, of equal ones the later; None where none is finite."""
    sign = -1 if mode == "max" else 1
    known = ((sign * value, -step, value) for step, value in points if value is not None)
    best = min(known, default=None)
    return Measured(best[2], -best[1]) if best is not None else None


def directions(run: Run, names: Mapping[str, object]) -> dict[str, Mode]:
    """Whether low or high is better: by the run's own policy, else by the metric's name."""
    stated: dict[str, Mode] = {}
    for text in run.policy or ():
        with contextlib.suppress(UsageError):  # a rule of a newer version says nothing to us
            rule = parse_rule(text)
            if isinstance(rule, KeepBest) and rule.metric is not None and rule.mode is not None:
                stated[rule.metric] = rule.mode
    found = {name: stated.get(name) or direction(name) for name in names}
    return {name: mode for name, mode in found.items() if mode is not None}
