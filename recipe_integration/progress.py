"""What a person sees while training runs: a bar on a terminal, a plain line now and then elsewhere.

Everything goes to stderr.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
import time
from typing import TYPE_CHECKING, Never

from tqdm import tqdm

from ckptui.printable import visible

if TYPE_CHECKING:
    from collections.abc import Mapping

PLAIN_EVERY = 10.0
"""Seconds between plain lines."""


class Progress:
    """The steps of one attempt."""

    def __init__(self, *, total: int, done: int) -> None:
        self._total = total
        self._last_line = time.monotonic()
        self._warned = False
        self._bar: tqdm[Never] | None = None
        if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            # The monitor is a thread, and data workers are forked.
            tqdm.monitor_interval = 0
            self._bar = tqdm(
                total=total, initial=done, unit="step", dynamic_ncols=True, file=sys.stderr
            )

    def step(self, step: int, *, loss: float, lr: float) -> None:
        """Show that an optimizer step is done."""
        if not math.isfinite(loss) and not self._warned:
            self._warned = True
            self.say(f"The loss of step {step} is not finite ({loss}); training will not recover.")
        if self._bar is not None:
            self._bar.set_postfix_str(f"loss {loss:.4f}, lr {lr:.2e}", refresh=False)
            self._bar.update(step - self._bar.n)
            return
        now = time.monotonic()
        if now - self._last_line >= PLAIN_EVERY:
            self._last_line = now
            self.say(f"step {step}/{self._total}: loss {loss:.4f}, lr {lr:.2e}")

    def saved(self, name: str, values: Mapping[str, float]) -> None:
        """Show that a checkpoint stands."""
        losses = [f"{key} {values[key]:.4f}" for key in ("loss", "eval_loss") if key in values]
        self.say(f"saved {name}: {', '.join(losses)}")

    def say(self, text: str) -> None:
        """Print a line without breaking the bar."""
        if self._bar is None:
            say(text)
            return
        with contextlib.suppress(OSError, ValueError):
            self._bar.write(visible(text), file=sys.stderr)

    def close(self) -> None:
        """Leave the bar as it stands."""
        if self._bar is not None:
            self._bar.close()


def say(text: str) -> None:
    """Print a line to stderr, past a bar that may stand there.

    A terminal that went away stops no training.
    """
    with contextlib.suppress(OSError, ValueError):
        if sys.stderr.isatty():
            tqdm.write(visible(text), file=sys.stderr)
        else:
            print(visible(text), file=sys.stderr, flush=True)  # noqa: T201 - a script's own output
