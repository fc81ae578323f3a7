"""`checkpoint.json`: reading the marker that makes a native checkpoint complete."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ckptui import schema
from ckptui.checkpoint import FileEntry
from ckptui.durable import open_file
from ckptui.errors import FormatError
from ckptui.run_file import parse_parent, whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ckptui.checkpoint import Parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """The content of a readable `checkpoint.json`."""

    run_id: str | None
    attempt: int | None
    parent: Parent | None
    step: int | None
    epoch: int | float | None
    created: str | None
    save_seconds: float | None
    contains: tuple[str, ...]
    resumable: bool
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    nonfinite: tuple[str, ...] = ()
    files: tuple[FileEntry, ...] = ()


class MarkerError(Exception):
    """The marker is there but cannot be used; `newer` tells that only its format is unknown."""

    def __init__(self, what: str, *, newer: bool = False) -> None:
        super().__init__(what)
        self.what = what
        self.newer = newer


def read_marker(folder: str) -> Marker | None:
    """The marker of a checkpoint's folder, or None where there is none.

    Raises:
        MarkerError: It is damaged, or of a newer format.
        OSError: It cannot be read.
    """
    try:
        descriptor = open_file(f"{folder}/{schema.MARKER}")
    except FileNotFoundError:
        return None
    except FormatError:
        what = f"{schema.MARKER} is not a regular file"
        raise MarkerError(what) from None
    try:
        size = os.fstat(descriptor).st_size
        if size > schema.MAX_JSON_SIZE:
            what = f"{schema.MARKER} is larger than such a file may be"
            raise MarkerError(what)
        data = os.read(descriptor, size + 1)
        while len(data) < size and (more := os.read(descriptor, size - len(data))):
            data += more  # some network file systems give less than was asked for
    finally:
        os.close(descriptor)
    return parse_marker(data)


def parse_marker(data: bytes) -> Marker:
    """The marker in the bytes of a `checkpoint.json`.

    Raises:
        MarkerError: It is damaged, or of a newer format.
    """
    what = f"{schema.MARKER} is unreadable"
    if not data:
        raise MarkerError(f"{schema.MARKER} is empty")  # noqa: EM102 - a value, not a user's message
    try:
        raw = json.loads(data.decode())
    except (ValueError, RecursionError):
        raise MarkerError(what) from None
    if not isinstance(raw, dict):
        raise MarkerError(what)
    version = raw.get("format")
    if type(version) is int and version > schema.FORMAT:
        what = f"{schema.MARKER} has format {version}, newer than this ckptui knows"
        raise MarkerError(what, newer=True)
    files = _files(raw.get("files"))
    if type(version) is not int or version != schema.FORMAT or files is None:
        raise MarkerError(what)
    epoch = raw.get("epoch")
    metrics = raw.get("metrics")
    return Marker(
        run_id=_text(raw.get("run_id")),
        attempt=whole(raw.get("attempt")),
        parent=parse_parent(raw.get("parent")),
        step=whole(raw.get("step")),
        epoch=finite(epoch),
        created=_text(raw.get("created")),
        save_seconds=finite(raw.get("save_seconds")),
        contains=_texts(raw.get("contains")),
        resumable=raw.get("resumable") is True,
        metrics={k: finite(v) for k, v in metrics.items() if _is_value(v)}
        if isinstance(metrics, dict)
        else {},
        nonfinite=_texts(raw.get("nonfinite")),
        files=files,
    )


def finite(value: object) -> float | None:
    """A number read from disk, None where it is not finite or no number."""
    if type(value) is float:
        return value if math.isfinite(value) else None
    if type(value) is int:
        # An integer beyond every float cannot be compared or drawn.
        return value if abs(value) < 10**300 else None
    return None


def _is_value(value: object) -> bool:
    """Whether a metric was logged, finite or not: a number, null, or a non-finite value's name."""
    return value is None or type(value) in (int, float) or value in ("NaN", "Infinity", "-Infinity")


def _files(value: object) -> tuple[FileEntry, ...] | None:
    if not isinstance(value, list) or not value:
        return None
    found = []
    for item in value:
        if type(item) is not dict:
            return None
        name, size, digest = item.get("name"), item.get("size"), item.get("digest")
        if type(name) is not str or not name or type(size) is not int:
            return None
        if not 0 <= size < 2**63:  # no file system has such a file
            return None
        found.append(FileEntry(name, size, digest if type(digest) is str else None))
    return tuple(found)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(v for v in value if isinstance(v, str)) if isinstance(value, list) else ()
