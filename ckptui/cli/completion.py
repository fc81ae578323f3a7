"""Completion of checkpoint names, from folder names alone."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    import click
    from click.shell_completion import CompletionItem


def complete_checkpoint(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The names in the run that the line means so far; paths are left to the shell."""
    del param
    from click.shell_completion import CompletionItem  # noqa: PLC0415 - only while completing

    if "/" in incomplete:
        return [CompletionItem(incomplete, type="file")]
    names = [*_by_number(_names(_run(ctx), "")), "latest", "best"]
    return [CompletionItem(n) for n in names if n.startswith(incomplete)]


def complete_trash(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The ids in the trash of the run, and the names of what lies there."""
    del param
    from click.shell_completion import CompletionItem  # noqa: PLC0415 - only while completing

    from ckptui import schema  # noqa: PLC0415 - as above

    run = _run(ctx)
    folder = f"{schema.TOOL_DIR}/{schema.TRASH}"
    ids = sorted(_names(run, folder))
    inside = {name for item in ids for name in _names(run, f"{folder}/{item}")}
    return [CompletionItem(n) for n in (*_by_number(inside), *ids) if n.startswith(incomplete)]


def _run(ctx: click.Context) -> Path | None:
    from ckptui.errors import CkptuiError  # noqa: PLC0415 - only while completing
    from ckptui.locate import find_run  # noqa: PLC0415 - as above

    chosen = ctx.params.get("run")
    with contextlib.suppress(CkptuiError, OSError):
        return find_run(Path(chosen) if chosen else None, cwd=Path.cwd(), env=os.environ)
    return None


def _names(run: Path | None, folder: str) -> list[str]:
    """The names in a folder of the run, as far as a shell line can hold them."""
    if run is None:
        return []
    with contextlib.suppress(OSError):
        return [n for n in os.listdir(run / folder) if n.isprintable()]
    return []


def _by_number(names: Iterable[str]) -> list[str]:
    """Those that are checkpoint names, by kind and number."""
    from ckptui import schema  # noqa: PLC0415 - only while completing

    parsed = [(p.kind, p.number, n) for n in names if (p := schema.parse_name(n)) is not None]
    return [name for _, _, name in sorted(parsed)]
