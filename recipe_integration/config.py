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
from ckptui.retention import KeepBest, KeepEvery, KeepLast, direction, parse_best
from recipe_integration import settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ONE_START_ONLY = ("resume_from", "rewind", "allow_changed")
"""Settings that are never written into a run: they speak about one start of it."""

TEXT_SUFFIXES = frozenset({".jsonl", ".json", ".ndjson", ".txt", ".text", ".md"})
"""Names that always mean a file, even where it does not exist."""

_FP16 = (
    "dtype fp16 is not supported: its gradients need loss scaling, whose state this recipe does "
    "not keep; use bf16_mixed, bf16 or fp32."
)


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
    keep_last_n_checkpoints: int | None = None
    keep_every_n_steps: int | None = None
    keep_best: tuple[str, ...] = ()
    """`N`, `N:METRIC` or `N:METRIC:min`, as the command line's --keep-best."""
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
    return _checked(_absolute(settings.build(Config, tree, known=SETTINGS)))


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
        dataset=dataclasses.replace(
            config.dataset,
            source=_absolute_source(config.dataset.source),
            eval_source=_absolute_source(eval_source) if eval_source else None,
        ),
        epochs=1 if unbounded else config.epochs,
    )


def _absolute_source(source: str) -> str:
    return str(Path(source).absolute()) if is_file_source(source) else source


def _checked(config: Config) -> Config:
    _check_ranges(config)
    _check_unsupported(config)
    _check_optimizer(config.optimizer)
    _check_keeping(config)
    for name in config.allow_changed:
        if name not in SETTINGS:
            msg = f"allow_changed names no setting: {name}.{settings.near(name, SETTINGS)}"
            raise UsageError(msg)
    if config.rewind is not None and config.resume_from in (None, "latest", "auto"):
        msg = "rewind goes back to a checkpoint: name its path in resume_from."
        raise UsageError(msg)
    return config


def _check_ranges(config: Config) -> None:
    at_least: tuple[tuple[str, float | None, float], ...] = (
        ("seed", config.seed, 0),
        ("epochs", config.epochs, 1),
        ("max_steps", config.max_steps, 1),
        ("max_steps_per_epoch", config.max_steps_per_epoch, 1),
        ("batch_size", config.batch_size, 1),
        ("gradient_accumulation_steps", config.gradient_accumulation_steps, 1),
        ("max_seq_len", config.max_seq_len, 2),
        ("num_workers", config.num_workers, 0),
        ("num_threads", config.num_threads, 1),
        ("optimizer.lr", config.optimizer.lr, 0),
        ("optimizer.eps", config.optimizer.eps, 0),
        ("optimizer.weight_decay", config.optimizer.weight_decay, 0),
        ("optimizer.momentum", config.optimizer.momentum, 0),
        ("lr_scheduler.num_warmup_steps", config.lr_scheduler.num_warmup_steps, 0),
        ("lr_scheduler.min_lr_ratio", config.lr_scheduler.min_lr_ratio, 0),
        ("eval_every_n_steps", config.eval_every_n_steps, 1),
        ("log_every_n_steps", config.log_every_n_steps, 1),
        ("save_every_n_steps", config.save_every_n_steps, 1),
        ("keep_last_n_checkpoints", config.keep_last_n_checkpoints, 1),
        ("keep_every_n_steps", config.keep_every_n_steps, 1),
        ("rewind", config.rewind, 1),
        ("dataset.eval_fraction", config.dataset.eval_fraction, 0),
    )
    for name, value, least in at_least:
        if value is not None and value < least:
            msg = f"{name} is {value}; it must be at least {least}."
            raise UsageError(msg)
    if config.seed >= 2**63:
        msg = f"seed is {config.seed}; it must be below 2^63."
        raise UsageError(msg)
    if config.clip_grad_norm is not None and config.clip_grad_norm <= 0:
        msg = f"clip_grad_norm is {config.clip_grad_norm}; it must be above 0, or null for none."
        raise UsageError(msg)
    below_one = {
        "dataset.eval_fraction": config.dataset.eval_fraction,
        "optimizer.betas": max(config.optimizer.betas),
    }
    for name, value in below_one.items():
        if value >= 1:
            msg = f"{name} has {value}; it must be below 1."
            raise UsageError(msg)
    if min(config.optimizer.betas) < 0:
        msg = f"optimizer.betas has {min(config.optimizer.betas)}; it must be at least 0."
        raise UsageError(msg)
    if config.lr_scheduler.min_lr_ratio > 1:
        msg = f"lr_scheduler.min_lr_ratio is {config.lr_scheduler.min_lr_ratio}; at most 1 fits."
        raise UsageError(msg)


