"""`metrics.jsonl`: one JSON object a line, append-only, every row with its attempt.

Reading forgives: a damaged line costs only itself. After a rewind the rows of the abandoned branch
stay in the file and are not current any more.
"""

from __future__ import annotations

import errno
import json
import math
import os
from dataclasses import dataclass
from operator import index
from typing import TYPE_CHECKING, Any, SupportsFloat

from ckptui import schema
from ckptui.checkpoint import Problem
from ckptui.columns import MAX_STEP
from ckptui.durable import open_file, open_to_append
from ckptui.errors import FormatError, StorageError, UsageError
from ckptui.layouts.marker import finite

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from ckptui.checkpoint import Attempt

RESERVED = frozenset({"step", "epoch", "time", "attempt"})
"""Keys of a row that are no metrics."""

MAX_PROBLEMS = 20
_NOT_FINITE = ("NaN", "Infinity", "-Infinity")
_CHUNK = 2**20
_SPACE = " \t\r\n"
_decode = json.JSONDecoder().raw_decode
BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRow:
    """What one attempt logged at one optimizer step."""

    step: int
    epoch: int | float | None
    time: datetime | None
    attempt: int
    metrics: Mapping[str, float | None]
    """None was logged and is not finite."""
    current: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """All rows of a run, by step and attempt."""

    rows: tuple[MetricRow, ...] = ()
    problems: tuple[Problem, ...] = ()

    def current(self) -> tuple[MetricRow, ...]:
        """One row per step of the present history; of two attempts the later value wins."""
        by_step: dict[int, MetricRow] = {}
        for row in self.rows:
            if not row.current:
                continue
            earlier = by_step.get(row.step)
            by_step[row.step] = row if earlier is None else _merge(earlier, row)
        return tuple(by_step.values())


def read_metrics(run: Path, attempts: Sequence[Attempt]) -> History:
    """The metric history of a run; empty where nothing was logged.

    Args:
        run: The run's folder.
        attempts: From its `run.json`; they tell which rows a later attempt has superseded.

    Raises:
        StorageError: The log is there and cannot be read.
    """
    path = run / schema.METRICS_FILE
    problems: list[Problem] = []
    bad = 0
    merged: dict[tuple[int, int], MetricRow] = {}
    last_steps = LastSteps(attempts)
    try:
        for number, line in _lines(path):
            row = _parse(line, last_steps) if line is not None else None
            if row is not None:
                key = (row.step, row.attempt)
                merged[key] = _merge(merged[key], row) if key in merged else row
            elif line is None or line.strip():
                bad += 1
                if bad <= MAX_PROBLEMS:
                    problems.append(bad_line(path, number, damaged=line is not None))
    except FileNotFoundError:
        return History()
    except FormatError as e:
        return History(problems=(Problem(path=path, what=str(e)),))
    except OSError as e:
        msg = f"{path} cannot be read: {e.strerror}."
        raise StorageError(msg, path=path) from e
    problems += more_bad_lines(path, bad)
    rows = tuple(merged[key] for key in sorted(merged))
    return History(rows=rows, problems=tuple(problems))


def bad_line(path: Path, number: int, *, damaged: bool) -> Problem:
    """What is wrong with a line: it is damaged, or longer than a line may be."""
    what = "is damaged" if damaged else "is longer than a line may be"
    return Problem(path=path, what=f"line {number} {what}")


def more_bad_lines(path: Path, bad: int) -> list[Problem]:
    """One problem that stands for all bad lines beyond those that are told one by one."""
    if bad <= MAX_PROBLEMS:
        return []
    return [Problem(path=path, what=f"{bad - MAX_PROBLEMS} more lines are damaged")]


class LastSteps(dict[int, float]):
    """For each attempt the last of its steps that no later one has trained anew.

    What `ckptui.checkpoint.is_current` tells, without asking every attempt about every row.
    """

    def __init__(self, attempts: Sequence[Attempt]) -> None:
        super().__init__()
        self._attempts = attempts

    def __missing__(self, attempt: int) -> float:
        later = (a.start_step for a in self._attempts if a.attempt > attempt)
        self[attempt] = last = min(later, default=math.inf)
        return last


def _lines(path: Path) -> Iterator[tuple[int, bytes | None]]:
    """Numbered lines; None stands for one longer than a line may be, which is never held whole."""
    limit = schema.MAX_LINE_SIZE
    with open(path, "rb", buffering=_CHUNK, opener=lambda name, _: open_file(name)) as f:
        number = 0
        while line := f.readline(limit + 1):
            number += 1
            if len(line) <= limit or line.endswith(b"\n"):
                yield number, line.removeprefix(BOM) if number == 1 else line
                continue
            while rest := f.readline(limit):
                if rest.endswith(b"\n"):
                    break
            yield number, None


def _parse(line: bytes, last_steps: Mapping[int, float]) -> MetricRow | None:
    found = parse_line(line)
    if found is None:
        return None
    step, attempt, raw = found
    epoch, when = raw.pop("epoch", None), raw.pop("time", None)
    return MetricRow(
        step=step,
        epoch=finite(epoch),
        time=schema.parse_time(when),
        attempt=attempt,
        metrics=numbers(raw),
        current=step <= last_steps[attempt],
    )


