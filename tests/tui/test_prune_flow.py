from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

import pytest
from textual import events
from textual.widgets import Button, Input

from ckptui import pins
from ckptui.journal import read as read_journal
from ckptui.remove import list_trash
from ckptui.retention import Action
from ckptui.scan import scan, scan_run
from ckptui.tui import work
from ckptui.tui.screens import prune
from ckptui.tui.screens.copying import CopyDialog
from ckptui.tui.screens.dialogs import InputDialog, MessageDialog
from ckptui.tui.screens.prune import PruneScreen
from ckptui.tui.screens.trash import TrashScreen
from tests.factory import make_checkpoint, make_run
from tests.tui.driver import NOW, SIZES, Driver, drive, driving, held_removals

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _no_tmux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMUX", raising=False)


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
        await d.press("x")
        assert "Prune preview: nothing has been moved yet" in d.lines[0]
        await d.press("tab", "enter")
        assert "Prune: done" in d.lines[0]
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
        assert "keep or not" not in d.text
        assert "esc back to the plan" in d.text
        assert "q quit" not in d.text
        line.value = "keep-last 5"
        await d.pilot.pause()
        assert screen.plan is None
        assert screen.query_one("#move", Button).disabled
        await d.press("enter")
        assert "remove 2" in d.text
        assert screen.query_one("#cancel").has_focus
        await d.press("e", "ctrl+u", *"keep-last 2, keep-lst 1")
        await d.until(lambda: "Rule 2 of 2" in d.text)
        assert "'keep-lst 1' is no retention rule" in d.words
        assert screen.plan is None
        assert screen.query_one("#move", Button).disabled
        # The last good plan stays to be read, and says that it is not the one asked for.
        assert "remove 2" in d.text
        assert "not by these rules" in d.text
        assert "y copies" not in d.text
        await d.press("M")
        assert not screen.moving
        await d.press("ctrl+u", *"keep-last 3")
        await d.until(lambda: screen.plan is not None)
        assert "remove 4" in d.text
        assert line.has_focus
        await d.press("escape")
        assert screen.query_one("#cancel").has_focus

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
        assert [row.checkpoint.name for row in preview(d).table.rows] == ["step_500"]
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


def test_rules_typed_in_one_burst_are_all_there_and_planned_by(tmp_path: Path) -> None:
    run = falling_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("x", "e")
        screen = preview(d)
        for key in ["ctrl+u", *"keep-last", "space", "6"]:
            character = {"ctrl+u": "\x15", "space": " "}.get(key, key)
            d.app.post_message(events.Key(key, character))
        await d.until(lambda: screen.plan is not None and len(screen.plan.removals) == 1)
        assert screen.query_one("#rules", Input).value == "keep-last 6"

    drive(run, script)


def test_what_only_rules_keep_can_be_let_go_by_hand_and_nothing_else(tmp_path: Path) -> None:
    run = falling_run(tmp_path / "run")
    pins.pin(next(c for c in scan_run(run).checkpoints if c.step == 400))
    make_checkpoint(run, "step_350", step=350, marker=False)

    async def script(d: Driver) -> None:
        await d.press("x")
        screen = preview(d)

        async def flip(name: str) -> None:
            assert screen.table.select(run / name)
            await d.press("space")

        await flip("step_700")
        assert "newest one that training can continue from" in d.words
        await flip("step_400")
        assert "unpin it first" in d.words
        assert "remove 3" in d.text
        await flip("step_600")
        assert "remove 4" in d.text
        await flip("step_600")
        assert "remove 3" in d.text
        await flip("step_600")
        await flip("step_350")
        await flip("step_100")
        assert "remove 4" in d.text
        await d.press("y")
        line = d.app.clipboard
        await d.press("escape")
        assert line.endswith(f"--keep step_100 && ckptui rm step_350 step_600 --run {run}")
        await d.press("M")
        assert "Moved 4 to the trash" in d.text

    drive(run, script)
    assert {p.name for p in run.glob("step_*")} == {"step_100", "step_200", "step_400", "step_700"}


