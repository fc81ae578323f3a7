"""A whole small training, offline, in about a minute: what `ckptui demo` runs.

    python -m recipe_integration.demo --output DIR

The text comes from a small seeded grammar, the tokenizer is trained on it, the model starts from
random weights, and then the ordinary recipe trains. Some checkpoints are pruned on the way by the
run's policy and one is pinned. stdout gets the path of the run, `DIR/demo` or the first free of
`DIR/demo-2` and so on, and nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from ckptui import pins
from ckptui.errors import CkptuiError, StorageError
from recipe_integration.config import from_dict
from recipe_integration.full_finetune_single_device import finetune
from recipe_integration.model import quiet_transformers
from recipe_integration.progress import say
from recipe_integration.stopping import INTERRUPTED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ckptui.checkpoint import Checkpoint

MATERIAL = "demo-material"
"""Folder beside the runs with the data and the base model."""

PINNED_STEP = 50

_TRAIN, _EVAL = 4000, 200
"""Examples to train and to evaluate on."""
_VOCABULARY = 512
_END = "<|end|>"
_SEED = 7

_NAMES = ("Ada", "Bela", "Caro", "Dion", "Emre", "Fiona", "Goro", "Hana", "Ines", "Jonas")
_ANIMALS = ("cat", "owl", "hedgehog", "goat", "otter", "crow", "pony", "toad")
_ADJECTIVES = ("small", "grey", "sleepy", "brave", "muddy", "curious", "old", "quiet")
_PLACES = ("mill", "harbour", "orchard", "bridge", "attic", "quarry", "ferry", "garden")
_THINGS = ("lantern", "kettle", "ladder", "basket", "whistle", "map", "blanket", "wheel")
_WEATHER = ("in the rain", "at noon", "before breakfast", "under the moon", "in the fog")
_NUMBERS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Train the demo and print its run's path; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m recipe_integration.demo",
        description="Train a tiny model for a minute, to have a run to look at.",
    )
    parser.add_argument("--output", type=Path, default=Path("outputs"), metavar="DIR")
    options = parser.parse_args(arguments)
    try:
        return demo(options.output.absolute())
    except CkptuiError as e:
        say(str(e))
        return e.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as e:
        say(f"{e.filename or options.output} cannot be written: {e.strerror or e}.")
        return 1


def demo(root: Path) -> int:
    """Train the demo below `root`; the exit code.

    Raises:
        CkptuiError: The disk refused, or training failed.
    """
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    quiet_transformers()
    # On a shared machine two threads of so small a model wait for each other more than they work.
    torch.set_num_threads(1)
    material = root / MATERIAL
    say("Writing stories, sums and lists; training a tokenizer on them.")
    write_material(material)
    run = free_folder(root)
    config = from_dict(settings(material, run))
    say(f"Training {run}: {config.max_steps} steps, a checkpoint every 25.")
    code = finetune(config, on_save=pin_one)
    if code == 0:
        sys.stdout.write(f"{run}\n")
        sys.stdout.flush()
    return code


def settings(material: Path, run: Path) -> dict[str, Any]:
    """The demo's config."""
    return {
        "model": material / "base",
        "dataset": {
            "source": material / "train.jsonl",
            "eval_source": material / "eval.jsonl",
        },
        "output_dir": run,
        "seed": _SEED,
        "max_steps": 300,
        "batch_size": 16,
        "max_seq_len": 64,
        "num_threads": 1,
        "device": "cpu",
        "optimizer": {"lr": 3e-3, "weight_decay": 0.01},
        "lr_scheduler": {"name": "cosine", "num_warmup_steps": 20, "min_lr_ratio": 0.05},
        "save_every_n_steps": 25,
        "keep_last_n_checkpoints": 3,
        "keep_every_n_steps": 100,
        "keep_best": ["2:eval_loss:min"],
    }


def pin_one(checkpoint: Checkpoint) -> None:
    """Pin one checkpoint as soon as it stands, as a person would who likes it."""
    if checkpoint.step == PINNED_STEP:
        pins.pin(checkpoint, note="early, to compare with later ones")
        say(f"Pinned {checkpoint.name}: pruning will leave it alone.")


