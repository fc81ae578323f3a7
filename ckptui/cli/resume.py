"""`resume-cmd` and `unlock`."""

from __future__ import annotations

from pathlib import Path

import click

from ckptui import lock
from ckptui.cli.finding import named_checkpoint, named_run
from ckptui.cli.options import (
    FILE,
    PATH,
    checkpoint_arguments,
    json_option,
    now,
    run_id_option,
    run_option,
)
from ckptui.cli.streams import print_json, report, say_shell, tell
from ckptui.display.forms import resume_form
from ckptui.display.rows import standing_of
from ckptui.display.text import visible
from ckptui.errors import NotResumableError
from ckptui.ranking import newest_resumable
from ckptui.resume_command import resume_command


@click.command(
    "resume-cmd",
    epilog="""\b
Examples:
  ckptui resume-cmd latest --run outputs/my-run
  ckptui resume-cmd step_500 --fork outputs/other-lr
  ckptui resume-cmd best:eval_loss | sh
""",
)
@checkpoint_arguments(many=False)
@click.option("--fork", type=PATH, metavar="DIR", help="Continue in a new run in this folder.")
@click.option(
    "--in-place", is_flag=True, help="Go back within the run; newer ones go to the trash."
)
@click.option("--python", metavar="PYTHON", help="The interpreter that the line starts.")
@click.option(
    "--write-config", type=FILE, metavar="FILE", help="Write the settings here and use them."
)
@run_option
@run_id_option
@json_option
def resume_cmd(
    checkpoint: str,
    fork: Path | None,
    in_place: bool,
    python: str | None,
    write_config: Path | None,
    run: Path | None,
    run_id: str | None,
    as_json: bool,
) -> None:
    """Print the one line that continues training from a checkpoint, and nothing else.

    The newest resumable checkpoint continues in its run, an older one in a new run beside it.
    """
    if fork is not None and in_place:
        msg = "Choose --fork or --in-place, not both."
        raise click.UsageError(msg)
    there, found = named_checkpoint(checkpoint, run, run_id)
    warnings = []
    if checkpoint == "latest" and not found.resumable:
        usable = newest_resumable(c for c in there.checkpoints if c.run_id == found.run_id)
        if usable is None:
            msg = f"No checkpoint in {there.path} can be resumed."
            raise NotResumableError(msg)
        warnings.append(
            f"{found.name} is newer but cannot be resumed; this continues {usable.name}."
        )
        found = usable
    command = resume_command(
        there,
        found,
        fork=fork,
        in_place=in_place,
        python=python,
        write_config=write_config,
    )
    if as_json:
        form = resume_form(command, standing_of(found, there, now=now()))
        form["warnings"] = [*warnings, *form["warnings"]]
        print_json(form)
        return
    for warning in (*warnings, *command.warnings):
        tell(f"! {warning}")
    say_shell(command.shell)


@click.command(
    epilog="""\b
Example:
  ckptui unlock outputs/my-run
"""
)
@click.argument("run", type=PATH)
@json_option
def unlock(run: Path, as_json: bool) -> None:
    """Remove the lock of a trainer that is gone; a live one is refused.

    A lock from another machine is watched for two minutes first.
    """
    path = named_run(run).path
    owner = lock.unlock(path, report=tell)
    if as_json:
        print_json({"version": 1, "run": str(path), "host": owner.host, "pid": owner.pid})
    else:
        report(f"unlocked {visible(str(path))}")
