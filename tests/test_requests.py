"""Whoever asks a live run to save gets the checkpoint or the reason, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptui import lock, requests, schema
from ckptui.durable import replace_file, to_json
from ckptui.errors import CkptuiError, NotFoundError, RefusedError
from ckptui.scan import scan_run
from tests.factory import make_run
from tests.live_trainer import DEAF, FAILS, FIRST_STEP, HOLDS, LATE, LiveTrainer
from tests.users import as_ordinary_user

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ckptui.requests import Inbox


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "LOOK_SECONDS", 0.01)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path / "run", [1])


@pytest.fixture
def held(run: Path) -> Iterator[lock.RunLock]:
    with lock.acquire(run, report=lambda _: None) as owned:
        yield owned


@pytest.fixture
def inbox(run: Path, held: lock.RunLock) -> Iterator[Inbox]:
    box = requests.Inbox(run)
    box.start()
    yield box
    box.stop()


def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so; half a minute is a failure."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def folder(run: Path) -> Path:
    return run / ".ckptui" / "requests"


def left(run: Path) -> list[str]:
    """What lies among the requests."""
    return sorted(os.listdir(folder(run))) if folder(run).exists() else []


def looks(inbox: Inbox, count: int = 3) -> None:
    """Let the inbox look a few times."""
    seen: list[float] = []
    real = inbox._look

    def counted(*, first: bool = False) -> None:
        real(first=first)
        seen.append(time.monotonic())

    inbox._look = counted  # type: ignore[method-assign]  # the real one is called
    until(lambda: len(seen) >= count)


def request(run: Path, number: str = "0123456789ab", **values: object) -> Path:
    """A request as somebody else's program might write it."""
    folder(run).mkdir(parents=True, exist_ok=True)
    path = folder(run) / f"{number}.json"
    replace_file(path, to_json({"id": number, "who": "you", "host": "here", **values}))
    return path


# Asking and being answered, between real processes


def test_a_live_trainer_saves_and_answers_with_the_name(run: Path) -> None:
    with LiveTrainer(run):
        answer = requests.wait(run, requests.ask(run), timeout=30, poll=0.01)
    assert answer.error is None
    saved = {c.name: c for c in scan_run(run).checkpoints}[answer.checkpoint or ""]
    assert saved.complete
    assert saved.step is not None
    assert saved.step > FIRST_STEP
    assert answer.when is not None
    assert left(run) == []


def test_two_who_ask_at_once_get_the_same_checkpoint(run: Path) -> None:
    with LiveTrainer(run, LATE), ThreadPoolExecutor(2) as askers:
        ready = threading.Barrier(2)

        def ask() -> str | None:
            ready.wait()
            return requests.wait(run, requests.ask(run), timeout=30, poll=0.01).checkpoint

        names = [f.result() for f in [askers.submit(ask), askers.submit(ask)]]
    assert names[0] is not None
    assert names[0] == names[1]
    assert [c.name for c in scan_run(run).checkpoints] == ["step_1", names[0]]
    assert left(run) == []


def test_requests_that_are_there_together_are_handed_out_together(run: Path, inbox: Inbox) -> None:
    asked = {requests.ask(run).id for _ in range(2)}
    until(lambda: len(inbox._pending) == 2)
    taken = inbox.take()
    assert {r.id for r in taken} == asked
    assert inbox.take() == ()
    inbox.answer(taken, checkpoint="step_7")
    assert {json.loads((folder(run) / n).read_text())["checkpoint"] for n in left(run)} == {
        "step_7"
    }


def test_a_trainer_that_cannot_save_says_why(run: Path) -> None:
    with LiveTrainer(run, FAILS):
        answer = requests.wait(run, requests.ask(run), timeout=30)
    assert (answer.checkpoint, answer.error) == (None, "The disk is full.")
    assert left(run) == []


