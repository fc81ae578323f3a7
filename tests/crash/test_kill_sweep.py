"""Killed at any file operation, a training that is started again ends as if nothing had been."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.torch,
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None
        or importlib.util.find_spec("transformers") is None,
        reason="trains with the recipe",
    ),
    pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux's /proc"),
]


POINTS = 25
"""Of each mode; some two minutes in all on two cores, the imports among them."""


def sweep(*options: str, module: str = "sweep") -> str:
    done = subprocess.run(
        [sys.executable, "-m", f"tests.crash.{module}", *options],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_kill_at_any_operation_costs_nothing() -> None:
    """A sample; `python -m tests.crash.sweep --every-mode` kills at every one, for half an hour."""
    told = sweep("--every-mode", "--points", str(POINTS), "--seed", "1")
    for mode in ("plain", "torn", "twice", "torn+twice"):
        assert f"{mode}: {POINTS} points, {POINTS} passed" in told


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not here")
def test_a_kill_at_any_system_call_costs_nothing() -> None:
    """A sample; `python -m tests.crash.traced` kills at every one."""
    assert "traced: 12 points, 12 passed" in sweep("--points", "12", "--seed", "1", module="traced")
