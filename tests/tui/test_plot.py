from __future__ import annotations

import math
import random
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckptui.columns import Column, Curve
from ckptui.display.picture import Trace, axes, compose, left_out, legend
from ckptui.display.plot import Domain, Point, domain, draw, shape, spark
from ckptui.display.scales import Scale, limits, round_numbers, spelled
from ckptui.display.smoothing import Smoother

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ckptui.display.picture import Picture


def test_every_line_is_as_wide_as_the_domain() -> None:
    points: list[Point] = [(step, math.sin(step / 9)) for step in range(500)]
    for ascii_only in (False, True):
        plot = draw(points, domain(points, [], 61), 7, ascii_only=ascii_only)
        assert [len(line) for line in plot.lines] == [61] * 7


def test_a_single_spike_among_many_points_is_drawn() -> None:
    points: list[Point] = [(step, 100.0 if step == 7777 else 1.0) for step in range(20_000)]
    for ascii_only in (False, True):
        over = domain(points, [], 40)
        plot = draw(points, over, 6, ascii_only=ascii_only)
        x = over.column(7777)
        assert plot.lines[0][x] != " "
        assert (plot.low, plot.high) == (1.0, 100.0)


@given(
    st.lists(st.integers(0, 10**6), min_size=1, max_size=40, unique=True),
    st.integers(1, 90),
    st.booleans(),
)
def test_a_curve_stands_above_its_steps_own_cell(
    steps: list[int], width: int, ascii_only: bool
) -> None:
    steps.sort()
    over = domain([], steps, width)
    for step in steps:
        assert [i for i, s in enumerate(over.beginnings(2 * width)) if s <= step][
            -1
        ] == over.position(step, 2 * width)
        plot = draw([(step, 1.0)], over, 1, ascii_only=ascii_only)
        assert [x for x, cell in enumerate(plot.lines[0]) if cell != " "] == [over.column(step)]


def test_a_value_that_is_not_finite_breaks_the_curve_and_is_marked() -> None:
    points: list[Point] = [(0, 1.0), (10, 1.0), (50, None), (90, 1.0), (100, 1.0)]
    over = domain(points, [], 51)
    plot = draw(points, over, 3)
    assert plot.gaps == {over.column(50)}
    assert all(line[over.column(50)] == " " for line in plot.lines)
    assert any(line[over.column(95)] != " " for line in plot.lines)


def test_infinity_and_nan_count_as_gaps() -> None:
    plot = draw([(0, 1.0), (1, math.inf), (2, math.nan), (3, 2.0)], Domain(0, 3, 4), 2)
    assert (plot.low, plot.high) == (1.0, 2.0)
    assert plot.gaps == {1, 2}


def test_nothing_finite_draws_nothing() -> None:
    plot = draw([(0, None), (1, None)], Domain(0, 1, 8), 3)
    assert plot.lines == (" " * 8,) * 3
    assert plot.low is None
    assert draw([], domain([], [], 8), 2).lines == (" " * 8,) * 2


def test_values_at_the_edge_of_floats_do_not_overflow() -> None:
    plot = draw([(0, 1.7e308), (1, -1.7e308)], Domain(0, 1, 6), 4)
    assert plot.high == 1.7e308
    assert len(spark([1.7e308, -1.7e308, 1.7e308], 3)) == 3


def test_a_logarithmic_scale_leaves_out_what_has_no_logarithm() -> None:
    plot = draw([(0, 1.0), (1, 0.0), (2, 100.0)], Domain(0, 2, 6), 3, log=True)
    assert (plot.low, plot.high) == pytest.approx((1.0, 100.0))
    assert plot.gaps


def test_ascii_stays_ascii() -> None:
    points: list[Point] = [(step, step**0.5) for step in range(100)]
    plot = draw(points, domain(points, [], 30), 8, ascii_only=True)
    assert "".join(plot.lines).isascii()
    assert spark([1.0, 2.0, 3.0], 3, ascii_only=True).isascii()


def test_a_constant_curve_is_a_line() -> None:
    plot = draw([(0, 2.0), (9, 2.0)], Domain(0, 9, 10), 5)
    assert sum(1 for line in plot.lines if line.strip()) == 1


def test_the_domain_holds_checkpoints_beyond_the_log() -> None:
    over = domain([(10, 1.0), (20, 1.0)], [5, 40], 36)
    assert (over.first, over.last) == (5, 40)
    assert over.column(5) == 0
    assert over.column(40) == 35


