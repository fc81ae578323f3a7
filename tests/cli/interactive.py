"""An interactive bash, zsh or fish on a terminal of its own, with our completion loaded."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import termios
import time
from typing import TYPE_CHECKING

import pytest

from tests.cli.harness import environment, executable

if TYPE_CHECKING:
    from pathlib import Path

SHELLS = ("bash", "zsh", "fish")
_PROMPT = "READY> "
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z@]|\x1b\][^\x07]*\x07|\x1b\(B|\x1b[=>]|\x0f")
_START = {
    "bash": (
        ["bash", "--norc", "--noprofile", "-i"],
        "PS1='READY''> '; bind 'set bell-style none'; bind 'set show-all-if-ambiguous on'; "
        "bind 'set completion-query-items 0'; bind 'set page-completions off'; "
        "bind 'set enable-bracketed-paste off'; "
        "args() { printf '[%s]\\n' \"$@\"; echo END; }",
    ),
    "zsh": (
        ["zsh", "-f", "-i"],
        "PS1='READY''> '; unsetopt prompt_cr prompt_sp beep; bindkey -e; LISTMAX=100000; "
        "autoload -Uz compinit; compinit -u -D; "
        "args() { printf '[%s]\\n' \"$@\"; echo END; }",
    ),
    "fish": (
        ["fish", "--no-config", "-i"],
        "function fish_prompt; echo 'READY''> '; end; set -g fish_autosuggestion_enabled 0; "
        "function fish_title; end; function args; printf '[%s]\\n' $argv; echo END; end",
    ),
}


class Shell:
    """Typed into as by a person."""

    def __init__(self, kind: str, folder: Path, *, cwd: Path, **env: str | None) -> None:
        if shutil.which(kind) is None:
            pytest.skip(f"{kind} is not installed")
        self.kind = kind
        home = folder / f"home-{kind}"
        home.mkdir()
        command = folder / "bin" / "ckptui"
        if not command.exists():
            executable(command.parent)
        path = f"{command.parent}:{os.environ['PATH']}"
        around = {"TERM": "xterm", "PATH": path, "HOME": str(home), "ZDOTDIR": str(home)}
        whole = environment(**{**around, "HISTFILE": None, "COLUMNS": None, "LINES": None, **env})
        script = home / "script"
        made = subprocess.run([command, "completion", kind], env=whole, capture_output=True)
        script.write_bytes(made.stdout)
        words, start = _START[kind]
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
        self._process = subprocess.Popen(
            words,
            cwd=cwd,
            env=whole,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)
        self._text = ""
        self._type(f"{start}; source '{script}'\r")
        self._until(lambda text: text.rstrip().endswith(_PROMPT.rstrip()))

    def __enter__(self) -> Shell:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._ours)

    def run(self, line: str) -> None:
        """Have a line carried out."""
        self._text = ""
        self._type(f"{line}; args\r")
        self._until(lambda text: re.search(r"^END\s*$", text, re.MULTILINE) is not None)
        self._until(lambda text: text.rstrip().endswith(_PROMPT.rstrip()))

    def completed(self, line: str) -> list[str]:
        """The words that the shell makes of a line after TAB."""
        self._text = ""
        self._type(f"{line}\t\x01args \r")
        shown = self._until(lambda text: re.search(r"^END\s*$", text, re.MULTILINE) is not None)
        self._until(lambda text: text.rstrip().endswith(_PROMPT.rstrip()))
        return re.findall(r"^\[(.*)\]\s*$", shown, re.MULTILINE)

    def offered(self, line: str, awaited: str) -> list[str]:
        """The words that the shell shows after TAB, pressed twice; the line is then given up.

        Args:
            line: What is typed before.
            awaited: A word that is shown in any case.
        """
        self._text = ""
        self._type(f"{line}\t\t")
        self._until(lambda text: awaited in text)
        self._read(0.5)
        shown = self.text
        self._type("\x03")
        self._text = ""
        self._type("\x15\r")
        self._until(lambda text: text.rstrip().endswith(_PROMPT.rstrip()))
        return shown.replace(_PROMPT, " ").split()

    @property
    def text(self) -> str:
        """What came since the last line, without control sequences."""
        return _CONTROL.sub("", self._text).replace("\r\n", "\n")

    def _type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def _until(self, holds: object) -> str:
        assert callable(holds)
        end = time.monotonic() + 30
        while not holds(self.text):
            if time.monotonic() > end:
                self._type("\x03")  # so that the next line is not the rest of this one
                pytest.fail(f"{self.kind} hangs after {self._text!r}")
            self._read(0.05)
        return self.text

    def _read(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self._ours], [], [], left)[0]:
                with contextlib.suppress(OSError):
                    self._text += os.read(self._ours, 65536).decode(errors="replace")
                if seconds < 0.1:
                    return
