"""Is everything there that the writer meant to write? Quick by sizes and headers, full by content.

Nothing is unpickled and no link is followed. The marker is read anew: the record a listing made may
be older than what lies on the disk now.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

from ckptui import schema
from ckptui.checkpoint import State
from ckptui.durable import read_json_object
from ckptui.errors import StorageError
from ckptui.layouts.files import list_files
from ckptui.layouts.marker import MarkerError, read_marker
from ckptui.layouts.native_checkpoint import is_outside
from ckptui.tensors import nonfinite_tensors, read_header

if TYPE_CHECKING:
    from collections.abc import Callable, Set
    from pathlib import Path

    from ckptui.checkpoint import Checkpoint, FileEntry
    from ckptui.layouts.files import FolderFiles
    from ckptui.layouts.marker import Marker

Level = Literal["quick", "full"]
Status = Literal["verified", "ok", "warning", "failed"]

_DIGEST = "xxh3_128"
_CHUNK = 2**22
_ZIPPED = frozenset({".pt", ".pth", ".bin", ".ckpt"})


@dataclass(frozen=True, slots=True)
class FileProblem:
    """Something about one file of a checkpoint."""

    file: str
    """Relative to the checkpoint; empty where it is the whole."""
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a check found."""

    checkpoint: Checkpoint
    level: Level
    status: Status
    """`verified` only after comparing all content; a warning does not make it unusable."""
    problems: tuple[FileProblem, ...] = ()
    looked: bool = True
    """False where no file was opened, as nothing tells what should be in it, or not yet."""


