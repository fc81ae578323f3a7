"""What may stand in a place of the line: from names of folders, three markers and the log's end.

Nothing here looks at files one by one, so that it stays quick with thousands of checkpoints, and
nothing here fails: where no run is found there is nothing to offer.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from ckptui.display.text import is_plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import click
    from click.shell_completion import CompletionItem

NO_OPTION = "\0"
"""Stands before a value that begins as an option does, or click would complete options."""

_DEEPEST = 6
_MOST_FOLDERS = 2000
"""How many folders are looked into for the only run below."""
_TAIL = 2**16
"""Bytes at the end of the log that are read for names of metrics."""


def complete_checkpoint(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The names in the run that the line means so far; paths are left to the shell."""
    del param
    if incomplete.startswith("best:"):
        return _items((f"best:{name}" for name in _metrics(ctx)), incomplete)
    if "/" in incomplete:
        return [_left_to_the_shell(incomplete)]
    return _items([*_by_number(_names(_run(ctx), "")), "latest", "best"], incomplete)


def complete_trash(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The ids in the trash of the run, and the names of what lies there."""
    del param
    from ckptui import schema  # noqa: PLC0415 - only while completing

    run = _run(ctx)
    folder = f"{schema.TOOL_DIR}/{schema.TRASH}"
    ids = sorted(_names(run, folder))
    inside = {name for item in ids for name in _names(run, f"{folder}/{item}")}
    return _items((*_by_number(inside), *ids), incomplete)


def complete_metric(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The metrics of the run."""
    del param
    return _items(_metrics(ctx), incomplete)


def complete_best(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """After `N:` the metrics of the run, after a metric and a colon the directions."""
    del param
    count, colon, rest = incomplete.partition(":")
    if not colon:
        return []
    names = _metrics(ctx)
    ends = [f"{name}:{end}" for name in names for end in ("min", "max")]
    offered = ends if any(rest.startswith(f"{name}:") for name in names) else names
    return _items((f"{count}:{text}" for text in offered), incomplete)


def complete_sort(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Fields and metrics to sort by, a `-` before them kept."""
    del param
    from ckptui.fields import FIELDS  # noqa: PLC0415 - only while completing
    from ckptui.sorting import SORTS  # noqa: PLC0415 - as above

    incomplete = incomplete.removeprefix(NO_OPTION)
    sign = "-" if incomplete.startswith("-") else ""
    own = [_in_quotes(name) if name in FIELDS else name for name in _metrics(ctx)]
    return _items((sign + name for name in (*SORTS, *own) if name), incomplete)


def complete_columns(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Columns and metrics, those before the last comma kept and not offered again."""
    del param
    from ckptui.display.columns import COLUMNS, METRICS  # noqa: PLC0415 - only while completing

    before, comma, _ = incomplete.rpartition(",")
    taken = before.split(",")
    known = [*COLUMNS, METRICS, *(name for name in _metrics(ctx) if "," not in name)]
    return _items((before + comma + name for name in known if name not in taken), incomplete)


def complete_filter(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """For the last term of a filter: its field with every sign that fits, or its value."""
    del param
    from ckptui.checkpoint import State  # noqa: PLC0415 - only while completing
    from ckptui.fields import FIELDS, NUMBERS  # noqa: PLC0415 - as above

    start = max(incomplete.rfind(" "), incomplete.rfind("|"), incomplete.rfind("!")) + 1
    before, term = incomplete[:start], incomplete[start:]
    own = [name if _is_bare(name) else _in_quotes(name) for name in _metrics(ctx)]
    metrics = [name for name in own if name is not None]
    numbers = [*NUMBERS, *metrics]
    known = {
        "state": [str(state) for state in State],
        "pin": ["yes", "no"],
        "has": [*(f for f in FIELDS if f not in ("has", "nan")), *metrics],
        "nan": metrics,
    }
    field, sign = next(((f, s) for f in known for s in ":=" if term.startswith(f + s)), ("", ""))
    if field:
        return _items((before + field + sign + value for value in known[field]), incomplete)
    fields = [f"{name}{sign}" for name in numbers for sign in ("<", "<=", "=", ">", ">=")]
    # Two of each: of one alone bash would close the quotes around a filter that has just begun.
    fields += [f"{name}{sign}" for name in FIELDS if name not in NUMBERS for sign in ":="]
    return _items((before + text for text in fields), incomplete, is_open=True)


def _is_bare(name: str) -> bool:
    """Whether a metric's name needs no quotes in a filter."""
    from ckptui.fields import FIELDS  # noqa: PLC0415 - only while completing

    return name not in FIELDS and name[0] not in "!('\"" and not any(c in " |<>=!:" for c in name)


def _in_quotes(name: str) -> str | None:
    """A metric's name in quotes; None where it holds both kinds."""
    return next((f"{quote}{name}{quote}" for quote in "'\"" if quote not in name), None)


def _items(
    values: Iterable[str], incomplete: str = "", *, is_open: bool = False
) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem  # noqa: PLC0415 - only while completing

    fitting = dict.fromkeys(v for v in values if v.startswith(incomplete) and is_plain(v))
    return [CompletionItem(value, open=is_open) for value in fitting]


def _left_to_the_shell(incomplete: str) -> CompletionItem:
    from click.shell_completion import CompletionItem  # noqa: PLC0415 - only while completing

    return CompletionItem(incomplete, type="dir")


def _run(ctx: click.Context) -> Path | None:
    """The run that the line means so far, found by names alone."""
    chosen = next((p for k in ("run", "run_option", "path") if (p := ctx.params.get(k))), None)
    if chosen is None or str(chosen) == ".":
        chosen = os.environ.get("CKPTUI_RUN") or None
    with contextlib.suppress(OSError):
        if chosen is not None:
            path = Path(os.path.abspath(os.path.expanduser(chosen)))  # noqa: PTH100, PTH111 - links
            if not _is_run(path) and _is_run(path.parent):
                return path.parent  # it names a checkpoint
            return _only_run(path)
        here = Path.cwd()
        for folder in (here, *here.parents):
            if _is_run(folder):
                return folder
        return _only_run(here)
    return None


def _only_run(root: Path) -> Path | None:
    """The one run at or below a folder; None where there are several, or too much to look at."""
    found: list[Path] = []
    pending = [(root, 0)]
    looked = 0
    while pending and len(found) < 2:
        folder, level = pending.pop()
        looked += 1
        if looked > _MOST_FOLDERS:
            return None
        is_run, below = _look(folder)
        found += [folder] if is_run else []
        if level < _DEEPEST:
            pending += [(child, level + 1) for child in below]
    return found[0] if len(found) == 1 else None


def _is_run(folder: Path) -> bool:
    return _look(folder)[0]


def _look(folder: Path) -> tuple[bool, Sequence[Path]]:
    """Whether a folder is a run, and the folders in it that may lead to one."""
    from ckptui import schema  # noqa: PLC0415 - only while completing

    is_run, below = False, []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name == schema.RUN_FILE:
                is_run = True
            elif schema.parse_name(entry.name) is not None:
                is_run = is_run or entry.is_dir(follow_symlinks=False)
            elif not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                below.append(folder / entry.name)
    return is_run, below


def _names(run: Path | None, folder: str) -> list[str]:
    """The names in a folder of the run, as far as a shell line can hold them."""
    if run is None:
        return []
    with contextlib.suppress(OSError):
        return [n for n in os.listdir(run / folder) if is_plain(n)]
    return []


def _by_number(names: Iterable[str]) -> list[str]:
    """Those that are checkpoint names, by kind and number."""
    from ckptui import schema  # noqa: PLC0415 - only while completing

    parsed = [(p.kind, p.number, n) for n in names if (p := schema.parse_name(n)) is not None]
    return [name for _, _, name in sorted(parsed)]


def _metrics(ctx: click.Context) -> list[str]:
    """Names of metrics, from the newest three markers and from the end of the log."""
    run = _run(ctx)
    if run is None:
        return []
    found: dict[str, None] = {}
    for name in _by_number(_names(run, ""))[:-4:-1]:
        found.update(dict.fromkeys(_in_marker(run / name)))
    found.update(dict.fromkeys(_in_log(run)))
    return sorted(name for name in found if name and is_plain(name))


def _in_marker(folder: Path) -> Iterable[str]:
    from ckptui.layouts.marker import MarkerError, read_marker  # noqa: PLC0415 - only here

    with contextlib.suppress(OSError, MarkerError):
        marker = read_marker(str(folder))
        return marker.metrics if marker is not None else ()
    return ()


def _in_log(run: Path) -> Iterable[str]:
    import json  # noqa: PLC0415 - the options of every command import this file

    from ckptui import schema  # noqa: PLC0415 - only while completing
    from ckptui.durable import open_file  # noqa: PLC0415 - as above
    from ckptui.errors import CkptuiError  # noqa: PLC0415 - as above
    from ckptui.metrics import RESERVED  # noqa: PLC0415 - as above

    found: dict[str, None] = {}
    with (
        contextlib.suppress(OSError, CkptuiError),
        os.fdopen(open_file(run / schema.METRICS_FILE), "rb") as f,
    ):
        f.seek(max(0, f.seek(0, os.SEEK_END) - _TAIL))
        for line in f.read(_TAIL).splitlines():
            with contextlib.suppress(ValueError, RecursionError):
                row = json.loads(line)
                found.update(dict.fromkeys(row if isinstance(row, dict) else ()))
    return [name for name in found if name not in RESERVED]
