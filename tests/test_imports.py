"""What a command imports, each in a fresh interpreter: none is slowed by what it does not need."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cli.harness import HERE, environment
from tests.factory import make_run

if TYPE_CHECKING:
    from pathlib import Path

HEAVY = {"torch", "numpy", "transformers", "textual", "tokenizers", "safetensors", "datasets"}
NEEDED_BY_FEW = HEAVY | {"yaml", "xxhash", "humanize", "rich", "asyncio", "subprocess", "tempfile"}
PARTS_OF_COMMANDS = {
    "ckptui.scan",
    "ckptui.locate",
    "ckptui.retention",
    "ckptui.remove",
    "ckptui.training",
    "ckptui.display.forms",
}


def loaded(code: str, *words: str | Path) -> set[str]:
    """The modules that are there after running code in an interpreter of its own."""
    end = "\nimport json, sys as _sys\n_sys.stderr.write('\\n' + json.dumps(sorted(_sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code + end, *words],
        cwd=HERE,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(done.stderr.splitlines()[-1]))


RUN_COMMAND = """
import sys
from ckptui.cli import main
try:
    main(sys.argv[1:], prog_name="ckptui")
except SystemExit as e:
    assert e.code == 0, e.code
"""


def test_the_package_itself_imports_no_torch_and_knows_training_run() -> None:
    plain = loaded("import sys")
    found = loaded("import ckptui; assert 'TrainingRun' in ckptui.__all__") - plain
    assert not {m.partition(".")[0] for m in found} & NEEDED_BY_FEW
    assert "ckptui.training" not in found
    assert not {m.partition(".")[0] for m in loaded("from ckptui import TrainingRun")} & {
        "torch",
        "numpy",
        "transformers",
        "textual",
        "click",
    }


def test_the_command_line_imports_nothing_heavy() -> None:
    found = loaded("import ckptui.cli") - loaded("import click")
    assert not {m.partition(".")[0] for m in found} & NEEDED_BY_FEW
    assert not found & PARTS_OF_COMMANDS


def test_help_imports_hardly_more_than_click() -> None:
    found = loaded(RUN_COMMAND, "--help") - loaded("import click")
    assert not found & PARTS_OF_COMMANDS
    assert not {m.partition(".")[0] for m in found} & NEEDED_BY_FEW
    assert len({m for m in found if not m.startswith("ckptui")}) <= 12, found


@pytest.mark.parametrize(
    "line",
    [
        "ls {run}",
        "ls {run} --json",
        "ls {run} --filter step>0 --sort -loss",
        "ls {run} --quiet-names",
        "config show",
        "completion bash",
        "browse {run}",
        "show latest --run {run}",
        "metrics {run}",
        "metrics {run} --plot",
        "metrics {run} --csv",
        "pin step_1 --run {run}",
        "unpin step_1 --run {run}",
        "prune {run} --keep-last 1 --dry-run",
        "prune {run} --keep-last 1 --yes",
        "rm step_1 --run {run} --dry-run",
        "trash list --run {run}",
        "trash empty --run {run} --yes",
        "verify {run}",
        "log {run}",
    ],
)
def test_no_command_imports_what_it_does_not_need(tmp_path: Path, line: str) -> None:
    run = make_run(tmp_path / "run", (1, 2), rows=[{"step": 1, "loss": 1.0}])
    found = loaded(RUN_COMMAND, *line.format(run=run).split())
    # `show` tells the age of one checkpoint in words.
    allowed = {"humanize"} if line.startswith("show") else set()
    assert not {m.partition(".")[0] for m in found} & (NEEDED_BY_FEW - allowed)
    if line.startswith("ls"):
        assert not found & {"ckptui.remove", "ckptui.locate", "ckptui.training", "difflib"}


@pytest.mark.parametrize(
    ("line", "allowed"),
    [
        ("verify {run} --full", {"xxhash"}),
        ("resume-cmd latest --run {run}", {"yaml"}),
        ("diff step_1 step_2 --run {run}", {"yaml"}),
        ("resume-cmd step_1 --run {run} --json", {"yaml"}),
    ],
)
def test_the_few_that_need_more_import_only_that(
    tmp_path: Path, line: str, allowed: set[str]
) -> None:
    run = make_run(tmp_path / "run", (1, 2))
    found = loaded(RUN_COMMAND, *line.format(run=run).split())
    assert not {m.partition(".")[0] for m in found} & (HEAVY | {"humanize", "rich"} - allowed)
