from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ckptui.tui import clipboard
from ckptui.tui.screens.chart import ChartScreen
from ckptui.tui.screens.resume import ResumeDialog
from tests.factory import make_run
from tests.tui.driver import SIZES, Driver, drive

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _no_tmux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMUX", raising=False)


def curved_run(path: Path) -> Path:
    return make_run(
        path,
        range(10, 60, 10),
        metrics={s: {"eval_loss": None if s == 30 else 1.0 + s / 100} for s in range(10, 60, 10)},
        rows=[
            {"step": s, "attempt": 1, "loss": "NaN" if s == 25 else 5.0 - s / 20}
            for s in range(1, 60)
        ],
        policy=["keep-last 1"],
    )


@pytest.mark.parametrize("size", SIZES)
def test_the_chart_cursor_snaps_to_checkpoints_and_moves_the_list(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    async def script(d: Driver) -> None:
        await d.press("m", "c")
        assert isinstance(d.app.screen, ChartScreen)
        assert "loss" in d.lines[0]
        assert "step_50" in d.text
        await d.press("left", "left")
        assert "step_30" in d.text
        assert d.current == "step_30"
        await d.press("home", "left")
        assert d.current == "step_10"
        await d.press("L")
        assert "(log)" in d.text
        await d.press("p")
        row = d.main.current
        assert row is not None
        assert row.checkpoint.pinned
        await d.press("escape")
        assert d.current == "step_10"

    drive(curved_run(tmp_path / "run"), script, size=size)


def test_the_chart_says_where_a_value_is_not_finite(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        await d.press("c", "left", "left")
        assert "nan" in d.text
        assert "? not finite" in d.text

    drive(curved_run(tmp_path / "run"), script)


def test_the_chart_of_a_run_without_metrics_says_so(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        await d.press("c")
        assert "no metrics were logged" in d.text

    drive(make_run(tmp_path / "run", [1, 2]), script)


@pytest.mark.parametrize("size", SIZES)
def test_the_resume_line_is_checked_shown_and_copied(tmp_path: Path, size: tuple[int, int]) -> None:
    run = curved_run(tmp_path / "a run")

    async def script(d: Driver) -> None:
        await d.press("r")
        screen = d.app.screen
        assert isinstance(screen, ResumeDialog)
        assert screen.line is not None
        assert not d.app.clipboard
        assert "resume_from" in d.text
        await d.press("y")
        assert d.app.clipboard == screen.line
        assert "Copied by OSC 52" in d.text
        assert screen.query_one("#close").has_focus
        await d.press("escape")
        assert d.app.screen is d.main

    assert drive(run, script, size=size) is None


def test_leaving_with_the_line_hands_it_back(tmp_path: Path) -> None:
    run = curved_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("r", "tab", "tab")
        await d.pilot.press("enter")

    line = drive(run, script)
    assert line is not None
    assert "resume_from" in line


def test_a_checkpoint_of_weights_says_why_it_cannot_be_resumed(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1], resumable=False)

    async def script(d: Driver) -> None:
        await d.press("r")
        assert "weights only" in d.text
        await d.press("tab", "enter")

    assert drive(run, script) is None


def test_tmux_is_asked_before_the_escape_sequence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    tmux = folder / "tmux"
    tmux.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/args\ncat > {tmp_path}/got\n')
    tmux.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    monkeypatch.setenv("TMUX", "/tmp/tmux,1,0")
    assert clipboard.through_tmux("a 'b' $c")
    assert (tmp_path / "got").read_text() == "a 'b' $c"
    assert (tmp_path / "args").read_text().split() == ["load-buffer", "-w", "-"]
    tmux.write_text("#!/bin/sh\nexit 1\n")
    assert not clipboard.through_tmux("x")
    monkeypatch.delenv("TMUX")
    assert not clipboard.through_tmux("x")


def test_verification_tells_good_from_bad(tmp_path: Path) -> None:
    run = curved_run(tmp_path / "run")
    data = (run / "step_40" / "model.safetensors").read_bytes()
    (run / "step_40" / "model.safetensors").write_bytes(data[:-1] + b"\x01")

    async def script(d: Driver) -> None:
        await d.press("V")
        assert "verified" in d.text
        assert "1 of 1 checked" in d.text
        await d.press("a")
        assert "5 of 5 checked, 1 failed" in d.text
        await d.press("home", "down")
        assert "model.safetensors has other content" in d.text
        await d.press("escape")
        assert d.app.screen is d.main

    drive(run, script)


def test_the_journal_is_shown_newest_first(tmp_path: Path) -> None:
    run = curved_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("l")
        assert "Nothing was recorded" in d.text
        await d.press("escape", "p", "p", "l")
        found = [word for line in d.lines for word in ("unpin", "pin") if f" {word} " in line]
        assert found == ["unpin", "pin"]

    drive(run, script)


def test_copying_a_path(tmp_path: Path) -> None:
    run = curved_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("y", "enter")
        assert d.app.clipboard == str(run / "step_50")
        assert "OSC 52" in d.text

    drive(run, script)
