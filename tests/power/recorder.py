"""Records what a scenario does to a folder, as seen from within its process.

The functions of `os` that change a file system, and `open`, are wrapped; what reaches the system by
another way is heard by the audit hook, before it happens. At each of these moments the folder,
which is tiny, is compared with what it was: so also what compiled code writes is seen, though
several of its operations between two moments are seen as one. A wrapped call holds one lock, so the
order of what several threads do is total.
"""

from __future__ import annotations

import builtins
import io
import os
import stat
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.power.model import (
    ROOT,
    Create,
    Link,
    Operation,
    Remove,
    Rename,
    State,
    Sync,
    Truncate,
    Write,
    below,
)

_NAMES = frozenset(
    {
        "os.link",
        "os.mkdir",
        "os.remove",
        "os.rename",
        "os.rmdir",
        "os.symlink",
        "os.truncate",
    }
)
_CHANGING = (
    "link",
    "mkdir",
    "remove",
    "rename",
    "replace",
    "rmdir",
    "symlink",
    "truncate",
    "unlink",
    "write",
    "writev",
    "pwrite",
    "pwritev",
    "ftruncate",
    "posix_fallocate",
    "sendfile",
    "copy_file_range",
)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


@dataclass(frozen=True, slots=True)
class Note:
    """Something the scenario knows to be so from here on."""

    at: int
    """How many operations came before."""
    what: str
    run: str
    """The run's folder, below the recorded one."""
    name: str = ""
    number: int = 0
    tree: dict[str, bytes | None] = field(default_factory=dict)
    """For a save: the checkpoint as it stood when the call returned."""


@dataclass(frozen=True, slots=True)
class Recording:
    """What a scenario did."""

    scenario: str
    root: Path
    start: State
    operations: tuple[Operation, ...]
    notes: tuple[Note, ...]


