"""Full fine-tuning of a Hugging Face causal language model on one device.

    python -m recipe_integration.full_finetune_single_device --config FILE [key=value ...]

It reads from top to bottom: `main` turns errors into sentences and exit codes, `finetune` sets
everything up in an order that touches nothing until all of it is known to be right, and `train` is
the loop. A run that is killed anywhere and started again with `resume_from=auto` goes on as if
nothing had happened.

Exit codes: 0 finished, 1 failed, 2 wrong config, 75 saved on SIGTERM or SIGUSR1 and wants to be
queued again, 130 saved on Ctrl+C. A second signal leaves at once.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from ckptui.errors import CkptuiError, StorageError
from recipe_integration import checkpointing
from recipe_integration.comparing import compare_data
from recipe_integration.config import read_config
from recipe_integration.data import Position, load_data
from recipe_integration.evaluate import mean_loss
from recipe_integration.model import (
    check_vocabulary,
    choose_device,
    load_model,
    load_tokenizer,
    make_optimizer,
    quiet_transformers,
    require_model,
    summed_loss,
)
from recipe_integration.progress import Progress, say
from recipe_integration.schedule import learning_rate
from recipe_integration.stopping import INTERRUPTED, StopSignals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    from transformers import PreTrainedModel

    from ckptui import TrainingRun
    from ckptui.checkpoint import Checkpoint
    from recipe_integration.config import Config
    from recipe_integration.data import Batch, Data


def main(arguments: Sequence[str] | None = None) -> int:
    """Train as the command line says; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m recipe_integration.full_finetune_single_device",
        description="Full fine-tuning of a Hugging Face causal language model on one device.",
        epilog="example: --config outputs/my-run/config.yaml output_dir=outputs/again epochs=2",
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings, as YAML")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="settings over the file")
    options = parser.parse_intermixed_args(arguments)
    try:
        return finetune(read_config(options.config, options.overrides))
    except CkptuiError as e:
        say(str(e))
        return e.exit_code
    except KeyboardInterrupt:
        say("Interrupted before training began; nothing was changed.")
        return INTERRUPTED
    except torch.OutOfMemoryError as e:
        say(f"The device ran out of memory: {str(e).splitlines()[0]}")
        return 1
    except OSError as e:
        say(f"{e.filename or 'The disk'} failed: {e.strerror or e}.")
        return 1
    except RuntimeError as e:
        if "DataLoader worker" not in str(e):
            raise
        say(f"A data worker died: {str(e).splitlines()[0]} Fewer num_workers need less memory.")
        return 1


def finetune(config: Config, *, on_save: Callable[[Checkpoint], None] | None = None) -> int:
    """Train a run to its end, or until a signal stops it; the exit code.

    Args:
        config: All settings.
        on_save: Called with each checkpoint once it is complete and pruning is done.

    Raises:
        CkptuiError: Something is wrong; where it was so from the start, nothing has been touched.
    """
    device = set_up(config)
    run = checkpointing.open_run(config)
    start = checkpointing.look(run, config)
    if start.finished and start.checkpoint is not None:
        say(f"{start.checkpoint.path} is the last checkpoint of this training: nothing to do.")
        return 0

    # A checkpoint has all that going on takes: the base model may be gone by then.
    source = start.checkpoint.path if start.checkpoint else config.model
    require_model(source)
    tokenizer = load_tokenizer(source if start.checkpoint else config.tokenizer or source)
    data = load_data(config, tokenizer)
    if start.checkpoint is not None:
        compare_data(start.stored, config, data, start.checkpoint)
    model = load_model(source, config, device, dtype=checkpointing.stored_dtype(start))
    check_vocabulary(model, tokenizer)
    optimizer = make_optimizer(model, config.optimizer, device)

    with StopSignals() as stop, run:
        seed_everything(config.seed)
        done = checkpointing.load(run, start, config, model, optimizer)
        training = Training(
            config=config,
            device=device,
            model=model,
            optimizer=optimizer,
            data=data,
            run=run,
            saves=checkpointing.Saves(run, config, data, tokenizer, total_steps(config, data)),
            stop=stop,
            progress=Progress(total=total_steps(config, data), done=done),
            on_save=on_save,
        )
        try:
            if start.checkpoint is not None:
                training.progress.say(f"Going on from {start.checkpoint.path}.")
                evaluate_belatedly(training, start.checkpoint, start.position)
            step = train(training, done=done, position=start.position)
        except StorageError as e:
            msg = (
                f"{e} Training stops; with resume_from=auto it goes on from the newest checkpoint."
            )
            raise StorageError(msg, path=e.path) from e
        finally:
            training.progress.close()
        if stop.received is None:
            say(f"Finished after {step} steps: {run.path}")
        return stop.exit_code


