"""Weights & Biases: one W&B run a training run, online or offline.

W&B takes a step once and never a lower one than its last, so a row goes to it whole, when the next
step begins or at the end; until then `metrics.jsonl` has it, from where the next attempt adds it.
What W&B has beyond the checkpoint stays: training that goes on exactly makes the same rows again.

Offline, each attempt makes a folder of its own under the same id, and `wandb sync` joins them. Only
what was finished can hold a row that was not whole; its last one is taken back on going on.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ckptui.durable import sync_dir, sync_file
from ckptui.errors import CkptuiError, RefusedError, StorageError, UsageError
from ckptui.loggers.wandb_files import HistoryReader, HistoryRow
from ckptui.loggers.worker import (
    OutOfOrderError,
    Rows,
    Told,
    Worker,
    backend_module,
    not_started,
    with_epoch,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ckptui.loggers import Begin

FOLDER: Final = "wandb"
"""Where in a run W&B keeps its files."""

_FLUSH_EVERY: Final = 0.1
"""Seconds between two writes of W&B's service to its file; by default it takes 15."""
_FLUSH_LIMIT: Final = 5.0
"""Seconds a checkpoint waits for W&B's file; what is not there then comes from `metrics.jsonl`."""
_STUCK_LIMIT: Final = 0.2
"""The same once W&B was found not to write."""
_FINISH_LIMIT: Final = 15.0
"""Seconds that W&B may still upload at the end."""
_CLOSE_LIMIT: Final = 20.0
"""Seconds after which its service is killed at the end."""
_OFFLINE_CLOSE_LIMIT: Final = 10.0
"""The same where nothing is uploaded."""
_SERVICE_END: Final = 10.0
"""Seconds to wait for the service of a killed attempt to end; it takes less than one."""
_RESERVED: Final = frozenset({"_step", "_timestamp", "_runtime", "_wandb"})
"""Names that are W&B's own."""


