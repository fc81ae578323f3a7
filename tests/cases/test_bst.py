"""What "best" means: which way is better, ties, and values that are missing."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from ckptui.scan import scan_run
from tests.cases.harness import (
    ckptui,
    latest,
    listed,
    plan,
    prune,
    remark,
    resumed,
    verified,
)
from tests.factory import make_checkpoint, make_run

if TYPE_CHECKING:
    from pathlib import Path


def best(run: Path, word: str = "best") -> str:
    return str(ckptui("show", word, "--run", run, "--json").json()["checkpoint"]["name"])


@pytest.mark.parametrize(
    ("metric", "lower_is_better"),
    [
        ("eval_dev_loss", True),
        ("wer", True),
        ("perplexity", True),
        ("eval_accuracy", False),
        ("val/Top1.acc", False),
    ],
)
def test_B87_the_direction_follows_a_stated_rule_and_is_printed(
    tmp_path: Path, metric: str, lower_is_better: bool
) -> None:
    values: dict[int, dict[str, float | None]] = {
        step: {metric: value} for step, value in ((10, 0.5), (20, 0.1), (30, 0.9), (40, 0.4))
    }
    run = make_run(tmp_path / "run", values, metrics=values)
    expected = "step_20" if lower_is_better else "step_30"
    told = f"best by {metric}: {'lower' if lower_is_better else 'higher'} is better"

    answer = ckptui("show", f"best:{metric}", "--run", run)
    assert answer.out.split()[0] == expected
    assert told in answer.err
    assert best(run, f"best:{metric}") == expected
    rules = ["--keep-best", f"1:{metric}"]
    assert told in ckptui("prune", run, *rules, "--dry-run").err
    assert prune(run, *rules) == {expected, "step_40"}


def test_B87_a_direction_that_is_not_known_is_refused(tmp_path: Path) -> None:
    values: dict[int, dict[str, float | None]] = {1: {"score_x": 0.5}, 2: {"score_x": 0.1}}
    run = make_run(tmp_path / "run", [1, 2, 3], metrics=values)

    for words in (
        ["show", "best:score_x", "--run"],
        ["prune", "--keep-best", "1:score_x", "--yes"],
    ):
        refused = ckptui(*words, run, "--json", code=1).json()["error"]
        assert refused["kind"] == "refused"
        assert "score_x:min" in refused["message"]
    assert [c["best"] for c in listed(run)] == [[], [], []]
    assert best(run, "best:score_x:min") == "step_2"
    assert prune(run, "--keep-best", "1:score_x:max") == {"step_1", "step_3"}


@pytest.mark.parametrize("created", list(itertools.permutations([10, 20, 30])))
def test_B88_of_equal_values_the_later_step_is_best_everywhere(
    tmp_path: Path, created: tuple[int, ...]
) -> None:
    losses = {10: 0.2, 20: 0.9, 30: 0.2}
    run = make_run(tmp_path / "run")
    for step in created:
        make_checkpoint(run, f"step_{step}", step=step, metrics={"loss": losses[step]})
    make_checkpoint(run, "step_40", step=40, metrics={"loss": 5.0})

    assert best(run, "best:loss") == "step_30"
    assert [c["name"] for c in listed(run) if c["best"] == ["loss"]] == ["step_30"]
    assert prune(run, "--keep-best", "1:loss") == {"step_30", "step_40"}


def test_B90_a_value_of_another_step_is_not_borrowed(tmp_path: Path) -> None:
    rows = [{"step": s, "attempt": 1, "loss": s / 10} for s in (9, 19, 29)]
    run = make_run(tmp_path / "run", [10, 20, 30], rows=rows)

    assert [c["metrics"] for c in listed(run)] == [{}, {}, {}]
    assert [c["best"] for c in listed(run)] == [[], [], []]
    missing = ckptui("show", "best:loss", "--run", run, "--json", code=1).json()["error"]
    assert missing["kind"] == "not_found"
    ckptui("prune", run, "--keep-best", "1:loss", "--yes", code=1)
    assert len(listed(run)) == 3


def test_B91_checkpoints_without_a_value_stand_behind_those_with_one(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [100, 200, 300], metrics={100: {"loss": 1.0}})
    remark(run / "step_300", metrics=...)

    assert best(run, "best:loss") == "step_100"
    assert prune(run, "--keep-best", "2:loss") == {"step_100", "step_300"}
    text = ckptui("ls", run).out
    assert " loss " in text
    assert [c["metrics"] for c in listed(run)] == [{"loss": 1.0}, {}]


def test_B91_sorting_by_the_metric_puts_blanks_last(tmp_path: Path) -> None:
    from ckptui.ranking import ranked

    run = make_run(tmp_path / "run", [100, 200, 300, 400], metrics={100: {"loss": 1.0}})
    remark(run / "step_200", metrics={"loss": "high"})
    remark(run / "step_300", metrics=...)
    remark(run / "step_400", metrics={"loss": None})

    found = ranked(scan_run(run).checkpoints, "loss", "min")
    assert [c.name for c in found] == ["step_100"]
    assert plan(run, "--keep-best", "1:loss")["step_200"] == "remove"


def test_B92_one_bad_value_long_ago_marks_nothing_as_unhealthy(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"step": s, "attempt": 1, "grad_norm": "NaN" if s == 2 else 0.5} for s in range(1, 11)
    ]
    run = make_run(tmp_path / "run", [5, 10], rows=rows, metrics={10: {"grad_norm": 0.5}})

    assert verified(run)["step_10"]["status"] == "verified"
    (at_10,) = [c for c in listed(run) if c["step"] == 10]
    assert (at_10["state"], at_10["nonfinite"], at_10["problems"]) == ("ok", [], [])
    answer = ckptui("resume-cmd", "latest", "--run", run, "--json").json()
    assert answer["warnings"] == []
    assert latest(run) == resumed(run) == "step_10"
    shown = ckptui("metrics", run, "--json").json()["rows"]
    assert shown[1]["metrics"] == {"grad_norm": None}
