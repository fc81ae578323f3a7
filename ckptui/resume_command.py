"""The one line that continues training from a checkpoint, correct from any directory.

Nothing that is executed comes from the run: the module is one of a built-in list and the
interpreter the user's. Only a run that belongs to the user who asks may bring its own command.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ckptui import schema
from ckptui.durable import read_bytes, replace_file
from ckptui.errors import NotResumableError, RefusedError, StorageError, UsageError
from ckptui.resume import passed_over, unhealthy, why_not_resumable
from ckptui.retention import counts, newest_resumable, order
from ckptui.run_file import read_run_file
from ckptui.scan import absolute
from ckptui.verify import verify_checkpoint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ckptui.checkpoint import Checkpoint, Run

RECIPES = frozenset({"recipe_integration.full_finetune_single_device"})
"""The only modules that a printed line ever runs."""

_NOT_CARRIED = ("resume_from", "rewind", "output_dir")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeCommand:
    """How to continue from a checkpoint."""

    checkpoint: Checkpoint
    argv: tuple[str, ...]
    shell: str
    """`argv` as one line for a POSIX shell."""
    config: Mapping[str, Any] | None
    """The settings it trains with, without `resume_from`; None for a recorded command."""
    warnings: tuple[str, ...] = ()


def resume_command(
    run: Run,
    checkpoint: Checkpoint,
    *,
    fork: Path | None = None,
    in_place: bool = False,
    python: str | None = None,
    write_config: Path | None = None,
) -> ResumeCommand:
    """The checked command that continues training from `checkpoint`.

    The newest resumable checkpoint continues in place, an older one forks, unless told otherwise.

    Args:
        run: The checkpoint's run.
        checkpoint: Where to continue from.
        fork: The folder of a new run.
        in_place: Go back within the run: newer checkpoints will move to the trash.
        python: The interpreter; None takes this one if it has torch, else `python`.
        write_config: Also write the settings to this file and let the line use it.

    Raises:
        UsageError: `fork` with `in_place`.
        NotResumableError: Training cannot continue from it.
        RefusedError: The line would not be safe or would not do what is asked.
        StorageError: A settings file cannot be read or written.
    """
    if fork is not None and in_place:
        msg = "Choose one: a fork leaves the run as it is, in place goes back within it."
        raise UsageError(msg)
    _check(checkpoint)
    newest = newest_resumable(c for c in run.checkpoints if c.run_id == checkpoint.run_id)
    is_newest = newest is not None and newest.path == checkpoint.path
    warnings = _warnings(run, checkpoint, in_place=in_place)
    if is_newest:
        warnings += passed_over(run, checkpoint)
    record = read_run_file(run.path) if (run.path / schema.RUN_FILE).exists() else None
    recipe = record.recipe if record else None
    if recipe is None and (checkpoint.path / schema.RECIPE_CONFIG).exists():
        recipe = next(iter(RECIPES))  # a copied checkpoint folder: its own config tells the rest
    if recipe not in RECIPES:
        if in_place and not is_newest:
            msg = (
                f"{checkpoint.name} is not the newest, and a recorded command cannot go back in "
                f"place; start your own script with TrainingRun(..., resume={checkpoint.path!s}, "
                f"rewind={_next_attempt(run)}), or fork."
            )
            raise RefusedError(msg)
        shell = _recorded(
            run, checkpoint, fork=fork, in_place=in_place or (is_newest and fork is None)
        )
        return ResumeCommand(
            checkpoint=checkpoint,
            argv=("sh", "-c", shell),
            shell=shell,
            config=None,
            warnings=tuple(warnings),
        )
    settings = _settings(checkpoint.path / schema.RECIPE_CONFIG)
    words: list[str] = []
    output = run.path
    if fork is None and is_newest:
        words.append("resume_from=latest")
    elif in_place:
        words += [f"resume_from={checkpoint.path}", f"rewind={_next_attempt(run)}"]
    else:
        output = absolute(fork) if fork is not None else default_fork(run, checkpoint)
        words.append(f"resume_from={checkpoint.path}")
    config = {k: v for k, v in settings.items() if k not in _NOT_CARRIED}
    config["output_dir"] = str(output)
    base, overrides = _base(run, checkpoint, settings, config, write_config)
    argv = [
        python or _interpreter(),
        "-m",
        recipe,
        "--config",
        str(base),
        *overrides,
        *words,
        f"output_dir={output}",
    ]
    for word in argv:
        if "\n" in word or "\r" in word:
            msg = f"{word!r} holds a line break, so no single shell line can name it."
            raise RefusedError(msg)
    return ResumeCommand(
        checkpoint=checkpoint,
        argv=tuple(argv),
        shell=shlex.join(argv),
        config=config,
        warnings=tuple(warnings),
    )


def _check(checkpoint: Checkpoint) -> None:
    if checkpoint.staged and checkpoint.complete:
        msg = f"{checkpoint.name} is in the trash; restore it first."
        raise NotResumableError(msg)
    if not checkpoint.resumable:
        raise NotResumableError(why_not_resumable(checkpoint))
    report = verify_checkpoint(checkpoint)
    if report.status == "failed":
        problem = report.problems[0]
        msg = f"{checkpoint.name} cannot be resumed: {problem.file} {problem.what}."
        raise NotResumableError(msg)


def _warnings(run: Run, checkpoint: Checkpoint, *, in_place: bool) -> list[str]:
    warning = unhealthy(checkpoint)
    found = [] if warning is None else [warning]
    if run.live:
        found.append(f"{run.path} is being trained right now.")
    newer = [
        c
        for c in run.checkpoints
        if counts(c) and c.run_id == checkpoint.run_id and order(c) > order(checkpoint)
    ]
    if in_place and newer:
        found.append(f"{len(newer)} newer checkpoints will be moved to the trash.")
    world = _world_size(checkpoint.path)
    if world is not None and world > 1:
        found.append(f"It was saved by {world} processes; this recipe runs one.")
    return found


def _world_size(folder: Path) -> int | None:
    from ckptui.recipe_state import read_json  # noqa: PLC0415 - below the training code

    try:
        size = read_json(folder).get("world_size")
    except (OSError, StorageError):
        return None
    return size if type(size) is int else None


def _next_attempt(run: Run) -> int:
    seen = [a.attempt for a in run.attempts]
    seen += [c.attempt for c in run.checkpoints if c.attempt is not None]
    return max(seen, default=0) + 1


def default_fork(run: Run, checkpoint: Checkpoint) -> Path:
    """The free folder beside the run that a fork gets: `<run>-from-step_N`, then `-2`, ..."""
    number = 1
    while True:
        suffix = f"-{number}" if number > 1 else ""
        path = run.path.with_name(f"{run.name}-from-{checkpoint.name}{suffix}")
        if not os.path.lexists(path):
            return path
        number += 1


def _interpreter() -> str:
    found = importlib.util.find_spec("torch") is not None
    return sys.executable if found and sys.executable else "python"


def _recorded(run: Run, checkpoint: Checkpoint, *, fork: Path | None, in_place: bool) -> str:
    """The line of a run that `TrainingRun` wrote with a command of its user's."""
    record = read_run_file(run.path) if (run.path / schema.RUN_FILE).exists() else None
    if record is None or record.command is None:
        msg = (
            f"{run.path} records no command to resume with; give TrainingRun(command=...), or run "
            f"your own script with resume={checkpoint.path}."
        )
        raise RefusedError(msg)
    if hasattr(os, "getuid") and (run.path / schema.RUN_FILE).stat().st_uid != os.getuid():
        msg = f"{run.path} belongs to another user, so its recorded command is not repeated."
        raise RefusedError(msg)
    command = record.command
    if not in_place and "{output_dir}" not in command:
        msg = (
            f"{checkpoint.name} is not the newest, and the recorded command has no {{output_dir}} "
            "to fork into; run your own script with another output folder and "
            f"resume={checkpoint.path}."
        )
        raise RefusedError(msg)
    output = run.path if in_place else absolute(fork) if fork else default_fork(run, checkpoint)
    line = command.replace("{checkpoint}", shlex.quote(str(checkpoint.path)))
    line = line.replace("{output_dir}", shlex.quote(str(output)))
    if record.cwd:
        line = f"cd {shlex.quote(record.cwd)} && {line}"
    if "\n" in line or "\r" in line:
        msg = f"The recorded command of {run.path} has a line break; it cannot be one shell line."
        raise RefusedError(msg)
    return line


