"""What Textual's driver for terminals does otherwise than this program needs, put right.

It offers no way to do so but to give its module other parts: a decoder that takes any byte and
knows where a paste ends, and a selector that looks up more often.
"""

from __future__ import annotations

import codecs
import selectors
from types import SimpleNamespace
from typing import Any

from ckptui import display

LOOK_SECONDS = 0.03
"""How often it is looked whether a lone esc has waited long enough."""

_ESC = "\x1b"
_BEGIN, _END = "\x1b[200~", "\x1b[201~"
"""What a terminal puts around pasted text."""


class _Wakeful(selectors.SelectSelector):
    """Returns sooner than asked: a lone esc is told at such a moment, and a tenth is felt."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready within a short while."""
        return super().select(None if timeout is None else min(timeout, LOOK_SECONDS))


class _Lenient:
    """Makes U+FFFD, which is no key of ours, of bytes that are none; and shows esc in a paste.

    Such bytes come from Latin-1 terminals, meta keys of eight bits, and pastes. Strictly decoded,
    the first one ends the app. An esc within pasted text, which tmux lets through, would end the
    paste for Textual, and what follows would be obeyed as keys.
    """

    def __init__(self, name: str) -> None:
        self._strict = codecs.getincrementaldecoder(name)(errors="replace")
        self._pasting = False
        self._before = ""
        """The end of what was handed on: the beginning of a paste may come in two parts."""
        self._held = ""
        """What may be the beginning of the end of a paste."""

    def decode(self, data: bytes, final: bool = False) -> str:
        """The text, as far as it can be told."""
        text, self._held = self._held + self._strict.decode(data, final), ""
        parts = []
        while text:
            part, text = self._pasted(text) if self._pasting else self._typed(text)
            parts.append(part)
            if self._held:
                break
        if final:
            parts.append(self._held)
        return "".join(parts)

    def _typed(self, text: str) -> tuple[str, str]:
        at = (self._before + text).find(_BEGIN)
        if at < 0:
            self._before = (self._before + text)[1 - len(_BEGIN) :]
            return text, ""
        end = at + len(_BEGIN) - len(self._before)
        self._before, self._pasting = "", True
        return text[:end], text[end:]

    def _pasted(self, text: str) -> tuple[str, str]:
        inside, esc, after = text.partition(_ESC)
        if not esc:
            return inside, ""
        if (esc + after).startswith(_END):
            self._pasting = False
            return inside + _END, (esc + after)[len(_END) :]
        if _END.startswith(esc + after):
            self._held = esc + after
            return inside, ""
        return inside + display.visible(_ESC), after


def adapt() -> None:
    """Take any byte from the keyboard, keep a paste whole, and tell a lone esc soon."""
    try:
        from textual.drivers import linux_driver  # noqa: PLC0415 - there is none on Windows
    except ImportError:
        return
    driver: Any = linux_driver
    driver.getincrementaldecoder = lambda name: lambda: _Lenient(name)
    driver.selectors = SimpleNamespace(**vars(selectors) | {"SelectSelector": _Wakeful})
