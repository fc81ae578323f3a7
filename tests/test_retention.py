from __future__ import annotations

import itertools
import os
import random
import time
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptui.checkpoint import Checkpoint, Pin, SharedFile, State
from ckptui.errors import NotFoundError, RefusedError, UnsafePruneError, UsageError
from ckptui.retention import (
    Action,
    KeepBest,
    KeepLast,
    KeepNames,
    PrunePlan,
    Rule,
    best,
    choose_metric,
    newest_complete,
    newest_resumable,
    order,
    parse_rule,
    plan_ahead,
    plan_prune,
    plan_remove,
    standings,
)
from ckptui.scan import scan_run
from tests.factory import make_checkpoint, make_run
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

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def plan(checkpoints: Iterable[Checkpoint], *rules: str, **options: Any) -> PrunePlan:
    options.setdefault("now", NOW)
    return plan_prune(list(checkpoints), [parse_rule(r) for r in rules], **options)


def kept(made: PrunePlan) -> list[int | None]:
    return [row.checkpoint.step for row in made.rows if row.action is Action.KEEP]


def gone(made: PrunePlan) -> list[str]:
    return [row.checkpoint.name for row in made.removals]


def reasons(made: PrunePlan) -> dict[str, tuple[str, ...]]:
    return {row.checkpoint.name: row.reasons for row in made.rows}


def actions(made: PrunePlan) -> dict[str, str]:
    return {row.checkpoint.name: row.action.value for row in made.rows}


# --- what the rules keep


@pytest.mark.parametrize(
    ("steps", "rules", "stay"),
    [
        ((100, 200, 300), ["keep-last 1"], [300]),
        ((100, 200, 300), ["keep-last 2"], [200, 300]),
        ((100, 200, 300), ["keep-last 3"], [100, 200, 300]),
        ((100, 200, 300), ["keep-last 99"], [100, 200, 300]),
        ((9, 100, 1000, 20), ["keep-last 2"], [100, 1000]),
        ((0, 50, 100, 150, 200), ["keep-every 100"], [0, 100, 200]),
        ((0, 50, 75), ["keep-every 100"], [0, 75]),
        ((7, 14, 21), ["keep-every 7"], [7, 14, 21]),
        ((1, 2, 3), ["keep-every 10"], [3]),
        ((0, 10, 20, 30, 40, 50), ["keep-every 20", "keep-last 2"], [0, 20, 40, 50]),
        ((2048000, 1024000000, 18446744073709551616), ["keep-last 1"], [18446744073709551616]),
    ],
)
def test_rules_without_metrics(steps: tuple[int, ...], rules: list[str], stay: list[int]) -> None:
    made = plan(many(*steps), *rules)
    assert kept(made) == stay
    assert len(gone(made)) == len(steps) - len(stay)


def test_b59_the_best_and_the_last_ones_stay_together() -> None:
    losses: dict[int, float | None] = {100: 0.1, 200: 0.5, 300: 0.4, 400: 0.3, 500: 0.2}
    made = plan(with_metric("loss", losses), "keep-last 2", "keep-best 1:loss")
    assert kept(made) == [100, 400, 500]
    assert reasons(made) == {
        "step_100": ("best 1 by loss",),
        "step_200": ("no rule keeps it",),
        "step_300": ("no rule keeps it",),
        "step_400": ("last 2",),
        "step_500": ("newest resumable", "last 2"),
    }
    assert made.notes == ("best by loss: lower is better",)


def test_b60_a_limit_of_one_keeps_the_only_one_also_the_second_time() -> None:
    only = many(7)
    assert kept(plan(only, "keep-last 1")) == [7]
    assert plan(only, "keep-last 1") == plan(only, "keep-last 1")


def test_b61_the_newest_resumable_stays_though_its_metric_is_the_worst() -> None:
    losses: dict[int, float | None] = {100: 0.1, 200: 0.2, 300: 0.3, 400: 0.4, 500: 0.5}
    made = plan(with_metric("loss", losses), "keep-best 3:loss")
    assert kept(made) == [100, 200, 300, 500]
    assert reasons(made)["step_500"] == ("newest resumable",)


def test_b62_keep_last_goes_by_step_not_by_metric() -> None:
    losses: dict[int, float | None] = {10: 0.1, 20: 0.2, 30: 7.0, 40: 9.0}
    assert kept(plan(with_metric("loss", losses), "keep-last 2")) == [30, 40]


def test_b63_keep_last_counts_checkpoints_not_steps() -> None:
    made = plan(many(*range(400, 4001, 400)), "keep-last 8")
    assert kept(made) == list(range(1200, 4001, 400))


