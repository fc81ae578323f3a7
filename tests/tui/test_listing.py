from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ckptui.checkpoint import Pin, State
from ckptui.metrics import read_metrics
from ckptui.scan import scan_run
from ckptui.tui import listing, series
from ckptui.tui.listing import Look
from ckptui.tui.snapshot import Row, view
from tests.factory import make_checkpoint, make_run
from tests.tui.driver import NOW

if TYPE_CHECKING:
    from pathlib import Path


def look_at(path: Path, metric: str | None = None) -> tuple[tuple[Row, ...], Look]:
    run = scan_run(path)
    curves = series.build(run, read_metrics(path, run.attempts))
    return view(run, NOW).rows, Look(now=NOW, series=curves, metric=metric)


def test_b140_steps_sort_as_numbers(tmp_path: Path) -> None:
    rows, look = look_at(make_run(tmp_path / "run", [30, 270, 9]))
    assert [r.checkpoint.step for r in listing.sort_rows(rows, "step", look, descending=False)] == [
        9,
        30,
        270,
    ]


def test_b140_rows_without_a_value_come_last_either_way(tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "run",
        [1, 2, 3, 4],
        metrics={1: {"eval_loss": 2.0}, 3: {"eval_loss": 1.0}, 4: {"eval_loss": None}},
    )
    rows, look = look_at(run, "eval_loss")
    for descending, steps in ((False, [3, 1, 2, 4]), (True, [1, 3, 4, 2])):
        ordered = listing.sort_rows(rows, "metric", look, descending=descending)
        assert [r.checkpoint.step for r in ordered] == steps


def test_every_order_has_a_key(tmp_path: Path) -> None:
    rows, look = look_at(make_run(tmp_path / "run", [1, 2], metrics={1: {"loss": 1.0}}), "loss")
    for key, _ in listing.SORTS:
        assert len(listing.sort_rows(rows, key, look, descending=True)) == 2


def test_a_value_of_another_step_is_never_borrowed(tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "run",
        [10, 20],
        rows=[
            {"step": 9, "attempt": 1, "loss": 5.0},
            {"step": 20, "attempt": 1, "loss": 4.0},
            {"step": 10, "attempt": 2, "loss": 3.0},
        ],
    )
    rows, look = look_at(run, "loss")
    own = [look.series.at(row.checkpoint, "loss") for row in rows]
    assert own == [(False, None), (True, 4.0)]
    assert listing.metric_text(rows[0], "loss", look.series)[0] == "-"


def test_the_marker_wins_over_the_log(tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "run",
        [10],
        metrics={10: {"loss": 1.0}},
        rows=[{"step": 10, "attempt": 1, "loss": 9.0}],
    )
    rows, look = look_at(run, "loss")
    assert look.series.at(rows[0].checkpoint, "loss") == (True, 1.0)
    assert look.series.curves["loss"] == ((10, 1.0),)


def test_letters_say_what_colour_would(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 2], metrics={1: {"loss": 1.0}, 2: {"loss": 2.0}})
    make_checkpoint(run, "step_3", step=3, marker=False)
    rows, _ = look_at(run)
    assert [listing.flags(row) for row in rows] == ["*", "", "!"]
    pinned = replace(rows[1], checkpoint=replace(rows[1].checkpoint, pin=Pin(name="step_2")))
    assert listing.flags(pinned, marked=True) == "xP"
    writing = replace(rows[1], checkpoint=replace(rows[1].checkpoint, state=State.WRITING))
    assert listing.flags(writing) == "~"
    assert listing.why(writing) == "being written"
    assert "checkpoint.json" in listing.why(rows[2])


def test_a_step_column_appears_where_names_do_not_tell_the_step(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1])
    rows, look = look_at(run)
    assert "step" not in [c.key for c in listing.columns(rows, look)]
    make_checkpoint(run, "epoch_0", step=5)
    rows, look = look_at(run)
    assert "step" in [c.key for c in listing.columns(rows, look)]
    assert "metric" not in [c.key for c in listing.columns(rows, look)]