def test_a_part_of_the_steps_is_drawn_to_its_edges() -> None:
    points: list[Point] = [(0, 0.0), (50, 0.5), (100, 1.0)]
    for curve in (Curve.of(points), Curve.of(points[::2])):
        drawn = shape(curve, Domain(40, 60, 10), Scale(0.0, 1.0), 40, fine=True)
        assert None not in drawn.spans
        rows = [span[0] for span in drawn.spans if span is not None]
        assert rows == sorted(rows, reverse=True)
    found = axes([Trace(label="loss", metric="loss", curve=curve)], 40, 60)
    assert found.left == Scale(0.0, 1.0)


def test_a_spark_shows_gaps_as_spaces() -> None:
    assert spark([1.0, None, 3.0], 3)[1] == " "
    assert spark([], 5) == ""
    assert spark([None, None], 2) == "  "


def test_a_hundred_thousand_points_are_drawn_in_a_moment() -> None:
    source = random.Random(0)
    curve = Curve.of((s, source.random()) for s in range(100_000))
    over = domain(curve, [], 100)
    times = []
    for _ in range(5):
        begun = time.process_time()
        draw(curve, over, 24)
        times.append(time.process_time() - begun)
    # Measured: 2.5 ms; the bound allows for slow machines.
    assert min(times) < 0.02


# --- axes


@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.integers(1, 40),
)
@settings(deadline=None)
def test_labels_say_what_stands_at_their_row(one: float, two: float, log: bool, rows: int) -> None:
    low, high = sorted((abs(one) + 5e-324, abs(two) + 5e-324)) if log else sorted((one, two))
    scale = Scale(low, high, log=log)
    labels = scale.labels(rows)
    assert labels
    assert all(0 <= row < rows and 0 < len(text) <= 9 for row, text in labels.items())
    texts = [labels[row] for row in sorted(labels)]
    if 0.01 < high - low < 1e6 and not log and max(abs(low), abs(high)) < 1e6:
        said = [float(t.rstrip("kM")) for t in texts if t[-1] not in "kM"]
        assert said == sorted(said, reverse=True)
        assert len(set(texts)) == len(texts)


@pytest.mark.parametrize(
    ("low", "high", "texts"),
    [
        (0, 300, ["0", "50", "100", "150", "200", "250", "300"]),
        (0, 42_500, ["0", "10k", "20k", "30k", "40k"]),
        (0, 1.2e6, ["0", "0.2M", "0.4M", "0.6M", "0.8M", "1.0M", "1.2M"]),
        (100_000, 100_040, ["100000", "100010", "100020", "100030", "100040"]),
        (0.0005, 0.003, ["0.0005", "0.0010", "0.0015", "0.0020", "0.0025", "0.0030"]),
        (1e-6, 5e-6, ["1e-6", "2e-6", "3e-6", "4e-6", "5e-6"]),
        (2, 2, ["2"]),
    ],
)
def test_numbers_are_round_and_short(low: float, high: float, texts: list[str]) -> None:
    assert spelled(round_numbers(low, high, 7)) == texts


def test_decades_label_a_logarithmic_axis() -> None:
    assert list(Scale(0.001, 20.0, log=True).labels(24).values()) == [
        "0.001",
        "0.01",
        "0.1",
        "1",
        "10",
    ]


def test_limits_without_outliers_leave_a_percent_out_at_each_end() -> None:
    curve = Curve.of((s, 1000.0 if s == 500 else s / 1000) for s in range(1000))
    whole = (curve, 0, len(curve))
    assert limits([whole]) == (0.0, 1000.0)
    found = limits([whole], robust=True)
    assert found is not None
    assert found == pytest.approx((0.01, 0.99), abs=0.01)
    assert limits([(Curve.of([(0, 5.0), (1, 9.0)]), 0, 2)], robust=True) == (5.0, 9.0)
    assert limits([(Curve.of([(0, -1.0)]), 0, 1)], log=True) is None


# --- several curves


def trace(name: str, values: Callable[[int], float | None], *, label: str = "") -> Trace:
    curve = Curve.of((s, values(s)) for s in range(0, 1000))
    return Trace(label=label or name, metric=name, curve=curve)


def picture(traces: Sequence[Trace], *, ascii_only: bool = False, robust: bool = False) -> Picture:
    on = axes(traces, 0, 999, robust=robust)
    over = Domain(0, 999, 60)
    return compose(traces, over, on, 10, robust=robust, ascii_only=ascii_only)


def text(drawn: Picture) -> list[str]:
    return ["".join(part for part, _ in line) for line in drawn.lines]


