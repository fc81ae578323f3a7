"""The line of rules in the prune preview: `keep-last 3, keep-best 1:eval_loss:min`."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from ckptui.errors import UsageError
from ckptui.retention import KeepNames, Rule, parse_rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

DEFAULT = "keep-last 3"
INCOMPLETE = "incomplete"


def rules_text(policy: Sequence[str] | None) -> str:
    """The line that a run's policy makes, or a careful start where it has none."""
    return ", ".join(policy) if policy else DEFAULT


def parse_rules(text: str, keep: Iterable[str] = ()) -> tuple[tuple[Rule, ...], bool]:
    """The rules of a line, and whether incomplete checkpoints go.

    Args:
        text: Rules as on the command line, separated by commas, with or without dashes.
        keep: Names of checkpoints to keep besides.

    Raises:
        UsageError: A part is no rule.
    """
    parts = [part.strip().removeprefix("--") for part in text.split(",")]
    rules = []
    for part in parts:
        if not part or part == INCOMPLETE:
            continue
        if part.startswith("keep "):
            msg = "Keep single checkpoints by pressing space on them, or pin them."
            raise UsageError(msg)
        rules.append(parse_rule(part))
    names = tuple(sorted(keep))
    if names:
        rules.append(KeepNames(names))
    return tuple(rules), INCOMPLETE in parts


def command_line(run: Path, text: str, keep: Iterable[str] = ()) -> str:
    """The shell line that makes the same plan."""
    words = ["ckptui", "prune", str(run)]
    for part in text.split(","):
        words += f"--{part.strip().removeprefix('--')}".split(maxsplit=1) if part.strip() else []
    for name in sorted(keep):
        words += ["--keep", name]
    return shlex.join(words)


def remove_line(run: Path, names: Iterable[str]) -> str:
    """The shell line that removes these checkpoints."""
    return shlex.join(["ckptui", "rm", *names, "--run", str(run)])
