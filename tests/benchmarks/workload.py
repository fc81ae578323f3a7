"""What is trained and saved in the benchmarks of saving: a Llama with AdamW, and its references.

The references are the least that saving could cost: one copy of the state in memory, and its bytes
in one file with one fsync.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import xxhash
from transformers import LlamaConfig, LlamaForCausalLM

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_CHUNK = 2**26


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A model, and the batch of one training step."""

    hidden: int
    layers: int
    vocabulary: int
    batch: int
    length: int
    """Tokens of one sequence."""


SIZES: Mapping[str, Size] = {
    "large": Size(hidden=768, layers=12, vocabulary=16384, batch=1, length=32),
    "small": Size(hidden=384, layers=8, vocabulary=16384, batch=1, length=32),
    "tiny": Size(hidden=64, layers=2, vocabulary=512, batch=1, length=32),
}
"""97.5, 20.4 and 0.16 million parameters; forward and backward take longer than a copy."""


def _bytes(tensor: torch.Tensor) -> memoryview:
    """A tensor's memory."""
    array: Any = tensor.contiguous().numpy()  # a buffer, which numpy's types do not say
    return memoryview(array)


class Training:
    """A model in training on one thread, with the optimizer's whole state from `warm_up` on."""

    def __init__(self, size: Size) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(0)
        config = LlamaConfig(
            vocab_size=size.vocabulary,
            hidden_size=size.hidden,
            intermediate_size=size.hidden * 8 // 3,
            num_hidden_layers=size.layers,
            num_attention_heads=size.hidden // 64,
            num_key_value_heads=size.hidden // 64,
            max_position_embeddings=512,
            tie_word_embeddings=True,
        )
        self.model = LlamaForCausalLM(config)
        self.model.train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.batch = torch.randint(0, size.vocabulary, (size.batch, size.length))
        self.steps_only = False
        """Leave forward and backward out: steps on the gradients that are there."""

    def warm_up(self) -> None:
        """Make the optimizer's state, and touch all memory that steps need."""
        for _ in range(2):
            self.step()

    def forward_backward(self) -> None:
        loss = self.model(input_ids=self.batch, labels=self.batch).loss
        loss.backward()

    def step(self) -> None:
        """One optimizer step."""
        if self.steps_only:
            self.optimizer.step()
            return
        self.forward_backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def keep_gradients(self) -> None:
        """From now on steps are as short as they can be: the optimizer's alone."""
        self.forward_backward()
        self.steps_only = True

    def named_state(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Every tensor of the state once: weights, moments and step counts."""
        for name, parameter in self.model.named_parameters():
            yield name, parameter.detach()
            for key, value in sorted(self.optimizer.state[parameter].items()):
                yield f"{name}.{key}", value

    def digest(self) -> str:
        """One value for all bits of the state."""
        digest = xxhash.xxh3_128()
        for name, tensor in self.named_state():
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(_bytes(tensor))
        return digest.hexdigest()


class Reference:
    """The state's bytes copied into one reused buffer, and that buffer written to one file."""

    def __init__(self, training: Training, folder: Path) -> None:
        self._training = training
        self._file = folder / "raw"
        tensors = [t for _, t in training.named_state()]
        self.size = sum(t.nbytes for t in tensors)
        self._buffer = torch.zeros(self.size, dtype=torch.uint8)
        self._places = []
        start = 0
        for tensor in tensors:
            part = self._buffer[start : start + tensor.nbytes]
            self._places.append(part.view(tensor.dtype).view(tensor.shape))
            start += tensor.nbytes
        self.copy()

    def copy(self) -> float:
        """Seconds of one copy."""
        tensors = [t for _, t in self._training.named_state()]
        begun = time.monotonic()
        for place, tensor in zip(self._places, tensors, strict=True):
            place.copy_(tensor)
        return time.monotonic() - begun

    def write(self) -> float:
        """Seconds of writing a new file and syncing it."""
        begun = time.monotonic()
        self.write_to(self._file)
        return time.monotonic() - begun

    def write_to(self, file: Path) -> None:
        """Write what was copied last to a new file, and sync it."""
        data = _bytes(self._buffer)
        with file.open("xb", buffering=0) as f:
            for start in range(0, self.size, _CHUNK):
                f.write(data[start : start + _CHUNK])
            os.fsync(f.fileno())

    def discard(self) -> None:
        """Remove what `write` wrote."""
        self._file.unlink()

    def read_from(self, file: Path) -> None:
        """Copy a file of `write_to` into the training."""
        with file.open("rb", buffering=0) as f:
            f.readinto(_bytes(self._buffer))
        with torch.no_grad():
            tensors = [t for _, t in self._training.named_state()]
            for place, tensor in zip(self._places, tensors, strict=True):
                tensor.copy_(place)
