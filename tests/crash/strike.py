"""Counts what a process does to the files of a run, and kills it right before the N-th operation.

Operations of all threads count. Python's audit events tell of everything that takes a name;
wrappers in `os` tell of what works on descriptors. What C and Rust write below Python shows where
the file is opened or synced by name; `tests.crash.traced` kills at the system calls themselves.
"""

# Strings, not `Path`: the hook sees every event of the process, and must raise none itself.
# ruff: noqa: PTH100, PTH113, PTH115, PTH116, PTH119

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

EVENTS = {
    "open": 1,
    "os.chmod": 1,
    "os.chown": 1,
    "os.link": 2,
    "os.listdir": 1,
    "os.mkdir": 1,
    "os.remove": 1,
    "os.rename": 2,
    "os.rmdir": 1,
    "os.scandir": 1,
    "os.symlink": 2,
    "os.truncate": 1,
    "os.utime": 1,
}
"""Audit events, and how many of their first arguments are paths."""

CALLS = (
    "close",
    "copy_file_range",
    "fdatasync",
    "fsync",
    "posix_fallocate",
    "pwrite",
    "pwritev",
    "sendfile",
    "write",
    "writev",
)
"""Functions of `os` on descriptors that no audit event tells of."""

WRITING = "open-to-write"
"""The kind of an `open` that may change something."""

READING = frozenset({"open", "os.listdir", "os.scandir", "os.close"})
"""Kinds of operations that leave the disk as it is."""

_WRITES = ("write", "writev", "pwrite", "pwritev")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC


class Striker:
    """Counts the operations on a run in this process, and strikes at one of them.

    Args:
        run: The run's folder.
        stop: The number of the operation before which the process is killed; 0: never.
        tell: Takes one line about the operation that was hit, right before the kill.
        torn: Share of the bytes in flight that still reach the file that is being written; None
            leaves files as they are.
    """

    def __init__(
        self, run: str, *, stop: int, tell: Callable[[str], None], torn: float | None = None
    ) -> None:
        self.count = 0
        self.kinds: list[str] = []
        """The kind of each operation, in order."""
        self._run = run
        self._stop = stop
        self._tell = tell
        self._torn = torn
        self._mutex = threading.RLock()
        self._own = threading.local()
        self._struck = False
        self._originals: dict[str, Callable[..., Any]] = {}
        self._written: str | None = None
        """The file that was last opened for writing, until it is synced or renamed."""
        self._safe: dict[str, int] = {}
        """How many bytes of a file must not be cut off: what stood there before or is synced."""

    def install(self) -> None:
        """Watch this process from now on; for good."""
        for name in CALLS:
            self._originals[name] = getattr(os, name)
            setattr(os, name, self._wrapped(name, getattr(os, name)))
        self._originals["truncate"] = os.truncate
        sys.addaudithook(self._audit)

    def _wrapped(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(file: Any, *arguments: Any, **keywords: Any) -> Any:
            path = self._path(file)
            if path is not None:
                self._step(f"os.{name}", path, file, arguments)
            result = original(file, *arguments, **keywords)
            if path is not None and name in ("fsync", "fdatasync"):
                self._note_synced(path)
            return result

        return call

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        paths = EVENTS.get(event)
        if paths is None or getattr(self._own, "busy", False):
            return
        # What opens a descriptor that is open already does nothing to a file.
        if event == "open" and isinstance(arguments[0], int):
            return
        found = [self._path(a) for a in arguments[:paths]]
        touched = [p for p in found if p is not None]
        if not touched:
            return
        writing = event == "open" and bool(int(arguments[2] or 0) & _WRITING)
        self._step(WRITING if writing else event, touched[0], None, ())
        if writing:
            self._note_opened(touched[0], truncated=bool(arguments[2] & os.O_TRUNC))
        elif event in ("os.rename", "os.link") and self._written in touched:
            self._written = None

    def _path(self, value: Any) -> str | None:
        """The path of a name or a descriptor, if it lies in the run."""
        if hasattr(value, "fileno"):
            value = value.fileno()
        try:
            if isinstance(value, int):
                path = os.readlink(f"/proc/self/fd/{value}")
            else:
                path = os.path.abspath(os.fsdecode("." if value is None else value))
        except (OSError, ValueError):
            return None
        return path if path == self._run or path.startswith(f"{self._run}/") else None

    def _step(self, kind: str, path: str, file: Any, arguments: tuple[Any, ...]) -> None:
        with self._mutex:
            while self._struck:
                time.sleep(1)  # another thread is about to end this process
            self.count += 1
            self.kinds.append(kind)
            if self.count != self._stop:
                return
            self._struck = True
            self._own.busy = True
            cut = self._tear(kind, path, file, arguments) if self._torn is not None else ""
            thread = "" if threading.current_thread() is threading.main_thread() else " (thread)"
            self._tell(f"{kind} {os.path.relpath(path, self._run)}{cut}{thread}")
            os.kill(os.getpid(), signal.SIGKILL)
            while True:
                time.sleep(1)

    def _note_opened(self, path: str, *, truncated: bool) -> None:
        self._written = path
        size = 0
        if not truncated:
            with contextlib.suppress(OSError):
                size = os.stat(path).st_size
        self._safe.setdefault(path, size)
        if truncated:
            self._safe[path] = 0

    def _note_synced(self, path: str) -> None:
        with contextlib.suppress(OSError):
            self._safe[path] = os.stat(path).st_size
        if self._written == path:
            self._written = None

    def _tear(self, kind: str, path: str, file: Any, arguments: tuple[Any, ...]) -> str:
        """Leave the file in hand as a kill in the middle of its writing would."""
        share = self._torn or 0.0
        name = kind.removeprefix("os.")
        if name in _WRITES:
            # The call itself is cut short.
            data = arguments[0]
            whole = b"".join(bytes(d) for d in data) if name.endswith("v") else bytes(data)
            part = whole[: int(share * len(whole))]
            write = self._originals["pwrite" if name.startswith("p") else "write"]
            write(file, part, *arguments[1:2])
            return f", {len(part)} of {len(whole)} bytes written"
        if name in ("fsync", "fdatasync") and os.path.isfile(path):
            self._written = path
        if self._written is None:
            return ""
        try:
            size = os.stat(self._written).st_size
        except OSError:
            return ""
        safe = min(size, self._safe.get(self._written, 0))
        length = safe + int(share * (size - safe))
        self._originals["truncate"](self._written, length)
        return f", {os.path.basename(self._written)} cut to {length} of {size} bytes"
