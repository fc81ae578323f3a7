"""Trainers and ckptui commands that race on one run, and the judges of what they did.

    python -m tests.races --seconds 180 --seed 1

Two trainers are started against one run again and again, save as fast as they can, and are killed,
stopped or suspended at random moments; three processes pin, unpin, prune, remove, restore, empty,
list and verify in a random order, most by calling the command line within their process, some by
starting it, and are killed as well. An observer looks at the folder all the time. Everything that
was done is recorded with its time, and judged at the end: see `judge_*`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import FrameType

ROOT = Path(__file__).parent.parent
POLICY = ("keep-last 4", "keep-every 2")
COMMAND = "python train.py --resume {checkpoint} --output {output_dir}"
_STEP = re.compile(r"step_([0-9]+)")
_CODES = {0, 1, 130}
_UNSURE = 2
"""So many looks in a row must miss what is gone: one may come while it is being moved."""


# --- What is recorded -------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Op:
    """One command, from its beginning to its end."""

    who: str
    kind: str
    words: tuple[str, ...]
    begun: float
    ended: float = math.inf
    """Infinite for one that was killed: nobody knows how far it came."""
    code: int | None = None
    out: str = ""
    err: str = ""
    lifts: tuple[str, ...] = ()
    """Names whose protection it may take away."""
    real: bool = False
    """Whether it ran as a process of its own."""
    signalled: bool = False

    @property
    def answer(self) -> dict[str, Any]:
        """What it answered as JSON; empty where it was not asked for JSON, or killed."""
        if "--json" not in self.words:
            return {}
        with contextlib.suppress(ValueError):
            found = json.loads(self.out)
            return found if isinstance(found, dict) else {}
        return {}


class Record:
    """A file of JSON lines that one process writes; a line is one write."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, what: str, **values: Any) -> float:
        now = time.monotonic()
        line = json.dumps({"what": what, "time": now, **values})
        os.write(self._descriptor, line.encode("utf-8", "backslashreplace") + b"\n")
        return now


def read_records(path: Path) -> list[dict[str, Any]]:
    """What a process has recorded; the last line of a killed one may be torn."""
    found = []
    for line in path.read_bytes().splitlines():
        with contextlib.suppress(ValueError):
            found.append(json.loads(line))
    return found


def ops_of(path: Path) -> list[Op]:
    """The commands that a process began."""
    begun: dict[str, Any] | None = None
    found = []

    def op(begin: dict[str, Any], end: dict[str, Any] | None) -> Op:
        return Op(
            who=path.stem,
            kind=begin["kind"],
            words=tuple(begin["words"]),
            begun=begin["time"],
            lifts=tuple(begin["lifts"]),
            real=begin["real"],
            ended=end["time"] if end else math.inf,
            code=end["code"] if end else None,
            out=end["out"] if end else "",
            err=end["err"] if end else "",
            signalled=end["signalled"] if end else False,
        )

    for line in read_records(path):
        if line["what"] == "begin":
            if begun is not None:
                found.append(op(begun, None))
            begun = line
        elif line["what"] == "end" and begun is not None:
            found.append(op(begun, line))
            begun = None
    if begun is not None:
        found.append(op(begun, None))
    return found


# --- Commands ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wish:
    """A command to be called."""

    kind: str
    words: list[str]
    lifts: list[str] = field(default_factory=list)


def standing(run: Path) -> list[str]:
    return sorted(n for n in os.listdir(run) if _STEP.fullmatch(n))


def trashed(run: Path) -> dict[str, list[str]]:
    """The items in the trash and the names in each."""
    found = {}
    trash = run / ".ckptui" / "trash"
    with contextlib.suppress(FileNotFoundError):
        for item in os.listdir(trash):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                found[item] = [n for n in os.listdir(trash / item) if _STEP.fullmatch(n)]
    return found


def pinned(run: Path) -> list[str]:
    with contextlib.suppress(FileNotFoundError):
        names = os.listdir(run / ".ckptui" / "pins")
        return sorted(n[:-5] for n in names if n.endswith(".json") and n[0] != ".")
    return []


