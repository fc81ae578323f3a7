from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widgets import Button, Input

from ckptui import pins
from ckptui.journal import read as read_journal
from ckptui.remove import list_trash
from ckptui.scan import scan_run
from ckptui.tui.screens.dialogs import InputDialog, MessageDialog
from ckptui.tui.screens.prune import PruneScreen
from ckptui.tui.screens.trash import TrashScreen
from tests.factory import make_checkpoint, make_run
from tests.tui.driver import Driver, drive

if TYPE_CHECKING:
    from pathlib import Path

POLICY = ["keep-last 2", "keep-best 1:eval_loss:min"]


def falling_run(path: Path) -> Path:
    metrics = {step: {"eval_loss": abs(step - 200) / 100 + 1.0} for step in range(100, 800, 100)}
    return make_run(path, range(100, 800, 100), metrics=metrics, policy=POLICY)


def standing(run: Path) -> set[int]:
    return {c.step for c in scan_run(run).checkpoints if c.step is not None}


def preview(d: Driver) -> PruneScreen:
    assert isinstance(d.app.screen, PruneScreen)
    return d.app.screen


def test_a_plan_is_shown_with_reasons_and_enter_right_away_does_no_harm(tmp_path: Path) -> None:
    run = falling_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("x")
        screen = preview(d)
        assert screen.query_one("#rules", Input).value == ", ".join(POLICY)
        assert "remove 4" in d.text
        assert "keep 3" in d.text
        assert "no rule keeps it" in d.text
        assert "lower is better" in d.text
        assert "Move 4 to trash" in d.text
        assert screen.query_one("#cancel").has_focus
        await d.press("enter")
        assert d.app.screen is d.main

    drive(run, script)
    assert len(standing(run)) == 7


def test_prune_moves_to_the_trash_and_undo_brings_everything_back(tmp_path: Path) -> None:
    run = falling_run(tmp_path / "run")
    before = {p.name: (p / "model.safetensors").read_bytes() for p in run.glob("step_*")}

    async def script(d: Driver) -> None:
        await d.press("x", "tab", "enter")
        assert "Moved 4 to the trash" in d.text
        assert standing(run) == {200, 600, 700}
        assert len(list_trash(run)) == 4
        await d.press("escape")
        assert d.names == ["step_700", "step_600", "step_200"]
        await d.press("z")
        assert "Restored" in d.text
        assert len(d.names) == 7
        await d.press("z")
        assert "Nothing to undo" in d.text

    drive(run, script)
    after = {p.name: (p / "model.safetensors").read_bytes() for p in run.glob("step_*")}
    assert after == before
    assert {e.what for e in read_journal(run)[0]} == {"prune", "restore"}


def test_undo_works_where_it_is_promised(tmp_path: Path) -> None:
    run = falling_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("x", "z")
        assert preview(d).plan is not None
        await d.press("tab", "enter")
        assert "z brings them back" in d.text
        assert "z undo" in d.text
        assert "e edit rules" not in d.text
        await d.press("z")
        assert d.app.screen is d.main
        assert "Restored" in d.text

    drive(run, script)
    assert len(standing(run)) == 7


def test_the_rules_can_be_edited_and_nothing_moves_by_rules_not_yet_planned(
    tmp_path: Path,
) -> None:
    run = falling_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("x", "e")
        screen = preview(d)
        line = screen.query_one("#rules", Input)
        assert line.has_focus
        line.value = "keep-last 5"
        await d.settle()
        assert screen.query_one("#move", Button).disabled
        await d.press("enter")
        assert "remove 2" in d.text
        assert screen.query_one("#cancel").has_focus
        line.value = "keep-last none"
        await d.settle()
        line.focus()
        await d.press("enter")
        assert screen.plan is None
        assert screen.query_one("#move", Button).disabled
        assert "keep-last" in d.text

    drive(run, script)
    assert len(standing(run)) == 7


def test_a_row_can_be_kept_by_hand(tmp_path: Path) -> None:
    run = falling_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("x", "down", "down")
        row = preview(d).table.current
        assert row is not None
        assert row.checkpoint.name == "step_500"
        await d.press("space")
        assert "remove 3" in d.text
        await d.press("tab", "enter", "escape")
        assert "step_500" in d.names

    drive(run, script)
    assert standing(run) == {200, 500, 600, 700}


