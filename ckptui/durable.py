"""Writing that survives a crash: temporary sibling, flush, fsync, rename, fsync of the folder.

Every function leaves either the old content or the new one, never a mixture.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from typing import TYPE_CHECKING, Any

from ckptui.errors import FormatError, StorageError

if TYPE_CHECKING:
    from pathlib import Path

_NO_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF, errno.EACCES}
"""What file systems answer that cannot sync a directory; there is nothing more to do then."""


def token(size: int = 6) -> str:
    """`size` random bytes in hex: what makes a temporary name nobody else's."""
    return os.urandom(size).hex()


def sync_dir(path: Path) -> None:
    """Make the names in a directory durable, where the file system can."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as e:
        if e.errno not in _NO_SYNC:
            raise
    finally:
        os.close(descriptor)


def sync_file(path: Path) -> None:
    """Make a file's content durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_dir(path: Path) -> None:
    """Create a directory and its parents; one that is there already is fine.

    Some distributed file systems raise "exists" for a directory that they do not show yet
    (NeMo Automodel #3686), so that error is believed only if the directory can be seen.
    """
    for attempt in range(3):
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            if path.is_dir():
                return
            if attempt == 2 or path.is_symlink() or path.exists():
                raise
        else:
            return


def write_file(path: Path, data: bytes) -> None:
    """Write a new file and make its content durable; its name is durable after `sync_dir`."""
    with path.open("xb") as f:
        f.write(data)
        f.flush()
        os.fsync(f.fileno())


def replace_file(path: Path, data: bytes) -> None:
    """Atomically set the content of `path`; readers see the old or the new content."""
    temporary = path.with_name(f".{path.name}.{token()}.tmp")
    try:
        write_file(temporary, data)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    sync_dir(path.parent)


def to_json(value: object) -> bytes:
    """Strict UTF-8 JSON with a final newline, indented for people.

    Raises:
        ValueError: A float is not finite.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=2)
    # A lone surrogate stands for a byte of a file name that is not UTF-8; JSON escapes it.
    return (text + "\n").encode("utf-8", errors="backslashreplace")


def read_bytes(path: Path, *, limit: int) -> bytes:
    """The content of a regular file of at most `limit` bytes.

    Raises:
        FileNotFoundError: There is no such file.
        FormatError: It is larger than `limit` or not a regular file.
        StorageError: It cannot be read.
    """
    try:
        # O_NONBLOCK: a FIFO somebody left under our name must not hang us.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with open(descriptor, "rb") as f:  # noqa: PTH123 - opened by descriptor
            data = f.read(limit + 1)
    except FileNotFoundError:
        raise
    except OSError as e:
        msg = f"{path} cannot be read: {e.strerror}."
        raise StorageError(msg, path=path) from e
    if len(data) > limit:
        msg = f"{path} is larger than the {limit} bytes such a file may have."
        raise FormatError(msg, path=path)
    return data


def read_json_object(path: Path, *, limit: int) -> dict[str, Any]:
    """The JSON object in a file; NaN and infinities, which strict JSON lacks, come back as floats.

    Raises:
        FileNotFoundError: There is no such file.
        FormatError: It is too large, or no JSON object.
        StorageError: It cannot be read.
    """
    try:
        value = json.loads(read_bytes(path, limit=limit))
    except (ValueError, RecursionError) as e:
        msg = f"{path} is not readable JSON."
        raise FormatError(msg, path=path) from e
    if not isinstance(value, dict):
        msg = f"{path} holds no JSON object."
        raise FormatError(msg, path=path)
    return value


def append_line(path: Path, line: str) -> None:
    """Add one line to a file in a single write, after ending a line that a crash cut off.

    Appends of several processes do not mix: each is one `write` on an O_APPEND descriptor.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        size = os.fstat(descriptor).st_size
        torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        os.write(descriptor, ("\n" * torn + line + "\n").encode("utf-8", "backslashreplace"))
    finally:
        os.close(descriptor)
