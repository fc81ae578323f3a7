"""One trainer at a time: who owns a run, who is dead, and who must write nothing more."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ckptui import journal, lock, process
from ckptui.checkpoint import Owner
from ckptui.durable import replace_file, to_json
from ckptui.errors import LockedError, NotFoundError, RefusedError, StorageError

HOLD = """
import sys, time
from pathlib import Path
from ckptui import lock
lock.BEAT_SECONDS = 0.05
with lock.acquire(Path(sys.argv[1]), report=print) as held:
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / "run"
    path.mkdir()
    return path


def quiet(_: str) -> None:
    """Nobody reads the report."""


def hold(run: Path, code: str = HOLD) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(run)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    return child


def end(child: subprocess.Popen[str]) -> None:
    child.kill()
    child.communicate()


def edit_lock(run: Path, **values: object) -> None:
    """Change what a lock says, as if it had been written elsewhere."""
    path = lock.lock_path(run)
    content = json.loads(path.read_bytes())
    replace_file(path, to_json({**content, **values}))


def files(run: Path) -> list[str]:
    return sorted(os.listdir(run / ".ckptui"))


def test_a_lock_is_taken_shown_and_given_back(run: Path) -> None:
    with lock.acquire(run, report=quiet) as held:
        owner = lock.read_owner(run)
        assert owner is not None
        assert owner.token == held.token
        assert owner.pid == os.getpid()
        assert lock.is_live(owner)
        held.check()
        held.show(step=7, saving="step_7")
        shown = lock.read_owner(run)
        assert shown is not None
        assert (shown.step, shown.saving) == (7, "step_7")
        assert shown.counter > owner.counter
        assert files(run) == ["lock"]
    assert files(run) == []


def test_the_counter_goes_up_by_itself(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "BEAT_SECONDS", 0.01)
    with lock.acquire(run, report=quiet):
        deadline = time.monotonic() + 20
        counter = 0
        while counter < 3:
            assert time.monotonic() < deadline
            owner = lock.read_owner(run)
            assert owner is not None
            counter = owner.counter


def test_a_second_trainer_is_refused(run: Path) -> None:
    child = hold(run)
    try:
        with pytest.raises(LockedError, match=f"process {child.pid}"):
            lock.acquire(run, report=quiet)
        owner = lock.read_owner(run)
        assert owner is not None
        assert owner.pid == child.pid
    finally:
        end(child)


def test_of_eight_that_start_at_once_one_gets_the_run(run: Path) -> None:
    """The owner before them is dead, so that all eight try to take its lock over."""
    dead = hold(run)
    end(dead)
    go = run.parent / "go"
    code = (
        "import sys, time; from pathlib import Path; from ckptui import lock\n"
        "from ckptui.errors import LockedError\n"
        "print('ready', flush=True)\n"
        "while not Path(sys.argv[2]).exists(): pass\n"
        "try: held = lock.acquire(Path(sys.argv[1]), report=lambda _: None)\n"
        "except LockedError: print('refused', flush=True)\n"
        "else:\n"
        "    time.sleep(0.3); held.check(); print('won', flush=True); sys.stdin.readline()\n"
    )
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(run), str(go)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(8)
    ]
    answers = []
    try:
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
        go.touch()
        for child in children:
            assert child.stdout is not None
            answers.append(child.stdout.readline().strip())
    finally:
        for child in children:
            end(child)
    assert sorted(answers) == ["refused"] * 7 + ["won"]


def test_the_lock_of_a_killed_trainer_is_taken_over_before_it_is_reaped(run: Path) -> None:
    child = hold(run)
    child.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # a zombie from here on
    said: list[str] = []
    with lock.acquire(run, report=said.append):
        assert said == [f"Took over the lock of a process that is gone ({child.pid})."]
    assert files(run) == []
    end(child)


def test_another_process_under_the_old_number_owns_nothing(run: Path) -> None:
    lock.acquire(run, report=quiet)._stop.set()
    edit_lock(run, start_time=1)
    with lock.acquire(run, report=quiet) as held:
        held.check()


