"""How soon a browser shows what a training does: `python -m tests.benchmarks.live --minutes 10`.

The training is the bundled recipe on the demo's model, or with `--busy` a process that logs and
saves faster than any. The disk is looked at here, 50 times a second, for the moment at which each
checkpoint, row of metrics and removal is there; `live_view` tells when it is on the screen.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cli.harness import HERE, environment
from tests.factory import make_run

if TYPE_CHECKING:
    from collections.abc import Iterator

LOOK_SECONDS = 0.02
BOUND = 2.0
"""Seconds after which what happened is to be seen."""


@dataclass
class Figures:
    """What was found."""

    delays: dict[str, list[float]] = field(default_factory=dict)
    """Seconds from the disk to the screen, by what happened."""
    missed: dict[str, int] = field(default_factory=dict)
    """What was never shown: it was gone before, or came at the very end."""
    memory: list[int] = field(default_factory=list)
    """KiB, one a second."""

    def report(self) -> None:
        """Print them."""
        for what, delays in self.delays.items():
            if delays:
                late = sum(1 for d in delays if d > BOUND)
                print(
                    f"  {what:<8} {len(delays):5} seen, median {statistics.median(delays):.2f} s, "
                    f"most {max(delays):.2f} s, later than {BOUND:.0f} s: {late}, "
                    f"never shown: {self.missed[what]}"
                )
        third = max(1, len(self.memory) // 3)
        parts = [self.memory[5:third], self.memory[third : 2 * third], self.memory[2 * third :]]
        means = [statistics.mean(part) / 1024 for part in parts if part]
        print(
            "  memory   start, middle, end (means of thirds): "
            + ", ".join(f"{mean:.1f} MiB" for mean in means)
            + f"; last {self.memory[-1] / 1024:.1f} MiB"
        )


class Disk:
    """Looks at a run's folder for as long as it is the context, and notes when things happen."""

    def __init__(self, run: Path) -> None:
        self.saved: dict[str, float] = {}
        self.gone: dict[str, float] = {}
        self.logged: list[tuple[int, float]] = []
        self._run = run
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Disk:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        known: set[str] = set()
        size = 0
        while not self._over.wait(LOOK_SECONDS):
            now = time.time()
            with suppress(FileNotFoundError):
                names = {n for n in os.listdir(self._run) if n.startswith(("step_", "epoch_"))}
                for name in names - known:
                    self.saved[name] = now
                for name in known - names:
                    self.gone[name] = now
                known = names
                grown = (self._run / "metrics.jsonl").stat().st_size
                if grown > size:
                    size = grown
                    step = last_step(self._run / "metrics.jsonl")
                    if step is not None:
                        self.logged.append((step, now))


def last_step(log: Path) -> int | None:
    """The step of the last whole line of a log of metrics."""
    with log.open("rb") as f:
        f.seek(max(0, f.seek(0, os.SEEK_END) - 4096))
        lines = f.read().split(b"\n")
    with suppress(IndexError, ValueError, KeyError):
        return int(json.loads(lines[-2])["step"])
    return None


def measure(run: Path, seconds: float) -> Figures:
    """Watch a live run for so long."""
    view = subprocess.Popen(
        [sys.executable, "-m", "tests.benchmarks.live_view", str(run), str(seconds)],
        cwd=HERE,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    with Disk(run) as disk:
        begun = time.time()
        out, _ = view.communicate()
        ended = time.time()
    assert view.returncode == 0
    seen = [json.loads(line) for line in out.splitlines()]
    figures = Figures(memory=[s["kib"] for s in seen if s["what"] == "memory"])
    first = min(s["at"] for s in seen) + 1.0  # what was there before it looked says nothing
    last = ended - 2 * BOUND
    for what, happened in (("saved", disk.saved), ("gone", disk.gone)):
        at = {s["name"]: s["at"] for s in seen if s["what"] == what}
        due = {n: t for n, t in happened.items() if max(begun, first) < t < last}
        figures.delays[what] = [at[n] - t for n, t in due.items() if n in at]
        figures.missed[what] = sum(1 for n in due if n not in at)
    steps = [(s["step"], s["at"]) for s in seen if s["what"] == "logged"]
    delays = []
    for step, when in disk.logged:
        if max(begun, first) < when < last:
            delays.append(next((at for s, at in steps if s >= step), ended) - when)
    figures.delays["logged"], figures.missed["logged"] = delays, 0
    return figures


@contextmanager
def busy(folder: Path) -> Iterator[Path]:
    """A run of a process that logs ten rows and saves a checkpoint each second."""
    run = make_run(folder / "busy", policy=["keep-last 3"])
    command = [sys.executable, "-m", "tests.tui.busy_trainer", str(run)]
    process = subprocess.Popen(command, cwd=HERE, env=environment(), stdin=subprocess.PIPE)
    try:
        yield run
    finally:
        process.communicate()


@contextmanager
def recipe(folder: Path) -> Iterator[Path]:
    """A run of the bundled recipe that goes on until the context ends."""
    from recipe_integration import demo

    material, run = folder / demo.MATERIAL, folder / "live"
    demo.write_material(material)
    settings = demo.settings(material, run) | {"max_steps": 100_000}
    config = folder / "live.yaml"
    config.write_text(json.dumps(settings, default=str), encoding="utf-8")
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "recipe_integration.full_finetune_single_device"),
            *("--config", str(config)),
        ],
        cwd=HERE,
        env=environment(OMP_NUM_THREADS="1"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while not (run / "metrics.jsonl").exists():
            assert process.poll() is None
            time.sleep(0.1)
        yield run
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--busy", action="store_true", help="no torch: ten rows a second")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ckptui-live-") as folder:
        training = busy if options.busy else recipe
        with training(Path(folder)) as run:
            print(f"{training.__name__}, {options.minutes:g} minutes, seconds from disk to screen")
            measure(run, options.minutes * 60).report()


if __name__ == "__main__":
    main()
