"""Stopping an action at every one of its file operations: killed there, or refused by the disk.

A sweep runs as a program of its own (`python -m tests.sweep NAME HOW`), for it forks once for every
operation: the child is killed, or the operation fails, and the parent looks at what is left.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import shutil
import signal
import sys
import tempfile
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import xxhash
import yaml

from ckptui import leftovers, pins, prune, remove
from ckptui.errors import CkptuiError
from ckptui.lock import acquire
from ckptui.retention import parse_rule, plan_prune
from ckptui.save import Draft, save_checkpoint
from ckptui.scan import scan_run
from ckptui.training import TrainingRun
from ckptui.verify import verify_checkpoint
from tests.factory import RUN_ID, make_checkpoint, make_run, safetensors_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from ckptui.checkpoint import Checkpoint

WATCHED = frozenset(
    {
        "open",
        "os.mkdir",
        "os.rename",
        "os.link",
        "os.remove",
        "os.rmdir",
        "os.scandir",
        "os.listdir",
        "os.chmod",
        "os.truncate",
    }
)
DONE, REFUSED, CRASHED = 0, 3, 9


def quiet(_: str) -> None:
    """Nobody reads the reports."""


def tree(path: Path) -> dict[str, bytes]:
    """Every file below a folder with its content."""
    return {
        str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()
    }


def at(run: Path, name: str) -> Checkpoint:
    return next(c for c in scan_run(run).checkpoints if c.name == name and not c.staged)


class Case:
    """One action, what it starts from, and what must hold wherever it was stopped."""

    steps: tuple[int, ...] = (1, 2, 3)
    folders_rename = True

    def prepare(self, run: Path) -> None:
        make_run(run, self.steps)

    def act(self, run: Path) -> None:
        raise NotImplementedError

    def again(self, run: Path) -> None:
        """What a user does next; it must work."""
        self.act(run)

    def check(self, run: Path, before: dict[str, dict[str, bytes]]) -> None:
        """No checkpoint that was there before is lost: it stands in the run or in the trash."""
        found = {c.name: c for c in scan_run(run).checkpoints if not c.staged}
        trashed = {
            name: item.folder / name for item in remove.list_trash(run) for name in item.names
        }
        for name, content in before.items():
            places = [found[name].path] if name in found and found[name].complete else []
            places += [trashed[name]] if name in trashed else []
            assert any(tree(p) == content for p in places), f"{name} is not what it was"
        self.check_complete(run)

    def check_complete(self, run: Path) -> None:
        """What is listed as complete is whole, and nothing half-written has a name of its own."""
        for c in scan_run(run).checkpoints:
            if c.complete:
                report = verify_checkpoint(c, full=True)
                assert report.status == "verified", report.problems
            else:
                assert c.staged or not self.folders_rename, f"{c.name} is {c.state}"


class Save(Case):
    """A new checkpoint beside old ones."""

    name, attempt = "step_9", 1

    def fill(self, folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(safetensors_bytes({"w": [1.0, 2.0]}))
        (folder / "recipe_state.json").write_text('{"format": 1, "steps_run": 9}')
        (folder / "a" / "b").mkdir(parents=True)
        (folder / "a" / "b" / "tokenizer.json").write_text("{}")

    def act(self, run: Path) -> None:
        draft = Draft(
            name=self.name,
            step=9,
            epoch=0,
            run_id=RUN_ID,
            attempt=self.attempt,
            contains=("weights", "optimizer"),
            resumable=True,
        )
        with acquire(run, report=quiet) as lock:
            leftovers.clear(run)
            save_checkpoint(run, draft, self.fill, lock=lock)

    def again(self, run: Path) -> None:
        self.act(run)
        saved = at(run, self.name)
        assert (saved.complete, saved.attempt) == (True, self.attempt)
        assert not list((run / ".ckptui" / "staging").iterdir())
        left = set(os.listdir(run / ".ckptui")) - {"journal.jsonl", "staging", "trash"}
        # One that a process may still have in its hand stays for a minute.
        assert not {n for n in left if not n.endswith(".old")}, left


class SaveOverHalf(Save):
    """A save whose name a half-written checkpoint holds."""

    def prepare(self, run: Path) -> None:
        make_run(run, self.steps)
        make_checkpoint(run, "step_9", step=9, marker=False)

    def check_complete(self, run: Path) -> None:
        for c in scan_run(run).checkpoints:
            if c.complete:
                assert verify_checkpoint(c, full=True).status == "verified"


class SaveOverAbandoned(Save):
    """A save whose name a checkpoint of an abandoned branch holds."""

    attempt = 2
    steps = (1, 2, 9)

    def prepare(self, run: Path) -> None:
        attempts = [{"attempt": 1, "start_step": 0}, {"attempt": 2, "start_step": 2}]
        make_run(run, self.steps, attempts=attempts)


class SaveByFiles(Save):
    """A save where folders cannot be renamed."""

    folders_rename = False


class Trash(Case):
    """Two checkpoints into the trash, as one item."""

    def act(self, run: Path) -> None:
        found = [c for c in scan_run(run).checkpoints if c.name in ("step_1", "step_2")]
        if found:
            remove.move_to_trash(found, why="rewind")

    def again(self, run: Path) -> None:
        for item in remove.list_trash(run):
            remove.restore(item)
        assert [c.name for c in scan_run(run).checkpoints if c.complete] == [
            "step_1",
            "step_2",
            "step_3",
        ]
        self.act(run)
        assert [c.name for c in scan_run(run).checkpoints] == ["step_3"]


class TrashByFiles(Trash):
    """The same where folders cannot be renamed."""

    folders_rename = False

    def check(self, run: Path, before: dict[str, dict[str, bytes]]) -> None:
        """A kill in between may leave the files of one in two places, but every file is there."""
        for name, content in before.items():
            here = tree(run / name) if (run / name).exists() else {}
            for folder in (run / ".ckptui" / "trash").glob(f"*/{name}"):
                for file, data in tree(folder).items():
                    tidy = "checkpoint.json" if file.startswith(".checkpoint.json.") else file
                    here.setdefault(tidy, data)
            assert here == content, f"{name} is not what it was"
        self.check_complete(run)

    def again(self, run: Path) -> None:
        """People can read the run; putting the two halves together is theirs."""
        scan_run(run)
        remove.list_trash(run)


class Restore(Trash):
    """Two checkpoints back from the trash."""

    def prepare(self, run: Path) -> None:
        make_run(run, self.steps)
        Trash.act(self, run)

    def act(self, run: Path) -> None:
        for item in remove.list_trash(run):
            remove.restore(item)

    def again(self, run: Path) -> None:
        self.act(run)
        assert len([c for c in scan_run(run).checkpoints if c.complete]) == 3
        assert remove.list_trash(run) == ()


class Empty(Case):
    """The trash is emptied; what stands in the run stays."""

    def prepare(self, run: Path) -> None:
        make_run(run, self.steps)
        Trash.act(Trash(), run)

    def act(self, run: Path) -> None:
        for item in remove.list_trash(run):
            emptied = remove.empty(item)
            if emptied.error is not None:
                raise CkptuiError(emptied.error)

    def check(self, run: Path, before: dict[str, dict[str, bytes]]) -> None:
        assert tree(run / "step_3") == before["step_3"]
        assert [c.name for c in scan_run(run).checkpoints] == ["step_3"]
        for item in remove.list_trash(run):
            if item.problems:
                with contextlib.suppress(CkptuiError):
                    remove.restore(item)
                    msg = f"{item.id} was restored though its deletion had begun"
                    raise AssertionError(msg)

    def again(self, run: Path) -> None:
        self.act(run)
        assert remove.list_trash(run) == ()


class Prune(Case):
    """Pruning that frees the space at once."""

    steps = (1, 2, 3, 4)
    kept = ("step_2", "step_4")

    def prepare(self, run: Path) -> None:
        make_run(run, self.steps)
        pins.pin(at(run, "step_2"))

    def act(self, run: Path) -> None:
        rules = [parse_rule("keep-last 1")]
        plan = plan_prune(scan_run(run).checkpoints, rules, now=datetime.now(UTC))
        failed = [r.error for r in prune.execute(plan, delete=True) if r.error]
        if failed:
            raise CkptuiError(failed[0])

    def check(self, run: Path, before: dict[str, dict[str, bytes]]) -> None:
        for name in self.kept:
            assert at(run, name).complete
            assert tree(run / name) == before[name]
        self.check_complete(run)

    def again(self, run: Path) -> None:
        self.act(run)
        for item in remove.list_trash(run):
            assert remove.empty(item).error is None
        assert tuple(c.name for c in scan_run(run).checkpoints) == self.kept


class Pin(Case):
    """A pin set and taken away."""

    def act(self, run: Path) -> None:
        pins.pin(at(run, "step_1"), note="a")
        pins.unpin(at(run, "step_1"))
        pins.pin(at(run, "step_2"), note="b")

    def check(self, run: Path, before: dict[str, dict[str, bytes]]) -> None:
        super().check(run, before)
        assert all(p.readable for p in pins.read_pins(run).values())

    def again(self, run: Path) -> None:
        self.act(run)
        assert list(pins.read_pins(run)) == ["step_2"]


class Rewind(Case):
    """Going back in a run: what is newer goes to the trash, the attempt is recorded."""

    def act(self, run: Path) -> None:
        with TrainingRun(run, resume=run / "step_1", rewind=2, report=quiet) as training:
            assert training.attempt >= 2

    def check_complete(self, run: Path) -> None:
        super().check_complete(run)
        found = scan_run(run)
        assert found.run_id == RUN_ID
        assert not any("run.json" in p.what for p in found.problems)

    def again(self, run: Path) -> None:
        self.act(run)
        found = scan_run(run)
        assert [c.name for c in found.checkpoints if c.current] == ["step_1"]
        assert 2 in [a.attempt for a in found.attempts]
        assert sorted(n for i in remove.list_trash(run) for n in i.names) == ["step_2", "step_3"]
        assert not list(run.glob(".*.tmp"))


class Fork(Case):
    """The beginning of a fork: its source stays protected until it has saved."""

    def act(self, run: Path) -> None:
        with TrainingRun(
            run.with_name("fork"), resume=run / "step_1", config={"a": 1}, report=quiet
        ) as training:
            assert training.attempt >= 1

    def again(self, run: Path) -> None:
        self.act(run)
        fork = scan_run(run.with_name("fork"))
        assert fork.run_id not in (None, RUN_ID)
        assert fork.attempts[0].parent is not None
        assert fork.attempts[0].parent.path == str(run / "step_1")
        assert list(scan_run(run).protected) == ["step_1"]


CASES: dict[str, type[Case]] = {
    "save": Save,
    "save-over-half": SaveOverHalf,
    "save-over-abandoned": SaveOverAbandoned,
    "save-by-files": SaveByFiles,
    "trash": Trash,
    "trash-by-files": TrashByFiles,
    "restore": Restore,
    "empty": Empty,
    "prune": Prune,
    "pin": Pin,
    "rewind": Rewind,
    "fork": Fork,
}


def refuse_folder_renames() -> None:
    rename: Callable[..., None] = os.rename

    def refuse(source: str, target: str, **more: int) -> None:
        if Path(source).is_dir():
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        rename(source, target, **more)

    os.rename = refuse  # type: ignore[assignment] # only what is called here


def in_child(case: Case, run: Path, stop: int, how: str) -> tuple[int, int]:
    """Run the action in a child that stops at its `stop`-th operation; wait status and count."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        text = os.read(reading, 100)
        os.close(reading)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return status, int(text or b"0")
    os.close(reading)
    count = 0

    def step() -> None:
        nonlocal count
        count += 1
        if count != stop:
            return
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        code = getattr(errno, how)
        raise OSError(code, os.strerror(code), "the disk")

    def hook(event: str, args: tuple[object, ...]) -> None:
        # Reading below /proc is no work on the run's disk.
        if event in WATCHED and not str(args[0]).startswith("/proc"):
            step()

    sync, write = os.fsync, os.write

    def counted_sync(descriptor: int) -> None:
        step()
        sync(descriptor)

    def counted_write(descriptor: int, data: bytes) -> int:
        step()
        return write(descriptor, data)

    os.fsync = counted_sync  # type: ignore[assignment] # only what is called here
    os.write = counted_write  # type: ignore[assignment] # only what is called here
    code = DONE
    sys.addaudithook(hook)
    try:
        case.act(run)
    except CkptuiError:
        code = REFUSED
    except BaseException:  # noqa: BLE001 - whatever it is, the parent must hear of it
        stop = -1
        traceback.print_exc()
        code = CRASHED
    stop = -1
    write(writing, str(count).encode())
    os._exit(code)