@pytest.mark.parametrize("rules", [[], [KeepNames(())]])
def test_b69_no_rule_is_refused(rules: list[Rule]) -> None:
    with pytest.raises(UnsafePruneError, match="No rule"):
        plan_prune(many(1, 2), rules, now=NOW)


def test_b69_best_with_no_metric_anywhere_is_refused() -> None:
    with pytest.raises(RefusedError, match="which metric"):
        plan(many(1, 2), "keep-best 1")
    with pytest.raises(UnsafePruneError, match="No complete checkpoint has a finite value of loss"):
        plan(many(1, 2), "keep-best 1:loss")


def test_b75_keep_every_works_beside_keep_last() -> None:
    assert kept(plan(many(10, 20, 30), "keep-last 1", "keep-every 20")) == [20, 30]


def test_b76_several_best_rules_do_not_share_a_limit() -> None:
    checkpoints = [
        one(100, metrics={"bleu": 30.0, "loss": 3.0}),
        one(200, metrics={"bleu": 20.0, "loss": 1.0}),
        one(300, metrics={"bleu": 10.0, "loss": 2.0}),
        one(400, metrics={"bleu": 10.0, "loss": 2.0}),
        one(500, metrics={"bleu": 1.0, "loss": 9.0}),
    ]
    made = plan(checkpoints, "keep-best 1:bleu", "keep-best 1:loss")
    assert kept(made) == [100, 200, 500]
    assert made.notes == ("best by bleu: higher is better", "best by loss: lower is better")


def test_keep_within_keeps_what_was_saved_within_the_period() -> None:
    def at(step: int, age: timedelta | None) -> Checkpoint:
        return one(step, created=None if age is None else NOW - age)

    made = plan(
        [
            at(1, timedelta(days=8)),
            at(2, timedelta(days=7, seconds=1)),
            at(3, timedelta(days=7)),
            at(4, timedelta(0)),
            at(5, timedelta(seconds=-1)),
            at(6, None),
            at(7, timedelta(days=99)),
        ],
        "keep-within 7d",
    )
    assert kept(made) == [3, 4, 5, 6, 7]
    assert reasons(made)["step_3"] == ("within 7d",)
    assert reasons(made)["step_4"] == ("within 7d",)
    assert reasons(made)["step_5"] == ("saved in the future",)
    assert reasons(made)["step_6"] == ("when it was saved is unknown",)
    assert reasons(made)["step_7"] == ("newest resumable",)


def test_a_period_longer_than_the_calendar_keeps_everything() -> None:
    checkpoints = [one(s, created=NOW - timedelta(days=s)) for s in (1, 2, 3)]
    assert kept(plan(checkpoints, "keep-within 142000000w")) == [1, 2, 3]


def test_a_checkpoint_without_a_step_is_kept_and_not_counted() -> None:
    made = plan([*many(1, 2, 3), one(None, name="epoch_0")], "keep-last 1")
    assert kept(made) == [3, None]
    assert reasons(made)["epoch_0"] == ("its step is unknown",)
    assert reasons(made)["step_3"] == ("newest resumable", "last 1")


# --- which metric, which direction


def test_b88_on_a_tie_the_later_step_is_the_best_in_every_order() -> None:
    checkpoints = with_metric("loss", {10: 0.2, 20: 0.9, 30: 0.2, 40: 0.5})
    for shuffled in itertools.permutations(checkpoints):
        top = best(shuffled, "loss", "min")
        assert top is not None
        assert top.step == 30
        assert kept(plan(shuffled, "keep-best 1:loss")) == [30, 40]
    for mode, step in (("min", 30), ("max", 20)):
        top = best(checkpoints, "loss", mode)
        assert top is not None
        assert top.step == step


def test_b91_only_finite_numbers_compete() -> None:
    checkpoints = [
        one(100, metrics={"loss": 1.0}),
        one(200, metrics={}),
        one(300, metrics={"loss": None}),
        one(400, metrics={"loss": 2.0}),
        one(500),
    ]
    made = plan(checkpoints, "keep-best 3:loss")
    assert kept(made) == [100, 400, 500]
    top = best(checkpoints, "loss", "min")
    assert top is not None
    assert top.step == 100


def test_zero_and_negative_values_are_values() -> None:
    checkpoints = with_metric("score", {1: 0.0, 2: -1.0, 3: -0.0, 4: -5.0})
    assert best(checkpoints, "score", "max") is checkpoints[2]
    assert best(checkpoints, "score", "min") is checkpoints[3]
    assert kept(plan(checkpoints, "keep-best 1:score")) == [3, 4]
    assert kept(plan(checkpoints, "keep-best 1:score:min")) == [4]


