"""`browse`: the terminal interface, or the listing where there is no terminal."""

from __future__ import annotations

import gc
import os
import shutil
import sys
from pathlib import Path

import click

from ckptui.cli.completion import complete_filter
from ckptui.cli.options import PATH
from ckptui.cli.streams import say, say_shell

_ESCAPE_MILLISECONDS = "50"
"""How long a lone esc is waited on for the rest of a sequence; with 100 it would feel slow."""


@click.command(
    epilog="""\b
Examples:
  ckptui browse outputs/
  ckptui browse outputs/my-run --read-only
  python -m my_eval "$(ckptui browse outputs/ --pick)"
  ckptui browse outputs/my-run --once
  ckptui browse outputs/my-run --once "x"
"""
)
@click.argument("path", type=PATH, default=Path())
@click.option("--pick", is_flag=True, help="Enter prints the checkpoint's path and leaves.")
@click.option("--read-only", is_flag=True, help="Let nothing be changed from inside.")
@click.option(
    "--filter",
    "filter_text",
    metavar="EXPR",
    default="",
    shell_complete=complete_filter,
    help="Begin with this filter, as in ls.",
)
@click.option(
    "--once",
    "once",
    is_flag=False,
    flag_value="",
    metavar="KEYS",
    help="Print one frame as text and leave; KEYS, separated by spaces, are pressed before it.",
)
def browse(path: Path, pick: bool, read_only: bool, filter_text: str, once: str | None) -> None:
    """Browse runs and checkpoints in the terminal; off a terminal, list them.

    Press ? inside for all keys. With --pick the exit code is 1 if nothing was picked.
    """
    if pick and once is not None:
        msg = "--pick needs somebody who picks; --once prints a frame and leaves."
        raise click.UsageError(msg)
    if filter_text:
        from ckptui.filters import parse_filter  # noqa: PLC0415 - starting is faster without

        parse_filter(filter_text)  # a bad one is told before anything is drawn
    if once is not None:
        _print_frame(path, once.split(), filter_text)
        return
    open_browser(path, pick=pick, read_only=read_only, filter_text=filter_text)


def open_browser(
    path: Path, *, pick: bool = False, read_only: bool = False, filter_text: str = ""
) -> None:
    """Run the interface on a path; print what it asks for on leaving."""
    # The interface draws on stderr and reads stdin; started without them it would hang.
    if not (sys.stdin.isatty() and sys.stderr.isatty()) or os.environ.get("TERM") == "dumb":
        if pick:
            msg = "--pick needs a terminal: nobody can pick here."
            raise click.UsageError(msg)
        from ckptui.cli.choosing import parse_choice  # noqa: PLC0415 - starting is faster without
        from ckptui.cli.listing import list_path  # noqa: PLC0415 - as above
        from ckptui.scan import DEPTH  # noqa: PLC0415 - as above

        choice = parse_choice(filter_text or None, None, (), by_name=False)
        list_path(path, depth=DEPTH, as_json=False, choice=choice)
        return
    gc.disable()  # the browser collects when it is idle; importing it leaves no garbage
    os.environ.setdefault("ESCDELAY", _ESCAPE_MILLISECONDS)
    for name in ("COLUMNS", "LINES"):  # exported by a shell, they would hide every resize
        os.environ.pop(name, None)
    from ckptui.tui.early import Early  # noqa: PLC0415 - as below

    early = Early(path)  # reads while the rest is imported
    from ckptui.preferences import load  # noqa: PLC0415 - only for this
    from ckptui.tui.app import browse as run_app  # noqa: PLC0415 - textual is only for this
    from ckptui.tui.wishes import Wishes  # noqa: PLC0415 - as above

    if early.failed:
        from ckptui.scan import kind_of  # noqa: PLC0415 - starting is faster without

        kind_of(path)  # says why, before anything is drawn
    wishes = Wishes(
        preferences=load(os.environ), read_only=read_only, pick=pick, filter_text=filter_text
    )
    line = run_app(path, wishes, early=early)
    if line:
        say_shell(line)
    elif pick:
        raise click.exceptions.Exit(1)


def _print_frame(path: Path, keys: list[str], filter_text: str) -> None:
    from ckptui.preferences import load  # noqa: PLC0415 - only for this
    from ckptui.scan import kind_of  # noqa: PLC0415 - as above
    from ckptui.tui.once import frame  # noqa: PLC0415 - textual is only for this

    kind_of(path)
    columns, lines = shutil.get_terminal_size((80, 24))
    size = (max(20, columns), max(5, lines))
    say(frame(path, keys=keys, size=size, filter_text=filter_text, preferences=load(os.environ)))
