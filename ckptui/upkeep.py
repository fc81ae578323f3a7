"""What a training does for its disk: it prunes by its policy, and makes room before a save.

Room is made only where the next checkpoint would not fit, one thing at a time, and no further than
needed: what the policy does not keep; what it would not keep beside the coming checkpoint; what
lies in the trash, oldest first. The last two stay where they could not give enough. The newest
checkpoint that training can continue from, and what is pinned or in use, never goes. No failure
of it stops a training.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ckptui import leases, printable, remove, schema
from ckptui.checkpoint import Checkpoint, State
from ckptui.errors import CkptuiError, NotFoundError
from ckptui.layouts.native_checkpoint import describe_checkpoint
from ckptui.prune import execute
from ckptui.retention import Action, KeepNames, newest_resumable, plan_ahead, plan_prune
from ckptui.scan import scan_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from ckptui.checkpoint import Run
    from ckptui.retention import PlanRow, PrunePlan, Rule
    from ckptui.trash import TrashItem

_PER_FILE = 2**14
"""Bytes that a file takes beside its content: the rest of its last block, which is 4 to 16 KiB on
common disks, its inode, and its entry in the marker."""
_OWN_FILES = 8
"""The marker and a save's folders; what the metric log, the journal and the lock grow by."""
_PER_MILLE = 4
"""What checksums and block maps take of the content: btrfs keeps 4 bytes for 4 KiB, often twice,
ext3 as much once; this is twice that."""
_ALIKE = 16
"""Checkpoints of one run differ in size by less than this part: the digits of their numbers."""


def free_space(path: Path) -> int | None:
    """Bytes this user may still write on the file system of `path`; None where that is not told.

    A quota is not seen here: only a write that is refused tells of it.
    """
    try:
        usage = shutil.disk_usage(path)
    except OSError:
        return None
    # Mounts of buckets have no blocks to count.
    return usage.free if usage.total > 0 else None


def space_for(size: int, *, files: int) -> int:
    """Bytes that must be free for a checkpoint of `size` bytes of content in so many files."""
    return size + size * _PER_MILLE // 1000 + (files + _OWN_FILES) * _PER_FILE


def is_full(error: BaseException | None) -> bool:
    """Whether an error, or the one that caused it, says that the disk or a quota has no room.

    EFBIG is none of these: no room that is made lets a file system take a larger file.
    """
    while error is not None:
        if isinstance(error, OSError) and error.errno in remove.FULL:
            return True
        error = error.__cause__
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """Whose disk is kept, by which rules, and who is told."""

    run: Path
    run_id: str
    """Only complete checkpoints of this id are pruned."""
    rules: tuple[Rule, ...]
    delete: bool = True
    """Give back at once the space of what the policy removes, instead of moving it to the trash."""
    report: Callable[[str], None]
    measure: Callable[[Path], int | None] = free_space
    """Tells the free bytes; None where they cannot be told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coming:
    """The checkpoint that is about to be written."""

    name: str
    step: int
    epoch: int | None = None
    attempt: int
    resumable: bool = True
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    size: int
    """Bytes of its content."""
    files: int

    @property
    def needed(self) -> int:
        """Bytes that must be free for it."""
        return space_for(self.size, files=self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Whether the coming checkpoint fits, after all that could be done for it."""

    run: Path
    name: str
    """Of the coming checkpoint."""
    needed: int
    """Bytes."""
    free: int | None
    """Bytes; None where they cannot be told."""
    freed: int = 0
    """Bytes given back to make room."""
    enough: bool


def prune_by_policy(upkeep: Upkeep, *, final: bool) -> int:
    """Remove what the policy does not keep, and return the bytes given back.

    What cannot go is reported and stays: what was saved is saved, and a pruning that fails stops no
    training. The caller makes sure before that the run is still its own.

    Args:
        upkeep: Whose disk, by which rules.
        final: The training has ended, so what it was resumed from needs no protection any more.
    """
    if not upkeep.rules:
        return 0
    freed = 0
    try:
        run = scan_run(upkeep.run)
        protected = leases.leased(upkeep.run) if final else run.protected
        plan = _plan(upkeep, run, protected)
        for warning in plan.warnings:
            upkeep.report(warning)
        for removal in execute(plan, delete=upkeep.delete):
            freed += removal.freed
            if removal.error is not None:
                upkeep.report(f"Not pruned: {removal.error}")
    except (CkptuiError, OSError) as e:
        upkeep.report(f"{'No more' if freed else 'Nothing'} was pruned: {e}")
    return freed


