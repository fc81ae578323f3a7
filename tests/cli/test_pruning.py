"""`prune` and `rm`: the plan, the rules' options, the doing, and what is told of it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from ckptui import lock, remove
from ckptui.errors import StorageError
from tests.cli import forms
from tests.cli.harness import answer, ckptui, names, ok, tree
from tests.factory import make_checkpoint, make_run

if TYPE_CHECKING:
    from pathlib import Path


def plan(*words: str | Path, code: int = 0) -> dict[str, Any]:
    found = answer(*words, code=code)
    forms.check(found, forms.PLAN)
    return found


def actions(found: dict[str, Any]) -> dict[str, str]:
    return {row["name"]: row["action"] for row in found["plan"]}


def removed(found: dict[str, Any]) -> list[str]:
    return [row["name"] for row in found["plan"] if row["action"] == "remove"]


def error_of(*words: str | Path, code: int) -> dict[str, Any]:
    found = answer(*words, code=code)
    forms.check(found, forms.ERROR)
    return dict(found["error"])


def test_json_without_yes_only_plans(run: Path) -> None:
    before = tree(run)
    found = plan("prune", run, "--keep-last", "1", "--keep-best", "1")
    assert [(r["name"], r["action"], r["reasons"]) for r in found["plan"]] == [
        ("step_10", "remove", ["no rule keeps it"]),
        ("step_20", "remove", ["no rule keeps it"]),
        ("step_30", "keep", ["best 1 by eval_loss"]),
        ("step_100", "keep", ["newest resumable", "last 1"]),
    ]
    assert found["frees"] == sum(r["frees"] for r in found["plan"]) > 2000
    assert found["plan"][0]["path"] == str(run / "step_10")
    assert (found["executed"], found["results"], found["freed"]) == (False, [], 0)
    assert tree(run) == before
    assert not (run / ".ckptui").exists()


def test_json_with_yes_answers_with_what_happened(run: Path) -> None:
    found = plan("prune", run, "--keep-last", "1", "--yes")
    assert found["executed"] is True
    assert [
        (r["name"], r["action"], r["done"], r["error"], r["freed"]) for r in found["results"]
    ] == [(name, "remove", True, None, 0) for name in ("step_10", "step_20", "step_30")]
    assert found["freed"] == 0
    assert names(run) == ["step_100"]


def test_delete_gives_back_what_the_plan_said(run: Path) -> None:
    size = sum(len(data) for data in tree(run / "step_10").values())
    found = plan("prune", run, "--keep-last", "3", "--delete", "--yes")
    assert found["frees"] == found["freed"] == found["results"][0]["freed"] == size
    assert answer("trash", "list", "--run", run)["items"] == []


def test_dry_run_changes_nothing_even_with_yes(run: Path) -> None:
    before = tree(run)
    assert plan("prune", run, "--keep-last", "1", "--dry-run", "--yes")["executed"] is False
    text = ok("prune", run, "--keep-last", "1", "--dry-run", "--yes")
    assert "remove 3" in text.out
    assert tree(run) == before


def test_the_same_plan_is_shown_and_done(run: Path) -> None:
    rules = ("--keep-last", "1", "--keep-best", "1:eval_loss")
    planned = removed(plan("prune", run, *rules))
    done = plan("prune", run, *rules, "--yes")
    assert planned == removed(done) == [r["name"] for r in done["results"]]


def test_the_text_shows_reasons_and_the_exact_line_that_undoes_it(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a run's; $(x)", (1, 2, 3))
    found = ok("prune", run, "--keep-last", "2", "--yes")
    assert [line.split()[:2] for line in found.out.splitlines()[2:5]] == [
        ["remove", "step_1"],
        ["keep", "step_2"],
        ["keep", "step_3"],
    ]
    assert "no rule keeps it" in found.out
    assert "moved 1 checkpoint (" in found.out
    undo = next(line for line in found.err.splitlines() if line.startswith("Undo: "))
    words = shlex.split(undo.removeprefix("Undo: ckptui "))
    ok(*words)
    assert names(run) == ["step_1", "step_2", "step_3"]


@pytest.mark.parametrize(
    "rules",
    [
        [],
        ["--keep", "step_10"],
        ["--keep-last", "0"],
        ["--keep-last", "-1"],
        ["--keep-last", "x"],
        ["--keep-last", ""],
        ["--keep-last", "1.5"],
        ["--keep-last", "٣"],
        ["--keep-last", "9" * 5000],
        ["--keep-every", "0"],
        ["--keep-every", "2:weights"],
        ["--keep-best", "0"],
        ["--keep-best", "0:eval_loss"],
        ["--keep-best", "x:eval_loss"],
        ["--keep-best", "1:"],
        ["--keep-best", ":eval_loss"],
        ["--keep-within", "7"],
        ["--keep-within", "0d"],
        ["--keep-within", "7 d"],
        ["--keep-within", "-7d"],
        ["--keep-within", "1y"],
        ["--keep-within", "999999999w"],
        ["--keep-last"],
        ["--keep-first", "3"],
    ],
)
def test_a_malformed_rule_is_wrong_usage_and_removes_nothing(run: Path, rules: list[str]) -> None:
    error = error_of("prune", run, *rules, "--yes", code=2)
    assert error["kind"] == "usage"
    told = ckptui("prune", run, *rules, "--yes")
    assert told.code == 2
    assert told.out == ""
    assert told.err.startswith("ckptui: ")
    assert len(names(run)) == 4


def test_keep_best_is_cut_at_the_first_colon_and_repeatable(tmp_path: Path) -> None:
    metrics = {
        s: {"val:loss": float(s), "acc:max": float(-s), "eval_loss": 1.0} for s in (1, 2, 3, 4)
    }
    run = make_run(tmp_path / "r", metrics, metrics=metrics)
    found = plan("prune", run, "--keep-best", "1:val:loss", "--keep-best", "1:acc:max:max")
    assert removed(found) == ["step_2", "step_3"]
    assert "best by val:loss: lower is better" in found["notes"]
    assert "best by acc:max: higher is better" in found["notes"]
    told = ok("prune", run, "--keep-best", "1:val:loss", "--dry-run")
    assert "best by val:loss: lower is better" in told.err


def test_keep_best_without_a_metric_takes_the_policys_then_eval_loss(tmp_path: Path) -> None:
    metrics = {s: {"eval_loss": float(s), "f1": float(s)} for s in (1, 2, 3)}
    mine = make_run(tmp_path / "a", metrics, metrics=metrics, policy=["keep-best 1:f1"])
    assert removed(plan("prune", mine, "--keep-best", "1")) == ["step_1", "step_2"]
    plain = make_run(tmp_path / "b", metrics, metrics=metrics)
    assert removed(plan("prune", plain, "--keep-best", "1")) == ["step_2"]
    other = make_run(tmp_path / "c", (1, 2), metrics={1: {"x": 1.0}, 2: {"x": 2.0}})
    error = error_of("prune", other, "--keep-best", "1", code=1)
    assert (error["kind"], error["candidates"]) == ("refused", ["x"])


def test_incomplete_alone_keeps_every_complete_one(run: Path) -> None:
    make_checkpoint(run, "step_200", step=200, marker=False)
    assert actions(plan("prune", run, "--keep-last", "4"))["step_200"] == "skip"
    assert removed(plan("prune", run, "--incomplete")) == ["step_200"]
    ok("prune", run, "--incomplete", "--yes")
    assert names(run) == ["step_10", "step_20", "step_30", "step_100"]


def test_names_to_keep_protect_beside_rules(run: Path) -> None:
    found = plan("prune", run, "--keep-last", "1", "--keep", "step_10", "--keep", "step_20")
    assert removed(found) == ["step_30"]
    error = error_of("prune", run, "--keep-last", "1", "--keep", "step_1", "--yes", code=1)
    assert error["kind"] == "not_found"
    assert "Did you mean step_10?" in error["message"]
    assert error["candidates"] == ["step_10", "step_20", "step_30", "step_100"]
    assert len(names(run)) == 4


def test_several_runs_need_all_runs(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for name in ("a", "b"):
        make_run(root / name, (1, 2))
    error = error_of("prune", root, "--keep-last", "1", "--yes", code=1)
    assert error["kind"] == "ambiguous"
    assert error["candidates"] == [str(root / "a"), str(root / "b")]
    found = plan("prune", root, "--keep-last", "1", "--all-runs", "--yes")
    assert {(r["run"], r["name"]) for r in found["results"]} == {
        (str(root / "a"), "step_1"),
        (str(root / "b"), "step_1"),
    }
    assert names(root / "a") == names(root / "b") == ["step_2"]


def test_a_run_with_a_run_inside_is_one_run(run: Path) -> None:
    make_run(run / "eval" / "inner", (1, 2))
    assert {r["run"] for r in plan("prune", run, "--keep-last", "1")["plan"]} == {str(run)}
    both = plan("prune", run, "--keep-last", "1", "--all-runs")
    assert len({r["run"] for r in both["plan"]}) == 2


def test_the_root_of_one_run_means_that_run(run: Path) -> None:
    assert removed(plan("prune", run.parent, "--keep-last", "3")) == ["step_10"]
    assert removed(plan("prune", "--run", run.parent, "--keep-last", "3")) == ["step_10"]
    assert ckptui("prune", run, "--run", run, "--keep-last", "3").code == 2


def test_a_path_without_a_run_says_how_much_was_not_recognised(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for name in ("iter_1", "iter_2"):
        (root / name).mkdir(parents=True)
    error = error_of("prune", root, "--keep-last", "1", "--yes", code=1)
    assert error["kind"] == "not_found"
    assert "2 names there, none of it recognised" in error["message"]
    assert error_of("prune", tmp_path / "no", "--keep-last", "1", code=1)["kind"] == "not_found"


def test_a_checkpoint_is_not_a_run_to_prune(run: Path) -> None:
    error = error_of("prune", run / "step_10", "--keep-last", "1", "--yes", code=1)
    assert error["kind"] == "not_found"
    assert error["candidates"] == [str(run)]


def test_what_another_tool_wrote_is_never_a_target(tmp_path: Path) -> None:
    run = tmp_path / "torchtune"
    for step in (1, 2):
        make_checkpoint(run, f"step_{step}", step=step, marker=False)
    before = tree(run)
    for rules in (["--incomplete"], ["--keep-last", "1"], ["--keep-last", "1", "--incomplete"]):
        found = plan("prune", run, *rules, "--yes", "--delete")
        assert actions(found) == {"step_1": "skip", "step_2": "skip"}
        assert found["results"] == []
    assert error_of("rm", "step_1", "--run", run, "--yes", code=1)["kind"] == "refused"
    assert tree(run) == before


def test_run_ids_are_pruned_each_on_its_own_and_can_be_chosen(run: Path) -> None:
    for step in (40, 50):
        make_checkpoint(run, f"step_{step}", step=step, run_id="ab" + "0" * 30)
    assert removed(plan("prune", run, "--keep-last", "1")) == [
        "step_10",
        "step_20",
        "step_30",
        "step_40",
    ]
    found = plan("prune", run, "--keep-last", "1", "--run-id", "ab")
    assert actions(found) == {"step_40": "remove", "step_50": "keep"}
    assert (
        error_of("prune", run, "--keep-last", "1", "--run-id", "z", code=1)["kind"] == "not_found"
    )
    assert error_of("prune", run, "--keep-last", "1", "--run-id", "", code=1)["kind"] == "ambiguous"
    assert error_of("show", "latest", "--run", run, code=1)["kind"] == "ambiguous"
    assert answer("show", "latest", "--run", run, "--run-id", "01")["checkpoint"]["step"] == 100
    assert error_of("show", "latest", "--run", run, "--run-id", "x", code=1)["kind"] == "not_found"


def test_without_yes_off_a_terminal_is_wrong_usage_whatever_there_is_to_do(run: Path) -> None:
    for words in (["--keep-last", "1"], ["--keep-last", "9"], ["--keep-last", "1", "--delete"]):
        found = ckptui("prune", run, *words)
        assert found.code == 2
        assert "--yes" in found.err
    assert ckptui("rm", "step_10", "--run", run).code == 2
    assert len(names(run)) == 4


def test_nothing_to_remove_is_done(run: Path) -> None:
    found = ok("prune", run, "--keep-last", "9", "--yes")
    assert "Nothing to remove" in found.err


def test_one_failing_target_does_not_stop_the_others(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = remove.move_to_trash

    def fail(checkpoints: Any, **options: Any) -> str:
        if checkpoints[0].name == "step_20":
            msg = "The disk said no."
            raise StorageError(msg, path=run)
        return real(checkpoints, **options)

    monkeypatch.setattr(remove, "move_to_trash", fail)
    found = plan("prune", run, "--keep-last", "1", "--yes", code=1)
    assert [(r["name"], r["done"], r["error"]) for r in found["results"]] == [
        ("step_10", True, None),
        ("step_20", False, "The disk said no."),
        ("step_30", True, None),
    ]
    assert names(run) == ["step_20", "step_100"]
    told = ckptui("prune", run, "--keep-last", "1", "--yes")
    assert told.code == 1
    assert f"! {run / 'step_20'}: The disk said no." in told.err


def test_space_that_does_not_come_back_is_told(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (run / "step_10" / "extra.bin").write_bytes(bytes(2**21))
    usage = shutil.disk_usage(run)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    found = ok("prune", run, "--keep-last", "3", "--delete", "--yes")
    assert "deleted 1 checkpoint, freed 2.1 MB" in found.out
    assert "free space rose by 0 B" in found.err


def test_a_live_run_is_pointed_out(run: Path) -> None:
    with lock.acquire(run, report=print):
        found = ok("prune", run, "--keep-last", "1", "--dry-run")
    assert "being trained right now" in found.err


def test_rm_plans_exactly_what_is_named(run: Path) -> None:
    found = plan("rm", "step_10", "20", "--run", run)
    assert actions(found) == {"step_10": "remove", "step_20": "remove"}
    assert (found["executed"], found["freed"]) == (False, 0)
    assert len(names(run)) == 4
    ok("rm", "step_10", "20", "--run", run, "--dry-run")
    assert len(names(run)) == 4
    done = plan("rm", "step_10", "20", "--run", run, "--yes", "--delete")
    assert done["freed"] == done["frees"] > 0
    assert names(run) == ["step_30", "step_100"]


def test_rm_refuses_pinned_and_the_newest_resumable_and_then_removes_nothing(run: Path) -> None:
    ok("pin", "step_20", "--run", run)
    for name in ("step_20", "latest", "100"):
        error = error_of("rm", "step_10", name, "--run", run, "--yes", code=1)
        assert error["kind"] == "refused"
    assert len(names(run)) == 4


def test_rm_takes_incomplete_and_abandoned_ones(tmp_path: Path) -> None:
    attempts = [
        {"attempt": 1, "parent": None, "start_step": 0},
        {"attempt": 2, "parent": None, "start_step": 1},
    ]
    run = make_run(tmp_path / "r", (1, 5), attempts=attempts)
    make_checkpoint(run, "step_3", step=3, attempt=2)
    make_checkpoint(run, "step_9", step=9, marker=False)
    assert actions(plan("prune", run, "--keep-last", "1"))["step_5"] == "skip"
    ok("rm", "step_5", "step_9", "--run", run, "--yes")
    assert names(run) == ["step_1", "step_3"]


def test_rm_over_several_runs_by_path(tmp_path: Path) -> None:
    for name in ("a", "b"):
        make_run(tmp_path / name, (1, 2))
    ok("rm", tmp_path / "a" / "step_1", tmp_path / "b" / "step_1", "--yes")
    assert names(tmp_path / "a") == names(tmp_path / "b") == ["step_2"]


def test_rm_of_what_is_in_the_trash_is_refused(run: Path) -> None:
    ok("rm", "step_10", "--run", run, "--yes")
    (item,) = answer("trash", "list", "--run", run)["items"]
    error = error_of("rm", item["id"], "--run", run, "--yes", "--delete", code=1)
    assert error["kind"] == "refused"
    assert len(answer("trash", "list", "--run", run)["items"]) == 1


def test_hard_links_are_freed_once(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", (1, 2, 3))
    shared = run / "step_1" / "model.safetensors"
    outside = tmp_path / "kept"
    os.link(shared, outside)
    own = sum(len(d) for d in tree(run / "step_1").values()) - shared.stat().st_size
    found = plan("prune", run, "--keep-last", "2", "--delete", "--yes")
    assert found["frees"] == found["freed"] == own
    assert outside.exists()


def test_the_last_healthy_one_is_kept_with_a_warning(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", (1, 2))
    make_checkpoint(run, "step_3", step=3, nonfinite=["w"])
    found = plan("prune", run, "--keep-last", "1")
    assert actions(found) == {"step_1": "remove", "step_2": "keep", "step_3": "keep"}
    assert found["warnings"]
    assert (
        json.dumps(found["warnings"][0]).strip('"')
        in ok("prune", run, "--keep-last", "1", "--dry-run").err
    )
