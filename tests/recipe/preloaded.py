"""What the fork server imports before it forks, and what a forked training runs."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import torch
import transformers.models.llama.modeling_llama  # noqa: F401 - costs seconds, once

from ckptui import upkeep, writer
from ckptui.training import TrainingRun
from recipe_integration import checkpointing, demo, evaluate, full_finetune_single_device, model
from recipe_integration.data import Data

if TYPE_CHECKING:
    from pathlib import Path

    from tests.recipe.harness import At

torch.set_num_threads(1)

_FILE_EVENTS = frozenset(
    {
        "open",
        "os.mkdir",
        "os.rename",
        "os.remove",
        "os.rmdir",
        "os.link",
        "os.chmod",
        "shutil.rmtree",
    }
)

_MAINS = {
    "train": full_finetune_single_device.main,
    "evaluate": evaluate.main,
    "demo": demo.main,
}


def run(module: str, arguments: list[str], folder: Path, at: At | None) -> int:
    """Run a command in this process; its exit code."""
    _record_order(folder / "order")
    if at is not None and at.event == "disk":
        _count(at)
    elif at is not None:
        _watch(at)
    try:
        return _MAINS[module](arguments)
    except SystemExit as e:
        return e.code if isinstance(e.code, int) else 1
    except Exception:  # noqa: BLE001 - as the interpreter does with what nobody caught
        sys.excepthook(*sys.exc_info())
        return 1


def _record_order(path: Path) -> None:
    original = Data.load

    def load(self: Data, groups: list[list[list[int]]]) -> Any:
        for group, batches in zip(groups, original(self, groups), strict=True):
            with path.open("a") as f:
                f.write(json.dumps(group) + "\n")
            yield batches

    Data.load = load  # type: ignore[method-assign]


def _count(at: At) -> None:
    """Strike right before the given number of what this process does to files of a run."""
    done = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal done
        if event in _FILE_EVENTS and "/run" in str(arguments[0]):
            done += 1
            if done == at.step:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def _watch(at: At) -> None:
    struck = False

    def strike() -> None:
        nonlocal struck
        if struck:
            return  # the save that answers the signal comes by here too
        struck = True
        for place, number in enumerate(at.signals):
            if place:
                time.sleep(0.2)  # a signal that is still pending would swallow the next one
            if at.to_group:
                os.killpg(0, number)
            else:
                os.kill(os.getpid(), number)

    log, save, async_save = TrainingRun.log, TrainingRun.save, TrainingRun.async_save
    config_yaml, mean_loss = checkpointing.config_yaml, evaluate.mean_loss
    summed_loss, prune_by_policy = model.summed_loss, upkeep.prune_by_policy
    present = being_saved = 0
    batches = (0, 0)

    def watched_log(self: TrainingRun, step: int, **values: Any) -> None:
        nonlocal present
        present = step
        log(self, step, **values)
        if at.event == "log" and step == at.step and "loss" in values:
            strike()

    def watched_save(self: TrainingRun, step: int, **arguments: Any) -> Any:
        nonlocal being_saved
        self.wait()
        being_saved = step
        saved = save(self, step, **arguments)
        if at.event == "save" and step == at.step:
            strike()
        return saved

    def watched_async_save(self: TrainingRun, step: int, **arguments: Any) -> Any:
        nonlocal being_saved
        self.wait()
        being_saved = step
        future = async_save(self, step, **arguments)
        if at.event == "save" and step == at.step:
            future.add_done_callback(lambda _: strike())
        return future

    def watched_yaml(values: Any) -> bytes:
        if at.event == "saving" and being_saved == at.step:
            strike()
        return config_yaml(values)

    def watched_loss(*arguments: Any, **keywords: Any) -> float | None:
        if at.event == "evaluate" and present == at.step:
            strike()
        return mean_loss(*arguments, **keywords)

    loads = Data.load

    def watched_load(self: Data, groups: list[list[list[int]]]) -> Any:
        for batches in loads(self, groups):
            yield batches
            if at.event == "after" and present == at.step:
                strike()

    def watched_share(*arguments: Any, **keywords: Any) -> Any:
        """Strikes before the second micro-batch of a step; the one before it was logged last."""
        nonlocal batches
        batches = (present, batches[1] + 1 if batches[0] == present else 1)
        if at.event == "accumulate" and batches == (at.step - 1, 2):
            strike()
        return summed_loss(*arguments, **keywords)

    def watched_prune(*arguments: Any, **keywords: Any) -> Any:
        if at.event == "prune" and being_saved == at.step:
            strike()
        return prune_by_policy(*arguments, **keywords)

    vars(full_finetune_single_device)["summed_loss"] = watched_share
    vars(writer)["prune_by_policy"] = watched_prune
    Data.load = watched_load  # type: ignore[method-assign]
    TrainingRun.log = watched_log  # type: ignore[method-assign]
    TrainingRun.save = watched_save  # type: ignore[method-assign]
    TrainingRun.async_save = watched_async_save  # type: ignore[method-assign]
    checkpointing.config_yaml = watched_yaml
    vars(full_finetune_single_device)["mean_loss"] = watched_loss
