from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from textual.widgets import OptionList

from ckptui.scan import scan_run
from ckptui.tui import palette
from ckptui.tui.screens.help import HelpScreen
from ckptui.tui.screens.prune import PruneScreen
from ckptui.tui.screens.trash import TrashScreen
from tests.factory import make_checkpoint, make_run
from tests.tui.driver import SIZES, Driver, drive, small_run

if TYPE_CHECKING:
    from pathlib import Path

    from ckptui.tui.screens.base import BrowserScreen


async def open_help(d: Driver, screen: BrowserScreen, *, search: bool = False) -> HelpScreen:
    opened = HelpScreen(screen, search=search)
    d.app.push_screen(opened)
    await d.settle()
    return opened


@pytest.mark.parametrize("size", [*SIZES, (40, 10)])
def test_typing_narrows_the_list_and_enter_does_the_entry(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    async def script(d: Driver) -> None:
        await open_help(d, d.main)
        await d.press(*"trash res")
        assert "or empty it" in d.words
        assert "save a checkpoint now" not in d.words
        await d.press("enter")
        assert isinstance(d.app.screen, TrashScreen)

    drive(make_run(tmp_path / "run", [1]), script, size=size)


def test_an_entry_that_does_nothing_now_says_why(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        await d.press("x")
        preview = d.app.screen
        assert isinstance(preview, PruneScreen)
        await open_help(d, preview)
        assert "Here: Prune preview" in d.text
        assert "> e " in d.text
        await d.press(*"undo just")
        assert "not now: Nothing was moved yet." in d.words
        await d.press("enter")
        assert isinstance(d.app.screen, HelpScreen)
        assert "Not now: Nothing was moved yet." in d.words
        await d.press("escape")
        assert isinstance(d.app.screen, HelpScreen)
        await d.press(*"only removals", "down", "up", "enter")
        assert preview.is_current

    drive(small_run(tmp_path / "run"), script)


@pytest.mark.parametrize("size", SIZES)
def test_the_whole_help_can_be_read_by_its_keys(tmp_path: Path, size: tuple[int, int]) -> None:
    async def script(d: Driver) -> None:
        await d.press("question_mark")
        seen = d.words
        options = d.app.screen.query_one(OptionList)
        for _ in range(60):
            await d.pilot.press("pagedown")
            await d.pilot.pause()
            seen += d.words
        assert options.highlighted == options.option_count - 1
        for words in (
            "Here: Checkpoints",
            "pin the checkpoint, or take its pin away",
            "also epoch, size>10G",
            "being written by a live trainer",
            "of an abandoned branch",
            "brings back what this session moved last",
            "Prune preview",
        ):
            assert words in seen
        for _ in range(options.option_count + 1):
            await d.pilot.press("up")
        await d.settle()
        assert "Here: Checkpoints" in d.text
        await d.press("question_mark")
        assert d.app.screen is d.main

    drive(make_run(tmp_path / "run", [1]), script, size=size)


@pytest.mark.parametrize("width", [60, 80, 160])
def test_long_lines_hang_under_their_beginning(tmp_path: Path, width: int) -> None:
    async def script(d: Driver) -> None:
        await d.press("question_mark", *"abandoned branch")
        lines = [line.strip("│ ╭╮╰╯") for line in d.lines]
        at = next(i for i, line in enumerate(lines) if "of an abandoned branch" in line)
        column = d.lines[at].index("of an")
        after = d.lines[at + 1][column:].strip("│ ") if "anew" not in d.lines[at] else "anew"
        assert after.endswith("anew")
        assert all(line.count("│") in {0, 2} for line in d.lines)

    drive(make_run(tmp_path / "run", [1]), script, size=(width, 20))


def test_runs_and_checkpoints_are_found_by_name(tmp_path: Path) -> None:
    make_run(tmp_path / "first", [200, 2000], run_id="a" * 32)
    make_run(tmp_path / "second[x", [200], run_id="b" * 32)

    async def script(d: Driver) -> None:
        await open_help(d, d.main)
        await d.press(*"step_200")
        assert "go to" not in d.text
        await d.press("escape", "escape")
        for wanted, run, name in (
            ("first step_200", "first", "step_200"),
            ("2000", "first", "step_2000"),
            ("run second[x", "second[x", "step_200"),
        ):
            await open_help(d, d.main, search=True)
            await d.press(*wanted)
            options = d.app.screen.query_one(OptionList)
            shown = [str(o.prompt) for o in options.options]
            at = next((i for i, text in enumerate(shown) if "go to" in text), -1)
            assert at >= 0, shown
            options.highlighted = at
            await d.press("enter")
            assert d.app.screen is d.main
            assert d.app.reader.run_path == tmp_path / run
            assert d.current == name

    drive(tmp_path, script)


def test_the_cursor_stays_on_its_entry_when_more_is_known(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 2])

    async def script(d: Driver) -> None:
        await open_help(d, d.main, search=True)
        await d.press("s", "t", "e", "p", "down", "down")
        options = d.app.screen.query_one(OptionList)
        at = options.highlighted
        assert at is not None
        here = str(options.get_option_at_index(at).prompt)
        make_checkpoint(run, "step_3", step=3)
        d.app.reader.read_runs([run])
        await d.until(lambda: "go to step_3" in d.text)
        at = options.highlighted
        assert at is not None
        assert str(options.get_option_at_index(at).prompt) == here

    drive(run, script)


def test_twenty_thousand_names_are_searched_at_every_key(tmp_path: Path) -> None:
    run = scan_run(make_run(tmp_path / "run", [1]))
    one = run.checkpoints[0]
    many = tuple(replace(one, name=f"step_{i}", path=run.path / f"step_{i}") for i in range(20_000))
    names = palette.Names([("run", replace(run, checkpoints=many))])
    for text in ("s", "step_1999", "19 99", "nothing", "step_ 7 run"):
        began = time.perf_counter()
        found = names.find(text)
        assert time.perf_counter() - began < 0.1  # 2 ms where nothing else runs
        assert len(found) <= palette.HITS
    assert names.find("step_1999")[0].place == run.path / "step_1999"
    assert names.find("go to STEP_7")[0].place == run.path / "step_7"
    assert names.find("zzz") == []


def test_the_key_that_was_typed_comes_first() -> None:
    entries = [
        palette.Entry(group="g", shown="s", text="sort by size"),
        palette.Entry(group="g", shown="V v", text="verify"),
    ]
    assert [e.shown for e in palette.find(entries, "v")] == ["V v"]
    assert palette.find(entries, "V")[0].shown == "V v"
    assert len(palette.find(entries, "")) == 2
