"""From the words of a command line to runs and checkpoints."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from ckptui import locate, schema
from ckptui.errors import NotFoundError, RefusedError
from ckptui.scan import scan_run
from ckptui.trash import find_item

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ckptui.checkpoint import Checkpoint, Run
    from ckptui.trash import TrashItem


def named_run(run: Path | None) -> Run:
    """The run that RUN, `--run`, the environment or the working directory means."""
    return scan_run(locate.find_run(run, cwd=Path.cwd(), env=os.environ))


def named_checkpoint(text: str, run: Path | None, run_id: str | None) -> tuple[Run, Checkpoint]:
    """The checkpoint that a word means, with its run."""
    return named_checkpoints([text], run, run_id)[0]


def named_checkpoints(
    texts: Iterable[str], run: Path | None, run_id: str | None
) -> list[tuple[Run, Checkpoint]]:
    """Several checkpoints, each once, all found before anything is done to the first."""
    return locate.find_checkpoints(texts, run, cwd=Path.cwd(), env=os.environ, run_id=run_id)


def standing_checkpoints(
    texts: Iterable[str], run: Path | None, run_id: str | None
) -> list[tuple[Run, Checkpoint]]:
    """As `named_checkpoints`, for what cannot be done to a checkpoint in the trash.

    Raises:
        RefusedError: One lies in the trash.
    """
    found = named_checkpoints(texts, run, run_id)
    for there, checkpoint in found:
        item = trash_item(checkpoint)
        if item is not None:
            line = locate.restore_line(item)
            msg = f"{item.id} is in the trash of {there.path}; `{line}` brings it back."
            raise RefusedError(msg)
    return found


def trash_item(checkpoint: Checkpoint) -> TrashItem | None:
    """The item of the trash that a checkpoint lies in, if it lies there."""
    run, item = checkpoint.run, checkpoint.path.parent
    if item.parent != run / schema.TOOL_DIR / schema.TRASH:
        return None
    with contextlib.suppress(NotFoundError):
        return find_item(run, item.name)
    return None
