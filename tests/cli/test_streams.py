"""Pipes, locales, closed and full streams: the work is done, and nothing is thrown at the user."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.cli.harness import COMMAND, Terminal, environment, names, ok, process, shell, strict
from tests.factory import make_run

if TYPE_CHECKING:
    from pathlib import Path

READING = ["ls {run}", "show latest --run {run}", "metrics {run}", "metrics {run} --csv"]
READING += ["metrics {run} --plot", "log {run}", "verify {run}", "trash list --run {run}"]
READING += ["prune {run} --keep-last 1 --dry-run", "resume-cmd latest --run {run}", "browse {run}"]
READING += ["--help", "prune --help", "--version"]


@pytest.mark.parametrize("line", READING)
def test_ascii_terminals_get_ascii(run: Path, line: str) -> None:
    done = process(*line.format(run=run).split(), env={"LC_ALL": "C", "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0, done
    assert (done.stdout + done.stderr).isascii()


@pytest.mark.parametrize("line", READING)
def test_narrow_and_dumb_terminals_get_full_names(run: Path, line: str) -> None:
    for env in ({"COLUMNS": "20"}, {"TERM": "dumb"}, {"NO_COLOR": "1"}, {"COLUMNS": "1"}):
        done = process(*line.format(run=run).split(), env=env)
        assert done.returncode == 0, done
        assert b"\x1b" not in done.stdout + done.stderr
        assert b"Traceback" not in done.stderr
        if "--help" not in line and line.split()[0] in ("ls", "verify", "browse", "prune"):
            assert b"step_100" in done.stdout


def test_a_reader_that_leaves_is_no_failure(tmp_path: Path) -> None:
    rows = [{"step": s, "loss": 1.0} for s in range(20_000)]
    run = make_run(tmp_path / "r", range(1, 200), rows=rows)
    for line in (
        f"ls {run}",
        f"ls {run} --json",
        f"metrics {run}",
        f"metrics {run} --csv",
        f"metrics {run} --json",
        f"prune {run} --keep-last 1 --dry-run",
        f"show latest --run {run}",
        "--help",
    ):
        for reader in ("head -c 1", "true"):
            done = shell(f"ckptui {line} | {reader}; echo ${{PIPESTATUS[0]}}", cwd=tmp_path)
            assert done.stdout.splitlines()[-1].endswith("0"), (line, done)
            assert done.stderr == "", line


def test_a_listing_ends_with_its_first_line_where_no_more_is_read(run: Path) -> None:
    done = shell(f"ckptui ls {run} | head -1; echo ${{PIPESTATUS[0]}}", cwd=run)
    first, code = done.stdout.splitlines()
    assert first.startswith(f"{run}   4 checkpoints")
    assert (code, done.stderr) == ("0", "")


def test_pruning_goes_on_though_nobody_reads_its_plan(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", range(1, 60))
    done = shell(
        f"ckptui prune {run} --keep-last 1 --yes | true; echo ${{PIPESTATUS[0]}}", cwd=tmp_path
    )
    assert done.stdout == "0\n"
    assert names(run) == ["step_59"]


def test_a_check_that_nobody_reads_to_its_end_does_not_claim_success(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", range(1, 60))
    done = shell(f"ckptui verify {run} | true; echo ${{PIPESTATUS[0]}}", cwd=tmp_path)
    assert done.stdout == "1\n"
    assert "Traceback" not in done.stderr


def test_stderr_that_nobody_reads_stops_nothing(run: Path) -> None:
    done = shell(
        f"ckptui prune {run} --keep-last 1 --yes 2>&1 >/dev/null | true; echo ${{PIPESTATUS[0]}}",
        cwd=run,
    )
    assert done.stdout == "0\n"
    assert names(run) == ["step_100"]


@pytest.mark.parametrize("closing", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_stop_nothing(run: Path, closing: str) -> None:
    for line in (
        f"ls {run}",
        f"ls {run} --json",
        f"show latest --run {run}",
        f"metrics {run} --csv",
        f"verify {run} --full",
        f"pin step_10 --run {run}",
        f"prune {run} --keep-last 2 --yes",
        f"resume-cmd latest --run {run}",
        f"browse {run}",
        "--help",
    ):
        done = shell(f"ckptui {line} {closing}; echo $?", cwd=run.parent)
        assert done.stdout.splitlines()[-1] == "0", (line, done)
        assert "Traceback" not in done.stderr
    assert names(run) == ["step_10", "step_30", "step_100"]
    usage = shell(f"ckptui nonsense {closing}; echo $?", cwd=run)
    assert usage.stdout.splitlines()[-1] == "2"


def test_a_closed_stdin_is_nobody_to_ask(run: Path) -> None:
    done = shell(f"ckptui prune {run} --keep-last 1 <&-; echo $?", cwd=run)
    assert done.stdout.splitlines()[-1] == "2"
    assert len(names(run)) == 4


@pytest.mark.parametrize("line", ["ls {run}", "ls {run} --json", "metrics {run} --csv", "--help"])
def test_a_full_disk_behind_stdout_is_exit_1_and_a_sentence(run: Path, line: str) -> None:
    done = shell(f"ckptui {line.format(run=run)} > /dev/full; echo $?", cwd=run)
    assert done.stdout == "1\n"
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 1


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8", "cp1252", "utf-16"])
def test_json_is_the_same_in_every_encoding_that_holds_ascii(run: Path, encoding: str) -> None:
    ok("pin", "step_10", "--run", run, "--note", "é 漢 \U0001f600")
    done = process("ls", run, "--json", env={"PYTHONIOENCODING": encoding})
    found = strict(done.stdout.decode(encoding))
    assert found["runs"][0]["checkpoints"][0]["note"] == "é 漢 \U0001f600"
    text = process("ls", run, env={"PYTHONIOENCODING": encoding})
    assert text.returncode == 0


def test_off_a_terminal_there_is_no_colour_even_if_asked(run: Path) -> None:
    for env in ({"FORCE_COLOR": "1"}, {"CLICOLOR_FORCE": "1"}, {"PY_COLORS": "1"}):
        for line in (["ls", run], ["prune", run, "--keep-last", "1", "--dry-run"], ["--help"]):
            assert b"\x1b" not in process(*line, env=env).stdout


def test_json_on_a_terminal_is_the_same_object(run: Path) -> None:
    terminal = Terminal("ls", run, "--json")
    assert terminal.end() == 0
    piped = strict(process("ls", run, "--json").stdout.decode())
    assert strict(terminal.text) == piped
    assert len(terminal.text.splitlines()) > 10


def test_stdout_and_stderr_are_kept_apart(run: Path) -> None:
    done = process("prune", run, "--keep-last", "1", "--yes", "--json")
    assert strict(done.stdout.decode())["executed"] is True
    quiet = process("resume-cmd", "step_100", "--run", run)
    assert quiet.stdout.count(b"\n") == 1


def test_warnings_of_python_are_not_part_of_an_answer(run: Path) -> None:
    done = subprocess.run(
        [COMMAND[0], "-X", "dev", "-W", "error", "-m", "ckptui", "ls", run],
        env=environment(),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
