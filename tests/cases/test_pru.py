"""What retention keeps and removes."""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.cases import foreign
from tests.cases.harness import (
    assert_ignored_within,
    assert_left_alone,
    ckptui,
    listed,
    plan,
    prune,
    resumed,
    standing,
    tree,
    verified,
    write,
)
from tests.factory import make_checkpoint, make_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.recipe.harness import Trainer

HOUR = 3600


def losses(run: Path, values: dict[int, float]) -> Path:
    return make_run(run, values, metrics={s: {"loss": v} for s, v in values.items()})


@pytest.mark.parametrize("count", ["-1", "0", "1.5", "all", ""])
@pytest.mark.parametrize("how", ["--yes", "--dry-run"])
def test_B57_B58_a_count_below_one_is_wrong_usage(tmp_path: Path, count: str, how: str) -> None:
    run = make_run(tmp_path / "run", [1, 2, 3, 4, 5])
    before = tree(run)
    for rule in ("--keep-last", "--keep-every", "--keep-best"):
        ckptui("prune", run, rule, count, how, code=2)
        ckptui("prune", run, f"{rule}={count}", how, code=2)
    assert tree(run) == before


def test_B57_keep_last_minus_one_deletes_nothing(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 2, 3, 4, 5])
    ckptui("prune", run, "--keep-last", "-1", "--yes", code=2)
    assert len(standing(run)) == 5


def test_B58_keep_last_zero_is_refused_dry_and_real(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 2, 3])
    dry = ckptui("prune", run, "--keep-last", "0", "--dry-run", "--json", code=2).json()
    real = ckptui("prune", run, "--keep-last", "0", "--yes", "--json", code=2).json()
    assert dry == real
    assert dry["error"]["kind"] == "usage"
    assert len(standing(run)) == 3


def test_B59_protecting_the_best_costs_none_of_the_last(tmp_path: Path) -> None:
    run = losses(tmp_path / "run", {100: 0.1, 200: 0.5, 300: 0.6, 400: 0.7, 500: 0.8})
    kept = prune(run, "--keep-last", "2", "--keep-best", "1:loss")
    assert kept == {"step_100", "step_400", "step_500"}


def test_B60_the_only_checkpoint_stays_and_again_stays(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [7])
    assert prune(run, "--keep-last", "1") == {"step_7"}
    before = tree(run)
    assert "Nothing to remove" in ckptui("prune", run, "--keep-last", "1", "--yes").err
    assert tree(run) == before


def test_B61_the_newest_resumable_stays_under_a_rule_by_metric(tmp_path: Path) -> None:
    run = losses(tmp_path / "run", {100: 0.1, 200: 0.2, 300: 0.3, 400: 0.4, 500: 0.5})
    assert prune(run, "--keep-best", "3:loss") == {"step_100", "step_200", "step_300", "step_500"}
    assert resumed(run) == "step_500"


def test_B62_keep_last_looks_at_no_metric(tmp_path: Path) -> None:
    run = losses(tmp_path / "run", {1: 0.1, 2: 0.2, 3: 8.0, 4: 9.0})
    assert prune(run, "--keep-last", "2") == {"step_3", "step_4"}


