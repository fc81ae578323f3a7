"""Retention rules: their records, the words they are written in, and what is known of metrics.

A rule's text is what `run.json` and JSON carry: the command line's option without its dashes,
`keep-last 3`, `keep-best 1:eval_loss:min`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from ckptui.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

Mode = Literal["min", "max"]

DIRECTIONS: Mapping[str, Mode] = {
    **dict.fromkeys(
        ("loss", "perplexity", "ppl", "error", "wer", "cer", "mae", "mse", "rmse"), "min"
    ),
    **dict.fromkeys(
        ("accuracy", "acc", "f1", "bleu", "rouge", "auc", "precision", "recall", "score", "reward"),
        "max",
    ),
}
"""Whether low or high is better, by the last word of a metric's name."""

_NOT_QUALITY = (
    ("lr",),
    ("learning", "rate"),
    ("grad", "norm"),
    ("per", "second"),
    ("throughput",),
    ("memory",),
)
"""Last words of metrics for which no checkpoint is ever called the best."""

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_DURATION = re.compile(r"([0-9]{1,9})([smhdw])", re.ASCII)
_BETWEEN_WORDS = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class KeepLast:
    """Keep the `count` newest checkpoints."""

    count: int

    def __post_init__(self) -> None:
        _at_least_one(self.count, "keep-last")

    def __str__(self) -> str:
        return f"keep-last {self.count}"


@dataclass(frozen=True, slots=True)
class KeepEvery:
    """Keep checkpoints whose step is divisible by `steps`; step 0 is."""

    steps: int
    """Optimizer steps."""

    def __post_init__(self) -> None:
        _at_least_one(self.steps, "keep-every")

    def __str__(self) -> str:
        return f"keep-every {self.steps}"


@dataclass(frozen=True, slots=True)
class KeepBest:
    """Keep the `count` best checkpoints by a metric."""

    count: int
    metric: str | None = None
    """None: the metric of the run's own policy, else `eval_loss`."""
    mode: Mode | None = None
    """None: by the stated rule for known names."""

    def __post_init__(self) -> None:
        _at_least_one(self.count, "keep-best")

    def __str__(self) -> str:
        parts = [str(self.count), self.metric, self.mode]
        return "keep-best " + ":".join(p for p in parts if p is not None)


@dataclass(frozen=True, slots=True)
class KeepWithin:
    """Keep checkpoints saved within a period before now."""

    period: timedelta
    text: str
    """As it was written: `7d`."""

    def __post_init__(self) -> None:
        if self.period <= timedelta(0):
            msg = f"keep-within takes a period of at least 1, not {self.text}."
            raise UsageError(msg)

    def __str__(self) -> str:
        return f"keep-within {self.text}"


@dataclass(frozen=True, slots=True)
class KeepNames:
    """Keep the named checkpoints; a protection beside rules, not a rule by itself."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"keep {','.join(self.names)}"


Rule = KeepLast | KeepEvery | KeepBest | KeepWithin | KeepNames


def parse_rule(text: str) -> Rule:
    """The rule that a policy's text means.

    Raises:
        UsageError: It means none.
    """
    word, _, value = text.strip().partition(" ")
    value = value.strip()
    if word in ("keep-last", "keep-every"):
        count = parse_count(value, word)
        return KeepLast(count) if word == "keep-last" else KeepEvery(count)
    if word == "keep-best":
        return parse_best(value)
    if word == "keep-within":
        return KeepWithin(parse_duration(value), value)
    if word == "keep" and value:
        return KeepNames(tuple(value.split(",")))
    msg = (
        f"{text!r} is no retention rule; write keep-last N, keep-every K, "
        "keep-best N:METRIC or keep-within 7d."
    )
    raise UsageError(msg)


def parse_count(text: str, rule: str) -> int:
    """The count of a rule.

    Raises:
        UsageError: It is no positive whole number.
    """
    number, colon, rest = text.partition(":")
    if colon and rest == "weights":
        msg = f"{rule} {text}: keeping only the weights is not supported yet; give a plain number."
        raise UsageError(msg)
    if not (text.isascii() and text.isdigit()) or len(number) > 18:
        msg = f"{rule} takes a whole number of at least 1, not {text!r}."
        raise UsageError(msg)
    count = int(text)
    _at_least_one(count, rule)
    return count


def parse_best(text: str) -> KeepBest:
    """The rule in `N[:METRIC[:min|:max]]`; cut at the first colon, a trailing direction is one.

    Raises:
        UsageError: It is malformed.
    """
    number, colon, rest = text.partition(":")
    count = parse_count(number, "keep-best")
    if colon and (not rest or rest.startswith(":")):
        msg = f"keep-best {text!r} names no metric after the colon."
        raise UsageError(msg)
    metric, _, end = rest.rpartition(":")
    if metric and (end == "min" or end == "max"):
        return KeepBest(count, metric, "min" if end == "min" else "max")
    return KeepBest(count, rest or None)


def parse_duration(text: str) -> timedelta:
    """A period such as `90s`, `30m`, `12h`, `7d` or `2w`.

    Raises:
        UsageError: It is malformed.
    """
    found = _DURATION.fullmatch(text)
    if found is None:
        msg = f"{text!r} is no duration; write a whole number with s, m, h, d or w, such as 7d."
        raise UsageError(msg)
    try:
        return timedelta(seconds=int(found[1]) * _SECONDS[found[2]])
    except OverflowError:
        msg = f"{text!r} is longer than any period can be."
        raise UsageError(msg) from None


def direction(metric: str) -> Mode | None:
    """Whether a low or a high value of a metric is better; None where its name does not tell."""
    words = metric_words(metric)
    return DIRECTIONS.get(words[-1]) if words else None


def metric_words(metric: str) -> list[str]:
    """The words of a metric's name in lower case: `val/Top1_acc` -> val, top1, acc."""
    return [w for w in _BETWEEN_WORDS.split(metric.lower()) if w]


def is_about_the_machine(metric: str) -> bool:
    """Whether a metric tells how training went, not how good the model is: there is no best."""
    words = tuple(metric_words(metric))
    return any(words[-len(end) :] == end for end in _NOT_QUALITY)


def _at_least_one(count: int, rule: str) -> None:
    if count < 1:
        msg = f"{rule} takes a whole number of at least 1, not {count}."
        raise UsageError(msg)
