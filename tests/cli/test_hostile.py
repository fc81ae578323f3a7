"""Names, notes and metrics made to harm: shown in every command and form, never obeyed."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from tests.cli.harness import environment, ok, process, strict
from tests.factory import make_checkpoint, make_run

if TYPE_CHECKING:
    from pathlib import Path

EVIL = "\x1b]0;t\x07\x1b[2J\x9b31m\u202e\u2066\r\n\t\x00\x7f\u200b\ufeff\U000e0041[red]x[/red]{0}%s"
COMMANDS = [
    "ls {run}",
    "show step_1 --run {run}",
    "show best --run {run}",
    "metrics {run}",
    "metrics {run} --plot",
    "log {run}",
    "trash list --run {run}",
    "prune {run} --keep-last 1 --dry-run",
    "rm step_1 --run {run} --dry-run",
    "verify {run}",
    "pin step_2 --run {run}",
    "unpin step_3 --run {run}",
    "browse {run}",
    "show step_77 --run {run}",
    "resume-cmd step_1 --run {run}",
]


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A run in which every text that is not a checkpoint's name means harm."""
    run = make_run(
        tmp_path / "run",
        (1, 2, 3),
        metrics={s: {EVIL: float(s), "eval_loss": float(s)} for s in (1, 2, 3)},
        policy=["keep-last 2", "keep-best 1:" + EVIL, EVIL],
        rows=[{"step": 1, EVIL: 1.0, "loss": 2.0}],
        nonfinite=[EVIL],
        parent={"name": EVIL, "path": "/" + EVIL, "run_id": EVIL},
        extra_files={"model-extra.bin": b"x"},
    )
    ok("pin", "step_1", "--run", run, "--note", EVIL.replace("\x00", ""))
    (run / "alias\x1b[31m\u202e").symlink_to("step_1")
    (run / "dangling\n").symlink_to("nowhere\x1b[31m")
    (run / os.fsdecode(b"other\xff\x9b\n")).mkdir()
    (run / ".ckptui" / "trash" / "id\x1b[31m" / "step_9").mkdir(parents=True)
    with (run / ".ckptui" / "journal.jsonl").open("a") as f:
        event = {"what": EVIL, "who": EVIL, "host": EVIL, "checkpoints": [EVIL], "reason": EVIL}
        f.write(json.dumps(event) + "\n")
    marker = make_checkpoint(run, "step_4", step=4) / "checkpoint.json"
    record = json.loads(marker.read_text())
    record["run_id"] = "\ud800" + EVIL
    record["files"].append({"name": EVIL, "size": 3, "digest": EVIL})
    marker.write_text(json.dumps(record))
    return run


@pytest.mark.parametrize("line", COMMANDS)
def test_text_is_printable_line_by_line(hostile: Path, line: str) -> None:
    done = process(*line.format(run=hostile).split())
    assert b"Traceback" not in done.stderr
    assert done.returncode in (0, 1)
    for text in (done.stdout.decode(), done.stderr.decode()):
        assert text.replace("\n", "").isprintable(), text


@pytest.mark.parametrize("line", [c for c in COMMANDS if "--plot" not in c and "browse" not in c])
def test_json_is_strict_and_carries_the_text_itself(hostile: Path, line: str) -> None:
    done = process(*line.format(run=hostile).split(), "--json")
    strict(done.stdout.decode())
    if line.startswith("log"):
        assert strict(done.stdout.decode())["events"][-1]["what"] == EVIL
    if line.startswith("ls"):
        (there,) = strict(done.stdout.decode())["runs"]
        assert EVIL in there["checkpoints"][0]["metrics"]
        assert "other\\xff\\x9b\n" in there["ignored"]
        assert there["checkpoints"][0]["note"] == EVIL.replace("\x00", "")


@pytest.mark.parametrize("line", COMMANDS)
def test_the_run_itself_may_be_named_by_any_bytes(tmp_path: Path, line: str) -> None:
    raw = os.fsencode(tmp_path) + b"/\x1b[31mr\xff \xe2\x80\xae'\"$(x)"
    make_run(tmp_path / "r", (1, 2, 3), metrics={3: {"eval_loss": 1.0}}).rename(os.fsdecode(raw))
    words = [w.replace("{run}", os.fsdecode(raw)) for w in line.split(" ")]
    done = process(*words)
    assert done.returncode in (0, 1)
    assert b"Traceback" not in done.stderr
    told = done.stderr if line.startswith("resume-cmd") else done.stdout + done.stderr
    assert told.decode().replace("\n", "").isprintable()
    if "--plot" not in line and "browse" not in line and "trash" not in line:
        found = strict(process(*words, "--json").stdout.decode())
        assert "\\u001b[31mr\\\\xff" in json.dumps(found)


def test_numbers_that_break_parsers_are_read_and_null(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", [1])
    marker = run / "step_1" / "checkpoint.json"
    text = marker.read_text()
    for token in ("NaN", "-Infinity", "1e400", "9" * 400):
        marker.write_text(text.replace('"metrics": {}', f'"metrics": {{"loss": {token}}}'))
        done = process("ls", run, "--json")
        (found,) = strict(done.stdout.decode())["runs"][0]["checkpoints"]
        assert (found["state"], found["metrics"]) == ("ok", {"loss": None})


def test_deep_or_endless_json_is_one_problem(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", [1, 2])
    for content in ("[" * 100_000, '{"a":' * 50_000, "9" * 10_000, "", "null", "\xff", "[]"):
        for name in ("step_2/checkpoint.json", "run.json"):
            path = run / name
            before = path.read_bytes()
            path.write_text(content, encoding="latin-1")
            done = process("ls", run, "--json")
            assert done.returncode == 0, done
            (there,) = strict(done.stdout.decode())["runs"]
            assert there["checkpoints"][0]["state"] == "ok"
            path.write_bytes(before)


def test_links_that_circle_end(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", [1])
    (run / "loop").symlink_to("loop")
    (run / "up").symlink_to("..")
    (run / "step_1" / "self").symlink_to("../step_1")
    for line in ("ls", "verify"):
        assert process(line, run).returncode == 0
    assert process("ls", run / "loop").returncode == 1


def test_the_environment_may_be_empty(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", [1])
    bare: dict[str, str | None] = dict.fromkeys(environment())
    bare |= {k: v for k, v in environment().items() if k in ("PYTHONPATH", "PATH")}
    for line in ("ls {run}", "metrics {run} --plot", "pin step_1 --run {run}", "log {run}"):
        done = process(*line.format(run=run).split(), env=bare)
        assert done.returncode == 0, done
