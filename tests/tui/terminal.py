"""A program on a terminal of its own: a pseudo-terminal for its bytes, tmux for its screen."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from typing import TYPE_CHECKING

from tests.cli.harness import environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

CKPTUI = (sys.executable, "-c", "from ckptui.__main__ import start; start()")
"""The command, as the installed script starts it."""
PATIENCE = 30.0
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


class Tmux:
    """One tmux server of its own with one window, in which a shell starts the program."""

    def __init__(self, folder: Path) -> None:
        self._base = ["tmux", "-S", str(folder / "socket"), "-f", "/dev/null"]

    def tmux(self, *args: str) -> str:
        """What a tmux command answers."""
        done = subprocess.run([*self._base, *args], check=True, capture_output=True, text=True)
        return done.stdout

    def start(
        self,
        *command: str | Path,
        size: tuple[int, int] = (80, 24),
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Type a command into the shell; `RC=` and its code follow once it has ended."""
        settings = {"TERM": "xterm-256color", "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        settings["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
        settings["PS1"] = "$ "
        words = [f"-e{key}={value}" for key, value in settings.items()]
        columns, lines = map(str, size)
        self.tmux("new-session", "-d", "-x", columns, "-y", lines, *words, "sh")
        self.tmux("set-option", "-g", "remain-on-exit", "on")
        self.tmux("set-option", "-g", "window-size", "manual")
        self.until(lambda text: bool(text.strip()), "the shell's prompt")  # else keys are lost
        # Set for the program alone: tmux has its own idea of TERM for what it starts.
        # A size in the environment would be believed instead of the terminal's own.
        own = ["env", "-u", "COLUMNS", "-u", "LINES", "-u", "NO_COLOR", "-u", "LC_ALL"]
        own += [f"{key}={value}" for key, value in (env or {}).items()]
        self.keys(f"clear; {shlex.join([*own, *map(str, command)])}; echo RC=$?", "Enter")

    def keys(self, *keys: str) -> None:
        """Press keys, named as tmux names them."""
        self.tmux("send-keys", *keys)

    def type(self, text: str) -> None:
        """Type a text as it is."""
        self.tmux("send-keys", "-l", text)

    def resize(self, columns: int, lines: int) -> None:
        """Make the window larger or smaller."""
        self.tmux("resize-window", "-x", str(columns), "-y", str(lines))

    @property
    def text(self) -> str:
        """The screen, line by line."""
        return self.tmux("capture-pane", "-p", "-N")

    @property
    def coloured(self) -> str:
        """The screen with its colours, as escape sequences."""
        return self.tmux("capture-pane", "-p", "-e")

    def ask(self, what: str) -> str:
        """A format of tmux: `#{cursor_flag}` and the like."""
        return self.tmux("display-message", "-p", what).strip()

    def wait(self, *words: str) -> str:
        """The screen once all the words are on it."""
        return self.until(lambda text: all(word in text for word in words), str(words))

    def gone(self, *words: str) -> str:
        """The screen once none of the words is on it."""
        return self.until(lambda text: not any(word in text for word in words), f"without {words}")

    def until(self, holds: Callable[[str], bool], what: str) -> str:
        """The screen once a condition holds."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            text = self.text
            if holds(text):
                return text
            time.sleep(0.05)
        raise AssertionError(f"{what} did not appear:\n{self.text}")

    def stop(self) -> None:
        """End the server and all in it."""
        subprocess.run([*self._base, "kill-server"], check=False, capture_output=True)


@contextlib.contextmanager
def tmux(folder: Path) -> Iterator[Tmux]:
    """A tmux server that ends with the context."""
    one = Tmux(folder)
    try:
        yield one
    finally:
        one.stop()
