"""Texts, tables and forms that both front ends show."""

from __future__ import annotations

import json
import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from ckptui.checkpoint import Pin, Problem, Run, State
from ckptui.display import age, number, plural, size, visible
from ckptui.display.columns import COLUMNS, parse_columns, run_table
from ckptui.display.rows import rows_of, standing_of
from ckptui.display.strict import strict_json
from ckptui.display.tables import chosen_metrics, flags, kept_text, run_heading, table
from ckptui.display.text import cells, encodable, is_plain
from ckptui.errors import UsageError
from ckptui.fields import Facts, own_metric
from ckptui.standing import Standing
from tests.records import NOW, RUN, many, one, run_of

any_text = st.text(st.characters(codec=None, exclude_categories=()))


@given(any_text)
def test_visible_text_is_printable_and_printable_text_stays(text: str) -> None:
    shown = visible(text)
    assert shown.isprintable()
    assert visible(shown) == shown
    if is_plain(text):
        assert shown == text
    else:
        assert shown != text
    assert is_plain(shown)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31m", "\\x1b[31m"),
        ("\x9b31m", "\\x9b31m"),
        ("a\nb\r\tc", "a\\nb\\r\\tc"),
        ("\x00\x7f", "\\x00\\x7f"),
        ("\u202eexe", "\\u202eexe"),
        ("\u2028\u2066\u200b", "\\u2028\\u2066\\u200b"),
        ("\udcff", "\\xff"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
        ("step_1 é 漢 \U0001f600", "step_1 é 漢 \U0001f600"),
        ("[red]{0}%s", "[red]{0}%s"),
    ],
)
def test_what_a_terminal_might_obey_is_spelled(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_bytes_of_a_name_are_spelled_for_json_and_the_rest_stays() -> None:
    assert encodable("a\udcff\udc9b\n\x1b") == "a\\xff\\x9b\n\x1b"
    assert encodable("\U0001f600é") == "\U0001f600é"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(any_text, inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(any_text, json_values, max_size=4), st.sampled_from([None, 2]))
def test_json_is_strict_whatever_is_in_it(form: dict[str, Any], indent: int | None) -> None:
    text = strict_json(form, indent=indent)
    assert text.isascii()
    found = json.loads(text, parse_constant=_refuse)
    json.dumps(found, ensure_ascii=False).encode()
    assert json.loads(strict_json(found)) == found


def _refuse(token: str) -> None:
    raise AssertionError(token)


def test_json_keeps_what_strict_json_can_hold() -> None:
    form = {"a": 1, "b": 0.1, "c": ["é", "\U0001f600", None, True], "d": {"e": (1, 2)}}
    assert json.loads(strict_json(form)) == {**form, "d": {"e": [1, 2]}}
    odd = {"a": math.nan, "b": [math.inf, "\udcff"], "c": "\U0001f600"}
    assert json.loads(strict_json(odd)) == {"a": None, "b": [None, "\\xff"], "c": "\U0001f600"}


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, "-"),
        (0, "0 B"),
        (1, "1 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (1234, "1.2 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1 MB"),
        (31_400_000_000, "31.4 GB"),
        (5 * 10**21, "5000 EB"),
    ],
)
def test_sizes(count: int | None, text: str) -> None:
    assert size(count) == text


@given(st.integers(0, 10**18))
def test_sizes_are_short_and_near(count: int) -> None:
    value, unit = size(count).split()
    factor = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "PB": 1e15, "EB": 1e18}[unit]
    assert len(value) <= 5
    assert abs(float(value) * factor - count) <= 0.0501 * factor


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 m"),
        (3599, "59 m"),
        (3600, "1 h"),
        (86400 * 2, "2 d"),
        (86400 * 400, "1 y"),
        (-30, "0 s"),
        (-3600, "future"),
    ],
)
def test_ages(seconds: int, text: str) -> None:
    assert age(NOW - timedelta(seconds=seconds), NOW) == text


def test_an_unknown_age_is_a_dash() -> None:
    assert age(None, NOW) == "-"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "nan"),
        (0.0, "0"),
        (1.5, "1.5"),
        (2.718281828, "2.718"),
        (1e-5, "1e-05"),
        (-1.23456e-5, "-1.2e-05"),
        (-1.23456e-300, "-1e-300"),
        (1234567, "1234567"),
        (12345678, "1.23e+07"),
    ],
)
def test_numbers(value: float | None, text: str) -> None:
    assert number(value) == text


@given(st.floats(-1e307, 1e307) | st.integers(-(10**299), 10**299))
def test_numbers_are_at_most_eight_characters_and_near(value: float) -> None:
    text = number(value)
    assert len(text) <= 8
    assert math.isclose(float(text), float(value), rel_tol=0.5, abs_tol=1e-323)


def test_plurals() -> None:
    assert [plural(n, "item") for n in (0, 1, 2)] == ["0 items", "1 item", "2 items"]


def test_a_table_is_as_wide_as_it_needs_and_shows_all() -> None:
    text = table(["name", "n"], [["a\x1b", "1"], ["bb", "100"]], right=[1])
    assert text.splitlines() == ["name     n", "a\\x1b    1", "bb     100"]


def test_metrics_worth_a_column_are_about_the_model() -> None:
    rows = many(1, metrics={"lr": 1.0, "grad_norm": 1.0, "odd": 1.0, "loss": 1.0, "eval_acc": 1.0})
    assert chosen_metrics(rows) == ["eval_acc", "loss", "odd"]


