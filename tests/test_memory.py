"""Reading a run again costs a look at each folder, and finds what has changed."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

from ckptui import pins
from ckptui.layouts import native_checkpoint, reading
from ckptui.layouts.memory import Memory
from ckptui.scan import scan, scan_run
from tests.factory import make_checkpoint, make_run

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from ckptui.checkpoint import Run


def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every folder count as settled, however young."""
    monkeypatch.setattr("ckptui.layouts.memory.SETTLED_SECONDS", -(10.0**9))


def test_what_has_not_changed_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled(monkeypatch)
    path = make_run(tmp_path / "run", [1, 2, 3])
    memory = Memory()
    first = scan(path, memory=memory).runs[0]
    read: list[str] = []
    real = native_checkpoint.describe_checkpoint

    def counted(run: Path, name: str, *rest: Any) -> Any:
        read.append(name)
        return real(run, name, *rest)

    monkeypatch.setattr(reading, "describe_checkpoint", counted)
    again = scan(path, memory=memory).runs[0]
    assert not read
    assert all(a is b for a, b in zip(first.checkpoints, again.checkpoints, strict=True))
    make_checkpoint(path, "step_4", step=4)
    (path / "step_2" / "more").write_text("")
    shutil.rmtree(path / "step_1")
    after = scan(path, memory=memory).runs[0]
    assert sorted(read) == ["step_2", "step_4"]
    assert after == scan_run(path)


def test_a_pin_is_seen_although_the_folder_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled(monkeypatch)
    path = make_run(tmp_path / "run", [1, 2])
    memory = Memory()
    found = scan(path, memory=memory).runs[0]
    pins.pin(found.checkpoints[0], note="keep")
    assert [c.pinned for c in scan(path, memory=memory).runs[0].checkpoints] == [True, False]
    pins.unpin(found.checkpoints[0])
    assert not any(c.pinned for c in scan(path, memory=memory).runs[0].checkpoints)


def test_a_young_folder_is_read_again_since_its_time_may_not_tell(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", [1])
    memory = Memory()
    scan(path, memory=memory)
    weights = path / "step_1" / "model.safetensors"
    info = (path / "step_1").stat()
    weights.write_bytes(b"short")
    os.utime(path / "step_1", ns=(info.st_atime_ns, info.st_mtime_ns))
    assert scan(path, memory=memory).runs[0].checkpoints[0].state == "broken"


def test_a_recheck_finds_a_file_that_was_cut_where_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled(monkeypatch)
    path = make_run(tmp_path / "run", [1, 2])
    memory = Memory()
    first = scan(path, memory=memory).runs[0]
    with (path / "step_1" / "model.safetensors").open("r+b") as file:
        file.truncate(3)
    memory.recheck = True
    second = scan(path, memory=memory).runs[0]
    assert second.checkpoints[0].state == "broken"
    assert second.checkpoints[1] is first.checkpoints[1]


def test_a_long_run_is_told_of_by_its_names_first_and_the_newest_are_read_first(
    tmp_path: Path,
) -> None:
    path = make_run(tmp_path / "run", range(1, reading.MANY + 50))
    parts: list[Run] = []
    whole = scan(path, on_part=parts.append).runs[0]
    assert len(parts[0].checkpoints) == reading.MANY + 49
    assert len(parts[0].unread) == reading.MANY + 49
    assert not any(c.complete for c in parts[0].checkpoints)
    assert not whole.unread
    assert all(c.complete for c in whole.checkpoints)


def test_a_scan_that_is_given_up_says_what_it_has_not_read(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", range(1, 20))
    count = 0

    def after_five() -> bool:
        nonlocal count
        count += 1
        return count > 6

    run = scan(path, cancelled=after_five).runs[0]
    assert {c.name for c in run.checkpoints if c.complete} == {f"step_{n}" for n in range(15, 20)}
    assert run.unread == {f"step_{n}" for n in range(1, 15)}
