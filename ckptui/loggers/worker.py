"""What the loggers share: a thread that does the backend's work, and rows put together by step."""

from __future__ import annotations

import importlib
import math
import threading
import time
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import TYPE_CHECKING

from ckptui.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

_LOOK = 0.2
"""Seconds between two looks at whether the thread that is waited for still lives."""


class Worker:
    """A thread that does jobs in order; the first that fails ends all work, but no training.

    Args:
        name: The thread's name.
        expected: What a failing backend raises; anything else is a mistake and is shown as one.
    """

    def __init__(self, name: str, *, expected: tuple[type[Exception], ...]) -> None:
        self.error: Exception | None = None
        """Why no more jobs are done."""
        self._expected = expected
        self._jobs: SimpleQueue[tuple[Callable[[], None] | None, threading.Event | None]] = (
            SimpleQueue()
        )
        # A daemon: a backend that hangs must not keep the process from ending.
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def put(self, job: Callable[[], None]) -> None:
        """Let a job be done after those before it."""
        if self.error is None and self._thread.is_alive():
            self._jobs.put((job, None))

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all jobs so far are done; False where time ran out or one failed."""
        done = threading.Event()
        self._jobs.put((None, done))
        return self._awaited(done, timeout) and self.error is None

    def stop(self, timeout: float | None = None) -> bool:
        """Do the jobs so far and end the thread; False where time ran out or one failed."""
        finished = self.wait(timeout)
        self._jobs.put((None, None))
        return finished

    def _awaited(self, done: threading.Event, timeout: float | None) -> bool:
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _LOOK if end is None else min(_LOOK, end - time.monotonic())
            if done.wait(max(0.0, left)):
                return True
            if not self._thread.is_alive() or (end is not None and time.monotonic() >= end):
                return done.is_set()

    def _work(self) -> None:
        while True:
            job, done = self._jobs.get()
            if done is not None:
                done.set()
            elif job is None:
                return
            elif self.error is None:
                try:
                    job()
                except self._expected as e:
                    self.error = e


@dataclass(slots=True, kw_only=True)
class Row:
    """All values of one step."""

    step: int
    when: float
    """Seconds since 1970 at which the first of them was logged."""
    values: dict[str, float] = field(default_factory=dict)


class Rows:
    """Puts rows together: values of one step come in several calls, and steps only go up.

    Args:
        step: The last step of which there are values already; -1 for none.
    """

    def __init__(self, step: int = -1) -> None:
        self.open = Row(step=step, when=0.0)
        """The last step's row, to which values may still come."""

    def add(self, step: int, values: Mapping[str, float], *, when: float) -> Row | None:
        """Take values, of which the later win; the row that is complete by that.

        Raises:
            OutOfOrderError: The step lies before one that was logged.
        """
        if step < self.open.step:
            raise OutOfOrderError(step, self.open.step)
        if step == self.open.step:
            if not self.open.values:
                self.open.when = when
            self.open.values.update(values)
            return None
        complete, self.open = self.open, Row(step=step, when=when, values=dict(values))
        return complete if complete.values else None


class OutOfOrderError(ValueError):
    """Values of a step came after those of a later one."""

    def __init__(self, step: int, after: int) -> None:
        super().__init__(step, after)
        self.step = step
        self.after = after


class Told:
    """Lines for the user, each kind of them once; told by the threads that call a logger."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._lock = threading.Lock()
        self._said: set[str] = set()
        self._waiting: list[str] = []

    def later(self, kind: str, line: str) -> None:
        """Keep a line until `now`, unless one of its kind was kept or told before."""
        with self._lock:
            if kind not in self._said:
                self._said.add(kind)
                self._waiting.append(line)

    def now(self) -> None:
        """Tell what was kept."""
        if not self._waiting:
            return
        with self._lock:
            lines, self._waiting = self._waiting, []
        for line in lines:
            self._report(line)


def with_epoch(values: Mapping[str, float], epoch: float | None) -> dict[str, float]:
    """Values as the backends get them: the epoch is one of them, and no integer is too long."""
    row = {name: _short(value) for name, value in values.items()}
    if epoch is not None:
        row["epoch"] = epoch
    return row


def _short(value: float) -> float:
    if type(value) is not int or value.bit_length() < 64:
        return value
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def not_started() -> UsageError:
    """The error of logging to what does not take it."""
    return UsageError("A metric logger logs between start() and close().")


def backend_module(kind: str, name: str) -> ModuleType:
    """A module of a logger's backend, which comes with an extra of its own.

    Raises:
        UsageError: It, or what it needs, is not installed, or not so that it can be imported.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as e:
        how = f"pip install 'ckptui[{kind}]'"
        msg = f"The logger {kind} needs {e.name}, which is not installed: {how}."
        raise UsageError(msg) from e
    except ImportError as e:  # its parts do not fit each other
        msg = f"The logger {kind} cannot be used, since {name} cannot be imported: {e}."
        raise UsageError(msg) from e
