"""The learning rate: a pure function of the step and the config, so there is nothing to restore."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recipe_integration.config import SchedulerConfig


def learning_rate(step: int, *, peak: float, total: int, config: SchedulerConfig) -> float:
    """The learning rate of one optimizer step.

    Warm-up rises linearly and reaches the peak at step `num_warmup_steps`; the step after it still
    has the peak. Linear and cosine then fall towards `min_lr_ratio`, which step `total + 1` would
    have: no step is spent at a rate of zero.

    Args:
        step: The optimizer step, counted from 1.
        peak: The highest rate.
        total: Optimizer steps of the whole run.
        config: Name, warm-up and final share.
    """
    warmup = config.num_warmup_steps
    if step <= warmup:
        return peak * step / warmup
    if config.name == "constant":
        return peak
    progress = min(1.0, (step - 1 - warmup) / max(1, total - warmup))
    falling = 1 - progress if config.name == "linear" else 0.5 * (1 + math.cos(math.pi * progress))
    return peak * (config.min_lr_ratio + (1 - config.min_lr_ratio) * falling)