def parse_line(line: bytes) -> tuple[int, int, dict[str, Any]] | None:
    """Step, attempt and everything else that a line of the log says; None if it is damaged."""
    try:
        text = line.decode("utf-8").strip(_SPACE)
        raw, end = _decode(text)
    except (ValueError, RecursionError):
        return None
    if end != len(text) or not isinstance(raw, dict):
        return None
    step, attempt = raw.pop("step", None), raw.pop("attempt", None)
    if type(step) is float and step.is_integer():
        step = int(step)
    if attempt is None:
        attempt = 1
    if type(step) is not int or type(attempt) is not int:
        return None
    if not (0 <= step <= MAX_STEP and -MAX_STEP <= attempt <= MAX_STEP):
        return None
    return step, attempt, raw


def numbers(raw: Mapping[str, Any]) -> dict[str, float | None]:
    """The metrics among the values of a line; None was logged and is not finite."""
    metrics: dict[str, float | None] = {}
    for name, value in raw.items():
        kind = type(value)
        if kind is float:
            metrics[name] = value if math.isfinite(value) else None
        elif kind is int or value is None or value in _NOT_FINITE:
            metrics[name] = finite(value)
    return metrics


def _merge(earlier: MetricRow, later: MetricRow) -> MetricRow:
    return MetricRow(
        step=later.step,
        epoch=later.epoch if later.epoch is not None else earlier.epoch,
        time=later.time or earlier.time,
        attempt=later.attempt,
        metrics={**earlier.metrics, **later.metrics},
        current=later.current,
    )


class MetricsWriter:
    """Appends rows of one attempt to a run's `metrics.jsonl`."""

    def __init__(self, run: Path, attempt: int) -> None:
        self._path = run / schema.METRICS_FILE
        self._attempt = attempt
        self._torn = False
        try:
            # Through no link: what is logged stays in the run.
            self._descriptor = open_to_append(self._path)
        except OSError as e:
            raise self._failed(e) from e
        try:
            size = os.fstat(self._descriptor).st_size
            if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
                # A crash tore the last line: what comes now must not grow on it.
                self._append(b"\n")
        except OSError as e:
            self.close()
            raise self._failed(e) from e

    def write(
        self, step: int, epoch: SupportsFloat | None, values: Mapping[str, SupportsFloat]
    ) -> None:
        """Append one row; floats are written so that they read back exactly.

        Raises:
            UsageError: The step is none, a name is reserved, or a value is no number.
            StorageError: The disk refused, or the log is gone.
        """
        row: dict[str, Any] = {
            "step": _step(step),
            "epoch": None if epoch is None else json_number("epoch", epoch),
            "time": schema.now_text(),
            "attempt": self._attempt,
        }
        for name, value in values.items():
            if name in RESERVED:
                msg = f"{name!r} cannot be a metric's name: every row has a {name} of its own."
                raise UsageError(msg)
            row[name] = json_number(name, value)
        text = json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"
        data = text.encode("utf-8", "backslashreplace")
        if len(data) > schema.MAX_LINE_SIZE:
            msg = f"{len(values)} metrics make a row longer than the log takes; log fewer at once."
            raise UsageError(msg)
        try:
            self._append(data)
        except OSError as e:
            raise self._failed(e) from e

    def _append(self, data: bytes) -> None:
        self._check_place()
        if self._torn:
            data = b"\n" + data
        written = os.write(self._descriptor, data)
        self._torn = written != len(data)
        if self._torn:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))

    def _check_place(self) -> None:
        """Make sure that what is written ends up in the file that has the name."""
        mine, there = os.fstat(self._descriptor), self._path.stat()
        if (mine.st_dev, mine.st_ino) != (there.st_dev, there.st_ino):
            raise OSError(errno.ESTALE, "it was replaced by another file", str(self._path))

    def sync(self) -> None:
        """Make all rows durable.

        Raises:
            StorageError: The disk refused.
        """
        try:
            self._check_place()
            os.fsync(self._descriptor)
        except OSError as e:
            raise self._failed(e) from e

    def close(self) -> None:
        """Close the log; further rows are an error."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _failed(self, e: OSError) -> StorageError:
        msg = f"{self._path} cannot be written: {e.strerror}."
        return StorageError(msg, path=self._path)


def json_number(name: str, value: SupportsFloat) -> float | str:
    """A metric's value as strict JSON can hold it: what is not finite becomes its name.

    Raises:
        UsageError: It is no number.
    """
    # A loss that still carries its graph is a number too; torch warns unless it is detached.
    detach = getattr(value, "detach", None)
    try:
        if isinstance(value, str | bytes | bytearray):
            raise TypeError(value)  # float() would read them
        number = float(detach() if callable(detach) else value)
    except (TypeError, ValueError, OverflowError, RuntimeError) as e:
        msg = f"The value of {name} is no number: {value!r}."
        raise UsageError(msg) from e
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return value if type(value) is int else number


def _step(step: int) -> int:
    """The step as a plain integer, whatever kind of integer it is."""
    try:
        number = index(step)
    except TypeError:
        number = -1
    if number < 0:
        msg = f"A step is a number of optimizer steps, not {step!r}."
        raise UsageError(msg)
    return number
