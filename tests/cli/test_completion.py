"""What is offered in each place of a line; `test_shells.py` has the shells themselves do it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from typing import TYPE_CHECKING

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptui.cli import completion, main
from ckptui.cli.shells import quoted, split_line
from tests.cli.harness import COMMAND, environment, ok, shell
from tests.factory import make_checkpoint, make_run

if TYPE_CHECKING:
    from pathlib import Path

START = [*COMMAND[:1], "-c", "from ckptui.cli import main; main(prog_name='ckptui')"]


def answered(kind: str, *, cwd: Path, **env: str | None) -> list[list[str]]:
    """The lines that a shell gets: kind, value, help."""
    whole = environment(**{"_CKPTUI_COMPLETE": f"{kind}_complete", **env})
    done = subprocess.run(START, cwd=cwd, env=whole, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) in ((0, ""), (1, "")), done
    return [row.split("\t") for row in done.stdout.splitlines() if row]


def completed(line: str, *, cwd: Path, **env: str | None) -> list[str]:
    """What is offered for the last word of a line; a line that ends in a space begins one."""
    read = split_line(line)
    words = "\x1f".join((*read.words, read.last))
    return [row[1] for row in answered("zsh", cwd=cwd, COMP_WORDS=words, **env)]


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """A run whose markers and log have metrics of simple and of odd names."""
    names = ("eval_loss", "odd name", "size", "a|b", "it's")
    return make_run(
        tmp_path / "m",
        (10, 20),
        metrics={20: dict.fromkeys(names, 1.0)},
        rows=[{"step": 1, "attempt": 1, "time": "x", "loss": 1.0}],
    )


METRICS = ["a|b", "eval_loss", "it's", "loss", "odd name", "size"]


def test_commands_and_options_are_completed(tmp_path: Path) -> None:
    assert completed("ckptui p", cwd=tmp_path) == ["pin", "prune"]
    assert "resume-cmd" in completed("ckptui ", cwd=tmp_path)
    assert completed("ckptui trash ", cwd=tmp_path) == ["list", "restore", "empty"]
    assert completed("ckptui config ", cwd=tmp_path) == ["show", "path"]
    assert completed("ckptui completion ", cwd=tmp_path) == ["bash", "zsh", "fish"]
    keep = completed("ckptui prune --keep", cwd=tmp_path)
    assert {"--keep", "--keep-last", "--keep-every", "--keep-best", "--keep-within"} <= set(keep)


def test_commands_come_with_their_help_and_are_not_imported(tmp_path: Path) -> None:
    rows = answered("fish", cwd=tmp_path, COMP_WORDS="ckptui\x1fpi")
    assert rows == [["plain", "pin", "Protect checkpoints against removal."]]
    code = START[-1].replace("main(", "exit_code = None\ntry:\n    main(", 1)
    code = "import json, sys\nfrom ckptui.cli import main\ntry:\n    main(prog_name='ckptui')\n"
    code += "except SystemExit:\n    sys.stderr.write(json.dumps(sorted(sys.modules)))"
    env = environment(_CKPTUI_COMPLETE="zsh_complete", COMP_WORDS="ckptui\x1f")
    done = subprocess.run([*COMMAND[:1], "-c", code], env=env, capture_output=True, check=True)
    found = set(json.loads(done.stderr))
    assert not found & {"ckptui.scan", "ckptui.cli.pruning", "ckptui.cli.listing", "textual"}


@pytest.mark.parametrize(
    "command", ["show", "pin", "unpin", "rm", "resume-cmd", "prune --keep", "diff", "diff step_9"]
)
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
    assert completed(f"ckptui show --run {run}/step_1 step", cwd=away) == ["step_1"]
    assert completed("ckptui show --run ~/r step", cwd=away, HOME=str(tmp_path)) == ["step_1"]
    assert completed("ckptui show step", cwd=away, CKPTUI_RUN=str(other)) == ["step_2"]
    assert completed("ckptui pin step_2 step", cwd=other) == ["step_2"]
    assert completed("ckptui show step", cwd=run / "step_1") == ["step_1"]


def test_the_only_run_below_is_found_and_of_two_none(tmp_path: Path) -> None:
    root = tmp_path / "root"
    make_run(root / "deep" / "er" / "r", [1])
    (root / ".hidden").mkdir()
    make_run(root / ".hidden" / "r", [2])
    assert completed("ckptui show step", cwd=root) == ["step_1"]
    make_run(root / "s", [2])
    assert completed("ckptui show step", cwd=root) == []
    assert completed(f"ckptui show --run {root} step", cwd=root) == []


def test_where_no_run_is_there_is_nothing_to_offer_and_no_noise(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert completed("ckptui show step", cwd=empty) == []
    assert completed(f"ckptui show --run {empty}/none step", cwd=empty) == []
    for place in ("metrics -m ", "prune --keep-best 1:", "trash restore "):
        assert completed(f"ckptui {place}", cwd=empty) == []


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("ckptui show ./st", "dir"),
        ("ckptui ls ou", "dir"),
        ("ckptui metrics ", "dir"),
        ("ckptui show --run ou", "dir"),
        ("ckptui resume-cmd latest --write-config ", "file"),
    ],
)
def test_paths_are_left_to_the_shell(tmp_path: Path, line: str, kind: str) -> None:
    words = "\x1f".join(line.split(" "))
    assert [row[0] for row in answered("zsh", cwd=tmp_path, COMP_WORDS=words)] == [kind]


def test_what_lies_in_the_trash_is_completed(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", (1, 2, 3))
    ok("rm", "step_1", "--run", run, "--yes")
    (item,) = (run / ".ckptui" / "trash").iterdir()
    for command in ("restore", "empty"):
        assert completed(f"ckptui trash {command} ", cwd=run) == ["step_1", item.name]


def test_names_that_a_shell_line_cannot_hold_are_left_out(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", [1], metrics={1: {"a\tb": 1.0, "c\u202e": 1.0, "d\x1b": 1.0}})
    for name in ("a\nb", "c\x1b[31m", "d\u200b", os.fsdecode(b"e\xff")):
        (run / ".ckptui" / "trash" / name / "step_9").mkdir(parents=True)
    assert completed("ckptui trash restore ", cwd=run) == []
    assert completed("ckptui metrics -m ", cwd=run) == []


def test_metrics_are_completed(measured: Path) -> None:
    assert completed("ckptui metrics -m ", cwd=measured) == METRICS
    assert completed(f"ckptui metrics {measured} --metric eval", cwd=measured.parent) == [
        "eval_loss"
    ]
    assert completed("ckptui show best:eval", cwd=measured) == ["best:eval_loss"]


def test_a_damaged_log_or_marker_costs_only_itself(measured: Path) -> None:
    (measured / "metrics.jsonl").write_text('[1]\n{"step": 1, "tail": 2}\n{"torn": ')
    (measured / "step_20" / "checkpoint.json").write_text("[" * 100_000)
    assert completed("ckptui metrics -m ", cwd=measured) == ["tail"]
    (measured / "metrics.jsonl").unlink()
    os.mkfifo(measured / "metrics.jsonl")
    assert completed("ckptui metrics -m ", cwd=measured) == []


def test_of_a_long_log_only_the_end_is_read(measured: Path) -> None:
    rows = '{"step": 1, "first": 1}\n' + '{"step": 2, "last": 1}\n' * 10_000
    (measured / "metrics.jsonl").write_text(rows)
    found = completed("ckptui metrics -m ", cwd=measured)
    assert "last" in found
    assert "first" not in found


def test_after_the_count_of_keep_best_come_metric_and_direction(measured: Path) -> None:
    assert completed("ckptui prune --keep-best ", cwd=measured) == []
    assert completed("ckptui prune --keep-best 2:", cwd=measured) == [f"2:{m}" for m in METRICS]
    assert completed("ckptui prune --keep-best 2:ev", cwd=measured) == ["2:eval_loss"]
    ends = ["2:eval_loss:min", "2:eval_loss:max"]
    assert completed("ckptui prune --keep-best 2:eval_loss:", cwd=measured) == ends
    assert completed("ckptui prune --keep-best 2:eval_loss:ma", cwd=measured) == ends[1:]
    assert completed("ckptui prune --keep-best=2:ev", cwd=measured) == ["--keep-best=2:eval_loss"]


def test_orders_and_columns_are_completed(measured: Path) -> None:
    fields = completed("ckptui ls --sort ", cwd=measured)
    assert {"step", "size", "age", "state", "name", "eval_loss", "'size'"} <= set(fields)
    assert completed("ckptui ls --sort ev", cwd=measured) == ["eval_loss"]
    assert completed("ckptui ls --sort -ev", cwd=measured) == ["-eval_loss"]
    assert completed("ckptui ls --sort=-ev", cwd=measured) == ["--sort=-eval_loss"]
    assert completed("ckptui ls --columns name,ev", cwd=measured) == ["name,eval_loss"]
    assert "name,name" not in completed("ckptui ls --columns name,", cwd=measured)


def test_the_last_term_of_a_filter_is_completed(measured: Path) -> None:
    def offered(text: str) -> list[str]:
        return completed(f'ckptui ls --filter "{text}', cwd=measured)

    assert offered("step>1 sta") == ["step>1 state:", "step>1 state="]
    assert offered("eval")[:2] == ["eval_loss<", "eval_loss<="]
    assert offered("!has:ev") == ["!has:eval_loss"]
    assert offered("step>1|state:o") == ["step>1|state:ok"]
    assert offered("nan:ev") == ["nan:eval_loss"]
    assert offered("pin=") == ["pin=yes", "pin=no"]
    everything = offered("")
    assert {"'odd name'<", "'size'=", "'a|b'>"} <= set(everything)
    assert '\\"it\'s\\"<' not in everything
    assert {"note:", "created>=", "has:"} <= set(everything)


def test_every_offered_filter_is_one(measured: Path) -> None:
    from ckptui.filters import parse_filter

    values = {"age": "2h", "size": "1G", "created": "2026-01-31", "state": "ok", "pin": "yes"}
    values["nan"] = "loss"
    for text in completed("ckptui ls --filter ", cwd=measured):
        field = text.rstrip("<>=:")
        parse_filter(text + values.get(field, "1"))


def test_no_checkpoint_is_looked_at_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "r")
    for step in range(5000):
        (run / f"step_{step}").mkdir()
    looked: list[object] = []
    for name in ("stat", "lstat", "open"):
        real = getattr(os, name)

        def counted(*words: object, real: object = real, **more: object) -> object:
            looked.append(words[0])
            assert callable(real)
            return real(*words, **more)

        monkeypatch.setattr(os, name, counted)
    context = click.Context(main, info_name="ckptui")
    context.params["run"] = str(run)
    parameter = click.Argument(["name"])
    found = completion.complete_checkpoint(context, parameter, "step_4")
    assert len(found) == 1111
    completion.complete_metric(context, parameter, "")
    assert len(looked) < 30


def test_five_thousand_checkpoints_are_completed_while_nobody_waits(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r")
    for step in range(5000):
        (run / f"step_{step}").mkdir()

    def took(line: str) -> float:
        began = time.perf_counter()
        completed(line, cwd=run)
        return time.perf_counter() - began

    bare = min(took("ckptui completion ") for _ in range(3))
    full = min(took("ckptui show step_4") for _ in range(3))
    assert full < bare + 0.3


@pytest.mark.parametrize("kind", ["bash", "zsh", "fish"])
def test_the_scripts_for_the_shells_come_out(tmp_path: Path, kind: str) -> None:
    done = subprocess.run(
        START,
        env=environment(_CKPTUI_COMPLETE=f"{kind}_source"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "_CKPTUI_COMPLETE" in done.stdout
    assert ok("completion", kind).out == done.stdout


def test_bash_gets_the_piece_that_it_replaces_in_quotes(measured: Path) -> None:
    def offered(line: str, piece: str) -> list[str]:
        rows = answered("bash", cwd=measured, COMP_LINE=line, COMP_TEXT=piece)
        return [row[1] for row in rows]

    assert offered("ckptui prune --keep-best 1:ev", "ev") == ["eval_loss"]
    assert offered("A=1 B='x y' ckptui metrics -m o", "o") == ["odd\\ name"]
    assert offered('ckptui metrics -m "o', "o") == ["odd name"]
    assert offered("ckptui metrics -m 'o", "o") == ["odd name"]
    assert offered("ckptui metrics -m i", "i") == ["it\\'s"]
    assert offered("ckptui metrics -m 'i", "i") == []
    assert offered("ckptui show \\\n step_1", "step_1") == ["step_10"]


texts = st.text(st.sampled_from(["a", " ", "'", '"', "\\", "$", "`", "!", "*", "~", "é", ":"]))


@given(texts)
def test_what_is_quoted_is_read_as_one_word_again(text: str) -> None:
    for quote in ("", "'", '"'):
        shown = quoted(text, quote)
        if shown is not None:
            read = split_line(f"x {quote}{shown}{quote}")
            assert (read.last, read.quote, read.words) == (text, "", ("x",))


def test_bash_reads_what_is_quoted_as_it_was_meant(tmp_path: Path) -> None:
    text = "a b'c\"d$(touch x)`touch y`*!~é:;&|<>#\\"
    words = [f"{q}{quoted(t, q)}{q}" for q, t in (("", text), ('"', text.replace("!", "")))]
    done = shell(f"printf '%s\\n' {' '.join(words)}", cwd=tmp_path)
    assert done.stdout.splitlines() == [text, text.replace("!", "")]
    assert list(tmp_path.iterdir()) == [tmp_path / "away"]
