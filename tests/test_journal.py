"""The journal is a courtesy: it records what it can and never stands in the way."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ckptui import journal, schema
from ckptui.errors import StorageError


def path_of(run: Path) -> Path:
    return run / schema.TOOL_DIR / schema.JOURNAL


def test_events_come_back_in_order(tmp_path: Path) -> None:
    journal.record(tmp_path, "pin", checkpoints=["step_1"], reason="good\none\x1b[31m")
    journal.record(tmp_path, "unpin", checkpoints=["step_1", "step_2"])
    events, problems = journal.read(tmp_path)
    assert problems == ()
    assert [(e.what, e.checkpoints, e.reason) for e in events] == [
        ("pin", ("step_1",), "good\none\x1b[31m"),
        ("unpin", ("step_1", "step_2"), None),
    ]
    assert events[0].host == journal.host()
    assert events[0].time is not None
    assert len(path_of(tmp_path).read_bytes().splitlines()) == 2


def test_a_run_without_a_journal_has_no_events(tmp_path: Path) -> None:
    assert journal.read(tmp_path) == ((), ())


def test_a_disk_that_refuses_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    journal.record(tmp_path, "pin")


def test_a_run_that_is_gone_is_not_made_anew(tmp_path: Path) -> None:
    journal.record(tmp_path / "gone", "pin")
    assert not (tmp_path / "gone").exists()


@pytest.mark.parametrize("at", [".ckptui", ".ckptui/journal.jsonl"])
def test_nothing_is_recorded_through_a_link(tmp_path: Path, at: str) -> None:
    run, outside = tmp_path / "run", tmp_path / "outside"
    (run / at).parent.mkdir(parents=True)
    outside.mkdir()
    (outside / "profile").write_bytes(b"precious\n")
    (run / at).symlink_to(outside if at == ".ckptui" else outside / "profile")
    journal.record(run, "pin", reason="; rm -rf ~")
    assert os.listdir(outside) == ["profile"]
    assert (outside / "profile").read_bytes() == b"precious\n"


def test_damaged_lines_cost_only_themselves(tmp_path: Path) -> None:
    journal.record(tmp_path, "pin")
    with path_of(tmp_path).open("ab") as f:
        f.write(b'{"what": 7}\n[1]\n{"what": \n\xff\xff\n' + b"[" * 100_000 + b"\n\n")
        f.write(b'{"what": "odd", "who": 5, "checkpoints": ["a", 3], "time": "never"}\n')
        f.write(b"x" * (schema.MAX_LINE_SIZE + 10) + b"\n")
        f.write(b'{"what": "torn')
    journal.record(tmp_path, "unpin")
    events, problems = journal.read(tmp_path)
    assert [e.what for e in events] == ["pin", "odd", "unpin"]
    assert events[1].checkpoints == ("a",)
    assert events[1].who is None
    assert events[1].time is None
    assert len(problems) == 7


def test_a_file_of_damage_does_not_drown_the_reader(tmp_path: Path) -> None:
    path_of(tmp_path).parent.mkdir()
    path_of(tmp_path).write_bytes(b"x\n" * 10_000)
    _, problems = journal.read(tmp_path)
    assert len(problems) == 21
    assert problems[-1].what == "9980 more lines are damaged"


def test_a_fifo_in_its_place_is_told_and_does_not_hang(tmp_path: Path) -> None:
    path_of(tmp_path).parent.mkdir()
    os.mkfifo(path_of(tmp_path))
    journal.record(tmp_path, "pin")
    with pytest.raises(StorageError, match="not a regular file"):
        journal.read(tmp_path)


def test_events_of_several_processes_do_not_mix(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from ckptui import journal\n"
        "for _ in range(50):\n"
        "    journal.record(Path(sys.argv[1]), 'pin', reason=sys.argv[2] * 2000)\n"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path), letter]) for letter in "abcd"
    ]
    for child in children:
        assert child.wait() == 0
    events, problems = journal.read(tmp_path)
    assert problems == ()
    assert len(events) == 200
    assert {e.reason for e in events} == {letter * 2000 for letter in "abcd"}
