"""The learning rate is a function of the step."""

from __future__ import annotations

import pytest

from recipe_integration.config import SchedulerConfig
from recipe_integration.schedule import learning_rate


def rates(name: str, *, total: int, warmup: int = 0, ratio: float = 0.0) -> list[float]:
    config = SchedulerConfig(name=name, num_warmup_steps=warmup, min_lr_ratio=ratio)  # type: ignore[arg-type]
    return [learning_rate(s, peak=1.0, total=total, config=config) for s in range(1, total + 1)]


def test_warm_up_rises_to_the_peak_and_never_starts_at_zero() -> None:
    assert rates("constant", total=6, warmup=4) == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


def test_linear_falls_evenly_and_no_step_is_spent_at_zero() -> None:
    assert rates("linear", total=4) == [1.0, 0.75, 0.5, 0.25]
    assert rates("linear", total=4, ratio=0.5) == [1.0, 0.875, 0.75, 0.625]


def test_cosine_falls_from_the_peak() -> None:
    found = rates("cosine", total=8, warmup=2)
    assert found[1] == found[2] == 1.0
    assert found == sorted(found[:2]) + sorted(found[2:], reverse=True)
    assert found[5] == pytest.approx(0.5)
    assert found[-1] > 0


def test_steps_beyond_the_total_keep_the_final_rate() -> None:
    config = SchedulerConfig(name="linear", min_lr_ratio=0.1)
    assert learning_rate(99, peak=2.0, total=10, config=config) == pytest.approx(0.2)


def test_a_warm_up_as_long_as_the_run_is_no_division_by_zero() -> None:
    assert rates("cosine", total=3, warmup=3)[-1] == 1.0
    assert rates("cosine", total=3, warmup=9)[-1] == pytest.approx(1 / 3)
