"""`browse`: the terminal interface, or the listing where there is no terminal."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from ckptui.cli.listing import list_path
from ckptui.cli.options import PATH
from ckptui.cli.streams import say_shell
from ckptui.scan import DEPTH, kind_of


@click.command(
    epilog="""\b
Examples:
  ckptui browse outputs/
  ckptui browse outputs/my-run
"""
)
@click.argument("path", type=PATH, default=Path())
def browse(path: Path) -> None:
    """Browse runs and checkpoints in the terminal; off a terminal, list them.

    Press ? inside for all keys.
    """
    open_browser(path)


def open_browser(path: Path) -> None:
    """Run the interface on a path; print what it asks for on leaving."""
    # The interface draws on stderr and reads stdin; started without them it would hang.
    if not (sys.stdin.isatty() and sys.stderr.isatty()) or os.environ.get("TERM") == "dumb":
        list_path(path, depth=DEPTH, as_json=False)
        return
    from ckptui.tui.app import browse as run_app  # noqa: PLC0415 - textual is only for this

    kind_of(path)  # a missing path is told before anything is drawn
    line = run_app(path)
    if line:
        say_shell(line)