class Recorder:
    """Watches one folder of this process from `start` on, and for good."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.operations: list[Operation] = []
        self.notes: list[Note] = []
        self._state = State()
        self._numbers: dict[int, int] = {root.stat().st_ino: ROOT}
        self._paths: dict[int, str] = {ROOT: ""}
        self._next = ROOT + 1
        self._lock = threading.RLock()
        self._busy = False
        self._emptied: set[str] = set()

    def start(self) -> None:
        """Take what is there as durable, and record everything from now on."""
        self._look()
        self.began = self._state.copy()
        self.operations.clear()
        self._wrap()
        sys.addaudithook(self._hear)

    def note(self, what: str, run: Path, name: str = "", number: int = 0) -> None:
        """Keep what is true now, for the checks."""
        with self._lock:
            self._look()
            inside = run.relative_to(self.root).as_posix()
            found = below(self._state.tree(), f"{inside}/{name}") if what == "saved" else {}
            self.notes.append(Note(len(self.operations), what, inside, name, number, found))

    def finish(self, scenario: str) -> Recording:
        """Everything that was recorded."""
        self._look()
        return Recording(scenario, self.root, self.began, tuple(self.operations), tuple(self.notes))

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if event in _NAMES:
            self._look()
        elif event == "open" and args[2] & _WRITING and isinstance(args[0], str | bytes):
            path = os.fsdecode(args[0])
            if path.startswith(os.fspath(self.root)):
                self._look()
                if args[2] & os.O_TRUNC and not self._busy:
                    self._emptied.add(path[len(os.fspath(self.root)) + 1 :])

    def _wrap(self) -> None:
        for name in ("fsync", "fdatasync"):
            setattr(os, name, self._wrapped_sync(getattr(os, name)))
        for name in _CHANGING:
            if hasattr(os, name):
                setattr(os, name, self._wrapped(getattr(os, name)))
        os.open = self._wrapped(os.open)
        io.open = builtins.open = self._wrapped(open)

    def _wrapped_sync(self, sync: Callable[[Any], None]) -> Callable[[Any], None]:
        def synced(descriptor: Any) -> None:
            with self._lock:
                self._look()
                sync(descriptor)
                number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
                node = self._numbers.get(os.fstat(number).st_ino)
                if node is not None:
                    self.operations.append(Sync(node, self._paths[node]))

        return synced

    def _wrapped(self, change: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*args: Any, **more: Any) -> Any:
            with self._lock:
                if self._busy or not self._concerns(change, args):
                    return change(*args, **more)
                self._look()
                try:
                    return change(*args, **more)
                finally:
                    self._look()

        return changed

    def _concerns(self, change: Callable[..., Any], args: tuple[Any, ...]) -> bool:
        """Whether a call may change the folder: reading, and what is opened elsewhere, do not."""
        if change.__name__ != "open":
            return True
        how = args[1] if len(args) > 1 else "r"
        reads = not how & _WRITING if isinstance(how, int) else set(how) <= set("rbt")
        path = args[0]
        here = isinstance(path, int) or os.fsdecode(path).startswith(os.fspath(self.root))
        return here and not reads

    def _look(self) -> None:
        """Compare the folder with what it was, and record the difference."""
        with self._lock:
            if self._busy:
                return
            self._busy = True
            try:
                self._compare()
            finally:
                self._busy = False

    def _compare(self) -> None:
        found: dict[str, tuple[int, bytes | None]] = {}
        self._walk(self.root, "", found)
        before = dict(self._placed())
        known = set(before.values())
        now: dict[str, int] = {}
        for path, (inode, _) in found.items():
            node = self._numbers.get(inode)
            if node is None or node not in known:
                # A number of the disk's that was given up is given again to what is new.
                node = self._numbers[inode] = self._next
                self._next += 1
                known.add(node)
            now[path] = node
            self._paths[node] = path
        self._record_names(before, now, found)
        for path, (_, content) in found.items():
            if content is not None:
                self._record_content(now[path], path, content)

    def _walk(
        self, folder: Path | str, prefix: str, found: dict[str, tuple[int, bytes | None]]
    ) -> None:
        with os.scandir(folder) as entries:
            for entry in entries:
                path = prefix + entry.name
                try:
                    info = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(info.st_mode):
                        found[path] = (info.st_ino, None)
                        self._walk(entry.path, path + "/", found)
                    else:
                        assert stat.S_ISREG(info.st_mode), f"{path} is neither file nor folder"
                        found[path] = (info.st_ino, Path(entry.path).read_bytes())
                except FileNotFoundError:
                    found.pop(path, None)  # another thread renamed it just now

    def _placed(self) -> list[tuple[str, int]]:
        placed = []
        waiting = [("", ROOT)]
        while waiting:
            prefix, folder = waiting.pop()
            for name, node in self._state.folders[folder].items():
                placed.append((prefix + name, node))
                if node in self._state.folders:
                    waiting.append((f"{prefix}{name}/", node))
        return placed

    def _record_names(
        self,
        before: dict[str, int],
        now: dict[str, int],
        found: dict[str, tuple[int, bytes | None]],
    ) -> None:
        gone = {self._slot(p, before): (p, n) for p, n in before.items()}
        came = {self._slot(p, now): (p, n) for p, n in now.items()}
        for slot in gone.keys() & came.keys():
            if gone[slot][1] == came[slot][1]:
                del gone[slot], came[slot]
        left = {node: slot for slot, (_, node) in gone.items()}
        there = set(before.values())
        for slot, (path, node) in sorted(came.items(), key=lambda s: s[1][0].count("/")):
            parent, name = slot
            if node not in there:
                self._add(Create(parent, name, node, found[path][1] is None, path))
            elif node in left:
                old_parent, old_name = left[node]
                old_path = gone.pop(left.pop(node))[0]
                self._add(Rename(old_parent, old_name, parent, name, node, old_path, path))
            else:
                self._add(Link(parent, name, node, path))
            gone.pop(slot, None)  # replaced by what came
        for (parent, name), (path, node) in sorted(gone.items(), key=lambda s: -s[1][0].count("/")):
            self._add(Remove(parent, name, node, node in self._state.folders, path))

    @staticmethod
    def _slot(path: str, nodes: dict[str, int]) -> tuple[int, str]:
        folder, _, name = path.rpartition("/")
        return (nodes[folder] if folder else ROOT, name)

    def _record_content(self, node: int, path: str, content: bytes) -> None:
        old = self._state.files[node]
        if path in self._emptied:
            self._emptied.discard(path)
            if old:
                self._add(Truncate(node, 0, path))
                old = b""
        if old == content:
            return
        same = next((i for i, (a, b) in enumerate(zip(old, content, strict=False)) if a != b), None)
        if same is None:
            same = min(len(old), len(content))
        if len(content) < len(old):
            self._add(Truncate(node, len(content), path))
        if same < len(content):
            self._add(Write(node, same, content[same:], path))

    def _add(self, operation: Operation) -> None:
        self.operations.append(operation)
        self._state.apply(operation, durable=True)
