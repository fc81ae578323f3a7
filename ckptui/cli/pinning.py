"""`pin` and `unpin`."""

from __future__ import annotations

from pathlib import Path

import click

from ckptui import pins
from ckptui.checkpoint import Checkpoint
from ckptui.cli.options import (
    checkpoint_arguments,
    json_option,
    named_checkpoints,
    now,
    print_json,
    run_id_option,
    run_option,
    tell,
)
from ckptui.display.forms import checkpoint_form
from ckptui.display.text import visible
from ckptui.retention import Standing, standings
from ckptui.scan import scan_run


@click.command(
    epilog="""\b
Examples:
  ckptui pin step_2000 --note "before the LR drop"
  ckptui pin 2000 2500 --run outputs/my-run
"""
)
@checkpoint_arguments(many=True)
@click.option("--note", "-m", metavar="TEXT", help="Why it is worth keeping.")
@run_option
@run_id_option
@json_option
def pin(
    checkpoints: tuple[str, ...],
    note: str | None,
    run: Path | None,
    run_id: str | None,
    as_json: bool,
) -> None:
    """Protect checkpoints against every removal until they are unpinned."""
    targets = [c for _, c in named_checkpoints(checkpoints, run, run_id)]
    _answer(targets, [pins.pin(c, note=note) for c in targets], "pinned", as_json=as_json)


@click.command(
    epilog="""\b
Example:
  ckptui unpin step_2000
"""
)
@checkpoint_arguments(many=True)
@run_option
@run_id_option
@json_option
def unpin(
    checkpoints: tuple[str, ...], run: Path | None, run_id: str | None, as_json: bool
) -> None:
    """Take the protection of checkpoints away."""
    targets = [c for _, c in named_checkpoints(checkpoints, run, run_id)]
    _answer(targets, [pins.unpin(c) for c in targets], "unpinned", as_json=as_json)


def _answer(targets: list[Checkpoint], changed: list[bool], word: str, *, as_json: bool) -> None:
    if not as_json:
        for target, did in zip(targets, changed, strict=True):
            if did:
                click.echo(f"{word} {visible(target.name)}")
            else:
                tell(
                    f"{target.name} was {word} already"
                    if word == "pinned"
                    else f"{target.name} was not pinned"
                )
        return
    forms: dict[bool, list[dict[str, object]]] = {True: [], False: []}
    for target, did in zip(targets, changed, strict=True):
        there = scan_run(target.run)
        pairs = zip(there.checkpoints, standings(there, now=now()), strict=True)
        fresh = {c.path: (c, s) for c, s in pairs}
        forms[did].append(checkpoint_form(*fresh.get(target.path, (target, Standing()))))
    print_json({"version": 1, "changed": forms[True], "unchanged": forms[False]})
