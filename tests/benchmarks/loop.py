"""One process of the benchmark: a training that saves by one method, or one that goes on from it.

Started by `saving.py`, with its task as JSON in the only argument; what it found goes as JSON into
the file that the task names.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import statistics
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch.optim.optimizer import register_optimizer_step_post_hook

from tests.benchmarks.peers import FLOOR, METHODS, Nothing
from tests.benchmarks.workload import SIZES, Reference, Training

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    from tests.benchmarks.peers import Method

_PATIENCE = 120.0
"""Seconds after which a save in the background counts as stuck."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What one process does."""

    method: str
    size: str
    folder: str
    output: str
    rounds: int
    """Saves that count; one more comes before them. 0: resume instead."""
    steps_only: bool = False
    """Steps without forward and backward."""
    step: int = 0
    """Where to go on."""
    started: float = 0.0
    """When the process was started, by the monotonic clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One save and the references beside it; all times in seconds."""

    copy: float
    write: float
    quiet: float
    """A step while nothing is saved."""
    called: float
    """Inside the call."""
    waited: float
    """What optimizer steps waited for until the save was durable."""
    durable: float
    """From the call until all is on the disk."""
    after_copy: float | None
    """From the end of the copy until all is on the disk, where the method tells."""
    slowdown: float | None
    """Of the steps while the save was in flight; None where none was."""
    steps_in_flight: int


class Waits:
    """Measures what an optimizer's step waits for in the hooks that others have installed."""

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self._begun = 0.0
        self.seconds = 0.0
        hooks = optimizer._optimizer_step_pre_hooks
        before = optimizer.register_step_pre_hook(self._before)
        hooks.move_to_end(before.id, last=False)
        self._after_handle = optimizer.register_step_pre_hook(self._after)

    def stay_last(self) -> None:
        """Hooks may have come since; ours belongs behind them."""
        self._optimizer._optimizer_step_pre_hooks.move_to_end(self._after_handle.id)

    def _before(self, *_: object) -> None:
        self._begun = time.monotonic()

    def _after(self, *_: object) -> None:
        self.seconds += time.monotonic() - self._begun


def memory(field: str) -> int:
    """A field of `/proc/self/status` in bytes; 0 on a system without it."""
    with contextlib.suppress(FileNotFoundError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) * 1024
    return 0


def forget_peak() -> None:
    """Let `VmHWM`, the most memory this process ever held, begin anew."""
    with contextlib.suppress(FileNotFoundError, PermissionError):
        Path("/proc/self/clear_refs").write_text("5")


def sync(paths: Sequence[Path]) -> None:
    """Make files, and all files in folders, durable."""
    for top in paths:
        for path in (top, *top.rglob("*"), top.parent):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def size_of(paths: Sequence[Path]) -> int:
    """Bytes of files, and of all files in folders."""
    files = [f for top in paths for f in (top, *top.rglob("*")) if f.is_file()]
    return sum(f.stat().st_size for f in files)


