"""What a `.wandb` file, W&B's own transaction log, says of a run's history.

After seven bytes of header (`:W&B`, a magic number, a version) it is LevelDB's log format: blocks
of 32 KiB; a record is a CRC-32, a length, a type (whole, first, middle, last) and data, here one
protobuf `Record`. The end of the file is torn after a crash; reading stops there.
https://github.com/google/leveldb/blob/main/doc/log_format.md
"""

from __future__ import annotations

import os
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final

from ckptui.durable import open_file
from ckptui.loggers.worker import backend_module

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_BLOCK: Final = 32 * 2**10
_MAGIC: Final = b":W&B"
_FILE_HEADER: Final = 7
_HEADER = struct.Struct("<IHB")
_WHOLE, _FIRST, _LAST = 1, 2, 4
_MAX_RECORD: Final = 2**28
"""Bytes of one record; what claims to be longer is damage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow:
    """A step that a file has."""

    step: int
    names: frozenset[str]
    """Of its values."""
    position: int
    """Where in the file its record begins."""


class HistoryReader:
    """Reads the steps of a `.wandb` file, and later those that were added since."""

    def __init__(self, path: Path) -> None:
        self.ended = False
        """Whether the W&B run was finished, so that its last row was logged as it then stood."""
        self._path = path
        self._position = _FILE_HEADER

    def new(self) -> Iterator[HistoryRow]:
        """The rows from where the last call ended.

        Raises:
            FileNotFoundError: There is no such file.
            StorageError: It is no regular file.
            OSError: It cannot be read.
        """
        record_type = backend_module("wandb", "wandb.proto.wandb_internal_pb2").Record
        damaged = backend_module("wandb", "google.protobuf.message").DecodeError
        with os.fdopen(open_file(self._path), "rb") as f:
            if f.read(len(_MAGIC)) != _MAGIC:
                return
            for data, start, end in _records(f, self._position):
                try:
                    record = record_type.FromString(data)
                except damaged:
                    return
                self._position = end
                kind = record.WhichOneof("record_type")
                self.ended = self.ended or kind == "exit"
                if kind == "history":
                    names = (".".join(i.nested_key) or i.key for i in record.history.item)
                    yield HistoryRow(
                        step=record.history.step.num,
                        names=frozenset(n for n in names if not n.startswith("_")),
                        position=start,
                    )


def _records(f: BinaryIO, position: int) -> Iterator[tuple[bytes, int, int]]:
    """Whole records from a position on, each with where it begins and ends."""
    f.seek(position)
    parts: list[bytes] = []
    start = size = 0
    while True:
        left = _BLOCK - position % _BLOCK
        if left < _HEADER.size:
            position += left
            f.seek(position)
        header = f.read(_HEADER.size)
        if len(header) < _HEADER.size:
            return
        checksum, length, kind = _HEADER.unpack(header)
        data = f.read(length)
        if len(data) < length or checksum != zlib.crc32(data, zlib.crc32(bytes([kind]))):
            return
        if kind in (_WHOLE, _FIRST):
            parts, start, size = [], position, 0
        parts.append(data)
        size += length
        position += _HEADER.size + length
        if size > _MAX_RECORD:
            return
        if kind in (_WHOLE, _LAST):
            yield b"".join(parts), start, position
            parts = []
