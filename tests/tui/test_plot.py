from __future__ import annotations

import math

import pytest

from ckptui.display.plot import Domain, Point, domain, draw, spark


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


def test_a_spark_shows_gaps_as_spaces() -> None:
    assert spark([1.0, None, 3.0], 3)[1] == " "
    assert spark([], 5) == ""
    assert spark([None, None], 2) == "  "