def wish(run: Path, rng: random.Random) -> Wish:
    """A command, chosen from what is there at this moment, or a name that is not."""
    here, items, pins = standing(run), trashed(run), pinned(run)
    where = ["--run", str(run)]

    def one() -> str:
        if not here or rng.random() < 0.02:
            return "step_999999"
        # The newest ones are those that the trainer's own pruning is at, too.
        by_step = sorted(here, key=lambda n: int(n[5:]))
        name = rng.choice([rng.choice(by_step), rng.choice(by_step), *by_step[-5:]])
        return name[5:] if rng.random() < 0.2 else name

    def pick_item() -> tuple[str, list[str]]:
        item = rng.choice(sorted(items)) if items else "step_999999"
        names = items.get(item, [])
        return rng.choice([item, *names]), names

    def named(words: Sequence[str]) -> list[str]:
        return [w if w.startswith("step_") else f"step_{w}" for w in words]

    rules = rng.choice(
        [
            ["--keep-last", str(rng.randint(1, 6))],
            ["--keep-every", str(rng.randint(2, 9))],
            ["--keep-best", "2:loss"],
            ["--keep-within", f"{rng.randint(1, 3)}s"],
            ["--keep-last", "2", "--incomplete"],
            ["--incomplete"],
        ]
    )
    json_ = ["--json"] if rng.random() < 0.7 else []
    many_pins = len(pins) > max(3, len(here) // 3)
    kinds = {
        "pin": 1 if many_pins else 5,
        "unpin": 6 if many_pins else 2,
        "prune": 0.7,
        "prune --delete": 0.7,
        "rm": 2.5,
        "rm --delete": 1.5,
        "trash list": 1,
        "trash restore": 4 if items else 0.1,
        "trash empty": 0.7,
        "trash empty ITEM": 1.5 if items else 0.1,
        "ls": 1.5,
        "verify": 0.5 if len(here) < 60 else 0.1,
        "verify one": 1,
        "show": 0.5,
        "resume-cmd": 0.3,
        "log": 0.2,
        "metrics": 0.2,
    }
    kind = rng.choices(list(kinds), list(kinds.values()))[0]
    match kind:
        case "pin":
            names = [one() for _ in range(rng.choice([1, 1, 1, 2]))]
            note = ["--note", rng.choice(["a", "b" * 400])] if rng.random() < 0.3 else []
            return Wish(kind, ["pin", *names, *note, *where, "--json"])
        case "unpin":
            names = [rng.choice(pins) if pins and rng.random() < 0.8 else one()]
            return Wish(kind, ["unpin", *names, *where, "--json"], named(names))
        case "prune" | "prune --delete":
            how = ["--delete"] if "delete" in kind else []
            return Wish(kind, ["prune", str(run), *rules, *how, "--yes", "--json"])
        case "rm" | "rm --delete":
            how = ["--delete"] if "delete" in kind else []
            free = [n for n in here if n not in pins]
            names = [one() for _ in range(rng.choice([1, 1, 2, 3]))]
            if free and rng.random() < 0.8:
                names = rng.sample(free, min(len(free), len(names)))
            return Wish(kind, ["rm", *names, *where, *how, "--yes", "--json"])
        case "trash list":
            return Wish(kind, ["trash", "list", *where, *json_])
        case "trash restore":
            return Wish(kind, ["trash", "restore", pick_item()[0], *where, "--json"])
        case "trash empty":
            older = ["--older-than", "1s"] if rng.random() < 0.3 else []
            return Wish(kind, ["trash", "empty", *older, *where, "--yes", "--json"])
        case "trash empty ITEM":
            word, names = pick_item()
            return Wish(kind, ["trash", "empty", word, *where, "--yes", "--json"], names)
        case "verify":
            return Wish(kind, ["verify", str(run), "--full", "--json"])
        case "verify one":
            name = rng.choice(here) if here else "step_999999"
            return Wish(kind, ["verify", str(run / name), "--full", "--json"])
        case "show" | "resume-cmd":
            return Wish(kind, [kind, rng.choice(["latest", one()]), *where, *json_])
        case "log" | "metrics":
            return Wish(kind, [kind, str(run), *json_])
        case _:
            return Wish("ls", ["ls", str(run), *json_])


def call(words: Sequence[str]) -> tuple[int, str, str]:
    """Call the command line within this process: its exit code, stdout and stderr."""
    from ckptui.cli import main

    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    code = 9
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main.main(list(words), prog_name="ckptui")
        except SystemExit as e:
            code = e.code if isinstance(e.code, int) else 9
        except BaseException:  # noqa: BLE001 - as the interpreter would show it
            traceback.print_exc()
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())
    return code, texts[0], texts[1]


