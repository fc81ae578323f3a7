"""What a training loop calls: resume, log, save, and prune by the run's policy.

```python
with ckptui.TrainingRun("outputs/my-run", resume="auto", policy=["keep-last 3"]) as run:
    run.register(model=model, optimizer=optimizer, scheduler=scheduler)
    step = run.resume()  # 0 for a fresh run
    ...
    run.log(step, loss=loss)
    run.save(step, epoch=epoch)
```

torch is imported inside functions only; `Any` stands for its types.
"""

from __future__ import annotations

import contextlib
import operator
import os
import sys
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, SupportsFloat

from ckptui import schema
from ckptui.attempt import About, Begun, begin
from ckptui.durable import make_dir
from ckptui.errors import CkptuiError, LockedError, StorageError, UsageError
from ckptui.layouts.native_checkpoint import describe_checkpoint
from ckptui.lock import acquire
from ckptui.logged import Loggers
from ckptui.metrics import MetricsWriter, json_number, read_metrics
from ckptui.printable import visible
from ckptui.ranking import mode_of
from ckptui.recorded import check_template
from ckptui.registered import OWN_KEYS, Registered
from ckptui.requests import Inbox
from ckptui.resume import Decision, decide
from ckptui.retention import KeepBest, parse_rule
from ckptui.run_file import read_run_file
from ckptui.save import Draft
from ckptui.scan import absolute
from ckptui.upkeep import Upkeep
from ckptui.weights import SHARD_SIZE
from ckptui.writer import Order, Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from ckptui.background import SaveTimes
    from ckptui.checkpoint import Checkpoint
    from ckptui.lock import RunLock
    from ckptui.loggers import MetricLogger


def _to_stderr(line: str) -> None:
    # A terminal that went away must not make a save that stands look as if it had failed.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"ckptui: {visible(line)}\n")


