"""The pages of the detail screen and its keys."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ckptui.tui.keys import BACK, Key, same

TABS: Final = ("overview", "files", "tensors", "metrics", "config", "lineage")
_OPENED: Final = {
    "overview": "all that is known at a glance",
    "files": "every file with its size and digest",
    "tensors": "every tensor with its dtype, shape and file",
    "metrics": "the metrics at this step, beside the best and the previous checkpoint",
    "config": "the settings that differ from the parent's and the run's first",
    "lineage": "where it came from and what went on from it",
}
ABOUT_IT: Final = {"pin", "note", "resume", "trash_chosen", "verify", "compare"}
"""Deeds that need the checkpoint to be there."""


KEYS: Final = (
    same("help", help="show the keys, the letters and the words", bar=True),
    Key(
        key="tab",
        shown="tab",
        act="next_tab",
        word="page",
        help="the next page",
        bar=True,
    ),
    Key(
        key="shift+tab",
        shown="shift+tab",
        act="previous_tab",
        word="page before",
        help="the page before",
    ),
    replace(BACK, key="escape,enter"),
    Key(
        key="o",
        shown="o",
        act="only",
        word="all",
        help="settings: all of them, or only those that differ",
        bar=True,
    ),
    same("filter", help="show only the lines that hold all words typed", bar=True),
    same("pin", help="pin this checkpoint, or take its pin away", bar=True),
    same("resume", help="the command that resumes from it", bar=True),
    Key(
        key="equals_sign",
        shown="=",
        act="compare",
        word="compare",
        help="compare with its parent",
        bar=True,
    ),
    Key(
        key="right_square_bracket",
        shown="]",
        bar_as="[ ]",
        act="next_checkpoint",
        word="move",
        help="the next checkpoint of the list",
        bar=True,
    ),
    Key(
        key="left_square_bracket",
        shown="[",
        act="previous_checkpoint",
        word="previous",
        help="the one before it in the list",
    ),
    same("copy", help="copy its path, its name or a command line about it", bar=True),
    same("verify", help="compare every file with its recorded digest", bar=True),
    same("trash_chosen", help="move it to the trash: shows the plan first", bar=True),
    same("note", help="pin it with a note, or change the note", bar=False),
    *(
        Key(key=str(i), shown=str(i), act=f"open_{tab}", word=tab, help=_OPENED[tab])
        for i, tab in enumerate(TABS, 1)
    ),
)
