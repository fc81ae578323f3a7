"""The JSON forms of the command line, as its contract names them: fields may be added, none taken.

A shape is a type, a tuple of shapes (any of them), a list of one shape, a dict of fields, or a
function that judges.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", re.ASCII)


def time(value: object) -> bool:
    return isinstance(value, str) and _TIME.fullmatch(value) is not None


def path(value: object) -> bool:
    return isinstance(value, str) and PurePosixPath(value).is_absolute()


def size(value: object) -> bool:
    return type(value) is int and value >= 0


def number(value: object) -> bool:
    return type(value) in (int, float)


def whole(value: object) -> bool:
    return type(value) is int


def words(*allowed: str) -> Any:
    return lambda value: value in allowed


def values(value: object) -> bool:
    """`{name: number|null}`."""
    return isinstance(value, dict) and all(v is None or number(v) for v in value.values())


NONE = type(None)
PROBLEM = {"path": path, "what": str}
CHECKPOINT = {
    "run": path,
    "name": str,
    "path": path,
    "step": (whole, NONE),
    "epoch": (number, NONE),
    "run_id": (str, NONE),
    "attempt": (whole, NONE),
    "current": bool,
    "state": words("ok", "weights", "adapter", "writing", "partial", "broken", "unknown"),
    "complete": bool,
    "resumable": bool,
    "latest": bool,
    "best": [str],
    "pinned": bool,
    "note": (str, NONE),
    "size": size,
    "created": (time, NONE),
    "metrics": values,
    "aliases": [str],
    "kept_by": ([str], NONE),
    "problems": [PROBLEM],
}
RUN = {
    "path": path,
    "name": str,
    "run_id": (str, NONE),
    "layout": str,
    "live": bool,
    "step": (whole, NONE),
    "saving": (str, NONE),
    "resume_from": (str, NONE),
    "checkpoints": [CHECKPOINT],
    "ignored": [str],
    "trash": {"count": size, "size": size},
    "policy": ([str], NONE),
    "problems": [PROBLEM],
}
LS = {"version": whole, "root": path, "runs": [RUN], "problems": [PROBLEM]}
SHOW = {
    "version": whole,
    "checkpoint": {
        **CHECKPOINT,
        "files": [{"name": str, "size": size, "digest": (str, NONE)}],
        "tensors": [{"name": str, "dtype": str, "shape": [size], "file": str}],
        "recipe_state": (dict, NONE),
        "lineage": [{"name": str}],
    },
}
METRICS = {
    "version": whole,
    "run": path,
    "rows": [
        {
            "step": size,
            "epoch": (number, NONE),
            "time": (time, NONE),
            "attempt": whole,
            "metrics": values,
        }
    ],
    "problems": [PROBLEM],
}
PLAN = {
    "version": whole,
    "plan": [
        {
            "run": path,
            "name": str,
            "path": path,
            "action": words("keep", "thin", "remove", "skip"),
            "reasons": [str],
            "frees": size,
        }
    ],
    "frees": size,
    "executed": bool,
    "results": [
        {
            "run": path,
            "name": str,
            "action": words("thin", "remove"),
            "done": bool,
            "error": (str, NONE),
            "freed": size,
        }
    ],
    "freed": size,
}
TRASH = {
    "version": whole,
    "items": [
        {
            "id": str,
            "name": str,
            "path": path,
            "run": path,
            "step": (whole, NONE),
            "size": size,
            "when": (time, NONE),
            "why": words("prune", "rm", "rewind"),
            "pinned": bool,
        }
    ],
}
TRASH_RESULTS = {
    "version": whole,
    "results": [{"id": str, "name": str, "done": bool, "error": (str, NONE), "freed": size}],
}
PINS = {"version": whole, "changed": [CHECKPOINT], "unchanged": [CHECKPOINT]}
VERIFY = {
    "version": whole,
    "checkpoints": [
        {
            "run": path,
            "name": str,
            "path": path,
            "level": words("quick", "full"),
            "status": words("verified", "ok", "warning", "failed"),
            "problems": [{"file": str, "what": str}],
        }
    ],
}
RESUME = {
    "version": whole,
    "checkpoint": CHECKPOINT,
    "argv": [str],
    "shell": str,
    "config": (dict, NONE),
    "warnings": [str],
}
LOG = {
    "version": whole,
    "run": path,
    "events": [
        {
            "time": (time, NONE),
            "who": (str, NONE),
            "host": (str, NONE),
            "what": str,
            "checkpoints": [str],
            "reason": (str, NONE),
        }
    ],
}
KINDS = ("usage", "not_found", "ambiguous", "refused", "not_resumable", "locked", "io")
ERROR = {
    "version": whole,
    "error": {"kind": words(*KINDS), "message": str, "candidates": [str]},
}


def check(value: Any, shape: Any, where: str = "$") -> None:
    """Raise an AssertionError that names the first place where a value has not its shape."""
    if isinstance(shape, dict):
        assert isinstance(value, dict), f"{where} is no object: {value!r}"
        for key, inner in shape.items():
            assert key in value, f"{where} lacks {key}"
            check(value[key], inner, f"{where}.{key}")
    elif isinstance(shape, list):
        assert isinstance(value, list), f"{where} is no list: {value!r}"
        for i, item in enumerate(value):
            check(item, shape[0], f"{where}[{i}]")
    elif isinstance(shape, tuple):
        assert any(_fits(value, one) for one in shape), f"{where} is {value!r}"
    else:
        assert _fits(value, shape), f"{where} is {value!r}"


def _fits(value: Any, shape: Any) -> bool:
    if isinstance(shape, type):
        return isinstance(value, shape)
    if isinstance(shape, dict | list | tuple):
        try:
            check(value, shape)
        except AssertionError:
            return False
        return True
    return bool(shape(value))
