"""A prune preview while its run, its checkpoints or the list change."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from textual.widgets import Button

from ckptui.tui.screens.prune import PruneScreen
from tests.factory import make_checkpoint, make_run
from tests.tui.driver import Driver, drive, small_run
from tests.tui.test_gone import look

if TYPE_CHECKING:
    from pathlib import Path


def preview(d: Driver) -> PruneScreen:
    assert isinstance(d.app.screen, PruneScreen)
    return d.app.screen


def test_the_rows_show_the_metric_of_their_own_run(tmp_path: Path) -> None:
    small_run(tmp_path / "a")
    other = make_run(tmp_path / "b", [1, 2], metrics={s: {"acc": 0.5} for s in (1, 2)})

    async def script(d: Driver) -> None:
        d.app.reader.choose(tmp_path / "a")
        d.app.state_changed()
        await d.settle()
        await d.press("x")
        assert "eval_loss" in d.lines[5]
        rows = d.lines[6:12]
        assert "2.1" in rows[1]
        d.app.reader.choose(other)
        d.app.state_changed()
        await d.settle()
        assert d.lines[6:12] == rows

    drive(tmp_path, script)


def test_only_the_very_checkpoint_that_failed_is_told_of(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    file = run / "step_900" / "model.safetensors"
    good = file.read_bytes()

    async def script(d: Driver) -> None:
        file.write_bytes(good[:-1] + b"\x7f")
        await d.press("down", "V", "escape", "x")
        assert "Failed when verified, but no rule knows of it: step_900" in d.words
        shutil.rmtree(run / "step_900")
        created = "2026-01-01T11:00:00.000000Z"
        make_checkpoint(run, "step_900", step=900, created=created)
        await look(d)
        assert "step_1000 step_900 (2 of 10)" in d.words
        assert "Failed when verified" not in d.words
        shutil.rmtree(run / "step_900")
        await look(d)
        assert "Failed when verified" not in d.words

    drive(run, script)


def test_home_and_end_move_in_the_plan_wherever_the_focus_is(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("x")
        for key, name in (("end", "step_100"), ("home", "step_1000"), ("G", "step_100")):
            await d.press(key)
            row = preview(d).table.current
            assert row is not None
            assert row.checkpoint.name == name
        await d.press("g")
        assert preview(d).table.cursor == 0
        assert preview(d).query_one("#cancel").has_focus

    drive(run, script)


def test_left_and_right_show_columns_that_have_no_room(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("x")
        assert "Why" not in d.text or "State" not in d.text
        first = preview(d).table.shown_columns
        await d.press("right")
        assert preview(d).table.shown_columns != first
        assert preview(d).query_one("#cancel").has_focus
        await d.press("left")
        assert preview(d).table.shown_columns == first

    drive(run, script, size=(40, 20))


def test_a_plan_for_a_run_that_went_away_says_so_and_nothing_else(tmp_path: Path) -> None:
    run = small_run(tmp_path / "a")
    make_run(tmp_path / "b", [1, 2, 3])

    async def script(d: Driver) -> None:
        d.app.reader.choose(run)
        d.app.state_changed()
        await d.settle()
        await d.press("x")
        run.rename(tmp_path / "q")
        d.app.reader.read_all()
        await d.settle()
        assert f"! There is no {run}".replace(" ", "") in d.words.replace(" ", "")
        assert "what is there now" not in d.words
        assert "(out of date)" in d.text
        for key in ("space", "p", "y", "e"):
            await d.press(key)
            assert "The run is not there any more" in d.text, key
            await d.press("down")
        assert "This was the plan while the run was there." in d.text
        (tmp_path / "q").rename(run)
        d.app.reader.read_all()
        await d.settle()
        assert "There is no" not in d.words
        assert not preview(d).query_one("#move", Button).disabled

    drive(tmp_path, script)


def test_a_run_that_went_away_is_told_without_a_key(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("x")
        run.rename(tmp_path / "q")
        d.app.reader.read_all()
        await d.settle()
        assert "This was the plan while the run was there." in d.text
        assert "y copies" not in d.text

    drive(run, script)


def test_what_went_by_itself_is_told_as_unmoved_in_the_report(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("x")
        shutil.rmtree(run / "step_800")
        await d.press("M", "down", "down")
        assert "moved 7  unmoved 1  keep 2" in d.text
        assert " remove " not in d.text
        assert "step_800 was not moved: gone or changed meanwhile" in d.text

    drive(run, script)


def test_reasons_are_told_in_the_words_of_the_preview(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    make_checkpoint(run, "step_950", step=950, marker=False)

    async def script(d: Driver) -> None:
        await d.press("x", "down")
        assert "step_950 is left alone: incomplete; space lets it go" in d.text
        await d.press("space")
        assert "step_950 goes: let go by hand" in d.text
        assert "Frees 0 B now" in d.text
        await d.press("escape", "down", "d")
        assert "goes: chosen" in d.text
        await d.press("M")
        assert "Moved 1 to the trash" in d.text
        assert "z brings it back." in d.text

    drive(run, script)


@pytest.mark.parametrize("size", [(60, 20), (100, 30)])
def test_the_button_is_whole_once_there_is_something_to_move(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    run = make_run(tmp_path / "run", [1, 2, 3, 4, 5], policy=["keep-last 9"])

    async def script(d: Driver) -> None:
        await d.press("x")
        assert "Move to trash" in d.text
        await d.press("e", "ctrl+u", *"keep-last 1", "enter")
        assert "[ Move 4 to trash (M) ]" in d.text
        await d.press("tab")
        assert "[>Move 4 to trash (M)<]" in d.text

    drive(run, script, size=size)
