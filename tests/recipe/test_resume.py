"""What a start finds on disk decides where it begins, and what it refuses."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from ckptui import pins
from ckptui.resume_command import resume_command
from ckptui.scan import scan_run
from tests.factory import digest
from tests.recipe.harness import EXACT, At, content, eventually, names, rows, tree

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.recipe.harness import Trainer

pytestmark = pytest.mark.torch


def flat(order: list[str]) -> list[int]:
    """The examples in the batches of some steps."""
    return [i for line in order for batch in json.loads(line) for i in batch]


@pytest.fixture
def finished(reference: Callable[..., Path], tmp_path: Path) -> Path:
    """A finished run that this test may change: 12 steps, saved every 2."""
    return Path(shutil.copytree(reference(), tmp_path / "finished"))


def test_every_checkpoint_of_a_run_continues_exactly_in_a_fork(
    trainer: Trainer, reference: Callable[..., Path], tmp_path: Path
) -> None:
    whole = reference()
    for step in (2, 4, 6, 8, 10):
        fork = tmp_path / f"fork-{step}"
        source = whole / f"step_{step}"
        outcome = trainer.run(output_dir=fork, resume_from=source)
        assert outcome.code == 0, outcome.stderr
        expected = {s: row for s, row in rows(whole).items() if s > step}
        assert rows(fork) == expected
        assert content(fork / "step_12") == content(whole / "step_12")
        assert json.loads((fork / f"step_{step + 2}/checkpoint.json").read_text())["parent"][
            "path"
        ] == str(source)


def test_every_epoch_checkpoint_continues_exactly(
    trainer: Trainer, reference: Callable[..., Path], tmp_path: Path
) -> None:
    whole = reference(save_every_n_steps=None)
    assert names(whole) == ["epoch_0", "epoch_1", "epoch_2"]
    for epoch in (0, 1):
        fork = tmp_path / f"fork-{epoch}"
        outcome = trainer.run(
            output_dir=fork, resume_from=whole / f"epoch_{epoch}", save_every_n_steps=None
        )
        assert outcome.code == 0, outcome.stderr
        assert content(fork / "epoch_2") == content(whole / "epoch_2")


def test_workers_may_change_between_attempts(
    trainer: Trainer, reference: Callable[..., Path], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    for workers, at in ((0, At("log", 3)), (2, At("log", 7)), (0, None)):
        outcome = trainer.run(output_dir=run, resume_from="auto", num_workers=workers, at=at)
    assert outcome.code == 0
    assert "num_workers is 0, was 2" in outcome.message()
    assert rows(run) == rows(reference())
    assert content(run / "step_12") == content(reference() / "step_12")


def test_b113_b120_no_batch_is_trained_twice_and_none_is_left_out(
    trainer: Trainer, tmp_path: Path
) -> None:
    whole = trainer.run(output_dir=tmp_path / "whole")
    first = trainer.run(output_dir=tmp_path / "run", at=At("save", 6))
    second = trainer.run(output_dir=tmp_path / "run", resume_from="auto")
    # Training went on while step 6 was being written.
    assert whole.order[: max(6, len(first.order))] == first.order
    assert whole.order[6:] == second.order
    for epoch in range(3):
        assert sorted(flat(whole.order[4 * epoch : 4 * epoch + 4])) == list(range(22))
    assert len({tuple(whole.order[4 * epoch : 4 * epoch + 4]) for epoch in range(3)}) == 3


def test_b114_a_finished_run_is_left_alone(trainer: Trainer, finished: Path) -> None:
    for resume in ("auto", "latest", finished, finished / "step_12"):
        before = tree(finished)
        outcome = trainer.run(output_dir=finished, resume_from=resume)
        assert outcome.code == 0, outcome.stderr
        assert "nothing to do" in outcome.message()
        assert tree(finished) == before


def test_a_fork_of_a_finished_run_makes_no_folder(
    trainer: Trainer, finished: Path, tmp_path: Path
) -> None:
    outcome = trainer.run(output_dir=tmp_path / "fork", resume_from=finished / "step_12")
    assert outcome.code == 0
    assert not (tmp_path / "fork").exists()


def test_b112_a_longer_run_trains_the_missing_epoch_at_the_right_rate(
    trainer: Trainer, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    plain: dict[str, Any] = {"output_dir": run, "gradient_accumulation_steps": 1, "batch_size": 2}
    plain |= {"save_every_n_steps": None, "dataset__eval_source": None}
    plain |= {"dataset__eval_fraction": 0.1, "lr_scheduler__name": "linear"}
    plain |= {"max_steps_per_epoch": 9, "lr_scheduler__num_warmup_steps": 0}
    assert trainer.run(epochs=2, **plain).code == 0
    assert names(run) == ["epoch_0", "epoch_1"]
    refused = trainer.run(epochs=3, resume_from="auto", **plain)
    assert refused.code == 1
    assert "epochs is 3, was 2" in refused.message()
    assert "allow_changed=epochs" in refused.stderr
    before = rows(run, ("lr", "loss"))
    outcome = trainer.run(epochs=3, resume_from="auto", allow_changed="epochs", **plain)
    assert outcome.code == 0, outcome.stderr
    found = rows(run, ("lr", "loss"))
    assert sorted(found) == list(range(1, 28))
    assert {s: found[s] for s in before} == before
    expected = {step: (0.01 * (1 - (step - 1) / 27)) for step in range(19, 28)}
    lrs = {step: float.fromhex(found[step]["lr"]) for step in expected}
    assert lrs == pytest.approx(expected)
    assert names(run) == ["epoch_0", "epoch_1", "epoch_2"]
    assert len(outcome.order) == 9


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seed": 6}, "seed is 6, was 5"),
        ({"batch_size": 4}, "batch_size is 4, was 2"),
        ({"gradient_accumulation_steps": 1}, "gradient_accumulation_steps is 1, was 3"),
        ({"max_seq_len": 16}, "max_seq_len is 16, was 32"),
        ({"dtype": "bf16"}, "dtype is bf16, was fp32"),
        ({"max_steps": 20}, "max_steps is 20, was null"),
        ({"max_steps_per_epoch": 3}, "max_steps_per_epoch is 3"),
        ({"optimizer__lr": 0.02}, "optimizer.lr is 0.02, was 0.01"),
        ({"optimizer__weight_decay": 0.1}, "optimizer.weight_decay is 0.1, was 0.0"),
        ({"lr_scheduler__name": "linear"}, "lr_scheduler.name is linear, was cosine"),
        ({"clip_grad_norm": None}, "clip_grad_norm is null, was 1.0"),
        ({"dataset__drop_last": True}, "dataset.drop_last is true, was false"),
    ],
)
def test_b135_decisive_settings_that_changed_are_refused_and_nothing_is_touched(
    trainer: Trainer, finished: Path, changes: dict[str, Any], words: str
) -> None:
    before = tree(finished)
    outcome = trainer.run(output_dir=finished, resume_from="auto", **changes)
    assert outcome.code == 1
    assert words in outcome.message()
    assert "step_12" in outcome.stderr
    assert tree(finished) == before


def test_other_data_is_refused_unless_named(
    trainer: Trainer, finished: Path, material: Path
) -> None:
    shutil.rmtree(finished / "step_12")
    other: dict[str, Any] = {
        "output_dir": finished,
        "resume_from": "auto",
        "dataset": material / "other.jsonl",
    }
    before = tree(finished)
    outcome = trainer.run(**other)
    assert outcome.code == 1
    assert "dataset has other content in its 22 examples" in outcome.message()
    assert tree(finished) == before
    longer: dict[str, Any] = {**other, "dataset": material / "eval.jsonl"}
    assert "dataset has 5 examples, was 22" in trainer.run(**longer).message()
    assert trainer.run(**other, allow_changed="dataset").code == 0


def test_the_same_data_elsewhere_is_the_same_data(
    trainer: Trainer, finished: Path, material: Path, tmp_path: Path
) -> None:
    shutil.rmtree(finished / "step_12")
    moved = shutil.copy(material / "train.jsonl", tmp_path / "moved.jsonl")
    outcome = trainer.run(output_dir=finished, resume_from="auto", dataset=moved)
    assert outcome.code == 0, outcome.stderr
    assert "dataset.source is" in outcome.message()


def test_threads_cadence_and_retention_are_noted_and_allowed(
    trainer: Trainer, finished: Path
) -> None:
    shutil.rmtree(finished / "step_12")
    outcome = trainer.run(
        output_dir=finished,
        resume_from="auto",
        num_threads=2,
        log_every_n_steps=2,
        save_every_n_steps=1,
        keep_last_n_checkpoints=4,
    )
    assert outcome.code == 0, outcome.stderr
    for word in ("num_threads is 2, was 1", "threads is 2, was 1", "log_every_n_steps is 2, was 1"):
        assert word in outcome.message()
    assert len(names(finished)) == 4, outcome.stderr


def test_a_batch_size_that_was_allowed_to_change_leaves_no_example_out(
    trainer: Trainer, finished: Path
) -> None:
    for step in (12, 10, 8):
        shutil.rmtree(finished / f"step_{step}")
    before = trainer.run(output_dir=finished.with_name("whole"))
    outcome = trainer.run(
        output_dir=finished, resume_from="auto", batch_size=5, allow_changed="batch_size"
    )
    assert outcome.code == 0, outcome.stderr
    # Step 6 is in the middle of epoch 1: 12 of its 22 examples are trained.
    assert flat(outcome.order) == flat(before.order)[22 + 12 :]


@pytest.mark.parametrize("dtype", ["bf16", "bf16_mixed"])
def test_a_dtype_that_was_allowed_to_change_trains_on(
    trainer: Trainer, finished: Path, dtype: str
) -> None:
    shutil.rmtree(finished / "step_12")
    outcome = trainer.run(
        output_dir=finished, resume_from="auto", dtype=dtype, allow_changed="dtype"
    )
    assert outcome.code == 0, outcome.stderr
    outcome.message()


def test_an_optimizer_setting_that_was_allowed_to_change_takes_effect(
    trainer: Trainer, finished: Path
) -> None:
    shutil.rmtree(finished / "step_12")
    changed: dict[str, Any] = {"optimizer__weight_decay": 0.5, "allow_changed": "optimizer"}
    assert trainer.run(output_dir=finished, resume_from="auto", **changed).code == 0
    state = json.loads((finished / "step_12/recipe_state.json").read_text())
    assert state["optimizers"]["optimizer"]["param_groups"][0]["weight_decay"] == 0.5


def test_the_base_model_is_not_needed_any_more(
    trainer: Trainer, reference: Callable[..., Path], material: Path, tmp_path: Path
) -> None:
    base = Path(shutil.copytree(material / "base", tmp_path / "base"))
    run = tmp_path / "run"
    trainer.run(output_dir=run, model=base, at=At("save", 6))
    shutil.rmtree(base)
    outcome = trainer.run(output_dir=run, model=base, resume_from="auto")
    assert outcome.code == 0, outcome.stderr
    assert rows(run) == rows(reference())


def test_a_copied_checkpoint_resumes_alone_and_exactly(
    trainer: Trainer, reference: Callable[..., Path], tmp_path: Path
) -> None:
    whole = reference()
    copied = Path(shutil.copytree(whole / "step_6", tmp_path / "elsewhere/step_6"))
    config = copied / "recipe_config.yaml"
    outcome = trainer.run_with(
        ["--config", str(config), f"resume_from={copied}", f"output_dir={tmp_path / 'new'}"]
    )
    assert outcome.code == 0, outcome.stderr
    assert rows(tmp_path / "new") == {s: r for s, r in rows(whole).items() if s > 6}
    assert content(tmp_path / "new/step_12") == content(whole / "step_12")


def test_a_moved_run_continues_exactly(
    trainer: Trainer, reference: Callable[..., Path], tmp_path: Path
) -> None:
    trainer.run(output_dir=tmp_path / "before", at=At("log", 7))
    moved = (tmp_path / "before").rename(tmp_path / "after $(x) 'y'; [z]")
    outcome = trainer.run_with(
        ["--config", str(moved / "config.yaml"), f"output_dir={moved}", "resume_from=latest"]
    )
    assert outcome.code == 0, outcome.stderr
    assert rows(moved) == rows(reference())
    assert not (tmp_path / "before").exists()


def test_the_config_of_a_run_starts_a_fresh_one_when_only_output_dir_is_given(
    trainer: Trainer, reference: Callable[..., Path], tmp_path: Path
) -> None:
    whole = reference()
    config = yaml.safe_load((whole / "config.yaml").read_text())
    assert "resume_from" not in config
    assert Path(config["model"]).is_absolute()
    outcome = trainer.run_with(
        ["--config", str(whole / "config.yaml"), f"output_dir={tmp_path / 'again'}"]
    )
    assert outcome.code == 0, outcome.stderr
    assert rows(tmp_path / "again") == rows(whole)
    assert content(tmp_path / "again/step_12") == content(whole / "step_12")


def test_b127_a_used_folder_is_refused_for_a_fresh_run(trainer: Trainer, finished: Path) -> None:
    before = tree(finished)
    outcome = trainer.run(output_dir=finished)
    assert outcome.code == 1
    assert "already holds a run" in outcome.message()
    assert tree(finished) == before


def test_latest_needs_a_run_and_auto_does_not(trainer: Trainer, tmp_path: Path) -> None:
    outcome = trainer.run(output_dir=tmp_path / "none", resume_from="latest")
    assert outcome.code == 1
    assert "no run" in outcome.message()
    assert not (tmp_path / "none").exists()
    assert trainer.run(output_dir=tmp_path / "none", resume_from="auto", max_steps=1).code == 0


def test_b115_a_step_that_is_absent_is_no_fresh_start(trainer: Trainer, finished: Path) -> None:
    before = tree(finished)
    outcome = trainer.run(output_dir=finished, resume_from=finished / "step_999")
    assert outcome.code == 1
    assert "step_10" in outcome.message()
    assert tree(finished) == before


def test_an_older_checkpoint_in_place_needs_rewind_and_then_repeats_exactly(
    trainer: Trainer, reference: Callable[..., Path], finished: Path
) -> None:
    older = finished / "step_4"
    refused = trainer.run(output_dir=finished, resume_from=older)
    assert refused.code == 1
    assert "rewind=2" in refused.message()
    again: dict[str, Any] = {"output_dir": finished, "resume_from": older, "rewind": 2}
    outcome = trainer.run(**again, at=At("log", 7))
    outcome = trainer.run(**again)  # the same command goes on with what it began
    assert outcome.code == 0, outcome.stderr
    assert rows(finished) == rows(reference())
    assert content(finished / "step_12") == content(reference() / "step_12")
    assert "nothing to do" in trainer.run(**again).message()


def test_a_damaged_newest_checkpoint_is_passed_over_with_a_line(
    trainer: Trainer, reference: Callable[..., Path], finished: Path
) -> None:
    weights = finished / "step_12/model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    outcome = trainer.run(output_dir=finished, resume_from="auto")
    assert outcome.code == 0, outcome.stderr
    assert "step_12 is damaged and passed over" in outcome.message()
    assert rows(finished) == rows(reference())
    assert content(finished / "step_12") == content(reference() / "step_12")


def test_b108_a_damaged_random_state_stops_the_start(trainer: Trainer, finished: Path) -> None:
    folder = finished / "step_12"
    state = json.loads((folder / "recipe_state.json").read_text())
    del state["rng"]["torch"]
    marker = json.loads((folder / "checkpoint.json").read_text())
    data = json.dumps(state).encode()
    (folder / "recipe_state.json").write_bytes(data)
    for entry in marker["files"]:
        if entry["name"] == "recipe_state.json":
            entry |= {"size": len(data), "digest": digest(data)}
    (folder / "checkpoint.json").write_text(json.dumps(marker))
    longer: dict[str, Any] = {"epochs": 4, "allow_changed": "epochs"}
    outcome = trainer.run(output_dir=finished, resume_from="auto", **longer)
    assert outcome.code == 1
    assert "torch random state is missing or damaged" in outcome.message()


def test_b136_a_second_trainer_is_refused_at_once(trainer: Trainer, tmp_path: Path) -> None:
    run = tmp_path / "run"
    long: dict[str, Any] = {"output_dir": run, "epochs": 100_000, "resume_from": "auto"}
    first = trainer.start(**long)
    eventually(lambda: (run / "step_2/checkpoint.json").exists())
    outcome = trainer.run(**long)
    assert outcome.code == 1
    assert "is being trained by process" in outcome.message()
    assert first.process.is_alive()
    first.process.terminate()
    assert first.wait().code == 75


def test_a_checkpoint_that_the_recipe_did_not_write_is_refused(
    trainer: Trainer, finished: Path, tmp_path: Path
) -> None:
    import torch

    from ckptui import TrainingRun

    other = tmp_path / "other"
    model = torch.nn.Linear(2, 2)
    with TrainingRun(other, report=lambda _: None) as run:
        run.register(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
        run.save(1)
    outcome = trainer.run(output_dir=other, resume_from="auto")
    assert outcome.code == 1
    assert "not written by this recipe" in outcome.message()


def test_b102_the_last_step_is_saved_once_and_named_by_steps_done(
    trainer: Trainer, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    assert trainer.run(output_dir=run, epochs=None, max_steps=5).code == 0
    assert names(run) == ["step_2", "step_4", "step_5"]
    other = tmp_path / "other"
    by_epoch: dict[str, Any] = {"epochs": None, "save_every_n_steps": None}
    assert trainer.run(output_dir=other, max_steps=6, **by_epoch).code == 0
    assert names(other) == ["epoch_0", "step_6"]
    state = json.loads((other / "epoch_0/recipe_state.json").read_text())
    assert (state["epochs_run"], state["data"]["epoch"], state["data"]["batches"]) == (1, 1, 0)
    assert json.loads((other / "epoch_0/checkpoint.json").read_text())["epoch"] == 0


def test_each_checkpoint_carries_the_metrics_of_its_own_step(
    reference: Callable[..., Path],
) -> None:
    run = reference()
    logged = rows(run)
    assert sorted(logged) == list(range(1, 13))
    for name in names(run):
        marker = json.loads((run / name / "checkpoint.json").read_text())
        found = {k: float(v).hex() for k, v in marker["metrics"].items() if k in EXACT}
        assert found == logged[marker["step"]]
        assert "eval_loss" in found
    assert all(("eval_loss" in row) == (step % 2 == 0) for step, row in logged.items())


def test_b130_metrics_keep_their_grid_across_a_resume(trainer: Trainer, tmp_path: Path) -> None:
    run = tmp_path / "run"
    grid: dict[str, Any] = {"output_dir": run, "log_every_n_steps": 5, "eval_every_n_steps": 3}
    trainer.run(**grid, at=At("save", 8))
    assert trainer.run(**grid, resume_from="auto").code == 0
    found = rows(run)
    assert sorted(s for s, row in found.items() if "loss" in row) == [5, 10]
    assert sorted(s for s, row in found.items() if "eval_loss" in row) == [3, 6, 9, 12]


def test_pruning_follows_each_save_and_honours_pins(trainer: Trainer, tmp_path: Path) -> None:
    run = tmp_path / "run"
    keep: dict[str, Any] = {
        "output_dir": run,
        "keep_last_n_checkpoints": 1,
        "keep_every_n_steps": 8,
    }
    trainer.run(**keep, at=At("save", 4))
    pinned = next(c for c in scan_run(run).checkpoints if c.name == "step_4")
    pins.pin(pinned)
    assert trainer.run(**keep, resume_from="auto").code == 0
    assert names(run) == ["step_12", "step_4", "step_8"]
    assert json.loads((run / "run.json").read_text())["policy"] == ["keep-last 1", "keep-every 8"]


def test_what_is_pruned_goes_to_the_trash_where_that_is_wanted(
    trainer: Trainer, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    outcome = trainer.run(output_dir=run, keep_last_n_checkpoints=2, prune_to_trash=True)
    assert outcome.code == 0
    assert scan_run(run).trash_count == 4


def test_every_checkpoint_loads_with_from_pretrained(reference: Callable[..., Path]) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    for run in (reference(), reference(dtype="bf16"), reference(save_every_n_steps=None)):
        for name in names(run):
            loaded: Any = AutoModelForCausalLM.from_pretrained(run / name, output_loading_info=True)
            _, info = loaded
            assert not info["missing_keys"]
            assert not info["unexpected_keys"]
            assert AutoTokenizer.from_pretrained(run / name)("hi")["input_ids"]


def test_evaluate_repeats_the_logged_loss_from_the_folder_alone(
    trainer: Trainer, reference: Callable[..., Path], tmp_path: Path
) -> None:
    for settings in ({}, {"dtype": "bf16"}):
        run = reference(**settings)
        for name in ("step_2", "step_12"):
            folder = Path(shutil.copytree(run / name, tmp_path / f"{len(settings)}/{name}"))
            outcome = trainer.run_with([str(folder)], module="evaluate")
            assert outcome.code == 0, outcome.stderr
            outcome.message()
            word, value = outcome.stdout.split()
            logged = json.loads((folder / "checkpoint.json").read_text())["metrics"]["eval_loss"]
            assert word == "eval_loss"
            assert float(value) == pytest.approx(logged, rel=1e-5)


def test_evaluate_says_what_is_wrong(
    trainer: Trainer, reference: Callable[..., Path], tmp_path: Path, material: Path
) -> None:
    missing = trainer.run_with([str(tmp_path / "none")], module="evaluate")
    assert missing.code == 1
    assert "no checkpoint" in missing.message()
    run = trainer.run_with([str(reference())], module="evaluate")
    assert run.code == 1
    assert "recipe_config.yaml" in run.message()
    words = [str(reference() / "step_2"), f"dataset.eval_source={material / 'other.jsonl'}"]
    other = trainer.run_with(words, module="evaluate")
    assert other.code == 0
    assert "other examples" in other.message()


def test_the_printed_line_continues_from_anywhere_and_may_be_run_again(
    trainer: Trainer, reference: Callable[..., Path], tmp_path: Path
) -> None:
    run = tmp_path / 'it\'s $(touch pwned); [a] "b" & co'
    trainer.run(output_dir=run, at=At("save", 6))
    found = scan_run(run)
    newest = found.checkpoints[-1]
    assert newest.name == "step_6"
    command = resume_command(found, newest)
    empty = tmp_path / "empty"
    empty.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    for _ in range(2):
        done = subprocess.run(
            ["sh", "-c", command.shell], cwd=empty, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert rows(run) == rows(reference())
        assert content(run / "step_12") == content(reference() / "step_12")
    assert not list(empty.iterdir())
    older = next(c for c in scan_run(run).checkpoints if c.name == "step_4")
    fork = resume_command(scan_run(run), older)
    done = subprocess.run(
        ["sh", "-c", fork.shell], cwd=empty, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    forked = run.with_name(f"{run.name}-from-step_4")
    assert rows(forked) == {s: r for s, r in rows(reference()).items() if s > 4}
