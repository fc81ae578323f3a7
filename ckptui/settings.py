"""Settings files: YAML that others may have edited, read as plain values and within bounds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ckptui import schema
from ckptui.durable import read_bytes, replace_file
from ckptui.errors import NotResumableError, StorageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_MAX_VALUES = 10_000
_MAX_LEVELS = 20


def read_settings(path: Path) -> dict[str, Any]:
    """The settings in a YAML file.

    Raises:
        NotResumableError: There is none, or it is damaged.
    """
    import yaml  # noqa: PLC0415 - a listing never needs it

    unreadable = f"{path} is no readable YAML, so the settings to resume with are unknown."
    try:
        found = _plain(yaml.safe_load(read_bytes(path, limit=schema.MAX_LINE_SIZE)))
    except FileNotFoundError:
        msg = f"{path} is missing, so the settings to resume with are unknown."
        raise NotResumableError(msg) from None
    # ValueError: a date or a number that Python cannot hold.
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as e:
        raise NotResumableError(unreadable) from e
    if not isinstance(found, dict):
        msg = f"{path} holds no settings."
        raise NotResumableError(msg)
    return found


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
