"""Repeat a checkpoint's `eval_loss` from its folder alone.

    python -m recipe_integration.evaluate CHECKPOINT [key=value ...]

Weights, tokenizer and settings come from the folder; the examples from where its config says.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from ckptui import recipe_state
from ckptui.errors import CkptuiError, FormatError, NotFoundError, RefusedError
from ckptui.layouts.marker import MarkerError, read_marker
from recipe_integration import checkpointing
from recipe_integration.data import load_data
from recipe_integration.model import (
    choose_device,
    load_model,
    load_tokenizer,
    quiet_transformers,
    summed_loss,
)
from recipe_integration.progress import say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from transformers import PreTrainedModel

    from recipe_integration.data import Batch


def mean_loss(
    model: PreTrainedModel,
    batches: Iterable[Batch],
    *,
    device: torch.device,
    mixed: bool,
    stopped: Callable[[], bool] = lambda: False,
) -> float | None:
    """The mean negative log likelihood of all targets; draws no random number.

    Args:
        model: Left in the mode that it is in.
        batches: What to evaluate on.
        device: Of the model.
        mixed: As for `summed_loss`.
        stopped: Looked at before each batch; the answer is None once it says so.
    """
    was_training = model.training
    model.eval()  # type: ignore[no-untyped-call]
    total, targets = 0.0, 0
    try:
        for batch in batches:
            if stopped():
                return None
            with torch.no_grad():
                total += summed_loss(model, batch.to(device), mixed=mixed).item()
            targets += batch.targets
    finally:
        model.train(was_training)
    return total / max(1, targets)


def evaluate(folder: Path, overrides: Sequence[str] = ()) -> float:
    """The `eval_loss` of a checkpoint.

    Raises:
        CkptuiError: The folder is no checkpoint of the recipe, or its data is gone.
    """
    if not folder.is_dir():
        msg = f"There is no checkpoint {folder}."
        raise NotFoundError(msg)
    config = checkpointing.stored_config(folder, overrides)
    quiet_transformers()
    if config.num_threads is not None:
        torch.set_num_threads(config.num_threads)
    device = choose_device(config.device)
    data = load_data(config, load_tokenizer(folder))
    if not data.eval_length:
        msg = f"{folder} was trained without examples to evaluate on; name some in eval_source."
        raise RefusedError(msg)
    before = recipe_state.read_json(folder).get("data", {}).get("eval_fingerprint")
    if before not in (None, data.eval_fingerprint):
        say("These are other examples than those of the training run.")
    model = load_model(folder, config, device)
    mixed = config.dtype == "bf16_mixed"
    found = mean_loss(model, data.evaluation(), device=device, mixed=mixed)
    if found is None:  # it is never told to stop here
        raise AssertionError
    return found


def logged(folder: Path) -> float | None:
    """The `eval_loss` that a checkpoint carries."""
    try:
        marker = read_marker(str(folder))
    except (MarkerError, OSError) as e:
        msg = f"The marker of {folder} cannot be read: {e}."
        raise FormatError(msg, path=folder) from e
    return marker.metrics.get("eval_loss") if marker else None


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the loss; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m recipe_integration.evaluate",
        description="Repeat the eval_loss of a checkpoint from its folder.",
    )
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT")
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    options = parser.parse_args(arguments)
    try:
        folder: Path = options.checkpoint.absolute()
        loss = evaluate(folder, options.overrides)
        before = logged(folder)
    except CkptuiError as e:
        say(str(e))
        return e.exit_code
    print(f"eval_loss {loss!r}")  # noqa: T201 - the result
    if before is not None:
        say(f"logged    {before!r}, relative difference {abs(loss - before) / abs(before):.1e}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
