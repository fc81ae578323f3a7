"""Where the recipe meets ckptui: what it saves, what it goes on from, what may have changed."""

from __future__ import annotations

import tempfile
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack

import torch
import yaml

from ckptui import lock, recipe_state, schema
from ckptui.durable import tool_dir, write_file
from ckptui.errors import (
    FormatError,
    LockedError,
    NotFoundError,
    NotResumableError,
    RefusedError,
)
from ckptui.loggers import make_logger
from ckptui.training import TrainingRun
from recipe_integration.comparing import compare_settings
from recipe_integration.config import read_config
from recipe_integration.data import Position
from recipe_integration.model import PARAMETER_DTYPES
from recipe_integration.progress import say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Future

    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from ckptui.checkpoint import Checkpoint
    from ckptui.resume import Decision
    from recipe_integration.config import Config
    from recipe_integration.data import Data

RECIPE: Final = "recipe_integration.full_finetune_single_device"

_PER_GROUP: Final[tuple[str, ...]] = ("betas", "eps", "weight_decay", "momentum", "nesterov")
"""Fields of an optimizer's groups that come from the config, also after a resume."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What training begins with, as it was decided without touching anything."""

    decision: Decision
    stored: Mapping[str, Any]
    """`recipe_state.json` of the checkpoint to go on from; empty for a fresh start."""
    finished: bool
    """The checkpoint is the last one this config would make."""

    @property
    def checkpoint(self) -> Checkpoint | None:
        """What to go on from."""
        return self.decision.checkpoint

    @property
    def position(self) -> Position:
        """Where the data goes on."""
        if not self.stored:
            return Position()
        data = self.stored["data"]
        return Position(**{field.name: data[field.name] for field in fields(Position)})


def open_run(config: Config) -> TrainingRun:
    """The run of a config, not entered yet."""
    return TrainingRun(
        config.output_dir,
        resume=config.resume_from,
        policy=config.policy,
        recipe=RECIPE,
        config=config.to_dict(),
        rewind=config.rewind,
        prune_to_trash=config.prune_to_trash,
        on_save_error="raise" if config.on_save_error == "stop" else "report",
        max_shard_size=config.shard_size,
        loggers=[make_logger(kind, asdict(getattr(config, kind))) for kind in config.loggers],
        report=say,
    )


def look(run: TrainingRun, config: Config) -> Start:
    """Decide where to begin and compare settings; nothing on disk changes.

    Raises:
        ConfigMismatchError: A decisive setting differs and `allow_changed` does not name it.
        NotResumableError: The checkpoint was not written by this recipe.
        LockedError: Another process on this machine is training the run.
    """
    decision = run.decide()
    _refuse_if_live(decision)
    if decision.checkpoint is None:
        return Start(decision=decision, stored={}, finished=False)
    stored = _read_state(decision.checkpoint)
    compare_settings(stored["config"], config, decision.checkpoint)
    processes = stored.get("world_size", 1)
    if processes != 1:
        say(f"{decision.checkpoint.name} was saved by {processes} processes; this recipe runs one.")
    finished = is_finished(config, epochs=stored["epochs_run"], steps=stored["steps_run"])
    return Start(decision=decision, stored=stored, finished=finished)


def is_finished(config: Config, *, epochs: int, steps: int) -> bool:
    """Whether so many whole epochs and optimizer steps are all that a config asks for."""
    epochs_done = config.epochs is not None and epochs >= config.epochs
    return epochs_done or (config.max_steps is not None and steps >= config.max_steps)


def _refuse_if_live(decision: Decision) -> None:
    """Refuse early what taking the lock would refuse once the model is loaded.

    A lock of another machine is left to that: its owner may be gone, which takes time to see.
    """
    run = decision.run
    if run is not None and run.owner is not None and lock.is_surely_live(run.owner, run.path):
        msg = f"{run.path} is being trained by process {run.owner.pid} on {run.owner.host}."
        raise LockedError(msg)


def _read_state(checkpoint: Checkpoint) -> dict[str, Any]:
    folder = checkpoint.path
    try:
        stored = recipe_state.read_json(folder)
        numbers = (
            stored["steps_run"],
            stored["epochs_run"],
            *(stored["data"][field.name] for field in fields(Position)),
        )
        stored["config"].items()
    except (FileNotFoundError, KeyError, TypeError, AttributeError) as e:
        msg = f"{folder} was not written by this recipe; it has no data position."
        raise NotResumableError(msg) from e
    if not all(type(n) is int and n >= 0 for n in numbers):
        msg = f"{folder / schema.RECIPE_STATE_JSON} holds a position that is no number."
        raise FormatError(msg, path=folder)
    return stored


def load(
    run: TrainingRun,
    start: Start,
    config: Config,
    model: PreTrainedModel,
    optimizer: torch.optim.Optimizer,
) -> int:
    """Load weights, optimizer and random generators into what will train; returns steps done.

    Raises:
        RefusedError: The run changed since `look`.
    """
    mine = [
        {key: group[key] for key in _PER_GROUP if key in group} for group in optimizer.param_groups
    ]
    run.register(model=model, optimizer=optimizer)
    step = run.resume()
    if step != start.stored.get("steps_run", 0) or bool(run.state) != bool(start.stored):
        msg = f"{run.path} changed while training was starting; start again."
        raise RefusedError(msg)
    for group, values in zip(optimizer.param_groups, mine, strict=True):
        group.update(values)
    _cast(model, optimizer, PARAMETER_DTYPES[config.dtype])
    return step


