"""What a page of the detail screen is, and the pages about what is inside a checkpoint.

Functions for background threads: they read the disk and return values, without a widget in sight.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ckptui import display, schema
from ckptui.contents import ONLY_SAFETENSORS, files_of, look_at_files, read_tensors
from ckptui.display.differences import shape_text
from ckptui.tui.facts import FAILED
from ckptui.tui.widgets.table import Cell, Column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ckptui.checkpoint import Checkpoint
    from ckptui.contents import FoundFile, FoundTensor
    from ckptui.tui.jobs import Job
    from ckptui.verify import Report


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a page."""

    key: str
    cells: tuple[Cell, ...]
    """One for each column, in their order."""
    whole: tuple[str, ...]
    """All there is to say, for the lines below the table."""
    differs: bool = True
    """False where a page of differences leaves it out."""

    @property
    def words(self) -> str:
        """What a filter looks at."""
        return " ".join(c if isinstance(c, str) else c[0] for c in self.cells).lower()


@dataclass(frozen=True, slots=True)
class Page:
    """What a table of the detail screen shows."""

    columns: tuple[Column, ...]
    entries: tuple[Entry, ...]
    title: str
    """What there is, in a few words: `8 files, 1.8 MB`."""
    empty: str
    """What stands in place of lines where there are none."""
    problems: tuple[str, ...] = ()
    damaged: bool = False
    """Whether files are not as recorded, so that the checkpoint cannot be complete."""


def columns(*given: tuple[str, int, str]) -> tuple[Column, ...]:
    """Columns by title, width and traits: `right`, `grows`, and a digit for the rank."""
    return tuple(
        Column(
            key=str(i),
            title=title,
            width=width,
            right="right" in traits,
            grows="grows" in traits,
            rank=int(next((c for c in traits if c.isdigit()), "0")),
        )
        for i, (title, width, traits) in enumerate(given)
    )


# Files


def files_page(checkpoint: Checkpoint, report: Report | None = None) -> Page:
    """Every file: as it lies there, and whether that is how the marker lists it.

    Args:
        checkpoint: Whose files.
        report: What verifying it has found in this session, if it was verified.

    Raises:
        OSError: The checkpoint is gone or cannot be listed.
    """
    files = look_at_files(checkpoint)
    listed = bool(checkpoint.files)
    entries = tuple(_file(f, report, listed=listed) for f in files)
    total = sum(f.found or 0 for f in files)
    title = f"{display.plural(len(files), 'file')}, {display.size(total)}"
    odd = sum(1 for f in files if _trouble(f, listed=listed))
    return Page(
        columns=columns(
            ("File", 26, "grows 0"),
            ("Size", 9, "right 1"),
            ("There", 10, "2"),
            ("Digest", 16, "grows 3"),
        ),
        entries=entries,
        title=title + _odd(odd, report),
        empty="There is no file in it.",
        damaged=any(_trouble(f, listed=listed) and f.size is not None for f in files),
    )


def _odd(odd: int, report: Report | None) -> str:
    words = f", {odd} not as recorded" if odd else ""
    if report is None or report.status not in {"verified", "failed"}:
        return words
    return f"{words}, {'verified' if report.status == 'verified' else FAILED}"


def _file(file: FoundFile, report: Report | None, *, listed: bool) -> Entry:
    trouble = _trouble(file, listed=listed)
    marker = listed and file.name == schema.MARKER
    word = trouble.split(":")[0] if trouble else "marker" if marker else "ok" if listed else "-"
    style = "dim" if not trouble else "warn" if file.size is None else "bad"
    found = [p.what for p in report.problems if p.file == file.name] if report else []
    verified = not found and not trouble and not marker and _compared(file, report)
    if found and not trouble:
        word = "FAILED" if report and report.status == "failed" else "warning"
        style = "bad" if word == "FAILED" else "warn"
    elif verified:
        word, style = "verified", "good"
    told = f"{file.found} B" if file.found is not None else f"{file.size} B recorded"
    checked = f"when verified in this session: {found[0]}" if found else ""
    if verified:
        checked = "every byte is as it was written, by the check of this session"
    return Entry(
        key=file.name,
        cells=(
            (file.name, "strong"),
            display.size(file.found),
            (word, style),
            ((file.digest or "-").removeprefix("xxh3_128:"), "dim"),
        ),
        whole=(
            file.name,
            f"{told}, digest {file.digest or 'not recorded'}",
            "it lists all the others; it was written last"
            if marker
            else trouble
            or checked
            or ("as recorded in size; V compares the content" if listed else ""),
        ),
    )


