"""Killed, or refused by the disk, at any file operation: the old state or the new one stands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.sweep import CASES

ROOT = Path(__file__).parent.parent


def sweep(name: str, how: str, *options: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.sweep", name, how, *options],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 5


@pytest.mark.parametrize("name", CASES)
def test_a_kill_or_a_full_disk_at_some_operations_loses_nothing(name: str) -> None:
    """A spread that takes seconds; the slow tests below stop at every operation."""
    sweep(name, "kill", "--first", "3", "--stride", "11")
    sweep(name, "ENOSPC", "--first", "7", "--stride", "13")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["kill", "ENOSPC", "EIO", "EACCES"])
@pytest.mark.parametrize("name", CASES)
def test_a_stop_at_every_operation_loses_nothing(name: str, how: str) -> None:
    sweep(name, how)
