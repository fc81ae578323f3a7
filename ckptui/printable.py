"""Text for people: the one sanitiser, for what lies on disk is shown, never obeyed; and sizes."""

from __future__ import annotations

_SIZES = ("kB", "MB", "GB", "TB", "PB", "EB")
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


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
