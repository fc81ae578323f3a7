"""Which keys there are, and which ones have one meaning everywhere."""

from __future__ import annotations

import unicodedata

from textual.keys import Keys

RESERVED = {
    "up",
    "down",
    "left",
    "right",
    "pageup",
    "pagedown",
    "home",
    "end",
    "enter",
    "escape",
    "tab",
    "shift+tab",
    "q",
    "j",
    "k",
    "g",
    "G",
    "ctrl+q",
    "ctrl+c",
}
"""Keys that move, choose, go back or leave on every screen: no deed can take them over."""


def is_key(key: str) -> bool:
    """Whether a terminal has such a key, as Textual spells it: `x`, `ctrl+r`, `slash`, `f5`."""
    name = key.rpartition("+")[2] or "+"
    if len(name) == 1 or name in {k.value for k in Keys}:
        return True
    try:
        unicodedata.lookup(name.replace("_", " "))
    except KeyError:
        return False
    return True
