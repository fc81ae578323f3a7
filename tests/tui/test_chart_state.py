"""The chart stays with its run and its checkpoint, whatever becomes of them meanwhile."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from ckptui.tui import clipboard
from tests.factory import make_checkpoint, make_run
from tests.tui.driver import Driver, drive, small_run
from tests.tui.test_chart import charted, here, said, screen

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


async def scan(d: Driver) -> None:
    """Everything is read again."""
    d.app.reader.read_all()
    await d.settle()


def pinned(run: Path) -> list[str]:
    """What is pinned in a run."""
    folder = run / ".ckptui" / "pins"
    return sorted(p.stem for p in folder.iterdir()) if folder.exists() else []


# --- the run


def test_the_chart_stays_with_its_run_though_the_list_shows_another(tmp_path: Path) -> None:
    one = small_run(tmp_path / "runs" / "one")
    two = make_run(tmp_path / "runs" / "two", [1, 2, 3], metrics={2: {"acc": 1.0}})

    async def script(d: Driver) -> None:
        d.app.choose_run(one)
        await d.settle()
        await d.press("c", "left")
        d.app.choose_run(two)
        await d.settle()
        listed = d.current
        assert here(d) == "step_900"
        assert d.lines[0].startswith("╭─ one   eval_loss")
        await d.press("left", "p")
        assert here(d) == "step_800"
        assert pinned(one) == ["step_800"]
        assert pinned(two) == []
        assert d.current == listed
        for key in ("space", "d"):
            await d.press(key)
            assert said(d) == "The list behind shows another run now: choose this one there first."
        await d.press("m")
        assert [t.metric for t in screen(d).traces] == ["loss"]
        assert len(screen(d).traces[0].curve) == 1000
        assert d.app.reader.metric == "acc"
        make_checkpoint(one, "step_1100", step=1100)
        with (one / "metrics.jsonl").open("a") as f:
            f.write('{"step": 1001, "attempt": 1, "loss": 1.0}\n')
        await scan(d)
        d.app.reader.read_metrics(changed=[one])
        await d.settle()
        assert screen(d).ticks.steps[-1] == 1100
        assert screen(d).traces[0].curve[-1][0] == 1001

    drive(tmp_path / "runs", script, size=(100, 24))


def test_the_chart_of_a_run_that_went_away_stays_and_no_key_acts(tmp_path: Path) -> None:
    one = small_run(tmp_path / "runs" / "one")
    two = small_run(tmp_path / "runs" / "two")

    async def script(d: Driver) -> None:
        d.app.choose_run(one)
        await d.settle()
        await d.press("c", "left")
        one.rename(tmp_path / "one")
        await scan(d)
        assert said(d) == "one is gone: removed or renamed elsewhere."
        assert d.lines[0].startswith("╭─ one (gone)   eval_loss   min 2 at step 1000")
        assert "GONE" in d.text
        for key in ("p", "n", "r", "d", "V", "space", "enter", "y"):
            await d.press(key)
            assert "gone: " in said(d)
        await d.press("left", "p")
        assert said(d) == "step_800 is gone: its run was removed or renamed elsewhere."
        assert pinned(two) == []
        (tmp_path / "one").rename(one)
        await scan(d)
        assert said(d) == "one is there again."
        assert here(d) == "step_800"
        await d.press("p")
        assert pinned(one) == ["step_800"]

    drive(tmp_path / "runs", script, size=(100, 24))


# --- the checkpoint


def rewound(path: Path) -> Path:
    """Saved up to step 300, resumed from step 100, saved again at step 150."""
    first = {"attempt": 1, "parent": None, "start_step": 0, "started": "2026-01-01T00:00:00Z"}
    parent = {"run_id": "0123456789abcdef0123456789abcdef", "step": 100, "attempt": 1}
    second = {
        "attempt": 2,
        "parent": {**parent, "name": "step_100"},
        "start_step": 100,
        "started": "2026-01-01T01:00:00Z",
    }
    values = {step: {"eval_loss": 3 - step / 1000} for step in (100, 200, 300)}
    run = make_run(path, [100, 200, 300], metrics=values, attempts=[first, second])
    make_checkpoint(run, "step_150", step=150, attempt=2, metrics={"eval_loss": 2.0})
    return run


def test_the_chart_of_an_abandoned_checkpoint_begins_at_that_one(tmp_path: Path) -> None:
    run = rewound(tmp_path / "run")

    async def script(d: Driver) -> None:
        assert d.current == "step_300"
        await d.press("c")
        assert here(d) == "step_300"
        assert said(d) == "step_300 is of an abandoned branch, not of this curve."
        assert "step_300   eval_loss 2.7" in d.text
        assert "step 300   of an abandoned branch" in d.text
        await d.press("p")
        assert pinned(run) == ["step_300"]
        assert here(d) == "step_300"
        await d.press("t")
        assert "> 300       2.7 - step_300" in d.text
        await d.press("t", "left")
        assert here(d) == d.current == "step_150"
        assert said(d) == ""
        await d.press("right")
        assert here(d) == "step_150"

    drive(run, script)


def test_a_checkpoint_without_a_step_has_no_place_and_no_key_takes_another(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 2])
    make_checkpoint(run, "epoch_1", step=None)

    async def script(d: Driver) -> None:
        d.main.select(run / "epoch_1")
        await d.settle()
        assert d.current == "epoch_1"
        await d.press("c")
        assert screen(d).current is None
        words = "epoch_1 has no step: it has no place here; [ and ] go to those that have one."
        assert said(d) == words
        await d.press("p")
        assert said(d) == "No checkpoint here."
        await scan(d)
        assert screen(d).current is None
        await d.press("left")
        assert here(d) == d.current == "step_2"
        assert said(d) == ""
        assert pinned(run) == []

    drive(run, script, size=(100, 24))


def test_another_checkpoint_of_the_same_name_is_told(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("c", "left")
        shutil.rmtree(run / "step_900")
        created = "2026-01-01T11:00:00.000000Z"
        make_checkpoint(run, "step_900", step=900, created=created, metrics={"eval_loss": 7.0})
        await scan(d)
        assert said(d) == "step_900 was replaced: another checkpoint has its name now."
        assert "step_900   eval_loss 7" in d.text

    drive(run, script)


# --- its values


def test_of_many_values_those_without_room_are_left_out_whole(tmp_path: Path) -> None:
    values = {f"metric_{i}": 1.25 for i in range(8)}
    run = make_run(tmp_path / "run", [1, 2], metrics={1: values, 2: values})

    async def script(d: Driver) -> None:
        await d.press("c", "M", "a", "enter")
        line = next(line for line in d.lines if "step_2   a 1.25" in line)
        assert line.strip("│ ").endswith("   d 1.25 …")

    drive(run, script, size=(52, 24))


def test_a_value_that_may_be_another_attempts_is_told_as_such(tmp_path: Path) -> None:
    logged = [{"step": s, "attempt": 1, "loss": s / 10, "lr": 0.5} for s in range(1, 4)]
    run = make_run(tmp_path / "run", [1, 2, 3], rows=logged)
    (run / "step_3" / "checkpoint.json").write_text("{")
    words = "logged at this step, not known to be its own"

    async def script(d: Driver) -> None:
        assert d.current == "step_3"
        assert f"step_3: 0.3 {words}" in d.text
        await d.press("c")
        assert f"! step_3   loss 0.3 {words}" in d.text
        await d.press("left")
        assert "step_2   loss 0.2" in d.text
        assert words not in d.text
        await d.press("right", "M", "a", "enter")
        assert "! step_3   a 0.3 (perhaps its own)   b 0.5 (perhaps its own)" in d.text

    drive(run, script, size=(160, 45))


def test_what_is_gone_is_no_longer_the_best(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("c")
        assert "step_1000   eval_loss 2 best" in d.text
        shutil.rmtree(run / "step_1000")
        await scan(d)
        assert "! step_1000   eval_loss 2   " in d.text
        await d.press("b")
        assert here(d) == "step_900"
        assert said(d) == "step_900 is the best by eval_loss."

    drive(run, script)


def test_a_gone_step_leaves_the_table_with_the_cursor_and_keeps_its_value(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("down", "c", "t")
        shutil.rmtree(run / "step_900")
        await scan(d)
        assert "> 900       2.1 ! step_900" in d.text
        await d.press("up")
        assert here(d) == d.current == "step_1000"
        assert said(d) == ""
        assert "900" not in d.text
        await d.press("down")
        assert here(d) == d.current == "step_800"

    drive(run, script)


def test_the_dip_is_told_right_though_the_cursor_leaves_what_is_gone(tmp_path: Path) -> None:
    run = charted(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("c", "m", "home")
        shutil.rmtree(run / "step_100")
        await scan(d)
        await d.press("D")
        assert said(d) == "loss is lowest at step 470, 30 steps from step_500: 1"

    drive(run, script)


def test_each_run_id_has_a_best_one_and_b_goes_to_that_of_its_own(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    for step in (350, 450):
        metrics = {"eval_loss": step / 100}
        make_checkpoint(run, f"step_{step}", step=step, run_id="f" * 32, metrics=metrics)

    async def script(d: Driver) -> None:
        d.main.select(run / "step_450")
        await d.settle()
        await d.press("c", "b")
        assert here(d) == d.current == "step_350"
        words = "is the best by eval_loss of its run id, one of 2 in this folder."
        assert said(d) == f"step_350 {words}"
        await d.press("b")
        assert here(d) == "step_350"
        await d.press("left", "b")
        assert here(d) == "step_1000"
        assert said(d) == f"step_1000 {words}"

    drive(run, script, size=(100, 24))


def test_the_command_names_every_run_and_only_what_its_log_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clipboard, "through_tmux", lambda _: False)
    one = small_run(tmp_path / "runs" / "one")
    two = charted(tmp_path / "runs" / "two")
    make_run(tmp_path / "runs" / "without", [1])

    async def script(d: Driver) -> None:
        d.app.choose_run(one)
        await d.settle()
        await d.press("c", "R", "a", "enter", "y")
        # The markers of the first alone hold its eval_loss, and the third has none at all.
        other = f"ckptui metrics {two} --metric=eval_loss --json"
        assert d.app.clipboard == f"ckptui ls {one} --json; {other}"
        await d.press("m", "y")
        first = f"ckptui metrics {one} --metric=loss --json"
        assert d.app.clipboard == f"{first}; {other.replace('eval_loss', 'loss')}"

    drive(tmp_path / "runs", script)
