from __future__ import annotations

import contextlib
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptui.errors import UsageError
from ckptui.rules import (
    KeepBest,
    KeepEvery,
    KeepLast,
    KeepNames,
    KeepWithin,
    Rule,
    direction,
    is_about_the_machine,
    parse_best,
    parse_duration,
    parse_rule,
)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("keep-last 3", KeepLast(3)),
        ("  keep-last   3 ", KeepLast(3)),
        ("keep-last 007", KeepLast(7)),
        ("keep-every 1000", KeepEvery(1000)),
        ("keep-best 1", KeepBest(1)),
        ("keep-best 2:eval_loss", KeepBest(2, "eval_loss")),
        ("keep-best 2:eval_loss:min", KeepBest(2, "eval_loss", "min")),
        ("keep-best 1:val/acc:max", KeepBest(1, "val/acc", "max")),
        ("keep-best 1:loss:median", KeepBest(1, "loss:median")),
        ("keep-best 1:loss:median:min", KeepBest(1, "loss:median", "min")),
        ("keep-best 1:min", KeepBest(1, "min")),
        ("keep-within 7d", KeepWithin(timedelta(days=7), "7d")),
        ("keep step_1,step_2", KeepNames(("step_1", "step_2"))),
    ],
)
def test_a_policy_text_means_its_rule(text: str, rule: Rule) -> None:
    assert parse_rule(text) == rule


@pytest.mark.parametrize(
    "text",
    [
        "",
        "keep",
        "keep-last",
        "keep-last x",
        "keep-last 3 4",
        "keep-last 1.5",
        "keep-last \uff13",
        "keep-last +3",
        "keep-last 1_000",
        "keep-last 9999999999999999999",
        "keep-best",
        "keep-best x:loss",
        "keep-best :loss",
        "keep-best 1:",
        "keep-best 1::min",
        "keep-within",
        "keep-within 7",
        "keep-within 7 d",
        "keep-within d",
        "keep-within 1.5h",
        "keep-within -1d",
        "keep-within 7y",
        "--keep-last 3",
        "keep_last 3",
        "keep-all 3",
    ],
)
def test_malformed_rules_are_wrong_usage(text: str) -> None:
    with pytest.raises(UsageError):
        parse_rule(text)


@pytest.mark.parametrize("text", ["0", "-1", "-5"])
@pytest.mark.parametrize("rule", ["keep-last", "keep-every", "keep-best"])
def test_b57_b58_counts_below_one_are_wrong_usage(rule: str, text: str) -> None:
    with pytest.raises(UsageError, match="at least 1"):
        parse_rule(f"{rule} {text}")


def test_records_refuse_counts_below_one_too() -> None:
    for make in (lambda: KeepLast(0), lambda: KeepEvery(-1), lambda: KeepBest(0, "loss")):
        with pytest.raises(UsageError):
            make()


def test_a_period_of_nothing_is_wrong_usage() -> None:
    with pytest.raises(UsageError):
        parse_rule("keep-within 0d")
    with pytest.raises(UsageError):
        KeepWithin(timedelta(0), "0s")


def test_thinning_is_refused_in_a_sentence() -> None:
    for text in ("keep-last 3:weights", "keep-every 100:weights"):
        with pytest.raises(UsageError, match="not supported yet"):
            parse_rule(text)


@pytest.mark.parametrize(
    ("text", "period"),
    [
        ("90s", timedelta(seconds=90)),
        ("30m", timedelta(minutes=30)),
        ("12h", timedelta(hours=12)),
        ("7d", timedelta(days=7)),
        ("2w", timedelta(days=14)),
        ("0d", timedelta(0)),
    ],
)
def test_durations(text: str, period: timedelta) -> None:
    assert parse_duration(text) == period


@pytest.mark.parametrize("text", ["999999999w", "9999999999d", "٣d", "7D", "", " 7d", "7d\n"])
def test_malformed_and_endless_durations_are_wrong_usage(text: str) -> None:
    with pytest.raises(UsageError):
        parse_duration(text)


metrics = st.text(min_size=1).filter(
    lambda m: (
        m == m.strip() and not m.startswith(":") and m.rpartition(":")[2] not in ("min", "max")
    )
)


@given(
    st.one_of(
        st.builds(KeepLast, st.integers(1, 10**17)),
        st.builds(KeepEvery, st.integers(1, 10**17)),
        st.builds(KeepBest, st.integers(1, 10**17)),
        st.builds(KeepBest, st.integers(1, 10**17), metrics, st.sampled_from([None, "min", "max"])),
        st.sampled_from(["1s", "90m", "24h", "7d", "3w"]).map(
            lambda t: KeepWithin(parse_duration(t), t)
        ),
    )
)
def test_every_rule_reads_back_from_its_text(rule: Rule) -> None:
    assert parse_rule(str(rule)) == rule


@given(st.text())
def test_any_text_is_a_rule_or_wrong_usage(text: str) -> None:
    for word in ("", "keep-last ", "keep-best ", "keep-within "):
        with contextlib.suppress(UsageError):
            assert isinstance(parse_rule(word + text), Rule)


@pytest.mark.parametrize(
    ("metric", "mode"),
    [
        ("loss", "min"),
        ("eval_loss", "min"),
        ("eval_dev_loss", "min"),
        ("val/loss", "min"),
        ("Eval Loss", "min"),
        ("perplexity", "min"),
        ("ppl", "min"),
        ("wer", "min"),
        ("char_error", "min"),
        ("test.rmse", "min"),
        ("eval_accuracy", "max"),
        ("top1-acc", "max"),
        ("val_F1", "max"),
        ("rouge", "max"),
        ("mean_reward", "max"),
        ("score", "max"),
        ("score_x", None),
        ("loss_scale", None),
        ("lossless", None),
        ("evalloss", None),
        ("ér_wer", "min"),
        ("éwer", None),
        ("step_time", None),
        ("", None),
        ("__", None),
    ],
)
def test_b87_the_direction_comes_from_the_last_word(metric: str, mode: str | None) -> None:
    assert direction(metric) == mode


@pytest.mark.parametrize(
    ("metric", "is_one"),
    [
        ("lr", True),
        ("train/lr", True),
        ("learning_rate", True),
        ("grad_norm", True),
        ("tokens_per_second", True),
        ("samples-per-second", True),
        ("throughput", True),
        ("peak_memory", True),
        ("word_error_rate", False),
        ("norm", False),
        ("eval_loss", False),
        ("memory_loss", False),
    ],
)
def test_metrics_that_no_checkpoint_is_best_in(metric: str, is_one: bool) -> None:
    assert is_about_the_machine(metric) is is_one


def test_best_is_cut_at_the_first_colon() -> None:
    assert parse_best("3:a:b:max") == KeepBest(3, "a:b", "max")
