"""What is saved beside training is what transformers reads: whole, in shards, tied or converted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ckptui.training import TrainingRun
from ckptui.weights import SHARD_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.torch

SMALL: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "vocab_size": 96,
}


def llama(*, tied: bool) -> Any:
    config = transformers.LlamaConfig(**SMALL, tie_word_embeddings=tied)
    return transformers.LlamaForCausalLM(config)


def mixtral() -> Any:
    """Its experts are one tensor in memory and one each on disk."""
    config = transformers.MixtralConfig(**SMALL, num_local_experts=2, num_experts_per_tok=1)
    return transformers.MixtralForCausalLM(config)


def t5() -> Any:
    config = transformers.T5Config(
        d_model=32,
        d_ff=64,
        num_layers=1,
        num_heads=2,
        d_kv=16,
        vocab_size=96,
        decoder_start_token_id=0,
    )
    return transformers.T5ForConditionalGeneration(config)


MODELS: dict[str, Callable[[], Any]] = {
    "llama": lambda: llama(tied=False),
    "tied llama": lambda: llama(tied=True),
    "mixtral": mixtral,
    "t5": t5,
}


def loss(model: Any) -> Any:
    tokens = torch.arange(16).reshape(2, 8)
    return model(input_ids=tokens, labels=tokens).loss


def weights(model: Any) -> dict[str, Any]:
    return {key: value.detach().clone() for key, value in model.state_dict().items()}


@pytest.mark.parametrize("size", [SHARD_SIZE, 9000])
@pytest.mark.parametrize("name", MODELS)
def test_from_pretrained_gives_the_weights_of_the_step(
    tmp_path: Path, name: str, size: int
) -> None:
    torch.manual_seed(0)
    model = MODELS[name]()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)
    with TrainingRun(tmp_path / "r", max_shard_size=size, report=lambda _: None) as run:
        run.register(model=model, optimizer=optimizer)
        run.resume()
        for step in range(1, 5):
            loss(model).backward()
            optimizer.step()
            optimizer.zero_grad()
            if step == 2:
                expected = weights(model)
                run.async_save(step)
    folder = tmp_path / "r/step_2"
    assert (len(list(folder.glob("model*.safetensors"))) > 1) == (size != SHARD_SIZE)
    read, info = type(model).from_pretrained(folder, output_loading_info=True)
    assert not any(info.values()), info
    found = weights(read)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[key], value) for key, value in expected.items())
    assert read.config.architectures == [type(model).__name__]
    again = MODELS[name]()
    with TrainingRun(tmp_path / "r", report=lambda _: None) as run:
        run.register(
            model=again, optimizer=torch.optim.AdamW(again.parameters(), lr=1e-2, fused=True)
        )
        assert run.resume() == 2
    assert all(torch.equal(weights(again)[key], value) for key, value in expected.items())


def test_one_file_and_shards_hold_what_transformers_itself_would_write(tmp_path: Path) -> None:
    """The same names in the same kind of files; of one file the very bytes."""
    from safetensors import safe_open

    torch.manual_seed(0)
    model = llama(tied=True)
    model.save_pretrained(tmp_path / "theirs")
    with TrainingRun(tmp_path / "r", report=lambda _: None) as run:
        run.register(model=model)
        run.save(1)
    ours = tmp_path / "r/step_1/model.safetensors"
    assert ours.read_bytes() == (tmp_path / "theirs/model.safetensors").read_bytes()
    with safe_open(ours, "pt") as opened:
        assert "lm_head.weight" not in opened.keys()  # noqa: SIM118 - no mapping