def test_an_owner_killed_meanwhile_is_told_at_once(run: Path) -> None:
    with LiveTrainer(run, HOLDS) as trainer, ThreadPoolExecutor(1) as asker:
        asked = requests.ask(run)
        trainer.expect("taken")
        answer = asker.submit(requests.wait, run, asked, timeout=600)
        trainer.kill()
        assert f"Process {trainer.pid}" in (answer.result(timeout=30).error or "")
    assert left(run) == []


def test_the_next_owner_does_not_meet_what_was_asked_of_a_former_one(run: Path) -> None:
    with LiveTrainer(run, DEAF) as trainer:
        requests.ask(run)  # by a process that is killed before it can withdraw
        trainer.kill()
    assert len(left(run)) == 1
    with LiveTrainer(run):
        answer = requests.wait(run, requests.ask(run), timeout=30)
        assert answer.checkpoint is not None
        until(lambda: left(run) == [])
    saved = [c.name for c in scan_run(run).checkpoints]
    assert saved == ["step_1", answer.checkpoint]


def test_an_end_of_training_answers_all_that_still_wait(run: Path) -> None:
    with LiveTrainer(run, HOLDS) as trainer, ThreadPoolExecutor(2) as askers:
        taken = requests.ask(run)
        trainer.expect("taken")
        answers = [askers.submit(requests.wait, run, taken, timeout=60)]
        answers.append(askers.submit(requests.wait, run, requests.ask(run), timeout=60))
        trainer.finish()
        for answer in answers:
            error = answer.result().error or ""
            assert error == requests.ENDED
    assert left(run) == []


def test_a_taker_over_is_told_to_who_asked_before(run: Path) -> None:
    with LiveTrainer(run, DEAF) as first:
        asked = requests.ask(run)
        first.kill()
    with LiveTrainer(run):
        answer = requests.wait(run, asked, timeout=60)
    assert "took over" in (answer.error or "")
    assert left(run) == []


def test_no_answer_in_time_withdraws_the_request(run: Path) -> None:
    with LiveTrainer(run, DEAF) as trainer:
        answer = requests.wait(run, requests.ask(run), timeout=0.05)
    assert answer.checkpoint is None
    assert f"process {trainer.pid}" in (answer.error or "")
    assert "did not answer within 0.05 s" in (answer.error or "")
    assert "it may save at its next chance" in (answer.error or "")
    assert left(run) == []


def test_who_did_not_answer_in_time_and_saves_is_said_to(run: Path, held: lock.RunLock) -> None:
    held.show(step=7, saving="step_7")
    answer = requests.wait(run, requests.ask(run), timeout=0)
    assert "it is saving step_7" in (answer.error or "")


def test_an_end_without_an_answer_is_noticed(run: Path) -> None:
    """As of a trainer that knows no requests, or ends between two looks."""
    with LiveTrainer(run, DEAF) as trainer, ThreadPoolExecutor(1) as asker:
        answer = asker.submit(requests.wait, run, requests.ask(run), timeout=60, poll=0.01)
        trainer.finish()
        assert "ended without an answer" in (answer.result().error or "")
    assert left(run) == []


