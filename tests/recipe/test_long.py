"""A thousand steps, saved beside training and killed ten times at random moments: the same end."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from ckptui.scan import scan_run
from ckptui.verify import verify_checkpoint
from tests.recipe.harness import content, rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.recipe.harness import Trainer

pytestmark = [pytest.mark.torch, pytest.mark.slow]

STEPS = 1000
KILLS = 10


def last_step(run: Path) -> int:
    """The step of the newest row of the log."""
    try:
        with (run / "metrics.jsonl").open("rb") as f:
            f.seek(max(0, f.seek(0, os.SEEK_END) - 2000))
            lines = f.read().split(b"\n")
        return int(json.loads(lines[-2])["step"])
    except (FileNotFoundError, IndexError, ValueError):
        return 0


def kill_at(trainer: Trainer, run: Path, step: int, delay: float, **settings: Any) -> None:
    """Train until the log has come to a step, and a little on; then kill it."""
    trainee = trainer.start(output_dir=run, resume_from="auto", **settings)
    end = time.monotonic() + 300
    while last_step(run) < step and trainee.process.is_alive():
        assert time.monotonic() < end
        time.sleep(0.002)
    time.sleep(delay)
    assert trainee.process.pid is not None
    os.kill(trainee.process.pid, signal.SIGKILL)
    # What its data workers say of a parent that is gone is not looked at.
    outcome = trainee.wait()
    assert outcome.code == -signal.SIGKILL, outcome.stderr
    for checkpoint in scan_run(run).checkpoints:
        if checkpoint.complete:
            assert verify_checkpoint(checkpoint, full=True).status == "verified"


@pytest.mark.parametrize(
    "settings",
    [
        {"dtype": "fp32", "num_workers": 0, "gradient_accumulation_steps": 1},
        {"dtype": "bf16", "num_workers": 2, "gradient_accumulation_steps": 2},
    ],
    ids=["fp32", "bf16-workers-accumulation"],
)
def test_ten_kills_in_a_thousand_steps_leave_no_trace(
    trainer: Trainer, tmp_path: Path, settings: dict[str, Any]
) -> None:
    how = {
        **settings,
        "epochs": ...,
        "max_steps": STEPS,
        "save_every_n_steps": 20,
        "eval_every_n_steps": 200,
        "keep_last_n_checkpoints": 2,
    }
    whole, run = tmp_path / "whole", tmp_path / "run"
    assert trainer.start(output_dir=whole, **how).wait(600).code == 0
    draw = random.Random(settings["dtype"])
    for step in sorted(draw.sample(range(1, STEPS - 20), KILLS)):
        kill_at(trainer, run, step, draw.random() * 0.05, **how)
    outcome = trainer.start(output_dir=run, resume_from="auto", **how).wait(600)
    assert outcome.code == 0, outcome.stderr
    assert sorted(rows(run)) == list(range(1, STEPS + 1))
    assert rows(run) == rows(whole)
    assert content(run / f"step_{STEPS}") == content(whole / f"step_{STEPS}")
