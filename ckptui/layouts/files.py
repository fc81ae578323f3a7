"""What lies in a checkpoint's folder: every regular file with its size, links never followed."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ckptui.checkpoint import SharedFile

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


@dataclass(slots=True)
class FolderFiles:
    """The regular files below a folder."""

    sizes: dict[str, int] = field(default_factory=dict)
    """Relative name with `/` -> apparent bytes."""
    links: list[str] = field(default_factory=list)
    """Relative names of symbolic links."""
    size: int = 0
    """Apparent bytes, a hard link counted once."""
    shared: tuple[SharedFile, ...] = ()
    newest: float = 0.0
    """The latest modification time of any file or folder, in seconds since the epoch."""
    error: OSError | None = None
    """The first thing that could not be read."""


def list_files(folder: str | Path) -> FolderFiles:
    """All files below `folder`; what cannot be read is told in `error`.

    Raises:
        FileNotFoundError: The folder itself is not there.
    """
    found = FolderFiles()
    sizes, size, newest = found.sizes, 0, 0.0  # as locals: this loop is most of a listing's time
    several: dict[tuple[int, int], list[int]] = {}
    pending = [(os.fspath(folder), "")]
    while pending:
        path, prefix = pending.pop()
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    try:
                        info = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue  # removed while we looked: what is gone is not there
                    name = prefix + entry.name
                    mode = info.st_mode
                    if info.st_mtime > newest:
                        newest = info.st_mtime
                    if stat.S_ISREG(mode):
                        sizes[name] = info.st_size
                        if info.st_nlink == 1:
                            size += info.st_size
                        else:
                            one = several.setdefault(
                                (info.st_dev, info.st_ino), [info.st_size, info.st_nlink, 0]
                            )
                            one[2] += 1
                    elif stat.S_ISDIR(mode):
                        pending.append((entry.path, name + "/"))
                    elif stat.S_ISLNK(mode):
                        found.links.append(name)
        except FileNotFoundError:
            if not prefix:
                raise
        except OSError as e:
            found.error = found.error or e
    found.size, found.newest = size, newest
    if several:
        found.size += sum(size for size, _, _ in several.values())
        found.shared = tuple(
            SharedFile(device=device, inode=inode, size=size, links=links, here=here)
            for (device, inode), (size, links, here) in several.items()
        )
    return found


def size_once(parts: Iterable[tuple[int, tuple[SharedFile, ...]]]) -> int:
    """Apparent bytes of several folders together, a hard link between them counted once."""
    total = 0
    seen: set[tuple[int, int]] = set()
    for size, shared in parts:
        total += size
        for file in shared:
            key = (file.device, file.inode)
            if key in seen:
                total -= file.size
            seen.add(key)
    return total
