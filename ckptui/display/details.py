"""One checkpoint as lines for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from humanize import naturaltime

from ckptui.display.tables import table
from ckptui.display.text import pad, plural, size, visible
from ckptui.display.units import measured
from ckptui.schema import MARKER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from ckptui.checkpoint import Checkpoint
    from ckptui.contents import FoundFile

_MOST_TENSORS = 12


def detail_lines(
    c: Checkpoint, form: dict[str, Any], files: Sequence[FoundFile], *, now: datetime
) -> Iterator[str]:
    """Everything about a checkpoint, from its record, its long JSON form and its files."""
    there = sum(1 for file in files if file.found is not None)
    yield f"{visible(c.name)}   {c.state}   {visible(str(c.path))}"
    facts = [
        ("step", "-" if c.step is None else str(c.step)),
        ("epoch", "-" if c.epoch is None else f"{c.epoch:g}"),
        ("attempt", "-" if c.attempt is None else str(c.attempt)),
        ("run id", c.run_id or "-"),
        ("saved", naturaltime(now - c.created) if c.created else "-"),
        ("size", f"{size(c.size)} in {plural(there, 'file')}"),
        ("holds", ", ".join(c.contains) or "-"),
        ("history", "current" if c.current else "abandoned branch"),
        ("best in", ", ".join(form["best"]) or "-"),
        ("kept by", ", ".join(form["kept_by"] or ()) or "-"),
        ("pin", (c.note or "yes") if c.pinned else "-"),
        ("links", ", ".join(c.aliases) or "-"),
    ]
    for name, text in facts:
        yield f"  {name:<9} {visible(text)}"
    if c.nonfinite:
        yield f"  ! weights hold NaN or infinity: {visible(', '.join(c.nonfinite[:4]))}"
    for problem in form["problems"]:
        yield f"  ! {visible(problem['what'])}"
    if c.metrics:
        yield "metrics here"
        for name in sorted(c.metrics):
            yield f"  {pad(visible(name), 20)} {measured(name, c.metrics[name])}"
    if form["lineage"]:
        yield "came from"
        yield (
            "  "
            + " <- ".join(visible(p["path"] or p["name"]) for p in form["lineage"][:8])
            + (" <- ..." if len(form["lineage"]) > 8 else "")
        )
    if files:
        yield "files"
        for file in files:
            words = _trouble(file, listed=bool(c.files))
            yield f"  {size(file.found):>9}  {visible(file.name)}{words and f'   ! {words}'}"
    tensors = form["tensors"]
    if tensors:
        yield f"{plural(len(tensors), 'tensor')}"
        rows = [
            [f"  {visible(t['name'])}", t["dtype"], "x".join(map(str, t["shape"])) or "scalar"]
            for t in tensors[:_MOST_TENSORS]
        ]
        yield table(["  name", "dtype", "shape"], rows)
        if len(tensors) > _MOST_TENSORS:
            yield f"  ... {len(tensors) - _MOST_TENSORS} more; --json lists all"


def _trouble(file: FoundFile, *, listed: bool) -> str:
    """How a file lies there otherwise than the marker lists it."""
    if file.found is None:
        return f"missing, {size(file.size)} recorded"
    if file.size is None:
        return "not listed by the marker" if listed and file.name != MARKER else ""
    return f"{size(file.size)} recorded" if file.found != file.size else ""