def stored_dtype(start: Start) -> torch.dtype | None:
    """The dtype of a checkpoint's parameters; None for a fresh start."""
    return PARAMETER_DTYPES.get(str(start.stored.get("dtype")))


def _cast(model: PreTrainedModel, optimizer: torch.optim.Optimizer, dtype: torch.dtype) -> None:
    """Bring what was loaded to another dtype, where the config was allowed to change it."""
    if model.dtype == dtype:
        return
    model.to(dtype)  # type: ignore[arg-type]  # its annotation hides nn.Module's signature
    for values in optimizer.state.values():
        for key, value in values.items():
            if key != "step" and torch.is_tensor(value) and value.is_floating_point():
                values[key] = value.to(dtype)


class What(TypedDict):
    """Which state is saved."""

    step: int
    """Optimizer steps completed."""
    epoch: int
    """The epoch whose batches were last trained."""
    position: Position
    """Where the data goes on; at an epoch's end the start of the next one."""
    metrics: Mapping[str, float]
    """Values at exactly this step."""


class Saves:
    """When this recipe saves, and what going on from there takes.

    Args:
        run: The entered run, with everything registered.
        config: Of this attempt.
        data: For its fingerprint.
        tokenizer: Saved beside the weights.
        total_steps: Optimizer steps of the whole run.
    """

    def __init__(
        self,
        run: TrainingRun,
        config: Config,
        data: Data,
        tokenizer: PreTrainedTokenizerBase,
        total_steps: int,
    ) -> None:
        self._run = run
        self._config = config
        self._data = data
        self._values = config.to_dict()
        self._total_steps = total_steps
        # Once, and here: a tokenizer at work must not be touched by the thread that saves.
        self._files = tokenizer_files(tokenizer, tool_dir(run.path, schema.STAGING))
        self._last_save = time.monotonic()

    def is_due(self, step: int, *, ends_epoch: bool) -> bool:
        """Whether the cadence wants a checkpoint of this step."""
        minutes = self._config.save_every_n_minutes
        elapsed = time.monotonic() - self._last_save
        if minutes is not None and elapsed >= minutes * 60:
            return True
        return is_save_due(self._config, step, ends_epoch=ends_epoch)

    def save(self, **what: Unpack[What]) -> Checkpoint:
        """Save while training waits, then prune by the run's policy.

        Raises:
            StorageError: The disk refused; older checkpoints are untouched.
        """
        self._last_save = time.monotonic()
        return self._run.save(what["step"], **self._arguments(what))

    def start(self, **what: Unpack[What]) -> Future[Checkpoint]:
        """Save beside training; see `TrainingRun.async_save`.

        Raises:
            CkptuiError: A save before went wrong.
        """
        self._last_save = time.monotonic()
        return self._run.async_save(what["step"], **self._arguments(what))

    def _arguments(self, what: What) -> dict[str, Any]:
        config, data, position = self._config, self._data, what["position"]
        epoch_end = position.epoch > what["epoch"]
        state = {
            "epochs_run": position.epoch,
            "total_epochs": config.epochs,
            "max_steps_per_epoch": config.max_steps_per_epoch,
            "total_steps": self._total_steps,
            "seed": config.seed,
            "lr_scheduler": {
                **self._values["lr_scheduler"],
                "last_step": what["step"],
                "last_lr": what["metrics"]["lr"],
            },
            "data": {
                **asdict(position),
                "fingerprint": data.fingerprint,
                "length": data.length,
                "eval_fingerprint": data.eval_fingerprint,
                "eval_length": data.eval_length,
            },
            "dtype": config.dtype,
            "threads": torch.get_num_threads(),
            "torch": str(torch.__version__),
            "config": self._values,
        }
        return {
            "epoch": what["epoch"],
            "metrics": what["metrics"],
            "state": state,
            "epoch_end": epoch_end and config.save_every_n_steps is None,
            "files": self._write_files,
        }

    def _write_files(self, folder: Path) -> None:
        for name, content in self._files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, content)
        write_file(folder / schema.RECIPE_CONFIG, config_yaml(self._values))


def is_save_due(config: Config, step: int, *, ends_epoch: bool) -> bool:
    """Whether step and epoch alone ask for a checkpoint; the last step always gets one."""
    if config.save_every_n_steps is None:
        return ends_epoch
    return step % config.save_every_n_steps == 0 or (ends_epoch and config.save_at_epoch_end)


def tokenizer_files(tokenizer: PreTrainedTokenizerBase, beside: Path) -> dict[str, bytes]:
    """What a tokenizer writes into a folder, by name.

    Args:
        tokenizer: The tokenizer.
        beside: Where there is room for a moment: on the run's own disk, not on that of the system.
    """
    with tempfile.TemporaryDirectory(prefix="tokenizer-", dir=beside) as name:
        folder = Path(name)
        tokenizer.save_pretrained(name)
        return {
            str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }


def config_yaml(values: Mapping[str, Any]) -> bytes:
    """A config as its file holds it."""
    return yaml.safe_dump(dict(values), sort_keys=False, allow_unicode=True).encode(
        "utf-8", "backslashreplace"
    )


def stored_config(folder: Path, overrides: Sequence[str] = ()) -> Config:
    """The config that a checkpoint's folder carries, with `key=value` texts laid over it.

    Raises:
        NotFoundError: The folder is no checkpoint of this recipe.
        UsageError: The config does not hold what it should.
    """
    path = folder / schema.RECIPE_CONFIG
    if not path.is_file():
        msg = f"{folder} holds no {schema.RECIPE_CONFIG}, so it is no checkpoint of this recipe."
        raise NotFoundError(msg)
    return read_config(path, overrides)