@pytest.mark.parametrize(
    ("fields", "letters"),
    [
        ({}, ""),
        ({"pin": Pin(name="step_1")}, "P"),
        ({"state": State.WRITING}, "~"),
        ({"state": State.BROKEN}, "!"),
        ({"nonfinite": ("w",)}, "!"),
        ({"current": False}, "-"),
    ],
)
def test_letters_tell_what_colour_would(fields: dict[str, Any], letters: str) -> None:
    assert flags(one(1, **fields), Standing()) == letters


def test_the_star_is_for_the_best_by_a_metric_that_is_shown() -> None:
    standing = Standing(best=("loss",))
    assert flags(one(1), standing) == "*"
    assert flags(one(1), standing, {"loss"}) == "*"
    assert flags(one(1), standing, {"eval_loss"}) == ""


def test_the_reason_it_stays_or_what_is_wrong() -> None:
    broken = one(1, state=State.BROKEN, problems=(Problem(path=RUN, what="model is missing"),))
    assert kept_text(broken, Standing(kept_by=("last 1",))) == "model is missing"
    assert kept_text(one(1), Standing(kept_by=("last 1", "every 2"))) == "last 1, every 2"
    assert kept_text(one(1, pin=Pin(name="step_1", note="dip")), Standing()) == "pin: dip"
    assert kept_text(one(1, pin=Pin(name="step_1")), Standing()) == "pinned"
    assert kept_text(one(1, current=False), Standing()) == "abandoned branch"
    assert kept_text(one(1, aliases=("best",)), Standing()) == "link best"
    assert kept_text(one(1), Standing(kept_by=())) == "-"


def test_some_checkpoints_stand_as_they_do_in_the_whole_run() -> None:
    whole = run_of(many(1, 2, 3))
    part = run_of(whole.checkpoints[:1])
    ((first, standing),) = rows_of(part, now=NOW, whole=whole)
    assert (first.step, standing.latest) == (1, False)
    assert rows_of(part, now=NOW)[0][1].latest is True
    assert standing_of(whole.checkpoints[2], whole, now=NOW).latest is True
    assert standing_of(one(9), whole, now=NOW) == Standing()


def facts_of(run: Run) -> list[Facts]:
    return [Facts(c, s, run, own_metric, NOW) for c, s in rows_of(run, now=NOW)]


def test_the_table_and_heading_of_a_run() -> None:
    run = run_of(
        many(9, 100, metrics={"loss": 0.5}, created=NOW - timedelta(hours=2)),
        policy=("keep-last 1",),
        trash_count=1,
        trash_size=5,
        ignored=("x",),
    )
    assert run_heading(run) == (
        "/run   2 checkpoints   200 B   trash 1 item, 5 B   policy keep-last 1   "
        "1 other name ignored"
    )
    assert run_table(facts_of(run)).splitlines() == [
        "   name      step  epoch  state  loss   size  age  kept by",
        "   step_9       9      -  ok      0.5  100 B  2 h  -",
        "*  step_100   100      -  ok      0.5  100 B  2 h  newest resumable, last 1",
    ]


@pytest.mark.parametrize("count", [1000])
def test_a_thousand_rows_are_aligned(count: int) -> None:
    run = run_of(many(*range(count)))
    lines = run_table(facts_of(run)).splitlines()
    assert len({line.index("ok") for line in lines[1:]}) == 1


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("step_1", 6),
        ("漢字", 4),
        ("é", 1),
        ("e\u0301", 1),
        ("\U0001f600", 2),
        ("\uff46", 2),
        ("", 0),
    ],
)
def test_cells_are_what_a_terminal_takes(text: str, width: int) -> None:
    assert cells(text) == width
    assert cell_len(text) == width


def test_wide_and_combining_characters_keep_a_table_straight() -> None:
    names = ["step_1", "漢字かな", "e\u0301e\u0301", "\U0001f600", "\uff46\uff55", "a\u200d\u202eb"]
    text = table(["name", "n", "x"], [[n, str(i), "|"] for i, n in enumerate(names)], right=[1])
    assert {cell_len(line.partition("|")[0]) for line in text.splitlines()[1:]} == {19}


@pytest.mark.parametrize(
    "char",
    "\u00a0\u2000\u3000\u2028\u2029\u200b\u200c\u200d\u2060\ufeff\u061c\u200e\u200f\u2800\u3164"
    "\u115f\u1160\uffa0\u034f\ufe0f\u180b\u17b4\U000e0100\U000e01ef\U000e0041\u202a\u202e\u2069",
)
def test_what_hides_or_looks_like_a_space_is_spelled(char: str) -> None:
    code = f"x{ord(char):02x}" if char < "\u0100" else f"u{ord(char):04x}"
    code = code if char < "\U00010000" else f"U{ord(char):08x}"
    assert visible(f"a{char}b") == f"a\\{code}b"


def test_columns_are_chosen_by_name() -> None:
    run = run_of(many(9, 100, metrics={"loss": 0.5, "size": 3.0}, created=NOW), policy=())
    rows = facts_of(run)
    lines = run_table(rows, parse_columns('name, size,"size" ,loss,nobody,created')).splitlines()
    assert lines[0].split() == ["name", "size", "size", "loss", "nobody", "created"]
    assert lines[1].split() == ["step_9", "100", "B", "3", "0.5", "-", "2026-06-01T00:00:00Z"]
    every = run_table(rows, (*COLUMNS, "metrics"), also=["nobody", "loss"])
    assert every.split("\n")[0].split()[-5:] == ["run", "path", "nobody", "loss", "size"]


@pytest.mark.parametrize("text", ["", "name,", ",", "name,name", "pin", "has"])
def test_columns_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_columns(text)
