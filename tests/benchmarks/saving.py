"""What saving costs a training, by ckptui and by its peers: `python -m tests.benchmarks.saving`.

One run measures everything: each method saves the same model and AdamW state in a process of its
own, from a training on one thread with one core free. Beside each save stand, measured in the same
round and in alternating order, a copy of the state into a reused buffer and a raw write of its
bytes to one file with fsync; what is printed are medians of the ratios to them. Files that a
method does not sync are synced by the benchmark after the call: that counts until they are
durable, and not as time that training is blocked.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.benchmarks.machine import describe, load
from tests.benchmarks.peers import FLOOR, METHODS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

MEMORY = Path("/dev/shm")

OTHER = 32_000_000
"""Bytes that a first save may take beside the copy: modules it imports, a thread, headers."""

_SYNCHRONOUS = tuple(n for n, m in METHODS.items() if not m.asynchronous and not m.ours)
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one run of the benchmark measures."""

    sizes: tuple[str, ...]
    places: Mapping[str, Path]
    """Folders by `memory` and `disk`."""
    repeats: int
    resumes: int
    """Processes that go on, for each method."""
    methods: tuple[str, ...] = tuple(METHODS)


@dataclass(slots=True, kw_only=True)
class Result:
    """What was found of one method; ratios are medians of those within the rounds."""

    method: str
    size: str
    place: str
    skipped: str = ""
    """Why it was not measured."""
    failed: str = ""
    """The end of what its process said, where that failed."""
    load: str = ""
    normal: dict[str, Any] = field(default_factory=dict)
    """As `loop.Saving.measure` returns it: with forward and backward."""
    short: dict[str, Any] = field(default_factory=dict)
    """The same with the optimizer's steps alone."""
    resumed: list[float] = field(default_factory=list)
    """Seconds from the process's start to its first step."""
    floor: list[float] = field(default_factory=list)
    """The same with nothing loaded."""
    equal: bool = False
    """Whether every process that went on had the very bits that were saved."""

    def ratio(self, over: str, *names: str, of: str = "normal") -> float | None:
        """The sum of some times of a round over another time of it."""
        found = [
            sum(r[name] for name in names) / r[over]
            for r in getattr(self, of).get("rounds", ())
            if all(r[name] is not None for name in names)
        ]
        return statistics.median(found) if found else None

    def seconds(self, *names: str, of: str = "normal") -> float | None:
        """The median of the sum of some times."""
        found = [
            sum(r[name] for name in names)
            for r in getattr(self, of).get("rounds", ())
            if all(r[name] is not None for name in names)
        ]
        return statistics.median(found) if found else None

    @property
    def blocked(self) -> float | None:
        """How long a save holds training up, in copies of the state."""
        return self.ratio("copy", "called", "waited")

    @property
    def blocked_short(self) -> float | None:
        """The same where no forward and backward hides the copy; synchronous saves know none."""
        if not METHODS[self.method].asynchronous:
            return self.blocked
        return self.ratio("copy", "called", "waited", of="short")

    @property
    def durable(self) -> float | None:
        """Until all is on the disk, from the call, in raw writes with fsync."""
        return self.ratio("write", "durable")

    @property
    def after_copy(self) -> float | None:
        """The same from the end of the copy, where the method tells."""
        found = [
            r["after_copy"] / r["write"]
            for r in self.normal.get("rounds", ())
            if r["after_copy"] is not None
        ]
        return statistics.median(found) if found else None

    @property
    def slowdown(self) -> float | None:
        found = [r["slowdown"] for r in self.normal.get("rounds", ()) if r["slowdown"] is not None]
        return statistics.median(found) if found else None

    @property
    def extra(self) -> float | None:
        """Most memory above what the training took before its first save, in states."""
        return self.normal["extra"] / self.normal["state"] if self.normal else None

    @property
    def written(self) -> float | None:
        return self.normal["written"] / self.normal["state"] if self.normal else None


def run(plan: Plan) -> Iterator[Result]:
    """Measure everything; each result as soon as it is there."""
    for size, (place, root) in itertools.product(plan.sizes, plan.places.items()):
        # Where a resumed process reads from makes no difference: the page cache is warm. In the
        # second place one only looks whether the bits are the same.
        resumes = plan.resumes if place == next(iter(plan.places)) else 0
        for method in plan.methods:
            yield _measure(method, size, place, root, plan.repeats, resumes)


def _measure(method: str, size: str, place: str, root: Path, repeats: int, resumes: int) -> Result:
    result = Result(method=method, size=size, place=place, load=load())
    folder = Path(tempfile.mkdtemp(prefix="ckptui-benchmark-", dir=root))
    try:
        first = folder / "normal"
        _save(result, first, "normal", repeats)
        if result.normal:
            _resume(result, first, resumes)
        shutil.rmtree(first)
        if result.normal and METHODS[method].asynchronous:
            _save(result, folder / "short", "short", repeats)
    finally:
        shutil.rmtree(folder)
    return result


