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
from ckptui.durable import append_line, make_dir
from ckptui.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from pathlib import Path


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
    with contextlib.suppress(OSError):
        folder = run / schema.TOOL_DIR
        make_dir(folder)
        append_line(folder / schema.JOURNAL, json.dumps(event, ensure_ascii=False))


def read(run: Path) -> tuple[tuple[Event, ...], tuple[Problem, ...]]:
    """All events in the order they were written, and the lines that could not be read.

    Raises:
        StorageError: The journal cannot be read.
    """
    path = run / schema.TOOL_DIR / schema.JOURNAL
    events, problems = [], []
    try:
        with path.open("rb") as f:
            for number, line in enumerate(f, 1):
                event = _parse(line)
                if event is not None:
                    events.append(event)
                elif line.strip():
                    problems.append(Problem(path=path, what=f"line {number} is damaged"))
    except FileNotFoundError:
        pass
    except OSError as e:
        msg = f"{path} cannot be read: {e.strerror}."
        raise StorageError(msg, path=path) from e
    return tuple(events), tuple(problems)


def _parse(line: bytes) -> Event | None:
    if len(line) > schema.MAX_LINE_SIZE:
        return None
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