def test_B63_keep_last_counts_checkpoints_not_steps(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", range(400, 4001, 400))
    kept = prune(run, "--keep-last", "8")
    assert kept == {f"step_{n}" for n in range(1200, 4001, 400)}


@pytest.mark.torch
def test_B64_checkpoints_of_before_the_resume_count(
    tmp_path: Path, trainer: Trainer, stop_at: Callable[[int], Any]
) -> None:
    run = tmp_path / "run"
    how: dict[str, Any] = {"save_every_n_steps": 1, "keep_last_n_checkpoints": 3}
    assert trainer.run(output_dir=run, at=stop_at(6), **how).code == 75
    assert standing(run) == {"step_4", "step_5", "step_6"}
    assert trainer.run(output_dir=run, resume_from="auto", **how).code == 0
    assert standing(run) == {"step_10", "step_11", "step_12"}


@pytest.mark.torch
def test_B65_a_fork_deletes_nothing_where_it_came_from(tmp_path: Path, trainer: Trainer) -> None:
    source, fork = tmp_path / "a", tmp_path / "b"
    assert trainer.run(output_dir=source, max_steps=6, epochs=None).code == 0
    before = tree(source)
    how: dict[str, Any] = {"max_steps": 8, "epochs": None, "allow_changed": "max_steps"}
    outcome = trainer.run(
        output_dir=fork, resume_from=source / "step_4", keep_last_n_checkpoints=1, **how
    )
    assert outcome.code == 0, outcome.stderr
    assert standing(fork) == {"step_8"}
    after = tree(source)
    assert {k: v for k, v in after.items() if not k.startswith(".ckptui/leases")} == before
    assert not list(source.glob(".ckptui/leases/*"))


def test_B67_only_stale_staging_is_cleaned_up(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [100, 200])
    staging = run / ".ckptui" / "staging"
    make_checkpoint(staging, "step_300-aaaa", step=300, marker=False)
    make_checkpoint(staging, "step_400-bbbb", step=400, marker=False)
    write(run / "notes", {"todo.txt": b"x"})
    write(run / ".tmp_step_300_a", {"model.safetensors": b"x"})
    old = time.time() - 48 * HOUR
    for path in [*(staging / "step_300-aaaa").iterdir(), staging / "step_300-aaaa"]:
        os.utime(path, (old, old))
    before = tree(run)

    form = ckptui("prune", run, "--incomplete", "--dry-run", "--json").json()
    assert [r["path"] for r in form["plan"] if r["action"] == "remove"] == [
        str(staging / "step_300-aaaa")
    ]
    assert tree(run) == before
    # Unfinished saves are no checkpoints to a rule that counts.
    assert plan(run, "--keep-last", "2")["step_100"] == "keep"
    ckptui("prune", run, "--incomplete", "--yes")
    assert {p.name for p in staging.iterdir()} == {"step_400-bbbb"}
    assert (run / "notes" / "todo.txt").exists()
    assert (run / ".tmp_step_300_a").exists()


def test_B69_no_rule_and_a_rule_without_values_remove_nothing(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 2, 3])
    before = tree(run)
    ckptui("prune", run, "--yes", code=2)
    ckptui("prune", run, "--keep", "step_1", "--yes", code=2)
    ckptui("prune", run, "--keep-best", "1", "--yes", code=1)
    ckptui("prune", run, "--keep-best", "1:loss", "--yes", code=1)
    assert tree(run) == before


def test_B70_names_that_are_not_recognised_are_counted(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for n in range(3):
        write(root / f"ckpt_{n}_best", {"model.pt": foreign.zipped()})
    refused = ckptui("prune", root, "--keep-last", "2", "--yes", code=1)
    assert "3 names there, none of it recognised" in refused.err
    assert_left_alone(root)

    run = make_run(tmp_path / "run", [1, 2, 3])
    for n in range(3):
        write(run / f"step_{n}_best", {"model.pt": foreign.zipped()})
    assert_ignored_within(run, [f"step_{n}_best" for n in range(3)])


def test_B71_inner_folders_are_shown_and_outer_rules_leave_them(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1000, 2000])
    inner = {
        "checkpoint/global_step999/mp_rank_00.pt": foreign.zipped(),
        "checkpoint/global_step1999/mp_rank_00.pt": foreign.zipped(),
        "checkpoint/latest": b"global_step1999",
    }
    write(run / "step_2000", inner)
    before = tree(run / "step_2000")

    report = verified(run)["step_2000"]
    assert report["status"] == "warning"
    assert {p["file"] for p in report["problems"]} == set(inner)
    (at_2000,) = [c for c in listed(run) if c["step"] == 2000]
    assert at_2000["size"] == sum(
        p.stat().st_size for p in (run / "step_2000").rglob("*") if p.is_file()
    )
    assert prune(run, "--keep-last", "1", "--incomplete") == {"step_2000"}
    assert tree(run / "step_2000") == before

    write(run / "last.ckpt", inner)
    assert_ignored_within(run, ["last.ckpt"])
    write(tmp_path / "lightning" / "last.ckpt", inner)
    assert_left_alone(tmp_path / "lightning")


