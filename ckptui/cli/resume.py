"""`resume-cmd` and `unlock`."""

from __future__ import annotations

from pathlib import Path

import click

from ckptui import lock
from ckptui.cli.options import (
    PATH,
    checkpoint_arguments,
    json_option,
    named_checkpoint,
    now,
    print_json,
    run_id_option,
    run_option,
    tell,
)
from ckptui.display.forms import resume_form
from ckptui.display.text import visible
from ckptui.errors import NotResumableError
from ckptui.resume_command import resume_command
from ckptui.retention import Standing, newest_resumable, standings
from ckptui.scan import absolute, scan_run


@click.command(
    "resume-cmd",
    epilog="""\b
Examples:
  ckptui resume-cmd latest --run outputs/my-run
  ckptui resume-cmd step_500 --fork outputs/other-lr
  $(ckptui resume-cmd best:eval_loss)
""",
)
@checkpoint_arguments(many=False)
@click.option("--fork", type=PATH, metavar="DIR", help="Continue in a new run in this folder.")
@click.option(
    "--in-place", is_flag=True, help="Go back within the run; newer ones go to the trash."
)
@click.option("--python", metavar="PYTHON", help="The interpreter that the line starts.")
@click.option(
    "--write-config", type=PATH, metavar="FILE", help="Write the settings here and use them."
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
        by_path = dict(
            zip((c.path for c in there.checkpoints), standings(there, now=now()), strict=True)
        )
        form = resume_form(command, by_path.get(found.path, Standing()))
        form["warnings"] = [*warnings, *form["warnings"]]
        print_json(form)
        return
    for warning in (*warnings, *command.warnings):
        tell(f"! {warning}")
    # The line must reach the shell byte for byte, so it is not made visible here; it has no line
    # break, and its words are quoted.
    click.echo(command.shell.encode("utf-8", "surrogateescape"))


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
    path = scan_run(absolute(run)).path
    owner = lock.unlock(path, report=tell)
    if as_json:
        print_json({"version": 1, "run": str(path), "host": owner.host, "pid": owner.pid})
    else:
        click.echo(f"unlocked {visible(str(path))}")
