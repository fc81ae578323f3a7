"""`run.json` keeps what it holds, and damage in it costs no more than must be."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ckptui.checkpoint import Attempt, Parent
from ckptui.errors import FormatError, NewerFormatError
from ckptui.run_file import RunFile, parse_parent, read_run_file, whole, write_run_file

PARENT = Parent(name="step_5", step=5, run_id="a" * 32, attempt=1, path="/elsewhere/run/step_5")
FULL = RunFile(
    run_id="f" * 32,
    created="2026-01-01T00:00:00.000000Z",
    recipe="some.module",
    command="python train.py {checkpoint}",
    argv=("train.py", "--x"),
    cwd="/home/me",
    python="3.11.7",
    policy=("keep-last 3",),
    attempts=(
        Attempt(attempt=1, start_step=0),
        Attempt(attempt=2, start_step=5, parent=PARENT, started="t", host="h", argv=("a",)),
    ),
    loggers={"wandb": "abc"},
    rest={"note": [1, 2]},
)


def put(run: Path, **changes: Any) -> None:
    (run / "run.json").write_text(json.dumps({"format": 1, "run_id": "x", **changes}))


def test_what_is_written_reads_back(tmp_path: Path) -> None:
    write_run_file(tmp_path, FULL)
    assert read_run_file(tmp_path) == FULL
    assert FULL.last_attempt == 2
    assert FULL.with_attempt(Attempt(attempt=3, start_step=9)).last_attempt == 3


def test_no_file_is_none(tmp_path: Path) -> None:
    assert read_run_file(tmp_path) is None


def test_keys_of_other_writers_survive_a_rewrite(tmp_path: Path) -> None:
    put(tmp_path, team="vision", nested={"deep": [1, None]})
    found = read_run_file(tmp_path)
    assert found is not None
    write_run_file(tmp_path, found)
    again = json.loads((tmp_path / "run.json").read_text())
    assert again["team"] == "vision"
    assert again["nested"] == {"deep": [1, None]}


def test_numbers_that_strict_json_lacks_do_not_stop_a_rewrite(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(
        '{"format": 1, "a": NaN, "loggers": {"b": [1e400, -Infinity]}}'
    )
    found = read_run_file(tmp_path)
    assert found is not None
    write_run_file(tmp_path, found)
    again = json.loads((tmp_path / "run.json").read_text())
    assert (again["a"], again["loggers"]["b"]) == ("NaN", ["Infinity", "-Infinity"])


def test_paths_that_are_not_utf8_survive(tmp_path: Path) -> None:
    odd = os.fsdecode(b"/data/\xff\xfe/run")
    write_run_file(tmp_path, RunFile(run_id="r", cwd=odd))
    (tmp_path / "run.json").read_bytes().decode("ascii")
    found = read_run_file(tmp_path)
    assert found is not None
    assert found.cwd == odd


def test_a_newer_format_is_told_apart_from_damage(tmp_path: Path) -> None:
    put(tmp_path, format=2)
    with pytest.raises(NewerFormatError, match="format 2"):
        read_run_file(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{",
        "{}",
        '{"format": "1"}',
        '{"format": true}',
        '{"format": 0}',
        '{"format": 1.5}',
        '{"format": 1, "x": ' + "[" * 400 + "]" * 400 + "}",
    ],
)
def test_a_damaged_file_is_a_format_error_that_is_not_newer(tmp_path: Path, content: str) -> None:
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(FormatError) as e:
        read_run_file(tmp_path)
    assert not isinstance(e.value, NewerFormatError)


def test_values_of_the_wrong_type_are_absent_and_the_rest_stands(tmp_path: Path) -> None:
    put(
        tmp_path,
        run_id=7,
        command=["rm", "-rf"],
        policy="keep-last 3",
        argv="x",
        loggers=[],
        attempts=[
            7,
            {"attempt": 1},
            {"attempt": True, "start_step": 0},
            {"attempt": 2, "start_step": -1},
            {"attempt": 3, "start_step": 1.5},
            {"attempt": 4, "start_step": 10, "parent": 3, "argv": [1, "a"], "host": 0},
        ],
    )
    found = read_run_file(tmp_path)
    assert found is not None
    assert (found.run_id, found.command, found.policy, found.argv) == (None, None, None, ())
    assert found.loggers == {}
    assert found.attempts == (Attempt(attempt=4, start_step=10, argv=("a",)),)


def test_parents_are_read_as_objects_and_as_bare_names() -> None:
    assert parse_parent("step_5") == Parent(name="step_5")
    assert parse_parent({"name": "step_5", "step": "5"}) == Parent(name="step_5")
    others: list[object] = [None, "", 7, [], {}, {"name": 5}]
    for odd in others:
        assert parse_parent(odd) is None


def test_whole_numbers_only() -> None:
    assert whole(0) == 0
    for odd in (-1, True, 1.0, "1", None):
        assert whole(odd) is None
