"""Which checkpoint is the latest, and in what order they are listed."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from tests.cases import foreign
from tests.cases.harness import (
    FAR_FUTURE,
    SECOND,
    assert_ignored_within,
    assert_left_alone,
    ckptui,
    latest,
    listed,
    prune,
    resumed,
    set_times,
)
from tests.factory import make_checkpoint, make_run

if TYPE_CHECKING:
    from pathlib import Path

SAME = "2026-01-01T00:00:00.000000Z"


def names(run: Path) -> list[str]:
    return [c["name"] for c in listed(run)]


def test_B01_step_order_is_numeric(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [9000, 10000, 900], created=SAME)
    set_times(run, SECOND)

    assert latest(run) == "step_10000"
    assert names(run) == ["step_900", "step_9000", "step_10000"]
    text = ckptui("ls", run).out
    assert text.index("step_900 ") < text.index("step_9000 ") < text.index("step_10000 ")


def test_B02_a_wider_name_is_a_number_and_keeps_its_spelling(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    make_checkpoint(run, "step_0900000", step=900000)
    make_checkpoint(run, "step_100000", step=100000)
    set_times(run / "step_0900000", SECOND)
    set_times(run / "step_100000", SECOND + 1000)

    shown = ckptui("show", "latest", "--run", run, "--json").json()["checkpoint"]
    assert (shown["name"], shown["step"]) == ("step_0900000", 900000)
    assert shown["path"] == str(run / "step_0900000")
    assert resumed(run) == "step_0900000"
    line = ckptui("resume-cmd", "900000", "--run", run, "--fork", tmp_path / "fork").out
    assert f"resume_from={run / 'step_0900000'}" in line


def test_B03_retention_never_asks_the_file_system_for_the_age(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [400, 600, 800, 1000])
    set_times(run, SECOND)
    set_times(run / "step_1000", 1)

    assert prune(run, "--keep-last", "3") == {"step_600", "step_800", "step_1000"}


def test_B04_a_copy_with_equal_times_has_the_same_latest(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", range(25000, 125001, 25000))
    copy = tmp_path / "copy"
    shutil.copytree(run, copy, copy_function=shutil.copyfile)
    set_times(copy, SECOND)

    assert latest(copy) == "step_125000"
    assert resumed(copy) == "step_125000"


def test_B05_times_from_an_archive_or_the_future_order_nothing(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [20, 30])
    make_checkpoint(run, "step_10", step=10, created="2099-01-01T00:00:00.000000Z")
    set_times(run / "step_10", FAR_FUTURE)
    set_times(run / "step_20", SECOND)
    set_times(run / "step_30", 1)

    assert latest(run) == "step_30"
    assert names(run) == ["step_10", "step_20", "step_30"]
    (line,) = [x for x in ckptui("ls", run).out.splitlines() if "step_10" in x]
    assert " future" in line
    assert listed(run)[0]["created"] == "2099-01-01T00:00:00.000000Z"
    # By age nothing can be said of it, so a rule by age leaves it.
    assert "step_10" in prune(run, "--keep-within", "1d")


def test_B06_saves_within_one_second_are_ordered_by_step(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", range(10, 0, -1), created=SAME)
    set_times(run, SECOND)

    assert [latest(run) for _ in range(3)] == ["step_10"] * 3
    assert names(run) == [f"step_{n}" for n in range(1, 11)]


def test_B07_steps_of_any_length_are_whole_numbers(tmp_path: Path) -> None:
    steps = [2048000, 1024000000, 18446744073709551616]
    run = make_run(tmp_path / "run", steps)

    assert [c["step"] for c in listed(run)] == steps
    text = ckptui("ls", run).out
    assert all(f"step_{step} " in text and f" {step} " in text for step in steps)
    assert latest(run) == "step_18446744073709551616"
    shown = ckptui("show", "18446744073709551616", "--run", run, "--json").json()
    assert shown["checkpoint"]["step"] == steps[-1]
    assert prune(run, "--keep-last", "1") == {"step_18446744073709551616"}


def test_B07_a_name_as_long_as_a_file_system_allows(tmp_path: Path) -> None:
    longest = "step_" + "9" * 250
    run = make_run(tmp_path / "run", [1])
    make_checkpoint(run, longest, step=int("9" * 250), weights=[1.0])

    assert latest(run) == longest
    assert resumed(run) == longest


def test_B09_keep_5_of_1_to_11_keeps_the_highest_five(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", range(1, 12))
    assert prune(run, "--keep-last", "5") == {f"step_{n}" for n in range(7, 12)}

    orbax = tmp_path / "orbax"
    for step in range(1, 12):
        foreign.orbax(orbax / str(step))
    assert_left_alone(orbax)
    assert "11 names" in ckptui("prune", orbax, "--keep-last", "5", "--yes", code=1).err


def test_B10_numbers_wider_than_a_fixed_width_are_read_whole(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [9999999, 10000000])
    assert latest(run) == "step_10000000"
    assert names(run) == ["step_9999999", "step_10000000"]

    foreign.megatron(run / "iter_9999999")
    foreign.megatron(run / "iter_10000000")
    assert_ignored_within(run, ["iter_9999999", "iter_10000000"])
    assert latest(run) == "step_10000000"