def _check_unsupported(config: Config) -> None:
    if config.dtype in ("fp16", "float16", "half"):
        raise UsageError(_FP16)
    _one_of("dtype", config.dtype, ("fp32", "bf16", "bf16_mixed"))
    if config.packed:
        msg = "packed is not supported yet: set packed to false, every sequence is one example."
        raise UsageError(msg)
    if config.dataset.streaming:
        msg = (
            "dataset.streaming is not supported: the order of a stream is no function of seed and "
            "epoch, so training could not be resumed exactly; load the data as files."
        )
        raise UsageError(msg)
    if config.dataset.format in ("chat", "messages"):
        msg = "dataset.format chat is not supported yet; render it to prompt and completion."
        raise UsageError(msg)
    _one_of("dataset.format", config.dataset.format, ("text", "prompt_completion"))
    kind, _, index = config.device.partition(":")
    if kind not in ("auto", "cpu", "cuda", "mps") or (":" in config.device and kind != "cuda"):
        msg = f"device is {config.device!r}; it must be auto, cpu, cuda, cuda:N or mps."
        raise UsageError(msg)
    if ":" in config.device and not (index.isascii() and index.isdecimal()):
        msg = f"device is {config.device!r}; after cuda: stands the number of the device."
        raise UsageError(msg)


def _one_of(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        wanted = f"{', '.join(choices[:-1])} or {choices[-1]}"
        msg = f"{name} is {value!r}; it must be {wanted}.{settings.near(value, choices)}"
        raise UsageError(msg)


def _check_optimizer(optimizer: OptimizerConfig) -> None:
    """Refuse settings that the chosen optimizer would ignore."""
    default = OptimizerConfig()
    ignored = {
        "adamw": ("momentum", "nesterov"),
        "sgd": ("betas", "eps"),
        "adafactor": ("betas", "eps", "momentum", "nesterov", "fused"),
    }[optimizer.name]
    for name in ignored:
        if getattr(optimizer, name) != getattr(default, name):
            msg = f"optimizer.{name} means nothing to {optimizer.name}; leave it out."
            raise UsageError(msg)
    if optimizer.nesterov and optimizer.momentum == 0:
        msg = "optimizer.nesterov needs an optimizer.momentum above 0."
        raise UsageError(msg)


def _check_keeping(config: Config) -> None:
    for text in config.keep_best:
        rule = parse_best(text)
        metric = rule.metric or "eval_loss"
        if rule.mode is None and direction(metric) is None:
            msg = (
                f"keep_best {text!r} leaves open whether a low or a high {metric} is better; "
                f"write {rule.count}:{metric}:min or :max."
            )
            raise UsageError(msg)
        if metric not in ("eval_loss", "loss"):
            msg = f"keep_best ranks by {metric}, which is not logged; eval_loss and loss are."
            raise UsageError(msg)
        if metric == "eval_loss":
            _check_best_is_measured(config, text)


def _check_best_is_measured(config: Config, text: str) -> None:
    """Refuse a ranking by a value that some checkpoints would not have."""
    if not config.dataset.has_eval:
        msg = f"keep_best {text!r} needs an eval_loss, but dataset.eval_fraction is 0."
        raise UsageError(msg)
    save, evaluate = config.save_every_n_steps, config.eval_every_n_steps
    if evaluate is None or (save is not None and save % evaluate == 0):
        return
    every = f"every {save} steps" if save else "at the end of each epoch"
    msg = (
        f"keep_best {text!r} needs an eval_loss at each save, but saves come {every} and "
        f"evaluations every {evaluate} steps; set eval_every_n_steps to null or to a divisor."
    )
    raise UsageError(msg)