class WandbLogger:
    """Logs to one W&B run.

    Args:
        project: W&B's project; None leaves it to W&B, as for all the others.
        name: The name shown; by default that of the run's folder.
        mode: `online`, `offline` or `disabled`.
        entity: The user or team.
    """

    kind = "wandb"

    def __init__(
        self,
        *,
        project: str | None = None,
        name: str | None = None,
        mode: str | None = None,
        entity: str | None = None,
    ) -> None:
        self._project = project
        self._name = name
        self._mode = mode
        self._entity = entity
        self._identity: dict[str, Any] = {}
        self._disabled = False
        self._stream: _Stream | None = None

    def start(self, begin: Begin) -> None:
        """Begin or go on with a W&B run, add what it lacks, and say which it is.

        Raises:
            UsageError: W&B is not installed, or an option is none that it takes.
            RefusedError: W&B cannot begin, for instance without a key or a network.
            StorageError: The disk refused.
        """
        backend = _Backend()
        previous = begin.previous or {}
        self._identity = dict(previous)
        try:
            mode = self._mode or backend.mode()
            self._disabled = mode == "disabled"
            if self._disabled:
                begin.report("W&B is disabled: metrics go to metrics.jsonl only.")
                return
            offline = mode in ("offline", "dryrun")
            self._stream = self._open(backend, begin, previous, offline=offline)
        except OSError as e:
            msg = f"W&B cannot begin in {begin.run}: {e.strerror or e}."
            raise StorageError(msg, path=begin.run) from e

    def _open(
        self, backend: _Backend, begin: Begin, previous: Mapping[str, Any], *, offline: bool
    ) -> _Stream:
        before = _text(previous.get("id"))
        plan = _plan(begin, before, offline=offline)
        mode = "offline" if offline else "online"
        init = partial(
            backend.init,
            begin,
            mode=mode,
            project=self._project or _text(previous.get("project")),
            entity=self._entity or _text(previous.get("entity")),
            name=self._name or begin.run.name,
        )
        there = _local_history(begin.run, plan.id) if offline else _History()
        why = "offline" if offline else ""
        try:
            run = init(id=plan.id, **plan.how)
        except _CannotBeginError as e:
            if plan.same:
                raise
            # Not every server and plan can rewind or fork.
            why = f"({e.reason.rstrip('.')})"
            plan = _plan(begin, None, offline=offline)
            run = init(id=plan.id, **plan.how)
        self._identity = {
            "id": plan.id,
            "project": _text(run.project),
            "entity": _text(run.entity) or None,
            "mode": mode,
            "attempt": begin.attempt,
        }
        rows = [] if begin.action == "fresh" else list(begin.rows())
        if not offline:  # the server knows what it has; after a rewind or fork, up to there
            last = run.starting_step - 1 if plan.same else begin.start_step
            names = frozenset(name for row in rows if row[0] == last for name in row[2])
            there = _History(last=last, names=names | {"epoch"} if names else names)
        stream = _Stream(run, backend, begin, offline=offline, there=there)
        missing = [row for row in rows if there.last < row[0] <= begin.start_step]
        stream.feed(missing)
        lost = sum(row[0] <= there.last and row[0] not in there.steps for row in rows)
        if begin.action != "fresh" or not offline:
            where = str(begin.run / FOLDER) if offline else run.url or "online"
            lost = lost if offline else 0
            added = sum(row[0] != there.taken_back for row in missing)
            begin.report(_line(begin, plan, before, where, why, added=added, lost=lost))
        return stream

    def log(self, step: int, values: Mapping[str, float], epoch: float | None) -> None:
        """Take values of a step."""
        stream = self._started()
        if stream is not None:
            row, when = with_epoch(values, epoch), time.time()
            stream.worker.put(lambda: stream.add(step, row, when))
            stream.tell()

    def flush(self) -> None:
        """Make all whole rows durable in W&B's file; the open one is so in `metrics.jsonl`."""
        stream = self._started()
        if stream is not None:
            stream.flush()
            stream.tell()

    def identity(self) -> dict[str, Any]:
        """The W&B run's id, project, entity and mode, and the attempt that used it last."""
        return dict(self._identity)

    def close(self) -> None:
        """Log the open row and finish the W&B run, within seconds; a second time does nothing."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
            stream.tell()

    def _started(self) -> _Stream | None:
        """Where to log to; nowhere if W&B is disabled."""
        if self._stream is None and not self._disabled:
            raise not_started()
        return self._stream


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """As which W&B run an attempt goes on."""

    id: str
    how: Mapping[str, str]
    """What `wandb.init` must be told for it."""
    same: bool
    """Whether what W&B has under the id is of this history, to its end."""


def _plan(begin: Begin, before: str | None, *, offline: bool) -> _Plan:
    # Made from the run's id, so that a kill before it was recorded makes no second W&B run.
    own = re.sub("[^A-Za-z0-9_]", "_", begin.run_id)[:12]
    if begin.action in ("fresh", "continue"):
        return _Plan(id=before or own, how={"resume": "allow"}, same=True)
    fresh = _fresh_plan(begin, own)
    if offline or before is None:
        return fresh
    moment = f"{before}?_step={begin.start_step}"
    if begin.action == "rewind":
        return _Plan(id=before, how={"resume_from": moment}, same=False)
    return _Plan(id=fresh.id, how={"fork_from": moment}, same=False)


def _fresh_plan(begin: Begin, own: str) -> _Plan:
    """A W&B run of its own for what a rewind or fork begins."""
    name = f"{own}-{begin.attempt}" if begin.action == "rewind" else own
    return _Plan(id=name, how={"resume": "allow"}, same=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _History:
    """The rows that W&B's files have under one id."""

    steps: frozenset[int] = frozenset()
    last: int = -1
    names: frozenset[str] = frozenset()
    """What the last row has."""
    taken_back: int = -1
    """The step of a row that was there, and is logged anew because it may not have been whole."""


def _local_history(run: Path, run_id: str) -> _History:
    """What lies in the run under an id, once no service of a killed attempt writes there.

    The last row of a W&B run that was finished is cut off, unless it was uploaded: it was logged as
    it stood, perhaps before the step's evaluation. The row is in `metrics.jsonl`, or is made again.

    Raises:
        OSError: A file cannot be read or cut.
    """
    files = list(transaction_logs(run, run_id))
    _wait_for_writers(files)
    rows: dict[int, frozenset[str]] = {}
    last: tuple[HistoryRow, HistoryReader, Path] | None = None
    for path in files:
        reader = HistoryReader(path)
        for row in reader.new():
            rows[row.step] = rows.get(row.step, frozenset()) | row.names
            if last is None or row.step > last[0].step:
                last = row, reader, path
    taken_back = -1
    if last is not None:
        row, reader, path = last
        if reader.ended and not _is_uploaded(path):
            os.truncate(path, row.position)
            sync_file(path)
            del rows[row.step]
            taken_back = row.step
    step = max(rows, default=-1)
    names = rows.get(step, frozenset())
    return _History(steps=frozenset(rows), last=step, names=names, taken_back=taken_back)


def _is_uploaded(path: Path) -> bool:
    """Whether W&B's server has a file: `wandb sync` marks those it sent."""
    sent = path.with_name(f"{path.name}.synced").exists()
    return sent or not path.parent.name.startswith("offline-")


