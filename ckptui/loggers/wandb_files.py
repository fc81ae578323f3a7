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
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from ckptui.durable import open_file
from ckptui.loggers.worker import backend_module

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_BLOCK: Final = 32 * 2**10
_MAGIC: Final = b":W&B"
_FILE_HEADER: Final = 7
_HEADER = struct.Struct("<IHB")
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_MAX_RECORD: Final = 2**28
"""Bytes of one record; what claims to be longer is damage."""


class HistoryReader:
    """Reads the steps of a `.wandb` file, and later those that were added since."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = _FILE_HEADER

    def new(self) -> Iterator[tuple[int, frozenset[str]]]:
        """Each step with the names of its values, from where the last call ended.

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
            for data, end in _records(f, self._position):
                try:
                    record = record_type.FromString(data)
                except damaged:
                    return
                self._position = end
                if record.WhichOneof("record_type") == "history":
                    yield _row(record.history)


def _row(history: Any) -> tuple[int, frozenset[str]]:
    names = (".".join(item.nested_key) or item.key for item in history.item)
    return history.step.num, frozenset(n for n in names if not n.startswith("_"))


def _records(f: BinaryIO, position: int) -> Iterator[tuple[bytes, int]]:
    """Whole records from a position on, each with the position after it."""
    f.seek(position)
    parts: list[bytes] = []
    size = 0
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
        position += _HEADER.size + length
        size = size + length if kind in (_MIDDLE, _LAST) else length
        if size > _MAX_RECORD:
            return
        if kind in (_WHOLE, _FIRST):
            parts = []
        parts.append(data)
        if kind in (_WHOLE, _LAST):
            yield b"".join(parts), position
            parts = []
