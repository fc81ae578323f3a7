"""TensorBoard and W&B beside the recipe: read back, every step is there once, in order."""

from __future__ import annotations

import json
import shutil
import signal
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

from ckptui.run_file import read_run_file
from tests.recipe.harness import At, rows
from tests.test_loggers import tensorboard_rows, wandb_runs

if TYPE_CHECKING:
    from pathlib import Path

    from tests.recipe.harness import Outcome, Trainer

pytestmark = [
    pytest.mark.torch,
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("tensorboard") is None, reason="tensorboard is not installed"),
    pytest.mark.skipif(find_spec("wandb") is None, reason="wandb is not installed"),
]
NAMES = ("loss", "lr", "grad_norm", "eval_loss")


def train(trainer: Trainer, run: Path, **settings: Any) -> Outcome:
    """Train with both loggers."""
    both = {"loggers": ["tensorboard", "wandb"], "wandb__mode": "offline", "wandb__project": "p"}
    return trainer.run(output_dir=run, **{"resume_from": "auto", **both, **settings})


def wandb_id(run: Path) -> str:
    record = read_run_file(run)
    assert record is not None
    known: str = record.loggers["wandb"]["id"]
    return known


def all_in_both(run: Path, *, before: Path | None = None, until: int = 0) -> None:
    """What a run logged is in TensorBoard and W&B; a fork's has the rows before it as well."""
    wanted = rows(run)
    if before is not None:
        wanted = {s: r for s, r in rows(before).items() if s <= until} | wanted
    logged = {s: {n: float.fromhex(v) for n, v in row.items()} for s, row in wanted.items()}
    assert list(logged) == list(range(1, max(logged) + 1))
    for found in (tensorboard_rows(run / "tensorboard"), wandb_runs(run)[wandb_id(run)]):
        assert sorted(found) == list(logged)
        for step, values in logged.items():
            there = {name: found[step][name] for name in NAMES if name in found[step]}
            assert there == pytest.approx(values, rel=1e-6), step


def test_a_killed_training_goes_on_in_tensorboard_and_wandb(
    trainer: Trainer, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    moments = [("log", 1), ("saving", 4), ("log", 5), ("save", 6), ("evaluate", 8), ("log", 11)]
    for event, step in moments:
        outcome = train(trainer, run, at=At(event, step))
        assert outcome.code == -signal.SIGKILL, outcome.stderr
    outcome = train(trainer, run)
    assert outcome.code == 0, outcome.stderr
    assert f"W&B run {wandb_id(run)} " in outcome.message()
    assert "TensorBoard goes on after step" in outcome.message()
    all_in_both(run)
    assert list(wandb_runs(run)) == [wandb_id(run)]
    stored = json.loads((run / "step_12/recipe_state.json").read_text())["loggers"]
    assert stored["wandb"]["id"] == wandb_id(run)
    assert stored["tensorboard"] == {"dir": "tensorboard"}


def test_a_training_that_is_asked_to_stop_leaves_nothing_out(
    trainer: Trainer, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    for event, step in (("log", 3), ("evaluate", 6)):
        outcome = train(trainer, run, at=At(event, step, (signal.SIGTERM,)))
        assert outcome.code == 75, outcome.stderr
    assert train(trainer, run).code == 0
    all_in_both(run)


def test_after_a_rewind_and_in_a_fork_each_has_what_it_supports(
    trainer: Trainer, tmp_path: Path
) -> None:
    run, fork = tmp_path / "run", tmp_path / "fork"
    assert train(trainer, run).code == 0
    first = wandb_id(run)
    changed = {"optimizer__lr": 0.02, "allow_changed": ["optimizer.lr"]}
    outcome = train(trainer, run, resume_from=run / "step_6", rewind=2, **changed)
    assert outcome.code == 0, outcome.stderr
    assert "TensorBoard was rewound to step 6" in outcome.message()
    assert "W&B cannot rewind offline" in outcome.message()
    all_in_both(run)
    assert list(wandb_runs(run)) == [first, wandb_id(run)]
    outcome = train(trainer, fork, resume_from=run / "step_8", **changed)
    assert outcome.code == 0, outcome.stderr
    assert "TensorBoard: this fork has" in outcome.message()
    assert "W&B cannot fork offline" in outcome.message()
    all_in_both(fork, before=run, until=8)
    shutil.rmtree(fork / "tensorboard")
    outcome = train(
        trainer, fork, epochs=4, optimizer__lr=0.02, allow_changed=["optimizer.lr", "epochs"]
    )
    assert outcome.code == 0, outcome.stderr
    all_in_both(fork, before=run, until=8)


def test_a_logger_without_its_package_or_option_is_refused_before_anything_is_touched(
    trainer: Trainer, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    outcome = trainer.run(output_dir=run, loggers=["mlflow"])
    assert outcome.code == 2
    assert "tensorboard" in outcome.message()
    assert not run.exists()
