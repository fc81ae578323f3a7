"""What Textual's driver for terminals does otherwise than this program needs, put right.

It offers no way to do so but to give its module other parts: a decoder that takes any byte, and a
selector that looks up more often.
"""

from __future__ import annotations

import codecs
import selectors
from types import SimpleNamespace
from typing import Any

LOOK_SECONDS = 0.03
"""How often it is looked whether a lone esc has waited long enough."""


class _Wakeful(selectors.SelectSelector):
    """Returns sooner than asked: a lone esc is told at such a moment, and a tenth is felt."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready within a short while."""
        return super().select(None if timeout is None else min(timeout, LOOK_SECONDS))


def _lenient(name: str) -> Any:
    """The decoder of an encoding that makes U+FFFD, which is no key of ours, of what is none.

    Such bytes come from Latin-1 terminals, meta keys of eight bits, and pastes. Strictly decoded,
    the first one ends the app.
    """
    strict = codecs.getincrementaldecoder(name)
    return lambda: strict(errors="replace")


def adapt() -> None:
    """Take any byte from the keyboard, and tell a lone esc soon."""
    try:
        from textual.drivers import linux_driver  # noqa: PLC0415 - there is none on Windows
    except ImportError:
        return
    driver: Any = linux_driver
    driver.getincrementaldecoder = _lenient
    driver.selectors = SimpleNamespace(**vars(selectors) | {"SelectSelector": _Wakeful})