def test_b87_an_unknown_direction_is_refused_and_a_given_one_taken() -> None:
    checkpoints = with_metric("score_x", {1: 1.0, 2: 2.0, 3: 0.0})
    with pytest.raises(RefusedError, match="score_x:min or score_x:max"):
        plan(checkpoints, "keep-best 1:score_x")
    made = plan(checkpoints, "keep-best 1:score_x:max")
    assert kept(made) == [2, 3]
    assert made.notes == ("best by score_x: higher is better",)


def test_a_given_direction_beats_the_known_one() -> None:
    checkpoints = with_metric("loss", {1: 1.0, 2: 2.0, 3: 0.0})
    assert kept(plan(checkpoints, "keep-best 1:loss:max")) == [2, 3]


def test_best_without_a_metric_means_the_policys_own_first() -> None:
    checkpoints = [
        one(s, metrics={"eval_loss": a, "bleu": b, "x": c})
        for s, a, b, c in ((1, 0.1, 1.0, 5.0), (2, 0.2, 9.0, 5.0), (3, 0.3, 1.0, 6.0), (4, 1, 1, 1))
    ]
    own = [parse_rule("keep-last 2"), parse_rule("keep-best 1"), parse_rule("keep-best 1:x:max")]
    assert kept(plan(checkpoints, "keep-best 1", policy=own)) == [3, 4]
    assert kept(plan(checkpoints, "keep-best 1")) == [1, 4]
    assert choose_metric(checkpoints, own) == ("x", "max")
    assert choose_metric(checkpoints, [KeepBest(1, "bleu")]) == ("bleu", "max")
    assert choose_metric(checkpoints, [KeepLast(1)]) == ("eval_loss", "min")


def test_best_without_any_known_metric_names_the_candidates() -> None:
    checkpoints = [
        one(1, metrics={"loss": 1.0, "acc": None}),
        one(2, metrics={"bleu": 1.0}),
        one(3, metrics={"hidden": 1.0}, current=False),
    ]
    with pytest.raises(RefusedError) as caught:
        plan(checkpoints, "keep-best 1")
    assert caught.value.candidates == ("bleu", "loss")
    with pytest.raises(UnsafePruneError) as unsafe:
        plan(checkpoints, "keep-best 1:acc")
    assert unsafe.value.candidates == ("bleu", "loss")
    assert "bleu, loss" in str(unsafe.value)


# --- names


def test_named_checkpoints_stay_beside_a_rule() -> None:
    made = plan_prune(many(1, 2, 3, 4), [KeepLast(1), KeepNames(("step_2",))], now=NOW)
    assert kept(made) == [2, 4]
    assert reasons(made)["step_2"] == ("named",)


def test_names_alone_are_no_rule() -> None:
    with pytest.raises(UsageError):
        plan_prune(many(1, 2), [KeepNames(("step_1",))], now=NOW)


def test_a_name_that_is_not_there_is_refused_with_the_candidates() -> None:
    with pytest.raises(NotFoundError, match="step_9") as caught:
        plan_prune(many(1, 2), [KeepLast(1), KeepNames(("step_9",))], now=NOW)
    assert caught.value.candidates == ("step_1", "step_2")


# --- what no rule overrides


def test_pinned_protected_and_linked_ones_stay() -> None:
    checkpoints = [
        one(1, pin=Pin(name="step_1")),
        one(2, pin=Pin(name="step_2", note="for the paper")),
        one(3),
        one(4, aliases=("best",)),
        one(5, aliases=("a", "b")),
        one(6),
        one(7),
    ]
    made = plan(
        checkpoints, "keep-last 1", protected={"step_3": "the live run was resumed from it"}
    )
    assert gone(made) == ["step_6"]
    assert reasons(made) == {
        "step_1": ("pinned",),
        "step_2": ("pin: for the paper",),
        "step_3": ("the live run was resumed from it",),
        "step_4": ("link 'best' points here",),
        "step_5": ("links 'a' and 'b' point here",),
        "step_6": ("no rule keeps it",),
        "step_7": ("newest resumable", "last 1"),
    }


def test_pinned_ones_count_in_the_ranking() -> None:
    checkpoints = [one(1), one(2), one(3, pin=Pin(name="step_3"))]
    assert kept(plan(checkpoints, "keep-last 2")) == [2, 3]


def test_b41_weights_only_ones_count_but_the_newest_resumable_stays() -> None:
    checkpoints = [one(100), one(200), one(300, state=State.WEIGHTS), one(400, state=State.ADAPTER)]
    made = plan(checkpoints, "keep-last 1")
    assert kept(made) == [200, 400]
    assert reasons(made)["step_200"] == ("newest resumable",)


