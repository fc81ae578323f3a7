from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

from ckptui import schema
from ckptui.scan import scan_run
from ckptui.tui import snapshot
from ckptui.tui.marks import Marks
from ckptui.tui.screens.compare import CompareScreen
from tests.factory import make_checkpoint, make_run
from tests.tui.driver import NOW, Driver, drive, small_run
from tests.tui.test_gone import look
from tests.tui.worlds import world

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def steps(d: Driver) -> list[int]:
    return sorted(int(key.rpartition("_")[2]) for key in d.main.marked)


def test_a_range_is_marked_in_either_direction(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("down", "v")
        assert "Range from step_900" in d.text
        await d.press("down", "down", "v")
        assert steps(d) == [700, 800, 900]
        assert "3 marked" in d.text
        await d.press("escape", "v", "up", "v")
        assert steps(d) == [700, 800]

    drive(run, script)


def test_esc_gives_a_range_up_and_leaves_the_marks(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("space", "v", "escape", "down", "v")
        assert "Range from" in d.text
        assert steps(d) == [1000]

    drive(run, script)


def test_all_that_is_shown_is_marked_and_turned_around(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        d.main.set_filter("step>800")
        await d.settle()
        await d.press("a")
        assert steps(d) == [900, 1000]
        d.main.set_filter("")
        await d.settle()
        await d.press("i")
        assert steps(d) == [*range(100, 900, 100)]
        await d.press("escape")
        assert steps(d) == []

    drive(run, script)


def test_two_marked_ones_are_compared_and_more_are_refused(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("space", "space", "equals_sign")
        assert "A step_900" in d.text
        assert "B step_1000" in d.text
        await d.press("escape", "space", "equals_sign")
        assert "3 are marked" in d.text
        await d.press("escape", "equals_sign")
        assert d.app.screen is d.main

    drive(run, script)


def test_what_was_verified_carries_a_letter_and_what_failed_another(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    weights = run / "step_900" / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(bytes(data))

    async def script(d: Driver) -> None:
        await d.press("space", "space", "V", "escape", "escape")
        assert "V" in d.lines[3][:8]
        assert "!" in d.lines[4][:8]

    drive(run, script)


def test_two_runs_are_compared_from_the_list_of_runs(tmp_path: Path) -> None:
    small_run(tmp_path / "a")
    small_run(tmp_path / "b")

    async def script(d: Driver) -> None:
        await d.press("escape", "home", "equals_sign")
        assert d.main.run_list.has_focus
        assert "Compare a with: move to another run" in d.text
        await d.press("down", "equals_sign")
        assert isinstance(d.app.screen, CompareScreen)
        assert "A a" in d.text
        assert "B b" in d.text

    drive(tmp_path, script)


def test_a_gone_row_is_neither_marked_nor_copied_nor_the_start_of_a_range(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("space", "down")
        assert d.current == "step_800"
        shutil.rmtree(run / "step_800")
        await look(d)
        for key in ("space", "y", "v"):
            await d.press(key)
            assert d.app.screen is d.main
            assert "step_800 is gone: removed elsewhere." in d.text
        assert steps(d) == [1000]
        assert d.main.checkpoints.marks.start is None
        await d.press("i")
        assert steps(d) == [*range(100, 800, 100), 900]

    drive(run, script)


def test_a_mark_is_not_for_another_checkpoint_of_the_same_name(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("down", "space", "space")
        shutil.rmtree(run / "step_900")
        make_checkpoint(run, "step_900", step=900, created="2026-01-01T11:00:00.000000Z")
        await look(d)
        assert steps(d) == [800]
        assert "1 marked checkpoint went away" in d.text
        assert "x" not in next(line for line in d.lines if "step_900" in line)[:6]

    drive(run, script)


def test_a_mark_stays_when_what_is_being_written_is_complete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with world(monkeypatch) as made:
        run = made.rich(live=True)
        staged = run / schema.TOOL_DIR / schema.STAGING / "step_42500-0123456789abcdef"

        async def script(d: Driver) -> None:
            await look(d)
            await d.press("home", "space")
            assert d.main.marked == {str(staged)}
            shutil.rmtree(staged)
            make_checkpoint(run, "step_42500", step=42500)
            made.lock(run, step=42500)
            await look(d)
            assert d.main.marked == {str(run / "step_42500")}
            assert "went away" not in d.text
            assert "x" in next(line for line in d.lines if "step_42500" in line)[:6]

        drive(run, script)


def test_what_a_save_left_behind_hands_its_mark_to_none_that_was_there_before(
    tmp_path: Path,
) -> None:
    rows = snapshot.view(scan_run(make_run(tmp_path / "run", [1, 2])), NOW).rows
    left = replace(rows[0].checkpoint, path=tmp_path / "staging" / "step_1-0", staged=True)
    marks = Marks()
    marks.flip(replace(rows[0], checkpoint=left))
    assert marks.keep_only(rows, frozenset(row.key for row in rows)) == 1
    assert not marks.keys


def test_esc_gives_up_the_range_before_the_filter(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        d.main.set_filter("step>300")
        await d.press("v", "escape")
        assert d.main.checkpoints.marks.start is None
        assert d.main.filter_text == "step>300"
        await d.press("v")
        d.main.set_filter("step<700")
        await d.press("v")
        assert "the range began is hidden by the filter" in d.text
        await d.press("v")
        shutil.rmtree(run / "step_600")
        await look(d)
        await d.press("down", "v")
        assert "the range began is gone" in d.text

    drive(run, script)


def test_runs_are_compared_whatever_has_gone_from_the_list_beside_them(tmp_path: Path) -> None:
    run = small_run(tmp_path / "a")
    small_run(tmp_path / "b")

    async def script(d: Driver) -> None:
        await d.press("shift+tab", "home", "tab", "down")
        shutil.rmtree(run / "step_900")
        await look(d)
        await d.press("shift+tab", "equals_sign")
        assert "Compare a with: move to another run" in d.text

    drive(tmp_path, script)


def test_a_run_that_was_to_be_compared_and_is_gone_is_told(tmp_path: Path) -> None:
    run = small_run(tmp_path / "a")
    small_run(tmp_path / "b")

    async def script(d: Driver) -> None:
        await d.press("shift+tab", "home", "equals_sign", "down")
        shutil.rmtree(run)
        d.app.reader.read_all()
        await d.settle()
        assert "a is gone; = in Runs begins to compare anew." in d.text
        assert d.main.checkpoints.has_focus  # there is one run alone now

    drive(tmp_path, script)
