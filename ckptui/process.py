"""Telling whether the process that a lock or lease names is still the same and alive."""

from __future__ import annotations

import functools
import os
import sys
from datetime import datetime
from pathlib import Path

_ZOMBIE = frozenset("ZXx")
"""States of a process that only waits to be reaped."""


@functools.cache
def boot_id() -> str | None:
    """What tells this boot of this machine from any other, where the system has such a thing."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        pass
    if sys.platform == "darwin":
        import subprocess  # noqa: PLC0415 - slow to import, and never needed on Linux

        done = subprocess.run(
            ["/usr/sbin/sysctl", "-n", "kern.boottime"], capture_output=True, text=True, check=False
        )
        return done.stdout.strip() or None
    return None


@functools.cache
def pid_space() -> str | None:
    """The namespace in which process numbers count here: a container has one of its own."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return None


def is_here(boot: str | None, space: str | None) -> bool:
    """Whether a process recorded with these runs, or ran, where its number can be looked up.

    Args:
        boot: Its `boot_id`.
        space: Its `pid_space`; None where the record does not tell.
    """
    return boot is not None and boot == boot_id() and space in (None, pid_space())


def is_running(pid: int, started: int | None) -> bool:
    """Whether the process of this machine that had this number and start still runs.

    One that only waits to be reaped does not. What cannot be told counts as running: a mount of
    `/proc` may hide the processes of other users.

    Args:
        pid: Its number.
        started: From `start_time` at the time; None takes any process of that number for it.
    """
    now = start_time(pid)
    if now is not None:
        return started is None or now == started
    if pid <= 0 or _is_zombie(pid):
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    # It takes signals but cannot be looked at, unless it came only now, between the two looks.
    return start_time(pid) is None and not _is_zombie(pid)


def identity() -> dict[str, int | str | None]:
    """What tells this process from every other, as JSON; see `is_gone`."""
    pid = os.getpid()
    return {
        "pid": pid,
        "start_time": start_time(pid),
        "boot_id": boot_id(),
        "pid_space": pid_space(),
    }


def is_gone(recorded: object) -> bool:
    """Whether a process that recorded its `identity` has surely ended."""
    if not isinstance(recorded, dict):
        return False
    pid, started = recorded.get("pid"), recorded.get("start_time")
    boot, space = recorded.get("boot_id"), recorded.get("pid_space")
    return (
        type(pid) is int
        and pid > 0
        and (started is None or type(started) is int)
        and isinstance(boot, str)
        and isinstance(space, str)
        and is_here(boot, space)
        and not is_running(pid, started)
    )


def start_time(pid: int) -> int | None:
    """When a process of this machine started; None if it is gone or only waits to be reaped.

    On Linux in clock ticks since boot (field 22 of `/proc/PID/stat`, proc(5)), elsewhere in seconds
    since the epoch as `ps` tells it.
    """
    if pid <= 0:
        return None
    try:
        fields = _fields(pid)
        return None if fields[0] in _ZOMBIE else int(fields[19])
    except (OSError, IndexError, ValueError):
        if Path("/proc/self/stat").exists():
            return None
    return _start_from_ps(pid)


def _is_zombie(pid: int) -> bool:
    try:
        return _fields(pid)[0] in _ZOMBIE
    except (OSError, IndexError):
        return False


def _fields(pid: int) -> list[str]:
    """`/proc/PID/stat` from the state on."""
    # The command in parentheses may hold spaces and parentheses itself: cut at the last one.
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()


def _start_from_ps(pid: int) -> int | None:
    import subprocess  # noqa: PLC0415 - slow to import, and never needed on Linux

    try:
        done = subprocess.run(
            ["ps", "-o", "lstart=", "-p", str(pid)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
        started = datetime.strptime(done.stdout.strip(), "%a %b %d %H:%M:%S %Y").astimezone()
        return int(started.timestamp())
    except (OSError, ValueError):
        return None
