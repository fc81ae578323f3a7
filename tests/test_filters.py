"""The filter language: what each term chooses, where a bad one is wrong, and that it is quick."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import inf, nan
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptui.checkpoint import Checkpoint, Pin, Run, State
from ckptui.errors import FilterError, UsageError
from ckptui.fields import FIELDS, Facts, own_metric
from ckptui.filters import parse_filter
from ckptui.standing import Standing

NOW = datetime(2026, 2, 1, 12, tzinfo=UTC)


def checkpoint(name: str, **fields: object) -> Checkpoint:
    run = Path("/runs/sweep/lr-1e5")
    plain = Checkpoint(
        run=run,
        name=name,
        path=run / name,
        step=None,
        state=State.OK,
        complete=True,
        resumable=True,
    )
    return replace(plain, **fields)  # type: ignore[arg-type] # as each test writes them


ROWS = [
    (
        checkpoint(
            "step_9",
            step=9,
            epoch=0,
            size=900,
            created=datetime(2026, 1, 31, 0, 0, tzinfo=UTC),
            metrics={"loss": 2.0, "val/acc": 0.5, "size": 7.0, "odd name": 1.0},
        ),
        Standing(kept_by=()),
    ),
    (
        checkpoint(
            "step_30",
            step=30,
            epoch=0.5,
            size=10_000_000_000,
            created=datetime(2026, 1, 31, 23, 59, tzinfo=UTC),
            metrics={"loss": 1.0},
            pin=Pin(name="step_30", note="before the LR drop"),
        ),
        Standing(kept_by=("pin: before the LR drop", "last 3"), best=("loss",)),
    ),
    (
        checkpoint(
            "step_270",
            step=270,
            epoch=1,
            size=2**31,
            state=State.WEIGHTS,
            created=datetime(2026, 2, 1, 11, 59, 30, tzinfo=UTC),
            metrics={"loss": None},
            pin=Pin(name="step_270"),
        ),
        Standing(kept_by=("last 3",)),
    ),
    (checkpoint("epoch_2", state=State.PARTIAL, metrics={"loss": inf}), Standing()),
]
RUN = Run(path=Path("/runs/sweep/lr-1e5"), name="lr-1e5", run_id=None, layout="native")


def chosen(text: str) -> list[str]:
    test = parse_filter(text).test
    return [c.name for c, s in ROWS if test(Facts(c, s, RUN, own_metric, NOW))]


EVERY = ["step_9", "step_30", "step_270", "epoch_2"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", EVERY),
        ("   ", EVERY),
        ("step_3", ["step_30"]),
        ("STEP 7", ["step_270"]),
        ("'step_3'", ["step_30"]),
        ("'loss<1'", []),
        ("step>=30", ["step_30", "step_270"]),
        ("step<270 step>9", ["step_30"]),
        ("step:30", ["step_30"]),
        ("step==30", ["step_30"]),
        ("step=30 | step=270", ["step_30", "step_270"]),
        ("step=30|step=270", ["step_30", "step_270"]),
        ("state:ok step<10 | state:weights", ["step_9", "step_270"]),
        ("!step=30", ["step_9", "step_270", "epoch_2"]),
        ("!!step=30", ["step_30"]),
        ("!has:step", ["epoch_2"]),
        ("step!=30", ["step_9", "step_270"]),
        ("epoch=0.5", ["step_30"]),
        ("epoch>=0.5", ["step_30", "step_270"]),
        ("state:ok", ["step_9", "step_30"]),
        ("state=OK", ["step_9", "step_30"]),
        ("state!=ok", ["step_270", "epoch_2"]),
        ("size>1K", ["step_30", "step_270"]),
        ("size>=10G", ["step_30"]),
        ("size>=10GB", ["step_30"]),
        ("size<=2GiB", ["step_9", "step_270", "epoch_2"]),
        ("size=2gib", ["step_270"]),
        ("size<0.9k", ["epoch_2"]),
        ("age<1m", ["step_270"]),
        ("age>1d", ["step_9"]),
        ("age>=12h", ["step_9", "step_30"]),
        ("created:2026-01-31", ["step_9", "step_30"]),
        ("created!=2026-01-31", ["step_270"]),
        ("created<2026-01-31", []),
        ("created<=2026-01-31", ["step_9", "step_30"]),
        ("created>2026-01-31", ["step_270"]),
        ("created>='2026-01-31 23:59'", ["step_30", "step_270"]),
        ("created>2026-01-31T23:59Z", ["step_270"]),
        ("created<2026-01-31T01:00+01:00", []),
        ("loss<3", ["step_9", "step_30"]),
        ("loss!=1", ["step_9"]),
        ("loss<inf", ["step_9", "step_30"]),
        ("loss>1.5e0", ["step_9"]),
        ("!loss<3", ["step_270", "epoch_2"]),
        ("nan:loss", ["step_270", "epoch_2"]),
        ("has:loss", EVERY),
        ("has:val/acc", ["step_9"]),
        ("val/acc>=0.5", ["step_9"]),
        ("nobody>0", []),
        ("nobody!=0", []),
        ('"size"=7', ["step_9"]),
        ('has:"size"', ["step_9"]),
        ("'odd name'>0", ["step_9"]),
        ("has:'odd name'", ["step_9"]),
        ("pin:yes", ["step_30", "step_270"]),
        ("pin:no", ["step_9", "epoch_2"]),
        ("pin!=yes", ["step_9", "epoch_2"]),
        ("has:pin", ["step_30", "step_270"]),
        ("note:lr", ["step_30"]),
        ("note:'LR drop'", ["step_30"]),
        ('note:"LR drop" step>1', ["step_30"]),
        ("note='before the lr drop'", ["step_30"]),
        ("note=lr", []),
        ("note!=lr", ["step_30"]),
        ("note:''", ["step_30"]),
        ("has:note", ["step_30"]),
        ("kept:last", ["step_30", "step_270"]),
        ("kept='last 3'", ["step_30", "step_270"]),
        ("kept!='pin: before the lr drop'", ["step_270"]),
        ("has:kept", ["step_30", "step_270"]),
        ("run:LR", EVERY),
        ("run=lr", []),
        ("run=lr-1e5", EVERY),
        ("name=step_9", ["step_9"]),
        ("name:step", ["step_9", "step_30", "step_270"]),
        ("name!=step_9", ["step_30", "step_270", "epoch_2"]),
    ],
)
def test_a_filter_chooses(text: str, names: list[str]) -> None:
    assert chosen(text) == names


@pytest.mark.parametrize("sign", ["<", "<=", ">", ">=", "=", "!=", ":"])
@pytest.mark.parametrize("value", [None, nan, inf, -inf])
def test_nan_and_missing_never_match_a_comparison(sign: str, value: float | None) -> None:
    test = parse_filter(f"loss{sign}1").test
    for metrics in ({"loss": value}, {}):
        found = checkpoint("step_1", metrics=metrics)
        assert not test(Facts(found, Standing(), RUN, own_metric, NOW))
    for field in ("step", "epoch", "age"):
        text = f"{field}{sign}{'1h' if field == 'age' else 1}"
        facts = Facts(checkpoint("x"), Standing(), RUN, own_metric, NOW)
        assert not parse_filter(text).test(facts)


def test_a_pin_counts_as_a_reason_where_there_is_no_policy() -> None:
    pinned = checkpoint("step_1", pin=Pin(name="step_1", note="dip"))
    for text in ("kept:dip", "kept:pin", "has:kept"):
        assert parse_filter(text).test(Facts(pinned, Standing(), RUN, own_metric, NOW))


def test_a_metric_comes_from_the_lookup() -> None:
    asked: list[str] = []

    def look(c: Checkpoint, name: str) -> tuple[bool, float | None]:
        asked.append(name)
        return True, float(c.step or 0)

    found = parse_filter("val_loss>20 has:other")
    assert found.metrics == ("val_loss", "other")
    names = [c.name for c, s in ROWS if found.test(Facts(c, s, RUN, look, NOW))]
    assert names == ["step_30", "step_270"]
    assert set(asked) == {"val_loss", "other"}


@pytest.mark.parametrize(
    ("text", "column", "says"),
    [
        ("step>", 6, "step> in the filter, column 6: has nothing to compare with."),
        ("step>x", 6, "x is no number; write it as in step>=1000"),
        ("state:ok  step>=x", 17, "step>=x in the filter, column 17"),
        ("size>big", 6, "big is no size; write it as in size>10G"),
        ("size>-1", 6, "-1 is no size"),
        ("age>soon", 5, "soon is no duration; write it as in age>2h"),
        ("created>monday", 9, "monday is no day or time; write it as in created>=2026-01-31"),
        ("created>0001-01-01T00:00+14:00", 9, "is no day or time"),
        ("loss<low", 6, "low is no number; write it as in loss<0.5."),
        ("stat:ok", 6, "or did you mean state"),
        ("loss=nan", 6, "NaN matches no comparison; write nan:loss"),
        ("nan:step", 5, "step is no metric"),
        ("state>ok", 1, "state is a word, so only : or = or != fit"),
        ("state:okay", 7, "okay is no state; did you mean ok"),
        ("state:zzz", 7, "there are ok, weights"),
        ("pin:maybe", 5, "pin is yes or no"),
        ("has!=loss", 1, "write !has:loss"),
        ("| step>1", 1, "needs a term on both sides"),
        ("step>1 |", 8, "needs a term on both sides"),
        ("a || b", 3, "needs a term on both sides"),
        ("a | | b", 3, "needs a term on both sides"),
        ("!", 1, "stands directly before"),
        ("a ! b", 3, "stands directly before"),
        (">1", 1, "names no field"),
        ("note:'LR drop", 6, "the quote is not closed"),
        ("'a'b", 4, "a space is due after the quote"),
        ("note:'a'b", 9, "a space is due after the quote"),
        ("(step>1 | pin:yes)", 1, "parentheses do not group"),
        ("step>\x1b[31m", 6, "\\x1b[31m is no number"),
    ],
)
def test_a_bad_filter_says_which_part_and_where(text: str, column: int, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_filter(text)
    error = caught.value
    assert isinstance(error, FilterError)
    assert error.column == column
    assert f"column {column}: " in str(error)
    assert says in str(error)
    assert error.part
    assert str(error).isprintable()


pieces = st.sampled_from(
    [*FIELDS, *":=!<>|'\"( ", "!=", "<=", "1", "ok", "2h", "3G", "yes", "loss", "é", "\x00", "٣"]
)


@given(st.lists(pieces, max_size=12).map("".join))
def test_any_text_is_a_filter_or_refused_at_a_column_of_its_own(text: str) -> None:
    try:
        names = chosen(text)
    except FilterError as e:
        names, column = [], e.column
    else:
        column = 1
    assert 1 <= column <= len(text) + 1
    assert set(names) <= set(EVERY)


def test_a_filter_of_many_terms_is_no_matter() -> None:
    assert chosen(" ".join(["step>0"] * 5000)) == ["step_9", "step_30", "step_270"]
    assert chosen(" | ".join(["step=9"] * 5000)) == ["step_9"]


@pytest.mark.benchmark
@pytest.mark.parametrize(
    "text", ["step>=100 state:ok", "loss<0.5 | pin:yes", "age<1h size>1K", "!step_1 has:loss"]
)
def test_twenty_thousand_rows_take_no_time_that_a_key_would_feel(text: str) -> None:
    rows = [
        checkpoint(
            f"step_{n}",
            step=n,
            size=n * 10,
            metrics={"loss": n / 20_000},
            created=NOW - timedelta(seconds=n),
        )
        for n in range(20_000)
    ]
    standing = Standing()
    test = parse_filter(text).test

    def once() -> float:
        began = time.perf_counter()
        found = [c for c in rows if test(Facts(c, standing, RUN, own_metric, NOW))]
        assert 0 < len(found) < 20_000
        return time.perf_counter() - began

    print(f"{text}: {min(once() for _ in range(5)) * 1000:.0f} ms for 20,000 rows")
