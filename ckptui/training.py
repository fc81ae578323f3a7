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
import os
import platform
import sys
import uuid
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsFloat

from ckptui import journal, leases, remove, schema
from ckptui.checkpoint import Attempt, is_current
from ckptui.durable import make_dir, replace_file
from ckptui.errors import (
    CkptuiError,
    FormatError,
    NewerFormatError,
    NotResumableError,
    RefusedError,
    StorageError,
    UsageError,
)
from ckptui.lock import acquire
from ckptui.metrics import MetricsWriter, json_number
from ckptui.printable import visible
from ckptui.prune import execute
from ckptui.recipe_state import (
    capture_optimizer,
    capture_rng,
    read,
    restore_optimizer,
    restore_rng,
    write,
)
from ckptui.resume import Decision, decide, parent_of
from ckptui.retention import parse_rule, plan_prune
from ckptui.run_file import RunFile, read_run_file, write_run_file
from ckptui.save import Draft, save_checkpoint
from ckptui.scan import absolute, scan_run
from ckptui.weights import read_weights, write_weights

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from ckptui.checkpoint import Checkpoint, Parent
    from ckptui.lock import RunLock

_OWN_KEYS = frozenset(
    {"format", "steps_run", "optimizers", "schedulers", "objects", "values", "rng"}
)


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
        self._command = command
        self._recipe = recipe
        self._config = config
        self._rewind = rewind
        self._prune_to_trash = prune_to_trash
        self._report = report
        self._decision: Decision | None = None
        self._lock: RunLock | None = None
        self._log: MetricsWriter | None = None
        self._parent: Parent | None = None
        self._lease: Path | None = None
        self._modules: dict[str, Any] = {}
        self._optimizers: dict[str, Any] = {}
        self._schedulers: dict[str, Any] = {}
        self._objects: dict[str, Any] = {}
        self._values: dict[str, dict[Any, Any]] = {}
        self._saved = False
        self._logged: tuple[int, dict[str, SupportsFloat]] = (-1, {})

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
            self._begin(self.decide())
        except OSError as e:
            self._end()
            msg = f"{self.path} cannot be written: {e.strerror}."
            raise StorageError(msg, path=self.path) from e
        except BaseException:
            self._end()
            raise
        return self

    def _begin(self, decision: Decision) -> None:
        """Make the attempt, in an order that a kill anywhere leaves resumable."""
        for message in decision.messages:
            self._report(message)
        record = self._record()
        source = decision.checkpoint
        forked = decision.action == "fork" and source is not None
        self.attempt = decision.attempt
        self.run_id = (record.run_id if record else None) or self._inherited_id(decision)
        remove.sweep_staging(self.path)
        if source is not None:
            self._parent = parent_of(source, forked=forked)
        if forked and source is not None:
            self._lend(source)
        if self._config is not None:
            self._write_config(self._config)
        self._write_run_file(record, decision)
        if self._rewind is not None:
            self._set_abandoned_aside()
        self._log = MetricsWriter(self.path, self.attempt)
        begun = f"from {source.path}" if source else "from step 0"
        journal.record(self.path, "start", reason=f"attempt {self.attempt} {begun}")

    def _record(self) -> RunFile | None:
        try:
            return read_run_file(self.path)
        except NewerFormatError:
            raise
        except FormatError as e:
            damaged = self.path / f"{schema.RUN_FILE}.damaged"
            (self.path / schema.RUN_FILE).replace(damaged)
            self._report(f"{e} It was set aside as {damaged.name}; the run goes on with a new one.")
            return None

    def _inherited_id(self, decision: Decision) -> str:
        """The id for a new `run.json`: a run that lost its own keeps that of its checkpoints."""
        if decision.action in ("continue", "rewind") and decision.checkpoint is not None:
            return decision.checkpoint.run_id or uuid.uuid4().hex
        return uuid.uuid4().hex

    def _lend(self, source: Checkpoint) -> None:
        try:
            leases.write_lease(source, fork=self.path, fork_run_id=self.run_id)
            self._lease = source.run
        except OSError as e:
            self._report(
                f"{source.run} cannot be written ({e.strerror}), so nothing protects {source.name} "
                "there until this fork has saved."
            )

    def _write_config(self, config: Mapping[str, Any]) -> None:
        import yaml  # noqa: PLC0415 - only runs that have settings need it

        text = yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True)
        replace_file(self.path / schema.CONFIG_FILE, text.encode("utf-8", "backslashreplace"))

    def _write_run_file(self, record: RunFile | None, decision: Decision) -> None:
        source = decision.checkpoint
        attempt = Attempt(
            attempt=self.attempt,
            start_step=(source.step or 0) if source else 0,
            parent=self._parent,
            started=schema.now_text(),
            host=journal.host(),
            argv=tuple(sys.argv),
        )
        base = record or RunFile(run_id=self.run_id, created=schema.now_text())
        write_run_file(
            self.path,
            replace(
                base.with_attempt(attempt),
                run_id=self.run_id,
                recipe=self._recipe or base.recipe,
                command=self._command or base.command,
                argv=tuple(sys.argv),
                cwd=os.getcwd(),  # noqa: PTH109 - the text that a shell's cd takes
                python=platform.python_version(),
                policy=self.policy or None,
            ),
        )

    def _set_abandoned_aside(self) -> None:
        """Move what this rewind abandons into the trash, as one item."""
        run = scan_run(self.path)
        abandoned = [
            c
            for c in run.checkpoints
            if c.complete
            and not c.staged
            and c.step is not None
            and not is_current(c.attempt or 1, c.step, run.attempts)
            and not c.pinned
        ]
        if abandoned:
            item = remove.move_to_trash(abandoned, why="rewind", reason="abandoned by a rewind")
            names = ", ".join(c.name for c in abandoned)
            self._report(f"Moved {names} to the trash; `ckptui trash restore {item}` undoes it.")

    def register(self, **objects: Any) -> None:
        """Name what makes up the training state: it is saved, and put back by `resume`.

        Modules, optimizers, LR schedulers, anything else with `state_dict` and `load_state_dict`,
        and plain dicts of numbers, texts, tensors and the like, several of each.

        Raises:
            UsageError: An object is none of these, or the name is taken.
        """
        import torch  # noqa: PLC0415 - training is at work

        for name, value in objects.items():
            if name in self._names():
                msg = f"{name} is registered already."
                raise UsageError(msg)
            if isinstance(value, torch.nn.Module):
                self._modules[name] = value
            elif isinstance(value, torch.optim.Optimizer):
                self._optimizers[name] = value
            elif isinstance(value, torch.optim.lr_scheduler.LRScheduler):
                self._schedulers[name] = value
            elif isinstance(value, dict):
                self._values[name] = value
            elif callable(getattr(value, "state_dict", None)) and callable(
                getattr(value, "load_state_dict", None)
            ):
                self._objects[name] = value
            else:
                msg = f"{name} is a {type(value).__name__}, which has no state that could be saved."
                raise UsageError(msg)

    def _names(self) -> set[str]:
        return {
            *self._modules,
            *self._optimizers,
            *self._schedulers,
            *self._objects,
            *self._values,
        }

    def resume(self) -> int:
        """Load everything registered from the checkpoint to continue from; optimizer steps done.

        Call it last before the loop: the random generators are set at its end.

        Raises:
            NotResumableError: The stored state does not fit what is registered.
        """
        decision = self._entered()
        source = decision.checkpoint
        if source is None:
            return 0
        stored = read(source.path)
        for name, module in self._modules.items():
            read_weights(source.path, name, module)
        for name, optimizer in self._optimizers.items():
            part = _part(stored, "optimizers", name, source)
            restore_optimizer(optimizer, self._modules, part)
        for name, scheduler in self._schedulers.items():
            scheduler.load_state_dict(_part(stored, "schedulers", name, source))
        for name, value in self._objects.items():
            value.load_state_dict(_part(stored, "objects", name, source))
        for name, values in self._values.items():
            part = _part(stored, "values", name, source)
            values.clear()
            values.update(part)
        self.state = {k: v for k, v in stored.items() if k not in _OWN_KEYS}
        step = stored.get("steps_run")
        if type(step) is not int or step != source.step:
            msg = f"{source.name} says step {source.step}, its recipe state says {step}."
            raise NotResumableError(msg)
        restore_rng(stored.get("rng") or {})
        return step

    def log(self, step: int, *, epoch: float | None = None, **values: SupportsFloat) -> None:
        """Append one row of metrics for an optimizer step.

        Raises:
            UsageError: A value is no number, or a name is reserved.
            StorageError: The disk refused.
        """
        self._entered()
        if self._log is None or self._lock is None:
            raise _not_entered()
        self._log.write(step, epoch, values)
        self._lock.show(step=step)
        known = self._logged[1] if self._logged[0] == step else {}
        self._logged = (step, {**known, **values})

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
            CheckpointExistsError: A pinned checkpoint of an abandoned branch holds the name.
            LockedError: Another process took the run over; nothing was published.
            StorageError: The disk refused; older checkpoints are untouched.
        """
        self._entered()
        if self._log is None or self._lock is None:
            raise _not_entered()
        if epoch_end and epoch is None:
            msg = "A checkpoint at an epoch's end needs the epoch."
            raise UsageError(msg)
        clash = sorted(_OWN_KEYS & set(state or {}))
        if clash:
            msg = f"{clash[0]!r} is a key of the recipe state's own."
            raise UsageError(msg)
        from safetensors import SafetensorError  # noqa: PLC0415 - training is at work

        name = schema.epoch_name(epoch or 0) if epoch_end else schema.step_name(step)
        logged = self._logged[1] if self._logged[0] == step else {}
        extra = dict(state or {})
        draft = Draft(
            name=name,
            step=step,
            epoch=epoch,
            run_id=self.run_id,
            attempt=self.attempt,
            parent=self._parent,
            contains=self._contains(extra),
            resumable=bool(self._optimizers),
            metrics={k: _number(k, v) for k, v in {**logged, **(metrics or {})}.items()},
        )

        def write_all(folder: Path) -> None:
            try:
                for module_name, module in self._modules.items():
                    write_weights(folder, module_name, module)
                write(folder, self._capture(step, extra))
            except SafetensorError as e:
                # The tensors' writer has an error of its own for a disk that refuses.
                raise OSError(str(e)) from e
            if files is not None:
                files(folder)

        self._lock.show(step=step, saving=name)
        try:
            saved = save_checkpoint(
                self.path, draft, write_all, lock=self._lock, before_publish=self._log.sync
            )
        finally:
            self._lock.show(step=step, saving=None)
        self._parent = parent_of(saved, forked=False)
        self._saved = True
        if self._lease is not None:
            leases.drop_lease(self._lease, self.run_id)
            self._lease = None
        self.prune()
        return saved

    def _contains(self, extra: Mapping[str, Any]) -> tuple[str, ...]:
        parts = {
            "weights": self._modules,
            "optimizer": self._optimizers,
            "scheduler": self._schedulers or "lr_scheduler" in extra,
            "rng": True,
            "data": "data" in extra,
            "state": self._objects or self._values,
        }
        return tuple(part for part, there in parts.items() if there)

    def _capture(self, step: int, extra: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "steps_run": step,
            **extra,
            "optimizers": {
                n: capture_optimizer(o, self._modules) for n, o in self._optimizers.items()
            },
            "schedulers": {n: s.state_dict() for n, s in self._schedulers.items()},
            "objects": {n: o.state_dict() for n, o in self._objects.items()},
            "values": self._values,
            "rng": capture_rng(),
        }

    def prune(self) -> None:
        """Remove what the policy does not keep; what cannot go is reported and stays."""
        self._prune(final=False)

    def _prune(self, *, final: bool) -> None:
        """Prune; at the end of the run, what it was resumed from needs no protection any more."""
        if not self._rules or self._lock is None:
            return
        self._lock.check()
        run = scan_run(self.path)
        mine = [c for c in run.checkpoints if c.run_id == self.run_id or not c.complete]
        try:
            plan = plan_prune(
                mine,
                self._rules,
                now=datetime.now(UTC),
                protected=leases.leased(self.path) if final else run.protected,
                policy=self._rules,
                live=True,
            )
        except RefusedError as e:
            self._report(f"Nothing was pruned: {e}")
            return
        for warning in plan.warnings:
            self._report(warning)
        for removal in execute(plan, delete=not self._prune_to_trash):
            if removal.error is not None:
                self._report(f"Not pruned: {removal.error}")

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
                self._prune(final=True)
        finally:
            self._end()

    def _end(self) -> None:
        if self._log is not None:
            with contextlib.suppress(CkptuiError):
                self._log.sync()
            self._log.close()
            self._log = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def _not_entered() -> UsageError:
    return UsageError("Use TrainingRun as a context manager: with TrainingRun(...) as run: ...")


def _part(stored: Mapping[str, Any], kind: str, name: str, source: Checkpoint) -> Any:
    parts = stored.get(kind)
    if not isinstance(parts, dict) or name not in parts:
        msg = f"{source.name} holds no state of {name}, which is registered now."
        raise NotResumableError(msg)
    return parts[name]


def _number(name: str, value: SupportsFloat) -> float:
    return float(json_number(name, value))
