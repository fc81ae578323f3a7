"""What may be left of recorded file operations when the power fails.

The model, for a recording that is cut after any of its operations:

- An operation on a name (create, mkdir, link, rename, unlink, rmdir) is durable once the directory
  that holds the name was synced after it; for a rename, the directory that holds the *new* name.
  A rename is atomic, so its new name cannot be durable while its old one is back; syncing only the
  directory of the old name makes it durable nowhere here, which is stricter than any file system.
- Content (a write, a truncation) is durable once that file was synced after it.
- Everything else may be lost, each operation for itself and in any combination: no order between
  operations is promised, also not within one directory or one file. Besides being lost whole, a
  write may be torn (its first half is there) or have only made the file longer (zeros).
- Syncing a file does not make its name durable, nor does syncing a directory make its own name
  durable in its parent: the parent must be synced.
- What is durable has its effect whatever else was lost: a durable rename puts its file or folder in
  place even if the creation of the old name was lost. An operation that is not durable has no
  effect where its precondition is missing: the old name is not there, or the new one is taken.

Real file systems are kinder. ext4 (any data mode) and XFS log names in order, so of the names only
a tail can be lost; ext4's `auto_da_alloc` writes out what is renamed over an older file; both make
the name of a new file durable when the file is synced; all three lose writes to one page of a file
in order. btrfs promises about as little as this model except for the last point. Nothing here
stands for a disk that lies about a flush, or for damage to what was durable already.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Tree = dict[str, bytes | None]
"""Path below the recorded folder to content; None is a folder."""

Fate = Literal["lost", "torn", "zeros"]
Fates = Mapping[int, Fate]
"""What befell operations that were not durable, by their index; the others took effect."""

ROOT = 0
"""The recorded folder itself, which is durable."""


@dataclass(frozen=True, slots=True)
class Create:
    """A new file or folder under a new name."""

    parent: int
    name: str
    node: int
    is_folder: bool
    path: str


@dataclass(frozen=True, slots=True)
class Link:
    """A further name of a file."""

    parent: int
    name: str
    node: int
    path: str


@dataclass(frozen=True, slots=True)
class Rename:
    """A name given up for another one, in one step."""

    old_parent: int
    old_name: str
    parent: int
    name: str
    node: int
    old_path: str
    path: str


@dataclass(frozen=True, slots=True)
class Remove:
    """A name taken away: unlink or rmdir."""

    parent: int
    name: str
    node: int
    is_folder: bool
    path: str


@dataclass(frozen=True, slots=True)
class Write:
    """New content of a file, from `offset` on."""

    node: int
    offset: int
    data: bytes
    path: str


@dataclass(frozen=True, slots=True)
class Truncate:
    """A file made shorter."""

    node: int
    size: int
    path: str


@dataclass(frozen=True, slots=True)
class Sync:
    """fsync of a file or folder."""

    node: int
    path: str


Operation = Create | Link | Rename | Remove | Write | Truncate | Sync


def describe(operation: Operation) -> str:
    """An operation in a few words, for reports."""
    match operation:
        case Create(is_folder=True):
            return f"mkdir {operation.path}"
        case Create():
            return f"create {operation.path}"
        case Link():
            return f"link {operation.path}"
        case Rename():
            return f"rename {operation.old_path} -> {operation.path}"
        case Remove():
            return f"{'rmdir' if operation.is_folder else 'unlink'} {operation.path}"
        case Write():
            return f"write {operation.path} {operation.offset}+{len(operation.data)}"
        case Truncate():
            return f"truncate {operation.path} to {operation.size}"
        case Sync():
            return f"fsync {operation.path or '.'}"


def below(tree: Tree, folder: str) -> Tree:
    """What is in a folder, by its path in there."""
    prefix = f"{folder}/"
    return {p.removeprefix(prefix): c for p, c in tree.items() if p.startswith(prefix)}


@dataclass(slots=True)
class State:
    """Folders and files by number. Inner mappings are replaced, never changed: copies are cheap."""

    folders: dict[int, Mapping[str, int]] = field(default_factory=lambda: {ROOT: {}})
    files: dict[int, bytes] = field(default_factory=dict)

    def copy(self) -> State:
        return State(dict(self.folders), dict(self.files))

    def apply(self, operation: Operation, *, durable: bool, fate: Fate | None = None) -> None:
        """Let an operation take effect, as far as `fate` says."""
        match operation:
            case Create() | Link():
                if isinstance(operation, Create):
                    # The thing exists for those who hold it open, whatever becomes of its name.
                    if operation.is_folder:
                        self.folders.setdefault(operation.node, {})
                    else:
                        self.files.setdefault(operation.node, b"")
                free = operation.name not in self.folders[operation.parent]
                if fate is None and (free or durable):
                    self._set(operation.parent, operation.name, operation.node)
            case Rename():
                if fate is None:
                    self._rename(operation, durable=durable)
            case Remove():
                there = self.folders[operation.parent].get(operation.name) == operation.node
                empty = not (operation.is_folder and self.folders[operation.node])
                if fate is None and there and (empty or durable):
                    self._unset(operation.parent, operation.name)
            case Write():
                data = operation.data
                if fate == "lost":
                    return
                if fate == "torn":
                    data = data[: len(data) // 2]
                elif fate == "zeros":
                    data = bytes(len(data))
                old = self.files[operation.node].ljust(operation.offset, b"\0")
                end = operation.offset + len(data)
                self.files[operation.node] = old[: operation.offset] + data + old[end:]
            case Truncate():
                if fate is None:
                    self.files[operation.node] = self.files[operation.node][: operation.size]
            case Sync():
                pass

    def _rename(self, operation: Rename, *, durable: bool) -> None:
        old, new = self.folders[operation.old_parent], self.folders[operation.parent]
        there = old.get(operation.old_name) == operation.node
        taken = new.get(operation.name)
        in_the_way = (
            taken is not None
            and taken != operation.node
            and (bool(self.folders[taken]) if taken in self.folders else False)
        )
        if durable or (there and not in_the_way):
            if there:
                self._unset(operation.old_parent, operation.old_name)
            elif operation.node in self.folders:
                self._unset_everywhere(operation.node)
            self._set(operation.parent, operation.name, operation.node)

    def _set(self, parent: int, name: str, node: int) -> None:
        self.folders[parent] = {**self.folders[parent], name: node}

    def _unset(self, parent: int, name: str) -> None:
        self.folders[parent] = {n: i for n, i in self.folders[parent].items() if n != name}

    def _unset_everywhere(self, node: int) -> None:
        """A folder has one name only, wherever an earlier rename that was lost had left it."""
        for parent, names in list(self.folders.items()):
            for name, other in names.items():
                if other == node:
                    self._unset(parent, name)

    def tree(self) -> Tree:
        """What can be reached from the recorded folder."""
        found: Tree = {}
        waiting = [("", ROOT)]
        while waiting:
            path, node = waiting.pop()
            for name, inner in self.folders[node].items():
                place = f"{path}{name}"
                if inner in self.folders:
                    found[place] = None
                    waiting.append((f"{place}/", inner))
                else:
                    found[place] = self.files[inner]
        return found


class Crashes:
    """A recording, and the trees that power losses during it could leave."""

    def __init__(self, operations: tuple[Operation, ...], start: State) -> None:
        self.operations = operations
        self._durable_from = _durable_from(operations)
        self._gone_from = _gone_from(operations, self._durable_from)
        self._states = [start.copy()]
        state = start.copy()
        for operation in operations:
            state.apply(operation, durable=True)
            self._states.append(state.copy())

    def loose(self, cut: int) -> list[int]:
        """The operations before `cut` that a power loss there may undo, with any effect at all."""
        return [
            i
            for i in range(cut)
            if self._durable_from[i] > cut
            and self._gone_from[i] > cut
            and not isinstance(self.operations[i], Sync)
        ]

    def tree(self, cut: int, fates: Fates) -> Tree:
        """What is left of the first `cut` operations."""
        if not fates:
            return self._states[cut].tree()
        first = min(fates)
        state = self._states[first].copy()
        for i in range(first, cut):
            durable = self._durable_from[i] <= cut
            state.apply(self.operations[i], durable=durable, fate=fates.get(i))
        return state.tree()

    def explain(self, cut: int, fates: Fates) -> str:
        """A cut and what was lost there, for people."""
        last = describe(self.operations[cut - 1]) if cut else "nothing"
        lost = [f"{fate} #{i} {describe(self.operations[i])}" for i, fate in sorted(fates.items())]
        return f"cut after #{cut - 1} {last}; {'; '.join(lost) or 'nothing lost'}"


_NEVER = 1 << 60


def _key(operation: Operation) -> int:
    """What must be synced for an operation to be durable."""
    return operation.node if isinstance(operation, Write | Truncate) else _parent(operation)


def _parent(operation: Operation) -> int:
    return -1 if isinstance(operation, Write | Truncate | Sync) else operation.parent


def _durable_from(operations: tuple[Operation, ...]) -> list[int]:
    """For each operation the lowest cut at which it is durable."""
    found = [_NEVER] * len(operations)
    synced: dict[int, int] = {}
    for i in range(len(operations) - 1, -1, -1):
        operation = operations[i]
        if isinstance(operation, Sync):
            synced[operation.node] = i + 1
            found[i] = i + 1
        else:
            found[i] = synced.get(_key(operation), _NEVER)
    return found


def _gone_from(operations: tuple[Operation, ...], durable_from: list[int]) -> list[int]:
    """For each operation the lowest cut at which what it worked on is gone for good."""
    gone: dict[int, int] = {}
    links: dict[int, int] = {}
    for operation, durable in zip(operations, durable_from, strict=True):
        match operation:
            case Create():
                links[operation.node] = 1
            case Link():
                links[operation.node] = links.get(operation.node, 1) + 1
            case Remove():
                links[operation.node] = links.get(operation.node, 1) - 1
                if not links[operation.node]:
                    gone[operation.node] = durable
            case _:
                pass
    return [gone.get(_key(operation), _NEVER) for operation in operations]
