"""A fork's source stays until the fork has saved, and not a day longer than needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ckptui import leases, process, remove
from ckptui.errors import RefusedError
from ckptui.scan import scan_run
from tests.factory import make_checkpoint, make_run

if TYPE_CHECKING:
    from ckptui.checkpoint import Checkpoint

FORK_ID = "f" * 32


def at(run: Path, name: str) -> Checkpoint:
    return next(c for c in scan_run(run).checkpoints if c.name == name)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path / "run", [1, 2, 3])


@pytest.fixture
def fork(tmp_path: Path) -> Path:
    return tmp_path / "fork"


def lend(run: Path, fork: Path) -> None:
    leases.write_lease(at(run, "step_2"), fork=fork, fork_run_id=FORK_ID)


def edit(run: Path, **values: object) -> None:
    path = leases.lease_path(run, FORK_ID)
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_a_source_is_protected_from_lending_to_dropping(run: Path, fork: Path) -> None:
    lend(run, fork)
    assert list(leases.leased(run)) == ["step_2"]
    assert str(fork) in scan_run(run).protected["step_2"]
    with pytest.raises(remove.ChangedError, match="a fork still needs it"):
        remove.move_to_trash([at(run, "step_2")], why="prune")
    leases.drop_lease(run, FORK_ID)
    assert leases.leased(run) == {}
    remove.move_to_trash([at(run, "step_2")], why="prune")


def test_a_source_lent_while_a_removal_has_it_in_hand_comes_back(
    run: Path, fork: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = at(run, "step_2")
    real = leases.leased
    looks: list[Path] = []

    def lent_meanwhile(path: Path) -> object:
        if looks:
            leases.write_lease(found, fork=fork, fork_run_id=FORK_ID)
        looks.append(path)
        return real(path)

    monkeypatch.setattr(leases, "leased", lent_meanwhile)
    with pytest.raises(remove.ChangedError):
        remove.move_to_trash([found], why="prune")
    assert at(run, "step_2").complete


def test_a_fork_that_began_holds_the_source_until_it_has_saved(run: Path, fork: Path) -> None:
    lend(run, fork)
    edit(run, pid=2**22 - 1)  # the process is gone; what counts now is the fork
    assert leases.leased(run) == {}
    make_run(fork, run_id=FORK_ID)
    assert list(leases.leased(run)) == ["step_2"]
    make_checkpoint(fork, "step_3", step=3, run_id=FORK_ID, marker=False)
    assert list(leases.leased(run)) == ["step_2"]
    make_checkpoint(fork, "step_4", step=4, run_id=FORK_ID)
    assert leases.leased(run) == {}


def test_another_run_in_the_forks_folder_needs_nothing(run: Path, fork: Path) -> None:
    lend(run, fork)
    make_run(fork, run_id="0" * 32)
    assert leases.leased(run) == {}


def test_a_fork_whose_run_file_cannot_be_read_still_holds_the_source(run: Path, fork: Path) -> None:
    lend(run, fork)
    fork.mkdir()
    (fork / "run.json").write_text("{")
    assert list(leases.leased(run)) == ["step_2"]


def test_a_fork_that_died_before_it_began_needs_nothing(run: Path, fork: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from ckptui import leases\n"
        "from ckptui.scan import scan_run\n"
        "run, fork = Path(sys.argv[1]), Path(sys.argv[2])\n"
        "c = next(c for c in scan_run(run).checkpoints if c.name == 'step_2')\n"
        f"leases.write_lease(c, fork=fork, fork_run_id='{FORK_ID}')\n"
        "print(list(leases.leased(run)), flush=True); sys.stdin.readline()\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(run), str(fork)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "['step_2']\n"
    assert list(leases.leased(run)) == ["step_2"]
    child.kill()
    child.communicate()
    assert leases.leased(run) == {}


@pytest.mark.parametrize("elsewhere", [{"host": "far"}, {"boot_id": "x"}, {"pid_space": "pid:[1]"}])
def test_a_fork_started_elsewhere_has_a_day_to_begin(
    run: Path, fork: Path, elsewhere: dict[str, str]
) -> None:
    lend(run, fork)
    edit(run, pid=2**22 - 1, **elsewhere)
    assert list(leases.leased(run)) == ["step_2"]
    yesterday = time.time() - 25 * 3600
    os.utime(leases.lease_path(run, FORK_ID), (yesterday, yesterday))
    assert leases.leased(run) == {}


def test_damaged_leases_cost_only_themselves(run: Path, fork: Path) -> None:
    lend(run, fork)
    folder = leases.lease_path(run, FORK_ID).parent
    (folder / "a.json").write_text("{")
    (folder / "b.json").write_text('{"name": 7}')
    (folder / "c.json").write_text('{"name": "step_1"}')
    (folder / "d.json").write_text('{"name": "step_1", "fork": "", "pid": -1}')
    os.mkfifo(folder / "e.json")
    (folder / "f.json").symlink_to("nowhere")
    assert list(leases.leased(run)) == ["step_2"]


def test_no_lease_is_written_or_dropped_through_a_link(run: Path, fork: Path) -> None:
    outside = run.with_name("outside")
    outside.mkdir()
    (outside / f"{FORK_ID}.json").write_text("{}")
    (run / ".ckptui").mkdir()
    (run / ".ckptui" / "leases").symlink_to(outside)
    with pytest.raises(RefusedError, match="is a link"):
        lend(run, fork)
    leases.drop_lease(run, FORK_ID)
    assert os.listdir(outside) == [f"{FORK_ID}.json"]


def test_a_fork_with_an_undecodable_name_is_lent_to(run: Path, tmp_path: Path) -> None:
    fork = tmp_path / os.fsdecode(b"fork\xff\n\x1b[2J")
    lend(run, fork)
    make_run(fork, run_id=FORK_ID)
    edit(run, pid=2**22 - 1)
    assert list(leases.leased(run)) == ["step_2"]


def test_dropping_twice_is_fine(run: Path, fork: Path) -> None:
    lend(run, fork)
    leases.drop_lease(run, FORK_ID)
    leases.drop_lease(run, FORK_ID)


def test_the_lease_records_who_asked(run: Path, fork: Path) -> None:
    lend(run, fork)
    content = json.loads(leases.lease_path(run, FORK_ID).read_text())
    assert content["pid"] == os.getpid()
    assert content["start_time"] == process.start_time(os.getpid())
    assert content["fork"] == str(fork)