def start(words: Sequence[str], rng: random.Random) -> tuple[int, str, str, bool]:
    """Run the command line as a process; now and then it is interrupted or killed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ckptui", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    number = rng.choices([None, signal.SIGINT, signal.SIGKILL], [0.8, 0.1, 0.1])[0]
    signalled = False
    if number is not None:
        try:
            process.wait(rng.uniform(0.05, 0.4))
        except subprocess.TimeoutExpired:
            process.send_signal(number)
            signalled = True
    out, err = process.communicate()
    return process.returncode, out, err, signalled


def use(run: Path, record: Record, seed: str, until: float) -> int:
    """Call one command after the other until the time is over; the exit code of the process."""
    rng = random.Random(seed)
    while time.monotonic() < until:
        wished = wish(run, rng)
        real = rng.random() < 0.12
        record.write("begin", kind=wished.kind, words=wished.words, lifts=wished.lifts, real=real)
        signalled = False
        if real:
            code, out, err, signalled = start(wished.words, rng)
        else:
            code, out, err = call(wished.words)
        record.write("end", code=code, out=out, err=err, signalled=signalled)
        if wished.kind.startswith("verify"):
            recheck(run, record, out)
        time.sleep(rng.choice([0, 0, 0.005, 0.02]))
    return 0


def recheck(run: Path, record: Record, out: str) -> None:
    """Look again at what a full check says has failed, if it still stands."""
    from ckptui.scan import scan_run
    from ckptui.verify import verify_checkpoint

    with contextlib.suppress(ValueError, KeyError):
        failed = {
            Path(c["path"])
            for c in json.loads(out)["checkpoints"]
            if c["status"] == "failed" and Path(c["path"]).parent == run
        }
        for c in scan_run(run).checkpoints if failed else ():
            if c.path in failed and c.complete and verify_checkpoint(c, full=True).problems:
                record.write("damaged", name=c.name, there=os.path.lexists(c.path))


# --- Trainers ---------------------------------------------------------------------------------


class Loop:
    """A training whose state after any number of steps is known."""

    def __init__(self) -> None:
        import torch

        self.model = torch.nn.Linear(8, 4)
        with torch.no_grad():
            for number, p in enumerate(self.model.parameters()):
                p.copy_(torch.arange(p.numel()).reshape(p.shape) / (10 + number))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)

    def step(self, number: int) -> float:
        """Make the optimizer step of this number, from 1 on."""
        import torch

        for p in self.model.parameters():
            p.grad = torch.full_like(p, math.sin(number)) + p.detach() * 0.01
        self.optimizer.step()
        return abs(math.sin(number))

    def state(self) -> list[Any]:
        """Weights and momentum, parameter by parameter."""
        found = []
        for p in self.model.parameters():
            found += [p.detach(), self.optimizer.state[p]["momentum_buffer"]]
        return found


def is_exactly(loop: Loop, steps: int) -> bool:
    """Whether a training is bit for bit where so many steps from the start lead."""
    import torch

    again = Loop()
    for number in range(1, steps + 1):
        again.step(number)
    if steps == 0:
        return not loop.optimizer.state
    return all(map(torch.equal, loop.state(), again.state()))


def train(run: Path, record: Record, seed: str, limit: int = 10**9) -> int:
    """Train and save every step until told to stop; the exit code of the process."""
    from ckptui.errors import CkptuiError
    from ckptui.training import TrainingRun

    rng = random.Random(seed)
    stopped = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal stopped
        stopped = True

    signal.signal(signal.SIGTERM, stop)
    pause = rng.choice([0, 0.002, 0.02])
    background = rng.random() < 0.6 and hasattr(TrainingRun, "async_save")
    record.write("begun", background=background)
    loop = Loop()
    try:
        with TrainingRun(
            run, policy=POLICY, command=COMMAND, prune_to_trash=rng.random() < 0.4
        ) as training:
            record.write("owner", attempt=training.attempt)
            training.register(model=loop.model, optimizer=loop.optimizer)
            step = training.resume()
            record.write("resumed", step=step, exact=is_exactly(loop, step))
            last = step + limit
            while not stopped and step < last:
                step += 1
                training.log(step, loss=loop.step(step))
                if background:
                    training.async_save(step)
                else:
                    saved = training.save(step)
                    record.write("saved", name=saved.name)
                time.sleep(pause)
            record.write("leaving", step=step)
    except CkptuiError as e:
        record.write("refused", message=str(e), kind=e.kind)
        return e.exit_code
    record.write("left")
    return 0


# --- The observer -----------------------------------------------------------------------------

Identity = tuple[str, str]
"""A checkpoint's name and when it was saved."""


@dataclass
class Seen:
    """What the observer knows of one checkpoint."""

    step: int
    size: int
    resumable: bool
    last: int = -1
    """The number of the look that saw it last."""


