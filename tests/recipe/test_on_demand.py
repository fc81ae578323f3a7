"""A checkpoint on demand, and on a signal at every kind of moment: of exactly the last step."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest

from ckptui import requests
from ckptui.scan import scan_run
from ckptui.verify import verify_checkpoint
from tests.recipe.harness import At, content, eventually, names, rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.recipe.harness import Trainer

pytestmark = pytest.mark.torch

TERM = signal.SIGTERM


@pytest.mark.parametrize(
    ("event", "step", "saved"),
    [
        ("accumulate", 5, ["step_2", "step_4"]),
        ("accumulate", 6, ["step_2", "step_4", "step_5"]),
        ("prune", 4, ["step_2", "step_4"]),
    ],
)
def test_a_signal_saves_the_last_step_and_nothing_else(
    trainer: Trainer,
    reference: Callable[..., Path],
    tmp_path: Path,
    event: str,
    step: int,
    saved: list[str],
) -> None:
    """In the middle of accumulating a step that step is dropped; a pruning is finished."""
    run = tmp_path / "run"
    how: dict[str, Any] = {"output_dir": run, "keep_last_n_checkpoints": 9}
    outcome = trainer.run(at=At(event, step, (TERM,)), **how)
    assert outcome.code == 75, outcome.stderr
    outcome.message()
    if event == "prune":  # training may have come further while the save was being written
        assert names(run)[:2] == saved
        assert len(names(run)) <= 3
    else:
        assert names(run) == saved
    assert all(c.complete for c in scan_run(run).checkpoints)
    assert trainer.run(resume_from="auto", **how).code == 0
    assert rows(run, ("loss", "lr", "grad_norm")) == rows(reference(), ("loss", "lr", "grad_norm"))
    assert content(run / "step_12") == content(reference() / "step_12")


def test_what_is_saved_in_the_middle_of_accumulating_is_the_state_before_it(
    trainer: Trainer, reference: Callable[..., Path], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    assert trainer.run(output_dir=run, at=At("accumulate", 5, (TERM,))).code == 75
    # Step 4 was saved on time by the reference; here the signal came one batch after it.
    assert content(run / "step_4") == content(reference() / "step_4")


def test_an_evaluation_that_a_signal_cut_off_is_made_up_for(
    trainer: Trainer, reference: Callable[..., Path], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    assert trainer.run(output_dir=run, at=At("evaluate", 4, (TERM,))).code == 75
    assert "eval_loss" not in rows(run)[4]
    assert trainer.run(output_dir=run, resume_from="auto").code == 0
    assert rows(run) == rows(reference())


def test_a_live_run_saves_when_it_is_asked_to(
    trainer: Trainer, reference: Callable[..., Path], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    how: dict[str, Any] = {
        "output_dir": run,
        "epochs": ...,
        "max_steps": 4000,
        "save_every_n_steps": 3999,
    }
    trainee = trainer.start(**how)
    eventually(lambda: (run / "metrics.jsonl").exists())
    answers: list[requests.Answer] = []

    def ask() -> None:
        answers.append(requests.wait(run, requests.ask(run), timeout=60))

    askers = [threading.Thread(target=ask) for _ in range(2)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    found = {c.name: c for c in scan_run(run).checkpoints if c.complete}
    assert {a.checkpoint for a in answers} <= found.keys(), answers
    assert verify_checkpoint(next(iter(found.values())), full=True).status == "verified"
    assert trainee.process.is_alive()
    trainee.process.terminate()
    assert trainee.wait().code == 75
    with pytest.raises(requests.NotTrainedError):
        requests.ask(run)


def test_minutes_and_epochs_ask_for_checkpoints_too(trainer: Trainer, tmp_path: Path) -> None:
    often = tmp_path / "often"
    assert trainer.run(output_dir=often, save_every_n_steps=5, save_every_n_minutes=1e-6).code == 0
    assert len(names(often)) == 12
    epochs = tmp_path / "epochs"
    outcome = trainer.run(output_dir=epochs, save_every_n_steps=5, save_at_epoch_end=True)
    assert outcome.code == 0
    assert set(names(epochs)) == {"step_4", "step_5", "step_8", "step_10", "step_12"}


def test_b102_the_last_step_is_saved_once_and_the_other_way_gives_the_same(
    trainer: Trainer, reference: Callable[..., Path], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    assert trainer.run(output_dir=run, async_save=False, max_shard_size="20kB").code == 0
    assert names(run) == names(reference())
    last = run / "step_12"
    assert (last / "model.safetensors.index.json").is_file()
    assert len(list(last.glob("model-*.safetensors"))) > 1
    assert rows(run) == rows(reference())
    state = "recipe_state.safetensors"
    assert (last / state).read_bytes() == (reference() / "step_12" / state).read_bytes()
    fork = tmp_path / "fork"
    outcome = trainer.run(output_dir=fork, resume_from=run / "step_6")
    assert outcome.code == 0, outcome.stderr
    assert content(fork / "step_12") == content(reference() / "step_12")


def test_a_checkpoint_is_a_model_to_start_from(
    trainer: Trainer, reference: Callable[..., Path], tmp_path: Path
) -> None:
    """Weights only: a fresh run, with another optimizer, that begins at step 0."""
    outcome = trainer.run(
        output_dir=tmp_path / "run",
        model=reference() / "step_12",
        optimizer__name="sgd",
        epochs=1,
    )
    assert outcome.code == 0, outcome.stderr
    first, trained = rows(tmp_path / "run")[1]["loss"], rows(reference())[1]["loss"]
    assert float.fromhex(first) < float.fromhex(trained)
    assert min(rows(tmp_path / "run")) == 1
