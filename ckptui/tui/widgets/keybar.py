"""One line of keys: those that fit, whole, with help and the way out always among them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.content import Content
from textual.widget import Widget

if TYPE_CHECKING:
    from collections.abc import Sequence

Hint = tuple[str, str]
"""A key and what it does."""


QUIT: Hint = ("q", "quit")


class KeyBar(Widget, can_focus=False):
    """The keys that matter on this screen."""

    def __init__(self, hints: Sequence[Hint], *, last: Hint = QUIT) -> None:
        super().__init__()
        self._hints = tuple(hints)
        self._last = last

    def set_hints(self, hints: Sequence[Hint], *, last: Hint = QUIT) -> None:
        """Show other keys; the last one always has its place."""
        self._hints = tuple(hints)
        self._last = last
        self.refresh()

    def render(self) -> Content:
        """As many hints as fit."""
        shown = []
        left = self.size.width - 2 - _length(self._last)
        for hint in self._hints:
            need = _length(hint) + 2
            if need > left:
                continue
            shown.append(hint)
            left -= need
        pieces = [Content.assemble((k, "bold $footer-key-foreground"), f" {t}") for k, t in shown]
        pieces.append(
            Content.assemble((self._last[0], "bold $footer-key-foreground"), f" {self._last[1]}")
        )
        return Content("  ").join(pieces)


def _length(hint: Hint) -> int:
    return cell_len(hint[0]) + 1 + cell_len(hint[1])
