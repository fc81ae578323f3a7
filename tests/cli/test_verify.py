"""`verify`: what is whole, what is not, and how long it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cli import forms
from tests.cli.harness import Terminal, answer, ckptui, ok
from tests.factory import make_checkpoint, make_run

if TYPE_CHECKING:
    from pathlib import Path


def reports(*words: str | Path, code: int = 0) -> list[dict[str, Any]]:
    found = answer("verify", *words, code=code)
    forms.check(found, forms.VERIFY)
    return list(found["checkpoints"])


def test_only_a_full_check_says_verified(run: Path) -> None:
    assert [(r["name"], r["level"], r["status"]) for r in reports(run)] == [
        (f"step_{s}", "quick", "ok") for s in (10, 20, 30, 100)
    ]
    assert {(r["level"], r["status"]) for r in reports(run, "--full")} == {("full", "verified")}
    found = reports(run)[0]
    assert (found["run"], found["path"]) == (str(run), str(run / "step_10"))


def test_a_failure_is_exit_1_and_names_the_file(run: Path) -> None:
    path = run / "step_20" / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert {r["status"] for r in reports(run)} == {"ok"}
    found = {r["name"]: r for r in reports(run, "--full", code=1)}
    assert found["step_20"]["status"] == "failed"
    assert found["step_20"]["problems"][0]["file"] == "model.safetensors"
    assert found["step_10"]["status"] == "verified"
    told = ckptui("verify", run, "--full")
    assert told.code == 1
    assert "model.safetensors has other content than was written" in told.out
    assert "1 checkpoint of 4 failed." in told.err


def test_partial_fails_and_a_stray_file_only_warns(run: Path) -> None:
    make_checkpoint(run, "step_200", step=200, marker=False)
    (run / "step_10" / "stray.txt").write_text("x")
    found = {r["name"]: r["status"] for r in reports(run, code=1)}
    assert found["step_200"] == "failed"
    assert found["step_10"] == "warning"
    assert reports(run / "step_10")[0]["status"] == "warning"


def test_nan_in_the_weights_is_a_warning_and_not_a_failure(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", [1], weights=[1.0, float("nan"), 2.0])
    assert reports(run)[0]["status"] == "ok"
    (found,) = reports(run, "--full")
    assert found["status"] == "warning"
    assert "layer.weight" in found["problems"][0]["what"]


def test_of_several_paths_each_is_checked_once_whatever_another_is(run: Path) -> None:
    (run / "step_20" / "model.safetensors").unlink()
    steps = [run / f"step_{s}" for s in (20, 30, 30)]
    assert [r["name"] for r in reports(*steps, code=1)] == ["step_20", "step_30"]
    told = ckptui("verify", run / "step_15", run / "step_30")
    assert told.code == 1
    assert "step_15" in told.err
    assert "step_30" in told.out
    assert [r["name"] for r in reports(run / "step_30", run / "step_100")] == [
        "step_30",
        "step_100",
    ]


def test_one_checkpoint_names_its_run(run: Path) -> None:
    assert [r["name"] for r in reports(run / "step_30")] == ["step_30"]
    assert f"step_30 is one checkpoint; its run is {run}." in ok("verify", run / "step_30").err
    (run / "best").symlink_to("step_30")
    assert [r["name"] for r in reports(run / "best")] == ["step_30"]


def test_a_root_without_checkpoints_has_nothing_to_fail(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    assert reports(tmp_path / "root") == []
    assert "No checkpoints" in ok("verify", tmp_path / "root").err
    assert ckptui("verify", tmp_path / "none").code == 1


def test_what_another_tool_wrote_is_a_warning(tmp_path: Path) -> None:
    make_checkpoint(tmp_path / "x", "step_1", step=1, marker=False)
    (found,) = reports(tmp_path / "x", "--full")
    assert found["status"] == "warning"
    assert found["problems"][0]["what"].startswith("was not checked: ")
    assert "1 checkpoint of 1 was not checked." in ok("verify", tmp_path / "x").err


@pytest.mark.parametrize("full", [[], ["--full"]])
def test_on_a_terminal_the_results_are_whole_lines(run: Path, full: list[str]) -> None:
    terminal = Terminal("verify", run, *full)
    assert terminal.end() == 0
    status = "verified" if full else "ok"
    for step in (10, 20, 30, 100):
        assert f"{status:<8}  {run / f'step_{step}'}\n" in terminal.text
