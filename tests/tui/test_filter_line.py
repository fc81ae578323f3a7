"""Typing a filter: a bad one stays open and says why, esc goes back to the one before."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ckptui.tui.app import AGE_TICKS, Browser
from ckptui.tui.wishes import Wishes
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


def test_a_filter_by_age_goes_on_as_time_does(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    now = [datetime(2026, 1, 1, 0, 20, tzinfo=UTC)]

    async def script() -> None:
        app = Browser(run, Wishes(refresh=False, ascii_only=False), clock=lambda: now[0])
        async with app.run_test(size=(80, 24)) as pilot:
            d = Driver(app, pilot)
            await d.settle()
            d.main.set_filter("age<8m")
            await d.settle()
            assert d.names == ["step_1000", "step_900", "step_800"]
            now[0] += timedelta(hours=1)
            for _ in range(AGE_TICKS):
                app._tick()
            await d.settle()
            assert d.names == ["step_1000"]
            assert d.main.current is not None
            assert d.main.current.hidden

    asyncio.run(script())
