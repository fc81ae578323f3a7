"""Runs that most tests of the command line look at."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.factory import make_run

if TYPE_CHECKING:
    from pathlib import Path

STEPS = (10, 20, 30, 100)


@pytest.fixture(autouse=True)
def _nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No run is named by the environment, and none is at hand but those of the test."""
    monkeypatch.delenv("CKPTUI_RUN", raising=False)
    monkeypatch.setenv("CKPTUI_CONFIG", os.devnull)
    away = tmp_path / "away"
    away.mkdir()
    monkeypatch.chdir(away)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Four checkpoints whose `eval_loss` is best at step 30."""
    values = {10: 0.5, 20: 0.4, 30: 0.1, 100: 0.2}
    rows = [
        {"step": s, "epoch": 0, "time": "2026-01-01T00:00:00.000000Z", "attempt": 1, "loss": 9 / s}
        for s in range(1, 101)
    ]
    metrics = {s: {"eval_loss": v, "lr": 0.001} for s, v in values.items()}
    return make_run(tmp_path / "outputs" / "my-run", STEPS, metrics=metrics, rows=rows)
