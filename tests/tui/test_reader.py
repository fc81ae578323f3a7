from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING

from textual.message import Message

from ckptui.checkpoint import Root, Run
from ckptui.scan import scan, scan_run
from ckptui.tui import messages, snapshot
from ckptui.tui.jobs import Job, Jobs
from ckptui.tui.reader import Reader
from ckptui.tui.snapshot import RunView, Snapshot
from tests.factory import make_checkpoint, make_run
from tests.tui.driver import NOW

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Idle:
    """Takes work and does it only when told to."""

    def __init__(self) -> None:
        self.jobs = Jobs()
        self.todo: list[tuple[Job, Callable[[Job], Message | None]]] = []

    def start(self, group: str, label: str, work: Callable[[Job], Message | None]) -> Job:
        job = Job(group, label, None)  # type: ignore[arg-type] # nothing is posted here
        self.jobs._latest[group] = job
        self.todo.append((job, work))
        return job

    def done(self, index: int) -> Message | None:
        job, work = self.todo[index]
        return work(job)


def reader_of(path: Path, idle: Idle) -> Reader:
    return Reader(path, scan, lambda: NOW, idle.jobs, idle.start)


def test_what_was_read_alone_since_a_scan_began_is_not_overwritten(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", [1])
    reader = reader_of(tmp_path, Idle())
    old = snapshot.take(tmp_path, scan, lambda: NOW)
    make_checkpoint(path, "step_2", step=2)
    fresh = snapshot.view(scan_run(path), NOW + timedelta(seconds=5))
    reader.take_runs({path: fresh})
    reader.take_all(old)
    assert len(reader.views[path].rows) == 2
    reader.take_all(snapshot.take(tmp_path, scan, lambda: NOW + timedelta(seconds=9)))
    assert reader.views[path].when == NOW + timedelta(seconds=9)


def test_a_reading_that_was_overtaken_says_nothing_and_its_runs_are_read_anew(
    tmp_path: Path,
) -> None:
    one, two = make_run(tmp_path / "a", [1]), make_run(tmp_path / "b", [2])
    idle = Idle()
    reader = reader_of(tmp_path, idle)
    reader.read_runs([one])
    reader.read_runs([two])
    assert idle.done(0) is None
    found = idle.done(1)
    assert isinstance(found, messages.RunsRescanned)
    assert set(found.views) == {one, two}


def test_the_same_content_read_again_is_no_news(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", [1])
    reader = reader_of(tmp_path, Idle())
    view = snapshot.view(scan_run(path), NOW)
    assert reader.take_runs({path: view})
    again = snapshot.view(scan_run(path), NOW + timedelta(seconds=3), view)
    assert not reader.take_runs({path: again})
    assert reader.take_runs({path: None})
    assert reader.run_path is None


def test_a_run_that_is_being_trained_comes_first(tmp_path: Path) -> None:
    idle, live = tmp_path / "idle", tmp_path / "live"
    make_run(idle, [900])
    make_run(live, [1])
    runs = (scan_run(idle), scan_run(live))

    def with_live(path: Path, **_: object) -> Root:
        return Root(path=path, runs=tuple(_as_live(r) if r.path == live else r for r in runs))

    reader = reader_of(tmp_path, Idle())
    reader.take_all(snapshot.take(tmp_path, with_live, lambda: NOW))
    assert reader.run_path == live
    reader.choose(idle)
    reader.take_all(snapshot.take(tmp_path, with_live, lambda: NOW))
    assert reader.run_path == idle


def snapshot_of(*views: RunView) -> Snapshot:
    return Snapshot(
        path=views[0].run.path.parent, views=views, problems=(), ignored=(), disk_used=0
    )


def test_the_run_that_was_shown_first_stays_listed_whatever_is_saved_elsewhere(
    tmp_path: Path,
) -> None:
    here, other = make_run(tmp_path / "a", [900]), make_run(tmp_path / "b", [1])
    reader = reader_of(tmp_path, Idle())
    reader.take_all(snapshot.take(tmp_path, scan, lambda: NOW))
    assert reader.run_path == here
    make_checkpoint(other, "step_2", step=2, created="2026-01-01T11:00:00.000000Z")
    reader.take_all(snapshot.take(tmp_path, scan, lambda: NOW))
    assert reader.run_path == here


def test_a_run_in_which_a_key_was_pressed_stays_listed_when_the_first_scan_ends(
    tmp_path: Path,
) -> None:
    here, other = make_run(tmp_path / "a", [1]), make_run(tmp_path / "b", [900])
    views = [snapshot.view(scan_run(path), NOW) for path in (here, other)]
    for pressed in (False, True):
        reader = reader_of(tmp_path, Idle())
        reader.hold()  # before anything is listed there is nothing to hold
        reader.take_run(views[0])
        if pressed:
            reader.hold()
        reader.take_all(snapshot_of(*views))
        assert reader.run_path == (here if pressed else other)


def test_a_run_that_goes_stays_the_listed_one_and_comes_back(tmp_path: Path) -> None:
    here, other = make_run(tmp_path / "a", [900]), make_run(tmp_path / "b", [1])
    views = [snapshot.view(scan_run(path), NOW) for path in (here, other)]
    reader = reader_of(tmp_path, Idle())
    reader.take_all(snapshot_of(*views))
    reader.take_runs({here: None})
    assert (reader.run_path, reader.view, reader.lost) == (here, None, views[0])
    reader.take_all(snapshot_of(views[1]))
    assert (reader.run_path, reader.view, reader.lost) == (here, None, views[0])
    reader.take_all(snapshot_of(*views))
    assert (reader.view, reader.lost) == (views[0], None)
    reader.take_runs({here: None})
    reader.choose(other)
    assert (reader.view, reader.lost) == (views[1], None)


def test_a_clock_that_goes_back_hides_no_news(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", [1])
    reader = reader_of(tmp_path, Idle())
    reader.take_all(snapshot.take(tmp_path, scan, lambda: NOW))
    make_checkpoint(path, "step_2", step=2)
    reader.take_all(snapshot.take(tmp_path, scan, lambda: NOW - timedelta(hours=3)))
    assert len(reader.views[path].rows) == 2


def test_a_reading_that_began_before_the_one_that_is_shown_is_not_taken(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", [1])
    reader = reader_of(tmp_path, Idle())
    old = snapshot.view(scan_run(path), NOW)
    make_checkpoint(path, "step_2", step=2)
    new = snapshot.view(scan_run(path), NOW)
    reader.take_runs({path: new})
    reader.take_runs({path: old})
    assert reader.views[path] is new


def _as_live(run: Run) -> Run:
    return Run(
        path=run.path,
        name=run.name,
        run_id=run.run_id,
        layout=run.layout,
        live=True,
        checkpoints=run.checkpoints,
    )


def test_a_job_that_hangs_is_a_daemon_thread(tmp_path: Path) -> None:
    jobs, go = Jobs(), threading.Event()

    def wait(_: Job) -> None:
        go.wait(60)

    class Sink:
        def __init__(self) -> None:
            self.got: list[Message] = []

        def post_message(self, message: Message) -> bool:
            self.got.append(message)
            return True

    sink = Sink()
    job = jobs.start("scan", "waiting", wait, target=sink, crashed=sink)  # type: ignore[arg-type] # all it does is post
    thread = next(t for t in threading.enumerate() if t.name == "ckptui-scan")
    assert thread.daemon
    assert jobs.oldest_running() is job
    go.set()
    thread.join(60)
    assert not job.running
