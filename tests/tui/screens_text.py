"""Screens as text: compared with stored files, and checked for anything cut off or overlapping.

`CKPTUI_UPDATE_SNAPSHOTS=1 pytest tests/tui/test_pictures.py` writes the files of
`tests/tui/snapshots` anew; read their difference before committing it.
"""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.widget import Widget
from textual.widgets import Button, Static

from ckptui.tui.widgets.keybar import KeyBar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from textual.geometry import Region

    from tests.tui.driver import Driver

STORED = Path(__file__).with_name("snapshots")
UPDATE = "CKPTUI_UPDATE_SNAPSHOTS"
MADE_TO_MEASURE = {"header", "status", "filter-line"}
"""Lines of words that are cut to the width on purpose, the least important last."""
_CORNERS = {"top": ("╭┌┏╔+", "╮┐┓╗+"), "bottom": ("╰└┗╚+", "╯┘┛╝+")}


def check(d: Driver, name: str, *, hidden: str = "") -> None:
    """Hold that the screen is whole, and that it is the stored one.

    Args:
        d: The browser, at rest.
        name: Of the stored file, without the size.
        hidden: A part of every path that differs from run to run; it is shown as dots.
    """
    assert_whole(d)
    width, height = d.app.size
    assert_same(f"{name}-{width}x{height}", unnamed(d.text, hidden))


def unnamed(text: str, hidden: str) -> str:
    """The text with every letter of `hidden` replaced, also where it is wrapped or cut."""
    if not hidden:
        return text
    between = r"([\s│║|]*)"
    whole = between.join(re.escape(letter) for letter in hidden)
    text = re.sub(whole, lambda m: "." + "".join(f"{gap}." for gap in m.groups()), text)
    for cut in range(1, len(hidden)):  # the beginning is lost behind an ellipsis
        text = text.replace("…" + hidden[cut:] + "/", "…" + "." * (len(hidden) - cut) + "/")
    return text


def assert_same(name: str, text: str) -> None:
    """Hold that a text is what is stored under a name."""
    text = "".join(line.rstrip() + "\n" for line in text.split("\n"))
    path = STORED / f"{name}.txt"
    if os.environ.get(UPDATE):
        path.write_text(text, encoding="utf-8")
        return
    assert path.exists(), f"{path.name} is not stored; {UPDATE}=1 writes it:\n{text}"
    stored = path.read_text(encoding="utf-8")
    if stored != text:
        lines = difflib.unified_diff(
            stored.split("\n"), text.split("\n"), f"stored {name}", "now", lineterm="", n=2
        )
        raise AssertionError("\n".join(lines) + f"\n\nthe whole screen now:\n{text}")


# Nothing is cut off, nothing overlaps


def assert_whole(d: Driver) -> None:
    """Hold that lines fill the width, and frames, titles, keys, buttons and texts are complete."""
    faults = list(_faults(d))
    assert not faults, "\n".join(faults) + "\n" + d.text


def _faults(d: Driver) -> Iterator[str]:
    width, height = d.app.size
    lines = d.lines
    if len(lines) != height:
        yield f"{len(lines)} lines on a screen of {height}"
    for at, line in enumerate(lines):
        if cell_len(line) != width:
            yield f"line {at + 1} has {cell_len(line)} cells of {width}"
    screen = d.app.screen
    if any(small.display for small in screen.query("#too-small")):
        (small,) = screen.query("#too-small")
        said = " ".join(d.words.split())
        if said != " ".join(str(small.render()).split()):
            yield f"the sentence for too small a window reads {said!r}"
        return
    shown = {w: (r, c) for w, (r, c) in screen._compositor.visible_widgets.items() if r and c}
    for widget, (region, clip) in shown.items():
        name = f"{type(widget).__name__}#{widget.id or ''}"
        free = _scrolls(widget)
        if not free and not clip.contains_region(region):
            yield f"{name} at {region} sticks out of {clip}"
        if clip.contains_region(region):
            yield from _frame_faults(widget, region, lines, name)
        if isinstance(widget, KeyBar):
            yield from _key_faults(widget, _cut(lines, region))
        elif isinstance(widget, Button):
            label = str(widget.label)
            if clip.contains_region(region) and label not in _cut(lines, region):
                yield f"button {label!r} reads {_cut(lines, region).strip()!r}"
        elif isinstance(widget, Static) and widget.id in MADE_TO_MEASURE:
            if cell_len(str(widget.visual).rstrip()) > region.width:
                yield f"{name} is cut: {str(widget.visual)!r}"
        elif isinstance(widget, Static) and not free:
            needs = widget.get_content_height(
                widget.container_size, d.app.size, widget.content_region.width
            )
            if needs > widget.content_region.height:
                yield f"{name} has {widget.content_region.height} lines and needs {needs}"
    yield from _overlaps(list(shown.items()))


def _scrolls(widget: Widget) -> bool:
    """Whether what does not fit can be scrolled into view."""
    return any(isinstance(w, Widget) and w.show_vertical_scrollbar for w in widget.ancestors)


def _cut(lines: list[str], region: Region) -> str:
    """What is written in a region; its lines are joined by spaces."""
    return " ".join(
        _cells(line, region.x, region.right) for line in lines[region.y : region.bottom]
    )


def _cells(line: str, start: int, end: int) -> str:
    """The characters in the cells from `start` to `end`."""
    found, at = [], 0
    for char in line:
        if start <= at < end:
            found.append(char)
        at += cell_len(char)
    return "".join(found)


def _frame_faults(widget: Widget, region: Region, lines: list[str], name: str) -> Iterator[str]:
    if not all(kind for kind, _ in widget.styles.border):
        return
    edges = {"top": lines[region.y], "bottom": lines[region.bottom - 1]}
    for edge, line in edges.items():
        drawn = _cells(line, region.x, region.right)
        left, right = _CORNERS[edge]
        if not drawn or drawn[0] not in left or drawn[-1] not in right:
            yield f"the {edge} of the frame of {name} reads {drawn!r}"
    for title, line in (
        (widget.border_title, edges["top"]),
        (widget.border_subtitle, edges["bottom"]),
    ):
        drawn = _cells(line, region.x, region.right)
        if title and str(title) not in drawn:
            yield f"the title {str(title)!r} of {name} reads {drawn!r}"


def _key_faults(bar: KeyBar, line: str) -> Iterator[str]:
    known = {f"{key} {word}" for key, word in (*bar._hints, bar._last)}
    for piece in re.split(r"\s{2,}", line.strip()):
        if piece not in known:
            yield f"the key bar reads {piece!r}"


def _overlaps(shown: list[tuple[Widget, tuple[Region, Region]]]) -> Iterator[str]:
    seen = [(w, r.intersection(c)) for w, (r, c) in shown if not w.is_container or w.styles.border]
    for i, (one, region) in enumerate(seen):
        for other, theirs in seen[i + 1 :]:
            related = one in other.ancestors_with_self or other in one.ancestors_with_self
            if not related and region.overlaps(theirs):
                yield f"{one} at {region} and {other} at {theirs} overlap"
