"""What `browse` can be started with: filters, picking, read-only, preferences, one frame."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from ckptui.cli import main
from ckptui.errors import UsageError
from ckptui.preferences import Preferences
from ckptui.tui.every_key import all_keys
from ckptui.tui.wishes import Wishes
from tests.cli.harness import tree
from tests.factory import make_run
from tests.tui.driver import Driver, drive, small_run
from tests.tui.terminal import CKPTUI, Pty

if TYPE_CHECKING:
    from pathlib import Path


def test_a_filter_given_at_the_start_is_the_one_to_begin_with(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        assert d.names == ["step_1000", "step_900"]
        assert "/ step>800" in d.text
        await d.press("escape")
        assert len(d.names) == 10

    drive(run, script, filter_text="step>800")


def test_a_bad_filter_is_told_before_anything_is_drawn(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1])
    done = CliRunner().invoke(main, ["browse", str(run), "--filter", "step>x"])
    assert done.exit_code == 2
    assert "step>x" in done.stderr


def test_picking_leaves_with_the_path_of_the_row_that_enter_was_pressed_on(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.pilot.press("down", "enter")
        await d.pilot.pause()

    assert drive(run, script, pick=True) == str(run / "step_900")


def test_off_a_terminal_the_listing_is_filtered_too(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    done = CliRunner().invoke(main, ["browse", str(run), "--filter", "step>900"])
    assert done.exit_code == 0
    assert "step_1000" in done.stdout
    assert "step_900" not in done.stdout


def test_off_a_terminal_nobody_can_pick(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1])
    done = CliRunner().invoke(main, ["browse", str(run), "--pick"])
    assert done.exit_code == 2
    assert done.stdout == ""


def test_read_only_refuses_what_changes_something_and_the_disk_stays_as_it_is(
    tmp_path: Path,
) -> None:
    run = small_run(tmp_path / "run")
    before = tree(run)

    async def script(d: Driver) -> None:
        for key in ("p", "n", "z", "w"):
            await d.press(key)
            assert "Read-only" in d.text, key
            assert d.app.screen is d.main
        await d.press("d")
        await d.press("right", "enter")
        assert "ead-only" in d.words
        await d.press("escape", "escape", "x")
        d.main.said = ""
        await d.press("right", "enter")
        assert (run / "step_100").exists()

    drive(run, script, read_only=True)
    assert tree(run) == before


def test_a_key_of_the_users_own_does_the_deed_and_is_the_one_that_is_shown(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        assert "P pin" in d.lines[-1]
        await d.press("P")
        assert d.main.current is not None
        assert d.main.current.checkpoint.pinned
        await d.press("p")
        assert d.main.current.checkpoint.pinned  # the old key does nothing any more

    drive(run, script, preferences=Preferences(keys={"pin": "P"}), size=(120, 40))


def test_a_deed_that_loses_its_key_to_another_is_told(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        assert "No key any more, by your configuration: prune" in d.text
        await d.press("x")
        assert d.main.current is not None
        assert d.main.current.checkpoint.pinned
        assert "x prune" not in d.lines[-1]
        assert "x pin" in d.lines[-1]

    drive(run, script, preferences=Preferences(keys={"pin": "x"}), size=(120, 40))


def test_unknown_deeds_and_themes_are_told_in_a_sentence() -> None:
    with pytest.raises(UsageError, match="Did you mean pin"):
        Wishes(preferences=Preferences(keys={"pinn": "P"})).check({"nord"})
    with pytest.raises(UsageError, match="no theme blue"):
        Wishes(preferences=Preferences(theme="blue")).check({"nord"})


def test_keys_that_there_are_not_and_those_that_mean_the_same_everywhere_are_refused() -> None:
    with pytest.raises(UsageError, match="nosuchkey is no key"):
        Wishes(preferences=Preferences(keys={"pin": "nosuchkey"})).check({"nord"})
    for key in ("q", "escape", "enter", "down", "ctrl+q"):
        with pytest.raises(UsageError, match="cannot be given away"):
            Wishes(preferences=Preferences(keys={"prune": f"f8,{key}"})).check({"nord"})
    Wishes(preferences=Preferences(keys={"prune": "f8,ctrl+x"})).check({"nord"})


def test_every_deed_has_one_name_everywhere() -> None:
    assert {"pin", "prune", "compare", "palette", "copy"} <= set(all_keys())


def test_columns_of_the_users_own(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        heading = d.lines[2]
        assert [w in heading for w in ("Checkpoint", "loss", "Attempt", "Kept by")] == [
            True,
            True,
            True,
            False,
        ]

    chosen = Preferences(columns=("name", "loss", "attempt"))
    drive(run, script, preferences=chosen, size=(120, 40))


def test_columns_without_room_come_in_sideways(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        assert "Epoch" not in d.lines[2]
        for _ in range(9):
            await d.press("right")
        assert "Epoch" in d.lines[2]
        assert "Checkpoint" in d.lines[2]
        for _ in range(9):
            await d.press("left")
        assert "Epoch" not in d.lines[2]
        assert "State" in d.lines[2]

    drive(run, script, size=(60, 20))


def test_the_list_alone_and_back(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        assert "path" in d.text
        await d.press("f")
        assert "kept by" not in d.text
        await d.press("f")
        assert "kept by" in d.text

    drive(run, script)


def once(run: Path, *options: str, columns: int = 80, lines: int = 24) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "ckptui", "browse", str(run), *options],
        env={**os.environ, "COLUMNS": str(columns), "LINES": str(lines)},
        capture_output=True,
        text=True,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.stderr == ""
    return done.stdout


def test_one_frame_is_text_of_the_size_of_the_terminal(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    before = tree(run)
    frame = once(run, "--once")
    assert "\x1b" not in frame
    lines = frame.splitlines()
    assert len(lines) == 24
    assert max(len(line) for line in lines) <= 80
    assert "step_1000" in frame
    assert "Plan" in once(run, "--once", "x")
    assert "step_900" not in once(run, "--once", "--filter", "step=1000")
    once(run, "--once", "p d right enter")
    assert tree(run) == before


def test_one_frame_writes_nothing_beside_the_run_either(tmp_path: Path) -> None:
    run = small_run(tmp_path / "root" / "run")
    before = tree(tmp_path)
    once(run, "--once", "down r w enter")
    once(run, "--once", "y enter")
    assert tree(tmp_path) == before


def test_a_key_that_there_is_not_is_told(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1])
    done = CliRunner().invoke(main, ["browse", str(run), "--once", "down nokey"])
    assert done.exit_code == 2
    assert "nokey is no key" in done.stderr


def test_a_pipe_that_closes_early_does_no_harm(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    shell = shutil.which("sh")
    assert shell is not None
    line = f"'{sys.executable}' -m ckptui browse '{run}' --once | head -1"
    done = subprocess.run(
        [shell, "-c", line], capture_output=True, text=True, check=False, env=os.environ
    )
    assert done.stderr == ""
    assert "10 checkpoints" in done.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_leaves_the_terminal_as_it_was_and_tells_by_the_exit_code(
    tmp_path: Path, number: int
) -> None:
    run = small_run(tmp_path / "run")
    with Pty([*CKPTUI, "browse", run]) as terminal:
        terminal.until(lambda data: b"step_1000" in data)
        terminal.quiet()
        os.kill(terminal.process.pid, number)
        terminal.ended()
        assert terminal.process.returncode == 128 + number
        terminal.assert_restored()


def test_a_byte_that_is_no_text_is_no_key_and_no_crash(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    with Pty([*CKPTUI, "browse", run]) as terminal:
        terminal.until(lambda data: b"step_1000" in data)
        terminal.quiet()
        terminal.send(b"\xe9\xff\x80")
        terminal.quiet()
        terminal.send(b"q")
        terminal.ended()
        assert terminal.process.returncode == 0
        terminal.assert_restored()


def test_a_fault_of_ours_ends_with_its_traceback_and_exit_code_1(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    code = (
        "import ckptui.tui.screens.browse as b;"
        "b.headline = lambda *_: 1 / 0;"
        f"from ckptui.cli import main; main(['browse', {str(run)!r}, '--once'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=os.environ
    )
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    assert "fault of ckptui" in done.stderr
    assert done.stdout == ""


def test_a_terminal_that_goes_away_takes_the_browser_with_it(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", range(1, 400))
    terminal = Pty([*CKPTUI, "browse", run], size=(160, 45))
    try:
        terminal.until(lambda data: b"step_399" in data)
        for _ in range(200):
            terminal.send(b"\x1b[6~\x1b[5~")  # much to write, and nobody reads it
        os.close(terminal.master)
        assert terminal.process.wait(30) in {129, -signal.SIGHUP}
    finally:
        terminal.process.kill()
        terminal.process.wait()


def test_a_size_that_the_shell_exports_hides_no_resize(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    with Pty([*CKPTUI, "browse", run], env={"COLUMNS": "80", "LINES": "24"}) as terminal:
        terminal.until(lambda data: b"step_1000" in data)
        terminal.quiet()
        terminal.resize(30, 8)
        terminal.until(lambda data: b"needs at least" in data)
        terminal.send(b"q")
        terminal.ended()


def test_an_open_line_writes_nothing_while_nobody_types(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    with Pty([*CKPTUI, "browse", run]) as terminal:
        terminal.until(lambda data: b"step_1000" in data)
        terminal.send(b"?")
        terminal.until(lambda data: b"ype to search" in data)
        terminal.quiet()
        assert terminal.read(2.5) == b""
        terminal.send(b"\x1bq")
