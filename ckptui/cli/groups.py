"""Groups of commands that are imported when they are called, and that know near names."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Mapping

    from click.shell_completion import CompletionItem


class Group(click.Group):
    """A group that answers a mistyped command with the nearest name, and a bare call with help."""

    def names(self) -> list[str]:
        """All commands, in the order in which they are met in use."""
        return list(self.commands)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order in which they are met in use."""
        del ctx
        return self.names()

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; a mistyped one gets the nearest names."""
        name = args[0] if args else ""
        if not name.startswith("-") and name not in self.names():
            raise NoSuchCommand(name, self.names(), ctx)
        return super().resolve_command(ctx, args)


class LazyGroup(Group):
    """A group whose commands live in modules that are imported when they are called."""

    lazy: Mapping[str, tuple[str, str]] = {}
    """Name -> the module that holds it, and its line in the help."""

    def names(self) -> list[str]:
        """All commands, in the order in which they are met in use."""
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of a command and give the command."""
        del ctx
        if cmd_name not in self.lazy:
            return None
        module = importlib.import_module(self.lazy[cmd_name][0])
        found = getattr(module, cmd_name.replace("-", "_"))
        assert isinstance(found, click.Command)  # noqa: S101 - for the type alone
        return found

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands and options that begin so, without importing a command."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only while completing

        fitting = [(name, text) for name, (_, text) in self.lazy.items()]
        items = [CompletionItem(n, help=text) for n, text in fitting if n.startswith(incomplete)]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self.lazy.items()])


class NoSuchCommand(click.UsageError):
    """A mistyped command."""

    def __init__(self, name: str, names: list[str], ctx: click.Context) -> None:
        from difflib import get_close_matches  # noqa: PLC0415 - only for a mistake

        self.possibilities = get_close_matches(name, names, n=3)
        """The near names, nearest first."""
        hint = f" Did you mean {self.possibilities[0]}?" if self.possibilities else ""
        super().__init__(f"There is no command {name!r}.{hint}", ctx)
