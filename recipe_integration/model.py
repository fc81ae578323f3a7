"""Models and tokenizers from Hugging Face folders, on a device and in a dtype.

Shapes: B sequences of a batch, S their tokens, V the vocabulary.
"""

# Shape suffixes are the names of this file: see the legend above.
# ruff: noqa: N806

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from ckptui.errors import FormatError, NotFoundError, RefusedError, UsageError
from recipe_integration.data import IGNORED

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from recipe_integration.config import Config, OptimizerConfig
    from recipe_integration.data import Batch

PARAMETER_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "bf16_mixed": torch.float32}
"""What each `dtype` keeps the parameters in."""

_UNLOADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, ImportError)
"""What transformers raises for folders whose files do not hold what they should."""


def choose_device(name: str) -> torch.device:
    """The device that a config names; `auto` takes the first of cuda, mps and cpu that is there.

    Raises:
        UsageError: This machine has no such device.
    """
    mps = torch.backends.mps.is_available()
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "mps" if mps else "cpu")
    device = torch.device(name)
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if count <= (device.index or 0):
            has = f"{count} CUDA devices" if count else "no CUDA device"
            msg = f"device is {name}, but this machine has {has} that torch can use."
            raise UsageError(msg)
    if device.type == "mps" and not mps:
        msg = "device is mps, but torch finds no Apple GPU on this machine."
        raise UsageError(msg)
    return device


def quiet_transformers() -> None:
    """Leave what is printed to the recipe: no progress bars, no advice."""
    transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]


def require_model(folder: Path) -> None:
    """Make sure, before anything slow is done, that a folder can hold a model.

    Raises:
        NotFoundError: It cannot.
    """
    _require_folder(folder, "model")
    if not (folder / "config.json").is_file():
        msg = f"{folder} holds no config.json, so it is no Hugging Face model folder."
        raise NotFoundError(msg)


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """The tokenizer in a folder.

    Raises:
        NotFoundError: There is no such folder, or no tokenizer in it.
    """
    _require_folder(folder, "tokenizer")
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            str(folder), local_files_only=True
        )
    except _UNLOADABLE as e:
        msg = f"No tokenizer could be loaded from {folder}: {_first_line(e)}"
        raise NotFoundError(msg) from e
    return tokenizer


def load_model(
    folder: Path, config: Config, device: torch.device, *, dtype: torch.dtype | None = None
) -> PreTrainedModel:
    """The causal language model in a folder, ready to train on the device.

    Args:
        folder: A base model, or a checkpoint.
        config: For the dtype, compilation and activation checkpointing.
        device: Where it goes.
        dtype: Of the parameters, if not what the config says.

    Raises:
        NotFoundError: There is no such folder, or no model in it.
        FormatError: Weights are missing or of another shape: nothing is trained from random
            values unseen.
    """
    require_model(folder)
    dtype = dtype or PARAMETER_DTYPES[config.dtype]
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            str(folder), dtype=dtype, local_files_only=True, output_loading_info=True
        )
    except (*_UNLOADABLE, RuntimeError, SafetensorError) as e:
        msg = f"No causal language model could be loaded from {folder}: {_first_line(e)}"
        raise NotFoundError(msg) from e
    model: PreTrainedModel
    info: dict[str, Any]
    model, info = loaded
    for what in ("missing_keys", "mismatched_keys"):
        if info[what]:
            names = sorted(key if isinstance(key, str) else key[0] for key in info[what])
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            word = "lacks" if what == "missing_keys" else "has another shape for"
            msg = f"{folder} {word} the weights {', '.join(names[:3])}{more}."
            raise FormatError(msg, path=folder)
    if config.enable_activation_checkpointing:
        model.gradient_checkpointing_enable(  # type: ignore[no-untyped-call]
            {"use_reentrant": False}
        )
    model.to(device)  # type: ignore[arg-type]  # its annotation hides nn.Module's signature
    if config.compile:
        # In place: parameters keep their names, where a wrapper would prefix them.
        model.compile()
    model.train()
    return model


def summed_loss(model: PreTrainedModel, batch: Batch, *, mixed: bool) -> Tensor:
    """The negative log likelihood of a batch's targets, summed over them.

    Args:
        model: On the batch's device.
        batch: What to predict.
        mixed: Compute in bfloat16 where autocast does; the loss itself is always float32.
    """
    with torch.autocast(batch.tokens_BS.device.type, dtype=torch.bfloat16, enabled=mixed):
        logits_BSV = model(
            input_ids=batch.tokens_BS, attention_mask=batch.mask_BS, use_cache=False
        ).logits
    return cross_entropy(
        logits_BSV[:, :-1].float().flatten(0, 1),
        batch.labels_BS[:, 1:].flatten(),
        ignore_index=IGNORED,
        reduction="sum",
    )


def check_vocabulary(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Refuse a tokenizer whose ids the model cannot embed.

    Raises:
        RefusedError: It does not fit.
    """
    embedding: Any = model.get_input_embeddings()
    rows = int(embedding.weight.shape[0])
    highest = max(tokenizer.get_vocab().values(), default=-1)
    if highest >= rows:
        msg = f"The tokenizer has ids up to {highest}, but the model embeds only {rows} tokens."
        raise RefusedError(msg)


def make_optimizer(
    model: PreTrainedModel, config: OptimizerConfig, device: torch.device
) -> torch.optim.Optimizer:
    """The optimizer over all parameters that are trained."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    fused = config.fused if config.fused is not None else device.type in ("cuda", "cpu")
    if config.name == "adafactor":
        return torch.optim.Adafactor(parameters, lr=config.lr, weight_decay=config.weight_decay)
    if config.name == "sgd":
        return torch.optim.SGD(
            parameters,
            lr=config.lr,
            momentum=config.momentum,
            nesterov=config.nesterov,
            weight_decay=config.weight_decay,
            fused=fused,
        )
    return torch.optim.AdamW(
        parameters,
        lr=config.lr,
        betas=config.betas,
        eps=config.eps,
        weight_decay=config.weight_decay,
        fused=fused,
    )


def _require_folder(folder: Path, what: str) -> None:
    if not folder.is_dir():
        msg = (
            f"There is no {what} folder {folder}; a model from the Hub is fetched first, with "
            "`hf download NAME --local-dir FOLDER`."
        )
        raise NotFoundError(msg)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
