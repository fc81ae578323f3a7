"""The one line that continues training from a checkpoint, correct from any directory.

Nothing that is executed comes from the run: the module is one of a built-in list and the
interpreter the user's. Only a run that belongs to the user who asks may bring its own command.
"""

from __future__ import annotations

import importlib.util
import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ckptui import schema
from ckptui.errors import (
    FormatError,
    NewerFormatError,
    NotResumableError,
    RefusedError,
    StorageError,
    UsageError,
)
from ckptui.recorded import default_fork, recorded_line
from ckptui.resume import ids_of, passed_over, refuse_unknown, unhealthy, why_not_resumable
from ckptui.retention import counts, newest_resumable, order
from ckptui.run_file import read_run_file
from ckptui.scan import absolute
from ckptui.settings import flat, read_settings, write_settings
from ckptui.verify import verify_checkpoint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ckptui.checkpoint import Checkpoint, Run
    from ckptui.run_file import RunFile

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
    output: Path
    """Where it trains: the checkpoint's run, or the folder of a new one."""
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
    if in_place and not is_newest:
        _refuse_rewind(run, checkpoint)
    ids = ids_of(run)
    record = _record(run)
    recipe = record.recipe if record else None
    own = record.command if record else None
    if recipe is None and own is None and (checkpoint.path / schema.RECIPE_CONFIG).exists():
        recipe = next(iter(RECIPES))  # a copied checkpoint folder: its own config tells the rest
    if recipe not in RECIPES:
        if in_place and not is_newest:
            msg = (
                f"{checkpoint.name} is not the newest, and a recorded command cannot go back in "
                f"place; start your own script with TrainingRun(..., resume={checkpoint.path!s}, "
                f"rewind={_next_attempt(run)}), or fork."
            )
            raise RefusedError(msg)
        if in_place or (is_newest and fork is None):
            output = None
        else:
            output = absolute(fork) if fork is not None else default_fork(run, checkpoint)
        shell = recorded_line(run, record, checkpoint, fork=output)
        return ResumeCommand(
            checkpoint=checkpoint,
            argv=("sh", "-c", shell),
            shell=shell,
            output=output or run.path,
            config=None,
            warnings=tuple(warnings),
        )
    settings = read_settings(checkpoint.path / schema.RECIPE_CONFIG)
    words: list[str] = []
    output = run.path
    if fork is None and is_newest:
        # Where training would refuse to say which is the latest, the line names it.
        if len(ids) > 1:
            warnings.append(
                f"{run.path} holds checkpoints of {len(ids)} run ids, so the line names this one: "
                "once a newer one of its id is saved, ask for the line anew."
            )
            words.append(f"resume_from={checkpoint.path}")
        else:
            refuse_unknown(run, above=checkpoint)
            words.append("resume_from=latest")
    elif in_place:
        words += [f"resume_from={checkpoint.path}", f"rewind={_next_attempt(run)}"]
    else:
        output = absolute(fork) if fork is not None else default_fork(run, checkpoint)
        words.append(f"resume_from={checkpoint.path}")
    config = {k: v for k, v in settings.items() if k not in _NOT_CARRIED}
    config["output_dir"] = str(output)
    base, overrides = _base(run, checkpoint, settings)
    if write_config is not None:
        base, overrides = absolute(write_config), []
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
    if write_config is not None:
        write_settings(base, config)
    return ResumeCommand(
        checkpoint=checkpoint,
        argv=tuple(argv),
        shell=shlex.join(argv),
        output=output,
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


def _refuse_rewind(run: Run, checkpoint: Checkpoint) -> None:
    """Refuse to print a line that training would refuse when it is run.

    Raises:
        RefusedError: It would go back to an abandoned branch, or abandon a pinned checkpoint.
    """
    if not checkpoint.current:
        msg = f"{checkpoint.name} belongs to an abandoned branch; fork it instead of --in-place."
        raise RefusedError(msg)
    pinned = [c.name for c in _newer(run, checkpoint) if c.pinned]
    if pinned:
        msg = (
            f"Going back to {checkpoint.name} would abandon {', '.join(pinned)}, which is pinned; "
            "unpin it, or fork."
        )
        raise RefusedError(msg)


def _newer(run: Run, checkpoint: Checkpoint) -> list[Checkpoint]:
    return [
        c
        for c in run.checkpoints
        if counts(c) and c.run_id == checkpoint.run_id and order(c) > order(checkpoint)
    ]


def _record(run: Run) -> RunFile | None:
    """The run's own record; None where there is none, or one that is damaged for good.

    Raises:
        StorageError: It cannot be read now, or a newer ckptui wrote it.
    """
    try:
        return read_run_file(run.path)
    except NewerFormatError:
        raise
    except FormatError:
        return None


def _warnings(run: Run, checkpoint: Checkpoint, *, in_place: bool) -> list[str]:
    warning = unhealthy(checkpoint)
    found = [] if warning is None else [warning]
    if run.live:
        found.append(f"{run.path} is being trained right now.")
    newer = _newer(run, checkpoint)
    if in_place and newer:
        plural = "checkpoint" if len(newer) == 1 else "checkpoints"
        found.append(f"{len(newer)} newer {plural} will be moved to the trash.")
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


def _interpreter() -> str:
    found = importlib.util.find_spec("torch") is not None
    return sys.executable if found and sys.executable else "python"


def _base(run: Run, checkpoint: Checkpoint, settings: Mapping[str, Any]) -> tuple[Path, list[str]]:
    """The config file that the line names, and the settings it has to override.

    The run's own file outlives the checkpoint, so a line may be run again after a pruning.
    """
    base = run.path / schema.CONFIG_FILE
    try:
        standing = read_settings(base)
    except (NotResumableError, StorageError):
        return checkpoint.path / schema.RECIPE_CONFIG, []
    mine, theirs = dict(flat(settings)), dict(flat(standing))
    overrides = [
        f"{key}={_word(value)}"
        for key, value in mine.items()
        if key.split(".")[0] not in _NOT_CARRIED and (key not in theirs or theirs[key] != value)
    ]
    return base, overrides


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
