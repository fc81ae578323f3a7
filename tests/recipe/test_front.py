"""What the recipe shows, and what it never loads."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from recipe_integration.progress import Progress
from tests.recipe.harness import word

if TYPE_CHECKING:
    from typing import Any

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[2]


def test_the_recipe_loads_neither_command_line_nor_browser() -> None:
    code = (
        "import sys, recipe_integration.demo, recipe_integration.evaluate\n"
        "bad = [m for m in sys.modules if m.split('.')[0] in ('click', 'textual')"
        " or m.startswith(('ckptui.cli', 'ckptui.tui'))]\n"
        "sys.exit(' '.join(bad) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_off_a_terminal_there_is_a_plain_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    progress = Progress(total=50, done=0)
    for step in range(1, 31):
        now += 1
        progress.step(step, loss=1.5, lr=1e-3)
    progress.say("saved")
    progress.close()
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err.splitlines() == [
        *(f"step {step}/50: loss 1.5000, lr 1.00e-03" for step in (10, 20, 30)),
        "saved",
    ]


def test_a_loss_that_is_not_finite_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(total=5, done=0)
    for step in (1, 2, 3):
        progress.step(step, loss=float("nan"), lr=0.1)
    assert capsys.readouterr().err.count("not finite") == 1


def test_on_a_terminal_there_is_a_bar(tmp_path: Path, base: dict[str, Any]) -> None:
    settings = {**base, "output_dir": tmp_path / "run", "epochs": 1}
    arguments = [f"{key}={word(value)}" for key, value in settings.items()]
    main, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "recipe_integration.full_finetune_single_device", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=terminal,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(terminal)
    shown = b""
    while True:
        try:
            chunk = os.read(main, 4096)
        except OSError:  # Linux says so when the other side is closed
            break
        if not chunk:
            break
        shown += chunk
    os.close(main)
    output = process.communicate()[0]
    assert process.returncode == 0, shown
    assert output == b""
    assert b"4/4" in shown
    assert b"loss" in shown
    assert b"saved step_4" in shown
