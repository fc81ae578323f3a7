"""A disk that is full, over quota, failing or read-only at any operation of a save.

What stood before stays and verifies, what was begun is gone, one sentence tells why, and the next
save works once the disk does.
"""

from __future__ import annotations

import builtins
import errno
import io
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ckptui import TrainingRun, writer
from ckptui.errors import StorageError
from ckptui.remove import list_trash
from ckptui.scan import scan_run
from ckptui.upkeep import make_room
from ckptui.verify import verify_checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ckptui.upkeep import Coming, Room, Upkeep
    from tests.recipe.harness import Trainer

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

CODES = ("ENOSPC", "EIO", "EDQUOT", "EROFS", "EACCES")
BY_PATH = ("open", "mkdir", "rename", "replace", "link")
BY_DESCRIPTOR = ("write", "writev", "fsync")
REMOVING = ("unlink", "remove", "rmdir")
PAGE = 4096


class Disk:
    """Lets the operations below a folder fail: the chosen one, or all from it on.

    Reading never fails, nor does removing, but on a disk that became read-only.
    """

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder = os.fspath(folder)
        self.count = 0
        self._at = 0
        self._code = 0
        self._lasting = False
        self._mutex = threading.Lock()
        for name in (*BY_PATH, *REMOVING):
            patch.setattr(os, name, self._by_path(name, getattr(os, name)))
        for name in BY_DESCRIPTOR:
            patch.setattr(os, name, self._by_descriptor(getattr(os, name)))
        opened = self._opened(io.open)
        patch.setattr(io, "open", opened)
        patch.setattr(builtins, "open", opened)

    def fail(self, at: int, code: str, *, lasting: bool) -> None:
        """Fail at the operation of this number, counted from here."""
        self.count = 0
        self._at, self._code, self._lasting = at, getattr(errno, code), lasting

    def work(self) -> None:
        """Be a good disk again."""
        self._at = 0

    def step(self, *, removing: bool = False) -> None:
        with self._mutex:
            if not self._at or (removing and self._code != errno.EROFS):
                return
            self.count += 1
            if self.count == self._at or (self._lasting and self.count > self._at):
                raise OSError(self._code, os.strerror(self._code), self.folder)

    def _by_path(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(path: Any, *args: Any, **more: Any) -> Any:
            reading = name == "open" and not args[0] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if os.fsdecode(path).startswith(self.folder) and not reading:
                self.step(removing=name in REMOVING)
            return call(path, *args, **more)

        return called

    def _by_descriptor(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(descriptor: int, *args: Any) -> Any:
            if os.fspath(Path(f"/proc/self/fd/{descriptor}").readlink()).startswith(self.folder):
                self.step()
            return call(descriptor, *args)

        return called

    def _opened(self, call: Callable[..., Any]) -> Callable[..., Any]:
        disk = self

        class Raw(io.FileIO):
            def write(self, data: Any) -> int:
                disk.step()
                return super().write(data)

        def opened(path: Any, mode: str = "r", *args: Any, **more: Any) -> Any:
            inside = not isinstance(path, int) and os.fsdecode(path).startswith(self.folder)
            if not inside or set(mode) <= set("rbt"):
                return call(path, mode, *args, **more)
            self.step()
            raw = io.BufferedWriter(Raw(path, mode.replace("b", "").replace("t", "")))
            return raw if "b" in mode else io.TextIOWrapper(raw, encoding="utf-8")

        return opened


@pytest.fixture
def folder() -> Iterator[Path]:
    """A new folder, in memory where the system has a place for that: thousands of syncs come."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        prefix="ckptui-disk-", dir=memory if memory.is_dir() else None
    ) as path:
        yield Path(path)


@pytest.fixture
def disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    if not Path("/proc/self/fd").is_dir():
        pytest.skip("descriptors cannot be told apart here")
    return Disk(folder / "disk", monkeypatch)


@dataclass
class Trainee:
    """A small model whose checkpoint takes a few pages of the disk."""

    run: Path
    beside: bool
    policy: tuple[str, ...] = ("keep-last 1",)
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        torch.manual_seed(3)
        self.model = torch.nn.Linear(48, 48)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.step = 0

    def enter(self) -> TrainingRun:
        return TrainingRun(self.run, policy=self.policy, report=self.said.append)

    def begin(self, training: TrainingRun) -> None:
        training.register(model=self.model, optimizer=self.optimizer)
        self.step = training.resume()

    def train(self, training: TrainingRun) -> None:
        self._forward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.step += 1
        training.log(self.step, loss=0.5)

    def _forward(self) -> None:
        self.model(torch.ones(1, 48)).square().mean().backward()

    def save(self, training: TrainingRun) -> None:
        """Save this step; an error comes out here, however it is saved."""
        if not self.beside:
            training.save(self.step)
            return
        future = training.async_save(self.step)
        self._forward()
        error = future.exception()
        if error is None:
            self.optimizer.step()
            self.optimizer.zero_grad()
            return
        weight = self.model.weight.detach().clone()
        with pytest.raises(type(error)) as raised:
            self.optimizer.step()
        self.optimizer.zero_grad()
        assert raised.value is error
        assert torch.equal(self.model.weight, weight)  # the step was not made
        raise error


@pytest.fixture
def start(folder: Path) -> Path:
    """A run with two checkpoints, to be copied; the next save prunes the first."""
    run = folder / "start" / "run"
    trainee = Trainee(run, beside=False)
    with TrainingRun(run) as training:
        trainee.begin(training)
        for _ in range(2):
            trainee.train(training)
            trainee.save(training)
    return run


def check(run: Path, error: StorageError | None, name: str, old: str) -> None:
    """What must be so after a save of `name`, whatever became of it."""
    found = {c.name: c for c in scan_run(run).checkpoints if not c.staged}
    assert all(c.complete for c in found.values())
    if error is None:
        assert verify_checkpoint(found[name], full=True).status == "verified"
        return
    assert verify_checkpoint(found[old], full=True).status == "verified"
    if name in found:  # published, and then the disk refused to make that durable
        assert verify_checkpoint(found[name], full=True).status == "verified"
    sentence = str(error)
    assert name in sentence or "metrics.jsonl" in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert len(sentence) < 400
    assert not [i for i in list_trash(run) if old in i.names]


def staged(run: Path) -> list[str]:
    return sorted(p.name for p in (run / ".ckptui" / "staging").iterdir())


@pytest.mark.parametrize("beside", [False, True], ids=["foreground", "background"])
@pytest.mark.parametrize("policy", [(), ("keep-last 1",)], ids=["all", "last"])
@pytest.mark.parametrize(
    "code", [c if c == "ENOSPC" else pytest.param(c, marks=pytest.mark.slow) for c in CODES]
)
def test_one_operation_that_fails_costs_one_save_at_most(
    start: Path, disk: Disk, code: str, policy: tuple[str, ...], *, beside: bool
) -> None:
    at, refused = 0, 0
    while True:
        at += 1
        run = Path(disk.folder) / str(at) / "run"
        shutil.copytree(start, run)
        trainee = Trainee(run, beside, policy)
        with trainee.enter() as training:
            trainee.begin(training)
            trainee.train(training)
            disk.fail(at, code, lasting=False)
            error = None
            try:
                trainee.save(training)
            except StorageError as e:
                error = e
            disk.work()
            if disk.count < at:
                assert error is None
                break
            refused += error is not None
            try:
                check(run, error, "step_3", "step_2")
                assert staged(run) == []
                trainee.train(training)
                trainee.save(training)
                check(run, None, "step_4", "step_2")
            except BaseException as e:
                e.add_note(f"{code} at operation {at}: {error!r}; {trainee.said}")
                raise
        left = [c.name for c in scan_run(run).checkpoints]
        assert left == ["step_4"] if policy else {"step_1", "step_2", "step_4"} <= {*left}
        shutil.rmtree(run.parent)
    assert at > 20
    # Where there is something to prune, it goes, and the save is made after all.
    assert refused > 10 or (policy and code in ("ENOSPC", "EDQUOT"))


@pytest.mark.parametrize("beside", [False, True], ids=["foreground", "background"])
@pytest.mark.parametrize(
    "code", [c if c == "EROFS" else pytest.param(c, marks=pytest.mark.slow) for c in CODES]
)
def test_a_disk_that_fails_for_good_leaves_the_old_and_what_the_next_start_sweeps(
    start: Path, disk: Disk, code: str, *, beside: bool
) -> None:
    at = 0
    while True:
        at += 1
        run = Path(disk.folder) / str(at) / "run"
        shutil.copytree(start, run)
        trainee = Trainee(run, beside)
        disk.work()
        error = None
        reached = False
        try:
            with trainee.enter() as training:
                trainee.begin(training)
                trainee.train(training)
                disk.fail(at, code, lasting=True)
                try:
                    trainee.save(training)
                finally:
                    reached = disk.count >= at
        except StorageError as e:
            error = e
        disk.work()
        if not reached:
            assert error is None
            break
        try:
            check(run, error, "step_3", "step_2")
            if code != "EROFS":
                assert staged(run) == []
            # Another process would know that this one is gone; here it is the same one.
            (run / ".ckptui" / "lock").unlink(missing_ok=True)
            again = Trainee(run, beside)
            with again.enter() as training:
                assert staged(run) == []
                again.begin(training)
                assert again.step in (2, 3)
                assert again.step == 3 or error is not None
                again.train(training)
                again.save(training)
            check(run, None, f"step_{again.step}", "step_2")
            assert staged(run) == []
        except BaseException as e:
            e.add_note(f"{code} from operation {at} on: {error!r}; {trainee.said}")
            raise
        shutil.rmtree(run.parent)
    assert at > 20


@pytest.fixture(params=["size=4m", "size=64m,nr_inodes=200"], ids=["bytes", "inodes"])
def small(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A real file system of its own."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a small file system")
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", request.param, "none", str(folder)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {made.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def leave(folder: Path, room: int) -> None:
    """Fill a file system but for so many pages, or so many names where those are what it lacks."""
    filler = folder / "filler"
    if filler.exists():
        shutil.rmtree(filler)
    filler.mkdir()
    found = os.statvfs(folder)
    if found.f_ffree < 1000:
        for i in range(found.f_ffree - room):
            (filler / str(i)).touch()
    elif found.f_bavail > room:
        with (filler / "rest").open("wb") as f:
            os.posix_fallocate(f.fileno(), 0, (found.f_bavail - room) * PAGE)


def blind(upkeep: Upkeep, coming: Coming, *, refused: bool = False) -> Room:
    """As on a mount that does not tell its free space."""
    return make_room(replace(upkeep, measure=lambda _: None), coming, refused=refused)


@pytest.mark.parametrize("policy", [(), ("keep-last 1",)], ids=["all", "last"])
@pytest.mark.parametrize("seen", [True, False], ids=["preflight", "blind"])
@pytest.mark.parametrize("beside", [False, True], ids=["foreground", "background"])
def test_a_real_disk_of_any_size_keeps_the_old_or_takes_the_new(
    start: Path,
    small: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    beside: bool,
    seen: bool,
    policy: tuple[str, ...],
) -> None:
    if not seen:
        monkeypatch.setattr(writer, "make_room", blind)
    outcomes = []
    for room in (*range(0, 24, 2), 60, 200):
        run = small / "run"
        shutil.copytree(start, run)
        trainee = Trainee(run, beside, policy)
        with trainee.enter() as training:
            trainee.begin(training)
            trainee.train(training)
            leave(small, room)
            error = None
            try:
                trainee.save(training)
            except StorageError as e:
                error = e
            outcomes.append(error is None)
            try:
                check(run, error, "step_3", "step_2")
                assert staged(run) == []
                shutil.rmtree(small / "filler")
                trainee.train(training)
                trainee.save(training)
                check(run, None, "step_4", "step_2")
            except BaseException as e:
                e.add_note(f"room {room}: {error!r}; {trainee.said}")
                raise
        shutil.rmtree(run)
    # What the policy does not keep makes room, and without one nothing does.
    foreseen = seen and os.statvfs(small).f_files > 1000
    assert outcomes[0] == (bool(policy) and not foreseen)
    assert outcomes[-1]


@pytest.fixture
def trainer(tmp_path: Path) -> Trainer:
    """The recipe with a tiny model: 8 steps, saved every 2."""
    pytest.importorskip("transformers")
    from recipe_integration import demo
    from tests.recipe.harness import Trainer

    texts = demo.write_texts(20)
    demo.write_base(tmp_path / "base", texts, hidden=16, layers=1, seed=3, dropout=0.1)
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts[:16])
    (tmp_path / "train.jsonl").write_text(lines)
    settings = {
        "model": tmp_path / "base",
        "dataset": tmp_path / "train.jsonl",
        "epochs": 1,
        "batch_size": 2,
        "max_seq_len": 32,
        "num_threads": 1,
        "device": "cpu",
        "save_every_n_steps": 2,
    }
    return Trainer(tmp_path / "processes", settings)


SOME = 24
"""Pages that the start of an attempt takes, and no checkpoint."""


@pytest.mark.slow
@pytest.mark.parametrize("small", ["size=8m"], indirect=True)
@pytest.mark.parametrize("beside", [False, True], ids=["foreground", "background"])
def test_the_recipe_stops_when_the_disk_is_full(
    trainer: Trainer, small: Path, *, beside: bool
) -> None:
    from tests.recipe.harness import At

    run = small / "run"
    trainer.run(output_dir=run, at=At("save", 2))
    leave(small, SOME)
    outcome = trainer.run(output_dir=run, resume_from="auto", async_save=beside)
    assert outcome.code == 1
    assert outcome.message().count("step_4 needs ") == 1
    assert [c.name for c in scan_run(run).checkpoints] == ["step_2"]
    assert verify_checkpoint(scan_run(run).checkpoints[0], full=True).status == "verified"
    assert staged(run) == []
    shutil.rmtree(small / "filler")
    assert trainer.run(output_dir=run, resume_from="auto", async_save=beside).code == 0
    assert [c.name for c in scan_run(run).checkpoints][-1] == "step_8"


@pytest.mark.slow
@pytest.mark.parametrize("small", ["size=8m"], indirect=True)
@pytest.mark.parametrize("beside", [False, True], ids=["foreground", "background"])
def test_the_recipe_goes_on_while_the_disk_is_full_where_it_is_told_to(
    trainer: Trainer, small: Path, tmp_path: Path, *, beside: bool
) -> None:
    from tests.recipe.harness import At, eventually, rows

    assert trainer.run(output_dir=tmp_path / "whole").code == 0
    run = small / "run"
    trainer.run(output_dir=run, at=At("save", 2))
    leave(small, SOME)
    trainee = trainer.start(
        output_dir=run,
        resume_from="auto",
        async_save=beside,
        on_save_error="continue",
        at=At("log", 6, (signal.SIGSTOP,)),
    )
    pid = trainee.process.pid
    assert pid is not None
    eventually(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
    try:
        assert [c.name for c in scan_run(run).checkpoints] == ["step_2"]
        assert verify_checkpoint(scan_run(run).checkpoints[0], full=True).status == "verified"
        shutil.rmtree(small / "filler")
    finally:
        os.kill(pid, signal.SIGCONT)
    outcome = trainee.wait()
    assert outcome.code == 0
    assert "step_4 needs " in outcome.message()
    assert "Training goes on" in outcome.message()
    names = [c.name for c in scan_run(run).checkpoints if c.complete]
    assert names == ["step_2", "step_6", "step_8"]
    assert staged(run) == []
    assert rows(run) == rows(tmp_path / "whole")
