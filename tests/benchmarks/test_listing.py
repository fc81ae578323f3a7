"""What starting and listing cost, beside the least that could be asked: click alone, and `du -s`.

`pytest -m benchmark -s tests/benchmarks` prints medians and ratios; nothing is asserted about time.
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.factory import make_run

ROUNDS = 9
HERE = Path(__file__).parent.parent.parent

pytestmark = pytest.mark.benchmark


def seconds(*words: str | Path) -> float:
    """The wall time of one command, from start to end."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
    # Users have compiled modules; without them every start would compile anew.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    begun = time.perf_counter()
    subprocess.run(list(map(str, words)), env=environment, check=True, capture_output=True)
    return time.perf_counter() - begun


def medians(**commands: list[str | Path]) -> dict[str, float]:
    """The median time of each command; rounds are interleaved, the first is dropped."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(ROUNDS + 1):
        for name, words in commands.items():
            times[name].append(seconds(*words))
    return {name: statistics.median(values[1:]) for name, values in times.items()}


def report(title: str, found: dict[str, float], **ratios: float) -> None:
    print(f"\n{title} ({platform.machine()}, {os.cpu_count()} cores, median of {ROUNDS})")
    for name, value in found.items():
        print(f"  {name:<28} {value * 1000:7.1f} ms")
    for name, value in ratios.items():
        print(f"  {name.replace('_', ' '):<28} {value:7.2f}")


def test_help_beside_click_alone() -> None:
    python = sys.executable
    found = medians(
        nothing=[python, "-c", "pass"],
        click=[python, "-c", "import click"],
        help=[python, "-m", "ckptui", "--help"],
    )
    report("ckptui --help", found, help_over_click=found["help"] / found["click"])


def test_ls_of_1000_checkpoints_beside_du(tmp_path: Path) -> None:
    python = sys.executable
    run = make_run(
        tmp_path / "root" / "run",
        range(10, 10_010, 10),
        policy=["keep-last 2", "keep-best 1:eval_loss:min"],
        metrics={s: {"eval_loss": 1 + s / 1e4, "loss": 100 / s} for s in range(10, 10_010, 10)},
        extra_files={"tokenizer.json": b"{}", "generation_config.json": b"{}"},
    )
    assert len(list((run / "step_10").iterdir())) == 8
    (tmp_path / "empty").mkdir()
    found = medians(
        du=["du", "-s", run],
        start_up=[python, "-m", "ckptui", "ls", tmp_path / "empty"],
        ls=[python, "-m", "ckptui", "ls", tmp_path / "root"],
        ls_json=[python, "-m", "ckptui", "ls", tmp_path / "root", "--json"],
    )
    report(
        "ckptui ls, 1,000 checkpoints of 8 files, warm",
        found,
        ls_less_start_up_over_du=(found["ls"] - found["start_up"]) / found["du"],
        json_less_start_up_over_du=(found["ls_json"] - found["start_up"]) / found["du"],
    )
