"""What the screens about single checkpoints read: functions for background threads."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ckptui.checkpoint import State
from ckptui.contents import parent_folder
from ckptui.differences import Comparison, checkpoint_side, compare, run_side
from ckptui.errors import NotFoundError
from ckptui.standing import Standing
from ckptui.tui import series
from ckptui.tui.snapshot import Row

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ckptui.checkpoint import Checkpoint, Parent, Run
    from ckptui.contents import FoundTensor
    from ckptui.tui.jobs import Job
    from ckptui.tui.reader import Reader
    from ckptui.tui.series import Series
    from ckptui.tui.snapshot import RunView, Scan


@dataclass(frozen=True, slots=True)
class Two:
    """The two things that are compared: checkpoints, or runs as a whole."""

    a: tuple[Run, Checkpoint | None]
    b: tuple[Run, Checkpoint | None]

    @classmethod
    def of_rows(cls, a: Row, b: Row) -> Two:
        """Two checkpoints."""
        return cls((a.run, a.checkpoint), (b.run, b.checkpoint))

    @classmethod
    def of_views(cls, a: RunView, b: RunView) -> Two:
        """Two runs."""
        return cls((a.run, None), (b.run, None))

    @property
    def swapped(self) -> Two:
        """The same the other way round."""
        return Two(self.b, self.a)

    @property
    def command(self) -> str:
        """The command line that compares the same."""
        words = ["ckptui", "diff"]
        (run_a, one), (run_b, other) = self.a, self.b
        if one is not None and other is not None and run_a.path == run_b.path:
            named = not one.staged and not other.staged
            words += [one.name, other.name] if named else [str(one.path), str(other.path)]
            words += ["--run", str(run_a.path)] if named else []
        else:
            words += [str(c.path if c else run.path) for run, c in (self.a, self.b)]
        return shlex.join(words)


def is_parent(checkpoint: Checkpoint, parent: Parent) -> bool:
    """Whether a checkpoint is the one that a parent's record names, and none that has its name."""
    known = parent.attempt is None or (checkpoint.attempt, checkpoint.run_id) == (
        parent.attempt,
        parent.run_id,
    )
    return checkpoint.name == parent.name and known and not checkpoint.staged


def began_here(checkpoint: Checkpoint) -> bool:
    """Whether its own record says that training began with it."""
    # A marker lists files; where none was read, nobody knows what it came from.
    return checkpoint.parent is None and bool(checkpoint.files)


def no_parent(checkpoint: Checkpoint) -> str:
    """Why a checkpoint that names no parent cannot be compared with it, in a sentence."""
    name = checkpoint.name
    if began_here(checkpoint):
        return f"{name} has no parent: training began with it."
    if checkpoint.staged or checkpoint.state is State.WRITING:
        return f"What {name} came from is known once it is complete."
    why = checkpoint.problems[0].what if checkpoint.problems else "nothing in it tells"
    return f"What {name} came from is not known: {why}."


def known_parent(views: Mapping[Path, RunView], row: Row) -> Row | None:
    """The parent of a checkpoint among the runs that are open; None where it is not."""
    parent = row.checkpoint.parent
    if parent is None:
        return None
    place = Path(parent.path).parent if parent.path is not None else row.run.path
    # A run may have been moved since: then its id and the attempt tell which one it was.
    moved = list(views.values()) if parent.path is not None and parent.run_id is not None else []
    for view in [views[place], *moved] if place in views else moved:
        for r in view.rows:
            if is_parent(r.checkpoint, parent):
                return r
    return None


def parent_is_removed(row: Row, view: RunView | None) -> bool:
    """Whether the parent of a checkpoint was of its own run and is known to be there no more."""
    parent = row.checkpoint.parent
    if parent is None or parent.path is not None or view is None:
        return False
    same = [r for r in view.rows if r.checkpoint.name == parent.name and not r.gone]
    return not any(r.unread or is_parent(r.checkpoint, parent) for r in same)


def read_parent(row: Row, scan: Scan) -> Row:
    """The parent of a checkpoint in a run that is not open, read from the disk.

    Raises:
        CkptuiError: It is not there any more, or cannot be read.
    """
    parent = row.checkpoint.parent
    if parent is not None:
        folder = parent_folder(row.run.path, parent)
        runs = scan(folder.parent).runs if folder is not None else ()
        for run in runs:
            for c in run.checkpoints:
                if is_parent(c, parent) and c.path == folder:
                    return Row(run, c, Standing())
    name = parent.name if parent is not None else "The parent"
    msg = f"{name} is not there any more, so there is nothing to compare with."
    raise NotFoundError(msg)


def read_series(run: Run, before: Series | None) -> Series:
    """The metrics of a run; of the log only what was appended since `before`.

    Raises:
        CkptuiError: The log cannot be read.
    """
    return series.read(run, before) or before or series.EMPTY


def known_series(reader: Reader, *runs: Path) -> dict[Path, Series]:
    """What is read of the metrics of some runs already."""
    return {path: reader.series[path] for path in runs if path in reader.series}


def values_at(checkpoint: Checkpoint, of: Series) -> dict[str, float | None]:
    """The metrics that a checkpoint has a value of its own for."""
    names = dict.fromkeys([*of.names, *checkpoint.metrics])
    found = {name: of.at(checkpoint, name) for name in names}
    return {name: value for name, (there, value) in found.items() if there}


def compare_two(two: Two, before: Mapping[Path, Series], job: Job) -> Comparison:
    """Read both sides and compare them.

    Raises:
        CkptuiError: A log cannot be read.
    """
    known: dict[str, tuple[FoundTensor, ...]] = {}
    sides = []
    for run, checkpoint in (two.a, two.b):
        found = read_series(run, before.get(run.path))
        if checkpoint is None:
            sides.append(run_side(run, found.curves))
        else:
            sides.append(
                checkpoint_side(
                    checkpoint,
                    run,
                    logged=values_at(checkpoint, found),
                    in_doubt=found.in_doubt(checkpoint),
                    known=known,
                    cancelled=job.is_cancelled,
                )
            )
    return compare(*sides)
