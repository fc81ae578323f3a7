"""`config show` and `config path`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from ckptui.cli.groups import Group
from ckptui.cli.options import json_option
from ckptui.cli.streams import print_json, report, say_shell, tell
from ckptui.display.forms import VERSION
from ckptui.display.tables import table
from ckptui.preferences import NAMES, load, preferences_path

if TYPE_CHECKING:
    from ckptui.preferences import Preferences


@click.group(
    cls=Group,
    invoke_without_command=True,
    epilog="""\b
Examples:
  ckptui config show
  ckptui config path

\b
The file is TOML; every line of it may be left out:
  theme = "textual-light"
  columns = ["flags", "name", "state", "metrics", "age"]
  rules = ["keep-last 3", "keep-best 1:eval_loss"]
  ascii = true
  mouse = false
  [keys]
  pin = "p"
""",
)
@click.pass_context
def config(ctx: click.Context) -> None:
    """Show your own settings: keys, theme, columns, rules, ASCII, mouse."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@config.command(
    epilog="""\b
Examples:
  ckptui config show
  ckptui config show --json
"""
)
@json_option
def show(as_json: bool) -> None:
    """Show what holds, and where each value is from: default, file or environment.

    A file that cannot be understood is refused in one sentence, with exit code 2.
    """
    found = load(os.environ)
    values = _values(found)
    if as_json:
        form = {name: {"value": values[name], "from": found.origins[name]} for name in NAMES}
        where = {"path": str(preferences_path(os.environ)), "exists": found.file is not None}
        print_json({"version": VERSION, **where, "values": form})
        return
    rows = [
        [name, text, found.origins[name]]
        for name in NAMES
        for text in _texts(values[name], names_keys=name == "keys", usual=_USUAL[name])
    ]
    report(table(["setting", "value", "from"], rows))
    if found.file is None:
        tell(f"There is no {preferences_path(os.environ)}; it may be made.")


def _values(found: Preferences) -> dict[str, Any]:
    return {
        "keys": dict(found.keys),
        "theme": found.theme,
        "columns": None if found.columns is None else list(found.columns),
        "rules": list(found.rules),
        "ascii": found.ascii,
        "mouse": found.mouse,
    }


_USUAL = {
    "keys": "as the browser's help tells",
    "theme": "textual-dark; ansi-dark with NO_COLOR",
    "columns": "as much as there is room for",
    "rules": "keep-last 3",
    "ascii": "as the terminal can",
    "mouse": "true",
}
"""What holds where nothing is set."""


def _texts(value: Any, *, names_keys: bool, usual: str) -> list[str]:
    """A value in words, a line for each of several keys."""
    if names_keys and value:
        return [f"{deed} = {key}" for deed, key in value.items()]
    if isinstance(value, bool):
        return ["true" if value else "false"]
    return [", ".join(value) if isinstance(value, list) and value else str(value or usual)]


@config.command(
    epilog="""\b
Example:
  ckptui config path
"""
)
@json_option
def path(as_json: bool) -> None:
    """Print where your settings are looked for, whether they are there or not."""
    where = preferences_path(os.environ)
    if as_json:
        print_json({"version": VERSION, "path": str(where), "exists": where.is_file()})
    else:
        say_shell(str(where))
