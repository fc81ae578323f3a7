"""The records that everything else passes around: frozen, complete, without display strings.

Four questions are kept apart: is it a checkpoint (it has a record), is it complete (`complete`),
can training continue from it (`resumable`), may it go (`retention` decides, never a record).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from pathlib import Path


class State(StrEnum):
    """What a checkpoint is good for, in one word."""

    OK = "ok"
    """Complete and resumable."""
    WEIGHTS = "weights"
    """Complete, without what resuming needs."""
    ADAPTER = "adapter"
    """Complete, but only an adapter to a base model."""
    WRITING = "writing"
    """Staged by a live owner."""
    PARTIAL = "partial"
    """The marker is missing or unreadable."""
    BROKEN = "broken"
    """The marker is there, but a file it lists is missing or has another size."""
    UNKNOWN = "unknown"
    """No access, or nothing we know explains it. Never touched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something about a path that its owner should know."""

    path: Path
    what: str


class FileEntry(NamedTuple):
    """One file of a checkpoint, as its marker lists it. A tuple: a listing makes thousands."""

    name: str
    """Relative to the checkpoint, with `/`."""
    size: int
    """Bytes."""
    digest: str | None
    """`xxh3_128:<hex>`."""


@dataclass(frozen=True, slots=True)
class SharedFile:
    """A file of a checkpoint that has further hard links, here or elsewhere."""

    device: int
    inode: int
    size: int
    """Bytes, given back only when the last link goes."""
    links: int
    """Links in all."""
    here: int
    """Links inside this checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A checkpoint's protection against removal. The pin file's name is what protects."""

    name: str
    run_id: str | None = None
    step: int | None = None
    created: str | None = None
    """`created` of the checkpoint that was pinned, as its marker spells it."""
    who: str | None = None
    host: str | None = None
    when: datetime | None = None
    note: str = ""
    readable: bool = True
    """False where the pin file could not be read; it protects all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """The checkpoint that training continued from."""

    name: str
    step: int | None = None
    run_id: str | None = None
    attempt: int | None = None
    path: str | None = None
    """Where it was, if that is another run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One start of the training process on a run."""

    attempt: int
    start_step: int
    """Optimizer steps done when it began: it makes step `start_step + 1` first."""
    parent: Parent | None = None
    started: str | None = None
    host: str | None = None
    argv: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """One saved point of a training run."""

    run: Path
    name: str
    path: Path
    """Where it stands now; a staged one stands in the staging folder."""
    step: int | None
    """Optimizer steps done; None where nothing tells."""
    epoch: int | float | None = None
    """0-based index of the epoch whose batches were last trained."""
    run_id: str | None = None
    attempt: int | None = None
    parent: Parent | None = None
    current: bool = True
    """Whether it belongs to the run's present history rather than to an abandoned branch."""
    state: State
    complete: bool
    resumable: bool
    staged: bool = False
    """It lies in the staging folder: its name is not taken yet."""
    pin: Pin | None = None
    size: int = 0
    """Apparent bytes of all files, a hard link within the checkpoint counted once."""
    shared: tuple[SharedFile, ...] = ()
    """Its files that have more than one hard link."""
    created: datetime | None = None
    created_text: str | None = None
    """`created` exactly as the marker spells it: part of the identity."""
    save_seconds: float | None = None
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    """Values at exactly this step; None was logged and is not finite."""
    contains: tuple[str, ...] = ()
    nonfinite: tuple[str, ...] = ()
    """Names of weight tensors that held NaN or infinity when it was saved."""
    files: tuple[FileEntry, ...] = ()
    aliases: tuple[str, ...] = ()
    """Links in the run that point here."""
    problems: tuple[Problem, ...] = ()

    @property
    def pinned(self) -> bool:
        """Whether a pin protects it."""
        return self.pin is not None

    @property
    def note(self) -> str:
        """The note of its pin, or an empty string."""
        return self.pin.note if self.pin else ""

    @property
    def identity(self) -> tuple[str | None, int | None, int | None, str | None]:
        """What tells it from another of the same name: run id, attempt, step, created."""
        return (self.run_id, self.attempt, self.step, self.created_text)


@dataclass(frozen=True, slots=True)
class Standing:
    """How a checkpoint stands among the others of its run."""

    latest: bool = False
    best: tuple[str, ...] = ()
    """The metrics in which no other is better."""
    kept_by: tuple[str, ...] | None = None
    """Why the run's own policy keeps it; None where the run has no policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The process that a run's lock names."""

    token: str
    host: str | None
    boot_id: str | None
    pid: int | None
    start_time: int | None
    """Start of the process in clock ticks since boot, or what the platform has instead."""
    pid_space: str | None = None
    """The namespace in which `pid` counts."""
    counter: int
    """Goes up while the owner is alive."""
    step: int | None
    saving: str | None
    """Name of the checkpoint it is writing."""
    directory: tuple[int, int] | None = None
    """Device and inode of the run that was locked: a copied lock owns nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A directory that holds the checkpoints of one training run."""

    path: Path
    name: str
    run_id: str | None
    """None where it is unknown or several ids share the folder."""
    layout: str
    """`native`, or `unknown` for a folder with checkpoint names that no known layout explains."""
    owner: Owner | None = None
    live: bool = False
    checkpoints: tuple[Checkpoint, ...] = ()
    """Ascending by step; those without a step last."""
    ignored: tuple[str, ...] = ()
    """Names in the folder that are neither checkpoints nor the run's own."""
    trash_count: int = 0
    trash_size: int = 0
    """Bytes."""
    policy: tuple[str, ...] | None = None
    """Rules as on the command line, without dashes; None where the run has none."""
    attempts: tuple[Attempt, ...] = ()
    command: str | None = None
    recipe: str | None = None
    size: int = 0
    """Apparent bytes of all checkpoints, a hard link counted once."""
    protected: Mapping[str, str] = field(default_factory=dict)
    """Checkpoint names that something in use needs, with the reason."""
    problems: tuple[Problem, ...] = ()
    unread: frozenset[str] = frozenset()
    """Checkpoints of which only the name is known, while or because a scan did not reach them."""

    @property
    def run_ids(self) -> tuple[str, ...]:
        """The distinct run ids among its checkpoints, in order of appearance."""
        return tuple(dict.fromkeys(c.run_id for c in self.checkpoints if c.run_id))


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """A directory that holds runs, as a scan found it."""

    path: Path
    runs: tuple[Run, ...]
    problems: tuple[Problem, ...] = ()
    ignored: tuple[str, ...] = ()
    """Names directly in the root that led to no run."""


def is_current(attempt: int, step: int, attempts: Sequence[Attempt]) -> bool:
    """Whether a row or checkpoint of `attempt` at `step` belongs to the run's present history.

    A later attempt that started below `step` has trained that step anew.
    """
    return not any(a.attempt > attempt and a.start_step < step for a in attempts)


def order(checkpoint: Checkpoint) -> tuple[int, int, int, str, str]:
    """Where a checkpoint stands in its run: by step, attempt and creation; without a step last."""
    step = checkpoint.step
    return (
        int(step is None),
        step or 0,
        checkpoint.attempt or 0,
        checkpoint.created_text or "",
        checkpoint.name,
    )
