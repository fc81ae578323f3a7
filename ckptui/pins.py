"""Pins: files that protect a checkpoint by its name.

To pin, the pin is made durable first and the checkpoint looked for second; to remove, the
checkpoint is renamed away first and the pin looked for second. Whichever comes later sees the
other.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from ckptui import journal, schema
from ckptui.checkpoint import Pin, State
from ckptui.durable import make_dir, read_json_object, replace_file, sync_dir, to_json
from ckptui.errors import NotFoundError, RefusedError, StorageError
from ckptui.run_file import whole

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ckptui.checkpoint import Checkpoint


def pin_path(run: Path, name: str) -> Path:
    """Where the pin of a checkpoint of this name stands."""
    return run / schema.TOOL_DIR / schema.PINS / f"{name}.json"


def is_pinned(run: Path, name: str) -> bool:
    """Whether a pin protects the name now. What cannot be told counts as pinned."""
    try:
        os.lstat(pin_path(run, name))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def read_pins(run: Path) -> Mapping[str, Pin]:
    """The pins of a run by checkpoint name; unreadable ones are there too, and protect."""
    folder = run / schema.TOOL_DIR / schema.PINS
    pins = {}
    try:
        with os.scandir(folder) as entries:
            names = [e.name for e in entries]
    except OSError:
        return {}
    for file_name in names:
        name, dot, end = file_name.rpartition(".")
        if dot and end == "json" and schema.parse_name(name):
            pins[name] = _read_pin(folder / file_name, name)
    return pins


def _read_pin(path: Path, name: str) -> Pin:
    try:
        raw = read_json_object(path, limit=schema.MAX_LINE_SIZE)
    except (OSError, StorageError):
        return Pin(name=name, readable=False)
    texts = {k: v for k, v in raw.items() if isinstance(v, str)}
    return Pin(
        name=name,
        run_id=texts.get("run_id"),
        step=whole(raw.get("step")),
        created=texts.get("created"),
        who=texts.get("who"),
        host=texts.get("host"),
        when=schema.parse_time(raw.get("when")),
        note=texts.get("note", ""),
    )


def pin(checkpoint: Checkpoint, *, note: str | None = None) -> bool:
    """Protect a checkpoint; True if that changed anything.

    Args:
        checkpoint: Complete or not.
        note: Replaces the note of a pin that is there; None leaves it.

    Raises:
        NotFoundError: The checkpoint went away meanwhile; no pin is left behind.
        RefusedError: It belongs to another trainer's layout.
        StorageError: The pin cannot be written.
    """
    _refuse_foreign(checkpoint)
    old = checkpoint.pin
    if old is not None and old.readable and (note is None or note == old.note):
        return False
    path = pin_path(checkpoint.run, checkpoint.name)
    content = {
        "run_id": checkpoint.run_id,
        "step": checkpoint.step,
        "created": checkpoint.created_text,
        "who": journal.user(),
        "host": journal.host(),
        "when": schema.now_text(),
        "note": note if note is not None else checkpoint.note,
    }
    try:
        make_dir(path.parent)
        replace_file(path, to_json(content))
        sync_dir(path.parent.parent)
    except OSError as e:
        msg = f"{checkpoint.name} cannot be pinned: {path} cannot be written ({e.strerror})."
        raise StorageError(msg, path=path) from e
    if not os.path.lexists(checkpoint.path):
        if old is None:
            with contextlib.suppress(OSError):
                path.unlink()
        msg = f"{checkpoint.name} is gone from {checkpoint.run}, so it cannot be pinned."
        raise NotFoundError(msg)
    journal.record(checkpoint.run, "pin", checkpoints=[checkpoint.name], reason=note or None)
    return True


def unpin(checkpoint: Checkpoint) -> bool:
    """Take a checkpoint's protection away; True if there was one.

    Raises:
        StorageError: The pin cannot be removed.
    """
    path = pin_path(checkpoint.run, checkpoint.name)
    try:
        path.unlink()
        sync_dir(path.parent)
    except FileNotFoundError:
        return False
    except OSError as e:
        msg = f"{checkpoint.name} cannot be unpinned: {path} cannot be removed ({e.strerror})."
        raise StorageError(msg, path=path) from e
    journal.record(checkpoint.run, "unpin", checkpoints=[checkpoint.name])
    return True


def _refuse_foreign(checkpoint: Checkpoint) -> None:
    if checkpoint.state is State.UNKNOWN:
        msg = (
            f"{checkpoint.name} in {checkpoint.run} is not known to be a checkpoint of ours, "
            "so ckptui writes nothing there."
        )
        raise RefusedError(msg)
    if checkpoint.staged:
        msg = f"{checkpoint.name} is still being written; pin it once it stands in the run."
        raise RefusedError(msg)
