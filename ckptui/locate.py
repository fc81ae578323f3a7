"""From what a person types to a run or a checkpoint: paths, names, numbers, `latest`, `best`."""

from __future__ import annotations

import contextlib
import difflib
import functools
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from ckptui import remove, schema
from ckptui.checkpoint import State
from ckptui.errors import AmbiguousError, NotFoundError, RefusedError, UsageError
from ckptui.layouts.native_checkpoint import describe_folder
from ckptui.retention import (
    KeepBest,
    best,
    choose_metric,
    direction,
    newest_complete,
    parse_rule,
)
from ckptui.scan import absolute, is_run, kind_of, scan, scan_run, through_link

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ckptui.checkpoint import Checkpoint, Run
    from ckptui.remove import TrashItem
    from ckptui.retention import Rule

ENV = "CKPTUI_RUN"


def find_run(run: Path | None, *, cwd: Path, env: Mapping[str, str]) -> Path:
    """The run that is meant.

    Args:
        run: A run, a checkpoint of one, or a root with exactly one run; None looks at `CKPTUI_RUN`,
            then at `cwd` and above, then below `cwd`.
        cwd: The working directory.
        env: The environment.

    Raises:
        NotFoundError: There is none.
        AmbiguousError: There are several; `candidates` names them.
    """
    if run is None and env.get(ENV):
        run = Path(env[ENV])
    if run is not None:
        run = through_link(absolute(cwd / run))
        kind = kind_of(run)
        if kind == "run":
            return run
        if kind == "checkpoint" and is_run(run.parent):
            return run.parent
        return _only_run(run)
    for folder in (absolute(cwd), *absolute(cwd).parents):
        if is_run(folder):
            return folder
    return _only_run(absolute(cwd))


def _only_run(root: Path) -> Path:
    found = scan(root)
    if len(found.runs) == 1:
        return found.runs[0].path
    if not found.runs:
        msg = f"There is no run in {root}."
        raise NotFoundError(msg)
    msg = f"There are {len(found.runs)} runs in {root}; name one with --run."
    raise AmbiguousError(msg, candidates=[str(r.path) for r in found.runs])


def find_checkpoint(
    text: str,
    run: Path | None = None,
    *,
    cwd: Path,
    env: Mapping[str, str],
    run_id: str | None = None,
) -> tuple[Run, Checkpoint]:
    """The checkpoint that is meant, with its run.

    Args:
        text: With a `/`, a path, unless it is `best:METRIC`. Else `latest`, `best`, a name, a
            step's number, a link's name, or a trash item's id.
        run: As for `find_run`.
        cwd: The working directory.
        env: The environment.
        run_id: The beginning of a run id, where one folder holds several.

    Raises:
        NotFoundError: There is none; `candidates` names those that are there.
        AmbiguousError: Several fit.
        UsageError: The text can be no checkpoint.
        RefusedError: `best` of a metric whose direction is unknown.
    """
    return find_checkpoints([text], run, cwd=cwd, env=env, run_id=run_id)[0]


def find_checkpoints(
    texts: Iterable[str],
    run: Path | None = None,
    *,
    cwd: Path,
    env: Mapping[str, str],
    run_id: str | None = None,
) -> list[tuple[Run, Checkpoint]]:
    """What several words mean, as `find_checkpoint`: each checkpoint once, each run read once."""
    read = functools.cache(scan_run)
    meant: Run | None = None
    found: dict[Path, tuple[Run, Checkpoint]] = {}
    for text in texts:
        if _is_path(text, cwd):
            there, checkpoint = _by_path(absolute(cwd / text), read)
        else:
            if not text or text.startswith("-"):
                msg = f"{text!r} is no checkpoint: give a name, a step, latest, best or a path."
                raise UsageError(msg)
            if meant is None:
                meant = read(find_run(run, cwd=cwd, env=env))
            there, checkpoint = meant, _by_word(text, meant, run_id)
        found.setdefault(checkpoint.path, (there, checkpoint))
    return list(found.values())


def _by_word(text: str, run: Run, run_id: str | None) -> Checkpoint:
    candidates = [c for c in run.checkpoints if _has_id(c, run_id)]
    if run_id is not None and not candidates:
        msg = f"No checkpoint in {run.path} has a run id that begins with {run_id}."
        raise NotFoundError(msg, candidates=run.run_ids)
    if text == "latest" or text == "best" or text.startswith("best:"):
        return _by_rank(text, run, candidates)
    published = [c for c in candidates if not c.staged]
    for one in (
        [c for c in published if c.name == text],
        _by_number(text, run, published),
        [c for c in published if text in c.aliases],
        [c for c in candidates if c.name == text],
    ):
        if one:
            return one[0]
    in_trash = _in_trash(text, run)
    if in_trash is not None:
        return in_trash
    raise _unknown(text, run, published)


def _is_path(text: str, cwd: Path) -> bool:
    """Whether the text names a path; a metric may have a `/` too, as in `best:val/loss`."""
    if text.startswith("best:") and not os.path.lexists(cwd / text):
        return False
    return "/" in text or os.sep in text


