"""`metrics.jsonl`: one JSON object a line, append-only, every row with its attempt.

Reading forgives: a damaged line costs only itself. After a rewind the rows of the abandoned branch
stay in the file and are not current any more.
"""

from __future__ import annotations

import errno
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, SupportsFloat

from ckptui import schema
from ckptui.checkpoint import Problem, is_current
from ckptui.errors import StorageError, UsageError
from ckptui.layouts.marker import finite

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from ckptui.checkpoint import Attempt

RESERVED = frozenset({"step", "epoch", "time", "attempt"})
"""Keys of a row that are no metrics."""

_MAX_PROBLEMS = 20
_NOT_FINITE = ("NaN", "Infinity", "-Infinity")
_CHUNK = 2**20


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
    try:
        for number, line in _lines(path):
            row = _parse(line) if line is not None else None
            if row is not None:
                key = (row.step, row.attempt)
                merged[key] = _merge(merged[key], row) if key in merged else row
            elif line is None or line.strip():
                bad += 1
                if bad <= _MAX_PROBLEMS:
                    problems.append(Problem(path=path, what=f"line {number} is damaged"))
    except FileNotFoundError:
        return History()
    except OSError as e:
        msg = f"{path} cannot be read: {e.strerror}."
        raise StorageError(msg, path=path) from e
    if bad > _MAX_PROBLEMS:
        what = f"{bad - _MAX_PROBLEMS} more lines are damaged"
        problems.append(Problem(path=path, what=what))
    rows = [merged[key] for key in sorted(merged)]
    if len(attempts) > 1:
        rows = [_judge(row, attempts) for row in rows]
    return History(rows=tuple(rows), problems=tuple(problems))


def _lines(path: Path) -> Iterator[tuple[int, bytes | None]]:
    """Numbered lines; None stands for one longer than a line may be, which is never held whole."""
    limit = schema.MAX_LINE_SIZE
    # O_NONBLOCK: a FIFO under this name must not hang the reader.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with open(descriptor, "rb", buffering=_CHUNK) as f:  # noqa: PTH123 - opened by descriptor
        number = 0
        while line := f.readline(limit):
            number += 1
            if len(line) < limit or line.endswith(b"\n"):
                yield number, line
                continue
            while rest := f.readline(limit):
                if rest.endswith(b"\n"):
                    break
            yield number, None


def _parse(line: bytes) -> MetricRow | None:
    try:
        raw = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, dict):
        return None
    step, attempt = raw.get("step"), raw.get("attempt", 1)
    if type(step) is not int or step < 0 or type(attempt) is not int:
        return None
    return MetricRow(
        step=step,
        epoch=finite(raw.get("epoch")),
        time=schema.parse_time(raw.get("time")),
        attempt=attempt,
        metrics={k: finite(v) for k, v in raw.items() if k not in RESERVED and _is_value(v)},
    )


def _is_value(value: object) -> bool:
    return type(value) in (int, float) or value is None or value in _NOT_FINITE


def _merge(earlier: MetricRow, later: MetricRow) -> MetricRow:
    return MetricRow(
        step=later.step,
        epoch=later.epoch if later.epoch is not None else earlier.epoch,
        time=later.time or earlier.time,
        attempt=later.attempt,
        metrics={**earlier.metrics, **later.metrics},
        current=later.current,
    )


def _judge(row: MetricRow, attempts: Sequence[Attempt]) -> MetricRow:
    if is_current(row.attempt, row.step, attempts):
        return row
    return MetricRow(
        step=row.step,
        epoch=row.epoch,
        time=row.time,
        attempt=row.attempt,
        metrics=row.metrics,
        current=False,
    )


class MetricsWriter:
    """Appends rows of one attempt to a run's `metrics.jsonl`."""

    def __init__(self, run: Path, attempt: int) -> None:
        self._path = run / schema.METRICS_FILE
        self._attempt = attempt
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
        try:
            self._descriptor = os.open(self._path, flags, 0o666)
            size = os.fstat(self._descriptor).st_size
            if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
                # A crash tore the last line: what comes now must not grow on it.
                self._append(b"\n")
        except OSError as e:
            raise self._failed(e) from e

    def write(self, step: int, epoch: float | None, values: Mapping[str, SupportsFloat]) -> None:
        """Append one row; floats are written so that they read back exactly.

        Raises:
            UsageError: A name is reserved, or a value is no number.
            StorageError: The disk refused.
        """
        row: dict[str, Any] = {
            "step": step,
            "epoch": epoch,
            "time": schema.now_text(),
            "attempt": self._attempt,
        }
        for name, value in values.items():
            if name in RESERVED:
                msg = f"{name!r} cannot be a metric's name: every row has a {name} of its own."
                raise UsageError(msg)
            row[name] = json_number(name, value)
        data = json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"
        try:
            self._append(data.encode("utf-8", "backslashreplace"))
        except OSError as e:
            raise self._failed(e) from e

    def _append(self, data: bytes) -> None:
        written = os.write(self._descriptor, data)
        if written != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))

    def sync(self) -> None:
        """Make all rows durable.

        Raises:
            StorageError: The disk refused.
        """
        try:
            os.fsync(self._descriptor)
        except OSError as e:
            raise self._failed(e) from e

    def close(self) -> None:
        """Close the log; further rows are an error."""
        os.close(self._descriptor)

    def _failed(self, e: OSError) -> StorageError:
        msg = f"{self._path} cannot be written: {e.strerror}."
        return StorageError(msg, path=self._path)


def json_number(name: str, value: SupportsFloat) -> float | str:
    """A metric's value as strict JSON can hold it: what is not finite becomes its name.

    Raises:
        UsageError: It is no number.
    """
    if type(value) is int:
        return value
    # A loss that still carries its graph is a number too; torch warns unless it is detached.
    detach = getattr(value, "detach", None)
    try:
        number = float(detach() if callable(detach) else value)
    except (TypeError, ValueError, OverflowError) as e:
        msg = f"The value of {name} is no number: {value!r}."
        raise UsageError(msg) from e
    if number != number:
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "Infinity" if number > 0 else "-Infinity"
    return number
