"""What the screens about single checkpoints read: functions for background threads."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ckptui.differences import Comparison, checkpoint_side, compare, run_side
from ckptui.tui import series

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ckptui.checkpoint import Checkpoint, Run
    from ckptui.contents import FoundTensor
    from ckptui.tui.jobs import Job
    from ckptui.tui.reader import Reader
    from ckptui.tui.series import Series
    from ckptui.tui.snapshot import Row, RunView


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
                    known=known,
                    cancelled=job.is_cancelled,
                )
            )
    return compare(*sides)
