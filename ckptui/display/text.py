"""Short texts for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckptui.printable import cells, encodable, is_plain, size, visible

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["age", "cells", "encodable", "is_plain", "number", "pad", "plural", "size", "visible"]

_UNITS = (("s", 60), ("m", 60), ("h", 24), ("d", 365))


def age(when: datetime | None, now: datetime) -> str:
    """How long ago: `9 m`, `2 h`, `3 d`; `-` where unknown."""
    if when is None:
        return "-"
    left = (now - when).total_seconds()
    if left < -60:
        return "future"
    left = max(left, 0.0)
    for unit, length in _UNITS:
        if left < length:
            return f"{int(left)} {unit}"
        left /= length
    return f"{int(left)} y"


def number(value: float | None) -> str:
    """A metric's value in at most eight characters; `nan` for one that is not finite."""
    if value is None:
        return "nan"
    if isinstance(value, int) and abs(value) < 10**7:
        return str(value)
    for digits in (4, 3, 2):
        text = f"{value:.{digits}g}"
        if len(text) <= 8:
            return text
    return f"{value:.1g}"


def pad(text: str, width: int) -> str:
    """A visible text in at least `width` columns of a terminal."""
    return text + " " * (width - cells(text))


def plural(count: int, noun: str) -> str:
    """`1 checkpoint`, `2 checkpoints`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
