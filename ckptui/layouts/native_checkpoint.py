"""One native checkpoint: its marker, its files, and what that makes of it."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from ckptui import schema
from ckptui.checkpoint import Checkpoint, Problem, State, is_current
from ckptui.layouts.files import FolderFiles, list_files
from ckptui.layouts.marker import Marker, MarkerError, read_marker

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ckptui.checkpoint import Attempt, Pin

_LOOKS = 5


def describe_checkpoint(
    run: Path, name: str, attempts: tuple[Attempt, ...] = (), pin: Pin | None = None
) -> Checkpoint | None:
    """One published checkpoint of a native run as it stands; None if it vanished meanwhile."""
    return describe_folder(run, name, run / name, attempts=attempts, pin=pin)


def describe_folder(
    run: Path,
    name: str,
    path: Path,
    *,
    attempts: tuple[Attempt, ...] = (),
    pin: Pin | None = None,
    staged: bool = False,
) -> Checkpoint | None:
    """The checkpoint `name` of a run, standing at `path`; None if nothing is there."""
    found = _look(run, name, path, attempts=attempts, pin=pin, staged=staged)
    for _ in range(_LOOKS):
        if found is None or found.complete:
            break
        # What looks incomplete may have been moved between listing and reading it.
        before = _stamp(path)
        found = _look(run, name, path, attempts=attempts, pin=pin, staged=staged)
        if _stamp(path) == before:
            break
    return found


def _stamp(path: Path) -> tuple[int, int] | None:
    """What changes when a folder is renamed, replaced, or given or rid of a file."""
    try:
        info = path.lstat()
    except OSError:
        return None
    return info.st_ino, info.st_ctime_ns


def _look(
    run: Path,
    name: str,
    path: Path,
    *,
    attempts: tuple[Attempt, ...],
    pin: Pin | None,
    staged: bool,
) -> Checkpoint | None:
    try:
        files = list_files(path)
    except FileNotFoundError:
        return None
    parsed = schema.parse_name(name)
    named_step = parsed.number if parsed and parsed.kind == "step" else None
    problems: list[Problem] = []
    marker, state = None, State.PARTIAL
    try:
        if files.error is not None:
            raise files.error
        marker = read_marker(str(path))
        if marker is None:
            problems.append(Problem(path=path / schema.MARKER, what=f"{schema.MARKER} is missing"))
    except MarkerError as e:
        problems.append(Problem(path=path / schema.MARKER, what=e.what))
        if e.newer:
            state = State.UNKNOWN
    except OSError as e:
        state = State.UNKNOWN
        problems.append(Problem(path=path, what=f"no access: {e.strerror}"))
    if marker is None:
        return Checkpoint(
            run=run,
            name=name,
            path=path,
            step=named_step,
            epoch=parsed.number if parsed and parsed.kind == "epoch" else None,
            state=state,
            complete=False,
            resumable=False,
            staged=staged,
            pin=pin,
            size=files.size,
            shared=files.shared,
            problems=tuple(problems),
        )
    step = marker.step if marker.step is not None else named_step
    if marker.step is not None and named_step is not None and marker.step != named_step:
        what = f"the name says step {named_step}, its state says {marker.step}"
        problems.append(Problem(path=path, what=what))
    if pin is not None:
        problems += _pin_problems(path, pin, marker)
    faults = list(_faults(path, files, marker))
    complete = not faults
    if complete:
        state = State.OK if marker.resumable else State.WEIGHTS
        if state is State.WEIGHTS and "adapter" in marker.contains:
            state = State.ADAPTER
    else:
        state = State.BROKEN
    return Checkpoint(
        run=run,
        name=name,
        path=path,
        step=step,
        epoch=marker.epoch,
        run_id=marker.run_id,
        attempt=marker.attempt,
        parent=marker.parent,
        current=step is None or is_current(marker.attempt or 1, step, attempts),
        state=state,
        complete=complete,
        resumable=complete and marker.resumable,
        staged=staged,
        pin=pin,
        size=files.size,
        shared=files.shared,
        created=schema.parse_time(marker.created),
        created_text=marker.created,
        save_seconds=marker.save_seconds,
        metrics=marker.metrics,
        contains=marker.contains,
        nonfinite=marker.nonfinite,
        files=marker.files,
        problems=(*faults, *problems),
    )


def _faults(path: Path, files: FolderFiles, marker: Marker) -> Iterable[Problem]:
    """What keeps a marked checkpoint from being complete."""
    sizes = files.sizes
    for entry in marker.files:
        size = sizes.get(entry.name)
        if size == entry.size:
            continue
        if size is not None:
            what = f"{entry.name} has {size} bytes instead of {entry.size}"
        elif is_outside(entry.name):
            what = f"{entry.name} leads out of the checkpoint"
        elif entry.name in files.links:
            what = f"{entry.name} is a link"
        else:
            what = f"{entry.name} is missing"
        yield Problem(path=path / entry.name, what=what)


def is_outside(name: str) -> bool:
    """Whether a file name from a marker leads out of its checkpoint."""
    parts = PurePosixPath(name)
    return parts.is_absolute() or ".." in parts.parts


def _pin_problems(path: Path, pin: Pin, marker: Marker) -> Iterable[Problem]:
    if not pin.readable:
        yield Problem(path=path, what="its pin cannot be read, and still protects it")
    elif (pin.run_id, pin.created) != (marker.run_id, marker.created):
        yield Problem(path=path, what="its pin was made for another checkpoint of this name")
