"""`ls`: one root, run or checkpoint; as a table and as JSON."""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest

from ckptui import lock, pins
from ckptui.scan import scan_run
from tests.cli import forms
from tests.cli.harness import answer, ckptui, ok
from tests.factory import make_checkpoint, make_run
from tests.live_trainer import DEAF, LiveTrainer

if TYPE_CHECKING:
    from pathlib import Path


def listed(*words: str | Path) -> dict[str, Any]:
    found = answer("ls", *words)
    forms.check(found, forms.LS)
    return found


def only_run(*words: str | Path) -> dict[str, Any]:
    (run,) = listed(*words)["runs"]
    return dict(run)


def by_name(run: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {c["name"]: c for c in run["checkpoints"]}


def test_the_json_of_a_run_has_every_field_of_the_contract(run: Path) -> None:
    found = listed(run)
    assert found["root"] == str(run)
    assert found["problems"] == []
    (there,) = found["runs"]
    assert there["path"] == str(run)
    assert there["name"] == "my-run"
    assert there["run_id"] == "0123456789abcdef0123456789abcdef"
    assert there["layout"] == "native"
    assert there["live"] is False
    assert there["resume_from"] == "step_100"
    assert there["ignored"] == []
    assert there["trash"] == {"count": 0, "size": 0}
    assert there["policy"] is None
    assert [c["step"] for c in there["checkpoints"]] == [10, 20, 30, 100]
    best = by_name(there)["step_30"]
    assert best["best"] == ["eval_loss"]
    assert best["latest"] is False
    assert best["metrics"] == {"eval_loss": 0.1, "lr": 0.001}
    assert best["created"] == "2026-01-01T00:00:30.000000Z"
    assert best["kept_by"] is None
    assert best["note"] is None
    assert by_name(there)["step_100"]["latest"] is True


def test_kept_by_tells_the_policy_and_pins(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", (1, 2, 3), policy=["keep-last 1", "keep-wings 3"])
    ok("pin", "step_1", "--run", run, "--note", "dip")
    found = by_name(only_run(run))
    assert found["step_1"]["kept_by"] == ["pin: dip"]
    assert found["step_1"]["note"] == "dip"
    assert found["step_2"]["kept_by"] == []
    assert found["step_3"]["kept_by"] == ["newest resumable", "last 1"]


@pytest.mark.parametrize(
    ("state", "complete", "resumable"),
    [
        ("ok", True, True),
        ("weights", True, False),
        ("partial", False, False),
        ("broken", False, False),
        ("unknown", False, False),
    ],
)
def test_every_state_says_what_it_is_good_for(
    tmp_path: Path, state: str, complete: bool, resumable: bool
) -> None:
    run = make_run(tmp_path / "r", [1])
    make_checkpoint(run, "step_2", step=2, resumable=state != "weights", marker=state != "partial")
    if state == "broken":
        (run / "step_2" / "model.safetensors").write_bytes(b"short")
    if state == "unknown":
        (run / "step_2" / "checkpoint.json").write_text('{"format": 99}')
    found = by_name(only_run(run))["step_2"]
    assert (found["state"], found["complete"], found["resumable"]) == (state, complete, resumable)
    assert bool(found["problems"]) is (not complete)
    told = ok("ls", run)
    assert state in told.out
    if state == "weights":
        assert "step_2 cannot be resumed; step_1 is the newest that can" in told.err


def test_what_a_live_owner_stages_is_listed_as_writing_with_its_staging_path(run: Path) -> None:
    with lock.acquire(run, report=print) as held:
        staging = run / ".ckptui" / "staging" / f"step_110-{held.token}"
        staging.parent.mkdir(parents=True, exist_ok=True)
        make_checkpoint(staging.parent, staging.name, step=110, marker=False)
        there = only_run(run)
        assert there["live"] is True
        found = by_name(there)["step_110"]
        assert (found["state"], found["complete"]) == ("writing", False)
        assert found["path"] == str(staging)
        assert "LIVE" in ok("ls", run).out
    assert there["resume_from"] == "step_100"


def test_a_live_run_tells_its_step_and_the_save_in_flight(run: Path) -> None:
    with lock.acquire(run, report=print) as held:
        there = only_run(run)
        assert (there["live"], there["step"], there["saving"]) == (True, None, None)
        assert "   LIVE\n" in ok("ls", run).out
        held.show(step=1234, saving="step_1200")
        there = only_run(run)
        assert (there["live"], there["step"], there["saving"]) == (True, 1234, "step_1200")
        assert "   LIVE at step 1234, saving step_1200\n" in ok("ls", run).out


def test_a_trainer_that_is_gone_is_at_no_step_and_saves_nothing(run: Path) -> None:
    with LiveTrainer(run, DEAF) as trainer:
        end = time.monotonic() + 30
        while only_run(run)["step"] is None:
            assert time.monotonic() < end
        trainer.kill()
    there = only_run(run)
    assert (there["live"], there["step"], there["saving"]) == (False, None, None)
    out = ok("ls", run).out
    assert "its trainer is gone" in out
    assert "LIVE" not in out


def test_what_a_lock_says_is_shown_and_never_obeyed(run: Path) -> None:
    with lock.acquire(run, report=print) as held:
        held.show(step=1, saving="\x1b[31mstep_1")
        assert "\x1b" not in ok("ls", run).out
        assert only_run(run)["saving"] == "\x1b[31mstep_1"


def test_two_run_ids_in_one_folder_are_one_run_without_an_id(run: Path) -> None:
    make_checkpoint(run, "step_200", step=200, run_id="f" * 32)
    there = only_run(run)
    assert there["run_id"] is None
    assert there["resume_from"] is None
    assert there["problems"]


def test_one_checkpoint_stands_as_it_does_in_its_run(run: Path) -> None:
    there = only_run(run / "step_20")
    assert there["resume_from"] == "step_100"
    (found,) = there["checkpoints"]
    assert (found["name"], found["latest"], found["best"]) == ("step_20", False, [])
    assert ok("ls", run / "step_20").err.splitlines() == [
        f"step_20 is one checkpoint; its run is {run}."
    ]
    assert only_run(run / "step_30")["checkpoints"][0]["best"] == ["eval_loss"]


def test_a_link_to_a_checkpoint_means_that_checkpoint(run: Path) -> None:
    (run / "newest").symlink_to("step_100")
    (found,) = only_run(run / "newest")["checkpoints"]
    assert (found["name"], found["aliases"]) == ("step_100", ["newest"])


def test_aliases_are_shown_and_not_counted(run: Path) -> None:
    (run / "latest").symlink_to("step_30")
    there = only_run(run)
    assert len(there["checkpoints"]) == 4
    assert by_name(there)["step_30"]["aliases"] == ["latest"]
    assert "link latest" in ok("ls", run).out


def test_an_empty_root_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert listed(tmp_path / "empty")["runs"] == []
    found = ok("ls", tmp_path / "empty")
    assert found.out == ""
    assert found.err == f"No checkpoints in {tmp_path / 'empty'}.\n"


def test_names_that_led_to_no_run_are_counted(tmp_path: Path) -> None:
    (tmp_path / "o" / "iter_5").mkdir(parents=True)
    assert "1 name there was not recognised" in ok("ls", tmp_path / "o").err


def test_a_missing_path_and_a_file_are_exit_1(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "none", tmp_path / "file", tmp_path / "file" / "x"):
        found = ckptui("ls", path)
        assert found.code == 1
        assert found.out == ""
        assert len(found.err.splitlines()) == 1
        error = answer("ls", path, code=1)
        forms.check(error, forms.ERROR)
        assert error["error"]["kind"] == "not_found"


def test_the_root_of_several_runs_lists_all_sorted_by_path(tmp_path: Path) -> None:
    for name in ("b", "a", "deep/er/c"):
        make_run(tmp_path / name, [1])
    found = listed(tmp_path)
    assert [r["name"] for r in found["runs"]] == ["a", "b", "c"]


def test_depth_limits_the_search_and_problems_say_so(tmp_path: Path) -> None:
    make_run(tmp_path / "1" / "2" / "r", [1])
    assert len(listed(tmp_path, "--depth", "3")["runs"]) == 1
    found = listed(tmp_path, "--depth", "2")
    assert found["runs"] == []
    assert found["problems"][0]["path"] == str(tmp_path / "1" / "2" / "r")
    assert "--depth" in found["problems"][0]["what"]
    for bad in ("-1", "x", ""):
        assert ckptui("ls", tmp_path, "--depth", bad).code == 2


def test_the_table_is_in_numeric_order_with_full_names_and_no_padding_at_the_end(run: Path) -> None:
    lines = ok("ls", run).out.splitlines()
    assert lines[0].startswith(f"{run}   4 checkpoints   ")
    head = lines[1].split()
    assert head == ["name", "step", "epoch", "state", "eval_loss", "size", "age", "kept", "by"]
    assert [line.split()[-9 if "*" in line else 0] for line in lines[2:4]] == ["step_10", "step_20"]
    assert [w for line in lines[2:6] for w in line.split() if w.startswith("step_")] == [
        "step_10",
        "step_20",
        "step_30",
        "step_100",
    ]
    assert lines[4].startswith("*")
    assert all(line == line.rstrip() for line in lines)


def test_unknown_values_are_dashes(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", [1], metrics={1: {"eval_loss": None}})
    make_checkpoint(run, "step_2", step=2, marker=False)
    rows = ok("ls", run).out.splitlines()[2:4]
    assert "nan" in rows[0]
    assert rows[1].split()[:6] == ["!", "step_2", "2", "-", "partial", "-"]


def test_a_pinned_and_unhealthy_one_carries_its_letters(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", [1], nonfinite=["w"])
    (checkpoint,) = scan_run(run).checkpoints
    pins.pin(checkpoint)
    assert ok("ls", run).out.splitlines()[2].startswith("P!")
    assert by_name(only_run(run))["step_1"]["pinned"] is True


def test_trash_is_counted(run: Path) -> None:
    ok("rm", "step_10", "--run", run, "--yes")
    there = only_run(run)
    assert there["trash"]["count"] == 1
    assert there["trash"]["size"] > 1000
    assert "trash 1 item" in ok("ls", run).out


@pytest.mark.skipif(os.geteuid() == 0, reason="root may list everything")
def test_a_folder_without_access_is_a_problem_and_no_failure(tmp_path: Path) -> None:
    make_run(tmp_path / "r", [1])
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    try:
        found = listed(tmp_path)
        assert len(found["runs"]) == 1
        assert found["problems"][0]["path"] == str(closed)
    finally:
        closed.chmod(0o700)


def test_a_working_directory_that_is_gone_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    shutil.rmtree(gone)
    for words in (["ls"], ["show", "latest"], ["prune", "--keep-last", "1"]):
        found = ckptui(*words)
        assert found.code == 1
        assert found.err == "ckptui: The working directory is gone; go to another one.\n"