class Eyes:
    """Looks at the run's folder again and again, with nothing but the system's own calls."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.looks: list[tuple[float, float]] = []
        """When each began and ended."""
        self.seen: dict[Identity, Seen] = {}
        self.newest = -1
        self.violations: list[str] = []
        self._known: dict[tuple[str, int, int], Identity] = {}
        self._journal = 0

    def look(self) -> None:
        begun = time.monotonic()
        newest = -1
        number = len(self.looks)
        places = [(self.run / name, True) for name in _names(self.run)]
        trash = self.run / ".ckptui" / "trash"
        for item in os.listdir(trash) if trash.is_dir() else ():
            if not item.endswith(".deleting"):
                places += [(trash / item / name, False) for name in _names(trash / item)]
        for path, stands in places:
            identity = self._identity(path)
            if identity is not None:
                seen = self.seen[identity]
                seen.last = number
                if stands and seen.resumable:
                    newest = max(newest, seen.step)
        self.looks.append((begun, time.monotonic()))
        if newest < self.newest:
            self._miss(newest)
        self.newest = max(newest, self.newest)
        if number % 25 == 0:
            self.read_all()

    def _miss(self, newest: int) -> None:
        for _ in range(5):
            time.sleep(0.01)
            there = [self._identity(self.run / n) for n in _names(self.run)]
            steps = [self.seen[i].step for i in there if i and self.seen[i].resumable]
            if max(steps, default=-1) >= self.newest:
                return
        what = f"the newest resumable one, step {self.newest}, is gone; step {newest} is now"
        self.violations.append(what)

    def _identity(self, path: Path) -> Identity | None:
        try:
            found = (path / "checkpoint.json").stat()
            key = (path.name, found.st_ino, found.st_mtime_ns)
            if key in self._known:
                return self._known[key]
            marker = json.loads((path / "checkpoint.json").read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except ValueError:
            self.violations.append(f"{path} has a marker that is no JSON")
            return None
        identity = self._known[key] = (path.name, marker["created"])
        size = found.st_size + sum(f["size"] for f in marker["files"])
        self.seen[identity] = Seen(marker["step"], size, marker["resumable"])
        return identity

    def read_all(self) -> None:
        """Hold that every small file is whole at any moment."""
        tool = self.run / ".ckptui"
        small = [self.run / "run.json", tool / "lock"]
        small += [tool / "pins" / f"{name}.json" for name in pinned(self.run)]
        for path in small:
            with contextlib.suppress(FileNotFoundError):
                self._parse(path.read_bytes(), str(path))
        with contextlib.suppress(FileNotFoundError), (tool / "journal.jsonl").open("rb") as f:
            f.seek(self._journal)
            for line in f.read().splitlines(keepends=True):
                if line.endswith(b"\n"):
                    self._journal += len(line)
                    # Who sees another's line half written begins with a newline: an empty line.
                    if line.strip():
                        self._parse(line, "a line of the journal")

    def _parse(self, data: bytes, what: str) -> None:
        try:
            json.loads(data)
        except ValueError:
            self.violations.append(f"{what} is no JSON: {data[:200]!r}")

    def is_lost(self, identity: Identity, begun: float, ended: float) -> bool:
        """Whether it was gone for good before `ended`: neither standing nor restorable."""
        last = self.seen[identity].last if identity in self.seen else -1
        missed = [1 for a, b in self.looks[last + 1 :] if a >= begun and b <= ended]
        return len(missed) >= _UNSURE


def _names(folder: Path) -> list[str]:
    try:
        return [n for n in os.listdir(folder) if _STEP.fullmatch(n)]
    except (FileNotFoundError, NotADirectoryError):
        return []


# --- Judges -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Protection:
    """A time in which a checkpoint must not go: from the end of a pin to the first unpin."""

    identity: Identity
    begun: float
    ended: float


def protections(ops: Sequence[Op]) -> list[Protection]:
    """What every pin that was reported protects, and how long."""
    lifting: dict[str, list[Op]] = defaultdict(list)
    for op in ops:
        for name in op.lifts:
            lifting[name].append(op)
    found = []
    for op in ops:
        if op.kind != "pin":
            continue
        for c in [*op.answer.get("changed", ()), *op.answer.get("unchanged", ())]:
            # One that began before and ended after may have had the last word.
            lifted = (o.begun for o in lifting[c["name"]] if o.ended > op.begun)
            until = min(lifted, default=math.inf)
            if until > op.ended:
                identity = (c["name"], c["created"])
                found.append(Protection(identity=identity, begun=op.ended, ended=until))
    return found


def judge_pins(ops: Sequence[Op], eyes: Eyes) -> list[str]:
    """Nothing pinned is ever lost."""
    return [
        f"{p.identity[0]} was lost although it was pinned from {p.begun:.3f} to {p.ended:.3f}"
        for p in protections(ops)
        if eyes.is_lost(p.identity, p.begun, p.ended)
    ]


def judge_answers(ops: Iterable[Op]) -> list[str]:
    """Exit codes are those that are meant, and nothing crashes."""
    found = []
    for op in ops:
        line = f"{op.who}: ckptui {' '.join(op.words)} -> {op.code}: {op.err[-3000:]}"
        if op.code is None or (op.signalled and (op.code or 0) < 0 and not op.err):
            continue
        early = op.signalled and is_early(op.err)
        if "Traceback" in op.err + op.out and not early:
            found.append(f"a traceback, {line}")
        elif op.code not in _CODES and not (early or (op.signalled and op.code < 0)):
            found.append(f"an exit code, {line}")
        elif "--json" in op.words and not op.signalled and not op.answer:
            found.append(f"no JSON, {line}{op.out[-300:]}")
        elif op.answer.get("error", {}).get("kind") in ("io", "usage"):
            found.append(f"an error that nobody should see, {line}{op.out[-500:]}")
    return found


def is_early(err: str) -> bool:
    """Whether this is how Python shows an interrupt that comes while it imports."""
    ours = re.findall(r'File ".*/ckptui/.*", line \d+, in (.+)', err)
    importing = "<frozen importlib" in err or not set(ours) - {"<module>", "start"}
    return "KeyboardInterrupt" in err and importing


def freed(ops: Iterable[Op]) -> Counter[str]:
    """Bytes that the commands say they gave back: name -> bytes."""
    total: Counter[str] = Counter()
    for op in ops:
        for result in op.answer.get("results", ()):
            total[result["name"]] += result["freed"]
    return total


def judge_freed(ops: Sequence[Op], eyes: Eyes) -> list[str]:
    """No byte is given back twice, and none of what is still there."""
    last = len(eyes.looks) - 1
    sizes: Counter[str] = Counter()
    for (name, _), seen in eyes.seen.items():
        sizes[name] += seen.size if seen.last < last else 0
    largest = max((s.size for s in eyes.seen.values()), default=0)
    known = {name for name, _ in eyes.seen}
    # What a save left that never finished goes under the same name.
    for op in ops:
        for row in op.answer.get("plan", ()):
            if row["reasons"] == ["incomplete"]:
                sizes[row["name"]] += row["frees"]
    found = []
    for name, total in freed(ops).items():
        # One that came and went between two looks is no larger than the largest.
        most = sizes[name] if name in known else largest
        if total > most:
            found.append(f"{total} bytes were freed of {name}, which had {most}")
    return found


def judge_journal(events: Sequence[dict[str, Any]], eyes: Eyes, kills: int) -> list[str]:
    """Each removal is of something that was there: nothing is deleted twice.

    A process that is killed may not have written what it had just done, one line each.
    """
    count: dict[str, Counter[str]] = defaultdict(Counter)
    for event in events:
        for name in event["checkpoints"]:
            count[name][event["what"]] += 1
            # What a save left that never finished goes under the same name.
            count[name]["unfinished"] += event["reason"] == "incomplete"
    saved = Counter(name for name, _ in eyes.seen)
    found = []
    missing = 0
    for name, what in count.items():
        there = max(saved[name], what["save"]) + what["unfinished"]
        away = what["prune"] + what["rm"] + what["rewind"]
        if away > there + what["restore"]:
            missing += away - there - what["restore"]
            found.append(f"{name} was removed {away} times: {dict(what)}")
        gone = what["empty"] + what["delete"]
        if gone > max(there, away - what["restore"]):
            found.append(f"{name} was deleted {gone} times: {dict(what)}")
    return found if missing > kills or any("deleted" in f for f in found) else []


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One trainer, from its start to its end."""

    who: str
    begun: float
    ended: float
    gone: float
    """When it was surely gone: for a moment after a kill its process is still there."""
    code: int
    newest: int
    """The newest resumable step that stood when it was started."""
    records: tuple[dict[str, Any], ...]
    err: str

    def at(self, what: str) -> dict[str, Any] | None:
        """The first record of a kind."""
        return next((r for r in self.records if r["what"] == what), None)

    @property
    def owned(self) -> tuple[float, float] | None:
        """From when to when it surely owned the run."""
        owner, leaving = self.at("owner"), self.at("leaving")
        if owner is None:
            return None
        return owner["time"], leaving["time"] if leaving else self.ended


