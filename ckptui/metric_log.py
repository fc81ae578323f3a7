"""A run's `metrics.jsonl`, followed: each look reads only what was appended since the last one.

What was read stays in columns by attempt and metric; which of it is current is asked later, since
an attempt that begins tomorrow may supersede what was read today. A whole reading with
`ckptui.metrics` finds the same.
"""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ckptui import schema
from ckptui.checkpoint import Problem
from ckptui.columns import Column, Curve, merged
from ckptui.durable import open_file
from ckptui.errors import FormatError, StorageError
from ckptui.metrics import (
    BOM,
    MAX_PROBLEMS,
    LastSteps,
    bad_line,
    more_bad_lines,
    numbers,
    parse_line,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ckptui.checkpoint import Attempt, Checkpoint

_CHUNK = 2**16
"""Bytes that are parsed before other threads are let in: about 3 ms of work."""
_REMEMBERED = 512
"""Bytes at the head, and before the place read up to, by which a rewritten log is noticed."""

Row = tuple[int, int, "Mapping[str, float | None]"]
"""Step, attempt, metrics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """What a log says at one moment."""

    by_attempt: Mapping[int, Mapping[str, Curve]] = field(default_factory=dict)
    """Everything, by attempt and metric, whether or not it is current."""
    current: Mapping[str, Curve] = field(default_factory=dict)
    """The run's present history, by metric."""
    problems: tuple[Problem, ...] = ()
    """The first bad lines, and how many there are besides."""


def in_doubt(checkpoint: Checkpoint, by_attempt: Mapping[int, Mapping[str, Curve]]) -> bool:
    """Whether there are values at a checkpoint's step, but nothing tells which attempt saved it."""
    step = checkpoint.step
    if checkpoint.attempt is not None or step is None or checkpoint.metrics:
        return False
    return any(curve.at(step)[0] for curves in by_attempt.values() for curve in curves.values())


class MetricLog:
    """The metric history of a run, as far as it was read. Hold `lock` while using it."""

    def __init__(self, run: Path) -> None:
        self.path = run / schema.METRICS_FILE
        self.lock = threading.Lock()
        self.version = 0
        """Changes whenever what was read does."""
        self._forget()

    def _forget(self) -> None:
        self._stamp: object = None
        self._file: tuple[int, int] | None = None
        self._offset = 0
        """Bytes read, the beginning of a line that has no end yet among them."""
        self._head = self._tail = b""
        self._line = 0
        """Lines that have an end."""
        self._begun = b""
        """A line that has no end yet."""
        self._too_long = False
        """Whether that line is longer than a line may be, and was let go."""
        self._columns: defaultdict[int, defaultdict[str, Column]]
        self._columns = defaultdict(lambda: defaultdict(Column))
        self._bad = 0
        self._problems: list[Problem] = []
        self._failure: Problem | None = None
        self._joined: dict[str, tuple[Sequence[Curve], Column]] = {}

    # Reading

    def update(self) -> bool:
        """Read what was appended, or everything where the log is another one; whether it changed.

        Raises:
            StorageError: The log is there and cannot be read.
        """
        try:
            changed = self._update()
        except FileNotFoundError:
            changed = self._stamp is not None
            self._forget()
        except FormatError as e:
            failure = Problem(path=self.path, what=str(e))
            changed = self._failure != failure
            self._forget()
            self._stamp, self._failure = failure, failure
        except OSError as e:
            msg = f"{self.path} cannot be read: {e.strerror}."
            raise StorageError(msg, path=self.path) from e
        self.version += changed
        return changed

    def _update(self) -> bool:
        info = os.stat(self.path)  # noqa: PTH116 - a third of the cost of Path.stat on every tick
        stamp = (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns)
        if stamp == self._stamp:
            return False
        descriptor = open_file(self.path)
        try:
            here = os.fstat(descriptor)
            file = (here.st_dev, here.st_ino)
            if file != self._file or here.st_size < self._offset or self._rewritten(descriptor):
                self._forget()
                self._file = file
            while data := os.pread(descriptor, _CHUNK, self._offset):
                self._take(data)
                time.sleep(0)  # the interface thread may have been waiting for its turn
        finally:
            os.close(descriptor)
        self._stamp = stamp
        return True

    def _rewritten(self, descriptor: int) -> bool:
        """Whether what was read is no longer what stands there."""
        if self._head != os.pread(descriptor, len(self._head), 0):
            return True
        before = self._offset - len(self._tail)
        return self._tail != os.pread(descriptor, len(self._tail), before)

    def _take(self, data: bytes) -> None:
        self._offset += len(data)
        if len(self._head) < _REMEMBERED:
            self._head = (self._head + data)[:_REMEMBERED]
        self._tail = (self._tail + data[-_REMEMBERED:])[-_REMEMBERED:]
        *ended, rest = data.split(b"\n")
        for part in ended:
            too_long = self._too_long or len(self._begun) + len(part) > schema.MAX_LINE_SIZE
            line = self._without_mark(self._begun + part)
            self._begun, self._too_long, self._line = b"", False, self._line + 1
            row = None if too_long else _parse(line)
            if row is not None:
                columns = self._columns[row[1]]
                for name, value in row[2].items():
                    columns[name].append(row[0], value)
            elif too_long or line.strip():
                self._bad += 1
                if self._bad <= MAX_PROBLEMS:
                    self._problems.append(bad_line(self.path, self._line, damaged=not too_long))
        self._begun += rest
        if len(self._begun) > schema.MAX_LINE_SIZE:
            self._begun, self._too_long = b"", True

    def _without_mark(self, line: bytes) -> bytes:
        """The line that is read now, without the byte order mark that some editors begin with."""
        return line if self._line else line.removeprefix(BOM)

    # What was read

    def logged(self, attempts: Sequence[Attempt]) -> Logged:
        """What the log says, with `attempts` from `run.json` to tell what is current."""
        by_attempt = self._by_attempt()
        last_steps = LastSteps(attempts)
        parts: defaultdict[str, list[Curve]] = defaultdict(list)
        for attempt, curves in by_attempt.items():
            for name, curve in curves.items():
                part = curve.until(last_steps[attempt])
                if part:
                    parts[name].append(part)
        current = {name: self._join(name, of_name) for name, of_name in parts.items()}
        for name in self._joined.keys() - parts.keys():
            del self._joined[name]
        return Logged(by_attempt=by_attempt, current=current, problems=tuple(self._all_problems()))

    def _by_attempt(self) -> dict[int, dict[str, Curve]]:
        found = {}
        for number in sorted(self._columns):
            found[number] = {name: c.curve() for name, c in self._columns[number].items()}
        unended = self._unended()
        if unended is not None:
            step, number, metrics = unended
            curves = found.setdefault(number, {})
            for name, value in metrics.items():
                curves[name] = curves.get(name, Curve.of(())).changed({step: value})
        return dict(sorted(found.items()))

    def _join(self, name: str, parts: list[Curve]) -> Curve:
        """One curve of the parts that attempts have logged; a later attempt wins at its steps."""
        if len(parts) == 1:
            self._joined.pop(name, None)
            return parts[0]
        before, column = self._joined.get(name, ((), Column()))
        if len(before) == len(parts) and all(map(_same, before[:-1], parts[:-1])):
            old, new = before[-1], parts[-1]
            in_place = old.steps is new.steps and old.values is new.values
            if in_place and new[0][0] > parts[-2][-1][0] and len(old) <= len(new):
                column.extend(new, len(old), len(new))
                self._joined[name] = (parts, column)
                return column.curve()
        column = Column()
        for part in parts:
            known = column.curve()
            if not known or part[0][0] > known[-1][0]:
                column.extend(part, 0, len(part))
            else:
                column = merged(known, dict(part))
        self._joined[name] = (parts, column)
        return column.curve()

    def _unended(self) -> Row | None:
        """The row of a last line that has no end; more may come that makes it another one."""
        return _parse(self._without_mark(self._begun)) if self._begun else None

    def _all_problems(self) -> list[Problem]:
        if self._failure is not None:
            return [self._failure]
        found, bad = list(self._problems), self._bad
        torn = self._without_mark(self._begun).strip() and self._unended() is None
        if self._too_long or torn:
            bad += 1
            if bad <= MAX_PROBLEMS:
                found.append(bad_line(self.path, self._line + 1, damaged=not self._too_long))
        return found + more_bad_lines(self.path, bad)


def _parse(line: bytes) -> Row | None:
    found = parse_line(line)
    if found is None:
        return None
    step, attempt, raw = found
    raw.pop("epoch", None)
    raw.pop("time", None)
    return step, attempt, numbers(raw)


def _same(one: Curve, other: Curve) -> bool:
    return one.steps is other.steps and len(one) == len(other)
