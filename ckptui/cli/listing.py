"""`ls`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from ckptui.cli.choosing import Choice, parse_choice, unknown_metrics
from ckptui.cli.completion import complete_columns, complete_filter, complete_sort
from ckptui.cli.options import PATH, depth_option, json_option, now, tell_problems
from ckptui.cli.scanning import scan_path
from ckptui.cli.streams import print_json, say, say_names, tell
from ckptui.display.columns import (
    DEFAULT,
    check_columns,
    metrics_of,
    parse_columns,
    run_table,
)
from ckptui.display.forms import root_form
from ckptui.display.tables import run_heading
from ckptui.display.text import plural
from ckptui.errors import UsageError
from ckptui.ranking import newest_complete, newest_resumable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ckptui.checkpoint import Root, Run
    from ckptui.fields import Facts


@click.command(
    epilog="""\b
Examples:
  ckptui ls outputs/
  ckptui ls outputs/my-run --json
  ckptui ls --filter "step>=2000 !state:ok" --sort eval_loss
  ckptui ls -q --filter "eval_loss<1.9" | xargs ckptui pin

\b
A filter has words that the name must hold, and comparisons: step, epoch,
size, age, created or a metric with : = != < <= > >=; state, pin, note, kept,
run, name with : = !=; has:METRIC. A space is and, | is or, ! is not; quotes
hold a value together: --filter "note:'LR drop' size>10G age<2h".
"""
)
@click.argument("path", type=PATH, default=Path())
@click.option(
    "--filter",
    "filter_text",
    metavar="EXPR",
    help="Only what matches; see below.",
    shell_complete=complete_filter,
)
@click.option(
    "--sort",
    metavar="FIELD",
    help="By step, size, age, state, name or a metric; -FIELD reverses. No value: last.",
    shell_complete=complete_sort,
)
@click.option(
    "--columns",
    metavar="A,B,...",
    help="Of the table: flags, name, step, epoch, state, metrics, size, age, created, kept, note, "
    "attempt, run, path, or metrics by name.",
    shell_complete=complete_columns,
)
@click.option(
    "-q",
    "--quiet-names",
    "quiet",
    is_flag=True,
    help="Only names, one a line; of several runs, paths.",
)
@click.option("-0", "--null", is_flag=True, help="As -q, each ended by a NUL character.")
@depth_option
@json_option
def ls(
    path: Path,
    filter_text: str | None,
    sort: str | None,
    columns: str | None,
    quiet: bool,
    null: bool,
    depth: int,
    as_json: bool,
) -> None:
    """List the runs and checkpoints below PATH: a root, a run or a checkpoint.

    Flags: P pinned, * best by a metric that is shown, ~ being written, ! something is wrong,
    - abandoned branch.
    """
    if as_json and (quiet or null):
        msg = "Choose one of --json and -q or -0."
        raise UsageError(msg)
    shown = parse_columns(columns) if columns is not None else ()
    if not shown and not (as_json or quiet or null):
        shown = _usual_columns()
    choice = parse_choice(filter_text, sort, metrics_of(shown), by_name=columns is not None)
    if quiet or null:
        _list_names(path, choice, depth=depth, null=null)
    else:
        list_path(path, depth=depth, as_json=as_json, choice=choice, columns=shown)


def _usual_columns() -> tuple[str, ...]:
    """The columns that the user prefers, if there is a preference that can be understood."""
    from ckptui.preferences import load  # noqa: PLC0415 - only a table has columns

    try:
        preferences = load(os.environ)
    except UsageError as e:
        tell(f"! {e}")
        return DEFAULT
    try:
        return check_columns(preferences.columns or DEFAULT)
    except UsageError as e:
        tell(f"! {preferences.file}: columns: {e}")
        return DEFAULT


def list_path(
    path: Path,
    *,
    depth: int,
    as_json: bool,
    choice: Choice | None = None,
    columns: Sequence[str] = DEFAULT,
) -> None:
    """List what is at or below a path."""
    choice = choice or Choice()
    root, whole = scan_path(path, depth=depth)
    listed = _choose(root, whole, choice)
    if as_json:
        runs = [(each.run, [(it.checkpoint, it.standing) for it in each.rows]) for each in listed]
        print_json(root_form(root, runs, whole=whole))
    for each in listed:
        if not as_json:
            if each.rows or choice.filter is None:
                _print_run(each, columns, choice)
            tell_problems(each.run.problems)
        if whole is None and (each.rows or choice.filter is None):
            _tell_resumable(each.run)
    _tell_choice(choice, listed)
    _tell_root(root, whole)
    if not as_json:
        tell_problems(root.problems)


def _list_names(path: Path, choice: Choice, *, depth: int, null: bool) -> None:
    """Names alone, as arguments of another command: of several runs, paths below PATH."""
    root, whole = scan_path(path, depth=depth)
    listed = _choose(root, whole, choice)
    names = []
    for each in listed:
        folder = path / os.path.relpath(each.run.path, root.path)
        own = [it.checkpoint.name for it in each.rows]
        names += own if len(listed) == 1 else [str(folder / name) for name in own]
    say_names(names, null=null)
    _tell_choice(choice, listed)
    _tell_root(root, whole)
    tell_problems(p for each in listed for p in each.run.problems)
    tell_problems(root.problems)


class _Listed(NamedTuple):
    """A run, all there is in it and what is shown of it."""

    run: Run
    everything: Sequence[Facts]
    rows: Sequence[Facts]


def _choose(root: Root, whole: Run | None, choice: Choice) -> list[_Listed]:
    when = now()
    listed = []
    for run in root.runs:
        everything = choice.facts(run, now=when, whole=whole)
        listed.append(_Listed(run, everything, choice.pick(everything)))
    return listed


def _print_run(each: _Listed, columns: Sequence[str], choice: Choice) -> None:
    say(run_heading(each.run, [it.checkpoint for it in each.rows]))
    say(run_table(each.rows, columns, also=choice.metrics) if each.rows else "no checkpoints yet")
    say("")


def _tell_root(root: Root, whole: Run | None) -> None:
    if not root.runs:
        count = len(root.ignored)
        what = f"; {plural(count, 'name')} there {'was' if count == 1 else 'were'} not recognised"
        tell(f"No checkpoints in {root.path}{what if count else ''}.")
    if whole is not None:
        tell(f"{root.path.name} is one checkpoint; its run is {whole.path}.")


def _tell_choice(choice: Choice, listed: Sequence[_Listed]) -> None:
    """Say where a filter lets nothing through, and which metrics nobody has."""
    everything = [it for each in listed for it in each.everything]
    if everything and not any(each.rows for each in listed):
        tell(f"None of {plural(len(everything), 'checkpoint')} matches the filter.")
    if everything and choice.named:
        for line in unknown_metrics(choice, everything):
            tell(line)


def _tell_resumable(run: Run) -> None:
    if len({c.run_id for c in run.checkpoints if c.complete}) > 1:
        return  # each run id has a newest one of its own
    newest, usable = newest_complete(run.checkpoints), newest_resumable(run.checkpoints)
    if newest is not None and usable is not None and newest is not usable:
        tell(f"{newest.name} cannot be resumed; {usable.name} is the newest that can.")
