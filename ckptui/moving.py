"""Moving a folder: one rename, or file by file where the file system cannot rename folders."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING

from ckptui import schema
from ckptui.durable import sync_dir, token

if TYPE_CHECKING:
    from pathlib import Path

NO_FOLDER_RENAME = {errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP}
"""What bucket mounts answer that cannot rename folders."""


def move_folder(source: Path, target: Path) -> None:
    """Rename a folder; where the file system cannot, move its files one by one.

    Then the marker goes first from the old place and last to the new one, so that neither half ever
    passes for a checkpoint.

    Raises:
        FileNotFoundError: `source` is not there.
        FileExistsError: `target` is.
        OSError: The disk refused.
    """
    try:
        source.rename(target)
    except OSError as e:
        if e.errno not in NO_FOLDER_RENAME:
            raise
        _move_files(source, target)


def _move_files(source: Path, target: Path) -> None:
    _claim(target)
    moved: list[tuple[Path, Path]] = []
    folders = [""]

    def move(old: Path, new: Path) -> None:
        old.rename(new)
        moved.append((old, new))

    aside = target / f".{schema.MARKER}.{token()}.tmp"
    try:
        with contextlib.suppress(FileNotFoundError):
            move(source / schema.MARKER, aside)
        for folder in folders:
            with os.scandir(source / folder) as entries:
                inside = [(e.name, e.is_dir(follow_symlinks=False)) for e in entries]
            for name, is_folder in inside:
                place = f"{folder}{name}"
                if is_folder:
                    folders.append(f"{place}/")
                    (target / place).mkdir()
                else:
                    move(source / place, target / place)
        for folder in folders:
            sync_dir(target / folder)
        if os.path.lexists(aside):
            move(aside, target / schema.MARKER)
            sync_dir(target)
    except BaseException:
        # Put back what is moved, the marker last of all, as far as the disk lets us.
        for old, new in reversed(moved):
            with contextlib.suppress(OSError):
                new.rename(old)
        for folder in reversed(folders):
            with contextlib.suppress(OSError):
                (target / folder).rmdir()
        raise
    for folder in reversed(folders):
        # Whatever came into the old place meanwhile is not ours to take along.
        with contextlib.suppress(OSError):
            (source / folder).rmdir()


def _claim(target: Path) -> None:
    """Create a folder that nobody else has created."""
    for _ in range(2):
        try:
            target.mkdir()
        except FileExistsError:
            if os.path.lexists(target):
                raise
        else:
            return
    target.mkdir()
