"""TensorBoard: event files that its own reader shows without a gap or a double.

Each attempt writes a file of its own, since the end of the last one may be torn. It begins with a
`SessionLog.START`, at which TensorBoard purges everything from that step on, and goes on after the
checkpoint. The reader takes files in the order of their names, so a new one always sorts last.

A record is its length, a checksum of that, an `Event`, and a checksum of that:
https://github.com/tensorflow/tensorboard/blob/2.21.0/tensorboard/summary/writer/record_writer.py
"""

from __future__ import annotations

import functools
import math
import os
import re
import socket
import struct
import time
from typing import TYPE_CHECKING, Any, Final

from ckptui import durable
from ckptui.errors import StorageError
from ckptui.loggers.worker import (
    OutOfOrderError,
    Rows,
    Told,
    Worker,
    backend_module,
    not_started,
    with_epoch,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from ckptui.loggers import Begin
    from ckptui.loggers.worker import Row

FOLDER: Final = "tensorboard"
"""Where in a run the event files lie."""

_OURS = re.compile(r"events\.out\.tfevents\.([0-9]{10})\..*\.ckptui", re.ASCII | re.DOTALL)
_STAMPED = re.compile(r"events\.out\.tfevents\.([0-9]{10})\..*", re.ASCII | re.DOTALL)
_HEADER = struct.Struct("<QI")
_CHECKED_END = 2**16
"""Bytes at the end of a file in which each record's checksum is compared: only there can a crash
have left damage, and the checksum is slow in pure Python."""


class TensorBoardLogger:
    """Writes scalars as TensorBoard event files.

    Args:
        folder: Below it each run gets a folder of its own; None for one in the run.
    """

    kind = "tensorboard"

    def __init__(self, folder: Path | None = None) -> None:
        self._base = folder
        self._folder: Path | None = None
        self._stream: _Stream | None = None

    def start(self, begin: Begin) -> None:
        """Purge what the checkpoint does not know, and add what TensorBoard lost.

        Raises:
            UsageError: TensorBoard is not installed.
            StorageError: The disk refused.
        """
        events = _Events()
        self._folder = folder = self._place(begin)
        try:
            durable.make_dir(folder)
            self._stream, added = _begin(events, folder, begin)
        except OSError as e:
            msg = f"{e.filename or folder} cannot be written: {e.strerror}."
            raise StorageError(msg, path=folder) from e
        if begin.action != "fresh":
            begin.report(_line(begin, folder, added))

    def _place(self, begin: Begin) -> Path:
        if self._base is None:
            return begin.run / FOLDER
        base, end = self._base.absolute(), f"-{begin.run_id[:8]}"
        try:
            # The run's folder may have been renamed since.
            there = sorted(p for p in base.iterdir() if p.name.endswith(end))
        except OSError:
            there = []
        return there[0] if there else base / f"{begin.run.name}{end}"

    def log(self, step: int, values: Mapping[str, float], epoch: float | None) -> None:
        """Take values of a step."""
        stream = self._started()
        row, when = with_epoch(values, epoch), time.time()
        stream.worker.put(lambda: stream.add(step, row, when))
        stream.tell()

    def flush(self) -> None:
        """Make all rows durable."""
        stream = self._started()
        stream.worker.put(stream.sync)
        stream.worker.wait()
        stream.tell()

    def identity(self) -> dict[str, Any]:
        """Where the event files lie: below the run, or the whole path."""
        return {"dir": FOLDER if self._base is None else str(self._folder)}

    def close(self) -> None:
        """Write what is left; a second time does nothing."""
        stream, self._stream = self._stream, None
        if stream is None:
            return
        stream.worker.put(stream.sync)
        stream.worker.stop()
        stream.tell()
        stream.file.close()

    def _started(self) -> _Stream:
        if self._stream is None:
            raise not_started()
        return self._stream


class _Stream:
    """What one attempt writes; all but `tell` and `worker` belongs to the worker's thread."""

    def __init__(
        self, file: _EventFile, told: Told, *, last: int, written: frozenset[str], folder: Path
    ) -> None:
        self.file = file
        self.worker = Worker("ckptui-tensorboard", expected=(OSError,))
        self._told = told
        self._folder = folder
        self._rows = Rows(last)
        self._written = set(written)
        """Names of the open row's values that are in the file."""

    def add(self, step: int, values: dict[str, float], when: float) -> None:
        """Take values of a step; a row is written once the next one begins."""
        before = self._rows.open
        try:
            self._rows.add(step, values, when=when)
        except OutOfOrderError as e:
            line = (
                f"TensorBoard takes steps in their order: what was logged for step {e.step} after "
                f"step {e.after} is only in metrics.jsonl."
            )
            self._told.later("order", line)
            return
        if self._rows.open is not before:
            self._emit(before)
            self._written.clear()

    def sync(self) -> None:
        """Make everything durable, the open row as well."""
        self._emit(self._rows.open)
        self.file.sync()

    def _emit(self, row: Row) -> None:
        """Write what is new in a row; nothing is written twice."""
        new = {k: v for k, v in row.values.items() if k not in self._written}
        if new:
            self.file.write(row.step, new, when=row.when)
            self._written |= new.keys()

    def tell(self) -> None:
        """Tell the user what came up."""
        error = self.worker.error
        if isinstance(error, OSError):
            line = (
                f"TensorBoard gets no more metrics, since {self._folder} cannot be written: "
                f"{error.strerror}. Training goes on; the next attempt adds what is missing."
            )
            self._told.later("failed", line)
        self._told.now()


def _begin(events: _Events, folder: Path, begin: Begin) -> tuple[_Stream, int]:
    """Begin this attempt's event file; also how many rows came from `metrics.jsonl`."""
    # What a run logged that starts anew was not of this attempt, not even at step 0.
    fresh = begin.action == "fresh"
    rows = [] if fresh else _as_shown(begin)
    shown = _shown(events, folder)
    differs = (step for step, values in rows if not _same(values, shown.get(step, {})))
    first = 0 if fresh else next(differs, begin.start_step + 1)
    missing = [(step, values) for step, values in rows if step >= first]
    file = _EventFile(events, _new_file(folder, attempt=begin.attempt))
    try:
        file.start(purge=first)
        for step, values in missing:
            file.write(step, values, when=time.time())
        file.sync()
        durable.sync_dir(folder)
    except BaseException:
        file.close()
        raise
    kept = {step: frozenset(row) for step, row in shown.items() if step < first}
    kept |= {step: frozenset(row) for step, row in missing}
    last = max(kept, default=-1)
    stream = _Stream(
        file, Told(begin.report), last=last, written=kept.get(last, frozenset()), folder=folder
    )
    return stream, len(missing)


class _Events:
    """The parts of TensorBoard that are needed, without TensorFlow even where that is installed.

    Raises:
        UsageError: TensorBoard is not installed.
    """

    def __init__(self) -> None:
        get = functools.partial(backend_module, "tensorboard")
        self.event = get("tensorboard.compat.proto.event_pb2")
        self.summary = get("tensorboard.compat.proto.summary_pb2")
        self.DecodeError = get("google.protobuf.message").DecodeError
        crc = get("tensorboard.compat.tensorflow_stub.pywrap_tensorflow")
        self.checksum = crc.masked_crc32c


class _EventFile:
    """One event file that grows."""

    def __init__(self, events: _Events, path: Path) -> None:
        self._events = events
        self._path = path
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)

    def start(self, *, purge: int) -> None:
        """Write what a file begins with; a reader drops what it has from step `purge` on."""
        event = self._events.event
        now = time.time()
        self._append(
            event.Event(
                wall_time=now,
                file_version="brain.Event:2",
                source_metadata=event.SourceMetadata(writer="ckptui"),
            )
        )
        session = event.SessionLog(status=event.SessionLog.START)
        self._append(event.Event(wall_time=now, step=purge, session_log=session))

    def write(self, step: int, values: Mapping[str, float], *, when: float) -> None:
        """Add values of a step."""
        summary = self._events.summary
        scalars = [
            summary.Summary.Value(tag=name, simple_value=_single(value))
            for name, value in values.items()
        ]
        self._append(
            self._events.event.Event(
                wall_time=when, step=step, summary=summary.Summary(value=scalars)
            )
        )

    def _append(self, event: Any) -> None:
        data = event.SerializeToString()
        length = struct.pack("<Q", len(data))
        checksum = self._events.checksum
        record = b"".join(
            (
                length,
                struct.pack("<I", checksum(length)),
                data,
                struct.pack("<I", checksum(data)),
            )
        )
        # Unbuffered: what is handed to the system survives the process.
        while record:
            record = record[os.write(self._descriptor, record) :]

    def sync(self) -> None:
        """Make all of it durable."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Close it; a second time does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _new_file(folder: Path, *, attempt: int) -> Path:
    """A name that sorts after all there are, also where the clock was set back."""
    names = (_STAMPED.fullmatch(p.name) for p in folder.iterdir())
    newest = max((int(found[1]) for found in names if found), default=-1)
    stamp = max(int(time.time()), newest + 1)
    host = re.sub(r"[^A-Za-z0-9-]", "_", socket.gethostname()) or "localhost"
    return folder / f"events.out.tfevents.{stamp:010d}.{host}.{os.getpid()}.{attempt}.ckptui"


def _as_shown(begin: Begin) -> list[tuple[int, dict[str, float]]]:
    """The rows of `metrics.jsonl` that the checkpoint knows, as an event file holds them."""
    found: dict[int, dict[str, float]] = {}
    for step, epoch, values in begin.rows():
        if step <= begin.start_step:
            row = with_epoch(values, epoch)
            found.setdefault(step, {}).update({k: _single(v) for k, v in row.items()})
    return sorted(found.items())


def _shown(events: _Events, folder: Path) -> dict[int, dict[str, float]]:
    """What TensorBoard shows of the files that we wrote, by step."""
    shown: dict[int, dict[str, float]] = {}
    for path in sorted(p for p in folder.iterdir() if _OURS.fullmatch(p.name)):
        for event in _read(events, path):
            if event.session_log.status == events.event.SessionLog.START:
                for step in [s for s in shown if s >= event.step]:
                    del shown[step]
            if event.HasField("summary"):
                row = shown.setdefault(event.step, {})
                row.update({v.tag: v.simple_value for v in event.summary.value})
    return shown


def _read(events: _Events, path: Path) -> Iterator[Any]:
    """The events of a file up to its end, or to where it is torn, which is where readers stop."""
    size = path.stat().st_size
    with path.open("rb") as f:
        position = 0
        while len(header := f.read(_HEADER.size)) == _HEADER.size:
            length, checksum = _HEADER.unpack(header)
            position += _HEADER.size + length + 4
            if checksum != events.checksum(header[:8]) or position > size:
                return
            data, end = f.read(length), f.read(4)
            if position > size - _CHECKED_END and end != struct.pack("<I", events.checksum(data)):
                return
            try:
                yield events.event.Event.FromString(data)
            except events.DecodeError:
                return


def _single(value: float | None) -> float:
    """The value in single precision, as event files hold it; what is too large is infinite."""
    if value is None:
        return math.nan
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _same(wanted: Mapping[str, float], there: Mapping[str, float]) -> bool:
    """Whether all that is wanted is there; a log knows of what is not finite only that."""
    return all(
        name in there
        and (there[name] == value or not (math.isfinite(value) or math.isfinite(there[name])))
        for name, value in wanted.items()
    )


def _line(begin: Begin, folder: Path, added: int) -> str:
    rows = f"{added} row{'s' * (added != 1)}"
    if begin.action == "fork":
        return f"TensorBoard: this fork has {folder} of its own, with {rows} of the history before."
    what = "was rewound to" if begin.action == "rewind" else "goes on after"
    end = f"; {rows} that it lacked came from metrics.jsonl" if added else ""
    return f"TensorBoard {what} step {begin.start_step} in {folder}{end}."
