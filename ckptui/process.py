"""Telling whether the process that a lock or lease names is still the same and alive."""

from __future__ import annotations

import functools
import os
import sys
from datetime import datetime
from pathlib import Path


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


def start_time(pid: int) -> int | None:
    """When a process of this machine started; None if it is gone or only waits to be reaped.

    On Linux in clock ticks since boot (field 22 of `/proc/PID/stat`, proc(5)), elsewhere in seconds
    since the epoch as `ps` tells it.
    """
    if pid <= 0:
        return None
    try:
        # The command in parentheses may hold spaces and parentheses itself: cut at the last one.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return None if fields[0] in "ZXx" else int(fields[19])
    except (OSError, IndexError, ValueError):
        if Path("/proc/self/stat").exists():
            return None
    return _start_from_ps(pid)


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
