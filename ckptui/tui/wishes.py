"""How the browser was asked to be: by the command line and by the user's configuration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ckptui.errors import UsageError
from ckptui.preferences import Preferences
from ckptui.tui import keys, text

if TYPE_CHECKING:
    from collections.abc import Collection

    from ckptui.tui.keys import Key


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What holds from the start to the end."""

    preferences: Preferences = field(default_factory=Preferences)
    read_only: bool = False
    """Let nothing be changed."""
    pick: bool = False
    """Leave with the path of the checkpoint that is chosen."""
    filter_text: str = ""
    """The filter to begin with."""
    ascii_only: bool | None = None
    """Whether to keep to ASCII; None: as the user prefers, else as the terminal can."""
    refresh: bool = True
    """Whether to read again by itself."""
    one_frame: bool = False
    """Show what everybody would see, once; nothing is changed."""

    @property
    def plain(self) -> bool:
        """Whether to keep to ASCII."""
        asked = self.ascii_only if self.ascii_only is not None else self.preferences.ascii
        return text.ascii_only() if asked is None else asked

    @property
    def default_rules(self) -> str | None:
        """The rules that are offered for a run without any; None for the usual ones."""
        return ", ".join(self.preferences.rules) or None

    def shown_key(self, key: Key) -> str:
        """How the user types a key."""
        own = self.preferences.keys.get(key.act)
        if own is not None:
            return " ".join(keys.spelled(part.strip()) for part in own.split(","))
        return key.shown

    def check(self, themes: Collection[str]) -> None:
        """See that the user's keys and theme exist.

        Raises:
            UsageError: One does not.
        """
        theme = self.preferences.theme
        if theme is not None and theme not in themes:
            msg = f"There is no theme {theme}. There are: {', '.join(sorted(themes))}."
            raise UsageError(msg)
        if self.preferences.keys:
            from ckptui.tui.every_key import check_own_keys  # noqa: PLC0415 - few have own ones

            check_own_keys(self.preferences.keys)
