"""Writing one new file, a large one as fast as the disk takes it.

The system's page cache costs a large file twice: one more copy of all of it, and a disk that idles
until somebody syncs. So a large file goes past the cache where the system can do that (O_DIRECT,
see open(2)); where it cannot, the disk is set to work while more is written.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PIECE = 2**24
"""Bytes that are best handed over in one go. Between two of these the interpreter is asked for,
which training has; so they are few."""

LARGE = 2**26
"""Bytes from which on a file is large, and after which the disk is set to work."""

_BLOCK = 4096
"""What places, lengths and memory must be multiples of past the cache; every common disk's block,
or a multiple of it."""

_NOT_DIRECT = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}
"""What a file system answers that knows only its cache."""

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_DIRECT = getattr(os, "O_DIRECT", 0)
_WRITES_MANY = hasattr(os, "writev")


class Output(Protocol):
    """A file that is being written."""

    def write(self, pieces: Sequence[memoryview]) -> None:
        """Append pieces, at most 512; their memory is needed no longer than this takes.

        Raises:
            OSError: The disk refused.
        """

    def finish(self) -> None:
        """Make the content durable.

        Raises:
            OSError: The disk refused.
        """

    def close(self) -> None:
        """Let go of the file, finished or not."""


def open_output(path: Path, size: int) -> Output:
    """Make a new file of about `size` bytes.

    Raises:
        FileExistsError: The name is taken.
        OSError: The disk refused.
    """
    if _DIRECT and size >= LARGE:
        try:
            return _PastTheCache(os.open(path, _NEW | _DIRECT, 0o666), path)
        except OSError as e:
            if e.errno not in _NOT_DIRECT:
                raise
            path.unlink(missing_ok=True)  # some make the file, and refuse it then
    return _ThroughTheCache(os.open(path, _NEW, 0o666), path)


class _ThroughTheCache:
    """Written as any file; a large one is synced beside."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor = descriptor
        self._path = path
        self._since = 0
        """Bytes that nobody syncs yet."""
        self._pool: ThreadPoolExecutor | None = None
        self._syncing: Future[None] | None = None

    def write(self, pieces: Sequence[memoryview]) -> None:
        size = sum(map(len, pieces))
        done = os.writev(self._descriptor, pieces) if _WRITES_MANY and len(pieces) > 1 else 0
        if done < size:
            for piece in pieces:
                rest = piece[min(done, len(piece)) :]
                done -= len(piece) - len(rest)
                _write_all(self._descriptor, rest, self._path)
        self._since += size
        if self._since >= LARGE and (self._syncing is None or self._syncing.done()):
            self._sync_beside()

    def _sync_beside(self) -> None:
        self._raise_failure()
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="ckptui-sync")
        self._syncing, self._since = self._pool.submit(_sync_data, self._descriptor), 0

    def _raise_failure(self) -> None:
        # The system tells an error once, to whoever syncs first.
        if self._syncing is not None:
            self._syncing.result()

    def finish(self) -> None:
        self._raise_failure()
        os.fsync(self._descriptor)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()  # a number that is closed may be another file's at once
        os.close(self._descriptor)


class _PastTheCache:
    """Gathered in memory that the disk can read by itself, and handed over a piece at a time."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor = descriptor
        self._path = path
        self._buffer = mmap.mmap(-1, PIECE)  # begins at a page
        self._view = memoryview(self._buffer)
        self._place = ctypes.addressof(ctypes.c_char.from_buffer(self._buffer))
        self._filled = 0
        self._direct = True

    def write(self, pieces: Sequence[memoryview]) -> None:
        for piece in pieces:
            done = 0
            while done < len(piece):
                part = min(len(piece) - done, PIECE - self._filled)
                self._copy(piece[done : done + part])
                done += part
                if self._filled == PIECE:
                    self._hand_over(PIECE)

    def _copy(self, part: memoryview) -> None:
        """Add to the buffer; where it can be, without the interpreter, which training may want."""
        if part.readonly:
            self._view[self._filled : self._filled + len(part)] = part
        else:
            source = (ctypes.c_char * len(part)).from_buffer(part)
            ctypes.memmove(self._place + self._filled, source, len(part))
        self._filled += len(part)

    def _hand_over(self, size: int) -> None:
        """Write the first `size` bytes of the buffer, which are whole blocks, and begin anew."""
        rest = self._view[:size]
        while rest:
            try:
                rest = rest[_write_some(self._descriptor, rest, self._path) :]
            except OSError as e:
                # A disk of larger blocks, or one that takes none from memory after all.
                if not self._direct or e.errno not in _NOT_DIRECT:
                    raise
                self._leave_direct()
        self._filled -= size

    def _leave_direct(self) -> None:
        import fcntl  # noqa: PLC0415 - where there is O_DIRECT, there is this

        flags = fcntl.fcntl(self._descriptor, fcntl.F_GETFL)
        fcntl.fcntl(self._descriptor, fcntl.F_SETFL, flags & ~_DIRECT)
        self._direct = False

    def finish(self) -> None:
        filled, whole = self._filled, self._filled - self._filled % _BLOCK
        self._hand_over(whole)
        if whole < filled:
            # The end is no whole block.
            self._leave_direct()
            _write_all(self._descriptor, self._view[whole:filled], self._path)
        os.fsync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


def _write_all(descriptor: int, data: memoryview, path: Path) -> None:
    while data:
        data = data[_write_some(descriptor, data, path) :]


def _write_some(descriptor: int, data: memoryview, path: Path) -> int:
    written = os.write(descriptor, data)
    if not written:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    return written


def _sync_data(descriptor: int) -> None:
    getattr(os, "fdatasync", os.fsync)(descriptor)
