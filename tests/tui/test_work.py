from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING

import pytest

from ckptui import remove
from ckptui.errors import NotFoundError, RefusedError
from ckptui.scan import scan, scan_run
from ckptui.tui import messages, work
from ckptui.tui.screens.dialogs import QuestionDialog
from tests.factory import make_checkpoint, make_run
from tests.tui.driver import NOW, driving, held_removals

if TYPE_CHECKING:
    from pathlib import Path


def test_a_fresh_plan_is_cut_down_to_what_was_named(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 2, 3])
    request = work.ByRules("keep-last 2")
    shown = work.make_plan(run, request, scan, NOW)
    assert [row.checkpoint.step for row in shown.removals] == [1]
    make_checkpoint(run, "step_4", step=4)
    plan, changed = work.agreed(work.make_plan(run, request, scan, NOW), shown)
    assert [row.checkpoint.step for row in plan.removals] == [1]
    assert [row.checkpoint.step for row in plan.rows] == [1, 2, 3, 4]
    assert changed == ()


def test_what_was_named_and_is_gone_is_told(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 2, 3])
    request = work.ByRules("keep-last 1")
    shown = work.make_plan(run, request, scan, NOW)
    (run / "step_1").rename(tmp_path / "away")
    plan, changed = work.agreed(work.make_plan(run, request, scan, NOW), shown)
    assert [row.checkpoint.step for row in plan.removals] == [2]
    assert changed == ("step_1: gone or changed meanwhile",)


def test_chosen_checkpoints_are_meant_by_identity(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 2, 3])
    first = scan_run(run).checkpoints[0]
    assert len(work.make_plan(run, work.ByName((first,)), scan, NOW).removals) == 1
    newest = scan_run(run).checkpoints[-1]
    with pytest.raises(RefusedError):
        work.make_plan(run, work.ByName((newest,)), scan, NOW)
    (run / "step_1").rename(tmp_path / "away")
    with pytest.raises(NotFoundError):
        work.make_plan(run, work.ByName((first,)), scan, NOW)
    with pytest.raises(NotFoundError):
        work.make_plan(tmp_path / "none", work.ByName((first,)), scan, NOW)


def test_quitting_in_the_middle_of_a_removal_asks_and_stops_between_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run", range(1, 9), policy=["keep-last 1"])
    began, go_on = held_removals(monkeypatch)

    async def go() -> None:
        async with driving(run) as d:
            await d.settle()
            await d.press("x")
            await d.pilot.press("tab", "enter")
            await d.until(began.is_set)
            await d.pilot.press("q")
            await d.until(lambda: isinstance(d.app.screen, QuestionDialog))
            assert d.app.screen.query_one("#no").has_focus
            await d.pilot.press("tab", "enter")
            await d.until(lambda: d.app.leaving)
            assert d.app.is_running
            go_on.set()
            await d.until(lambda: not d.app.jobs.running("remove"))
            await d.pilot.pause()

    asyncio.run(go())
    assert len(scan_run(run).checkpoints) == 7
    assert len(remove.list_trash(run)) == 1


def test_what_came_back_before_the_disk_refused_the_rest_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run", [1, 2, 3])
    item = remove.move_to_trash(scan_run(run).checkpoints[:2], why="rewind")
    real = remove.move_folder

    def full(source: Path, target: Path) -> None:
        if target.name == "step_2":
            raise OSError(errno.EIO, "Input/output error")
        real(source, target)

    monkeypatch.setattr(remove, "move_folder", full)
    done = work.restore(run, [item], ["step_1", "step_2"])
    assert isinstance(done, messages.ItemsRestored)
    assert done.names == ["step_1"]
    assert len(done.errors) == 1
