"""Two runs, or two settings, that meet in one folder."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cases.harness import ckptui, latest, listed, run_form, standing, tree
from tests.factory import make_checkpoint, make_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.recipe.harness import At, Trainer

    Kill = Callable[[str, int], At]


@pytest.mark.torch
def test_B135_other_settings_in_a_used_folder_are_named_and_refused(
    tmp_path: Path, trainer: Trainer, kill_at: Kill
) -> None:
    run = tmp_path / "run"
    trainer.run(output_dir=run, at=kill_at("save", 4))
    before = tree(run)
    changed: dict[str, Any] = {"optimizer__lr": 0.5, "seed": 6, "batch_size": 4}
    outcome = trainer.run(output_dir=run, resume_from="auto", **changed)
    assert outcome.code == 1
    said = outcome.message()
    for name, then, now in (
        ("optimizer.lr", 0.01, 0.5),
        ("seed", 5, 6),
        ("batch_size", 2, 4),
    ):
        assert f"{name} is {now}, was {then}" in said
    assert tree(run) == before
    # Nor does it go on by itself where a fresh start was asked for, with the same settings or not.
    for settings in ({}, changed):
        fresh = trainer.run(output_dir=run, **settings)
        assert fresh.code == 1
        assert "already holds a run" in fresh.message()
    assert tree(run) == before


@pytest.mark.torch
@pytest.mark.parametrize("word", [None, "auto"])
def test_B136_of_trainers_that_start_at_once_one_trains(
    tmp_path: Path, trainer: Trainer, word: str | None
) -> None:
    from tests.recipe.harness import At, eventually

    run = tmp_path / "run"
    # Whoever gets the lock stands still at its first step, so that it is there for the others.
    still = At("log", 1, (signal.SIGSTOP,))
    several = [trainer.start(output_dir=run, resume_from=word, at=still) for _ in range(3)]
    try:
        while len(left := [t for t in several if t.process.exitcode is None]) > 1:
            left[0].process.join(0.02)
            left[1].process.join(0.02)
        (owner,) = left
        for loser in several:
            if loser is not owner:
                refused = loser.wait()
                assert (refused.code, refused.order) == (1, [])
                assert str(run) in refused.message()
        eventually(lambda: _is_stopped(owner.process.pid))
        os.kill(owner.process.pid or 0, signal.SIGCONT)
        assert owner.wait().code == 0
    finally:
        for one in several:
            if one.process.exitcode is None:
                os.kill(one.process.pid or 0, signal.SIGKILL)
                one.wait()
    assert [a["attempt"] for a in json.loads((run / "run.json").read_text())["attempts"]] == [1]
    assert standing(run) == {f"step_{n}" for n in range(2, 13, 2)}
    assert run_form(run)["problems"] == []


@pytest.mark.torch
def test_B136_a_second_trainer_is_refused_and_a_dead_one_is_no_obstacle(
    tmp_path: Path, trainer: Trainer
) -> None:
    from tests.recipe.harness import At, eventually

    run = tmp_path / "run"
    first = trainer.start(output_dir=run, at=At("save", 4, (signal.SIGSTOP,)))
    try:
        eventually(lambda: (run / "step_4").is_dir() and _is_stopped(first.process.pid))
        assert run_form(run)["live"] is True
        before = tree(run)
        for word in (None, "auto"):
            second = trainer.run(output_dir=run, resume_from=word)
            assert second.code == 1
        assert f"process {first.process.pid}" in second.message()
        ckptui("unlock", run, code=1)
        assert tree(run) == before
    finally:
        os.kill(first.process.pid or 0, signal.SIGKILL)
        first.wait()

    assert run_form(run)["live"] is False
    third = trainer.run(output_dir=run, resume_from="auto")
    assert third.code == 0
    assert "Took over the lock" in third.message()
    assert latest(run) == "step_12"


def _is_stopped(pid: int | None) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except FileNotFoundError:
        pytest.skip("needs /proc")


def test_B137_a_lower_step_that_was_saved_later_is_flagged(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    make_checkpoint(run, "step_60", step=60, created="2026-01-01T00:00:00.000000Z")
    make_checkpoint(run, "step_1", step=1, created="2026-01-02T00:00:00.000000Z")

    assert [c["name"] for c in listed(run)] == ["step_1", "step_60"]
    told = [p["what"] for p in run_form(run)["problems"]]
    assert told == ["step_1 was saved after step_60, yet has the lower step"]
    assert told[0] in ckptui("ls", run).err
    assert latest(run) == "step_60"


@pytest.mark.torch
def test_B137_names_go_on_after_a_resume(tmp_path: Path, trainer: Trainer, kill_at: Kill) -> None:
    run = tmp_path / "run"
    trainer.run(output_dir=run, at=kill_at("save", 6))
    kept = tree(run / "step_6")
    assert trainer.run(output_dir=run, resume_from="auto").code == 0
    assert standing(run) == {f"step_{n}" for n in range(2, 13, 2)}
    assert tree(run / "step_6") == kept
    assert run_form(run)["problems"] == []
    attempts = json.loads((run / "run.json").read_text())["attempts"]
    assert [a["start_step"] for a in attempts] == [0, 6]
