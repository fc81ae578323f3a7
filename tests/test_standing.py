from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from ckptui.checkpoint import Checkpoint, Pin, State
from ckptui.errors import UnsafePruneError
from ckptui.retention import Action, Rule, plan_prune
from ckptui.standing import standings
from tests.records import (
    NOW,
    checkpoints_strategy,
    many,
    one,
    protected_strategy,
    rules_strategy,
    run_of,
    with_metric,
)


def test_standings_say_latest_best_and_why_kept() -> None:
    checkpoints = [
        one(1, metrics={"loss": 1.0, "acc": 0.9, "lr": 0.1, "mystery": 1.0, "grad_norm": 9.0}),
        one(2, metrics={"loss": 0.5, "acc": 0.2, "lr": 0.2, "mystery": 2.0, "grad_norm": 1.0}),
        one(3, metrics={"loss": 0.7, "acc": 0.9, "peak_memory": 1.0, "tokens_per_second": 5.0}),
        one(4, state=State.WEIGHTS, pin=Pin(name="step_4", note="n")),
        one(5, state=State.PARTIAL),
    ]
    run = run_of(checkpoints, policy=("keep-last 2", "keep-best 1:mystery:max"))
    found = standings(run, now=NOW)
    assert [s.latest for s in found] == [False, False, False, True, False]
    assert [s.best for s in found] == [(), ("loss", "mystery"), ("acc",), (), ()]
    assert [s.kept_by for s in found] == [
        (),
        ("best 1 by mystery",),
        ("newest resumable", "last 2"),
        ("last 2", "pin: n"),
        (),
    ]


def test_standings_without_a_policy_say_nothing_of_keeping() -> None:
    found = standings(run_of([one(1, pin=Pin(name="step_1")), one(2)]), now=NOW)
    assert [s.kept_by for s in found] == [None, None]


def test_no_checkpoint_is_best_in_what_is_about_the_machine_even_if_the_policy_asks() -> None:
    checkpoints = with_metric("tokens_per_second", {1: 10.0, 2: 5.0})
    found = standings(run_of(checkpoints, policy=("keep-best 1:tokens_per_second:max",)), now=NOW)
    assert [s.best for s in found] == [(), ()]
    assert found[0].kept_by == ("best 1 by tokens_per_second",)


def test_the_policys_direction_decides_the_best() -> None:
    checkpoints = with_metric("loss", {1: 10.0, 2: 5.0})
    found = standings(run_of(checkpoints, policy=("keep-best 1:loss:max",)), now=NOW)
    assert [s.best for s in found] == [("loss",), ()]


def test_rules_of_newer_versions_and_metrics_nobody_has_hide_nothing() -> None:
    policy = ("keep-dreams 3", "keep-best 1:acc", "keep-best 1:odd", "keep-last 1", "keep step_1")
    found = standings(run_of(many(1, 2, 3), policy=policy), now=NOW)
    assert [s.kept_by for s in found] == [("named",), (), ("newest resumable", "last 1")]


def test_standings_work_for_each_run_id() -> None:
    checkpoints = [
        one(1, metrics={"loss": 1.0}),
        one(2, run_id="b", metrics={"loss": 2.0}),
        one(3, run_id="b", metrics={"loss": 3.0}),
    ]
    found = standings(run_of(checkpoints, run_id=None, policy=("keep-last 1",)), now=NOW)
    assert [s.latest for s in found] == [True, False, True]
    assert [s.best for s in found] == [("loss",), ("loss",), ()]


def test_abandoned_and_staged_ones_are_neither_latest_nor_best() -> None:
    checkpoints = [
        one(1, metrics={"loss": 5.0}),
        one(2, metrics={"loss": 1.0}, current=False),
        one(3, metrics={"loss": 1.0}, staged=True),
        one(4, metrics={"loss": 1.0}, state=State.BROKEN),
    ]
    found = standings(run_of(checkpoints), now=NOW)
    assert [(s.latest, s.best) for s in found] == [(True, ("loss",))] + [(False, ())] * 3


def test_an_empty_run_has_no_standings() -> None:
    assert standings(run_of([]), now=NOW) == ()


@given(checkpoints_strategy(), rules_strategy, protected_strategy)
def test_standings_give_the_reasons_of_the_plan(
    checkpoints: list[Checkpoint], rules: list[Rule], protected: dict[str, str]
) -> None:
    try:
        made = plan_prune(checkpoints, rules, now=NOW, protected=protected)
    except UnsafePruneError:
        return  # no value of a metric
    run = run_of(checkpoints, policy=tuple(map(str, rules)), protected=protected)
    stands = dict(zip(map(id, checkpoints), standings(run, now=NOW), strict=True))
    for row in made.rows:
        kept_by = stands[id(row.checkpoint)].kept_by
        assert kept_by is not None
        if row.action is Action.REMOVE:
            assert kept_by == ()
        if row.action is Action.KEEP and row.checkpoint.state is not State.WRITING:
            assert set(kept_by) == set(row.reasons)


@given(checkpoints_strategy(), rules_strategy, st.randoms(use_true_random=False))
def test_the_order_of_a_runs_checkpoints_changes_no_standing(
    checkpoints: list[Checkpoint], rules: list[Rule], shuffler: random.Random
) -> None:
    shuffled = checkpoints[:]
    shuffler.shuffle(shuffled)
    policy = tuple(map(str, rules))
    one_way = standings(run_of(checkpoints, policy=policy), now=NOW)
    stands = dict(zip(map(id, checkpoints), one_way, strict=True))
    another = standings(run_of(shuffled, policy=policy), now=NOW)
    assert [stands[id(c)] for c in shuffled] == list(another)


def test_standings_do_not_rest_on_the_order_of_the_records() -> None:
    checkpoints = many(3, 1, 2)
    found = standings(run_of(checkpoints, policy=("keep-last 2",)), now=NOW)
    assert [s.kept_by for s in found] == [("newest resumable", "last 2"), (), ("last 2",)]
