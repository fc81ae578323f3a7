from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ckptui import pins, schema
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
        d.app.push_screen(CopyMenu("Copy of step_2", entries(row, d.app.reader.views)))
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
            found[row.checkpoint.name] = dict(entries(row, d.app.reader.views))

    drive(run, script)
    assert "command: unpin" in found["step_1"]
    assert "command: pin" in found["step_2"]
    assert "command: differences to step_1" in found["step_2"]
    for words in found["step_2"].values():
        if not words.startswith("ckptui ") or " diff " in words:
            continue
        line = words.replace("ckptui", f"{sys.executable} -m ckptui", 1)
        done = subprocess.run(
            line, shell=True, capture_output=True, text=True, env=os.environ, cwd="/", check=False
        )
        assert done.returncode == 0, (words, done.stderr)
        assert "step_2" in done.stdout + done.stderr or "resume_from=latest" in done.stdout


def test_no_command_is_offered_that_would_be_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 2])
    make_checkpoint(run, "step_3", step=3, parent={"name": "step_0", "step": 0})
    make_checkpoint(run, "step_4", step=4, marker=False)
    staged = run / schema.TOOL_DIR / schema.STAGING / "step_9-0123456789abcdef"
    staged.mkdir(parents=True)
    (staged / "model.safetensors").write_bytes(b"0" * 300)
    (tmp_path / "theirs" / "step_1").mkdir(parents=True)
    (tmp_path / "theirs" / "step_1" / "weights.bin").write_bytes(b"0")
    found: dict[str, list[str]] = {}

    async def script(d: Driver) -> None:
        for view in d.app.reader.views.values():
            for row in view.rows:
                offered = [label for label, _ in entries(row, d.app.reader.views)]
                found[f"{row.checkpoint.state} {row.checkpoint.name}"] = offered[3:]

    drive(tmp_path, script)
    show, pin, rm = "command: show everything", "command: pin", "command: move to the trash"
    resume, verify = "command: resume from it", "command: verify every file"
    assert found == {
        "ok step_1": [show, pin, resume, verify, rm],
        "ok step_2": [show, pin, resume, verify, rm],
        "ok step_3": [show, pin, resume, verify],  # the newest, and its parent is gone
        "partial step_4": [show, pin, verify, rm],
        "writing step_9": [],
        "unknown step_1": [show],
    }


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("a\nrun", "characters that a shell would obey"),
        ("a\udcffrun", "bytes that are no text"),
    ],
)
def test_what_is_not_copied_is_told_in_the_dialog(tmp_path: Path, name: str, why: str) -> None:
    run = make_run(tmp_path / name, [1, 2])

    async def script(d: Driver) -> None:
        await d.press("y", "enter")
        assert f"Not copied: it holds {why}" in d.words
        await d.press("escape", "x", "y")
        assert why in d.words
        await d.press("escape", "escape", "n", "ctrl+y")
        assert why in d.words
        assert d.app.clipboard == ""

    drive(run, script, size=(100, 30))


def test_the_command_that_clears_a_note_clears_it(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 2])
    pins.pin(scan_run(run).checkpoints[1], note="why")

    async def script(d: Driver) -> None:
        await d.press("n", "ctrl+u", "ctrl+y")
        assert d.app.clipboard == f"ckptui pin {run}/step_2 --note ''"

    drive(run, script)
