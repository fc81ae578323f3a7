"""The pane that tells about the checkpoint under the cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from ckptui.tui import facts
from ckptui.tui.text import fit, fit_path, plain, safe

if TYPE_CHECKING:
    from textual.app import ComposeResult

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


class Detail(VerticalScroll, can_focus=False):
    """Four lines where it is wide and low, all there is to say where it is tall."""

    def __init__(self, *, ascii_only: bool = False, id: str | None = None) -> None:  # noqa: A002 - the name that every widget uses
        super().__init__(id=id)
        self._ascii = ascii_only
        self._row: Row | None = None
        self._look: Look | None = None

    def compose(self) -> ComposeResult:
        """One text."""
        yield Static(id="detail-text")

    def show(self, row: Row | None, look: Look | None) -> None:
        """Show a checkpoint, or nothing."""
        self._row, self._look = row, look
        self._draw()

    def on_resize(self) -> None:
        """Say as much as there is room for."""
        self._draw()

    def _draw(self) -> None:
        row, look = self._row, self._look
        if row is None or look is None:
            self.border_title = None
            content = Content("")
        else:
            self.border_title = safe(row.checkpoint.name)
            width = self.content_size.width
            if self.content_size.height > 6:
                content = fact_lines(facts.full(row, look), width)
            else:
                content = self._short(row, look, width)
        self.query_one("#detail-text", Static).update(content)

    def _short(self, row: Row, look: Look, width: int) -> Content:
        lines = facts.short(row, look, width=width, ascii_only=self._ascii)
        ellipsis = "~" if self._ascii else "…"
        fitted = [fit(plain(line), width, ellipsis=ellipsis).rstrip() for line in lines[:-1]]
        head = len("path      ")
        path = fit_path(plain(lines[-1])[head:], max(1, width - head), ellipsis=ellipsis)
        fitted.append(lines[-1][:head] + path)
        return Content("\n").join(Content(line) for line in fitted)


def fact_lines(found: list[facts.Fact], width: int) -> Content:
    """Facts as text: labels on the left, values wrapped beside them."""
    room = max(8, width - _LABEL)
    lines: list[Content] = []
    for fact in found:
        style = _STYLES.get(fact.style, "")
        parts = list(_wrap(plain(fact.text), room)) or [""]
        for i, part in enumerate(parts):
            label = fit(fact.label if i == 0 else "", _LABEL)
            lines.append(Content.assemble((label, "dim"), (part, style)))
    return Content("\n").join(lines)


def _wrap(text: str, width: int) -> list[str]:
    return [line.plain.rstrip() for line in Content(text).wrap(width)] if text else []
