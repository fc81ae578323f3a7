"""The training that is killed, what starts it again, and what must hold then.

Three commands, as a user types them: a run from its beginning to its end, with a pin set by another
process in the middle; a rewind to an older checkpoint, which a SIGTERM stops; and the resume that
takes it to the end again. Whatever is killed is started again by the same command, and by nothing
else.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from ckptui import remove, schema
from ckptui.checkpoint import is_current
from ckptui.errors import NotFoundError
from ckptui.pins import read_pins
from ckptui.run_file import read_run_file
from ckptui.scan import scan_run
from ckptui.verify import verify_checkpoint
from recipe_integration import demo
from recipe_integration.model import quiet_transformers
from tests.crash.processes import Moments, Strike, start_command, start_training
from tests.recipe.harness import rows, word

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.crash.processes import Ended, Waiting

Stage = Literal["train", "pin", "rewind", "resume"]
STAGES: Final[tuple[Stage, ...]] = ("train", "pin", "rewind", "resume")
STEPS, PIN_STEP, SOURCE_STEP, TERM_STEP = 12, 4, 6, 9
"""Optimizer steps of the run, and of what is pinned, gone back to, and stopped by a signal."""
PINNED, SOURCE, LAST = (schema.step_name(n) for n in (PIN_STEP, SOURCE_STEP, STEPS))


class FaultError(AssertionError):
    """Something that must hold does not."""


def hold(condition: bool, what: str) -> None:
    if not condition:
        raise FaultError(what)


def make_material(folder: Path) -> dict[str, Any]:
    """A base model and data; the settings of a run of 3 epochs of 4 steps."""
    quiet_transformers()
    texts = demo.write_texts(60)
    demo.write_base(folder / "base", texts, hidden=8, layers=1, seed=3, dropout=0.1)
    for name, part in (("train", texts[:15]), ("eval", texts[15:18])):
        lines = "".join(json.dumps({"text": text}) + "\n" for text in part)
        (folder / f"{name}.jsonl").write_text(lines)
    return {
        "model": folder / "base",
        "dataset": folder / "train.jsonl",
        "dataset.eval_source": folder / "eval.jsonl",
        "seed": 5,
        "epochs": 3,
        "batch_size": 2,
        "gradient_accumulation_steps": 2,
        "max_seq_len": 16,
        "num_threads": 1,
        "device": "cpu",
        "optimizer.lr": 0.01,
        "lr_scheduler.num_warmup_steps": 3,
        "save_every_n_steps": 2,
        "keep_last_n_checkpoints": 2,
        "keep_every_n_steps": SOURCE_STEP,
        "keep_best": ["1:eval_loss"],
    }


@dataclass(frozen=True, kw_only=True)
class State:
    """What a run holds that a kill must not change."""

    rows: Mapping[int, Mapping[str, str]]
    """Current metrics of each step, as hex."""
    content: Mapping[str, bytes]
    """The files of the last checkpoint."""
    names: frozenset[str]
    """Its checkpoints."""


def state_of(run: Path) -> State:
    return State(
        rows=rows(run),
        content=content(run, LAST),
        names=frozenset(c.name for c in scan_run(run).checkpoints),
    )


def content(run: Path, name: str) -> dict[str, bytes]:
    """What a checkpoint holds, wherever its run lies; its marker tells times and is left out."""
    folder = run / name
    return {
        str(p.relative_to(folder)): p.read_bytes().replace(bytes(run), b"RUN")
        for p in sorted(folder.rglob("*"))
        if p.is_file() and p.name != schema.MARKER
    }


@dataclass(frozen=True, kw_only=True)
class Reference:
    """The same three commands without any kill."""

    base: Mapping[str, Any]
    starts: Mapping[Stage, Path]
    """The run as it stood before each command."""
    ends: Mapping[Stage, State]
    kinds: Mapping[Stage, tuple[str, ...]]
    """The kinds of the operations of each, in order."""
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Point:
    """One kill."""

    number: int
    """Among all points of the scenario, from 1."""
    stage: Stage
    at: int
    """Among the operations of its process, from 1."""
    kind: str
    """Of the operation there in the undisturbed life."""


def points(reference: Reference) -> list[Point]:
    found: list[Point] = []
    for stage in STAGES:
        for at, kind in enumerate(reference.kinds[stage], 1):
            found.append(Point(number=len(found) + 1, stage=stage, at=at, kind=kind))
    return found


@dataclass
class Lived:
    """One life of the scenario in a folder of its own."""

    folder: Path
    base: Mapping[str, Any]
    strikes: list[tuple[Stage, Strike]] = field(default_factory=list)
    """Kills that are still to come: the next process of that stage gets the first of its own."""
    hits: list[str] = field(default_factory=list)
    """The operations before which a process was killed."""
    tidied: int = 0
    """Leftovers at the end that only one more attempt cleared."""
    kinds: dict[Stage, tuple[str, ...]] = field(default_factory=dict)
    pinned: bool = False
    rewind: int = 0
    idle: bool = False
    """Whether the last process had nothing to do: then nothing has tidied up after the kill."""
    _processes: int = 0

    @property
    def run(self) -> Path:
        return self.folder / "run"

    def complete(self, stage: Stage) -> None:
        """Do one of the three commands, again and again until it is through."""
        if stage == "rewind":
            self.rewind = 1 + max(a.attempt for a in _attempts(self.run))
        for _ in range(5):
            if self._once(stage):
                return
        msg = f"{stage} is not through after five starts"
        raise FaultError(msg)

    def tidy(self) -> None:
        """One more attempt, as a user makes it some day: it clears what the last kill left."""
        self.rewind = 1 + max(a.attempt for a in _attempts(self.run))
        source = self.run / schema.step_name(STEPS - 2)
        done = self._train(f"resume_from={source}", f"rewind={self.rewind}")
        hold(done.code == 0, f"the attempt after the last kill ended with {done.code}")

    def _once(self, stage: Stage) -> bool:
        """One process; False if it was killed."""
        known = {a.attempt for a in _attempts(self.run)}
        expected = self._newest(stage)
        # With its last checkpoint a training is through, whatever was killed after that.
        through = expected == STEPS
        moments = Moments(
            pin_from=SOURCE_STEP if stage == "train" and not self.pinned else None,
            term_at=TERM_STEP if stage == "rewind" else None,
        )
        words = ["resume_from=auto"]
        if stage == "rewind":
            words = [f"resume_from={self.run / SOURCE}", f"rewind={self.rewind}"]
        done = self._train(*words, moments=moments, strike=self._strike(stage))
        if done.killed:
            self.hits.append(done.hit or "?")
        else:
            allowed = (0, 75) if stage == "rewind" else (0,)
            hold(done.code in allowed, f"exit code {done.code}: {done.stderr}")
            self.kinds.setdefault(stage, done.kinds)
        self._check_start(known, expected, through=through, lived=not done.killed)
        self.look()
        if not done.killed:
            self.idle = through
        return not done.killed

    def _strike(self, stage: Stage) -> Strike | None:
        for index, (where, strike) in enumerate(self.strikes):
            if where == stage:
                del self.strikes[index]
                return strike
        return None

    def _train(
        self, *words: str, moments: Moments | None = None, strike: Strike | None = None
    ) -> Ended:
        arguments = [f"{key}={word(value)}" for key, value in self.base.items()]
        arguments += [f"output_dir={self.run}", *words]
        training = start_training(
            arguments,
            self.run,
            self._next("train"),
            strike=strike,
            moments=moments,
            meanwhile=lambda: self._pin(training),
        )
        done = training.wait()
        _check_words(done)
        hold(done.killed == (done.hit is not None), f"it died by itself: {done.stderr}")
        return done

    def _pin(self, training: Waiting) -> None:
        """Pin a checkpoint in a process of its own, again if it is killed.

        It may still be being written; if the training is killed before it stands, the next one asks
        again.
        """
        while not (self.run / PINNED).exists():
            if not training.is_alive() and not (self.run / PINNED).exists():
                return
            time.sleep(0.002)
        words = ["pin", PINNED, "--run", str(self.run), "--note", "kept"]
        for _ in range(5):
            done = start_command(
                words, self.run, self._next("pin"), strike=self._strike("pin")
            ).wait()
            _check_words(done)
            if not done.killed:
                hold(done.code == 0, f"pin ended with {done.code}: {done.stderr}")
                self.kinds.setdefault("pin", done.kinds)
                self.pinned = True
                return
            self.hits.append(done.hit or "?")
        msg = "the pin does not come about"
        raise FaultError(msg)

    def _next(self, what: str) -> Path:
        self._processes += 1
        return self.folder / "processes" / f"{self._processes}-{what}"

    def _newest(self, stage: Stage) -> int:
        """The step from which the command has to go on, by what stands in the run now."""
        attempts = _attempts(self.run)
        if stage == "rewind" and self.rewind not in {a.attempt for a in attempts}:
            return SOURCE_STEP
        steps = [0]
        for marker in self.run.glob(f"step_*/{schema.MARKER}"):
            raw = json.loads(marker.read_bytes())
            if is_current(raw["attempt"], raw["step"], attempts):
                steps.append(raw["step"])
        return max(steps)

    def _check_start(self, known: set[int], expected: int, *, through: bool, lived: bool) -> None:
        """It went on from the newest complete checkpoint, and did nothing older again."""
        now = {a.attempt for a in _attempts(self.run)}
        hold(known <= now, f"of attempts {sorted(known)} only {sorted(now)} are known any more")
        new = [a for a in _attempts(self.run) if a.attempt not in known]
        if through:
            hold(not new, f"a finished run got attempt {[a.attempt for a in new]}")
            return
        hold(len(new) == 1 if lived else len(new) <= 1, f"{len(new)} attempts by one process")
        logged = _logged_steps(self.run)
        for attempt in new:
            start = attempt.start_step
            hold(start == expected, f"it began at step {start}, but step {expected} stood")
            steps = logged.get(attempt.attempt, [])
            hold(
                steps == list(range(expected + 1, expected + 1 + len(steps))),
                f"attempt {attempt.attempt} from step {expected} logged {steps}",
            )
            hold(bool(steps) or not lived, f"attempt {attempt.attempt} logged nothing")

    def look(self) -> None:
        """What must hold at any moment, after a kill too."""
        try:
            found = scan_run(self.run)
        except NotFoundError:
            hold(not list(self.run.glob("step_*")), "the run is not seen")
            return
        listed = {c.name for c in found.checkpoints if c.complete and not c.staged}
        for checkpoint in found.checkpoints:
            if checkpoint.complete:
                report = verify_checkpoint(checkpoint, full=True)
                told = f"{checkpoint.name} is listed complete: {report.problems}"
                hold(report.status == "verified", told)
            else:
                hold(checkpoint.staged, f"{checkpoint.name} is {checkpoint.state}")
        marked = {p.parent.name for p in self.run.glob(f"step_*/{schema.MARKER}")}
        hold(listed == marked, f"listed complete: {listed}, but there are {marked}")
        for pin in read_pins(self.run).values():
            hold(pin.readable, f"the pin of {pin.name} cannot be read")
        if self.pinned:
            hold(PINNED in listed, f"{PINNED} is gone, though it is pinned")
            hold(PINNED in read_pins(self.run), f"the pin of {PINNED} is gone")

    def compare(self, reference: State) -> None:
        """The end is that of the uninterrupted run, bit by bit."""
        self._same(reference, exact_names=not self.idle)
        self._check_rows()

    def finish(self, reference: State) -> None:
        """Nothing is left lying about, or one more attempt clears it.

        That is so after a kill in the last moment, and for what an attempt leaves alone as long as
        somebody may have it in hand: it is made an hour old here.
        """
        self._no_problems()
        left = leftovers(self.run)
        if self.idle or left:
            unknown = [p for p in left if not _may_be_in_hand(p.relative_to(self.run))]
            hold(self.idle or not unknown, f"left behind: {unknown}")
            for path in left:
                then = path.lstat().st_mtime - 3600
                os.utime(path, (then, then))
            self.tidy()
            self.look()
            self._same(reference, exact_names=True)
            self._check_rows()
            self._no_problems()
            self.tidied = len(left)
            left = leftovers(self.run)
        hold(not left, f"left behind: {[str(p.relative_to(self.run)) for p in left]}")

    def _same(self, reference: State, *, exact_names: bool) -> None:
        now = state_of(self.run)
        hold(sorted(now.rows) == sorted(reference.rows), f"steps logged: {sorted(now.rows)}")
        for step, values in reference.rows.items():
            there = now.rows[step]
            hold(there == values, f"step {step} logged {there} instead of {values}")
        differing = [
            n
            for n in {*now.content, *reference.content}
            if now.content.get(n) != reference.content.get(n)
        ]
        hold(not differing, f"{LAST} differs in {sorted(differing)}")
        if exact_names:
            hold(now.names == reference.names, f"there are {sorted(now.names)}")
        hold(now.names >= reference.names, f"there are only {sorted(now.names)}")

    def _check_rows(self) -> None:
        """No attempt logged a step twice."""
        for attempt, steps in _logged_steps(self.run).items():
            hold(len(steps) == len(set(steps)), f"attempt {attempt} logged {steps}")

    def _no_problems(self) -> None:
        done = start_command(["ls", "--json", str(self.run)], self.run, self._next("ls")).wait()
        _check_words(done)
        hold(done.code == 0, f"ls ended with {done.code}: {done.stderr}")
        answer = json.loads(done.stdout)
        told = list(answer["problems"])
        for run in answer["runs"]:
            told += run["problems"]
            for checkpoint in run["checkpoints"]:
                # What is staged is told of until the next attempt clears it.
                if schema.STAGING not in checkpoint["path"]:
                    told += checkpoint["problems"]
            hold(not run["live"], "ls takes the run for live")
        hold(not told, f"ls tells of problems: {told}")


def _check_words(done: Ended) -> None:
    hold("Traceback" not in done.stderr, done.stderr)
    hold("Exception" not in done.stderr, done.stderr)


def _attempts(run: Path) -> Sequence[Any]:
    record = read_run_file(run)
    return record.attempts if record else ()


def _logged_steps(run: Path) -> dict[int, list[int]]:
    """Steps in the order in which each attempt logged their loss; torn lines are passed over."""
    found: dict[int, list[int]] = {}
    path = run / schema.METRICS_FILE
    for line in path.read_bytes().splitlines() if path.exists() else ():
        try:
            raw = json.loads(line)
        except ValueError:
            continue
        if isinstance(raw, dict) and "loss" in raw:
            found.setdefault(raw["attempt"], []).append(raw["step"])
    return found


_IN_RUN = {schema.RUN_FILE, schema.CONFIG_FILE, schema.METRICS_FILE, schema.TOOL_DIR}
_IN_TOOL_DIR = {schema.JOURNAL, schema.PINS, schema.STAGING, schema.TRASH}


def leftovers(run: Path) -> list[Path]:
    """Every path in a run at rest that is no part of it."""
    tool = run / schema.TOOL_DIR
    names = {c.name for c in scan_run(run).checkpoints if not c.staged}
    found = [p for p in run.iterdir() if p.name not in _IN_RUN | names]
    found += [p for p in tool.iterdir() if p.name not in _IN_TOOL_DIR]
    found += (tool / schema.STAGING).glob("*")
    found += [p for p in (tool / schema.PINS).glob("*") if p.name != f"{PINNED}.json"]
    sound = {item.id for item in remove.list_trash(run) if not item.problems}
    found += [p for p in (tool / schema.TRASH).glob("*") if p.name not in sound]
    return sorted(found)


def _may_be_in_hand(path: Path) -> bool:
    """Whether a leftover is of a kind that another process may be at work with for a moment."""
    _, name, *rest = *path.parts, ""
    return (name in (schema.PINS, schema.TRASH) and bool(rest[0])) or (
        name.startswith(f"{schema.LOCK}.") and name.endswith(".old")
    )


def make_reference(
    folder: Path, base: Mapping[str, Any], *, clock: Callable[[], float]
) -> Reference:
    """Live the scenario undisturbed, and keep the run as it stood before each command."""
    lived = Lived(folder / "whole", base)
    lived.folder.mkdir(parents=True)
    begun = clock()
    starts: dict[Stage, Path] = {}
    ends: dict[Stage, State] = {}
    for stage in ("train", "rewind", "resume"):
        starts[stage] = folder / f"before-{stage}"
        if lived.run.exists():
            shutil.copytree(lived.run, starts[stage])
        lived.complete(stage)
        if stage != "rewind":
            lived.compare(state_of(lived.run))
            ends[stage] = state_of(lived.run)
    lived.finish(ends["resume"])
    seconds = clock() - begun
    names = ends["train"].names
    hold({PINNED, SOURCE, LAST} <= names and len(names) < STEPS // 2, f"it kept {names}")
    hold([s for s in STAGES if lived.kinds.get(s)] == list(STAGES), "a stage did nothing")
    return Reference(base=base, starts=starts, ends=ends, kinds=lived.kinds, seconds=seconds)


def live(
    reference: Reference,
    lived: Lived,
    stage: Stage,
    strikes: Sequence[tuple[Stage, Strike]],
    *,
    through: bool = True,
) -> None:
    """Live the scenario from the command on that is killed.

    Args:
        reference: The undisturbed life.
        lived: In a folder that is not there yet.
        stage: Where it begins, with the run as it stood before that.
        strikes: The next process of a stage gets the first that names it.
        through: Whether the rewind follows on a run that was killed and came to its end.

    Raises:
        FaultError: Something that must hold does not.
    """
    lived.folder.mkdir(parents=True)
    lived.strikes += strikes
    first: Stage = "train" if stage == "pin" else stage
    if first != "train":
        shutil.copytree(reference.starts[first], lived.run)
        lived.pinned = True
    stages: tuple[Stage, ...] = ("train", "rewind", "resume")
    for each in stages[stages.index(first) :]:
        lived.complete(each)
        if each == "rewind":
            continue
        lived.compare(reference.ends[each])
        if each == "resume" or not through:
            lived.finish(reference.ends[each])
            return