class Saving:
    """The measurement of one method in one training."""

    def __init__(self, task: Task) -> None:
        self.task = task
        folder = Path(task.folder)
        self.training = Training(SIZES[task.size])
        self.training.warm_up()
        own = folder / "own"
        own.mkdir()
        self.method = METHODS[task.method](self.training, own)
        self.reference = Reference(self.training, folder)
        self.method.prepare()
        if task.steps_only:
            self.training.keep_gradients()
        self.waits = Waits(self.training.optimizer)
        self.extra = 0
        self.digest = ""
        forget_peak()
        self.steps(3)
        self._quiet_peak = memory("VmHWM")
        self._held = memory("VmRSS")

    def steps(self, count: int) -> list[float]:
        """The times of that many steps."""
        times = []
        for _ in range(count):
            begun = time.monotonic()
            self.training.step()
            times.append(time.monotonic() - begun)
        return times

    def measure(self) -> dict[str, Any]:
        rounds = []
        last = self.task.rounds
        for number in range(last + 1):
            rounds.append(self.round(number, final=number == last))
            # Both at once: on some disks a write is far quicker where something was removed.
            self.reference.discard()
            if number < last:
                self.method.discard(number + 1)
            sync([self.method.folder])
        written = size_of(self.method.written(last + 1))
        self.method.close()
        self.method.verify()
        return {
            "rounds": [dataclasses.asdict(r) for r in rounds[1:]],
            "first": dataclasses.asdict(rounds[0]),
            "state": self.reference.size,
            "written": written,
            "extra": self.extra,
            "digest": self.digest,
            "step": last + 1,
            "forward_backward": self.forward_backward(),
        }

    def forward_backward(self) -> float:
        if self.task.steps_only:
            return 0.0
        times = []
        for _ in range(3):
            begun = time.monotonic()
            self.training.forward_backward()
            times.append(time.monotonic() - begun)
            self.training.optimizer.zero_grad()
        return statistics.median(times)

    def round(self, number: int, *, final: bool) -> Round:
        many = 2 if self.method.asynchronous else 1
        quiet = self.steps(many)
        self.method.prepare()
        if final:
            self.digest = self.training.digest()
        reference = (self.reference.copy(), self.reference.write()) if number % 2 else None
        self.waits.seconds = 0.0
        forget_peak()
        begun = time.monotonic()
        future = self.method.save(number + 1)
        called = time.monotonic() - begun
        slowdown: float | None = None
        flown: list[tuple[float, float]] = []
        if future is None:
            self.extra = max(self.extra, memory("VmHWM") - self._held)
            if not self.method.durable:
                sync(self.method.written(number + 1))
            done = time.monotonic()
        else:
            flown, done = self.fly(future)
            # Training's own peak is no part of it, nor is what it held before.
            self.extra = max(self.extra, memory("VmHWM") - self._quiet_peak)
        waited = self.waits.seconds
        quiet += self.steps(many)
        usual = statistics.mean(quiet)
        if flown:
            slowdown = slowed(flown, done, waited, usual)
        if reference is None:
            reference = (self.reference.copy(), self.reference.write())
        return Round(
            copy=reference[0],
            write=reference[1],
            quiet=usual,
            called=called,
            waited=waited,
            durable=done - begun,
            after_copy=self.method.after_copy(),
            slowdown=slowdown,
            steps_in_flight=len(flown),
        )

    def fly(self, future: Future[Any]) -> tuple[list[tuple[float, float]], float]:
        """Train until a save in the background ends: begin and end of each step, and its end."""
        ends: list[float] = []
        future.add_done_callback(lambda _: ends.append(time.monotonic()))
        self.waits.stay_last()
        flown = []
        begun = time.monotonic()
        while not ends:
            at = time.monotonic()
            if at - begun > _PATIENCE:
                msg = f"{self.method.label} was still saving after {_PATIENCE:.0f} s."
                raise TimeoutError(msg)
            self.training.step()
            flown.append((at, time.monotonic()))
        future.result()
        return flown, ends[0]


def slowed(flown: Sequence[tuple[float, float]], done: float, waited: float, usual: float) -> float:
    """How much slower training went while the save was in flight; waiting is counted elsewhere.

    The last step may end after the save; only the time until then was slower.
    """
    lost = sum(end - begin for begin, end in flown) - waited - len(flown) * usual
    in_flight = min(done, flown[-1][1]) - flown[0][0] - waited
    return in_flight / (in_flight - lost) if in_flight > max(lost, 0.0) else float("inf")


class Resuming:
    """The first step of a process that goes on from what a method saved."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.training = Training(SIZES[task.size])
        kind: type[Method] = Nothing if task.method == FLOOR else METHODS[task.method]
        self.method = kind(self.training, Path(task.folder) / "own")
        self.paused = 0.0
        self.digest = ""
        self.ended = 0.0

    def measure(self) -> dict[str, Any]:
        self.method.resume(self.task.step, self.loaded)
        return {"seconds": self.ended - self.task.started - self.paused, "digest": self.digest}

    def loaded(self) -> None:
        """The state is there; what the look at it takes does not count."""
        begun = time.monotonic()
        if self.digest:
            return
        self.digest = self.training.digest()
        register_optimizer_step_post_hook(self.stepped)
        self.paused = time.monotonic() - begun

    def stepped(self, *_: object) -> None:
        self.ended = self.ended or time.monotonic()


def main() -> None:
    """Do the task, and write what was found."""
    warnings.simplefilter("ignore")  # the peers' own
    logging.disable(logging.WARNING)
    task = Task(**json.loads(sys.argv[1]))
    found: dict[str, Any]
    try:
        found = Saving(task).measure() if task.rounds else Resuming(task).measure()
    except ImportError as e:
        found = {"skipped": f"does not import: {e}"}
    Path(task.output).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
