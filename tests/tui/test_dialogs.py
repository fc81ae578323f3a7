from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from textual.widgets import OptionList

from ckptui.tui.screens.copying import pin_line
from ckptui.tui.screens.dialogs import (
    InputDialog,
    MenuDialog,
    MessageDialog,
    MultiMenuDialog,
    QuestionDialog,
)
from tests.factory import make_run
from tests.tui.driver import SIZES, Driver, drive, driving

if TYPE_CHECKING:
    from pathlib import Path

    from ckptui.tui.screens.base import Dialog

LOW = (40, 10)
LONG = " ".join(f"word{i}" for i in range(200))


async def asked(d: Driver, dialog: Dialog[Any]) -> list[Any]:
    """Open a dialog; its answer comes into the list."""
    answers: list[Any] = []
    d.app.push_screen(dialog, answers.append)
    await d.settle()
    return answers


@pytest.mark.parametrize("size", [*SIZES, LOW])
def test_a_long_text_scrolls_and_the_buttons_stay(tmp_path: Path, size: tuple[int, int]) -> None:
    async def script(d: Driver) -> None:
        await asked(d, MessageDialog("Title", LONG))
        assert "[>Close<]" in d.text
        assert "word0" in d.text
        assert "word199" not in d.text or size == (160, 45)
        for _ in range(60):
            await d.pilot.press("j")
        await d.settle()
        assert "word199" in d.text
        assert "[>Close<]" in d.text
        await d.press("enter")
        assert d.app.screen is d.main

    drive(make_run(tmp_path / "run", [1]), script, size=size)


@pytest.mark.parametrize("size", [*SIZES, LOW])
def test_a_question_shows_both_answers_and_which_has_the_focus(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    def question() -> QuestionDialog:
        return QuestionDialog("Still at work", LONG, yes="Stop it and quit", no="Go on")

    async def script(d: Driver) -> None:
        answers = await asked(d, question())
        no, yes = ("", "") if size == LOW else (" (n)", " (y)")
        assert f"[>Go on{no}<]" in d.text
        assert f"[ Stop it and quit{yes} ]" in d.text
        await d.press("tab")
        assert f"[ Go on{no} ]" in d.text
        assert f"[>Stop it and quit{yes}<]" in d.text
        await d.press("enter")
        assert answers == [True]
        for key, answer in (("y", True), ("n", None), ("escape", None), ("enter", False)):
            answers = await asked(d, question())
            await d.press(key)
            assert answers == [answer]

    drive(make_run(tmp_path / "run", [1]), script, size=size)


@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize("size", [*SIZES, LOW])
def test_the_line_to_type_into_stands_in_a_frame(
    tmp_path: Path, size: tuple[int, int], ascii_only: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if ascii_only:
        monkeypatch.setenv("NO_COLOR", "1")

    async def script(d: Driver) -> None:
        if ascii_only:
            d.app.add_class("-ascii")
        answers = await asked(d, InputDialog("Note", LONG, value="old"))
        at = next(i for i, line in enumerate(d.lines) if " old " in line)
        side, edge = ("|", "---") if ascii_only else ("│", "───")
        assert d.lines[at].count(side) == 4
        assert edge in d.lines[at - 1].strip(f" {side}")
        assert edge in d.lines[at + 1].strip(f" {side}")
        assert "enter accepts" in d.text
        await d.press("ctrl+u", "n", "e", "w", "enter")
        assert answers == ["new"]

    drive(make_run(tmp_path / "run", [1]), script, size=size)


def test_keys_in_one_burst_act_in_the_order_in_which_they_were_typed(tmp_path: Path) -> None:
    async def go() -> None:
        async with driving(make_run(tmp_path / "run", [1])) as d:
            await d.settle()
            await asked(d, InputDialog("Note", "", value="old words"))
            from textual import events

            for key, character in [("ctrl+u", "\x15"), ("a", "a"), ("b", "b"), ("left", None)]:
                d.app.post_message(events.Key(key, character))
            for key in ("backspace", "c"):
                d.app.post_message(events.Key(key, key if key == "c" else "\x7f"))
            await d.settle()
            line: Any = d.app.screen.query_one("#line")
            assert line.value == "cb"

    asyncio.run(go())


@pytest.mark.parametrize("size", [*SIZES, LOW])
def test_a_menu_of_many_scrolls(tmp_path: Path, size: tuple[int, int]) -> None:
    options = [(f"key{i}", f"option {i}") for i in range(60)]

    async def script(d: Driver) -> None:
        answers = await asked(d, MenuDialog("Many", options, "key30"))
        assert ">* option 30" in d.text
        assert d.text.count("╰") >= 1
        await d.press("j", "enter")
        assert answers == ["key31"]

    drive(make_run(tmp_path / "run", [1]), script, size=size)


def test_several_are_chosen_by_their_marks(tmp_path: Path) -> None:
    options = [("loss", "loss"), ("eval[/b]", "eval[/b]"), ("lr", "lr")]

    async def script(d: Driver) -> None:
        answers = await asked(d, MultiMenuDialog("Metrics", options, {"eval[/b]", "gone"}))
        assert " [ ] loss" in d.text
        assert ">[x] eval[/b]" in d.text
        await d.press("j", "space")
        assert "[x] lr" in d.text
        await d.press("home", "space", "enter")
        assert answers == [["loss", "eval[/b]", "lr"]]
        answers = await asked(d, MultiMenuDialog("Metrics", options, {"lr"}))
        assert d.app.screen.query_one(OptionList).highlighted == 2
        await d.press("a")
        assert d.text.count("[x]") == 3
        await d.press("a", "enter")
        assert answers == [[]]
        answers = await asked(d, MultiMenuDialog("Metrics", options, {"lr"}))
        await d.press("escape")
        assert answers == [None]

    drive(make_run(tmp_path / "run", [1]), script, size=(60, 20))


def test_the_command_follows_what_is_typed_and_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TMUX", raising=False)

    async def script(d: Driver) -> None:
        row = d.main.current
        assert row is not None
        checkpoint = row.checkpoint
        dialog = InputDialog("Note", "Why?", command=lambda note: pin_line(checkpoint, note))
        answers = await asked(d, dialog)
        assert f"copies:ckptuipin{checkpoint.path}" in d.words.replace(" ", "")
        await d.press(*"it's [b]", "ctrl+y")
        assert d.app.clipboard == f"""ckptui pin {checkpoint.path} --note 'it'"'"'s [b]'"""
        assert "copied by OSC 52" in d.text
        await d.press("enter")
        assert answers == ["it's [b]"]

    drive(make_run(tmp_path / "run", [1]), script, size=(100, 30))


def test_a_disabled_button_is_one_line_in_the_colours_of_the_terminal_too(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        d.app.theme = "ansi-dark"
        await d.press("x")
        await d.settle()
        move = d.app.screen.query_one("#move")
        assert move.disabled
        assert move.outer_size.height == 1
        assert any("[>Cancel (esc)<]    Move to trash (M)" in line for line in d.lines)

    drive(make_run(tmp_path / "run", [1]), script)
