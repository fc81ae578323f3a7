"""The pane that tells about the checkpoint under the cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from textual.content import Content
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from ckptui.tui import facts
from ckptui.tui.text import fit, fit_path, plain

if TYPE_CHECKING:
    from rich.style import Style

    from ckptui.tui.listing import Look
    from ckptui.tui.snapshot import Row

_LABEL = 10
_STYLES = {
    "good": "$text-success",
    "bad": "$text-error",
    "warn": "$text-warning",
    "accent": "$text-accent",
    "dim": "dim",
    "strong": "bold",
}
"""Words to theme variables."""

Piece = tuple[str, str]
"""A text and the word that styles it, as in the cells of a table."""


class Detail(Widget, can_focus=False):
    """Four lines where it is wide and low, all there is to say where it is tall.

    It draws its lines itself, and only those that changed: the cursor moves many times a second.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "table--row",
        "table--dim",
        "table--good",
        "table--warn",
        "table--bad",
        "table--accent",
        "detail--strong",
    }

    def __init__(self, *, ascii_only: bool = False, id: str | None = None) -> None:  # noqa: A002 - the name that every widget uses
        super().__init__(id=id)
        self._ascii = ascii_only
        self._row: Row | None = None
        self._look: Look | None = None
        self._lines: list[tuple[Piece, ...]] = []

    @property
    def text(self) -> str:
        """What it says."""
        return "\n".join("".join(text for text, _ in line) for line in self._lines)

    def show(self, row: Row | None, look: Look | None) -> None:
        """Show a checkpoint, or nothing."""
        self._row, self._look = row, look
        self._draw()

    def on_resize(self) -> None:
        """Say as much as there is room for."""
        self._draw()

    def _draw(self) -> None:
        old, self._lines = self._lines, self._made()
        width = self.size.width
        for y in range(max(len(old), len(self._lines))):
            if old[y : y + 1] != self._lines[y : y + 1]:
                self.refresh(Region(0, y, width, 1))

    def _made(self) -> list[tuple[Piece, ...]]:
        row, look = self._row, self._look
        width, height = self.size
        if row is None or look is None or not width or not height:
            return []
        if height <= 6:
            return self._short(row, look, width)
        head = fit(plain(row.checkpoint.name), width, ellipsis=self._ellipsis).rstrip()
        found = facts.full(row, look, width=width, ascii_only=self._ascii)
        lines = [((head, "strong"),), *lines_of(found, width)]
        if len(lines) > height:
            lines[height - 1 :] = [(("enter shows the rest", "dim"),)]
        return lines

    @property
    def _ellipsis(self) -> str:
        return "~" if self._ascii else "…"

    def _short(self, row: Row, look: Look, width: int) -> list[tuple[Piece, ...]]:
        lines = facts.short(row, look, width=width, ascii_only=self._ascii)
        fitted = [fit(plain(x), width, ellipsis=self._ellipsis).rstrip() for x in lines[:-1]]
        head = len("path      ")
        path = fit_path(plain(lines[-1])[head:], max(1, width - head), ellipsis=self._ellipsis)
        name = min(len(plain(row.checkpoint.name)), len(fitted[0]))
        first = ((fitted[0][:name], "strong"), (fitted[0][name:], ""))
        rest = [((line, ""),) for line in [*fitted[1:], lines[-1][:head] + path]]
        return [first, *rest]

    def render_line(self, y: int) -> Strip:
        """One line of what there is to say, or nothing."""
        base = self.get_component_rich_style("table--row")
        if y >= len(self._lines):
            return Strip.blank(self.size.width, base)
        segments = [Segment(text, self._style(word)) for text, word in self._lines[y]]
        return Strip(segments).adjust_cell_length(self.size.width, base)

    def _style(self, word: str) -> Style:
        names = ["table--row"]
        if word:
            names.append("detail--strong" if word == "strong" else f"table--{word}")
        return self.get_component_rich_style(*names)


def fact_lines(found: list[facts.Fact], width: int) -> Content:
    """Facts as text: labels on the left, values wrapped beside them."""
    return Content("\n").join(
        Content.assemble(*((text, _STYLES.get(word, "")) for text, word in line))
        for line in lines_of(found, width)
    )


def lines_of(found: list[facts.Fact], width: int) -> list[tuple[Piece, ...]]:
    """The same line by line."""
    room = max(8, width - _LABEL)
    lines: list[tuple[Piece, ...]] = []
    for fact in found:
        if fact.wide:
            lines.append(((fit(plain(fact.text), width).rstrip(), fact.style),))
            continue
        for i, part in enumerate(_wrap(plain(fact.text), room) or [""]):
            label = fit(fact.label if i == 0 else "", _LABEL)
            lines.append(((label, "dim"), (part, fact.style)))
    return lines


def _wrap(text: str, width: int) -> list[str]:
    return [line.plain.rstrip() for line in Content(text).wrap(width)] if text else []
