"""Metrics in their units, where the name tells them."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from ckptui.display.text import number, size

if TYPE_CHECKING:
    from collections.abc import Callable

_MEMORY = frozenset({"memory", "mem"})
_OTHER = frozenset(
    {"kb", "mb", "gb", "tb", "kib", "mib", "gib", "tib"}
    | {"percent", "pct", "ratio", "fraction", "frac", "util", "utilization"}
)
"""Words for units that are told already, or for no amount."""
_LEAST = 1e8
"""From here on, memory is in bytes: some log it in MiB or GiB under the same name."""


def teller(name: str, value: float | None) -> Callable[[float | None], str]:
    """What spells the values of a metric, given one of them."""
    return _bytes if _in_bytes(name, value) else number


def measured(name: str, value: float | None) -> str:
    """A value of a metric in its unit: `402 MB`."""
    return teller(name, value)(value)


def _in_bytes(name: str, value: float | None) -> bool:
    if value is None or not math.isfinite(value) or value != int(value):
        return False
    words = set(re.split(r"[^a-z]+", name.lower()))
    if words & _OTHER:
        return False
    return "bytes" in words or (bool(words & _MEMORY) and value >= _LEAST)


def _bytes(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return number(value)
    return f"{'-' if value < 0 else ''}{size(int(abs(value)))}"
