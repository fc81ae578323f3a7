"""The native layout: `run.json`, `step_N` and `epoch_N` with their markers, and `.ckptui`."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from ckptui import leases, lock, schema
from ckptui.checkpoint import Checkpoint, Problem, Run, State, order
from ckptui.errors import StorageError
from ckptui.layouts.files import list_files, size_once
from ckptui.layouts.marker import MarkerError, read_marker
from ckptui.layouts.native_checkpoint import describe_folder
from ckptui.layouts.reading import Entry, Reading, is_checkpoint_folder, list_entries
from ckptui.pins import read_pins
from ckptui.run_file import RunFile, read_run_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ckptui.checkpoint import Owner, SharedFile
    from ckptui.layouts.memory import Memory

__all__ = ["Entry", "describe_run", "is_checkpoint_folder", "list_entries", "recognise"]

FRESH_SECONDS = 3600.0
"""Staging touched within this time may still be written by somebody we cannot see."""


def recognise(entries: Iterable[Entry]) -> bool:
    """Whether a folder is a native run: `run.json`, or a checkpoint with a readable marker."""
    for entry in entries:
        if entry.name == schema.RUN_FILE and not entry.is_dir:
            return True
        if is_checkpoint_folder(entry):
            try:
                if read_marker(entry.path) is not None:
                    return True
            except MarkerError as e:
                if e.newer:
                    return True
            except OSError:
                continue
    return False


def describe_run(
    folder: Path,
    entries: Iterable[Entry],
    *,
    memory: Memory | None = None,
    on_part: Callable[[Run], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Run:
    """Everything a listing tells about a native run.

    Each checkpoint costs one `scandir` with a `stat` per file and the reading of its marker; one
    that `memory` knows costs a single `stat`.

    Args:
        folder: The run.
        entries: What lies in it.
        memory: What earlier readings found; filled anew.
        on_part: Called with what is known so far while many checkpoints are read.
        cancelled: Asked before each checkpoint; the rest stays unread when it says True.
    """
    problems: list[Problem] = []
    run_file = None
    try:
        run_file = read_run_file(folder)
    except StorageError as e:
        problems.append(Problem(path=folder / schema.RUN_FILE, what=str(e)))
    if (folder / schema.TOOL_DIR).is_symlink():
        what = f"{schema.TOOL_DIR} is a link: nothing is pinned, pruned or trained here"
        problems.append(Problem(path=folder / schema.TOOL_DIR, what=what))
    attempts = run_file.attempts if run_file else ()
    try:
        pins, may_be_pinned = read_pins(folder), False
    except StorageError as e:
        # What cannot be told counts as pinned, here as in a removal.
        pins, may_be_pinned = {}, True
        problems.append(Problem(path=folder, what=f"every checkpoint counts as pinned: {e}"))
    owner = lock.read_owner(folder)
    live = owner is not None and lock.is_live(owner)

    named: list[Entry] = []
    links: list[Entry] = []
    ignored: list[str] = []
    for entry in entries:
        if is_checkpoint_folder(entry):
            named.append(entry)
        elif entry.is_link:
            links.append(entry)
        elif entry.name not in schema.RUN_OWN_NAMES:
            ignored.append(entry.name)
    so_far = Run(
        path=folder,
        name=folder.name,
        run_id=run_file.run_id if run_file else None,
        layout="native",
        owner=owner,
        live=live,
        policy=run_file.policy if run_file else None,
        attempts=attempts,
    )
    read = Reading(so_far, named, memory=memory, on_part=on_part, cancelled=cancelled)
    checkpoints = read.all(pins, may_be_pinned=may_be_pinned)
    aliases = _aliases(folder, links, {c.name for c in checkpoints}, ignored, problems)
    checkpoints = [
        replace(c, aliases=tuple(aliases[c.name])) if c.name in aliases else c for c in checkpoints
    ]
    _flag_twins(checkpoints, problems)
    checkpoints += _staged(folder, owner if live else None, owner)
    checkpoints.sort(key=order)

    trash_count, trash_size = _trash(folder)
    run_ids = {c.run_id for c in checkpoints if c.complete and c.run_id}
    if run_file and run_file.run_id:
        run_ids.add(run_file.run_id)
    if len(run_ids) > 1:
        what = f"checkpoints of {len(run_ids)} runs lie in this folder"
        problems.append(Problem(path=folder, what=what))
    problems += [
        Problem(path=folder / name, what=f"{name} is pinned but is not there")
        for name in sorted(pins.keys() - {c.name for c in checkpoints})
        if not _in_trash(folder, name)
    ]
    return Run(
        path=folder,
        name=folder.name,
        run_id=run_ids.pop() if len(run_ids) == 1 else None,
        layout="native",
        owner=owner,
        live=live,
        checkpoints=tuple(checkpoints),
        ignored=tuple(sorted(ignored)),
        trash_count=trash_count,
        trash_size=trash_size,
        policy=run_file.policy if run_file else None,
        attempts=attempts,
        command=run_file.command if run_file else None,
        recipe=run_file.recipe if run_file else None,
        size=size_once((c.size, c.shared) for c in checkpoints),
        protected=_protected(folder, run_file, live=live),
        problems=tuple(problems),
        unread=read.unread,
    )


def _aliases(
    run: Path,
    links: list[Entry],
    names: set[str],
    ignored: list[str],
    problems: list[Problem],
) -> Mapping[str, list[str]]:
    """Links in the run that point to its checkpoints; dangling ones become problems."""
    found: dict[str, list[str]] = {}
    home = Path(os.path.realpath(run))
    for link in sorted(links, key=lambda e: e.name):
        path = Path(link.path)
        target = Path(os.path.realpath(path))
        if not target.exists():
            try:
                text = os.readlink(path)  # noqa: PTH115 - as it stands, not made a path
            except OSError:
                continue  # it went while we looked
            what = f"link {link.name} points to {text}, which is not there"
            problems.append(Problem(path=path, what=what))
        elif target.parent == home and target.name in names:
            found.setdefault(target.name, []).append(link.name)
        else:
            ignored.append(link.name)
    return found


def _flag_twins(checkpoints: list[Checkpoint], problems: list[Problem]) -> None:
    """Tell of different names that mean one step or epoch (`step_100`, `step_0100`)."""
    by_meaning: dict[object, list[str]] = {}
    for c in checkpoints:
        by_meaning.setdefault(schema.parse_name(c.name), []).append(c.name)
    for names in by_meaning.values():
        if len(names) > 1:
            what = f"{' and '.join(sorted(names))} are two names of one number"
            problems.append(Problem(path=checkpoints[0].run, what=what))
    highest: dict[tuple[str | None, int], Checkpoint] = {}
    for c in checkpoints:
        if c.complete and c.created is not None and c.step is not None:
            highest[c.run_id, c.step] = c
    _flag_backwards(list(highest.values()), problems)


def _flag_backwards(checkpoints: list[Checkpoint], problems: list[Problem]) -> None:
    """Tell where a lower step was saved later although nothing was rewound."""
    for run_id in {c.run_id for c in checkpoints}:
        mine = sorted((c for c in checkpoints if c.run_id == run_id and c.current), key=order)
        for lower, higher in pairwise(mine):
            if lower.created and higher.created and lower.created > higher.created:
                what = f"{lower.name} was saved after {higher.name}, yet has the lower step"
                problems.append(Problem(path=lower.path, what=what))


def _staged(run: Path, live_owner: Owner | None, owner: Owner | None) -> Iterable[Checkpoint]:
    """What is being written, and what writers that died have left."""
    folder = run / schema.TOOL_DIR / schema.STAGING
    try:
        entries = list_entries(folder)
    except OSError:
        return
    for entry in entries:
        name, _, token = entry.name.rpartition("-")
        if not entry.is_dir or schema.parse_name(name) is None:
            continue
        found = describe_folder(run, name, Path(entry.path), staged=True)
        if found is None:
            continue
        yield _staged_as(found, writing=_may_be_written(entry, token, live_owner, owner))


def _may_be_written(entry: Entry, token: str, live: Owner | None, owner: Owner | None) -> bool:
    if live is not None:
        return True
    if owner is not None and owner.token and token.startswith(owner.token):
        return False
    try:
        newest = list_files(entry.path).newest
        own = Path(entry.path).lstat().st_mtime
    except OSError:
        return True
    return time.time() - max(newest, own) < FRESH_SECONDS


def _staged_as(found: Checkpoint, *, writing: bool) -> Checkpoint:
    what = "being written" if writing else "left by a save that never finished"
    # The identity stays: who removes it looks whether it is still the same.
    return replace(
        found,
        state=State.WRITING if writing else State.PARTIAL,
        complete=False,
        resumable=False,
        staged=True,
        problems=(Problem(path=found.path, what=what),),
    )


def _trash(run: Path) -> tuple[int, int]:
    folder = run / schema.TOOL_DIR / schema.TRASH
    try:
        entries = [e for e in list_entries(folder) if e.is_dir]
    except OSError:
        return 0, 0
    count = 0
    sizes: list[tuple[int, tuple[SharedFile, ...]]] = []
    for entry in entries:
        try:
            # What was moved alone, as the trash is listed: not the note of where it stood. A crash
            # leaves an item that never got the folder it was made for.
            moved = [e.path for e in list_entries(Path(entry.path)) if e.is_dir]
            found = [list_files(path) for path in moved]
        except OSError:
            continue
        count += bool(moved)
        sizes += [(files.size, files.shared) for files in found]
    return count, size_once(sizes)


def _in_trash(run: Path, name: str) -> bool:
    folder = run / schema.TOOL_DIR / schema.TRASH
    try:
        return any((folder / item / name).is_dir() for item in os.listdir(folder))
    except OSError:
        return False


def _protected(run: Path, run_file: RunFile | None, *, live: bool) -> Mapping[str, str]:
    """Checkpoints that something in use needs."""
    found = dict(leases.leased(run))
    if live and run_file and run_file.attempts:
        last = max(run_file.attempts, key=lambda a: a.attempt)
        if last.parent is not None and last.parent.path is None:
            found[last.parent.name] = "the live run was resumed from it"
    return found
