"""The line of rules in the prune preview: `keep-last 3, keep-best 1:eval_loss:min`."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from ckptui.errors import UsageError
from ckptui.retention import KeepBest, KeepNames, Rule, parse_rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

DEFAULT = "keep-last 3"
INCOMPLETE = "incomplete"


def rules_text(policy: Sequence[str] | None, default: str = DEFAULT) -> str:
    """The line that a run's policy makes, or a careful start where it has none."""
    return ", ".join(policy) if policy else default


def parse_rules(text: str, keep: Iterable[str] = ()) -> tuple[tuple[Rule, ...], bool]:
    """The rules of a line, and whether incomplete checkpoints go.

    Args:
        text: Rules as on the command line, separated by commas, with or without dashes.
        keep: Names of checkpoints to keep besides.

    Raises:
        UsageError: A part is no rule; where there are several, it says which.
    """
    parts = [part.strip().removeprefix("--") for part in text.split(",")]
    rules = []
    for number, part in enumerate(parts, 1):
        if not part or part == INCOMPLETE:
            continue
        try:
            rules.append(_parse(part))
        except UsageError as e:
            if len(parts) == 1:
                raise
            msg = f"Rule {number} of {len(parts)}: {e}"
            raise UsageError(msg) from e
    names = tuple(sorted(keep))
    if names:
        rules.append(KeepNames(names))
    return tuple(rules), INCOMPLETE in parts


def _parse(part: str) -> Rule:
    if part.startswith("keep "):
        msg = "Keep single checkpoints by pressing space on them, or pin them."
        raise UsageError(msg)
    return parse_rule(part)


def fits_one_command(text: str) -> bool:
    """Whether `ckptui prune` takes all the rules at once: of options given twice it obeys one.

    Raises:
        UsageError: A part is no rule.
    """
    rules, _ = parse_rules(text)
    once = [type(rule) for rule in rules if not isinstance(rule, KeepBest)]
    return len(once) == len(set(once))


def command_line(
    run: Path | str, text: str, keep: Iterable[str] = (), also: Iterable[str] = ()
) -> str:
    """The shell line that makes the same plan; `also` goes besides what the rules remove.

    Raises:
        UsageError: A part of the text is no rule.
    """
    words = ["ckptui", "prune", str(run)]
    rules, incomplete = parse_rules(text)
    for rule in rules:
        option, _, value = str(rule).partition(" ")
        words += [f"--{option}", value]
    if incomplete:
        words.append(f"--{INCOMPLETE}")
    for name in sorted(keep):
        words += ["--keep", name]
    named = sorted(also)
    return shlex.join(words) + (f" && {remove_line(run, named)}" if named else "")


def remove_line(run: Path | str, names: Iterable[str]) -> str:
    """The shell line that removes these checkpoints."""
    return shlex.join(["ckptui", "rm", *names, "--run", str(run)])