@pytest.mark.parametrize("ascii_only", [False, True])
def test_curves_are_told_apart_by_letters(ascii_only: bool) -> None:
    traces = [
        trace("loss", lambda s: 3 - s / 500),
        trace("eval_loss", lambda s: 1 + s / 500),
        trace("train_loss", lambda s: 2 + math.sin(s / 50)),
    ]
    lines = text(picture(traces, ascii_only=ascii_only))
    assert [len(line) for line in lines] == [60] * 10
    found = "".join(lines)
    assert all(found.count(letter) >= 2 for letter in "abc")
    assert found.isascii() is ascii_only
    assert "a" not in "".join(text(picture(traces[:1], ascii_only=ascii_only)))


def test_metrics_share_an_axis_where_that_hides_none() -> None:
    loss = trace("loss", lambda s: 3 - s / 500)
    other = trace("eval_loss", lambda s: 2.9 - s / 510)
    rate = trace("lr", lambda s: 1e-4 * (1 - s / 1000))
    norm = trace("grad_norm", lambda s: 100 + s / 10)
    found = axes([loss, other], 0, 999)
    assert found.right is None
    assert legend([loss, other], found) == ["a loss", "b eval_loss"]
    found = axes([loss, other, rate], 0, 999)
    assert found.right == found.scales[2]
    assert legend([loss, other, rate], found)[1:] == ["b eval_loss (left)", "c lr (right)"]
    found = axes([loss, rate, norm], 0, 999)
    assert (found.left, found.right) == (None, None)
    assert legend([loss, rate, norm], found)[2] == "c grad_norm (100 to 200)"
    assert axes([loss, rate], 0, 999, choice="one").right is None
    assert axes([loss, other], 0, 999, choice="own").right is not None


def test_one_metric_of_two_runs_has_one_axis() -> None:
    one = trace("loss", lambda s: 3 - s / 500, label="one")
    two = trace("loss", lambda s: 300 - s / 500, label="two")
    found = axes([one, two], 0, 999)
    assert found.right is None
    assert legend([one, two], found) == ["a one", "b two"]


def test_what_is_left_out_is_said() -> None:
    traces = [trace("loss", lambda s: None if s % 100 == 0 else float(s % 50))]
    assert left_out(traces, 0, 999, axes(traces, 0, 999)) == ["? not finite: 10"]
    on = axes(traces, 0, 999, log=True)
    assert left_out(traces, 0, 999, on)[1] == "? not above 0, so not on a log scale: 10"
    assert left_out(traces, 1, 40, axes(traces, 1, 40)) == []
    assert picture(traces).gaps


def test_outliers_stand_at_the_edge_with_a_mark() -> None:
    traces = [trace("loss", lambda s: 99.0 if s == 300 else -99.0 if s == 700 else s % 7)]
    lines = text(picture(traces, robust=True))
    over = Domain(0, 999, 60)
    assert lines[0][over.column(300)] == "^"
    assert lines[-1][over.column(700)] == "v"
    on = axes(traces, 0, 999, robust=True)
    assert "beyond" in left_out(traces, 0, 999, on, robust=True)[0]
    assert "^" not in "".join(text(picture(traces)))


def test_a_smoothed_curve_leaves_the_logged_one_visible() -> None:
    curve = Curve.of((s, float(s % 2)) for s in range(1000))
    smooth = Smoother(0.99).smooth(curve)
    traces = [Trace(label="loss", metric="loss", curve=curve, smooth=smooth)]
    for ascii_only in (False, True):
        kinds = {kind for line in picture(traces, ascii_only=ascii_only).lines for _, kind in line}
        assert {"0", "0f"} <= kinds


# --- smoothing


@given(
    st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6)), max_size=60),
    st.sampled_from([0.6, 0.9, 0.99]),
    st.integers(0, 60),
)
def test_smoothing_is_that_of_tensorboard_and_goes_on_where_it_was(
    values: list[float | None], weight: float, cut: int
) -> None:
    average, count = 0.0, 0
    wanted: list[float | None] = []
    for value in values:
        if value is None:
            wanted.append(None)
            continue
        average = average * weight + (1 - weight) * value
        count += 1
        wanted.append(average / (1 - weight**count))
    column, smoother = Column(), Smoother(weight)
    for step, value in enumerate(values[:cut]):
        column.append(step, value)
    smoother.smooth(column.curve())
    for step, value in enumerate(values[cut:], cut):
        column.append(step, value)
    found = [value for _, value in smoother.smooth(column.curve())]
    assert found == [None if w is None else pytest.approx(w, abs=1e-6) for w in wanted]


def test_another_curve_is_smoothed_from_its_start() -> None:
    smoother = Smoother(0.9)
    smoother.smooth(Curve.of([(0, 100.0), (1, 100.0)]))
    assert list(smoother.smooth(Curve.of([(0, 1.0), (1, 1.0)]))) == [(0, 1.0), (1, 1.0)]