def test_without_any_resumable_one_the_newest_complete_stays() -> None:
    checkpoints = [one(s, state=State.WEIGHTS, created=NOW - timedelta(days=30)) for s in (1, 2, 3)]
    made = plan(checkpoints, "keep-within 1d")
    assert kept(made) == [3]
    assert reasons(made)["step_3"] == ("newest complete",)


def test_incomplete_ones_never_count_and_go_only_when_asked() -> None:
    checkpoints = [
        one(1),
        one(2),
        one(3, state=State.BROKEN),
        one(4, state=State.PARTIAL),
        one(5, name="step_5", state=State.PARTIAL, staged=True),
        one(6, state=State.UNKNOWN),
        one(7, state=State.WRITING, staged=True),
    ]
    made = plan(checkpoints, "keep-last 1")
    assert actions(made) == {
        "step_1": "remove",
        "step_2": "keep",
        "step_3": "skip",
        "step_4": "skip",
        "step_5": "skip",
        "step_6": "skip",
        "step_7": "keep",
    }
    assert reasons(made)["step_3"] == ("incomplete: only with --incomplete",)
    assert reasons(made)["step_6"] == ("not ours: never touched",)
    assert reasons(made)["step_7"] == ("being written: never touched",)
    assert gone(plan(checkpoints, "keep-last 1", incomplete=True)) == [
        "step_1",
        "step_3",
        "step_4",
        "step_5",
    ]


def test_b38_incomplete_alone_keeps_every_complete_one() -> None:
    checkpoints = [one(1), one(2, state=State.PARTIAL), one(3, state=State.WEIGHTS), one(None)]
    made = plan(checkpoints, incomplete=True)
    assert gone(made) == ["step_2"]
    assert reasons(made)["step_1"] == ("newest resumable", "complete")
    assert reasons(made)["step_3"] == ("complete",)
    assert reasons(made)["step_None"] == ("complete",)


def test_while_a_trainer_is_at_work_incomplete_ones_stay() -> None:
    made = plan([one(1), one(2, state=State.PARTIAL)], incomplete=True, live=True)
    assert actions(made)["step_2"] == "skip"
    assert reasons(made)["step_2"] == ("may still be being written",)


def test_incomplete_ones_that_are_pinned_linked_or_named_stay() -> None:
    checkpoints = [
        one(1, state=State.PARTIAL, pin=Pin(name="step_1")),
        one(2, state=State.BROKEN, aliases=("best",)),
        one(3, state=State.PARTIAL),
        one(4, state=State.PARTIAL, staged=True),
        one(5, state=State.PARTIAL, staged=True),
    ]
    names = KeepNames(("step_3", "step_4"))
    made = plan_prune(checkpoints, [names], now=NOW, incomplete=True)
    assert gone(made) == ["step_5"]


def test_a_pin_or_a_link_of_a_name_does_not_keep_what_is_staged_under_it() -> None:
    checkpoints = [one(1), one(2, state=State.PARTIAL, staged=True)]
    made = plan(checkpoints, incomplete=True, protected={"step_2": "in use"})
    assert gone(made) == ["step_2"]


def test_an_abandoned_branch_neither_counts_nor_goes() -> None:
    checkpoints = [one(1), one(2), one(3, current=False), one(4, current=False)]
    made = plan(checkpoints, "keep-last 1", incomplete=True)
    assert kept(made) == [2]
    assert gone(made) == ["step_1"]
    assert reasons(made)["step_4"] == ("abandoned branch: only when named",)


def test_unknown_ones_stay_whatever_is_asked() -> None:
    checkpoints = [one(s, state=State.UNKNOWN) for s in (1, 2)]
    made = plan(checkpoints, "keep-last 1", incomplete=True)
    assert {row.action for row in made.rows} == {Action.SKIP}


def test_rules_work_for_each_run_id_on_its_own() -> None:
    checkpoints = [
        *many(1, 2, 3),
        *(one(s, run_id="b", name=f"epoch_{s}") for s in (10, 20, 30)),
        *(one(s, run_id=None, name=f"step_0{s}") for s in (5, 6)),
    ]
    made = plan(checkpoints, "keep-last 1")
    assert kept(made) == [3, 6, 30]
    best_of = [replace(c, metrics={"loss": 1.0}) for c in checkpoints]
    assert plan(best_of, "keep-best 1:loss").notes == ("best by loss: lower is better",)
    assert all(reasons(made)[n][0] == "newest resumable" for n in ("step_3", "step_06", "epoch_30"))


def test_rows_ascend_by_step_with_unknown_steps_last() -> None:
    checkpoints = [one(None, name="epoch_0"), one(10000), one(900), one(9000), one(0)]
    made = plan(checkpoints, "keep-last 1")
    assert [r.checkpoint.step for r in made.rows] == [0, 900, 9000, 10000, None]


