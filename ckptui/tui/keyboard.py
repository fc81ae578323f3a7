"""Bytes from the keyboard that are no UTF-8: a Latin-1 terminal, meta keys of eight bits, a paste.

Textual's driver decodes strictly and ends the app with the first such byte; it offers no other way
than to give its module another decoder.
"""

from __future__ import annotations

import codecs
from typing import Any


def take_any_byte() -> None:
    """Let what is no UTF-8 arrive as U+FFFD, which is no key of ours."""
    try:
        from textual.drivers import linux_driver  # noqa: PLC0415 - there is none on Windows
    except ImportError:
        return
    driver: Any = linux_driver

    def lenient(name: str) -> Any:
        strict = codecs.getincrementaldecoder(name)
        return lambda: strict(errors="replace")

    driver.getincrementaldecoder = lenient
