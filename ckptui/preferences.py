"""What a user has set for all runs: keys, theme, columns, rules, ASCII, mouse; from a TOML file.

```toml
theme = "textual-light"
columns = ["flags", "name", "state", "metrics", "age"]
rules = ["keep-last 3", "keep-best 1:eval_loss"]
ascii = true
mouse = false

[keys]
pin = "p"
```

The file is `$CKPTUI_CONFIG`, else `$XDG_CONFIG_HOME/ckptui/config.toml`, else
`~/.config/ckptui/config.toml`; without one, or with `/dev/null`, everything has its default.
`CKPTUI_ASCII` and `TEXTUAL_THEME` in the environment win over the file.

A file that cannot be understood is refused as
a whole, in one sentence that names the key: half of it would be a surprise. Who does not need it
never reads it: `browse` and `config show` end with that sentence and code 2, `ls` tells it and uses
its own columns, everything else does not look.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from ckptui.durable import read_bytes
from ckptui.errors import PreferencesError, StorageError, UsageError
from ckptui.rules import parse_rule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ENV: Final = "CKPTUI_CONFIG"
ASCII: Final = "CKPTUI_ASCII"
THEME: Final = "TEXTUAL_THEME"
NAMES: Final = ("keys", "theme", "columns", "rules", "ascii", "mouse")
"""What a file may set."""

_MAX_SIZE = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferences:
    """What holds for this user."""

    keys: Mapping[str, str] = field(default_factory=dict)
    """Ids of deeds in the browser to the keys they have there; ids that it lacks are its matter."""
    theme: str | None = None
    """Name of a theme; None: the browser's own."""
    columns: tuple[str, ...] | None = None
    """Columns of a list of checkpoints; None: what each list has by itself."""
    rules: tuple[str, ...] = ()
    """Retention rules that are offered for a run without a policy, each as `keep-last 3`."""
    ascii: bool | None = None
    """Whether to draw with ASCII alone; None: as the terminal can."""
    mouse: bool = True
    """Whether the browser listens to the mouse."""
    file: Path | None = None
    """Where they are from; None where there is no such file."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """For each of `NAMES`: `default`, `file` or `environment`."""


def preferences_path(env: Mapping[str, str]) -> Path:
    """Where the file is looked for; it need not be there."""
    if env.get(ENV):
        return Path(os.path.abspath(env[ENV]))  # noqa: PTH100 - links stay as they were named
    base = env.get("XDG_CONFIG_HOME", "")
    if os.path.isabs(base):  # noqa: PTH117 - the specification ignores a relative one
        return Path(base) / "ckptui" / "config.toml"
    home = env.get("HOME") or os.path.expanduser("~")  # noqa: PTH111 - the user's own
    return Path(home) / ".config" / "ckptui" / "config.toml"


def load(env: Mapping[str, str]) -> Preferences:
    """The preferences of the user with this environment.

    Raises:
        PreferencesError: The file cannot be read or understood, or `CKPTUI_CONFIG` names none.
    """
    path = preferences_path(env)
    there, raw = str(path) != os.devnull, {}
    try:
        raw = _read(path) if there else {}
    except FileNotFoundError:
        there = False
        if env.get(ENV):
            msg = f"There is no {path}, which {ENV} names."
            raise PreferencesError(msg, path=path) from None
    values = _checked(raw, path)
    origins = {name: "file" if name in values else "default" for name in NAMES}
    if env.get(ASCII):
        values["ascii"], origins["ascii"] = env[ASCII] != "0", "environment"
    if env.get(THEME):
        values["theme"], origins["theme"] = env[THEME], "environment"
    return Preferences(**values, file=path if there else None, origins=origins)


def _read(path: Path) -> dict[str, Any]:
    try:
        data = read_bytes(path, limit=_MAX_SIZE)
    except StorageError as e:
        raise PreferencesError(str(e), path=path) from e
    import tomllib  # noqa: PLC0415 - most users have no such file

    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as e:
        msg = f"{path} is no TOML: byte {e.start} is not UTF-8."
        raise PreferencesError(msg, path=path) from e
    except tomllib.TOMLDecodeError as e:
        msg = f"{path} is no TOML: {str(e)[:1].lower()}{str(e)[1:]}."
        raise PreferencesError(msg, path=path) from e
    except RecursionError as e:
        msg = f"{path} is nested too deeply."
        raise PreferencesError(msg, path=path) from e


def _checked(raw: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """What the file sets, each of its kind."""
    for name in raw:
        if name not in NAMES:
            from difflib import get_close_matches  # noqa: PLC0415 - only for a mistake

            near = get_close_matches(name, NAMES, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(NAMES)}."
            _fail(path, name, f"is no setting; {hint}")
    kinds: dict[str, Callable[[Path, str, Any], Any]] = {
        "keys": _keys,
        "theme": _word,
        "columns": _columns,
        "rules": _rules,
        "ascii": _flag,
        "mouse": _flag,
    }
    return {name: kinds[name](path, name, value) for name, value in raw.items()}


def _keys(path: Path, name: str, value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        _fail(path, name, 'must be a table, as in [keys] and below it pin = "p".')
    for deed, key in value.items():
        if not isinstance(key, str) or not key:
            _fail(path, f"{name}.{deed}", f'must be a key in quotes, as in {deed} = "p".')
    return dict(value)


def _word(path: Path, name: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        _fail(path, name, "must be a name in quotes.")
    return value


def _flag(path: Path, name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        _fail(path, name, "must be true or false, without quotes.")
    return value


def _words(path: Path, name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(v, str) and v for v in value):
        _fail(path, name, 'must be a list of texts, as in ["...", "..."].')
    return tuple(value)


def _columns(path: Path, name: str, value: Any) -> tuple[str, ...]:
    words = _words(path, name, value)
    if not words:
        _fail(path, name, "names no column; leave it out for the usual ones.")
    for word in words:
        if words.count(word) > 1:
            _fail(path, name, f"names {word} twice.")
    return words


def _rules(path: Path, name: str, value: Any) -> tuple[str, ...]:
    words = _words(path, name, value)
    for word in words:
        try:
            parse_rule(word)
        except UsageError as e:
            _fail(path, name, f"holds what is no rule: {e}")
    return words


def _fail(path: Path, key: str, what: str) -> NoReturn:
    msg = f"{path}: {key} {what}"
    raise PreferencesError(msg, path=path, key=key)
