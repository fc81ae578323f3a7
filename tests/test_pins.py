"""A pin protects from the moment it is reported until it is taken away, whoever else is at work."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ckptui import durable, journal, pins, remove
from ckptui.errors import NotFoundError, RefusedError, StorageError
from ckptui.scan import scan_run
from tests.factory import RUN_ID, make_checkpoint, make_run

if TYPE_CHECKING:
    from ckptui.checkpoint import Checkpoint


def at(run: Path, name: str) -> Checkpoint:
    return next(c for c in scan_run(run).checkpoints if c.name == name)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path / "run", [1, 2, 3])


def test_a_pin_is_written_shown_and_taken_away(run: Path) -> None:
    assert pins.pin(at(run, "step_2"), note="before the LR drop")
    pinned = at(run, "step_2")
    assert pinned.pinned
    assert pinned.note == "before the LR drop"
    content = json.loads(pins.pin_path(run, "step_2").read_text())
    assert set(content) == {"run_id", "step", "created", "who", "host", "when", "note"}
    assert (content["run_id"], content["step"], content["created"]) == (
        RUN_ID,
        2,
        pinned.created_text,
    )
    assert not at(run, "step_1").pinned
    assert pins.unpin(pinned)
    assert not at(run, "step_2").pinned
    assert not pins.unpin(pinned)
    events, _ = journal.read(run)
    assert [(e.what, e.checkpoints) for e in events] == [
        ("pin", ("step_2",)),
        ("unpin", ("step_2",)),
    ]


def test_pinning_again_changes_only_the_note(run: Path) -> None:
    assert pins.pin(at(run, "step_1"), note="a")
    assert not pins.pin(at(run, "step_1"))
    assert not pins.pin(at(run, "step_1"), note="a")
    assert pins.pin(at(run, "step_1"), note="b")
    assert at(run, "step_1").note == "b"
    assert pins.pin(at(run, "step_1"), note="")
    assert at(run, "step_1").note == ""


def test_a_record_older_than_an_unpin_does_not_hide_that_the_pin_is_gone(run: Path) -> None:
    pins.pin(at(run, "step_1"))
    stale = at(run, "step_1")
    pins.unpin(at(run, "step_1"))
    assert pins.pin(stale)
    assert pins.is_pinned(run, "step_1")


def test_pinning_anew_mends_a_pin_that_was_made_for_another_checkpoint(run: Path) -> None:
    pins.pin(at(run, "step_1"), note="why")
    old = at(run, "step_1")
    remove.move_to_trash([replace(at(run, "step_2"))], why="rm")
    pins.pin_path(run, "step_1").rename(pins.pin_path(run, "step_2"))
    make_checkpoint(run, "step_2", step=2, created="2030-01-01T00:00:00Z")
    mismatched = at(run, "step_2")
    assert mismatched.pinned
    assert any("another checkpoint" in p.what for p in mismatched.problems)
    assert pins.pin(mismatched)
    assert at(run, "step_2").problems == ()
    assert at(run, "step_2").note == old.note


def test_what_is_gone_cannot_be_pinned_and_leaves_no_pin(run: Path) -> None:
    found = at(run, "step_2")
    remove.move_to_trash([found], why="rm")
    with pytest.raises(NotFoundError, match="step_2 is gone"):
        pins.pin(found)
    assert not pins.is_pinned(run, "step_2")


def test_what_goes_while_it_is_being_pinned_leaves_no_pin(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = at(run, "step_2")
    real = durable.create_file

    def slow(path: Path, data: bytes) -> None:
        remove.move_to_trash([found], why="prune")  # its look at the pin came before ours is there
        real(path, data)

    monkeypatch.setattr(pins, "create_file", slow)
    with pytest.raises(NotFoundError):
        pins.pin(found)
    assert not pins.is_pinned(run, "step_2")


def test_a_pin_that_somebody_else_made_meanwhile_is_not_taken_back(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = at(run, "step_2")
    real = durable.create_file

    def raced(path: Path, data: bytes) -> None:
        real(path, data)
        found.path.rename(run / "away")
        durable.replace_file(path, b"{}")

    monkeypatch.setattr(pins, "create_file", raced)
    with pytest.raises(NotFoundError):
        pins.pin(found)
    assert pins.is_pinned(run, "step_2")


def test_a_checkpoint_in_the_hand_of_a_removal_is_waited_for(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The removal renames first and looks at the pin second, so it puts a pinned one back."""
    found = at(run, "step_2")
    away = run / "away"
    back = threading.Timer(0.1, lambda: away.rename(found.path))
    real = durable.create_file

    def raced(path: Path, data: bytes) -> None:
        real(path, data)
        found.path.rename(away)
        back.start()

    monkeypatch.setattr(pins, "create_file", raced)
    assert pins.pin(found)
    back.join()
    assert at(run, "step_2").pinned