def test_flipping_counts_hard_links_together(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 2, 3])
    for step in (1, 2):
        (run / f"step_{step}" / "model.safetensors").unlink()
    shared = run / "step_3" / "model.safetensors"
    for step in (1, 2):
        (run / f"step_{step}" / "model.safetensors").hardlink_to(shared)
    away = shared.with_name("own")
    away.write_bytes(shared.read_bytes())
    away.replace(shared)
    first = scan_run(run).checkpoints[0]
    alone = work.make_plan(run, work.ByRules("keep-last 2"), scan, NOW)
    both = work.make_plan(run, work.ByRules("keep-last 1"), scan, NOW)
    second = scan_run(run).checkpoints[1]
    by_hand = work.make_plan(run, work.ByRules("keep-last 2", frozenset(), (second,)), scan, NOW)
    assert [row.checkpoint.name for row in by_hand.removals] == ["step_1", "step_2"]
    assert by_hand.frees == both.frees > 2 * alone.frees - first.size
    assert by_hand.removals[0].reasons == ("no rule keeps it",)


def test_p_pins_the_row_and_the_plan_follows(tmp_path: Path) -> None:
    run = falling_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("x")
        screen = preview(d)
        screen.table.select(run / "step_500")
        await d.press("p")
        await d.until(lambda: "remove 3" in d.text)
        assert "Pinned step_500" in d.text
        assert "z undo" not in d.text
        await d.press("escape", "a", "d")

    drive(run, script, size=(120, 30))
    assert scan_run(run).checkpoints[4].pinned


def test_a_chosen_row_that_is_pinned_in_the_preview_stays(tmp_path: Path) -> None:
    run = falling_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("down", "space", "space", "d")
        screen = preview(d)
        assert "remove 2" in d.text
        screen.table.select(run / "step_500")
        await d.press("p")
        await d.until(lambda: screen.plan is not None and len(screen.plan.removals) == 1)
        assert "kept by hand" in d.text
        await d.press("y")
        assert d.app.clipboard == f"ckptui rm step_600 --run {run}"
        await d.press("escape")
        await d.press("e")
        assert "no rules here" in d.words
        await d.press("M")

    drive(run, script)
    assert standing(run) == {100, 200, 300, 400, 500, 700}


def test_only_removals_are_shown_on_request(tmp_path: Path) -> None:
    run = falling_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("x", "o")
        assert {row.checkpoint.step for row in preview(d).table.rows} == {100, 300, 400, 500}
        await d.press("o")
        assert len(preview(d).table.rows) == 7

    drive(run, script)


def test_a_change_on_the_disk_makes_the_plan_anew_and_says_so(tmp_path: Path) -> None:
    run = falling_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("x")
        screen = preview(d)
        make_checkpoint(run, "step_800", step=800)
        d.app.reader.read_runs([run])
        await d.until(lambda: screen.plan is not None and len(screen.plan.removals) == 5)
        assert "The run has changed on the disk" in d.text
        assert "remove 5" in d.text
        shutil.rmtree(run)
        await d.press("M")
        assert not screen.moving
        assert f"There is no {run}" in d.words.replace(" ", "").replace("Thereisno", "There is no ")
        assert screen.query_one("#move", Button).disabled

    drive(run, script)


@pytest.mark.parametrize("size", [*SIZES, (40, 10)])
def test_the_preview_says_what_it_frees_and_what_stays_resumable(
    tmp_path: Path, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = falling_run(tmp_path / "run")
    usage = shutil.disk_usage(tmp_path)._replace(total=4000, used=3640, free=360)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)

    async def script(d: Driver) -> None:
        await d.press("x")
        assert "Frees 0 B now" in d.words
        assert "[>Cancel" in d.text
        assert "Move 4 to trash" in d.words
        assert "step_700" in d.text
        if size[1] > 10:
            assert "disk 91% -> " in d.words
            assert "Still resumable afterwards: step_700 step_600 " in d.words
            assert "(3 of 7)" in d.words
            assert "y copies: ckptui prune" in d.text

    drive(run, script, size=size)


