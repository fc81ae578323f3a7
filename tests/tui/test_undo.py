"""`z` brings back what was moved, and remembers what it could not bring back."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from ckptui import remove
from ckptui.tui.screens.dialogs import MessageDialog
from tests.factory import make_checkpoint, make_run
from tests.tui.driver import Driver, drive, small_run
from tests.tui.test_gone import look

if TYPE_CHECKING:
    from pathlib import Path


async def move_away(d: Driver, folder: Path) -> None:
    """Move the checkpoint under the cursor to the trash."""
    await d.press("d", "M")
    await d.until(lambda: not folder.exists())
    await d.settle()
    await d.press("escape")


@pytest.mark.parametrize("why", ["taken", "away"])
def test_an_undo_that_failed_can_be_tried_again(tmp_path: Path, why: str) -> None:
    run = small_run(tmp_path / "run")
    away = tmp_path / "away"

    async def script(d: Driver) -> None:
        await d.press("down", "down")
        await move_away(d, run / "step_800")
        if why == "taken":
            make_checkpoint(run, "step_800", step=800)
        else:
            run.rename(away)
        await d.press("z")
        assert isinstance(d.app.screen, MessageDialog)
        await d.press("escape")
        if why == "taken":
            shutil.rmtree(run / "step_800")
        else:
            away.rename(run)
        await look(d)
        await d.press("z")
        assert (run / "step_800").exists()
        assert not remove.list_trash(run)
        await d.press("z")
        assert "Nothing to undo" in d.text

    drive(run, script)


def test_what_the_trash_screen_brought_back_is_not_brought_back_again(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("down", "down")
        await move_away(d, run / "step_800")
        await move_away(d, run / "step_700")
        await d.press("T", "r")
        await d.until((run / "step_700").exists)
        await d.press("escape", "z")
        assert "Restored step_800." in d.text
        await d.press("z")
        assert "Nothing to undo" in d.text

    drive(run, script)


def test_what_comes_back_in_another_run_is_told_with_the_run(tmp_path: Path) -> None:
    make_run(tmp_path / "a", [1, 2, 3])
    make_run(tmp_path / "b", [1, 2, 3, 4])

    async def script(d: Driver) -> None:
        d.app.choose_run(tmp_path / "a")
        await d.settle()
        await d.press("down")
        await move_away(d, tmp_path / "a" / "step_2")
        d.app.choose_run(tmp_path / "b")
        await d.settle()
        await d.press("z")
        assert "Restored step_2 in a." in d.text

    drive(tmp_path, script, size=(160, 45))
