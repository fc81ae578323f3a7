"""`browse`: the terminal interface, or the listing where there is no terminal."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import click

from ckptui.cli.options import PATH
from ckptui.cli.streams import say_shell


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
        from ckptui.cli.listing import list_path  # noqa: PLC0415 - starting is faster without
        from ckptui.scan import DEPTH  # noqa: PLC0415 - as above

        list_path(path, depth=DEPTH, as_json=False)
        return
    gc.disable()  # the browser collects when it is idle; importing it leaves no garbage
    from ckptui.tui.early import Early  # noqa: PLC0415 - as below

    early = Early(path)  # reads while the rest is imported
    from ckptui.tui.app import browse as run_app  # noqa: PLC0415 - textual is only for this

    if early.failed:
        from ckptui.scan import kind_of  # noqa: PLC0415 - starting is faster without

        kind_of(path)  # says why, before anything is drawn
    line = run_app(path, early=early)
    if line:
        say_shell(line)
