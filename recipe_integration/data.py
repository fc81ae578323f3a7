"""Batches whose order is a pure function of (seed, epoch), so that a position is two numbers.

An epoch is a plain list of batches of indices. Resuming slices that list at the number of batches
already trained; no loader state is kept, and the number of workers may change between attempts.

Shapes: B sequences of a batch, S tokens of the longest of them.
"""

# Shape suffixes are the names of this file: see the legend above.
# ruff: noqa: N806, N815

from __future__ import annotations

import signal
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from ckptui.errors import RefusedError
from recipe_integration.sources import Split, fingerprint, read_split

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

    from recipe_integration.config import Config
    from recipe_integration.sources import Example

_FORK = "fork" if sys.platform == "linux" else None
"""Forked workers are the trainer's own children: they see that it is gone, even by SIGKILL. Those
of a fork server, newer Pythons' default, would stay for ever."""

IGNORED = -100
"""Label of a token without loss: padding and prompts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A micro-batch, padded on the right."""

    tokens_BS: Tensor
    mask_BS: Tensor
    """1 for tokens, 0 for padding."""
    labels_BS: Tensor
    """The tokens themselves where they count, else `IGNORED`; not shifted."""
    targets: int
    """Predicted tokens that count."""
    tokens: int
    """Tokens without padding."""

    def to(self, device: torch.device) -> Batch:
        """The same batch on a device."""
        return Batch(
            tokens_BS=self.tokens_BS.to(device),
            mask_BS=self.mask_BS.to(device),
            labels_BS=self.labels_BS.to(device),
            targets=self.targets,
            tokens=self.tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where training stands: this much of `epoch` is trained.

    The end of an epoch is the start of the next one, so that both resume by the same path.
    """

    epoch: int = 0
    batches: int = 0
    examples: int = 0
    """Examples in those batches: what counts if the batch size was allowed to change."""
    steps: int = 0
    """Optimizer steps that took."""


class Tokenized(Dataset[tuple[list[int], int]]):
    """Examples as token ids, with the number of leading ones that are not trained on."""

    def __init__(
        self, examples: Sequence[Example], tokenizer: PreTrainedTokenizerBase, max_seq_len: int
    ) -> None:
        self._examples = examples
        self._tokenizer = tokenizer
        self._max_seq_len = max_seq_len

    def __len__(self) -> int:
        return len(self._examples)

    def __getitem__(self, index: int) -> tuple[list[int], int]:
        """Ids of the example, the end-of-text token included where the tokenizer has one.

        What is too long loses the end of its text, or the start of its prompt where otherwise
        nothing would be left to train on.
        """
        example = self._examples[index]
        end = self._tokenizer.eos_token_id
        prompt: list[int] = []
        if example.prompt:
            prompt = self._encode(example.prompt, special=True)
            if prompt and prompt[-1] == end:
                prompt.pop()
        text = self._encode(example.text, special=not example.prompt)
        if isinstance(end, int) and (not text or text[-1] != end):
            text.append(end)
        if prompt:
            room = max(self._max_seq_len - len(text), self._max_seq_len // 2)
            prompt = prompt[-room:]
        return (prompt + text)[: self._max_seq_len], len(prompt)

    def _encode(self, text: str, *, special: bool) -> list[int]:
        ids: list[int] = self._tokenizer(text, add_special_tokens=special, verbose=False)[
            "input_ids"
        ]
        return ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Collate:
    """Pads tokenized examples to a batch."""

    pad: int
    """Any id of the vocabulary: padding is masked."""

    def __call__(self, items: Sequence[tuple[list[int], int]]) -> Batch:
        """The batch of some examples."""
        longest = max(len(ids) for ids, _ in items)
        tokens_BS = torch.full((len(items), longest), self.pad, dtype=torch.long)
        mask_BS = torch.zeros((len(items), longest), dtype=torch.long)
        labels_BS = torch.full((len(items), longest), IGNORED, dtype=torch.long)
        for row, (ids, prompt) in enumerate(items):
            ids_S = torch.tensor(ids, dtype=torch.long)
            tokens_BS[row, : len(ids)] = ids_S
            mask_BS[row, : len(ids)] = 1
            labels_BS[row, prompt : len(ids)] = ids_S[prompt:]
        return Batch(
            tokens_BS=tokens_BS,
            mask_BS=mask_BS,
            labels_BS=labels_BS,
            targets=int((labels_BS[:, 1:] != IGNORED).sum()),
            tokens=sum(len(ids) for ids, _ in items),
        )


class Data:
    """The examples of a run and the order in which they are trained on."""

    def __init__(self, split: Split, config: Config, tokenizer: PreTrainedTokenizerBase) -> None:
        self.fingerprint = fingerprint(split.train)
        self.length = len(split.train)
        """Examples to train on."""
        self.eval_fingerprint = fingerprint(split.evaluation)
        self.eval_length = len(split.evaluation)
        self._config = config
        self._train = Tokenized(split.train, tokenizer, config.max_seq_len)
        self._evaluation = Tokenized(split.evaluation, tokenizer, config.max_seq_len)
        pad = tokenizer.pad_token_id
        self._collate = Collate(pad=pad if isinstance(pad, int) else 0)
        if not self.batches(0):
            msg = (
                f"The dataset has {self.length} examples to train on, fewer than one batch of "
                f"{config.batch_size}, and dataset.drop_last leaves that out."
            )
            raise RefusedError(msg)

    def batches(self, epoch: int, *, trained: int = 0) -> list[list[int]]:
        """The batches of an epoch as indices of examples, after `trained` examples of it."""
        config = self._config
        order = epoch_order(self.length, config.seed, epoch, shuffle=config.dataset.shuffle)
        size = config.batch_size
        batches = [order[i : i + size] for i in range(trained, len(order), size)]
        if config.dataset.drop_last and batches and len(batches[-1]) < size:
            batches.pop()
        return batches

    def groups(self, position: Position) -> list[list[list[int]]]:
        """What is left of an epoch, as the batches of each optimizer step; the last may be short.

        Empty where `max_steps_per_epoch` was lowered below what the epoch has already trained.
        """
        batches = self.batches(position.epoch, trained=position.examples)
        size = self._config.gradient_accumulation_steps
        groups = [batches[i : i + size] for i in range(0, len(batches), size)]
        limit = self._config.max_steps_per_epoch
        return groups if limit is None else groups[: max(0, limit - position.steps)]

    @property
    def steps_per_epoch(self) -> int:
        """Optimizer steps of a whole epoch."""
        return len(self.groups(Position()))

    def load(self, groups: list[list[list[int]]]) -> Iterator[list[Batch]]:
        """The micro-batches of each optimizer step; draws nothing from torch's global generator."""
        loader = DataLoader(
            self._train,
            batch_sampler=[batch for group in groups for batch in group],
            collate_fn=self._collate,
            num_workers=self._config.num_workers,
            worker_init_fn=ignore_signals,
            multiprocessing_context=_FORK if self._config.num_workers else None,
            generator=torch.Generator(),
        )
        batches: Iterator[Batch] = iter(loader)
        for group in groups:
            yield [next(batches) for _ in group]

    def evaluation(self) -> Iterator[Batch]:
        """The batches to evaluate on, in the order of their source."""
        size = self._config.batch_size
        for start in range(0, self.eval_length, size):
            indices = range(start, min(start + size, self.eval_length))
            yield self._collate([self._evaluation[i] for i in indices])


def load_data(config: Config, tokenizer: PreTrainedTokenizerBase) -> Data:
    """The data that a config names.

    Raises:
        CkptuiError: A source is missing, empty or damaged.
    """
    return Data(read_split(config.dataset, seed=config.seed), config, tokenizer)


def epoch_order(length: int, seed: int, epoch: int, *, shuffle: bool = True) -> list[int]:
    """The order of `length` examples in an epoch.

    Sorting by a hash of the index depends on no library's generator: the order is the same with
    every version and on every machine.
    """
    index = np.arange(length, dtype=np.uint64)
    if not shuffle:
        return list(range(length))
    key = _mix(_mix(np.array([seed], dtype=np.uint64)) + np.uint64(epoch))
    # The mixer maps distinct indices to distinct keys, so there are no ties to break.
    order: list[int] = np.argsort(_mix(index ^ key), kind="stable").tolist()
    return order


def _mix(
    values: np.ndarray[tuple[int], np.dtype[np.uint64]],
) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """The splitmix64 finalizer (Steele, Lea and Flood, OOPSLA 2014): a bijection on 64 bits."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def ignore_signals(_worker: int) -> None:
    """Leave stopping to the trainer: a terminal and a scheduler signal the whole process group.

    A worker that died of that signal would take the trainer down before it has saved. Workers go
    when the trainer tells them or is gone.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