def test_a_lock_of_another_host_is_watched_and_taken_over_when_it_stands_still(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "STILL_SECONDS", 0.3)
    lock.acquire(run, report=quiet)._stop.set()
    edit_lock(run, host="elsewhere", boot_id="another boot")
    owner = lock.read_owner(run)
    assert owner is not None
    assert lock.is_live(owner)  # one look does not tell
    said: list[str] = []
    begun = time.monotonic()
    with lock.acquire(run, report=said.append):
        assert time.monotonic() - begun >= 0.3
    assert "watching" in said[0]


@pytest.mark.parametrize("elsewhere", [{"host": "elsewhere"}, {"pid_space": "pid:[1]"}])
def test_a_counter_that_moves_keeps_the_lock(
    run: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: dict[str, str]
) -> None:
    """Another host, or a container of the same host whose process numbers are not ours."""
    monkeypatch.setattr(lock, "STILL_SECONDS", 30.0)
    lock.acquire(run, report=quiet)._stop.set()
    edit_lock(run, pid=2**22 - 1, **elsewhere)
    beats = threading.Event()

    def beat() -> None:
        count = 1
        while not beats.wait(0.1):
            count += 1
            edit_lock(run, counter=count)

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        with pytest.raises(LockedError):
            lock.acquire(run, report=quiet)
    finally:
        beats.set()
        thread.join()


def test_a_copied_lock_of_a_live_trainer_is_watched_rather_than_believed(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "STILL_SECONDS", 0.3)
    child = hold(run)
    try:
        copy = run.with_name("copy")
        shutil.copytree(run, copy)
        with lock.acquire(copy, report=quiet) as held:
            held.check()
        with pytest.raises(LockedError):
            lock.acquire(run, report=quiet)
    finally:
        end(child)


