"""The command line: convert, call, print.

Commands are imported when they are called, so that `ckptui --help` and completion stay quick.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from ckptui._version import __version__
from ckptui.cli import streams
from ckptui.cli.groups import LazyGroup
from ckptui.errors import CkptuiError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

EPILOG = """\b
Examples:
  ckptui browse outputs/
  ckptui pin step_2000 --note "before the LR drop"
  ckptui prune outputs/my-run --keep-last 3 --keep-best 1:eval_loss
  ckptui resume-cmd latest --run outputs/my-run | sh

\b
Exit codes: 0 done; 1 not found, refused or failed in part; 2 wrong usage;
130 interrupted, after a safe stop.
"""


class Commands(LazyGroup):
    """The group: finds commands by name, and turns every expected error into one sentence."""

    lazy = {  # noqa: RUF012 - the base class says that it is not to be changed
        "browse": ("ckptui.cli.browse", "Browse runs and checkpoints in the terminal."),
        "ls": ("ckptui.cli.listing", "List the runs and checkpoints in a directory."),
        "show": ("ckptui.cli.showing", "Show everything about one checkpoint."),
        "diff": ("ckptui.cli.diff", "Show what differs between checkpoints or runs."),
        "metrics": ("ckptui.cli.history", "Show the metric history of a run."),
        "pin": ("ckptui.cli.pinning", "Protect checkpoints against removal."),
        "unpin": ("ckptui.cli.pinning", "Take the protection of checkpoints away."),
        "prune": ("ckptui.cli.pruning", "Remove the checkpoints that no rule keeps."),
        "rm": ("ckptui.cli.pruning", "Remove the checkpoints that are named."),
        "trash": ("ckptui.cli.trash", "List, restore or delete what was removed."),
        "verify": ("ckptui.cli.verify", "Check that checkpoints are whole."),
        "resume-cmd": ("ckptui.cli.resume", "Print the command that continues training."),
        "save-now": ("ckptui.cli.save_now", "Ask the trainer of a run to save now."),
        "log": ("ckptui.cli.history", "Show what was done to a run."),
        "unlock": ("ckptui.cli.resume", "Remove the lock that a dead trainer left."),
        "config": ("ckptui.cli.config", "Show your own settings and where they are from."),
        "completion": ("ckptui.cli.shells", "Print the script that completes words in a shell."),
        "demo": ("ckptui.cli.demo", "Train a tiny model and look at its checkpoints."),
    }

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Parse the line; a reader that leaves while it gets help is no failure."""
        with _reader_may_leave():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a reader that leaves while it gets a listing is no failure."""
        with _reader_may_leave():
            return super().invoke(ctx)

    def main(self, args: Sequence[str] | None = None, *_: Any, **extra: Any) -> Any:
        """Run a command line and exit with its code."""
        words = list(sys.argv[1:] if args is None else args)
        as_json = "--json" in words[: words.index("--") if "--" in words else None]
        streams.prepare()
        if "_CKPTUI_COMPLETE" in os.environ:
            from ckptui.cli import shells  # noqa: PLC0415 - only while completing

            shells.serve()
        try:
            code = self._run(words, {**extra, "standalone_mode": False}, as_json=as_json)
            sys.stdout.flush()
        except BrokenPipeError:
            streams.forget_stdout()
            code = 0
        except OSError as e:
            streams.forget_stdout()  # or Python would fail on the rest of it at exit
            streams.tell(f"ckptui: {_disk_error(e).message}")
            code = 1
        sys.exit(code)

    def _run(self, words: list[str], extra: dict[str, Any], *, as_json: bool) -> int:
        """Run a command line; its exit code."""
        try:
            code = super().main(words, **extra)
        except CkptuiError as e:
            return _fail(e, as_json=as_json)
        except click.ClickException as e:
            return _fail_usage(e, as_json=as_json)
        except (click.Abort, KeyboardInterrupt):
            streams.tell("Interrupted.")
            return 130
        except BrokenPipeError:
            raise
        except OSError as e:
            return _fail(_disk_error(e), as_json=as_json)
        return code if isinstance(code, int) else 0


@contextlib.contextmanager
def _reader_may_leave() -> Iterator[None]:
    # Caught here, since click itself would end with 1: `ls | head -1` has done what was asked.
    try:
        yield
    except BrokenPipeError:
        streams.forget_stdout()
        raise click.exceptions.Exit(0) from None


def _disk_error(e: OSError) -> CkptuiError:
    from pathlib import Path  # noqa: PLC0415 - an error is rare

    from ckptui.errors import NotFoundError, StorageError  # noqa: PLC0415 - as above

    if isinstance(e, FileNotFoundError) and e.filename is None:  # what getcwd() answers
        return NotFoundError("The working directory is gone; go to another one.")
    where = f" {e.filename}:" if e.filename else ""
    message = f"The disk refused:{where} {e.strerror or e}."
    return StorageError(message, path=Path(str(e.filename or ".")))


def _fail(error: CkptuiError, *, as_json: bool) -> int:
    if as_json:
        _error_json(error)
        return error.exit_code
    streams.tell(f"ckptui: {error.message}")
    for candidate in [c for c in error.candidates if c not in error.message][:20]:
        streams.tell(f"  {candidate}")
    return error.exit_code


def _fail_usage(error: click.ClickException, *, as_json: bool) -> int:
    message = error.format_message().rstrip()
    message += "" if message.endswith((".", "?")) else "."
    if as_json:
        near = getattr(error, "possibilities", None) or ()
        _error_json(UsageError(message, candidates=near))
        return error.exit_code
    streams.tell(f"ckptui: {message}")
    context = getattr(error, "ctx", None)
    if context is not None:
        streams.tell(f"See {context.command_path} --help.")
    return error.exit_code


def _error_json(error: CkptuiError) -> None:
    from ckptui.display.forms import error_form  # noqa: PLC0415 - not for a --help

    streams.print_json(error_form(error))


@click.group(
    cls=Commands,
    epilog=EPILOG,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="ckptui")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Browse, pin, prune, verify and resume the checkpoints of training runs."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
