"""Exit codes, sentences and the JSON form of everything that goes wrong as a whole."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING

import pytest

from ckptui.__main__ import start
from tests.cli import forms
from tests.cli.harness import HERE, ckptui, environment, ok, process, strict
from tests.factory import make_run

if TYPE_CHECKING:
    from pathlib import Path

USAGE = [
    ["nonsense"],
    [""],
    ["--nonsense"],
    ["ls", "--nonsense"],
    ["ls", "a", "b"],
    ["ls", ""],
    ["ls", "--depth", "many"],
    ["show"],
    ["show", ""],
    ["show", "a", "b"],
    ["show", "latest", "--run"],
    ["show", "latest", "--run", ""],
    ["pin"],
    ["pin", "-5"],
    ["unpin", "--note", "x", "latest"],
    ["rm"],
    ["rm", "-1", "--yes"],
    ["trash", "nonsense"],
    ["trash", "restore"],
    ["trash", "empty", "--older-than", "week"],
    ["prune", "--keep-last", "1", "a", "b"],
    ["prune"],
    ["metrics", "a", "b"],
    ["metrics", "--metric"],
    ["verify", "--fully"],
    ["resume-cmd"],
    ["resume-cmd", "latest", "--fork", "x", "--in-place"],
    ["unlock"],
    ["log", "--all"],
    ["demo", "--output"],
    ["browse", "a", "b"],
]


@pytest.mark.parametrize("words", USAGE, ids=" ".join)
def test_wrong_usage_is_exit_2_with_one_sentence(words: list[str]) -> None:
    found = ckptui(*words)
    assert found.code == 2, found
    assert found.out == ""
    first, *rest = found.err.splitlines()
    assert first.startswith("ckptui: ")
    assert first.endswith((".", "?"))
    assert [r for r in rest if not r.startswith("See ckptui")] == []


@pytest.mark.parametrize("words", USAGE, ids=" ".join)
def test_wrong_usage_is_json_where_json_is_among_the_arguments(words: list[str]) -> None:
    found = ckptui(*words[:1], "--json", *words[1:])
    assert found.code == 2, found
    error = strict(found.out)
    forms.check(error, forms.ERROR)
    assert error["error"]["kind"] == "usage"
    assert found.err == ""


def test_json_after_the_end_of_options_is_a_word() -> None:
    found = ckptui("ls", "--", "--json", "x")
    assert (found.code, found.out) == (2, "")


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (["lss"], "ls"),
        (["resume"], "resume-cmd"),
        (["metric"], "metrics"),
        (["trash", "restor"], "restore"),
        (["ls", "--jsn"], "--json"),
        (["prune", "--keep-lst", "3"], "--keep-last"),
        (["verify", "--ful"], "--full"),
    ],
    ids=str,
)
def test_what_is_mistyped_gets_the_near_name(words: list[str], near: str) -> None:
    found = ckptui(*words)
    assert found.code == 2
    assert "Did you mean" in found.err
    assert near in found.err.partition("Did you mean")[2]
    error = strict(ckptui(*words, "--json").out)["error"]
    assert near in error["candidates"]


NOT_FOUND = [
    ["ls", "{away}/none"],
    ["show", "latest"],
    ["show", "latest", "--run", "{away}/none"],
    ["show", "{away}/none/step_1"],
    ["show", "step_77", "--run", "{run}"],
    ["show", "{run}/step_77"],
    ["show", "{run}"],
    ["metrics"],
    ["metrics", "{away}/none"],
    ["log", "{away}/none"],
    ["pin", "step_77", "--run", "{run}"],
    ["unpin", "step_77", "--run", "{run}"],
    ["prune", "{away}", "--keep-last", "1"],
    ["rm", "step_77", "--run", "{run}"],
    ["trash", "list"],
    ["trash", "restore", "step_77", "--run", "{run}"],
    ["verify", "{away}/none"],
    ["resume-cmd", "step_77", "--run", "{run}"],
    ["unlock", "{run}"],
    ["show", "9" * 300, "--run", "{run}"],
    ["show", "x" * 5000, "--run", "{run}"],
    ["show", "/" + "x" * 5000],
]


@pytest.mark.parametrize("words", NOT_FOUND, ids=lambda w: " ".join(w)[:40])
def test_what_is_not_there_is_exit_1_in_both_forms(
    run: Path, tmp_path: Path, words: list[str]
) -> None:
    words = [w.format(run=run, away=tmp_path / "away") for w in words]
    found = ckptui(*words)
    assert found.code == 1, found
    assert found.out == ""
    assert found.err.startswith("ckptui: ")
    error = ckptui(*words, "--json")
    assert error.code == 1
    form = strict(error.out)
    forms.check(form, forms.ERROR)
    assert form["error"]["kind"] in ("not_found", "io")
    assert form["error"]["message"] in found.err.replace("\\n", "\n")


def test_several_runs_are_ambiguous_and_named(tmp_path: Path) -> None:
    for name in ("a", "b"):
        make_run(tmp_path / "root" / name, [1])
    for words in (["show", "latest", "--run"], ["metrics"], ["log"], ["trash", "list", "--run"]):
        found = ckptui(*words, tmp_path / "root", "--json")
        assert found.code == 1
        error = strict(found.out)["error"]
        assert error["kind"] == "ambiguous"
        assert error["candidates"] == [str(tmp_path / "root" / n) for n in "ab"]
        told = ckptui(*words, tmp_path / "root").err
        assert f"  {tmp_path / 'root' / 'a'}\n" in told


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
def test_a_run_that_cannot_be_written_is_kind_io(run: Path) -> None:
    run.chmod(0o500)
    try:
        for words in (["pin", "step_10"], ["rm", "step_10", "--yes"]):
            found = ckptui(*words, "--run", run, "--json")
            assert found.code == 1
    finally:
        run.chmod(0o700)


def test_a_run_whose_tool_folder_is_a_file_is_a_sentence(run: Path) -> None:
    (run / ".ckptui").write_text("in the way")
    assert ok("ls", run).out
    for words in (["pin", "step_10"], ["rm", "step_10", "--yes"]):
        found = ckptui(*words, "--run", run, "--json")
        assert found.code == 1, words
        assert "Traceback" not in found.err
        strict(found.out)
    assert ckptui("trash", "list", "--run", run).code == 0
    assert ckptui("log", run).code in (0, 1)
    assert sorted(p.name for p in run.glob("step_*")) == [
        "step_10",
        "step_100",
        "step_20",
        "step_30",
    ]


def test_bare_ckptui_prints_help_and_succeeds() -> None:
    found = ok()
    assert "Commands:" in found.out
    assert found.out == ok("--help").out == ok("-h").out


def test_version_is_told() -> None:
    assert ok("--version").out.startswith("ckptui, version ")


def test_the_module_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ckptui", "--help"],
        cwd=HERE,
        env=environment(),
        capture_output=True,
        check=True,
    )
    assert done.stdout.startswith(b"Usage: ckptui ")


def test_the_installed_command_is_the_module() -> None:
    scripts = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, function = scripts["ckptui"].partition(":")
    assert getattr(importlib.import_module(module), function) is start


def test_arguments_that_no_shell_would_send_do_no_harm(run: Path) -> None:
    for word in ("\udcff", "\x1b[31m", "\u202eexe", "a\nb", "*", "..", ".", "/", "//", "~", "%s"):
        for words in (
            ["show", word, "--run", run],
            ["pin", word, "--run", run],
            ["ls", run / word],
        ):
            if words[-1] == run / "/":
                continue  # a listing of the whole machine
            found = ckptui(*words)
            assert found.code in (0, 1)
            assert "\x1b" not in found.out + found.err
            assert "\u202e" not in found.err


def test_a_nul_in_an_argument_is_wrong_usage() -> None:
    assert ckptui("ls", "a\0b").code == 2


def test_raw_bytes_in_an_argument_are_spelled(run: Path) -> None:
    done = process("show", b"step_\xff\x9b1", "--run", run)
    assert done.returncode == 1
    assert b"There is no step_\\xff\\x9b1 in" in done.stderr
