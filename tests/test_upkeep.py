"""Room for the next checkpoint: no more goes than needed, and never what must stay."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ckptui import journal, leases, lock, pins, remove, upkeep
from ckptui.errors import StorageError
from ckptui.retention import parse_rule
from ckptui.scan import scan_run
from ckptui.upkeep import Coming, Room, Upkeep
from tests.factory import RUN_ID, make_checkpoint, make_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

BIG = 2**20
"""Bytes of the one large file of a checkpoint here."""
CONTENT = BIG + 2000
ON_DISK = BIG + 50_000
"""What one takes with all its blocks, folders and traces, rounded up."""
FILES = 6


class Disk:
    """A folder on a disk of a size that can be set."""

    def __init__(self, path: Path, *, real: bool) -> None:
        self.run = path / "run"
        self.path = path
        self.real = real
        self.capacity = 2**40

    def room_for(self, count: int) -> None:
        """Let so many checkpoints fit in all, the one that is coming among them."""
        self.resize((count - 1) * ON_DISK + coming(1).needed + BIG // 2)

    def resize(self, capacity: int) -> None:
        """Set the size; a real file system cannot shrink, so a file takes the rest of it."""
        self.capacity = capacity
        if self.real:
            rest = self.path / "rest"
            rest.unlink(missing_ok=True)
            usage = shutil.disk_usage(self.path)
            taken = min(usage.total - capacity, usage.free)
            if taken > 0:
                with rest.open("wb") as f:
                    os.posix_fallocate(f.fileno(), 0, taken)

    def free(self, path: Path) -> int | None:
        if self.real:
            return upkeep.free_space(path)
        files = (p for p in self.path.rglob("*") if p.is_file() and not p.is_symlink())
        return max(0, self.capacity - sum(p.lstat().st_size for p in files))


@contextlib.contextmanager
def tmpfs(folder: Path, options: str = "size=64m") -> Iterator[Path]:
    """A file system of its own, where the user may mount one."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a small file system")
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {made.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture(params=["counted", "tmpfs"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    if request.param == "tmpfs":
        with tmpfs(tmp_path / "disk") as folder:
            yield Disk(folder, real=True)
    else:
        (tmp_path / "disk").mkdir()
        yield Disk(tmp_path / "disk", real=False)


@pytest.fixture
def counted(tmp_path: Path) -> Disk:
    (tmp_path / "disk").mkdir()
    return Disk(tmp_path / "disk", real=False)


def write(run: Path, *steps: int, **more: Any) -> None:
    for step in steps:
        make_checkpoint(run, f"step_{step}", step=step, extra_files={"big.bin": bytes(BIG)}, **more)


def coming(step: int, **more: Any) -> Coming:
    values = {"name": f"step_{step}", "step": step, "attempt": 1, "size": CONTENT, "files": FILES}
    return Coming(**{**values, **more})


def care(disk: Disk, *rules: str, said: list[str] | None = None, **more: Any) -> Upkeep:
    return Upkeep(
        run=disk.run,
        run_id=RUN_ID,
        rules=tuple(parse_rule(r) for r in rules),
        report=said.append if said is not None else lambda _: None,
        measure=disk.free,
        **more,
    )


def names(run: Path) -> list[str]:
    return [c.name for c in scan_run(run).checkpoints]


def in_trash(run: Path) -> list[str]:
    return [i.name for i in remove.list_trash(run)]


def trash(run: Path, *which: str) -> None:
    for name in which:
        remove.move_to_trash([c for c in scan_run(run).checkpoints if c.name == name], why="rm")


class TestSavingOnASmallDisk:
    @pytest.mark.parametrize(
        ("rules", "fit", "saved", "left", "pruned_first"),
        [
            (["keep-last 3"], 5, [1, 2, 3, 4, 5, 6], [4, 5, 6], False),
            (["keep-last 3"], 4, [1, 2, 3, 4, 5, 6], [4, 5, 6], False),
            (["keep-last 3"], 3, [1, 2, 3, 4, 5, 6], [4, 5, 6], True),
            (["keep-last 3"], 2, [1, 2], [1, 2], False),
            (["keep-last 2"], 3, [1, 2, 3, 4, 5, 6], [5, 6], False),
            (["keep-last 2"], 2, [1, 2, 3, 4, 5, 6], [5, 6], True),
            (["keep-last 1"], 2, [1, 2, 3, 4, 5, 6], [6], False),
            (["keep-last 1"], 1, [1], [1], False),
            (["keep-last 1", "keep-every 3"], 3, [1, 2, 3, 4, 5, 6], [3, 6], False),
            (["keep-every 3"], 3, [1, 2, 3, 4, 5, 6], [3, 6], False),
            (["keep-every 3"], 2, [1, 2, 3, 4], [3, 4], False),
            ([], 2, [1, 2], [1, 2], False),
        ],
    )
    @pytest.mark.parametrize("delete", [True, False])
    def test_what_the_policy_can_spare_makes_room_and_no_more(
        self,
        disk: Disk,
        rules: Sequence[str],
        fit: int,
        saved: list[int],
        left: list[int],
        pruned_first: bool,
        delete: bool,
    ) -> None:
        make_run(disk.run)
        disk.room_for(fit)
        said: list[str] = []
        mine = care(disk, *rules, said=said, delete=delete)
        done = []
        for step in range(1, 7):
            if upkeep.make_room(mine, coming(step)).enough:
                write(disk.run, step)  # on the real disk this fails where the promise is broken
                done.append(step)
                upkeep.prune_by_policy(mine, final=False)
        assert done == saved
        assert names(disk.run) == [f"step_{s}" for s in left]
        if delete:
            assert bool(said) == pruned_first
            assert in_trash(disk.run) == []
        else:
            gone = [f"step_{s}" for s in saved if s not in left]
            assert in_trash(disk.run) == gone[len(gone) - len(in_trash(disk.run)) :]

    def test_what_is_promised_can_be_written(self, tmp_path: Path) -> None:
        with tmpfs(tmp_path / "disk") as folder:
            small = Disk(folder, real=True)
            make_run(small.run)
            for files in (0, 40):
                more = {f"shards/part_{i}": bytes(5000) for i in range(files)}
                need = upkeep.space_for(CONTENT + 5000 * files, files=FILES + files)
                small.resize(2**26)
                small.resize(2**26 - (small.free(small.run) or 0) + need + 4096)
                assert 0 <= (small.free(small.run) or 0) - need < 8192
                whole = {"big.bin": bytes(BIG), **more}
                make_checkpoint(small.run, f"step_{files}", step=files, extra_files=whole)

    def test_enough_costs_one_look_and_touches_nothing(self, tmp_path: Path) -> None:
        looks = []

        def plenty(path: Path) -> int:
            looks.append(path)
            return 2**40

        said: list[str] = []
        nowhere = tmp_path / "not there"  # a scan of it would fail
        mine = Upkeep(
            run=nowhere,
            run_id=RUN_ID,
            rules=(parse_rule("keep-last 1"),),
            report=said.append,
            measure=plenty,
        )
        room = upkeep.make_room(mine, coming(4))
        assert (room.enough, room.freed, room.free) == (True, 0, 2**40)
        assert looks == [nowhere]
        assert said == []

    def test_where_nobody_can_tell_there_is_enough(self, counted: Disk) -> None:
        make_run(counted.run)
        write(counted.run, 1, 2)
        mine = replace(care(counted, "keep-last 1"), measure=lambda _: None)
        room = upkeep.make_room(mine, coming(4))
        assert (room.enough, room.free) == (True, None)
        assert names(counted.run) == ["step_1", "step_2"]

    def test_one_that_stands_already_needs_no_room(self, counted: Disk) -> None:
        make_run(counted.run)
        write(counted.run, 1, 2)
        counted.room_for(1)
        assert upkeep.make_room(care(counted, "keep-last 1"), coming(2)).enough
        assert names(counted.run) == ["step_1", "step_2"]
        assert not upkeep.make_room(care(counted, "keep-last 1"), coming(2, attempt=2)).enough
        assert names(counted.run) == ["step_2"]


class TestOrder:
    def test_first_what_the_policy_does_not_keep_then_what_gives_way_then_the_trash(
        self, disk: Disk
    ) -> None:
        make_run(disk.run)
        write(disk.run, 1, 2, 3, 4, 5, 6)
        trash(disk.run, "step_1", "step_2")
        states = []
        for fit in range(6, 0, -1):
            disk.room_for(fit)
            room = upkeep.make_room(care(disk, "keep-last 3"), coming(7))
            states.append((room.enough, names(disk.run), in_trash(disk.run)))
        assert states == [
            (True, ["step_4", "step_5", "step_6"], ["step_1", "step_2"]),
            (True, ["step_5", "step_6"], ["step_1", "step_2"]),
            (True, ["step_5", "step_6"], ["step_2"]),
            (True, ["step_5", "step_6"], []),
            (False, ["step_5", "step_6"], []),
            (False, ["step_5", "step_6"], []),
        ]

    def test_no_more_goes_than_needed(self, counted: Disk) -> None:
        make_run(counted.run)
        write(counted.run, 1, 2, 3, 4)
        counted.room_for(4)
        said: list[str] = []
        room = upkeep.make_room(care(counted, "keep-last 1", said=said), coming(5))
        assert room.enough
        assert names(counted.run) == ["step_2", "step_3", "step_4"]
        assert said == ["Pruned step_1 (1 MB given back): room was needed for step_5."]
        assert BIG < room.freed < ON_DISK

    def test_what_could_not_give_enough_stays(self, disk: Disk) -> None:
        make_run(disk.run)
        write(disk.run, 1, 2, 3, 4, 5)
        trash(disk.run, "step_1")
        disk.room_for(5)
        mine = care(disk, "keep-last 3")
        huge = coming(6, size=5 * BIG)
        assert not upkeep.make_room(mine, huge).enough
        assert names(disk.run) == ["step_3", "step_4", "step_5"]  # the policy keeps no more
        assert in_trash(disk.run) == ["step_1"]
        assert upkeep.make_room(mine, coming(6, size=3 * BIG)).enough
        assert names(disk.run) == ["step_4", "step_5"]
        assert in_trash(disk.run) == []

    def test_a_disk_that_shows_late_what_came_back_loses_no_more(self, counted: Disk) -> None:
        make_run(counted.run)
        write(counted.run, 1, 2, 3, 4, 5)
        mine = replace(care(counted, "keep-last 1"), measure=lambda _: 300_000)
        room = upkeep.make_room(mine, coming(6))
        assert room.enough
        assert names(counted.run) == ["step_2", "step_3", "step_4", "step_5"]

    def test_a_coming_one_of_lower_rank_takes_no_place(self, counted: Disk) -> None:
        make_run(counted.run)
        write(counted.run, 1, metrics={"loss": 1.0})
        write(counted.run, 2, metrics={"loss": 2.0})
        counted.room_for(2)
        mine = care(counted, "keep-best 1:loss")
        assert not upkeep.make_room(mine, coming(3, metrics={"loss": 3.0})).enough
        assert names(counted.run) == ["step_1", "step_2"]
        assert upkeep.make_room(mine, coming(3, metrics={"loss": 0.5})).enough
        assert names(counted.run) == ["step_2"]

    def test_what_the_policy_keeps_now_gives_way_last(self, counted: Disk) -> None:
        make_run(counted.run)
        for step, loss in ((1, 1.0), (2, 2.0), (3, 3.0)):
            write(counted.run, step, metrics={"loss": loss})
        counted.room_for(3)
        better = coming(4, metrics={"loss": 0.5})
        assert upkeep.make_room(care(counted, "keep-best 1:loss"), better).enough
        assert names(counted.run) == ["step_1", "step_3"]

    def test_room_that_somebody_else_makes_counts(self, counted: Disk) -> None:
        make_run(counted.run)
        write(counted.run, 1, 2, 3)
        free = [0, 2**40]
        mine = replace(care(counted, "keep-last 1", delete=False), measure=lambda _: free.pop(0))
        assert upkeep.make_room(mine, coming(4)).enough
        assert names(counted.run) == ["step_2", "step_3"]
        assert in_trash(counted.run) == ["step_1"]

    def test_pruning_to_the_trash_frees_only_what_is_needed(self, disk: Disk) -> None:
        make_run(disk.run)
        write(disk.run, 1, 2, 3, 4)
        disk.room_for(4)
        said: list[str] = []
        room = upkeep.make_room(care(disk, "keep-last 1", said=said, delete=False), coming(5))
        assert room.enough
        assert names(disk.run) == ["step_4"]
        assert in_trash(disk.run) == ["step_2", "step_3"]
        assert said[0] == "Moved step_1 (1 MB) to the trash: room was needed for step_5."
        last = "Deleted step_1 from the trash (1 MB given back): room was needed for step_5."
        assert said[-1] == last
        for item in remove.list_trash(disk.run):
            remove.restore(item)
        assert names(disk.run) == ["step_2", "step_3", "step_4"]

    def test_the_journal_says_what_it_was_for(self, counted: Disk) -> None:
        make_run(counted.run)
        write(counted.run, 1, 2, 3)
        trash(counted.run, "step_1")
        counted.room_for(1)
        upkeep.make_room(care(counted, "keep-last 1"), coming(5))
        events, problems = journal.read(counted.run)
        assert problems == ()
        told = [(e.what, e.checkpoints, e.reason) for e in events if e.reason]
        assert told == [
            ("prune", ("step_2",), "no rule keeps it; room was needed for step_5"),
            ("empty", ("step_1",), "room was needed for step_5"),
        ]


def _pin(disk: Disk) -> None:
    pins.pin(scan_run(disk.run).checkpoints[0])


def _lease(disk: Disk) -> None:
    source = scan_run(disk.run).checkpoints[0]
    leases.write_lease(source, fork=disk.path / "fork", fork_run_id="f" * 32)


def _link(disk: Disk) -> None:
    (disk.run / "best").symlink_to("step_1")


class TestWhatStays:
    @pytest.mark.parametrize("protect", [_pin, _lease, _link])
    def test_what_is_protected_never_makes_room(
        self, counted: Disk, protect: Callable[[Disk], None]
    ) -> None:
        make_run(counted.run)
        write(counted.run, 1, 2, 3)
        protect(counted)
        counted.room_for(1)
        assert not upkeep.make_room(care(counted, "keep-last 1"), coming(4)).enough
        assert names(counted.run) == ["step_1", "step_3"]

    def test_what_the_live_run_was_resumed_from_stays_until_the_end(self, counted: Disk) -> None:
        parent = {"name": "step_1", "step": 1, "run_id": RUN_ID, "attempt": 1}
        make_run(
            counted.run,
            attempts=[
                {"attempt": 1, "parent": None, "start_step": 0},
                {"attempt": 2, "parent": parent, "start_step": 1},
            ],
        )
        write(counted.run, 1)
        write(counted.run, 2, 3, attempt=2)
        counted.room_for(1)
        mine = care(counted, "keep-last 1")
        with lock.acquire(counted.run, report=lambda _: None):
            assert not upkeep.make_room(mine, coming(4, attempt=2)).enough
            assert names(counted.run) == ["step_1", "step_3"]
            assert upkeep.prune_by_policy(mine, final=False) == 0
            assert upkeep.prune_by_policy(mine, final=True) > BIG
        assert names(counted.run) == ["step_3"]

    def test_the_healthy_one_stays_where_the_newest_holds_nan(self, counted: Disk) -> None:
        make_run(counted.run)
        write(counted.run, 1, 2)
        write(counted.run, 3, nonfinite=["layer.weight"])
        counted.room_for(1)
        upkeep.make_room(care(counted, "keep-last 1"), coming(4))
        assert names(counted.run) == ["step_2", "step_3"]

    def test_weights_alone_are_kept_where_nothing_else_stands(self, counted: Disk) -> None:
        make_run(counted.run)
        write(counted.run, 1, 2, resumable=False)
        counted.room_for(1)
        upkeep.make_room(care(counted, "keep-last 1"), coming(4))
        assert names(counted.run) == ["step_2"]

    def test_others_checkpoints_and_incomplete_ones_are_no_room(self, counted: Disk) -> None:
        make_run(counted.run)
        write(counted.run, 1, 2, run_id="f" * 32)
        write(counted.run, 3, marker=False)
        write(counted.run, 4)
        counted.room_for(1)
        assert not upkeep.make_room(care(counted, "keep-last 1"), coming(5)).enough
        assert names(counted.run) == ["step_1", "step_2", "step_3", "step_4"]

    def test_one_pinned_meanwhile_stays_and_the_next_goes(self, counted: Disk) -> None:
        make_run(counted.run)
        write(counted.run, 1, 2, 3, 4)
        counted.room_for(2)
        said: list[str] = []

        def pin_the_next(line: str) -> None:
            said.append(line)
            if len(said) == 1:
                pins.pin(scan_run(counted.run).checkpoints[0])

        mine = replace(care(counted, "keep-last 1"), report=pin_the_next)
        upkeep.make_room(mine, coming(5))
        assert names(counted.run) == ["step_2", "step_4"]
        assert any("step_2 is pinned now" in line for line in said)

    def test_the_coming_one_is_no_reason_to_remove_the_last_that_stands(
        self, counted: Disk
    ) -> None:
        """An abandoned checkpoint of the coming one's name must not pass for it."""
        make_run(
            counted.run,
            attempts=[
                {"attempt": 1, "parent": None, "start_step": 0},
                {"attempt": 2, "parent": None, "start_step": 3},
            ],
        )
        write(counted.run, 1, 2, 3, 4)
        counted.room_for(2)
        said: list[str] = []

        def remove_the_newest(line: str) -> None:
            said.append(line)
            if len(said) == 1:
                trash(counted.run, "step_3")

        mine = replace(care(counted, "keep-last 1"), report=remove_the_newest)
        upkeep.make_room(mine, coming(4, attempt=2))
        assert names(counted.run) == ["step_2", "step_4"]
        assert "is gone by now" in said[1]


class TestTrash:
    def test_the_oldest_goes_first_and_no_more_than_needed(self, disk: Disk) -> None:
        make_run(disk.run)
        write(disk.run, 1, 2, 3, 4, 5)
        trash(disk.run, "step_3", "step_1", "step_2")
        disk.room_for(5)
        said: list[str] = []
        assert upkeep.make_room(care(disk, said=said), coming(6)).enough
        assert in_trash(disk.run) == ["step_1", "step_2"]
        assert said == [
            "Deleted step_3 from the trash (1 MB given back): room was needed for step_6."
        ]
        assert names(disk.run) == ["step_4", "step_5"]

    @pytest.mark.parametrize(
        "standing",
        [None, {"resumable": False}, {"run_id": "f" * 32}, {"marker": False}, {"step": 9}],
        ids=["nothing", "weights", "another run's", "half of one", "abandoned"],
    )
    def test_it_stays_where_nothing_stands_that_training_could_go_on_from(
        self, counted: Disk, standing: dict[str, Any] | None
    ) -> None:
        make_run(
            counted.run,
            attempts=[
                {"attempt": 1, "parent": None, "start_step": 0},
                {"attempt": 2, "parent": None, "start_step": 5},
            ],
        )
        write(counted.run, 1, 2)
        trash(counted.run, "step_1", "step_2")
        if standing is not None:
            step = standing.get("step", 3)
            write(counted.run, step, **{k: v for k, v in standing.items() if k != "step"})
        counted.room_for(1)
        said: list[str] = []
        assert not upkeep.make_room(care(counted, said=said), coming(7, attempt=2)).enough
        assert in_trash(counted.run) == ["step_1", "step_2"]
        assert said == ["The trash is kept: no checkpoint stands that training could go on from."]

    def test_an_item_with_a_pinned_one_stays(self, counted: Disk) -> None:
        make_run(counted.run)
        write(counted.run, 1, 2, 3, 4)
        found = scan_run(counted.run).checkpoints
        remove.move_to_trash(found[:2], why="rewind")
        trash(counted.run, "step_3")
        pin = pins.pin_path(counted.run, "step_2")
        pin.parent.mkdir()
        pin.write_text("{}")
        counted.room_for(4)
        said: list[str] = []
        assert upkeep.make_room(care(counted, said=said), coming(5)).enough
        assert in_trash(counted.run) == ["step_1, step_2"]
        assert said[0] == "step_1, step_2 stays in the trash: it is pinned or in use."
        assert pin.exists()

    def test_what_a_fork_needs_stays_in_it(self, counted: Disk) -> None:
        make_run(counted.run)
        write(counted.run, 1, 2)
        trash_of = scan_run(counted.run).checkpoints[0]
        trash(counted.run, "step_1")
        leases.write_lease(trash_of, fork=counted.path / "fork", fork_run_id="f" * 32)
        counted.room_for(2)
        assert not upkeep.make_room(care(counted), coming(3)).enough
        assert in_trash(counted.run) == ["step_1"]

    def test_what_cannot_go_is_not_counted_on(self, counted: Disk) -> None:
        make_run(counted.run)
        write(counted.run, 1, 2, 3)
        trash(counted.run, "step_1", "step_2")
        pin = pins.pin_path(counted.run, "step_2")
        pin.parent.mkdir()
        pin.write_text("{}")
        counted.room_for(2)
        said: list[str] = []
        assert not upkeep.make_room(care(counted, said=said), coming(5)).enough
        assert in_trash(counted.run) == ["step_1", "step_2"]
        assert said == []

    def test_an_older_one_of_a_name_that_is_in_use_now_goes(self, counted: Disk) -> None:
        make_run(counted.run)
        write(counted.run, 1, 2)
        trash(counted.run, "step_1")
        write(counted.run, 1)
        _lease(counted)
        counted.room_for(3)
        assert upkeep.make_room(care(counted), coming(3)).enough
        assert in_trash(counted.run) == []

    def test_one_that_somebody_restores_meanwhile_stays(self, counted: Disk) -> None:
        make_run(counted.run)
        write(counted.run, 1, 2, 3)
        trash(counted.run, "step_1", "step_2")
        counted.room_for(1)

        def restore_the_next(_: str) -> None:
            for item in remove.list_trash(counted.run):
                remove.restore(item)

        mine = replace(care(counted), report=restore_the_next)
        assert not upkeep.make_room(mine, coming(4)).enough
        assert names(counted.run) == ["step_2", "step_3"]

    def test_a_deletion_that_was_not_finished_is_finished(self, counted: Disk) -> None:
        make_run(counted.run)
        write(counted.run, 1, 2)
        trash(counted.run, "step_1")
        item = remove.list_trash(counted.run)[0]
        item.folder.rename(item.folder.with_name(item.id + remove.DELETING))
        counted.room_for(2)
        assert upkeep.make_room(care(counted), coming(3)).freed > BIG
        assert in_trash(counted.run) == []


class TestFailures:
    def test_a_removal_that_fails_is_told_and_nothing_stops(self, counted: Disk) -> None:
        make_run(counted.run)
        write(counted.run, 1, 2, 3)
        counted.room_for(1)
        elsewhere = counted.path.parent / "elsewhere"
        elsewhere.mkdir()
        (counted.run / ".ckptui").mkdir()
        (counted.run / ".ckptui" / "trash").symlink_to(elsewhere)
        said: list[str] = []
        room = upkeep.make_room(care(counted, "keep-last 1", said=said), coming(4))
        assert (room.enough, room.freed) == (False, 0)
        assert all(line.startswith("Not pruned: ") and "is a link" in line for line in said)
        assert names(counted.run) == ["step_1", "step_2", "step_3"]
        assert list(elsewhere.iterdir()) == []

    def test_an_item_that_cannot_be_deleted_is_told_and_the_next_goes(self, tmp_path: Path) -> None:
        with tmpfs(tmp_path / "disk") as folder:
            small = Disk(folder, real=True)
            make_run(small.run)
            write(small.run, 1, 2, 3)
            busy = small.run / "step_1" / "busy"
            busy.mkdir()
            subprocess.run(["mount", "-t", "tmpfs", "none", str(busy)], check=True)
            trash(small.run, "step_1", "step_2")
            small.room_for(2)
            said: list[str] = []
            room = upkeep.make_room(care(small, said=said), coming(4))
            assert room.enough
            assert "step_1 stays in the trash (1 MB given back): " in said[0]
            assert "busy cannot be deleted: Device or resource busy." in said[0]
            assert said[1].startswith("Deleted step_2 from the trash")

    @pytest.mark.parametrize("delete", [True, False])
    def test_a_disk_that_takes_no_new_name_loses_what_the_policy_does_not_keep(
        self, tmp_path: Path, delete: bool
    ) -> None:
        with tmpfs(tmp_path / "disk", "size=64m,nr_inodes=60") as folder:
            full = Disk(folder, real=False)
            make_run(full.run)
            write(full.run, 1, 2, 3)
            with contextlib.suppress(OSError):
                for i in range(100):
                    (folder / str(i)).touch()
            full.room_for(1)
            upkeep.make_room(care(full, "keep-last 2", delete=delete), coming(4))
            assert names(full.run) == ["step_3"]
            assert in_trash(full.run) == []

    def test_a_run_that_cannot_be_read_is_told(self, counted: Disk) -> None:
        said: list[str] = []
        counted.room_for(0)
        room = upkeep.make_room(care(counted, "keep-last 1", said=said), coming(4))
        assert not room.enough
        assert said == [f"No more room could be made for step_4: There is no {counted.run}."]

    def test_a_policy_that_cannot_be_applied_is_told_once_and_the_trash_gives_room(
        self, counted: Disk
    ) -> None:
        make_run(counted.run)
        write(counted.run, 1, 2, 3)
        trash(counted.run, "step_1")
        counted.room_for(3)
        said: list[str] = []
        assert upkeep.make_room(care(counted, "keep-best 1:loss", said=said), coming(4)).enough
        assert len(said) == 2
        assert said[0].startswith("Nothing was pruned: No complete checkpoint has a finite value")
        assert names(counted.run) == ["step_2", "step_3"]


class TestAQuota:
    """Where a write is refused although the file system shows free space."""

    @pytest.mark.parametrize("shown", [2**40, None])
    def test_a_refused_write_gets_the_place_of_one_old_checkpoint(
        self, counted: Disk, shown: int | None
    ) -> None:
        make_run(counted.run)
        write(counted.run, 1, 2, 3, 4)
        mine = replace(care(counted, "keep-last 1"), measure=lambda _: shown)
        assert upkeep.make_room(mine, coming(5)).freed == 0
        room = upkeep.make_room(mine, coming(5), refused=True)
        assert (room.enough, room.free) == (True, None)
        assert names(counted.run) == ["step_2", "step_3", "step_4"]

    def test_where_nothing_may_go_it_says_so(self, counted: Disk) -> None:
        make_run(counted.run)
        write(counted.run, 1)
        mine = replace(care(counted, "keep-last 1"), measure=lambda _: 2**40)
        room = upkeep.make_room(mine, coming(5), refused=True)
        assert not room.enough
        assert "needs 1.3 MB, which the disk or a quota of" in upkeep.shortage(room)

    def test_a_disk_that_is_seen_to_be_full_is_believed(self, counted: Disk) -> None:
        make_run(counted.run)
        write(counted.run, 1, 2, 3, 4)
        mine = replace(care(counted, "keep-last 1"), measure=lambda _: BIG)
        room = upkeep.make_room(mine, coming(5), refused=True)
        assert (room.enough, room.free) == (True, BIG)
        assert names(counted.run) == ["step_2", "step_3", "step_4"]

    def test_only_a_full_disk_is_full(self) -> None:
        for code in (errno.ENOSPC, errno.EDQUOT):
            assert upkeep.is_full(OSError(code, "full"))
        for code in (errno.EFBIG, errno.EIO, errno.EROFS, errno.EACCES):
            assert not upkeep.is_full(OSError(code, "not full"))
        wrapped = StorageError("Saving failed.", path=Path("/run"))
        assert not upkeep.is_full(wrapped)
        wrapped.__cause__ = OSError(errno.EDQUOT, "full")
        assert upkeep.is_full(wrapped)
        assert not upkeep.is_full(None)


class TestPruning:
    def test_it_frees_what_the_policy_does_not_keep_and_says_how_much(self, counted: Disk) -> None:
        make_run(counted.run)
        write(counted.run, 1, 2, 3)
        sizes = [c.size for c in scan_run(counted.run).checkpoints]
        said: list[str] = []
        mine = care(counted, "keep-last 1", "keep step_9", said=said)
        assert upkeep.prune_by_policy(mine, final=False) == sizes[0] + sizes[1]
        assert names(counted.run) == ["step_3"]
        assert said == []

    def test_into_the_trash_it_frees_nothing(self, counted: Disk) -> None:
        make_run(counted.run)
        write(counted.run, 1, 2)
        assert upkeep.prune_by_policy(care(counted, "keep-last 1", delete=False), final=False) == 0
        assert in_trash(counted.run) == ["step_1"]

    def test_no_policy_prunes_nothing(self, counted: Disk) -> None:
        make_run(counted.run)
        write(counted.run, 1, 2)
        assert upkeep.prune_by_policy(care(counted), final=True) == 0
        assert names(counted.run) == ["step_1", "step_2"]

    def test_warnings_and_failures_are_told_and_stop_nothing(self, counted: Disk) -> None:
        said: list[str] = []
        mine = care(counted, "keep-last 1", said=said)
        assert upkeep.prune_by_policy(mine, final=False) == 0
        assert said == [f"Nothing was pruned: There is no {counted.run}."]
        make_run(counted.run)
        write(counted.run, 1, nonfinite=["w"])
        upkeep.prune_by_policy(mine, final=False)
        assert "step_1, holds NaN" in said[1]


class TestWords:
    @pytest.mark.parametrize(
        ("free", "more"), [(None, None), (0, 0), (99, 0), (100, 1), (299, 2), (300, 3)]
    )
    def test_how_many_more_there_is_room_for(self, free: int | None, more: int | None) -> None:
        assert upkeep.room_for(free, 100) == more

    def test_the_outlook_is_a_plain_line(self) -> None:
        size = 1_200_000_000
        assert upkeep.outlook(1, size) == "The disk has room for 1 more checkpoint of 1.2 GB."
        assert upkeep.outlook(2, 10**12) == "The disk has room for 2 more checkpoints of 1 TB."
        assert upkeep.outlook(0, 999).startswith(
            "The disk has no room for another checkpoint of 999 B"
        )

    def test_the_sentence_says_what_where_and_what_to_do(self) -> None:
        room = Room(
            run=Path("/runs/a"),
            name="step_400",
            needed=1_200_000_000,
            free=300_000_000,
            enough=False,
        )
        assert upkeep.shortage(room) == (
            "step_400 needs 1.2 GB, but only 300 MB are free on the disk of /runs/a, and neither "
            "pruning nor the trash gives enough. Free some space, or let the policy keep fewer "
            "checkpoints; those that stand are untouched."
        )

    def test_free_space_is_what_the_file_system_says(self, tmp_path: Path) -> None:
        stats = os.statvfs(tmp_path)
        found = upkeep.free_space(tmp_path)
        assert found is not None
        assert abs(found - stats.f_bavail * stats.f_frsize) < 2**30
        assert upkeep.free_space(tmp_path / "not there") is None
        if Path("/proc/self").is_dir():
            assert upkeep.free_space(Path("/proc/self")) is None  # it has no blocks at all
