"""Completion in bash, through click's own mechanism: commands, options and checkpoint names."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.cli.harness import COMMAND, environment, ok, shell
from tests.factory import make_checkpoint, make_run

if TYPE_CHECKING:
    from pathlib import Path


def completed(line: str, *, cwd: Path, **env: str | None) -> list[str]:
    """What bash is offered for the last word of a line; a line that ends in a space begins one."""
    words = line.split(" ")
    done = subprocess.run(
        [*COMMAND[:1], "-c", "from ckptui.cli import main; main(prog_name='ckptui')"],
        cwd=cwd,
        env=environment(
            COMP_WORDS=line, COMP_CWORD=str(len(words) - 1), _CKPTUI_COMPLETE="bash_complete", **env
        ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) in ((0, ""), (1, "")), done
    return [row.partition(",")[2] for row in done.stdout.splitlines() if row]


def test_commands_and_options_are_completed(tmp_path: Path) -> None:
    assert completed("ckptui p", cwd=tmp_path) == ["pin", "prune"]
    assert "resume-cmd" in completed("ckptui ", cwd=tmp_path)
    assert completed("ckptui trash ", cwd=tmp_path) == ["list", "restore", "empty"]
    keep = completed("ckptui prune --keep", cwd=tmp_path)
    assert {"--keep", "--keep-last", "--keep-every", "--keep-best", "--keep-within"} <= set(keep)


@pytest.mark.parametrize("command", ["show", "pin", "unpin", "rm", "resume-cmd", "prune --keep"])
def test_checkpoint_names_are_completed_in_numeric_order(tmp_path: Path, command: str) -> None:
    run = make_run(tmp_path / "r", (1000, 9, 70))
    make_checkpoint(run, "step_8", step=8, marker=False)
    (run / "step_x").mkdir()
    names = ["step_8", "step_9", "step_70", "step_1000"]
    assert completed(f"ckptui {command} ", cwd=run) == [*names, "latest", "best"]
    assert completed(f"ckptui {command} step_1", cwd=run) == ["step_1000"]
    assert completed(f"ckptui {command} l", cwd=run) == ["latest"]


def test_the_run_of_the_line_or_the_environment_is_looked_at(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", [1])
    other = make_run(tmp_path / "s", [2])
    away = tmp_path / "away"
    assert completed(f"ckptui show --run {run} step", cwd=away) == ["step_1"]
    assert completed("ckptui show step", cwd=away, CKPTUI_RUN=str(other)) == ["step_2"]
    assert completed("ckptui pin step_2 step", cwd=other) == ["step_2"]


def test_where_no_run_is_there_is_nothing_to_offer_and_no_noise(tmp_path: Path) -> None:
    assert completed("ckptui show step", cwd=tmp_path) == []
    assert completed(f"ckptui show --run {tmp_path}/none step", cwd=tmp_path) == []


def test_paths_are_left_to_the_shell(tmp_path: Path) -> None:
    assert completed("ckptui show ./st", cwd=tmp_path) == ["./st"]


def test_what_lies_in_the_trash_is_completed(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", (1, 2, 3))
    ok("rm", "step_1", "--run", run, "--yes")
    (item,) = (run / ".ckptui" / "trash").iterdir()
    for command in ("restore", "empty"):
        assert completed(f"ckptui trash {command} ", cwd=run) == ["step_1", item.name]


def test_names_that_a_shell_line_cannot_hold_are_left_out(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", [1])
    (run / ".ckptui" / "trash" / "a\nb" / "step_9").mkdir(parents=True)
    assert completed("ckptui trash restore ", cwd=run) == []


@pytest.mark.parametrize("kind", ["bash", "zsh", "fish"])
def test_the_scripts_for_the_shells_come_out(tmp_path: Path, kind: str) -> None:
    done = subprocess.run(
        [*COMMAND[:1], "-c", "from ckptui.cli import main; main(prog_name='ckptui')"],
        env=environment(_CKPTUI_COMPLETE=f"{kind}_source"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "_CKPTUI_COMPLETE" in done.stdout


def test_bash_itself_completes_with_the_script(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", (10, 20))
    command = tmp_path / "bin" / "ckptui"
    command.parent.mkdir()
    start = "from ckptui.cli import main; main(prog_name='ckptui')"
    command.write_text(f'#!/bin/sh\nexec {COMMAND[0]} -c "{start}" "$@"\n')
    command.chmod(0o755)
    line = f"""unset -f ckptui; PATH={command.parent}:$PATH
    eval "$(_CKPTUI_COMPLETE=bash_source ckptui)"
    COMP_WORDS=(ckptui show step_); COMP_CWORD=2; COMPREPLY=()
    _ckptui_completion ckptui; printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = shell(line, cwd=run)
    assert done.stdout.split() == ["step_10", "step_20"], done
