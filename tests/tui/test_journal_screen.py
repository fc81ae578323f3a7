from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ckptui import journal
from ckptui.tui.screens.copying import CopyMenu
from ckptui.tui.screens.journal import JournalScreen
from tests.factory import make_run
from tests.tui.driver import SIZES, Driver, drive

if TYPE_CHECKING:
    from pathlib import Path

LONG = (
    "the learning rate was dropped here by hand, so this one is needed for the table in the paper"
)


@pytest.fixture(autouse=True)
def _no_tmux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMUX", raising=False)


def recorded(path: Path) -> Path:
    run = make_run(path, [1])
    journal.record(run, "prune", checkpoints=[f"step_{i}" for i in range(100, 112)], reason=LONG)
    journal.record(run, "pin", checkpoints=["step_100"], reason="[/b] \x1b]0;x")
    return run


def shown(d: Driver) -> list[str]:
    assert isinstance(d.app.screen, JournalScreen)
    return [row[1].what for row in d.app.screen.table.rows]


@pytest.mark.parametrize("size", [*SIZES, (40, 12)])
def test_the_event_under_the_cursor_is_shown_in_full(tmp_path: Path, size: tuple[int, int]) -> None:
    async def script(d: Driver) -> None:
        await d.press("l")
        assert shown(d) == ["pin", "prune"]
        await d.press("down")
        if size[1] > 12:
            assert f"reason: {LONG}" in d.words
            assert "step_100, step_101" in d.words
            assert "step_111" in d.words

    drive(recorded(tmp_path / "run"), script, size=size)


def test_words_narrow_the_list_and_escape_shows_all_again(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        await d.press("l", "slash", *"LEARNING 111")
        assert shown(d) == ["prune"]
        assert "1 of 2 events" in d.text
        assert "esc show all" in d.text
        assert "q quit" not in d.text
        await d.press("enter", "slash", *" none")
        assert "No event holds these words" in d.text
        await d.press("escape")
        assert shown(d) == ["pin", "prune"]
        await d.press("escape")
        assert d.app.screen is d.main

    drive(recorded(tmp_path / "run"), script)


def test_an_event_is_copied_whole(tmp_path: Path) -> None:
    run = recorded(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("l", "down", "y", "enter")
        assert isinstance(d.app.screen, CopyMenu)
        assert "prune  step_100, " in d.app.clipboard
        assert LONG in d.app.clipboard
        await d.press("down", "enter")
        assert d.app.clipboard == f"ckptui log {run}"

    drive(run, script)


def test_damage_is_told_and_what_is_done_meanwhile_appears(tmp_path: Path) -> None:
    run = recorded(tmp_path / "run")
    with (run / ".ckptui" / "journal.jsonl").open("a") as f:
        f.write("{torn\n")

    async def script(d: Driver) -> None:
        await d.press("l")
        assert "! line 3 is damaged" in d.text
        journal.record(run, "unpin", checkpoints=["step_100"])
        d.app.state_changed()
        await d.settle()
        assert shown(d) == ["unpin", "pin", "prune"]

    drive(run, script)
