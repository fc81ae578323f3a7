"""The keys of the prune preview."""

from __future__ import annotations

from ckptui.tui.keys import BACK, Key, same

MOVE = Key(
    key="M",
    shown="M",
    act="move_to_trash",
    word="move",
    help="move to the trash what the plan removes",
    changes=True,
)

KEYS = (
    Key(
        key="e",
        shown="e",
        act="edit_rules",
        word="edit rules",
        help="edit the rules: the plan follows as you type",
        bar=True,
    ),
    Key(
        key="space",
        shown="space",
        act="flip",
        word="keep or not",
        help="keep this one by hand, or let it go",
        bar=True,
    ),
    same("pin"),
    Key(
        key="o",
        shown="o",
        act="only",
        word="only removals",
        help="show everything, or only what does not stay",
        bar=True,
    ),
    same("copy", help="copy the command line that does the same"),
    MOVE,
    Key(
        key="i",
        shown="i",
        act="all_words",
        word="all warnings",
        help="show all that is to know of the plan",
    ),
    same("undo", help="bring back what was moved just now"),
    BACK,
)
