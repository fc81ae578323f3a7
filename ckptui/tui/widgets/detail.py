"""The pane that tells about the checkpoint under the cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content
from textual.widget import Widget

from ckptui.tui import facts
from ckptui.tui.text import fit, fit_path, plain, safe

if TYPE_CHECKING:
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


class Detail(Widget, can_focus=False):
    """Four lines where it is wide and low, all there is to say where it is tall.

    It draws itself and lays nothing out: the cursor may move many times a second.
    """

    def __init__(self, *, ascii_only: bool = False, id: str | None = None) -> None:  # noqa: A002 - the name that every widget uses
        super().__init__(id=id)
        self._ascii = ascii_only
        self._row: Row | None = None
        self._look: Look | None = None
        self._title = ""
        self._content = Content("")

    def show(self, row: Row | None, look: Look | None) -> None:
        """Show a checkpoint, or nothing."""
        self._row, self._look = row, look
        self._draw()

    def on_resize(self) -> None:
        """Say as much as there is room for."""
        self._draw()

    def render(self) -> Content:
        """The text that fits."""
        return self._content

    def _draw(self) -> None:
        row, look = self._row, self._look
        width, height = self.content_size
        title = row.checkpoint.name if row is not None else ""
        content = Content("")
        if row is not None and look is not None and width and height:
            lines = self._long(row, look, width) if height > 6 else self._short(row, look, width)
            if len(lines) > height:
                more = "enter shows the rest"
                lines = [*lines[: height - 1], Content.assemble((fit(more, width), "dim"))]
            content = Content("\n").join(lines)
        if title != self._title:
            self._title = title
            self.border_title = safe(title)
        if content != self._content or content.spans != self._content.spans:
            self._content = content
            self.refresh()

    def _long(self, row: Row, look: Look, width: int) -> list[Content]:
        return lines_of(facts.full(row, look, width=width, ascii_only=self._ascii), width)

    def _short(self, row: Row, look: Look, width: int) -> list[Content]:
        lines = facts.short(row, look, width=width, ascii_only=self._ascii)
        ellipsis = "~" if self._ascii else "…"
        fitted = [fit(plain(line), width, ellipsis=ellipsis).rstrip() for line in lines[:-1]]
        head = len("path      ")
        path = fit_path(plain(lines[-1])[head:], max(1, width - head), ellipsis=ellipsis)
        fitted.append(lines[-1][:head] + path)
        return [Content(line) for line in fitted]


def fact_lines(found: list[facts.Fact], width: int) -> Content:
    """Facts as text: labels on the left, values wrapped beside them."""
    return Content("\n").join(lines_of(found, width))


def lines_of(found: list[facts.Fact], width: int) -> list[Content]:
    """The same line by line."""
    room = max(8, width - _LABEL)
    lines: list[Content] = []
    for fact in found:
        style = _STYLES.get(fact.style, "")
        if fact.wide:
            lines.append(Content.assemble((fit(plain(fact.text), width).rstrip(), style)))
            continue
        parts = list(_wrap(plain(fact.text), room)) or [""]
        for i, part in enumerate(parts):
            label = fit(fact.label if i == 0 else "", _LABEL)
            lines.append(Content.assemble((label, "dim"), (part, style)))
    return lines


def _wrap(text: str, width: int) -> list[str]:
    return [line.plain.rstrip() for line in Content(text).wrap(width)] if text else []