def test_an_unreadable_pin_protects_and_says_so(run: Path) -> None:
    folder = run / ".ckptui" / "pins"
    folder.mkdir(parents=True)
    (folder / "step_1.json").write_text("{")
    os.mkfifo(folder / "step_2.json")
    (folder / "step_3.json").symlink_to("nowhere")
    for name in ("step_1", "step_2", "step_3"):
        found = at(run, name)
        assert found.pinned
        assert any("cannot be read" in p.what for p in found.problems)
        with pytest.raises(remove.ChangedError):
            remove.move_to_trash([found], why="prune")
    assert pins.pin(at(run, "step_1"))
    assert at(run, "step_1").problems == ()
    for name in ("step_2", "step_3"):
        assert pins.unpin(at(run, name))


def test_odd_files_among_the_pins_are_no_pins(run: Path) -> None:
    folder = run / ".ckptui" / "pins"
    folder.mkdir(parents=True)
    for name in ("step_1", "step_1.json.tmp", ".step_1.json.ab.tmp", "._step_1.json", "notes.json"):
        (folder / name).write_text("{}")
    assert pins.read_pins(run) == {}
    assert not at(run, "step_1").pinned


def test_a_pin_that_is_a_folder_is_told_in_a_sentence(run: Path) -> None:
    pins.pin_path(run, "step_1").mkdir(parents=True)
    found = at(run, "step_1")
    assert found.pinned
    with pytest.raises(StorageError, match="cannot be unpinned"):
        pins.unpin(found)
    with pytest.raises(StorageError, match="cannot be pinned"):
        pins.pin(found)


@pytest.mark.parametrize("link", [".ckptui", ".ckptui/pins"])
def test_no_pin_is_written_or_removed_through_a_link(run: Path, link: str) -> None:
    outside = run.with_name("outside")
    (outside / "pins").mkdir(parents=True)
    theirs = (outside / "pins" if link == ".ckptui" else outside) / "step_1.json"
    theirs.write_text("{}")
    if link != ".ckptui":
        (run / ".ckptui").mkdir()
    (run / link).symlink_to(outside)
    with pytest.raises(RefusedError, match="is a link"):
        pins.pin(at(run, "step_2"))
    with pytest.raises(RefusedError, match="is a link"):
        pins.unpin(at(run, "step_1"))
    assert theirs.exists()


def test_nothing_is_written_where_ckptui_does_not_know_the_layout(tmp_path: Path) -> None:
    (tmp_path / "theirs" / "step_1").mkdir(parents=True)
    with pytest.raises(RefusedError):
        pins.pin(at(tmp_path / "theirs", "step_1"))
    assert os.listdir(tmp_path / "theirs") == ["step_1"]


def test_a_run_that_is_gone_is_not_made_anew(run: Path) -> None:
    found = at(run, "step_1")
    run.rename(run.with_name("moved"))
    with pytest.raises(NotFoundError):
        pins.pin(found)
    assert not pins.unpin(found)
    assert not run.exists()


