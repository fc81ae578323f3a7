from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from ckptui import journal, lock, process
from ckptui.tui.pulse import QUIET_SECONDS, Life, Pulses
from ckptui.tui.watch import Watch
from tests.factory import make_checkpoint, make_run
from tests.tui.driver import Driver, drive

if TYPE_CHECKING:
    from pathlib import Path


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def write_lock(run: Path, *, pid: int, counter: int = 1, host: str | None = None) -> None:
    content = {
        "token": "t",
        "host": host or journal.host(),
        "boot_id": process.boot_id() if host is None else "elsewhere",
        "pid": pid,
        "start_time": process.start_time(pid),
        "pid_space": process.pid_space() if host is None else None,
        "counter": counter,
        "step": 40,
        "saving": None,
    }
    lock.lock_path(run).parent.mkdir(exist_ok=True)
    lock.lock_path(run).write_text(json.dumps(content))


def gone_pid() -> int:
    done = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], stdout=-1)
    return int(done.stdout)


def test_without_a_lock_nobody_trains(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1])
    assert Pulses().feel(run).life is Life.NONE


def test_an_owner_that_shows_itself_is_live_and_one_that_stops_is_stale(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1])
    clock = Clock()
    pulses = Pulses(clock)
    write_lock(run, pid=os.getpid(), counter=1)
    assert pulses.feel(run).life is Life.LIVE
    assert pulses.feel(run).words == "LIVE at step 40"
    clock.now = QUIET_SECONDS - 1
    assert pulses.feel(run).life is Life.LIVE
    clock.now = QUIET_SECONDS + 5
    pulse = pulses.feel(run)
    assert pulse.life is Life.STALE
    assert "no sign of life for 35 s" in pulse.words
    write_lock(run, pid=os.getpid(), counter=2)
    assert pulses.feel(run).life is Life.LIVE


def test_an_owner_on_another_machine_is_judged_by_its_counter(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1])
    clock = Clock()
    pulses = Pulses(clock)
    write_lock(run, pid=1, host="far-away")
    assert pulses.feel(run).life is Life.LIVE
    clock.now = 2 * QUIET_SECONDS
    assert pulses.feel(run).life is Life.STALE


def test_an_owner_whose_process_is_gone_has_crashed(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1])
    write_lock(run, pid=gone_pid())
    pulse = Pulses().feel(run)
    assert pulse.life is Life.CRASHED
    assert pulse.words == "CRASHED at step 40: its trainer is gone"


def test_the_screen_says_live_and_crashed(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1])
    write_lock(run, pid=os.getpid())

    async def script(d: Driver) -> None:
        assert "LIVE at step 40" in d.lines[0]
        assert "w save now" in d.lines[-1]
        write_lock(run, pid=gone_pid())
        job = d.app.jobs.latest("watch")
        assert job is None
        d.app._tick()
        await d.settle()
        d.app.reader._look()
        await d.settle()
        assert "CRASHED" in d.lines[0]
        assert "w save now" not in d.lines[-1]

    drive(run, script, size=(120, 24))


def test_a_look_notices_what_comes_and_goes_and_nothing_else(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 2])
    watch = Watch()
    assert watch.look(run).stirred
    assert not watch.look(run).stirred
    make_checkpoint(run, "step_3", step=3)
    assert watch.look(run).stirred
    assert not watch.look(run).stirred
    with (run / "metrics.jsonl").open("a") as log:
        log.write('{"step": 3, "attempt": 1, "loss": 1.0}\n')
    seen = watch.look(run)
    assert (seen.stirred, seen.logged) == (False, True)
    (run / ".ckptui" / "pins").mkdir(parents=True)
    assert watch.look(run).stirred
    (run / ".ckptui" / "pins" / "step_1.json").write_text("{}")
    assert watch.look(run).stirred


def test_a_root_is_noticed_to_have_another_run(tmp_path: Path) -> None:
    make_run(tmp_path / "a", [1])
    watch = Watch()
    assert not watch.root_changed(tmp_path)
    assert not watch.root_changed(tmp_path)
    make_run(tmp_path / "b", [1])
    assert watch.root_changed(tmp_path)
