"""Short texts for people, and the one sanitiser: what lies on disk is shown, never obeyed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_SIZES = ("kB", "MB", "GB", "TB", "PB", "EB")
_UNITS = (("s", 60), ("m", 60), ("h", 24), ("d", 365))


def visible(text: str) -> str:
    r"""The text with everything that a terminal might obey, or that hides, spelled out.

    Control characters, escape sequences, bidi controls and other invisible characters become
    `\xNN` or `\uNNNN`; a byte of a file name that is not UTF-8 becomes `\xNN`.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _spelled(c) for c in text)


def _spelled(char: str) -> str:
    if char in _NAMED:
        return _NAMED[char]
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def encodable(text: str) -> str:
    r"""The text for JSON: a byte of a name that is not UTF-8 becomes `\xNN`, the rest stays."""
    if not any("\ud800" <= c <= "\udfff" for c in text):
        return text
    return "".join(_spelled(c) if "\ud800" <= c <= "\udfff" else c for c in text)


def size(count: int | None) -> str:
    """Bytes as people read them, in powers of 1000: `31.4 GB`; `-` where unknown."""
    if count is None:
        return "-"
    if count < 1000:
        return f"{count} B"
    value = count / 1000
    for unit in _SIZES:
        if value < 999.95 or unit == _SIZES[-1]:
            break
        value /= 1000
    return f"{value:.1f}".removesuffix(".0") + f" {unit}"


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


def plural(count: int, noun: str) -> str:
    """`1 checkpoint`, `2 checkpoints`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
