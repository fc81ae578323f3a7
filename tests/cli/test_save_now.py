"""`save-now`: the name of the checkpoint, or one sentence why there is none."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from ckptui import lock, requests
from ckptui.scan import scan_run
from tests.cli import forms
from tests.cli.harness import Terminal, answer, ckptui, ok, process, strict
from tests.factory import make_run
from tests.live_trainer import DEAF, FAILS, HOLDS, LATE, LiveTrainer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NONE = type(None)
SAVE_NOW = {
    "version": forms.whole,
    "run": forms.path,
    "checkpoint": (forms.CHECKPOINT, NONE),
    "error": (str, NONE),
}


def asked(*words: str | Path, code: int = 0) -> dict[str, Any]:
    found = answer("save-now", *words, code=code)
    forms.check(found, SAVE_NOW)
    return found


def left(run: Path) -> list[str]:
    """What lies among the requests."""
    return os.listdir(run / ".ckptui" / "requests")


def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so; half a minute is a failure."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def newest(run: Path) -> str:
    return scan_run(run).checkpoints[-1].name


def test_a_live_run_saves_and_the_name_is_all_that_is_printed(run: Path) -> None:
    with LiveTrainer(run):
        found = ok("save-now", run)
        assert (found.out, found.err) == (f"{newest(run)}\n", "")
    assert newest(run) != "step_100"
    assert scan_run(run).checkpoints[-1].complete
    assert left(run) == []


def test_json_answers_with_the_checkpoint(run: Path) -> None:
    with LiveTrainer(run):
        found = asked(run)
    assert found["run"] == str(run)
    assert found["error"] is None
    assert found["checkpoint"]["name"] == newest(run)
    assert found["checkpoint"]["latest"] is True


@pytest.mark.parametrize("way", ["option", "root", "environment", "here"])
def test_the_run_is_named_as_for_any_command(
    run: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = {"option": ["--run", str(run)], "root": [str(run.parent)]}.get(way, [])
    if way == "environment":
        monkeypatch.setenv("CKPTUI_RUN", str(run))
    if way == "here":
        monkeypatch.chdir(run / "step_10")
    with LiveTrainer(run):
        assert ok("save-now", *words).out == f"{newest(run)}\n"


def test_a_run_without_its_first_checkpoint_can_be_asked(tmp_path: Path) -> None:
    run = make_run(tmp_path / "young")
    with LiveTrainer(run):
        assert ok("save-now", run).out == f"{newest(run)}\n"


def test_two_who_ask_at_once_get_the_same_checkpoint(run: Path) -> None:
    with LiveTrainer(run, LATE):
        one, two = Terminal("save-now", run), Terminal("save-now", run)
        assert (one.end(), two.end()) == (0, 0)
    for terminal in (one, two):
        assert f"saved {newest(run)} in {run}\n" in terminal.text
    assert len(scan_run(run).checkpoints) == 5


def test_why_the_trainer_could_not_save_is_exit_1(run: Path) -> None:
    with LiveTrainer(run, FAILS):
        found = ckptui("save-now", run)
        assert (found.code, found.out, found.err) == (1, "", "ckptui: The disk is full.\n")
        told = asked(run, code=1)
    assert (told["checkpoint"], told["error"]) == (None, "The disk is full.")


def test_a_run_that_nobody_trains_is_refused(run: Path) -> None:
    found = ckptui("save-now", run)
    assert (found.code, found.out) == (1, "")
    assert found.err == f"ckptui: {run} is not being trained now, so nobody can save it.\n"
    error = answer("save-now", run, code=1)
    forms.check(error, forms.ERROR)
    assert error["error"]["kind"] == "refused"


def test_a_run_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    assert answer("save-now", tmp_path / "gone", code=1)["error"]["kind"] == "not_found"


def test_no_answer_in_time_is_exit_1_and_withdraws(run: Path) -> None:
    with LiveTrainer(run, DEAF):
        found = ckptui("save-now", run, "--wait", "1")
        assert found.code == 1
        assert "did not answer within 1 s" in found.err
        assert left(run) == []


def test_an_owner_that_is_killed_meanwhile_is_told(run: Path) -> None:
    with LiveTrainer(run, HOLDS) as trainer:
        terminal = Terminal("save-now", run)
        terminal.wait_for(f"Asking process {trainer.pid} on ")
        trainer.expect("taken")
        trainer.kill()
        assert terminal.end() == 1
    assert "died before it answered" in terminal.text
    assert left(run) == []


def test_wait_0_only_asks_and_the_trainer_saves_all_the_same(run: Path) -> None:
    with LiveTrainer(run) as trainer:
        found = ok("save-now", run, "--wait", "0")
        assert found.out.startswith(f"asked process {trainer.pid} on ")
        assert "not waiting" in found.out
        trainer.expect("taken")
    assert newest(run) != "step_100"
    with LiveTrainer(run, DEAF):
        told = asked(run, "--wait", "0")
    assert (told["checkpoint"], told["error"]) == (None, None)


def test_ctrl_c_withdraws_and_is_130(run: Path) -> None:
    with LiveTrainer(run, DEAF):
        terminal = Terminal("save-now", run)
        terminal.wait_for("waiting up to 120 s")
        until(lambda: (run / ".ckptui" / "requests").exists() and len(left(run)) == 1)
        terminal.type("\x03")
        assert terminal.end() == 130
        assert "Interrupted." in terminal.text
        assert "Traceback" not in terminal.text
        assert left(run) == []


def test_what_is_gone_again_is_no_success(run: Path) -> None:
    """As where the policy of the run removes it at once."""
    with lock.acquire(run, report=print):
        box = requests.Inbox(run)
        box.start()

        def answer_once() -> None:
            while not box.waiting:
                time.sleep(0.01)
            box.answer(box.take(), checkpoint="step_77")

        trainer = threading.Thread(target=answer_once, daemon=True)
        trainer.start()
        found = asked(run, code=1)
        trainer.join(30)
        box.stop()
    assert found["checkpoint"] is None
    assert found["error"] == f"step_77 was saved in {run}, but it is gone already."


@pytest.mark.parametrize("seconds", ["-1", "soon", "nan", "1e9", "99999999"])
def test_a_time_that_is_none_is_wrong_usage(run: Path, seconds: str) -> None:
    assert ckptui("save-now", run, "--wait", seconds).code == 2


def test_a_pipe_gets_the_answer_alone(run: Path) -> None:
    with LiveTrainer(run):
        done = process("save-now", run, "--json")
    assert (done.returncode, done.stderr) == (0, b"")
    assert strict(done.stdout.decode())["checkpoint"]["name"] == newest(run)