def transaction_logs(run: Path, run_id: str) -> Iterator[Path]:
    """W&B's files of one id in a run, the oldest first; those of all its attempts."""
    try:
        folders = sorted(p for p in (run / FOLDER).iterdir() if p.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return
    for folder in folders:
        path = folder / f"run-{run_id}.wandb"
        if not folder.is_symlink() and path.is_file():
            yield path


def _wait_for_writers(files: Iterable[Path]) -> None:
    """Wait for the service of a killed attempt: it outlives it for a moment, and may write."""
    end = time.monotonic() + _SERVICE_END
    watched = {str(path.resolve()) for path in files if path.stat().st_mtime > time.time() - 60}
    while watched and time.monotonic() < end:
        if sys.platform == "linux":
            if not _are_open(watched):
                return
        elif max(Path(p).stat().st_mtime for p in watched) < time.time() - 2:
            return
        time.sleep(0.05)


def _are_open(paths: set[str]) -> bool:
    """Whether a process that we may look into has one of these files open."""
    for folder in _processes():
        with contextlib.suppress(OSError):
            for descriptor in (folder / "fd").iterdir():
                with contextlib.suppress(OSError):
                    if str(descriptor.readlink()) in paths:
                        return True
    return False


def _processes() -> list[Path]:
    try:
        return [p for p in Path("/proc").iterdir() if p.name.isdecimal()]
    except OSError:
        return []


def _own_services() -> list[int]:
    """The W&B services that this process started; none where there is no `/proc`."""
    found = []
    for folder in _processes():
        try:
            text = (folder / "stat").read_text(errors="replace")
        except OSError:
            continue
        name, rest = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 1 :]
        if name.startswith("wandb-core") and int(rest.split()[1]) == os.getpid():
            found.append(int(folder.name))
    return found


