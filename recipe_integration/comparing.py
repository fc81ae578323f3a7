"""What may have changed between a checkpoint and the start that goes on from it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import torch

from ckptui.errors import ConfigMismatchError
from recipe_integration.progress import say

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ckptui.checkpoint import Checkpoint
    from recipe_integration.config import Config
    from recipe_integration.data import Data

DECISIVE: Final = (
    "seed",
    "epochs",
    "max_steps",
    "max_steps_per_epoch",
    "batch_size",
    "gradient_accumulation_steps",
    "clip_grad_norm",
    "dtype",
    "packed",
    "max_seq_len",
    "dataset.shuffle",
    "dataset.drop_last",
    "optimizer.name",
    "optimizer.lr",
    "optimizer.betas",
    "optimizer.eps",
    "optimizer.weight_decay",
    "optimizer.momentum",
    "optimizer.nesterov",
    "lr_scheduler.name",
    "lr_scheduler.num_warmup_steps",
    "lr_scheduler.min_lr_ratio",
)
"""Settings that may differ on resume only where `allow_changed` names them."""

_SILENT: Final = ("output_dir",)
"""Settings whose change says nothing about training."""


def compare_settings(before: Mapping[str, Any], config: Config, checkpoint: Checkpoint) -> None:
    """Refuse settings that would make another training of it; note those that may differ.

    Args:
        before: What the checkpoint was trained with.
        config: What it is to go on with.
        checkpoint: For the message.

    Raises:
        ConfigMismatchError: A decisive setting differs and `allow_changed` does not name it.
    """
    now = dict(_flat(config.to_dict()))
    then = dict(_flat(before))
    changed = [
        name for name in now if name in then and then[name] != now[name] and name not in _SILENT
    ]
    refused = [n for n in changed if n in DECISIVE and not _allowed(n, config)]
    if refused:
        raise _mismatch(checkpoint, {n: _change(n, now[n], then[n]) for n in refused})
    for name in changed:
        say(f"Changed since {checkpoint.name}: {_change(name, now[name], then[name])}.")


def compare_data(
    stored: Mapping[str, Any], config: Config, data: Data, checkpoint: Checkpoint
) -> None:
    """Refuse data that differs from what the checkpoint was trained on; note other differences.

    Args:
        stored: The checkpoint's recipe state.
        config: What it is to go on with.
        data: Loaded from it.
        checkpoint: For the message.

    Raises:
        ConfigMismatchError: The training examples differ and `allow_changed` does not name dataset.
    """
    before, name = stored["data"], checkpoint.name
    if before.get("fingerprint") != data.fingerprint:
        lengths = f"{data.length} examples, was {before.get('length')}"
        what = (
            f"dataset has {lengths}"
            if before.get("length") != data.length
            else (f"dataset has other content in its {data.length} examples")
        )
        if not _allowed("dataset", config):
            raise _mismatch(checkpoint, {"dataset": what})
        say(f"Changed since {name}: {what}.")
    if before.get("eval_fingerprint") != data.eval_fingerprint:
        say(f"Changed since {name}: the examples to evaluate on; eval_loss is another measure.")
    machine = {
        "threads": (stored.get("threads"), torch.get_num_threads()),
        "torch": (stored.get("torch"), str(torch.__version__)),
    }
    for what, (then, now) in machine.items():
        if then is not None and then != now:
            say(f"Changed since {name}: {what} is {now}, was {then}; last bits may differ.")


def _change(name: str, now: Any, then: Any) -> str:
    words = [value if isinstance(value, str) else json.dumps(value) for value in (now, then)]
    return f"{name} is {words[0]}, was {words[1]}"


def _allowed(name: str, config: Config) -> bool:
    return any(name == a or name.startswith(f"{a}.") for a in config.allow_changed)


def _mismatch(checkpoint: Checkpoint, changes: Mapping[str, str]) -> ConfigMismatchError:
    msg = (
        f"{checkpoint.name} in {checkpoint.run} was trained with other settings: "
        f"{'; '.join(changes.values())}. Set them back, or accept them with "
        f"allow_changed={','.join(changes)}."
    )
    return ConfigMismatchError(msg, keys=changes)


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
