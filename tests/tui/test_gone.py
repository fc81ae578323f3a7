"""The row under the cursor stays where it is, whoever takes its checkpoint away."""

from __future__ import annotations

import asyncio
import shutil
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ckptui import remove
from ckptui.tui import messages
from ckptui.tui.app import AGE_TICKS, Browser
from ckptui.tui.jobs import Job
from ckptui.tui.widgets import checkpoints
from ckptui.tui.wishes import Wishes
from tests.factory import make_checkpoint, make_run
from tests.tui.driver import Driver, drive, small_run

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


async def look(d: Driver) -> None:
    """As if a second had passed."""
    job = d.app.jobs.latest("watch")
    if job is not None and job.finished is not None:
        job.finished -= 1.0
    d.app._tick()
    await d.settle()


def test_a_checkpoint_that_the_trainer_prunes_stays_under_the_cursor_as_gone(
    tmp_path: Path,
) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("down", "down")
        assert d.current == "step_800"
        shutil.rmtree(run / "step_800")
        await look(d)
        assert d.current == "step_800"
        assert "gone" in d.lines[d.main.checkpoints.cursor + 3]
        await d.press("p")
        assert "step_800 is gone" in d.text
        assert not (run / ".ckptui" / "pins").exists() or not any(
            (run / ".ckptui" / "pins").iterdir()
        )
        for key in ("n", "r", "d", "V", "enter"):
            await d.press(key)
            assert d.app.screen is d.main, key
        await d.press("down")
        assert d.current == "step_700"
        assert "step_800" not in d.names

    drive(run, script)


def test_a_row_that_leaves_the_filter_by_itself_is_told(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 2, 3])

    async def script(d: Driver) -> None:
        d.main.set_filter("pin:no")
        await d.settle()
        assert d.current == "step_3"
        await d.press("p")
        assert d.current == "step_3"
        assert d.main.current is not None
        assert d.main.current.hidden
        assert not d.main.current.gone
        assert "hidden by the filter now" in d.lines[3]
        await d.press("a")  # what the filter lets through
        assert len(d.main.marked) == 2
        await d.press("p")  # it is there, so keys act on it
        assert not any((run / ".ckptui" / "pins").iterdir())
        assert d.main.current is not None
        assert not d.main.current.hidden
        await d.press("p")
        d.main.say("")
        assert "hidden by the filter" in d.lines[-2]
        await d.press("down")
        assert d.names == ["step_2", "step_1"]

    drive(run, script)


