"""Which run and checkpoint a command line means: `--run`, `CKPTUI_RUN`, the working directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.harness import answer, ckptui
from tests.factory import make_checkpoint, make_run

if TYPE_CHECKING:
    from pathlib import Path


def meant(*words: str | Path) -> str:
    return str(answer("show", "latest", *words)["checkpoint"]["run"])


def test_run_takes_a_run_a_root_with_one_or_a_checkpoint(run: Path) -> None:
    assert meant("--run", run) == str(run)
    assert meant("--run", run.parent) == str(run)
    assert meant("--run", run.parent.parent) == str(run)
    assert meant("--run", run / "step_10") == str(run)


def test_a_relative_run_is_seen_from_the_working_directory(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run.parent)
    assert meant("--run", "my-run") == str(run)
    monkeypatch.chdir(run / "step_10")
    assert meant("--run", "..") == str(run)


@pytest.mark.parametrize("below", [".", "step_10", ".ckptui", "logs/deep"])
def test_the_nearest_run_at_or_above_the_working_directory(
    run: Path, monkeypatch: pytest.MonkeyPatch, below: str
) -> None:
    (run / below).mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(run / below)
    assert meant() == str(run)


def test_the_only_run_below_the_working_directory(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run.parent.parent)
    assert meant() == str(run)
    make_run(run.parent / "second", [1])
    found = ckptui("show", "latest")
    assert found.code == 1
    assert "There are 2 runs" in found.err
    assert str(run) in found.err


def test_the_environment_names_the_run_and_run_wins_over_it(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_run(tmp_path / "other", [1])
    monkeypatch.setenv("CKPTUI_RUN", str(run))
    monkeypatch.chdir(other)
    assert meant() == str(run)
    assert meant("--run", other) == str(other)
    assert answer("metrics")["run"] == str(run)
    assert answer("log")["run"] == str(run)
    assert {r["run"] for r in answer("prune", "--keep-last", "1")["plan"]} == {str(run)}
    monkeypatch.setenv("CKPTUI_RUN", "")
    assert meant() == str(other)
    monkeypatch.setenv("CKPTUI_RUN", str(tmp_path / "gone"))
    assert ckptui("show", "latest").code == 1


def test_the_argument_of_metrics_and_log_is_the_run(run: Path) -> None:
    for command in ("metrics", "log"):
        assert answer(command, run)["run"] == str(run)
        assert answer(command, "--run", run)["run"] == str(run)
        assert answer(command, run.parent)["run"] == str(run)
        assert ckptui(command, run, "--run", run).code == 2


def test_a_slash_makes_a_checkpoint_a_path(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_run(tmp_path / "other", [10])
    monkeypatch.chdir(run)
    assert answer("show", "step_10", "--run", other)["checkpoint"]["run"] == str(other)
    assert answer("show", "./step_10", "--run", other)["checkpoint"]["run"] == str(run)
    assert answer("show", "step_10/", "--run", other)["checkpoint"]["run"] == str(run)
    assert answer("show", "../../other/step_10")["checkpoint"]["run"] == str(other)


def test_keywords_win_over_names_and_names_over_links(run: Path) -> None:
    (run / "latest").symlink_to("step_10")
    (run / "good").symlink_to("step_20")
    assert answer("show", "latest", "--run", run)["checkpoint"]["name"] == "step_100"
    assert answer("show", "good", "--run", run)["checkpoint"]["name"] == "step_20"
    assert answer("show", run / "latest")["checkpoint"]["name"] == "step_10"


def test_padded_names_keep_their_spelling_and_are_found_by_number(run: Path) -> None:
    make_checkpoint(run, "step_0040", step=40)
    assert answer("show", "40", "--run", run)["checkpoint"]["name"] == "step_0040"
    assert answer("show", "step_0040", "--run", run)["checkpoint"]["step"] == 40
