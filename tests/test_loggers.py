"""Metric loggers, with the real TensorBoard and W&B: every step once, in order, whatever happens.

`drive` is a run in small: it logs, flushes and "saves" as a trainer does, in a process of its own
that may be killed anywhere, and goes on from what its last save recorded.
"""

from __future__ import annotations

import contextlib
import gzip
import http.server
import importlib
import json
import math
import os
import random
import signal
import struct
import subprocess
import sys
import threading
import time
import zlib
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from ckptui.checkpoint import Attempt
from ckptui.durable import replace_file, to_json
from ckptui.errors import StorageError, UsageError
from ckptui.loggers import KINDS, Begin, make_logger
from ckptui.metrics import MetricsWriter, read_metrics

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ckptui.loggers import MetricLogger

ROOT = Path(__file__).parent.parent
Action = Literal["fresh", "continue", "rewind", "fork"]
Rows = dict[int, dict[str, float]]

needs_tensorboard = pytest.mark.skipif(
    find_spec("tensorboard") is None, reason="tensorboard is not installed"
)
needs_wandb = pytest.mark.skipif(find_spec("wandb") is None, reason="wandb is not installed")
several_attempts = pytest.mark.parametrize(
    "kind",
    [
        pytest.param("tensorboard", marks=needs_tensorboard),
        pytest.param("wandb", marks=[needs_wandb, pytest.mark.slow]),
    ],
)
each_kind = pytest.mark.parametrize(
    "kind",
    [
        pytest.param("tensorboard", marks=needs_tensorboard),
        pytest.param("wandb", marks=needs_wandb),
    ],
)


OPTIONS: dict[str, dict[str, Any]] = {
    "tensorboard": {},
    "wandb": {"project": "small", "mode": "offline"},
}


