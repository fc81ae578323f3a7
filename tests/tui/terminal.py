"""A program on a terminal of its own: a pseudo-terminal for its bytes, tmux for its screen."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from typing import TYPE_CHECKING

from tests.cli.harness import environment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

CKPTUI = (sys.executable, "-c", "from ckptui.__main__ import start; start()")
"""The command, as the installed script starts it."""
PATIENCE = 60.0
"""Seconds that anything may take on a machine that is busy otherwise."""

_ESCAPES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")


def words(data: bytes) -> str:
    """What was written, without escape sequences."""
    return _ESCAPES.sub(b"", data).decode(errors="replace")


class Pty:
    """A process whose terminal we are: what it writes is kept with the time it came.

    `read` and `until` take what has come; nothing is read behind the caller's back, so that no
    thread of ours disturbs what is measured.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        size: tuple[int, int] = (80, 24),
        cwd: Path | None = None,
        env: Mapping[str, str | None] | None = None,
    ) -> None:
        self.master, slave = pty.openpty()
        self.resize(*size, signal_it=False)
        self.before = termios.tcgetattr(slave)
        """How the terminal was set before the process got it."""
        settings: dict[str, str | None] = {
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "LANG": "C.UTF-8",
            "LC_ALL": None,
            "NO_COLOR": None,
            "TMUX": None,
            "COLUMNS": None,
            "LINES": None,
            "PYTHONDONTWRITEBYTECODE": None,  # users have compiled modules
        }
        self.came: list[tuple[float, bytes]] = []
        """Everything that was written, with the seconds since the start."""
        self.data = b""
        self.begun = time.perf_counter()
        self.process = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=cwd,
            env=environment(**settings | dict(env or {})),
            preexec_fn=_own_terminal,
        )
        self._slave = slave  # kept open: its settings are looked at after the process has gone

    def __enter__(self) -> Pty:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def seconds(self) -> float:
        """Since the start of the process."""
        return time.perf_counter() - self.begun

    def resize(self, columns: int, lines: int, *, signal_it: bool = True) -> None:
        """Make the window larger or smaller."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        if signal_it:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGWINCH)

    def send(self, keys: bytes) -> float:
        """Type; the time at which that was done."""
        os.write(self.master, keys)
        return self.seconds

    def read(self, patience: float) -> bytes:
        """What comes within `patience` seconds, at the first moment there is something."""
        ready, _, _ = select.select([self.master], [], [], max(0.0, patience))
        if not ready:
            return b""
        try:
            data = os.read(self.master, 1 << 16)
        except OSError:  # the other end is closed
            return b""
        self.came.append((self.seconds, data))
        self.data += data
        return data

    def until(self, holds: Callable[[bytes], bool], *, patience: float = PATIENCE) -> float:
        """Wait until what was written from now on fulfils a condition; when it did."""
        start = len(self.data)
        end = time.monotonic() + patience
        while time.monotonic() < end:
            if self.read(0.25) and holds(self.data[start:]):
                return self.came[-1][0]
            if self.process.poll() is not None and not self.read(0.05):
                break
        raise AssertionError(
            f"what was waited for did not come (exit {self.process.poll()}):\n"
            + words(self.data[start:])[-4000:]
        )

    def quiet(self, seconds: float = 0.3, *, patience: float = PATIENCE) -> int:
        """Wait until nothing was written for that long; how many bytes came."""
        start, end = len(self.data), time.monotonic() + patience
        while time.monotonic() < end and self.read(seconds):
            pass
        return len(self.data) - start

    def ended(self, *, patience: float = PATIENCE) -> float:
        """Wait for the process to end, taking what it still writes; when it did."""
        end = time.monotonic() + patience
        while self.process.poll() is None:
            self.read(0.01)
            if time.monotonic() > end:
                raise AssertionError(f"it goes on:\n{words(self.data)[-4000:]}")
        when = self.seconds
        self.quiet(0.05)
        return when

    def assert_restored(self) -> None:
        """Hold that the terminal is as it was: settings, screen, cursor, mouse, pastes."""
        assert termios.tcgetattr(self._slave)[:4] == self.before[:4]
        for on, off in (
            (b"\x1b[?1049h", b"\x1b[?1049l"),  # the alternate screen
            (b"\x1b[?25l", b"\x1b[?25h"),  # the hidden cursor
            (b"\x1b[?1000h", b"\x1b[?1000l"),  # the mouse
            (b"\x1b[?1003h", b"\x1b[?1003l"),
            (b"\x1b[?2004h", b"\x1b[?2004l"),  # bracketed paste
        ):
            assert self.data.rfind(off) >= self.data.rfind(on), (on, "was left on")
            assert self.data.count(off) or not self.data.count(on)

    def kill(self) -> None:
        """End it, whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for descriptor in (self.master, self._slave):
            with contextlib.suppress(OSError):
                os.close(descriptor)


def _own_terminal() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
