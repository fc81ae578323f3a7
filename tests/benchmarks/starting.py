"""Until the first screen that can be used, beside a bare Textual app started the same way.

Each program gets a pseudo-terminal of 120x40. A screen can be used once it shows the name of a
checkpoint; an arrow key sent at that moment tells when the list answers.
"""

from __future__ import annotations

import importlib.util
import re
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from tests.cli.harness import environment
from tests.tui.terminal import CKPTUI, Pty

if TYPE_CHECKING:
    from pathlib import Path

SIZE = (120, 40)
BARE = """
from textual.app import App
from textual.widgets import Static
class Bare(App):
    def compose(self):
        yield Static("bare and ready")
Bare().run()
"""
BOUNDS = {100: 1.4, 5000: 2.0}
PEERS = ("posting", "harlequin")


class Start(NamedTuple):
    """Seconds from the start of the process."""

    usable: float
    """The first frame with a row was written."""
    answered: float
    """An arrow key that was sent then has moved the cursor."""


def start_browser(run: Path, count: int) -> Start:
    """Start the browser on a run of `count` checkpoints, and leave it."""
    newest, second = f"step_{count}".encode(), f"step_{count - 1}".encode()
    at_second = re.compile(rb">(?:\x1b\[[0-9;]*m|[ A-Za-z!~*-])*" + second + rb"\b")
    with Pty((*CKPTUI, "browse", run), size=SIZE) as terminal:
        usable = terminal.until(lambda data: newest in data)
        terminal.send(b"\x1b[B")
        answered = terminal.until(lambda data: at_second.search(data) is not None)
        terminal.send(b"q")
        terminal.ended()
    return Start(usable, answered)


def start_bare() -> float:
    """Start an app that shows one line of text."""
    with Pty((sys.executable, "-c", BARE), size=SIZE) as terminal:
        usable = terminal.until(lambda data: b"bare and ready" in data)
        terminal.send(b"\x11")  # ctrl+q
        terminal.ended()
    return usable


def start_peer(name: str) -> float | None:
    """How long `NAME --help` takes; None where it is not installed."""
    if importlib.util.find_spec(name) is None:
        return None
    begun = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", name, "--help"], env=environment(), check=True, capture_output=True
    )
    return time.perf_counter() - begun


def report(runs: dict[int, Path], rounds: int) -> None:
    """Print medians and ratios of interleaved rounds; the first round warms up and is dropped."""
    bare: list[float] = []
    starts: dict[int, list[Start]] = {count: [] for count in runs}
    for _ in range(rounds + 1):
        bare.append(start_bare())
        for count, run in runs.items():
            starts[count].append(start_browser(run, count))
    bare = bare[1:]
    base = statistics.median(bare)
    print(f"\nFirst usable screen from process start, 120x40, median (least) of {rounds}")
    print(f"  {'bare Textual app':<34} {base * 1000:6.0f} ms ({min(bare) * 1000:.0f})")
    for count, found in starts.items():
        usable = [s.usable for s in found[1:]]
        answered = [s.answered for s in found[1:]]
        ratio = statistics.median(usable) / base
        bound = BOUNDS.get(count)
        verdict = "" if bound is None else f", bound {bound}: {met(ratio <= bound)}"
        print(
            f"  {f'{count:,} checkpoints':<34} {statistics.median(usable) * 1000:6.0f} ms "
            f"({min(usable) * 1000:.0f})  {ratio:.2f} times bare "
            f"({min(usable) / min(bare):.2f} of the least){verdict}"
        )
        print(
            f"  {'  a key sent then is answered':<34} {statistics.median(answered) * 1000:6.0f} ms "
            f"({min(answered) * 1000:.0f})  {statistics.median(answered) / base:.2f} times bare"
        )
    for name in PEERS:
        took = start_peer(name)
        shown = "not installed" if took is None else f"{took * 1000:6.0f} ms"
        print(f"  {name + ' --help':<34} {shown}")


def met(holds: bool) -> str:
    """The verdict on a bound."""
    return "bound met" if holds else "bound MISSED"