def _compared(file: FoundFile, report: Report | None) -> bool:
    """Whether the bytes of a file of which nothing bad was found were compared."""
    if report is None or report.level != "full" or not file.digest:
        return False
    # What is wrong with the whole may have ended the check before this file.
    return all(problem.file for problem in report.problems)


def _trouble(file: FoundFile, *, listed: bool) -> str:
    if file.found is None:
        return "missing: the marker lists it, but it is not there"
    if file.size is None:
        listed = listed and file.name != schema.MARKER  # which does not list itself
        return "extra: the marker does not list it" if listed else ""
    if file.found != file.size:
        return f"other size: {file.found} B lie there, {file.size} B were recorded"
    return ""


# Tensors


def tensors_page(checkpoint: Checkpoint, job: Job) -> Page:
    """The tensors that the headers name, the weights first."""
    found = read_tensors(checkpoint.path, files_of(checkpoint), cancelled=job.is_cancelled)
    tensors = sorted(found.tensors, key=lambda t: not schema.is_weights_file(t.file))
    empty = "No tensor was found in its files."
    if found.unread:
        names = ", ".join(found.unread[:3])
        empty = f"{names}: {ONLY_SAFETENSORS}."
    return Page(
        columns=columns(
            ("Tensor", 36, "grows 0"),
            ("Dtype", 6, "1"),
            ("Shape", 12, "2"),
            ("Size", 9, "right 3"),
            ("File", 12, "grows 4"),
        ),
        entries=tuple(_tensor(t) for t in tensors),
        title=tensors_title(tensors, unread=bool(found.unread or found.problems)),
        empty=found.problems[0] if found.problems else empty,
        problems=found.problems,
    )


def tensors_title(tensors: Sequence[FoundTensor], *, unread: bool = False) -> str:
    """How many tensors, and how many parameters those of the weights have, by dtype."""
    if not tensors:
        return "not read" if unread else "no tensors"
    weights = [t for t in tensors if schema.is_weights_file(t.file)]
    title = display.plural(len(tensors), "tensor")
    if not weights:
        return title
    dtypes = Counter(t.dtype for t in weights)
    words = ", ".join(dtype for dtype, _ in dtypes.most_common(2))
    words += ", ..." if len(dtypes) > 2 else ""
    parameters = count_text(sum(t.elements for t in weights))
    return f"{title}, {len(weights)} weights: {parameters} parameters, {words}"


def count_text(count: int) -> str:
    """A count as people say it: `912`, `7.24 B`, `124 M`."""
    for unit, size in (("T", 10**12), ("B", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= size:
            value = count / size
            digits = 2 if value < 10 else 1 if value < 100 else 0
            return f"{value:.{digits}f} {unit}"
    return str(count)


def _tensor(tensor: FoundTensor) -> Entry:
    shape = shape_text(tensor.shape)
    return Entry(
        key=f"{tensor.file}/{tensor.name}",
        cells=(
            (tensor.name, "strong"),
            tensor.dtype,
            shape,
            display.size(tensor.size),
            (tensor.file, "dim"),
        ),
        whole=(
            tensor.name,
            f"{tensor.dtype} {shape}, {display.plural(tensor.elements, 'element')}, "
            f"{tensor.size} B",
            f"in {tensor.file}",
        ),
    )
