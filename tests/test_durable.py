"""Small files survive crashes, full disks and what others leave under our names."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from ckptui import durable
from ckptui.errors import FormatError, RefusedError, StorageError


def test_replacing_gives_the_new_content_and_leaves_no_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    durable.replace_file(path, b"old")
    durable.replace_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["run.json"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_disk_that_fails_leaves_the_old_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "run.json"
    durable.replace_file(path, b"old")

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="No space"):
        durable.replace_file(path, b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["run.json"]


def test_a_new_file_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output"):
        durable.write_file(tmp_path / "lock", b"x")
    assert os.listdir(tmp_path) == []


def test_a_new_file_never_replaces_another(tmp_path: Path) -> None:
    (tmp_path / "lock").write_bytes(b"theirs")
    with pytest.raises(FileExistsError):
        durable.write_file(tmp_path / "lock", b"ours")
    assert (tmp_path / "lock").read_bytes() == b"theirs"


def test_b99_mkdir_that_says_exists_once_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, failures = os.mkdir, [1]

    def flaky(path: Any, *rest: Any, **more: Any) -> None:
        if failures:
            failures.pop()
            raise FileExistsError(errno.EEXIST, "File exists", str(path))
        real(path, *rest, **more)

    monkeypatch.setattr(os, "mkdir", flaky)
    durable.make_dir(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


def test_a_file_in_the_place_of_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(FileExistsError):
        durable.make_dir(tmp_path / "a")


def test_folders_of_our_own_are_made_in_the_run(tmp_path: Path) -> None:
    assert durable.tool_dir(tmp_path, "pins") == tmp_path / ".ckptui" / "pins"
    assert (tmp_path / ".ckptui" / "pins").is_dir()


@pytest.mark.parametrize("at", [".ckptui", ".ckptui/pins"])
def test_nothing_is_written_through_a_link(tmp_path: Path, at: str) -> None:
    outside, run = tmp_path / "outside", tmp_path / "run"
    outside.mkdir()
    link = run / at
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)
    with pytest.raises(RefusedError, match="is a link"):
        durable.tool_dir(run, "pins")
    assert os.listdir(outside) == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"n": ' + b"9" * 5000 + b"}",
        b'{"a": 1} trailing',
    ],
)
def test_what_is_no_json_object_is_told_in_a_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(content)
    with pytest.raises(FormatError, match="JSON"):
        durable.read_json_object(path, limit=2**20)


def test_non_finite_numbers_are_read_though_json_lacks_them(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.json"
    path.write_text('{"a": NaN, "b": -Infinity, "c": 1e400}')
    found = durable.read_json_object(path, limit=100)
    assert found["a"] != found["a"]
    assert found["b"] == -found["c"] == float("-inf")


def test_a_file_over_the_limit_is_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as f:
        f.truncate(2**40)
    with pytest.raises(FormatError, match="larger than"):
        durable.read_bytes(path, limit=1000)


def test_a_missing_file_is_told_apart_from_a_bad_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FileNotFoundError):
        durable.read_bytes(tmp_path / "none", limit=10)
    with pytest.raises(FileNotFoundError):
        durable.read_bytes(tmp_path / "file" / "below", limit=10)


def test_a_fifo_a_folder_and_a_device_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "zero").symlink_to("/dev/zero")
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else None
    for name in ("fifo", "folder", "zero"):
        with pytest.raises(FormatError, match="not a regular file"):
            durable.read_bytes(tmp_path / name, limit=10)
    if before is not None:
        assert len(os.listdir("/proc/self/fd")) == before


def test_a_fifo_with_a_silent_writer_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    writer = os.open(tmp_path / "fifo", os.O_RDWR)
    try:
        with pytest.raises(FormatError):
            durable.read_json_object(tmp_path / "fifo", limit=10)
    finally:
        os.close(writer)


def test_an_unreadable_file_is_a_storage_error(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(StorageError, match="cannot be read"):
        durable.read_bytes(loop, limit=10)


def test_lines_beyond_the_limit_are_passed_over_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\n" + b"x" * 100 + b"\nthree\n" + b"y" * 10 + b"\nlast")
    found = list(durable.read_lines(path, limit=10))
    assert found == [(1, b"one\n"), (2, None), (3, b"three\n"), (4, None), (5, b"last")]


def test_json_is_strict_and_keeps_undecodable_names() -> None:
    name = os.fsdecode(b"step\xff")
    data = durable.to_json({"name": name})
    assert json.loads(data.decode("ascii")) == {"name": name}
    with pytest.raises(ValueError, match="JSON"):
        durable.to_json({"x": float("nan")})


def test_a_line_cut_off_by_a_crash_is_ended_first(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'{"a": 1}\n{"to')
    durable.append_line(path, '{"b": 2}')
    assert path.read_bytes() == b'{"a": 1}\n{"to\n{"b": 2}\n'


def test_appends_of_many_threads_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "log"
    lines = [f"{i}-" + "x" * 3000 for i in range(8)]

    def append(line: str) -> None:
        for _ in range(30):
            durable.append_line(path, line)

    threads = [threading.Thread(target=append, args=(line,)) for line in lines]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    found = path.read_text().splitlines()
    assert sorted(w for w in found if w) == sorted(lines * 30)


def test_a_line_is_not_appended_through_a_link_nor_to_a_fifo(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"precious\n")
    (tmp_path / "link").symlink_to(outside)
    os.mkfifo(tmp_path / "fifo")
    for name in ("link", "fifo"):
        with pytest.raises(OSError, match=r"link|regular"):
            durable.append_line(tmp_path / name, "x")
    assert outside.read_bytes() == b"precious\n"


def test_a_line_that_only_partly_fits_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:3]))
    with pytest.raises(OSError, match="No space"):
        durable.append_line(tmp_path / "log", "a long line")


def test_replaced_files_are_whole_for_every_reader(tmp_path: Path) -> None:
    """A writer in another process replaces a file again and again while we read it."""
    path = tmp_path / "pin.json"
    durable.replace_file(path, durable.to_json({"n": 0, "pad": "x" * 5000}))
    code = (
        "import sys; from pathlib import Path; from ckptui.durable import replace_file, to_json\n"
        "for n in range(200): replace_file(Path(sys.argv[1]), to_json({'n': n, 'pad': 'x' * 5000}))"
    )
    writer = subprocess.Popen([sys.executable, "-c", code, str(path)])
    while writer.poll() is None:
        assert len(durable.read_json_object(path, limit=2**20)["pad"]) == 5000
    assert writer.returncode == 0
