"""Alive, gone, waiting to be reaped, or another one under an old number."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ckptui import process

linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])


def test_this_process_runs() -> None:
    started = process.start_time(os.getpid())
    assert started is not None
    assert process.is_running(os.getpid(), started)
    assert process.is_running(os.getpid(), None)


def test_another_process_under_an_old_number_is_not_the_one() -> None:
    started = process.start_time(os.getpid())
    assert started is not None
    assert not process.is_running(os.getpid(), started - 1)


def test_a_killed_process_is_gone_even_before_it_is_reaped() -> None:
    child = sleeper()
    started = process.start_time(child.pid)
    assert process.is_running(child.pid, started)
    child.send_signal(signal.SIGKILL)
    for _ in range(500):
        if not process.is_running(child.pid, started):
            break
        time.sleep(0.01)
    assert not process.is_running(child.pid, started)  # a zombie: nobody has waited for it
    assert process.start_time(child.pid) is None
    child.wait()
    assert not process.is_running(child.pid, started)


def test_a_suspended_process_is_alive() -> None:
    child = sleeper()
    try:
        child.send_signal(signal.SIGSTOP)
        assert process.is_running(child.pid, process.start_time(child.pid))
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize("pid", [0, -1, 2**22 + 1, 10**30])
def test_numbers_that_are_no_process_are_not_running(pid: int) -> None:
    assert process.start_time(pid) is None
    assert not process.is_running(pid, None)


@linux
def test_a_process_that_proc_hides_counts_as_running(monkeypatch: pytest.MonkeyPatch) -> None:
    child = sleeper()
    try:
        started = process.start_time(child.pid)

        def hidden(pid: int) -> list[str]:
            raise FileNotFoundError(pid)

        monkeypatch.setattr(process, "_fields", hidden)
        assert process.is_running(child.pid, started)
        child.kill()
        child.wait()
        assert not process.is_running(child.pid, started)
    finally:
        child.kill()
        child.wait()


@linux
def test_a_command_with_spaces_and_parentheses_is_read_through(tmp_path: Path) -> None:
    odd = tmp_path / "a) R 1 (b c"
    odd.symlink_to(sys.executable)
    child = subprocess.Popen([odd, "-c", "import time; time.sleep(60)"])
    try:
        expected = process.start_time(os.getpid())
        found = process.start_time(child.pid)
        assert found is not None
        assert expected is not None
        assert found >= expected
    finally:
        child.kill()
        child.wait()


@linux
def test_numbers_count_only_on_this_boot_and_in_this_namespace() -> None:
    assert process.is_here(process.boot_id(), process.pid_space())
    assert process.is_here(process.boot_id(), None)
    assert not process.is_here("another boot", process.pid_space())
    assert not process.is_here(process.boot_id(), "pid:[1]")
    assert not process.is_here(None, None)
