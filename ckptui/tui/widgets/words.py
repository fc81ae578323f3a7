"""Words below a screen: what has no room ends in an ellipsis, never in the middle of nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from rich.segment import Segment
from textual.content import Content
from textual.strip import Strip
from textual.widgets import Static

from ckptui.tui.text import fit

if TYPE_CHECKING:
    from textual.css.styles import RulesMap

    from ckptui.tui.app import Browser


def _dots(widget: Static) -> str:
    return "~" if cast("Browser", widget.app).ascii_only else "…"


class OneLine(Static):
    """A line of words, cut to the width that there is."""

    def render(self) -> Content:
        """As much as fits."""
        shown = cast("Content", self.visual)
        room = self.size.width - 1
        if room <= 0 or shown.cell_length <= room:
            return shown
        return Content(fit(shown.plain, room, ellipsis=_dots(self)))


class SomeLines(Static):
    """Wrapped lines of words, cut to the height that there is."""

    def render_line(self, y: int) -> Strip:
        """A line; the last one tells that there is more."""
        strip = super().render_line(y)
        width, height = self.size
        rules = cast("RulesMap", self.styles)
        if y != height - 1 or self.visual.get_height(rules, width) <= height:
            return strip
        text = strip.text.rstrip()
        style = next((s.style for s in strip if s.text.strip()), self.rich_style)
        # Longer than there is room for, so that it is cut in any case.
        cut = fit(text + " " * width, min(width, len(text) + 2), ellipsis=_dots(self))
        return Strip([Segment(cut, style)]).adjust_cell_length(width, self.rich_style)