def set_up(config: Config) -> torch.device:
    """Apply what holds for the whole process; the device to train on."""
    # Data workers are forked: a thread pool of the tokenizer would not survive that.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    quiet_transformers()
    if config.num_threads is not None:
        torch.set_num_threads(config.num_threads)
    if config.deterministic:
        # cuBLAS reads this when it is first used.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.backends.cudnn.benchmark = False
    torch.use_deterministic_algorithms(config.deterministic)
    return choose_device(config.device)


def seed_everything(seed: int) -> None:
    """Begin all random streams; a resume then sets them to where they were."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def total_steps(config: Config, data: Data) -> int:
    """Optimizer steps of the whole run."""
    if config.epochs is None:
        return config.max_steps or 0
    steps = config.epochs * data.steps_per_epoch
    return min(steps, config.max_steps or steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """What the loop works with."""

    config: Config
    device: torch.device
    model: PreTrainedModel
    optimizer: torch.optim.Optimizer
    data: Data
    run: TrainingRun
    saves: checkpointing.Saves
    stop: StopSignals
    progress: Progress
    on_save: Callable[[Checkpoint], None] | None

    @property
    def mixed(self) -> bool:
        """Whether only the computation is in bfloat16."""
        return self.config.dtype == "bf16_mixed"


def train(training: Training, *, done: int, position: Position) -> int:
    """Train from a position to the end, or until a signal comes; optimizer steps done by then."""
    config, data, run, stop = training.config, training.data, training.run, training.stop
    step, total = done, total_steps(config, data)
    last: Boundary | None = None
    meter = Meter()
    if stop.received is not None:
        return step
    while not checkpointing.is_finished(config, epochs=position.epoch, steps=step):
        epoch = position.epoch
        groups = data.groups(position)
        position = Position(epoch=epoch + 1) if not groups else position
        for number, group in enumerate(load_until_stopped(training, groups), 1):
            lr = learning_rate(
                step + 1, peak=config.optimizer.lr, total=total, config=config.lr_scheduler
            )
            taken = optimizer_step(training, group, lr=lr, last=last)
            if taken is None:
                leave(training, last)
                return step
            loss, grad_norm = taken
            step += 1
            run.mark(step)
            if last is None and config.async_save:
                run.reserve()
            position = advance(position, groups[number - 1], ends_epoch=number == len(groups))
            meter.count(sum(batch.tokens for batch in group))

            values = {"loss": loss, "lr": lr, "grad_norm": grad_norm}
            last = Boundary(step=step, epoch=epoch, position=position, values=values)
            if step % config.log_every_n_steps == 0:
                speed = {"tokens_per_second": meter.rate(), "peak_memory": peak_memory(training)}
                run.log(step, epoch=epoch, **values, **speed)
                meter.restart()
            training.progress.step(step, loss=loss, lr=lr)

            ends = checkpointing.is_finished(config, epochs=position.epoch, steps=step)
            saves = ends or training.saves.is_due(step, ends_epoch=position.epoch > epoch)
            if is_eval_due(config, data, step, saves=saves, ends=ends) and stop.received is None:
                eval_loss = evaluate(training, None if saves else last)
                if eval_loss is not None:
                    values["eval_loss"] = eval_loss
                    run.log(step, epoch=epoch, eval_loss=eval_loss)
                meter.restart()
            if stop.received is not None:
                leave(training, last)
                return step
            if saves or run.save_requested:
                save(training, last, final=ends)
                meter.restart()
            if ends:
                return step
        if stop.received is not None:
            leave(training, last)
            return step
    return step


def load_until_stopped(training: Training, groups: list[list[list[int]]]) -> Iterator[list[Batch]]:
    """The groups of batches, unless a signal that stops training has ended the data workers too.

    Raises:
        RuntimeError: A worker died of something else.
    """
    try:
        yield from training.data.load(groups)
    except RuntimeError as e:
        if training.stop.received is None or "DataLoader worker" not in str(e):
            raise


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """The end of an optimizer step: until the next one, a checkpoint is of exactly this."""

    step: int
    epoch: int
    """The one whose batches were trained."""
    position: Position
    values: dict[str, float]
    """Metrics of the step; an evaluation adds to them."""


def save(training: Training, last: Boundary, *, final: bool = False) -> None:
    """Save the state at a boundary, beside training or while it waits.

    Args:
        training: What is saved.
        last: The boundary.
        final: Training ends with this, so it is waited for and must not fail.

    Raises:
        CkptuiError: It could not be saved, or a save before could not.
    """

    def tell(checkpoint: Checkpoint) -> None:
        training.progress.saved(checkpoint.name, values)
        if training.on_save is not None:
            training.on_save(checkpoint)

    def tell_later(future: Future[Checkpoint]) -> None:
        if future.exception() is None:
            tell(future.result())

    values = dict(last.values)
    what: checkpointing.What = {
        "step": last.step,
        "epoch": last.epoch,
        "position": last.position,
        "metrics": values,
    }
    if training.config.async_save and not final:
        training.saves.start(**what).add_done_callback(tell_later)
        return
    try:
        tell(training.saves.save(**what))
    except StorageError as e:
        if final or training.config.on_save_error == "stop":
            raise
        training.progress.say(f"{e} Training goes on, and saves when the next save is due.")


def leave(training: Training, last: Boundary | None) -> None:
    """Save before leaving on a signal; without a step taken there is nothing that is not saved."""
    training.optimizer.zero_grad(set_to_none=True)
    if last is not None:
        save(training, last, final=True)


def optimizer_step(
    training: Training, group: list[Batch], *, lr: float, last: Boundary | None
) -> tuple[float, float] | None:
    """One optimizer step over a group of micro-batches; its loss and gradient norm.

    The loss is the mean over all targets of the group, however they fall into micro-batches, so a
    shorter last group weighs each of its tokens as every other group does.

    Returns:
        None if a signal came in between: the step was not taken.
    """
    config, model = training.config, training.model
    targets = max(1, sum(batch.targets for batch in group))
    loss = torch.zeros((), device=training.device)
    for batch in group:
        if is_wanted_elsewhere(training, last):
            return None
        share = summed_loss(model, batch.to(training.device), mixed=training.mixed) / targets
        share.backward()  # type: ignore[no-untyped-call]
        loss += share.detach()
    # Without a limit this only measures.
    limit = config.clip_grad_norm if config.clip_grad_norm is not None else float("inf")
    grad_norm = torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
    for parameters in training.optimizer.param_groups:
        parameters["lr"] = lr
    training.optimizer.step()
    training.optimizer.zero_grad(set_to_none=True)
    return loss.item(), grad_norm.item()


def is_wanted_elsewhere(training: Training, last: Boundary | None) -> bool:
    """Look up between two batches: serve who asked for a checkpoint; whether a signal came."""
    if last is not None and training.run.save_requested:
        save(training, last)
    return training.stop.received is not None


def advance(position: Position, batches: list[list[int]], *, ends_epoch: bool) -> Position:
    """The position after one more optimizer step."""
    if ends_epoch:
        return Position(epoch=position.epoch + 1)
    return Position(
        epoch=position.epoch,
        batches=position.batches + len(batches),
        examples=position.examples + sum(len(batch) for batch in batches),
        steps=position.steps + 1,
    )


def is_eval_due(config: Config, data: Data, step: int, *, saves: bool, ends: bool) -> bool:
    """Whether this step is evaluated, which comes before its save."""
    if not data.eval_length:
        return False
    if config.eval_every_n_steps is None:
        return saves
    return ends or step % config.eval_every_n_steps == 0


def evaluate(training: Training, last: Boundary | None) -> float | None:
    """The loss on the held-out examples; None if a signal came: saving is more urgent then.

    Args:
        training: What to evaluate.
        last: What to save if somebody asks for a checkpoint meanwhile; None: they wait for the one
            that comes after the evaluation.
    """
    return mean_loss(
        training.model,
        training.data.evaluation(),
        device=training.device,
        mixed=training.mixed,
        stopped=lambda: is_wanted_elsewhere(training, last),
    )


def evaluate_belatedly(training: Training, source: Checkpoint, position: Position) -> None:
    """Make up for an evaluation that a signal had cut off, right after the checkpoint was loaded.

    It draws no random number, so training goes on as it would have.
    """
    step, config = source.step or 0, training.config
    if source.run != training.run.path or "eval_loss" in source.metrics:
        return
    ends_epoch = position.batches == 0 and position.epoch > 0
    due = checkpointing.is_save_due(config, step, ends_epoch=ends_epoch)
    if not is_eval_due(config, training.data, step, saves=due, ends=False):
        return
    if "eval_loss" in training.run.logged(step):
        return
    eval_loss = evaluate(training, None)
    if eval_loss is not None:
        training.run.log(step, epoch=source.epoch, eval_loss=eval_loss)


def peak_memory(training: Training) -> int:
    """The most memory in use so far, in bytes: the accelerator's, or the process's on a CPU."""
    if training.device.type == "cuda":
        return torch.cuda.max_memory_allocated(training.device)
    if training.device.type == "mps":
        return torch.mps.driver_allocated_memory()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # kilobytes, but not on macOS


class Meter:
    """Tokens trained per second of training; evaluating and saving do not count."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begin anew."""
        self._tokens = 0
        self._begun = time.perf_counter()

    def count(self, tokens: int) -> None:
        """Add the tokens of a step."""
        self._tokens += tokens

    def rate(self) -> float:
        """Tokens per second since the last start."""
        return self._tokens / max(1e-9, time.perf_counter() - self._begun)


if __name__ == "__main__":
    sys.exit(main())
