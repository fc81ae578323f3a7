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
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsFloat

from ckptui import leases, schema
from ckptui.attempt import About, begin
from ckptui.durable import make_dir
from ckptui.errors import CkptuiError, LockedError, StorageError, UsageError
from ckptui.layouts.native_checkpoint import describe_checkpoint
from ckptui.lock import acquire
from ckptui.metrics import MetricsWriter, json_number
from ckptui.printable import visible
from ckptui.prune import execute
from ckptui.ranking import mode_of
from ckptui.recorded import check_template
from ckptui.registered import OWN_KEYS, Registered
from ckptui.resume import Decision, decide, parent_of
from ckptui.retention import KeepBest, KeepNames, parse_rule, plan_prune
from ckptui.save import Draft, save_checkpoint
from ckptui.scan import absolute, scan_run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from ckptui.checkpoint import Checkpoint, Parent, Run
    from ckptui.lock import RunLock
    from ckptui.retention import Rule


def _to_stderr(line: str) -> None:
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
        policy: Sequence[str] = (),
        command: str | None = None,
        recipe: str | None = None,
        config: Mapping[str, Any] | None = None,
        rewind: int | None = None,
        prune_to_trash: bool = False,
        report: Callable[[str], None] = _to_stderr,
    ) -> None:
        self.path = absolute(Path(path))
        self.policy = tuple(policy)
        self.state: dict[str, Any] = {}
        """What `save(state=...)` put into the checkpoint resumed from; empty for a fresh run."""
        self.run_id = ""
        self.attempt = 0
        self._resume = resume
        self._rules = tuple(parse_rule(rule) for rule in policy)
        for rule in self._rules:
            if isinstance(rule, KeepBest) and rule.metric is not None:
                mode_of(rule.metric, rule.mode)
        if command is not None:
            check_template(command)
        self._about = About(recipe=recipe, command=command, policy=self.policy, config=config)
        self._rewind = rewind
        self._prune_to_trash = prune_to_trash
        self._report = report
        self._decision: Decision | None = None
        self._lock: RunLock | None = None
        self._log: MetricsWriter | None = None
        self._parent: Parent | None = None
        self._lease: Path | None = None
        self._registered = Registered()
        self._resumed = False
        self._loaded = False
        self._saved = False
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
            self._lock = acquire(self.path, report=self._report)
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
            self.run_id, self.attempt = begun.run_id, begun.attempt
            self._parent, self._lease = begun.parent, begun.lent_by
            self._log = MetricsWriter(self.path, self.attempt)
        except OSError as e:
            self._end()
            msg = f"{self.path} cannot be written: {e.strerror}."
            raise StorageError(msg, path=self.path) from e
        except BaseException:
            self._end()
            raise
        self._loaded = decision.checkpoint is None
        return self

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
        self._resumed = True
        if source is None:
            return 0
        self.state = self._registered.load(source)
        self._loaded = True
        return source.step or 0

    def log(self, step: int, *, epoch: float | None = None, **values: SupportsFloat) -> None:
        """Append one row of metrics for an optimizer step.

        Raises:
            UsageError: A value is no number, a name is reserved, or the step is not one that this
                attempt makes.
            StorageError: The disk refused.
        """
        log, lock = self._at_work()
        step = self._checked(step)
        # Converted once: a tensor kept here would keep its graph and its memory alive.
        numbers = {name: _number(name, value) for name, value in values.items()}
        log.write(step, epoch, numbers)
        lock.show(step=step)
        known = self._logged[1] if self._logged[0] == step else {}
        self._logged = (step, {**known, **numbers})

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
            StorageError: The disk refused; older checkpoints are untouched.
        """
        log, lock = self._at_work()
        step = self._checked(step)
        if epoch_end and epoch is None:
            msg = "A checkpoint at an epoch's end needs the epoch."
            raise UsageError(msg)
        extra = dict(state or {})
        clash = sorted(OWN_KEYS & extra.keys())
        if clash:
            msg = f"{clash[0]!r} is a key of the recipe state's own."
            raise UsageError(msg)
        name = schema.epoch_name(epoch or 0) if epoch_end else schema.step_name(step)
        standing = self._resumed_from(name, step)
        if standing is not None:
            return standing
        logged = self._logged[1] if self._logged[0] == step else {}
        draft = Draft(
            name=name,
            step=step,
            epoch=epoch,
            run_id=self.run_id,
            attempt=self.attempt,
            parent=self._parent,
            contains=self._registered.contains(extra),
            resumable=self._registered.resumable,
            metrics=logged | {k: _number(k, v) for k, v in (metrics or {}).items()},
        )

        def write_all(folder: Path) -> None:
            self._registered.write(folder, step, extra)
            if files is not None:
                files(folder)

        lock.show(step=step, saving=name)
        try:
            saved = save_checkpoint(self.path, draft, write_all, lock=lock, before_publish=log.sync)
        finally:
            lock.show(step=step, saving=None)
        self._parent = parent_of(saved, forked=False)
        self._saved = True
        if self._lease is not None:
            leases.drop_lease(self._lease, self.run_id)
            self._lease = None
        self.prune()
        return saved

    def _resumed_from(self, name: str, step: int) -> Checkpoint | None:
        """The checkpoint this attempt went on from, where it is the one to be saved.

        Nothing was trained since, and replacing it would leave a moment without it.
        """
        source = self._entered().checkpoint
        if source is None or source.step != step or source.name != name:
            return None
        there = describe_checkpoint(self.path, name)
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
        """Remove what the policy does not keep; what cannot go is reported and stays."""
        self._prune(final=False)

    def _prune(self, *, final: bool) -> None:
        """Prune; at the end of the run, what it was resumed from needs no protection any more.

        What was saved is saved: a pruning that fails stops no training.
        """
        if not self._rules or self._lock is None:
            return
        self._lock.check()
        try:
            run = scan_run(self.path)
            plan = plan_prune(
                [c for c in run.checkpoints if c.run_id == self.run_id or not c.complete],
                _rules_for(run, self._rules),
                now=datetime.now(UTC),
                protected=leases.leased(self.path) if final else run.protected,
                policy=self._rules,
                live=True,
            )
        except CkptuiError as e:
            self._report(f"Nothing was pruned: {e}")
            return
        for warning in plan.warnings:
            self._report(warning)
        for removal in execute(plan, delete=not self._prune_to_trash):
            if removal.error is not None:
                self._report(f"Not pruned: {removal.error}")

    def _at_work(self) -> tuple[MetricsWriter, RunLock]:
        if self._log is None or self._lock is None:
            raise _not_entered()
        if not self._loaded:
            source = self._entered().checkpoint
            name = source.name if source else ""
            msg = f"Call resume() first: this run goes on from {name}, which is not loaded yet."
            raise UsageError(msg)
        return self._log, self._lock

    def _entered(self) -> Decision:
        if self._decision is None or self._lock is None:
            raise _not_entered()
        return self._decision

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None and self._saved:
                with contextlib.suppress(LockedError):  # another trainer prunes this run now
                    self._prune(final=True)
        finally:
            self._end()

    def _end(self) -> None:
        log, lock = self._log, self._lock
        self._log = self._lock = None
        self._resumed = self._loaded = False
        try:
            if log is not None:
                with contextlib.suppress(CkptuiError, OSError):
                    log.sync()
                    log.close()
        finally:
            if lock is not None:
                lock.release()


def _not_entered() -> UsageError:
    return UsageError("Use TrainingRun as a context manager: with TrainingRun(...) as run: ...")


def _rules_for(run: Run, rules: Sequence[Rule]) -> list[Rule]:
    """The rules without names that are not there yet, or not any more."""
    there = {c.name for c in run.checkpoints}
    found: list[Rule] = []
    for rule in rules:
        if isinstance(rule, KeepNames):
            rule = KeepNames(tuple(n for n in rule.names if n in there))
        found.append(rule)
    return found


def _number(name: str, value: SupportsFloat) -> float:
    return value if type(value) is int else float(json_number(name, value))
