"""A plan carried out: one removal at a time, each looked at again, whoever else is at work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ckptui import pins, prune, remove
from ckptui.retention import PrunePlan, parse_rule, plan_prune, plan_remove
from ckptui.scan import scan_run
from ckptui.verify import verify_checkpoint
from tests.factory import make_checkpoint, make_run

ROOT = Path(__file__).parent.parent


def planned(run: Path, rule: str = "keep-last 1") -> PrunePlan:
    return plan_prune(scan_run(run).checkpoints, [parse_rule(rule)], now=datetime.now(UTC))


def names(run: Path) -> list[str]:
    return [c.name for c in scan_run(run).checkpoints]


def test_the_plan_is_what_happens(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 2, 3])
    plan = planned(run)
    done = list(prune.execute(plan))
    assert [r.checkpoint.name for r in done] == [r.checkpoint.name for r in plan.removals]
    assert all(r.done and r.item and r.freed == 0 for r in done)
    assert names(run) == ["step_3"]
    for item in remove.list_trash(run):
        remove.restore(item)
    assert names(run) == ["step_1", "step_2", "step_3"]


def test_deleting_gives_the_space_back_that_was_promised(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 2, 3])
    plan = planned(run)
    freed = [r.freed for r in prune.execute(plan, delete=True)]
    assert freed == [row.frees for row in plan.removals]
    assert remove.list_trash(run) == ()


def test_stopping_between_two_leaves_the_rest(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 2, 3])
    next(iter(prune.execute(planned(run))))
    assert names(run) == ["step_2", "step_3"]


def test_one_pinned_meanwhile_is_left_and_the_others_go(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 2, 3, 4])
    plan = planned(run)
    pins.pin(scan_run(run).checkpoints[1])
    done = {r.checkpoint.name: r for r in prune.execute(plan, delete=True)}
    assert not done["step_2"].done
    assert "pinned now" in str(done["step_2"].error)
    assert names(run) == ["step_2", "step_4"]


def test_nothing_goes_once_all_that_would_be_kept_is_gone(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 2, 3])
    plan = planned(run)
    remove.move_to_trash([scan_run(run).checkpoints[-1]], why="rm")
    done = list(prune.execute(plan))
    assert all("is gone by now" in str(r.error) for r in done)
    assert names(run) == ["step_1", "step_2"]


def test_one_that_is_gone_already_counts_as_done(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 2, 3])
    plan = planned(run)
    remove.move_to_trash([scan_run(run).checkpoints[0]], why="rm")
    assert [(r.done, r.error, r.freed) for r in prune.execute(plan)] == [(True, None, 0)] * 2


def test_a_trash_that_somebody_else_empties_meanwhile_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run", [1, 2, 3])
    real = remove.move_to_trash

    def raced(*args: Any, **more: Any) -> str:
        item = real(*args, **more)
        remove.empty(remove.find_item(run, item))
        return item

    monkeypatch.setattr(remove, "move_to_trash", raced)
    assert [(r.done, r.error) for r in prune.execute(planned(run), delete=True)] == [
        (True, None)
    ] * 2


def test_named_ones_go(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 2, 3])
    found = scan_run(run).checkpoints
    list(prune.execute(plan_remove(found, [found[0]]), why="rm"))
    assert names(run) == ["step_2", "step_3"]
    assert remove.list_trash(run)[0].why == "rm"


def test_what_is_not_ours_is_never_a_target(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 2])
    make_checkpoint(run, "step_0", step=0)
    marker = run / "step_0" / "checkpoint.json"
    marker.write_text(json.dumps({**json.loads(marker.read_text()), "format": 9}))
    list(prune.execute(planned(run), delete=True))
    assert names(run) == ["step_0", "step_2"]


PRUNE = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from ckptui import prune
from ckptui.retention import parse_rule, plan_prune
from ckptui.scan import scan_run
run = Path(sys.argv[1])
plan = plan_prune(scan_run(run).checkpoints, [parse_rule("keep-last 5")], now=datetime.now(UTC))
print("ready", flush=True)
sys.stdin.readline()
failed = [r.error for r in prune.execute(plan, delete=True) if r.error]
sys.exit(f"{failed}" if failed else 0)
"""


def test_b79_two_prunings_at_once_both_succeed(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", range(1, 51))
    children = [
        subprocess.Popen(
            [sys.executable, "-c", PRUNE, str(run)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    for child in children:
        _, errors = child.communicate()
        assert child.returncode == 0, errors
    assert names(run) == [f"step_{n}" for n in range(46, 51)]


CROWD = """
import random, sys
from datetime import UTC, datetime
from pathlib import Path
from ckptui import pins, prune, remove
from ckptui.errors import CkptuiError
from ckptui.retention import parse_rule, plan_prune
from ckptui.scan import scan_run
run, kind, rounds = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
rng = random.Random(sys.argv[2] + sys.argv[4])
def is_there(checkpoint):
    try:
        pins._find(checkpoint)
    except CkptuiError:
        return False
    return True
for _ in range(rounds):
    found = scan_run(run)
    try:
        if kind == "prune":
            plan = plan_prune(found.checkpoints, [parse_rule(f"keep-last {rng.randint(1, 3)}")],
                              now=datetime.now(UTC))
            list(prune.execute(plan))
        elif kind == "restore":
            for item in remove.list_trash(run):
                try:
                    remove.restore(item)
                except CkptuiError:
                    pass
        else:
            # Each has its own, for an unpin by one would take the pin of another; and some are
            # nobody's, so that some pruning can happen at all.
            mine = [c for c in found.checkpoints if c.step % 6 == int(sys.argv[4])]
            if mine:
                chosen = rng.choice(mine)
                pins.pin(chosen)
                # A pin that was reported protects from that moment on.
                for _ in range(5):
                    # A pruning may have it in hand for a moment before it sees the pin.
                    assert is_there(chosen), f"{chosen.name} went although it is pinned"
                pins.unpin(chosen)
    except CkptuiError:
        pass
"""


def crowd(run: Path, rounds: int) -> None:
    children = [
        subprocess.Popen(
            [sys.executable, "-c", CROWD, str(run), kind, str(rounds), str(number)],
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for kind, number in (
            *(("prune", n) for n in range(2)),
            *(("restore", n) for n in range(2)),
            *(("pin", n) for n in range(4)),
        )
    ]
    problems = [child.communicate()[1] for child in children]
    assert [c.returncode for c in children] == [0] * 8, problems


@pytest.mark.parametrize(
    "rounds", [pytest.param(12, id="some"), pytest.param(300, id="many", marks=pytest.mark.slow)]
)
def test_eight_processes_that_pin_prune_restore_and_unpin_lose_nothing(
    tmp_path: Path, rounds: int
) -> None:
    run = make_run(tmp_path / "run", range(1, 13))
    crowd(run, rounds)
    for item in remove.list_trash(run):
        remove.restore(item)
    found = scan_run(run)
    assert [c.name for c in found.checkpoints] == [f"step_{n}" for n in range(1, 13)]
    for c in found.checkpoints:
        assert verify_checkpoint(c, full=True).status == "verified"
    assert not [p for p in os.listdir(run) if "tmp" in p]
