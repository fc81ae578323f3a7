"""A signal saves at the next step and tells the scheduler what to do; a second one leaves."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from ckptui.scan import scan_run
from tests.recipe.harness import At, content, eventually, names, rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.recipe.harness import Trainer

pytestmark = pytest.mark.torch

TERM, USR1, INT = signal.SIGTERM, signal.SIGUSR1, signal.SIGINT


@pytest.mark.parametrize(("number", "code"), [(TERM, 75), (USR1, 75), (INT, 130)])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_signal_saves_at_the_step_and_the_run_goes_on_exactly(
    trainer: Trainer,
    reference: Callable[..., Path],
    tmp_path: Path,
    number: signal.Signals,
    code: int,
    workers: int,
) -> None:
    run = tmp_path / "run"
    at = At("log", 5, (number,), to_group=True)  # as a terminal or a scheduler sends it
    outcome = trainer.run(output_dir=run, num_workers=workers, at=at)
    assert outcome.code == code
    assert number.name in outcome.message()
    assert names(run) == ["step_2", "step_4", "step_5"]
    outcome = trainer.run(output_dir=run, resume_from="auto", num_workers=workers)
    assert outcome.code == 0, outcome.stderr
    assert {k: v for k, v in rows(run).items() if k != 5} == {
        k: v for k, v in rows(reference()).items() if k != 5
    }
    assert content(run / "step_12") == content(reference() / "step_12")


def test_a_signal_between_two_epochs_saves_too(trainer: Trainer, tmp_path: Path) -> None:
    run = tmp_path / "run"
    at = At("after", 4, (TERM,))
    assert trainer.run(output_dir=run, save_every_n_steps=3, at=at).code == 75
    assert names(run) == ["step_3", "step_4"]


def test_a_signal_in_epoch_mode_saves_a_step_and_later_epochs_keep_their_names(
    trainer: Trainer, reference: Callable[..., Path], tmp_path: Path
) -> None:
    by_epoch: dict[str, Any] = {"output_dir": tmp_path / "run", "save_every_n_steps": None}
    assert trainer.run(**by_epoch, at=At("log", 6, (TERM,))).code == 75
    assert names(tmp_path / "run") == ["epoch_0", "step_6"]
    assert trainer.run(**by_epoch, resume_from="auto").code == 0
    assert names(tmp_path / "run") == ["epoch_0", "epoch_1", "epoch_2", "step_6"]
    whole = reference(save_every_n_steps=None)
    assert content(tmp_path / "run/epoch_2") == content(whole / "epoch_2")


@pytest.mark.parametrize("event", ["evaluate", "saving", "save"])
def test_b101_one_complete_checkpoint_of_the_present_step_whenever_it_comes(
    trainer: Trainer, tmp_path: Path, event: str
) -> None:
    run = tmp_path / "run"
    at = At(event, 4, (TERM,), to_group=True)
    outcome = trainer.run(output_dir=run, num_workers=2, at=at)
    assert outcome.code == 75, outcome.stderr
    outcome.message()
    present = max(rows(run))  # training goes on beside a save: the signal may come a step later
    assert present == 4 or event != "evaluate"
    assert set(names(run)) == {f"step_{n}" for n in (*range(2, present, 2), present)}
    assert all(c.complete for c in scan_run(run).checkpoints)
    assert ("eval_loss" in rows(run)[4]) == (event != "evaluate")


def test_a_signal_at_the_last_step_still_finishes_the_run(trainer: Trainer, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert trainer.run(output_dir=run, at=At("log", 12, (TERM,))).code == 75
    outcome = trainer.run(output_dir=run, resume_from="auto")
    assert outcome.code == 0
    assert "nothing to do" in outcome.message()


@pytest.mark.parametrize("number", [TERM, INT])
@pytest.mark.parametrize("event", ["log", "saving"])
def test_a_second_signal_leaves_at_once_and_nothing_half_written_is_seen(
    trainer: Trainer,
    reference: Callable[..., Path],
    tmp_path: Path,
    number: signal.Signals,
    event: str,
) -> None:
    run = tmp_path / "run"
    outcome = trainer.run(output_dir=run, at=At(event, 4, (number, number)))
    assert outcome.code == -number
    assert names(run) == ["step_2"]
    assert trainer.run(output_dir=run, resume_from="auto").code == 0
    assert rows(run) == rows(reference())


@pytest.mark.parametrize("number", [TERM, signal.SIGKILL])
def test_no_worker_is_left_behind(trainer: Trainer, tmp_path: Path, number: signal.Signals) -> None:
    trainee = trainer.start(output_dir=tmp_path / "run", num_workers=2, at=At("log", 3, (number,)))
    assert trainee.wait().code == (75 if number == TERM else -number)

    def is_empty() -> bool:
        try:
            os.killpg(trainee.process.pid or 0, 0)
        except ProcessLookupError:
            return True
        return False

    eventually(is_empty)
