"""Read-only as a guarantee: one switch, asked by every function that changes a run from outside.

`forbid_changes` throws it for the whole process, in every thread; `CKPTUI_READ_ONLY=1` in the
environment does so from the start and cannot be lifted. The functions themselves ask before they
touch the disk, so no front end can forget to. What has begun by then is finished. Training is no
change from outside: the process that holds a run's lock goes on to save and to prune it.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from ckptui import schema
from ckptui.errors import ReadOnlyError

if TYPE_CHECKING:
    from pathlib import Path

ENV = "CKPTUI_READ_ONLY"
"""Set to anything but `0` it forbids all changes."""

_mutex = threading.Lock()
_reason: str | None = None
_trained: dict[str, int] = {}
"""Runs whose lock this process holds, and how often."""


def forbid_changes(reason: str) -> None:
    """Refuse every change from now on, in all threads.

    Args:
        reason: Why, in a few words for people: `browse was started with --read-only`.
    """
    global _reason
    with _mutex:
        _reason = reason or "changes are forbidden"


def allow_changes() -> None:
    """Lift what `forbid_changes` forbade; what the environment forbids stays forbidden."""
    global _reason
    with _mutex:
        _reason = None


def forbidden() -> str | None:
    """Why changes are refused now, in a few words; None where they are not."""
    if os.environ.get(ENV, "") not in ("", "0"):
        return f"{ENV} is set"
    with _mutex:
        return _reason


def require_changes_allowed(what: str, run: Path) -> None:
    """Let nothing happen where changes are forbidden.

    Args:
        what: The deed that is about to be done, as in `pin step_2000`.
        run: The run it is done to.

    Raises:
        ReadOnlyError: Changes are forbidden, and this process does not train the run.
    """
    why = forbidden()
    if why is None or _is_trained_here(run):
        return
    msg = f"ckptui is read-only here and does not {what}: {why}."
    raise ReadOnlyError(msg, reason=why)


def begin_training(run: Path) -> None:
    """Count this process as the trainer of a run; only `lock.acquire` knows that."""
    key = os.path.realpath(run)
    with _mutex:
        _trained[key] = _trained.get(key, 0) + 1


def end_training(run: Path) -> None:
    """Take back one `begin_training`."""
    key = os.path.realpath(run)
    with _mutex:
        left = _trained.pop(key, 0) - 1
        if left > 0:
            _trained[key] = left


def _is_trained_here(run: Path) -> bool:
    with _mutex:
        if not _trained:
            return False
    key = os.path.realpath(run)
    with _mutex:
        return key in _trained


def why_read_only(run: Path) -> str | None:
    """Why nothing can be changed in a run, in a few words; None where nothing is in the way.

    This looks at the switch and at the folders, and tries nothing out: a disk may still refuse.
    """
    why = forbidden()
    if why is not None:
        return f"read-only: {why}"
    own = run / schema.TOOL_DIR
    for folder in (run, own, own / schema.PINS, own / schema.TRASH):
        try:
            found = folder.stat()
        except FileNotFoundError:
            continue  # it is made when it is needed
        except OSError as e:
            return f"read-only: {e.strerror}"
        if os.statvfs(folder).f_flag & os.ST_RDONLY:
            return "read-only file system"
        if not os.access(folder, os.W_OK | os.X_OK, effective_ids=_BY_EFFECTIVE_IDS):
            if found.st_uid != os.geteuid():
                return f"read-only: owned by {_user_name(found.st_uid)}"
            return f"read-only: the permissions of {folder.name} forbid writing"
    return None


_BY_EFFECTIVE_IDS = os.access in os.supports_effective_ids


def _user_name(number: int) -> str:
    try:
        import pwd  # noqa: PLC0415 - not every system has users

        return pwd.getpwuid(number).pw_name
    except (ImportError, KeyError):
        return f"user {number}"
