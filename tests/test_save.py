"""A save leaves the old state or the new one, wherever it is stopped."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ckptui import leftovers, pins, remove
from ckptui.checkpoint import State
from ckptui.errors import CheckpointExistsError, LockedError, StorageError
from ckptui.lock import acquire
from ckptui.save import Draft, save_checkpoint
from ckptui.scan import scan_run
from ckptui.verify import verify_checkpoint
from tests.factory import RUN_ID, make_checkpoint, make_run, safetensors_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent.parent


def draft(step: int, *, attempt: int = 1) -> Draft:
    return Draft(
        name=f"step_{step}",
        step=step,
        epoch=0,
        run_id=RUN_ID,
        attempt=attempt,
        contains=("weights", "optimizer"),
        resumable=True,
        metrics={"loss": 1.5, "odd": float("nan")},
    )


def fill(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(safetensors_bytes({"w": [1.0, 2.0]}))
    (folder / "recipe_state.json").write_text('{"format": 1, "steps_run": 2}')
    (folder / "extra").mkdir()
    (folder / "extra" / "tokenizer.json").write_text("{}")


def test_a_saved_checkpoint_is_complete_and_verifies(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1])
    saved = save_checkpoint(run, draft(2), fill)
    assert (saved.state, saved.step, saved.attempt) == (State.OK, 2, 1)
    assert dict(saved.metrics) == {"loss": 1.5, "odd": None}
    assert verify_checkpoint(saved, full=True).status == "verified"
    assert {f.name for f in saved.files} == {
        "model.safetensors",
        "recipe_state.json",
        "extra/tokenizer.json",
    }
    assert not list((run / ".ckptui" / "staging").iterdir())


def test_weights_that_are_not_finite_are_named_in_the_marker(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")

    def write(folder: Path) -> None:
        content = safetensors_bytes({"bad": [1.0, float("nan")], "good": [1.0]})
        (folder / "model.safetensors").write_bytes(content)

    assert save_checkpoint(run, draft(2), write).nonfinite == ("bad",)


def test_the_same_step_again_is_met_by_what_stands(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    first = save_checkpoint(run, draft(2), fill)
    again = save_checkpoint(run, draft(2), lambda _: pytest.fail("it was written again"))
    assert again.identity == first.identity


def test_an_abandoned_one_of_the_name_goes_to_the_trash_first(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [2])
    saved = save_checkpoint(run, draft(2, attempt=2), fill)
    assert saved.attempt == 2
    (item,) = remove.list_trash(run)
    assert item.name == "step_2"


def test_a_half_written_one_of_the_name_goes_to_the_trash_first(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    make_checkpoint(run, "step_2", step=2, marker=False)
    assert save_checkpoint(run, draft(2), fill).complete
    assert len(remove.list_trash(run)) == 1


def test_a_pinned_one_of_another_attempt_is_not_replaced(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [2])
    (there,) = scan_run(run).checkpoints
    pins.pin(there)
    with pytest.raises(CheckpointExistsError, match="pinned"):
        save_checkpoint(run, draft(2, attempt=2), fill)
    assert scan_run(run).checkpoints[0].identity == there.identity


def test_an_owner_that_lost_its_lock_publishes_nothing(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1])
    with acquire(run, report=lambda _: None) as lock:

        def write(folder: Path) -> None:
            fill(folder)
            (run / ".ckptui" / "lock").write_text('{"token": "another"}')

        with pytest.raises(LockedError):
            save_checkpoint(run, draft(2), write, lock=lock)
    assert [c.name for c in scan_run(run).checkpoints] == ["step_1"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS, errno.EACCES])
def test_a_disk_that_refuses_costs_only_the_new_one(tmp_path: Path, code: int) -> None:
    run = make_run(tmp_path / "run", [1])

    def write(folder: Path) -> None:
        fill(folder)
        raise OSError(code, os.strerror(code))

    with pytest.raises(StorageError, match="Older checkpoints are untouched"):
        save_checkpoint(run, draft(2), write)
    assert [c.name for c in scan_run(run).checkpoints] == ["step_1"]
    assert not list((run / ".ckptui" / "staging").iterdir())


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EOPNOTSUPP])
def test_B100_where_folders_cannot_be_renamed_the_marker_comes_last(  # noqa: N802 - its id
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    run = make_run(tmp_path / "run", [1])
    rename: Callable[..., None] = os.rename

    def refuse_folders(source: str, target: str, **more: int) -> None:
        if Path(source).is_dir():
            raise OSError(code, os.strerror(code))
        rename(source, target, **more)

    monkeypatch.setattr(os, "rename", refuse_folders)
    saved = save_checkpoint(run, draft(2), fill)
    assert saved.complete
    assert verify_checkpoint(saved, full=True).status == "verified"
    assert [c.name for c in scan_run(run).checkpoints] == ["step_1", "step_2"]


def test_B99_an_exists_that_is_not_so_is_tried_again(  # noqa: N802 - its id
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run")
    mkdir: Callable[..., None] = os.mkdir
    lied: list[str] = []

    def lie_once(path: str, *args: int) -> None:
        if "staging" in str(path) and not lied:
            lied.append(str(path))
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        mkdir(path, *args)

    monkeypatch.setattr(os, "mkdir", lie_once)
    assert save_checkpoint(run, draft(2), fill).complete
    assert lied


SAVE = """
import os, signal, sys
sys.path.insert(0, {here!r})
from pathlib import Path
import xxhash  # imported before counting: only the save's own events count
from tests.test_save import draft, fill
from ckptui.save import save_checkpoint
run, stop = Path(sys.argv[1]), int(sys.argv[2])
count = 0
WATCHED = {{"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.scandir", "os.chmod",
           "os.listdir"}}
