"""What background work reports: small, past tense, frozen values inside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ckptui.checkpoint import Checkpoint
    from ckptui.journal import Event
    from ckptui.prune import Removal
    from ckptui.remove import TrashItem
    from ckptui.requests import Answer
    from ckptui.tui.arrangement import Arrangement
    from ckptui.tui.jobs import Job
    from ckptui.tui.pulse import Pulse
    from ckptui.tui.series import Series
    from ckptui.tui.snapshot import RunView, Snapshot
    from ckptui.verify import Report


@dataclass(eq=False, repr=False)
class JobFailed(Message):
    """Background work met an error that a user can understand."""

    group: str
    what: str


@dataclass(eq=False, repr=False)
class JobCrashed(Message):
    """Background work met a fault of ours."""

    error: BaseException


@dataclass(eq=False, repr=False)
class RunFound(Message):
    """A scan that is still going on has described one run."""

    view: RunView


@dataclass(eq=False, repr=False)
class RootScanned(Message):
    """A scan has finished."""

    snapshot: Snapshot


@dataclass(eq=False, repr=False)
class RunsRescanned(Message):
    """Some runs were read anew; None for a run that is gone."""

    views: Mapping[Path, RunView | None]


@dataclass(eq=False, repr=False)
class RunsLookedAt(Message):
    """It was looked whether runs have changed; those that have were read anew."""

    views: Mapping[Path, RunView | None]
    """The ones read; None for a run that is gone."""
    pulses: Mapping[Path, Pulse]
    logged: set[Path]
    """Runs whose metric log has changed."""
    root_changed: bool
    """Something came to or left the root."""


@dataclass(eq=False, repr=False)
class ListArranged(Message):
    """A long list is ready to be drawn."""

    arrangement: Arrangement | None
    """None where it was given up for a newer one."""
    by_user: bool
    job: Job
    """What has arranged it; of several only the last one counts."""


@dataclass(eq=False, repr=False)
class MetricsRead(Message):
    """The metric log of a run was read."""

    run: Path
    series: Series


@dataclass(eq=False, repr=False)
class PinChanged(Message):
    """A pin was set, taken away or given another note."""

    checkpoint: Checkpoint
    pinned: bool
    changed: bool
    note: str = ""
    """The one that it had before and has again, or that was taken away with the pin."""
    goes: bool = False
    """The run's own rules delete it at the next save, now that nothing pins it."""


@dataclass(eq=False, repr=False)
class SaveAnswered(Message):
    """A run was asked to save, and what came of it is known."""

    run: Path
    answer: Answer | None
    """None where nobody trains it."""


@dataclass(eq=False, repr=False)
class CheckpointRemoved(Message):
    """One target of a plan was dealt with."""

    run: Path
    removal: Removal
    done: int
    of: int


@dataclass(eq=False, repr=False)
class RemovalEnded(Message):
    """A removal is over."""

    run: Path
    removals: Sequence[Removal]
    changed: Sequence[str]
    """What the plan made at the last moment kept after all, with the reason."""
    stopped: bool


@dataclass(eq=False, repr=False)
class ItemsRestored(Message):
    """Trash items were put back."""

    run: Path
    names: Sequence[str]
    errors: Sequence[str]


@dataclass(eq=False, repr=False)
class RestoreEnded(Message):
    """Putting trash items back is over, and it was looked what of them is left."""

    run: Path
    ids: Sequence[str]
    """The items asked for."""
    left: Sequence[str]
    """Those of them that can still be brought back."""


@dataclass(eq=False, repr=False)
class TrashListed(Message):
    """The trash of a run was read."""

    run: Path
    items: Sequence[TrashItem]


@dataclass(eq=False, repr=False)
class TrashEmptied(Message):
    """Trash items were deleted for good."""

    run: Path
    count: int
    freed: int
    errors: Sequence[str]


@dataclass(eq=False, repr=False)
class Copied(Message):
    """A text was handed to the terminal's clipboard."""

    what: str
    way: str


@dataclass(eq=False, repr=False)
class BytesVerified(Message):
    """Verification went on."""

    checkpoint: Checkpoint
    read: int


@dataclass(eq=False, repr=False)
class CheckpointVerified(Message):
    """One checkpoint was verified."""

    report: Report


@dataclass(eq=False, repr=False)
class CheckpointMissed(Message):
    """One checkpoint was to be verified and is not there any more."""

    checkpoint: Checkpoint


@dataclass(eq=False, repr=False)
class VerifyEnded(Message):
    """Verification is over."""

    stopped: bool


@dataclass(eq=False, repr=False)
class JournalRead(Message):
    """The journal of a run was read."""

    run: Path
    events: Sequence[Event]
    problems: Sequence[str]
