"""The same kills at the system calls themselves, by `strace`: also of what works below Python.

    python -m tests.crash.traced [--points N] [--seed S] [--jobs 2]

`strace` writes down the undisturbed life first; the points are the calls that touched the run. It
counts the calls of each kind of one thread, so a point is "the N-th fsync of a thread".
"""

from __future__ import annotations

import argparse
import gc
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.crash.processes import TRACE, Strike
from tests.crash.scenario import (
    STAGES,
    Lived,
    Stage,
    live,
    make_material,
    make_reference,
)
from tests.crash.sweep import Result, attempt, in_parallel, quick_place, say

if TYPE_CHECKING:
    from collections.abc import Sequence

CALLS = (
    "chmod",
    "close",
    "fchmod",
    "fdatasync",
    "fsync",
    "ftruncate",
    "getdents64",
    "link",
    "linkat",
    "mkdir",
    "mkdirat",
    "openat",
    "pwrite64",
    "pwritev",
    "rename",
    "renameat",
    "renameat2",
    "rmdir",
    "unlink",
    "unlinkat",
    "write",
    "writev",
)
_LINE = re.compile(r"(\d+) +(\w+)\(")


@dataclass(frozen=True, kw_only=True)
class Call:
    """One system call of the undisturbed life that touched the run."""

    number: int
    stage: Stage
    name: str
    at: int
    """Among the calls of this name of its thread, from 1."""
    changing: bool
    """Whether the disk is another one after it."""


def read_calls(lived: Lived) -> list[Call]:
    """The system calls on the run that were written down."""
    found: list[Call] = []
    stages: tuple[Stage, ...] = ("train", "rewind", "resume")
    trainings = 0
    logs = sorted((lived.folder / "processes").iterdir(), key=lambda p: int(p.name.split("-")[0]))
    for folder in logs:
        kind = folder.name.partition("-")[2]
        if not (folder / TRACE).exists():
            continue
        stage: Stage = "pin"
        if kind == "train":
            stage = stages[trainings]
            trainings += 1
        counts: Counter[tuple[str, str]] = Counter()
        for line in (folder / TRACE).read_text().splitlines():
            start = _LINE.match(line)
            if start is None:
                continue  # the end of a call that another thread came between
            counts[start[1], start[2]] += 1
            if str(lived.run) in line:
                at = counts[start[1], start[2]]
                changing = _changes(start[2], line)
                number = len(found) + 1
                found.append(
                    Call(number=number, stage=stage, name=start[2], at=at, changing=changing)
                )
    return found


def _changes(name: str, line: str) -> bool:
    if name == "openat":
        return "O_CREAT" in line or "O_TRUNC" in line
    return name not in ("close", "getdents64")


def main() -> int:
    """Sweep as the command line says; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.traced")
    parser.add_argument("--points", default="all", metavar="all|N", help="how many points")
    parser.add_argument("--point", type=int, metavar="N", help="only this one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    if shutil.which("strace") is None:
        say("There is no strace here.")
        return 2
    with tempfile.TemporaryDirectory(prefix="ckptui-crash-", dir=quick_place()) as temporary:
        folder = Path(temporary)
        base = make_material(folder)
        reference = make_reference(folder / "reference", base, clock=time.monotonic)
        traced = Lived(folder / "traced", base)
        every = Strike(at=0, calls=CALLS)
        live(reference, traced, "train", [(stage, every) for stage in STAGES])
        calls = read_calls(traced)
        say(f"{len(calls)} system calls on the run")
        chosen = calls
        if options.points != "all":
            # Between two calls that change something the disk is the same.
            found = [call for call in calls if call.changing]
            chosen = random.Random(options.seed).sample(found, min(len(found), int(options.points)))
        if options.point is not None:
            chosen = [calls[options.point - 1]]
        gc.freeze()
        begun = time.monotonic()

        def try_call(call: Call) -> Result:
            lived = Lived(folder / f"traced-{call.number}", base)
            strike = Strike(at=call.at, calls=(call.name,))
            return attempt(
                call.number,
                lived,
                lambda: live(reference, lived, call.stage, [(call.stage, strike)], through=False),
            )

        results = in_parallel(
            chosen, try_call, jobs=options.jobs, repeat=lambda n: _command(n, options.seed)
        )
        return _report(results, chosen, seconds=time.monotonic() - begun, seed=options.seed)


def _command(number: int, seed: int) -> str:
    return f"python -m tests.crash.traced --point {number} --seed {seed}"


def _report(results: Sequence[Result], chosen: Sequence[Call], *, seconds: float, seed: int) -> int:
    failed = sorted(r.number for r in results if r.error is not None)
    kinds = Counter(call.name for call in chosen)
    missed = sum(not r.hits for r in results if r.error is None)
    say(f"traced: {len(results)} points, {len(results) - len(failed)} passed, {seconds:.0f} s")
    say(f"  system calls: {', '.join(f'{kind} {n}' for kind, n in kinds.most_common())}")
    say(f"  ended before its point: {missed}")
    for number in failed:
        say(f"  FAILED: {_command(number, seed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
