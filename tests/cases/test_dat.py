"""Where in the data a resumed training goes on, and that later epochs are whole."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.cases.test_res import history, state, weights

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.recipe.harness import At, Outcome, Trainer

    Uninterrupted = Callable[..., tuple[Path, Outcome]]
    Kill = Callable[[str, int], At]
    Stop = Callable[[int], At]

pytestmark = pytest.mark.torch


def texts(order: list[str]) -> list[int]:
    """The numbers of the texts that were trained on, in their order."""
    return [i for group in order for batch in json.loads(group) for i in batch]


def test_B120_the_order_is_that_of_the_epoch_it_stopped_in(
    tmp_path: Path, trainer: Trainer, uninterrupted: Uninterrupted, stop_at: Stop
) -> None:
    run = tmp_path / "run"
    before = trainer.run(output_dir=run, at=stop_at(6))
    rest = trainer.run(output_dir=run, resume_from="auto")
    _, whole = uninterrupted()
    assert before.order + rest.order == whole.order
    first, second = texts(whole.order[:4]), texts(whole.order[4:8])
    assert sorted(first) == sorted(second) == list(range(16))
    assert first != second


def test_B121_a_skip_is_applied_once(tmp_path: Path, trainer: Trainer, kill_at: Kill) -> None:
    run = tmp_path / "run"
    how: dict[str, Any] = {
        "output_dir": run,
        "gradient_accumulation_steps": 1,
        "save_every_n_steps": 3,
    }
    trainer.run(**how, at=kill_at("save", 3))
    assert state(run / "step_3")["data"]["batches"] == 3
    rest = trainer.run(**how, resume_from="auto")
    assert rest.code == 0
    assert len(texts(rest.order[:5])) == 10
    assert sorted(texts(rest.order[5:13])) == list(range(16))
    assert sorted(texts(rest.order[13:])) == list(range(16))


def test_B122_positions_advance_over_several_saves_and_resumes(
    tmp_path: Path, trainer: Trainer, kill_at: Kill
) -> None:
    run = tmp_path / "run"
    how: dict[str, Any] = {
        "output_dir": run,
        "resume_from": "auto",
        "num_workers": 1,
        "gradient_accumulation_steps": 1,
        "epochs": 1,
    }
    seen: list[str] = []
    for step in (2, 4, 6):
        outcome = trainer.run(**how, at=kill_at("save", step))
        seen += outcome.order[:2]
        assert state(run / f"step_{step}")["data"]["batches"] == step
    seen += trainer.run(**how).order
    assert sorted(texts(seen)) == list(range(16))


def test_B123_epochs_after_a_resume_near_the_end_of_one_are_full(
    tmp_path: Path, trainer: Trainer, uninterrupted: Uninterrupted, kill_at: Kill
) -> None:
    run = tmp_path / "run"
    how: dict[str, Any] = {"num_workers": 2, "save_every_n_steps": 3}
    trainer.run(output_dir=run, at=kill_at("save", 3), **how)
    rest = trainer.run(output_dir=run, resume_from="auto", **how)
    assert rest.code == 0
    assert len(texts(rest.order[:1])) == 4
    assert sorted(texts(rest.order[1:5])) == list(range(16))
    assert sorted(texts(rest.order[5:])) == list(range(16))
    whole, _ = uninterrupted()
    assert history(run)[12]["loss"] == history(whole)[12]["loss"]


def test_B124_a_save_right_after_a_resume_misses_no_worker(
    tmp_path: Path, trainer: Trainer, uninterrupted: Uninterrupted, kill_at: Kill
) -> None:
    run = tmp_path / "run"
    how: dict[str, Any] = {
        "output_dir": run,
        "resume_from": "auto",
        "num_workers": 4,
        "save_every_n_steps": 1,
    }
    for step in (5, 6, 7):
        trainer.run(**how, at=kill_at("save", step))
    rest = trainer.run(**how)
    assert rest.code == 0
    whole, said = uninterrupted()
    assert rest.order == said.order[7:]
    assert weights(run / "step_12") == weights(whole / "step_12")