class _CannotBeginError(RefusedError):
    """W&B did not make or find the run; `reason` is its own sentence."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"W&B cannot begin: {reason} Mend that, or train with wandb.mode=offline.")
        self.reason = reason


class _Backend:
    """The parts of W&B that are needed.

    Raises:
        UsageError: It is not installed, or too old to write its file when it is asked to.
    """

    def __init__(self) -> None:
        self._wandb = wandb = backend_module("wandb", "wandb")
        if "x_transaction_log_flush_interval" not in wandb.Settings.model_fields:
            msg = (
                f"The logger wandb needs wandb 0.31 or later, and {wandb.__version__} is "
                "installed: pip install 'ckptui[wandb]'."
            )
            raise UsageError(msg)
        mailbox = backend_module("wandb", "wandb.sdk.mailbox")
        self.errors: tuple[type[Exception], ...] = (
            wandb.Error,
            mailbox.HandleAbandonedError,
            mailbox.MailboxClosedError,
            OSError,
            RuntimeError,
            ValueError,
            TypeError,
        )

    def mode(self) -> str:
        """The mode that W&B's own environment and settings ask for.

        Raises:
            UsageError: They hold what W&B does not take.
        """
        try:
            return str(self._wandb.setup().settings.mode)
        except ValueError as e:
            msg = f"W&B does not take its settings: {_first_line(e)}"
            raise UsageError(msg) from e

    def init(self, begin: Begin, **how: Any) -> Any:
        """A W&B run.

        Raises:
            RefusedError: W&B cannot begin.
            OSError: The disk refused.
        """
        config = json.loads(json.dumps(dict(begin.config or {}), default=str, skipkeys=True))
        try:
            return self._wandb.init(
                dir=begin.run,
                config=config,
                allow_val_change=True,
                reinit="create_new",
                settings=self._wandb.Settings(
                    console="off",
                    silent=True,
                    symlink=False,
                    use_dot_wandb=False,
                    finish_timeout=_FINISH_LIMIT,
                    x_transaction_log_flush_interval=_FLUSH_EVERY,
                ),
                **how,
            )
        except OSError:
            raise
        except self.errors as e:
            raise _CannotBeginError(_first_line(e)) from e

    def let_go(self) -> None:
        """Forget a service that died, so that the end of the process does not stumble on it."""
        with contextlib.suppress(*self.errors, SystemExit):
            self._wandb.teardown()


class _Stream:
    """What one attempt logs; `add` and `finish` run in the worker's thread."""

    def __init__(
        self,
        run: Any,
        backend: _Backend,
        begin: Begin,
        *,
        offline: bool,
        there: _History,
    ) -> None:
        self._run = run
        self._backend = backend
        self._offline = offline
        self._there = there
        self._sent = -1
        self._seen = -1
        self._file = Path(run.settings.sync_file).absolute()
        self._reader = HistoryReader(self._file)
        self._stuck = False
        self._rows = Rows()
        self._told = Told(begin.report)
        self.worker = Worker("ckptui-wandb", expected=backend.errors)

    def feed(self, rows: list[tuple[int, float | None, Mapping[str, float]]]) -> None:
        """Add rows of `metrics.jsonl`."""
        for step, epoch, values in rows:
            self.worker.put(partial(self.add, step, with_epoch(values, epoch), time.time()))

    def add(self, step: int, values: Mapping[str, float], when: float) -> None:
        """Take values of a step; a row is logged once the next one begins."""
        try:
            complete = self._rows.add(step, values, when=when)
        except OutOfOrderError as e:
            line = (
                f"W&B takes steps in their order: what was logged for step {e.step} after step "
                f"{e.after} is only in metrics.jsonl."
            )
            self._told.later("order", line)
            return
        if complete is not None:
            self._emit(complete.step, complete.values)

    def _emit(self, step: int, values: Mapping[str, float]) -> None:
        row = {k: v for k, v in values.items() if k not in _RESERVED}
        if step <= self._there.last:
            names = self._there.names
            late = sorted(row.keys() - names) if step == self._there.last and names else []
            if late:
                line = (
                    f"W&B has step {step} already and takes nothing more for it: {', '.join(late)} "
                    "of that step is only in metrics.jsonl."
                )
                self._told.later("late", line)
            return
        self._run.log(row, step=step, commit=True)
        self._sent = step

    def flush(self) -> None:
        """Wait until W&B's file has what was logged, and make it durable."""
        limit = _STUCK_LIMIT if self._stuck else _FLUSH_LIMIT
        end = time.monotonic() + limit
        self._stuck = not (self.worker.wait(limit) and self._is_written(end))
        if self._stuck and self.worker.error is None:
            line = (
                f"W&B does not write its rows to {self._file}. Training goes on; the next attempt "
                "adds what is missing."
            )
            self._told.later("failed", line)

    def _is_written(self, end: float) -> bool:
        """Whether W&B's file has every row it was given, by a monotonic time; makes it durable."""
        try:
            while True:
                self._seen = max((row.step for row in self._reader.new()), default=self._seen)
                if self._seen >= self._sent:
                    sync_file(self._file)
                    sync_dir(self._file.parent)
                    return True
                if time.monotonic() >= end:
                    return False
                time.sleep(0.01)
        except (OSError, CkptuiError):
            return False

    def close(self) -> None:
        """Finish the W&B run; a service that hangs is killed."""
        self.worker.put(self._finish)
        limit = _CLOSE_LIMIT if not self._offline else _OFFLINE_CLOSE_LIMIT
        if self.worker.stop(_FLUSH_LIMIT if self._stuck else limit):
            return
        if self.worker.error is None:
            for pid in _own_services():
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            line = (
                "W&B did not finish in time, so its service was stopped; `wandb sync "
                f"{self._file.parent}` uploads what it has, and the next attempt adds the rest."
            )
            self._told.later("failed", line)
            self.worker.stop(1.0)
        self._backend.let_go()

    def _finish(self) -> None:
        if self._rows.open.values:
            self._emit(self._rows.open.step, self._rows.open.values)
        self._run.finish(exit_code=0)

    def tell(self) -> None:
        """Tell the user what came up."""
        if self.worker.error is not None:
            line = (
                f"W&B gets no more metrics: {_first_line(self.worker.error)} Training goes on; the "
                "next attempt adds what is missing."
            )
            self._told.later("failed", line)
        self._told.now()


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _first_line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    line = text.splitlines()[0].rstrip()
    return line if line.endswith((".", "!", "?")) else f"{line}."


def _line(
    begin: Begin, plan: _Plan, before: str | None, where: str, why: str, *, added: int, lost: int
) -> str:
    """What became of the W&B run, in one line."""
    rows = f"{added} row{'s' * (added != 1)}"
    if begin.action == "fresh":
        return f"W&B: run {plan.id} at {where}."
    if before is None:
        return f"W&B begins as run {plan.id} ({where}) with {rows} of the history so far."
    if begin.action in ("rewind", "fork") and plan.same:
        new = (
            f"W&B cannot {begin.action} {why}: what comes after step {begin.start_step} goes to "
            f"the new run {plan.id} ({where}), with {rows} of the history before"
        )
        return f"{new}; run {before} stays as it is."
    if begin.action == "fork":
        return f"W&B forked run {before} at step {begin.start_step} as run {plan.id} ({where})."
    what = "was rewound to" if begin.action == "rewind" else "goes on after"
    end = f"; {rows} that it lacked came from metrics.jsonl" if added else ""
    gone = f"; {lost} rows before its last are lost to it" if lost else ""
    return f"W&B run {plan.id} ({where}) {what} step {begin.start_step}{end}{gone}."
