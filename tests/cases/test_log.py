"""The history of metrics over stops, rewinds and values that are no numbers."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.cases.harness import ckptui, listed, standing, tree, verified
from tests.cases.test_res import history, lines, weights
from tests.factory import make_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.recipe.harness import At, Outcome, Trainer

    Uninterrupted = Callable[..., tuple[Path, Outcome]]
    Kill = Callable[[str, int], At]


@pytest.mark.torch
def test_B125_a_resume_keeps_the_rows_of_before(
    tmp_path: Path, trainer: Trainer, kill_at: Kill
) -> None:
    run = tmp_path / "run"
    trainer.run(output_dir=run, at=kill_at("save", 6))
    before = (run / "metrics.jsonl").read_bytes()
    assert trainer.run(output_dir=run, resume_from="auto").code == 0
    assert (run / "metrics.jsonl").read_bytes().startswith(before)
    assert sorted(history(run)) == list(range(1, 13))


def test_B126_a_header_in_the_middle_and_a_new_metric_cost_nothing(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [2])
    rows = [
        json.dumps({"step": 1, "attempt": 1, "loss": 2.0}),
        "step,loss,accuracy",
        json.dumps({"step": 2, "attempt": 1, "loss": 1.0, "accuracy": 0.5}),
        "3,0.9,0.6",
        json.dumps({"step": 3, "attempt": 1, "accuracy": 0.75}),
    ]
    (run / "metrics.jsonl").write_text("\n".join(rows) + "\n")

    form = ckptui("metrics", run, "--json").json()
    assert [(r["step"], r["metrics"]) for r in form["rows"]] == [
        (1, {"loss": 2.0}),
        (2, {"loss": 1.0, "accuracy": 0.5}),
        (3, {"accuracy": 0.75}),
    ]
    assert [p["what"] for p in form["problems"]] == ["line 2 is damaged", "line 4 is damaged"]
    table = list(csv.DictReader(io.StringIO(ckptui("metrics", run, "--csv").out)))
    assert [(r["step"], r["loss"], r["accuracy"]) for r in table] == [
        ("1", "2.0", ""),
        ("2", "1.0", "0.5"),
        ("3", "", "0.75"),
    ]
    ckptui("ls", run)


@pytest.mark.torch
def test_B126_the_recipe_writes_whole_rows_only(
    tmp_path: Path, trainer: Trainer, kill_at: Kill
) -> None:
    run = tmp_path / "run"
    # At first nothing is evaluated: `eval_loss` is a metric that comes later.
    trainer.run(output_dir=run, at=kill_at("log", 4), eval_every_n_steps=100)
    with (run / "metrics.jsonl").open("ab") as f:
        f.write(b'{"step": 5, "epoch": 1, "lo')  # as a full disk leaves a row
    assert trainer.run(output_dir=run, resume_from="auto", eval_every_n_steps=2).code == 0

    torn = 0
    for line in (run / "metrics.jsonl").read_text().splitlines():
        try:
            assert {"step", "epoch", "time", "attempt"} < json.loads(line).keys()
        except json.JSONDecodeError:
            torn += 1
    assert torn == 1
    form = ckptui("metrics", run, "--json").json()
    assert [r["step"] for r in form["rows"]] == list(range(1, 13))
    assert len(form["problems"]) == 1
    assert "eval_loss" in form["rows"][-1]["metrics"]


@pytest.mark.torch
def test_B127_a_fresh_run_does_not_grow_on_another(tmp_path: Path, trainer: Trainer) -> None:
    run = tmp_path / "run"
    assert trainer.run(output_dir=run, epochs=1).code == 0
    before = tree(run)
    refused = trainer.run(output_dir=run, epochs=1)
    assert refused.code == 1
    assert "already holds a run" in refused.message()
    assert tree(run) == before


@pytest.mark.torch
def test_B130_training_and_evaluation_keep_one_grid_over_a_resume(
    tmp_path: Path, trainer: Trainer, uninterrupted: Uninterrupted, kill_at: Kill
) -> None:
    run = tmp_path / "run"
    how: dict[str, Any] = {
        "log_every_n_steps": 3,
        "eval_every_n_steps": 3,
        "save_every_n_steps": 7,
    }
    trainer.run(output_dir=run, at=kill_at("save", 7), **how)
    assert trainer.run(output_dir=run, resume_from="auto", **how).code == 0

    found = history(run)
    assert sorted(s for s, v in found.items() if "loss" in v) == [3, 6, 9, 12]
    assert sorted(s for s, v in found.items() if "eval_loss" in v) == [3, 6, 9, 12]
    whole, _ = uninterrupted(**how)
    assert found == history(whole)


@pytest.mark.torch
def test_B131_a_resumed_run_keeps_the_id_of_its_checkpoint(
    tmp_path: Path, trainer: Trainer, kill_at: Kill
) -> None:
    for name in ("one", "two"):
        trainer.run(output_dir=tmp_path / name, at=kill_at("save", 4))
    before = {name: {c["run_id"] for c in listed(tmp_path / name)} for name in ("one", "two")}
    assert before["one"] != before["two"]
    (tmp_path / "two" / "run.json").unlink()
    for name in ("one", "two"):
        assert trainer.run(output_dir=tmp_path / name, resume_from="auto").code == 0
        assert {c["run_id"] for c in listed(tmp_path / name)} == before[name]
        assert "step_12" in standing(tmp_path / name)


def test_B132_values_that_strict_json_lacks_are_read_and_never_written(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"step": 1, "attempt": 1, "loss": "NaN", "norm": "Infinity"},
        {"step": 2, "attempt": 1, "loss": 0.5, "norm": "-Infinity"},
    ]
    run = make_run(tmp_path / "run", [1, 2], rows=rows, metrics={2: {"loss": 0.25}})
    with (run / "metrics.jsonl").open("a") as f:
        f.write('{"step": 3, "attempt": 1, "loss": NaN, "norm": 1e400, "lr": -Infinity}\n')
    marker = run / "step_2" / "checkpoint.json"
    marker.write_text(marker.read_text().replace('"loss": 0.25', '"loss": NaN, "norm": 1e400'))

    first, second = listed(run)
    assert (first["state"], second["state"]) == ("ok", "ok")
    assert second["metrics"] == {"loss": None, "norm": None}
    assert [r["metrics"] for r in ckptui("metrics", run, "--json").json()["rows"]] == [
        {"loss": None, "norm": None},
        {"loss": 0.5, "norm": None},
        {"loss": None, "norm": None, "lr": None},
    ]
    for words in (["show", "2", "--run"], ["prune", "--keep-last", "1", "--dry-run"], ["log"]):
        ckptui(*words, run, "--json").json()
    assert verified(run)["step_2"]["status"] == "verified"
    assert " nan" in ckptui("ls", run).out


@pytest.mark.torch
def test_B133_two_rewinds_in_a_row_leave_one_value_a_step(
    tmp_path: Path, trainer: Trainer, uninterrupted: Uninterrupted
) -> None:
    run = tmp_path / "run"
    assert trainer.run(output_dir=run).code == 0
    for step in ("8", "4"):
        form = ckptui("resume-cmd", step, "--in-place", "--run", run, "--json").json()
        assert "will be moved to the trash" in " ".join(form["warnings"])
        command = form["argv"][3:]
        assert trainer.run_with(command).code == 0
        # The same words again do no harm.
        again = trainer.run_with(command)
        assert (again.code, again.order) == (0, [])

    rows = ckptui("metrics", run, "--json").json()["rows"]
    assert [r["step"] for r in rows] == list(range(1, 13))
    assert [r["attempt"] for r in rows] == [1] * 4 + [3] * 8
    every = ckptui("metrics", run, "--all-attempts", "--json").json()["rows"]
    assert len(every) == 12 + 4 + 8
    whole, _ = uninterrupted()
    assert history(run) == history(whole)
    assert weights(run / "step_12") == weights(whole / "step_12")
    assert standing(run) == standing(whole)
    assert all(c["current"] for c in listed(run))
    assert max(r["step"] for r in lines(run)) == 12
