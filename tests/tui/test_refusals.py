"""Where there is nothing to act on, every key of the bar says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ckptui import schema
from ckptui.tui import keys, palette
from ckptui.tui.screens.dialogs import MessageDialog
from tests.factory import make_checkpoint, make_run
from tests.tui.driver import Driver, drive, small_run
from tests.tui.worlds import World

if TYPE_CHECKING:
    from pathlib import Path

ABOUT_ROWS = ("space", "p", "r", "equals_sign", "d", "V", "y", "n", "v", "a", "i")
ABOUT_RUN = ("x", "c", "m", "T", "l")


async def says(d: Driver, key: str) -> str:
    """What the line of words says to a key that opens nothing."""
    await d.press(key)
    assert d.app.screen is d.main, key
    return d.main.said


def test_without_a_run_every_key_says_so(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    async def script(d: Driver) -> None:
        for key in (*ABOUT_ROWS, *ABOUT_RUN):
            d.main.say("")
            assert await says(d, key) == "There is no run here.", key
        listed = {e.act: e.why_not for e in palette.of_screen(d.main)}
        assert listed["prune"] == listed["pin"] == "There is no run here."
        assert listed["rescan"] is None
        await d.press("ctrl+r")
        assert "There is no run here" not in d.lines[-2]

    drive(tmp_path / "empty", script)


def test_in_a_run_without_checkpoints_every_key_about_one_says_so(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        for key in (*ABOUT_ROWS, "x"):
            d.main.say("")
            assert await says(d, key) == "There is no checkpoint in this run.", key
        await d.press("T")
        assert d.app.screen is not d.main

    drive(make_run(tmp_path / "run", []), script)


def test_where_the_filter_hides_all_the_keys_say_so_but_those_for_marks_act(
    tmp_path: Path,
) -> None:
    async def script(d: Driver) -> None:
        await d.press("space")
        d.main.set_filter("step>9999")
        await d.settle()
        for key in ("space", "p", "r", "n", "v", "y"):
            d.main.say("")
            words = "No checkpoint matches the filter; esc clears it."
            assert await says(d, key) == words, key
        await d.press("V")
        assert d.app.screen is not d.main

    drive(small_run(tmp_path / "run"), script)


def test_what_a_key_said_does_not_stay_through_later_ones(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 2, 3])

    async def script(d: Driver) -> None:
        await d.press("z")
        assert "Nothing to undo" in d.text
        await d.press("x", "escape")
        assert "Nothing to undo" not in d.text
        d.main.refuse("Not now.")
        await d.press("down")
        assert "Not now." not in d.text

    drive(run, script)


def test_no_word_is_said_of_a_parent_that_nobody_knows(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 2])
    make_checkpoint(run, "step_3", step=3, marker=False)

    async def script(d: Driver) -> None:
        assert await says(d, "equals_sign") == (
            "What step_3 came from is not known: checkpoint.json is missing. "
            "Mark two to compare them."
        )
        await d.press("down")
        assert "step_2 has no parent" in await says(d, "equals_sign")

    drive(run, script)


def test_a_run_without_metrics_is_not_ordered_by_one(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        await d.press("s")
        assert "Size" in d.text
        assert "Metric" not in d.text

    drive(make_run(tmp_path / "run", [1, 2]), script)


@pytest.mark.parametrize("key", ["p", "n"])
def test_what_is_being_written_is_not_pinned_yet(tmp_path: Path, key: str) -> None:
    run = make_run(tmp_path / "run", [1, 2])
    staged = run / schema.TOOL_DIR / schema.STAGING / "step_3-0123456789abcdef"
    staged.mkdir(parents=True)
    (staged / "model.safetensors").write_bytes(b"0" * 300)
    World(tmp_path).lock(run, step=3, saving="step_3")

    async def script(d: Driver) -> None:
        assert d.current == "step_3"
        await d.press(key)
        assert isinstance(d.app.screen, MessageDialog)
        assert "pin it once it stands in the run" in d.words

    drive(run, script)


def test_no_other_key_is_silent(tmp_path: Path) -> None:
    """The keys above are those of the bar that need something, and there are no more."""
    needs = {k.key for k in keys.BROWSE if k.bar} & {*ABOUT_ROWS, *ABOUT_RUN}
    rest = {k.act for k in keys.BROWSE if k.bar and k.key not in needs}
    assert rest == {"help", "filter", "save_now", "undo", "sort"}
