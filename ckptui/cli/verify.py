"""`verify`."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ckptui.checkpoint import State
from ckptui.cli.options import PATH, depth_option, json_option, tell_problems
from ckptui.cli.streams import print_json, say, tell
from ckptui.display.forms import reports_form
from ckptui.display.text import plural, size, visible
from ckptui.errors import NotFoundError
from ckptui.scan import scan
from ckptui.verify import Report, verify_checkpoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ckptui.checkpoint import Checkpoint, Root


@click.command(
    epilog="""\b
Examples:
  ckptui verify outputs/my-run
  ckptui verify outputs/my-run/step_500 --full
  ckptui verify outputs/my-run/step_500 outputs/my-run/step_600
"""
)
@click.argument("paths", type=PATH, nargs=-1, metavar="[PATH]...")
@click.option("--full", is_flag=True, help="Also read everything: digests, NaN in the weights.")
@depth_option
@json_option
def verify(paths: tuple[Path, ...], full: bool, depth: int, as_json: bool) -> None:
    """Check that the checkpoints below each PATH are whole; exit 1 if one is not.

    Without --full: markers, sizes, safetensors headers and shard indexes.
    """
    roots, missing = _roots(paths or (Path(),), depth=depth)
    found = {c.path: c for root in roots for run in root.runs for c in run.checkpoints}
    targets = [c for c in found.values() if c.state is not State.WRITING]
    reports: list[Report] = []
    with Progress(sum(c.size for c in targets) if full else 0) as progress:
        for target in targets:
            report = verify_checkpoint(target, full=full, progress=progress.add)
            if report.status == "failed" and not os.path.lexists(target.path):
                progress.clear()
                tell(f"{target.path} was removed meanwhile.")
                continue
            reports.append(report)
            if not as_json:
                progress.clear()
                try:
                    _print(target, report)
                except BrokenPipeError:
                    # The reader has left: to read on is wasted, to say that all is well a lie.
                    raise click.exceptions.Exit(1) from None
    if as_json:
        print_json(reports_form(reports))
    if len(roots) == 1 and (run := _run_of(roots[0])) is not None:
        tell(f"{roots[0].path.name} is one checkpoint; its run is {run}.")
    for root in roots:
        tell_problems(root.problems)
    unread = sum(not r.looked for r in reports)
    if unread:
        was = "was" if unread == 1 else "were"
        tell(f"{plural(unread, 'checkpoint')} of {len(reports)} {was} not checked.")
    failed = sum(r.status == "failed" for r in reports)
    if failed:
        tell(f"{plural(failed, 'checkpoint')} of {len(reports)} failed.")
    if failed or missing:
        raise click.exceptions.Exit(1)


def _roots(paths: Sequence[Path], *, depth: int) -> tuple[list[Root], bool]:
    """What is at or below each path, and whether one of several is not there."""
    roots, missing = [], False
    for path in paths:
        try:
            root = scan(path, depth=depth)
        except NotFoundError as e:
            if len(paths) == 1:
                raise
            tell(str(e))  # one of many may have been pruned since they were listed
            missing = True
            continue
        if not root.runs:
            tell(f"No checkpoints in {root.path}.")
        roots.append(root)
    return roots, missing


def _run_of(root: Root) -> Path | None:
    """The run of the one checkpoint that a path means; None where it means more."""
    runs = [r.path for r in root.runs if root.path not in (r.path, *r.path.parents)]
    return runs[0] if runs else None


def _print(target: Checkpoint, report: Report) -> None:
    say(f"{report.status:<8}  {visible(str(target.path))}")
    for problem in report.problems:
        say(f"          {visible(f'{problem.file} {problem.what}'.strip())}")


class Progress:
    """One line on stderr that tells how much has been read; silent off a terminal."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._shown = 0.0
        self._active = total > 0 and sys.stderr.isatty()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def add(self, count: int) -> None:
        """Count bytes that were read."""
        self._done += count
        now = time.monotonic()
        if self._active and now - self._shown > 0.1:
            self._shown = now
            click.echo(f"\r{size(self._done)} of {size(self._total)} ", err=True, nl=False)

    def clear(self) -> None:
        """Take the line away."""
        if self._active and self._shown:
            click.echo("\r" + " " * 40 + "\r", err=True, nl=False)
            self._shown = 0.0
