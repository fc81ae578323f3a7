"""`.ckptui/journal.jsonl`: what was done to a run, by whom and why.

A record is a courtesy to people, not a part of any protocol: failing to write one stops nothing.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ckptui import schema
from ckptui.checkpoint import Problem
from ckptui.durable import append_line, read_lines, tool_dir
from ckptui.errors import RefusedError, StorageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from pathlib import Path

_MAX_PROBLEMS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that was done to a run."""

    time: datetime | None
    who: str | None
    host: str | None
    what: str
    checkpoints: tuple[str, ...] = ()
    reason: str | None = None


def user() -> str | None:
    """The name of the person at work, if the system knows one."""
    with contextlib.suppress(OSError, KeyError, ImportError):
        return getpass.getuser()
    return None


def host() -> str:
    """The name of this machine."""
    return os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")


def record(
    run: Path, what: str, *, checkpoints: Sequence[str] = (), reason: str | None = None
) -> None:
    """Append one event; a disk that refuses is no reason to stop what is being recorded."""
    event = {
        "time": schema.now_text(),
        "who": user(),
        "host": host(),
        "what": what,
        "checkpoints": list(checkpoints),
        "reason": reason,
    }
    with contextlib.suppress(OSError, RefusedError):
        folder = tool_dir(run)
        append_line(folder / schema.JOURNAL, json.dumps(event, ensure_ascii=False))


def read(run: Path) -> tuple[tuple[Event, ...], tuple[Problem, ...]]:
    """All events in the order they were written, and the lines that could not be read.

    Raises:
        StorageError: The journal cannot be read.
    """
    path = run / schema.TOOL_DIR / schema.JOURNAL
    events, problems = [], []
    bad = 0
    try:
        for number, line in read_lines(path, limit=schema.MAX_LINE_SIZE):
            event = _parse(line) if line is not None else None
            if event is not None:
                events.append(event)
            elif line is None or line.strip():
                bad += 1
                if bad <= _MAX_PROBLEMS:
                    problems.append(Problem(path=path, what=f"line {number} is damaged"))
    except FileNotFoundError:
        pass
    except OSError as e:
        msg = f"{path} cannot be read: {e.strerror}."
        raise StorageError(msg, path=path) from e
    if bad > _MAX_PROBLEMS:
        problems.append(Problem(path=path, what=f"{bad - _MAX_PROBLEMS} more lines are damaged"))
    return tuple(events), tuple(problems)


def _parse(line: bytes) -> Event | None:
    try:
        raw = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, dict) or not isinstance(raw.get("what"), str):
        return None
    names = raw.get("checkpoints")
    texts = {k: v for k, v in raw.items() if isinstance(v, str)}
    return Event(
        time=schema.parse_time(raw.get("time")),
        who=texts.get("who"),
        host=texts.get("host"),
        what=raw["what"],
        checkpoints=tuple(n for n in names if isinstance(n, str))
        if isinstance(names, list)
        else (),
        reason=texts.get("reason"),
    )
