"""Ending when told to, and when the terminal is gone, even if the interface no longer can.

A terminal that has gone away stops whoever writes to it: Textual's writer dies with the first
error, and the event loop then waits for it for ever, deaf to signals that are handled in the loop.
So signals are taken where Python itself takes them, and a thread looks whether the terminal is
still there.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

SIGNALS = tuple(
    getattr(signal, name)
    for name in ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGINT")
    if hasattr(signal, name)
)
GRACE_SECONDS = 10.0
"""How long the interface has to end after a signal; a removal stops after what it is at."""
GONE_SECONDS = 2.0
"""The same once the terminal is gone: there is nothing left to restore."""
_LOOK_SECONDS = 1.0


def heed(told: Callable[[int], None]) -> None:
    """From now on hand signals that end a program to `told`, and end it if that takes too long.

    Args:
        told: Called in the main thread, wherever it is, or in one of ours: it may do no more than
            pass the word on.
    """

    def taken(number: int, _: FrameType | None) -> None:
        hung_up = number == getattr(signal, "SIGHUP", None)
        _end_in_any_case(128 + number, GONE_SECONDS if hung_up else GRACE_SECONDS)
        told(number)

    for number in SIGNALS:
        signal.signal(number, taken)
    hang_up = getattr(signal, "SIGHUP", signal.SIGTERM)
    threading.Thread(
        target=_watch, args=(told, hang_up), name="ckptui-terminal", daemon=True
    ).start()


def _watch(told: Callable[[int], None], hang_up: int) -> None:
    """Notice that the terminal is gone, also where no signal says so."""
    try:
        import termios  # noqa: PLC0415 - there is none on Windows

        fd = sys.__stdin__.fileno() if sys.__stdin__ is not None else 0
        termios.tcgetattr(fd)
    except (ImportError, OSError, ValueError, termios.error):
        return
    while True:
        time.sleep(_LOOK_SECONDS)
        try:
            termios.tcgetattr(fd)
        except (OSError, termios.error):
            _end_in_any_case(128 + hang_up, GONE_SECONDS)
            told(hang_up)
            return


def _end_in_any_case(code: int, seconds: float) -> None:
    def end() -> None:
        time.sleep(seconds)
        os._exit(code)

    threading.Thread(target=end, name="ckptui-end", daemon=True).start()
