"""`prune` and `rm`: a plan first, then the question, then one removal at a time."""

from __future__ import annotations

import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ckptui import guard, retention
from ckptui.checkpoint import Checkpoint, Run
from ckptui.cli.completion import complete_best, complete_checkpoint
from ckptui.cli.finding import named_run, standing_checkpoints
from ckptui.cli.options import (
    PATH,
    F,
    agreed,
    checkpoint_arguments,
    depth_option,
    json_option,
    now,
    one_of,
    refuse_unasked,
    run_id_option,
    run_option,
    tell_problems,
    yes_option,
)
from ckptui.cli.streams import print_json, report, tell
from ckptui.display.forms import plan_form
from ckptui.display.tables import plan_table
from ckptui.display.text import plural, size, visible
from ckptui.errors import AmbiguousError, CkptuiError, NotFoundError
from ckptui.prune import Removal, execute
from ckptui.retention import Action, PrunePlan
from ckptui.scan import absolute, kind_of, scan, scan_run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

    from ckptui.remove import Why


class RuleValue(click.ParamType):  # type: ignore[type-arg] # generic only in newer click
    """A rule's value, parsed by the library and refused as wrong usage."""

    def __init__(self, name: str, parse: Callable[[str], retention.Rule]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The rule, or the library's sentence as a usage error."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except CkptuiError as e:
            self.fail(str(e), param, ctx)


def _within(text: str) -> retention.Rule:
    return retention.KeepWithin(retention.parse_duration(text), text)


def rule_options(command: F) -> F:
    """The rules of `prune`, as the contract of the command line has them."""
    last = RuleValue("N", lambda t: retention.KeepLast(retention.parse_count(t, "--keep-last")))
    every = RuleValue("K", lambda t: retention.KeepEvery(retention.parse_count(t, "--keep-every")))
    options = [
        click.option("--keep-last", type=last, help="Keep the N newest."),
        click.option("--keep-every", type=every, help="Keep steps divisible by K; 0 is."),
        click.option(
            "--keep-best",
            type=RuleValue("N[:METRIC[:min|:max]]", retention.parse_best),
            multiple=True,
            help="Keep the N best by a metric. Repeatable.",
            shell_complete=complete_best,
        ),
        click.option(
            "--keep-within",
            type=RuleValue("PERIOD", _within),
            help="Keep those saved within a period, such as 12h or 7d.",
        ),
        click.option(
            "--keep",
            "keep_names",
            multiple=True,
            metavar="NAME",
            help="Keep this one as well. Repeatable.",
            shell_complete=complete_checkpoint,
        ),
        click.option(
            "--incomplete",
            is_flag=True,
            help="Remove what saves left unfinished; alone it keeps every complete one.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def doing_options(command: F) -> F:
    """How a removal is done."""
    command = yes_option(command)
    command = click.option("--dry-run", "-n", is_flag=True, help="Only show the plan.")(command)
    return click.option(
        "--delete", is_flag=True, help="Give the space back at once; cannot be undone."
    )(command)


@click.command(
    epilog="""\b
Examples:
  ckptui prune outputs/my-run --keep-last 3 --keep-every 1000 --dry-run
  ckptui prune --keep-best 2:eval_loss --keep-within 7d --yes
  ckptui prune outputs/my-run --incomplete --delete
"""
)
@click.argument("path", type=PATH, required=False)
@rule_options
@click.option("--all-runs", is_flag=True, help="Apply the rules to every run below PATH.")
@run_option
@run_id_option
@depth_option
@doing_options
@json_option
def prune(
    path: Path | None,
    keep_last: retention.KeepLast | None,
    keep_every: retention.KeepEvery | None,
    keep_best: tuple[retention.KeepBest, ...],
    keep_within: retention.KeepWithin | None,
    keep_names: tuple[str, ...],
    incomplete: bool,
    all_runs: bool,
    run: Path | None,
    run_id: str | None,
    depth: int,
    delete: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Move the checkpoints of a run that no rule keeps to the trash.

    A checkpoint stays if any rule keeps it. The newest resumable one, pinned ones, what links point
    to and what is in use always stay. `ckptui trash restore` brings everything back.
    """
    rules = [r for r in (keep_last, keep_every, *keep_best, keep_within) if r is not None]
    if keep_names and not rules and not incomplete:
        msg = "--keep only protects names; add a rule such as --keep-last 3."
        raise click.UsageError(msg)
    if not rules and not incomplete:
        msg = "No rule was given, so nothing would be kept; give one such as --keep-last 3."
        raise click.UsageError(msg)
    runs = _runs(one_of(path, run, name="PATH"), all_runs=all_runs, depth=depth)
    if run_id is not None:
        runs = [_only(r, run_id) for r in runs]
    _check_names(keep_names, runs)
    plans = [_plan(r, rules, keep_names, incomplete=incomplete) for r in runs]
    _carry_out(runs, plans, "prune", delete=delete, dry_run=dry_run, yes=yes, as_json=as_json)


def _runs(path: Path | None, *, all_runs: bool, depth: int) -> list[Run]:
    if path is None and not all_runs:
        return [named_run(None)]
    path = absolute(path or Path())
    kind = kind_of(path)
    if kind == "checkpoint":
        msg = f"{path} is one checkpoint; prune its run {path.parent}, or use ckptui rm."
        raise NotFoundError(msg, candidates=[str(path.parent)])
    if kind == "run" and not all_runs:
        return [scan_run(path)]
    root = scan(path, depth=depth)
    if not root.runs:
        there = plural(len(root.ignored), "name") if root.ignored else "nothing"
        msg = f"No checkpoints in {root.path}: {there} there, none of it recognised."
        raise NotFoundError(msg, candidates=root.ignored[:10])
    if len(root.runs) > 1 and not all_runs:
        msg = f"There are {len(root.runs)} runs below {root.path}; name one, or add --all-runs."
        raise AmbiguousError(msg, candidates=[str(r.path) for r in root.runs])
    tell_problems(root.problems)
    return list(root.runs)


def _check_names(names: Sequence[str], runs: Sequence[Run]) -> None:
    """Refuse a name to keep that nothing has: what it was meant to protect would go."""
    known = list(dict.fromkeys(c.name for r in runs for c in r.checkpoints))
    absent = [n for n in names if n not in known]
    if absent:
        from difflib import get_close_matches  # noqa: PLC0415 - only for a mistake

        near = get_close_matches(absent[0], known, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        msg = f"There is no {', '.join(absent)} to keep.{hint}"
        raise NotFoundError(msg, candidates=known)


def _only(run: Run, run_id: str) -> Run:
    mine = tuple(c for c in run.checkpoints if (c.run_id or "").startswith(run_id))
    if not mine:
        msg = f"No checkpoint in {run.path} has a run id that begins with {run_id}."
        raise NotFoundError(msg, candidates=run.run_ids)
    ids = list(dict.fromkeys(str(c.run_id) for c in mine))
    if len(ids) > 1:
        msg = f"{len(ids)} run ids in {run.path} begin with {run_id}; give more of it."
        raise AmbiguousError(msg, candidates=ids)
    return replace(run, checkpoints=mine)


def _plan(
    run: Run, rules: Sequence[retention.Rule], names: Sequence[str], *, incomplete: bool
) -> PrunePlan:
    mine = {c.name for c in run.checkpoints}
    named = tuple(n for n in names if n in mine)
    policy = []
    for text in run.policy or ():
        try:
            policy.append(retention.parse_rule(text))
        except CkptuiError:
            continue  # a rule of a newer version says nothing about the metric
    return retention.plan_prune(
        run.checkpoints,
        [*rules, *([retention.KeepNames(named)] if named else [])],
        now=now(),
        incomplete=incomplete,
        protected=run.protected,
        policy=policy,
        live=run.live,
    )


@click.command(
    epilog="""\b
Examples:
  ckptui rm step_500 step_600
  ckptui rm step_500 --delete --yes
"""
)
@checkpoint_arguments(many=True)
@run_option
@run_id_option
@doing_options
@json_option
def rm(
    checkpoints: tuple[str, ...],
    run: Path | None,
    run_id: str | None,
    delete: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Move the named checkpoints to the trash.

    Pinned ones and the newest resumable one are refused; incomplete and abandoned ones may be
    named.
    """
    chosen: dict[Path, tuple[Run, list[Checkpoint]]] = {}
    for there, checkpoint in standing_checkpoints(checkpoints, run, run_id):
        chosen.setdefault(there.path, (there, []))[1].append(checkpoint)
    runs = [there for there, _ in chosen.values()]
    plans = [
        retention.plan_remove(there.checkpoints, mine, protected=there.protected, live=there.live)
        for there, mine in chosen.values()
    ]
    _carry_out(runs, plans, "rm", delete=delete, dry_run=dry_run, yes=yes, as_json=as_json)


def _carry_out(
    runs: Sequence[Run],
    plans: Sequence[PrunePlan],
    why: Why,
    *,
    delete: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Show the plans, ask, and do them."""
    only_plan = dry_run or (as_json and not yes)
    if not as_json:
        _show(runs, plans, delete=delete)
    if only_plan:
        if as_json:
            print_json(plan_form(plans, executed=False))
        return
    count = sum(len(plan.removals) for plan in plans)
    for run, plan in zip(runs, plans, strict=True):
        if plan.removals:
            # Before the question: there is nothing to be agreed to.
            guard.require_changes_allowed(f"{why} checkpoints of {run.name}", run.path)
    if not yes:
        refuse_unasked()
        if count and not _agreed(runs, plans, count, delete=delete):
            tell("Nothing was removed.")
            raise click.exceptions.Exit(1)
    free_before = _free(runs)
    results: list[Removal] = []
    stopped = False
    with _gentle_stop() as asked_to_stop:
        for plan in plans:
            for removal in execute(plan, why=why, delete=delete):
                results.append(removal)
                if asked_to_stop():
                    stopped = True
                    break
            if stopped:
                break
    free_after = _free(runs)
    if as_json:
        print_json(plan_form(plans, executed=True, results=results))
    else:
        _report(results, delete=delete, rose=_rise(free_before, free_after))
    for result in results:
        if result.error is not None and not as_json:
            tell(f"! {result.checkpoint.path}: {result.error}")
    freed = sum(r.freed for r in results)
    _compare_space(freed, _rise(free_before, free_after))
    if stopped:
        tell("Interrupted; what is done is done, the rest was not touched.")
        raise click.exceptions.Exit(130)
    if any(r.error is not None for r in results):
        raise click.exceptions.Exit(1)


def _show(runs: Sequence[Run], plans: Sequence[PrunePlan], *, delete: bool) -> None:
    for run, plan in zip(runs, plans, strict=True):
        report(visible(str(run.path)))
        report(plan_table(plan.rows))
        counts = {a: sum(r.action is a for r in plan.rows) for a in Action}
        parts = [f"{a} {n}" for a, n in counts.items() if n]
        when = "at once" if delete else "once the trash is emptied"
        report(f"{', '.join(parts) or 'no checkpoints'}; frees {size(plan.frees)} {when}")
        for note in plan.notes:
            tell(note)
        for warning in plan.warnings:
            tell(f"! {warning}")
        if run.live and plan.removals:
            tell("! This run is being trained right now.")
        if run.ignored:
            tell(
                f"{plural(len(run.ignored), 'other name')} not recognised and left alone: "
                f"{', '.join(run.ignored[:5])}"
            )


def _agreed(runs: Sequence[Run], plans: Sequence[PrunePlan], count: int, *, delete: bool) -> bool:
    what = plural(count, "checkpoint")
    where = str(runs[0].path) if len(runs) == 1 else plural(len(runs), "run")
    frees = size(sum(plan.frees for plan in plans))
    if delete:
        return agreed(f"Delete {what} of {where} for good ({frees})?")
    return agreed(f"Move {what} of {where} to the trash ({frees})?")


def _report(results: Sequence[Removal], *, delete: bool, rose: int | None) -> None:
    done = [r for r in results if r.done]
    if not results:
        tell("Nothing to remove.")
        return
    if delete:
        freed = size(sum(r.freed for r in results))
        measured = f" (free space rose by {size(max(0, rose))})" if rose is not None else ""
        report(f"deleted {plural(len(done), 'checkpoint')}, freed {freed}{measured}")
        return
    later = size(sum(r.checkpoint.size for r in done))
    report(f"moved {plural(len(done), 'checkpoint')} ({later}) to the trash; freed nothing yet")
    items: dict[Path, list[str]] = {}
    for r in done:
        if r.item is not None:
            items.setdefault(r.checkpoint.run, []).append(r.item)
    import shlex  # noqa: PLC0415 - only for the line that undoes it

    for run, ids in items.items():
        tell(f"Undo: ckptui trash restore {' '.join(ids)} --run {shlex.quote(str(run))}")
        tell(f"Free the space: ckptui trash empty --run {shlex.quote(str(run))}")


def _free(runs: Sequence[Run]) -> int | None:
    try:
        return shutil.disk_usage(runs[0].path).free if runs else None
    except OSError:
        return None


def _rise(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before


def _compare_space(freed: int, rose: int | None) -> None:
    """Say so where deleting did not give the space back (a trash or snapshots of the mount)."""
    # Of less than this nothing can be said: others write too, and blocks are larger than files.
    if freed < 2**20 or rose is None:
        return
    if rose < freed / 2:
        tell(
            f"Deleted files of {size(freed)}, but free space rose by {size(max(0, rose))}: the "
            "file system may keep them (snapshots, a trash of its own), or others are writing."
        )


class _gentle_stop:  # noqa: N801 - reads as a function
    """Within it, Ctrl+C only asks: the removal at work is finished first. A second one insists."""

    def __enter__(self) -> Callable[[], bool]:
        self._asked = False
        self._before: Any = None
        try:
            self._before = signal.signal(signal.SIGINT, self._ask)
        except ValueError:  # not the main thread: nothing to catch there
            self._before = None
        return lambda: self._asked

    def _ask(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