def test_what_does_not_fit_is_counted_and_shown_on_request(tmp_path: Path) -> None:
    run = falling_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("x")
        assert "more: i shows all" in d.text
        assert "lower is better" not in d.text
        await d.press("i")
        seen = d.words
        for _ in range(12):
            await d.pilot.press("j")
            await d.pilot.pause()
            seen += d.words
        assert "lower is better" in seen
        assert "(3 of 7)" in seen

    drive(run, script, size=(40, 10))


def test_a_fork_that_began_from_what_goes_is_told(tmp_path: Path) -> None:
    run = falling_run(tmp_path / "run")
    parent = {"name": "step_300", "step": 300, "path": str(run / "step_300")}
    fork = {"attempt": 1, "parent": parent, "start_step": 300, "started": "2026-01-01T00:00:00Z"}
    make_run(tmp_path / "fork", [400], attempts=[fork], run_id="f" * 32)

    async def script(d: Driver) -> None:
        d.app.choose_run(run)
        await d.press("x")
        assert "fork began from step_300; it goes on without it" in d.words

    drive(tmp_path, script)


def test_escape_stops_after_the_current_one_and_the_report_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = falling_run(tmp_path / "run")
    began, go_on = held_removals(monkeypatch)

    async def go() -> None:
        async with driving(run) as d:
            await d.settle()
            await d.press("x")
            await d.pilot.press("M")
            await d.until(began.is_set)
            assert "Moving 0 of 4" in d.text
            await d.pilot.press("space", "p", "escape")
            await d.until(lambda: "Stopping after the current one" in d.text)
            go_on.set()
            await d.settle()
            assert "Moved 1 to the trash" in d.text
            assert "Stopped before the rest" in d.text
            assert [row.action for row in preview(d).table.rows].count(Action.REMOVE) == 4
            assert sum(" moved " in line for line in d.lines[6:15]) == 1
            assert "moved 1  unmoved 3  keep 3" in d.text
            await d.press("z")
            assert "Restored step_100" in d.text

    asyncio.run(go())
    assert len(standing(run)) == 7


def test_the_command_is_shown_whole_when_it_is_copied(tmp_path: Path) -> None:
    run = falling_run(tmp_path / ("deep" * 20) / "run")

    async def script(d: Driver) -> None:
        await d.press("x", "y")
        assert isinstance(d.app.screen, CopyDialog)
        assert "".join(d.words.split()).count("keep-best1:eval_loss:min") >= 1
        assert "Copied by OSC 52" in d.words
        assert d.app.clipboard == d.app.screen.text
        await d.press("escape")
        assert isinstance(d.app.screen, PruneScreen)

    drive(run, script)


def test_nothing_moves_where_nothing_may_be_changed(tmp_path: Path) -> None:
    run = falling_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("x")
        screen = preview(d)
        assert screen.query_one("#move", Button).disabled
        assert "read-only" in d.text
        await d.press("M", "p", "tab", "enter")

    drive(run, script, read_only=True)
    assert len(standing(run)) == 7


def test_a_plan_that_nobody_can_have_read_is_not_carried_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = falling_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        monkeypatch.setattr(prune, "LOOK", 30.0)
        for key in ("x", "M"):
            d.app.post_message(events.Key(key, key))
        await d.settle()
        screen = preview(d)
        await d.press("M", "tab", "enter")
        assert "Read the plan first" in d.text
        assert not screen.moving
        assert " >Move 4 to trash (M)< " in d.text
        assert len(standing(run)) == 7
        monkeypatch.setattr(prune, "LOOK", 0.05)
        await d.press("escape", "x")
        await d.until(lambda: "[ Move 4 to trash (M) ]" in d.text)
        await d.press("M")
        assert "Moved 4 to the trash" in d.text

    drive(run, script)
