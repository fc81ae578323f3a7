"""What a training does is on the screen within two seconds, and watching it costs no memory."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import pytest

from tests.benchmarks.live import BOUND, busy, measure

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 25.0
"""The benchmark does it for ten minutes: `python -m tests.benchmarks.live`."""


@pytest.mark.slow
def test_a_live_run_is_shown_as_it_goes_on(tmp_path: Path) -> None:
    with busy(tmp_path) as run:
        figures = measure(run, SECONDS)
    for what, least in (("saved", 8), ("gone", 5), ("logged", 80)):
        delays = figures.delays[what]
        assert len(delays) >= least, (what, delays)
        # Other work on the machine may keep one of them waiting, not half of them.
        assert statistics.median(delays) < BOUND, (what, delays)
        assert max(delays) < 3 * BOUND, (what, delays)
        assert figures.missed[what] <= 1 + len(delays) // 10, what
    settled = figures.memory[len(figures.memory) // 3]
    assert figures.memory[-1] - settled < 12 * 1024, figures.memory
