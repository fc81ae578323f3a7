"""The demo trains for real, and leaves a run worth looking at."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ckptui.scan import scan_run
from recipe_integration import demo
from tests.recipe.harness import names, rows

if TYPE_CHECKING:
    from tests.recipe.harness import Trainer

pytestmark = pytest.mark.torch


def test_the_texts_are_many_different_and_the_same_each_time() -> None:
    texts = demo.write_texts(4200)
    assert len(set(texts)) == 4200
    assert texts == demo.write_texts(4200)
    assert texts != demo.write_texts(4200, seed=8)
    assert any("make" in text for text in texts)
    assert all(text.isascii() and "\n" not in text for text in texts)


def test_sums_in_the_texts_are_right() -> None:
    words = demo._NUMBERS
    for text in demo.write_texts(2000):
        if " make " in text:
            one, _, other, _, total = text.rstrip(".").split()
            assert words.index(one) + words.index(other) == words.index(total)


def test_the_first_free_folder_is_taken(tmp_path: Path) -> None:
    taken = [demo.free_folder(tmp_path).name for _ in range(3)]
    assert taken == ["demo", "demo-2", "demo-3"]


def test_the_demo_leaves_a_run_with_everything_to_see(trainer: Trainer, tmp_path: Path) -> None:
    begun = time.monotonic()
    outcome = trainer.run_with(["--output", str(tmp_path / "o")], module="demo")
    assert outcome.code == 0, outcome.stderr
    outcome.message()
    run = tmp_path / "o/demo"
    assert outcome.stdout == f"{run}\n"
    assert time.monotonic() - begun < 100
    found = scan_run(run)
    assert len(found.checkpoints) >= 6
    assert all(c.state == "ok" and "eval_loss" in c.metrics for c in found.checkpoints)
    assert [c.name for c in found.checkpoints if c.pinned] == ["step_50"]
    assert found.policy == ("keep-last 3", "keep-every 100", "keep-best 2:eval_loss:min")
    journal = (run / ".ckptui/journal.jsonl").read_text().splitlines()
    assert "prune" in {json.loads(line)["what"] for line in journal}
    losses = [float.fromhex(row["loss"]) for row in rows(run).values()]
    assert len(losses) == 300
    assert sum(losses[-20:]) < 0.4 * sum(losses[:20])
    evals = [c.metrics["eval_loss"] for c in found.checkpoints]
    assert (evals[0] or 0) > (evals[-1] or 0)


@pytest.mark.slow
def test_a_second_demo_gets_a_folder_of_its_own_and_prints_only_its_path(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "recipe_integration.demo", "--output", str(tmp_path)]
    for name in ("demo", "demo-2"):
        done = subprocess.run(
            command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"{tmp_path / name}\n"
    assert names(tmp_path / "demo") == names(tmp_path / "demo-2")
    assert rows(tmp_path / "demo") == rows(tmp_path / "demo-2")


def test_a_place_that_cannot_be_written_is_named(trainer: Trainer, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    outcome = trainer.run_with(["--output", str(tmp_path / "file")], module="demo")
    assert outcome.code == 1
    assert str(tmp_path / "file") in outcome.message()
    assert outcome.stdout == ""
