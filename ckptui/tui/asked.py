"""What a prune preview is asked for: rules or chosen checkpoints, and what was decided by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ckptui.retention import Action
from ckptui.tui import work
from ckptui.tui.rules_line import command_line, fits_one_command, remove_line

if TYPE_CHECKING:
    from pathlib import Path

    from ckptui.checkpoint import Checkpoint, Run
    from ckptui.retention import PlanRow
    from ckptui.tui.previews import Preview


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
        goes = row.action is Action.REMOVE
        by_rules = goes and work.LET_GO not in row.reasons
        let_go = any(o.path == c.path and o.identity == c.identity for o in self.also)
        # What was let go under this path may have been another one.
        others = tuple(other for other in self.also if other.path != c.path)
        if c.name in self.keep:
            self.keep -= {c.name}
        elif let_go and not by_rules:
            self.also = others
        elif goes:
            self.also = others
            self.keep |= {c.name}
        elif self.chosen is None:
            why = work.why_it_stays(run, row)
            if why is not None:
                return why
            self.also = (*others, c)
        return None

    def pinned(self, c: Checkpoint) -> None:
        """A checkpoint is about to be pinned: chosen or not, it stays."""
        self.also = tuple(other for other in self.also if other.path != c.path)
        if self.chosen is not None:
            self.keep |= {c.name}


def command(found: Preview, run: Path | str) -> str:
    """The command line that does what a plan says, and nothing else.

    Names that were decided on by hand may be gone by now, or be those of other checkpoints: it
    names what the plan does.

    Args:
        found: The plan; `why_no_command` says whether there is such a line.
        run: How the run is spelled.
    """
    named = [c.name for c in _named(found)]
    request = found.request
    if not isinstance(request, work.ByRules) or not fits_one_command(request.text):
        return remove_line(run, named)
    there = {c.name for c in found.run.checkpoints}
    return command_line(run, request.text, request.keep & there, named)


def why_no_command(found: Preview) -> str | None:
    """Why no command line does what a plan says; None where one does."""
    request, named = found.request, _named(found)
    by_rules = isinstance(request, work.ByRules) and fits_one_command(request.text)
    if not named and not by_rules:
        return "Nothing goes by this plan, so there is no command."
    names = Counter(c.name for c in found.run.checkpoints)
    for c in named:
        if c.staged and names[c.name] > 1:
            return f"No command can name this {c.name}: another one has its name."
    return None


def _named(found: Preview) -> list[Checkpoint]:
    """What a command has to name for it to go."""
    rows = found.plan.removals
    if isinstance(found.request, work.ByRules) and fits_one_command(found.request.text):
        rows = tuple(row for row in rows if work.LET_GO in row.reasons)
    return [row.checkpoint for row in rows]
