"""What the browser costs, beside its peers: `python -m tests.benchmarks.browser [PART ...]`.

Other work on the machine makes all of it slower; the rounds of one part are interleaved, so that
ratios hold nevertheless. Nothing is asserted: a bound is printed as met or missed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.benchmarks import machine, mounts, starting, written
from tests.benchmarks.many import run_of
from tests.cli.harness import HERE, environment

STALL = 0.05
"""Seconds that a key may wait for the event loop."""
PARTS = ("start", "stalls", "bytes", "mounts")


def starts(folder: Path, rounds: int, counts: tuple[int, ...] = (100, 5000)) -> None:
    """Until the first usable screen."""
    starting.report({count: run_of(count, folder) for count in counts}, rounds)


def stalls(folder: Path, rounds: int, count: int = 20_000) -> None:
    """The longest that the event loop kept a key waiting, by what was being done."""
    run = run_of(count, folder)
    found: dict[str, list[dict[str, Any]]] = {"browser": [], "table": []}
    for _ in range(rounds):
        for which, rows in found.items():
            rows.append(_driven(which, run))
    print(
        f"\nWorst stall of the event loop, {count:,} checkpoints, 120x40, ms: median (most) of the "
        f"worst of {rounds} processes; what the worst of the median process went to"
    )
    print(f"  {'':<22} {'browser':>15} {'stock table':>15}   own/others/gc  beats > 50 ms")
    for phase in found["browser"][0]:
        mine, theirs = (_worst(found[which], phase) for which in ("browser", "table"))
        rows = sorted(found["browser"], key=lambda r: float(r[phase]["worst"]["late"]))
        typical = rows[len(rows) // 2][phase]
        parts = "/".join(
            f"{typical['worst'][name] * 1000:.0f}" for name in ("own", "others", "collecting")
        )
        over = statistics.median(r[phase]["over 50 ms"] for r in found["browser"])
        verdict = starting.met(statistics.median(mine) <= STALL)
        print(
            f"  {phase:<22} {_span(mine):>15} {_span(theirs):>15}   {parts:<13}  {over:.0f} of "
            f"{typical['beats']}, {verdict}"
        )


def _driven(which: str, run: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.stalls", which, str(run)],
        cwd=HERE,
        env=environment(),
        stdout=subprocess.PIPE,
        check=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _worst(rows: list[dict[str, Any]], phase: str) -> list[float]:
    return [float(r[phase]["worst"]["late"]) for r in rows if phase in r]


def _span(values: list[float]) -> str:
    if not values:
        return "-"
    return f"{statistics.median(values) * 1000:.0f} ({max(values) * 1000:.0f})"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=[], help=f"of {', '.join(PARTS)}; default all")
    parser.add_argument("--rounds", type=int, default=0, help="of each part; default 15, 3 and 1")
    parser.add_argument("--count", type=int, default=20_000, help="checkpoints of the stalls")
    parser.add_argument("--folder", type=Path, help="keeps the runs for the next time")
    options = parser.parse_args()
    parts = options.parts or PARTS
    with tempfile.TemporaryDirectory(prefix="ckptui-benchmark-") as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        print("\n".join(machine.describe(folder)))
        if "start" in parts:
            starts(folder, options.rounds or 15)
        if "stalls" in parts:
            stalls(folder, options.rounds or 3, options.count)
        if "bytes" in parts:
            written.report(run_of(5000, folder))
        if "mounts" in parts:
            mounts.report(run_of(5000, folder), options.rounds or 10)
        print(machine.load())


if __name__ == "__main__":
    main()