class TrainingRun:
    """One attempt at training a run: a context manager that owns the run while it is entered.

    Args:
        path: The run's folder.
        resume: `auto` continues what is there or starts fresh; None only starts fresh; `latest`
            only continues; a path continues from that checkpoint, in a fork if it lies elsewhere.
        policy: Rules such as `keep-last 3`; after each save what none of them keeps is removed.
        command: How to start this training again, for `ckptui resume-cmd`: a shell line with
            `{checkpoint}` and, to allow forks, `{output_dir}`.
        recipe: The module that trains, if it is one that ckptui knows to start.
        config: Settings that are kept as `config.yaml`.
        rewind: The number of the attempt that may abandon newer checkpoints.
        prune_to_trash: Keep what the policy removes restorable instead of freeing its space.
        on_save_error: What a background save that the disk refused does to training: `raise` ends
            it at the next optimizer step, `report` prints a line and lets it go on.
        max_shard_size: Most bytes of weights in one file.
        loggers: Where metrics go besides `metrics.jsonl`, see `ckptui.loggers.make_logger`.
        report: Takes each line the user should read.

    Raises:
        UsageError: A rule of the policy is malformed.
        RefusedError: A rule ranks by a metric of unknown direction, or the command cannot be
            filled in safely.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        resume: str | Path | None = "auto",
        policy: str | Sequence[str] = (),
        command: str | None = None,
        recipe: str | None = None,
        config: Mapping[str, Any] | None = None,
        rewind: int | None = None,
        prune_to_trash: bool = False,
        on_save_error: Literal["raise", "report"] = "raise",
        max_shard_size: int = SHARD_SIZE,
        loggers: Sequence[MetricLogger] = (),
        report: Callable[[str], None] = _to_stderr,
    ) -> None:
        self.path = absolute(Path(path))
        self.policy = (policy,) if isinstance(policy, str) else tuple(policy)
        self.state: dict[str, Any] = {}
        """What `save(state=...)` put into the checkpoint resumed from; empty for a fresh run."""
        self.run_id = ""
        self.attempt = 0
        self._resume = resume
        self._rules = tuple(parse_rule(rule) for rule in self.policy)
        for rule in self._rules:
            if isinstance(rule, KeepBest) and rule.metric is not None:
                mode_of(rule.metric, rule.mode)
        if command is not None:
            check_template(command)
        self._about = About(recipe=recipe, command=command, policy=self.policy, config=config)
        self._rewind = rewind
        self._prune_to_trash = prune_to_trash
        self._on_save_error = on_save_error
        self._shard_size = max_shard_size
        self._loggers = Loggers(loggers)
        self._report = report
        self._decision: Decision | None = None
        self._work: _Work | None = None
        self._registered = Registered()
        self._resumed = False
        self._loaded = False
        self._logged: tuple[int, dict[str, float]] = (-1, {})

    def decide(self) -> Decision:
        """Where training will begin, and from which checkpoint; reads only.

        Raises:
            CkptuiError: It cannot; the kinds are those of `ckptui.resume.decide`.
        """
        known = self._decision.checkpoint if self._decision else None
        self._decision = decide(self.path, self._resume, rewind=self._rewind, verified=known)
        return self._decision

    def __enter__(self) -> TrainingRun:
        self.decide()
        try:
            make_dir(self.path)
            lock = acquire(self.path, report=self._report)
        except OSError as e:
            msg = f"{self.path} cannot be created: {e.strerror}."
            raise StorageError(msg, path=self.path) from e
        try:
            decision = self.decide()
            begun = begin(
                self.path,
                decision,
                self._about,
                rewind=self._rewind is not None,
                report=self._report,
            )
            self._work = self._begin_work(lock, begun)
            self._loggers.start(self.path, decision, begun, self._about.config, self._report)
        except OSError as e:
            self._give_up(lock)
            msg = f"{self.path} cannot be written: {e.strerror}."
            raise StorageError(msg, path=self.path) from e
        except BaseException:
            self._give_up(lock)
            raise
        self._loaded = decision.checkpoint is None
        return self

    def _give_up(self, lock: RunLock) -> None:
        self._end()
        lock.release()

    def _begin_work(self, lock: RunLock, begun: Begun) -> _Work:
        self.run_id, self.attempt = begun.run_id, begun.attempt
        log = MetricsWriter(self.path, self.attempt)
        inbox = Inbox(self.path)
        upkeep = Upkeep(
            run=self.path,
            run_id=self.run_id,
            rules=self._rules,
            delete=not self._prune_to_trash,
            report=self._report,
        )
        writer = Writer(
            lock=lock,
            upkeep=upkeep,
            inbox=inbox,
            sync=lambda: self._sync(log),
            parent=begun.parent,
            lease=begun.lent_by,
            goes_on=self._on_save_error == "report",
        )
        inbox.start()
        return _Work(lock=lock, inbox=inbox, log=log, writer=writer)

    def _sync(self, log: MetricsWriter) -> None:
        log.sync()
        self._loggers.flush()

    def register(self, **objects: Any) -> None:
        """Name what makes up the training state: it is saved, and put back by `resume`.

        Modules, optimizers, LR schedulers, anything else with `state_dict` and `load_state_dict`,
        and plain dicts of numbers, texts, tensors and the like, several of each.

        Raises:
            UsageError: An object is none of these, the name is taken, or `resume` was called.
            RefusedError: A module keeps state that cannot be saved exactly.
        """
        if self._resumed:
            msg = "Register everything before resume(): what comes later would not be loaded."
            raise UsageError(msg)
        for name, value in objects.items():
            self._registered.add(name, value)

    def resume(self) -> int:
        """Load everything registered from the checkpoint to continue from; optimizer steps done.

        Call it last before the loop: the random generators are set at its end.

        Raises:
            NotResumableError: The stored state is not what is registered.
        """
        source = self._entered().checkpoint
        if self._work is not None:
            self._work.writer.settle()  # a second time, in the middle of training
        self._resumed = True
        if source is not None:
            self.state = self._registered.load(source)
            self._loaded = True
        self._hook_optimizers()
        return (source.step or 0) if source is not None else 0

    def _hook_optimizers(self) -> None:
        """Let every optimizer wait for a copy before it steps; nobody has to remember to."""
        work = self._at_work()
        for name, optimizer in self._registered.optimizers.items():
            if name not in work.hooks:
                work.hooks[name] = optimizer.register_step_pre_hook(
                    lambda *_: self._before_step(work)
                )

    def _before_step(self, work: _Work) -> None:
        work.writer.before_step()  # it may raise, and then this step is not taken
        self._registered.unmark()

    def log(self, step: int, *, epoch: float | None = None, **values: SupportsFloat) -> None:
        """Append one row of metrics for an optimizer step.

        Raises:
            UsageError: A value is no number, a name is reserved, or the step is not one that this
                attempt makes.
            StorageError: The disk refused.
        """
        work = self._at_work()
        step = self._checked(step)
        # Converted once: a tensor kept here would keep its graph and its memory alive.
        numbers = {name: _number(name, value) for name, value in values.items()}
        work.log.write(step, epoch, numbers)
        self._loggers.log(step, numbers, epoch)
        work.lock.at(step)
        known = self._logged[1] if self._logged[0] == step else {}
        self._logged = (step, {**known, **numbers})

    def logged(self, step: int) -> Mapping[str, float | None]:
        """The current metrics of a step, also those of former attempts; empty if there are none."""
        record = read_run_file(self.path)
        history = read_metrics(self.path, record.attempts if record else ())
        return next((row.metrics for row in history.current() if row.step == step), {})

    def mark(self, step: int) -> None:
        """Keep the random generators, and all else that moves on between steps, as they are now.

        Call it after all that belongs to an optimizer step, schedulers and averages too, and a save
        of that step is exact until the next one: also in the middle of accumulating gradients, or
        of an evaluation.

        Raises:
            UsageError: The step is not one that this attempt makes.
        """
        lock = self._at_work().lock
        step = self._checked(step)
        self._registered.mark(step)
        lock.at(step)

    def save(
        self,
        step: int,
        *,
        epoch: int | None = None,
        metrics: Mapping[str, SupportsFloat] | None = None,
        state: Mapping[str, Any] | None = None,
        epoch_end: bool = False,
        files: Callable[[Path], None] | None = None,
    ) -> Checkpoint:
        """Save everything registered as one checkpoint, then prune by the policy.

        Args:
            step: Optimizer steps completed.
            epoch: 0-based index of the epoch whose batches were last trained.
            metrics: Values at this step, beside those logged for it.
            state: Further state, kept at the top level of `recipe_state.json`.
            epoch_end: Name it `epoch_N` instead of `step_N`.
            files: Writes further files into the folder it is given.

        Raises:
            UsageError: The step is not one that this attempt makes, or a key is our own.
            CheckpointExistsError: A pinned checkpoint of an abandoned branch holds the name.
            LockedError: Another process took the run over; nothing was published.
            StorageError: The disk refused, or has no room; older checkpoints are untouched.
        """
        writer = self._at_work().writer
        draft = self._draft(step, epoch, metrics, state, epoch_end=epoch_end)
        # What went wrong before must not keep this one, maybe the last, from being saved.
        writer.settle_quietly()
        standing = self._resumed_from(draft)
        if standing is not None:
            writer.met_by(standing)
            return standing
        return writer.save(self._order(draft, state, files))

    def async_save(
        self,
        step: int,
        *,
        epoch: int | None = None,
        metrics: Mapping[str, SupportsFloat] | None = None,
        state: Mapping[str, Any] | None = None,
        epoch_end: bool = False,
        files: Callable[[Path], None] | None = None,
    ) -> Future[Checkpoint]:
        """Like `save`, but training goes on at once.

        Weights and optimizer state are copied in the background while the next forward and backward
        pass read them; the next `step` of any registered optimizer waits for the copy by itself. It
        also raises what went wrong with a save before. One save is in flight at a time: a second
        one waits for it. Code that changes weights elsewhere than in `step` needs `save`, or `wait`
        before it does so; such a change is noticed where it can be, and not saved.

        Args:
            step: Optimizer steps completed.
            epoch: As for `save`.
            metrics: As for `save`.
            state: As for `save`; it is copied before this returns.
            epoch_end: As for `save`.
            files: As for `save`, but called in another thread.

        Returns:
            The checkpoint, once it stands.

        Raises:
            RefusedError: Something else than a registered optimizer may change the weights.
            CkptuiError: What `save` raises, for this save or a former one; most of it comes with
                the future and out of the next optimizer step.
        """
        writer = self._at_work().writer
        draft = self._draft(step, epoch, metrics, state, epoch_end=epoch_end)
        writer.make_way(draft.name)
        standing = self._resumed_from(draft)
        if standing is not None:
            writer.met_by(standing)
            done: Future[Checkpoint] = Future()
            done.set_result(standing)
            return done
        self._registered.refuse_background()
        self._hook_optimizers()  # a fresh run may do without resume()
        return writer.start(self._order(draft, state, files))

    def reserve(self) -> None:
        """Take the memory of the copy that `async_save` makes now, in the background.

        Call it once after the first optimizer step, or never: then the first save takes it, and
        training may have to wait for that once.
        """
        moment = self._registered.freeze(0, {}, shard_size=self._shard_size)
        self._at_work().writer.background.reserve(moment)

    def wait(self) -> None:
        """Wait until no save is in flight any more.

        Raises:
            CkptuiError: What went wrong with it.
        """
        self._at_work().writer.settle()

    @property
    def save_requested(self) -> bool:
        """Whether somebody asked for a checkpoint with `ckptui save-now`; the next save is it."""
        return self._work is not None and self._work.inbox.waiting

    @property
    def save_times(self) -> SaveTimes | None:
        """How long the last background save took."""
        return self._work.writer.background.times if self._work is not None else None

    def _draft(
        self,
        step: int,
        epoch: int | None,
        metrics: Mapping[str, SupportsFloat] | None,
        state: Mapping[str, Any] | None,
        *,
        epoch_end: bool,
    ) -> Draft:
        """What the marker of a checkpoint will say."""
        step = self._checked(step)
        if not self._registered.names():
            msg = "Nothing is registered, so there is nothing to save: see register()."
            raise UsageError(msg)
        if epoch_end and epoch is None:
            msg = "A checkpoint at an epoch's end needs the epoch."
            raise UsageError(msg)
        clash = sorted(OWN_KEYS & (state or {}).keys())
        if clash:
            msg = f"{clash[0]!r} is a key of the recipe state's own."
            raise UsageError(msg)
        logged = self._logged[1] if self._logged[0] == step else {}
        return Draft(
            name=schema.epoch_name(epoch or 0) if epoch_end else schema.step_name(step),
            step=step,
            epoch=epoch,
            run_id=self.run_id,
            attempt=self.attempt,
            contains=self._registered.contains(state or {}),
            resumable=self._registered.resumable,
            metrics=logged | {k: _number(k, v) for k, v in (metrics or {}).items()},
        )

    def _order(
        self,
        draft: Draft,
        state: Mapping[str, Any] | None,
        files: Callable[[Path], None] | None,
    ) -> Order:
        writer = self._at_work().writer
        asked = writer.asked()
        extra = {**(state or {}), **self._loggers.state()}
        with writer.answering(asked):
            moment = self._registered.freeze(draft.step, extra, shard_size=self._shard_size)
        return Order(draft=draft, moment=moment, files=files, asked=asked)

    def _resumed_from(self, draft: Draft) -> Checkpoint | None:
        """The checkpoint this attempt went on from, where it is the one to be saved.

        Nothing was trained since, and replacing it would leave a moment without it.
        """
        source = self._entered().checkpoint
        if source is None or (source.step, source.name) != (draft.step, draft.name):
            return None
        there = describe_checkpoint(self.path, draft.name)
        same = there is not None and there.complete and there.identity == source.identity
        return there if same else None

    def _checked(self, step: int) -> int:
        """A step as a plain number, if this attempt can have come to it.

        Raises:
            UsageError: It lies before what this attempt went on from.
        """
        number = operator.index(step)
        source = self._entered().checkpoint
        start = (source.step or 0) if source else 0
        if number < start:
            msg = (
                f"Step {number} lies before step {start}, from which this run goes on; count "
                "optimizer steps on from what resume() returns."
            )
            raise UsageError(msg)
        return number

    def prune(self) -> None:
        """Remove what the policy does not keep; what cannot go is reported and stays.

        Raises:
            LockedError: Another process took the run over; nothing was removed.
        """
        writer = self._at_work().writer
        writer.settle()
        writer.prune(final=False)

    def _at_work(self) -> _Work:
        if self._work is None:
            raise _not_entered()
        if not self._loaded:
            source = self._entered().checkpoint
            name = source.name if source else ""
            msg = f"Call resume() first: this run goes on from {name}, which is not loaded yet."
            raise UsageError(msg)
        return self._work

    def _entered(self) -> Decision:
        if self._decision is None or self._work is None:
            raise _not_entered()
        return self._decision

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        work = self._work
        if work is not None and os.getpid() != work.process:
            self._work = None  # a forked process ends; the run is its parent's
            return
        try:
            if work is not None:
                self._finish(work, failed=error is not None)
        finally:
            self._end()

    def _finish(self, work: _Work, *, failed: bool) -> None:
        """Let a save in flight come to its end: it may be the best that this training leaves."""
        if failed:
            error = work.writer.background.failure()  # it must not hide what ends the loop
            if error is not None:
                self._report(str(error) or type(error).__name__)
        else:
            work.writer.settle()
        if not failed and work.writer.saved:
            with contextlib.suppress(LockedError):  # another trainer prunes this run now
                work.writer.prune(final=True)

    def _end(self) -> None:
        work, self._work = self._work, None
        self._resumed = self._loaded = False
        try:
            self._loggers.close()
        finally:
            if work is not None:
                work.end()


@dataclass(slots=True, kw_only=True)
class _Work:
    """What an entered run works with."""

    lock: RunLock
    inbox: Inbox
    log: MetricsWriter
    writer: Writer
    process: int = field(default_factory=os.getpid)
    hooks: dict[str, Any] = field(default_factory=dict)
    """Optimizer -> handle of what runs before each of its steps."""

    def end(self) -> None:
        """Give everything back; the lock last."""
        try:
            for hook in self.hooks.values():
                hook.remove()
            self.writer.background.close()
            self.inbox.stop()
            with contextlib.suppress(CkptuiError, OSError):
                self.log.sync()
                self.log.close()
        finally:
            self.lock.release()


def _not_entered() -> UsageError:
    return UsageError("Use TrainingRun as a context manager: with TrainingRun(...) as run: ...")


def _number(name: str, value: SupportsFloat) -> float:
    return value if type(value) is int else float(json_number(name, value))