def test_the_latest_is_by_step_then_attempt_then_creation() -> None:
    a = one(5, attempt=1, created_text="2026-01-09", name="step_5")
    b = one(5, attempt=2, created_text="2026-01-01", name="step_05")
    c = one(5, attempt=2, created_text="2026-01-02", name="epoch_0")
    nowhere = one(None, attempt=9, name="epoch_1")
    for shuffled in itertools.permutations([a, b, c, nowhere]):
        assert sorted(shuffled, key=order) == [a, b, c, nowhere]
        assert newest_complete(shuffled) is c
        assert newest_resumable(shuffled) is c
    assert newest_complete([nowhere]) is nowhere
    assert newest_complete([]) is None


# --- health


def test_b44_the_newest_healthy_one_stays_when_later_weights_hold_nan() -> None:
    checkpoints = [
        one(s, nonfinite=("layer.weight",) if s >= 300 else ()) for s in range(100, 501, 100)
    ]
    made = plan(checkpoints, "keep-last 3")
    assert gone(made) == ["step_100"]
    assert reasons(made)["step_200"] == ("newest healthy one: later weights hold NaN",)
    assert made.warnings == (
        "The newest resumable checkpoint, step_500, holds NaN or infinity.",
        "The rules would remove every checkpoint with finite weights; step_200 is kept.",
    )


def test_b44_a_rule_that_keeps_a_healthy_one_anyway_is_no_reason_to_warn_of_loss() -> None:
    checkpoints = [one(s, nonfinite=("w",) if s >= 300 else ()) for s in range(100, 501, 100)]
    made = plan(checkpoints, "keep-last 4")
    assert kept(made) == [200, 300, 400, 500]
    assert made.warnings == ("The newest resumable checkpoint, step_500, holds NaN or infinity.",)


def test_the_newest_healthy_one_stays_also_where_a_rule_keeps_an_older_one() -> None:
    checkpoints = [one(10), one(13), one(15, nonfinite=("w",))]
    assert kept(plan(checkpoints, "keep-last 1")) == [13, 15]
    assert kept(plan(checkpoints, "keep-last 1", "keep-every 10")) == [10, 13, 15]


def test_a_healthy_newest_one_needs_no_other() -> None:
    checkpoints = [one(1), one(2, nonfinite=("w",)), one(3)]
    made = plan(checkpoints, "keep-last 1")
    assert kept(made) == [3]
    assert made.warnings == ()


def test_where_all_hold_nan_the_rules_decide() -> None:
    made = plan(many(1, 2, 3, nonfinite=("w",)), "keep-last 1")
    assert kept(made) == [3]
    assert len(made.warnings) == 1


def test_weights_only_runs_keep_their_newest_healthy_one_too() -> None:
    checkpoints = [one(1, state=State.WEIGHTS), one(2, state=State.WEIGHTS, nonfinite=("w",))]
    assert kept(plan(checkpoints, "keep-last 1")) == [1, 2]


# --- bytes


def link(inode: int, *, size: int, links: int, here: int = 1) -> SharedFile:
    return SharedFile(device=1, inode=inode, size=size, links=links, here=here)


def test_b85_a_hard_link_that_survives_elsewhere_frees_nothing() -> None:
    shared = (link(1, size=2**20, links=2),)
    checkpoints = [one(s, size=2**20 + 10, shared=shared) for s in (100, 200)]
    made = plan(checkpoints, "keep-last 1")
    assert gone(made) == ["step_100"]
    assert made.frees == 10


def test_an_inodes_bytes_count_for_the_row_that_removes_its_last_link() -> None:
    shared = (link(1, size=1000, links=3),)
    checkpoints = [one(s, size=1010, shared=shared) for s in (1, 2, 3)] + [one(4)]
    made = plan(checkpoints, "keep-last 1")
    assert [row.frees for row in made.rows] == [10, 10, 1010, 0]
    assert made.frees == 1030


def test_links_within_one_checkpoint_come_back_with_it() -> None:
    shared = (link(1, size=1000, links=2, here=2),)
    made = plan([one(1, size=1000, shared=shared), one(2)], "keep-last 1")
    assert made.frees == 1000


def test_plan_remove_counts_bytes_the_same_way() -> None:
    shared = (link(1, size=1000, links=2),)
    a, b, c = one(1, size=1001, shared=shared), one(2, size=1002, shared=shared), one(3)
    assert plan_remove([a, b, c], [a]).frees == 1
    assert plan_remove([a, b, c], [b, a]).frees == 1003


# --- rm


