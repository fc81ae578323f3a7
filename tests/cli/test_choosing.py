"""`ls` with a filter, an order, chosen columns, or names alone; and the last rows of a log."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli import forms
from tests.cli.harness import Terminal, answer, ckptui, executable, ok, process, shell
from tests.factory import make_checkpoint, make_run

if TYPE_CHECKING:
    from pathlib import Path


def names(*words: str | Path) -> list[str]:
    """The checkpoints that JSON lists, which must be those of the table and of -q."""
    found = answer("ls", *words)
    forms.check(found, forms.LS)
    listed = [c["name"] for run in found["runs"] for c in run["checkpoints"]]
    table = [w for line in ok("ls", *words).out.splitlines() for w in line.split()[:2]]
    assert [w for w in table if w.startswith(("step_", "epoch_"))] == listed
    assert ok("ls", *words, "-q").out.splitlines() == listed
    return listed


@pytest.mark.parametrize(
    ("words", "listed"),
    [
        (["--filter", "eval_loss<0.3"], ["step_30", "step_100"]),
        (["--filter", "step>10 !step=100"], ["step_20", "step_30"]),
        (["--filter", "step=10 | step=100"], ["step_10", "step_100"]),
        (["--filter", "nothing"], []),
        (["--sort", "-step"], ["step_100", "step_30", "step_20", "step_10"]),
        (["--sort=-eval_loss"], ["step_10", "step_20", "step_100", "step_30"]),
        (
            ["--sort", "eval_loss", "--filter", "step_"],
            ["step_30", "step_100", "step_20", "step_10"],
        ),
        ([], ["step_10", "step_20", "step_30", "step_100"]),
    ],
)
def test_table_json_and_names_show_the_same_in_the_same_order(
    run: Path, words: list[str], listed: list[str]
) -> None:
    assert names(run, *words) == listed


def test_what_is_left_out_still_counts_for_how_the_rest_stands(run: Path) -> None:
    (there,) = answer("ls", run, "--filter", "step<=30")["runs"]
    assert there["resume_from"] == "step_100"
    assert [c["latest"] for c in there["checkpoints"]] == [False, False, False]
    assert [c["best"] for c in there["checkpoints"]] == [[], [], ["eval_loss"]]
    heading = ok("ls", run, "--filter", "step<=30").out.splitlines()[0]
    assert heading.startswith(f"{run}   3 of 4 checkpoints   ")
    assert " of " in heading.split("   ")[2]


def test_rows_without_a_value_come_last_either_way(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", (30, 270), metrics={30: {"eval_loss": None}, 270: {}})
    make_checkpoint(run, "step_9", step=9, metrics={"eval_loss": 0.5})
    make_checkpoint(run, "step_8", step=8, metrics={"eval_loss": 0.7})
    assert names(run, "--sort", "eval_loss") == ["step_9", "step_8", "step_30", "step_270"]
    assert names(run, "--sort", "-eval_loss")[:2] == ["step_8", "step_9"]


def test_a_metric_that_no_marker_has_comes_from_the_log_at_just_that_step(run: Path) -> None:
    assert names(run, "--filter", "loss<0.4") == ["step_30", "step_100"]
    assert names(run, "--filter", "loss=0.9") == ["step_10"]
    assert names(run, "--sort", "loss")[0] == "step_100"
    head, *rows = ok("ls", run, "--filter", "loss<0.4").out.splitlines()[1:4]
    assert "loss" in head.split()
    assert "0.3" in rows[0].split()
    assert "loss" not in answer("ls", run)["runs"][0]["checkpoints"][0]["metrics"]


def test_rows_of_an_abandoned_attempt_are_of_another_checkpoint(tmp_path: Path) -> None:
    attempts = [{"attempt": 1, "start_step": 0}, {"attempt": 2, "start_step": 1}]
    rows = [{"step": 2, "attempt": a, "loss": float(a)} for a in (1, 2)]
    run = make_run(tmp_path / "r", attempts=attempts, rows=rows)
    make_checkpoint(run, "step_2", step=2, attempt=2)
    assert names(run, "--filter", "loss=2") == ["step_2"]
    assert names(run, "--filter", "loss=1") == []


def test_a_log_is_not_read_where_no_metric_of_it_is_asked_for(run: Path) -> None:
    (run / "metrics.jsonl").unlink()
    (run / "metrics.jsonl").mkdir()
    assert names(run, "--filter", "eval_loss<0.3 step>0", "--sort", "lr")
    assert ckptui("ls", run, "--filter", "loss<1").code in (0, 1)


def test_a_filter_that_lets_nothing_through_says_so(run: Path) -> None:
    found = ok("ls", run, "--filter", "step>1000")
    assert found.out == ""
    assert found.err == "None of 4 checkpoints matches the filter.\n"


@pytest.mark.parametrize(
    "words", [["--filter", "eval_los<1"], ["--sort", "eval_los"], ["--columns", "name,eval_los"]]
)
def test_a_metric_that_nobody_has_is_told_with_the_near_name(run: Path, words: list[str]) -> None:
    assert (
        "No checkpoint has the metric eval_los; did you mean eval_loss?"
        in ok("ls", run, *words).err
    )
    assert "the metric" not in ok("ls", run, *[w.replace("los", "loss") for w in words]).err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--filter", "step>x"], "column 6: x is no number"),
        (["--filter", "state:okk"], "did you mean ok"),
        (["--sort", ""], "nothing to sort by"),
        (["--sort", "has"], "nothing to sort by"),
        (["--columns", "name,,step"], "Column 2 has no name"),
        (["--columns", "pin"], "pin is no column"),
        (["-q"], "Choose one of --json and -q or -0"),
        (["-0"], "Choose one of --json and -q or -0"),
    ],
)
def test_what_cannot_be_meant_is_wrong_usage(run: Path, words: list[str], says: str) -> None:
    error = answer("ls", run, *words, code=2)
    forms.check(error, forms.ERROR)
    assert says in error["error"]["message"]
    assert error["error"]["kind"] == "usage"


def test_columns_are_those_that_were_named(run: Path) -> None:
    lines = ok("ls", run, "--columns", "step,eval_loss,name,path").out.splitlines()[1:]
    assert [line.split() for line in lines[:2]] == [
        ["step", "eval_loss", "name", "path"],
        ["10", "0.5", "step_10", str(run / "step_10")],
    ]
    whole = answer("ls", run, "--columns", "step")["runs"][0]["checkpoints"][0]
    assert whole == answer("ls", run)["runs"][0]["checkpoints"][0]


def test_names_are_arguments_for_other_commands(run: Path) -> None:
    path = f"{executable(run.parent / 'bin').parent}:{os.environ['PATH']}"
    line = 'ckptui ls -q --filter "eval_loss<0.3" | xargs ckptui pin'
    assert shell(line, cwd=run, PATH=path).stdout == "pinned step_30\npinned step_100\n"
    line = 'ckptui ls -0 --filter "pin:yes" | xargs -0 ckptui unpin'
    assert shell(line, cwd=run, PATH=path).stdout == "unpinned step_30\nunpinned step_100\n"


def test_names_of_several_runs_are_paths_that_work_from_here(tmp_path: Path) -> None:
    for name in ("a b", "deep/er'c"):
        make_run(tmp_path / "out" / name, [1])
    assert ok("ls", tmp_path / "out", "-q").out.splitlines() == [
        f"{tmp_path}/out/a b/step_1",
        f"{tmp_path}/out/deep/er'c/step_1",
    ]
    line = "ckptui ls out -0 | xargs -0 ckptui pin"
    path = f"{executable(tmp_path / 'bin').parent}:{os.environ['PATH']}"
    assert shell(line, cwd=tmp_path, PATH=path).stdout == "pinned step_1\npinned step_1\n"
    made = shell("ckptui ls -q", cwd=tmp_path / "out").stdout.splitlines()
    assert made == ["a b/step_1", "deep/er'c/step_1"]


def test_names_ended_by_nul_are_the_bytes_of_the_disk_and_harm_no_terminal(tmp_path: Path) -> None:
    raw = os.fsencode(tmp_path) + b"/out/r\xff\n\x1b[31m"
    make_run(tmp_path / "out" / "x", [1]).rename(os.fsdecode(raw))
    make_run(tmp_path / "out" / "s", [2])
    *paths, end = process("ls", tmp_path / "out", "-0").stdout.split(b"\0")
    assert sorted(paths) == [raw + b"/step_1", os.fsencode(tmp_path / "out/s/step_2")]
    assert end == b""
    for flag in ("-q", "-0"):
        terminal = Terminal("ls", tmp_path / "out", flag)
        terminal.end()
        assert "r\\xff\\n\\x1b[31m/step_1" in terminal.text
        assert "\x1b" not in terminal.text
    assert len(process("ls", tmp_path / "out", "-q").stdout.splitlines()) == 2


def test_a_reader_that_leaves_is_no_failure(run: Path) -> None:
    done = shell("set -o pipefail; ckptui ls -0 | head -c 3; ckptui ls -q | head -1", cwd=run)
    assert (done.returncode, done.stdout, done.stderr) == (0, "stestep_10\n", "")


def rows(*words: str | Path) -> list[dict[str, Any]]:
    return list(answer("metrics", *words)["rows"])


def test_the_last_rows_of_a_log(run: Path) -> None:
    assert [r["step"] for r in rows(run, "--last", "3")] == [98, 99, 100]
    assert len(rows(run, "--last", "1000")) == 100
    assert [line.split()[0] for line in ok("metrics", run, "--last", "1").out.splitlines()] == [
        "step",
        "100",
    ]
    out = ok("metrics", run, "--csv", "--last", "2", "-m", "loss").out.splitlines()
    assert [line.split(",")[0] for line in out] == ["step", "99", "100"]
    for bad in ("0", "-1", "x"):
        assert ckptui("metrics", run, "--last", bad).code == 2


def test_the_last_rows_are_those_that_have_the_metric(tmp_path: Path) -> None:
    logged = [{"step": s, "attempt": 1, "loss": 1.0} for s in range(1, 9)]
    logged[3]["eval_loss"] = 2.0
    run = make_run(tmp_path / "r", rows=logged)
    assert [r["step"] for r in rows(run, "-m", "eval_loss", "--last", "2")] == [4]
