"""The browser in a real terminal: tmux draws, keys go in, the screen is read back."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from ckptui.scan import scan_run
from tests.factory import make_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.tmux,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]

PROGRAM = (
    "import sys; from pathlib import Path; from ckptui.tui.app import browse; "
    "print('LEFT', browse(Path(sys.argv[1])))"
)
PATIENCE = 60.0


class Terminal:
    """One tmux server of its own with one window."""

    def __init__(self, folder: Path) -> None:
        self._base = ["tmux", "-S", str(folder / "socket"), "-f", "/dev/null"]

    def tmux(self, *args: str) -> str:
        done = subprocess.run([*self._base, *args], check=True, capture_output=True, text=True)
        return done.stdout

    def start(self, *command: str) -> None:
        env = {"TERM": "xterm-256color", "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        env["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
        words = [f"-e{key}={value}" for key, value in env.items()]
        self.tmux("new-session", "-d", "-x", "80", "-y", "24", *words, "sh")
        self.tmux("set-option", "-g", "remain-on-exit", "on")
        self.keys(f"clear; {shlex.join(command)}; echo RC=$?", "Enter")

    def keys(self, *keys: str) -> None:
        self.tmux("send-keys", *keys)

    @property
    def text(self) -> str:
        return self.tmux("capture-pane", "-p", "-J")

    def wait(self, *words: str) -> str:
        """The screen once all the words are on it."""
        return self.until(lambda text: all(word in text for word in words), str(words))

    def until(self, holds: Callable[[str], bool], what: str) -> str:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            text = self.text
            if holds(text):
                return text
            time.sleep(0.05)
        raise AssertionError(f"{what} did not appear:\n{self.text}")

    def stop(self) -> None:
        subprocess.run([*self._base, "kill-server"], check=False, capture_output=True)


@pytest.fixture
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    one = Terminal(tmp_path_factory.mktemp("t"))
    try:
        yield one
    finally:
        one.stop()


def test_start_pin_prune_undo_resume_quit(terminal: Terminal, tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "my run",
        range(100, 700, 100),
        metrics={s: {"eval_loss": 1.0 + s / 1000} for s in range(100, 700, 100)},
        policy=["keep-last 2"],
    )

    def standing() -> set[int | None]:
        return {c.step for c in scan_run(run).checkpoints}

    terminal.start(sys.executable, "-c", PROGRAM, str(run))
    first = terminal.wait(">", "step_600", "eval_loss", "newest resumable", "q quit")
    assert len(first.rstrip("\n").split("\n")) == 24

    terminal.keys("Down", "Down", "p")
    terminal.wait("Pinned step_400")
    assert (run / ".ckptui/pins/step_400.json").exists()

    terminal.keys("x")
    terminal.wait("remove 3", "pinned", "no rule keeps it", "Move 3 to trash", "Cancel")
    terminal.keys("Tab", "Enter")
    terminal.wait("Moved 3 to the trash")
    assert standing() == {400, 500, 600}
    terminal.keys("Escape")
    terminal.wait("3 checkpoints")

    terminal.keys("z")
    terminal.wait("Restored", "6 checkpoints")
    assert standing() == {100, 200, 300, 400, 500, 600}

    terminal.keys("Home", "r")
    terminal.wait("Resume from step_600", "resume_from=latest", "Copied by tmux")
    buffer = terminal.tmux("show-buffer")
    assert "resume_from=latest" in buffer
    assert f"'{run}/" in buffer
    terminal.keys("Tab", "Tab", "Enter")
    left = terminal.wait("LEFT", "RC=0")
    assert buffer in left.replace("\n", "")
    assert "Traceback" not in left


def test_q_quits_and_the_terminal_is_as_before(terminal: Terminal, tmp_path: Path) -> None:
    make_run(tmp_path / "run", [1])
    terminal.start(sys.executable, "-c", PROGRAM, str(tmp_path))
    terminal.wait("step_1", "q quit")
    terminal.keys("q")
    text = terminal.wait("LEFT None", "RC=0")
    assert "step_1 " not in text
