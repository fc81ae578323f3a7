from __future__ import annotations

import shlex
import shutil
import threading
from typing import TYPE_CHECKING, Any

import pytest

from ckptui.tui.resuming import examine
from ckptui.tui.screens.dialogs import InputDialog
from ckptui.tui.screens.resume import ResumeDialog
from tests.factory import make_checkpoint, make_run
from tests.tui.driver import SIZES, Driver, drive

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _no_tmux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMUX", raising=False)


def dialog(d: Driver) -> ResumeDialog:
    assert isinstance(d.app.screen, ResumeDialog)
    return d.app.screen


async def read(d: Driver) -> str:
    """All that the dialog says, scrolled from its beginning to its end, without spaces."""
    seen = d.words
    for _ in range(30):
        await d.pilot.press("j")
        await d.pilot.pause()
        seen += d.words
    return "".join(seen.split())


@pytest.mark.parametrize("size", SIZES)
def test_every_check_is_told_in_words(tmp_path: Path, size: tuple[int, int]) -> None:
    run = make_run(tmp_path / "run", [1, 2, 3])

    async def script(d: Driver) -> None:
        await d.press("r")
        seen = await read(d)
        for words in (
            "yes complete",
            "yes holds what resuming needs",
            "yes all 5 files are there",
            "yes its 1 setting can be read",
            "note it is the newest one: training continues in the same run",
        ):
            assert words.replace(" ", "") in seen
        await d.press("escape", "down", "r")
        assert "1neweronestaysasitis" in await read(d)
        await d.press("escape", "down", "r")
        seen = await read(d)
        assert "2neweronesstayastheyare:trainingforksintoanewrun" in seen
        assert "run-from-step_1" in seen

    drive(run, script, size=size)


@pytest.mark.parametrize("size", [*SIZES, (40, 10)])
def test_the_buttons_stay_and_the_line_can_be_read_to_its_end(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    run = make_run(tmp_path / ("deep" * 30) / "run", [1, 2])

    async def script(d: Driver) -> None:
        await d.press("r")
        assert "[>Close<]" in d.text
        assert "Quit and print it" in d.words
        line = dialog(d).line
        assert line is not None
        begun = "".join(line[:30].split())
        assert begun in "".join(d.words.split())
        assert "".join(line[-20:].split()) in await read(d)
        assert "[>Close<]" in d.text

    drive(run, script, size=size)


def test_what_is_not_resumable_says_why_and_offers_the_newest_that_is(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 2])
    make_checkpoint(run, "step_3", step=3, resumable=False)
    make_checkpoint(run, "step_4", step=4, marker=False)
    (run / "step_1" / "recipe_state.safetensors").unlink()

    async def script(d: Driver) -> None:
        await d.press("home", "r")
        assert "NO partial, not complete" in d.words
        assert "The newest that is resumable is step_2" in d.words
        await d.press("p", "w", "y")
        assert dialog(d).line is None
        await d.press("escape", "down", "r")
        assert "NO step_3 holds weights only" in d.words
        assert "Take step_2" in d.words
        await d.press("t")
        line = dialog(d).line
        assert line is not None
        assert "Resume from step_2" in d.text
        assert not d.app.clipboard
        await d.press("y")
        assert d.app.clipboard == line
        assert "Copied by OSC 52" in d.words
        await d.press("escape", "end", "r")
        assert "recipe_state.safetensors is missing" in d.words or "broken" in d.words

    drive(run, script)


def test_the_settings_are_written_where_one_says_and_never_over_something(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 2])
    there = tmp_path / "there.yaml"
    there.write_text("mine")

    async def script(d: Driver) -> None:
        await d.press("r", "w")
        ask = d.app.screen
        assert isinstance(ask, InputDialog)
        assert ask.query_one("#line").value == str(tmp_path / "run-from-step_2.yaml")  # type: ignore[attr-defined]
        await d.press("ctrl+u", *str(there), "enter")
        assert "is there already" in d.words
        assert dialog(d).line is not None
        await d.press("w", "enter")
        assert "Written to" in d.words
        line = dialog(d).line
        assert line is not None
        assert str(tmp_path / "run-from-step_2.yaml") in shlex.split(line)

    drive(run, script)
    assert there.read_text() == "mine"
    assert "output_dir" in (tmp_path / "run-from-step_2.yaml").read_text()


def test_read_only_writes_no_config(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1])

    async def script(d: Driver) -> None:
        await d.press("r", "w")
        assert "Read-only" in d.words
        assert dialog(d).line is not None

    drive(run, script, read_only=True)