def judge_trainers(attempts: Sequence[Attempt]) -> list[str]:
    """One trainer at a time, each goes on from the newest one, exactly."""
    found = []
    owners = sorted((a.owned, a.who) for a in attempts if a.owned is not None)
    for (one, who), (other, next_) in pairwise(owners):
        if one is not None and other is not None and other[0] < one[1]:
            found.append(f"{who} and {next_} owned the run at the same time: {one}, {other}")
    for a in attempts:
        if "Traceback" in a.err:
            found.append(f"{a.who} crashed: {a.err[-3000:]}")
        elif a.code not in (0, 1, -signal.SIGKILL, -signal.SIGTERM):
            found.append(f"{a.who} ended with {a.code}: {a.err[-500:]}")
        resumed, refused = a.at("resumed"), a.at("refused")
        if resumed is not None and not resumed["exact"]:
            found.append(f"{a.who} loaded another state than that of step {resumed['step']}")
        if resumed is not None and resumed["step"] < a.newest:
            found.append(f"{a.who} began at {resumed['step']}; {a.newest} stood before it")
        if refused is not None and refused["kind"] != "locked":
            found.append(f"{a.who} ended: {refused['message']}")
        if a.code == 0 and refused is None and a.owned is not None:
            continue
        if refused is not None and a.owned is None and not _owned_by_another(a, attempts):
            found.append(f"{a.who} was refused though nobody owned the run: {refused['message']}")
    return found


