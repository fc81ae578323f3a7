"""What several commands share: options, arguments, finding what is meant, and printing."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ckptui.cli.completion import complete_checkpoint
from ckptui.display.text import visible
from ckptui.locate import find_checkpoint, find_run
from ckptui.scan import scan_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ckptui.checkpoint import Checkpoint, Problem, Run

F = TypeVar("F", bound="Callable[..., Any]")


class PathWord(click.Path):
    """A path; an empty word is no path."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuse an empty word, which would mean the working directory."""
        if value == "":
            self.fail("an empty path names nothing.", param, ctx)
        if "\0" in str(value):
            self.fail("a path cannot hold a NUL character.", param, ctx)
        return super().convert(value, param, ctx)


PATH = PathWord(path_type=Path)

run_option = click.option(
    "--run",
    type=PATH,
    metavar="RUN",
    help="The run, or a root with exactly one. Default: CKPTUI_RUN, else the run here or above, "
    "else the only one below.",
)
run_id_option = click.option(
    "--run-id", metavar="PREFIX", help="Which run, where one folder holds several run ids."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Answer as JSON, version 1.")
depth_option = click.option(
    "--depth",
    type=click.IntRange(min=0),
    default=6,
    show_default=True,
    help="How many levels below a root are searched.",
)
yes_option = click.option("--yes", "-y", is_flag=True, help="Do it without asking.")


def checkpoint_arguments(*, many: bool) -> Callable[[F], F]:
    """The CHECKPOINT argument, one or several, with completion of names."""
    return click.argument(
        "checkpoints" if many else "checkpoint",
        nargs=-1 if many else 1,
        required=True,
        metavar="CHECKPOINT..." if many else "CHECKPOINT",
        shell_complete=complete_checkpoint,
    )


def now() -> datetime:
    """The present time, aware."""
    return datetime.now(UTC)


def named_run(run: Path | None) -> Run:
    """The run that `--run`, the environment or the working directory means."""
    return scan_run(find_run(run, cwd=Path.cwd(), env=os.environ))


def named_checkpoint(text: str, run: Path | None, run_id: str | None) -> tuple[Run, Checkpoint]:
    """The checkpoint that a word means, with its run."""
    return find_checkpoint(text, run, cwd=Path.cwd(), env=os.environ, run_id=run_id)


def named_checkpoints(
    texts: Iterable[str], run: Path | None, run_id: str | None
) -> list[tuple[Run, Checkpoint]]:
    """Several checkpoints, each once, all found before anything is done to the first."""
    found: dict[Path, tuple[Run, Checkpoint]] = {}
    for text in texts:
        there, checkpoint = named_checkpoint(text, run, run_id)
        found.setdefault(checkpoint.path, (there, checkpoint))
    return list(found.values())


def print_json(form: dict[str, Any]) -> None:
    """Print a form: indented for a person, compact for a program."""
    indent = 2 if sys.stdout.isatty() else None
    click.echo(json.dumps(form, indent=indent, allow_nan=False))


def tell(text: str) -> None:
    """A line for the person, on stderr."""
    click.echo(visible(text), err=True)


def tell_problems(problems: Iterable[Problem]) -> None:
    """Problems, on stderr."""
    for problem in problems:
        tell(f"! {problem.path}: {problem.what}")


def on_terminal() -> bool:
    """Whether a question would reach a person."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask(question: str) -> bool:
    """Ask on stderr, default No.

    Raises:
        click.UsageError: There is nobody to ask.
    """
    if not on_terminal():
        msg = "Nobody can be asked here; add --yes to go ahead, or --dry-run to only look."
        raise click.UsageError(msg)
    return click.confirm(visible(question), default=False, err=True)
