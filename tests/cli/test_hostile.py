"""Names, notes and metrics made to harm: shown in every command and form, never obeyed."""

from __future__ import annotations

import json
import os
import re
import subprocess
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len

from tests.cli.harness import COMMAND, Terminal, environment, ok, process, strict
from tests.factory import make_checkpoint, make_run

if TYPE_CHECKING:
    from pathlib import Path

EVIL = (
    "\x1b]0;t\x07\x1b[2J\x9b31m\x1bP+q\x1b\\"  # titles, colours, questions to the terminal
    "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"  # bidi
    "\u200b\u200c\u200d\u2060\ufeff\U000e0041\ufe0f\U000e0101\u034f\u115f\u3164\u2800"  # unseen
    "\u2028\u2029\x85\r\n\t\x0b\x0c\x00\x08\x7f\xa0\u3000"  # lines and spaces
    "[red]x[/red][@click=app.quit]y[/][link=x]{0}%s$(id)`id`"  # markup and formats
    "\u6f22\u0301"  # wide, and a mark on it
)
HARMFUL = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\xa0\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2000-\u200f"
    "\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb"
    "\U000e0000-\U000e0fff]"
)
"""Everything but the line feed that moves, hides, turns around or speaks to a terminal."""
COMMANDS = [
    "ls {run}",
    "ls {run} --columns name,run,path,note,kept,metrics",
    "ls {run} --sort eval_loss --filter has:eval_loss",
    "ls {run} -q",
    "ls {root} -q",
    "show step_1 --run {run}",
    "show best --run {run}",
    "show latest --run {run}",
    "diff step_1 step_2 --run {run}",
    "diff step_1 step_4 --run {run} --all",
    "metrics {run}",
    "metrics {run} --last 1",
    "metrics {run} --csv",
    "metrics {run} --plot",
    "log {run}",
    "trash list --run {run}",
    "trash restore step_9 --run {run}",
    "trash empty --yes --run {run}",
    "prune {run} --keep-last 1 --dry-run",
    "prune {run} --keep-best 1 --yes",
    "rm step_1 --run {run} --dry-run",
    "rm step_2 --run {run} --yes",
    "verify {run}",
    "verify {run} --full",
    "pin step_2 --run {run}",
    "unpin step_3 --run {run}",
    "browse {run}",
    "show step_77 --run {run}",
    "resume-cmd step_1 --run {run}",
    "save-now {run}",
    "unlock {run}",
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


def harmless(text: str) -> bool:
    """Whether a terminal that gets this text shows it and does nothing else."""
    return HARMFUL.search(text) is None


@pytest.mark.parametrize("line", COMMANDS)
def test_text_is_printable_line_by_line(hostile: Path, line: str) -> None:
    done = process(*line.format(run=hostile, root=hostile.parent).split())
    assert b"Traceback" not in done.stderr
    assert done.returncode in (0, 1)
    for text in (done.stdout.decode(), done.stderr.decode()):
        assert text.replace("\n", "").isprintable(), text
        assert harmless(text), text


JSON_COMMANDS = [
    c for c in COMMANDS if not any(w in c for w in ("--plot", "--csv", "browse", "-q", "save-now"))
]


@pytest.mark.parametrize("line", JSON_COMMANDS)
def test_json_is_strict_and_carries_the_text_itself(hostile: Path, line: str) -> None:
    done = process(*line.format(run=hostile).split(), "--json")
    found = strict(done.stdout.decode())
    if line.startswith("log"):
        assert found["events"][-1]["what"] == EVIL
    if line.startswith("ls"):
        (there,) = found["runs"]
        assert EVIL in there["checkpoints"][0]["metrics"]
        assert "other\\xff\\x9b\n" in there["ignored"]
        assert there["checkpoints"][0]["note"] == EVIL.replace("\x00", "")


@pytest.mark.parametrize(
    "words",
    [
        ["show", "{evil}"],
        ["show", "best:{evil}"],
        ["show", "./{evil}"],
        ["ls", "{evil}"],
        ["ls", "--filter", "{evil}"],
        ["ls", "--filter", "step>{evil}"],
        ["ls", "--sort", "{evil}"],
        ["ls", "--columns", "name,{evil}"],
        ["metrics", "-m", "{evil}"],
        ["prune", "--keep-best", "{evil}"],
        ["prune", "--keep-best", "1:{evil}"],
        ["prune", "--keep-last", "1", "--keep", "{evil}"],
        ["prune", "--keep-within", "{evil}"],
        ["rm", "{evil}"],
        ["pin", "{evil}", "--run-id", "{evil}"],
        ["trash", "restore", "{evil}"],
        ["trash", "empty", "--older-than", "{evil}"],
        ["resume-cmd", "step_1", "--fork", "{evil}", "--write-config", "{evil}"],
        ["diff", "{evil}", "step_1"],
        ["completion", "{evil}"],
        ["{evil}"],
        ["trash", "{evil}"],
        ["--{evil}"],
        ["ls", "--{evil}"],
    ],
)
def test_what_the_line_itself_says_is_shown_too_and_never_obeyed(
    hostile: Path, words: list[str]
) -> None:
    evil = EVIL.replace("\x00", "") + "\udc9b"
    for extra in ([], ["--json"]):
        line = [word.format(evil=evil) for word in words]
        done = process(*line, *extra, cwd=hostile)
        assert b"Traceback" not in done.stderr
        for text in (done.stdout.decode(), done.stderr.decode()):
            if words[0] != "resume-cmd" or done.returncode:
                assert harmless(text), text
    terminal = Terminal(*line[:-1], cwd=hostile)
    terminal.end()
    assert harmless(terminal.text), terminal.text


def test_a_crash_spells_what_it_quotes(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom ckptui.cli import streams\nstreams.prepare()\n"
        "raise AssertionError(sys.argv[1])"
    )
    done = subprocess.run(
        [*COMMAND[:1], "-c", code, EVIL.replace("\x00", "")],
        env=environment(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    assert b"Traceback" in done.stderr
    assert b"\\x1b]0;t\\x07" in done.stderr
    assert harmless(done.stderr.decode())


@pytest.mark.parametrize("name", ["settings\x1b[31m", "漢字"])
def test_wide_names_keep_the_columns_of_every_table_straight(tmp_path: Path, name: str) -> None:
    metrics = {name: 1.0, "e\u0301tat": 2.0, "plain": 3.0}
    run = make_run(
        tmp_path / "漢字 run",
        (1, 20),
        metrics={1: metrics, 20: {"plain": 4.0}},
        rows=[{"step": 1, "attempt": 1, **metrics}],
    )
    ok("pin", "step_1", "--run", run, "--note", name)
    columns = f"name,note,{name},e\u0301tat,step"
    lists: list[list[str | Path]] = [["ls", run, "--columns", columns], ["metrics", run]]
    for words in lists:
        lines = ok(*words).out.rstrip("\n").split("\n")[-2:]
        assert len({cell_len(line) for line in lines}) == 1, lines
    shown = ok("show", "step_1", "--run", run).out.split("metrics here\n")[1].split("\n")[:3]
    assert {cell_len(line.rstrip()) for line in shown} == {2 + 20 + 1 + 1}


@pytest.mark.parametrize("line", COMMANDS)
def test_the_run_itself_may_be_named_by_any_bytes(tmp_path: Path, line: str) -> None:
    raw = os.fsencode(tmp_path) + b"/\x1b[31mr\xff \xe2\x80\xae'\"$(x)"
    make_run(tmp_path / "r", (1, 2, 3), metrics={3: {"eval_loss": 1.0}}).rename(os.fsdecode(raw))
    words = [w.replace("{run}", os.fsdecode(raw)) for w in line.split(" ")]
    words = [w.replace("{root}", str(tmp_path)) for w in words]
    done = process(*words)
    assert done.returncode in (0, 1)
    assert b"Traceback" not in done.stderr
    told = done.stderr if line.startswith("resume-cmd") else done.stdout + done.stderr
    assert told.decode().replace("\n", "").isprintable()
    assert harmless(told.decode())
    if line in JSON_COMMANDS and "trash" not in line and "{run}" in line:
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
