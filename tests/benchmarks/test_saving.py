"""A short form of `python -m tests.benchmarks.saving`: every way of saving keeps the very bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.benchmarks.machine import describe
from tests.benchmarks.peers import METHODS
from tests.benchmarks.saving import Plan, bounds, run, table

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.benchmark, pytest.mark.torch]


def test_every_method_saves_a_state_that_reads_back_equal(tmp_path: Path) -> None:
    plan = Plan(sizes=("tiny",), places={"disk": tmp_path}, repeats=3, resumes=1)
    results = list(run(plan))
    print("\n" + "\n".join([*describe(tmp_path), *table(results), *bounds(results)]))
    assert [r.method for r in results] == list(METHODS)
    for result in results:
        # Ours is verified in full by its own process; a peer may not be installed.
        assert not result.failed, f"{result.method}: {result.failed}"
        assert result.equal or (result.skipped and not METHODS[result.method].ours), result.method
