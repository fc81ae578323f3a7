"""The command that a training loop recorded for itself, filled in so that a shell is safe."""

from __future__ import annotations

import os
import re
import shlex
from typing import TYPE_CHECKING

from ckptui import schema
from ckptui.errors import RefusedError

if TYPE_CHECKING:
    from pathlib import Path

    from ckptui.checkpoint import Checkpoint, Run
    from ckptui.run_file import RunFile

_PLACE = re.compile(r"\{checkpoint\}|\{output_dir\}")


def default_fork(run: Run, checkpoint: Checkpoint) -> Path:
    """The free folder beside the run that a fork gets: `<run>-from-step_N`, then `-2`, ..."""
    number = 1
    while True:
        suffix = f"-{number}" if number > 1 else ""
        path = run.path.with_name(f"{run.name}-from-{checkpoint.name}{suffix}")
        if not os.path.lexists(path):
            return path
        number += 1


def recorded_line(
    run: Run, record: RunFile | None, checkpoint: Checkpoint, *, fork: Path | None
) -> str:
    """The line that continues a run whose user gave `TrainingRun` a command.

    Args:
        run: The checkpoint's run.
        record: Its `run.json`, if there is a readable one.
        checkpoint: Where to continue from.
        fork: The folder of a new run; None continues in the run itself.

    Raises:
        RefusedError: There is no command, or it is not safe to repeat, or cannot do what is asked.
    """
    if record is None or record.command is None:
        msg = (
            f"{run.path} records no command to resume with; give TrainingRun(command=...), or run "
            f"your own script with resume={checkpoint.path}."
        )
        raise RefusedError(msg)
    # lstat: a link in the run's place would speak for whoever owns its target.
    if hasattr(os, "getuid") and (run.path / schema.RUN_FILE).lstat().st_uid != os.getuid():
        msg = f"{run.path} belongs to another user, so its recorded command is not repeated."
        raise RefusedError(msg)
    command = record.command
    if fork is not None and "{output_dir}" not in command:
        stands = "is not the newest" if checkpoint.current else "lies on an abandoned branch"
        msg = (
            f"{checkpoint.name} {stands}, and the recorded command has no {{output_dir}} "
            "to fork into; run your own script with another output folder and "
            f"resume={checkpoint.path}."
        )
        raise RefusedError(msg)
    check_template(command)
    paths = {"{checkpoint}": checkpoint.path, "{output_dir}": fork or run.path}
    # In one pass: a path may itself hold what looks like a place for another one.
    line = _PLACE.sub(lambda place: shlex.quote(str(paths[place[0]])), command)
    if record.cwd:
        line = f"cd {shlex.quote(record.cwd)} && {line}"
    if "\n" in line or "\r" in line:
        msg = f"The recorded command of {run.path} has a line break; it cannot be one shell line."
        raise RefusedError(msg)
    return line


def check_template(command: str) -> None:
    """Make sure that the places for paths in a recorded command can take any path safely.

    Paths are put in quoted. Inside quotes of the command's own their quotes would end there, and
    what a path holds would be run.

    Raises:
        RefusedError: A place stands within quotes, or after a backslash.
    """
    quote = ""
    at = 0
    while at < len(command):
        place = _PLACE.match(command, at)
        if place and (quote or command[at - 1 : at] == "$"):
            msg = (
                f"{place[0]} stands within quotes or after a $ in the command {command!r}; write "
                "it bare, quotes are added where a path needs them."
            )
            raise RefusedError(msg)
        letter = command[at]
        if letter == "\\" and quote != "'":
            if _PLACE.match(command, at + 1):
                msg = f"A place for a path follows a backslash in the command {command!r}."
                raise RefusedError(msg)
            at += 1
        elif quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"`":
            quote = letter
        at += 1
