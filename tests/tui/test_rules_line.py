from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from ckptui.errors import UsageError
from ckptui.retention import KeepBest, KeepEvery, KeepLast, KeepNames
from ckptui.tui.rules_line import command_line, parse_rules, remove_line, rules_text


def test_a_policy_becomes_a_line_and_back() -> None:
    line = rules_text(("keep-last 3", "keep-best 1:eval_loss:min"))
    assert parse_rules(line) == ((KeepLast(3), KeepBest(1, "eval_loss", "min")), False)


def test_a_run_without_a_policy_starts_carefully() -> None:
    assert parse_rules(rules_text(None)) == ((KeepLast(3),), False)


def test_dashes_incomplete_and_names_are_understood() -> None:
    rules, incomplete = parse_rules("--keep-every 100, incomplete", {"step_7"})
    assert rules == (KeepEvery(100), KeepNames(("step_7",)))
    assert incomplete


@pytest.mark.parametrize("line", ["keep-last 0", "keep-last x", "nonsense", "keep step_5"])
def test_what_is_no_rule_is_refused(line: str) -> None:
    with pytest.raises(UsageError):
        parse_rules(line)


def test_the_command_says_the_same_and_survives_a_shell() -> None:
    run = Path("/tmp/a b;$(x)'q")
    line = command_line(run, "keep-last 3, incomplete", {"step_2"})
    assert shlex.split(line) == [
        "ckptui", "prune", str(run), "--keep-last", "3", "--incomplete", "--keep", "step_2",
    ]  # fmt: skip
    assert shlex.split(remove_line(run, ["step_1"])) == [
        "ckptui",
        "rm",
        "step_1",
        "--run",
        str(run),
    ]
