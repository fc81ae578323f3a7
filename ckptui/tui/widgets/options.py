"""A list of options whose cursor is a letter as well, as that of tables is."""

from __future__ import annotations

from rich.segment import Segment
from textual.strip import Strip
from textual.widgets import OptionList


class Options(OptionList):
    """Options that begin with a space; the one under the cursor has `>` there."""

    def render_line(self, y: int) -> Strip:
        """One line of the screen."""
        strip = super().render_line(y)
        line = self.scroll_offset.y + y
        if self.highlighted is None or self._lines[line : line + 1] != [(self.highlighted, 0)]:
            return strip
        first, *rest = strip
        if not first.text.startswith(" "):
            return strip
        marked = [Segment(">", first.style), Segment(first.text[1:], first.style), *rest]
        return Strip(marked, strip.cell_length)
