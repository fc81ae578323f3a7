"""The chart: what is drawn of which runs and metrics, where the cursor goes, what the keys do."""

from __future__ import annotations

import json
import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest

from ckptui.columns import Curve
from ckptui.display import picture
from ckptui.display.picture import Trace
from ckptui.display.plot import Domain
from ckptui.tui import clipboard, keys
from ckptui.tui.chart_keys import CHART
from ckptui.tui.plotted import Window
from ckptui.tui.screens.chart import ChartScreen
from ckptui.tui.screens.chart_actions import ACTIONS
from ckptui.tui.screens.detail import DetailScreen
from ckptui.tui.screens.dialogs import InputDialog, MultiMenuDialog
from ckptui.tui.screens.prune import PruneScreen
from ckptui.tui.screens.resume import ResumeDialog
from ckptui.tui.screens.verify import VerifyScreen
from ckptui.tui.ticks import Ticks, step_labels
from ckptui.tui.widgets.chart import Chart
from tests.factory import make_checkpoint, make_run
from tests.tui.driver import SIZES, Driver, drive

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def rows(steps: Iterable[int], shift: float = 0.0) -> list[dict[str, Any]]:
    """A loss that is lowest at step 470, an eval loss every tenth step, a learning rate."""
    found = []
    for s in steps:
        row = {"step": s, "attempt": 1, "loss": shift + 1 + abs(s - 470) / 100, "lr": 1e-4 / s}
        if s % 10 == 0:
            row["eval_loss"] = shift + 1 + abs(s - 300) / 100
        found.append(row)
    return found


def charted(path: Path, *, shift: float = 0.0) -> Path:
    """Checkpoints each hundred steps up to 1000; the best by eval_loss is at step 300."""
    return make_run(
        path,
        range(100, 1100, 100),
        metrics={s: {"eval_loss": shift + 1 + abs(s - 300) / 100} for s in range(100, 1100, 100)},
        policy=["keep-last 2", "keep-best 1:eval_loss:min"],
        rows=rows(range(1, 1001), shift),
    )


def screen(d: Driver) -> ChartScreen:
    assert isinstance(d.app.screen, ChartScreen)
    return d.app.screen


def here(d: Driver) -> str:
    """The checkpoint under the chart's cursor."""
    row = screen(d).current
    assert row is not None
    return row.checkpoint.name


def said(d: Driver) -> str:
    """The line of words at the bottom."""
    return d.lines[-2].strip()


# --- the cursor


