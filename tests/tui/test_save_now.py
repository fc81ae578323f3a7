"""The key that asks a live run to save, and what the browser shows of a run in training."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ckptui import lock
from ckptui.scan import scan_run
from tests.factory import make_run
from tests.live_trainer import FAILS, HOLDS, LiveTrainer
from tests.tui.driver import SIZES, Driver, drive, small_run

if TYPE_CHECKING:
    from pathlib import Path

WAITING = "Asked to save; waiting for the answer."


@pytest.mark.parametrize("size", SIZES)
def test_w_saves_a_live_run_and_tells_the_name(tmp_path: Path, size: tuple[int, int]) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("w")
        (name,) = [c.name for c in scan_run(run).checkpoints if (c.step or 0) > 1000]
        assert f"Saved {name} of run, as you asked." in d.words
        assert d.names[0] == name
        assert "asked to save" not in d.lines[0]
        assert "LIVE" in d.lines[0]
        assert list((run / ".ckptui" / "requests").iterdir()) == []

    with LiveTrainer(run):
        drive(run, script, size=size)


def test_the_browser_goes_on_while_it_waits_and_says_that_it_does(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.pilot.press("w")
        await d.until(lambda: WAITING in d.text)
        assert "asked to save 0 s ago" in d.lines[0]
        trainer.expect("taken")
        await d.pilot.press("down", "down")
        assert d.current == "step_800"
        await d.pilot.press("w")
        await d.until(lambda: "Asked already" in d.text)
        assert len(list((run / ".ckptui" / "requests").iterdir())) == 1
        trainer.kill()
        await d.until(lambda: "Not saved" in d.text)
        assert f"Process {trainer.pid}" in d.words
        assert "died before it answered" in d.words
        await d.press("escape")
        assert "LIVE" not in d.lines[0]
        assert "asked to save" not in d.lines[0]

    with LiveTrainer(run, HOLDS) as trainer:
        drive(run, script)


def test_waiting_for_a_trainer_is_no_waiting_for_the_disk(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.pilot.press("w")
        await d.until(lambda: WAITING in d.text)
        (job,) = [j for j in [d.app.jobs.oldest_running()] if j is not None]
        job.started -= 60
        d.main.show_header()
        await d.pilot.pause()
        assert "asked to save 60 s ago" in d.lines[0]
        assert "waiting for the disk" not in d.lines[0]
        trainer.kill()
        await d.settle()

    with LiveTrainer(run, HOLDS) as trainer:
        drive(run, script)


def test_leaving_does_not_wait_for_the_answer(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.pilot.press("w")
        await d.until(lambda: WAITING in d.text)
        await d.pilot.press("q")
        assert not d.app.is_running

    with LiveTrainer(run, HOLDS):
        drive(run, script)


def test_a_trainer_that_cannot_save_says_why_in_a_box(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("w")
        assert "Not saved" in d.text
        assert "The disk is full." in d.text

    with LiveTrainer(run, FAILS):
        drive(run, script)


def test_a_run_that_nobody_trains_is_not_saved_and_the_key_says_so(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        assert "w save now" not in d.text
        await d.press("w")
        assert "Not saved: this run is not being trained now." in d.text
        await d.press("f1")
        assert "ask the trainer to save a checkpoint now" in d.text

    drive(run, script)
    assert not (run / ".ckptui" / "requests").exists()


def test_where_the_request_cannot_be_written_a_box_says_so(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("w")
        assert "is a link" in d.words

    with lock.acquire(run, report=lambda _: None):
        (run / ".ckptui" / "requests").symlink_to(tmp_path)
        drive(run, script)


@pytest.mark.parametrize("size", [*SIZES, (40, 10)])
def test_the_step_and_the_save_in_flight_are_shown(tmp_path: Path, size: tuple[int, int]) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        assert "LIVE at step 1234" in d.lines[0]
        if size[0] >= 60:
            assert "LIVE at step 1234, saving step_1200" in d.lines[0]
        assert all(len(line) <= size[0] for line in d.lines)
        assert "w save now" in d.lines[-1]
        held.show(step=1240, saving=None)
        held.show(step=1240, saving="step_1240")
        held.show(step=1240, saving=None)
        await d.press("ctrl+r")
        assert "LIVE at step 1240 " in d.lines[0] + " "
        assert "saving" not in d.lines[0]

    with lock.acquire(run, report=lambda _: None) as held:
        held.show(step=1234, saving="step_1200")
        drive(run, script, size=size)


def test_the_list_of_runs_tells_which_one_is_at_what_step(tmp_path: Path) -> None:
    run = small_run(tmp_path / "a")
    make_run(tmp_path / "b", [1, 2])

    async def script(d: Driver) -> None:
        await d.press("escape")
        first = next(line for line in d.lines if "LIVE" in line and "a " in line and "│" in line)
        assert "~" in first
        assert "1234" in first
        second = next(line for line in d.lines if " b " in line and "│" in line)
        assert second.rstrip("│ ").endswith(" 2")
        assert "LIVE" not in second

    with lock.acquire(run, report=lambda _: None) as held:
        held.show(step=1234, saving="step_1200")
        drive(tmp_path, script, size=(60, 20))
