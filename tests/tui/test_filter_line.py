"""Typing a filter: a bad one stays open and says why, esc goes back to the one before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.tui.driver import Driver, drive, small_run

if TYPE_CHECKING:
    from pathlib import Path


def test_a_bad_filter_says_so_while_it_is_typed_and_stays_open(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("slash", *"step>>3")
        await d.until(lambda: d.main.complaint is not None)
        await d.settle()
        assert "no number" in d.text
        await d.press("enter", "x")  # no prune: the line is still there
        assert d.app.screen is d.main
        assert "step>>3x" in d.text
        await d.press(*["backspace"] * 3, *"800", "enter")
        assert d.names == ["step_1000", "step_900"]
        await d.press("down")
        assert d.current == "step_900"

    drive(run, script)


def test_esc_while_typing_goes_back_to_the_filter_before_and_then_clears_it(
    tmp_path: Path,
) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("slash", *"step>700", "enter", "down")
        assert d.current == "step_900"
        await d.press("slash", "backspace", *"9")
        await d.settle()
        await d.press("escape")
        assert d.main.filter_text == "step>700"
        assert len(d.names) == 3
        assert d.current == "step_900"
        await d.press("escape")
        assert len(d.names) == 10
        assert d.current == "step_900"

    drive(run, script)


def test_the_key_bar_tells_the_keys_of_the_line_while_it_is_open(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("slash")
        assert "enter accept" in d.lines[-1]
        assert "prune" not in d.lines[-1]
        await d.press("escape")
        assert "prune" in d.lines[-1]

    drive(run, script)
