"""Settings are typed, complete, and refused in a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ckptui.errors import UsageError
from recipe_integration.config import SETTINGS, Config, from_dict, make_config, read_config

BASE: dict[str, Any] = {"model": "m", "dataset": "d.jsonl", "output_dir": "o"}


def refusal(*overrides: str, **tree: Any) -> str:
    with pytest.raises(UsageError) as caught:
        make_config({**BASE, **tree}, overrides)
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_keys_are_those_that_the_contract_names() -> None:
    named = """model tokenizer dataset output_dir seed epochs max_steps max_steps_per_epoch
        batch_size gradient_accumulation_steps clip_grad_norm dtype device deterministic compile
        enable_activation_checkpointing packed max_seq_len num_workers num_threads optimizer.name
        optimizer.lr lr_scheduler.name lr_scheduler.num_warmup_steps eval_every_n_steps
        log_every_n_steps save_every_n_steps keep_last_n_checkpoints keep_every_n_steps keep_best
        prune_to_trash resume_from allow_changed rewind"""
    assert set(named.split()) <= set(SETTINGS)


def test_numbers_are_numbers_however_they_are_written(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("{model: m, dataset: d.jsonl, output_dir: o, optimizer: {lr: 1e-5}}")
    config = read_config(file, ["lr_scheduler.min_lr_ratio=1e-1", "seed=0012", "epochs=null"])
    assert config.optimizer.lr == 1e-5
    assert config.lr_scheduler.min_lr_ratio == 0.1
    assert config.seed == 12


@pytest.mark.parametrize(
    "name", ["007", "yes", "2024-01-01", "1e5", "a=b", " x", "$(id)", "~", "[a]", "ä"]
)
def test_paths_are_taken_verbatim(tmp_path: Path, name: str) -> None:
    by_word = make_config(BASE, [f"output_dir={name}"])
    assert by_word.output_dir == Path.cwd() / name
    file = tmp_path / "c.yaml"
    file.write_text(yaml.safe_dump({**BASE, "output_dir": name}))
    assert read_config(file).output_dir == Path.cwd() / name


def test_an_unquoted_number_in_yaml_stays_the_name_it_is(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("model: 1.50\ndataset: d.jsonl\noutput_dir: 0123\nkeep_best: [2:eval_loss]")
    config = read_config(file)
    assert (config.model.name, config.output_dir.name) == ("1.50", "0123")
    assert config.keep_best == ("2:eval_loss",)


def test_written_values_give_the_same_config_again() -> None:
    config = make_config(
        BASE,
        ["keep_best=2:eval_loss:min", "optimizer.betas=[0.5, 0.25]", "clip_grad_norm=null"],
    )
    written = yaml.safe_load(yaml.safe_dump(config.to_dict()))
    assert from_dict(written) == config
    assert Path(written["model"]).is_absolute()
    assert Path(written["dataset"]["source"]).is_absolute()


def test_what_is_written_says_nothing_about_one_start() -> None:
    config = make_config(
        BASE, ["resume_from=/x/step_1", "rewind=2", "allow_changed=epochs,optimizer"]
    )
    assert config.allow_changed == ("epochs", "optimizer")
    assert not {"resume_from", "rewind", "allow_changed"} & set(config.to_dict())


def test_the_dataset_may_be_a_path_or_a_mapping() -> None:
    assert make_config(BASE).dataset.source == str(Path.cwd() / "d.jsonl")
    config = make_config({**BASE, "dataset": {"source": "e.txt"}}, ["dataset.split=x"])
    assert config.dataset.source == str(Path.cwd() / "e.txt")
    assert config.dataset.split == "x"
    assert make_config(BASE, ["dataset=a b.jsonl"]).dataset.source.endswith("/a b.jsonl")


def test_a_name_that_is_no_file_stays_a_name_of_the_datasets_package() -> None:
    assert make_config(BASE, ["dataset=org/name"]).dataset.source == "org/name"


def test_epochs_are_one_unless_steps_bound_the_run() -> None:
    assert make_config(BASE).epochs == 1
    assert make_config(BASE, ["max_steps=5"]).epochs is None


def test_retention_settings_become_the_policy() -> None:
    config = make_config(
        BASE,
        ["keep_last_n_checkpoints=3", "keep_every_n_steps=100", "keep_best=1:eval_loss"],
    )
    assert config.policy == ("keep-last 3", "keep-every 100", "keep-best 1:eval_loss")
    assert make_config(BASE).policy == ()


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("batch_sizee=2", "Did you mean batch_size?"),
        ("lr=1", "Did you mean optimizer.lr?"),
        ("optimizer.learning=1", "There is no setting"),
        ("batch_size=two", "whole number"),
        ("batch_size=2.5", "whole number"),
        ("batch_size=0", "at least 1"),
        ("batch_size=null", "whole number"),
        ("epochs=-1", "at least 1"),
        ("compile=maybe", "true or false"),
        ("optimizer.lr=nan", "finite number"),
        ("optimizer.lr=-1", "at least 0"),
        ("optimizer.name=adam", "Did you mean adamw?"),
        ("optimizer.betas=0.9", "2 values"),
        ("optimizer.betas=0.9,1.0", "below 1"),
        ("optimizer.momentum=0.9", "means nothing to adamw"),
        ("optimizer=adamw", "group of settings"),
        ("lr_scheduler.name=cosin", "Did you mean cosine?"),
        ("dtype=fp16", "loss scaling"),
        ("dtype=bf61", "Did you mean bf16"),
        ("device=gpu", "must be auto, cpu, cuda"),
        ("device=cpu:1", "must be auto, cpu, cuda"),
        ("device=cuda:x", "number of the device"),
        ("packed=true", "not supported yet"),
        ("dataset.streaming=true", "resumed exactly"),
        ("dataset.format=chat", "not supported yet"),
        ("dataset.eval_fraction=1", "below 1"),
        ("clip_grad_norm=0", "above 0"),
        ("keep_last_n_checkpoints=0", "at least 1"),
        ("keep_best=0", "1"),
        ("keep_best=1:accuracy", "not logged"),
        ("keep_best=1:lr", "low or a high"),
        ("allow_changed=epoch", "Did you mean epochs?"),
        ("rewind=2", "resume_from"),
        ("seed", "no key=value"),
        ("output_dir=", "empty"),
        ("seed=99999999999999999999", "below 2^63"),
    ],
)
def test_wrong_values_are_refused_in_one_sentence(override: str, words: str) -> None:
    message = refusal(override)
    assert words in message
    assert "\n" not in message


def test_keep_best_needs_a_value_at_each_save() -> None:
    assert "eval_loss at each save" in refusal(
        "keep_best=1", "eval_every_n_steps=3", "save_every_n_steps=4"
    )
    assert "eval_fraction is 0" in refusal("keep_best=1", "dataset.eval_fraction=0")
    make_config(BASE, ["keep_best=1", "eval_every_n_steps=2", "save_every_n_steps=4"])


def test_a_missing_setting_is_named() -> None:
    with pytest.raises(UsageError, match="output_dir is missing"):
        make_config({"model": "m", "dataset": "d.jsonl"})
    with pytest.raises(UsageError, match=r"dataset\.source is missing"):
        make_config({**BASE, "dataset": {"split": "x"}})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", "not YAML"),
        ("seed: 1\nseed: 2", "line 2: seed is set a second time"),
        ("seed: &x 1\nepochs: *x", "alias"),
        ("- a", "holds no settings"),
        ("", "holds no settings"),
        ("? [a]\n: b", "must be a word"),
        ("seed: [1]", "not a list"),
        ("model: {a: b}", "not a group"),
        ("\x00", "YAML"),
    ],
)
def test_a_damaged_config_file_is_refused_in_one_sentence(
    tmp_path: Path, text: str, words: str
) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_config(file)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_config_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no config file"):
        read_config(tmp_path / "none.yaml")
    with pytest.raises(UsageError, match="cannot be read"):
        read_config(tmp_path)
    (tmp_path / "c.yaml").write_bytes(b"\xff\xfe\x00\xff")
    with pytest.raises(UsageError):
        read_config(tmp_path / "c.yaml")


def test_every_setting_has_a_type_that_survives_the_command_line() -> None:
    values = make_config(BASE).to_dict()
    flat = {
        f"{key}.{inner}" if isinstance(value, dict) else key: item
        for key, value in values.items()
        for inner, item in (value.items() if isinstance(value, dict) else ((None, value),))
    }
    words = [f"{key}={v if isinstance(v, str) else json.dumps(v)}" for key, v in flat.items()]
    assert make_config({}, words) == make_config(BASE)
    assert isinstance(make_config(BASE), Config)
