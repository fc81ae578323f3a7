"""Examples read from files and `datasets` sources, checked as they come in.

Everything is held in memory as text; tokens are made when a batch is loaded.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import xxhash

from ckptui.errors import FormatError, NotFoundError, RefusedError, StorageError, UsageError
from recipe_integration.config import is_file_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from recipe_integration.config import DatasetConfig

_JSON_SUFFIXES = frozenset({".jsonl", ".json", ".ndjson"})


class Example(NamedTuple):
    """One sequence to train on, as text."""

    prompt: str
    """Read, but not trained on; empty for plain text."""
    text: str
    """Trained on."""


class Split(NamedTuple):
    """The examples of a run."""

    train: list[Example]
    evaluation: list[Example]
    """Empty where there is nothing to evaluate on."""


def read_split(config: DatasetConfig, *, seed: int) -> Split:
    """The examples to train on and those to evaluate on.

    Without an `eval_source`, an example is held out by a hash of the seed and its content, so
    that equal examples stay together and neither order nor position matters.

    Raises:
        CkptuiError: A source is missing, empty or damaged; the message says which and where.
    """
    examples = _read(config, config.source, config.split)
    if config.eval_source or config.eval_split:
        source = config.eval_source or config.source
        return Split(examples, _read(config, source, config.eval_split or config.split))
    if not config.eval_fraction:
        return Split(examples, [])
    marks = [_mark(example, seed) for example in examples]
    # A small set may have no mark below the fraction: the smallest one is then held out.
    limit = max(min(marks), int(config.eval_fraction * 2**64))
    train = [e for e, mark in zip(examples, marks, strict=True) if mark > limit]
    held_out = [e for e, mark in zip(examples, marks, strict=True) if mark <= limit]
    if not train:
        msg = (
            f"Nothing of {config.source} is left to train on once {len(held_out)} of "
            f"{len(examples)} examples are held out; set dataset.eval_fraction=0, or name an "
            "eval_source."
        )
        raise RefusedError(msg)
    return Split(train, held_out)


def fingerprint(examples: Sequence[Example]) -> str:
    """A digest of the examples and their order: `xxh3_128:<hex>`."""
    digest = xxhash.xxh3_128()
    for example in examples:
        digest.update(_bytes(example))
    return f"xxh3_128:{digest.hexdigest()}"


def _mark(example: Example, seed: int) -> int:
    return xxhash.xxh3_64_intdigest(_bytes(example), seed=seed)


def _bytes(example: Example) -> bytes:
    prompt, text = example.prompt.encode(), example.text.encode()
    return b"%d %d " % (len(prompt), len(text)) + prompt + text


def _read(config: DatasetConfig, source: str, split: str) -> list[Example]:
    if is_file_source(source) and not Path(source).is_dir():
        rows = _file_rows(Path(source), config)
    else:
        rows = _library_rows(source, split, config)
    examples = [_example(row, config, where) for where, row in rows]
    if not examples:
        msg = f"The dataset {source} holds no examples."
        raise RefusedError(msg)
    return examples


def _file_rows(path: Path, config: DatasetConfig) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Each line that is not blank, as a row, with where it stands."""
    is_json = path.suffix.lower() in _JSON_SUFFIXES
    if not is_json and config.format != "text":
        msg = f"{path} is a text file; dataset.format {config.format} needs JSONL."
        raise UsageError(msg)
    try:
        with path.open("rb") as f:
            # Only b"\n" ends a line here: str.splitlines would also cut at U+2028 inside text.
            for number, raw in enumerate(f, 1):
                where = f"{path}, line {number}"
                try:
                    line = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip("\r\n")
                except UnicodeDecodeError as e:
                    msg = f"{where} is not UTF-8 text."
                    raise FormatError(msg, path=path) from e
                if line.strip():
                    row = _json_row(line, where, path) if is_json else {config.text_key: line}
                    yield where, row
    except FileNotFoundError as e:
        msg = f"There is no dataset file {path}."
        raise NotFoundError(msg) from e
    except OSError as e:
        msg = f"The dataset file {path} cannot be read: {e.strerror}."
        raise StorageError(msg, path=path) from e


def _json_row(line: str, where: str, path: Path) -> Mapping[str, object]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as e:
        msg = f"{where} is not JSON; a JSONL file has one JSON object a line."
        raise FormatError(msg, path=path) from e
    if not isinstance(row, dict):
        msg = f"{where} holds no JSON object; a JSONL file has one JSON object a line."
        raise FormatError(msg, path=path)
    return row


def _example(row: Mapping[str, object], config: DatasetConfig, where: str) -> Example:
    if config.format == "text":
        return Example("", _text(row, config.text_key, where))
    prompt = _text(row, config.prompt_key, where)
    return Example(prompt, _text(row, config.completion_key, where))


def _text(row: Mapping[str, object], key: str, where: str) -> str:
    value = row.get(key)
    if key not in row:
        there = ", ".join(sorted(map(str, row))) or "none"
        msg = f"{where} has no {key!r}; its keys: {there}."
        raise RefusedError(msg)
    if not isinstance(value, str) or not value:
        msg = f"{where}: {key!r} must be text and not empty."
        raise RefusedError(msg)
    try:
        value.encode()
    except UnicodeEncodeError as e:
        msg = f"{where}: {key!r} holds half of a surrogate pair, which is no text."
        raise RefusedError(msg) from e
    return value


def _library_rows(
    source: str, split: str, config: DatasetConfig
) -> Iterator[tuple[str, Mapping[str, object]]]:
    """The rows of a source that the `datasets` package loads."""
    try:
        import datasets  # noqa: PLC0415 - an optional package, and slow to import
    except ImportError as e:
        msg = (
            f"{source} is no file; as the name of a dataset it needs the package `datasets`, "
            "which is not installed."
        )
        raise NotFoundError(msg) from e
    datasets.disable_progress_bars()
    try:
        if (Path(source) / "state.json").is_file() or (
            Path(source) / "dataset_dict.json"
        ).is_file():
            found = datasets.load_from_disk(source)
        else:
            found = datasets.load_dataset(source, config.subset)
        if isinstance(found, datasets.DatasetDict):
            found = found[split]
    except KeyError as e:
        msg = f"The dataset {source} has no split {split!r}; it has {', '.join(found)}."
        raise NotFoundError(msg) from e
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as e:
        reason = str(e).strip().splitlines()[0] if str(e).strip() else type(e).__name__
        msg = f"The dataset {source} could not be loaded: {reason}"
        raise NotFoundError(msg) from e
    for number in range(len(found)):
        yield f"{source}, row {number}", found[number]
