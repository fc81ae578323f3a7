"""`show`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ckptui.cli.completion import complete_checkpoint
from ckptui.cli.finding import named_checkpoint, trash_item
from ckptui.cli.options import (
    json_option,
    now,
    only_one,
    run_id_option,
    run_option,
)
from ckptui.cli.streams import print_json, say, tell
from ckptui.contents import found_files
from ckptui.display.details import detail_lines
from ckptui.display.forms import VERSION
from ckptui.display.lineage import detail_form
from ckptui.display.rows import standing_of
from ckptui.locate import metric_of, restore_line
from ckptui.ranking import newest_resumable

if TYPE_CHECKING:
    from ckptui.checkpoint import Checkpoint, Run


@click.command(
    epilog="""\b
Examples:
  ckptui show latest
  ckptui show best:eval_loss --run outputs/my-run --json
"""
)
@click.argument(
    "checkpoints",
    nargs=-1,
    required=True,
    metavar="CHECKPOINT",
    shell_complete=complete_checkpoint,
)
@run_option
@run_id_option
@json_option
def show(checkpoints: tuple[str, ...], run: Path | None, run_id: str | None, as_json: bool) -> None:
    """Show one checkpoint: state, metrics, files, tensors, recipe state and lineage.

    To compare two of them: ckptui diff A B.
    """
    checkpoint = only_one(checkpoints, run)
    there, found = named_checkpoint(checkpoint, run, run_id)
    form = detail_form(found, standing_of(found, there, now=now()))
    if as_json:
        print_json({"version": VERSION, "checkpoint": form})
    else:
        for line in detail_lines(found, form, found_files(found), now=now()):
            say(line)
    item = trash_item(found)
    if item is not None:
        line = restore_line(item)
        tell(f"{found.name} is in the trash of {there.path}; `{line}` brings it back.")
    if checkpoint == "latest":
        _tell_passed_over(there, found)
    elif checkpoint == "best" or (checkpoint.startswith("best:") and not Path(checkpoint).exists()):
        metric, mode = metric_of(checkpoint, there)
        tell(f"best by {metric}: {'lower' if mode == 'min' else 'higher'} is better")


def _tell_passed_over(run: Run, found: Checkpoint) -> None:
    """Say which newer ones are not complete, and which is resumed where this one cannot be."""
    for c in run.checkpoints:
        if not c.complete and not c.staged and (c.step or 0) > (found.step or 0):
            what = c.problems[0].what if c.problems else str(c.state)
            tell(f"{c.name} is newer but {c.state}: {what}")
    usable = newest_resumable(c for c in run.checkpoints if c.run_id == found.run_id)
    if usable is not None and usable.path != found.path:
        tell(f"{found.name} cannot be resumed; {usable.name} is the newest that can.")