def test_rm_plans_exactly_what_was_chosen() -> None:
    checkpoints = [
        one(1),
        one(2, state=State.PARTIAL),
        one(3, current=False),
        one(4, state=State.PARTIAL, staged=True),
        one(5),
    ]
    made = plan_remove(checkpoints, [checkpoints[3], checkpoints[1], checkpoints[2]])
    assert actions(made) == {"step_2": "remove", "step_3": "remove", "step_4": "remove"}
    assert {row.reasons for row in made.rows} == {("named",)}


@pytest.mark.parametrize(
    ("fields", "options", "why"),
    [
        ({"pin": Pin(name="step_1")}, {}, "pinned"),
        ({"state": State.UNKNOWN}, {}, "never touches"),
        ({"state": State.WRITING, "staged": True}, {}, "being written"),
        ({"state": State.PARTIAL}, {"live": True}, "being written"),
        ({}, {"protected": {"step_1": "the fork needs it"}}, "the fork needs it"),
        ({"state": State.PARTIAL, "pin": Pin(name="step_1")}, {"live": True}, "."),
    ],
)
def test_rm_refuses_what_must_stay(
    fields: dict[str, Any], options: dict[str, Any], why: str
) -> None:
    target = one(1, **fields)
    with pytest.raises(RefusedError, match="step_1 is not removed: .*" + why):
        plan_remove([target, one(2), one(3)], [one(2), target], **options)


def test_rm_refuses_the_newest_resumable_of_its_run_id() -> None:
    checkpoints = [one(1), one(2), one(3, state=State.WEIGHTS), one(9, run_id="b")]
    with pytest.raises(RefusedError, match=r"step_2 .*newest one that training can continue from"):
        plan_remove(checkpoints, [checkpoints[1]])
    with pytest.raises(RefusedError, match="step_9"):
        plan_remove(checkpoints, [checkpoints[3]])
    assert gone(plan_remove(checkpoints, [checkpoints[2]])) == ["step_3"]


def test_rm_warns_before_the_last_complete_one_goes() -> None:
    checkpoints = many(1, 2, state=State.WEIGHTS)
    assert plan_remove(checkpoints, checkpoints[:1]).warnings == ()
    assert plan_remove(checkpoints, checkpoints).warnings == (
        "No complete checkpoint will be left.",
    )


def test_rm_warns_before_the_last_healthy_one_goes() -> None:
    checkpoints = [one(1), one(2), one(3, nonfinite=("w",)), one(4, run_id="b")]
    assert plan_remove(checkpoints, checkpoints[:1]).warnings == ()
    made = plan_remove(checkpoints, checkpoints[:2])
    assert made.warnings == ("No checkpoint with finite weights will be left.",)


def test_rm_does_not_warn_of_losing_what_never_was() -> None:
    checkpoints = many(1, 2, 3, nonfinite=("w",))
    assert plan_remove(checkpoints, checkpoints[:1]).warnings == ()


def test_rm_warns_of_links_that_will_dangle() -> None:
    checkpoints = [one(1, aliases=("best",)), one(2)]
    made = plan_remove(checkpoints, checkpoints[:1])
    assert made.warnings == ("Link best will point to nothing without step_1.",)


# --- real folders


def test_a_scanned_run_is_planned_as_its_folder_says(tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "run",
        [100, 200, 300],
        metrics={100: {"eval_loss": 1.0}, 200: {"eval_loss": 0.5}, 300: {"eval_loss": 0.7}},
        policy=["keep-last 1"],
    )
    make_checkpoint(run, "step_400", step=400, marker=False)
    os.link(run / "step_100" / "model.safetensors", run / "step_300" / "linked.safetensors")
    found = scan_run(run)
    made = plan(found.checkpoints, "keep-last 1", "keep-best 1")
    assert actions(made) == {
        "step_100": "remove",
        "step_200": "keep",
        "step_300": "keep",
        "step_400": "skip",
    }
    weights = (run / "step_100" / "model.safetensors").stat().st_size
    assert made.frees == found.checkpoints[0].size - weights


def test_a_later_attempt_takes_the_abandoned_branch_out_of_the_ranking(tmp_path: Path) -> None:
    attempts: list[dict[str, object]] = [
        {"attempt": 1, "parent": None, "start_step": 0, "started": None},
        {"attempt": 2, "parent": {"name": "step_100", "step": 100}, "start_step": 100},
    ]
    run = make_run(
        tmp_path / "run",
        [100, 200, 300],
        attempts=attempts,
        metrics={100: {"loss": 2.0}, 200: {"loss": 1.0}, 300: {"loss": 0.5}},
    )
    make_checkpoint(run, "step_150", step=150, attempt=2, metrics={"loss": 1.9})
    made = plan(scan_run(run).checkpoints, "keep-last 1", "keep-best 1:loss")
    assert actions(made) == {
        "step_100": "remove",
        "step_150": "keep",
        "step_200": "skip",
        "step_300": "skip",
    }


