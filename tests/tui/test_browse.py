from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from ckptui.tui.app import Browser
from ckptui.tui.screens.dialogs import MessageDialog
from ckptui.tui.widgets.detail import Detail
from ckptui.tui.wishes import Wishes
from tests.factory import make_checkpoint, make_run
from tests.tui.driver import NOW, SIZES, Driver, drive, small_run
from tests.tui.worlds import world

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.parametrize("size", SIZES)
def test_a_run_is_shown_with_its_newest_checkpoint_under_the_cursor(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    async def script(d: Driver) -> None:
        assert d.names == [f"step_{s}" for s in range(1000, 0, -100)]
        assert d.current == "step_1000"
        assert "step_1000" in d.text
        assert "eval_loss" in d.text
        assert "10 checkpoints" in d.lines[0]
        assert "q quit" in d.lines[-1]
        assert "? help" in d.lines[-1]
        assert all(len(line) == size[0] for line in d.lines)
        assert not d.main.run_list.display

    drive(small_run(tmp_path / "run"), script, size=size)


@pytest.mark.parametrize("size", SIZES)
def test_a_root_shows_its_runs_and_follows_the_cursor(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    make_run(tmp_path / "a", [1, 2])
    make_run(tmp_path / "b" / "deep", [3])

    async def script(d: Driver) -> None:
        assert d.app.reader.run_path == tmp_path / "a" or d.names == ["step_3"]
        await d.press("escape")
        assert d.main.run_list.has_focus
        assert "b/deep" in d.text
        await d.press("home")
        assert d.names == ["step_2", "step_1"]
        await d.press("down")
        assert d.names == ["step_3"]
        await d.press("enter")
        assert d.main.checkpoints.has_focus
        assert "step_3" in d.text

    drive(tmp_path, script, size=size)


def test_the_run_saved_to_last_is_shown_first(tmp_path: Path) -> None:
    make_run(tmp_path / "a", [1])
    make_run(tmp_path / "b", [900])
    make_run(tmp_path / "c", [2])

    async def script(d: Driver) -> None:
        assert d.names == ["step_900"]

    drive(tmp_path, script)


def test_a_checkpoint_opens_its_run_with_the_cursor_on_it(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        assert len(d.names) == 10
        assert d.current == "step_300"

    drive(run / "step_300", script)


def test_wide_and_tall_windows_show_the_chart_and_everything_about_the_checkpoint(
    tmp_path: Path,
) -> None:
    run = small_run(tmp_path / "run")

    async def large(d: Driver) -> None:
        assert d.main.chart is not None
        assert d.main.chart.is_on_screen
        assert "Position" in d.text
        assert "min 2 at step 1000" in d.text or "min 2.0" in d.text
        assert any("\u2800" < ch < "\u28ff" for ch in d.text)

    async def small(d: Driver) -> None:
        assert d.main.chart is None
        assert d.main.query_one(Detail).display
        assert "kept by" in d.text

    drive(run, large, size=(160, 45))
    drive(run, small, size=(80, 24))


@pytest.mark.parametrize("size", [(39, 24), (80, 9), (10, 3)])
def test_a_tiny_terminal_gets_a_sentence_and_q_quits(tmp_path: Path, size: tuple[int, int]) -> None:
    async def script(d: Driver) -> None:
        assert "ckptui" in d.text
        assert "step_100" not in d.text
        await d.pilot.press("q")

    drive(small_run(tmp_path / "run"), script, size=size)


def test_resizing_brings_everything_back(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        for size in [(30, 8), (160, 45), (60, 20), (80, 24)]:
            await d.pilot.resize_terminal(*size)
            await d.settle()
        assert d.current == "step_1000"
        assert "kept by" in d.text

    drive(small_run(tmp_path / "run"), script)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p: (p / "stuff").mkdir(parents=True), ["No run in", "stuff", "ckptui demo"]),
        (lambda p: make_run(p, []), ["No checkpoints in this run"]),
        (lambda _: None, ["There is no"]),
        (lambda p: p.write_text("x"), ["is a file"]),
    ],
)
def test_nothing_to_list_is_answered_with_words(
    tmp_path: Path, make: Callable[[Path], object], words: list[str]
) -> None:
    async def script(d: Driver) -> None:
        for word in words:
            assert word in d.words
        for key in "pnxdzTcmryVl/":
            await d.press(key, "escape")
        await d.press("enter", "space", "s", "escape", "question_mark", "escape")

    make(tmp_path / "it")
    drive(tmp_path / "it", script)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_without_permission_is_answered_with_words(tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0)

    async def script(d: Driver) -> None:
        assert "Permission denied" in d.text

    drive(locked, script)


def test_a_run_without_metrics_hides_their_column(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        assert "metric" not in d.main.checkpoints.shown_columns
        await d.press("m")
        assert "No metrics" in d.text

    drive(make_run(tmp_path / "run", [1, 2]), script)


def test_a_folder_that_vanishes_is_told_on_the_next_scan(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        run.rename(tmp_path / "moved")
        await d.press("ctrl+r")
        assert "There is no" in d.words
        assert d.current == "step_1000"  # what was known stays on the screen
        (tmp_path / "moved").rename(run)
        await d.press("f5")
        assert "There is no" not in d.text

    drive(run, script)


def test_escape_goes_back_and_never_quits(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        await d.press("slash", *"step_3", "enter", "space")
        for _ in range(6):
            await d.press("escape")
        assert d.names[0] == "step_1000"
        assert not d.main.marked
        assert "q quits" in d.text

    drive(small_run(tmp_path / "run"), script)


def test_a_filter_narrows_while_it_is_typed_and_a_bad_one_keeps_the_list(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        await d.press("slash", *"step>=900")
        assert d.names == ["step_1000", "step_900"]
        await d.press("enter")
        assert d.main.checkpoints.has_focus
        assert "2, 10 in all" in d.text
        d.main.set_filter("step>=x")
        await d.settle()
        assert d.names == ["step_1000", "step_900"]
        assert "is no number" in d.text
        await d.press("escape")
        assert len(d.names) == 10

    drive(small_run(tmp_path / "run"), script)


def test_a_filter_by_a_metric_that_nobody_has_says_so(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        await d.press("slash", *"los<1")
        assert d.names == []
        assert "No checkpoint matches the filter." in d.text
        assert "No checkpoint has the metric los; did you mean loss?" in d.text
        await d.press("s", "enter")
        assert "has the metric loss" not in d.text

    drive(small_run(tmp_path / "run"), script)


def test_sorting_by_the_menu_and_turning_around(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        await d.press("down", "S")
        assert d.names[0] == "step_100"
        assert d.current == "step_900"
        await d.press("s", "down", "down", "enter")
        assert d.main.sort == ("metric", False)
        assert d.names[0] == "step_1000"

    drive(small_run(tmp_path / "run"), script)


def test_the_next_metric_changes_list_and_chart(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        assert d.app.reader.metric == "eval_loss"
        await d.press("m")
        assert d.app.reader.metric == "loss"
        assert "Metric: loss" in d.text

    drive(small_run(tmp_path / "run"), script, size=(160, 45))


def test_b144_two_spellings_of_a_step_are_two_rows_and_the_cursor_stays(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [100])
    make_checkpoint(run, "step_0100", step=100)

    async def script(d: Driver) -> None:
        assert sorted(d.names) == ["step_0100", "step_100"]
        await d.press("down")
        at = d.current
        await d.press("ctrl+r", "ctrl+r")
        assert d.current == at
        assert len(d.names) == 2

    drive(run, script)


def test_the_cursor_stays_on_its_checkpoint_when_others_come_and_go(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("down", "down", "down")
        assert d.current == "step_700"
        make_checkpoint(run, "step_1100", step=1100)
        (run / "step_900").rename(tmp_path / "away")
        await d.press("ctrl+r")
        assert d.current == "step_700"
        assert d.names[:3] == ["step_1100", "step_1000", "step_800"]

    drive(run, script)


def test_pinning_and_unpinning(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("down", "p")
        assert (run / ".ckptui/pins/step_900.json").exists()
        assert "Pinned step_900" in d.text
        assert any("P" in line[:5] and "step_900" in line for line in d.lines)
        await d.press("p")
        assert not (run / ".ckptui/pins/step_900.json").exists()
        assert "Unpinned step_900" in d.text

    drive(run, script)


def test_a_note_pins_and_is_shown(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("n", *"before", "enter")
        row = d.main.current
        assert row is not None
        assert row.checkpoint.note == "before"
        assert "pin: before" in d.text
        await d.press("n", "escape")
        assert d.main.current is not None
        assert d.main.current.checkpoint.note == "before"

    drive(run, script, size=(160, 45))


def test_pinning_what_is_gone_says_so(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        (run / "step_1000").rename(tmp_path / "away")
        await d.press("p")
        assert isinstance(d.app.screen, MessageDialog)
        assert "gone" in d.text
        await d.press("escape")
        assert not (run / ".ckptui/pins/step_1000.json").exists()

    drive(run, script)


@pytest.mark.parametrize("theme", ["ansi-dark", "ansi-light", "textual-dark"])
def test_without_colours_the_cursor_is_reversed(
    tmp_path: Path, theme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def script(d: Driver) -> None:
        d.app.theme = theme
        await d.settle()
        table = d.main.checkpoints
        assert table.get_component_rich_style("table--cursor").reverse
        assert not table.get_component_rich_style("table--row").reverse

    drive(small_run(tmp_path / "run"), script)


def test_ascii_terminals_get_ascii(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def go() -> None:
        app = Browser(run, Wishes(refresh=False, ascii_only=True), clock=lambda: NOW)
        async with app.run_test(size=(160, 45)) as pilot:
            d = Driver(app, pilot)
            await d.settle()
            assert d.text.isascii(), [ch for ch in d.text if not ch.isascii()]
            for key in ("x", "T", "l", "V", "enter", "c", "question_mark", "r", "s"):
                await d.press(key)
                assert d.text.isascii(), [ch for ch in d.text if not ch.isascii()]
                await d.press("escape")

    asyncio.run(go())


def test_the_cursor_goes_to_a_checkpoint_of_another_run_once_that_is_listed(
    tmp_path: Path,
) -> None:
    small_run(tmp_path / "a")
    long = make_run(tmp_path / "b", range(1, 1300))

    async def script(d: Driver) -> None:
        d.app.choose_run(long)
        d.main.select(long / "step_7")
        await d.settle()
        assert d.current == "step_7"

    drive(tmp_path, script)


def test_a_smaller_window_takes_the_focus_from_neither_list(tmp_path: Path) -> None:
    small_run(tmp_path / "a")
    make_run(tmp_path / "b", [1, 2, 3])

    async def script(d: Driver) -> None:
        await d.press("shift+tab")
        await d.pilot.resize_terminal(60, 20)
        await d.settle()
        assert d.main.run_list.has_focus
        await d.press("down")
        assert d.current == "step_3"
        await d.press("enter")
        assert d.main.checkpoints.has_focus
        await d.pilot.resize_terminal(100, 24)
        await d.pilot.resize_terminal(60, 20)
        await d.settle()
        assert d.main.checkpoints.has_focus
        assert "step_2" in d.text

    drive(tmp_path, script)


def test_where_the_runs_stand_alone_no_key_acts_on_the_list_behind(tmp_path: Path) -> None:
    run = small_run(tmp_path / "a")
    make_run(tmp_path / "b", [1, 2, 3])

    async def script(d: Driver) -> None:
        await d.press("escape")
        assert "pin" not in d.lines[-1]
        for key in ("space", "p", "d", "n", "r", "V", "y", "v", "a", "i"):
            await d.press(key)
            assert d.app.screen is d.main
            assert "The checkpoints are not shown; enter shows them." in d.text
        assert not d.main.marked
        assert not (run / ".ckptui").exists()
        await d.press("equals_sign")
        assert "Compare a with" in d.text
        await d.press("enter")
        assert "pin" in d.lines[-1]
        await d.press("space")
        assert len(d.main.marked) == 1

    drive(tmp_path, script, size=(60, 20))


@pytest.mark.parametrize("name", ["step_42500", "step_37000"])
def test_only_what_is_whole_is_picked(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with world(monkeypatch) as made:
        run = made.rich(live=True)

        async def script(d: Driver) -> None:
            row = next(r for r in d.main.checkpoints.rows if r.checkpoint.name == name)
            d.main.checkpoints.go_to(row.key)
            await d.press("enter")
            assert f"{name} is " in d.lines[-2]
            assert "ick a complete one" in d.lines[-2]
            d.main.select(run / "step_40000")
            await d.pilot.press("enter")

        assert drive(run, script, pick=True, size=(100, 24)) == str(run / "step_40000")
