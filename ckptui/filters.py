"""The filter language: `step>=2000 state:ok`, shared by `ls --filter` and the browser.

Terms beside each other must all hold, `|` separates alternatives, `!` before a term turns it
around. A term is a word that the name must hold, or a field, a sign and a value:

- `step epoch size age created` and every metric compare as numbers: `: = != < <= > >=`. A size
  takes a unit (`10G`, `1.5GiB`), an age a duration (`age>2h`), `created` a day or a time in UTC.
- `note kept run name` are texts: `:` asks whether the text holds the value, `=` and `!=` whether it
  is the value. Upper and lower case are one.
- `state` is one of the states; `pin` is yes or no.
- `has:FIELD` asks whether there is a value, `nan:METRIC` whether it was logged and is not finite.

A comparison with something that is missing or not finite never holds, `!=` included. Quotes hold a
value together (`note:'LR drop'`); a word in quotes is always a part of a name, and a field in
quotes (`"size">1`) always a metric. Comparing is compiled once; a test of a row parses nothing.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import inf, isnan
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from ckptui.checkpoint import State
from ckptui.errors import CkptuiError, FilterError
from ckptui.fields import (
    FIELDS,
    NUMBERS,
    PRESENT,
    TEXT_OF,
    Facts,
    Number,
    Test,
    Text,
    number_of,
    reasons_of,
)
from ckptui.printable import visible
from ckptui.rules import parse_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

SIGNS: Final = (":", "=", "!=", "<", "<=", ">", ">=")

_SIGN = re.compile(r"<=|>=|!=|==|<|>|=|:")
_SIZE = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)([kmgtpe]?)(i?)b?", re.IGNORECASE | re.ASCII)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5, "e": 6}
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    ":": operator.eq,
    "!=": operator.ne,
}
_WITHIN: dict[str, Callable[[datetime, datetime, datetime], bool]] = {
    "<": lambda when, begin, _: when < begin,
    "<=": lambda when, _, end: when < end,
    ">": lambda when, _, end: when >= end,
    ">=": lambda when, begin, _: when >= begin,
    "=": lambda when, begin, end: begin <= when < end,
    ":": lambda when, begin, end: begin <= when < end,
    "!=": lambda when, begin, end: not begin <= when < end,
}
_YES = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
_EXAMPLES = {
    "age": "age>2h",
    "size": "size>10G",
    "created": "created>=2026-01-31",
    "epoch": "epoch>=1",
    "step": "step>=1000",
}


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter, ready to be asked about any number of checkpoints."""

    text: str
    test: Test
    metrics: tuple[str, ...] = ()
    """The metrics that it asks about."""
    timed: bool = False
    """Whether it asks about ages, so that its answers change as time goes by."""


def parse_filter(text: str) -> Filter:
    """The filter that a text means; an empty one lets everything through.

    Raises:
        FilterError: It means none; the message names the part and its column.
    """
    parser = _Parser(text)
    test = parser.parse()
    return Filter(text, test, tuple(parser.metrics), parser.timed)


class _Word(NamedTuple):
    """A piece of a term: text, where it stands, and whether it was quoted."""

    text: str
    at: int
    quoted: bool


