"""From a directory to records: finding runs and describing them, without changing anything.

A scan reads names, markers and sizes. It never opens a tensor, never reads `metrics.jsonl`, never
follows a link below the path it was given, and one unreadable folder costs only itself.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ckptui import schema
from ckptui.checkpoint import Problem, Root
from ckptui.errors import NotFoundError, StorageError
from ckptui.layouts import native, unknown
from ckptui.layouts.native import Entry, list_entries

if TYPE_CHECKING:
    from collections.abc import Callable

    from ckptui.checkpoint import Run
    from ckptui.layouts.memory import Memory

DEPTH = 6
"""Levels below a root that are searched; the root's children are level 1."""

_NEVER = frozenset({"site-packages", "node_modules", "__pycache__"})


def absolute(path: Path) -> Path:
    """A path made absolute and free of `.` and `..`, its links left as the user named them."""
    return Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow links


def through_link(path: Path) -> Path:
    """The checkpoint that a link such as `latest` points to; any other path as it is."""
    try:
        text = os.readlink(path)  # noqa: PTH115 - relative to the link, not to us
    except (OSError, ValueError):
        return path
    target = path.with_name(text) if schema.parse_name(text) else path
    if target.is_symlink():
        target = Path(os.path.realpath(path))
    return target if schema.parse_name(target.name) is not None else path


def kind_of(path: Path) -> Literal["root", "run", "checkpoint"]:
    """What a directory is: a checkpoint, a run, or a root that may hold runs.

    Raises:
        NotFoundError: There is no such directory.
        StorageError: It cannot be listed.
    """
    path = through_link(absolute(path))
    entries = _entries(path)
    if _is_checkpoint(path, entries):
        return "checkpoint"
    return "run" if _is_run(entries) else "root"


def scan(
    path: Path,
    *,
    depth: int = DEPTH,
    on_run: Callable[[Run], None] | None = None,
    on_part: Callable[[Run], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
    memory: Memory | None = None,
) -> Root:
    """All runs at or below a path; for a checkpoint, its run with that checkpoint alone.

    Args:
        path: A root, a run or a checkpoint.
        depth: How many levels below `path` are searched.
        on_run: Called with each run as it is found.
        on_part: Called with a run of many checkpoints while they are read, names first.
        cancelled: Asked before each folder; when it says True the scan ends with what it has.
        memory: What earlier scans found: unchanged checkpoints are not read again.

    Raises:
        NotFoundError: There is no such directory.
        StorageError: It cannot be listed.
    """
    path = through_link(absolute(path))
    entries = _entries(path)
    if _is_checkpoint(path, entries):
        run = scan_run(path.parent)
        alone = tuple(c for c in run.checkpoints if c.name == path.name and not c.staged)
        run = replace(run, checkpoints=alone)
        if on_run:
            on_run(run)
        return Root(path=path, runs=(run,))

    runs: list[Run] = []
    problems: list[Problem] = []
    led_somewhere: set[str] = set()
    unsearched: list[Path] = []
    pending: list[tuple[Path, int, list[Entry] | None]] = [(path, 0, entries)]
    while pending and not (cancelled and cancelled()):
        folder, level, here = pending.pop()
        if here is None:
            try:
                here = list_entries(folder)
            except OSError as e:
                problems.append(Problem(path=folder, what=f"cannot be listed: {e.strerror}"))
                continue
        if _is_run(here):
            run = _describe(folder, here, memory=memory, on_part=on_part, cancelled=cancelled)
            runs.append(run)
            if level:
                led_somewhere.add(folder.relative_to(path).parts[0])
            if on_run:
                on_run(run)
        below = [folder / e.name for e in here if _is_searched(e)]
        if level >= depth:
            unsearched += below
        else:
            pending += [(child, level + 1, None) for child in sorted(below, reverse=True)]
    if unsearched:
        more = f" and {len(unsearched) - 1} more" if len(unsearched) > 1 else ""
        what = f"not searched{more}: deeper than {depth} levels (--depth)"
        problems.append(Problem(path=unsearched[0], what=what))
    known = {str(r.path) for r in runs}
    ignored: tuple[str, ...] = ()
    if str(path) not in known:
        ignored = tuple(sorted(e.name for e in entries if e.name not in led_somewhere))
    runs.sort(key=lambda r: r.path)
    return Root(path=path, runs=tuple(runs), problems=tuple(problems), ignored=ignored)


def scan_run(path: Path) -> Run:
    """The run at exactly this path.

    Raises:
        NotFoundError: There is no such directory, or no run in it.
        StorageError: It cannot be listed.
    """
    path = absolute(path)
    entries = _entries(path)
    if not _is_run(entries):
        msg = f"{path} is no run: it has neither {schema.RUN_FILE} nor checkpoints."
        raise NotFoundError(msg)
    return _describe(path, entries)


def is_run(path: Path) -> bool:
    """Whether a directory is a run; False too where it cannot be listed."""
    try:
        return _is_run(list_entries(path))
    except OSError:
        return False


def _describe(
    folder: Path,
    entries: list[Entry],
    *,
    memory: Memory | None = None,
    on_part: Callable[[Run], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Run:
    if native.recognise(entries):
        return native.describe_run(
            folder, entries, memory=memory, on_part=on_part, cancelled=cancelled
        )
    return unknown.describe_run(folder, entries)


def _is_run(entries: list[Entry]) -> bool:
    return any(
        (e.name == schema.RUN_FILE and not e.is_dir) or native.is_checkpoint_folder(e)
        for e in entries
    )


def _is_checkpoint(path: Path, entries: list[Entry]) -> bool:
    """A folder with a checkpoint's name, unless it is itself a run, which may be named so."""
    return schema.parse_name(path.name) is not None and not _is_run(entries)


def _is_searched(entry: Entry) -> bool:
    return (
        entry.is_dir
        and not entry.name.startswith(".")
        and entry.name not in _NEVER
        and not native.is_checkpoint_folder(entry)
    )


def _entries(path: Path) -> list[Entry]:
    try:
        return list_entries(path)
    except FileNotFoundError:
        msg = f"There is no {path}."
        raise NotFoundError(msg) from None
    except NotADirectoryError:
        msg = f"{path} is a file, not a directory of checkpoints."
        raise NotFoundError(msg) from None
    except OSError as e:
        msg = f"{path} cannot be listed: {e.strerror}."
        raise StorageError(msg, path=path) from e
