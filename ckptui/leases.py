"""Leases: a fork asks the run it came from to keep the source until the fork has saved."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ckptui import journal, process, schema
from ckptui.durable import read_json_object, refuse_links, replace_file, sync_dir, to_json, tool_dir
from ckptui.errors import RefusedError, StorageError
from ckptui.run_file import read_run_file, whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ckptui.checkpoint import Checkpoint

_UNSTARTED_SECONDS = 24 * 3600.0
"""How long a fork of another machine may take to write its `run.json`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A fork's claim on a checkpoint of its parent run."""

    path: Path
    name: str
    """The checkpoint that must stay."""
    fork: Path | None
    fork_run_id: str | None
    host: str | None
    boot_id: str | None
    pid: int | None
    start_time: int | None
    pid_space: str | None


def lease_path(parent_run: Path, fork_run_id: str) -> Path:
    """Where the lease of a fork stands in its parent run."""
    return parent_run / schema.TOOL_DIR / schema.LEASES / f"{fork_run_id}.json"


def write_lease(source: Checkpoint, *, fork: Path, fork_run_id: str) -> None:
    """Protect `source` until the fork has saved.

    Raises:
        RefusedError: A link stands where the leases should.
        OSError: The parent run cannot be written.
    """
    path = lease_path(source.run, fork_run_id)
    folder = tool_dir(source.run, schema.LEASES)
    content = {
        "name": source.name,
        "run_id": source.run_id,
        "step": source.step,
        "created": source.created_text,
        "fork": str(fork),
        "fork_run_id": fork_run_id,
        "host": journal.host(),
        "boot_id": process.boot_id(),
        "pid": os.getpid(),
        "start_time": process.start_time(os.getpid()),
        "pid_space": process.pid_space(),
        "when": schema.now_text(),
    }
    replace_file(path, to_json(content))
    sync_dir(folder.parent)


def drop_lease(parent_run: Path, fork_run_id: str) -> None:
    """Give the source free; a lease that cannot be removed is void once the fork has saved."""
    with contextlib.suppress(OSError, RefusedError):
        refuse_links(parent_run, schema.LEASES)
        lease_path(parent_run, fork_run_id).unlink()


def leased(run: Path) -> Mapping[str, str]:
    """The names of checkpoints of this run that forks still need, with the reason."""
    folder = run / schema.TOOL_DIR / schema.LEASES
    try:
        names = [n for n in os.listdir(folder) if n.endswith(".json")]
    except OSError:
        return {}
    found = {}
    for file_name in names:
        lease = _read(folder / file_name)
        if lease is not None and _is_needed(lease):
            found[lease.name] = f"a fork still needs it: {lease.fork}"
    return found


def _read(path: Path) -> Lease | None:
    try:
        raw = read_json_object(path, limit=schema.MAX_LINE_SIZE)
    except (OSError, StorageError):
        return None
    texts = {k: v for k, v in raw.items() if isinstance(v, str)}
    if "name" not in texts:
        return None
    return Lease(
        path=path,
        name=texts["name"],
        fork=Path(texts["fork"]) if texts.get("fork") else None,
        fork_run_id=texts.get("fork_run_id"),
        host=texts.get("host"),
        boot_id=texts.get("boot_id"),
        pid=whole(raw.get("pid")),
        start_time=whole(raw.get("start_time")),
        pid_space=texts.get("pid_space"),
    )


def _is_needed(lease: Lease) -> bool:
    if lease.fork is None:
        return False
    try:
        started = read_run_file(lease.fork)
    except StorageError:
        return True
    if started is not None:
        # A name appears only once its checkpoint is complete.
        return started.run_id == lease.fork_run_id and not _has_saved(lease.fork)
    here = process.is_here(lease.boot_id, lease.pid_space) and lease.host == journal.host()
    if here and lease.pid is not None:
        return process.is_running(lease.pid, lease.start_time)
    with contextlib.suppress(OSError):
        return time.time() - lease.path.stat().st_mtime < _UNSTARTED_SECONDS
    return False


def _has_saved(fork: Path) -> bool:
    try:
        return any(
            schema.parse_name(n) and (fork / n / schema.MARKER).exists() for n in os.listdir(fork)
        )
    except OSError:
        return False
