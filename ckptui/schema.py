"""Every name on disk, read and written in one place.

A native checkpoint is a folder `step_N` or `epoch_N`, N a plain non-negative decimal in ASCII
digits. Names are matched in full; zero padding is read as the number and keeps its spelling.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, Literal, NamedTuple

RUN_FILE: Final = "run.json"
CONFIG_FILE: Final = "config.yaml"
METRICS_FILE: Final = "metrics.jsonl"

MARKER: Final = "checkpoint.json"
"""Written last: a native folder without it is not complete."""
RECIPE_STATE_JSON: Final = "recipe_state.json"
RECIPE_STATE_TENSORS: Final = "recipe_state.safetensors"
RECIPE_CONFIG: Final = "recipe_config.yaml"
MODEL_FILE: Final = "model.safetensors"
MODEL_INDEX: Final = "model.safetensors.index.json"

TOOL_DIR: Final = ".ckptui"
PINS: Final = "pins"
TRASH: Final = "trash"
STAGING: Final = "staging"
LEASES: Final = "leases"
REQUESTS: Final = "requests"
LOCK: Final = "lock"
JOURNAL: Final = "journal.jsonl"
TRASH_ENTRY: Final = "entry.json"

FORMAT: Final = 1
"""The `format` of `run.json` and `checkpoint.json` that this version writes and understands."""

MAX_JSON_SIZE: Final = 64 * 2**20
"""Bytes of a JSON file we are willing to read whole."""
MAX_LINE_SIZE: Final = 2**20
"""Bytes of one line of `metrics.jsonl` or the journal."""
MAX_HEADER_SIZE: Final = 100_000_000
"""Bytes of a safetensors header; the limit of the official reader."""

LOGGER_DIRS: Final = ("tensorboard", "wandb")
"""Folders in which metric loggers keep what is theirs."""
RUN_OWN_NAMES: Final = frozenset({RUN_FILE, CONFIG_FILE, METRICS_FILE, TOOL_DIR, *LOGGER_DIRS})
"""What belongs to a native run besides its checkpoints."""

_NAME = re.compile(r"(step|epoch)_([0-9]+)", re.ASCII)
_WEIGHTS = re.compile(r"model(-[0-9]{5}-of-[0-9]{5})?\.safetensors", re.ASCII)
_REQUEST = re.compile(r"([0-9a-f]{12})(\.answer)?\.json", re.ASCII)
_JUNK = re.compile(
    r"\._.*|\.DS_Store|\.ipynb_checkpoints|\.nfs[0-9a-fA-F]+|Thumbs\.db|desktop\.ini"
)


class ParsedName(NamedTuple):
    """What a checkpoint's name says."""

    kind: Literal["step", "epoch"]
    number: int


@lru_cache(maxsize=2**16)
def parse_name(name: str) -> ParsedName | None:
    """The meaning of a folder name, or None where it is not a native checkpoint's."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    return ParsedName("step" if found[1] == "step" else "epoch", int(found[2]))


def step_name(step: int) -> str:
    """The folder name of the checkpoint after `step` optimizer steps."""
    return f"step_{step}"


def epoch_name(epoch: int) -> str:
    """The folder name of the checkpoint at the end of `epoch`, counted from 0."""
    return f"epoch_{epoch}"


def request_file(number: str) -> str:
    """The file name of a request to save, by its id."""
    return f"{number}.json"


def answer_file(number: str) -> str:
    """The file name of the answer to a request, by the id of the request."""
    return f"{number}.answer.json"


class RequestName(NamedTuple):
    """What the name of a file among the requests says."""

    id: str
    is_answer: bool


def parse_request_file(name: str) -> RequestName | None:
    """The meaning of a file name among the requests, or None where it is neither kind."""
    found = _REQUEST.fullmatch(name)
    return None if found is None else RequestName(found[1], found[2] is not None)


def is_weights_file(name: str) -> bool:
    """Whether a file of a checkpoint holds the model's weights, whole or as a shard."""
    return _WEIGHTS.fullmatch(name) is not None


def is_junk(name: str) -> bool:
    """Whether a name is what desktops, notebooks and NFS leave beside real files."""
    return _JUNK.fullmatch(name) is not None


def format_time(when: datetime) -> str:
    """A time as it stands on disk and in JSON: UTC, microseconds, `Z`."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def now_text() -> str:
    """The present time as it stands on disk."""
    return format_time(datetime.now(UTC))


def parse_time(value: object) -> datetime | None:
    """A time read from disk, aware and in UTC; None for anything that is no ISO 8601 time."""
    if not isinstance(value, str):
        return None
    try:
        when = datetime.fromisoformat(value)
        return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
