"""On a terminal: questions, interrupts, and nothing that the terminal would obey."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from tests.cli.harness import COMMAND, Terminal, environment, names, ok, process, strict, tree
from tests.factory import make_run

if TYPE_CHECKING:
    from pathlib import Path

RULES = ("--keep-last", "1")


@pytest.mark.parametrize("key", ["n\r", "\r", "\x04", "no\r", "yikes\r"])
def test_a_declined_question_is_exit_1_and_removes_nothing(run: Path, key: str) -> None:
    terminal = Terminal("prune", run, *RULES)
    terminal.wait_for("[y/N] ")
    assert f"Move 3 checkpoints of {run} to the trash (" in terminal.text
    terminal.type(key)
    assert terminal.end() == 1
    assert "Nothing was removed." in terminal.text
    assert len(names(run)) == 4


@pytest.mark.parametrize("key", ["y\r", "Y\r", "yes\r"])
def test_a_confirmed_question_goes_ahead(run: Path, key: str) -> None:
    terminal = Terminal("prune", run, *RULES)
    terminal.wait_for("[y/N] ")
    terminal.type(key)
    assert terminal.end() == 0
    assert names(run) == ["step_100"]


def test_the_question_names_size_and_that_it_cannot_be_undone(run: Path) -> None:
    terminal = Terminal("rm", "step_10", "--run", run, "--delete")
    terminal.wait_for("[y/N] ")
    assert f"Delete 1 checkpoint of {run} for good (1.2 kB)? [y/N] " in terminal.text
    terminal.type("n\r")
    assert terminal.end() == 1
    assert len(names(run)) == 4


def test_the_question_comes_through_where_only_stdout_is_a_pipe(run: Path, tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as f:
        terminal = Terminal("prune", run, *RULES, stdout=f.fileno())
        terminal.wait_for("[y/N] ")
        terminal.type("y\r")
        assert terminal.end() == 0
    out = (tmp_path / "out").read_text()
    assert "remove 3" in out
    assert "moved 3 checkpoints" in out
    assert "[y/N]" not in out


def test_no_question_where_nothing_would_go(run: Path) -> None:
    terminal = Terminal("prune", run, "--keep-last", "9")
    assert terminal.end() == 0
    assert "[y/N]" not in terminal.text


def test_emptying_the_trash_asks(run: Path) -> None:
    ok("rm", "step_10", "step_20", "--run", run, "--yes")
    terminal = Terminal("trash", "empty", "--run", run)
    terminal.wait_for("[y/N] ")
    assert f"Delete 2 items of {run} for good (" in terminal.text
    terminal.type("n\r")
    assert terminal.end() == 1
    again = Terminal("trash", "empty", "--run", run)
    again.wait_for("[y/N] ")
    again.type("y\r")
    assert again.end() == 0
    assert "deleted step_20" in again.text


def test_ctrl_c_at_the_question_is_130_and_removes_nothing(run: Path) -> None:
    terminal = Terminal("prune", run, *RULES)
    terminal.wait_for("[y/N] ")
    terminal.type("\x03")
    assert terminal.end() == 130
    assert "Interrupted." in terminal.text
    assert "Traceback" not in terminal.text
    assert len(names(run)) == 4


@pytest.mark.parametrize("delete", [[], ["--delete"]])
def test_ctrl_c_while_pruning_stops_after_the_removal_at_work(
    tmp_path: Path, delete: list[str]
) -> None:
    run = make_run(tmp_path / "r", range(1, 101))
    whole = {n: tree(run / n) for n in names(run)}
    process_ = subprocess.Popen(
        [*COMMAND, "prune", run, *RULES, "--yes", *delete],
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    end = time.monotonic() + 30
    while len(names(run)) > 95 and time.monotonic() < end:
        time.sleep(0.002)
    process_.send_signal(signal.SIGINT)
    out, err = process_.communicate(timeout=60)
    assert process_.returncode == 130, (out, err)
    assert b"Interrupted; what is done is done" in err
    assert b"Traceback" not in err
    left = names(run)
    assert 1 < len(left) <= 95
    assert {n: tree(run / n) for n in left} == {n: whole[n] for n in left}
    trash = [i.name for i in (run / ".ckptui" / "trash").iterdir()]
    assert len(trash) == (0 if delete else 100 - len(left))
    assert not [i for i in trash if i.endswith(".deleting")]
    assert process("prune", run, *RULES, "--yes").returncode == 0
    assert names(run) == ["step_100"]


def test_ctrl_c_answers_in_json_with_what_was_done(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", range(1, 101))
    process_ = subprocess.Popen(
        [*COMMAND, "prune", run, *RULES, "--yes", "--json"],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while len(names(run)) > 95:
        time.sleep(0.002)
    process_.send_signal(signal.SIGINT)
    out, _ = process_.communicate(timeout=60)
    assert process_.returncode == 130
    done = strict(out)["results"]
    assert len(done) == 100 - len(names(run))


def test_ctrl_c_while_verifying_is_130_without_a_traceback(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", [1])
    with (run / "step_1" / "hole").open("wb") as f:
        f.truncate(2**38)
    marker = run / "step_1" / "checkpoint.json"
    record = json.loads(marker.read_text())
    record["files"].append({"name": "hole", "size": 2**38, "digest": "xxh3_128:0"})
    marker.write_text(json.dumps(record))
    terminal = Terminal("verify", run, "--full")
    terminal.wait_for(" of 274.9 GB")
    terminal.type("\x03")
    assert terminal.end() == 130
    assert "Interrupted." in terminal.text
    assert "Traceback" not in terminal.text


def test_notes_and_names_are_shown_and_never_obeyed(tmp_path: Path) -> None:
    evil = "\x1b]0;title\x07\x1b[2J\x9b31m\u202e\r\n\t[red]x[/red]"
    run = make_run(
        tmp_path / "a\x1b[31mb",
        (1, 2),
        metrics={1: {evil: 1.0}, 2: {evil: 2.0}},
        rows=[{"step": 1, evil: 1.0}],
    )
    ok("pin", "step_1", "--run", run, "--note", evil)
    lines: list[list[str | Path]] = [
        ["ls", run],
        ["show", "step_1", "--run", run],
        ["metrics", run],
        ["metrics", run, "--plot"],
        ["log", run],
        ["verify", run],
        ["prune", run, "--keep-last", "1", "--dry-run"],
        ["rm", "step_9", "--run", run],
        ["trash", "list", "--run", run],
        ["show", "best:" + evil, "--run", run],
    ]
    for words in lines:
        terminal = Terminal(*words)
        terminal.end()
        shown = terminal.text.replace("\n", "")
        assert shown.isprintable(), (words, [c for c in shown if not c.isprintable()])


def test_browse_off_a_terminal_or_on_a_dumb_one_prints_the_listing(run: Path) -> None:
    listing = process("ls", run).stdout
    assert process("browse", run).stdout == listing
    dumb = Terminal("browse", run, env={"TERM": "dumb"})
    assert dumb.end() == 0
    assert dumb.text == listing.decode()


def test_browse_of_a_missing_path_is_told_before_anything_is_drawn(tmp_path: Path) -> None:
    terminal = Terminal("browse", tmp_path / "none")
    assert terminal.end() == 1
    assert terminal.text == f"ckptui: There is no {tmp_path / 'none'}.\n"
