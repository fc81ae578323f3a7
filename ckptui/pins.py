"""Pins: files that protect a checkpoint by its name.

To pin, the pin is made durable first and the checkpoint looked for second; to remove, the
checkpoint is renamed away first and the pin looked for second. Whichever comes later sees the
other.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

from ckptui import guard, journal, schema
from ckptui.checkpoint import Pin, State
from ckptui.durable import (
    create_file,
    read_json_object,
    refuse_links,
    replace_file,
    sync_dir,
    to_json,
    tool_dir,
)
from ckptui.errors import NotFoundError, RefusedError, StorageError
from ckptui.run_file import whole

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ckptui.checkpoint import Checkpoint

_LOOKS = (0.0, 0.02, 0.1, 0.4)
"""Seconds before each look for a checkpoint that is not to be seen: a removal that finds the new
pin has it in hand only for a moment."""


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
    """The pins of a run by checkpoint name; unreadable ones are there too, and protect.

    Raises:
        StorageError: Whether there are pins cannot be told; then every name may be pinned.
    """
    folder = run / schema.TOOL_DIR / schema.PINS
    pins = {}
    try:
        with os.scandir(folder) as entries:
            names = [e.name for e in entries]
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as e:
        msg = f"{folder} cannot be read: {e.strerror}."
        raise StorageError(msg, path=folder) from e
    for file_name in names:
        name, dot, end = file_name.rpartition(".")
        if dot and end == "json" and schema.parse_name(name):
            found = read_pin(run, name)
            if found is not None:
                pins[name] = found
    return pins


def read_pin(run: Path, name: str) -> Pin | None:
    """The pin of this name; None if there is none, or none any more."""
    path = pin_path(run, name)
    while True:
        try:
            raw = read_json_object(path, limit=schema.MAX_LINE_SIZE)
            break
        except FileNotFoundError:
            if path.is_symlink():
                return Pin(name=name, readable=False)
            if not is_pinned(run, name):
                return None
            # It was made anew between the two looks.
        except StorageError:
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
        NotFoundError: The checkpoint went away meanwhile, or another one has taken its place; no
            pin is left behind.
        RefusedError: It belongs to another trainer's layout, or changes are forbidden.
        StorageError: The pin cannot be written.
    """
    guard.require_changes_allowed(f"pin {checkpoint.name}", checkpoint.run)
    refuse_unpinnable(checkpoint)
    path = pin_path(checkpoint.run, checkpoint.name)
    # The record may be older than the last unpin: what is on the disk now counts.
    old = read_pin(checkpoint.run, checkpoint.name)
    _find(checkpoint)
    if old is not None and _says_so_already(old, checkpoint, note):
        return False
    content = to_json(
        {
            "run_id": checkpoint.run_id,
            "step": checkpoint.step,
            "created": checkpoint.created_text,
            "who": journal.user(),
            "host": journal.host(),
            "when": schema.now_text(),
            "note": note if note is not None else old.note if old else "",
        }
    )
    try:
        folder = tool_dir(checkpoint.run, schema.PINS)
        ours = old is None and _create(path, content)
        if not ours:
            replace_file(path, content)
        sync_dir(folder.parent)
    except OSError as e:
        msg = f"{checkpoint.name} cannot be pinned: {path} cannot be written ({e.strerror})."
        raise StorageError(msg, path=path) from e
    try:
        _find(checkpoint)
    except NotFoundError:
        if ours:
            _take_back(path, content)
        raise
    journal.record(checkpoint.run, "pin", checkpoints=[checkpoint.name], reason=note or None)
    return True


def _create(path: Path, content: bytes) -> bool:
    """Make a pin where there is none; False if somebody else has pinned meanwhile.

    Such a pin must not be taken back by us: its maker has been told that it protects.
    """
    try:
        create_file(path, content)
    except FileExistsError:
        return False
    return True


def _says_so_already(old: Pin, checkpoint: Checkpoint, note: str | None) -> bool:
    """Whether a pin is for this very checkpoint and with this note."""
    return (
        old.readable
        and (old.run_id, old.created) == (checkpoint.run_id, checkpoint.created_text)
        and (note is None or note == old.note)
    )


def _find(checkpoint: Checkpoint) -> None:
    """See that the checkpoint stands in its place, or does so again in a moment.

    Raises:
        NotFoundError: It is gone, or another one stands there now.
    """
    for wait in _LOOKS:
        time.sleep(wait)
        if os.path.lexists(checkpoint.path):
            _refuse_another(checkpoint)
            return
    msg = f"{checkpoint.name} is gone from {checkpoint.run}, so it cannot be pinned."
    raise NotFoundError(msg)


def _refuse_another(checkpoint: Checkpoint) -> None:
    """Refuse where the place of a checkpoint is another one's by now.

    Only markers tell: without one that can be read there is nothing that speaks against it.

    Raises:
        NotFoundError: Another one stands there.
    """
    try:
        raw = read_json_object(checkpoint.path / schema.MARKER, limit=schema.MAX_JSON_SIZE)
    except (OSError, StorageError):
        return
    now = (raw.get("run_id"), raw.get("created"))
    meant = (checkpoint.run_id, checkpoint.created_text)
    if any(a is not None and b is not None and a != b for a, b in zip(now, meant, strict=True)):
        msg = (
            f"{checkpoint.name} in {checkpoint.run} is another checkpoint of that name by now, "
            "so its pin was left as it is."
        )
        raise NotFoundError(msg)


def _take_back(path: Path, content: bytes) -> None:
    """Remove our own pin; one that somebody has made since protects what they saw."""
    with contextlib.suppress(OSError):
        if path.read_bytes() == content:
            path.unlink()


def unpin(checkpoint: Checkpoint) -> bool:
    """Take a checkpoint's protection away; True if there was one.

    Raises:
        NotFoundError: Another checkpoint has taken its place; the pin may be that one's.
        RefusedError: A link stands where the pins should, or changes are forbidden.
        StorageError: The pin cannot be removed.
    """
    guard.require_changes_allowed(f"unpin {checkpoint.name}", checkpoint.run)
    path = pin_path(checkpoint.run, checkpoint.name)
    refuse_links(checkpoint.run, schema.PINS)
    _refuse_another(checkpoint)
    try:
        path.unlink()
        sync_dir(path.parent)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as e:
        msg = f"{checkpoint.name} cannot be unpinned: {path} cannot be removed ({e.strerror})."
        raise StorageError(msg, path=path) from e
    journal.record(checkpoint.run, "unpin", checkpoints=[checkpoint.name])
    return True


def refuse_unpinnable(checkpoint: Checkpoint) -> None:
    """Refuse what no pin can protect, by what is known of it.

    Raises:
        RefusedError: It is not ours, or does not stand in the run.
    """
    if checkpoint.state is State.UNKNOWN:
        msg = (
            f"{checkpoint.name} in {checkpoint.run} is not known to be a checkpoint of ours, "
            "so ckptui writes nothing there."
        )
        raise RefusedError(msg)
    if checkpoint.staged:
        where = "in the trash" if checkpoint.path.parent.parent.name == schema.TRASH else "staged"
        msg = f"{checkpoint.name} is {where}; pin it once it stands in the run."
        raise RefusedError(msg)
