"""`save-now`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ckptui import requests
from ckptui.cli.finding import named_run
from ckptui.cli.options import json_option, now, one_of, run_argument
from ckptui.cli.streams import print_json, report, tell
from ckptui.display.forms import save_now_form
from ckptui.display.rows import standing_of
from ckptui.display.text import visible
from ckptui.scan import scan_run

if TYPE_CHECKING:
    from ckptui.checkpoint import Checkpoint, Owner
    from ckptui.requests import Answer

_LONGEST = 7 * 24 * 3600
"""Seconds: nobody waits for longer than a week."""


@click.command(
    "save-now",
    epilog="""\b
Examples:
  ckptui save-now outputs/my-run
  ckptui save-now outputs/my-run --wait 600
""",
)
@run_argument
@click.option(
    "--wait",
    "seconds",
    type=click.IntRange(0, _LONGEST),
    default=120,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the checkpoint; 0 only asks.",
)
@json_option
def save_now(run: Path | None, run_option: Path | None, seconds: int, as_json: bool) -> None:
    """Ask the process that trains a run to save a checkpoint now.

    Prints the checkpoint's name once it is complete. If there is none: why not, and exit code 1.
    Ctrl+C takes the request back.
    """
    there = named_run(one_of(run, run_option))
    if seconds == 0:
        requests.ask(there.path)
        if as_json:
            print_json(save_now_form(there.path, None, None))
        else:
            report(f"asked {_owner(there.owner)} to save {visible(str(there.path))}; not waiting")
        return
    if there.live and sys.stderr.isatty() and not as_json:
        tell(f"Asking {_owner(there.owner)} to save; waiting up to {seconds} s.")
    answer = requests.wait(there.path, requests.ask(there.path), timeout=seconds)
    _tell_answer(there.path, answer, as_json=as_json)


def _tell_answer(run: Path, answer: Answer, *, as_json: bool) -> None:
    """Print what came of it; leave with 1 where that is no checkpoint."""
    error, saved = answer.error, None
    if answer.checkpoint is not None:
        saved = _saved(run, answer.checkpoint)
        if saved is None:
            error = f"{answer.checkpoint} was saved in {run}, but it is gone already."
    if as_json:
        standing = standing_of(saved, scan_run(run), now=now()) if saved else None
        print_json(save_now_form(run, saved, error, standing=standing))
    elif saved is None:
        tell(f"ckptui: {error}")
    elif sys.stdout.isatty():
        report(f"saved {visible(saved.name)} in {visible(str(run))}")
    else:
        report(visible(saved.name))
    if saved is None:
        raise click.exceptions.Exit(1)


def _saved(run: Path, name: str) -> Checkpoint | None:
    return next((c for c in scan_run(run).checkpoints if c.name == name and not c.staged), None)


def _owner(owner: Owner | None) -> str:
    if owner is None or owner.pid is None:
        return "its trainer"
    return f"process {owner.pid} on {visible(owner.host or 'an unknown machine')}"