def row_at(step: int, branch: int = 0) -> dict[str, float]:
    """What training logs at a step; a branch other than 0 trains differently."""
    values = {"loss": 1 / (step + branch), "train/lr.0": step * 1e-5, "epoch": step // 10}
    if step % 3 == 0:
        values["eval_loss"] = 2 / (step + branch)
    if step % 7 == 0:
        values["grad_norm"] = math.nan
    return values


@dataclass
class Small:
    """A run in small, in one attempt; its state is in `state.json`."""

    path: Path
    options: dict[str, dict[str, Any]]
    action: Action = "continue"
    at: int | None = None
    source: Path | None = None
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        own = self._state(self.path)
        state = self._state(self.source or self.path)
        self.saved: int | None = state["saved"] if self.at is None else self.at
        self.start = self.saved or 0
        self.number = len(own["attempts"]) + 1
        self.attempts = [*own["attempts"], self.start]
        if self.saved is None:
            self.action = "fresh"
        # As `run.json` has it, or for a fork the checkpoint's `recipe_state.json`.
        self.previous = state["loggers"]
        self.loggers: list[MetricLogger] = []

    @staticmethod
    def _state(run: Path) -> dict[str, Any]:
        try:
            state: dict[str, Any] = json.loads((run / "state.json").read_text())
        except FileNotFoundError:
            return {"saved": None, "attempts": [], "loggers": {}}
        return state

    def _keep(self) -> None:
        state = {
            "saved": self.saved,
            "attempts": self.attempts,
            "loggers": {x.kind: x.identity() for x in self.loggers} or self.previous,
        }
        replace_file(self.path / "state.json", to_json(state))

    def rows(self) -> Iterator[tuple[int, float | None, Mapping[str, float]]]:
        run = self.source or self.path
        starts = self.attempts if self.source is None else self._state(run)["attempts"]
        attempts = [Attempt(attempt=i, start_step=s) for i, s in enumerate(starts, 1)]
        for row in read_metrics(run, attempts).current():
            if row.step <= self.start:
                values = {k: math.nan if v is None else v for k, v in row.metrics.items()}
                yield row.step, row.epoch, values

    def begin(self) -> None:
        self._keep()
        self.log = MetricsWriter(self.path, self.number)
        if self.source is not None:  # a fork has the history before it
            for step, epoch, values in list(self.rows()):
                self.log.write(step, epoch, values)
        for kind, options in self.options.items():
            logger = make_logger(kind, options)
            logger.start(
                Begin(
                    run=self.path,
                    run_id=f"{zlib.crc32(bytes(self.path)):08x}",
                    attempt=self.number,
                    action=self.action,
                    start_step=self.start,
                    previous=self.previous.get(kind),
                    rows=self.rows,
                    config={"path": self.path, "lr": 0.1, "deep": {"list": [1, None]}},
                    report=self.said.append,
                )
            )
            self.loggers.append(logger)
        self._keep()

    def step(self, step: int, *, branch: int = 0) -> None:
        values = row_at(step, branch)
        epoch = values.pop("epoch")
        late = {k: v for k, v in values.items() if k == "eval_loss"}
        for part in ({k: v for k, v in values.items() if k not in late}, late):
            if part:
                self.log.write(step, epoch, part)
                for logger in self.loggers:
                    logger.log(step, part, epoch)

    def save(self, step: int) -> None:
        self.log.sync()
        for logger in self.loggers:
            logger.flush()
        self.saved = step
        self._keep()

    def end(self) -> None:
        for logger in self.loggers:
            logger.close()
        self.log.close()


def drive(
    path: str, options: dict[str, dict[str, Any]], *, until: int, pause: float = 0.0, **how: Any
) -> list[str]:
    """Train a small run to a step, saving every fifth; what its loggers said."""
    branch = how.pop("branch", 0)
    if how.get("source"):
        how["source"] = Path(how["source"])
    run = Small(Path(path), options, **how)
    run.begin()
    for step in range(run.start + 1, until + 1):
        run.step(step, branch=branch)
        if step % 5 == 0 or step == until:
            run.save(step)
        time.sleep(pause)
    run.end()
    return run.said


def environment() -> dict[str, str]:
    found = {k: v for k, v in os.environ.items() if not k.startswith("WANDB_")}
    return found | {"WANDB_ERROR_REPORTING": "false", "PYTHONPATH": str(ROOT)}


def started(path: Path, kinds: Iterable[str], **how: Any) -> subprocess.Popen[str]:
    """A small run in a process of its own."""
    how = {k: str(v) if isinstance(v, Path) else v for k, v in how.items()}
    options = {kind: OPTIONS[kind] for kind in kinds}
    code = (
        "import json; from tests.test_loggers import drive; "
        f"print(json.dumps(drive({str(path)!r}, {options!r}, **{how!r})))"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=path.parent,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(path: Path, kinds: Iterable[str], **how: Any) -> list[str]:
    """Train a small run to its end, in a process of its own; what its loggers said."""
    process = started(path, kinds, **how)
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert "Traceback" not in errors, errors
    said: list[str] = json.loads(out.splitlines()[-1])
    return said


def killed(path: Path, kinds: Iterable[str], *, after: float, service: bool, **how: Any) -> bool:
    """Kill it some seconds after its loggers began, its W&B service as well or not."""
    process = started(path, kinds, pause=0.02, **how)
    begun = len(Small(path, {}).attempts) - 1
    while process.poll() is None and len(Small(path, {}).attempts) - 1 == begun:
        time.sleep(0.005)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(after)
    ended = process.poll() is not None
    if not ended:
        children = services_of(process.pid) if service else []
        process.kill()
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    assert "Traceback" not in errors, errors
    return not ended


def services_of(parent: int) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            rest = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(rest[1]) == parent:
                found.append(int(folder.name))
    return found


def tensorboard_rows(folder: Path) -> Rows:
    """What TensorBoard's own reader shows; it must be in order and without doubles."""
    module = "tensorboard.backend.event_processing.event_accumulator"
    accumulator = importlib.import_module(module).EventAccumulator
    reader = accumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    found: Rows = {}
    for tag in reader.Tags()["scalars"]:
        events = reader.Scalars(tag)
        steps = [e.step for e in events]
        assert steps == sorted(set(steps)), (tag, steps)
        for event in events:
            found.setdefault(event.step, {})[tag] = event.value
    return found


def wandb_records(path: Path) -> Iterator[Any]:
    """All records of a `.wandb` file, read without the code that is tested."""
    record = importlib.import_module("wandb.proto.wandb_internal_pb2").Record
    data, position, whole = path.read_bytes(), 7, b""
    assert data.startswith(b":W&B")
    while position + 7 <= len(data):
        if 32768 - position % 32768 < 7:
            position += 32768 - position % 32768
            continue
        checksum, length, kind = struct.unpack_from("<IHB", data, position)
        body = data[position + 7 : position + 7 + length]
        if len(body) < length or zlib.crc32(bytes([kind]) + body) != checksum:
            return
        position += 7 + length
        whole = body if kind in (1, 2) else whole + body
        if kind in (1, 4):
            yield record.FromString(whole)


def wandb_runs(run: Path) -> dict[str, Rows]:
    """The rows of each W&B id in a run's offline folders; no step may be there twice."""
    found: dict[str, Rows] = {}
    for path in sorted(run.glob("wandb/offline-run-*/run-*.wandb")):
        rows = found.setdefault(path.stem.removeprefix("run-"), {})
        for record in wandb_records(path):
            if record.WhichOneof("record_type") == "history":
                items = {".".join(i.nested_key): i.value_json for i in record.history.item}
                step = record.history.step.num
                assert step > max(rows, default=-1), f"{step} comes after {max(rows)}"
                assert int(items["_step"]) == step
                rows[step] = {k: json.loads(v) for k, v in items.items() if k[0] != "_"}
    return found


def wandb_rows(run: Path) -> Rows:
    """The rows of the only W&B id of a run."""
    (rows,) = wandb_runs(run).values()
    return rows


def shown(kind: str, run: Path) -> Rows:
    return tensorboard_rows(run / "tensorboard") if kind == "tensorboard" else wandb_rows(run)


def same(found: Rows, wanted: Rows) -> None:
    """Every step is there once, with all its values, in single precision or better."""
    assert sorted(found) == sorted(wanted)
    for step, values in wanted.items():
        assert found[step] == pytest.approx(values, rel=1e-6, nan_ok=True), step


def trained(*, until: int, branch: int = 0, before: int = 0) -> Rows:
    """All rows of a training to a step, after `before` on a branch."""
    return {s: row_at(s, branch if s > before else 0) for s in range(1, until + 1)}


def begin_at(run: Path, action: Action = "fresh", start: int = 0, **how: Any) -> Begin:
    """The beginning of an attempt without a history, unless one is given."""
    rest: dict[str, Any] = {"previous": None, "rows": list, "report": pytest.fail, "config": None}
    rest |= {"run_id": "1234567890abcdef", "attempt": 1}
    run.mkdir(exist_ok=True)
    return Begin(run=run, action=action, start_step=start, **(rest | how))


@each_kind
def test_a_run_without_trouble_has_every_step_once(tmp_path: Path, kind: str) -> None:
    run = tmp_path / "run"
    assert finished(run, [kind], until=23) == []
    same(shown(kind, run), trained(until=23))


def sweep(tmp_path: Path, kind: str, *, seed: int, kills: int) -> None:
    """Kill a run at random moments and go on each time; read all of it back."""
    run, chance = tmp_path / "run", random.Random(seed)
    done = 0
    while done < kills and killed(
        run, [kind], after=chance.uniform(0, 1.2), service=chance.random() < 0.5, until=2000
    ):
        done += 1
    start = Small(run, {}).start
    said = finished(run, [kind], until=start + 12)
    same(shown(kind, run), trained(until=start + 12))
    assert done == kills
    assert not left_over(run)
    assert len(said) == (1 if start else 0)


@each_kind
def test_a_run_that_was_killed_goes_on_under_the_same_id(tmp_path: Path, kind: str) -> None:
    sweep(tmp_path, kind, seed=1, kills=2)


@pytest.mark.slow
@each_kind
@pytest.mark.parametrize("seed", range(6))
def test_killed_at_any_moment_no_step_is_doubled_or_missing(
    tmp_path: Path, kind: str, seed: int
) -> None:
    sweep(tmp_path, kind, seed=100 + seed, kills=12)


@several_attempts
def test_what_was_logged_after_the_last_save_is_not_doubled(tmp_path: Path, kind: str) -> None:
    run = tmp_path / "run"
    finished(run, [kind], until=10)
    finished(run, [kind], until=13, at=5)
    same(shown(kind, run), trained(until=13))


@pytest.mark.slow
@needs_tensorboard
@needs_wandb
@pytest.mark.parametrize("kind", KINDS)
def test_two_loggers_at_once_do_not_disturb_each_other(tmp_path: Path, kind: str) -> None:
    run = tmp_path / "run"
    finished(run, ["tensorboard", "wandb"], until=8)
    finished(run, ["tensorboard", "wandb"], until=16)
    same(shown(kind, run), trained(until=16))


@needs_tensorboard
def test_a_rewind_purges_what_it_abandons_from_tensorboard(tmp_path: Path) -> None:
    run = tmp_path / "run"
    finished(run, ["tensorboard"], until=20)
    said = finished(run, ["tensorboard"], until=12, action="rewind", at=10, branch=1)
    same(tensorboard_rows(run / "tensorboard"), trained(until=12, branch=1, before=10))
    assert said == [f"TensorBoard was rewound to step 10 in {run / 'tensorboard'}."]
    finished(run, ["tensorboard"], until=11, action="rewind", at=6, branch=2)
    wanted = trained(until=11, branch=2, before=6)
    same(tensorboard_rows(run / "tensorboard"), wanted)


@pytest.mark.slow
@needs_wandb
def test_a_rewind_offline_gets_a_new_wandb_id_with_the_history(tmp_path: Path) -> None:
    run = tmp_path / "run"
    finished(run, ["wandb"], until=20)
    (before,) = wandb_runs(run)
    (line,) = finished(run, ["wandb"], until=12, action="rewind", at=10, branch=1)
    finished(run, ["wandb"], until=14, branch=1)
    runs = wandb_runs(run)
    same(runs.pop(before), trained(until=20))
    ((after, rows),) = runs.items()
    same(rows, trained(until=14, branch=1, before=10))
    assert "cannot rewind offline" in line
    assert after in line
    assert f"run {before} stays as it is" in line
    assert "10 rows of the history" in line


@several_attempts
def test_a_fork_has_the_history_before_it_and_leaves_its_source_alone(
    tmp_path: Path, kind: str
) -> None:
    run, fork = tmp_path / "run", tmp_path / "fork"
    finished(run, [kind], until=10)
    (line,) = finished(fork, [kind], until=14, action="fork", source=run, at=5, branch=1)
    same(shown(kind, fork), trained(until=14, branch=1, before=5))
    same(shown(kind, run), trained(until=10))
    assert "5 rows of the history before" in line
    finished(fork, [kind], until=17, branch=1)
    same(shown(kind, fork), trained(until=17, branch=1, before=5))
    if kind == "wandb":
        assert not wandb_runs(fork).keys() & wandb_runs(run).keys()


@several_attempts
def test_a_logger_that_joins_later_gets_the_whole_history(tmp_path: Path, kind: str) -> None:
    run = tmp_path / "run"
    finished(run, [], until=10)
    (line,) = finished(run, [kind], until=13)
    same(shown(kind, run), trained(until=13))
    assert "10 rows" in line
    finished(run, [], until=20)
    finished(run, [kind], until=24)
    same(shown(kind, run), trained(until=24))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the file's age is looked at")
@needs_wandb
def test_a_wandb_service_that_has_not_ended_yet_is_waited_for(tmp_path: Path) -> None:
    run = tmp_path / "run"
    finished(run, ["wandb"], until=5)
    (path,) = run.glob("wandb/offline-run-*/run-*.wandb")
    with path.open("rb"):
        process = started(run, ["wandb"], until=8)
        end = time.monotonic() + 6  # it waits for up to ten
        while time.monotonic() < end:
            assert len(list(run.glob("wandb/offline-run-*"))) == 1
            time.sleep(0.02)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    same(wandb_rows(run), trained(until=8))


@pytest.mark.slow
@needs_tensorboard
def test_event_files_that_are_gone_or_cut_are_made_up_for(tmp_path: Path) -> None:
    run = tmp_path / "run"
    for until in (10, 20, 30):
        finished(run, ["tensorboard"], until=until)
    first, second, _ = sorted((run / "tensorboard").iterdir())
    data, lacked = second.read_bytes(), 0
    for size in sorted(random.Random(3).sample(range(len(data)), 8), reverse=True):
        second.write_bytes(data[:size])
        start = Small(run, {}).start
        said = finished(run, ["tensorboard"], until=start + 1)
        lacked += "lacked" in said[0]
        same(tensorboard_rows(run / "tensorboard"), trained(until=start + 1))
    assert lacked > 3
    first.unlink()
    finished(run, ["tensorboard"], until=50)
    same(tensorboard_rows(run / "tensorboard"), trained(until=50))


@pytest.mark.slow
@needs_wandb
def test_a_wandb_file_whose_end_is_cut_is_made_up_for(tmp_path: Path) -> None:
    run, chance = tmp_path / "run", random.Random(4)
    finished(run, ["wandb"], until=10)
    for _ in range(3):
        path = max(run.glob("wandb/offline-run-*/run-*.wandb"))
        path.write_bytes(path.read_bytes()[: chance.randrange(path.stat().st_size)])
        start = Small(run, {}).start
        finished(run, ["wandb"], until=start + 5)
        same(wandb_rows(run), trained(until=start + 5))


@needs_tensorboard
def test_a_new_event_file_sorts_last_also_when_the_clock_was_set_back(tmp_path: Path) -> None:
    run = tmp_path / "run"
    finished(run, ["tensorboard"], until=10)
    (path,) = (run / "tensorboard").iterdir()
    parts = path.name.split(".")
    parts[3] = str(int(time.time()) + 10_000)
    path.rename(path.with_name(".".join(parts)))
    finished(run, ["tensorboard"], until=8, action="rewind", at=5, branch=1)
    same(tensorboard_rows(run / "tensorboard"), trained(until=8, branch=1, before=5))


def scripted(
    kind: str, run: Path, code: str, *, limit: int | None = None, begin: str = ""
) -> tuple[list[str], str]:
    """Run code with a started `logger` in a process of its own; what was said, and its stderr."""
    before = (
        "import json, math, os, pathlib, resource, signal, sys, time\n"
        "from tests.test_loggers import begin_at, make_logger, services_of\n"
        f"options = {OPTIONS[kind]!r}\n"
        f"limit, kind, run = {limit!r}, {kind!r}, pathlib.Path({str(run)!r})\n"
        "said = []\n"
        "logger = make_logger(kind, options)\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "if limit: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))\n"
        "start = lambda *a, **k: logger.start(begin_at(run, *a, report=said.append, **k))\n"
        f"start({begin})\n"
        "(run / 'identity.json').write_text(json.dumps(logger.identity()))\n"
    )
    after = "\nprint(json.dumps(said), flush=True)\n"
    done = subprocess.run(
        [sys.executable, "-c", before + code + after],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    said: list[str] = json.loads(done.stdout.splitlines()[-1])
    return said, done.stderr


@each_kind
def test_values_of_one_step_are_one_row_and_the_last_one_is_not_lost(
    tmp_path: Path, kind: str
) -> None:
    code = """
logger.log(0, {"loss": 3.0}, None)
logger.log(1, {"loss": 2.0}, 0)
logger.log(1, {"eval_loss": 4, "inf": math.inf, "minus": -math.inf, "nan": math.nan}, 0)
logger.flush()
logger.log(1, {"late": 5.0, "huge": 1e300, "ä/ö x": -0.0, "int": 10**400, "long": -(10**30)}, 0)
logger.log(2, {"loss": 1.0}, 0.5)
logger.log(1, {"loss": 9.0}, 0)
logger.log(2, {"more": 1.0}, 0.5)
logger.close()
logger.close()
"""
    run = tmp_path / "run"
    said, errors = scripted(kind, run, code)
    rows = shown(kind, run)
    wanted = {"loss": 2.0, "eval_loss": 4, "inf": math.inf, "minus": -math.inf, "nan": math.nan}
    wanted |= {"late": 5.0, "huge": 1e300, "ä/ö x": -0.0, "epoch": 0}
    wanted |= {"int": math.inf, "long": -1e30}
    if kind == "tensorboard":
        wanted["huge"] = math.inf  # single precision has no such number
    for name in ("inf", "minus", "int"):
        rows[1][name] = float(rows[1][name])  # W&B keeps infinities as texts
    same(rows, {0: {"loss": 3.0}, 1: wanted, 2: {"loss": 1.0, "more": 1.0, "epoch": 0.5}})
    assert len(said) == 1
    assert "step 1 after step 2 is only in metrics.jsonl" in said[0]
    assert not errors


@each_kind
def test_what_was_flushed_survives_a_kill_of_everything(tmp_path: Path, kind: str) -> None:
    code = """
for step in range(1, 8):
    logger.log(step, {"loss": 1 / step}, 0)
logger.flush()
for pid in [*services_of(os.getpid()), os.getpid()]:
    os.kill(pid, signal.SIGKILL)
"""
    with pytest.raises(AssertionError):
        scripted(kind, tmp_path / "run", code)
    # W&B gets a row when the next step begins; until then it is in `metrics.jsonl`.
    last = 7 if kind == "tensorboard" else 6
    assert list(shown(kind, tmp_path / "run")) == list(range(1, last + 1))


@each_kind
@pytest.mark.parametrize("uploaded", [False, True])
def test_what_comes_for_the_step_of_the_checkpoint_still_joins_its_row(
    tmp_path: Path, kind: str, uploaded: bool
) -> None:
    run = tmp_path / "run"
    code = """
for step in (1, 2, 3):
    logger.log(step, {"loss": 1 / step}, 0)
logger.flush()
logger.close()
"""
    assert scripted(kind, run, code) == ([], "")
    for path in run.glob("wandb/*/*.wandb"):
        if uploaded:
            path.with_name(f"{path.name}.synced").touch()
    goes_on = """"continue", 3, previous=json.loads((run / "identity.json").read_text()),
        rows=lambda: [(s, 0, {"loss": 1 / s}) for s in (1, 2, 3)]
    """
    code = """
logger.log(3, {"loss": 1 / 3, "eval_loss": 5.0}, 0)
logger.log(4, {"loss": 0.25}, 0)
logger.close()
"""
    said, _ = scripted(kind, run, code, begin=goes_on)
    rows = trained(until=4)
    wanted = {step: {"loss": row["loss"], "epoch": 0} for step, row in rows.items()}
    if kind == "tensorboard" or not uploaded:
        wanted[3]["eval_loss"] = 5.0
        assert len(said) == 1
    else:
        assert "W&B has step 3 already and takes nothing more for it: eval_loss" in said[1]
    same(shown(kind, run), wanted)


MANY = """
for step in range(1, 2001):
    logger.log(step, {"loss": 1 / step, "lr": 0.5, "grad_norm": 1.0}, 0)
    if step % 400 == 0:
        logger.flush()
begun = time.monotonic()
logger.close()
took = time.monotonic() - begun
assert took < 12, took
"""


@several_attempts
def test_a_disk_that_fills_up_stops_no_training_and_is_told_once(tmp_path: Path, kind: str) -> None:
    run = tmp_path / "run"
    run.mkdir()
    said, errors = scripted(kind, run, MANY, limit=60_000)
    assert len(said) == 1
    assert ("cannot be written" if kind == "tensorboard" else "does not write") in said[0]
    assert "Training goes on; the next attempt adds what is missing." in said[0]
    assert "Traceback" not in errors

    goes_on = """"continue", 2000, previous=json.loads((run / "identity.json").read_text()),
        rows=lambda: [(s, 0, {"loss": 1 / s, "lr": 0.5, "grad_norm": 1.0}) for s in range(1, 2001)]
    """
    said, _ = scripted(
        kind, run, 'logger.log(2001, {"loss": 0.5}, 0); logger.close()', begin=goes_on
    )
    rows = shown(kind, run)
    assert list(rows) == list(range(1, 2002))
    assert all(row["loss"] == pytest.approx(1 / s) for s, row in rows.items() if s <= 2000)
    assert len(said) == 1
    assert "that it lacked came from metrics.jsonl" in said[0]


@pytest.mark.slow
@needs_wandb
@pytest.mark.parametrize("how", ["SIGKILL", "SIGSTOP"])
def test_a_wandb_service_that_dies_or_hangs_holds_nothing_up(tmp_path: Path, how: str) -> None:
    code = f"""
logger.log(1, {{"loss": 1.0}}, 0)
logger.log(2, {{"loss": 1.0}}, 0)
logger.flush()
(service,) = services_of(os.getpid())
os.kill(service, signal.{how})
for step in range(3, 2000):
    begun = time.monotonic()
    logger.log(step, {{"loss": 1.0}}, 0)
    assert time.monotonic() - begun < 1
begun = time.monotonic()
logger.flush()
logger.flush()
logger.close()
took = time.monotonic() - begun
assert took < 25, took
"""
    run = tmp_path / "run"
    said, errors = scripted("wandb", run, code)
    assert sorted(wandb_rows(run)) == [1]  # a row is whole when the next step begins
    assert "Training goes on; the next attempt adds what is missing." in said[0]
    assert len(said) == 1
    assert "Traceback" not in errors
    assert not left_over(run)


def left_over(run: Path) -> list[str]:
    """Commands of W&B services that still hold a file of a run."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            links = [str(fd.readlink()) for fd in (folder / "fd").iterdir()]
            if any(link.startswith(f"{run}/wandb") for link in links):
                found.append((folder / "cmdline").read_text())
    return found


@each_kind
def test_a_run_that_is_asked_to_stop_ends_within_seconds(tmp_path: Path, kind: str) -> None:
    code = """
class Stop(BaseException): pass
def stop(*_): raise Stop
signal.signal(signal.SIGTERM, stop)
try:
    for step in range(1, 10**9):
        logger.log(step, {"loss": 1.0}, 0)
        if step == 50: os.kill(os.getpid(), signal.SIGTERM)
except Stop:
    begun = time.monotonic()
    logger.flush()
    logger.close()
    assert time.monotonic() - begun < 5
"""
    run = tmp_path / "run"
    said, _ = scripted(kind, run, code)
    assert not said
    assert max(shown(kind, run)) == 50
    assert not left_over(run)


def test_loggers_are_made_without_their_packages() -> None:
    code = (
        "import sys; from ckptui.loggers import KINDS, make_logger\n"
        "made = [make_logger(kind, {}) for kind in KINDS]; print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    heavy = {"torch", "numpy", "google.protobuf", "tensorboard", "tensorflow", "wandb"}
    assert not heavy & set(done.stdout.split())


@needs_tensorboard
def test_tensorboard_needs_neither_torch_nor_tensorflow(tmp_path: Path) -> None:
    code = """
logger.log(1, {"loss": 1.0}, 0)
logger.close()
said += [name for name in ("torch", "tensorflow", "grpc") if name in sys.modules]
"""
    assert scripted("tensorboard", tmp_path / "run", code)[0] == []


@pytest.mark.parametrize(
    ("kind", "module"),
    [("tensorboard", "tensorboard"), ("wandb", "wandb"), ("wandb", "google.protobuf")],
)
def test_a_missing_package_is_named_with_the_extra_that_brings_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, module: str
) -> None:
    for name in [m for m in sys.modules if m.partition(".")[0] in ("wandb", "tensorboard")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UsageError, match=f"pip install 'ckptui\\[{kind}\\]'"):
        make_logger(kind, {"mode": "offline"} if kind == "wandb" else {}).start(
            begin_at(tmp_path / "run")
        )


@pytest.mark.parametrize(
    ("kind", "options", "what"),
    [
        ("mlflow", {}, "there are tensorboard and wandb"),
        ("tensorboard", {"project": "p"}, "no option 'project'; it has dir"),
        ("wandb", {"dir": "x"}, "it has entity, mode, name, project"),
        ("wandb", {"mode": "of"}, "one of online, offline, disabled, not 'of'"),
        ("wandb", {"project": 3}, "wandb.project must be a text, not 3"),
        ("tensorboard", {"dir": ""}, "tensorboard.dir must be a text, not ''"),
    ],
)
def test_options_that_can_never_be_right_are_refused(
    kind: str, options: dict[str, Any], what: str
) -> None:
    with pytest.raises(UsageError, match=what):
        make_logger(kind, options)


@pytest.mark.parametrize("kind", KINDS)
def test_options_that_are_none_are_left_to_the_backend(kind: str) -> None:
    assert (
        make_logger(kind, {"dir": None} if kind == "tensorboard" else {"mode": None}).kind == kind
    )


@pytest.mark.parametrize("kind", KINDS)
def test_logging_before_the_start_is_a_mistake(kind: str) -> None:
    logger = make_logger(kind, {})
    with pytest.raises(UsageError, match="between start"):
        logger.log(1, {"loss": 1.0}, None)
    with pytest.raises(UsageError, match="between start"):
        logger.flush()
    logger.close()


@needs_tensorboard
def test_runs_that_share_a_folder_for_tensorboard_each_have_their_own_in_it(tmp_path: Path) -> None:
    shared = tmp_path / "all"
    for name, run_id in (("one", "a" * 32), ("two", "b" * 32)):
        logger = make_logger("tensorboard", {"dir": str(shared)})
        logger.start(begin_at(tmp_path / name, run_id=run_id))
        logger.log(1, {"loss": 1.0}, None)
        logger.close()
    renamed = (tmp_path / "two").rename(tmp_path / "other")
    logger = make_logger("tensorboard", {"dir": str(shared)})
    said: list[str] = []
    logger.start(begin_at(renamed, "continue", 1, run_id="b" * 32, report=said.append))
    logger.log(2, {"loss": 0.5}, None)
    logger.close()
    one, two = sorted(shared.iterdir())
    assert [one.name, two.name] == ["one-aaaaaaaa", "two-bbbbbbbb"]
    assert logger.identity() == {"dir": str(two)}
    assert tensorboard_rows(one) == {1: {"loss": 1.0}}
    assert tensorboard_rows(two) == {1: {"loss": 1.0}, 2: {"loss": 0.5}}


@needs_tensorboard
def test_a_file_in_the_way_of_the_event_files_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/tensorboard").write_text("mine")
    with pytest.raises(StorageError, match="tensorboard cannot be written"):
        make_logger("tensorboard", {}).start(begin_at(tmp_path / "run"))


@needs_wandb
def test_a_disabled_wandb_takes_everything_and_keeps_nothing(tmp_path: Path) -> None:
    said: list[str] = []
    known = {"id": "abc", "attempt": 1}
    logger = make_logger("wandb", {"mode": "disabled"})
    logger.start(begin_at(tmp_path / "run", "continue", 3, previous=known, report=said.append))
    logger.log(4, {"loss": 1.0}, 0)
    logger.flush()
    logger.close()
    assert logger.identity() == known
    assert said == ["W&B is disabled: metrics go to metrics.jsonl only."]
    assert not list((tmp_path / "run").iterdir())


@needs_wandb
def test_wandb_without_a_key_says_how_to_go_on(tmp_path: Path) -> None:
    code = """
from ckptui.errors import RefusedError
logger.close()
second = make_logger("wandb", {"mode": "online", "project": "p"})
try:
    second.start(begin_at(run.with_name("second")))
except RefusedError as e:
    said.append(str(e))
"""
    said, _ = scripted("wandb", tmp_path / "run", code)
    assert len(said) == 1
    assert "API key" in said[0]
    assert said[0].endswith("Mend that, or train with wandb.mode=offline.")


class Server:
    """Enough of W&B's server for its real client: runs with their history, resumed and rewound."""

    def __init__(self, *, rewinds: bool = True) -> None:
        self.history: dict[str, list[dict[str, Any]]] = {}
        self.forked: dict[str, tuple[str, int]] = {}
        self._rewinds = rewinds
        answer = self._answer

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers["Content-Encoding"] == "gzip":
                    body = gzip.decompress(body)
                reply = json.dumps(answer(self.path, json.loads(body))).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(reply)))
                self.end_headers()
                self.wfile.write(reply)

            def log_message(self, *_: object) -> None:
                pass

        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def steps(self, run: str) -> list[int]:
        return [row["_step"] for row in self.history[run]]

    def _answer(self, path: str, asked: dict[str, Any]) -> dict[str, Any]:
        if path.endswith("/file_stream"):
            sent = (asked.get("files") or {}).get("wandb-history.jsonl")
            if sent:
                rows = self.history[path.split("/")[-2]]
                rows[sent["offset"] :] = [json.loads(line) for line in sent["content"]]
            return {}
        return {"data": self._queried(asked["query"], asked.get("variables") or {})}

    def _queried(self, query: str, given: dict[str, Any]) -> dict[str, Any]:
        if "RunResumeStatus" in query:
            there = given["name"] in self.history
            project = {"id": "p", "name": "small", "entity": {"id": "e", "name": "me"}}
            return {"model": {**project, "bucket": self._bucket(given["name"])} if there else None}
        if "rewindRun" in query:
            if not self._rewinds:
                return {"rewindRun": None}
            rows = self.history[given["runName"]]
            rows[:] = [row for row in rows if row["_step"] <= given["metricValue"]]
            return {"rewindRun": {"rewoundRun": self._bucket(given["runName"])}}
        if "upsertBucket" in query:
            self.history.setdefault(given["name"], [])
            config = json.loads(given.get("config") or "{}").get("_wandb", {})
            if "branch_point" in config.get("value", {}):
                point = config["value"]["branch_point"]
                self.forked[given["name"]] = (point["run_id"], point["step"])
            return {"upsertBucket": {"bucket": self._bucket(given["name"]), "inserted": True}}
        if "createRunFiles" in query:
            return {"createRunFiles": {"runID": "r", "uploadHeaders": [], "files": []}}
        return {}

    def _bucket(self, run: str) -> dict[str, Any]:
        rows = self.history[run]
        return {
            "id": "b",
            "name": run,
            "displayName": run,
            "project": {"id": "p", "name": "small", "entity": {"id": "e", "name": "me"}},
            "config": "{}",
            "wandbConfig": json.dumps({"t": {}}),
            "summaryMetrics": "{}",
            "historyLineCount": len(rows),
            "eventsLineCount": 0,
            "logLineCount": 0,
            "historyTail": json.dumps([json.dumps(row) for row in rows[-1:]]),
            "eventsTail": "[]",
            "tags": [],
        }


