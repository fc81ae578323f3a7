"""`diff`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ckptui.cli.completion import complete_checkpoint
from ckptui.cli.finding import named_checkpoints
from ckptui.cli.options import json_option, run_id_option, run_option
from ckptui.cli.streams import print_json, say, tell
from ckptui.differences import Comparison, checkpoint_side, compare, run_side
from ckptui.display.differences import comparison_form, sections
from ckptui.display.forms import VERSION
from ckptui.display.tables import table
from ckptui.display.text import visible
from ckptui.errors import CkptuiError, RefusedError
from ckptui.metric_log import Logged, MetricLog, in_doubt
from ckptui.scan import absolute, is_run, kind_of, scan_run, through_link

if TYPE_CHECKING:
    from ckptui.checkpoint import Checkpoint, Run
    from ckptui.contents import FoundTensor
    from ckptui.differences import Side


@click.command(
    epilog="""\b
Examples:
  ckptui diff step_1000 step_2000 --run outputs/my-run
  ckptui diff best latest
  ckptui diff outputs/run-a outputs/run-b --json
  ckptui diff outputs/a/step_500 outputs/b/step_500 --fail-on-diff

\b
Exit codes: 0 compared, whatever the difference; with --fail-on-diff 1 where
anything differs or could not be compared.
"""
)
@click.argument("a", metavar="A", shell_complete=complete_checkpoint)
@click.argument("b", metavar="B", shell_complete=complete_checkpoint)
@run_option
@run_id_option
@json_option
@click.option("--all", "everything", is_flag=True, help="Also show what is the same.")
@click.option(
    "--fail-on-diff", is_flag=True, help="Exit with 1 where they differ or cannot be compared."
)
def diff(
    a: str,
    b: str,
    *,
    run: Path | None,
    run_id: str | None,
    as_json: bool,
    everything: bool,
    fail_on_diff: bool,
) -> int:
    """Show what differs between two checkpoints, or two runs.

    A and B are checkpoints (names, steps, latest, best, best:METRIC or paths) or both the paths of
    runs. Settings, metrics, files and tensors are compared; of tensors the dtype and shape. Files
    of the same digest hold the same; no content is read.
    """
    comparison = _compared(a, b, run, run_id)
    if as_json:
        print_json({"version": VERSION, **comparison_form(comparison, everything=everything)})
    else:
        _print(comparison, everything=everything)
        for problem in comparison.problems:
            tell(f"! {problem}")
    return 1 if fail_on_diff and comparison.differs else 0


def _compared(a: str, b: str, run: Path | None, run_id: str | None) -> Comparison:
    runs = [_run_path(word) for word in (a, b)]
    if runs[0] is not None and runs[1] is not None:
        first, second = (scan_run(path) for path in runs if path is not None)
        sides = [run_side(there, _logged(there).current) for there in (first, second)]
        return compare(*sides)
    if runs != [None, None]:
        one, other = (a, b) if runs[0] is not None else (b, a)
        named_checkpoints([other], run, run_id)  # what is not there at all is told first
        msg = f"{one} is a run, {other} a checkpoint; compare two checkpoints or two runs."
        raise RefusedError(msg)
    found = named_checkpoints([a, b], run, run_id)
    known: dict[str, tuple[FoundTensor, ...]] = {}
    logs: dict[Path, Logged] = {}
    sides = [_side(there, c, known, logs) for there, c in found]
    return compare(sides[0], sides[-1])  # one where both words mean the same


def _run_path(word: str) -> Path | None:
    """The run that a word means: a path, or the name of a run in the working directory."""
    try:
        path = through_link(absolute(Path(word)))
        if not word or ("/" not in word and not is_run(path)):
            return None
        return path if kind_of(path) == "run" else None
    except (CkptuiError, ValueError):  # no such folder; the search for a checkpoint says it better
        return None


def _side(
    run: Run,
    checkpoint: Checkpoint,
    known: dict[str, tuple[FoundTensor, ...]],
    logs: dict[Path, Logged],
) -> Side:
    if run.path not in logs:
        logs[run.path] = _logged(run)
    step, curves = checkpoint.step, logs[run.path].by_attempt.get(checkpoint.attempt or 0, {})
    found = {n: curve.at(step) for n, curve in curves.items()} if step is not None else {}
    values = {name: value for name, (there, value) in found.items() if there}
    doubt = in_doubt(checkpoint, logs[run.path].by_attempt)
    return checkpoint_side(checkpoint, run, logged=values, in_doubt=doubt, known=known)


def _logged(run: Run) -> Logged:
    log = MetricLog(run.path)
    log.update()
    return log.logged(run.attempts)


def _print(comparison: Comparison, *, everything: bool) -> None:
    for letter, side in (("A", comparison.a), ("B", comparison.b)):
        say(f"{letter}  {visible(side.name)}   {visible(str(side.path))}")
    for section in sections(comparison):
        say(f"{section.title}: {section.summary}")
        if section.unread:
            say(f"  {section.unread}")
        lines = section.lines if everything else section.different
        if lines:
            head = ["", "", "A", "B", ""]
            rows = [[f"  {n.sign}", n.key, n.a, n.b, n.note] for n in lines]
            say(table(head, rows))
