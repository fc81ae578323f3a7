"""Faults that people met with other trainers, each as a small input; named by their ids."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ckptui.run_file import read_run_file
from tests.factory import make_checkpoint
from tests.recipe.harness import At, content, names, rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.recipe.harness import Trainer

pytestmark = pytest.mark.torch


def examples(order: list[str]) -> list[int]:
    return [i for line in order for batch in json.loads(line) for i in batch]


def position(folder: Path) -> dict[str, int]:
    data = json.loads((folder / "recipe_state.json").read_text())["data"]
    return {key: data[key] for key in ("epoch", "batches", "examples", "steps")}


def test_b97_a_fresh_run_where_a_higher_step_lies_is_refused(
    trainer: Trainer, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    folder = make_checkpoint(run, "step_500", step=500)
    before = content(folder)
    assert trainer.run(output_dir=run).code == 1
    assert content(folder) == before
    assert names(run) == ["step_500"]


def test_b103_the_step_counter_goes_on(trainer: Trainer, tmp_path: Path) -> None:
    run = tmp_path / "run"
    plain: dict[str, Any] = {"output_dir": run, "epochs": None, "save_every_n_steps": 25}
    assert trainer.run(**plain, max_steps=50).code == 0
    longer: dict[str, Any] = {"resume_from": "auto", "allow_changed": "max_steps"}
    assert trainer.run(**plain, **longer, max_steps=60).code == 0
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert next(line["step"] for line in lines if line["attempt"] == 2) == 51
    assert names(run) == ["step_25", "step_50", "step_60"]


def test_b104_the_rate_neither_warms_up_again_nor_jumps(
    trainer: Trainer, reference: Callable[..., Path], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    for step in (3, 5, 9):  # in the warm-up of 3 steps, after it, and in the decay
        trainer.run(output_dir=run, resume_from="auto", at=At("log", step))
    assert trainer.run(output_dir=run, resume_from="auto").code == 0
    assert rows(run, ["lr"]) == rows(reference(), ["lr"])


def test_b106_optimizer_state_is_the_stored_one_right_after_a_resume(
    reference: Callable[..., Path], tmp_path: Path
) -> None:
    import torch

    from ckptui import recipe_state
    from recipe_integration import checkpointing
    from recipe_integration.config import read_config
    from recipe_integration.model import load_model, make_optimizer

    # A copy: a fork that never saves leaves its lease on the source.
    source = Path(shutil.copytree(reference(), tmp_path / "run")) / "step_6"
    config = read_config(
        source / "recipe_config.yaml", [f"resume_from={source}", f"output_dir={tmp_path / 'fork'}"]
    )
    device = torch.device("cpu")
    run = checkpointing.open_run(config)
    start = checkpointing.look(run, config)
    model = load_model(source, config, device)
    optimizer = make_optimizer(model, config.optimizer, device)
    generator = torch.get_rng_state()
    with run:
        assert checkpointing.load(run, start, config, model, optimizer) == 6
    torch.set_rng_state(generator)
    stored = recipe_state.read(source)["optimizers"]["optimizer"]["state"]
    parameters = dict(model.named_parameters())
    assert set(stored) == set(parameters)
    for name, values in stored.items():
        for key, value in values.items():
            assert torch.equal(optimizer.state[parameters[name]][key], value)


@pytest.mark.parametrize("save_every", [2, None])
def test_b107_b109_dropout_goes_on_where_it_was_with_an_evaluation_after_the_load(
    trainer: Trainer, reference: Callable[..., Path], tmp_path: Path, save_every: int | None
) -> None:
    run = tmp_path / "run"
    again: dict[str, Any] = {"output_dir": run, "save_every_n_steps": save_every}
    trainer.run(**again, at=At("log", 7))
    assert trainer.run(**again, resume_from="auto").code == 0
    assert rows(run) == rows(reference(save_every_n_steps=save_every))


def test_b111_optimizer_steps_are_not_taken_for_batches(trainer: Trainer, tmp_path: Path) -> None:
    run = tmp_path / "run"
    plain: dict[str, Any] = {"batch_size": 1, "gradient_accumulation_steps": 4, "epochs": 1}
    whole = trainer.run(output_dir=tmp_path / "whole", save_every_n_steps=5, **plain)
    trainer.run(output_dir=run, save_every_n_steps=5, **plain, at=At("save", 5))
    assert position(run / "step_5") == {"epoch": 0, "batches": 20, "examples": 20, "steps": 5}
    rest = trainer.run(output_dir=run, resume_from="auto", save_every_n_steps=5, **plain)
    assert rest.order == whole.order[5:]
    assert len(examples(rest.order)) == 2


def test_b118_without_naming_the_output_nothing_begins(
    trainer: Trainer, reference: Callable[..., Path]
) -> None:
    source = reference() / "step_6"
    outcome = trainer.run(output_dir=..., resume_from=source)
    assert outcome.code == 2
    assert "output_dir is missing" in outcome.message()


def test_b121_a_skip_is_not_applied_again_in_later_epochs(trainer: Trainer, tmp_path: Path) -> None:
    run = tmp_path / "run"
    plain: dict[str, Any] = {"output_dir": run, "gradient_accumulation_steps": 1}
    plain |= {"save_every_n_steps": 3}
    trainer.run(**plain, at=At("save", 3))
    rest = trainer.run(**plain, resume_from="auto")
    assert [len(examples(rest.order[a:b])) for a, b in ((0, 8), (8, 19), (19, 30))] == [16, 22, 22]
    assert sorted(examples(rest.order[8:19])) == list(range(22))


def test_b122_positions_advance_over_several_resumes_with_a_worker(
    trainer: Trainer, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    plain: dict[str, Any] = {"output_dir": run, "num_workers": 1, "resume_from": "auto"}
    plain |= {"gradient_accumulation_steps": 1, "epochs": 1, "save_every_n_steps": 3}
    seen = []
    for step in (3, 6, 9):
        seen += trainer.run(**plain, at=At("save", step)).order[:3]
        assert position(run / f"step_{step}")["batches"] == step
    seen += trainer.run(**plain).order
    assert sorted(examples(seen)) == list(range(22))


def test_b123_epochs_after_a_resume_near_an_epochs_end_are_full(
    trainer: Trainer, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    plain: dict[str, Any] = {"output_dir": run, "num_workers": 2}
    trainer.run(**plain, save_every_n_steps=3, at=At("save", 3))
    rest = trainer.run(**plain, save_every_n_steps=3, resume_from="auto")
    assert len(examples(rest.order[:1])) == 4
    for epoch in (0, 1):
        assert sorted(examples(rest.order[1 + 4 * epoch : 5 + 4 * epoch])) == list(range(22))


def test_b124_a_save_right_after_a_resume_has_all_it_takes(
    trainer: Trainer, reference: Callable[..., Path], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    plain: dict[str, Any] = {"output_dir": run, "num_workers": 4, "resume_from": "auto"}
    plain |= {"save_every_n_steps": 1}
    for step in (5, 6, 7):
        trainer.run(**plain, at=At("save", step))
    assert trainer.run(**plain).code == 0
    assert content(run / "step_12") == content(reference() / "step_12")


def test_b125_rows_logged_before_a_resume_stay(trainer: Trainer, tmp_path: Path) -> None:
    run = tmp_path / "run"
    trainer.run(output_dir=run, at=At("save", 6))
    before = (run / "metrics.jsonl").read_text()
    assert trainer.run(output_dir=run, resume_from="auto").code == 0
    assert (run / "metrics.jsonl").read_text().startswith(before)
    assert sorted(rows(run)) == list(range(1, 13))


def test_b131_a_run_keeps_its_id_and_a_fork_gets_its_own(trainer: Trainer, tmp_path: Path) -> None:
    ids = {}
    for name in ("one", "two"):
        trainer.run(output_dir=tmp_path / name, at=At("save", 4))
        ids[name] = json.loads((tmp_path / name / "step_2/checkpoint.json").read_text())["run_id"]
    assert trainer.run(output_dir=tmp_path / "one", resume_from="auto").code == 0
    assert trainer.run(output_dir=tmp_path / "f", resume_from=tmp_path / "two/step_4").code == 0
    found = {
        name: json.loads((tmp_path / name / "step_12/checkpoint.json").read_text())["run_id"]
        for name in ("one", "f")
    }
    assert found["one"] == ids["one"]
    assert len({*ids.values(), found["f"]}) == 3


def test_b133_two_rewinds_in_a_row_leave_one_value_a_step(
    trainer: Trainer, reference: Callable[..., Path], tmp_path: Path
) -> None:
    run = Path(shutil.copytree(reference(), tmp_path / "run"))
    for attempt, step in ((2, 8), (3, 4)):
        back: dict[str, Any] = {"resume_from": run / f"step_{step}", "rewind": attempt}
        assert trainer.run(output_dir=run, **back).code == 0
    assert rows(run) == rows(reference())
    assert content(run / "step_12") == content(reference() / "step_12")
    record = read_run_file(run)
    assert record is not None
    assert [a.start_step for a in record.attempts] == [0, 8, 4]


def test_b137_names_go_on_after_a_resume(trainer: Trainer, tmp_path: Path) -> None:
    run = tmp_path / "run"
    trainer.run(output_dir=run, at=At("save", 6))
    assert trainer.run(output_dir=run, resume_from="auto").code == 0
    assert names(run) == sorted(f"step_{step}" for step in range(2, 13, 2))
