"""`config show` and `config path`; and what the other commands make of a user's settings."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.cli.harness import Terminal, answer, ckptui, ok, process

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the settings of this user are."""
    for name in ("CKPTUI_CONFIG", "CKPTUI_ASCII", "TEXTUAL_THEME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "etc"))
    path = tmp_path / "etc" / "ckptui" / "config.toml"
    path.parent.mkdir(parents=True)
    return path


def test_each_value_is_shown_with_where_it_is_from(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text('mouse = false\nrules = ["keep-last 3"]\n[keys]\npin = "P"\nnote = "N"\n')
    monkeypatch.setenv("TEXTUAL_THEME", "nord")
    shown = ok("config", "show").out.splitlines()
    assert [" ".join(line.split()) for line in shown[1:5]] == [
        "keys pin = P file",
        "keys note = N file",
        "theme nord environment",
        "columns as much as there is room for default",
    ]
    found = answer("config", "show")
    assert found == {
        "version": 1,
        "path": str(file),
        "exists": True,
        "values": {
            "keys": {"value": {"pin": "P", "note": "N"}, "from": "file"},
            "theme": {"value": "nord", "from": "environment"},
            "columns": {"value": None, "from": "default"},
            "rules": {"value": ["keep-last 3"], "from": "file"},
            "ascii": {"value": None, "from": "default"},
            "mouse": {"value": False, "from": "file"},
        },
    }


def test_without_a_file_the_defaults_are_shown_and_where_one_may_be_made(file: Path) -> None:
    found = ok("config", "show")
    lines = [" ".join(line.split()) for line in found.out.splitlines()]
    assert "mouse true default" in lines
    assert "rules keep-last 3 default" in lines
    assert found.err == f"There is no {file}; it may be made.\n"
    assert answer("config", "show")["exists"] is False


def test_the_path_is_printed_whether_a_file_is_there_or_not(
    file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert ok("config", "path").out == f"{file}\n"
    assert answer("config", "path") == {"version": 1, "path": str(file), "exists": False}
    file.write_text("not even TOML")
    assert ok("config", "path").out == f"{file}\n"
    raw = os.fsencode(tmp_path) + b"/\xff x"
    assert process("config", "path", env={"CKPTUI_CONFIG": os.fsdecode(raw)}).stdout == raw + b"\n"


@pytest.mark.parametrize("text", ["mouse = 1", "]", "colums = []", "theme = '\x00'"])
def test_a_bad_file_is_one_sentence_and_code_2_where_it_is_needed(file: Path, text: str) -> None:
    file.write_text(text)
    found = ckptui("config", "show")
    assert (found.code, found.out) == (2, "")
    assert len(found.err.splitlines()) == 1
    assert found.err.startswith(f"ckptui: {file}")
    error = answer("config", "show", code=2)["error"]
    assert error["kind"] == "usage"


def test_a_bad_file_stops_nothing_that_does_not_need_it(file: Path, run: Path) -> None:
    plain = ok("ls", run)
    file.write_text("mouse = 1")
    found = ok("ls", run)
    assert found.out == plain.out
    assert found.err == f"! {file}: mouse must be true or false, without quotes.\n"
    lines: list[list[str | Path]] = [
        ["ls", run, "--json"],
        ["ls", run, "-q"],
        ["ls", run, "--columns", "name"],
        ["show", "latest", "--run", run],
        ["pin", "step_10", "--run", run],
        ["metrics", run],
        ["prune", run, "--keep-last", "1", "--dry-run"],
    ]
    for words in lines:
        assert "mouse" not in ok(*words).err, words


def test_the_columns_of_ls_are_those_that_are_preferred(file: Path, run: Path) -> None:
    file.write_text('columns = ["name", "eval_loss", "state"]')
    assert ok("ls", run).out.splitlines()[1].split() == ["name", "eval_loss", "state"]
    assert ok("ls", run).err == ""
    file.write_text('columns = ["name", "metric-of-another-run"]')
    assert ok("ls", run).err == ""
    named = ok("ls", run, "--columns", "step").out.splitlines()[1].split()
    assert named == ["step"]
    file.write_text('columns = ["pin"]')
    found = ok("ls", run)
    assert found.err.startswith(f"! {file}: columns: pin is no column")
    assert "kept by" in found.out


def test_hostile_settings_are_shown_and_never_obeyed(file: Path, run: Path) -> None:
    evil = "\\u001b]0;t\\u0007\\u202e\\n"
    text = f'theme = "{evil}"\ncolumns = ["name", "{evil}"]\n[keys]\n"{evil}" = "{evil}"\n'
    file.write_text(text)
    lines: list[list[str | Path]] = [["config", "show"], ["ls", run]]
    for words in lines:
        terminal = Terminal(*words, env={"CKPTUI_CONFIG": str(file)})
        assert terminal.end() == 0
        assert terminal.text.replace("\n", "").isprintable()
        assert "\\x1b]0;t\\x07\\u202e\\n" in terminal.text
    file.write_text(f'"{evil}" = 1')
    assert ckptui("config", "show").err.replace("\n", "").isprintable()
