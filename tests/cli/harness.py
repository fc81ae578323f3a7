"""Running the command line: in this process, in one of its own, and on a terminal."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from ckptui.cli import main

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HERE = Path(__file__).parent.parent.parent
COMMAND = (sys.executable, "-m", "ckptui")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command line answered."""

    code: int
    out: str
    err: str


def ckptui(*words: str | Path) -> Outcome:
    """Run in this process: quick; no terminal, nothing on stdin."""
    runner = CliRunner(catch_exceptions=False)
    result = runner.invoke(main, [str(w) for w in words], prog_name="ckptui")
    return Outcome(result.exit_code, result.stdout, result.stderr)


def ok(*words: str | Path) -> Outcome:
    """Run in this process; it must succeed."""
    outcome = ckptui(*words)
    assert outcome.code == 0, outcome
    return outcome


def answer(*words: str | Path, code: int = 0) -> dict[str, Any]:
    """Run with `--json`, and read the answer as strictly as any parser may."""
    outcome = ckptui(*words, "--json")
    assert outcome.code == code, outcome
    return strict(outcome.out)


def environment(**changes: str | None) -> dict[str, str]:
    """The environment of a process of its own: ours without what would change the answer."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("CKPTUI", "_CKPTUI"))}
    env["CKPTUI_CONFIG"] = os.devnull  # the settings of whoever runs the tests
    env["PYTHONPATH"] = os.pathsep.join([str(HERE), env.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    for key, value in changes.items():
        env.pop(key, None)
        if value is not None:
            env[key] = value
    return env


def process(
    *words: str | bytes | Path,
    cwd: Path | None = None,
    env: Mapping[str, str | None] | None = None,
    **options: Any,
) -> subprocess.CompletedProcess[bytes]:
    """Run in a process of its own, with pipes for the three streams."""
    return subprocess.run(
        [*COMMAND, *words],
        cwd=cwd,
        env=environment(**(env or {})),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=60,
        **options,
    )


def shell(line: str, *, cwd: Path, **env: str | None) -> subprocess.CompletedProcess[str]:
    """Run a line of bash in which `ckptui` is the command."""
    command = f'ckptui() {{ "{sys.executable}" -m ckptui "$@"; }}\n{line}'
    return subprocess.run(
        ["bash", "-c", command],
        cwd=cwd,
        env=environment(**env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def executable(folder: Path) -> Path:
    """A file `ckptui` in a new folder for `PATH`, for what finds its commands there."""
    path = folder / "ckptui"
    folder.mkdir()
    start = "from ckptui.cli import main; main(prog_name='ckptui')"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{start}" "$@"\n')
    path.chmod(0o755)
    return path


def strict(text: str) -> dict[str, Any]:
    """The JSON object in a text: ASCII, one document, no NaN, no key twice, no lone surrogate."""
    assert text.isascii()
    assert text.endswith("\n")
    value = json.loads(text, parse_constant=_refuse, object_pairs_hook=_no_duplicates)
    assert isinstance(value, dict)
    for found in _texts(value):
        found.encode("utf-8")
    assert value["version"] == 1
    return value


def _refuse(token: str) -> None:
    msg = f"{token} is not strict JSON"
    raise ValueError(msg)


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    assert len(found) == len(pairs), pairs
    return found


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [t for pair in value.items() for part in pair for t in _texts(part)]
    if isinstance(value, list):
        return [t for part in value for t in _texts(part)]
    return []


class Terminal:
    """A command on a terminal of its own, to be typed into and read from."""

    def __init__(
        self,
        *words: str | Path,
        env: Mapping[str, str | None] | None = None,
        stdout: int | None = None,
        cwd: Path | None = None,
        size: tuple[int, int] = (24, 80),
    ) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        self._process = subprocess.Popen(
            [*COMMAND, *words],
            cwd=cwd,
            env=environment(**{"TERM": "xterm", "COLUMNS": None, "LINES": None, **(env or {})}),
            stdin=theirs,
            stdout=theirs if stdout is None else stdout,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)
        self.text = ""

    def wait_for(self, text: str) -> None:
        """Read until a text has come."""
        end = time.monotonic() + 30
        while text not in self.text:
            assert time.monotonic() < end, self.text
            assert self._read(1.0) or text in self.text, self.text

    def type(self, text: str) -> None:
        """Send keys."""
        os.write(self._ours, text.encode())

    def end(self) -> int:
        """Read to the end; the exit code."""
        while self._read(30):
            pass
        code = self._process.wait(30)
        os.close(self._ours)
        return code

    def _read(self, seconds: float) -> bool:
        if not select.select([self._ours], [], [], seconds)[0]:
            return True
        with contextlib.suppress(OSError):
            data = os.read(self._ours, 65536)
            self.text += data.decode(errors="replace").replace("\r\n", "\n")
            return bool(data)
        return False


def tree(path: Path) -> dict[str, bytes]:
    """Every file below a path with its content."""
    return {
        str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()
    }


def names(folder: Path) -> Sequence[str]:
    """The checkpoints that stand in a run, by number."""
    found = [p.name for p in folder.iterdir() if p.name.startswith(("step_", "epoch_"))]
    return sorted(found, key=lambda n: int(n.split("_")[1]))
