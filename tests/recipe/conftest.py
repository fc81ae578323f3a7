"""A tiny base model and data, made once, and trainings forked from a warm process."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.recipe.harness import Trainer

WITHOUT_TORCH = {"test_config.py", "test_schedule.py", "test_sources.py"}

if importlib.util.find_spec("torch") is None or importlib.util.find_spec("transformers") is None:
    here = Path(__file__).parent
    collect_ignore = [p.name for p in here.glob("test_*.py") if p.name not in WITHOUT_TORCH]

# Set before the fork server starts: with more threads than cores tiny models crawl.
os.environ["OMP_NUM_THREADS"] = "1"


@pytest.fixture(scope="session")
def material(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`base`, a model with dropout; `train.jsonl`, 22 texts; `eval.jsonl`, 5; `pairs.jsonl`."""
    from recipe_integration import demo

    folder = tmp_path_factory.mktemp("material")
    texts = demo.write_texts(120)
    demo.write_base(folder / "base", texts, hidden=16, layers=2, seed=3, dropout=0.1)
    for name, part in (("train", texts[:22]), ("eval", texts[22:27]), ("other", texts[30:52])):
        lines = "".join(json.dumps({"text": text}) + "\n" for text in part)
        (folder / f"{name}.jsonl").write_text(lines)
    pairs = [{"prompt": text[:20], "completion": text[20:]} for text in texts[:22]]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    return folder


@pytest.fixture(scope="session")
def base(material: Path) -> dict[str, Any]:
    """Settings of a run of 3 epochs of 4 steps, each of 3 batches but for an epoch's last of 2."""
    return {
        "model": material / "base",
        "dataset": material / "train.jsonl",
        "dataset.eval_source": material / "eval.jsonl",
        "seed": 5,
        "epochs": 3,
        "batch_size": 2,
        "gradient_accumulation_steps": 3,
        "max_seq_len": 32,
        "num_threads": 1,
        "device": "cpu",
        "optimizer.lr": 0.01,
        "lr_scheduler.num_warmup_steps": 3,
        "save_every_n_steps": 2,
    }


@pytest.fixture
def trainer(tmp_path: Path, base: dict[str, Any]) -> Trainer:
    from tests.recipe.harness import Trainer

    return Trainer(tmp_path / "processes", base)


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory, base: dict[str, Any]) -> Any:
    """The run folder of an uninterrupted training with the given settings, made once each."""
    from tests.recipe.harness import Trainer

    folder = tmp_path_factory.mktemp("reference")
    known = Trainer(folder / "processes", base)
    made: dict[str, Path] = {}

    def get(**settings: Any) -> Path:
        key = json.dumps(settings, sort_keys=True, default=str)
        if key not in made:
            made[key] = folder / str(len(made))
            outcome = known.run(output_dir=made[key], **settings)
            assert outcome.code == 0, outcome.stderr
            outcome.message()
        return made[key]

    return get