def _owned_by_another(refused: Attempt, attempts: Sequence[Attempt]) -> bool:
    """Whether another trainer lived at some moment of this one's life."""
    return any(
        a is not refused and a.begun < refused.ended and a.gone > refused.begun for a in attempts
    )


def judge_rest(run: Path) -> list[str]:
    """No staging and no temporary file is left."""
    found = []
    for path in run.rglob("*"):
        name = path.name
        temporary = name.endswith(".tmp") or (path.parent.name == ".ckptui" and "lock" in name)
        if temporary or path.parent.name == "staging":
            # A lock that a killed process had in hand is left alone for a minute.
            if name.endswith(".old") and time.time() - path.stat().st_mtime < 120:
                continue
            found.append(f"{path.relative_to(run)} is left")
    return found


# --- The play ---------------------------------------------------------------------------------


@dataclass
class Player:
    """A process that was forked, and what became of it."""

    who: str
    pid: int
    begun: float
    newest: int
    doom: float = math.inf
    """When it is hit by a signal."""
    awake: float = math.inf
    """When it is woken, if it was suspended."""
    killed: float = math.inf
    """When it was killed."""


class Play:
    """Everything that happens on one run within a number of seconds."""

    def __init__(self, folder: Path, seconds: float, seed: int) -> None:
        self.run = folder / "run"
        self.records = folder / "records"
        self.records.mkdir(parents=True)
        self.eyes = Eyes(self.run)
        self.attempts: list[Attempt] = []
        self.violations: list[str] = []
        self.kills: Counter[str] = Counter()
        self._seed = seed
        self._rng = random.Random(seed)
        self._seconds = seconds
        self._count = 0
        self._until = 0.0

    def __call__(self) -> dict[str, Any]:
        self.run.mkdir()
        self._train_once(limit=3)
        self._until = time.monotonic() + self._seconds
        trainers: list[Player | None] = [None, None]
        tools: list[Player | None] = [None, None, None]
        pause = [0.0, 0.0]
        while time.monotonic() < self._until:
            self.eyes.look()
            now = time.monotonic()
            for slot, trainer in enumerate(trainers):
                if trainer is None and now > pause[slot]:
                    trainers[slot] = self._start_trainer()
                elif trainer is not None and self._is_over(trainer):
                    trainers[slot] = None
                    pause[slot] = now + self._rng.uniform(0, 0.4)
                elif trainer is not None:
                    self._hit(trainer, now)
            for slot, tool in enumerate(tools):
                if tool is None:
                    tools[slot] = self._start_tool()
                elif self._is_over(tool):
                    tools[slot] = None
                else:
                    self._hit(tool, now)
            time.sleep(0.003)
        self._end([p for p in (*trainers, *tools) if p is not None])
        self._train_once(limit=1)
        self.eyes.look()
        return self._judge()

    def _start_trainer(self) -> Player:
        who, path = self._name("trainer")
        seed = f"{self._seed}-{who}"
        if self._rng.random() < 0.1:
            words = ["-m", "tests.races", "--train", str(self.run), str(path), seed]
            player = self._fork(who, lambda: os.execv(sys.executable, [sys.executable, *words]))
        else:
            player = self._fork(who, lambda: train(self.run, Record(path), seed))
        player.doom = time.monotonic() + self._rng.choice([1, 3, 8]) * self._rng.random()
        return player

    def _start_tool(self) -> Player:
        who, path = self._name("tool")
        seed = f"{self._seed}-{who}"
        player = self._fork(who, lambda: use(self.run, Record(path), seed, self._until))
        player.doom = time.monotonic() + self._rng.uniform(0.1, 2)
        return player

    def _name(self, kind: str) -> tuple[str, Path]:
        self._count += 1
        who = f"{kind}-{self._count}"
        return who, self.records / f"{who}.jsonl"

    def _train_once(self, *, limit: int) -> None:
        """A training that nobody disturbs: it must work."""
        who, path = self._name("trainer")
        player = self._fork(who, lambda: train(self.run, Record(path), who, limit))
        while not self._is_over(player):
            time.sleep(0.005)
        done = self.attempts[-1]
        if done.code != 0 or done.at("left") is None:
            self.violations.append(f"a quiet training failed: {done.code} {done.err[-2000:]}")

    def _fork(self, who: str, act: Callable[[], int]) -> Player:
        files = [self.records / f"{who}.{end}" for end in ("out", "err")]
        for path in files:
            path.touch()
        pid = os.fork()
        if pid:
            return Player(who, pid, time.monotonic(), self.eyes.newest)
        code = 9
        try:
            os.setsid()
            for descriptor, path in enumerate(files, 1):
                os.dup2(os.open(path, os.O_WRONLY), descriptor)
            code = act()
        except BaseException:  # noqa: BLE001 - as the interpreter would show it
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    def _hit(self, player: Player, now: float) -> None:
        """Kill, stop or suspend a process if its time has come, or wake it again."""
        if now > player.awake:
            self._kill(player, signal.SIGCONT)
            player.awake, player.doom = math.inf, now + self._rng.uniform(0.1, 2)
        elif now > player.doom:
            kind, weights = player.who.rstrip("-0123456789"), [0.55, 0.2, 0.25]
            if kind == "tool":
                # Suspended between its plan and what it does, it meets the most.
                weights = [0.15, 0, 0.85]
            number = self._rng.choices([signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP], weights)[0]
            self.kills[f"{kind} {number.name}"] += 1
            self._kill(player, number)
            player.doom = math.inf
            if number is signal.SIGSTOP:
                player.awake = now + self._rng.uniform(0.02, 0.6)

    def _kill(self, player: Player, number: signal.Signals) -> None:
        # Its group, so that no command it started goes on without it.
        if number is signal.SIGKILL:
            player.killed = min(player.killed, time.monotonic())
        with contextlib.suppress(ProcessLookupError):
            os.killpg(player.pid, number)

    def _is_over(self, player: Player) -> bool:
        pid, status = os.waitpid(player.pid, os.WNOHANG)
        if pid == 0:
            return False
        path = self.records / f"{player.who}.jsonl"
        err = (self.records / f"{player.who}.err").read_text()
        code = os.waitstatus_to_exitcode(status)
        if player.who.startswith("trainer"):
            self.attempts.append(
                Attempt(
                    who=player.who,
                    begun=player.begun,
                    # Of one that was killed another may know before we do.
                    ended=min(player.killed, time.monotonic()),
                    gone=time.monotonic(),
                    code=code,
                    newest=player.newest,
                    records=tuple(read_records(path)) if path.exists() else (),
                    err=err,
                )
            )
        elif code not in (0, -signal.SIGKILL) or "Traceback" in err:
            self.violations.append(f"{player.who} ended with {code}: {err[-3000:]}")
        return True

    def _end(self, players: list[Player]) -> None:
        for player in players:
            self._kill(player, signal.SIGCONT)
            if player.who.startswith("trainer"):
                self._kill(player, signal.SIGTERM)
        end = time.monotonic() + 60
        while players:
            self.eyes.look()
            players = [p for p in players if not self._is_over(p)]
            if time.monotonic() > end:
                for player in players:
                    self.violations.append(f"{player.who} does not end")
                    self._kill(player, signal.SIGKILL)
            time.sleep(0.01)

    def _judge(self) -> dict[str, Any]:
        ops = [op for path in sorted(self.records.glob("tool*.jsonl")) for op in ops_of(path)]
        self.eyes.read_all()
        lines = (self.run / ".ckptui" / "journal.jsonl").read_bytes().splitlines()
        events = [json.loads(line) for line in lines if line]
        damaged = [
            f"{r['name']} is called complete and is not"
            for path in self.records.glob("tool*.jsonl")
            for r in read_records(path)
            if r["what"] == "damaged" and r["there"]
        ]
        violations = [
            *self.violations,
            *self.eyes.violations,
            *judge_pins(ops, self.eyes),
            *judge_answers(ops),
            *judge_freed(ops, self.eyes),
            *judge_journal(events, self.eyes, self._killed()),
            *judge_trainers(self.attempts),
            *damaged,
            *self._settle(),
            *judge_rest(self.run),
        ]
        return report(self, ops, events, violations)

    def _killed(self) -> int:
        return sum(n for what, n in self.kills.items() if "SIGKILL" in what)

    def _settle(self) -> list[str]:
        """In the end everything verifies, the trash can be emptied, and pinned ones come back."""
        found = []
        trash = ["--run", str(self.run), "--json"]
        items = json.loads(call(["trash", "list", *trash])[1])["items"]
        for item in items:
            if item["pinned"]:
                code, out, _ = call(["trash", "restore", item["id"], *trash])
                if code:
                    found.append(f"{item['name']} is pinned and does not come back: {out}")
        code, out, err = call(["verify", str(self.run), "--full", "--json"])
        reports = json.loads(out)["checkpoints"]
        if code or {r["status"] for r in reports} != {"verified"}:
            found.append(f"not all is whole in the end: {out}{err}")
        code, out, err = call(["trash", "empty", "--yes", *trash])
        if code:
            found.append(f"the trash cannot be emptied: {out}{err}")
        trashed_now = self.run / ".ckptui" / "trash"
        # What a removal that was killed has not moved yet is left alone for a minute.
        left = [p.name for p in trashed_now.iterdir() if time.time() - p.stat().st_mtime > 60]
        if left:
            found.append(f"the trash is emptied, yet it holds {left[:10]}")
        return found