def free_folder(root: Path) -> Path:
    """Make and return the first free of `demo`, `demo-2`, ...

    Raises:
        StorageError: The root cannot be written.
    """
    number = 1
    while True:
        path = root / ("demo" if number == 1 else f"demo-{number}")
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            number += 1
        except OSError as e:
            msg = f"{path} cannot be created: {e.strerror}."
            raise StorageError(msg, path=path) from e
        else:
            return path


def write_material(folder: Path) -> None:
    """Write the texts and the base model; the same each time, so what is there already is kept."""
    done = folder / "base" / "model.safetensors"
    if done.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    texts = write_texts(_TRAIN + _EVAL)
    for name, part in (("train", texts[_EVAL:]), ("eval", texts[:_EVAL])):
        lines = "".join(json.dumps({"text": text}) + "\n" for text in part)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    write_base(folder / "base", texts, hidden=64, layers=2, seed=_SEED)


def write_base(
    folder: Path, texts: Sequence[str], *, hidden: int, layers: int, seed: int, dropout: float = 0.0
) -> None:
    """Write a model with random weights, and a tokenizer trained on `texts`."""
    tokenizer = train_tokenizer(texts)
    config = LlamaConfig(
        vocab_size=_VOCABULARY,
        hidden_size=hidden,
        intermediate_size=3 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=256,
        tie_word_embeddings=True,
        attention_dropout=dropout,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.eos_token_id,
    )
    torch.manual_seed(seed)
    tokenizer.save_pretrained(str(folder))
    LlamaForCausalLM(config).save_pretrained(folder)


def train_tokenizer(texts: Sequence[str]) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer of these texts: no character is unknown to it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCABULARY,
        special_tokens=[_END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, eos_token=_END, pad_token=_END
    )


def write_texts(count: int, *, seed: int = _SEED) -> list[str]:
    """So many different texts from the grammar."""
    source = random.Random(seed)  # noqa: S311 - prose, not a secret
    kinds: tuple[Callable[[random.Random], str], ...] = (_story, _story, _sum, _list)
    texts: dict[str, None] = {}
    while len(texts) < count:
        texts[source.choice(kinds)(source)] = None
    return list(texts)


def _story(source: random.Random) -> str:
    name, friend = source.sample(_NAMES, 2)
    animal, thing = source.choice(_ANIMALS), source.choice(_THINGS)
    adjective, place = source.choice(_ADJECTIVES), source.choice(_PLACES)
    opening = source.choice(
        (
            f"{name} had a {adjective} {animal} that lived by the {place}.",
            f"Near the {place} {name} met a {adjective} {animal}.",
            f"{name} and {friend} looked after the {animal} of the {place}.",
        )
    )
    middle = source.choice(
        (
            f"One day it carried off the {thing} of {friend}.",
            f"{friend} gave it a {thing} {source.choice(_WEATHER)}.",
            f"It slept inside a {thing}, and nobody else could.",
        )
    )
    ending = source.choice(
        (
            f"From then on the {animal} and {name} were friends.",
            f"So {name} went home without the {thing}.",
            f"That is why the {place} has a {thing} on its door.",
        )
    )
    return f"{opening} {middle} {ending}"


def _sum(source: random.Random) -> str:
    one, other = source.randrange(10), source.randrange(9)
    total = _NUMBERS[one + other]
    thing = source.choice(_THINGS)
    return source.choice(
        (
            f"{_NUMBERS[one]} and {_NUMBERS[other]} make {total}.",
            f"{source.choice(_NAMES)} counts: {one} + {other} = {one + other}.",
            f"{_NUMBERS[one]} {thing}s and {_NUMBERS[other]} more: {total} {thing}s.",
        )
    )


def _list(source: random.Random) -> str:
    things = source.sample(_THINGS, source.randrange(2, 5))
    *most, last = [f"a {thing}" for thing in things]
    packed = f"{', '.join(most)} and {last}"
    return f"For the {source.choice(_PLACES)} {source.choice(_NAMES)} packs {packed}."


if __name__ == "__main__":
    sys.exit(main())
