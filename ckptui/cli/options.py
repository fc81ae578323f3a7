"""What several commands share: kinds of options, and asking."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ckptui.cli.completion import complete_checkpoint
from ckptui.cli.streams import tell
from ckptui.display.text import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from click.shell_completion import CompletionItem

    from ckptui.checkpoint import Problem

F = TypeVar("F", bound="Callable[..., Any]")


class PathWord(click.Path):
    """A path; an empty word is no path."""

    completed_as = "dir"
    """What the shell offers for it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuse an empty word, which would mean the working directory."""
        if value == "":
            self.fail("an empty path names nothing.", param, ctx)
        if "\0" in str(value):
            self.fail("a path cannot hold a NUL character.", param, ctx)
        return super().convert(value, param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Leave it to the shell, which knows `~` and variables."""
        del ctx, param
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only while completing

        return [CompletionItem(incomplete, type=self.completed_as)]


class FileWord(PathWord):
    """A path of a file."""

    completed_as = "file"


FILE = FileWord(path_type=Path, readable=False)
PATH = PathWord(path_type=Path, readable=False)  # the library tells what it cannot read

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


def only_one(checkpoints: Sequence[str], run: Path | None) -> str:
    """The one checkpoint that was named.

    Raises:
        click.UsageError: There are more; of two the line that compares them is given.
    """
    if len(checkpoints) == 1:
        return checkpoints[0]
    import shlex  # noqa: PLC0415 - only for a mistake

    where = ["--run", str(run)] if run is not None else []
    line = shlex.join(["ckptui", "diff", *checkpoints, *where])
    hint = f"; `{line}` compares them" if len(checkpoints) == 2 else ""
    msg = f"Only one checkpoint is shown at a time, not {len(checkpoints)}{hint}."
    raise click.UsageError(msg)


def run_argument(command: F) -> F:
    """The argument RUN of commands about a run, which `--run` may name as well."""
    command = click.option(
        "--run", "run_option", type=PATH, metavar="RUN", help="The same as the argument."
    )(command)
    return click.argument("run", type=PATH, required=False)(command)


def one_of(argument: Path | None, option: Path | None, *, name: str = "RUN") -> Path | None:
    """The path that an argument or `--run` gives.

    Raises:
        click.UsageError: Both do.
    """
    if argument is not None and option is not None:
        msg = f"Give {name} or --run, not both."
        raise click.UsageError(msg)
    return argument if argument is not None else option


def now() -> datetime:
    """The present time, aware."""
    return datetime.now(UTC)


def tell_problems(problems: Iterable[Problem]) -> None:
    """Problems, on stderr."""
    for problem in problems:
        tell(f"! {problem.path}: {problem.what}")


def on_terminal() -> bool:
    """Whether a question would reach a person."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def agreed(question: str) -> bool:
    """Ask on stderr, default No; the end of input is a No too.

    Raises:
        click.UsageError: There is nobody to ask.
    """
    refuse_unasked()
    sys.stderr.write(f"{visible(question)} [y/N] ")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        tell("")
    return answer.strip().lower() in ("y", "yes")


def refuse_unasked() -> None:
    """Refuse to go on where a question is due and would reach nobody.

    Raises:
        click.UsageError: There is nobody to ask.
    """
    if not on_terminal():
        msg = "Nobody can be asked here; add --yes to go ahead."
        raise click.UsageError(msg)
