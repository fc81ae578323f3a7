"""Text to the clipboard of the terminal that the user sits at, over ssh and in tmux too.

Plain OSC 52 is lost in tmux with its default settings, so tmux is asked first to pass it on.
"""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from ckptui.printable import is_plain

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMEOUT = 3.0
"""Seconds that tmux may take."""


def why_not(text: str) -> str | None:
    """Why a text is not copied; None where it may be: what is pasted into a shell is obeyed."""
    if is_plain(text):
        return None
    if is_plain("".join(c for c in text if not "\ud800" <= c <= "\udfff")):
        return "Not copied: it holds bytes that are no text."
    return "Not copied: it holds characters that a shell would obey."


def told(way: str) -> str:
    """What became of a text, in words that promise no more than is known."""
    if way == "tmux":
        return "Copied by tmux: paste it there, or anywhere if your terminal takes it from tmux."
    return "Copied by OSC 52, which some terminals ignore: then select the text with the mouse."


def through_tmux(text: str, env: Mapping[str, str] = os.environ) -> bool:
    """Give a text to tmux and the terminal around it; False where there is no tmux to do it."""
    if not env.get("TMUX"):
        return False
    try:
        done = subprocess.run(
            ["tmux", "load-buffer", "-w", "-"],
            input=text.encode("utf-8", "surrogateescape"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
