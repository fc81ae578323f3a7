"""What the help lists and finds: keys, letters, words, and the names of runs and checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ckptui.tui import keys, listing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from ckptui.checkpoint import Run
    from ckptui.tui.screens.base import BrowserScreen

HITS = 40
"""Names that are shown at most."""

STATES = (
    ("ok", "complete, and training can continue from it"),
    ("weights", "complete, but without what resuming needs"),
    ("adapter", "complete, but only an adapter"),
    ("writing", "being written by a live trainer"),
    ("partial", "the marker is missing: never counted"),
    ("broken", "a listed file is missing or too short"),
    ("unknown", "not ours, or no access: never touched"),
)
FILTER = (
    ("eval 200", "names that hold both words; words in quotes are one"),
    ("step>=2000", "also epoch, size>10G, age<2h, created, any metric; = and != too"),
    ("state:ok", "also pin:yes, note:lr, kept:best, run:sweep, has:eval_loss, nan:loss"),
    ("a | b   !a", "either; not"),
)
MOVES = (
    ("up down", "move (also k j)"),
    ("pgup pgdn", "move by screens"),
    ("tab", "the next part"),
    ("esc", "back to where this was opened"),
    ("q", "quit"),
)
PROMISES = (
    (
        "x  d",
        "nothing is deleted by a key: both show a plan first, and what goes lies in the trash",
    ),
    ("T", "there it stays until you empty the trash by typing a number"),
    ("z", "brings back what this session moved last"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the help."""

    group: str
    """What it stands under."""
    shown: str
    """The key, the letter or the word."""
    text: str
    act: str | None = None
    """The deed that Enter does, on the screen the help was opened from."""
    why_not: str | None = None
    """Why that is not possible now."""
    place: Path | None = None
    """The run or checkpoint that Enter goes to."""
    run: Path | None = None
    """The run of that checkpoint."""
    word: str = ""
    """What the key bar calls it."""

    @property
    def words(self) -> str:
        """What a search looks at."""
        return f"{self.shown} {self.text} {self.word} {self.group}".lower()


def of_screen(screen: BrowserScreen) -> list[Entry]:
    """The keys of a screen, with the reason where one does nothing now."""
    group = f"Here: {screen.HEADING}" if screen.HEADING else "Here"
    return [
        Entry(
            group=group,
            shown=screen.browser.wishes.shown_key(key),
            text=key.help,
            word=key.word,
            act=key.act,
            why_not=screen.why_not(key),
        )
        for key in screen.KEYS
        if key.act != "help"
    ]


def of_others(screen: BrowserScreen, others: Iterable[type[BrowserScreen]]) -> list[Entry]:
    """The keys of other screens."""
    return [
        Entry(
            group=other.HEADING,
            shown=screen.browser.wishes.shown_key(key),
            text=key.help,
            word=key.word,
        )
        for other in others
        if not isinstance(screen, other)
        for key in other.KEYS
        if key.act not in {"help", "back"}
    ]


def words() -> list[Entry]:
    """What is not told by a key of a screen."""
    sections: tuple[tuple[str, Sequence[tuple[str, str]]], ...] = (
        ("Letters before a name", listing.FLAGS),
        ("States", STATES),
        ("Filter", FILTER),
        ("What is promised", PROMISES),
    )
    return [Entry(group=g, shown=s, text=t) for g, pairs in sections for s, t in pairs]


def moves(screen: BrowserScreen) -> list[Entry]:
    """How to move: on the first screen as it says itself, elsewhere as everywhere."""
    told = keys.MOVES if screen is screen.browser.main else MOVES
    return [Entry(group="Moving", shown=shown, text=text) for shown, text in told]


def find(entries: Iterable[Entry], text: str) -> list[Entry]:
    """The entries that hold all words of a text; the key that it is comes first."""
    wanted = text.lower().split()
    found = [e for e in entries if all(word in e.words for word in wanted)]
    return sorted(found, key=lambda e: text.strip() not in e.shown.split())


class Names:
    """The names of runs and checkpoints, ready to be searched at every key."""

    def __init__(self, runs: Iterable[tuple[str, Run]]) -> None:
        """Take the names.

        Args:
            runs: Each with the name by which it is listed.
        """
        self._places: list[tuple[str, Path, Path]] = []
        self._lower: list[str] = []
        self._exact: dict[str, list[int]] = {}
        listed = tuple(runs)
        for name, run in listed:
            self._add(f"run {name}", name.lower(), run.path, run.path)
        for name, run in listed:
            for c in reversed(run.checkpoints):
                label = f"{c.name} of {name}" if len(listed) > 1 else c.name
                self._add(label, c.name.lower(), c.path, run.path)

    def _add(self, label: str, exact: str, place: Path, run: Path) -> None:
        self._exact.setdefault(exact, []).append(len(self._places))
        self._places.append((label, place, run))
        self._lower.append(label.lower())

    def find(self, text: str, *, at_most: int = HITS) -> list[Entry]:
        """The names that hold all words of a text, those that are one of them first."""
        wanted = text.lower().removeprefix("go to ").split()
        if not wanted:
            return []
        first, *others = wanted
        hits = [i for word in wanted for i in self._exact.get(word, ())]
        hits = [i for i in hits if all(word in self._lower[i] for word in wanted)][:at_most]
        seen = set(hits)
        for i, name in enumerate(self._lower):
            if len(hits) >= at_most:
                break
            if first in name and i not in seen and all(word in name for word in others):
                hits.append(i)
        return [self._entry(i) for i in hits]

    def _entry(self, index: int) -> Entry:
        label, place, run = self._places[index]
        return Entry(group="Go to", shown="", text=f"go to {label}", place=place, run=run)