def test_the_cursor_goes_from_checkpoint_to_checkpoint_in_the_list_too(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        await d.press("c")
        assert here(d) == "step_1000"
        for pressed, name in [
            ("left", "step_900"),
            ("[", "step_800"),
            ("]", "step_900"),
            ("right", "step_1000"),
            ("home", "step_100"),
            ("left", "step_100"),
            ("end", "step_1000"),
            ("h", "step_900"),
            ("g", "step_100"),
        ]:
            await d.press(
                {"[": "left_square_bracket", "]": "right_square_bracket"}.get(pressed, pressed)
            )
            assert here(d) == d.current == name

    drive(charted(tmp_path / "run"), script)


def test_b_goes_to_the_best_and_says_by_what(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        await d.press("c", "b")
        assert here(d) == d.current == "step_300"
        assert said(d) == "step_300 is the best by eval_loss."
        await d.press("m", "m", "b")
        assert "No checkpoint is the best by lr" in said(d)

    drive(charted(tmp_path / "run"), script)


def test_the_dip_is_the_curves_lowest_point_and_it_can_be_pinned(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        await d.press("c", "m", "D")
        assert here(d) == "step_500"
        assert said(d) == "loss is lowest at step 470, 30 steps from step_500: 1"
        await d.press("p")
        row = d.main.current
        assert row is not None
        assert row.checkpoint.name == "step_500"
        assert row.checkpoint.pinned

    drive(charted(tmp_path / "run"), script)


def test_the_cursor_stays_on_its_checkpoint_while_the_run_goes_on(tmp_path: Path) -> None:
    run = charted(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("c", "m", "left", "left")
        assert here(d) == "step_800"
        with (run / "metrics.jsonl").open("a") as f:
            f.writelines(json.dumps(row) + "\n" for row in rows(range(1001, 1200)))
        make_checkpoint(run, "step_1100", step=1100)
        d.app.reader.read_all()
        await d.settle()
        assert here(d) == "step_800"
        assert screen(d).traces[0].curve[-1][0] == 1199
        assert screen(d).ticks.steps[-1] == 1100
        shutil.rmtree(run / "step_800")
        d.app.reader.read_all()
        await d.settle()
        assert here(d) in {"step_700", "step_900", "step_800"}
        await d.press("right", "left")
        assert here(d) in {"step_700", "step_900", "step_800"}

    drive(run, script)


def test_a_click_puts_the_cursor_on_the_nearest_checkpoint(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        await d.press("c")
        await d.pilot.click("#large-chart", offset=(40, 6))
        await d.settle()
        assert here(d) == d.current == "step_500"

    drive(charted(tmp_path / "run"), script)


# --- what is drawn


def test_several_metrics_are_chosen_from_a_menu_and_m_shows_one_again(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        await d.press("c", "M")
        assert isinstance(d.app.screen, MultiMenuDialog)
        await d.press("down", "space", "down", "space", "enter")
        assert [t.metric for t in screen(d).traces] == ["eval_loss", "loss", "lr"]
        assert "a eval_loss (left)   b loss (left)   c lr (right)" in d.text
        assert "step_1000   a 8   b 6.3   c 1e-07" in d.text
        await d.press("m")
        assert [t.metric for t in screen(d).traces] == ["loss"]
        assert "Metric: loss (2 of 3)" in d.text

    drive(charted(tmp_path / "run"), script)


def test_other_runs_are_laid_over_and_read_in_the_background(tmp_path: Path) -> None:
    charted(tmp_path / "runs" / "one")
    charted(tmp_path / "runs" / "two", shift=0.5)

    async def script(d: Driver) -> None:
        d.app.choose_run(tmp_path / "runs" / "one")
        await d.settle()
        await d.press("c", "R")
        assert isinstance(d.app.screen, MultiMenuDialog)
        await d.press("space", "enter")
        assert "a one   b two" in d.text
        assert [t.curve.at(300)[1] for t in screen(d).traces] == [1.0, 1.5]
        await d.press("b")
        assert "step_300   a 1 best   b 1.5" in d.text
        await d.press("R", "space", "enter")
        assert len(screen(d).traces) == 1
        await d.press("escape")
        assert not d.app.reader.also

    drive(tmp_path / "runs", script)


def test_smoothing_goes_by_steps_and_is_said(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        await d.press("c", "m", "plus")
        assert screen(d).smoothing.weight == 0.6
        smooth = screen(d).traces[0].smooth
        assert smooth is not None
        assert len(smooth) == len(screen(d).traces[0].curve) == 1000
        assert "smoothed 0.6" in d.text
        assert "loss 6.3 (smoothed 6.285)" in d.text
        await d.press("plus", "plus", "plus")
        assert screen(d).smoothing.weight == 0.99
        await d.press("minus", "minus", "minus", "minus")
        assert screen(d).smoothing.weight == 0
        assert screen(d).traces[0].smooth is None
        assert "As logged." in d.text

    drive(charted(tmp_path / "run"), script)


def test_a_smoothed_curve_goes_on_with_the_run(tmp_path: Path) -> None:
    run = charted(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("c", "m", "plus")
        with (run / "metrics.jsonl").open("a") as f:
            f.writelines(json.dumps(row) + "\n" for row in rows(range(1001, 1200)))
        d.app.reader.read_all()
        await d.settle()
        d.app.reader.read_metrics(changed=[run])
        await d.settle()
        smooth = screen(d).traces[0].smooth
        assert smooth is not None
        assert len(smooth) == 1199

    drive(run, script)


def test_zooming_keeps_the_cursor_in_sight(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        await d.press("c", "b", "up", "up")
        steps = screen(d).window.steps
        assert steps is not None
        first, last = steps
        assert first <= 300 <= last
        assert last - first == 990 // 2 // 2
        assert f"steps {first} to {last}, 0 shows all" in d.text
        await d.press("end")
        steps = screen(d).window.steps
        assert steps is not None
        assert steps[0] <= 1000 <= steps[1]
        await d.press("down", "down")
        assert screen(d).window.steps is None
        await d.press("k", "0")
        assert screen(d).window.steps is None

    drive(charted(tmp_path / "run"), script)


def test_a_window_never_leaves_what_there_is() -> None:
    window = Window()
    for _ in range(20):
        window.zoom((0, 1000), 990, closer=True)
        assert window.steps is not None
        assert 0 <= window.steps[0] <= 990 <= window.steps[1] <= 1000
    assert window.steps is not None
    assert window.steps[1] - window.steps[0] == 8
    window.follow((0, 1000), 3)
    assert window.steps == (0, 8)
    window = Window()
    window.zoom((5, 9), 7, closer=True)
    assert window.steps is None


def test_scales_are_said_and_switched(tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "run",
        [50],
        rows=[
            {"step": s, "attempt": 1, "loss": 0 if s == 7 else "NaN" if s == 9 else s}
            for s in range(1, 301)
        ],
    )

    async def script(d: Driver) -> None:
        await d.press("c")
        assert "? not finite: 1" in d.text
        await d.press("L")
        assert "loss (log)" in d.lines[0]
        assert "? not above 0, so not on a log scale: 1" in d.text
        await d.press("L", "o")
        assert "without 1 % at each end" in d.text
        assert "^ v go on beyond the edges" in d.text
        await d.press("o", "a")
        assert "one axis" in d.text
        await d.press("a")
        assert "an axis for each" in d.text

    drive(run, script)


def test_nothing_is_drawn_anew_where_nothing_changed(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        await d.press("c")
        chart, drawn = screen(d).chart, []
        chart.refresh = lambda *regions, **_: drawn.append(regions)  # type: ignore[method-assign,assignment] # counts
        screen(d).draw()
        assert drawn == []
        await d.press("home")
        # The cursor's old and new place in every line of the curve, and words below it.
        regions = [region for call in drawn for region in call]
        assert len({region.y for region in regions}) >= 15
        assert all(region.height == 1 for region in regions)
        assert sum(region.width for region in regions if region.y < 15) == 2 * 15

    drive(charted(tmp_path / "run"), script)


@pytest.mark.parametrize("size", [*SIZES, (40, 10)])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_the_chart_fits_every_window(
    tmp_path: Path, size: tuple[int, int], ascii_only: bool
) -> None:
    async def script(d: Driver) -> None:
        if ascii_only:
            d.app.ascii_only = True
            d.app.add_class("-ascii")
        await d.press("c", "M", "down", "space", "enter", "plus")
        assert [len(line) for line in d.lines] == [size[0]] * size[1]
        chart = screen(d).chart
        assert len(chart._strips) == chart.size.height
        assert "eval_loss" in d.lines[0]
        assert "step_1000" in d.text
        if ascii_only:
            assert d.text.isascii()

    drive(charted(tmp_path / "run"), script, size=size)


def test_steps_below_the_curve_are_round_and_apart() -> None:
    assert step_labels(Domain(1, 42_500, 60)).split() == ["10k", "20k", "30k", "40k"]
    assert step_labels(Domain(7, 7, 30)).split() == ["7"]
    assert step_labels(Domain(999_990, 1_000_000, 40)).split() == ["999990", "999995", "1000000"]
    for width in range(1, 90):
        assert len(step_labels(Domain(0, 300, width))) == width


# --- acting


@pytest.mark.parametrize(
    ("key", "opens"),
    [
        ("n", InputDialog),
        ("r", ResumeDialog),
        ("d", PruneScreen),
        ("V", VerifyScreen),
        ("enter", DetailScreen),
    ],
)
def test_keys_act_on_the_checkpoint_under_the_cursor(
    tmp_path: Path, key: str, opens: type[object]
) -> None:
    async def script(d: Driver) -> None:
        await d.press("space", "c", "left", "left", "left", key)
        assert isinstance(d.app.screen, opens)
        assert "step_600" in d.text

    drive(charted(tmp_path / "run"), script)


def test_space_marks_in_the_list(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        await d.press("c", "left", "space")
        assert said(d) == "Marked step_900: 1 marked."
        assert [key.rpartition("/")[2] for key in d.main.marked] == ["step_900"]
        assert "marked" in d.lines[-4]
        await d.press("space")
        assert not d.main.marked

    drive(charted(tmp_path / "run"), script)


def test_the_command_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clipboard, "through_tmux", lambda _: False)
    run = charted(tmp_path / "a run")

    async def script(d: Driver) -> None:
        await d.press("c", "m", "y")
        assert d.app.clipboard == f"ckptui metrics '{run}' --metric=loss --json"

    drive(run, script)


def test_without_metrics_every_key_says_so(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        await d.press("c")
        assert "no metrics were logged in this run" in d.text
        for key in ("b", "D", "plus", "L", "t", "M", "m", "o", "y"):
            await d.press(key)
            assert said(d) == "No metrics in this run."
        assert not screen(d).tabled

    drive(make_run(tmp_path / "run", [1, 2]), script)


def test_a_run_without_checkpoints_has_a_curve(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        await d.press("c", "left", "end", "up", "D")
        assert said(d) == "There is no checkpoint to go to."
        await d.press("p")
        assert said(d) == "No checkpoint here."
        assert len(screen(d).traces[0].curve) == 5

    drive(make_run(tmp_path / "run", rows=rows(range(1, 51))), script)


# --- the numbers


def test_the_table_has_every_step_and_the_same_cursor(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        await d.press("c", "M", "down", "space", "enter", "b", "t")
        numbers = screen(d).numbers
        assert numbers.current == 300
        assert here(d) == "step_300"
        assert len(numbers.rows) == 1000
        assert "t curves" in d.lines[-1]
        assert "L log" not in d.lines[-1]
        await d.press("L")
        assert said(d) == "That is for the curves; t shows them."
        assert not screen(d).shown.log
        assert "* step_300" in d.text
        await d.press("up")
        assert numbers.current == 301
        assert screen(d).current is None
        await d.press("p")
        assert "No checkpoint was saved at this step" in said(d)
        await d.press("right_square_bracket")
        assert here(d) == d.current == "step_400"
        await d.press("down", "left_square_bracket")
        assert here(d) == "step_300"
        await d.press("home")
        assert here(d) == "step_1000"
        await d.press("enter")
        assert isinstance(d.app.screen, DetailScreen)
        await d.press("escape", "t")
        assert not screen(d).tabled
        assert "L log" in d.lines[-1]
        await d.press("left")
        assert here(d) == "step_900"

    drive(charted(tmp_path / "run"), script)


def test_a_long_table_shows_the_newest_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ckptui.tui.widgets.numbers.MOST", 100)

    async def script(d: Driver) -> None:
        await d.press("c", "m", "t")
        assert "newest 100 of 1000: zoom the curves for others" in d.text
        assert screen(d).numbers.rows == tuple(range(1000, 900, -1))

    drive(charted(tmp_path / "run"), script)


# --- the keys


def test_every_key_of_the_chart_has_a_deed_and_no_key_has_two() -> None:
    assert {key.act for key in CHART} == set(ACTIONS)
    pressed = [k for key in CHART for k in key.key.split(",")]
    assert len(pressed) == len(set(pressed))
    on_browse = {key.act: key for key in keys.BROWSE}
    for key in CHART:
        if key.act in on_browse:
            assert (key.key, key.shown, key.changes) == (
                on_browse[key.act].key,
                on_browse[key.act].shown,
                on_browse[key.act].changes,
            )


def test_help_is_there(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        await d.press("c", "question_mark")
        assert not isinstance(d.app.screen, ChartScreen)
        await d.press("escape", "c")
        assert d.app.screen is d.main

    drive(charted(tmp_path / "run"), script)


# --- many


def test_twenty_thousand_checkpoints_are_drawn_in_a_moment(tmp_path: Path) -> None:
    ticks = Ticks([(f"/run/step_{s}", s, "P" if s == 777 else "|") for s in range(20_000)])
    curve = Curve.of((s, float(s % 97)) for s in range(100_000))
    seconds = []

    async def script(d: Driver) -> None:
        await d.press("c")
        chart = d.app.screen.query_one(Chart)
        for i in range(5):
            traces = [Trace(label=f"loss {i}", metric="loss", curve=curve)]
            begun = time.process_time()
            chart.show(traces, ticks)
            chart.set_cursor(f"/run/step_{i}")
            seconds.append(time.process_time() - begun)
        assert "P" in d.text

    drive(charted(tmp_path / "run"), script)
    # Measured: 7 ms; the bound allows for slow machines.
    assert min(seconds) < 0.05


# --- what is gone, what is not drawn, what the signs say


@pytest.mark.parametrize("size", SIZES)
def test_no_key_acts_on_a_neighbour_of_what_is_gone(tmp_path: Path, size: tuple[int, int]) -> None:
    run = charted(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("c", "left", "left")
        assert here(d) == "step_800"
        shutil.rmtree(run / "step_800")
        d.app.reader.read_all()
        await d.settle()
        assert here(d) == "step_800"
        assert "step_800 is gone" in d.text
        for key in ("p", "n", "r", "d", "V", "space", "enter"):
            await d.press(key)
            assert said(d) == "step_800 is gone: removed elsewhere."
            assert d.app.screen is screen(d)
        assert not any(row.checkpoint.pinned for row in screen(d).ticks.rows)
        d.app.reader.read_all()
        await d.settle()
        assert here(d) == "step_800"
        await d.press("right")
        assert here(d) == d.current == "step_900"
        assert "gone" not in said(d)
        await d.press("left")
        assert here(d) == "step_700"
        await d.press("p")
        assert screen(d).current is not None
        assert [r.checkpoint.name for r in screen(d).ticks.rows if r.checkpoint.pinned] == [
            "step_700"
        ]

    drive(run, script, size=size)


def test_what_was_pinned_here_stands_first_among_the_facts(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        await d.press("c", "home", "n", *"early", "enter")
        assert "step 100   pin: early" in d.text
        await d.press("b", "p")
        assert "step 300   pinned" in d.text
        assert ", pinned" not in d.text
        assert "*P" in next(line for line in d.lines if "└" in line or "╰" in line or "*P" in line)

    drive(charted(tmp_path / "run"), script)


def test_the_cursor_is_no_frame_and_its_sign_leads_the_words(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        await d.press("c")
        column = max(line.rfind("┃") for line in d.lines)
        assert sum(line.find("┃") == column > 0 for line in d.lines) > 5
        assert "^ step_1000   eval_loss" in d.text
        await d.press("b")
        assert "* step_300   eval_loss" in d.text

    drive(charted(tmp_path / "run"), script)


def test_a_flat_tail_says_which_keys_show_more(tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "run",
        range(100, 1100, 100),
        rows=[
            {"step": s, "attempt": 1, "loss": 600.0 if s < 5 else 1 + s % 10 / 10}
            for s in range(1, 1001)
        ],
    )

    async def script(d: Driver) -> None:
        await d.press("c")
        assert "flat from step 5 on: L or o shows more" in d.text
        await d.press("o")
        assert "flat from" not in d.text

    drive(run, script)


def test_steps_that_no_curve_can_hold_are_counted(tmp_path: Path) -> None:
    steps = [1, 2, 2**63, 10**30]
    run = make_run(tmp_path / "run", steps, metrics={s: {"loss": 1.0} for s in steps})

    async def script(d: Driver) -> None:
        await d.press("c")
        assert "2 not drawn: step too large" in d.text

    drive(run, script)


@pytest.mark.parametrize(
    ("width", "words"),
    [
        (80, ("D dip", "p pin", "n note", "m metric", "esc back")),
        (60, ("D dip", "p pin", "n note")),
    ],
)
def test_the_keys_used_most_are_in_the_bar(
    tmp_path: Path, width: int, words: tuple[str, ...]
) -> None:
    async def script(d: Driver) -> None:
        await d.press("c")
        for word in ("[ ] move", *words):
            assert word in d.lines[-1]

    drive(charted(tmp_path / "run"), script, size=(width, 24))


def test_a_flat_tail_is_what_takes_little_of_the_height() -> None:
    def better(values: Iterable[float]) -> tuple[str, ...]:
        found = list(values)
        curve = Curve.of(list(enumerate(found)))
        trace = Trace(label="x", metric="x", curve=curve)
        return picture.seen_better(trace, 0, len(found) - 1)

    assert better(100 / (i + 1) for i in range(1000)) == ("log",)
    assert better(1 + i % 7 for i in range(1000)) == ()
    assert better(-1.0 if i else 1000.0 for i in range(100)) == ()
    assert better([]) == better([1.0]) == ()


def test_where_a_curve_gets_flat_is_where_the_rest_takes_a_tenth_of_the_height() -> None:
    curve = Curve.of((s, 1000 / s) for s in range(1, 2001))
    trace = Trace(label="x", metric="x", curve=curve)
    # From there on it takes less than a tenth of what there is from 1000 down to 0.5.
    assert picture.flat_from(trace, 1, 2000) == 10
    assert picture.flat_from(trace, 100, 2000) == 690


@pytest.mark.parametrize("size", [(40, 10), (44, 11), (60, 20)])
def test_steps_without_a_round_number_among_them_have_labels(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    run = make_run(tmp_path / "run", [1, 152], rows=rows(range(1, 153)))

    async def script(d: Driver) -> None:
        await d.press("c")
        assert screen(d).chart.is_mounted

    drive(run, script, size=size)
    for last in range(2, 400):
        for width in (8, 20, 33):
            assert len(step_labels(Domain(1, last, width))) == width


def test_the_star_is_for_the_metric_that_is_drawn(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        await d.press("c", "b", "right")
        axis = next(line for line in d.lines if "└" in line)
        assert "*" in axis
        await d.press("m")
        axis = next(line for line in d.lines if "└" in line)
        assert "*" not in axis
        assert screen(d).traces[0].metric == "loss"

    drive(charted(tmp_path / "run"), script)