@pytest.mark.torch
def test_B72_a_pin_survives_pruning_and_saving_its_step_again(
    tmp_path: Path, trainer: Trainer
) -> None:
    run, fork = tmp_path / "run", tmp_path / "fork"
    assert trainer.run(output_dir=run).code == 0
    ckptui("pin", "4", "--run", run)
    before = tree(run / "step_4")
    assert prune(run, "--keep-last", "1", "--keep", "step_2") == {"step_2", "step_4", "step_12"}

    # In place it would be abandoned and saved anew: refused. A fork has a step 4 of its own.
    again = trainer.run(output_dir=run, resume_from=run / "step_2", rewind=2)
    assert again.code == 1
    assert "step_4" in again.message()
    assert "pinned" in again.message()
    assert trainer.run(output_dir=fork, resume_from=run / "step_2").code == 0
    assert (fork / "step_4").is_dir()
    assert tree(run / "step_4") == before


@pytest.mark.torch
def test_B72_a_pinned_broken_one_is_not_written_over(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from ckptui import TrainingRun
    from ckptui.errors import CheckpointExistsError

    where = tmp_path / "run"
    model = torch.nn.Linear(2, 1)
    with TrainingRun(where) as run:
        run.register(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
        run.resume()
        run.save(50)
        run.save(100)
    ckptui("pin", "100", "--run", where)
    (where / "step_100" / "model.safetensors").write_bytes(b"cut")
    before = tree(where / "step_100")
    with TrainingRun(where) as run:
        run.register(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
        assert run.resume() == 50
        with pytest.raises(CheckpointExistsError, match="pinned"):
            run.save(100)
    assert tree(where / "step_100") == before


def test_B74_a_dry_run_is_the_real_run_and_changes_no_byte(tmp_path: Path) -> None:
    values = {s: 1 / s for s in range(100, 1001, 100)}
    run = losses(tmp_path / "run", values)
    make_checkpoint(run, "step_1100", step=1100, marker=False)
    ckptui("pin", "300", "--run", run)
    rules = ["--keep-last", "2", "--keep-every", "500", "--keep-best", "1:loss", "--incomplete"]
    before = tree(run)

    dry = ckptui("prune", run, *rules, "--dry-run", "--json").json()
    assert tree(run) == before
    only = ckptui("prune", run, *rules, "--json").json()
    assert only["plan"] == dry["plan"]
    assert tree(run) == before

    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    done = ckptui("prune", copy, *rules, "--yes", "--json").json()
    wanted = [row["name"] for row in dry["plan"] if row["action"] == "remove"]
    assert [row["name"] for row in done["plan"] if row["action"] == "remove"] == wanted
    assert [(r["name"], r["done"]) for r in done["results"]] == [(name, True) for name in wanted]
    assert standing(copy) == standing(run) - set(wanted)
    assert standing(copy) == {"step_300", "step_500", "step_900", "step_1000"}
    assert tree(run) == before


def test_B75_keep_every_is_obeyed_beside_keep_last(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [10, 20, 30])
    assert prune(run, "--keep-last", "1", "--keep-every", "20") == {"step_20", "step_30"}


def test_B76_two_best_rules_do_not_share_a_limit(tmp_path: Path) -> None:
    values: dict[int, dict[str, float | None]] = {
        100: {"bleu": 30.0, "loss": 0.9},
        200: {"bleu": 10.0, "loss": 0.1},
        300: {"bleu": 20.0, "loss": 0.5},
        400: {"bleu": 15.0, "loss": 0.6},
        500: {"bleu": 12.0, "loss": 0.7},
    }
    run = make_run(tmp_path / "run", values, metrics=values)
    kept = prune(run, "--keep-best", "1:bleu", "--keep-best", "1:loss")
    assert kept == {"step_100", "step_200", "step_500"}
