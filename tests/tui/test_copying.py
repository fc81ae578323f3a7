from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ckptui import pins
from ckptui.scan import scan_run
from ckptui.tui.screens.copying import CopyMenu, entries
from tests.factory import make_checkpoint, make_run
from tests.tui.driver import SIZES, Driver, drive

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _no_tmux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMUX", raising=False)


@pytest.mark.parametrize("size", [*SIZES, (40, 10)])
def test_the_text_under_the_cursor_is_shown_whole_and_enter_copies_it(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    run = make_run(tmp_path / "a run; $x", [1, 2])

    async def script(d: Driver) -> None:
        row = d.main.current
        assert row is not None
        d.app.push_screen(CopyMenu("Copy of step_2", entries(row)))
        await d.settle()
        assert str(run / "step_2").replace(" ", "") in "".join(d.words.split())
        await d.press("enter")
        assert d.app.clipboard == str(run / "step_2")
        assert "Copied by OSC 52" in d.words
        await d.press("j", "j", "j", "y")
        assert d.app.clipboard == f"ckptui show '{run}/step_2'"
        assert d.app.clipboard.replace(" ", "") in "".join(d.words.split())
        await d.press("escape")
        assert d.app.screen is d.main

    drive(run, script, size=size)


def test_the_commands_do_what_they_say(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a run", [1])
    make_checkpoint(run, "step_2", step=2, parent={"name": "step_1", "step": 1})
    pins.pin(scan_run(run).checkpoints[0])
    found: dict[str, dict[str, str]] = {}

    async def script(d: Driver) -> None:
        for row in d.main.checkpoints.rows:
            found[row.checkpoint.name] = dict(entries(row))

    drive(run, script)
    assert "command: unpin" in found["step_1"]
    assert "command: pin" in found["step_2"]
    assert "command: differences to step_1" in found["step_2"]
    for words in found["step_2"].values():
        if not words.startswith("ckptui ") or " diff " in words:
            continue
        line = words.replace("ckptui", f"{sys.executable} -m ckptui", 1)
        if " rm " in words:
            line += " --dry-run"
        done = subprocess.run(
            line, shell=True, capture_output=True, text=True, env=os.environ, cwd="/", check=False
        )
        refused = " rm " in words  # the newest one that training can continue from
        assert done.returncode == (1 if refused else 0), (words, done.stderr)
        assert "step_2" in done.stdout + done.stderr or "resume_from=latest" in done.stdout