def test_p_quits_and_hands_the_line_over(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1])

    async def script(d: Driver) -> None:
        await d.press("r")
        await d.pilot.press("p")

    line = drive(run, script)
    assert line is not None
    assert "resume_from=latest" in line


def test_what_a_verification_found_is_among_the_checks(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 2])
    file = run / "step_2" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"\x01")

    async def script(d: Driver) -> None:
        await d.press("V", "a", "escape", "r")
        assert "NO a verification in this session failed" in d.words
        await d.press("escape", "down", "r")
        assert "yes every byte was verified in this session" in d.words
        await d.press("escape", "x")
        assert "! Failed when verified, but no rule knows of it: step_2." in d.words
        await d.press("e", "ctrl+u", *"keep-last 1", "enter")
        assert "! Nothing will be resumable afterwards." in d.words

    drive(run, script)


def test_of_an_abandoned_branch_it_says_that_the_line_forks(tmp_path: Path) -> None:
    attempts = [{"attempt": 1, "start_step": 0}, {"attempt": 2, "start_step": 1}]
    run = make_run(tmp_path / "run", [1, 2, 3], attempts=attempts)
    make_checkpoint(run, "step_2_again", step=2, attempt=2)

    async def script(d: Driver) -> None:
        d.main.select(run / "step_3")
        await d.settle()
        await d.press("r")
        seen = await read(d)
        assert "itliesonanabandonedbranch:trainingforksintoanewrun" in seen
        assert "newestone" not in seen
        assert "run-from-step_3" in seen

    drive(run, script)


def test_of_several_run_ids_each_newest_continues_by_its_name(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 3])
    make_checkpoint(run, "step_2", step=2, run_id="f" * 32)

    async def script(d: Driver) -> None:
        d.main.select(run / "step_2")
        await d.settle()
        await d.press("r")
        assert f"resume_from={run / 'step_2'}" in shlex.split(dialog(d).line or "")
        assert "itisthenewestofitsrunid:trainingcontinuesinthesamerun" in await read(d)

    drive(run, script)


def test_nested_settings_are_counted_one_by_one(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 2])
    config = b"output_dir: x\noptimizer: {lr: 1, betas: {a: 1, b: 2}}\nseed: 1\n"
    make_checkpoint(run, "step_3", step=3, extra_files={"recipe_config.yaml": config})

    async def script(d: Driver) -> None:
        await d.press("r")
        assert "its 5 settings can be read" in d.words

    drive(run, script)


async def look(d: Driver, run: Path) -> None:
    d.app.reader.read_runs([run])
    await d.settle()


def test_once_a_newer_one_is_saved_the_line_is_another_one(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 2])

    async def script(d: Driver) -> None:
        await d.press("r")
        assert "resume_from=latest" in (dialog(d).line or "")
        make_checkpoint(run, "step_3", step=3)
        await look(d, run)
        assert "Checked again, as the run has changed" in d.words
        assert f"resume_from={run / 'step_2'}" in shlex.split(dialog(d).line or "")
        assert "1neweronestaysasitis" in await read(d)

    drive(run, script)


def test_of_a_checkpoint_that_was_replaced_no_line_is_handed_out(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 2])

    async def script(d: Driver) -> None:
        await d.press("r")
        shutil.rmtree(run / "step_2")
        make_checkpoint(run, "step_2", step=2, created="2026-01-01T11:00:00.000000Z")
        await look(d, run)
        assert "step_2 is gone or has changed meanwhile." in d.words
        assert "resume_from" not in d.words
        await d.press("y", "p", "w")
        assert dialog(d).line is None
        assert not d.app.clipboard
        await d.press("enter")
        assert d.app.screen is d.main

    drive(run, script)


def test_no_line_is_handed_out_while_it_is_checked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run", [1, 2])
    go_on = threading.Event()

    def slow(*words: Any, **more: Any) -> Any:
        go_on.wait(60)
        return examine(*words, **more)

    async def script(d: Driver) -> None:
        await d.press("r")
        monkeypatch.setattr("ckptui.tui.screens.resume.examine", slow)
        make_checkpoint(run, "step_3", step=3)
        d.app.reader.read_runs([run])
        await d.until(lambda: "checking again" in d.words)
        await d.pilot.press("y", "p")
        await d.pilot.pause()
        assert dialog(d).is_current
        assert not d.app.clipboard
        go_on.set()
        await d.settle()
        await d.press("y")
        assert f"resume_from={run / 'step_2'}" in d.app.clipboard

    drive(run, script)