def report(
    play: Play, ops: Sequence[Op], events: Sequence[dict[str, Any]], violations: Sequence[str]
) -> dict[str, Any]:
    """Counts of everything, by kind and outcome."""
    outcomes: dict[str, Counter[str]] = defaultdict(Counter)
    reasons: Counter[str] = Counter()
    for op in ops:
        outcome = "killed" if op.code is None or op.code < 0 else f"exit {op.code}"
        outcomes[op.kind][outcome] += 1
        if op.code == 1:
            reasons[f"{op.kind}: {why(op)}"] += 1
    starts = Counter(
        "owner" if a.owned else "refused" if a.at("refused") else "killed before it owned the run"
        for a in play.attempts
    )
    return {
        "commands": {kind: dict(sorted(found.items())) for kind, found in sorted(outcomes.items())},
        "commands in all": len(ops),
        "of these processes of their own": sum(op.real for op in ops),
        "why exit 1": dict(reasons.most_common(40)),
        "trainers": dict(starts),
        "owners that save in the background": sum(
            bool(a.owned and a.records[0]["background"]) for a in play.attempts
        ),
        "signals": dict(play.kills),
        "saves": sum(e["what"] == "save" for e in events),
        "journal": dict(Counter(e["what"] for e in events)),
        "newest step": play.eyes.newest,
        "looks at the folder": len(play.eyes.looks),
        "protections judged": len(protections(ops)),
        "bytes freed": sum(freed(ops).values()),
        "violations": list(violations),
    }


