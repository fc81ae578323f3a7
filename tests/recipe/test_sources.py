"""Examples are read line by line, checked, and split by content."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ckptui.errors import CkptuiError
from recipe_integration.config import DatasetConfig
from recipe_integration.sources import Example, fingerprint, read_split


def write(path: Path, *rows: Any) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def refusal(config: DatasetConfig) -> str:
    with pytest.raises(CkptuiError) as caught:
        read_split(config, seed=0)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_jsonl_has_one_example_a_line(tmp_path: Path) -> None:
    source = write(tmp_path / "a.jsonl", {"text": "one\u2028two"}, {"text": "three", "x": 1})
    split = read_split(DatasetConfig(source=source, eval_fraction=0), seed=0)
    assert split.train == [Example("", "one\u2028two"), Example("", "three")]
    assert split.evaluation == []


def test_a_text_file_has_one_example_a_line_and_blank_lines_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffone\r\n\r\n  \ntwo".encode())
    split = read_split(DatasetConfig(source=str(path), eval_fraction=0), seed=0)
    assert [e.text for e in split.train] == ["one", "two"]


def test_prompt_and_completion_are_read_by_their_keys(tmp_path: Path) -> None:
    source = write(tmp_path / "a.jsonl", {"q": "1+1", "a": "2"})
    config = DatasetConfig(
        source=source,
        format="prompt_completion",
        prompt_key="q",
        completion_key="a",
        eval_fraction=0,
    )
    assert read_split(config, seed=0).train == [Example("1+1", "2")]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "line 3 is not JSON"),
        ("[1]", "line 3 holds no JSON object"),
        ('{"txt": "a"}', "line 3 has no 'text'; its keys: txt"),
        ('{"text": 3}', "line 3: 'text' must be text and not empty"),
        ('{"text": ""}', "line 3: 'text' must be text and not empty"),
        ('{"text": "\\ud800"}', "line 3: 'text' holds half of a surrogate pair"),
        ("[" * 100_000, "line 3 is not JSON"),
    ],
)
def test_a_wrong_line_is_named_by_its_number(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a"}\n\n' + line + "\n")
    assert words in refusal(DatasetConfig(source=str(path)))


def test_bytes_that_are_no_text_are_named_by_their_line(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"fine\n\xff\n")
    assert "line 2 is not UTF-8" in refusal(DatasetConfig(source=str(path)))


def test_a_missing_or_empty_source_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    assert f"no dataset file {path}" in refusal(DatasetConfig(source=str(path)))
    path.write_text("\n\n")
    assert "holds no examples" in refusal(DatasetConfig(source=str(path)))


def test_pairs_need_jsonl(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a\n")
    assert "needs JSONL" in refusal(DatasetConfig(source=str(path), format="prompt_completion"))


def test_held_out_examples_depend_on_seed_and_content_only(tmp_path: Path) -> None:
    texts = [{"text": f"text {i}"} for i in range(400)]
    one = write(tmp_path / "one.jsonl", *texts)
    other = write(tmp_path / "other.jsonl", *reversed(texts))
    splits = [read_split(DatasetConfig(source=s, eval_fraction=0.2), seed=1) for s in (one, other)]
    assert set(splits[0].evaluation) == set(splits[1].evaluation)
    assert 40 < len(splits[0].evaluation) < 120
    assert len(splits[0].train) + len(splits[0].evaluation) == 400
    assert not set(splits[0].train) & set(splits[0].evaluation)
    again = read_split(DatasetConfig(source=one, eval_fraction=0.2), seed=2)
    assert set(again.evaluation) != set(splits[0].evaluation)


def test_equal_examples_stay_on_one_side(tmp_path: Path) -> None:
    source = write(tmp_path / "a.jsonl", *[{"text": f"t{i % 10}"} for i in range(100)])
    split = read_split(DatasetConfig(source=source, eval_fraction=0.3), seed=0)
    assert not set(split.train) & set(split.evaluation)


def test_a_small_set_still_holds_one_out(tmp_path: Path) -> None:
    source = write(tmp_path / "a.jsonl", *[{"text": f"t{i}"} for i in range(4)])
    split = read_split(DatasetConfig(source=source, eval_fraction=0.0001), seed=0)
    assert len(split.evaluation) == 1
    single = write(tmp_path / "b.jsonl", {"text": "alone"})
    assert "eval_fraction=0" in refusal(DatasetConfig(source=single))


def test_an_eval_source_is_read_as_it_is(tmp_path: Path) -> None:
    source = write(tmp_path / "a.jsonl", {"text": "a"})
    held_out = write(tmp_path / "b.jsonl", {"text": "b"}, {"text": "a"})
    split = read_split(DatasetConfig(source=source, eval_source=held_out), seed=0)
    assert [e.text for e in split.evaluation] == ["b", "a"]
    assert len(split.train) == 1


def test_the_fingerprint_sees_content_and_order() -> None:
    a, b = Example("", "a"), Example("", "b")
    prints = [
        fingerprint([a, b]),
        fingerprint([b, a]),
        fingerprint([Example("a", "b")]),
        fingerprint([Example("", "ab")]),
    ]
    assert len(set(prints)) == 4
    assert prints[0].startswith("xxh3_128:")


def test_a_source_of_the_datasets_package_is_read(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    rows = [{"text": "one"}, {"text": "two"}]
    datasets.Dataset.from_list(rows).save_to_disk(str(tmp_path / "saved"))
    config = DatasetConfig(source=str(tmp_path / "saved"), eval_fraction=0)
    assert [e.text for e in read_split(config, seed=0).train] == ["one", "two"]
    datasets.DatasetDict(
        {"train": datasets.Dataset.from_list(rows), "test": datasets.Dataset.from_list(rows[:1])}
    ).save_to_disk(str(tmp_path / "dict"))
    config = DatasetConfig(source=str(tmp_path / "dict"), eval_split="test")
    split = read_split(config, seed=0)
    assert (len(split.train), len(split.evaluation)) == (2, 1)
    wrong = DatasetConfig(source=str(tmp_path / "dict"), split="dev")
    assert "no split 'dev'; it has train, test" in refusal(wrong)


def test_a_name_needs_the_datasets_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert "`datasets`" in refusal(DatasetConfig(source="org/name"))
