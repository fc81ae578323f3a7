"""What is inside a checkpoint or run: its settings, files and tensors, read for looking at.

Nothing here raises because of what it finds: what is missing or damaged is told in words.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ckptui import schema
from ckptui.checkpoint import FileEntry
from ckptui.durable import read_bytes
from ckptui.errors import StorageError
from ckptui.layouts.files import list_files
from ckptui.layouts.marker import MarkerError, read_marker
from ckptui.layouts.native_checkpoint import is_outside
from ckptui.settings import flat, parse_yaml
from ckptui.tensors import read_header

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ckptui.checkpoint import Checkpoint, Parent

Value = str | int | float | bool | list[object] | dict[str, object] | None
"""What a setting can be; an empty mapping is one too."""

ONLY_SAFETENSORS = "tensors are read from safetensors files alone, nothing is unpickled"
_SAFETENSORS = ".safetensors"
_OTHER_WEIGHTS = (".bin", ".pt", ".pth", ".ckpt", ".distcp", ".gguf", ".npz", ".h5")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings in a file, one by one."""

    path: Path
    values: Mapping[str, Value] | None
    """By dotted name, in the file's order; None where they could not be read."""
    problem: str | None = None
    """Why not, in a sentence."""
    missing: bool = False
    """There is no such file."""


class FoundFile(NamedTuple):
    """A file of a checkpoint: as its marker lists it, and as it lies there."""

    name: str
    size: int | None
    """Bytes by the marker; None where it does not list the file."""
    digest: str | None
    found: int | None
    """Bytes on the disk; None where it is missing."""


class FoundTensor(NamedTuple):
    """A tensor as the header of its file describes it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: str
    size: int
    """Bytes."""

    @property
    def elements(self) -> int:
        """The number of its elements."""
        product = 1
        for side in self.shape:
            product *= side
        return product


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensors:
    """All tensors that the headers of a checkpoint's files name."""

    tensors: tuple[FoundTensor, ...] = ()
    problems: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    """Files that may hold tensors in a form that is not read."""

    @property
    def all_unread(self) -> bool:
        """Whether there may be tensors and none could be read."""
        return bool(self.unread) and not self.tensors


def read_config(path: Path) -> Config:
    """The settings in a YAML file, or why there are none to be read."""
    try:
        found = parse_yaml(read_bytes(path, limit=schema.MAX_LINE_SIZE))
    except FileNotFoundError:
        return Config(path=path, values=None, problem=f"{path} is missing.", missing=True)
    except StorageError as e:
        return Config(path=path, values=None, problem=str(e))
    except ValueError:
        return Config(path=path, values=None, problem=f"{path} is no readable YAML.")
    if not isinstance(found, dict):
        return Config(path=path, values=None, problem=f"{path} holds no settings.")
    return Config(path=path, values=dict(flat(found)))


def config_of(checkpoint: Checkpoint) -> Config:
    """The settings that a checkpoint was trained with."""
    return read_config(checkpoint.path / schema.RECIPE_CONFIG)


def files_of(checkpoint: Checkpoint) -> tuple[FileEntry, ...]:
    """The files that the marker lists; where it names none, those that lie there."""
    if checkpoint.files:
        return checkpoint.files
    try:
        sizes = list_files(checkpoint.path).sizes
    except OSError:
        return ()
    return tuple(FileEntry(name, size, None) for name, size in sorted(sizes.items()))


def look_at_files(checkpoint: Checkpoint) -> tuple[FoundFile, ...]:
    """Every file that the marker lists or that lies in the folder now, the marker's order first.

    Raises:
        OSError: The folder is gone or cannot be listed.
    """
    there = list_files(checkpoint.path)
    if there.error is not None:
        raise there.error
    listed = {f.name: f for f in checkpoint.files}
    found = [FoundFile(f.name, f.size, f.digest, there.sizes.get(f.name)) for f in listed.values()]
    found += [
        FoundFile(name, None, None, size)
        for name, size in sorted(there.sizes.items())
        if name not in listed
    ]
    return tuple(found)


def found_files(checkpoint: Checkpoint) -> tuple[FoundFile, ...]:
    """The same, or what the marker lists where the folder cannot be looked into."""
    try:
        return look_at_files(checkpoint)
    except OSError:
        return tuple(FoundFile(f.name, f.size, f.digest, None) for f in checkpoint.files)


def read_tensors(
    folder: Path,
    files: Iterable[FileEntry],
    *,
    known: dict[str, tuple[FoundTensor, ...]] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Tensors:
    """The tensors in the safetensors files of a checkpoint; only headers are read.

    Args:
        folder: The checkpoint.
        files: Its files. A link, or a name that leads out of the folder, is not opened.
        known: Tensors by the digest of their file, from an earlier reading; it is added to. A file
            of the same digest holds the same and is not read again.
        cancelled: Whether to stop before the next file.
    """
    known = {} if known is None else known
    tensors: list[FoundTensor] = []
    problems: list[str] = []
    unread: list[str] = []
    for file in files:
        if cancelled is not None and cancelled():
            break
        if not file.name.endswith(_SAFETENSORS):
            if file.name.endswith(_OTHER_WEIGHTS):
                unread.append(file.name)
            continue
        path = folder / file.name
        if is_outside(file.name) or path.is_symlink():
            problems.append(f"{file.name} is a link or leads out of the checkpoint: not opened.")
            continue
        try:
            tensors += _tensors(path, file, known)
        except FileNotFoundError:
            problems.append(f"{file.name} is missing.")
        except (OSError, StorageError) as e:
            problems.append(str(e))
    return Tensors(tensors=tuple(tensors), problems=tuple(problems), unread=tuple(unread))


def _tensors(
    path: Path, file: FileEntry, known: dict[str, tuple[FoundTensor, ...]]
) -> Sequence[FoundTensor]:
    digest = file.digest
    if digest is not None and digest in known:
        return [t._replace(file=file.name) for t in known[digest]]
    header = read_header(path)
    found = tuple(
        FoundTensor(t.name, t.dtype, t.shape, file.name, t.end - t.start)
        for t in sorted(header.tensors, key=lambda t: t.name)
    )
    if digest is not None:
        known[digest] = found
    return found


def parent_folder(run: Path, parent: Parent) -> Path | None:
    """Where the parent of a checkpoint in `run` lies; None where it is gone or replaced."""
    path = Path(parent.path) if parent.path is not None else run / parent.name
    # A marker may claim any path; only where a checkpoint could be is it looked at.
    if not path.is_absolute() or schema.parse_name(path.name) is None:
        return None
    try:
        marker = read_marker(str(path))
    except (OSError, ValueError, MarkerError):
        return None
    if marker is None:
        return None
    if parent.attempt is not None and (marker.run_id, marker.attempt) != (
        parent.run_id,
        parent.attempt,
    ):
        return None  # another checkpoint has taken the name since
    return path