def sweep(name: str, how: str, *, first: int = 1, stride: int = 1) -> int:
    """Stop the named action at its operations, and check what is left; how many there were."""
    case = CASES[name]()
    if not case.folders_rename:
        refuse_folder_renames()
    with tempfile.TemporaryDirectory(prefix="ckptui-sweep-") as folder:
        start = Path(folder) / "start" / "run"
        case.prepare(start)
        before = {f"step_{n}": tree(start / f"step_{n}") for n in case.steps}
        for trashed in (start / ".ckptui" / "trash").glob("*/step_*"):
            before[trashed.name] = tree(trashed)
        whole = Path(folder) / "whole" / "run"
        shutil.copytree(start.parent, whole.parent)
        status, operations = in_child(case, whole, 0, how)
        assert status == DONE, f"{name} fails undisturbed"
        assert operations > 5
        for stop in range(first, operations + 1, stride):
            run = Path(folder) / str(stop) / "run"
            shutil.copytree(start.parent, run.parent)
            status, _ = in_child(case, run, stop, how)
            expected = (-signal.SIGKILL,) if how == "kill" else (DONE, REFUSED)
            try:
                assert status in expected, f"ended with {status}"
                case.check(run, before)
                case.again(run)
                case.check_complete(run)
            except BaseException:
                sys.stderr.write(f"{name} stopped by {how} at operation {stop} of {operations}\n")
                raise
            shutil.rmtree(run.parent)
    return operations


def main() -> None:
    """Run one sweep and print how many operations it stopped at."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=CASES)
    parser.add_argument("how")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--stride", type=int, default=1)
    args = parser.parse_args()
    _ = xxhash, yaml  # imported before counting starts
    operations = sweep(args.name, args.how, first=args.first, stride=args.stride)
    sys.stdout.write(f"{operations}\n")


if __name__ == "__main__":
    main()
