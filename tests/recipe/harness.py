"""Runs the recipe in processes of its own that can be killed for real.

A fork server imports torch and transformers once; each training is forked from it, so that it costs
its own work and not five seconds of imports.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ckptui.metrics import read_metrics
from ckptui.run_file import read_run_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from multiprocessing.context import ForkServerProcess

EXACT = ("loss", "lr", "grad_norm", "eval_loss")
"""Metrics that a resumed run repeats bit for bit."""

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.recipe.preloaded"])


@dataclass(frozen=True)
class At:
    """A moment of training, and the signals the process sends itself then."""

    event: str
    """`log` of a step's loss, `save` completed, `saving` while its files are written, `prune` after
    that, `evaluate` while it is evaluated, `accumulate` in the middle of its batches, `after` all
    of a step, or `disk`: before this many file operations on the run."""
    step: int
    signals: tuple[signal.Signals, ...] = (signal.SIGKILL,)
    to_group: bool = False
    """Send them to the whole process group, as a terminal does."""


@dataclass
class Trainee:
    """A training process."""

    process: ForkServerProcess
    folder: Path

    def wait(self, timeout: float = 120) -> Outcome:
        self.process.join(timeout)
        if self.process.exitcode is None:
            os.kill(self.process.pid or 0, signal.SIGKILL)
            self.process.join()
            msg = f"still training after {timeout} s: {(self.folder / 'stderr').read_text()}"
            raise AssertionError(msg)
        return Outcome(
            self.process.exitcode,
            (self.folder / "stdout").read_text(),
            (self.folder / "stderr").read_text(),
            (self.folder / "order").read_text().splitlines(),
        )


@dataclass
class Outcome:
    code: int
    stdout: str
    stderr: str
    order: list[str] = field(default_factory=list)
    """The indices of each batch that was handed to the loader, a JSON list a line."""

    def message(self) -> str:
        """What it said; a traceback is a failure of any test.

        But for that of a data worker whose parent was killed in the middle of handing it a tensor.
        """
        of_worker = self.code == -signal.SIGKILL and "resource_sharer.py" in self.stderr
        allowed = int(of_worker) * self.stderr.count("resource_sharer.py")
        assert self.stderr.count("Traceback") <= allowed, self.stderr
        return self.stderr


class Trainer:
    """Starts the recipe with settings given as keywords; `__` stands for a dot."""

    def __init__(self, folder: Path, base: Mapping[str, Any]) -> None:
        self._folder = folder
        self._base = base
        self._count = 0

    def start(
        self, *, at: At | None = None, file_limit: int | None = None, **settings: Any
    ) -> Trainee:
        merged = {**self._base, **{k.replace("__", "."): v for k, v in settings.items()}}
        arguments = [f"{key}={word(value)}" for key, value in merged.items() if value is not ...]
        return self.start_with(arguments, at=at, file_limit=file_limit)

    def start_with(
        self,
        arguments: Sequence[str],
        *,
        at: At | None = None,
        module: str = "train",
        file_limit: int | None = None,
    ) -> Trainee:
        self._count += 1
        folder = self._folder / str(self._count)
        folder.mkdir(parents=True)
        for name in ("stdout", "stderr", "order"):
            (folder / name).touch()
        process = _context.Process(
            target=_child, args=(module, list(arguments), folder, at, file_limit)
        )
        process.start()
        return Trainee(process, folder)

    def run(
        self, *, at: At | None = None, file_limit: int | None = None, **settings: Any
    ) -> Outcome:
        return self.start(at=at, file_limit=file_limit, **settings).wait()

    def run_with(self, arguments: Sequence[str], *, module: str = "train") -> Outcome:
        return self.start_with(arguments, module=module).wait()


def word(value: Any) -> str:
    return (
        value
        if isinstance(value, str)
        else str(value)
        if isinstance(value, Path)
        else (json.dumps(value))
    )


def _child(
    module: str, arguments: list[str], folder: Path, at: At | None, file_limit: int | None
) -> None:
    from tests.recipe import preloaded

    os.setsid()
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        opened = os.open(folder / name, os.O_WRONLY | os.O_APPEND)
        os.dup2(opened, descriptor)
    sys.stdout = os.fdopen(1, "w", buffering=1)
    sys.stderr = os.fdopen(2, "w", buffering=1)
    if file_limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))
    code = preloaded.run(module, arguments, folder, at)
    sys.stdout.flush()
    sys.stderr.flush()
    # As a script ends: no atexit of the parent's test run.
    os._exit(code)


def rows(run: Path, names: Sequence[str] = EXACT) -> dict[int, dict[str, str]]:
    """Each step's current metrics, floats as hex: equal only if bit-identical."""
    record = read_run_file(run)
    assert record is not None
    history = read_metrics(run, record.attempts)
    assert not [p for p in history.problems if "damaged" not in p.what]
    return {
        row.step: {
            n: float(v).hex() for n, v in row.metrics.items() if n in names and v is not None
        }
        for row in history.current()
    }


def content(folder: Path) -> dict[str, bytes]:
    """What a checkpoint holds, its marker and its paths aside."""
    skipped = {"checkpoint.json", "recipe_config.yaml", "recipe_state.json"}
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and p.name not in skipped
    }


def tree(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file below a folder with its content and time, to see that nothing was touched."""
    return {
        str(p.relative_to(folder)): (p.read_bytes(), p.stat().st_mtime_ns)
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


def names(run: Path) -> list[str]:
    """The checkpoints of a run, by name."""
    return sorted(p.parent.name for p in run.glob("*/checkpoint.json"))


def eventually(condition: Callable[[], bool], timeout: float = 60) -> None:
    """Wait for something another process does."""
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)
