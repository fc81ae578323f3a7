"""What starting and listing cost, beside the least that could be asked: click alone, and `du -s`.

`pytest -m benchmark -s tests/benchmarks` prints medians and ratios. Other work on the machine makes
all of it slower, so what is asserted is asserted of the best round.
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.cli.harness import environment
from tests.factory import make_run

if TYPE_CHECKING:
    from pathlib import Path

ROUNDS = 15
CKPTUI = (sys.executable, "-c", "from ckptui.__main__ import start; start()")

pytestmark = pytest.mark.benchmark


def seconds(words: tuple[str | Path, ...]) -> float:
    """The wall time of one command, from start to end."""
    # Users have compiled modules; without them every start would compile anew.
    env = environment(PYTHONDONTWRITEBYTECODE=None)
    begun = time.perf_counter()
    subprocess.run(words, env=env, check=True, capture_output=True)
    return time.perf_counter() - begun


def measure(**commands: tuple[str | Path, ...]) -> dict[str, list[float]]:
    """The times of each command; the rounds are interleaved, and the first is dropped."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(ROUNDS + 1):
        for name, words in commands.items():
            times[name].append(seconds(words))
    return {name: values[1:] for name, values in times.items()}


def report(title: str, times: dict[str, list[float]], ratios: dict[str, tuple[str, str]]) -> None:
    """Print medians, the best round, and ratios of both."""
    print(f"\n{title} ({platform.machine()}, {os.cpu_count()} cores, {ROUNDS} rounds)")
    print(f"  {'':<34} {'median':>10} {'best':>10}")
    for name, values in times.items():
        found = [statistics.median(values) * 1000, min(values) * 1000]
        print(f"  {name.replace('_', ' '):<34} {found[0]:7.1f} ms {found[1]:7.1f} ms")
    for name, (above, below) in ratios.items():
        one, other = _sum(times, above), _sum(times, below)
        print(f"  {name:<34} {one[0] / other[0]:10.2f} {one[1] / other[1]:10.2f}")


def _sum(times: dict[str, list[float]], terms: str) -> tuple[float, float]:
    """Median and best of a sum such as `ls - start_up`."""
    median = best = 0.0
    sign = 1
    for word in terms.split():
        if word in "+-":
            sign = 1 if word == "+" else -1
            continue
        median += sign * statistics.median(times[word])
        best += sign * min(times[word])
    return median, best


def test_help_beside_click_alone() -> None:
    times = measure(
        nothing=(sys.executable, "-c", "pass"),
        click=(sys.executable, "-c", "import click"),
        help=(*CKPTUI, "--help"),
    )
    report("ckptui --help", times, {"help / click": ("help", "click")})
    assert min(times["help"]) < 2 * min(times["click"])


def test_ls_of_1000_checkpoints_beside_du(tmp_path: Path) -> None:
    steps = range(10, 10_010, 10)
    run = make_run(
        tmp_path / "root" / "run",
        steps,
        policy=["keep-last 2", "keep-best 1:eval_loss:min"],
        metrics={s: {"eval_loss": 1 + s / 1e4, "loss": 100 / s} for s in steps},
        extra_files={"tokenizer.json": b"{}", "generation_config.json": b"{}"},
    )
    assert len(list((run / "step_10").iterdir())) == 8
    (tmp_path / "empty").mkdir()
    times = measure(
        python=(sys.executable, "-c", "pass"),
        du=("du", "-s", run),
        start_up=(*CKPTUI, "ls", tmp_path / "empty"),
        ls=(*CKPTUI, "ls", tmp_path / "root"),
        ls_json=(*CKPTUI, "ls", tmp_path / "root", "--json"),
        show=(*CKPTUI, "show", "latest", "--run", run),
    )
    report(
        "ckptui ls, 1,000 checkpoints of 8 files, warm",
        times,
        {
            "(ls - start-up) / du": ("ls - start_up", "du"),
            "(ls --json - start-up) / du": ("ls_json - start_up", "du"),
            "ls / (du + python)": ("ls", "du + python"),
        },
    )
    assert min(times["ls"]) < 0.5
