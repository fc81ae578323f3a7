"""The command line: convert, call, print.

Commands are imported when they are called, so that `ckptui --help` and completion stay quick.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from ckptui._version import __version__
from ckptui.errors import CkptuiError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

_COMMANDS = {
    "browse": ("browse", "Browse runs and checkpoints in the terminal."),
    "ls": ("listing", "List the runs and checkpoints in a directory."),
    "show": ("listing", "Show everything about one checkpoint."),
    "metrics": ("history", "Show the metric history of a run."),
    "pin": ("pinning", "Protect checkpoints against removal."),
    "unpin": ("pinning", "Take the protection of checkpoints away."),
    "prune": ("pruning", "Remove the checkpoints that no rule keeps."),
    "rm": ("pruning", "Remove the checkpoints that are named."),
    "trash": ("trash", "List, restore or delete what was removed."),
    "verify": ("verify", "Check that checkpoints are whole."),
    "resume-cmd": ("resume", "Print the command that continues training."),
    "log": ("history", "Show what was done to a run."),
    "unlock": ("resume", "Remove the lock that a dead trainer left."),
    "demo": ("demo", "Train a tiny model and look at its checkpoints."),
}
"""Name -> the module that holds it, and its line in the help."""

EPILOG = """\b
Examples:
  ckptui browse outputs/
  ckptui pin step_2000 --note "before the LR drop"
  ckptui prune outputs/my-run --keep-last 3 --keep-best 1:eval_loss
  $(ckptui resume-cmd latest --run outputs/my-run)

\b
Exit codes: 0 done; 1 not found, refused or failed in part; 2 wrong usage;
130 interrupted, after a safe stop.
"""


class Commands(click.Group):
    """The group: finds commands by name, and turns every expected error into one sentence."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order in which they are met in use."""
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of a command and give the command."""
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"ckptui.cli.{_COMMANDS[cmd_name][0]}")
        found = getattr(module, cmd_name.replace("-", "_"))
        assert isinstance(found, click.Command)  # noqa: S101 - for the type alone
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; a mistyped one gets the nearest name in the message."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in _COMMANDS:
            near = difflib.get_close_matches(name, _COMMANDS, n=1)
            hint = f" Did you mean {near[0]}?" if near else " See ckptui --help."
            msg = f"There is no command {name!r}.{hint}"
            raise click.UsageError(msg, ctx)
        return super().resolve_command(ctx, args)

    def main(self, args: Sequence[str] | None = None, *_: Any, **extra: Any) -> Any:
        """Run a command line and exit with its code."""
        words = list(sys.argv[1:] if args is None else args)
        extra["standalone_mode"] = False
        as_json = "--json" in words[: words.index("--") if "--" in words else None]
        _survive_narrow_encodings()
        code: Any = 0
        try:
            code = super().main(words, **extra)
        except CkptuiError as e:
            code = _fail(e, as_json=as_json)
        except click.ClickException as e:
            code = _fail_usage(e, as_json=as_json)
        except (click.Abort, KeyboardInterrupt):
            _say("Interrupted.")
            code = 130
        except BrokenPipeError:
            _forget_stdout()
        except RecursionError:
            raise
        except OSError as e:
            from pathlib import Path  # noqa: PLC0415 - an error is rare

            from ckptui.errors import StorageError  # noqa: PLC0415

            where = f" {e.filename}" if e.filename else ""
            text = f"The disk refused:{where} {e.strerror or e}."
            code = _fail(StorageError(text, path=Path(str(e.filename or "."))), as_json=as_json)
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            _forget_stdout()
        sys.exit(code if isinstance(code, int) else 0)


def _survive_narrow_encodings() -> None:
    """Let a terminal or pipe that knows only ASCII get escapes instead of a traceback."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _forget_stdout() -> None:
    """Keep Python from complaining at exit about a reader that has left."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(text: str) -> None:
    from ckptui.display.text import visible  # noqa: PLC0415 - not for a --help

    with contextlib.suppress(OSError):
        click.echo(visible(text), err=True)


def _fail(error: CkptuiError, *, as_json: bool) -> int:
    if as_json:
        _error_json(error)
    else:
        _say(f"ckptui: {error.message}")
        extra = [c for c in error.candidates if c not in error.message]
        for candidate in extra[:20]:
            _say(f"  {candidate}")
    return error.exit_code


def _fail_usage(error: click.ClickException, *, as_json: bool) -> int:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.ctx.get_help() if error.ctx else error.format_message())
        return 0
    message = error.format_message()
    if as_json:
        _error_json(UsageError(message))
        return error.exit_code
    context = getattr(error, "ctx", None)
    _say(f"ckptui: {message}")
    if context is not None:
        _say(f"See {context.command_path} --help.")
    return error.exit_code


def _error_json(error: CkptuiError) -> None:
    from ckptui.cli.options import print_json  # noqa: PLC0415 - not for a --help
    from ckptui.display.forms import error_form  # noqa: PLC0415

    with contextlib.suppress(BrokenPipeError):
        print_json(error_form(error))


@click.group(cls=Commands, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ckptui")
def main() -> None:
    """Browse, pin, prune, verify and resume the checkpoints of training runs."""