def verify_checkpoint(
    checkpoint: Checkpoint,
    *,
    full: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """Check a checkpoint as it lies on the disk now.

    Args:
        checkpoint: Where to look.
        full: Also compare every digest and look for NaN and infinity in the weights.
        progress: Called with the bytes read since the last call.
    """
    check = _Check(checkpoint.path, progress or (lambda _: None))
    if checkpoint.state is State.WRITING:
        check.leave("it is being written right now")
    elif checkpoint.state is State.UNKNOWN and not check.is_ours():
        for problem in checkpoint.problems:
            check.leave(problem.what)
        if not checkpoint.problems:
            check.leave("nothing tells what should be here")
    else:
        check.run(full=full)
    status: Status = "verified" if full and check.compared_all else "ok"
    if check.warnings:
        status = "warning"
    if check.failures:
        status = "failed"
    return Report(
        checkpoint=checkpoint,
        level="full" if full else "quick",
        status=status,
        problems=(*check.failures, *check.warnings),
        looked=check.looked,
    )


class _Check:
    """One pass over one checkpoint, collecting what it finds."""

    def __init__(self, folder: Path, progress: Callable[[int], None]) -> None:
        self.folder = folder
        self.progress = progress
        self.failures: list[FileProblem] = []
        self.warnings: list[FileProblem] = []
        self.compared_all = True
        self.looked = True

    def fail(self, file: str, what: str) -> None:
        self.failures.append(FileProblem(file, what))

    def warn(self, file: str, what: str) -> None:
        self.warnings.append(FileProblem(file, what))

    def leave(self, why: str) -> None:
        """Check nothing, and say so: what was not looked at is neither good nor bad."""
        self.looked = self.compared_all = False
        self.warn("", f"was not checked: {why}")

    def is_ours(self) -> bool:
        """Whether a marker of ours is there by now."""
        try:
            return read_marker(str(self.folder)) is not None
        except (MarkerError, OSError):
            return False

    def run(self, *, full: bool) -> None:
        """Look at everything, in the order in which it is best told."""
        try:
            files = list_files(self.folder)
        except OSError as e:
            self.fail("", f"cannot be listed: {e.strerror}")
            return
        if files.error is not None:
            self.fail("", f"cannot be read: {files.error.strerror}")
        marker = self._marker(files)
        if not self.looked:
            return
        if marker is None:
            for name in files.sizes:
                self._look_inside(name)
            return
        present = {e.name: e for e in marker.files if self._is_there(e, files)}
        for name in present:
            self._look_inside(name)
        self._extras(files, {e.name for e in marker.files})
        if schema.MODEL_INDEX in present:
            self._index(present.keys(), {e.name for e in marker.files})
        if full:
            found = [name for e in present.values() for name in self._compare(e)]
            self._healthy(found)
        else:
            self._healthy(marker.nonfinite)

    def _marker(self, files: FolderFiles) -> Marker | None:
        if schema.MARKER in files.links:
            self.fail(schema.MARKER, "is a link, not a file of this checkpoint")
            return None
        try:
            marker = read_marker(str(self.folder))
        except MarkerError as e:
            if e.newer:
                self.leave(e.what)
            else:
                self.fail(schema.MARKER, e.what.removeprefix(f"{schema.MARKER} "))
        except OSError as e:
            self.fail(schema.MARKER, f"cannot be read: {e.strerror}")
        else:
            if marker is None:
                self.fail(schema.MARKER, "is missing: the save never finished")
            return marker
        return None

    def _is_there(self, entry: FileEntry, files: FolderFiles) -> bool:
        size = files.sizes.get(entry.name)
        if is_outside(entry.name):
            self.fail(entry.name, "leads out of the checkpoint")
        elif entry.name in files.links:
            self.fail(entry.name, "is a link, not a file of this checkpoint")
        elif size is None:
            self.fail(entry.name, "is missing")
        elif size != entry.size:
            what = f"has {size} bytes instead of {entry.size}"
            cause = self._header_fault(entry.name)
            # Why it has another size, where that is more than being cut off.
            if cause is not None and "cut off" not in cause:
                what += f": it {cause}"
            self.fail(entry.name, what)
        else:
            return True
        return False

    def _look_inside(self, name: str) -> None:
        """Check a file's form without loading it."""
        path = self.folder / name
        fault = self._header_fault(name)
        if fault is not None:
            self.fail(name, fault)
        elif path.suffix in _ZIPPED and _is_torn_zip(path):
            self.fail(name, "is cut off: its zip directory is missing")

    def _header_fault(self, name: str) -> str | None:
        """What is wrong with a safetensors file's header, if anything."""
        path = self.folder / name
        if not name.endswith(".safetensors"):
            return None
        try:
            read_header(path)
        except FileNotFoundError:
            return "is missing"
        except StorageError as e:
            return str(e).removeprefix(str(path)).removeprefix(path.name).strip(" .")
        return None

    def _extras(self, files: FolderFiles, listed: set[str]) -> None:
        for name in sorted({*files.sizes, *files.links} - listed - {schema.MARKER}):
            if any(schema.is_junk(part) for part in PurePosixPath(name).parts):
                continue
            if _is_leftover(PurePosixPath(name).name):
                self.warn(name, "was left by an unfinished write and can be reclaimed")
            else:
                self.warn(name, "is no part of this checkpoint")
            if name in files.sizes and PurePosixPath(name).suffix in _ZIPPED:
                self._look_inside(name)

    def _index(self, present: Set[str], listed: set[str]) -> None:
        """Compare the shard index with the shards."""
        try:
            index = read_json_object(self.folder / schema.MODEL_INDEX, limit=schema.MAX_JSON_SIZE)
        except (OSError, StorageError):
            self.fail(schema.MODEL_INDEX, "is no readable JSON object")
            return
        mapping = index.get("weight_map")
        if not isinstance(mapping, dict) or not mapping:
            self.fail(schema.MODEL_INDEX, "names no weights")
            return
        by_shard: dict[str, set[str]] = {}
        for tensor, shard in mapping.items():
            by_shard.setdefault(str(shard), set()).add(tensor)
        failed = {problem.file for problem in self.failures}
        for shard, tensors in sorted(by_shard.items()):
            if shard not in listed:
                self.fail(shard, f"is named by {schema.MODEL_INDEX} but no part of the checkpoint")
            elif shard in present and shard not in failed:
                lacking = tensors - self._tensor_names(shard)
                if lacking:
                    self.fail(shard, f"lacks {min(lacking)}, which the index says it holds")

    def _tensor_names(self, shard: str) -> set[str]:
        try:
            return {t.name for t in read_header(self.folder / shard).tensors}
        except (StorageError, OSError):
            return set()

    def _compare(self, entry: FileEntry) -> tuple[str, ...]:
        """Compare a file's digest, and name the weights in it that are not finite."""
        kind, _, expected = (entry.digest or "").partition(":")
        known = kind == _DIGEST
        if not known:
            self.compared_all = False
            if kind:
                self.warn(entry.name, f"has a digest of an unknown kind, {kind}")
        try:
            digest, nonfinite = self._read(entry.name)
        except (StorageError, OSError) as e:
            self.compared_all = False
            if entry.name not in {problem.file for problem in self.failures}:
                self.fail(entry.name, f"cannot be read: {getattr(e, 'strerror', None) or e}")
            return ()
        if known and digest != expected:
            self.fail(entry.name, "has other content than was written")
        return nonfinite

    def _read(self, name: str) -> tuple[str, tuple[str, ...]]:
        """A file's digest and the weights in it that are not finite, from one reading."""
        import xxhash  # noqa: PLC0415 - a quick check never needs it

        digest: Any = xxhash.xxh3_128()
        path = self.folder / name
        nonfinite: tuple[str, ...] = ()
        if name.endswith(".safetensors") and name != schema.RECIPE_STATE_TENSORS:
            nonfinite = nonfinite_tensors(path, progress=self.progress, also=digest.update)
        else:
            with path.open("rb") as f:
                while chunk := f.read(_CHUNK):
                    digest.update(chunk)
                    self.progress(len(chunk))
        return str(digest.hexdigest()), nonfinite

    def _healthy(self, nonfinite: tuple[str, ...] | list[str]) -> None:
        if nonfinite:
            more = f" and {len(nonfinite) - 1} more" if len(nonfinite) > 1 else ""
            self.warn("", f"weights hold NaN or infinity: {nonfinite[0]}{more}")


def _is_leftover(name: str) -> bool:
    """Whether a name is that of a temporary: `x.tmp`, `x.tmp.12`, `.tmpAb3x9Z` of safetensors."""
    return name.startswith(".tmp") or "tmp" in name.split(".")


def _is_torn_zip(path: Path) -> bool:
    """Whether a file begins as a zip archive does but lacks the directory at its end."""
    try:
        with path.open("rb") as f:
            return f.read(4) == b"PK\x03\x04" and not zipfile.is_zipfile(f)
    except OSError:
        return False
