"""The order of a list."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from math import nan

import pytest

from ckptui.checkpoint import Checkpoint, Pin, State
from ckptui.errors import UsageError
from ckptui.fields import Facts, own_metric
from ckptui.sorting import SORTS, Sort, parse_sort, sort_facts
from ckptui.standing import Standing
from tests.test_filters import NOW, RUN, checkpoint


def when(day: int) -> datetime:
    return datetime(2026, 1, day, tzinfo=UTC)


ROWS = [
    checkpoint("step_270", step=270, size=5, created=when(3), metrics={"loss": 1.0, "size": 1.0}),
    checkpoint("step_9", step=9, epoch=1, size=7, state=State.PARTIAL, metrics={"loss": nan}),
    checkpoint(
        "step_30",
        step=30,
        size=5,
        created=when(1),
        state=State.WEIGHTS,
        pin=Pin(name="step_30", note="dip"),
        metrics={"loss": 2.0},
    ),
    checkpoint("epoch_2", size=1, metrics={"loss": None}),
]


def ordered(text: str, rows: list[Checkpoint] = ROWS) -> list[str]:
    facts = [Facts(c, Standing(), RUN, own_metric, NOW) for c in rows]
    return [it.checkpoint.name for it in sort_facts(facts, parse_sort(text))]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("step", ["step_9", "step_30", "step_270", "epoch_2"]),
        ("-step", ["step_270", "step_30", "step_9", "epoch_2"]),
        ("size", ["epoch_2", "step_30", "step_270", "step_9"]),
        ("-size", ["step_9", "step_270", "step_30", "epoch_2"]),
        ("age", ["step_270", "step_30", "step_9", "epoch_2"]),
        ("-age", ["step_30", "step_270", "epoch_2", "step_9"]),
        ("created", ["step_30", "step_270", "step_9", "epoch_2"]),
        ("state", ["step_270", "epoch_2", "step_30", "step_9"]),
        ("-state", ["step_9", "step_30", "epoch_2", "step_270"]),
        ("name", ["epoch_2", "step_9", "step_30", "step_270"]),
        ("-name", ["step_270", "step_30", "step_9", "epoch_2"]),
        ("loss", ["step_270", "step_30", "step_9", "epoch_2"]),
        ("-loss", ["step_30", "step_270", "epoch_2", "step_9"]),
        ("'size'", ["step_270", "step_9", "step_30", "epoch_2"]),
        ("pin", ["step_30", "step_9", "step_270", "epoch_2"]),
        ("note", ["step_30", "step_9", "step_270", "epoch_2"]),
        ("kept", ["step_30", "step_9", "step_270", "epoch_2"]),
        ("nobody", ["step_9", "step_30", "step_270", "epoch_2"]),
    ],
)
def test_rows_are_sorted_and_missing_values_come_last_either_way(
    text: str, names: list[str]
) -> None:
    assert ordered(text) == names


@pytest.mark.parametrize("field", [*SORTS, "loss", "nobody"])
@pytest.mark.parametrize("sign", ["", "-"])
def test_the_order_does_not_depend_on_the_order_before(field: str, sign: str) -> None:
    orders = {tuple(ordered(sign + field, list(rows))) for rows in itertools.permutations(ROWS)}
    assert len(orders) == 1


def test_what_cannot_be_sorted_by_is_refused() -> None:
    for text in ("", "-", "has", "-nan"):
        with pytest.raises(UsageError, match="nothing to sort by"):
            parse_sort(text)
    assert parse_sort("--loss") == Sort("-loss", metric=True, descending=True)
