"""Trainers and commands that race on one run lose nothing, and the judges of that would tell."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests import races
from tests.factory import make_run
from tests.races import Attempt, Eyes, Op, Seen

ROOT = Path(__file__).parent.parent
PINNED = ("step_1", "then")


def op(kind: str, begun: float, ended: float, *, answer: Any = None, **more: Any) -> Op:
    words = more.pop("words", (kind, "--json"))
    out = json.dumps(answer or {"version": 1})
    return Op(who="x", kind=kind, words=words, begun=begun, ended=ended, code=0, out=out, **more)


def pin(begun: float, ended: float, how: str = "changed") -> Op:
    return op("pin", begun, ended, answer={how: [{"name": "step_1", "created": "then"}]})


def unpin(begun: float, ended: float) -> Op:
    return op("unpin", begun, ended, lifts=("step_1",))


def eyes(last: int, looks: int = 20) -> Eyes:
    """One that looked once a second, and saw step_1 last in the look of this number."""
    found = Eyes(Path("/nowhere"))
    found.looks = [(n, n + 0.5) for n in range(looks)]
    found.seen[PINNED] = Seen(step=1, size=100, resumable=True, last=last)
    return found


class TestPins:
    def test_one_that_goes_while_it_is_pinned_is_lost(self) -> None:
        assert races.judge_pins([pin(1, 2)], eyes(last=5))
        assert races.judge_pins([pin(1, 2, "unchanged"), unpin(12, 13)], eyes(last=5))

    def test_one_that_goes_after_its_unpin_began_is_not(self) -> None:
        assert not races.judge_pins([pin(1, 2), unpin(5, 9)], eyes(last=6))

    def test_one_that_stays_is_not(self) -> None:
        assert not races.judge_pins([pin(1, 2)], eyes(last=19))

    def test_an_unpin_beside_the_pin_may_have_come_later(self) -> None:
        assert not races.judge_pins([pin(3, 6), unpin(1, 4)], eyes(last=2))
        assert races.judge_pins([pin(3, 6), unpin(1, 2)], eyes(last=2))

    def test_an_unpin_that_was_killed_may_have_worked_at_any_time(self) -> None:
        killed = Op(who="x", kind="unpin", words=(), begun=4, lifts=("step_1",))
        assert not races.judge_pins([pin(1, 2), killed], eyes(last=7))

    def test_a_pin_that_failed_protects_nothing(self) -> None:
        assert not races.judge_pins([op("pin", 1, 2, answer={"error": {}})], eyes(last=5))


class TestAnswers:
    def test_tracebacks_codes_and_what_is_no_json_are_told(self) -> None:
        good = op("ls", 0, 1)
        assert not races.judge_answers([good])
        for bad in (
            replace(good, err="Traceback (most recent call last):"),
            replace(good, code=2),
            replace(good, code=-11),
            replace(good, out="{"),
            replace(good, out=json.dumps({"error": {"kind": "io", "message": ""}})),
        ):
            assert races.judge_answers([bad]), bad

    def test_an_interrupt_before_a_command_runs_is_pythons_own(self) -> None:
        start = 'File "<frozen runpy>", line 1, in x\nKeyboardInterrupt'
        assert races.is_early(start)
        assert races.is_early(f'File "/a/ckptui/cli/__init__.py", line 1, in <module>\n{start}')
        working = 'File "/a/ckptui/remove.py", line 1, in _move\nKeyboardInterrupt'
        assert not races.is_early(working)


class TestFreed:
    def freed(self, *counts: int) -> list[Op]:
        rows = [{"results": [{"name": "step_1", "freed": n}]} for n in counts]
        return [op("prune", 0, 1, answer=row) for row in rows]

    def test_a_byte_is_not_given_back_twice(self) -> None:
        assert not races.judge_freed(self.freed(100), eyes(last=5))
        assert not races.judge_freed(self.freed(40, 60), eyes(last=5))
        assert races.judge_freed(self.freed(100, 60), eyes(last=5))

    def test_what_still_stands_gave_nothing_back(self) -> None:
        assert races.judge_freed(self.freed(1), eyes(last=19))


class TestJournal:
    def judge(self, *what: str, kills: int = 0) -> list[str]:
        events = [{"what": w, "checkpoints": ["step_1"], "reason": None} for w in what]
        return races.judge_journal(events, eyes(last=5), kills)

    def test_what_was_deleted_is_not_deleted_again(self) -> None:
        assert not self.judge("save", "prune", "empty")
        assert not self.judge("save", "prune", "restore", "rm", "empty")
        assert self.judge("save", "prune", "empty", "empty")

    def test_what_was_removed_is_not_removed_again(self) -> None:
        assert self.judge("save", "prune", "rm")
        assert not self.judge("save", "prune", "rm", kills=1)


class TestTrainers:
    def attempt(self, begun: float, ended: float, *records: Any, **more: Any) -> Attempt:
        written = tuple({"what": w, "time": t, **values} for w, t, values in records)
        return Attempt(
            **{"who": "x", "code": 0, "newest": 0, "err": "", "gone": ended, **more},
            begun=begun,
            ended=ended,
            records=written,
        )

    def test_two_owners_at_a_time_are_told(self) -> None:
        one = self.attempt(0, 9, ("owner", 1, {}))
        assert races.judge_trainers([one, self.attempt(2, 8, ("owner", 5, {}))])
        assert not races.judge_trainers([one, self.attempt(2, 12, ("owner", 10, {}))])

    def test_a_wrong_state_and_an_older_step_are_told(self) -> None:
        def resumed(**values: Any) -> Attempt:
            record = {"step": 5, "exact": True, **values}
            return self.attempt(0, 9, ("owner", 1, {}), ("resumed", 2, record), newest=5)

        assert not races.judge_trainers([resumed()])
        assert races.judge_trainers([resumed(exact=False)])
        assert races.judge_trainers([resumed(step=4)])

    def test_only_a_lock_refuses_and_only_while_another_lives(self) -> None:
        def refused(kind: str) -> Attempt:
            said = {"kind": kind, "message": ""}
            return self.attempt(2, 3, ("refused", 2.5, said), code=1)

        owner = self.attempt(0, 9, ("owner", 1, {}), code=-9)
        assert not races.judge_trainers([owner, refused("locked")])
        assert races.judge_trainers([owner, refused("io")])
        assert races.judge_trainers([refused("locked")])

    def test_a_crash_is_told(self) -> None:
        assert races.judge_trainers([self.attempt(0, 1, err="Traceback", code=9)])


def test_the_observer_sees_what_goes_and_what_is_no_json(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 2])
    found = Eyes(run)
    found.look()
    assert found.newest == 2
    assert not found.violations
    (run / "step_2").rename(tmp_path / "away")
    found.look()
    assert "step 2, is gone" in found.violations.pop()
    assert found.is_lost(("step_2", "2026-01-01T00:00:02.000000Z"), 0, 1e12) is False
    found.look()
    assert found.is_lost(("step_2", "2026-01-01T00:00:02.000000Z"), 0, 1e12) is True
    assert found.is_lost(("step_1", "2026-01-01T00:00:01.000000Z"), 0, 1e12) is False
    (run / ".ckptui").mkdir()
    (run / ".ckptui" / "journal.jsonl").write_text('{"a": 1}\n{"cut\n')
    found.read_all()
    assert "journal is no JSON" in found.violations[-1]
    (run / ".ckptui" / ".x.tmp").touch()
    assert races.judge_rest(run) == [".ckptui/.x.tmp is left"]


@pytest.mark.slow
@pytest.mark.torch
def test_trainers_and_commands_that_race_on_one_run_lose_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.races", "--seconds", "40", "--seed", "11"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.stdout, done.stderr
    print(done.stdout)
    found = json.loads(done.stdout)
    assert found["violations"] == [], done.stderr
    assert done.returncode == 0
    # It was no calm sea, not even where the machine is busy with other things.
    assert found["commands in all"] > 100
    assert found["saves"] > 20
    assert found["protections judged"] > 10
    assert found["trainers"]["owner"] > 2
    assert min(found["journal"][what] for what in ("pin", "prune", "rm", "restore", "empty")) > 1
