"""The filter line: `step>=2000 state:ok`, words that names must hold, and what they combine to.

Terms beside each other must all hold, `|` separates alternatives, `!` before a term turns it
around. A comparison with a missing or non-finite value never holds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ckptui.errors import CkptuiError, UsageError
from ckptui.retention import parse_duration

if TYPE_CHECKING:
    from datetime import datetime

    from ckptui.tui.series import Series
    from ckptui.tui.snapshot import Row


@dataclass(frozen=True, slots=True)
class Context:
    """What a filter looks at besides the row."""

    series: Series
    now: datetime


Test = Callable[["Row", Context], bool]

_TERM = re.compile(r"([^<>=!:]+)(<=|>=|!=|<|>|=|:)(.*)", re.DOTALL)
_SIZE = re.compile(r"([0-9.]+)([kmgtp]?)i?b?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_WORDS = {"state", "note", "kept", "run", "name", "has", "pin"}
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "=": lambda a, b: a == b,
    ":": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}


def parse_filter(text: str) -> Test:
    """A test for rows.

    Raises:
        UsageError: The text is no filter; the message says which part.
    """
    alternatives: list[list[Test]] = [[]]
    for term in text.split():
        if term == "|":
            alternatives.append([])
        else:
            alternatives[-1].append(_term(term))
    if len(alternatives) > 1 and not all(alternatives):
        msg = "A | needs a term on both sides."
        raise UsageError(msg)
    return lambda row, context: any(
        all(test(row, context) for test in terms) for terms in alternatives
    )


def _term(term: str) -> Test:
    if term.startswith("!") and len(term) > 1:
        inner = _term(term[1:])
        return lambda row, context: not inner(row, context)
    found = _TERM.fullmatch(term)
    if found is None:
        word = term.casefold()
        return lambda row, _: word in row.checkpoint.name.casefold()
    field, sign, value = found[1], found[2], found[3]
    if not value:
        msg = f"{term} has nothing to compare with."
        raise UsageError(msg)
    if field in _WORDS:
        return _word_test(field, sign, value, term)
    wanted = _number(field, value, term)
    compare = _COMPARE[sign]

    def test(row: Row, context: Context) -> bool:
        have = _value(field, row, context)
        return have is not None and math.isfinite(have) and compare(have, wanted)

    return test


def _word_test(field: str, sign: str, value: str, term: str) -> Test:
    if sign not in {":", "=", "!="}:
        msg = f"{term}: {field} is a word, so only : or = or != fit."
        raise UsageError(msg)
    wanted = value.casefold()

    def holds(row: Row, context: Context) -> bool:
        c = row.checkpoint
        match field:
            case "state":
                return c.state.value == wanted
            case "note":
                return wanted in c.note.casefold()
            case "kept":
                return any(wanted in reason.casefold() for reason in row.standing.kept_by or ())
            case "run":
                return wanted in row.run.name.casefold()
            case "has":
                return context.series.at(c, value)[0]
            case "pin":
                return c.pinned == (wanted in {"yes", "true", "1"})
            case _:
                return c.name.casefold() == wanted

    return (lambda row, context: not holds(row, context)) if sign == "!=" else holds


def _value(field: str, row: Row, context: Context) -> float | None:
    c = row.checkpoint
    match field:
        case "step":
            return c.step
        case "epoch":
            return c.epoch
        case "size":
            return c.size
        case "age":
            return (context.now - c.created).total_seconds() if c.created else None
        case _:
            return context.series.at(c, field)[1]


def _number(field: str, value: str, term: str) -> float:
    try:
        if field == "age":
            return parse_duration(value).total_seconds()
        if field == "size":
            found = _SIZE.fullmatch(value)
            if found is not None:
                return float(found[1]) * 1000.0 ** _POWERS[found[2].lower()]
        return float(value)
    except (ValueError, CkptuiError):
        pass
    example = {"age": "age>2h", "size": "size>10G"}.get(field, f"{field}>1")
    msg = f"{term}: {value} is no number; write it as in {example}."
    raise UsageError(msg)
