"""Settings files: YAML that others may have edited, read as plain values and within bounds."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

from ckptui import schema
from ckptui.durable import read_bytes, replace_file
from ckptui.errors import NotResumableError, StorageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from yaml import MappingNode, SafeLoader

_MAX_VALUES = 10_000
_MAX_MERGES = 100
"""What one mapping of YAML may merge into itself by `<<`."""
_MAX_LEVELS = 20
_MAX_NUMBER = 10**300
"""Beyond it no float can hold a number, and Python does not write one in full."""


def read_settings(path: Path) -> dict[str, Any]:
    """The settings in a YAML file.

    Raises:
        NotResumableError: There is none, or it is damaged.
    """
    unreadable = f"{path} is no readable YAML, so the settings to resume with are unknown."
    try:
        found = parse_yaml(read_bytes(path, limit=schema.MAX_LINE_SIZE))
    except FileNotFoundError:
        msg = f"{path} is missing, so the settings to resume with are unknown."
        raise NotResumableError(msg) from None
    except ValueError as e:
        raise NotResumableError(unreadable) from e
    if not isinstance(found, dict):
        msg = f"{path} holds no settings."
        raise NotResumableError(msg)
    return found


def parse_yaml(data: bytes) -> Any:
    """The value that YAML stands for, as strict JSON can hold it.

    Raises:
        ValueError: It is no YAML, or holds more than any settings do.
    """
    import yaml  # noqa: PLC0415 - a listing never needs it

    try:
        return _plain(yaml.load(data, _bounded_loader()))  # noqa: S506 - a kind of SafeLoader
    # ValueError: a date or a number that Python cannot hold.
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as e:
        msg = "no readable YAML"
        raise ValueError(msg) from e


@functools.cache
def _bounded_loader() -> type[SafeLoader]:
    """YAML's safe loader, in which `<<` cannot multiply a small file into a huge mapping.

    PyYAML before 6.0.4 copies what it merges as often as it is named.
    """
    import yaml  # noqa: PLC0415 - a listing never needs it

    class Bounded(yaml.SafeLoader):
        def flatten_mapping(self, node: MappingNode) -> None:
            msg = "too much for settings"
            merged = [v for k, v in node.value if k.tag == "tag:yaml.org,2002:merge"]
            merges = sum(len(v.value) if isinstance(v, yaml.SequenceNode) else 1 for v in merged)
            if merges > _MAX_MERGES:
                raise ValueError(msg)
            super().flatten_mapping(node)
            if len(node.value) > _MAX_VALUES:
                raise ValueError(msg)

    return Bounded


def _plain(value: Any) -> Any:
    """A value of YAML as strict JSON can hold it.

    Raises:
        ValueError: It holds more than any settings do: links within YAML multiply without end.
    """
    left = _MAX_VALUES

    def plain(value: Any, level: int) -> Any:
        nonlocal left
        left -= 1
        if left < 0 or level > _MAX_LEVELS:
            msg = "too much for settings"
            raise ValueError(msg)
        if isinstance(value, dict):
            return {str(k): plain(v, level + 1) for k, v in value.items()}
        if isinstance(value, list):
            return [plain(v, level + 1) for v in value]
        if type(value) is int and abs(value) >= _MAX_NUMBER:
            msg = "too large a number"
            raise ValueError(msg)
        if isinstance(value, float) and not math.isfinite(value):
            return str(value)
        return value if value is None or isinstance(value, bool | int | float | str) else str(value)

    return plain(value, 0)


def write_settings(path: Path, config: Mapping[str, Any]) -> None:
    """Replace a settings file atomically.

    Raises:
        StorageError: The disk refused; the old content stands.
    """
    import yaml  # noqa: PLC0415 - a listing never needs it

    text = yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True)
    try:
        replace_file(path, text.encode("utf-8", "backslashreplace"))
    except OSError as e:
        msg = f"{path} cannot be written: {e.strerror}."
        raise StorageError(msg, path=path) from e


def flat(settings: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """The settings one by one, nested ones by their dotted names."""
    found: list[tuple[str, Any]] = []
    for key, value in settings.items():
        if isinstance(value, dict) and value:
            found += flat(value, f"{prefix}{key}.")
        else:
            found.append((prefix + str(key), value))
    return found