def step():
    global count
    count += 1
    if count == stop:
        os.kill(os.getpid(), signal.SIGKILL)
def hook(event, args):
    if event in WATCHED:
        step()
sync = os.fsync
def counted(descriptor):
    step()
    sync(descriptor)
os.fsync = counted
sys.addaudithook(hook)
save_checkpoint(run, draft(2), fill)
print(count)
"""


def run_save(run: Path, stop: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SAVE.format(here=str(HERE)), str(run), str(stop)],
        capture_output=True,
        text=True,
    )


def test_a_kill_before_any_file_operation_leaves_the_old_state_or_the_new(tmp_path: Path) -> None:
    whole = make_run(tmp_path / "whole", [1])
    done = run_save(whole, 0)
    assert done.returncode == 0, done.stderr
    events = int(done.stdout)
    assert events > 20
    # Every operation of a small save, in a spread that keeps the whole under a minute.
    for stop in range(1, events + 1, 2):
        run = make_run(tmp_path / f"run-{stop}", [1])
        killed = run_save(run, stop)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        found = scan_run(run)
        complete = [c for c in found.checkpoints if c.complete]
        assert complete[0].name == "step_1"
        for checkpoint in complete:
            assert verify_checkpoint(checkpoint, full=True).status == "verified"
        for other in found.checkpoints:
            assert other.complete or other.staged
        # The next owner of the lock clears what is left, and the save can be made again.
        with acquire(run, report=lambda _: None) as lock:
            leftovers.clear(run)
            assert save_checkpoint(run, draft(2), fill, lock=lock).complete
        assert [c.name for c in scan_run(run).checkpoints] == ["step_1", "step_2"]


def test_B96_of_four_processes_that_save_one_step_one_publishes(  # noqa: N802 - its id
    tmp_path: Path,
) -> None:
    run = make_run(tmp_path / "run", [1])
    code = SAVE.format(here=str(HERE))
    processes = [
        subprocess.Popen([sys.executable, "-c", code, str(run), "0"], stderr=subprocess.PIPE)
        for _ in range(4)
    ]
    for process in processes:
        _, errors = process.communicate()
        assert process.returncode == 0, errors
    found = scan_run(run)
    assert [(c.name, c.complete) for c in found.checkpoints] == [("step_1", True), ("step_2", True)]
    assert verify_checkpoint(found.checkpoints[1], full=True).status == "verified"
