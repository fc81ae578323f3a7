"""What a user can get wrong is answered with one sentence and the right exit code."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ckptui.scan import scan_run
from tests.recipe.harness import At, names, rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.recipe.harness import Trainer

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    ("settings", "code", "words"),
    [
        ({"model": "/nowhere/model"}, 1, "There is no model folder /nowhere/model"),
        ({"tokenizer": "/nowhere/t"}, 1, "There is no tokenizer folder /nowhere/t"),
        ({"dataset": "/nowhere/data.jsonl"}, 1, "There is no dataset file /nowhere/data.jsonl"),
        ({"device": "cuda"}, 2, "no CUDA device"),
        ({"device": "mps"}, 2, "no Apple GPU"),
        ({"dtype": "fp16"}, 2, "loss scaling"),
        ({"batch_sise": 2}, 2, "Did you mean batch_size?"),
        ({"resume_from": "/nowhere/step_1"}, 1, "There is no checkpoint /nowhere/step_1"),
    ],
)
def test_one_sentence_and_nothing_is_made(
    trainer: Trainer, tmp_path: Path, settings: dict[str, Any], code: int, words: str
) -> None:
    outcome = trainer.run(output_dir=tmp_path / "run", **settings)
    assert outcome.code == code, outcome.stderr
    assert words in outcome.message()
    assert outcome.stderr.count("\n") == 1
    assert outcome.stdout == ""
    assert not (tmp_path / "run").exists()


def test_a_model_folder_that_holds_none_is_named(
    trainer: Trainer, tmp_path: Path, material: Path
) -> None:
    folder = Path(shutil.copytree(material / "base", tmp_path / "base"))
    settings: dict[str, Any] = {
        "output_dir": tmp_path / "run",
        "model": folder,
        "tokenizer": material / "base",
    }

    def refusal() -> str:
        outcome = trainer.run(**settings)
        assert outcome.code == 1, outcome.stderr
        assert outcome.message().count("\n") == 1, outcome.stderr
        assert not (tmp_path / "run").exists()
        return outcome.stderr

    (folder / "model.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0notjson!")
    assert "No causal language model could be loaded" in refusal()
    (folder / "model.safetensors").unlink()
    assert str(folder) in refusal()
    (folder / "config.json").write_text('{"model_type": "nothing-known"}')
    assert str(folder) in refusal()
    (folder / "config.json").unlink()
    assert "no config.json" in refusal()


def test_weights_that_are_missing_are_never_made_up(
    trainer: Trainer, tmp_path: Path, material: Path
) -> None:
    from safetensors.torch import load_file, save_file

    folder = Path(shutil.copytree(material / "base", tmp_path / "base"))
    weights = load_file(folder / "model.safetensors")
    lacking = next(name for name in weights if "mlp" in name)
    del weights[lacking]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    outcome = trainer.run(output_dir=tmp_path / "run", model=folder)
    assert outcome.code == 1
    assert f"lacks the weights {lacking}" in outcome.message()


def test_a_tokenizer_of_another_model_is_refused(
    trainer: Trainer, tmp_path: Path, material: Path
) -> None:
    folder = Path(shutil.copytree(material / "base", tmp_path / "tokenizer"))
    content = json.loads((folder / "tokenizer.json").read_text())
    content["added_tokens"].append({**content["added_tokens"][0], "id": 700, "content": "<extra>"})
    content["model"]["vocab"]["<extra>"] = 700
    (folder / "tokenizer.json").write_text(json.dumps(content))
    outcome = trainer.run(output_dir=tmp_path / "run", tokenizer=folder)
    assert outcome.code == 1
    assert "embeds only 512 tokens" in outcome.message()


def test_a_wrong_line_of_data_is_named_and_nothing_is_made(
    trainer: Trainer, tmp_path: Path
) -> None:
    data = tmp_path / "d.jsonl"
    data.write_text('{"text": "fine"}\n{"text": oops}\n')
    outcome = trainer.run(output_dir=tmp_path / "run", dataset=data)
    assert outcome.code == 1
    assert f"{data}, line 2 is not JSON" in outcome.message()
    data.write_text("")
    assert "holds no examples" in trainer.run(output_dir=tmp_path / "run", dataset=data).message()
    assert not (tmp_path / "run").exists()


def test_a_folder_that_cannot_be_made_is_named(trainer: Trainer, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    outcome = trainer.run(output_dir=tmp_path / "file/run")
    assert outcome.code == 1
    assert str(tmp_path / "file") in outcome.message()
    outcome = trainer.run(output_dir=tmp_path / "file")
    assert outcome.code == 1
    assert str(tmp_path / "file") in outcome.message()


@pytest.mark.parametrize("limit", [40, 90, 140])
def test_a_disk_that_refuses_is_one_sentence_and_loses_nothing(
    trainer: Trainer, reference: Callable[..., Path], tmp_path: Path, limit: int
) -> None:
    """A limit on file sizes, in kilobytes, makes writing fail for real, in different files."""
    run = tmp_path / "run"
    trainer.run(output_dir=run, at=At("save", 2))
    outcome = trainer.run(output_dir=run, resume_from="auto", file_limit=limit * 1024)
    if limit < 140:
        assert outcome.code == 1
        assert "failed: " in outcome.message()
        # The lock of the killed one, where it goes on, a save that waited, and the sentence.
        assert outcome.stderr.count("\n") <= 4
        assert outcome.stderr.count("failed: ") == 1
        assert "Training stops; with resume_from=auto it goes on" in outcome.stderr
        assert [c.name for c in scan_run(run).checkpoints] == ["step_2"]
    assert trainer.run(output_dir=run, resume_from="auto").code == 0
    assert rows(run) == rows(reference())


def test_a_diverging_run_says_so_and_its_log_stays_readable(
    trainer: Trainer, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    outcome = trainer.run(
        output_dir=run, optimizer__lr=1e18, lr_scheduler__name="constant", clip_grad_norm=None
    )
    assert outcome.code == 0
    assert "not finite" in outcome.message()
    for line in (run / "metrics.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=lambda word: pytest.fail(word))
    assert json.loads((run / "step_12/checkpoint.json").read_text())["nonfinite"]


def test_prompts_and_completions_train(trainer: Trainer, tmp_path: Path, material: Path) -> None:
    outcome = trainer.run(
        output_dir=tmp_path / "run",
        dataset=material / "pairs.jsonl",
        dataset__format="prompt_completion",
        dataset__eval_source=None,
        dataset__eval_fraction=0,
    )
    assert outcome.code == 0, outcome.stderr
    assert "eval_loss" not in (tmp_path / "run/metrics.jsonl").read_text()


@pytest.mark.slow
def test_compiling_changes_nothing_about_what_is_saved(
    trainer: Trainer, reference: Callable[..., Path], tmp_path: Path
) -> None:
    if shutil.which("g++") is None:
        pytest.skip("torch.compile needs a C++ compiler on a CPU")
    run = tmp_path / "run"
    short: dict[str, Any] = {"output_dir": run, "max_steps": 2, "epochs": None, "compile": True}
    outcome = trainer.run(**short)
    assert outcome.code == 0, outcome.stderr
    assert names(run) == ["step_2"]
    from safetensors import safe_open

    with (
        safe_open(run / "step_2/model.safetensors", "pt") as one,
        safe_open(reference() / "step_2/model.safetensors", "pt") as other,
    ):
        assert set(one.keys()) == set(other.keys())


def test_help_shows_an_example(trainer: Trainer) -> None:
    for module in ("train", "evaluate", "demo"):
        outcome = trainer.run_with(["--help"], module=module)
        assert outcome.code == 0
        assert "usage: python -m recipe_integration" in outcome.stdout
    assert trainer.run_with(["--bogus"]).code == 2
