"""Words that have no room end in an ellipsis, on every screen."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.factory import make_run
from tests.tui.driver import Driver, drive, small_run
from tests.tui.test_chart import charted

if TYPE_CHECKING:
    from pathlib import Path

LONG = "These words are longer than any window of sixty columns has room for, and then some."
SCREENS = {
    "chart": ("c",),
    "detail": ("enter",),
    "verify": ("V",),
    "trash": ("T",),
    "journal": ("l",),
    "compare": ("space", "space", "equals_sign"),
}


@pytest.mark.parametrize("name", SCREENS)
@pytest.mark.parametrize("ascii_only", [False, True])
def test_a_line_of_words_is_cut_with_an_ellipsis(
    tmp_path: Path, name: str, ascii_only: bool
) -> None:
    async def script(d: Driver) -> None:
        d.app.ascii_only = ascii_only
        await d.press(*SCREENS[name])
        assert d.app.screen is not d.main
        d.app.say(LONG)
        await d.settle()
        dots = "~" if ascii_only else "…"
        assert f" {LONG[:57].rstrip()}{dots} " in d.lines[-2] + " "
        d.app.say("Short.")
        await d.settle()
        assert d.lines[-2].strip() == "Short."
        d.app.say("words of two cells: " + "字" * 40)
        await d.settle()
        assert d.lines[-2].rstrip().endswith(dots)

    drive(small_run(tmp_path / "run"), script, size=(60, 20))


def test_the_list_too_keeps_to_ascii(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        d.app.ascii_only = True
        d.app.say(LONG)
        await d.settle()
        assert "~" in d.lines[-2]
        assert d.lines[-2].isascii()

    drive(small_run(tmp_path / "run"), script, size=(60, 20))


def test_words_of_several_lines_that_are_too_high_say_that_there_is_more(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1], extra_files={f"{i}" * 90: b"" for i in range(9)})
    for file in (run / "step_1").glob("?" * 90):
        file.unlink()

    async def script(d: Driver) -> None:
        await d.press("V")
        found = d.app.screen.query_one("#found")
        assert found.size.height == 6
        last = d.lines[found.region.bottom - 1].rstrip()
        assert last.endswith("…"), d.text
        assert not any(
            d.lines[y].rstrip().endswith("…")
            for y in range(found.region.y, found.region.bottom - 1)
        )

    drive(run, script, size=(60, 20))
    shutil.rmtree(run)


def test_words_in_the_frame_of_the_chart_keep_to_ascii(tmp_path: Path) -> None:
    run = charted(tmp_path / ("run" * 20))

    async def script(d: Driver) -> None:
        d.app.ascii_only = True
        d.app.add_class("-ascii")
        await d.press("c", "up", "plus", "o")
        assert d.text.isascii()
        assert "~" in d.lines[0]
        await d.pilot.resize_terminal(120, 24)
        await d.settle()
        assert "min 1 at step 300" in d.lines[0]

    drive(run, script, size=(60, 20))
