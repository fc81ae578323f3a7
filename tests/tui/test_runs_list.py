"""The list of runs has the columns that its names need; the first line counts what is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.factory import RUN_ID, make_checkpoint, make_run
from tests.tui.driver import Driver, drive, small_run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("size", "shown"),
    [((80, 24), "/plain-1rank"), ((100, 30), "dcp/plain-1rank"), ((160, 45), "dcp/plain-1rank")],
)
def test_names_of_runs_have_room_before_other_columns(
    tmp_path: Path, size: tuple[int, int], shown: str
) -> None:
    make_run(tmp_path / "dcp" / "plain-1rank", [1])
    make_run(tmp_path / "torchtune" / "steps", [1, 2])

    async def script(d: Driver) -> None:
        pane = d.main.run_list
        assert any(shown in line[: pane.size.width] for line in d.lines)
        assert d.main.checkpoints.size.width > pane.size.width

    drive(tmp_path, script, size=size)


def test_alone_on_the_screen_the_runs_have_all_of_it(tmp_path: Path) -> None:
    make_run(tmp_path / "a-run-with-a-name-of-some-length", [1])
    make_run(tmp_path / "b", [1, 2])

    async def script(d: Driver) -> None:
        await d.press("escape")
        assert d.main.run_list.outer_size.width == 60
        await d.pilot.resize_terminal(100, 30)
        await d.settle()
        assert d.main.run_list.outer_size.width < 50
        await d.pilot.resize_terminal(60, 20)
        await d.settle()
        assert d.main.run_list.outer_size.width == 60

    drive(tmp_path, script, size=(60, 20))


def test_names_that_are_not_known_are_counted(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        assert "ignored" not in d.lines[0]
        (run / "logs").mkdir()
        (tmp_path / "notes").mkdir()
        d.app.reader.read_all()
        await d.settle()
        assert "2 other names ignored" in d.lines[0]

    drive(tmp_path, script, size=(160, 30))


def test_the_first_line_and_the_trash_tell_the_same_size(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("x", "M")
        await d.until(lambda: not (run / "step_100").exists())
        await d.settle()
        await d.press("escape")
        told = d.lines[0].partition("trash ")[2].split("   ")[0].split(", ")
        await d.press("T")
        assert f"{told[0]} items, emptying frees {told[1]}" in d.text

    drive(run, script, size=(120, 30))


def test_the_order_is_called_by_its_own_ends(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        for key, words in {
            "step": ("by step, lowest first", "by step, highest first"),
            "state": ("by state, ok first", "by state, ok last"),
            "size": ("by size, smallest first", "by size, largest first"),
            "age": ("by age, newest first", "by age, oldest first"),
            "kept": ("by what keeps it, a to z", "by what keeps it, z to a"),
            "metric": ("by eval_loss, lowest first", "by eval_loss, highest first"),
        }.items():
            for descending in (False, True):
                d.main.set_sort(key, descending=descending)
                await d.settle()
                assert words[descending] in d.lines[-2]
            if key == "age":
                assert d.names[0] == "step_100"

    drive(small_run(tmp_path / "run"), script)


def test_nobody_keeps_what_lies_on_an_abandoned_branch(tmp_path: Path) -> None:
    parent = {"run_id": RUN_ID, "step": 100, "attempt": 1, "name": "step_100"}
    run = make_run(
        tmp_path / "run",
        [100],
        attempts=[
            {"attempt": 1, "parent": None, "start_step": 0},
            {"attempt": 2, "parent": parent, "start_step": 100},
        ],
    )
    make_checkpoint(run, "step_200", step=200)
    make_checkpoint(run, "step_150", step=150, attempt=2, parent=parent)

    async def script(d: Driver) -> None:
        assert d.current == "step_200"
        assert "abandoned: a later attempt trained these steps anew" in d.words
        assert "kept by abandoned" not in d.words.lower()
        await d.press("c")
        assert "kept by abandoned" not in d.words

    drive(run, script)