class _Parser:
    """Walks once over the text of a filter."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.metrics: dict[str, None] = {}
        self.timed = False
        self._at = 0

    def parse(self) -> Test:
        alternatives: list[list[Test]] = [[]]
        bars: list[int] = []
        while self._skip_space():
            if self._here() == "|":
                bars.append(self._at)
                self._at += 1
                alternatives.append([])
            else:
                alternatives[-1].append(self._term())
        for number, bar in enumerate(bars):
            if not alternatives[number] or not alternatives[number + 1]:
                self._fail("|", bar, "needs a term on both sides")
        return _any([_all(terms) for terms in alternatives])

    def _here(self) -> str:
        return self.text[self._at : self._at + 1]

    def _skip_space(self) -> bool:
        while self._here().isspace():
            self._at += 1
        return bool(self._here())

    def _term(self) -> Test:
        start, turned = self._at, False
        while self._here() == "!":
            turned = not turned
            self._at += 1
        if not self._here() or self._here().isspace() or self._here() == "|":
            self._fail("!", start, "stands directly before what it turns around, as in !state:ok")
        if self._here() == "(":
            at = self._at
            what = "parentheses do not group; write a b | a c, or quote it to look for it in names"
            self._fail("(", at, what)
        test = self._one_term()
        if not turned:
            return test
        return lambda it: not test(it)

    def _one_term(self) -> Test:
        start = self._at
        field = self._word(stop_at_sign=True)
        sign = _SIGN.match(self.text, self._at)
        if sign is None:
            return _name_holds(field.text)
        self._at = sign.end()
        value = self._word(stop_at_sign=False)
        term = self.text[start : self._at]
        if not field.text:
            self._fail(term, start, "names no field before the sign, as step in step>1000")
        if not value.text and not value.quoted:
            self._fail(term, value.at, "has nothing to compare with")
        mark = "=" if sign[0] == "==" else sign[0]
        return self._comparison(field, mark, value, term)

    def _word(self, *, stop_at_sign: bool) -> _Word:
        """Text up to a space, a bar or, for a field, a sign; or what stands between two quotes."""
        start, quote = self._at, self._here()
        if quote in ("'", '"'):
            end = self.text.find(quote, start + 1)
            if end < 0:
                self._fail(self.text[start:], start, "the quote is not closed")
            self._at = end + 1
            after = self._here()
            if after and not after.isspace() and after != "|":
                sign = _SIGN.match(self.text, self._at) if stop_at_sign else None
                if sign is None:
                    self._fail(
                        self.text[start : self._at + 1], self._at, "a space is due after the quote"
                    )
            return _Word(self.text[start + 1 : end], start, quoted=True)
        while char := self._here():
            if char.isspace() or char == "|":
                break
            if stop_at_sign and _SIGN.match(self.text, self._at):
                break
            self._at += 1
        return _Word(self.text[start : self._at], start, quoted=False)

    def _comparison(self, field: _Word, sign: str, value: _Word, term: str) -> Test:
        name = field.text
        if field.quoted or name not in FIELDS:
            wanted = self._plain_number(name, value, term)
            self.metrics[name] = None
            return _compares(number_of(name, metric=True), _COMPARE[sign], wanted)
        if name == "created":
            return self._created(sign, value, term)
        if name in NUMBERS:
            self.timed = self.timed or name == "age"
            return _compares(number_of(name), _COMPARE[sign], self._number(name, value, term))
        if sign not in (":", "=", "!="):
            self._fail(term, field.at, f"{name} is a word, so only : or = or != fit")
        if name in ("has", "nan"):
            if sign == "!=":
                self._fail(term, field.at, f"write !{name}:{value.text} to turn it around")
            return self._has(value) if name == "has" else self._not_finite(value, term)
        if name == "state":
            return self._state(sign, value, term)
        if name == "pin":
            wanted_pin = _YES.get(value.text.casefold())
            if wanted_pin is None:
                self._fail(term, value.at, "pin is yes or no; note:WORD looks into its note")
            if sign == "!=":
                wanted_pin = not wanted_pin
            return lambda it: (it.checkpoint.pin is not None) is wanted_pin
        if name == "kept":
            return _kept_test(sign, value.text.casefold())
        return _text_test(TEXT_OF[name], sign, value.text.casefold())

    def _state(self, sign: str, value: _Word, term: str) -> Test:
        try:
            wanted = State(value.text.casefold())
        except ValueError:
            known = [str(s) for s in State]
            near = _nearest(value.text.casefold(), known)
            hint = f"did you mean {near}" if near else f"there are {', '.join(known)}"
            self._fail(term, value.at, f"{value.text} is no state; {hint}")
        if sign == "!=":
            return lambda it: it.checkpoint.state is not wanted
        return lambda it: it.checkpoint.state is wanted

    def _has(self, value: _Word) -> Test:
        name = value.text
        if not value.quoted and name in PRESENT:
            there = PRESENT[name]
            return lambda it: there(it)
        self.metrics[name] = None
        return lambda it: it.at(it.checkpoint, name)[0]

    def _not_finite(self, value: _Word, term: str) -> Test:
        name = value.text
        if not value.quoted and name in FIELDS:
            self._fail(term, value.at, f"{name} is no metric, so it is never NaN")
        self.metrics[name] = None

        def test(it: Facts) -> bool:
            there, number = it.at(it.checkpoint, name)
            return there and (number is None or not -inf < number < inf)

        return test

    def _number(self, field: str, value: _Word, term: str) -> float:
        text = value.text
        if field == "age":
            try:
                return parse_duration(text).total_seconds()
            except CkptuiError:
                self._no_number(field, value, term)
        if field == "size":
            found = _SIZE.fullmatch(text)
            if found is None:
                self._no_number(field, value, term)
            base = 1024 if found[3] else 1000
            return float(found[1]) * float(base ** _POWERS[found[2].lower()])
        return self._plain_number(field, value, term)

    def _plain_number(self, field: str, value: _Word, term: str) -> float:
        try:
            number = float(value.text)
        except ValueError:
            self._no_number(field, value, term)
        if isnan(number):
            self._fail(term, value.at, f"NaN matches no comparison; write nan:{field}")
        # A step beyond 2**53 is told from its neighbours only as a whole number.
        return int(value.text) if value.text.isdigit() and len(value.text) < 20 else number

    def _created(self, sign: str, value: _Word, term: str) -> Test:
        try:
            begin = datetime.fromisoformat(value.text)
            begin = begin.replace(tzinfo=UTC) if begin.tzinfo is None else begin
            day = len(value.text) <= len("2026-01-31")
            end = begin + (timedelta(days=1) if day else timedelta(microseconds=1))
            begin, end = begin.astimezone(UTC), end.astimezone(UTC)
        except (ValueError, OverflowError):
            self._no_number("created", value, term)
        holds = _WITHIN[sign]

        def test(it: Facts) -> bool:
            when = it.checkpoint.created
            return when is not None and holds(when, begin, end)

        return test

    def _no_number(self, field: str, value: _Word, term: str) -> NoReturn:
        example = _EXAMPLES.get(field, f"{field}<0.5")
        kind = {"age": "duration", "size": "size", "created": "day or time"}.get(field, "number")
        what = f"{value.text} is no {kind}; write it as in {example}"
        if field not in NUMBERS:
            near = _nearest(field, FIELDS)
            what += f", or did you mean {near}" if near else ""
        self._fail(term, value.at, what)

    def _fail(self, part: str, at: int, what: str) -> NoReturn:
        msg = f"{visible(part)} in the filter, column {at + 1}: {visible(what)}."
        raise FilterError(msg, part=part, column=at + 1)


def _nearest(word: str, known: Sequence[str]) -> str | None:
    from difflib import get_close_matches  # noqa: PLC0415 - only for a mistake

    return next(iter(get_close_matches(word, known, n=1)), None)


def _all(tests: Sequence[Test]) -> Test:
    if len(tests) == 1:
        return tests[0]

    def test(it: Facts) -> bool:
        for one in tests:  # noqa: SIM110 - a generator would cost more than what it asks
            if not one(it):
                return False
        return True

    return test


def _any(tests: Sequence[Test]) -> Test:
    if len(tests) == 1:
        return tests[0]

    def test(it: Facts) -> bool:
        for one in tests:  # noqa: SIM110 - as above
            if one(it):
                return True
        return False

    return test


def _name_holds(word: str) -> Test:
    wanted = word.casefold()
    return lambda it: wanted in it.checkpoint.name.casefold()


def _compares(value: Number, compare: Callable[[Any, Any], bool], wanted: float) -> Test:
    def test(it: Facts) -> bool:
        have = value(it)
        return have is not None and -inf < have < inf and compare(have, wanted)

    return test


def _text_test(text_of: Text, sign: str, wanted: str) -> Test:
    def test(it: Facts) -> bool:
        text = text_of(it)
        if text is None:
            return False
        text = text.casefold()
        return wanted in text if sign == ":" else (text == wanted) is (sign == "=")

    return test


def _kept_test(sign: str, wanted: str) -> Test:
    def test(it: Facts) -> bool:
        reasons = reasons_of(it)
        if sign == ":":
            return any(wanted in reason.casefold() for reason in reasons)
        is_one = any(wanted == reason.casefold() for reason in reasons)
        return is_one if sign == "=" else bool(reasons) and not is_one

    return test
