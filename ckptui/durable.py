"""Writing that survives a crash: temporary sibling, flush, fsync, rename, fsync of the folder.

Every function leaves either the old content or the new one, never a mixture.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ckptui import schema
from ckptui.errors import FormatError, RefusedError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

_NO_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF, errno.EACCES}
"""What file systems answer that cannot sync a directory; there is nothing more to do then."""

_CHUNK = 2**20
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""O_NONBLOCK: a FIFO that somebody left under our name must not hang us."""
_APPEND = (
    os.O_RDWR
    | os.O_APPEND
    | os.O_CREAT
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_BINARY", 0)
)


def token(size: int = 6) -> str:
    """`size` random bytes in hex: what makes a temporary name nobody else's."""
    return os.urandom(size).hex()


def sync_dir(path: Path) -> None:
    """Make the names in a directory durable, where the file system can and we may read it."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:
        return
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
    """Create a directory and its parents, durable by name; one that is there already is fine.

    Without the sync of the parent a power loss could take back the directory's name, and with it
    everything that was made durable inside.

    Some distributed file systems raise "exists" for a directory that they do not show yet
    (NeMo Automodel #3686), so that error is believed only if the directory can be seen.
    """
    for attempt in range(3):
        try:
            path.mkdir()
        except FileNotFoundError:
            if path.parent == path:
                raise
            make_dir(path.parent)
        except FileExistsError:
            if path.is_dir():
                return
            if attempt == 2 or path.is_symlink() or path.exists():
                raise
        else:
            sync_dir(path.parent)
            return
    path.mkdir()
    sync_dir(path.parent)


def tool_dir(run: Path, *parts: str) -> Path:
    """A folder of ckptui's own in a run, created if need be.

    Raises:
        RefusedError: A link stands where it or a folder above it should: writing through it would
            leave the run.
        OSError: It cannot be created; a run that is gone is not made anew.
    """
    path = refuse_links(run, *parts)
    run.stat()
    make_dir(path)
    return path


def refuse_links(run: Path, *parts: str) -> Path:
    """The path of a folder of ckptui's own in a run, made sure to be no link nor below one.

    Raises:
        RefusedError: It is, so what is done there would be done outside the run.
    """
    path = run / schema.TOOL_DIR
    for part in (None, *parts):
        path = path / part if part is not None else path
        if path.is_symlink():
            msg = f"{path} is a link; ckptui works only inside the run, so replace it by a folder."
            raise RefusedError(msg)
    return path


def write_file(path: Path, data: bytes) -> None:
    """Write a new file and make its content durable; its name is durable after `sync_dir`.

    Raises:
        FileExistsError: The name is taken.
        OSError: The disk refused; no part of the file is left.
    """
    with path.open("xb") as f:
        try:
            f.write(data)
            f.flush()
            os.fsync(f.fileno())
        except BaseException:
            with contextlib.suppress(OSError):
                path.unlink()
            raise


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


def replace_passing_file(path: Path, data: bytes) -> None:
    """Like `replace_file`, for what nobody needs after a crash: nothing is made durable.

    Raises:
        OSError: The disk refused; the old content stands.
    """
    temporary = path.with_name(f".{path.name}.{token()}.tmp")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def create_file(path: Path, data: bytes) -> None:
    """Make `path` with all its content at once, unless it is there.

    Raises:
        FileExistsError: Somebody else has made it.
        OSError: The disk refused.
    """
    temporary = path.with_name(f".{path.name}.{token()}.tmp")
    try:
        write_file(temporary, data)
        try:
            os.link(temporary, path)
        except FileExistsError:
            raise
        except OSError:
            write_file(path, data)  # no hard links here: O_EXCL keeps the promise
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
    sync_dir(path.parent)


def to_json(value: object) -> bytes:
    """Strict UTF-8 JSON with a final newline, indented for people.

    Raises:
        ValueError: A float is not finite.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=2)
    # A lone surrogate stands for a byte of a file name that is not UTF-8; JSON escapes it.
    return (text + "\n").encode("utf-8", errors="backslashreplace")


def open_file(path: str | Path) -> int:
    """A descriptor for reading a regular file; anything else under its name is refused.

    Raises:
        FileNotFoundError: There is no such file.
        FormatError: It is a folder, a FIFO, a device or the like.
        OSError: It cannot be opened.
    """
    try:
        descriptor = os.open(path, _READ)
    except NotADirectoryError as e:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from e
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        msg = f"{path} is not a regular file."
        raise FormatError(msg, path=Path(path))
    return descriptor


def read_bytes(path: Path, *, limit: int) -> bytes:
    """The content of a regular file of at most `limit` bytes.

    Raises:
        FileNotFoundError: There is no such file.
        FormatError: It is larger than `limit` or not a regular file.
        StorageError: It cannot be read.
    """
    try:
        with open(open_file(path), "rb") as f:
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


def read_lines(path: Path, *, limit: int) -> Iterator[tuple[int, bytes | None]]:
    """Numbered lines of a file; None stands for one longer than `limit`, never held whole.

    Raises:
        FileNotFoundError: There is no such file.
        FormatError: It is no regular file.
        OSError: It cannot be read.
    """
    with open(open_file(path), "rb", buffering=_CHUNK) as f:
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


def open_to_append(path: Path) -> int:
    """A descriptor that appends to a regular file, made if it is not there; no link is followed.

    Raises:
        OSError: It cannot be opened, or something else has the name.
    """
    descriptor = os.open(path, _APPEND, 0o666)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return descriptor


def append_line(path: Path, line: str) -> None:
    """Add one durable line to a file in a single write, after ending a line that a crash cut off.

    Each line is synced before the next one is written, so a power loss can tear the last one only.

    Appends of several processes do not mix: each is one `write` on an O_APPEND descriptor. A link
    is not followed: the line would land in a file outside the run.

    Raises:
        OSError: The disk refused; of the line nothing or a part is there.
    """
    descriptor = open_to_append(path)
    try:
        found = os.fstat(descriptor)
        torn = found.st_size > 0 and os.pread(descriptor, 1, found.st_size - 1) != b"\n"
        data = ("\n" * torn + line + "\n").encode("utf-8", "backslashreplace")
        if os.write(descriptor, data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if not found.st_size:
        sync_dir(path.parent)