def _save(result: Result, folder: Path, kind: str, repeats: int) -> None:
    found = _process(
        result,
        folder,
        method=result.method,
        rounds=repeats,
        steps_only=kind == "short",
    )
    if found is not None:
        setattr(result, kind, found)


def _resume(result: Result, folder: Path, resumes: int) -> None:
    equal = []
    pair = ((FLOOR, result.floor), (result.method, result.resumed))
    for number in range(max(resumes, 1)):
        for method, times in pair if number < resumes else pair[1:]:
            found = _process(result, folder, method=method, rounds=0, step=result.normal["step"])
            if found is None:
                return
            if resumes:
                times.append(found["seconds"])
            if method != FLOOR:
                equal.append(found["digest"] == result.normal["digest"])
    result.equal = all(equal)


def _process(result: Result, folder: Path, **task: Any) -> dict[str, Any] | None:
    """What one process found; None where it failed or its method is not installed."""
    folder.mkdir(exist_ok=True)
    output = folder / "found.json"
    task |= {"size": result.size, "folder": str(folder), "output": str(output)}
    task["started"] = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.loop", json.dumps(task)],
        env=os.environ | _ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        result.failed = "\n".join(done.stderr.splitlines()[-12:])
        return None
    found: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
    output.unlink()
    result.skipped = found.get("skipped", "")
    return None if result.skipped else found


HEADS = (
    "method",
    "blocked / copy",
    "no fwd+bwd",
    "step slower",
    "durable / raw",
    "extra mem",
    "on disk",
    "first step",
)
WIDTHS = (34, 20, 12, 12, 20, 10, 8, 16)


def table(results: Sequence[Result]) -> list[str]:
    """Lines that show the results of one model in one place."""
    measured = [r for r in results if r.normal]
    lines = []
    if measured:
        sizes = {r.normal["state"] for r in measured}
        state = next(iter(sizes))
        rounds = [x for r in measured for x in r.normal["rounds"]]
        copy = statistics.median(x["copy"] for x in rounds)
        write = statistics.median(x["write"] for x in rounds)
        before = statistics.median(
            r.normal["forward_backward"] / statistics.median(x["copy"] for x in r.normal["rounds"])
            for r in measured
        )
        step = statistics.median(x["quiet"] for x in rounds)
        floor = [s for r in measured for s in r.floor]
        lines += [
            f"{measured[0].size} model, {measured[0].place}: state {state / 1e6:.1f} MB; "
            f"{len(measured[0].normal['rounds'])} saves a method; "
            f"memcpy {_time(copy)}; raw write + fsync {_time(write)}; step {_time(step)}, "
            f"forward + backward {before:.1f} copies"
            + (
                f"; first step with nothing loaded {statistics.median(floor):.1f} s"
                if floor
                else ""
            ),
            "".join(h.ljust(w) for h, w in zip(HEADS, WIDTHS, strict=True)).rstrip(),
        ]
    for result in results:
        if not result.normal:
            why = result.skipped or "failed: " + result.failed.splitlines()[-1]
            lines.append(f"{METHODS[result.method].label:<{WIDTHS[0]}}{why}")
            continue
        cells = (
            METHODS[result.method].label,
            f"{_number(result.blocked)} ({_time(result.seconds('called', 'waited'))})",
            _number(result.blocked_short),
            _number(result.slowdown),
            f"{_number(result.durable)} ({_time(result.seconds('durable'))})",
            _number(result.extra),
            _number(result.written),
            _first_step(result),
        )
        line = "".join(c.ljust(w) for c, w in zip(cells, WIDTHS, strict=True)).rstrip()
        trouble = "" if result.equal else "  NOT EQUAL when read back"
        trouble += f"  failed: {result.failed.splitlines()[-1]}" if result.failed else ""
        lines.append(line + trouble)
    return lines


def _first_step(result: Result) -> str:
    if not result.resumed:
        return "-"
    above = statistics.median(a - b for a, b in zip(result.resumed, result.floor, strict=True))
    return f"{statistics.median(result.resumed):.1f} s ({above:+.1f})"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if value < 0.1 else f"{value:.2f}" if value < 10 else f"{value:.0f}"


def _time(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value * 1000:.1f} ms" if value < 0.1 else f"{value:.2f} s"


