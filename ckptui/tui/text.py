"""Text on its way to the screen: made visible, free of markup, cut to cells.

Textual reads a plain `str` as markup in most places and lets escape sequences through in all of
them. So whatever may come from the disk goes through `plain` or `safe` first.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from textual.content import Content

from ckptui.display import visible

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def plain(text: object) -> str:
    """Text whose control characters are shown instead of obeyed."""
    return visible(str(text))


def safe(text: object) -> Content:
    """Text that a widget shows exactly as it is: no markup, no control characters."""
    return Content(visible(str(text)))


def lines(*parts: str) -> Content:
    """Lines of our own words with whatever they quote."""
    return Content("\n").join([safe(part) for part in parts])


def fit(text: str, width: int, *, right: bool = False, ellipsis: str = "…") -> str:
    """Text in exactly `width` cells; what is too long ends in an ellipsis."""
    if width <= 0:
        return ""
    length = cell_len(text)
    if length > width:
        return set_cell_size(set_cell_size(text, width - 1).rstrip() + ellipsis, width)
    return " " * (width - length) + text if right else text + " " * (width - length)


def fit_path(path: str, width: int, *, ellipsis: str = "…") -> str:
    """A path in at most `width` cells: the end is what tells it from others."""
    if cell_len(path) <= width:
        return path
    while path and cell_len(path) > width - 1:
        path = path[1:]
    return ellipsis + path


def short_path(path: Path, *, here: Path, home: Path | None) -> str:
    """A path as its owner would type it: from here, or from home."""
    if path.is_relative_to(here):
        return str(path.relative_to(here)) if path != here else path.name or str(path)
    if home is not None and path.is_relative_to(home):
        return f"~/{path.relative_to(home)}"
    return str(path)


def ascii_only(env: Mapping[str, str] = os.environ) -> bool:
    """Whether the terminal should get no character beyond ASCII.

    The locale tells, and the Linux console has no glyphs for braille. `CKPTUI_ASCII=1` asks for it.
    """
    if env.get("CKPTUI_ASCII", "") not in {"", "0"} or env.get("TERM") == "linux":
        return True
    locale = env.get("LC_ALL") or env.get("LC_CTYPE") or env.get("LANG") or ""
    name = locale.lower().replace("-", "")
    return bool(name) and "utf8" not in name
