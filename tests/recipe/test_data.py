"""Order and position are plain numbers; batches are padded, masked and cut as they should be."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")

from recipe_integration.config import make_config  # noqa: E402 - torch is asked for first
from recipe_integration.data import (  # noqa: E402
    IGNORED,
    Collate,
    Data,
    Position,
    Tokenized,
    epoch_order,
)
from recipe_integration.sources import Example, Split  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

    from transformers import PreTrainedTokenizerBase

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def tokenizer(material: Path) -> PreTrainedTokenizerBase:
    from recipe_integration.model import load_tokenizer

    return load_tokenizer(material / "base")


def make_data(tokenizer: PreTrainedTokenizerBase, count: int, **settings: Any) -> Data:
    base = {"model": "m", "dataset": "d.jsonl", "output_dir": "o"}
    words = [f"{key.replace('__', '.')}={value}" for key, value in settings.items()]
    examples = [Example("", f"text {i}") for i in range(count)]
    return Data(Split(examples, examples[:3]), make_config(base, words), tokenizer)


def test_an_order_is_a_permutation_that_seed_and_epoch_determine() -> None:
    orders = [epoch_order(50, seed, epoch) for seed in (0, 1, 2**62) for epoch in range(3)]
    assert all(sorted(order) == list(range(50)) for order in orders)
    assert len({tuple(order) for order in orders}) == len(orders)
    assert epoch_order(50, 1, 2) == epoch_order(50, 1, 2)
    assert epoch_order(5, 1, 2, shuffle=False) == [0, 1, 2, 3, 4]


def test_an_order_stays_the_same_from_version_to_version() -> None:
    assert epoch_order(10, 0, 0) == EXPECTED_ORDER
    assert epoch_order(1, 0, 0) == [0]


EXPECTED_ORDER = [0, 9, 1, 6, 3, 5, 4, 2, 8, 7]


def test_orders_have_no_visible_bias() -> None:
    firsts = [epoch_order(10, seed, 0).index(0) for seed in range(500)]
    assert min(firsts.count(place) for place in range(10)) > 25
    neighbours = sum(
        abs(a - b) == 1
        for seed in range(200)
        for order in [epoch_order(20, seed, 1)]
        for a, b in itertools.pairwise(order)
    )
    assert neighbours / (200 * 19) == pytest.approx(2 / 20, abs=0.02)


def test_groups_go_on_where_the_position_says(tokenizer: PreTrainedTokenizerBase) -> None:
    data = make_data(tokenizer, 22, batch_size=2, gradient_accumulation_steps=3)
    whole = data.groups(Position(epoch=1))
    assert [len(group) for group in whole] == [3, 3, 3, 2]
    assert sorted(i for group in whole for batch in group for i in batch) == list(range(22))
    assert data.groups(Position(epoch=1, batches=6, examples=12, steps=2)) == whole[2:]
    assert data.steps_per_epoch == 4


def test_a_cut_epoch_has_so_many_steps(tokenizer: PreTrainedTokenizerBase) -> None:
    data = make_data(tokenizer, 22, batch_size=2, max_steps_per_epoch=5)
    assert data.steps_per_epoch == len(data.groups(Position())) == 5
    assert len(data.groups(Position(epoch=0, batches=3, examples=6, steps=3))) == 2


def test_drop_last_leaves_out_the_short_batch(tokenizer: PreTrainedTokenizerBase) -> None:
    kept = make_data(tokenizer, 7, batch_size=3)
    dropped = make_data(tokenizer, 7, batch_size=3, dataset__drop_last="true")
    assert (kept.steps_per_epoch, dropped.steps_per_epoch) == (3, 2)
    with pytest.raises(Exception, match="fewer than one batch"):
        make_data(tokenizer, 2, batch_size=3, dataset__drop_last="true")


def test_loading_draws_nothing_from_the_global_generator(
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    data = make_data(tokenizer, 6)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    loaded = list(data.load(data.groups(Position())))
    assert len(loaded) == 3
    assert torch.equal(before, torch.get_rng_state())


def test_text_ends_with_the_end_token_and_is_cut_at_the_limit(
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    examples = [Example("", "hi"), Example("", "many words " * 40)]
    ids, prompt = Tokenized(examples, tokenizer, 16)[0]
    assert ids[-1] == tokenizer.eos_token_id
    assert prompt == 0
    assert len(Tokenized(examples, tokenizer, 16)[1][0]) == 16


def test_the_loss_is_on_the_completion_only(tokenizer: PreTrainedTokenizerBase) -> None:
    pair = Tokenized([Example("What is it?", " A map.")], tokenizer, 64)
    ids, prompt = pair[0]
    batch = Collate(pad=0)([(ids, prompt)])
    labels = batch.labels_BS[0].tolist()
    assert labels[:prompt] == [IGNORED] * prompt
    assert tokenizer.decode(labels[prompt:-1]) == " A map."
    assert labels[-1] == tokenizer.eos_token_id
    assert batch.targets == len(ids) - prompt


def test_a_prompt_that_is_too_long_loses_its_start(tokenizer: PreTrainedTokenizerBase) -> None:
    long = "first " * 50 + "last"
    ids, prompt = Tokenized([Example(long, " yes")], tokenizer, 20)[0]
    assert len(ids) == 20
    assert str(tokenizer.decode(ids[:prompt])).endswith("first last")
    assert tokenizer.decode(ids[prompt:-1]) == " yes"
    ids, prompt = Tokenized([Example(long, " yes" * 50)], tokenizer, 20)[0]
    assert (len(ids), prompt) == (20, 10)


def test_padding_counts_for_nothing() -> None:
    batch = Collate(pad=9)([([1, 2, 3], 0), ([4], 0)])
    assert batch.tokens_BS.tolist() == [[1, 2, 3], [4, 9, 9]]
    assert batch.mask_BS.tolist() == [[1, 1, 1], [1, 0, 0]]
    assert batch.labels_BS.tolist() == [[1, 2, 3], [4, IGNORED, IGNORED]]
    assert (batch.targets, batch.tokens) == (2, 4)