# --- ahead of a save


@pytest.mark.parametrize(
    ("rules", "goes"),
    [
        (["keep-last 3"], [1]),
        (["keep-last 2"], [1, 2]),
        (["keep-last 1"], [1, 2]),  # the newest that really stands stays
        (["keep-last 4"], []),
        (["keep-every 2"], [1]),
        (["keep-best 1:loss"], [1, 2]),
        (["keep-best 3:loss"], [1]),
    ],
)
def test_a_coming_checkpoint_takes_the_place_of_what_the_rules_would_not_keep_beside_it(
    rules: list[str], goes: list[int]
) -> None:
    standing = [one(s, metrics={"loss": 9.0 - s}) for s in (1, 2, 3)]
    coming = one(4, metrics={"loss": 0.5})
    made = plan_ahead(standing, [parse_rule(r) for r in rules], coming=coming, now=NOW)
    assert [r.checkpoint.step for r in made.rows] == [1, 2, 3]
    assert [r.checkpoint.step for r in made.removals] == goes


def test_until_it_stands_the_newest_ones_of_every_run_id_stay_with_a_reason() -> None:
    standing = [
        *many(1, 2),
        one(3, nonfinite=("w",)),
        *many(4, run_id="b"),
        *many(5, run_id="c", state=State.WEIGHTS),
    ]
    made = plan_ahead(standing, [KeepLast(1)], coming=one(6), now=NOW)
    assert kept(made) == [2, 3, 4, 5]
    why = {r.checkpoint.step: r.reasons for r in made.rows}
    assert why[2] == why[3] == ("needed until step_6 stands",)


# --- properties


def try_plan(
    checkpoints: Sequence[Checkpoint], rules: Sequence[Rule], **options: Any
) -> PrunePlan | None:
    """The plan, or None where a group has no value of a metric."""
    try:
        return plan_prune(checkpoints, rules, now=NOW, **options)
    except UnsafePruneError:
        return None


@given(checkpoints_strategy(), rules_strategy, protected_strategy, st.booleans(), st.booleans())
def test_what_must_stay_stays(
    checkpoints: list[Checkpoint],
    rules: list[Rule],
    protected: dict[str, str],
    incomplete: bool,
    live: bool,
) -> None:
    made = try_plan(checkpoints, rules, protected=protected, incomplete=incomplete, live=live)
    if made is None:
        return
    assert Counter(id(r.checkpoint) for r in made.rows) == Counter(map(id, checkpoints))
    assert all(row.reasons for row in made.rows)
    for row in made.removals:
        c = row.checkpoint
        assert c.pin is None
        assert not c.aliases
        assert c.staged or c.name not in protected
        assert c.state not in (State.UNKNOWN, State.WRITING)
        assert c.current or not c.complete
        if not c.complete:
            assert incomplete
            assert not live
        assert 0 <= row.frees <= c.size
    removed = {id(r.checkpoint) for r in made.removals}
    for run_id in {c.run_id for c in checkpoints}:
        mine = [c for c in checkpoints if c.run_id == run_id]
        left = [c for c in mine if id(c) not in removed]
        newest = newest_resumable(mine) or newest_complete(mine)
        assert newest is None or any(c is newest for c in left)
        if any(c.complete and c.current and c.resumable and not c.nonfinite for c in mine):
            assert any(c.complete and c.resumable and not c.nonfinite for c in left)


@given(checkpoints_strategy(), rules_strategy, protected_strategy, st.booleans())
def test_planning_again_after_carrying_out_changes_nothing(
    checkpoints: list[Checkpoint],
    rules: list[Rule],
    protected: dict[str, str],
    incomplete: bool,
) -> None:
    first = try_plan(checkpoints, rules, protected=protected, incomplete=incomplete)
    if first is None:
        return
    stay = [r.checkpoint for r in first.rows if r.action is not Action.REMOVE]
    second = try_plan(stay, rules, protected=protected, incomplete=incomplete)
    assert second is not None
    assert second.removals == ()


