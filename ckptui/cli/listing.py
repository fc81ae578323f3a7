"""`ls` and `show`."""

from __future__ import annotations

from pathlib import Path

import click

from ckptui.cli.options import (
    PATH,
    checkpoint_arguments,
    depth_option,
    json_option,
    named_checkpoint,
    now,
    print_json,
    run_id_option,
    run_option,
    tell,
    tell_problems,
)
from ckptui.display.forms import root_form
from ckptui.display.tables import run_heading, run_table
from ckptui.retention import newest_complete, newest_resumable, standings
from ckptui.scan import scan


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
    root = scan(path, depth=depth)
    when = now()
    if as_json:
        print_json(root_form(root, now=when))
    for run in [] if as_json else root.runs:
        click.echo(run_heading(run))
        if run.checkpoints:
            click.echo(run_table(run, standings(run, now=when), now=when))
        else:
            click.echo("no checkpoints yet")
        click.echo()
    if not root.runs:
        there = f"; {len(root.ignored)} names there were not recognised" if root.ignored else ""
        tell(f"No checkpoints in {root.path}{there}.")
    for run in root.runs:
        if root.path not in (run.path, *run.path.parents):
            tell(f"{root.path.name} is one checkpoint; its run is {run.path}.")
        if not as_json:
            tell_problems(run.problems)
        newest, usable = newest_complete(run.checkpoints), newest_resumable(run.checkpoints)
        if newest is not None and usable is not None and newest is not usable:
            tell(f"{newest.name} cannot be resumed; {usable.name} is the newest that can.")
    if not as_json:
        tell_problems(root.problems)


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
    from ckptui.display.details import detail_lines  # noqa: PLC0415 - ls does not need it
    from ckptui.display.lineage import detail_form  # noqa: PLC0415

    there, found = named_checkpoint(checkpoint, run, run_id)
    by_path = dict(
        zip((c.path for c in there.checkpoints), standings(there, now=now()), strict=True)
    )
    from ckptui.retention import Standing  # noqa: PLC0415 - for what lies in the trash

    form = detail_form(found, by_path.get(found.path, Standing()))
    if as_json:
        print_json({"version": 1, "checkpoint": form})
        return
    for line in detail_lines(found, form, now=now()):
        click.echo(line)
    if checkpoint == "latest" or checkpoint == "best" or checkpoint.startswith("best:"):
        _tell_choice(checkpoint, there, found)


def _tell_choice(word: str, run: object, found: object) -> None:
    """Say how a word was read: which metric, which direction, what was passed over."""
    from ckptui.checkpoint import Checkpoint, Run  # noqa: PLC0415
    from ckptui.locate import metric_of  # noqa: PLC0415

    assert isinstance(run, Run)  # noqa: S101 - for the types alone
    assert isinstance(found, Checkpoint)  # noqa: S101
    if word == "latest":
        for c in run.checkpoints:
            if not c.complete and not c.staged and (c.step or 0) > (found.step or 0):
                what = c.problems[0].what if c.problems else str(c.state)
                tell(f"{c.name} is newer but {c.state}: {what}")
        return
    metric, mode = metric_of(word, run)
    tell(f"best by {metric}: {'lower' if mode == 'min' else 'higher'} is better")
