"""A browser without a terminal that tells when what a live run does is on its screen.

`python -m tests.benchmarks.live_view RUN SECONDS` writes one JSON line for each thing when it is
seen first, and one a second with its own memory.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

from ckptui.tui.app import Browser
from ckptui.tui.wishes import Wishes

LOOK_SECONDS = 0.02


def tell(**what: object) -> None:
    sys.stdout.write(json.dumps({"at": time.time(), **what}) + "\n")
    sys.stdout.flush()


def shown(app: Browser, lines: list[str]) -> set[str]:
    """The checkpoints of the list that are whole, as far as the screen shows them."""
    rows = [r.checkpoint for r in app.main.checkpoints.rows]
    text = "\n".join(lines)
    return {c.name for c in rows if c.complete and c.name in text}


async def watch(run: Path, seconds: float) -> None:
    app = Browser(run, Wishes(ascii_only=False))
    async with app.run_test(size=(160, 45)):
        end = time.monotonic() + seconds
        before: set[str] = set()
        known: Any = None
        step, second = -1, 0.0
        while time.monotonic() < end:
            await asyncio.sleep(LOOK_SECONDS)
            rows = app.main.checkpoints.rows
            if rows is not known or before != {r.checkpoint.name for r in rows}:
                known = rows
                strips = app.screen._compositor.render_strips()
                now = shown(app, ["".join(s.text for s in strip) for strip in strips])
                for name in now - before:
                    tell(what="saved", name=name)
                for name in before - {r.checkpoint.name for r in rows}:
                    tell(what="gone", name=name)
                before = now
            newest = _newest_step(app)
            if newest > step:
                step = newest
                tell(what="logged", step=step)
            if time.monotonic() >= second:
                second = time.monotonic() + 1.0
                tell(what="memory", kib=_memory())


def _newest_step(app: Browser) -> int:
    curves = app.reader.current_series.curves
    curve = curves.get("loss")
    return int(curve[-1][0]) if curve else -1


def _memory() -> int:
    """Resident memory in KiB."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


if __name__ == "__main__":
    asyncio.run(watch(Path(sys.argv[1]), float(sys.argv[2])))
