"""`trash list`, `trash restore` and `trash empty`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ckptui import guard, leftovers, remove
from ckptui.cli.completion import complete_trash
from ckptui.cli.finding import named_run
from ckptui.cli.groups import Group
from ckptui.cli.options import (
    agreed,
    json_option,
    now,
    refuse_unasked,
    run_option,
    yes_option,
)
from ckptui.cli.streams import print_json, report, say, tell
from ckptui.display.forms import trash_form, trash_results_form
from ckptui.display.tables import table
from ckptui.display.text import age, plural, size, visible
from ckptui.errors import AmbiguousError, CkptuiError, NotFoundError, ReadOnlyError
from ckptui.rules import parse_duration

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from ckptui.checkpoint import Run
    from ckptui.remove import TrashItem


@click.group(
    cls=Group,
    invoke_without_command=True,
    epilog="""\b
Examples:
  ckptui trash list
  ckptui trash restore step_500
  ckptui trash empty --older-than 7d
""",
)
@click.pass_context
def trash(ctx: click.Context) -> None:
    """List, restore or delete what was removed."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@trash.command(
    "list",
    epilog="""\b
Example:
  ckptui trash list --run outputs/my-run
""",
)
@run_option
@json_option
def list_(run: Path | None, as_json: bool) -> None:
    """List what lies in the trash of a run, oldest first."""
    there = named_run(run)
    items = remove.list_trash(there.path)
    if as_json:
        print_json(trash_form(items))
        return
    if not items:
        tell(f"The trash of {there.path} is empty.")
        return
    when = now()
    rows = [
        [
            item.id,
            item.name,
            size(item.size),
            age(item.when, when),
            item.why,
            ("pinned" if item.pinned else "") + "".join(p.what for p in item.problems),
        ]
        for item in items
    ]
    say(table(["id", "name", "size", "age", "why", ""], rows, right=[2]))


@trash.command(
    epilog="""\b
Examples:
  ckptui trash restore step_500
  ckptui trash restore 20260101T120000000000-ab12cd
"""
)
@click.argument("items", nargs=-1, required=True, metavar="ITEM...", shell_complete=complete_trash)
@run_option
@json_option
def restore(items: tuple[str, ...], run: Path | None, as_json: bool) -> None:
    """Bring items back, by id or by checkpoint name."""
    there = named_run(run)
    results: list[tuple[TrashItem, str | None, int]] = []
    for item in _chosen(there, items):
        try:
            remove.restore(item)
        except ReadOnlyError:
            raise
        except CkptuiError as e:
            results.append((item, str(e), 0))
        else:
            results.append((item, None, 0))
    _answer(results, "restored", as_json=as_json)


@trash.command(
    epilog="""\b
Examples:
  ckptui trash empty --older-than 7d
  ckptui trash empty --yes
"""
)
@click.argument("items", nargs=-1, metavar="[ITEM...]", shell_complete=complete_trash)
@click.option("--older-than", metavar="PERIOD", help="Only what was removed longer ago than this.")
@run_option
@yes_option
@json_option
def empty(
    items: tuple[str, ...], older_than: str | None, run: Path | None, yes: bool, as_json: bool
) -> None:
    """Delete items for good, all where none is named; pinned ones only when named."""
    period = parse_duration(older_than) if older_than is not None else None
    there = named_run(run)
    guard.require_changes_allowed("empty the trash", there.path)
    chosen = _chosen(there, items) if items else list(remove.list_trash(there.path))
    chosen = [i for i in chosen if _old_enough(i, period) and (items or not _kept(i))]
    if not yes:
        refuse_unasked()
        total = size(sum(i.size for i in chosen))
        if chosen and not agreed(
            f"Delete {plural(len(chosen), 'item')} of {there.path} for good ({total})?"
        ):
            tell("Nothing was deleted.")
            raise click.exceptions.Exit(1)
    results: list[tuple[TrashItem, str | None, int]] = []
    if not items:
        leftovers.clear_trash(there.path)
    for item in chosen:
        emptied = remove.empty(item)
        results.append((item, emptied.error, emptied.freed))
    _answer(results, "deleted", as_json=as_json)


def _old_enough(item: TrashItem, period: timedelta | None) -> bool:
    return period is None or (item.when is not None and now() - item.when > period)


def _kept(item: TrashItem) -> bool:
    if item.pinned:
        tell(f"{item.name} is pinned and stays in the trash; name it to delete it.")
    return item.pinned


def _chosen(run: Run, words: Sequence[str]) -> list[TrashItem]:
    """The items that words mean: an id, the beginning of one, or a checkpoint's name."""
    every = remove.list_trash(run.path)
    found: dict[str, TrashItem] = {}
    for word in words:
        fits = [i for i in every if i.id == word] or [
            i for i in every if word in (i.name, *i.names) or (word and i.id.startswith(word))
        ]
        if not fits:
            msg = f"There is no {word} in the trash of {run.path}."
            raise NotFoundError(msg, candidates=[f"{i.id} {i.name}" for i in every])
        if len(fits) > 1:
            msg = f"{word} is {len(fits)} items in the trash of {run.path}; give the id."
            raise AmbiguousError(msg, candidates=[i.id for i in fits])
        found[fits[0].id] = fits[0]
    return list(found.values())


def _answer(
    results: Sequence[tuple[TrashItem, str | None, int]], word: str, *, as_json: bool
) -> None:
    if as_json:
        print_json(trash_results_form(results))
    else:
        for item, error, freed in results:
            gave = f", freed {size(freed)}" if word == "deleted" else ""
            if error is None:
                report(f"{word} {visible(item.name)}{gave}")
            else:
                tell(f"! {item.name}: {error}")
        if not results:
            tell("Nothing to do: the trash holds nothing of that kind.")
    if any(error is not None for _, error, _ in results):
        raise click.exceptions.Exit(1)
