"""Small trainings for the cases: real processes, forked from one that has imported torch."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.recipe.harness import At, Outcome, Trainer


@pytest.fixture(scope="session")
def material(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`base`, a tiny model with dropout and tied weights; `train.jsonl` and more."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    # Set before the fork server starts: with more threads than cores tiny models crawl.
    os.environ["OMP_NUM_THREADS"] = "1"
    from recipe_integration import demo

    folder = tmp_path_factory.mktemp("material")
    texts = demo.write_texts(60)
    demo.write_base(folder / "base", texts, hidden=16, layers=2, seed=3, dropout=0.1)
    parts = {"train": texts[:16], "eval": texts[16:20], "eighteen": texts[20:38]}
    for name, part in parts.items():
        lines = "".join(json.dumps({"text": text}) + "\n" for text in part)
        (folder / f"{name}.jsonl").write_text(lines)
    return folder


@pytest.fixture(scope="session")
def settings(material: Path) -> dict[str, Any]:
    """A run of 3 epochs of 4 steps, each of 2 batches of 2 texts, saved every 2 steps."""
    return {
        "model": material / "base",
        "dataset": material / "train.jsonl",
        "dataset.eval_source": material / "eval.jsonl",
        "seed": 5,
        "epochs": 3,
        "batch_size": 2,
        "gradient_accumulation_steps": 2,
        "max_seq_len": 32,
        "num_threads": 1,
        "device": "cpu",
        "optimizer.lr": 0.01,
        "lr_scheduler.num_warmup_steps": 3,
        "save_every_n_steps": 2,
    }


@pytest.fixture
def trainer(tmp_path: Path, settings: dict[str, Any]) -> Trainer:
    from tests.recipe.harness import Trainer

    return Trainer(tmp_path / "processes", settings)


@pytest.fixture(scope="session")
def uninterrupted(
    tmp_path_factory: pytest.TempPathFactory, settings: dict[str, Any]
) -> Callable[..., tuple[Path, Outcome]]:
    """The run of a training that nothing interrupted, and what it said; made once a setting."""
    from tests.recipe.harness import Trainer

    folder = tmp_path_factory.mktemp("uninterrupted")
    trainer = Trainer(folder / "processes", settings)
    made: dict[str, tuple[Path, Outcome]] = {}

    def get(**changes: Any) -> tuple[Path, Outcome]:
        key = json.dumps(changes, sort_keys=True, default=str)
        if key not in made:
            run = folder / str(len(made))
            outcome = trainer.run(output_dir=run, **changes)
            assert outcome.code == 0, outcome.message()
            made[key] = run, outcome
        return made[key]

    return get


@pytest.fixture
def stop_at() -> Callable[[int], At]:
    """The moment at which a training is told to stop: once a step is logged."""
    from tests.recipe.harness import At

    return lambda step: At("log", step, (signal.SIGTERM,))


@pytest.fixture
def kill_at() -> Callable[[str, int], At]:
    """The moment at which a training is killed."""
    from tests.recipe.harness import At

    return lambda event, step: At(event, step)
