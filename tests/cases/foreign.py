"""Checkpoint folders in the shape that other trainers leave, as small as they can be."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING

from tests.cases.harness import write
from tests.factory import safetensors_bytes

if TYPE_CHECKING:
    from pathlib import Path

WEIGHTS = safetensors_bytes({"layer.weight": [1.0, 2.0]})


def zipped() -> bytes:
    """A zip archive as `torch.save` writes one, without anything to unpickle."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02N.")
        archive.writestr("archive/data/0", bytes(400))
    return target.getvalue()


def transformers(path: Path, *, without: str = "") -> Path:
    """A `checkpoint-N` of the transformers Trainer, all but one file of it."""
    files = {
        "config.json": b"{}",
        "model.safetensors": WEIGHTS,
        "optimizer.pt": zipped(),
        "scheduler.pt": zipped(),
        "rng_state.pth": zipped(),
        "trainer_state.json": b'{"global_step": 100}',
    }
    files.pop(without, None)
    return write(path, files)


def torch_distributed(path: Path, *, shards: tuple[int, ...] = (0,), metadata: bool = True) -> Path:
    """A folder of `torch.distributed.checkpoint`."""
    files = {f"__{shard}_0.distcp": zipped() for shard in shards}
    if metadata:
        files[".metadata"] = b"\x80\x04N."
    return write(path, files)


def orbax(path: Path) -> Path:
    """A step folder of Orbax."""
    return write(path, {"_CHECKPOINT_METADATA": b"{}", "default/manifest.ocdbt": b"\0" * 16})


def megatron(path: Path) -> Path:
    """An iteration folder of Megatron-LM."""
    return write(path, {"mp_rank_00/model_optim_rng.pt": zipped()})


def torchtune(path: Path, *, state: bool = True) -> Path:
    """A `step_N` of torchtune: our names, another trainer's content."""
    files = {"config.json": b"{}", "model.safetensors": WEIGHTS}
    if state:
        files["recipe_state.pt"] = zipped()
    return write(path, files)


class Bomb:
    """Unpickled, it makes a file: whoever loads it has run foreign code."""

    def __init__(self, target: Path) -> None:
        self._target = str(target)

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return (open, (self._target, "w"))