def test_what_this_session_moved_leaves_the_list_at_once(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("down", "down", "d")
        await d.press("right", "enter")
        await d.until(lambda: not (run / "step_800").exists())
        await d.settle()
        await d.press("escape")
        await d.settle()
        assert "step_800" not in d.names
        await d.press("z")
        await d.settle()
        assert "step_800" in d.names

    drive(run, script)


def test_what_this_session_moved_and_somebody_restored_is_told_as_gone_like_any_other(
    tmp_path: Path,
) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("down", "down", "d", "M", "escape")
        assert "step_800" not in d.names
        for item in remove.list_trash(run):
            remove.restore(item)
        await look(d)
        d.main.select(run / "step_800")
        shutil.rmtree(run / "step_800")
        await look(d)
        assert d.current == "step_800"
        assert d.main.current is not None
        assert d.main.current.gone

    drive(run, script)


def test_a_gone_row_stays_among_its_neighbours(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("down", "down")
        make_checkpoint(run, "step_1100", step=1100)
        shutil.rmtree(run / "step_1000")
        shutil.rmtree(run / "step_800")
        make_checkpoint(run, "step_1200", step=1200)
        await look(d)
        assert d.names[:5] == ["step_1200", "step_1100", "step_900", "step_800", "step_700"]
        assert d.current == "step_800"
        await d.press("end")
        shutil.rmtree(run / "step_100")
        await look(d)
        assert d.names[-2:] == ["step_200", "step_100"]

    drive(run, script)


def test_going_to_what_the_filter_hides_says_so_and_is_forgotten(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        d.main.set_filter("step>500")
        await d.press("colon", *"step_300", "enter")
        assert "step_300 is hidden by the filter" in d.text
        await d.press("down", "escape")
        assert d.current == "step_900"
        assert len(d.names) == 10
        d.main.select(run / "step_77")
        assert "step_77 is not in this list." in d.main.said
        d.main.select(run / "step_200")
        assert d.current == "step_200"
        assert "step_77" not in d.main.said

    drive(run, script)


def test_a_list_that_is_still_arranged_takes_the_cursor_where_it_is_to_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "AT_ONCE", 5)
    run = make_run(tmp_path / "run", range(1, 13))

    async def script(d: Driver) -> None:
        d.main.set_filter("step<9")
        d.main.select(run / "step_7")
        await d.settle()
        assert d.current == "step_7"
        d.main.set_filter("step<10")
        d.main.select(run / "step_11")
        await d.settle()
        assert d.current == "step_7"
        assert "step_11 is hidden by the filter" in d.text

    drive(run, script)


def test_an_arrangement_that_was_overtaken_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "AT_ONCE", 5)
    run = small_run(tmp_path / "a")
    make_run(tmp_path / "b", range(1, 9))

    async def script(d: Driver) -> None:
        d.app.choose_run(run)
        await d.settle()
        late = d.main.shown
        d.app.choose_run(tmp_path / "b")
        job = Job("arrange", "sorting the list", d.main.checkpoints)
        d.main.checkpoints.post_message(messages.ListArranged(late, by_user=True, job=job))
        d.main.select(tmp_path / "b" / "step_7")
        await d.settle()
        assert d.current == "step_7"
        assert len(d.names) == 8

    drive(tmp_path, script)


def test_the_star_goes_with_its_checkpoint(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        assert "*" in d.lines[3][:7]
        shutil.rmtree(run / "step_1000")
        await look(d)
        assert d.current == "step_1000"
        assert ["*" in line[:7] for line in d.lines[3:5]] == [False, True]

    drive(run, script)


def test_the_listed_run_never_changes_by_itself(tmp_path: Path) -> None:
    here, other = small_run(tmp_path / "a"), make_run(tmp_path / "b", [1, 2, 3])

    async def script(d: Driver) -> None:
        await d.press("space", "space", "c")
        make_checkpoint(other, "step_4", step=4, created="2026-01-01T11:00:00.000000Z")
        d.app.reader.read_all()
        await d.settle()
        await d.press("left_square_bracket", "p", "escape")
        assert (here / ".ckptui/pins/step_700.json").exists()
        assert d.current == "step_700"
        assert len(d.main.marked) == 2
        assert d.main.run_list.current is not None
        assert d.main.run_list.current.run.path == here

    drive(tmp_path, script)


def test_a_listed_run_that_is_renamed_is_told_and_its_list_is_empty(tmp_path: Path) -> None:
    run = small_run(tmp_path / "deep" / "a")
    make_run(tmp_path / "b", [1, 2, 3])

    async def script(d: Driver) -> None:
        await look(d)
        await d.press("down")
        run.rename(tmp_path / "zz")
        await look(d)
        assert "deep/a is gone: removed or renamed elsewhere." in d.lines[-2]
        assert "gone" in d.lines[0]
        assert d.names == []
        for key in ("p", "x", "d", "c", "T", "l", "w", "y", "r", "m", "equals_sign"):
            await d.press(key)
            assert d.app.screen is d.main
            assert "deep/a is gone" in d.lines[-2]
        assert "pin" not in d.lines[-1]
        d.app.reader.read_all()
        await d.settle()
        assert d.names == []
        gone = next(line for line in d.lines if "deep/a" in line and ">!" in line)
        assert "gone" in gone
        assert any("zz" in line for line in d.lines)
        (tmp_path / "zz").rename(run)
        d.app.reader.read_all()
        await d.settle()
        assert len(d.names) == 10
        assert "is gone" not in d.text

    drive(tmp_path, script)


def test_the_next_run_is_listed_only_once_it_is_chosen(tmp_path: Path) -> None:
    run, other = small_run(tmp_path / "a"), make_run(tmp_path / "b", [1, 2, 3])

    async def script(d: Driver) -> None:
        await look(d)
        await d.press("shift+tab")
        assert d.main.run_list.has_focus
        run.rename(tmp_path / "zz")
        d.app.reader.read_all()
        await d.settle()
        assert d.names == []
        await d.press("down")
        assert d.app.reader.run_path == other
        assert d.names == ["step_3", "step_2", "step_1"]
        assert len(d.main.run_list.rows) == 2  # the gone one has left the list

    drive(tmp_path, script)


def test_a_new_checkpoint_moves_neither_cursor_nor_line(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("down", "down", "down")
        before, line = d.current, next(i for i, t in enumerate(d.lines) if "│>" in t)
        make_checkpoint(run, "step_1100", step=1100)
        await look(d)
        assert d.names[0] == "step_1100"
        assert d.current == before
        assert next(i for i, t in enumerate(d.lines) if "│>" in t) in (line, line + 1)

    drive(run, script)


def test_marks_of_checkpoints_that_went_away_are_told(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("space", "space", "space")
        shutil.rmtree(run / "step_900")
        await look(d)
        assert "1 marked checkpoint went away" in d.text
        assert len(d.main.marked) == 2

    drive(run, script)


def test_a_run_that_is_away_is_told_until_it_is_back(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await look(d)
        run.rename(tmp_path / "away")
        await look(d)
        assert "! There is no" in d.lines[0]
        assert d.current == "step_1000"
        (tmp_path / "away").rename(run)
        await look(d)
        assert "There is no" not in d.text
        assert "10 checkpoints" in d.lines[0]

    drive(run, script)


def test_ages_go_on_in_the_list_and_in_the_pane(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1])
    created = datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC)
    now = [created + timedelta(minutes=5)]

    async def script() -> None:
        app = Browser(run, Wishes(refresh=False, ascii_only=False), clock=lambda: now[0])
        async with app.run_test(size=(80, 24)) as pilot:
            d = Driver(app, pilot)
            await d.settle()
            assert "5 m" in d.lines[3]
            assert "saved 5 m ago" in d.words
            now[0] += timedelta(minutes=4)
            for _ in range(AGE_TICKS):
                app._tick()
            await d.settle()
            assert "9 m" in d.lines[3]
            assert "saved 9 m ago" in d.words

    asyncio.run(script())


def test_the_star_is_for_the_metric_that_is_shown(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [])
    make_checkpoint(run, "step_1", step=1, metrics={"eval_loss": 1.0, "loss": 5.0})
    make_checkpoint(run, "step_2", step=2, metrics={"eval_loss": 2.0, "loss": 3.0})

    async def script(d: Driver) -> None:
        assert ["*" in line[:7] for line in d.lines[3:5]] == [False, True]
        await d.press("m")
        assert ["*" in line[:7] for line in d.lines[3:5]] == [True, False]

    drive(run, script)


def test_checkpoints_that_come_in_above_the_view_are_told_until_they_are_seen(
    tmp_path: Path,
) -> None:
    run = make_run(tmp_path / "run", range(1, 40))

    async def script(d: Driver) -> None:
        await d.press("end")
        await look(d)
        for step in (40, 41):
            make_checkpoint(run, f"step_{step}", step=step)
        await look(d)
        assert d.current == "step_1"
        assert "41 of 41, 2 new above: step_41" in d.text
        await d.press("home")
        await d.press("down")
        assert "new above" not in d.text

    drive(run, script)
