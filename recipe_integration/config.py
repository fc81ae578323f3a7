"""The recipe's settings: typed, complete, checked at start in sentences.

A config is a YAML file, `key=value` from the command line laid over it. Names are torchtune's
where it has them. Relative paths count from the working directory; what is written beside a run
and into its checkpoints has absolute paths and leaves out what belongs to one start only.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ckptui.errors import UsageError
from ckptui.retention import KeepBest, KeepEvery, KeepLast, parse_best
from recipe_integration import settings
from recipe_integration.checks import check

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ONE_START_ONLY = ("resume_from", "rewind", "allow_changed")
"""Settings that are never written into a run: they speak about one start of it."""

TEXT_SUFFIXES = frozenset({".jsonl", ".json", ".ndjson", ".txt", ".text", ".md"})
"""Names that always mean a file, even where it does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetConfig:
    """Where the examples come from and what is trained on."""

    source: str
    """A JSONL or text file (one example a line), or the name of a `datasets` source."""
    subset: str | None = None
    """Configuration name of a `datasets` source."""
    split: str = "train"
    """Split of a `datasets` source."""
    format: str = "text"
    """`text`, or `prompt_completion`: then the loss is on the completion only."""
    text_key: str = "text"
    prompt_key: str = "prompt"
    completion_key: str = "completion"
    shuffle: bool = True
    """A new order each epoch, a pure function of seed and epoch."""
    drop_last: bool = False
    """Leave out an epoch's last batch where it is smaller than `batch_size`."""
    streaming: bool = False
    """Not supported yet."""
    eval_source: str | None = None
    """What to evaluate on; null: hold out `eval_fraction` of `source`."""
    eval_split: str | None = None
    """Split of a `datasets` source to evaluate on; it may be all that tells it from `source`."""
    eval_fraction: float = 0.05
    """Share of `source` held out by a hash of seed and content; 0: no evaluation."""

    @property
    def has_eval(self) -> bool:
        """Whether there will be anything to evaluate on."""
        return bool(self.eval_source or self.eval_split or self.eval_fraction)


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerConfig:
    """The optimizer. Settings that the chosen one does not have must keep their defaults."""

    name: Literal["adamw", "sgd", "adafactor"] = "adamw"
    lr: float = 2e-5
    """Peak learning rate."""
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    momentum: float = 0.0
    """SGD only."""
    nesterov: bool = False
    """SGD only."""
    fused: bool | None = None
    """Null: where the device has a fused kernel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """The learning rate as a function of the optimizer step."""

    name: Literal["constant", "linear", "cosine"] = "cosine"
    num_warmup_steps: int = 0
    """Optimizer steps of linear warm-up."""
    min_lr_ratio: float = 0.0
    """Share of the peak rate where linear and cosine end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorBoardConfig:
    """Where TensorBoard finds the run."""

    dir: Path | None = None
    """A folder in which each run gets one of its own; null: `tensorboard` in the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WandbConfig:
    """What Weights & Biases is told; null leaves it to its own settings."""

    project: str | None = None
    name: str | None = None
    entity: str | None = None
    mode: Literal["online", "offline", "disabled"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All settings of one training run."""

    model: Path
    """Folder with config.json and safetensors."""
    dataset: DatasetConfig
    output_dir: Path
    """The run."""
    tokenizer: Path | None = None
    """Null: the model folder."""
    seed: int = 0
    epochs: int | None = None
    """Passes over the data; null: as many as `max_steps` takes, or 1."""
    max_steps: int | None = None
    """Optimizer steps in all."""
    max_steps_per_epoch: int | None = None
    """Optimizer steps after which an epoch ends early."""
    batch_size: int = 2
    """Sequences in a micro-batch."""
    gradient_accumulation_steps: int = 1
    """Micro-batches an optimizer step; an epoch's last, shorter group is stepped too."""
    clip_grad_norm: float | None = 1.0
    """Largest gradient norm; null: no clipping."""
    dtype: str = "fp32"
    """`fp32`; `bf16`: parameters and optimizer state too; `bf16_mixed`: only the computation."""
    device: str = "auto"
    """`auto`, `cpu`, `cuda`, `cuda:N` or `mps`."""
    deterministic: bool = False
    """Deterministic kernels only: what bit-identical resuming needs on CUDA."""
    compile: bool = False
    enable_activation_checkpointing: bool = False
    packed: bool = False
    """Not supported yet."""
    max_seq_len: int = 1024
    """Tokens; longer examples are cut."""
    num_workers: int = 0
    """Processes that load and tokenize; may change on resume."""
    num_threads: int | None = None
    """CPU threads of torch; null: torch's default."""
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    lr_scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)
    eval_every_n_steps: int | None = None
    """Optimizer steps; null: at every save."""
    log_every_n_steps: int = 1
    save_every_n_steps: int | None = None
    """Optimizer steps; null: at the end of each epoch. The last step is always saved."""
    save_every_n_minutes: float | None = None
    """Minutes since the last save, beside what else asks for one; null: time asks for none."""
    save_at_epoch_end: bool = False
    """Save at the end of each epoch too where `save_every_n_steps` is set."""
    async_save: bool = True
    """Save beside training: it waits neither for the disk nor, mostly, for the copy."""
    on_save_error: Literal["stop", "continue"] = "stop"
    """What a save that the disk refuses does to training. The last one of a run always fails it."""
    max_shard_size: str = "5GB"
    """Most weights in one file: bytes, or a number with kB, MB or GB."""
    keep_last_n_checkpoints: int | None = None
    keep_every_n_steps: int | None = None
    keep_best: tuple[str, ...] = ()
    """`N`, `N:METRIC` or `N:METRIC:min`, as the command line's --keep-best."""
    loggers: tuple[Literal["tensorboard", "wandb"], ...] = ()
    """Where metrics go besides `metrics.jsonl`."""
    tensorboard: TensorBoardConfig = field(default_factory=TensorBoardConfig)
    wandb: WandbConfig = field(default_factory=WandbConfig)
    prune_to_trash: bool = False
    """Move what is pruned into the run's trash instead of freeing its space."""
    resume_from: str | None = None
    """Null, `latest`, `auto`, or the path of a checkpoint or run."""
    rewind: int | None = None
    """Go back in place: the number of the attempt to make."""
    allow_changed: tuple[str, ...] = ()
    """Settings that may differ from those the checkpoint was trained with."""

    @property
    def policy(self) -> tuple[str, ...]:
        """The retention rules, as `run.json` holds them."""
        rules: list[KeepLast | KeepEvery | KeepBest] = []
        if self.keep_last_n_checkpoints is not None:
            rules.append(KeepLast(self.keep_last_n_checkpoints))
        if self.keep_every_n_steps is not None:
            rules.append(KeepEvery(self.keep_every_n_steps))
        rules += [parse_best(text) for text in self.keep_best]
        return tuple(str(rule) for rule in rules)

    @property
    def shard_size(self) -> int:
        """Most bytes of weights in one file."""
        return settings.parse_size("max_shard_size", self.max_shard_size)

    def to_dict(self) -> dict[str, Any]:
        """What is written into the run and its checkpoints: plain values, absolute paths."""
        values: dict[str, Any] = _plain(self)
        for name in ONE_START_ONLY:
            del values[name]
        return values


