from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ckptui.checkpoint import Checkpoint, Pin, Run, State
from ckptui.forecast import forecast, pace

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
GB = 10**9


def run_of(
    steps: range,
    *,
    policy: tuple[str, ...] | None,
    size: int = GB,
    metrics: bool = False,
    pinned: int | None = None,
) -> Run:
    path = Path("/runs/r")
    checkpoints = tuple(
        Checkpoint(
            run=path,
            name=f"step_{step}",
            path=path / f"step_{step}",
            step=step,
            run_id="a",
            attempt=1,
            state=State.OK,
            complete=True,
            resumable=True,
            size=size,
            created=START + HOUR * i,
            created_text=f"{i}",
            pin=Pin(name=f"step_{step}") if step == pinned else None,
            metrics={"eval_loss": 1.0 / step} if metrics else {},
        )
        for i, step in enumerate(steps)
    )
    return Run(
        path=path,
        name="r",
        run_id="a",
        layout="native",
        live=True,
        checkpoints=checkpoints,
        policy=policy,
    )


def test_the_pace_is_the_median_of_the_last_saves() -> None:
    run = run_of(range(100, 600, 100), policy=None)
    found = pace(run)
    assert found is not None
    assert (found.every, found.size, found.steps) == (HOUR, GB, 100)
    assert pace(run_of(range(100, 300, 100), policy=None)) is None


def test_the_time_between_two_attempts_is_not_counted() -> None:
    run = run_of(range(100, 600, 100), policy=None)
    later = tuple(
        replace(c, attempt=2, created=c.created and c.created + 100 * HOUR) if c.step == 500 else c
        for c in run.checkpoints
    )
    found = pace(replace(run, checkpoints=later))
    assert found is not None
    assert found.every == HOUR


def test_what_the_policy_removes_at_the_next_save_is_told_unless_it_is_pinned() -> None:
    run = run_of(range(100, 400, 100), policy=("keep-last 3",))
    found = forecast(run, now=START, free=None)
    assert found is not None
    assert found.next_step == 400
    assert found.going == {"step_100"}
    pinned = run_of(range(100, 400, 100), policy=("keep-last 3",), pinned=100)
    found = forecast(pinned, now=START, free=None)
    assert found is not None
    assert not found.going


def test_the_best_one_does_not_go_for_one_whose_metric_nobody_knows() -> None:
    run = run_of(
        range(100, 500, 100), policy=("keep-last 1", "keep-best 1:eval_loss"), metrics=True
    )
    found = forecast(run, now=START, free=None)
    assert found is not None
    assert "step_400" not in found.going
    assert found.going == {"step_100", "step_200", "step_300"}


def test_without_a_policy_every_save_fills_the_disk() -> None:
    run = run_of(range(100, 600, 100), policy=None)
    found = forecast(run, now=START, free=10 * GB + 1)
    assert found is not None
    assert (found.saves_left, found.time_left) == (10, 10 * HOUR)


def test_a_policy_that_keeps_a_fixed_number_never_fills_it() -> None:
    run = run_of(range(100, 600, 100), policy=("keep-last 5",))
    found = forecast(run, now=START, free=3 * GB)
    assert found is not None
    assert found.saves_left is None


def test_what_it_keeps_for_good_fills_it_in_the_end() -> None:
    run = run_of(range(100, 600, 100), policy=("keep-last 2", "keep-every 400"))
    found = forecast(run, now=START, free=50 * GB)
    assert found is not None
    assert found.saves_left is not None
    assert 150 <= found.saves_left <= 250  # one of four stays


def test_a_disk_without_room_for_the_next_save_is_full_now() -> None:
    run = run_of(range(100, 600, 100), policy=("keep-last 2",))
    found = forecast(run, now=START, free=GB - 1)
    assert found is not None
    assert found.saves_left == 0


def test_a_disk_that_would_take_ages_to_fill_is_never_full() -> None:
    run = run_of(range(100, 600, 100), policy=None, size=1)
    found = forecast(run, now=START, free=2**62)
    assert found is not None
    assert (found.saves_left, found.time_left) == (None, None)


def test_times_that_cannot_be_true_forecast_nothing() -> None:
    run = run_of(range(100, 600, 100), policy=("keep-last 2",))
    years = (1, 2500, 5000, 7500, 9999)
    odd = tuple(
        replace(c, created=START.replace(year=y))
        for c, y in zip(run.checkpoints, years, strict=True)
    )
    assert forecast(replace(run, checkpoints=odd), now=START, free=GB) is None
    end = datetime(9999, 12, 31, 23, tzinfo=UTC)
    late = tuple(replace(c, created=end - HOUR * (5 - i)) for i, c in enumerate(run.checkpoints))
    assert forecast(replace(run, checkpoints=late), now=START, free=GB) is None
