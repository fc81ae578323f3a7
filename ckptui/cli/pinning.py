"""`pin` and `unpin`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from ckptui import pins
from ckptui.cli.finding import standing_checkpoints
from ckptui.cli.options import (
    checkpoint_arguments,
    json_option,
    now,
    run_id_option,
    run_option,
)
from ckptui.cli.streams import print_json, report, tell
from ckptui.display.forms import changes_form
from ckptui.display.rows import rows_of
from ckptui.display.text import visible
from ckptui.errors import CkptuiError, ReadOnlyError
from ckptui.scan import scan_run
from ckptui.standing import Standing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ckptui.checkpoint import Checkpoint


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
    targets = [c for _, c in standing_checkpoints(checkpoints, run, run_id)]
    _change(targets, partial(pins.pin, note=note), "pinned", as_json=as_json)


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
    targets = [c for _, c in standing_checkpoints(checkpoints, run, run_id)]
    _change(targets, pins.unpin, "unpinned", as_json=as_json)


def _change(
    targets: Sequence[Checkpoint],
    change: Callable[[Checkpoint], bool],
    word: str,
    *,
    as_json: bool,
) -> None:
    """Change each target and say what became of it; one that fails does not stop the others."""
    done: dict[bool, list[Checkpoint]] = {True: [], False: []}
    failed: list[tuple[Checkpoint, str]] = []
    for target in targets:
        try:
            done[change(target)].append(target)
        except ReadOnlyError:
            raise  # of all that follow the same would be told
        except CkptuiError as e:
            failed.append((target, e.message))
            if len(targets) == 1:
                raise
    if as_json:
        fresh = _fresh(targets)
        print_json(
            changes_form(
                [fresh[c.path] for c in done[True]], [fresh[c.path] for c in done[False]], failed
            )
        )
    else:
        for target in done[True]:
            report(f"{word} {visible(target.name)}")
        for target in done[False]:
            tell(f"{target.name} was {'pinned already' if word == 'pinned' else 'not pinned'}.")
        for target, error in failed:
            tell(f"! {target.name}: {error}")
    if failed:
        raise click.exceptions.Exit(1)


def _fresh(targets: Sequence[Checkpoint]) -> dict[Path, tuple[Checkpoint, Standing]]:
    """The targets as they stand now; one that is gone stays as it was."""
    found = {c.path: (c, Standing()) for c in targets}
    for path in {c.run for c in targets}:
        pairs = rows_of(scan_run(path), now=now())
        found.update((c.path, (c, s)) for c, s in pairs if c.path in found)
    return found