def bounds(results: Sequence[Result]) -> list[str]:
    """What saving in the background has to hold, and whether it does, by these results."""
    found = {r.method: r for r in results if r.normal}
    ours = found.get("ours_async")
    if ours is None:
        return ["ckptui async_save was not measured, so no bound can be told."]
    on_disk = ours.place == "disk"
    best = _best(found, _SYNCHRONOUS)
    dcp = found["dcp_async"].blocked if "dcp_async" in found else None
    peers = [n for n, m in METHODS.items() if m.asynchronous and not m.ours]
    others = _best(found, peers)
    short = ", ".join(
        f"{METHODS[n].label} {_number(r.blocked_short)}" for n, r in found.items() if n in peers
    )
    # What these two would be of a thread that does nothing but write: other work on the machine.
    control = found["raw"].slowdown if "raw" in found else None
    control_durable = found["raw"].after_copy if "raw" in found else None

    def beside(value: float | None) -> str:
        return f" (a raw write in a thread: {_number(value)})" if value is not None else ""

    lines = [
        _bound("blocked, forward + backward longer than the copy, / copy", ours.blocked, 0.1),
        _floor("best synchronous peer's blocked time / ours", best, ours.blocked, 10),
        _floor("DCP async_save's blocked time / ours", dcp, ours.blocked, 5),
        _floor("best asynchronous peer's blocked time / ours", others, ours.blocked, None),
        _bound("blocked, no forward + backward, / copy", ours.blocked_short, 1.2)
        + (f" ({short})" if short else ""),
        _bound("step slower while a save is in flight", ours.slowdown, 1.1) + beside(control),
        _bound(
            "durable, from the end of the snapshot, / raw write + fsync",
            ours.after_copy,
            1.3 if on_disk else None,
        )
        + beside(control_durable),
        _bound(
            f"extra memory, {ours.normal['extra'] / 1e6:.0f} MB, but for {OTHER / 1e6:.0f} MB of "
            "code and threads, in states",
            max(ours.normal["extra"] - OTHER, 0) / ours.normal["state"],
            1.0,
        ),
    ]
    return [f"  {line}" for line in lines]


def _best(found: Mapping[str, Result], names: Iterable[str]) -> float | None:
    values = [found[n].blocked for n in names if n in found]
    return min((v for v in values if v is not None), default=None)


def _bound(what: str, value: float | None, most: float | None) -> str:
    if most is None:
        return f"{what}: {_number(value)} (no bound here)"
    if value is None:
        return f"{what} <= {most:g}: not measured"
    # Two digits are what the measurement is good for.
    return f"{what} <= {most:g}: {_number(value)} {'ok' if round(value, 2) <= most else 'MISSED'}"


def _floor(what: str, theirs: float | None, mine: float | None, least: float | None) -> str:
    if theirs is None or not mine:
        return f"{what}{f' >= {least:g}' if least else ''}: not measured"
    value = theirs / mine
    if least is None:
        return f"{what}: {value:.1f} (no bound)"
    return f"{what} >= {least:g}: {value:.1f} {'ok' if value >= least else 'MISSED'}"


NOTES = (
    "blocked: inside the call and waiting in optimizer.step(), over a memcpy of the state into a "
    "reused buffer.",
    "no fwd+bwd: the same where optimizer steps follow the call at once; no method can hide its "
    "copy then.",
    "step slower: training time lost while a save was in flight, waiting left out; 1 is none.",
    "durable: from the call until all files are synced, over a raw write + fsync of the same "
    "bytes; for methods that do not sync, the benchmark's fsync comes after the call.",
    "extra mem: peak above what the process held (synchronous) or peaked at (asynchronous) before "
    "its first save, in states; on disk: bytes written, in states.",
    "first step: from the start of a process to its first resumed step, page cache warm, and what "
    "that is above a process that loads nothing.",
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print; the raw figures go to `--json`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", choices=("large", "small", "tiny", "both"), default="both")
    parser.add_argument("--where", choices=("memory", "disk", "both"), default="both")
    parser.add_argument("--disk", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--resumes", type=int, default=3)
    parser.add_argument("--methods", default=",".join(METHODS), help="names, with commas between")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    places = {"memory": MEMORY, "disk": options.disk}
    plan = Plan(
        sizes=("large", "small") if options.model == "both" else (options.model,),
        places=places if options.where == "both" else {options.where: places[options.where]},
        repeats=options.repeats,
        resumes=options.resumes,
        methods=tuple(options.methods.split(",")),
    )
    stated = describe(*plan.places.values())
    print("\n".join(stated), flush=True)
    results = []
    for (_, _), group in itertools.groupby(run(plan), key=lambda r: (r.size, r.place)):
        found = []
        for result in group:
            found.append(result)
            print(f"{table([result])[-1]}  {load()}", file=sys.stderr, flush=True)
            if result.failed:
                print(result.failed, file=sys.stderr)
        print("\n" + "\n".join([*table(found), *bounds(found)]), flush=True)
        results += found
    print("\n" + "\n".join(NOTES))
    print(f"At the end: {load()}")
    if options.json is not None:
        raw = {"machine": stated, "results": [_raw(r) for r in results]}
        options.json.write_text(json.dumps(raw, indent=1), encoding="utf-8")


def _raw(result: Result) -> dict[str, Any]:
    names = ("method", "size", "place", "skipped", "failed", "load", "normal", "short")
    return {n: getattr(result, n) for n in (*names, "resumed", "floor", "equal")}


if __name__ == "__main__":
    main()
