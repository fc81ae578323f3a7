"""Kill a whole training at its file operations, start it again, and see that nothing is lost.

    python -m tests.crash.sweep [--points all|N] [--seed S] [--jobs 2] [--torn] [--twice]

Points are numbered through the scenario of `tests.crash.scenario`: the run, the pin, the rewind,
the resume. With threads at work the N-th operation is not the same one each time; the report tells
which it was. Exit code 1 if anything did not hold at any point.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tests.crash.processes import Strike
from tests.crash.scenario import (
    STAGES,
    Lived,
    Point,
    Reference,
    live,
    make_material,
    make_reference,
)
from tests.crash.scenario import points as all_points
from tests.crash.strike import READING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.crash.scenario import Stage


T = TypeVar("T")

EVERY = 4
"""Of the runs that were killed in their first command, every so-many-th goes on to the rewind: they
have all been found equal to the one whose rewind and resume are swept themselves."""


@dataclass(frozen=True, kw_only=True)
class Mode:
    """How each point is killed."""

    torn: bool = False
    """The file in hand is cut as well."""
    twice: bool = False
    """The process that is started again is killed as well."""

    @property
    def options(self) -> str:
        return " --torn" * self.torn + " --twice" * self.twice

    @property
    def name(self) -> str:
        return self.options.replace(" --", "+").lstrip("+") or "plain"


@dataclass(frozen=True, kw_only=True)
class Result:
    """What became of one point."""

    number: int
    hits: tuple[str, ...]
    """The operations before which a process was killed."""
    tidied: int
    """Leftovers at the end that only one more attempt cleared."""
    error: str | None
    traceback: str = ""


def sample(found: Sequence[Point], count: int | None, *, seed: int) -> list[Point]:
    """All points, or so many spread over all of them at random.

    Of a sample five in six are before an operation that changes something: between two of those
    the disk is the same.
    """
    if count is None or count >= len(found):
        return list(found)
    source = random.Random(seed)
    changing = [p for p in found if p.kind not in READING]
    reading = [p for p in found if p.kind in READING]
    few = min(len(reading), max(count // 6, count - len(changing)))
    chosen = _spread(changing, count - few, source) + _spread(reading, few, source)
    return sorted(chosen, key=lambda p: p.number)


def _spread(found: Sequence[Point], count: int, source: random.Random) -> list[Point]:
    """One of each of `count` stretches, none twice."""
    edges = [n * len(found) // count for n in range(count)] + [len(found)] if count else []
    return [found[source.randrange(a, b)] for a, b in pairwise(edges)]


def strikes(
    reference: Reference, point: Point, mode: Mode, source: random.Random
) -> list[tuple[Stage, Strike]]:
    """The kills of a point."""
    found = [Strike(at=point.at, torn=source.random() if mode.torn else None)]
    if mode.twice:
        # Most of the ways in which a start can be caught lie at its beginning.
        again = max(1, int(len(reference.kinds[point.stage]) ** source.random()))
        found.append(Strike(at=again, torn=source.random() if mode.torn else None))
    return [(point.stage, strike) for strike in found]


def attempt(number: int, lived: Lived, act: Callable[[], None], *, keep: bool = False) -> Result:
    """Live one life, and tell what became of it."""
    error, trace = None, ""
    try:
        act()
    except BaseException as e:  # noqa: BLE001 - whatever it is, the sweep must hear of it
        error = f"{type(e).__name__}: {e}"
        trace = traceback.format_exc()
    if not keep:
        shutil.rmtree(lived.folder, ignore_errors=True)
    return Result(
        number=number,
        hits=tuple(lived.hits),
        tidied=lived.tidied,
        error=error,
        traceback=trace,
    )


def in_parallel(
    chosen: Sequence[T], act: Callable[[T], Result], *, jobs: int, repeat: Callable[[int], str]
) -> list[Result]:
    """Do all that was chosen in `jobs` forked processes; failures are told as they come.

    Args:
        chosen: What to do.
        act: Does one.
        jobs: How many at a time.
        repeat: The command that repeats the one of this number.
    """
    queue, filling = os.pipe()
    hearing, telling = os.pipe()
    workers = []
    for _ in range(jobs):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.close(filling)
                os.close(hearing)
                while number := os.read(queue, 4):
                    _send(telling, act(chosen[int.from_bytes(number)]))
                code = 0
            finally:
                os._exit(code)
        workers.append(pid)
    os.close(queue)
    os.close(telling)
    # More than a pipe holds would wait for workers that wait to be heard.
    assert len(chosen) * 4 <= 65536, "more points than fit into a pipe"
    os.write(filling, b"".join(n.to_bytes(4) for n in range(len(chosen))))
    os.close(filling)
    results = []
    with os.fdopen(hearing, encoding="utf-8") as lines:
        for line in lines:
            raw = json.loads(line)
            result = Result(**{**raw, "hits": tuple(raw["hits"])})
            results.append(result)
            if result.error is not None:
                say(f"FAILED at point {result.number}, killed before: {'; '.join(result.hits)}")
                say(f"  {result.error}")
                say(f"  repeat: {repeat(result.number)}")
            elif len(results) % 100 == 0:
                say(f"  {len(results)} of {len(chosen)} points")
    for pid in workers:
        os.waitpid(pid, 0)
    assert len(results) == len(chosen), f"{len(chosen) - len(results)} points were not tried"
    return results


def _send(telling: int, result: Result) -> None:
    """Tell a result in one write of a size that does not mix with others'."""
    raw = asdict(result)
    raw["hits"] = [hit[:200] for hit in result.hits]
    raw["error"] = result.error and result.error[-1200:]
    raw["traceback"] = result.traceback[-600:]
    data = json.dumps(raw, ensure_ascii=True).encode() + b"\n"
    assert len(data) <= 4096, "a result is too long"
    os.write(telling, data)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def command(number: int, *, mode: Mode, seed: int) -> str:
    return f"python -m tests.crash.sweep --point {number} --seed {seed}{mode.options}"


