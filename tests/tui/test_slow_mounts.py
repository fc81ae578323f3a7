"""A mount that is slow, and one that never answers: the keys do, and leaving does not wait."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.cli.harness import environment
from tests.factory import make_run
from tests.tui import slow_disk
from tests.tui.terminal import Pty

if TYPE_CHECKING:
    from pathlib import Path

SOON = 1.0
"""Seconds that no key may take, however busy the machine; the benchmark tells how long it was."""


def answers(terminal: Pty, *, rounds: int = 5) -> tuple[list[float], list[float]]:
    """How long help took to open, and to close again."""
    opened, closed = [], []
    for _ in range(rounds):
        sent = terminal.send(b"?")
        opened.append(terminal.until(lambda data: b"Help" in data) - sent)
        terminal.quiet(0.15, patience=1)
        sent = terminal.send(b"\x1b")
        closed.append(terminal.until(lambda data: b" quit" in data) - sent)
        terminal.quiet(0.15, patience=1)
    return opened, closed


def assert_answered(terminal: Pty) -> None:
    """Hold that keys are answered."""
    opened, closed = answers(terminal)
    assert statistics.median(opened) < SOON, opened
    assert statistics.median(closed) < SOON, closed


def leave(terminal: Pty) -> float:
    """Press q; the seconds until the process has gone."""
    sent = terminal.send(b"q")
    took = terminal.ended() - sent
    assert terminal.process.returncode == 0, terminal.data[-2000:]
    terminal.assert_restored()
    assert b"Traceback" not in terminal.data
    return took


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2,000 checkpoints of ten files: 80 seconds of looks at 5 ms each."""
    run = tmp_path_factory.mktemp("large") / "run"
    make_run(run, range(2000), extra_files={f"shard-{i}": b"x" for i in range(4)})
    assert len(list((run / "step_7").iterdir())) == 10
    return run


def test_a_look_from_the_event_loop_would_be_noticed(tmp_path: Path) -> None:
    program = (
        "import asyncio, os, sys; from tests.tui import slow_disk\n"
        "slow_disk.install(sys.argv[1], 0.0, '', sys.argv[2])\n"
        "os.stat(sys.argv[1])\n"
        "async def main(): os.stat(sys.argv[1]); open(sys.argv[1] + '/x', 'w').close()\n"
        "asyncio.run(main())"
    )
    (tmp_path / "it").mkdir()
    words = [sys.executable, "-c", program, str(tmp_path / "it"), str(tmp_path / "log")]
    subprocess.run(words, check=True, env=environment())
    looks = (tmp_path / "log").read_text().splitlines()
    assert looks == [f"stat {tmp_path}/it", f"open {tmp_path}/it/x"]


@pytest.mark.parametrize("theme", ["textual-dark", "ansi-dark"])
def test_b142_a_slow_mount_shows_something_at_once_and_keeps_no_key_waiting(
    large: Path, tmp_path: Path, theme: str
) -> None:
    run = large
    log = tmp_path / "log"
    command = slow_disk.command(run, "browse", run, seconds=0.005, log=log)
    with Pty(command, env={"TEXTUAL_THEME": theme}) as terminal:
        first = terminal.until(lambda data: b"ckptui" in data)
        assert first < 5 * SOON
        assert_answered(terminal)
        terminal.send(b"\x1b")
        terminal.until(lambda data: b"topped" in data, patience=10)  # the scan, by esc
        assert leave(terminal) < 2 * SOON
    assert log.read_text() == "", "the event loop looked at the disk"


@pytest.mark.parametrize("hung", ["step_300", "model.safetensors", "run.json", "metrics.jsonl"])
def test_a_mount_that_never_answers_leaves_the_keys_alive_and_the_way_out(
    tmp_path: Path, hung: str
) -> None:
    run = make_run(tmp_path / "run", [100, 200, 300, 400])
    log = tmp_path / "log"
    with Pty(slow_disk.command(run, "browse", run, hung=hung, log=log)) as terminal:
        terminal.until(lambda data: b"ckptui" in data)
        terminal.until(lambda data: b"waiting for the disk" in data)
        assert_answered(terminal)
        assert leave(terminal) < 2 * SOON
    assert log.read_text() == "", "the event loop looked at the disk"


def test_a_root_that_never_answers_is_no_reason_to_hang(tmp_path: Path) -> None:
    root = tmp_path / "root"
    make_run(root / "a run", [1])
    log = tmp_path / "log"
    with Pty(slow_disk.command(root, "browse", root, hung="a run", log=log)) as terminal:
        terminal.until(lambda data: b"waiting for the disk" in data)
        assert_answered(terminal)
        assert leave(terminal) < 2 * SOON
    assert log.read_text() == ""


def test_ctrl_q_and_sigterm_leave_a_hung_mount_too(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 2])
    for how in ("ctrl+q", "SIGHUP"):
        command = slow_disk.command(run, "browse", run, hung="step_1", log=tmp_path / "log")
        with Pty(command) as terminal:
            terminal.until(lambda data: b"ckptui" in data)
            begun = time.monotonic()
            if how == "ctrl+q":
                terminal.send(b"\x11")
                terminal.ended()
                terminal.assert_restored()
            else:  # the window is closed: ssh is gone
                terminal.process.send_signal(1)
                terminal.ended()
            assert time.monotonic() - begun < 5 * SOON
