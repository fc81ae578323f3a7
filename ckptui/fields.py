"""What can be asked of a checkpoint by a word: the fields of filters, of sorting and of columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from ckptui.checkpoint import Checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from ckptui.checkpoint import Run
    from ckptui.standing import Standing

Lookup = Callable[[Checkpoint, str], tuple[bool, float | None]]
"""Whether a checkpoint has a value of a metric, and which; None was logged and is not finite."""


class Facts(NamedTuple):
    """What a filter looks at. A tuple: a listing makes thousands."""

    checkpoint: Checkpoint
    standing: Standing
    run: Run
    at: Lookup
    now: datetime


Test = Callable[[Facts], bool]
Number = Callable[[Facts], float | None]
Text = Callable[[Facts], str | None]

NUMBERS: Final = ("step", "epoch", "size", "age", "created")
"""Fields that compare as numbers, as every metric does."""
TEXTS: Final = ("name", "run", "note", "kept")
"""Fields that hold text."""
FIELDS: Final = (*NUMBERS, "state", "pin", *TEXTS, "has", "nan")
"""Every word before a sign that is no metric."""


def own_metric(checkpoint: Checkpoint, name: str) -> tuple[bool, float | None]:
    """What a checkpoint's own marker says of a metric: the plainest lookup."""
    return name in checkpoint.metrics, checkpoint.metrics.get(name)


def no_such_metric(name: str, known: Iterable[str]) -> str:
    """What is said of a metric that no checkpoint has: a sentence, with what may be meant.

    Args:
        name: As it was typed.
        known: The metrics that there are.
    """
    from difflib import get_close_matches  # noqa: PLC0415 - only for what is likely a mistake

    near = get_close_matches(name, [*known, *FIELDS], n=1)
    hint = f"; did you mean {near[0]}?" if near else "."
    return f"No checkpoint has the metric {name}{hint}"


def is_metric(word: str) -> tuple[str, bool]:
    """The name that a word means, and whether it is a metric's: it is no field, or is quoted."""
    if len(word) > 2 and word[0] == word[-1] and word[0] in "'\"":
        return word[1:-1], True
    return word, word not in FIELDS


def number_of(field: str, *, metric: bool = False) -> Number:
    """The number that a field or a metric has for a checkpoint; None where it has none.

    `age` is in seconds, `created` in seconds since 1970, `size` in bytes.
    """
    if not metric:
        return _NUMBER_OF[field]
    return lambda it: it.at(it.checkpoint, field)[1]


def _age(it: Facts) -> float | None:
    created = it.checkpoint.created
    return (it.now - created).total_seconds() if created else None


def _created(it: Facts) -> float | None:
    created = it.checkpoint.created
    return created.timestamp() if created else None


_NUMBER_OF: dict[str, Number] = {
    "step": lambda it: it.checkpoint.step,
    "epoch": lambda it: it.checkpoint.epoch,
    "size": lambda it: it.checkpoint.size,
    "age": _age,
    "created": _created,
}
TEXT_OF: Mapping[str, Text] = {
    "name": lambda it: it.checkpoint.name,
    "run": lambda it: it.run.name,
    "note": lambda it: it.checkpoint.note or None,
}
"""The text of a field; None where it has none."""
PRESENT: Mapping[str, Test] = {
    "step": lambda it: it.checkpoint.step is not None,
    "epoch": lambda it: it.checkpoint.epoch is not None,
    "created": lambda it: it.checkpoint.created is not None,
    "age": lambda it: it.checkpoint.created is not None,
    "pin": lambda it: it.checkpoint.pin is not None,
    "note": lambda it: bool(it.checkpoint.note),
    "kept": lambda it: bool(reasons_of(it)),
    **dict.fromkeys(("size", "state", "name", "run"), lambda _: True),
}
"""Whether a field has a value."""


def reasons_of(it: Facts) -> Sequence[str]:
    """Why it stays, in the words of a listing; a pin keeps it also where there is no policy."""
    if it.standing.kept_by:
        return it.standing.kept_by
    pin = it.checkpoint.pin
    if pin is None:
        return ()
    return (f"pin: {pin.note}" if pin.note else "pinned",)
