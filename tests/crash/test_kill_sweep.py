"""Killed at any file operation, a training that is started again ends as if nothing had been."""

from __future__ import annotations

import importlib.util
import os
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


def sweep(*options: str, module: str = "tests.crash.sweep") -> str:
    done = subprocess.run(
        [sys.executable, "-m", module, *options],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (("--seed", "1"), 60),
        (("--seed", "2", "--torn"), 40),
        (("--seed", "3", "--twice"), 30),
        (("--seed", "4", "--torn", "--twice"), 20),
    ],
    ids=["plain", "torn", "twice", "torn+twice"],
)
def test_a_kill_at_any_operation_costs_nothing(options: tuple[str, ...], count: int) -> None:
    """A sample; `python -m tests.crash.sweep --every-mode` stops at every one, for half an hour."""
    told = sweep("--points", str(count), *options)
    assert f"{count} points, {count} passed" in told
