"""The keys of all screens, for whoever must know them all; imports every screen."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from typing import TYPE_CHECKING

from ckptui.errors import UsageError
from ckptui.tui import screens
from ckptui.tui.key_names import RESERVED, is_key
from ckptui.tui.screens.base import BrowserScreen

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ckptui.tui.keys import Key


def all_screens() -> list[type[BrowserScreen]]:
    """Every kind of screen, by name."""
    for module in pkgutil.iter_modules(screens.__path__):
        importlib.import_module(f"{screens.__name__}.{module.name}")
    return sorted(_below(BrowserScreen), key=lambda kind: kind.__name__)


def _below(kind: type[BrowserScreen]) -> Iterator[type[BrowserScreen]]:
    for child in kind.__subclasses__():
        yield child
        yield from _below(child)


def all_keys() -> dict[str, Key]:
    """The keys of all screens by the name of what they do."""
    return {key.act: key for kind in all_screens() for key in kind.KEYS}


def check_own_keys(own: Mapping[str, str]) -> None:
    """See that the deeds which were given a key exist, and that the keys may be given.

    Raises:
        UsageError: One does not, or may not.
    """
    known = all_keys()
    for act, keys in own.items():
        if act not in known:
            near = difflib.get_close_matches(act, known, n=1)
            hint = (
                f" Did you mean {near[0]}?" if near else f" There are: {', '.join(sorted(known))}."
            )
            msg = f"keys.{act} in the configuration names nothing that a key could do.{hint}"
            raise UsageError(msg)
        for key in (part.strip() for part in keys.split(",")):
            if not is_key(key):
                msg = f"keys.{act} in the configuration: {key} is no key; spell it as ctrl+r or f5."
                raise UsageError(msg)
            if key in RESERVED:
                msg = (
                    f"keys.{act} in the configuration: {key} moves, chooses, goes back or leaves "
                    "on every screen and cannot be given away."
                )
                raise UsageError(msg)
