"""`metrics` and `log`."""

from __future__ import annotations

import csv
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ckptui import journal, schema
from ckptui.cli.completion import complete_metric
from ckptui.cli.finding import named_run
from ckptui.cli.options import json_option, now, one_of, run_argument, tell_problems
from ckptui.cli.streams import print_json, say, tell
from ckptui.display.forms import events_form, metrics_form
from ckptui.display.tables import table
from ckptui.display.text import age, number, visible
from ckptui.display.units import teller
from ckptui.errors import NotFoundError, UsageError
from ckptui.metrics import read_metrics
from ckptui.rules import direction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ckptui.checkpoint import Run
    from ckptui.metrics import MetricRow


@click.command(
    epilog="""\b
Examples:
  ckptui metrics outputs/my-run --plot --metric eval_loss
  ckptui metrics outputs/my-run --csv > metrics.csv
  ckptui metrics --metric loss --last 20
"""
)
@run_argument
@click.option(
    "--metric",
    "-m",
    "names",
    multiple=True,
    metavar="NAME",
    help="Only these metrics.",
    shell_complete=complete_metric,
)
@click.option(
    "--last", type=click.IntRange(min=1), metavar="N", help="Only the last N rows of those."
)
@click.option("--plot", is_flag=True, help="Draw curves.")
@click.option("--csv", "as_csv", is_flag=True, help="Write CSV.")
@click.option("--all-attempts", is_flag=True, help="Also the rows that a rewind abandoned.")
@json_option
def metrics(
    run: Path | None,
    run_option: Path | None,
    names: tuple[str, ...],
    last: int | None,
    plot: bool,
    as_csv: bool,
    all_attempts: bool,
    as_json: bool,
) -> None:
    """Show the metric history of a run: one row per step, of the present history."""
    if sum((plot, as_csv, as_json)) > 1:
        msg = "Choose one of --plot, --csv and --json."
        raise UsageError(msg)
    there = named_run(one_of(run, run_option))
    history = read_metrics(there.path, there.attempts)
    rows: Sequence[MetricRow] = history.rows if all_attempts else history.current()
    known = dict.fromkeys(name for row in rows for name in row.metrics)
    absent = [n for n in names if n not in known]
    if absent:
        msg = f"{there.path} has no metric {absent[0]}."
        raise NotFoundError(msg, candidates=list(known))
    if names:
        rows = [_with_only(row, names) for row in rows if any(n in row.metrics for n in names)]
    if last is not None:
        rows = rows[-last:]
    shown = list(names or known)
    if as_json:
        print_json(metrics_form(there.path, rows, history.problems))
        return
    tell_problems(history.problems)
    if not rows:
        tell(f"No metrics were logged in {there.path}.")
    elif as_csv:
        _write_csv(rows, shown)
    elif plot:
        _draw(there, rows, shown, named=bool(names))
    else:
        _print_table(rows, shown)


def _with_only(row: MetricRow, names: Sequence[str]) -> MetricRow:
    from dataclasses import replace  # noqa: PLC0415 - only for a choice of metrics

    return replace(row, metrics={n: v for n, v in row.metrics.items() if n in names})


def _print_table(rows: Sequence[MetricRow], names: Sequence[str]) -> None:
    # In one unit down the column, whatever a single value looks like.
    told = {
        n: teller(n, next((v for r in rows if (v := r.metrics.get(n)) is not None), None))
        for n in names
    }
    lines = [
        [
            str(row.step),
            "-" if row.epoch is None else f"{row.epoch:g}",
            str(row.attempt),
            *(told[n](row.metrics[n]) if n in row.metrics else "-" for n in names),
        ]
        for row in rows
    ]
    head = ["step", "epoch", "attempt", *names]
    say(table(head, lines, right=range(len(head))))


def _write_csv(rows: Sequence[MetricRow], names: Sequence[str]) -> None:
    """Columns step, epoch, time, attempt and one a metric; empty: not logged, nan: not finite."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["step", "epoch", "time", "attempt", *map(visible, names)])
    for row in rows:
        values = [
            "" if n not in row.metrics else "nan" if (v := row.metrics[n]) is None else repr(v)
            for n in names
        ]
        when = schema.format_time(row.time) if row.time else ""
        writer.writerow(
            [row.step, "" if row.epoch is None else row.epoch, when, row.attempt, *values]
        )


def _draw(run: Run, rows: Sequence[MetricRow], names: Sequence[str], *, named: bool) -> None:
    """One plot a metric, the run's checkpoints as ticks below it."""
    from ckptui.display.plot import domain, draw  # noqa: PLC0415 - only for a plot

    width = max(20, min(shutil.get_terminal_size((80, 24)).columns - 12, 120))
    ascii_only = "utf" not in (sys.stdout.encoding or "").lower()
    if not named:
        judged = [n for n in names if direction(n) is not None]
        names = judged[:4] or names[:2]
    steps = [c.step for c in run.checkpoints if c.step is not None and c.current and not c.staged]
    for name in names:
        points = [(row.step, row.metrics[name]) for row in rows if name in row.metrics]
        over = domain(points, steps, width)
        drawn = draw(points, over, 10, ascii_only=ascii_only)
        say(visible(name))
        for i, line in enumerate(drawn.lines):
            edge = drawn.high if i == 0 else drawn.low if i == len(drawn.lines) - 1 else None
            label = number(edge) if edge is not None else ""
            say(f"{label:>9} |{line}".rstrip())
        ticks = [" "] * width
        for gap in drawn.gaps:
            ticks[gap] = "x"
        for step in steps:
            ticks[over.column(step)] = "|"
        say(f"{'':>9} +{''.join(ticks)}".rstrip())
        left, right = str(over.first), str(over.last)
        say(f"{'step':>9}  {left}{right:>{max(1, width - len(left))}}")
        note = "| a checkpoint" + (", x a value that is not finite" if drawn.gaps else "")
        say(f"{'':>9}  {note}")


@click.command(
    epilog="""\b
Example:
  ckptui log outputs/my-run
"""
)
@run_argument
@json_option
def log(run: Path | None, run_option: Path | None, as_json: bool) -> None:
    """Show what was done to a run: starts, saves, pins, removals, by whom and why."""
    there = named_run(one_of(run, run_option))
    events, problems = journal.read(there.path)
    if as_json:
        print_json(events_form(there.path, events, problems))
        return
    when = now()
    rows = [
        [
            age(e.time, when),
            f"{e.who or '-'}@{e.host or '-'}",
            e.what,
            ", ".join(e.checkpoints) or "-",
            e.reason or "",
        ]
        for e in events
    ]
    if rows:
        say(table(["age", "who", "what", "checkpoints", "why"], rows))
    else:
        tell(f"Nothing is recorded for {there.path}.")
    tell_problems(problems)