def test_an_answer_of_the_last_moment_counts(
    run: Path, held: lock.RunLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = requests.ask(run)
    real = requests._unlink

    def just_then(path: Path, name: str) -> None:
        real(path, name)
        if name == f"{asked.id}.json":
            answer = folder(run) / f"{asked.id}.answer.json"
            replace_file(answer, to_json({"checkpoint": "step_7", "error": None}))

    monkeypatch.setattr(requests, "_unlink", just_then)
    assert requests.wait(run, asked, timeout=0).checkpoint == "step_7"
    assert left(run) == []


# Whom nobody can ask


def test_a_lock_in_somebodys_hand_is_looked_for_again(
    run: Path, held: lock.RunLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = lock.lock_path(run)
    aside = path.rename(path.with_name("lock.0123.old"))
    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", lambda _: aside.rename(path))
        asked = requests.ask(run)
    assert asked.owner == held.token


def test_a_run_without_a_trainer_cannot_be_asked(run: Path) -> None:
    with pytest.raises(RefusedError, match="not being trained"):
        requests.ask(run)
    assert not folder(run).exists()


def test_a_run_whose_trainer_died_cannot_be_asked(run: Path) -> None:
    with LiveTrainer(run, DEAF) as trainer:
        trainer.kill()
        with pytest.raises(RefusedError, match=f"process {trainer.pid}"):
            requests.ask(run)
    assert left(run) == []


def test_there_must_be_a_folder_to_ask(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        requests.ask(tmp_path / "gone")
    assert not (tmp_path / "gone").exists()


def test_an_owner_on_another_machine_is_asked_and_waited_for(run: Path, held: lock.RunLock) -> None:
    path = lock.lock_path(run)
    content = json.loads(path.read_bytes())
    replace_file(path, to_json({**content, "host": "elsewhere", "boot_id": "other", "pid": 1}))
    answer = requests.wait(run, requests.ask(run), timeout=0.05)
    assert "elsewhere" in (answer.error or "")
    assert "did not answer" in (answer.error or "")


@pytest.mark.parametrize("parts", [[".ckptui"], [".ckptui", "requests"]])
def test_nobody_asks_or_answers_through_a_link(
    run: Path, held: lock.RunLock, tmp_path: Path, parts: list[str]
) -> None:
    outside = tmp_path / "outside"
    asked = requests.ask(run)
    place = run.joinpath(*parts)
    place.rename(outside)
    place.symlink_to(outside)
    before = {p: p.read_bytes() for p in outside.rglob("*.json")}
    assert len(before) == 1
    with pytest.raises(RefusedError, match="is a link"):
        requests.ask(run)
    box = requests.Inbox(run)
    box.start()
    looks(box)
    assert not box.waiting
    box.answer([asked], checkpoint="step_1")
    box.stop()
    requests.withdraw(run, asked)
    assert {p: p.read_bytes() for p in outside.rglob("*.json")} == before


def test_a_folder_that_may_not_be_written_is_told_in_a_sentence(open_folder: Path) -> None:
    make_run(open_folder / "run", [1])
    lines = as_ordinary_user(
        open_folder,
        """
from ckptui import lock, requests
run = folder / "run"
with lock.acquire(run, report=print):
    (run / ".ckptui" / "requests").mkdir(mode=0o500)
    try:
        requests.ask(run)
    except CkptuiError as e:
        print(e.kind, e)
""",
    )
    assert lines[0].startswith("io The trainer of ")


# The inbox


def test_a_training_loop_reads_a_plain_attribute(run: Path, inbox: Inbox) -> None:
    assert vars(inbox)["waiting"] is False
    asked = requests.ask(run)
    until(lambda: inbox.waiting)
    (taken,) = inbox.take()
    assert taken == asked
    assert vars(inbox)["waiting"] is False


def test_what_is_withdrawn_is_met_no_more(run: Path, inbox: Inbox) -> None:
    first = requests.ask(run)
    until(lambda: inbox.waiting)
    requests.withdraw(run, first)
    until(lambda: not inbox.waiting)
    second = requests.ask(run)
    until(lambda: inbox.waiting)
    inbox.stop()  # nothing looks at the disk any more but take() itself
    with inbox._mutex:
        inbox._pending[second.id] = second
    requests.withdraw(run, second)
    assert inbox.take() == ()


def test_an_answer_to_what_was_withdrawn_is_not_written(run: Path, inbox: Inbox) -> None:
    asked = requests.ask(run)
    until(lambda: inbox.waiting)
    taken = inbox.take()
    requests.withdraw(run, asked)
    inbox.answer(taken, checkpoint="step_1")
    assert left(run) == []


def test_a_request_that_cannot_be_removed_is_handed_out_once(
    run: Path, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = requests.ask(run)
    until(lambda: inbox.waiting)
    monkeypatch.setattr(requests, "_unlink", lambda *_: None)
    inbox.answer(inbox.take(), checkpoint="step_1")
    looks(inbox)
    assert left(run) == [f"{asked.id}.answer.json", f"{asked.id}.json"]
    assert not inbox.waiting
    monkeypatch.undo()
    requests.withdraw(run, asked)


def test_a_request_by_hand_needs_no_more_than_an_object(run: Path, inbox: Inbox) -> None:
    looks(inbox)
    request(run, when="never", who=7, command="rm -rf /")
    until(lambda: inbox.waiting)
    (taken,) = inbox.take()
    assert (taken.who, taken.host, taken.when, taken.owner) == (None, "here", None, "")


def test_what_is_meant_for_another_owner_is_left_to_it(run: Path, inbox: Inbox) -> None:
    looks(inbox)
    path = request(run, owner="f" * 16)
    looks(inbox)
    assert not inbox.waiting
    assert path.exists()


def test_a_start_drops_what_former_owners_left_and_keeps_what_is_asked_of_this_one(
    run: Path, held: lock.RunLock
) -> None:
    request(run, "a" * 12, owner="f" * 16)
    request(run, "b" * 12)
    (folder(run) / "keep.txt").touch()
    fresh = requests.ask(run)
    box = requests.Inbox(run)
    box.start()
    until(lambda: box.waiting)
    assert [r.id for r in box.take()] == [fresh.id]
    box.stop()
    assert left(run) == [f"{fresh.id}.answer.json", "keep.txt"]


def test_an_answer_that_nobody_fetched_is_cleared_after_a_while(run: Path, inbox: Inbox) -> None:
    folder(run).mkdir()
    names = [
        f"{'a' * 12}.answer.json",
        f".{'a' * 12}.json.{'b' * 12}.tmp",
        f"{'c' * 12}.answer.json",
    ]
    for name in names:
        (folder(run) / name).touch()
    long_ago = time.time() - 3600
    os.utime(folder(run) / names[0], (long_ago, long_ago))
    os.utime(folder(run) / names[1], (long_ago, long_ago))
    until(lambda: left(run) == names[2:])


def _link(path: Path) -> None:
    target = path.parent.parent.parent / "real.json"
    target.write_text("{}")
    path.symlink_to(target)


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _huge(path: Path) -> None:
    path.write_text(json.dumps({"who": "x" * 2**17}))


def _no_json(path: Path) -> None:
    path.write_bytes(b"\xff\x00 save now")


def _deep(path: Path) -> None:
    path.write_text("[" * 30000)


def _list(path: Path) -> None:
    path.write_text("[]")


@pytest.mark.parametrize("make", [_link, _fifo, _huge, _no_json, _deep, _list])
def test_what_is_no_request_is_removed_and_not_obeyed(
    run: Path, inbox: Inbox, make: Callable[[Path], None]
) -> None:
    folder(run).mkdir()
    make(folder(run) / "0123456789ab.json")
    until(lambda: left(run) == [])
    assert not inbox.waiting
    if make is _link:
        assert (run / "real.json").read_text() == "{}"


@pytest.mark.parametrize("name", ["..json", "0123456789AB.json", "x.json", "0123456789ab.json\n"])
def test_other_names_are_nothing_to_the_inbox(run: Path, inbox: Inbox, name: str) -> None:
    folder(run).mkdir()
    (folder(run) / name).write_text("{}")
    (folder(run) / "0123456789ab.json").mkdir()
    looks(inbox)
    assert not inbox.waiting
    assert len(left(run)) == 2


def test_a_crowd_of_requests_is_met_in_parts(
    run: Path, held: lock.RunLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "_MOST", 2)
    monkeypatch.setattr(requests, "LOOK_SECONDS", 3600.0)
    asked = {requests.ask(run).id for _ in range(5)}
    box = requests.Inbox(run)
    box.start()
    until(lambda: box.waiting)
    first = {r.id for r in box.take()}
    assert len(first) == 2
    box._look()
    second = {r.id for r in box.take()}
    box._look()
    assert first | second | {r.id for r in box.take()} == asked
    box.stop()


def test_a_disk_that_fails_never_reaches_training(
    run: Path, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = requests.ask(run)
    until(lambda: inbox.waiting)
    real = os.listdir
    broken: list[object] = []

    def fails(path: Path) -> list[str]:
        broken.append(path)
        raise OSError(116, "Stale file handle", str(path))

    monkeypatch.setattr(os, "listdir", fails)
    begun = time.monotonic()
    until(lambda: len(broken) >= 3)
    # It neither gives up nor spins: one look each time.
    assert len(broken) <= (time.monotonic() - begun) / requests.LOOK_SECONDS + 2
    assert inbox.waiting
    monkeypatch.setattr(os, "listdir", real)
    assert [r.id for r in inbox.take()] == [asked.id]
    again = requests.ask(run)
    until(lambda: inbox.waiting)
    assert [r.id for r in inbox.take()] == [again.id]


def test_a_disk_that_hangs_holds_up_no_end(
    run: Path, held: lock.RunLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    back, hung = threading.Event(), threading.Event()

    def hangs(_: Path) -> list[str]:
        hung.set()
        back.wait(60)
        return []

    monkeypatch.setattr(requests, "_STOP_SECONDS", 0.1)
    monkeypatch.setattr(os, "listdir", hangs)
    box = requests.Inbox(run)
    begun = time.monotonic()
    box.start()
    assert hung.wait(30)
    box.stop()
    assert time.monotonic() - begun < 20
    back.set()


def test_a_stop_does_not_wait_for_the_next_look(
    run: Path, held: lock.RunLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "LOOK_SECONDS", 3600.0)
    box = requests.Inbox(run)
    box.start()
    asked = requests.ask(run)
    begun = time.monotonic()
    box.stop()
    assert time.monotonic() - begun < 20
    # What came between two looks is answered all the same.
    assert requests.wait(run, asked, timeout=5).error == requests.ENDED


def test_an_inbox_that_was_never_started_stops_too(run: Path) -> None:
    requests.Inbox(run).stop()


# Names and answers


@given(st.binary(min_size=6, max_size=6))
def test_a_built_name_parses_to_its_id(number: bytes) -> None:
    name = number.hex()
    assert schema.parse_request_file(schema.request_file(name)) == (name, False)
    assert schema.parse_request_file(schema.answer_file(name)) == (name, True)


@pytest.mark.parametrize(
    ("content", "checkpoint", "error"),
    [
        ({"checkpoint": "step_7", "error": None}, "step_7", None),
        ({"checkpoint": "../../etc", "error": None}, None, "neither"),
        ({"checkpoint": 7, "error": ["no"]}, None, "neither"),
        ({}, None, "neither"),
        ({"error": "x" * 5000}, None, "x" * 1000),
    ],
)
def test_an_answer_names_a_checkpoint_or_a_reason(
    run: Path,
    held: lock.RunLock,
    content: dict[str, object],
    checkpoint: str | None,
    error: str | None,
) -> None:
    asked = requests.ask(run)
    (folder(run) / f"{asked.id}.answer.json").write_text(json.dumps(content))
    answer = requests.wait(run, asked, timeout=30)
    assert answer.checkpoint == checkpoint
    assert (error or "") in (answer.error or "")
    assert len(answer.error or "") <= 1000
    assert left(run) == []


def test_an_answer_that_is_no_file_is_none(run: Path, held: lock.RunLock) -> None:
    asked = requests.ask(run)
    os.mkfifo(folder(run) / f"{asked.id}.answer.json")
    assert "did not answer" in (requests.wait(run, asked, timeout=0.05).error or "")
    assert left(run) == []


def test_whoever_is_interrupted_while_waiting_withdraws(
    run: Path, held: lock.RunLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = requests.ask(run)

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", interrupted)
        with pytest.raises(KeyboardInterrupt):
            requests.wait(run, asked, timeout=30)
    assert left(run) == []


def test_a_refusal_is_of_a_kind_that_json_names(run: Path) -> None:
    with pytest.raises(CkptuiError) as caught:
        requests.ask(run)
    assert caught.value.kind == "refused"
