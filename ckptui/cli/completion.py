"""Completion of checkpoint names, from folder names alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from click.shell_completion import CompletionItem

from ckptui import schema

if TYPE_CHECKING:
    import click


def complete_checkpoint(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The names in the run that the line means so far; paths are left to the shell."""
    del param
    if "/" in incomplete:
        return [CompletionItem(incomplete, type="file")]
    from ckptui.errors import CkptuiError  # noqa: PLC0415 - as quick as can be
    from ckptui.locate import find_run  # noqa: PLC0415

    chosen = ctx.params.get("run")
    try:
        run = find_run(Path(chosen) if chosen else None, cwd=Path.cwd(), env=os.environ)
        names = os.listdir(run)
    except (CkptuiError, OSError):
        return []
    real = [n for n in names if schema.parse_name(n)]
    real.sort(
        key=lambda n: (parsed.kind, parsed.number) if (parsed := schema.parse_name(n)) else ("", 0)
    )
    return [CompletionItem(n) for n in [*real, "latest", "best"] if n.startswith(incomplete)]