def online(
    server: Server, run: Path, action: Action, start: int, until: int, late: str = "", **how: Any
) -> tuple[list[str], dict[str, Any]]:
    """An attempt with W&B online; what was said, and the identity."""
    code = f"""
said = []
logger = make_logger("wandb", {{"mode": "online", "project": "small"}})
rows = [(s, 0, {{"loss": 1 / s}}) for s in range(1, {start} + 1)]
logger.start(begin_at(run, {action!r}, {start}, report=said.append, rows=lambda: rows, **{how!r}))
if {late!r}:
    logger.log({start}, {{{late!r}: 1.0}}, 0)
for step in range({start} + 1, {until} + 1):
    logger.log(step, {{"loss": 1 / step}}, 0)
logger.flush()
logger.close()
print(json.dumps([said, logger.identity()]))
"""
    run.mkdir(exist_ok=True)
    before = (
        "import json, pathlib; from tests.test_loggers import begin_at, make_logger; "
        f"run = pathlib.Path({str(run)!r})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", before + code],
        env=environment() | {"WANDB_BASE_URL": server.url, "WANDB_API_KEY": "a" * 40},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    said, identity = json.loads(done.stdout.splitlines()[-1])
    return said, identity


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


@pytest.mark.slow
@needs_wandb
def test_online_a_run_goes_on_is_rewound_and_forked_with_every_step_once(
    tmp_path: Path, server: Server
) -> None:
    run, fork = tmp_path / "run", tmp_path / "fork"
    (first,), known = online(server, run, "fresh", 0, 7)
    assert first == f"W&B: run {known['id']} at {server.url}/me/small/runs/{known['id']}."
    assert known["entity"] == "me"
    _, known = online(server, run, "continue", 5, 9, previous=known)
    assert server.steps(known["id"]) == list(range(1, 10))
    (line,), known = online(server, run, "continue", 12, 14, previous=known)
    assert "3 rows that it lacked" in line
    assert server.steps(known["id"]) == list(range(1, 15))
    said, known = online(server, run, "continue", 14, 15, late="eval_loss", previous=known)
    assert "W&B has step 14 already and takes nothing more for it: eval_loss" in said[1]
    (line,), known = online(server, run, "rewind", 6, 8, previous=known, attempt=4)
    assert line.endswith("was rewound to step 6.")
    assert server.steps(known["id"]) == list(range(1, 9))
    (line,), forked = online(server, fork, "fork", 4, 6, previous=known, run_id="f" * 32)
    assert forked["id"] != known["id"]
    assert server.forked[forked["id"]] == (known["id"], 4)
    assert server.steps(forked["id"]) == [5, 6]
    assert len(server.history) == 2


