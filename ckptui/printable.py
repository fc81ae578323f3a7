"""Text for people: the one sanitiser, for what lies on disk is shown, never obeyed; and sizes."""

from __future__ import annotations

_SIZES = ("kB", "MB", "GB", "TB", "PB", "EB")
_BLANK = frozenset(
    map(
        chr,
        (
            *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0),
            *range(0x180B, 0x1810),
            *range(0xFE00, 0xFE10),
            *range(0xE0100, 0xE01F0),
        ),
    )
)
"""What counts as printable and shows nothing: fillers, blank letters and variation selectors."""
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible(text: str) -> str:
    r"""The text with everything that a terminal might obey, or that hides, spelled out.

    Control characters, escape sequences, bidi controls, odd spaces and other invisible characters
    become `\xNN` or `\uNNNN`; a byte of a file name that is not UTF-8 becomes `\xNN`.
    """
    if is_plain(text):
        return text
    return "".join(c if c.isprintable() and c not in _BLANK else _spelled(c) for c in text)


def is_plain(text: str) -> bool:
    """Whether a text may go to a terminal as it is."""
    return text.isprintable() and (text.isascii() or _BLANK.isdisjoint(text))


def cells(text: str) -> int:
    """How many columns of a terminal a visible text takes: wide characters two, marks none."""
    if text.isascii():
        return len(text)
    import unicodedata  # noqa: PLC0415 - most names are ASCII

    return sum(
        0
        if unicodedata.category(c) in ("Mn", "Me")
        else 2
        if unicodedata.east_asian_width(c) in ("W", "F")
        else 1
        for c in text
    )


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
