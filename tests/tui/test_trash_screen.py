from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ckptui import pins, remove
from ckptui.scan import scan_run
from ckptui.tui.screens.copying import CopyDialog
from ckptui.tui.screens.dialogs import InputDialog
from ckptui.tui.screens.trash import TrashScreen
from tests.factory import make_run
from tests.tui.driver import SIZES, Driver, drive

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _no_tmux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMUX", raising=False)


def trashed(path: Path, steps: range = range(1, 5)) -> Path:
    """A run with one checkpoint left, the others in the trash one by one."""
    run = make_run(path, [*steps, 9])
    for checkpoint in scan_run(run).checkpoints[:-1]:
        remove.move_to_trash([checkpoint], why="rm")
    return run


def standing(run: Path) -> set[str]:
    return {p.name for p in run.glob("step_*")}


def trash(d: Driver) -> TrashScreen:
    assert isinstance(d.app.screen, TrashScreen)
    return d.app.screen


@pytest.mark.parametrize("size", [*SIZES, (40, 10)])
def test_the_marked_items_come_back_and_no_other(tmp_path: Path, size: tuple[int, int]) -> None:
    run = trashed(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("T", "space", "down", "space")
        assert "2 marked" in d.text
        await d.press("r")
        assert "2 items, emptying frees" in d.text
        await d.press("escape")
        assert d.app.screen is d.main

    drive(run, script, size=size)
    assert standing(run) == {"step_9", "step_4", "step_2"}


def test_single_items_are_deleted_for_good_once_their_number_is_typed(tmp_path: Path) -> None:
    run = trashed(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("T", "down", "D")
        assert isinstance(d.app.screen, InputDialog)
        assert "for good: step_3. Nothing brings it back. Type 1 to do it." in d.words
        await d.press("4", "enter")
        assert isinstance(d.app.screen, InputDialog)
        await d.press("ctrl+u", "1", "enter")
        assert "Deleted 1 for good" in d.text

    drive(run, script)
    assert {item.name for item in remove.list_trash(run)} == {"step_1", "step_2", "step_4"}


def test_what_the_dialog_named_is_deleted_though_the_trash_changes_meanwhile(
    tmp_path: Path,
) -> None:
    run = trashed(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("T", "E")
        late = make_run(tmp_path / "other", [5]) / "step_5"
        late.rename(run / "step_5")
        remove.move_to_trash([scan_run(run).checkpoints[0]], why="rm")
        d.app.reader.read_runs([run])
        await d.settle()
        await d.press("4", "enter")
        assert "Deleted 4 for good" in d.text

    drive(run, script)
    assert [item.name for item in remove.list_trash(run)] == ["step_5"]


def test_the_cursor_stays_on_its_item(tmp_path: Path) -> None:
    run = trashed(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("T", "down", "down")
        item = trash(d).table.current
        assert item is not None
        assert item.name == "step_2"
        remove.restore(next(i for i in remove.list_trash(run) if i.name == "step_4"))
        d.app.reader.read_runs([run])
        await d.settle()
        assert len(trash(d).table.rows) == 3
        assert trash(d).table.current == item

    drive(run, script)


def test_rewinds_pins_and_unfinished_deletions_are_explained(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", range(1, 6))
    found = scan_run(run).checkpoints
    remove.move_to_trash(found[0:2], why="rewind", reason="rewind to step 0")
    pins.pin(found[2])
    item = remove.move_to_trash([found[3]], why="rm")
    folder = run / ".ckptui" / "trash" / item
    (run / "step_3").rename(folder / "step_3")  # as an older version would have moved it
    entry = json.loads((folder / "entry.json").read_text())
    entry["checkpoints"].append({"name": "step_3", "from": "step_3", "step": 3})
    (folder / "entry.json").write_text(json.dumps(entry))

    async def script(d: Driver) -> None:
        await d.press("T")
        assert "Its pin waits for it" in d.words
        assert ">P " in d.text
        await d.press("down")
        assert "A rewind left these behind" in d.words
        assert "2 checkpoints come back together: step_1, step_2" in d.words
        folder.rename(folder.with_name(item + remove.DELETING))
        trash(d).state_changed()
        await d.settle()
        await d.press("home")
        assert "D finishes it" in d.words

    drive(run, script)


def test_the_command_restores_the_same(tmp_path: Path) -> None:
    run = trashed(tmp_path / "a run")
    copied = []

    async def script(d: Driver) -> None:
        await d.press("T", "space", "y")
        assert isinstance(d.app.screen, CopyDialog)
        copied.append(d.app.clipboard)

    drive(run, script)
    words = shlex.split(copied[0])
    done = subprocess.run(
        [sys.executable, "-m", *words], capture_output=True, text=True, env=os.environ, check=False
    )
    assert done.returncode == 0, done.stderr
    assert standing(run) == {"step_9", "step_4"}


def test_nothing_is_restored_or_deleted_where_nothing_may_be_changed(tmp_path: Path) -> None:
    run = trashed(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("T", "enter")
        assert "read-only" in d.text
        await d.press("a", "D", "E")
        assert d.app.screen is trash(d)

    drive(run, script, read_only=True)
    assert len(remove.list_trash(run)) == 4


def test_an_empty_trash_says_so(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        await d.press("T", "E")
        assert d.app.screen is trash(d)
        assert d.text.count("The trash is empty.") == 2

    drive(make_run(tmp_path / "run", [1]), script)


def test_undo_says_by_name_what_cannot_come_back(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", range(1, 6))

    async def script(d: Driver) -> None:
        await d.press("x", "e", "ctrl+u", *"keep-last 2", "enter")
        await d.press("M", "escape", "T", "r")
        assert "step_3" in standing(run)
        await d.press("D", "1", "enter", "escape", "z")
        assert "Deleted from the trash for good meanwhile: step_2." in d.words
        assert "step_3" not in d.words  # it is back: nothing of it is left to undo

    drive(run, script)
    assert standing(run) == {"step_1", "step_3", "step_4", "step_5"}


def test_the_trash_and_the_journal_of_a_run_that_is_gone_say_so(tmp_path: Path) -> None:
    run = trashed(tmp_path / "run")

    async def script(d: Driver) -> None:
        run.rename(tmp_path / "away")
        for key in ("T", "l"):
            await d.press(key)
            assert "There is no run at" in d.words
            await d.press("escape")

    drive(run, script)


async def look(d: Driver) -> None:
    d.app.reader.read_all()
    await d.settle()


def test_only_what_this_session_deleted_is_counted_as_deleted(tmp_path: Path) -> None:
    run = trashed(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("T", "E")
        four, three = (next(i for i in remove.list_trash(run) if i.step == n) for n in (4, 3))
        remove.restore(four)
        remove.empty(three)
        await d.press("4", "enter")
        assert "step_4 was brought back meanwhile." in d.words
        assert "step_3 was not in the trash any more." in d.words
        await d.press("escape")
        assert "Deleted 2 for good" in d.text

    drive(run, script)
    assert standing(run) == {"step_9", "step_4"}


def test_nothing_is_told_of_the_trash_of_a_run_that_went_away_but_that(tmp_path: Path) -> None:
    run, away = trashed(tmp_path / "run"), tmp_path / "away"

    async def script(d: Driver) -> None:
        await d.press("T", "D")
        run.rename(away)
        await d.press("1", "enter")
        assert "Not done" in d.text
        assert "There is no run at" in d.words
        await d.press("escape")
        await look(d)
        assert "step_4" not in d.text
        for key in ("r", "a", "D", "E", "y", "space"):
            await d.press(key)
            assert d.app.screen is trash(d)
            assert "There is no run at" in d.lines[-2]
        away.rename(run)
        await look(d)
        assert "There is no run at" not in d.words
        await d.press("r")

    drive(run, script)
    assert standing(run) == {"step_9", "step_4"}
    assert len(remove.list_trash(run)) == 3


def test_undo_of_a_run_that_went_away_calls_nothing_deleted(tmp_path: Path) -> None:
    run, away = make_run(tmp_path / "run", [1, 2, 3]), tmp_path / "away"

    async def script(d: Driver) -> None:
        await d.press("down", "d", "M", "escape")
        run.rename(away)
        await d.press("z")
        assert "There is no run at" in d.words
        assert "Deleted" not in d.words

    drive(run, script)
    assert [item.name for item in remove.list_trash(away)] == ["step_2"]


def test_what_came_back_and_went_again_is_not_called_deleted(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 2, 3])

    async def script(d: Driver) -> None:
        await d.press("down", "d", "M", "escape")
        remove.restore(remove.list_trash(run)[0])
        remove.move_to_trash([scan_run(run).checkpoints[1]], why="rm")
        await d.press("z")
        assert "Brought back and moved to the trash again meanwhile: step_2." in d.words

    drive(run, script)


def test_a_restoring_that_failed_does_not_seem_to_go_on(tmp_path: Path) -> None:
    run = trashed(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("T")
        (run / "step_4").mkdir()
        await d.press("r")
        assert "is taken" in d.words
        await d.press("escape")
        assert "Restoring" not in d.text
        assert "Nothing was restored." in d.text

    drive(run, script)
