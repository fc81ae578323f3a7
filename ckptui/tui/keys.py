"""Keys: what each does on a screen, with the words for the key bar and for the help.

Every screen has a table of its keys. A deed has the same name (`act`) on every screen: it is what
users give another key to, and a screen's method `action_<act>` does it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from textual.binding import Binding, BindingType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ckptui.tui.widgets.keybar import Hint


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key and what it does."""

    key: str
    """As Textual spells it, alternatives by comma."""
    shown: str
    """As people spell it."""
    bar_as: str = ""
    """What the key bar shows instead, where it stands for this key and its counterpart."""
    act: str
    """The deed's name, the same on every screen: `action_<act>`, and the id for `[keys]`."""
    word: str
    """For the key bar."""
    help: str
    bar: bool = False
    """Whether the key bar shows it."""
    live: bool = False
    """Whether it is of use only where the run is being trained."""
    changes: bool = False
    """Whether it changes something on the disk: refused where that is read-only."""
    row: bool = False
    """Whether it is about the checkpoint under the cursor, which has to be there."""


BROWSE = (
    Key(
        key="question_mark,f1",
        shown="?",
        act="help",
        word="help",
        help="all keys, letters and words, to search and to run",
        bar=True,
    ),
    Key(
        key="slash",
        shown="/",
        act="filter",
        word="filter",
        help="show only what matches: words, step>=2000, state:ok",
        bar=True,
    ),
    Key(
        key="w",
        shown="w",
        act="save_now",
        word="save now",
        help="ask the trainer to save a checkpoint now",
        bar=True,
        live=True,
        changes=True,
    ),
    Key(
        key="space",
        shown="space",
        act="mark",
        word="mark",
        help="mark the checkpoint for d, = and V",
        bar=True,
    ),
    Key(
        key="p",
        shown="p",
        act="pin",
        word="pin",
        help="pin the checkpoint, or take its pin away",
        bar=True,
        changes=True,
        row=True,
    ),
    Key(
        key="x",
        shown="x",
        act="prune",
        word="prune",
        help="prune by rules: shows the plan first",
        bar=True,
    ),
    Key(
        key="z",
        shown="z",
        act="undo",
        word="undo",
        help="bring back what this session moved to the trash",
        bar=True,
        changes=True,
    ),
    Key(
        key="r",
        shown="r",
        act="resume",
        word="resume",
        help="the command that resumes from this checkpoint",
        bar=True,
        row=True,
    ),
    Key(
        key="c",
        shown="c",
        act="chart",
        word="chart",
        help="the curve on the whole screen",
        bar=True,
    ),
    Key(
        key="m",
        shown="m",
        act="metric",
        word="metric",
        help="the next metric, in the list and the curve",
        bar=True,
    ),
    Key(
        key="equals_sign",
        shown="=",
        act="compare",
        word="compare",
        help="compare two marked checkpoints, or this one with its parent; in Runs two runs",
        bar=True,
    ),
    Key(
        key="d",
        shown="d",
        act="trash_chosen",
        word="trash",
        help="move the marked ones, or this one, to the trash: asks first",
        bar=True,
    ),
    Key(
        key="V",
        shown="V",
        act="verify",
        word="verify",
        help="compare every file with its recorded digest",
        bar=True,
    ),
    Key(
        key="y",
        shown="y",
        act="copy",
        word="copy",
        help="copy the path, the name, or a command about it",
        bar=True,
    ),
    Key(
        key="s",
        shown="s",
        act="sort",
        word="sort",
        help="choose the order",
        bar=True,
    ),
    Key(
        key="S",
        shown="S",
        act="reverse",
        word="reverse",
        help="turn the order around",
    ),
    Key(
        key="v",
        shown="v",
        act="range",
        word="range",
        help="begin a range here; v again marks all from there to the cursor",
    ),
    Key(
        key="a",
        shown="a",
        act="mark_all",
        word="mark all",
        help="mark all that the list shows",
    ),
    Key(
        key="i",
        shown="i",
        act="invert",
        word="invert",
        help="mark what is not marked, and the other way round",
    ),
    Key(
        key="n",
        shown="n",
        act="note",
        word="note",
        help="pin with a note, or change the note",
        changes=True,
        row=True,
    ),
    Key(
        key="T",
        shown="T",
        act="trash",
        word="show trash",
        help="what is in the trash: restore it, or empty it",
    ),
    Key(
        key="l",
        shown="l",
        act="journal",
        word="journal",
        help="what was done to this run",
    ),
    Key(
        key="ctrl+r,f5",
        shown="ctrl+r",
        act="rescan",
        word="rescan",
        help="read the disk again now",
    ),
    Key(
        key="full_stop",
        shown=".",
        act="pause",
        word="pause",
        help="stop or go on reading again by itself",
    ),
    Key(
        key="f",
        shown="f",
        act="full",
        word="full pane",
        help="this list on the whole screen, or everything again",
    ),
    Key(
        key="M",
        shown="M",
        act="columns",
        word="columns",
        help="choose which columns the list has",
    ),
    Key(
        key="colon,ctrl+p",
        shown=":",
        act="palette",
        word="go to",
        help="search all deeds, runs and checkpoints, and go there",
    ),
)

MOVES = (
    ("up down", "move (also k j)"),
    ("pgup pgdn", "move by screens"),
    ("home end", "first and last (also g G)"),
    ("left right", "columns that have no room"),
    ("enter", "everything about the checkpoint"),
    ("tab", "the next pane"),
    ("esc", "back: filter, marks, runs. Never quits"),
    ("q", "quit"),
)

BACK = Key(key="escape", shown="esc", act="back", word="back", help="go back", bar=True)
"""On every screen but the first."""


def same(
    act: str,
    *,
    help: str | None = None,  # noqa: A002 - the field's name
    word: str | None = None,
    bar: bool | None = None,
) -> Key:
    """The key of a deed that the first screen has too, with words of its own where they differ."""
    key = next(k for k in BROWSE if k.act == act)
    return replace(
        key,
        help=key.help if help is None else help,
        word=key.word if word is None else word,
        bar=key.bar if bar is None else bar,
    )


def bindings(keys: Sequence[Key]) -> list[BindingType]:
    """Bindings of a screen or dialog for a table of keys."""
    return [Binding(k.key, f"press('{k.act}')", k.help, show=False, id=k.act) for k in keys]


def hints(
    keys: Sequence[Key], *, shown: Callable[[Key], str], usable: Callable[[Key], bool]
) -> list[Hint]:
    """What the key bar shows: the keys as the user has them, those of use now."""
    return [(_in_bar(k, shown(k)), k.word) for k in keys if k.bar and usable(k)]


def _in_bar(key: Key, shown: str) -> str:
    """A pair of keys stands together unless the user has moved one of them."""
    return key.bar_as if key.bar_as and shown == key.shown else shown


_SPELLED = {
    "question_mark": "?",
    "slash": "/",
    "full_stop": ".",
    "comma": ",",
    "colon": ":",
    "semicolon": ";",
    "equals_sign": "=",
    "plus": "+",
    "minus": "-",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "exclamation_mark": "!",
    "escape": "esc",
    "pageup": "pgup",
    "pagedown": "pgdn",
}


def spelled(key: str) -> str:
    """A key of Textual as people write it."""
    return _SPELLED.get(key, key)