def test_a_trash_item_and_a_staged_one_are_not_pinned(run: Path) -> None:
    found = at(run, "step_1")
    staged = replace(found, staged=True, path=run / ".ckptui" / "staging" / "step_1-ab")
    with pytest.raises(RefusedError, match="staged"):
        pins.pin(staged)
    trashed = replace(found, staged=True, path=run / ".ckptui" / "trash" / "id" / "step_1")
    with pytest.raises(RefusedError, match="in the trash"):
        pins.pin(trashed)


def test_an_incomplete_checkpoint_can_be_pinned(run: Path) -> None:
    make_checkpoint(run, "step_9", step=9, marker=False)
    assert pins.pin(at(run, "step_9"))
    assert at(run, "step_9").pinned


HAMMER = """
import sys
from pathlib import Path
from ckptui import pins
from ckptui.scan import scan_run
run, name, rounds = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
mine = next(c for c in scan_run(run).checkpoints if c.name == name)
for _ in range(rounds):
    assert pins.pin(mine, note="x" * 500)
    assert pins.read_pins(run)[name].readable
    assert pins.unpin(mine)
assert pins.pin(mine, note="final")
"""


def hammer(run: Path, rounds: int) -> None:
    children = [
        subprocess.Popen([sys.executable, "-c", HAMMER, str(run), f"step_{n}", str(rounds)])
        for n in range(1, 9)
    ]
    while any(c.poll() is None for c in children):
        for found in pins.read_pins(run).values():
            assert found.readable
    assert [c.returncode for c in children] == [0] * 8
    final = pins.read_pins(run)
    assert {n: p.note for n, p in final.items()} == {f"step_{n}": "final" for n in range(1, 9)}
    assert sorted(os.listdir(run / ".ckptui" / "pins")) == sorted(f"{n}.json" for n in final)


def test_b98_eight_processes_pin_and_unpin_at_once(tmp_path: Path) -> None:
    hammer(make_run(tmp_path / "run", range(1, 9)), 15)


@pytest.mark.slow
def test_b98_eight_processes_pin_and_unpin_200_times_each(tmp_path: Path) -> None:
    hammer(make_run(tmp_path / "run", range(1, 9)), 200)


def test_b53_pins_travel_with_a_copied_run_and_stay_there(run: Path) -> None:
    pins.pin(at(run, "step_1"))
    copy = run.with_name("copy")
    shutil.copytree(run, copy)
    assert at(copy, "step_1").problems == ()
    pins.unpin(at(copy, "step_1"))
    assert not at(copy, "step_1").pinned
    assert at(run, "step_1").pinned


def test_neither_pins_nor_unpins_another_checkpoint_that_took_the_place(run: Path) -> None:
    found = at(run, "step_2")
    shutil.rmtree(found.path)
    make_checkpoint(run, "step_2", step=2, created="2030-01-01T00:00:00Z")
    with pytest.raises(NotFoundError, match="another checkpoint of that name"):
        pins.pin(found)
    assert not pins.is_pinned(run, "step_2")
    pins.pin(at(run, "step_2"), note="theirs")
    with pytest.raises(NotFoundError, match="another checkpoint of that name"):
        pins.unpin(found)
    assert at(run, "step_2").note == "theirs"


def test_what_is_replaced_while_it_is_being_pinned_leaves_no_pin(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = at(run, "step_2")
    real = durable.create_file

    def slow(path: Path, data: bytes) -> None:
        shutil.rmtree(found.path)
        make_checkpoint(run, "step_2", step=2, created="2030-01-01T00:00:00Z")
        real(path, data)

    monkeypatch.setattr(pins, "create_file", slow)
    with pytest.raises(NotFoundError):
        pins.pin(found)
    assert not pins.is_pinned(run, "step_2")


def test_a_partial_one_that_is_complete_by_now_can_be_pinned(run: Path) -> None:
    make_checkpoint(run, "step_9", step=9, marker=False)
    found = at(run, "step_9")
    shutil.rmtree(found.path)
    make_checkpoint(run, "step_9", step=9)
    assert pins.pin(found)