def _base(
    run: Run,
    checkpoint: Checkpoint,
    settings: Mapping[str, Any],
    config: Mapping[str, Any],
    write_config: Path | None,
) -> tuple[Path, list[str]]:
    """The config file that the line names, and the settings it has to override.

    The run's own file outlives the checkpoint, so a line may be run again after a pruning.
    """
    if write_config is not None:
        path = absolute(write_config)
        _write_yaml(path, config)
        return path, []
    base = run.path / schema.CONFIG_FILE
    if not base.exists():
        return checkpoint.path / schema.RECIPE_CONFIG, []
    mine, theirs = dict(_flat(settings)), dict(_flat(_settings(base)))
    overrides = [
        f"{key}={_word(value)}"
        for key, value in mine.items()
        if key.split(".")[0] not in _NOT_CARRIED and (key not in theirs or theirs[key] != value)
    ]
    return base, overrides


def _flat(settings: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in settings.items():
        if isinstance(value, dict) and value:
            found += _flat(value, f"{prefix}{key}.")
        else:
            found.append((prefix + str(key), value))
    return found


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _settings(path: Path) -> dict[str, Any]:
    """The settings in a YAML file.

    Raises:
        NotResumableError: There is none, or it is damaged.
    """
    import yaml  # noqa: PLC0415 - a listing never needs it

    try:
        found = yaml.safe_load(read_bytes(path, limit=schema.MAX_LINE_SIZE))
    except FileNotFoundError:
        msg = f"{path} is missing, so the settings to resume with are unknown."
        raise NotResumableError(msg) from None
    except (yaml.YAMLError, ValueError, RecursionError) as e:
        msg = f"{path} is no readable YAML, so the settings to resume with are unknown."
        raise NotResumableError(msg) from e
    if not isinstance(found, dict):
        msg = f"{path} holds no settings."
        raise NotResumableError(msg)
    return found


def _write_yaml(path: Path, config: Mapping[str, Any]) -> None:
    import yaml  # noqa: PLC0415 - a listing never needs it

    text = yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True)
    try:
        replace_file(path, text.encode("utf-8", "backslashreplace"))
    except OSError as e:
        msg = f"{path} cannot be written: {e.strerror}."
        raise StorageError(msg, path=path) from e