def _has_id(checkpoint: Checkpoint, run_id: str | None) -> bool:
    return run_id is None or (checkpoint.run_id or "").startswith(run_id)


def _by_path(path: Path, read: Callable[[Path], Run]) -> tuple[Run, Checkpoint]:
    path = through_link(path)
    parent = path.parent
    if not path.is_dir() and is_run(parent):
        there = read(parent)
        raise _unknown(path.name, there, [c for c in there.checkpoints if not c.staged])
    kind = kind_of(path)
    if kind == "checkpoint" and is_run(parent):
        run = read(parent)
        for c in run.checkpoints:
            if c.name == path.name and not c.staged:
                return run, c
    if kind == "run":
        msg = f"{path} is a run, not a checkpoint; name one of its checkpoints."
        raise NotFoundError(msg, candidates=[c.name for c in read(path).checkpoints])
    msg = f"{path} is not a checkpoint."
    raise NotFoundError(msg)


def _by_rank(text: str, run: Run, candidates: Sequence[Checkpoint]) -> Checkpoint:
    ids = {c.run_id for c in candidates if c.complete}
    if len(ids) > 1:
        msg = f"{run.path} holds {len(ids)} run ids; choose one with --run-id."
        raise AmbiguousError(msg, candidates=sorted(str(i) for i in ids))
    if text == "latest":
        newest = newest_complete(candidates)
        if newest is None:
            msg = f"{run.path} has no complete checkpoint."
            raise NotFoundError(msg, candidates=[c.name for c in candidates])
        return newest
    name, mode = metric_of(text, run, candidates)
    found = best(candidates, name, mode)
    if found is None:
        known = sorted({m for c in candidates for m, v in c.metrics.items() if v is not None})
        msg = f"No complete checkpoint in {run.path} has a value of {name}."
        raise NotFoundError(msg, candidates=known)
    return found


def metric_of(
    text: str, run: Run, candidates: Sequence[Checkpoint] | None = None
) -> tuple[str, str]:
    """The metric and the direction that `best` or `best:METRIC` means in a run.

    Raises:
        RefusedError: It cannot be told; the candidates are named.
    """
    policy = []
    for rule in run.policy or ():
        with contextlib.suppress(UsageError):  # a rule of a newer version names no metric to us
            policy.append(parse_rule(rule))
    metric = text.partition(":")[2]
    if metric:
        return _metric_and_mode(metric, policy)
    return choose_metric(run.checkpoints if candidates is None else candidates, policy)


def _metric_and_mode(text: str, policy: Sequence[Rule]) -> tuple[str, str]:
    name, _, end = text.rpartition(":")
    if name and end in ("min", "max"):
        return name, end
    stated = [r.mode for r in policy if isinstance(r, KeepBest) and r.metric == text and r.mode]
    mode = stated[0] if stated else direction(text)
    if mode is None:
        msg = (
            f"Whether a low or a high {text} is better is not known; "
            f"say best:{text}:min or best:{text}:max."
        )
        raise RefusedError(msg)
    return text, mode


def _by_number(text: str, run: Run, candidates: Sequence[Checkpoint]) -> list[Checkpoint]:
    if not _is_number(text):
        return []
    number = int(text)
    found = [c for c in candidates if c.step == number]
    if len(found) > 1:
        names = [c.name for c in found]
        msg = f"Step {number} is {' and '.join(names)} in {run.path}; give the name."
        raise AmbiguousError(msg, candidates=names)
    return found


def _is_number(text: str) -> bool:
    # No folder's name is longer than 255 bytes; int() refuses thousands of digits.
    return text.isascii() and text.isdigit() and len(text) < 256


def _in_trash(text: str, run: Run) -> Checkpoint | None:
    for item in remove.list_trash(run.path):
        if item.id == text and len(item.names) > 1:
            msg = f"{text} holds {len(item.names)} checkpoints; restore it to name one of them."
            raise AmbiguousError(msg, candidates=item.names)
        if item.id == text:
            return describe_folder(run.path, item.names[0], item.path, staged=True)
    return None


def restore_line(item: TrashItem) -> str:
    """The line for a shell that brings an item back."""
    return shlex.join(["ckptui", "trash", "restore", item.id, "--run", str(item.run)])


def _unknown(text: str, run: Run, candidates: Sequence[Checkpoint]) -> NotFoundError:
    names = [c.name for c in candidates if c.state is not State.UNKNOWN] or [
        c.name for c in candidates
    ]
    wanted = schema.step_name(int(text)) if _is_number(text) else text
    removed = [item for item in remove.list_trash(run.path) if wanted in item.names]
    if removed:
        several = f", {len(removed)} times" if len(removed) > 1 else ""
        line = restore_line(removed[-1])
        msg = f"{wanted} is in the trash of {run.path}{several}; `{line}` brings it back."
        return NotFoundError(msg, candidates=[item.id for item in removed])
    near = difflib.get_close_matches(wanted, names, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    shown = ", ".join(names[-8:])
    there = f" There are: {shown}." if names else " There are no checkpoints."
    more = f" There are {len(names)}, the last: {shown}." if len(names) > 8 else there
    return NotFoundError(f"There is no {text} in {run.path}.{hint}{more}", candidates=names)