def why(op: Op) -> str:
    """The reason of a failure, without what differs from one to the next."""
    error = op.answer.get("error", {}).get("message")
    results = [*op.answer.get("results", ()), *op.answer.get("failed", ())]
    errors = [r["error"] for r in results if r.get("error")]
    text = error or (errors[0] if errors else op.err.strip().rpartition("\n")[2])
    text = re.sub(r"/\S+", "PATH", text)
    text = re.sub(r"\d{8}T\w+-\w+", "ITEM", text)
    return re.sub(r"step_\d+(, step_\d+)*", "STEP", text)[:160]


def main() -> int:
    parser = argparse.ArgumentParser(description="Trainers and commands that race on one run.")
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--folder", type=Path, help="where; kept. Default: a temporary one in memory"
    )
    parser.add_argument("--train", nargs=3, metavar=("RUN", "RECORD", "SEED"))
    options = parser.parse_args()
    # Imported once, before anything is forked.
    import torch

    torch.set_num_threads(1)
    if options.train:
        run, record, seed = options.train
        return train(Path(run), Record(Path(record)), seed)
    import ckptui.cli.history
    import ckptui.cli.listing
    import ckptui.cli.pinning
    import ckptui.cli.pruning
    import ckptui.cli.resume
    import ckptui.cli.showing
    import ckptui.cli.trash
    import ckptui.cli.verify
    import ckptui.training  # noqa: F401 - so that each fork has it

    Loop().step(1)  # some of torch is imported only then, and that takes seconds
    # In memory, where nothing waits for a disk, far more of them meet.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = options.folder or Path(tempfile.mkdtemp(prefix="ckptui-races-", dir=memory))
    begun = time.monotonic()
    found = Play(folder, options.seconds, options.seed)()
    found["seconds"] = round(time.monotonic() - begun, 1)
    print(json.dumps(found, indent=2))
    if not found["violations"] and options.folder is None:
        shutil.rmtree(folder)
    else:
        print(f"kept: {folder}", file=sys.stderr)
    return 1 if found["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
