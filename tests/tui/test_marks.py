from __future__ import annotations

from typing import TYPE_CHECKING

from ckptui.tui.screens.compare import CompareScreen
from tests.tui.driver import Driver, drive, small_run

if TYPE_CHECKING:
    from pathlib import Path


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
