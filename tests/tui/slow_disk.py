"""A disk that is slow or never answers, put below a program that knows nothing of it.

`command(folder, ...)` starts ckptui with every look at something below `folder` delayed, as on a
network mount: `stat`, `open`, the listing of a folder, the reading of a link. What carries a name
given as `hung` never returns from the kernel, as on a mount whose server is gone. Looks taken by
the thread that runs the event loop are written to a file, since there must be none.
"""

from __future__ import annotations

import asyncio
import builtins
import functools
import io
import os
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_LOOKS = ("stat", "lstat", "open", "scandir", "listdir", "readlink", "access", "statvfs")


def command(
    folder: Path, *words: str | Path, seconds: float = 0.0, hung: str = "", log: Path
) -> tuple[str, ...]:
    """ckptui with these words, on a slow disk."""
    program = (
        f"from tests.tui import slow_disk; slow_disk.install({str(folder)!r}, {seconds!r}, "
        f"{hung!r}, {str(log)!r}); from ckptui.__main__ import start; start()"
    )
    return (sys.executable, "-c", program, *map(str, words))


def install(folder: str, seconds: float, hung: str, log: str) -> None:
    """Slow down what this process does below a folder from now on."""
    disk = _Disk(folder, seconds, hung, log)
    for name in _LOOKS:
        setattr(os, name, disk.slow(getattr(os, name)))
    builtins.open = io.open = disk.slow(io.open)


class _Disk:
    def __init__(self, folder: str, seconds: float, hung: str, log: str) -> None:
        self._folder, self._seconds, self._hung = folder, seconds, hung
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._readlink = os.readlink

    def slow(self, look: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(look)
        def slowly(*args: Any, **kwargs: Any) -> Any:
            path = args[0] if args else kwargs.get("path", ".")
            if self.wait(path, kwargs.get("dir_fd"), look.__name__):
                found = look(*args, **kwargs)
                return _Listing(found, self) if look.__name__ == "scandir" else found
            return look(*args, **kwargs)

        return slowly

    def wait(self, path: Any, dir_fd: int | None = None, what: str = "stat") -> bool:
        """Take the time that a look at a path takes; whether the path is on this disk."""
        try:
            full = self._full(path, dir_fd)
        except OSError:
            return False
        if full != self._folder and not full.startswith(self._folder + "/"):
            return False
        if asyncio._get_running_loop() is not None:
            os.write(self._log, f"{what} {full}\n".encode(errors="replace"))
        if self._hung and self._hung in full[len(self._folder) :].split("/"):
            os.read(os.pipe()[0], 1)  # in the kernel, for ever
        time.sleep(self._seconds)
        return True

    def _full(self, path: Any, dir_fd: int | None) -> str:
        if isinstance(path, int):
            return self._readlink(f"/proc/self/fd/{path}")
        name = os.fsdecode(path)
        if dir_fd is not None:
            name = os.path.join(self._readlink(f"/proc/self/fd/{dir_fd}"), name)  # noqa: PTH118
        return os.path.abspath(name)  # noqa: PTH100 - no look at the disk


class _Listing:
    """What `scandir` gives, with entries whose `stat` costs what it costs there."""

    def __init__(self, found: Any, disk: _Disk) -> None:
        self._found, self._disk = found, disk

    def __enter__(self) -> _Listing:
        return self

    def __exit__(self, *_: object) -> None:
        self._found.close()

    def close(self) -> None:
        self._found.close()

    def __iter__(self) -> Iterator[_Entry]:
        return (_Entry(entry, self._disk) for entry in self._found)

    def __next__(self) -> _Entry:
        return _Entry(next(self._found), self._disk)


class _Entry:
    """An `os.DirEntry`: its kind comes with the listing, its size with a look of its own."""

    def __init__(self, entry: Any, disk: _Disk) -> None:
        self._entry, self._disk = entry, disk

    def __fspath__(self) -> Any:
        return self._entry.path

    def __getattr__(self, name: str) -> Any:
        return getattr(self._entry, name)

    def stat(self, **kwargs: Any) -> os.stat_result:
        self._disk.wait(self._entry.path)
        found: os.stat_result = self._entry.stat(**kwargs)
        return found
