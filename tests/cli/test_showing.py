"""`show`: one checkpoint with its files, tensors, recipe state and lineage."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.cli import forms
from tests.cli.harness import answer, ckptui, ok, shell
from tests.factory import RUN_ID, make_checkpoint, make_run

if TYPE_CHECKING:
    from pathlib import Path


def shown(*words: str | Path) -> dict[str, Any]:
    found = answer("show", *words)
    forms.check(found, forms.SHOW)
    return dict(found["checkpoint"])


def test_the_json_has_files_tensors_state_and_lineage_inside_the_checkpoint(run: Path) -> None:
    found = shown("step_30", "--run", run)
    sizes = {f["name"]: f["size"] for f in found["files"]}
    assert sizes["model.safetensors"] == (run / "step_30" / "model.safetensors").stat().st_size
    assert all(f["digest"].startswith("xxh3_128:") for f in found["files"])
    assert {"name": "layer.weight", "dtype": "F32", "shape": [3], "file": "model.safetensors"} in (
        found["tensors"]
    )
    assert found["recipe_state"]["steps_run"] == 30
    assert found["lineage"] == []
    assert found["best"] == ["eval_loss"]


def test_latest_and_best_say_how_they_were_read(run: Path) -> None:
    make_checkpoint(run, "step_200", step=200, marker=False)
    make_checkpoint(run, "step_150", step=150, resumable=False)
    latest = ok("show", "latest", "--run", run)
    assert latest.out.startswith("step_150   weights")
    assert latest.err.splitlines() == [
        "step_200 is newer but partial: checkpoint.json is missing",
        "step_150 cannot be resumed; step_100 is the newest that can.",
    ]
    best = ok("show", "best", "--run", run)
    assert best.out.startswith("step_30   ok")
    assert best.err == "best by eval_loss: lower is better\n"
    assert "higher is better" in ok("show", "best:lr:max", "--run", run).err


def test_best_of_a_metric_follows_the_direction_of_the_policy(tmp_path: Path) -> None:
    metrics = {1: {"odd": 5.0}, 2: {"odd": 7.0}}
    run = make_run(
        tmp_path / "r", (1, 2), metrics=metrics, policy=["keep-odd 3", "keep-best 1:odd:max"]
    )
    assert shown("best:odd", "--run", run)["name"] == "step_2"
    assert shown("best", "--run", run)["name"] == "step_2"
    assert shown("best:odd:min", "--run", run)["name"] == "step_1"


def test_a_metric_of_unknown_direction_is_refused(run: Path) -> None:
    error = answer("show", "best:lr", "--run", run, code=1)
    forms.check(error, forms.ERROR)
    assert error["error"]["kind"] == "refused"


def test_a_metric_nobody_has_is_not_found_and_the_others_are_named(run: Path) -> None:
    error = answer("show", "best:acc", "--run", run, code=1)["error"]
    assert (error["kind"], error["candidates"]) == ("not_found", ["eval_loss", "lr"])


def test_lineage_goes_through_runs_and_ends_where_the_trail_ends(tmp_path: Path) -> None:
    first = make_run(tmp_path / "first", [5])
    second = tmp_path / "second"
    make_checkpoint(
        first,
        "step_9",
        step=9,
        parent={"name": "step_5", "step": 5, "run_id": RUN_ID, "attempt": 1, "path": None},
        attempt=2,
    )
    make_run(second, [])
    parent = {"name": "step_9", "step": 9, "run_id": RUN_ID, "attempt": 2}
    make_checkpoint(
        second,
        "step_12",
        step=12,
        parent={**parent, "path": str(first / "step_9")},
        run_id="b" * 32,
    )
    found = shown(second / "step_12")
    assert [p["name"] for p in found["lineage"]] == ["step_9", "step_5"]
    assert found["lineage"][0]["path"] == str(first / "step_9")
    text = ok("show", second / "step_12").out
    assert f"{first / 'step_9'} <- step_5" in text


def test_lineage_stops_at_a_name_that_another_checkpoint_has_taken(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", [1])
    old = {"name": "step_5", "step": 5, "run_id": RUN_ID, "attempt": 1, "path": None}
    make_checkpoint(run, "step_5", step=5, attempt=3, parent={"name": "step_1"})
    make_checkpoint(run, "step_9", step=9, parent=old)
    assert [p["name"] for p in shown(run / "step_9")["lineage"]] == ["step_5"]


def test_a_hostile_parent_is_not_followed(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", [1])
    for i, path in enumerate(("/", "/usr", "relative/step_5", "/\0/step_1", "step_7"), 1):
        name = f"step_{i * 10}"
        make_checkpoint(run, name, step=i * 10, parent={"name": name, "path": path})
        found = shown(run / name)["lineage"]
        assert [p["path"] for p in found] == [path]


def test_a_broken_header_is_a_problem_of_the_checkpoint(run: Path) -> None:
    weights = run / "step_30" / "model.safetensors"
    weights.write_bytes(b"\xff" * weights.stat().st_size)
    found = shown("step_30", "--run", run)
    assert [p["path"] for p in found["problems"]] == [str(weights)]
    assert "! model.safetensors is no safetensors file" in ok("show", run / "step_30").out


def test_damaged_recipe_state_is_null_with_a_problem(run: Path) -> None:
    state = run / "step_30" / "recipe_state.json"
    state.write_bytes(b"x" * state.stat().st_size)
    found = shown("step_30", "--run", run)
    assert found["recipe_state"] is None
    assert [p["path"] for p in found["problems"]] == [str(state)]


def test_recipe_state_that_strict_json_cannot_hold_becomes_null(tmp_path: Path) -> None:
    state = b'{"format": 1, "a": NaN, "b": 1e400, "c": "\\ud800", "n": [1, -Infinity]}'
    run = make_run(tmp_path / "r", [1], extra_files={"recipe_state.json": state})
    found = shown("step_1", "--run", run)["recipe_state"]
    assert found == {"a": None, "b": None, "c": "\\ud800", "n": [1, None]}


def test_without_a_marker_the_files_that_lie_there_are_shown(run: Path) -> None:
    (run / "step_30" / "checkpoint.json").unlink()
    found = shown("step_30", "--run", run)
    assert found["state"] == "partial"
    assert {f["name"]: f["digest"] for f in found["files"]}["config.json"] is None
    assert found["tensors"]


def test_files_are_told_as_they_lie_there_beside_what_was_recorded(run: Path) -> None:
    folder = run / "step_30"
    (folder / "config.json").unlink()
    (folder / "recipe_state.json").write_bytes(b"short")
    (folder / "notes.txt").write_text("x")
    there = len(list(folder.iterdir()))
    out = ok("show", "step_30", "--run", run).out
    assert f" in {there} files" in out
    lines = {" ".join(line.split()) for line in out.splitlines()}
    assert any(x.startswith("- config.json ! missing, ") for x in lines)
    assert any(x.startswith("5 B recipe_state.json ! ") for x in lines)
    assert "1 B notes.txt ! not listed by the marker" in lines
    (folder / "checkpoint.json").unlink()
    out = ok("show", "step_30", "--run", run).out
    assert f" in {there - 1} files" in out
    assert "notes.txt\n" in out


def test_a_file_outside_the_checkpoint_is_never_opened(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", [1])
    outside = make_run(tmp_path / "other", [1]) / "step_1" / "model.safetensors"
    marker = run / "step_1" / "checkpoint.json"
    record = json.loads(marker.read_text())
    record["files"] += [
        {"name": str(outside), "size": 1, "digest": None},
        {"name": "../../other/step_1/model.safetensors", "size": 1, "digest": None},
        {"name": "link.safetensors", "size": 1, "digest": None},
    ]
    (run / "step_1" / "link.safetensors").symlink_to(outside)
    marker.write_text(json.dumps(record))
    found = shown("step_1", "--run", run)
    assert {t["file"] for t in found["tensors"]} == {
        "model.safetensors",
        "recipe_state.safetensors",
    }
    assert found["state"] == "broken"


def test_what_lies_in_the_trash_is_shown_by_its_id(run: Path) -> None:
    ok("rm", "step_20", "--run", run, "--yes")
    (item,) = answer("trash", "list", "--run", run)["items"]
    found = shown(item["id"], "--run", run)
    assert (found["name"], found["path"], found["step"]) == ("step_20", item["path"], 20)
    assert found["latest"] is False


def test_a_near_name_is_suggested(run: Path) -> None:
    for mistyped in ("step_3", "step30", "stp_30", "33"):
        found = ckptui("show", mistyped, "--run", run)
        assert found.code == 1
        assert "Did you mean step_30?" in found.err, mistyped
    error = answer("show", "step_3", "--run", run, code=1)["error"]
    assert error["kind"] == "not_found"
    assert error["candidates"] == ["step_10", "step_20", "step_30", "step_100"]


def test_a_bare_number_is_a_step_and_two_of_them_are_refused(run: Path) -> None:
    assert shown("30", "--run", run)["name"] == "step_30"
    make_checkpoint(run, "epoch_0", step=30)
    error = answer("show", "30", "--run", run, code=1)["error"]
    assert (error["kind"], sorted(error["candidates"])) == ("ambiguous", ["epoch_0", "step_30"])


def test_a_name_that_lies_in_the_trash_says_so_and_how_it_comes_back(
    run: Path, tmp_path: Path
) -> None:
    ok("rm", "step_10", "--run", run, "--yes")
    (item,) = (run / ".ckptui" / "trash").iterdir()
    for words in (["step_10", "--run", run], ["10", "--run", run], [run / "step_10"]):
        error = answer("show", *words, code=1)["error"]
        assert error["kind"] == "not_found"
        assert error["candidates"] == [item.name]
        assert error["message"] == (
            f"step_10 is in the trash of {run}; "
            f"`ckptui trash restore {item.name} --run {run}` brings it back."
        )
    for command in ("pin", "rm", "resume-cmd"):
        assert "is in the trash of" in ckptui(command, "step_10", "--run", run).err


def test_the_line_that_brings_it_back_does(tmp_path: Path) -> None:
    run = make_run(tmp_path / "it's a run", [1, 2])
    ok("rm", "step_1", "--run", run, "--yes")
    line = ckptui("show", "step_1", "--run", run).err.split("`")[1]
    assert shell(line, cwd=tmp_path).stdout == "restored step_1\n"
    assert ok("show", "step_1", "--run", run).err == ""


def test_removed_twice_the_last_one_comes_back(run: Path) -> None:
    ok("rm", "step_10", "--run", run, "--yes")
    make_checkpoint(run, "step_10", step=10)
    ok("rm", "step_10", "--run", run, "--yes")
    last = max(i.name for i in (run / ".ckptui" / "trash").iterdir())
    told = ckptui("show", "step_10", "--run", run).err
    assert f"{run}, 2 times; `ckptui trash restore {last} --run" in told


def test_one_that_stands_again_is_shown_whatever_lies_in_the_trash(run: Path) -> None:
    ok("rm", "step_10", "--run", run, "--yes")
    make_checkpoint(run, "step_10", step=10)
    assert ok("show", "step_10", "--run", run).err == ""


def test_an_item_of_the_trash_is_shown_with_how_it_comes_back(run: Path) -> None:
    ok("rm", "step_10", "--run", run, "--yes")
    (item,) = (run / ".ckptui" / "trash").iterdir()
    found = ok("show", item.name, "--run", run)
    assert found.out.startswith("step_10   ok")
    assert found.err == (
        f"step_10 is in the trash of {run}; "
        f"`ckptui trash restore {item.name} --run {run}` brings it back.\n"
    )
    assert "brings it back" in ckptui("pin", item.name, "--run", run).err


def test_two_checkpoints_are_what_diff_is_for(run: Path) -> None:
    found = ckptui("show", "step_10", "step_20", "--run", run)
    assert found.code == 2
    line = f"ckptui diff step_10 step_20 --run {run}"
    assert f"Only one checkpoint is shown at a time, not 2; `{line}` compares them." in found.err
    assert shell(line, cwd=run).returncode == 0
    error = answer("show", "a b", "c", code=2)["error"]
    assert error["kind"] == "usage"
    assert error["message"].endswith("; `ckptui diff 'a b' c` compares them.")
    assert "diff" not in ckptui("show", "a", "b", "c").err.replace("--help", "")
    assert ckptui("show").code == 2
