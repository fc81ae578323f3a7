"""What a prune preview is asked for: rules or chosen checkpoints, and what was decided by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ckptui.retention import Action
from ckptui.tui import work
from ckptui.tui.rules_line import command_line, remove_line

if TYPE_CHECKING:
    from pathlib import Path

    from ckptui.checkpoint import Checkpoint, Run
    from ckptui.retention import PlanRow


@dataclass
class Asked:
    """The rules, or the chosen ones, with the rows that were flipped."""

    chosen: tuple[Checkpoint, ...] | None
    """What is to go; None where rules decide."""
    text: str
    """The rules as they are typed."""
    keep: frozenset[str] = frozenset()
    """Names that stay by hand."""
    also: tuple[Checkpoint, ...] = ()
    """What goes by hand besides what the rules remove."""

    @property
    def request(self) -> work.Request:
        """What a plan is made of."""
        if self.chosen is not None:
            return work.ByName(self.chosen, self.keep)
        return work.ByRules(self.text, self.keep, self.also)

    def flip(self, run: Run, row: PlanRow) -> str | None:
        """Keep a row that would go, let one go that only rules keep, or take either back.

        Returns:
            Why it stays all the same, in a sentence.
        """
        c = row.checkpoint
        if c.name in self.keep:
            self.keep -= {c.name}
        elif any(c.path == other.path for other in self.also):
            self.also = tuple(other for other in self.also if other.path != c.path)
        elif row.action is Action.REMOVE:
            self.keep |= {c.name}
        elif self.chosen is None:
            why = work.why_it_stays(run, row)
            if why is not None:
                return why
            self.also = (*self.also, c)
        return None

    def pinned(self, c: Checkpoint) -> None:
        """A checkpoint is about to be pinned: chosen or not, it stays."""
        self.also = tuple(other for other in self.also if other.path != c.path)
        if self.chosen is not None:
            self.keep |= {c.name}

    def command(self, run: Path | str) -> str:
        """The command line that does the same."""
        if self.chosen is None:
            return command_line(run, self.text, self.keep, [c.name for c in self.also])
        return remove_line(run, [c.name for c in self.chosen if c.name not in self.keep])
