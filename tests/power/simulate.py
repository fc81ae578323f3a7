"""`python -m tests.power.simulate`: every power loss during recorded scenarios, looked at.

For every cut of a recording: nothing lost, each operation that was not durable lost (each write
also torn, and its file only made longer), each pair of them lost, all lost; and random subsets over
the whole recording. Each directory is rebuilt for real, and ckptui is asked what it makes of it.
"""

from __future__ import annotations

import argparse
import itertools
import pickle
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ckptui import lock
from tests.power import scenarios
from tests.power.checks import RUNS, Facts, judge, look, promises
from tests.power.model import Crashes, Fate, Fates, Tree, Write
from tests.power.recorder import Recording

HERE = Path(__file__).parent.parent.parent
_SHOWN = 20


@dataclass
class Result:
    """What came out for one scenario."""

    scenario: str
    operations: int
    prefixes: int = 0
    cases: int = 0
    """Combinations of a cut and what was lost there."""
    directories: int = 0
    """Different directories among them, each rebuilt and looked at."""
    resumed: int = 0
    """Directories in which training went on for real."""
    failures: dict[str, tuple[int, int, str]] = field(default_factory=dict)
    """What is wrong: how often, and the example with the fewest losses."""
    failed: int = 0
    seconds: float = 0.0

    def line(self) -> str:
        return (
            f"{self.scenario}: {self.operations} operations, {self.prefixes} prefixes, "
            f"{self.cases} power losses, {self.directories} different directories rebuilt, "
            f"{self.resumed} gone on with, {self.failed} failures, {self.seconds:.1f} s"
        )


def scratch() -> Path:
    """A new folder, in memory where the system has a place for that."""
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="ckptui-power-", dir=memory if memory.is_dir() else None))