SETTINGS = tuple(settings.names(Config))
"""Dotted names of all settings."""


def read_config(path: Path | None, overrides: Sequence[str] = ()) -> Config:
    """The checked config in a YAML file with `key=value` texts laid over it.

    Raises:
        UsageError: Something in it is wrong; the message says what.
    """
    tree: dict[str, settings.Tree] = {}
    if path is not None:
        try:
            text = path.read_text(encoding="utf-8-sig")
        except FileNotFoundError as e:
            msg = f"There is no config file {path}."
            raise UsageError(msg) from e
        except UnicodeDecodeError as e:
            msg = f"The config file {path} is not UTF-8 text."
            raise UsageError(msg) from e
        except OSError as e:
            msg = f"The config file {path} cannot be read: {e.strerror}."
            raise UsageError(msg) from e
        parsed = settings.parse_yaml(text, str(path))
        if not isinstance(parsed, dict):
            msg = f"The config file {path} holds no settings."
            raise UsageError(msg)
        tree = parsed
    return make_config(tree, overrides)


def make_config(tree: Mapping[str, settings.Tree], overrides: Sequence[str] = ()) -> Config:
    """The checked config of a tree of settings with `key=value` texts laid over it.

    Raises:
        UsageError: Something in it is wrong; the message says what.
    """
    tree = {key: _copied(value) for key, value in tree.items()}
    if isinstance(tree.get("dataset"), str):
        tree["dataset"] = {"source": tree["dataset"]}
    for text in overrides:
        key, equals, value = text.partition("=")
        if not equals or not key:
            msg = f"{text!r} is no key=value."
            raise UsageError(msg)
        if key not in SETTINGS:
            msg = f"There is no setting {key}.{settings.near(key, SETTINGS)}"
            raise UsageError(msg)
        settings.assign(tree, key, {"source": value} if key == "dataset" else value)
    config = _absolute(settings.build(Config, tree, known=SETTINGS))
    check(config, known=SETTINGS)
    return config


def from_dict(values: Mapping[str, Any], overrides: Sequence[str] = ()) -> Config:
    """The checked config of plain values, as `Config.to_dict` gives them."""
    return make_config({key: _texts(value) for key, value in values.items()}, overrides)


def _texts(value: Any) -> settings.Tree:
    if isinstance(value, dict):
        return {str(key): _texts(child) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [_texts(child) for child in value]
    if value is None or isinstance(value, str):
        return value
    return str(value)


def _copied(value: settings.Tree) -> settings.Tree:
    return dict(value) if isinstance(value, dict) else value


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Path):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


def is_file_source(source: str) -> bool:
    """Whether a dataset's source means a path, rather than a name that `datasets` knows."""
    path = Path(source)
    return path.is_absolute() or path.suffix.lower() in TEXT_SUFFIXES or path.exists()


def _absolute(config: Config) -> Config:
    """The same config with paths that hold from any working directory, and its epochs settled."""
    eval_source = config.dataset.eval_source
    unbounded = config.epochs is None and config.max_steps is None
    return dataclasses.replace(
        config,
        model=config.model.absolute(),
        tokenizer=config.tokenizer.absolute() if config.tokenizer else None,
        output_dir=config.output_dir.absolute(),
        tensorboard=dataclasses.replace(
            config.tensorboard, dir=config.tensorboard.dir and config.tensorboard.dir.absolute()
        ),
        dataset=dataclasses.replace(
            config.dataset,
            source=_absolute_source(config.dataset.source),
            eval_source=_absolute_source(eval_source) if eval_source else None,
        ),
        epochs=1 if unbounded else config.epochs,
    )


def _absolute_source(source: str) -> str:
    return str(Path(source).absolute()) if is_file_source(source) else source
