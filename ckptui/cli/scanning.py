"""From PATH to what is there, for the commands that take a root, a run or a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckptui.scan import scan, scan_run

if TYPE_CHECKING:
    from pathlib import Path

    from ckptui.checkpoint import Root, Run


def scan_path(path: Path, *, depth: int) -> tuple[Root, Run | None]:
    """What is at or below a path; for a checkpoint, also its whole run.

    A link to a checkpoint, such as `latest -> step_500`, means that checkpoint.
    """
    root = scan(path, depth=depth)
    for run in root.runs:
        if root.path not in (run.path, *run.path.parents):
            return root, scan_run(run.path)
    return root, None