@pytest.mark.slow
@needs_wandb
def test_where_the_server_cannot_rewind_a_new_wandb_run_gets_the_history(tmp_path: Path) -> None:
    server = Server(rewinds=False)
    run = tmp_path / "run"
    _, known = online(server, run, "fresh", 0, 7)
    (line,), after = online(server, run, "rewind", 4, 6, previous=known, attempt=2)
    assert "W&B cannot rewind (" in line
    assert f"run {known['id']} stays as it is" in line
    assert after["id"] == f"{known['id']}-2"
    assert server.steps(after["id"]) == list(range(1, 7))
    assert server.steps(known["id"]) == list(range(1, 8))
    server.close()


@needs_wandb
def test_the_wandb_run_has_the_config_name_and_project(tmp_path: Path) -> None:
    run = tmp_path / "my run"
    finished(run, ["wandb"], until=1)
    (path,) = run.glob("wandb/offline-run-*/run-*.wandb")
    (record,) = [r.run for r in wandb_records(path) if r.WhichOneof("record_type") == "run"]
    config = {item.key: json.loads(item.value_json) for item in record.config.update}
    assert (record.display_name, record.project) == ("my run", "small")
    assert config["lr"] == 0.1
    assert config["deep"] == {"list": [1, None]}
    assert config["path"] == str(run)
    assert json.loads((run / "state.json").read_text())["loggers"]["wandb"] == {
        "id": record.run_id,
        "project": "small",
        "entity": None,
        "mode": "offline",
        "attempt": 1,
    }
