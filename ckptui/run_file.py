"""`run.json`: what a run is, its policy and its attempts; replaced as a whole by its trainer."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ckptui import schema
from ckptui.checkpoint import Attempt, Parent
from ckptui.durable import read_json_object, replace_file, to_json
from ckptui.errors import FormatError, NewerFormatError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFile:
    """The content of `run.json`."""

    run_id: str | None
    created: str | None = None
    recipe: str | None = None
    """Module of the recipe that writes this run."""
    command: str | None = None
    """Template of the command that resumes, with `{checkpoint}`."""
    argv: tuple[str, ...] = ()
    cwd: str | None = None
    python: str | None = None
    policy: tuple[str, ...] | None = None
    attempts: tuple[Attempt, ...] = ()
    loggers: Mapping[str, Any] = field(default_factory=dict)
    rest: Mapping[str, Any] = field(default_factory=dict)
    """Keys of newer or other writers, kept as they are."""

    @property
    def last_attempt(self) -> int:
        """The highest attempt number, 0 where there is none."""
        return max((a.attempt for a in self.attempts), default=0)

    def with_attempt(self, attempt: Attempt) -> RunFile:
        """The same run with one more attempt."""
        return replace(self, attempts=(*self.attempts, attempt))


def read_run_file(run: Path) -> RunFile | None:
    """The run's `run.json`, or None where there is none.

    Raises:
        NewerFormatError: A newer ckptui wrote it.
        FormatError: It is not readable as such a file.
        StorageError: It cannot be read.
    """
    path = run / schema.RUN_FILE
    try:
        raw = read_json_object(path, limit=schema.MAX_JSON_SIZE)
    except FileNotFoundError:
        return None
    version = raw.pop("format", None)
    if type(version) is int and version > schema.FORMAT:
        msg = f"{path} has format {version}, which this version of ckptui does not know."
        raise NewerFormatError(msg, path=path)
    if type(version) is not int or version < 1 or not _is_flat(raw):
        msg = f"{path} is no run file as ckptui writes it."
        raise FormatError(msg, path=path)
    policy = raw.pop("policy", None)
    attempts = raw.pop("attempts", None)
    loggers = raw.pop("loggers", None)
    argv = raw.pop("argv", None)
    return RunFile(
        run_id=_text(raw.pop("run_id", None)),
        created=_text(raw.pop("created", None)),
        recipe=_text(raw.pop("recipe", None)),
        command=_text(raw.pop("command", None)),
        argv=_texts(argv),
        cwd=_text(raw.pop("cwd", None)),
        python=_text(raw.pop("python", None)),
        policy=_texts(policy) if isinstance(policy, list) else None,
        attempts=_attempts(attempts if isinstance(attempts, list) else []),
        loggers=loggers if isinstance(loggers, dict) else {},
        rest=raw,
    )


def write_run_file(run: Path, content: RunFile) -> None:
    """Replace the run's `run.json` atomically.

    Raises:
        OSError: The disk refused; the old content stands.
    """
    replace_file(
        run / schema.RUN_FILE,
        to_json(
            {
                "format": schema.FORMAT,
                "run_id": content.run_id,
                "created": content.created,
                "recipe": content.recipe,
                "command": content.command,
                "argv": content.argv,
                "cwd": content.cwd,
                "python": content.python,
                "policy": content.policy,
                "attempts": [
                    {
                        "attempt": a.attempt,
                        "parent": parent_json(a.parent),
                        "start_step": a.start_step,
                        "started": a.started,
                        "host": a.host,
                        "argv": a.argv,
                    }
                    for a in content.attempts
                ],
                "loggers": _strict(content.loggers),
                **_strict(content.rest),
            }
        ),
    )


def parent_json(parent: Parent | None) -> dict[str, object] | None:
    """A parent as `run.json` and `checkpoint.json` hold it."""
    if parent is None:
        return None
    return {
        "name": parent.name,
        "step": parent.step,
        "run_id": parent.run_id,
        "attempt": parent.attempt,
        "path": parent.path,
    }


def parse_parent(value: object) -> Parent | None:
    """A parent read from disk; a bare name is understood too."""
    if isinstance(value, str) and value:
        return Parent(name=value)
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return None
    return Parent(
        name=value["name"],
        step=whole(value.get("step")),
        run_id=_text(value.get("run_id")),
        attempt=whole(value.get("attempt")),
        path=_text(value.get("path")),
    )


def whole(value: object) -> int | None:
    """A non-negative integer read from disk, else None."""
    return value if type(value) is int and value >= 0 else None


def _attempts(values: list[object]) -> tuple[Attempt, ...]:
    found = []
    for value in values:
        if not isinstance(value, dict):
            continue
        number, start = whole(value.get("attempt")), whole(value.get("start_step"))
        if number is None or start is None:
            continue
        found.append(
            Attempt(
                attempt=number,
                start_step=start,
                parent=parse_parent(value.get("parent")),
                started=_text(value.get("started")),
                host=_text(value.get("host")),
                argv=_texts(value.get("argv")),
            )
        )
    return tuple(found)


def _is_flat(value: Any, levels: int = 50) -> bool:
    """Whether a value is nested no deeper than it can be written again."""
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return levels > 0 and all(_is_flat(v, levels - 1) for v in inner)
    return True


def _strict(value: Any) -> Any:
    """A value read from JSON, its numbers that are not finite as the names that our files use."""
    if isinstance(value, dict):
        return {k: _strict(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_strict(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return value


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _texts(value: object) -> tuple[str, ...]:
    return tuple(v for v in value if isinstance(v, str)) if isinstance(value, list) else ()
