"""The keys that no table of a screen holds: moves, those of dialogs, and all bars in a terminal."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest
from textual.widgets import Input

from ckptui.tui.keys import MOVES
from ckptui.tui.screens.dialogs import QuestionDialog
from ckptui.tui.widgets.buttons import FlatButton
from tests.cases.harness import standing
from tests.factory import make_run
from tests.tui.driver import Driver, drive, small_run
from tests.tui.terminal import CKPTUI, tmux
from tests.tui.test_every_key import make

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path


@pytest.fixture(autouse=True)
def _no_tmux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMUX", raising=False)


# The moves that the help lists


async def _up_down(d: Driver) -> None:
    for down, up in (("down", "up"), ("j", "k")):
        await d.press(down, down, up)
        assert d.current == "step_900"
        await d.press(up)
        assert d.current == "step_1000"


async def _pages(d: Driver) -> None:
    await d.press("pagedown")
    assert d.names.index(d.current) > 5
    await d.press("pageup")
    assert d.current == "step_1000"


async def _ends(d: Driver) -> None:
    for end, home in (("end", "home"), ("G", "g")):
        await d.press(end)
        assert d.current == d.names[-1]
        await d.press(home)
        assert d.current == d.names[0]


async def _columns(d: Driver) -> None:
    before = d.text
    await d.press(*["right"] * 3)
    assert d.text != before
    assert d.current == "step_1000"
    await d.press(*["left"] * 3)
    assert d.text == before


async def _enter(d: Driver) -> None:
    await d.press("enter")
    assert type(d.app.screen).__name__ == "DetailScreen"
    assert "step_1000" in d.text


async def _tab(d: Driver) -> None:
    before = d.app.focused
    await d.press("tab")
    assert d.app.focused is not before
    for _ in range(5):
        if d.app.focused is before:
            break
        await d.press("tab")
    assert d.app.focused is before


async def _escape(d: Driver) -> None:
    await d.press("space", "slash", *"step_9", "enter")
    for _ in range(5):
        await d.press("escape")
    assert len(d.names) == 10
    assert not d.main.marked
    assert d.app.is_running
    assert d.app.return_code is None or d.app.return_code == 0


async def _quit(d: Driver) -> None:
    await d.pilot.press("q")
    await d.pilot.pause()
    assert d.app._exit


DONE: dict[str, Callable[[Driver], Awaitable[None]]] = {
    "up down": _up_down,
    "pgup pgdn": _pages,
    "home end": _ends,
    "left right": _columns,
    "enter": _enter,
    "tab": _tab,
    "esc": _escape,
    "q": _quit,
}


def test_every_move_that_the_help_lists_has_an_entry_here() -> None:
    assert {shown for shown, _ in MOVES} == set(DONE)


@pytest.mark.parametrize("shown", DONE)
def test_a_move_does_what_the_help_says(tmp_path: Path, shown: str) -> None:
    run = small_run(tmp_path / "runs" / "run")
    if shown == "tab":  # between runs and checkpoints
        make_run(tmp_path / "runs" / "other", [1])

    async def script(d: Driver) -> None:
        await DONE[shown](d)

    path = run.parent if shown == "tab" else run
    drive(path, script, size=(60, 20) if shown == "left right" else (80, 24))


# Dialogs


async def _copied(d: Driver) -> None:
    assert "Copied by" in d.words


async def _written(d: Driver) -> None:
    await d.press("enter")
    assert "ritten to" in d.words or "config" in d.words.lower()


async def _left(d: Driver) -> None:
    assert d.app._exit
    assert "resume_from=" in str(d.app.return_value)


async def _moved(d: Driver) -> None:
    assert "Moved" in d.words


async def _main(d: Driver) -> None:
    assert type(d.app.screen).__name__ == "BrowseScreen"


LETTERS: dict[tuple[tuple[str, ...], str], Callable[[Driver], Awaitable[None]]] = {
    (("r",), "y"): _copied,
    (("r",), "w"): _written,
    (("r",), "p"): _left,
    (("x",), "M"): _moved,
    (("x",), "esc"): _main,
    (("x", "y"), "y"): _copied,
}
"""The letter on each button of what these keys open, and what it does."""


@pytest.mark.parametrize("keys", sorted({keys for keys, _ in LETTERS}))
def test_every_letter_on_a_button_has_an_entry_here(tmp_path: Path, keys: tuple[str, ...]) -> None:
    async def script(d: Driver) -> None:
        for key in keys:
            await d.press(key)
        shown = {b.letter for b in d.app.screen.query(FlatButton) if b.letter and b.display}
        assert shown == {letter for opened, letter in LETTERS if opened == keys}
        terse = any(b.terse for b in d.app.screen.query(FlatButton))
        for letter in shown:
            assert terse or f"({letter})" in d.text

    drive(make(tmp_path, several=False), script)


@pytest.mark.parametrize(("keys", "letter"), sorted(LETTERS))
def test_the_letter_on_a_button_presses_it(
    tmp_path: Path, keys: tuple[str, ...], letter: str
) -> None:
    async def script(d: Driver) -> None:
        for key in keys:
            await d.press(key)
        await d.pilot.press("escape" if letter == "esc" else letter)
        if not d.app._exit:
            await d.settle()
        await LETTERS[keys, letter](d)

    drive(make(tmp_path, several=False), script)


@pytest.mark.parametrize(
    ("key", "answer"), [("y", True), ("n", None), ("escape", None), ("enter", False)]
)
def test_a_question_is_answered_by_letters_and_no_is_the_first(
    tmp_path: Path, key: str, answer: bool | None
) -> None:
    got: list[bool | None] = []

    async def script(d: Driver) -> None:
        d.app.push_screen(QuestionDialog("Really", "Is it?", yes="Yes", no="No"), got.append)
        await d.settle()
        await d.press(key)
        assert bool(got[0]) is bool(answer)

    drive(small_run(tmp_path / "run"), script)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (("s",), "Order by"),
        (("M",), "space chooses"),
        (("n",), "Note for"),
        (("y",), "enter copies"),
        (("r",), "Resume from"),
        (("x", "y"), "The same as a command"),
        (("x", "i"), "The plan"),
        (("T", "E"), "Type 1"),
    ],
)
def test_esc_closes_every_dialog_and_changes_nothing(
    tmp_path: Path, keys: tuple[str, ...], words: str
) -> None:
    run = make(tmp_path, several=False)
    before = standing(run)

    async def script(d: Driver) -> None:
        for key in keys[:-1]:
            await d.press(key)
        under = d.app.screen
        await d.press(keys[-1])
        assert words in d.words
        assert d.app.screen is not under
        await d.press("escape")
        assert d.app.screen is under
        assert standing(run) == before

    drive(run, script)


LINES: dict[str, tuple[str, ...]] = {
    "browse": ("slash",),
    "detail": ("enter", "slash"),
    "prune": ("x", "e"),
    "journal": ("l", "slash"),
}
"""The screens with a line to type into, and what opens it."""


@pytest.mark.parametrize("name", LINES)
def test_the_bar_of_an_open_line_promises_no_letter(tmp_path: Path, name: str) -> None:
    async def script(d: Driver) -> None:
        await d.press(*LINES[name])
        line = d.app.screen.focused
        assert isinstance(line, Input)
        promised = {hint.split(" ")[0] for hint in bar(d.text)}
        assert "esc" in promised
        assert promised <= {"enter", "tab", "esc"}
        before = line.value
        await d.press("q", "question_mark")
        assert sorted(line.value) == sorted(f"{before}q?")

    drive(make(tmp_path, several=False), script)


# Every key of every bar, in a terminal of 80x24

BARS: dict[str, tuple[tuple[str, ...], str, dict[str, tuple[tuple[str, ...], str]]]] = {
    "browse": (
        (),
        "by step",
        {
            "? help": (("?",), "type to search"),
            "/ filter": (("/",), "words, step"),
            "space mark": (("Space",), "1 marked"),
            "p pin": (("p",), "Pinned"),
            "x prune": (("x",), "Prune preview"),
            "z undo": (("z",), "Nothing to undo"),
            "r resume": (("r",), "Resume from"),
        },
    ),
    "chart": (
        ("c",),
        "[ ] move",
        {
            "? help": (("?",), "type to search"),
            "[ ] move": (("[",), "step 900"),
            "D dip": (("[", "D"), "lowest at step 1000"),
            "p pin": (("p",), "Pinned"),
            "esc back": (("Escape",), "by step"),
            "n note": (("n",), "Note for step_1000"),
            "m metric": (("m",), "Metric: loss"),
            "L log": (("L",), "(log)"),
        },
    ),
    "compare": (
        ("Down", "="),
        "A step_800",
        {
            "? help": (("?",), "type to search"),
            "o all": (("o",), ", shown too"),
            "x swap": (("x",), "A step_900"),
            "tab part": (("Tab",), "Config: 1 the same"),
            "y copy": (("y",), "Copied by tmux"),
            "esc back": (("Escape",), "by step"),
        },
    ),
    "detail": (
        ("Down", "Enter"),
        "[1 overview]",
        {
            "? help": (("?",), "type to search"),
            "tab page": (("Tab",), "[2 files]"),
            "esc back": (("Escape",), "by step"),
            "/ filter": (("/",), "words that a line"),
            "p pin": (("p",), "Pinned"),
            "r resume": (("r",), "Resume from"),
            "= compare": (("=",), "A step_800"),
        },
    ),
    "prune": (
        ("x",),
        "Prune preview",
        {
            "e edit rules": (("e", "End", ",", " keep-every 500"), "every 500"),
            "space keep or not": (("Down", "Down", "Space"), "remove 6"),
            "p pin": (("Down", "Down", "p"), "pinned"),
            "o only removals": (("o",), "step_800 goes"),
            "y copy": (("y",), "Copied by tmux"),
        },
    ),
    "trash": (
        ("T",),
        "Trash of",
        {
            "r restore": (("r",), "Restored step_100"),
            "space mark": (("Space",), "1 marked"),
            "a restore all": (("a",), "Restored step_100"),
            "E empty": (("E",), "Type 1 to do it"),
            "D delete": (("D",), "Type 1 to do it"),
            "y copy": (("y",), "ckptui trash restore"),
        },
    ),
    "verify": (
        ("V",),
        "1 of 1 checked",
        {
            "f full or quick": (("f",), "nothing wrong"),
            "a all of the run": (("a",), "9 of 9 checked"),
            "o only findings": (("o",), "Nothing was found"),
            "y copy": (("y",), "Copied by tmux"),
            "esc back": (("Escape",), "by step"),
        },
    ),
    "journal": (
        ("l",),
        "Journal of",
        {
            "/ search": (("/",), "Search"),
            "y copy": (("y",), "enter copies"),
            "esc back": (("Escape",), "by step"),
        },
    ),
}
"""Keys that lead to a screen, what it is known by, and each key of its bar with what it shows."""


def bar(text: str) -> set[str]:
    """The keys in the last line of a screen."""
    return set(re.split(r"\s{2,}", text.rstrip("\n").split("\n")[-1].strip()))


@pytest.mark.slow
@pytest.mark.tmux
@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
@pytest.mark.parametrize("name", BARS)
def test_every_key_of_a_bar_works_in_a_terminal(tmp_path: Path, name: str) -> None:
    opened, known, keys = BARS[name]
    expected = {*keys, "q quit"}
    for number, (piece, (pressed, words)) in enumerate(keys.items()):
        run = make(tmp_path / str(number), several=False)
        socket = tmp_path / f"tmux-{number}"
        socket.mkdir()
        with tmux(socket) as terminal:
            terminal.start(*CKPTUI, "browse", run)
            terminal.wait("q quit", "by step", "step_200", "newest resumable")
            terminal.keys(*opened)
            terminal.wait(known, "q quit")
            terminal.until(lambda text: bar(text) == expected, f"the bar {expected}")
            for key in pressed:
                terminal.keys(key) if len(key) == 1 or key.isalpha() else terminal.type(key)
            text = terminal.wait(words)
            assert "Traceback" not in text, piece


@pytest.mark.tmux
@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_save_now_of_the_bar_works_in_a_terminal(tmp_path: Path) -> None:
    from tests.live_trainer import LiveTrainer

    run = make_run(tmp_path / "run", [100, 200])
    (tmp_path / "t").mkdir()
    with LiveTrainer(run), tmux(tmp_path / "t") as terminal:
        terminal.start(*CKPTUI, "browse", run)
        terminal.wait("LIVE", "w save now", "step_200")
        terminal.keys("w")
        terminal.wait("Saved step_2")
