"""Every command has help for people, with an example that works."""

from __future__ import annotations

import re
import shlex

import click
import pytest

from ckptui.cli import main
from tests.cli.harness import ok, process


def walk(group: click.Group, *path: str) -> dict[tuple[str, ...], click.Command]:
    context = click.Context(group)
    found: dict[tuple[str, ...], click.Command] = {}
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, name
        found[*path, name] = command
        if isinstance(command, click.Group):
            found |= walk(command, *path, name)
    return found


COMMANDS = walk(main)
NAMES = [" ".join(path) for path in COMMANDS]


def test_the_commands_are_those_of_the_contract() -> None:
    assert [path[0] for path in COMMANDS if len(path) == 1] == [
        *("browse", "ls", "show", "diff", "metrics", "pin", "unpin", "prune", "rm", "trash"),
        *("verify", "resume-cmd", "save-now", "log", "unlock", "config", "completion", "demo"),
    ]
    assert {path for path in COMMANDS if len(path) > 1} == {
        *(("trash", name) for name in ("list", "restore", "empty")),
        *(("config", name) for name in ("show", "path")),
    }


@pytest.mark.parametrize("name", NAMES)
def test_help_says_what_it_does_and_gives_an_example(name: str) -> None:
    command = COMMANDS[tuple(name.split())]
    text = ok(*name.split(), "--help").out
    assert command.help
    assert command.help.splitlines()[0].rstrip().endswith((".", ":"))
    examples = re.findall(r"^ +(ckptui .*)$", text, re.MULTILINE)
    assert examples, f"{name} has no example"
    for example in examples:
        words = shlex.split(example.partition(" | ")[0])[1:]
        assert words[: len(name.split())][:1] == name.split()[:1]
        options = [w.partition("=")[0] for w in words if w.startswith("-")]
        shown = ok(*[w for w in words if tuple(words[: words.index(w) + 1]) in COMMANDS], "--help")
        for option in options:
            assert option in shown.out, f"{example}: no {option}"
    assert text.isascii()


@pytest.mark.parametrize("name", NAMES)
def test_every_option_and_argument_is_explained(name: str) -> None:
    for parameter in COMMANDS[tuple(name.split())].params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{name}: {parameter.opts}"
            assert parameter.help.endswith((".", "?"))


@pytest.mark.parametrize("name", NAMES)
def test_help_fits_eighty_columns(name: str) -> None:
    text = process(*name.split(), "--help", env={"COLUMNS": "80"}).stdout.decode()
    assert max(map(len, text.splitlines())) <= 80


def test_what_lists_plans_or_changes_answers_in_json() -> None:
    without = {"browse", "demo", "trash", "config", "completion"}
    for path, command in COMMANDS.items():
        options = {o for p in command.params for o in p.opts}
        assert ("--json" in options) is (path[-1] not in without), path


def test_what_names_checkpoints_takes_run_and_run_id() -> None:
    for name in ("show", "diff", "pin", "unpin", "rm", "resume-cmd", "prune"):
        options = {o for p in COMMANDS[name,].params for o in p.opts}
        assert {"--run", "--run-id"} <= options, name
    for path in (
        ("metrics",),
        ("log",),
        ("trash", "list"),
        ("trash", "restore"),
        ("trash", "empty"),
    ):
        assert "--run" in {o for p in COMMANDS[path].params for o in p.opts}


def test_the_line_in_the_list_of_commands_is_the_commands_own_concern() -> None:
    text = ok("--help").out
    for path in COMMANDS:
        if len(path) == 1:
            assert re.search(rf"^  {path[0]} +[A-Z].*\.$", text, re.MULTILINE), path
