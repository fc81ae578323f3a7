"""`ls`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ckptui.cli.options import PATH, depth_option, json_option, now, tell_problems
from ckptui.cli.scanning import scan_path
from ckptui.cli.streams import print_json, say, tell
from ckptui.display.forms import root_form
from ckptui.display.rows import rows_of
from ckptui.display.tables import run_heading, run_table
from ckptui.display.text import plural
from ckptui.ranking import newest_complete, newest_resumable

if TYPE_CHECKING:
    from ckptui.checkpoint import Run


@click.command(
    epilog="""\b
Examples:
  ckptui ls outputs/
  ckptui ls outputs/my-run --json
"""
)
@click.argument("path", type=PATH, default=Path())
@depth_option
@json_option
def ls(path: Path, depth: int, as_json: bool) -> None:
    """List the runs and checkpoints below PATH: a root, a run or a checkpoint.

    Flags: P pinned, * best, ~ being written, ! something is wrong, - abandoned branch.
    """
    list_path(path, depth=depth, as_json=as_json)


def list_path(path: Path, *, depth: int, as_json: bool) -> None:
    """List what is at or below a path."""
    root, whole = scan_path(path, depth=depth)
    if as_json:
        print_json(root_form(root, now=now(), whole=whole))
    for run in root.runs:
        if not as_json:
            _print_run(run, whole)
        if whole is None:
            _tell_resumable(run)
    if not root.runs:
        count = len(root.ignored)
        what = f"; {plural(count, 'name')} there {'was' if count == 1 else 'were'} not recognised"
        tell(f"No checkpoints in {root.path}{what if count else ''}.")
    if whole is not None:
        tell(f"{root.path.name} is one checkpoint; its run is {whole.path}.")
    if not as_json:
        tell_problems(root.problems)


def _print_run(run: Run, whole: Run | None) -> None:
    when = now()
    say(run_heading(run))
    if run.checkpoints:
        say(run_table(rows_of(run, now=when, whole=whole), now=when))
    else:
        say("no checkpoints yet")
    say("")
    tell_problems(run.problems)


def _tell_resumable(run: Run) -> None:
    if len({c.run_id for c in run.checkpoints if c.complete}) > 1:
        return  # each run id has a newest one of its own
    newest, usable = newest_complete(run.checkpoints), newest_resumable(run.checkpoints)
    if newest is not None and usable is not None and newest is not usable:
        tell(f"{newest.name} cannot be resumed; {usable.name} is the newest that can.")
