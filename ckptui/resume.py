"""Where training begins or goes on, and the command that makes it so.

`decide` reads and judges, and changes nothing: the same rules serve the recipe, the library's
`TrainingRun` and, through the line that `resume_command` prints, every shell.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ckptui import schema
from ckptui.checkpoint import Parent, State
from ckptui.errors import (
    AmbiguousError,
    FormatError,
    NewerFormatError,
    NotFoundError,
    NotResumableError,
    RefusedError,
    RunExistsError,
    StorageError,
    UsageError,
)
from ckptui.retention import newest_complete, newest_resumable, order
from ckptui.run_file import read_run_file
from ckptui.scan import absolute, is_run, kind_of, scan_run, through_link
from ckptui.verify import verify_checkpoint

if TYPE_CHECKING:
    from ckptui.checkpoint import Checkpoint, Run

Action = Literal["fresh", "restart", "continue", "rewind", "fork"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a training process will do first."""

    action: Action
    """`restart`: the run is there but has nothing to continue from."""
    checkpoint: Checkpoint | None = None
    """What will be loaded; its sizes and digests have been checked."""
    attempt: int = 1
    """The number of the attempt to make."""
    run: Run | None = None
    """The run in the output folder, if there is one."""
    messages: tuple[str, ...] = ()
    """What the user should know, in sentences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """What a decision is made from."""

    output: Path
    run: Run | None
    verified: Checkpoint | None

    def next_attempt(self) -> int:
        if self.run is None:
            return 1
        seen = [a.attempt for a in self.run.attempts]
        seen += [c.attempt for c in self.run.checkpoints if c.attempt is not None]
        return max(seen, default=0) + 1


def decide(
    output_dir: Path,
    resume_from: str | Path | None,
    *,
    rewind: int | None = None,
    verified: Checkpoint | None = None,
) -> Decision:
    """What training into `output_dir` has to do first; reads only.

    Args:
        output_dir: The run's folder, there or not.
        resume_from: None for a fresh run, `latest`, `auto`, or the path of a checkpoint or run.
        rewind: The number of the attempt that may abandon newer checkpoints.
        verified: A checkpoint whose digests have been compared already.

    Raises:
        RunExistsError: A fresh run, or another fork, where there is a run.
        NotFoundError: There is no such checkpoint, or none to resume.
        NotResumableError: The one asked for cannot be resumed, or is damaged.
        RefusedError: Newer checkpoints would be abandoned unasked, or are pinned.
        AmbiguousError: Several run ids share the folder.
        StorageError: What is there cannot be read, so nothing can be decided.
    """
    output = absolute(output_dir)
    run = _run_at(output)
    case = _Case(output=output, run=run, verified=verified)
    if run is not None and run.layout != "native":
        msg = f"{output} holds checkpoints that ckptui did not write; train into another folder."
        raise RunExistsError(msg)
    if resume_from is None or resume_from == "":
        if run is not None:
            msg = (
                f"{output} already holds a run; continue it with resume_from=auto, or choose "
                "another output_dir."
            )
            raise RunExistsError(msg)
        return Decision(action="fresh")
    decision = _where(case, resume_from, rewind)
    warning = unhealthy(decision.checkpoint) if decision.checkpoint else None
    if warning is None:
        return decision
    return replace(decision, messages=(*decision.messages, warning))


def _run_at(output: Path) -> Run | None:
    """The run in the output folder; None where there is certainly none.

    Raises:
        RefusedError: The folder is a checkpoint.
        StorageError: The folder or its `run.json` cannot be read, or a newer ckptui wrote it.
    """
    try:
        kind = kind_of(output)
    except NotFoundError:
        return None  # making the folder will tell what else may be there
    if kind == "checkpoint" and (output / schema.MARKER).exists():
        msg = f"{output} is a checkpoint; train into its run {output.parent} or another folder."
        raise RefusedError(msg)
    if kind != "run":
        return None
    run = scan_run(output)
    if any(p.path == output / schema.RUN_FILE for p in run.problems):
        try:
            read_run_file(output)
        except NewerFormatError:
            raise
        except FormatError:
            return run  # damaged for good: the run goes on without it
        msg = f"{output / schema.RUN_FILE} could not be read just now; start again."
        raise StorageError(msg, path=output / schema.RUN_FILE)
    return run


def _where(case: _Case, resume_from: str | Path, rewind: int | None) -> Decision:
    if resume_from in ("auto", "latest"):
        return _by_word(case, strict=resume_from == "latest")
    path = absolute(Path(resume_from))
    if case.run is not None and _is_done_already(case.run, path, rewind):
        return _by_word(case, strict=False)
    return _by_path(case, _source(path), rewind)


def _is_done_already(run: Run, path: Path, rewind: int | None) -> bool:
    """Whether an earlier start by the same words has done what they ask.

    The source itself may be gone by now: a command that was emitted once can be run again.
    """
    if rewind is not None and _same_folder(path.parent, run.path):
        return any(a.attempt == rewind for a in run.attempts)
    origin = _origin(run)
    # Words that name a whole run mean another checkpoint of it each time; the fork is the same.
    return origin is not None and (path == origin or _same_folder(path, origin.parent))


def _by_word(case: _Case, *, strict: bool) -> Decision:
    run = case.run
    if run is None:
        if strict:
            msg = f"{case.output} holds no run, so there is no latest checkpoint to resume."
            raise NotFoundError(msg)
        return Decision(action="fresh", messages=_strangers(case.output))
    _one_id(run)
    messages: list[str] = []
    candidates = [c for c in run.checkpoints if c.resumable and c.current and not c.staged]
    for checkpoint in sorted(candidates, key=order, reverse=True):
        fault = _fault(checkpoint, case.verified)
        if fault is None:
            newest = newest_complete(run.checkpoints)
            if newest is not None and newest is not checkpoint and newest not in candidates:
                messages.append(
                    f"{newest.name} is newer but cannot be resumed; going on from "
                    f"{checkpoint.name}."
                )
            messages += passed_over(run, checkpoint)
            refuse_unknown(run, above=checkpoint)
            return Decision(
                action="continue",
                checkpoint=checkpoint,
                attempt=case.next_attempt(),
                run=run,
                messages=tuple(messages),
            )
        messages.append(f"{checkpoint.name} is damaged and passed over: {fault}.")
    return _without_candidate(case, run, messages, damaged=bool(candidates), strict=strict)


def _strangers(output: Path) -> tuple[str, ...]:
    """A line for a folder that is no run but not empty: what it holds may have been a training."""
    try:
        names = [n for n in os.listdir(output) if not n.startswith(".")]
    except OSError:
        return ()
    names = sorted(set(names) - schema.RUN_OWN_NAMES)
    if not names:
        return ()
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return (
        f"{output} holds {shown}, which ckptui did not write: nothing of it is resumed, training "
        "starts at step 0.",
    )


def _without_candidate(
    case: _Case, run: Run, messages: list[str], *, damaged: bool, strict: bool
) -> Decision:
    refuse_unknown(run)
    if damaged:
        msg = (
            f"Every resumable checkpoint in {case.output} is damaged: {' '.join(messages)} "
            "Nothing was changed: bring one back from a copy, or train into another output_dir."
        )
        raise NotResumableError(msg)
    if newest_complete(run.checkpoints) is not None:
        msg = (
            f"No complete checkpoint in {case.output} can be resumed: they hold weights only. "
            "Start a new run from the weights with model=PATH."
        )
        raise NotResumableError(msg, candidates=[c.name for c in run.checkpoints if c.complete])
    origin = _origin(run)
    if origin is not None:
        return Decision(
            action="fork",
            checkpoint=_sound(_source(origin), case.verified),
            attempt=case.next_attempt(),
            run=run,
            messages=("This fork has saved nothing yet; starting again from its source.",),
        )
    if strict:
        msg = f"{case.output} has no checkpoint to resume."
        raise NotFoundError(msg, candidates=[c.name for c in run.checkpoints])
    if any(p.path == run.path / schema.RUN_FILE for p in run.problems):
        msg = (
            f"{run.path / schema.RUN_FILE} is damaged and nothing was saved, so it cannot be told "
            "what the run began with; train into another output_dir."
        )
        raise NotResumableError(msg)
    return Decision(
        action="restart",
        attempt=case.next_attempt(),
        run=run,
        messages=("The run has no complete checkpoint; starting at step 0 again.",),
    )


def refuse_unknown(run: Run, *, above: Checkpoint | None = None) -> None:
    """Refuse to go on below a checkpoint that may be sound, only not to us or not at this moment.

    Raises:
        NotResumableError: There is one: of a newer format, or not accessible.
    """
    for c in run.checkpoints:
        if c.state is State.UNKNOWN and (above is None or order(c) > order(above)):
            what = c.problems[0].what if c.problems else "nothing explains it"
            msg = (
                f"{c.name} in {run.path} cannot be judged ({what}), so training does not go on "
                "without it; make it readable, or move it out of the run."
            )
            raise NotResumableError(msg)


def passed_over(run: Run, chosen: Checkpoint) -> list[str]:
    """What lies above the chosen checkpoint and cannot be used, with the piece that is missing."""
    found = []
    for c in run.checkpoints:
        if c.complete or c.staged or order(c) < order(chosen):
            continue
        what = c.problems[0].what if c.problems else str(c.state)
        found.append(f"{c.name} is {c.state} and passed over: {what}.")
    return found


def _origin(run: Run) -> Path | None:
    """The checkpoint of another run that a fork began with."""
    for attempt in run.attempts:
        if attempt.parent is not None and attempt.parent.path is not None:
            return Path(attempt.parent.path)
    return None


def ids_of(run: Run) -> tuple[str, ...]:
    """The run ids whose complete checkpoints lie in a folder; of several none is the latest."""
    return tuple(sorted({c.run_id for c in run.checkpoints if c.complete and c.run_id}))


def _one_id(run: Run) -> None:
    ids = ids_of(run)
    if len(ids) > 1:
        msg = f"{run.path} holds checkpoints of {len(ids)} run ids; name the checkpoint to resume."
        raise AmbiguousError(msg, candidates=ids)


def _source(path: Path) -> Checkpoint:
    """The checkpoint that a path means: itself, or the newest resumable one of a run."""
    path = through_link(absolute(path))
    if not path.is_dir():
        there = scan_run(path.parent).checkpoints if is_run(path.parent) else ()
        names = [c.name for c in there if not c.staged]
        known = f" There are: {', '.join(names[-8:])}." if names else ""
        msg = f"There is no checkpoint {path}.{known}"
        raise NotFoundError(msg, candidates=names)
    if kind_of(path) == "checkpoint":
        for c in scan_run(path.parent).checkpoints if is_run(path.parent) else ():
            if c.name == path.name and not c.staged:
                return c
    elif kind_of(path) == "run":
        run = scan_run(path)
        _one_id(run)
        newest = newest_resumable(run.checkpoints)
        if newest is not None:
            return newest
        msg = f"The run {path} has no checkpoint to resume."
        raise NotFoundError(msg)
    msg = f"{path} is neither a checkpoint nor a run."
    raise NotFoundError(msg)


def _sound(checkpoint: Checkpoint, verified: Checkpoint | None) -> Checkpoint:
    """The checkpoint, if it is resumable and its content is what was written."""
    if not checkpoint.resumable:
        raise NotResumableError(why_not_resumable(checkpoint))
    fault = _fault(checkpoint, verified)
    if fault is not None:
        msg = f"{checkpoint.path} is damaged: {fault}."
        raise NotResumableError(msg)
    return checkpoint


def unhealthy(checkpoint: Checkpoint) -> str | None:
    """The warning that a checkpoint's weights were not finite when it was saved, if so."""
    count = len(checkpoint.nonfinite)
    if not count:
        return None
    return (
        f"{checkpoint.name} holds NaN or infinity in {count} weight tensor{'s' * (count > 1)}, "
        f"{checkpoint.nonfinite[0]} first; training from it will not recover."
    )


