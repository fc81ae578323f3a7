"""`show`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ckptui.cli.finding import named_checkpoint
from ckptui.cli.options import (
    checkpoint_arguments,
    json_option,
    now,
    run_id_option,
    run_option,
)
from ckptui.cli.streams import print_json, say, tell
from ckptui.display.details import detail_lines
from ckptui.display.forms import VERSION
from ckptui.display.lineage import detail_form
from ckptui.display.rows import standing_of
from ckptui.locate import metric_of
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
@checkpoint_arguments(many=False)
@run_option
@run_id_option
@json_option
def show(checkpoint: str, run: Path | None, run_id: str | None, as_json: bool) -> None:
    """Show one checkpoint: state, metrics, files, tensors, recipe state and lineage."""
    there, found = named_checkpoint(checkpoint, run, run_id)
    form = detail_form(found, standing_of(found, there, now=now()))
    if as_json:
        print_json({"version": VERSION, "checkpoint": form})
    else:
        for line in detail_lines(found, form, now=now()):
            say(line)
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
