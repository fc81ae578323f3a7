from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from ckptui.checkpoint import Checkpoint, Root, Run, State
from ckptui.scan import scan as scan_disk
from tests.factory import make_checkpoint, make_run
from tests.tui.driver import Driver, drive, driving, small_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_a_hung_scan_leaves_the_keys_alive_and_quitting_does_not_wait(tmp_path: Path) -> None:
    release = threading.Event()

    def scan(path: Path, **_: object) -> Root:
        release.wait(60)
        return Root(path=path, runs=())

    async def run() -> None:
        async with driving(tmp_path, scan=scan) as d:
            await d.pilot.pause()
            assert "Looking for runs" in d.words
            await d.pilot.press("question_mark")
            await d.pilot.pause()
            assert "Help" in d.text
            await d.pilot.press("escape", "q")
            await d.pilot.pause()
        assert d.app.jobs.running("scan")

    asyncio.run(run())
    release.set()


def test_runs_appear_while_the_scan_goes_on_and_escape_keeps_what_is_there(
    tmp_path: Path,
) -> None:
    make_run(tmp_path / "first", [1])
    make_run(tmp_path / "second", [2])
    go = threading.Event()

    def scan(
        path: Path,
        *,
        on_run: Callable[[Run], None] | None = None,
        on_part: Callable[[Run], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> Root:
        runs = []
        for run in scan_disk(path).runs:
            if cancelled is not None and cancelled():
                break
            runs.append(run)
            if on_run is not None:
                on_run(run)
            go.wait(60)
        return Root(path=path, runs=tuple(runs))

    async def run() -> None:
        async with driving(tmp_path, scan=scan) as d:
            await d.until(lambda: d.names == ["step_1"])
            assert "scanning" in d.text
            await d.pilot.press("escape")
            go.set()
            await d.settle()
            assert len(d.app.reader.views) == 1
            assert "scan stopped" in d.text
            await d.press("ctrl+r")
            assert len(d.app.reader.views) == 2

    asyncio.run(run())


def test_b142_two_thousand_checkpoints_are_a_list_at_once(tmp_path: Path) -> None:
    run_path = tmp_path / "run"
    many = tuple(
        Checkpoint(
            run=run_path,
            name=f"step_{i}",
            path=run_path / f"step_{i}",
            step=i,
            state=State.OK,
            complete=True,
            resumable=True,
            metrics={"eval_loss": 1.0 / (i + 1)},
        )
        for i in range(5000)
    )
    run = Run(path=run_path, name="run", run_id="x", layout="native", checkpoints=many)

    def scan(path: Path, **_: object) -> Root:
        return Root(path=path, runs=(run,))

    async def script(d: Driver) -> None:
        assert len(d.names) == 5000
        await d.press("end")
        assert d.current == "step_0"
        await d.press("slash", *"step<10", "enter")
        assert len(d.names) == 10

    drive(run_path, script, scan=scan)


def test_a_fault_of_ours_in_the_background_ends_the_app_with_its_error(tmp_path: Path) -> None:
    def scan(path: Path, **_: object) -> Root:
        raise ZeroDivisionError(str(path))

    async def script(d: Driver) -> None:
        await d.pilot.pause()

    with pytest.raises(ZeroDivisionError):
        drive(tmp_path, script, scan=scan)


def test_what_comes_and_goes_is_shown_at_the_next_look_and_a_pause_stops_that(
    tmp_path: Path,
) -> None:
    run_path = small_run(tmp_path / "run")
    calls = []

    def scan(path: Path, **_: object) -> Root:
        calls.append(path)
        return scan_disk(path)

    async def look(d: Driver) -> None:
        job = d.app.jobs.latest("watch")
        if job is not None and job.finished is not None:
            job.finished -= 1.0  # as if a second had passed
        d.app._tick()
        await d.settle()

    async def script(d: Driver) -> None:
        await look(d)
        before = len(calls)
        await look(d)
        assert len(calls) == before  # nothing has changed: nothing is scanned
        make_checkpoint(run_path, "step_1100", step=1100)
        await look(d)
        assert d.names[0] == "step_1100"
        assert len(calls) == before + 1
        await d.press("full_stop")
        assert "PAUSED" in d.lines[0]
        make_checkpoint(run_path, "step_1200", step=1200)
        await look(d)
        assert d.names[0] == "step_1100"
        await d.press("full_stop")
        await look(d)
        assert d.names[0] == "step_1200"

    drive(run_path, script, scan=scan)
