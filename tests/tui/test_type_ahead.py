"""Keys that arrive in one burst are obeyed one after the other, where each belongs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import events

from tests.tui.driver import Driver, drive, small_run

if TYPE_CHECKING:
    from pathlib import Path


async def burst(d: Driver, *keys: str) -> None:
    """Keys that are all there before the first one is looked at."""
    for key in keys:
        character = key if len(key) == 1 else " " if key == "space" else None
        named = {"/": "slash", ">": "greater_than_sign", "=": "equals_sign"}.get(key, key)
        d.app.post_message(events.Key(named, character))
    await d.settle()


def test_text_behind_a_slash_is_the_filter_and_no_command(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await burst(d, "/", *"step>=900", "enter", "down")
        assert d.main.filter_text == "step>=900"
        assert d.names == ["step_1000", "step_900"]
        assert d.current == "step_900"
        assert not (run / ".ckptui" / "pins").exists()

    drive(run, script)


def test_a_note_typed_at_once_is_the_note(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await burst(d, "n", *"drop", "enter", "down", "p")
        rows = {row.checkpoint.name: row.checkpoint for row in d.main.checkpoints.rows}
        assert rows["step_1000"].note == "drop"
        assert rows["step_900"].pinned

    drive(run, script)


def test_keys_behind_one_that_opens_a_screen_go_to_that_screen(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await burst(d, "c", "left", "escape", "p")
        assert d.current == "step_900"
        assert d.main.current is not None
        assert d.main.current.checkpoint.pinned

    drive(run, script)


def test_a_hundred_keys_lose_none(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await burst(d, *(["down", "up"] * 50), *["down"] * 3)
        assert d.current == "step_700"

    drive(run, script)


def test_after_a_stay_in_a_tiny_window_the_keys_go_where_they_went(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("down")
        await d.pilot.resize_terminal(20, 5)
        await d.settle()
        assert "needs at least" in d.words
        await d.pilot.resize_terminal(80, 24)
        await d.settle()
        await d.press("down")
        assert d.current == "step_800"

    drive(run, script)