def make_room(upkeep: Upkeep, coming: Coming, *, refused: bool = False) -> Room:
    """Make room for the coming checkpoint if there is not enough; where there is, do nothing.

    What has been given back counts at once: some file systems show it only later, and to go on
    until they do would be to remove everything.

    Args:
        upkeep: Whose disk, by which rules.
        coming: What is about to be written.
        refused: A write of it has just failed for want of room, and what it left is removed. Then
            free space that looks sufficient is not believed: there is a quota.
    """
    free = upkeep.measure(upkeep.run)
    unseen = refused and (free is None or free >= coming.needed)
    if not unseen and (free is None or free >= coming.needed):
        return _room(upkeep, coming, free=free, enough=True)
    if unseen:
        # The little that a quota still lets through makes up for a slightly smaller old one.
        need = _Need(upkeep=upkeep, bytes=coming.size - coming.size // _ALIKE)
    else:
        need = _Need(upkeep=upkeep, bytes=coming.needed, at_first=free or 0, free=free)
    enough = False
    try:
        enough = _stands(upkeep, coming) or need.met_by(_prune(upkeep, coming))
        if not enough and need.missing <= _most(upkeep, coming):
            enough = need.met_by(_give_back(upkeep, coming))
    except (CkptuiError, OSError) as e:
        upkeep.report(f"No more room could be made for {coming.name}: {e}")
    return _room(upkeep, coming, free=need.free, freed=need.freed, enough=enough)


@dataclass(slots=True, kw_only=True)
class _Need:
    """How much must come back, and how much has."""

    upkeep: Upkeep
    bytes: int
    at_first: int = 0
    """Bytes that were free before anything went."""
    free: int | None = None
    """Bytes that are free now; None where that is not believed."""
    freed: int = 0

    @property
    def missing(self) -> int:
        """Bytes that are needed still."""
        return self.bytes - max(self.free or 0, self.at_first + self.freed)

    def met_by(self, given_back: Iterator[int]) -> bool:
        """Take from what gives bytes back until there is enough; whether there is."""
        for count in given_back:
            self.freed += count
            if self.free is not None:
                self.free = self.upkeep.measure(self.upkeep.run) or 0
            if self.missing <= 0:
                return True
        return False


def _room(
    upkeep: Upkeep, coming: Coming, *, free: int | None, enough: bool, freed: int = 0
) -> Room:
    return Room(
        run=upkeep.run,
        name=coming.name,
        needed=coming.needed,
        free=free,
        freed=freed,
        enough=enough,
    )


def shortage(room: Room) -> str:
    """The sentence for a checkpoint that does not fit."""
    if room.free is None:
        there = f"which the disk or a quota of {room.run} does not take"
    else:
        there = f"but only {printable.size(room.free)} are free on the disk of {room.run}"
    return (
        f"{room.name} needs {printable.size(room.needed)}, {there}, and neither pruning nor the "
        "trash gives enough. Free some space, or let the policy keep fewer checkpoints; those that "
        "stand are untouched."
    )


def room_for(free: int | None, needed: int) -> int | None:
    """How many more checkpoints of `needed` bytes fit beside what stands; None: cannot be told."""
    return None if free is None else free // max(needed, 1)


def outlook(count: int, size: int) -> str:
    """The line that warns before the disk is full: room for `count` more of `size` bytes."""
    if count == 0:
        return (
            f"The disk has no room for another checkpoint of {printable.size(size)}: before the "
            "next one is written, what the policy and the trash can spare will go."
        )
    plural = "checkpoint" if count == 1 else "checkpoints"
    return f"The disk has room for {count} more {plural} of {printable.size(size)}."


def _most(upkeep: Upkeep, coming: Coming) -> int:
    """Bytes that could come back at most if all went that may make room for the coming one."""
    run = scan_run(upkeep.run)
    trash = sum(i.size for i in remove.list_trash(upkeep.run) if not _stays(i, run))
    try:
        plan = _plan(upkeep, run, run.protected, coming) if upkeep.rules else None
    except CkptuiError:
        plan = None
    pruned = plan.frees if plan else 0
    return (trash + pruned) + (trash + pruned) // _ALIKE  # the last blocks of files come on top


def _give_back(upkeep: Upkeep, coming: Coming) -> Iterator[int]:
    """Remove what gives way to the coming checkpoint, yielding the bytes that each gave back.

    Nothing more goes once the caller asks for no more.
    """
    yield from _prune(upkeep, coming, ahead=True)
    yield from _empty_trash(upkeep, coming)
    if not upkeep.delete:
        # A disk without a free block takes no new name either, not even in the trash.
        yield from _prune(replace(upkeep, delete=True), coming, ahead=True)


def _prune(upkeep: Upkeep, coming: Coming, *, ahead: bool = False) -> Iterator[int]:
    """Prune by the policy, as it stands or as if the coming checkpoint stood too."""
    if not upkeep.rules:
        return
    run = scan_run(upkeep.run)
    try:
        plan = _plan(upkeep, run, run.protected, coming if ahead else None)
    except CkptuiError as e:
        if not ahead:  # what cannot be planned with the coming one could not be without it
            upkeep.report(f"Nothing was pruned: {e}")
        return
    yield from _carry_out(upkeep, plan, coming)


def _carry_out(upkeep: Upkeep, plan: PrunePlan, coming: Coming) -> Iterator[int]:
    why = _why(coming)
    rows = tuple(_also(row, why) for row in plan.rows)
    for removal in execute(replace(plan, rows=rows), delete=upkeep.delete):
        name, size = removal.checkpoint.name, printable.size(removal.checkpoint.size)
        if removal.error is not None:
            upkeep.report(f"Not pruned: {removal.error}")
        elif removal.item is not None:
            upkeep.report(f"Moved {name} ({size}) to the trash: {why}.")
        else:
            upkeep.report(f"Pruned {name} ({printable.size(removal.freed)} given back): {why}.")
        yield removal.freed


def _empty_trash(upkeep: Upkeep, coming: Coming) -> Iterator[int]:
    why = _why(coming)
    for listed in remove.list_trash(upkeep.run):
        run = scan_run(upkeep.run)
        if newest_resumable(c for c in run.checkpoints if c.run_id == upkeep.run_id) is None:
            upkeep.report("The trash is kept: no checkpoint stands that training could go on from.")
            return
        try:
            item = remove.find_item(upkeep.run, listed.id)
        except NotFoundError:
            continue  # somebody has emptied it, or brought it back
        if _stays(item, run):
            upkeep.report(f"{item.name} stays in the trash: it is pinned or in use.")
            continue
        emptied = remove.empty(item, reason=why)
        given_back = f"{printable.size(emptied.freed)} given back"
        if emptied.error is None:
            upkeep.report(f"Deleted {item.name} from the trash ({given_back}): {why}.")
        else:
            upkeep.report(f"{item.name} stays in the trash ({given_back}): {emptied.error}.")
        yield emptied.freed


def _stays(item: TrashItem, run: Run) -> bool:
    """Whether an item of the trash holds what is pinned or in use."""
    in_use = run.protected.keys() - {c.name for c in run.checkpoints}
    return item.pinned or not in_use.isdisjoint(item.names)


def _why(coming: Coming) -> str:
    return f"room was needed for {coming.name}"


def _also(row: PlanRow, why: str) -> PlanRow:
    """A row whose removal says in the journal what it was for."""
    return replace(row, reasons=(*row.reasons, why)) if row.action is Action.REMOVE else row


def _stands(upkeep: Upkeep, coming: Coming) -> bool:
    """Whether the coming checkpoint stands already, so that nothing will be written."""
    there = describe_checkpoint(upkeep.run, coming.name)
    this = (upkeep.run_id, coming.attempt, coming.step)
    return (
        there is not None and there.complete and (there.run_id, there.attempt, there.step) == this
    )


def _plan(
    upkeep: Upkeep, run: Run, protected: Mapping[str, str], coming: Coming | None = None
) -> PrunePlan:
    """What the policy does with what stands: as it is, or as if the coming one stood too."""
    standing = [c for c in run.checkpoints if c.run_id == upkeep.run_id or not c.complete]
    rules = _rules_for(run, upkeep.rules)
    now = datetime.now(UTC)
    if coming is None:
        return plan_prune(
            standing, rules, now=now, protected=protected, policy=upkeep.rules, live=True
        )
    return plan_ahead(
        standing,
        rules,
        coming=_record(upkeep, coming),
        now=now,
        protected=protected,
        policy=upkeep.rules,
        live=True,
    )


def _rules_for(run: Run, rules: Sequence[Rule]) -> list[Rule]:
    """The rules without names that are not there yet, or not any more."""
    there = {c.name for c in run.checkpoints}
    found: list[Rule] = []
    for rule in rules:
        if isinstance(rule, KeepNames):
            rule = KeepNames(tuple(n for n in rule.names if n in there))
        found.append(rule)
    return found


def _record(upkeep: Upkeep, coming: Coming) -> Checkpoint:
    """The coming checkpoint as a scan would find it, were it there."""
    now = datetime.now(UTC)
    return Checkpoint(
        run=upkeep.run,
        name=coming.name,
        path=upkeep.run / coming.name,
        step=coming.step,
        epoch=coming.epoch,
        run_id=upkeep.run_id,
        attempt=coming.attempt,
        state=State.OK if coming.resumable else State.WEIGHTS,
        complete=True,
        resumable=coming.resumable,
        size=coming.size,
        created=now,
        created_text=schema.format_time(now),
        metrics=coming.metrics,
    )