def why_not_resumable(checkpoint: Checkpoint) -> str:
    """One sentence on why training cannot continue from a checkpoint."""
    if checkpoint.state is State.ADAPTER:
        return (
            f"{checkpoint.name} holds an adapter; using it needs its base model too, and training "
            "cannot continue from it."
        )
    if checkpoint.complete:
        return (
            f"{checkpoint.name} holds weights only; training cannot continue from it exactly. "
            f"A new run can start from its weights: model={checkpoint.path}."
        )
    what = checkpoint.problems[0].what if checkpoint.problems else "something is missing"
    return f"{checkpoint.name} is {checkpoint.state}, so it cannot be resumed: {what}."


def _fault(checkpoint: Checkpoint, verified: Checkpoint | None) -> str | None:
    """What is wrong with a checkpoint's content, or None."""
    if (
        verified is not None
        and verified.path == checkpoint.path
        and verified.identity == checkpoint.identity
    ):
        return None
    report = verify_checkpoint(checkpoint, full=True)
    if report.status != "failed":
        return None
    problem = report.problems[0]
    return f"{problem.file} {problem.what}".strip()


def _by_path(case: _Case, source: Checkpoint, rewind: int | None) -> Decision:
    if case.run is None:
        return Decision(action="fork", checkpoint=_sound(source, case.verified))
    if source.run != case.output and not _same_folder(source.run, case.output):
        return _into_fork(case, case.run, source)
    if rewind is not None and rewind != case.next_attempt():
        msg = f"rewind={rewind} is not the attempt to make: the next one is {case.next_attempt()}."
        raise UsageError(msg)
    mine = [c for c in case.run.checkpoints if c.run_id == source.run_id]
    newer = [
        c for c in mine if c.complete and c.current and not c.staged and order(c) > order(source)
    ]
    newest = newest_resumable(mine)
    is_newest = source.current and newest is not None and newest.path == source.path
    if is_newest and rewind is None:
        return Decision(
            action="continue",
            checkpoint=_sound(source, case.verified),
            attempt=case.next_attempt(),
            run=case.run,
        )
    if rewind is None:
        after = f"{len(newer)} newer one{'s' * (len(newer) != 1)}"
        msg = (
            f"{source.name} is not the newest checkpoint of {case.output}: {after} would be "
            f"abandoned. Say rewind={case.next_attempt()} to move them to the trash, or choose "
            "another output_dir to fork."
        )
        raise RefusedError(msg)
    if not source.current:
        msg = f"{source.name} belongs to an abandoned branch; fork it into another output_dir."
        raise RefusedError(msg)
    pinned = [c.name for c in newer if c.pinned]
    if pinned:
        msg = (
            f"Rewinding to {source.name} would abandon {', '.join(pinned)}, which is pinned; "
            "unpin it, or fork into another output_dir."
        )
        raise RefusedError(msg)
    return Decision(
        action="rewind",
        checkpoint=_sound(source, case.verified),
        attempt=case.next_attempt(),
        run=case.run,
    )


def _into_fork(case: _Case, run: Run, source: Checkpoint) -> Decision:
    """Go on with a fork that `source` began; any other run in the output folder is refused."""
    first = min(run.attempts, key=lambda a: a.attempt, default=None)
    if first is None or not _is_source(first.parent, source):
        msg = (
            f"{case.output} holds another run, not a fork of {source.path}; "
            "choose another output_dir."
        )
        raise RunExistsError(msg)
    return _by_word(case, strict=False)


def _is_source(parent: Parent | None, source: Checkpoint) -> bool:
    if parent is None or parent.path is None:
        return False
    return (parent.run_id, parent.attempt, parent.step) == (
        source.run_id,
        source.attempt,
        source.step,
    )


def _same_folder(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def parent_of(checkpoint: Checkpoint, *, forked: bool) -> Parent:
    """The parent that an attempt from `checkpoint` records."""
    return Parent(
        name=checkpoint.name,
        step=checkpoint.step,
        run_id=checkpoint.run_id,
        attempt=checkpoint.attempt,
        path=str(checkpoint.path) if forked else None,
    )
