from __future__ import annotations

import asyncio
import shlex
import shutil
import threading
from typing import TYPE_CHECKING, Any

import pytest

from ckptui import verify
from ckptui.tui.screens.copying import CopyDialog
from ckptui.tui.screens.verify import VerifyScreen
from ckptui.tui.verified import Meter
from tests.factory import make_checkpoint, make_run
from tests.tui.driver import SIZES, Driver, drive, driving

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ckptui.checkpoint import Checkpoint


@pytest.fixture(autouse=True)
def _no_tmux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMUX", raising=False)


def damaged(path: Path) -> Path:
    """A run whose step_2 has another content of the same size, which only a full check finds."""
    run = make_run(path, [1, 2, 3])
    file = run / "step_2" / "model.safetensors"
    data = file.read_bytes()
    file.write_bytes(data[:-1] + b"\x01")
    return run


def screen(d: Driver) -> VerifyScreen:
    assert isinstance(d.app.screen, VerifyScreen)
    return d.app.screen


def names(d: Driver) -> list[str]:
    return [c.name for c in screen(d).table.rows]


@pytest.mark.parametrize("size", [*SIZES, (40, 10)])
def test_failed_ones_come_first_at_the_end_and_can_be_shown_alone(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    async def script(d: Driver) -> None:
        await d.press("a", "V")
        assert "3 of 3 checked, 1 failed" in d.words
        assert names(d) == ["step_2", "step_3", "step_1"]
        await d.press("o")
        assert names(d) == ["step_2"]
        await d.press("home")
        assert "other content than was written" in d.words
        await d.press("o")
        assert len(names(d)) == 3

    drive(damaged(tmp_path / "run"), script, size=size)


def test_a_quick_check_is_a_choice_and_says_what_it_is(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        await d.press("a", "V", "f")
        assert "Verify, quick: sizes and headers" in d.text
        assert "3 of 3 checked, 0 failed" in d.text
        assert {r.status for r in screen(d).findings.reports.values()} == {"ok"}
        await d.press("f")
        assert "3 of 3 checked, 1 failed" in d.text

    drive(damaged(tmp_path / "run"), script)


def test_stopping_and_going_on_checks_every_one_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run", [1, 2, 3])
    real = verify.verify_checkpoint
    checked: list[str] = []
    began, go_on = threading.Event(), threading.Event()

    def slow(
        checkpoint: Checkpoint, *, full: bool = False, progress: Callable[[int], None] | None = None
    ) -> Any:
        if checkpoint.name == "step_2":
            began.set()
            go_on.wait(60)
        report = real(checkpoint, full=full, progress=progress)
        checked.append(checkpoint.name)
        return report

    monkeypatch.setattr(verify, "verify_checkpoint", slow)

    async def go() -> None:
        async with driving(run) as d:
            await d.settle()
            await d.pilot.press("a", "V")
            await d.until(began.is_set)
            await d.until(lambda: "1 of 3 checked, 0 failed; " in d.text)
            assert " kB" in d.text.split("checked")[1]
            await d.pilot.press("s")
            await d.until(lambda: "stopped: s goes on" in d.text)
            go_on.set()
            await d.settle()
            assert "stopped: s goes on" in d.text
            await d.press("s")
            assert "3 of 3 checked" in d.text
            await d.press("s")
            assert "Everything is checked" in d.text

    asyncio.run(go())
    assert sorted(set(checked)) == ["step_1", "step_2", "step_3"]
    assert checked.count("step_3") == checked.count("step_1") == 1


def test_the_command_checks_the_same(tmp_path: Path) -> None:
    run = damaged(tmp_path / "a run")

    async def script(d: Driver) -> None:
        await d.press("V", "y")
        assert isinstance(d.app.screen, CopyDialog)
        assert shlex.split(d.app.clipboard) == ["ckptui", "verify", f"{run}/step_3", "--full"]
        await d.press("escape", "a", "f", "y")
        assert shlex.split(d.app.clipboard) == ["ckptui", "verify", str(run)]

    drive(run, script)


async def look(d: Driver, run: Path) -> None:
    d.app.reader.read_runs([run])
    await d.settle()


def test_what_is_not_ours_is_not_counted_as_checked(tmp_path: Path) -> None:
    make_checkpoint(tmp_path / "run", "epoch_1", step=1, marker=False)

    async def script(d: Driver) -> None:
        await d.press("V")
        assert "0 of 1 checked, 0 failed, 1 cannot be checked" in d.words
        assert "unchecked" in d.text
        assert "epoch_1 was not checked: no checkpoint.json" in d.words

    drive(tmp_path / "run", script, size=(120, 24))


def test_what_was_found_in_a_replaced_one_is_not_told_of_the_new_one(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 2])

    async def script(d: Driver) -> None:
        await d.press("V")
        assert "1 of 1 checked, 0 failed" in d.words
        shutil.rmtree(run / "step_2")
        new = make_checkpoint(run, "step_2", step=2, created="2026-01-01T11:00:00.000000Z")
        (new / "model.safetensors").write_bytes(b"x" * 100)
        await look(d, run)
        assert "0 of 1 checked, 0 failed; s checks the rest" in d.words
        assert "all files as they were written" not in d.words
        await d.press("s")
        assert "1 of 1 checked, 1 failed" in d.words

    drive(run, script, size=(120, 24))


def test_what_was_removed_is_not_counted_and_not_called_failed(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 2, 3])

    async def script(d: Driver) -> None:
        await d.press("a", "V")
        shutil.rmtree(run / "step_2")
        await d.press("f")
        assert "2 of 2 checked, 0 failed, 1 removed meanwhile" in d.words
        await d.press("f")
        await look(d, run)
        assert "2 of 2 checked, 0 failed, 1 removed meanwhile" in d.words
        assert "was removed meanwhile" in d.words
        assert not any(status == "failed" for status in d.app.verified.values())
        await d.press("y")
        assert shlex.split(d.app.clipboard) == ["ckptui", "verify", str(run), "--full"]
        await d.press("escape")
        run.rename(tmp_path / "away")
        await d.press("f")
        assert "There is no run at" in d.words

    drive(run, script, size=(120, 24))


def test_the_command_names_what_was_chosen_though_the_run_has_as_many(tmp_path: Path) -> None:
    run = damaged(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("a", "V")
        shutil.rmtree(run / "step_1")
        make_checkpoint(run, "step_4", step=4)  # as many as before, but others
        await look(d, run)
        await d.press("y")
        paths = [str(run / name) for name in ("step_3", "step_2")]
        assert shlex.split(d.app.clipboard) == ["ckptui", "verify", *paths, "--full"]

    drive(run, script)


def test_the_key_for_findings_says_what_it_does_next(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        await d.press("a", "V")
        assert "o only findings" in d.lines[-1]
        await d.press("o")
        assert "o all" in d.lines[-1]
        assert "only findings" not in d.lines[-1]
        assert "model.safetensors has other content" in d.words

    drive(damaged(tmp_path / "run"), script, size=(120, 24))


def test_the_time_left_follows_from_the_rate() -> None:
    meter = Meter(10_000_000, began=100.0)
    assert meter.told(100.5, bytes_counted=True) == "0 B of 10 MB"
    meter.add(1_000_000)
    assert meter.told(102.0, bytes_counted=True) == "1 MB of 10 MB, 500 kB/s, 18 s left"
    meter.add(-5)
    meter.add(50_000_000)
    assert meter.done == meter.total
    few = Meter(4, began=0.0)
    few.add(1)
    assert few.told(9.0, bytes_counted=False) == "25%"
