"""What people meet in the terminal: plain locales, order, slow mounts, one key too many."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from ckptui.tui.screens.prune import PruneScreen
from tests.cases.harness import ckptui, listed, standing, tree
from tests.cli.harness import COMMAND, environment
from tests.factory import make_checkpoint, make_run
from tests.tui import slow_disk
from tests.tui.driver import Driver, drive
from tests.tui.terminal import Pty

if TYPE_CHECKING:
    from pathlib import Path

LONG = "eval_loss_on_the_validation_part_of_the_corpus"
FOLDER = "läuft-ganz-lange-mit-einem-namen-der-nicht-in-achtzig-spalten-passt-und-nie-gekürzt-wird"


@pytest.mark.parametrize("reader", ["cat", "head -1"])
def test_B139_a_plain_locale_and_a_pipe_get_full_names_and_no_traceback(
    tmp_path: Path, reader: str
) -> None:
    make_run(tmp_path / FOLDER, [100, 123456789012], metrics={100: {LONG: 1.5}})
    command = " ".join(COMMAND[:1]) + ' -m ckptui ls "$1"'
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{command} | {reader}", "bash", str(tmp_path)],
        env=environment(LC_ALL="C", PYTHONIOENCODING="ascii", COLUMNS="80"),
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr
    assert b"Error" not in done.stderr
    assert done.stdout.isascii()
    text = done.stdout.decode()
    assert "..." not in text
    if reader == "cat":
        assert "step_123456789012 " in text
        assert "step_100 " in text
        assert LONG in text
    assert FOLDER.encode("ascii", "backslashreplace").decode() in text


def test_B140_steps_are_ordered_as_numbers_and_blanks_come_last(tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "run",
        [30, 270, 9, 100],
        metrics={30: {"eval_loss": 2.0}, 270: {"eval_loss": None}, 9: {"eval_loss": 10.0}},
    )
    assert [c["step"] for c in listed(run)] == [9, 30, 100, 270]
    text = ckptui("ls", run).out
    places = [text.index(f"step_{step} ") for step in (9, 30, 100, 270)]
    assert places == sorted(places)

    async def script(d: Driver) -> None:
        assert d.names == ["step_270", "step_100", "step_30", "step_9"]
        await d.press("S")
        assert d.names == ["step_9", "step_30", "step_100", "step_270"]
        for _ in range(2):  # by the metric, one way round and the other
            await d.press("s", "home", "down", "down", "enter")
            assert d.main.order.sort == "metric"
            assert set(d.names[2:]) == {"step_100", "step_270"}
        assert {d.names[0], d.names[1]} == {"step_9", "step_30"}

    drive(run, script)


def test_B142_a_slow_mount_paints_answers_and_can_be_stopped(tmp_path: Path) -> None:
    shards = {f"shard-{i}": b"x" for i in range(4)}
    run = make_run(tmp_path / "run", range(2000), extra_files=shards)
    assert len(list((run / "step_7").iterdir())) == 10
    log = tmp_path / "log"
    with Pty(slow_disk.command(run, "browse", run, seconds=0.005, log=log)) as terminal:
        # Under a second on a machine that does nothing else; the benchmark prints it.
        assert terminal.until(lambda data: b"step_1999" in data) < 5.0
        sent = terminal.send(b"\x1b[B")
        assert terminal.until(lambda data: b"step_1998" in data) - sent < 1.0
        terminal.send(b"\x1b")
        terminal.until(lambda data: b"topped" in data)
        sent = terminal.send(b"q")
        assert terminal.ended() - sent < 2.0
        assert terminal.process.returncode == 0
        terminal.assert_restored()
    assert log.read_text() == ""


def test_B143_no_single_key_removes_anything_and_pinned_ones_are_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [100, 200, 300])
    ckptui("pin", "step_100", "--run", run)
    before = tree(run)

    async def script(d: Driver) -> None:
        await d.press("down")
        assert d.current == "step_200"
        await d.press("delete", "enter")
        await d.press("escape")
        assert tree(run) == before

        await d.pilot.press("d", "enter")  # at once, as fingers do
        await d.settle()
        assert tree(run) == before  # Enter met "Cancel"

        await d.press("d")
        assert isinstance(d.app.screen, PruneScreen)
        assert "step_200" in d.text
        assert "1.2 kB" in d.text or "1.1 kB" in d.text  # how much would go
        assert "Cancel" in d.text
        focused = d.app.focused
        assert focused is not None
        assert focused.id == "cancel"
        await d.press("escape")

        await d.press("end")
        assert d.current == "step_100"
        await d.press("d", "enter")
        assert "pinned" in d.words
        await d.press("escape", "escape")
        assert standing(run) == {"step_100", "step_200", "step_300"}

    drive(run, script)
    assert tree(run) == before


def test_B144_two_names_of_one_step_are_two_rows_through_every_refresh(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [100, 50])
    make_checkpoint(run, "step_0100", step=100)

    async def script(d: Driver) -> None:
        assert sorted(d.names) == ["step_0100", "step_100", "step_50"]
        for name in ("step_0100", "step_100"):
            await d.press("home", *["down"] * d.names.index(name))
            assert d.current == name
            await d.press("ctrl+r")
            await d.press("f5")
            assert d.current == name
            assert sorted(d.names) == ["step_0100", "step_100", "step_50"]

    drive(run, script)