@given(
    checkpoints_strategy(), rules_strategy, protected_strategy, st.integers(0, 20), st.floats(-9, 9)
)
def test_what_must_stay_now_stays_ahead_of_a_save_too(
    checkpoints: list[Checkpoint],
    rules: list[Rule],
    protected: dict[str, str],
    step: int,
    loss: float,
) -> None:
    coming = one(step, name="step_99", created=NOW, metrics={"loss": loss, "acc": loss})
    try:
        ahead = plan_ahead(checkpoints, rules, coming=coming, now=NOW, protected=protected)
    except (RefusedError, UnsafePruneError):
        return
    assert Counter(id(r.checkpoint) for r in ahead.rows) == Counter(map(id, checkpoints))
    goes = {id(r.checkpoint) for r in ahead.removals}
    least = plan_prune(checkpoints, [KeepLast(1)], now=NOW, protected=protected)
    for row in least.rows:
        must = [r for r in row.reasons if r not in ("last 1", "its step is unknown")]
        if row.action is Action.KEEP and must:
            assert id(row.checkpoint) not in goes
    after = try_plan([*checkpoints, coming], rules, protected=protected)
    assert after is not None
    assert goes <= {id(r.checkpoint) for r in after.removals}


@given(checkpoints_strategy(), rules_strategy, rules_strategy)
def test_more_rules_never_remove_more(
    checkpoints: list[Checkpoint], rules: list[Rule], further: list[Rule]
) -> None:
    few, more = try_plan(checkpoints, rules), try_plan(checkpoints, [*rules, *further])
    if few is None or more is None:
        return
    assert {id(r.checkpoint) for r in more.removals} <= {id(r.checkpoint) for r in few.removals}


@given(checkpoints_strategy(), rules_strategy, st.randoms(use_true_random=False))
def test_the_order_of_the_input_changes_nothing(
    checkpoints: list[Checkpoint], rules: list[Rule], shuffler: random.Random
) -> None:
    shuffled = checkpoints[:]
    shuffler.shuffle(shuffled)
    a, b = try_plan(checkpoints, rules), try_plan(shuffled, rules)
    if a is None or b is None:
        assert a is b
        return
    assert a.rows == b.rows
    assert set(a.notes) == set(b.notes)


@st.composite
def linked(draw: st.DrawFn) -> tuple[list[Checkpoint], list[tuple[int, list[int]]]]:
    """Checkpoints that share inodes, and each inode's size and links by checkpoint.

    The last place of the links is outside of every checkpoint.
    """
    count = draw(st.integers(1, 6))
    inodes = [
        (
            draw(st.integers(0, 40)),
            draw(st.lists(st.integers(0, 2), min_size=count + 1, max_size=count + 1)),
        )
        for _ in range(draw(st.integers(0, 6)))
    ]
    made = []
    for i in range(count):
        size, shared = 0, []
        for number, (file_size, links) in enumerate(inodes):
            if links[i]:
                size += file_size
                if sum(links) > 1:
                    shared.append(link(number, size=file_size, links=sum(links), here=links[i]))
        made.append(
            one(i, size=size, shared=tuple(shared), run_id=draw(st.sampled_from(["a", "b"])))
        )
    return made, inodes


@given(linked(), rules_strategy.filter(lambda rs: not any(isinstance(r, KeepBest) for r in rs)))
def test_frees_are_what_deleting_gives_back(
    case: tuple[list[Checkpoint], list[tuple[int, list[int]]]], rules: list[Rule]
) -> None:
    checkpoints, inodes = case
    checkpoints = [replace(c, created=NOW - timedelta(days=9)) for c in checkpoints]
    made = plan_prune(checkpoints, rules, now=NOW)
    left = [links[:] for _, links in inodes]
    for row in made.rows:
        if row.action is not Action.REMOVE:
            assert row.frees == 0
            continue
        freed = 0
        for (size, _), links in zip(inodes, left, strict=True):
            step = row.checkpoint.step
            assert step is not None
            had = sum(links)
            links[step] = 0
            if had and not sum(links):
                freed += size
        assert row.frees == freed
    assert made.frees <= sum(size for size, _ in inodes)


def test_twenty_thousand_checkpoints_are_planned_and_judged_at_once() -> None:
    values = random.Random(0)
    checkpoints = [
        one(
            s,
            created=NOW - timedelta(minutes=s),
            metrics={"loss": values.random(), "eval_loss": values.random(), "acc": values.random()},
        )
        for s in range(20_000)
    ]
    policy = ("keep-last 3", "keep-best 2:eval_loss", "keep-every 100", "keep-within 7d")
    run = run_of(checkpoints, policy=policy)

    def best_of_three(call: Any) -> float:
        times = []
        for _ in range(3):
            begun = time.process_time()
            call()
            times.append(time.process_time() - begun)
        return min(times)

    rules = [parse_rule(r) for r in policy]
    # Measured: about 0.1 s each on one core of 2023; the bound allows for slow machines.
    assert best_of_three(lambda: standings(run, now=NOW)) < 0.6
    assert best_of_three(lambda: plan_prune(checkpoints, rules, now=NOW)) < 0.6
