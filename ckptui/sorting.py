"""The order of a list: by a field or a metric, what has no value last either way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

from ckptui import schema
from ckptui.checkpoint import State, order
from ckptui.errors import UsageError
from ckptui.fields import NUMBERS, TEXT_OF, TEXTS, Facts, is_metric, number_of, reasons_of

if TYPE_CHECKING:
    from collections.abc import Iterable

SORTS = (*NUMBERS, "state", "pin", *TEXTS)
"""What can be sorted by besides metrics."""

_Key = Callable[[Facts], Any]
"""What is compared; None where there is no value."""


@dataclass(frozen=True, slots=True)
class Sort:
    """An order: by a field or by a metric."""

    field: str
    metric: bool
    descending: bool = False


def parse_sort(text: str) -> Sort:
    """The order that `step`, `-size`, a metric's name or one in quotes means.

    Raises:
        UsageError: It means none.
    """
    word = text.removeprefix("-")
    name, metric = is_metric(word)
    if not name or (not metric and name not in SORTS):
        msg = f"{text!r} is nothing to sort by; give {', '.join(SORTS)} or a metric's name."
        raise UsageError(msg)
    return Sort(name, metric, descending=word != text)


def sort_facts(rows: Iterable[Facts], sort: Sort) -> list[Facts]:
    """Rows in an order; equals stand by step, those without a value come last either way."""
    key_of = _key(sort)
    rows = sorted(rows, key=lambda it: order(it.checkpoint), reverse=sort.descending)
    keyed = [(key_of(it), it) for it in rows]
    there = [pair for pair in keyed if pair[0] is not None]
    there.sort(key=lambda pair: pair[0], reverse=sort.descending)
    return [it for _, it in there] + [it for key, it in keyed if key is None]


def _key(sort: Sort) -> _Key:
    field = sort.field
    if sort.metric or field in NUMBERS:
        number = number_of(field, metric=sort.metric)

        def finite(it: Facts) -> float | None:
            value = number(it)
            return value if value is not None and -inf < value < inf else None

        return finite
    if field == "state":
        states = {state: place for place, state in enumerate(State)}
        return lambda it: states[it.checkpoint.state]
    if field == "pin":
        return lambda it: it.checkpoint.pin is None
    if field == "name":
        return _by_name
    if field == "kept":
        return lambda it: ", ".join(reasons_of(it)) or None
    return TEXT_OF[field]


def _by_name(it: Facts) -> tuple[str, int, str]:
    """By kind and number: `step_9` before `step_10`."""
    name = it.checkpoint.name
    parsed = schema.parse_name(name)
    return (parsed.kind, parsed.number, name) if parsed else (name, 0, name)
