"""What `p` and `n` do to pins: in turn, with their notes, and told for what they are."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ckptui import durable, journal, pins
from ckptui.tui.screens.dialogs import InputDialog, MessageDialog
from tests.factory import make_checkpoint, make_run
from tests.tui.driver import Driver, drive, driving, small_run
from tests.tui.test_type_ahead import burst
from tests.tui.worlds import World

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def home(tmp_path: Path) -> World:
    """What pins and locks runs; where they lie is of no matter to it."""
    return World(tmp_path)


def deeds(run: Path) -> list[str]:
    events, _ = journal.read(run)
    return [event.what for event in events]


def note_on_disk(run: Path, name: str) -> object:
    return json.loads(pins.pin_path(run, name).read_text())["note"]


@pytest.mark.parametrize(
    ("saved", "rule"), [([1, 2, 3, 4], "keep-last 2"), ([1, 2], "keep-last 1")]
)
def test_what_goes_for_good_once_unpinned_is_told_at_once(
    home: World, tmp_path: Path, saved: list[int], rule: str
) -> None:
    run = make_run(tmp_path / "run", saved, policy=[rule])
    home.pin(run, "step_1")
    home.lock(run, step=5)

    async def script(d: Driver) -> None:
        await d.press("end", "p")
        assert "Unpinned step_1: goes for good at the next save, by the run's own rules" in d.text
        assert "p pins it again" in d.text
        await d.press("p", "home", "p", "p")
        assert "Unpinned step_" in d.text
        assert "for good" not in d.text

    drive(run, script, size=(120, 30))


def test_of_a_run_that_nobody_trains_nothing_goes_by_itself(home: World, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", range(100, 600, 100), policy=["keep-last 1"])
    home.pin(run, "step_100")

    async def script(d: Driver) -> None:
        await d.press("end", "p")
        assert "Unpinned step_100. p pins it again." in d.text

    drive(run, script, size=(120, 30))


def test_a_pin_that_is_set_again_has_its_note_again(home: World, tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    home.pin(run, "step_900", "before the LR drop")

    async def script(d: Driver) -> None:
        await d.press("down", "p")
        assert "Unpinned step_900. p pins it again, with its note." in d.text
        await d.press("n")
        assert "before the LR drop" in d.text
        await d.press("escape", "p")
        assert "Pinned step_900 again, with its note: before the LR drop" in d.text
        assert note_on_disk(run, "step_900") == "before the LR drop"
        await d.press("down", "p")
        assert "Pinned step_800. p takes the pin away" in d.text

    drive(run, script)


def test_a_note_that_somebody_gave_meanwhile_is_left_alone(home: World, tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    home.pin(run, "step_1000", "mine")

    async def script(d: Driver) -> None:
        await d.press("p")
        home.pin(run, "step_1000", "theirs")
        await d.press("p")
        assert "step_1000 was pinned already" in d.text
        assert note_on_disk(run, "step_1000") == "theirs"

    drive(run, script)


def test_keys_typed_at_once_act_on_what_the_one_before_has_made(
    home: World, tmp_path: Path
) -> None:
    run = small_run(tmp_path / "run")
    home.pin(run, "step_900", "why")

    async def script(d: Driver) -> None:
        await burst(d, "p", "p")
        assert deeds(run) == ["pin", "unpin"]
        assert "Unpinned step_1000" in d.text
        await burst(d, "down", "p", "p")
        assert deeds(run) == ["pin", "unpin", "unpin", "pin"]
        assert note_on_disk(run, "step_900") == "why"
        await burst(d, "p", "down", "p", "p", "p")
        assert not pins.is_pinned(run, "step_900")
        assert pins.is_pinned(run, "step_800")

    drive(run, script)


def test_a_key_while_the_list_does_not_show_the_pin_yet_takes_it_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = small_run(tmp_path / "run")

    async def go() -> None:
        async with driving(run) as d:
            await d.settle()
            real = d.app.reader.read_runs
            held: list[list[Path]] = []
            monkeypatch.setattr(d.app.reader, "read_runs", lambda paths: held.append(list(paths)))
            await d.press("p")
            row = d.main.current
            assert row is not None
            assert not row.checkpoint.pinned
            monkeypatch.setattr(d.app.reader, "read_runs", real)
            await d.press("p")
            assert not pins.is_pinned(run, "step_1000")
            assert deeds(run) == ["pin", "unpin"]
            await d.press("p")
            assert pins.is_pinned(run, "step_1000")

    asyncio.run(go())


def test_what_follows_a_pin_that_was_refused_is_not_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = small_run(tmp_path / "run")
    real: Callable[[Path, bytes], None] = durable.create_file

    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    async def script(d: Driver) -> None:
        monkeypatch.setattr(pins, "create_file", full)
        await burst(d, "p", "p")
        assert isinstance(d.app.screen, MessageDialog)
        monkeypatch.setattr(pins, "create_file", real)
        await d.press("escape", "p")
        assert pins.is_pinned(run, "step_1000")

    drive(run, script)


def test_a_note_for_a_checkpoint_that_was_replaced_meanwhile_pins_nothing(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("down", "n")
        assert isinstance(d.app.screen, InputDialog)
        shutil.rmtree(run / "step_900")
        make_checkpoint(run, "step_900", step=900, created="2026-01-01T11:00:00.000000Z")
        await d.press(*"why", "enter")
        assert isinstance(d.app.screen, MessageDialog)
        assert "another checkpoint of that name by now" in d.words
        assert not pins.is_pinned(run, "step_900")

    drive(run, script)
