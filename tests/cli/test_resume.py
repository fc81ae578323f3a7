"""`resume-cmd` and `unlock`."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from ckptui import lock
from tests.cli import forms
from tests.cli.harness import Terminal, answer, ckptui, ok, process
from tests.factory import make_checkpoint, make_run

if TYPE_CHECKING:
    from pathlib import Path

MODULE = "recipe_integration.full_finetune_single_device"


def command(*words: str | Path) -> dict[str, Any]:
    found = answer("resume-cmd", *words)
    forms.check(found, forms.RESUME)
    return found


def refused(*words: str | Path, code: int = 1) -> dict[str, Any]:
    found = answer("resume-cmd", *words, code=code)
    forms.check(found, forms.ERROR)
    return dict(found["error"])


def test_the_newest_continues_in_place(run: Path) -> None:
    found = command("latest", "--run", run, "--python", "py3")
    assert found["argv"] == [
        *["py3", "-m", MODULE, "--config", str(run / "config.yaml")],
        *["resume_from=latest", f"output_dir={run}"],
    ]
    assert shlex.split(found["shell"]) == found["argv"]
    assert found["checkpoint"]["name"] == "step_100"
    assert found["checkpoint"]["latest"] is True
    assert found["config"] == {"seed": 0, "output_dir": str(run)}
    assert found["warnings"] == []


def test_stdout_holds_the_line_and_nothing_else(run: Path) -> None:
    found = ok("resume-cmd", "step_20", "--run", run)
    line = command("step_20", "--run", run)["shell"]
    assert (found.out, found.err) == (line + "\n", "")


def test_an_older_one_forks_beside_the_run(run: Path) -> None:
    found = command("step_20", "--run", run)
    assert f"resume_from={run / 'step_20'}" in found["argv"]
    assert f"output_dir={run}-from-step_20" in found["argv"]
    (run.parent / f"{run.name}-from-step_20").mkdir()
    assert f"output_dir={run}-from-step_20-2" in command("step_20", "--run", run)["argv"]


def test_fork_and_in_place_are_told_and_exclude_each_other(run: Path, tmp_path: Path) -> None:
    found = command("step_20", "--run", run, "--fork", tmp_path / "x")
    assert f"output_dir={tmp_path / 'x'}" in found["argv"]
    back = command("step_20", "--run", run, "--in-place")
    assert "rewind=2" in back["argv"]
    assert back["warnings"] == ["2 newer checkpoints will be moved to the trash."]
    assert "! 2 newer" in ok("resume-cmd", "step_20", "--run", run, "--in-place").err
    error = refused("step_20", "--run", run, "--fork", "x", "--in-place", code=2)
    assert error["kind"] == "usage"


def test_write_config_writes_settings_without_resume_from(run: Path, tmp_path: Path) -> None:
    settings = "seed: 0\nresume_from: latest\noutput_dir: /old\n"
    (run / "step_20" / "recipe_config.yaml").write_text(settings)
    marker = run / "step_20" / "checkpoint.json"
    record = json.loads(marker.read_text())
    for file in record["files"]:
        if file["name"] == "recipe_config.yaml":
            file["size"] = len(settings)
    marker.write_text(json.dumps(record))
    target = tmp_path / "new.yaml"
    found = command("step_20", "--run", run, "--write-config", target)
    written = yaml.safe_load(target.read_text())
    assert written == {"seed": 0, "output_dir": f"{run}-from-step_20"}
    assert found["config"] == written
    assert found["argv"][found["argv"].index("--config") + 1] == str(target)
    assert f"resume_from={run / 'step_20'}" in found["argv"]
    error = refused("step_20", "--run", run, "--write-config", tmp_path / "no" / "x.yaml")
    assert error["kind"] == "io"


def test_a_newest_one_without_recipe_state_gives_way_with_a_warning(run: Path) -> None:
    make_checkpoint(run, "step_150", step=150, resumable=False)
    found = command("latest", "--run", run)
    assert found["checkpoint"]["name"] == "step_100"
    assert found["warnings"] == [
        "step_150 is newer but cannot be resumed; this continues step_100."
    ]
    assert "! step_150 is newer" in ok("resume-cmd", "latest", "--run", run).err
    error = refused("step_150", "--run", run)
    assert error["kind"] == "not_resumable"


def test_what_cannot_be_resumed_says_why(run: Path, tmp_path: Path) -> None:
    (run / "step_30" / "recipe_state.json").unlink()
    make_checkpoint(run, "step_150", step=150, marker=False)
    for name in ("step_30", "step_150"):
        assert refused(name, "--run", run)["kind"] == "not_resumable"
        told = ckptui("resume-cmd", name, "--run", run)
        assert (told.code, told.out) == (1, "")
    assert refused("step_1", "--run", run)["kind"] == "not_found"
    weights = make_run(tmp_path / "w", [1], resumable=False)
    assert refused("latest", "--run", weights)["kind"] == "not_resumable"
    ok("rm", "step_10", "--run", run, "--yes")
    (item,) = answer("trash", "list", "--run", run)["items"]
    assert "restore it first" in refused(item["id"], "--run", run)["message"]


def test_unhealthy_weights_are_a_warning(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", [1], nonfinite=["w"])
    assert "NaN" in command("latest", "--run", run)["warnings"][0]


@pytest.mark.parametrize(
    "name", ["a b", "it's", '"q"', "$(touch HACKED)", "`x`;y", "[*]?", "#h", "~", "-n", "é\\n"]
)
def test_any_path_reaches_the_shell_as_it_is(tmp_path: Path, name: str) -> None:
    run = make_run(tmp_path / name, [1])
    fake = tmp_path / "py"
    fake.write_text('#!/bin/sh\nfor w in "$@"; do printf "%s\\n" "$w"; done\n')
    fake.chmod(0o755)
    done = process("resume-cmd", "latest", "--run", run, "--python", fake)
    ran = subprocess.run(["sh"], input=done.stdout, capture_output=True, cwd=tmp_path, check=True)
    assert ran.stdout.decode().splitlines()[-1] == f"output_dir={run}"
    assert not (tmp_path / "HACKED").exists()


def test_a_path_that_is_not_utf8_reaches_the_shell_as_it_is(tmp_path: Path) -> None:
    raw = os.fsencode(tmp_path) + b"/r\xff\x9b"
    make_run(tmp_path / "r", [1]).rename(os.fsdecode(raw))
    for env in ({}, {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"}):
        done = process("resume-cmd", "latest", "--run", raw, env=env)
        assert done.returncode == 0, done
        assert raw in done.stdout
    form = answer("resume-cmd", "latest", "--run", os.fsdecode(raw))
    assert "r\\xff\\x9b" in form["shell"]


def test_a_path_with_a_line_break_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a\nb", [1])
    error = refused("latest", "--run", run)
    assert error["kind"] == "refused"
    told = ckptui("resume-cmd", "latest", "--run", run)
    assert told.out == ""
    assert "\\n" in told.err


def test_a_terminal_is_not_shown_what_it_would_obey(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a\x1b[31mb", [1])
    terminal = Terminal("resume-cmd", "latest", "--run", run)
    assert terminal.end() == 1
    assert "\x1b[31m" not in terminal.text
    assert "\\x1b[31m" in terminal.text
    piped = process("resume-cmd", "latest", "--run", run)
    assert piped.returncode == 0
    assert b"\x1b[31m" in piped.stdout


def test_a_run_without_a_recipe_or_command_is_refused_in_a_sentence(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", [1], recipe=None)
    (run / "step_1" / "recipe_config.yaml").unlink()
    marker = run / "step_1" / "checkpoint.json"
    record = json.loads(marker.read_text())
    record["files"] = [f for f in record["files"] if f["name"] != "recipe_config.yaml"]
    marker.write_text(json.dumps(record))
    error = refused("latest", "--run", run)
    assert error["kind"] == "refused"
    assert "records no command" in error["message"]


def test_unlock_takes_a_dead_owners_lock_and_leaves_a_live_one(run: Path) -> None:
    error = answer("unlock", run, code=1)["error"]
    assert error["kind"] == "not_found"
    with lock.acquire(run, report=print):
        error = answer("unlock", run, code=1)
        forms.check(error, forms.ERROR)
        assert error["error"]["kind"] == "locked"
        content = json.loads(lock.lock_path(run).read_text())
        told = ckptui("unlock", run)
        assert (told.code, told.out) == (1, "")
    lock.lock_path(run).write_text(json.dumps({**content, "pid": 2**22 + 1}))
    assert ok("unlock", run.parent).out == f"unlocked {run}\n"
    assert not lock.lock_path(run).exists()
    lock.lock_path(run).write_text(json.dumps({**content, "pid": 2**22 + 1}))
    assert answer("unlock", run)["run"] == str(run)
