"""What stands below a curve: checkpoints as ticks, and the steps as numbers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, overload

from ckptui.display.scales import round_numbers, spelled
from ckptui.tui.listing import resumed_from

if TYPE_CHECKING:
    from ckptui.display.picture import Trace
    from ckptui.display.plot import Domain
    from ckptui.tui.snapshot import Row

_STEP_APART = 9
"""Cells from one step below the curve to the next, at least."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A checkpoint below the curve."""

    key: str
    step: int
    letter: str
    """What it is: `|` or one of the flags of the list."""


class Ticks(Sequence[Tick]):
    """Checkpoints ascending by step, thousands of them in no time."""

    __slots__ = ("_index", "keys", "letters", "rows", "steps")

    def __init__(
        self, ticks: Sequence[tuple[str, int, str]] = (), rows: Sequence[Row] = ()
    ) -> None:
        """Take them as they are.

        Args:
            ticks: Key, step and letter of each.
            rows: The rows they stand for, in the same order.
        """
        self.rows = rows
        self.keys = [key for key, _, _ in ticks]
        self.steps = [step for _, step, _ in ticks]
        self.letters = "".join(letter for _, _, letter in ticks)
        self._index = {key: i for i, key in enumerate(self.keys)}

    def __len__(self) -> int:
        return len(self.keys)

    @overload
    def __getitem__(self, index: int) -> Tick: ...
    @overload
    def __getitem__(self, index: slice) -> list[Tick]: ...
    def __getitem__(self, index: int | slice) -> Tick | list[Tick]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self.keys)))]
        return Tick(self.keys[index], self.steps[index], self.letters[index])

    def find(self, key: str | None) -> int | None:
        """Where the checkpoint of a key stands."""
        return None if key is None else self._index.get(key)

    def row(self, key: str | None) -> Row | None:
        """What stands at the key."""
        at = self.find(key)
        return None if at is None or not self.rows else self.rows[at]

    def letters_for(self, metrics: Collection[str]) -> str:
        """The letters where `*` is for the best by one of these metrics alone, as in the list.

        Without a metric, and without the rows, they are those of the best by any.
        """
        if "*" not in self.letters or not metrics or not self.rows:
            return self.letters
        return "".join(
            letter
            if letter != "*" or any(name in metrics for name in row.standing.best)
            else "R"
            if resumed_from(row)
            else "|"
            for letter, row in zip(self.letters, self.rows, strict=True)
        )

    def with_row(self, row: Row, letter: str = "!") -> Ticks:
        """The same with a row that has no tick any more, at its step."""
        step = row.checkpoint.step or 0
        at = bisect_right(self.steps, step)
        ticks = list(zip(self.keys, self.steps, self.letters, strict=True))
        return Ticks(
            [*ticks[:at], (row.key, step, letter), *ticks[at:]],
            [*self.rows[:at], row, *self.rows[at:]],
        )

    def nearest(self, step: int) -> int | None:
        """The checkpoint nearest to a step; of two equally near the later one."""
        at = bisect_right(self.steps, step)
        near = [i for i in (at, at - 1) if 0 <= i < len(self.steps)]
        return min(near, key=lambda i: abs(self.steps[i] - step), default=None)


def whole(traces: Sequence[Trace], ticks: Ticks) -> tuple[int, int]:
    """The first and the last step of all there is to show."""
    ends = [t.curve.steps[i] for t in traces if t.curve for i in (0, len(t.curve) - 1)]
    ends += [ticks.steps[0], ticks.steps[-1]] if ticks else []
    return min(ends, default=0), max(ends, default=0)


def step_labels(over: Domain) -> str:
    """Round steps below the cells where they stand, in one line: as many as have room."""
    steps, texts = [over.first], spelled([over.first])
    for count in range(over.width // _STEP_APART, 0, -1):
        round_steps = round_numbers(over.first, over.last, count, whole=True)
        found = [int(s) for s in round_steps if over.first <= s <= over.last]
        words = spelled(found)
        if len(found) > 1 and _apart(found, words, over):
            steps, texts = found, words
            break
    line = [" "] * over.width
    for step, text in zip(steps, texts, strict=True):
        start = min(over.column(step) - len(text) // 2, over.width - len(text))
        line[max(0, start) : max(0, start) + len(text)] = text
    return "".join(line[: over.width])


def _apart(steps: Sequence[int], texts: Sequence[str], over: Domain) -> bool:
    """Whether the texts leave some room between them."""
    room = min(over.column(b) - over.column(a) for a, b in pairwise(steps))
    return room >= max(map(len, texts)) + 3