def report(
    results: Sequence[Result], chosen: Sequence[Point], mode: Mode, *, seed: int, seconds: float
) -> bool:
    """Print what was killed and what became of it; whether all held."""
    failed = [r for r in results if r.error is not None]
    stages = Counter(p.stage for p in chosen)
    first = Counter(r.hits[0].split()[0] for r in results if r.hits)
    second = sum(len(r.hits) > 1 for r in results)
    missed = sum(not r.hits for r in results if r.error is None)
    tidied = sum(r.tidied > 0 for r in results)
    threads = sum(any("(thread)" in hit for hit in r.hits) for r in results)
    say(f"{mode.name}: {len(results)} points, {len(results) - len(failed)} passed, {seconds:.0f} s")
    say(f"  stages: {', '.join(f'{s} {stages[s]}' for s in STAGES if stages[s])}")
    say(f"  operations: {', '.join(f'{kind} {n}' for kind, n in first.most_common())}")
    cut = sum(any(" bytes" in hit for hit in r.hits) for r in results)
    say(
        f"  killed a second time: {second}; in another thread: {threads}; with a file cut: {cut}; "
        f"ended before its point: {missed}; cleared by one more attempt: {tidied}"
    )
    if failed:
        say(f"  {len(failed)} FAILED:")
    for result in sorted(failed, key=lambda r: r.number):
        say(f"    {command(result.number, mode=mode, seed=seed)}")
    return not failed


def main() -> int:
    """Sweep as the command line says; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.sweep")
    parser.add_argument("--points", default="all", metavar="all|N", help="how many points")
    parser.add_argument("--point", type=int, metavar="N", help="only this one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--torn", action="store_true", help="also cut the file in hand")
    parser.add_argument("--twice", action="store_true", help="also kill what is started again")
    parser.add_argument("--every-mode", action="store_true", help="all four of these")
    parser.add_argument("--changing", action="store_true", help="only where the disk changes")
    parser.add_argument("--through", action="store_true", help="all three commands at each point")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave everything there")
    options = parser.parse_args()
    modes = [Mode(torn=options.torn, twice=options.twice)]
    if options.every_mode:
        modes = [Mode(torn=torn, twice=twice) for torn in (False, True) for twice in (False, True)]
    with tempfile.TemporaryDirectory(prefix="ckptui-crash-", dir=quick_place()) as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        base = make_material(folder)
        reference = make_reference(folder / "reference", base, clock=time.monotonic)
        found = all_points(reference)
        say(f"{len(found)} points; undisturbed it takes {reference.seconds:.1f} s")
        # Between two operations that change something the disk is the same.
        wanted = [p for p in found if p.kind not in READING] if options.changing else found
        chosen = sample(
            wanted, None if options.points == "all" else int(options.points), seed=options.seed
        )
        if options.point is not None:
            # Threads make a process do some operations more or less than it did here.
            last = found[-1].number
            chosen = [found[min(options.point, last) - 1]]
        # What is forked from here shares these pages.
        gc.freeze()
        good = True
        for mode in modes:
            begun = time.monotonic()

            def try_point(point: Point, mode: Mode = mode) -> Result:
                lived = Lived(folder / f"{mode.name}-{point.number}", base)
                source = random.Random(f"{options.seed} {point.number}")
                killed = strikes(reference, point, mode, source)
                return attempt(
                    point.number,
                    lived,
                    lambda: live(
                        reference,
                        lived,
                        point.stage,
                        killed,
                        through=options.through or point.number % EVERY == 0,
                    ),
                    keep=options.keep is not None,
                )

            results = in_parallel(
                chosen,
                try_point,
                jobs=options.jobs,
                repeat=partial(command, mode=mode, seed=options.seed),
            )
            seconds = time.monotonic() - begun
            good &= report(results, chosen, mode, seed=options.seed, seconds=seconds)
            if options.point is not None and results[0].error is not None:
                say(results[0].traceback)
    return 0 if good else 1


def quick_place() -> Path | None:
    """Memory, where there is such a place: kills do not depend on what a disk holds back."""
    place = Path("/dev/shm")
    return place if os.access(place, os.W_OK) else None


if __name__ == "__main__":
    sys.exit(main())
