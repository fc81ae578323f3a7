"""What a config's values must be beyond their types, each refusal in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckptui.errors import UsageError
from ckptui.retention import direction, parse_best
from recipe_integration.settings import near, parse_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recipe_integration.config import Config, OptimizerConfig

_FP16 = (
    "dtype fp16 is not supported: its gradients need loss scaling, whose state this recipe does "
    "not keep; use bf16_mixed, bf16 or fp32."
)

_MEANINGLESS: dict[str, dict[str, object]] = {
    "adamw": {"momentum": 0.0, "nesterov": False},
    "sgd": {"betas": (0.9, 0.999), "eps": 1e-8},
    "adafactor": {
        "betas": (0.9, 0.999),
        "eps": 1e-8,
        "momentum": 0.0,
        "nesterov": False,
        "fused": None,
    },
}
"""What each optimizer has no use for, with the value that says nothing."""


def check(config: Config, *, known: Sequence[str]) -> None:
    """Refuse values that could never work.

    Args:
        config: With absolute paths.
        known: All dotted names of settings.

    Raises:
        UsageError: There is such a value.
    """
    _check_ranges(config)
    _check_saving(config)
    _check_unsupported(config)
    _check_optimizer(config.optimizer)
    _check_keeping(config)
    for name in config.allow_changed:
        if name not in known:
            msg = f"allow_changed names no setting: {name}.{near(name, known)}"
            raise UsageError(msg)
    if config.rewind is not None and config.resume_from in (None, "latest", "auto"):
        msg = "rewind goes back to a checkpoint: name its path in resume_from."
        raise UsageError(msg)


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


def _check_saving(config: Config) -> None:
    parse_size("max_shard_size", config.max_shard_size)
    if config.save_every_n_minutes is not None and config.save_every_n_minutes <= 0:
        msg = f"save_every_n_minutes is {config.save_every_n_minutes}; it must be above 0, or null."
        raise UsageError(msg)
    if config.save_at_epoch_end and config.save_every_n_steps is None:
        msg = "save_at_epoch_end says nothing without save_every_n_steps: each epoch is saved then."
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
        msg = f"{name} is {value!r}; it must be {wanted}.{near(value, choices)}"
        raise UsageError(msg)


def _check_optimizer(optimizer: OptimizerConfig) -> None:
    """Refuse settings that the chosen optimizer would ignore."""
    for name, nothing in _MEANINGLESS[optimizer.name].items():
        if getattr(optimizer, name) != nothing:
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