def record(name: str, root: Path, *, wrapper: tuple[str, ...] = ()) -> Recording:
    """Run a scenario in a process of its own, and bring back what it did."""
    with tempfile.TemporaryDirectory(prefix="ckptui-power-") as folder:
        output = Path(folder) / "recording"
        command = [sys.executable, "-m", "tests.power.record", name, str(root), str(output)]
        done = subprocess.run(
            [*wrapper, *command], cwd=HERE, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        recording = pickle.loads(output.read_bytes())
    assert isinstance(recording, Recording)
    return recording


def enumerate_losses(crashes: Crashes, *, seed: int, subsets: int) -> Iterator[tuple[int, Fates]]:
    """Every cut with everything that may be lost there, and random subsets."""
    count = len(crashes.operations)
    for cut in range(count + 1):
        loose = crashes.loose(cut)
        yield cut, {}
        if not loose:
            continue
        yield cut, dict.fromkeys(loose, "lost")
        for i in loose:
            yield from ((cut, {i: fate}) for fate in _fates(crashes, i))
        for i, j in itertools.combinations(loose, 2):
            yield cut, {i: "lost", j: "lost"}
    yield from random_losses(crashes, seed=seed, subsets=subsets)


def random_losses(crashes: Crashes, *, seed: int, subsets: int) -> Iterator[tuple[int, Fates]]:
    """Random cuts, each with a random part of what may be lost there."""
    chance = random.Random(seed)
    for _ in range(subsets):
        cut = chance.randrange(len(crashes.operations) + 1)
        share = chance.random()
        yield (
            cut,
            {
                i: chance.choice(_fates(crashes, i))
                for i in crashes.loose(cut)
                if chance.random() < share
            },
        )


def _fates(crashes: Crashes, i: int) -> tuple[Fate, ...]:
    """What may befall an operation; a truncation is either there or not."""
    operation = crashes.operations[i]
    return ("lost", "torn", "zeros") if isinstance(operation, Write) else ("lost",)


class Simulation:
    """The directories of one recording, each looked at once."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.crashes = Crashes(recording.operations, recording.start)
        self.promises = promises(recording)
        self._facts: dict[int, dict[str, Facts]] = {}
        self._verified: dict[int, str] = {}
        self._on_disk: Tree = {}
        self._started = time.monotonic()
        self._cuts: set[int] = set()
        self._went_on: set[int] = set()
        self.result = Result(recording.scenario, len(recording.operations))
        shutil.rmtree(recording.root)
        recording.root.mkdir()

    def examine(self, cut: int, fates: Fates, *, go_on: bool = False) -> list[str]:
        """Look at one directory; what is wrong with it."""
        tree = self.crashes.tree(cut, fates)
        key = hash(frozenset(tree.items()))
        self.result.cases += 1
        self._cuts.add(cut)
        if key not in self._facts:
            self._rebuild(tree)
            root = self.recording.root
            self._facts[key] = {run: look(root / run, tree, run, self._verified) for run in RUNS}
        found = judge(cut, tree, self._facts[key], self.promises)
        if go_on and not found and key not in self._went_on:
            self._went_on.add(key)
            found = self._go_on(tree)
        if found:
            self.result.failed += 1
            for what in found:
                count, least, where = self.result.failures.get(what, (0, len(fates) + 1, ""))
                if len(fates) < least:
                    least, where = len(fates), self.crashes.explain(cut, fates)
                self.result.failures[what] = (count + 1, least, where)
        return found

    def finish(self) -> Result:
        self.result.prefixes = len(self._cuts)
        self.result.directories = len(self._facts)
        self.result.resumed = len(self._went_on)
        self.result.seconds = time.monotonic() - self._started
        return self.result

    def _go_on(self, tree: Tree) -> list[str]:
        """Use what is left as its user would; the directory is spoilt afterwards."""
        self._rebuild(tree)
        scenario = scenarios.SCENARIOS[self.recording.scenario]
        found = []
        for run in RUNS:
            path = self.recording.root / run
            if not path.is_dir() and run != RUNS[0]:
                continue
            try:
                scenario.go_on(path)
            except Exception as e:  # noqa: BLE001 - whatever it is, it is this case's failure
                found.append(f"{run}: going on: {type(e).__name__}: {e}")
        shutil.rmtree(self.recording.root)
        self.recording.root.mkdir()
        self._on_disk = {}
        return found

    def _rebuild(self, tree: Tree) -> None:
        """Make the directory what the tree says, from what it is."""
        root, old = self.recording.root, self._on_disk
        for path in sorted(old.keys() - tree.keys(), reverse=True):
            place = root / path
            if old[path] is None:
                place.rmdir()
            else:
                place.unlink()
        for path in sorted(tree):
            content = tree[path]
            if path in old and (old[path] is None) == (content is None) and old[path] == content:
                continue
            if content is None:
                (root / path).mkdir()
            else:
                (root / path).write_bytes(content)
        self._on_disk = tree


def simulate(
    name: str, *, seed: int, subsets: int, seconds: float | None = None, every: int = 10
) -> Result:
    """Look at the power losses of one scenario.

    Args:
        name: The scenario.
        seed: Of the random subsets, and of the sample.
        subsets: How many random subsets.
        seconds: Look at a random sample for about so long instead of at all.
        every: Go on with training in one of so many directories.
    """
    root = scratch()
    lock.STILL_SECONDS = 0.0  # after a power loss nobody is left whom to watch
    try:
        recording = record(name, root)
        simulation = Simulation(recording)
        losses = enumerate_losses(simulation.crashes, seed=seed, subsets=subsets)
        if seconds is not None:
            losses = sample(simulation.crashes, seed=seed, subsets=subsets)
        end = time.monotonic() + seconds if seconds is not None else None
        for number, (cut, fates) in enumerate(losses):
            simulation.examine(cut, fates, go_on=number % every == 0)
            if end is not None and time.monotonic() > end:
                break
        return simulation.finish()
    finally:
        shutil.rmtree(root, ignore_errors=True)


def sample(crashes: Crashes, *, seed: int, subsets: int) -> Iterator[tuple[int, Fates]]:
    """The same losses in an order of which any beginning is a fair sample.

    First every cut with nothing and with all lost, then the rest shuffled.
    """
    chance = random.Random(seed)
    cuts = list(range(len(crashes.operations) + 1))
    chance.shuffle(cuts)
    for cut in cuts:
        yield cut, {}
        yield cut, dict.fromkeys(crashes.loose(cut), "lost")
    rest = list(enumerate_losses(crashes, seed=seed, subsets=subsets))
    chance.shuffle(rest)
    yield from rest


def main() -> int:
    """Simulate, print one line a scenario, and tell by the exit code whether all is well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenarios", nargs="*", help="default: all of them")
    parser.add_argument("--all", action="store_true", help="every loss, not a sample")
    parser.add_argument("--seconds", type=float, default=60.0, help="for the sample, in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--subsets", type=int, default=1000)
    parser.add_argument("--every", type=int, default=10)
    args = parser.parse_args()
    names = args.scenarios or list(scenarios.SCENARIOS)
    results = []
    for name in names:
        seconds = None if args.all else args.seconds / len(names)
        result = simulate(
            name, seed=args.seed, subsets=args.subsets, seconds=seconds, every=args.every
        )
        results.append(result)
        print(result.line(), flush=True)
        for what, (count, _, where) in list(result.failures.items())[:_SHOWN]:
            print(f"  {count} times: {what}\n    for example: {where}", flush=True)
    print(
        f"in all: {sum(r.prefixes for r in results)} prefixes, "
        f"{sum(r.cases for r in results)} power losses, "
        f"{sum(r.directories for r in results)} directories, "
        f"{sum(r.resumed for r in results)} gone on with, "
        f"{sum(r.failed for r in results)} failures"
    )
    return int(any(r.failed for r in results))


if __name__ == "__main__":
    raise SystemExit(main())
