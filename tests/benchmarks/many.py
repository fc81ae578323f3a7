"""Runs of thousands of checkpoints, made once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.factory import make_run

if TYPE_CHECKING:
    from pathlib import Path


def run_of(count: int, folder: Path) -> Path:
    """A native run of that many checkpoints of six files each; one that is there is taken."""
    run = folder / f"run-{count}"
    done = folder / f"run-{count}.done"
    if not done.exists():
        steps = range(1, count + 1)
        make_run(
            run,
            steps,
            policy=["keep-last 2", "keep-best 1:eval_loss:min"],
            metrics={s: {"eval_loss": 1 + 100 / s, "loss": 1 + 120 / s} for s in steps},
            rows=[
                {"step": s, "epoch": 0, "attempt": 1, "loss": 1 + 120 / s, "lr": 1e-5}
                for s in steps
            ],
        )
        done.touch()
    return run
