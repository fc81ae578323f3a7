"""How long keys wait, and leaving takes, on a mount that is slow or never answers."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from tests.benchmarks.starting import SIZE, met
from tests.tui import slow_disk
from tests.tui.terminal import Pty
from tests.tui.test_slow_mounts import answers, leave

BOUND = 0.1
"""Seconds within which a key is answered; Textual waits as long to tell esc from a sequence."""
MOUNTS = (
    ("every look takes 5 ms", 0.005, ""),
    ("a checkpoint never answers", 0.0, "step_2500"),
    ("the run never answers", 0.0, "run.json"),
)


def report(run: Path, rounds: int) -> None:
    """Print the times for each mount."""
    print(f"\nOn slow mounts, {run.name}, 120x40, while the first scan goes on; ms")
    print(f"  {'':<28} first frame   ? answered (most)   esc answered (most)   q to the end")
    for name, seconds, hung in MOUNTS:
        with tempfile.NamedTemporaryFile() as log:
            command = slow_disk.command(
                run, "browse", run, seconds=seconds, hung=hung, log=Path(log.name)
            )
            with Pty(command, size=SIZE) as terminal:
                first = terminal.until(lambda data: b"ckptui" in data)
                terminal.quiet(1.0, patience=1.0)
                opened, closed = answers(terminal, rounds=rounds)
                left = leave(terminal)
            looks = len(Path(log.name).read_text(encoding="utf-8").splitlines())
        print(
            f"  {name:<28} {first * 1000:11.0f}   {_span(opened):>17}   {_span(closed):>19}   "
            f"{left * 1000:12.0f}   {met(max(opened) <= BOUND)}, {looks} looks by the event loop"
        )


def _span(values: list[float]) -> str:
    return f"{statistics.median(values) * 1000:.0f} ({max(values) * 1000:.0f})"