def test_what_is_pinned_between_preview_and_moving_stays(tmp_path: Path) -> None:
    run = falling_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("x")
        pins.pin(next(c for c in scan_run(run).checkpoints if c.step == 300))
        await d.press("tab", "enter")
        assert "Moved 3 to the trash" in d.text
        assert "step_300: stays (pinned)" in d.text

    drive(run, script)
    assert standing(run) == {200, 300, 600, 700}


def test_what_the_preview_did_not_name_is_not_moved(tmp_path: Path) -> None:
    run = falling_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("x")
        for step in (800, 900, 1000):
            make_checkpoint(run, f"step_{step}", step=step)
        await d.press("tab", "enter")

    drive(run, script)
    # By now the rules would remove 600 and 700 too, but the dialog promised that they stay.
    assert standing(run) == {200, 600, 700, 800, 900, 1000}


def test_a_checkpoint_replaced_since_the_preview_is_left_alone(tmp_path: Path) -> None:
    run = falling_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("x")
        (run / "step_400").rename(tmp_path / "old")
        make_checkpoint(run, "step_400", step=400, created="2026-02-02T00:00:00.000000Z")
        await d.press("tab", "enter")
        assert "Moved 3" in d.text
        assert "step_400: gone or changed" in d.text

    drive(run, script)
    assert 400 in standing(run)


def test_one_checkpoint_goes_to_the_trash_only_after_the_second_key(tmp_path: Path) -> None:
    run = falling_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("down", "down", "d")
        assert "step_500" in d.text
        assert "step_400" not in d.text
        await d.press("enter")
        assert len(standing(run)) == 7
        await d.press("d", "right", "enter")
        assert standing(run) == {100, 200, 300, 400, 600, 700}
        await d.press("escape", "z")
        assert len(standing(run)) == 7

    drive(run, script)


def test_marked_checkpoints_go_together(tmp_path: Path) -> None:
    run = falling_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("down", "space", "space")
        assert "2 marked" in d.text
        await d.press("d", "tab", "enter", "escape")
        assert not d.main.marked

    drive(run, script)
    assert standing(run) == {100, 200, 300, 400, 700}


def test_the_newest_and_the_pinned_are_refused_in_a_sentence(tmp_path: Path) -> None:
    run = falling_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("d")
        assert isinstance(d.app.screen, MessageDialog)
        assert "newest" in d.text
        await d.press("escape", "down", "p", "d")
        assert "unpin it first" in d.text
        await d.press("enter")

    drive(run, script)
    assert len(standing(run)) == 7


def test_the_trash_screen_restores_one_item(tmp_path: Path) -> None:
    run = falling_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("x", "tab", "enter", "escape", "T")
        assert isinstance(d.app.screen, TrashScreen)
        assert "4 items" in d.text
        item = d.app.screen.table.current
        assert item is not None
        await d.press("enter")
        assert "3 items" in d.text
        assert f"Restored {item.name}" in d.text
        await d.press("escape")
        assert item.name in d.names

    drive(run, script)


def test_emptying_the_trash_takes_its_number(tmp_path: Path) -> None:
    run = falling_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("x", "tab", "enter", "escape", "T", "E", "enter")
        assert isinstance(d.app.screen, InputDialog)
        await d.press("5", "enter")
        assert isinstance(d.app.screen, InputDialog)
        assert "type 4" in d.text
        await d.press("escape")
        assert len(list_trash(run)) == 4
        await d.press("E", "4", "enter")
        assert list_trash(run) == ()
        assert "The trash is empty" in d.text
        assert "Deleted 4 for good" in d.text

    drive(run, script)
    assert standing(run) == {200, 600, 700}


def test_a_restore_onto_a_taken_name_is_told(tmp_path: Path) -> None:
    run = falling_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("down", "down", "d", "tab", "enter", "escape")
        make_checkpoint(run, "step_500", step=500)
        await d.press("z")
        assert isinstance(d.app.screen, MessageDialog)
        assert "taken" in d.text

    drive(run, script)
    assert len(list_trash(run)) == 1


def test_nothing_goes_by_rules_that_keep_everything(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 2])

    async def script(d: Driver) -> None:
        await d.press("x")
        assert "Nothing goes" in d.text
        assert preview(d).query_one("#move", Button).disabled
        await d.press("tab", "enter")

    drive(run, script)
    assert len(standing(run)) == 2


def test_the_same_as_a_command_is_copied(tmp_path: Path) -> None:
    run = falling_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("x", "y")
        line = d.app.clipboard
        assert line.startswith(f"ckptui prune {run} --keep-last 2 --keep-best 1:eval_loss:min")

    drive(run, script)