def test_an_unreadable_lock_that_changes_is_alive_and_one_that_stands_still_is_not(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = lock.lock_path(run)
    path.parent.mkdir()
    path.write_bytes(b"{")
    monkeypatch.setattr(lock, "STILL_SECONDS", 30.0)
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(0.1):
            replace_file(path, b"{")

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        with pytest.raises(LockedError, match="cannot be told"):
            lock.acquire(run, report=quiet)
    finally:
        stop.set()
        thread.join()
    monkeypatch.setattr(lock, "STILL_SECONDS", 0.2)
    with lock.acquire(run, report=quiet) as held:
        held.check()


@pytest.mark.parametrize("kind", ["dangling", "loop", "fifo", "text", "list", "tokenless"])
def test_odd_things_under_the_locks_name_neither_hang_nor_crash(
    run: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(lock, "STILL_SECONDS", 0.1)
    path = lock.lock_path(run)
    path.parent.mkdir()
    if kind == "dangling":
        path.symlink_to("nowhere")
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.write_text({"text": "x", "list": "[1]", "tokenless": '{"pid": 1}'}[kind])
    with lock.acquire(run, report=quiet) as held:
        held.check()


def test_a_lock_that_is_a_folder_is_told_in_a_sentence(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "STILL_SECONDS", 0.1)
    (run / ".ckptui" / "lock" / "deep").mkdir(parents=True)
    with pytest.raises(StorageError, match="cannot be locked"):
        lock.acquire(run, report=quiet)


def test_a_file_in_the_place_of_our_folder_is_told_in_a_sentence(run: Path) -> None:
    (run / ".ckptui").write_bytes(b"")
    assert lock.read_owner(run) is None
    with pytest.raises(StorageError, match="cannot be locked"):
        lock.acquire(run, report=quiet)


def test_no_lock_is_made_through_a_link(run: Path) -> None:
    outside = run.with_name("outside")
    outside.mkdir()
    (run / ".ckptui").symlink_to(outside)
    with pytest.raises(RefusedError, match="is a link"):
        lock.acquire(run, report=quiet)
    assert os.listdir(outside) == []


def test_locking_works_where_there_are_no_hard_links(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", none)
    with lock.acquire(run, report=quiet) as held:
        held.check()
        with pytest.raises(LockedError):
            lock.acquire(run, report=quiet)
        # Somebody who judged an older lock dead finds this one in its hand, and puts it back.
        monkeypatch.setattr(lock, "read_owner", lambda _: _owner(token="the dead one"))
        assert not lock._remove(run, "the dead one")
        monkeypatch.undo()
        held.check()


def _owner(**values: Any) -> Owner:
    known: dict[str, Any] = {
        "token": "t",
        "host": journal.host(),
        "boot_id": process.boot_id(),
        "pid": os.getpid(),
        "start_time": None,
        "counter": 0,
        "step": None,
        "saving": None,
    }
    return Owner(**{**known, **values})


def test_a_lock_taken_in_hand_by_mistake_is_put_back(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lock.acquire(run, report=quiet) as held:
        monkeypatch.setattr(lock, "read_owner", lambda _: _owner(token="the dead one"))
        assert not lock._remove(run, "the dead one")
        monkeypatch.undo()
        held.check()
        assert files(run) == ["lock"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("call", ["link", "fsync", "mkdir"])
def test_a_disk_that_fails_leaves_no_lock_behind(
    run: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number), "somewhere")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(StorageError, match="cannot be locked"):
        lock.acquire(run, report=quiet)
    monkeypatch.undo()
    assert lock.read_owner(run) is None
    assert call == "mkdir" or files(run) == []


def test_a_full_disk_stops_the_beat_but_not_the_training(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lock.acquire(run, report=quiet) as held:

        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(lock, "replace_file", full)
        held.show(step=3, saving="step_3")
        held.check()


def test_an_owner_that_lost_its_lock_writes_nothing_and_leaves_the_new_one(run: Path) -> None:
    held = lock.acquire(run, report=quiet)
    edit_lock(run, token="somebody else", counter=5)
    with pytest.raises(LockedError, match="no longer ours"):
        held.check()
    held.show(step=1, saving="step_1")
    held.release()
    owner = lock.read_owner(run)
    assert owner is not None
    assert (owner.token, owner.counter) == ("somebody else", 5)


def test_an_owner_whose_lock_was_removed_writes_nothing(run: Path) -> None:
    held = lock.acquire(run, report=quiet)
    lock.lock_path(run).unlink()
    with pytest.raises(LockedError, match="no longer ours"):
        held.check()
    held.release()
    assert files(run) == []


SUSPENDED = """
import sys
from pathlib import Path
from ckptui import journal, lock
journal.host = lambda: "another machine"
lock.BEAT_SECONDS = 0.02
held = lock.acquire(Path(sys.argv[1]), report=print)
print("held", flush=True)
sys.stdin.readline()
try:
    held.check()
except lock.LockedError as e:
    print(e, flush=True)
else:
    print("still mine", flush=True)
held.show(step=99, saving="step_99")
held.release()
"""


def test_an_owner_that_was_suspended_and_overtaken_writes_nothing(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "STILL_SECONDS", 0.5)
    child = hold(run, SUSPENDED)
    try:
        child.send_signal(signal.SIGSTOP)
        with lock.acquire(run, report=quiet) as held:
            child.send_signal(signal.SIGCONT)
            answer, _ = child.communicate("go on\n", timeout=60)
            assert "no longer ours" in answer
            held.check()
            owner = lock.read_owner(run)
            assert owner is not None
            assert (owner.token, owner.step) == (held.token, None)
    finally:
        end(child)


def test_unlock_removes_a_dead_owners_lock_and_records_it(run: Path) -> None:
    child = hold(run)
    end(child)
    owner = lock.unlock(run, report=quiet)
    assert owner.pid == child.pid
    assert lock.read_owner(run) is None
    events, _ = journal.read(run)
    assert [e.what for e in events] == ["unlock"]


def test_unlock_refuses_a_live_owner_and_tells_of_none(run: Path) -> None:
    with pytest.raises(NotFoundError, match="has no lock"):
        lock.unlock(run, report=quiet)
    with lock.acquire(run, report=quiet) as held:
        with pytest.raises(LockedError):
            lock.unlock(run, report=quiet)
        held.check()


def test_unlock_leaves_a_lock_that_changed_hands(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lock.acquire(run, report=quiet) as held:
        monkeypatch.setattr(lock, "is_dead", lambda *_, **__: True)
        edit_lock(run, token="dead")
        real = lock._remove

        def late(path: Path, token: str) -> bool:
            edit_lock(run, token=held.token)
            return real(path, token)

        monkeypatch.setattr(lock, "_remove", late)
        with pytest.raises(LockedError, match="changed hands"):
            lock.unlock(run, report=quiet)
        held.check()
