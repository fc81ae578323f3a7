"""How deleting behaves on file systems and beside processes that get in its way."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ckptui as package
from ckptui.display.text import size
from ckptui.verify import verify_checkpoint
from tests.cases.harness import (
    ckptui,
    latest,
    listed,
    plan,
    run_form,
    seal,
    standing,
    tree,
    write,
)
from tests.factory import make_run, safetensors_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ckptui.checkpoint import Checkpoint
    from ckptui.verify import Report

REPOSITORY = Path(package.__file__).parents[1]
NOBODY = 65534

AS_ORDINARY_USER = """
import contextlib, io, os, sys
from ckptui.cli import main

def call(words):
    try:
        main(words)
    except SystemExit as e:
        return e.code

# Everything is imported before: the interpreter may lie where only root can read it.
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    call(["prune", sys.argv[1], "--keep-last", "1", "--delete", "--yes"])
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
sys.exit(call(sys.argv[2:]))
"""


def start(*words: str | Path, **how: Any) -> subprocess.Popen[str]:
    """Start a command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "ckptui", *map(str, words)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **how,
    )


def test_B78_a_folder_that_will_not_go_costs_only_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run", [100, 200, 300, 400])
    rmdir = os.rmdir

    def busy(path: str, *rest: Any, **more: Any) -> None:
        if os.fspath(path).endswith("step_100"):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        rmdir(path, *rest, **more)

    monkeypatch.setattr(os, "rmdir", busy)
    form = ckptui("prune", run, "--keep-last", "1", "--delete", "--yes", "--json", code=1).json()

    done = {r["name"]: r["done"] for r in form["results"]}
    assert done == {"step_100": False, "step_200": True, "step_300": True}
    (failed,) = [r for r in form["results"] if not r["done"]]
    assert "step_100" in failed["error"]
    assert "not empty" in failed["error"]
    assert standing(run) == {"step_400"}
    assert [c["name"] for c in listed(run)] == ["step_400"]
    assert run_form(run)["trash"]["count"] == 1

    # What is left is told, cannot be brought back as if it were whole, and goes in the end.
    ckptui("trash", "restore", "step_100", "--run", run, code=1)
    monkeypatch.undo()
    ckptui("trash", "empty", "--run", run, "--yes")
    assert run_form(run)["trash"] == {"count": 0, "size": 0}


def test_B78_a_file_that_another_process_holds_open_on_nfs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run", [100, 200])
    unlink = os.unlink

    def silly_rename(path: str, *rest: Any, **more: Any) -> None:
        if os.fspath(path).endswith("model.safetensors"):
            Path(path).with_name(".nfs000000000001").write_bytes(b"")
        unlink(path, *rest, **more)

    monkeypatch.setattr(os, "unlink", silly_rename)
    ckptui("prune", run, "--keep-last", "1", "--delete", "--yes", code=1)
    monkeypatch.undo()
    assert standing(run) == {"step_200"}
    assert latest(run) == "step_200"


@pytest.mark.parametrize("how", [[], ["--delete"]], ids=["trash", "delete"])
def test_B79_two_prunings_at_once_end_as_one(tmp_path: Path, how: list[str]) -> None:
    run = make_run(tmp_path / "run", range(1, 51))

    both = [start("prune", run, "--keep-last", "5", "--yes", *how) for _ in range(2)]
    said = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert "Traceback" not in str(said)
    assert standing(run) == {f"step_{n}" for n in range(46, 51)}
    assert run_form(run)["trash"]["count"] == (0 if how else 45)


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that an ordinary user may reach and own, whoever runs the tests."""
    folder = Path(tempfile.mkdtemp(prefix="ckptui-case-"))
    folder.chmod(0o755)
    yield folder
    for path in folder.rglob("*"):
        if path.is_dir():
            path.chmod(0o755)
    shutil.rmtree(folder)


def test_B80_what_may_not_be_deleted_is_told_and_the_rest_goes(shared_folder: Path) -> None:
    run = make_run(shared_folder / "run", [100, 200, 300])
    kept = write(run / "step_100" / "sub", {"data.bin": bytes(5000)})
    if os.getuid() == 0:
        for path in [shared_folder, *shared_folder.rglob("*")]:
            os.chown(path, NOBODY, NOBODY)
    kept.chmod(0o555)
    size_200 = sum(p.stat().st_size for p in (run / "step_200").iterdir())
    size_100 = sum(p.stat().st_size for p in (run / "step_100").iterdir() if p.is_file())

    warm_up = make_run(shared_folder / "warm-up", [1, 2])
    rules = ["--keep-last", "1", "--delete", "--yes"]
    process = subprocess.Popen(
        [sys.executable, "-c", AS_ORDINARY_USER, warm_up, "prune", run, *rules],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1, out + err
    assert "Traceback" not in err
    assert "data.bin cannot be deleted: Permission denied" in err
    assert standing(run) == {"step_300"}
    assert f"freed {size(size_100 + size_200)}" in out
    assert len(list(run.glob(".ckptui/trash/*/step_100/sub/data.bin"))) == 1


def test_B82_space_that_does_not_come_back_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run", [1, 2])
    write(run / "step_1", {"extra.bin": bytes(2**20)})
    elsewhere = tmp_path / "linked.bin"
    elsewhere.hardlink_to(run / "step_1" / "model.safetensors")
    before = elsewhere.read_bytes()
    usage = shutil.disk_usage(run)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)

    answer = ckptui("prune", run, "--keep-last", "1", "--delete", "--yes")
    assert "deleted 1 checkpoint, freed 1" in answer.out
    assert "free space rose by 0 B" in answer.err
    # Nothing is cut to zero length to win the space: other links would lose their content.
    assert elsewhere.read_bytes() == before


def test_B83_what_lies_in_the_trash_is_only_told_as_space(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [100, 200])
    write(run / ".trash" / "step_999", {"model.safetensors": safetensors_bytes({"w": [1.0]})})
    ckptui("prune", run, "--keep-last", "1", "--yes")
    (thrown,) = run.glob(".ckptui/trash/*/step_100")
    assert (thrown / "checkpoint.json").exists()

    assert [c["name"] for c in listed(run)] == ["step_200"]
    assert [r["path"] for r in ckptui("ls", tmp_path, "--json").json()["runs"]] == [str(run)]
    assert latest(run) == "step_200"
    form = run_form(run)["trash"]
    assert form["count"] == 1
    assert form["size"] >= sum(p.stat().st_size for p in thrown.iterdir())
    assert "trash 1 item" in ckptui("ls", run).out
    (item,) = ckptui("trash", "list", "--run", run, "--json").json()["items"]
    assert (item["name"], item["why"]) == ("step_100", "prune")


def test_B84_what_vanishes_meanwhile_is_gone_as_wished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run", [100, 200, 300])
    unlink = os.unlink
    once: list[str] = []

    def vanished(path: str, *rest: Any, **more: Any) -> None:
        unlink(path, *rest, **more)
        if not once and os.fspath(path).endswith("model.safetensors"):
            once.append(path)
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    monkeypatch.setattr(os, "unlink", vanished)
    ckptui("prune", run, "--keep-last", "1", "--delete", "--yes")
    assert once
    assert standing(run) == {"step_300"}
    assert run_form(run)["trash"]["count"] == 0


def test_B84_verifying_what_is_removed_meanwhile_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run", [100, 200, 300])

    def late(checkpoint: Checkpoint, **how: Any) -> Report:
        if checkpoint.name == "step_200":
            ckptui("rm", "200", "--run", run, "--yes")
        return verify_checkpoint(checkpoint, **how)

    monkeypatch.setattr("ckptui.cli.verify.verify_checkpoint", late)
    answer = ckptui("verify", run, "--full")
    assert [line.split()[0] for line in answer.out.splitlines()] == ["verified", "verified"]
    assert "step_200 was removed meanwhile" in answer.err


def test_B85_a_hard_link_is_counted_and_promised_once(tmp_path: Path) -> None:
    mebibyte = 2**20
    run = make_run(tmp_path / "run", [100, 200])
    big = run / "step_100" / "model.safetensors"
    big.write_bytes(safetensors_bytes({"layer.weight": [0.0] * (mebibyte // 4)}))
    (run / "step_200" / "model.safetensors").unlink()
    (run / "step_200" / "model.safetensors").hardlink_to(big)
    seal(run / "step_100")
    seal(run / "step_200")

    assert mebibyte < run_form(run)["size"] < 1.1 * mebibyte
    form = ckptui("prune", run, "--keep-last", "1", "--dry-run", "--json").json()
    assert form["frees"] < 0.1 * mebibyte
    assert plan(run, "--keep-last", "1") == {"step_100": "remove", "step_200": "keep"}
    content = tree(run / "step_200")
    done = ckptui("prune", run, "--keep-last", "1", "--delete", "--yes", "--json").json()
    assert done["freed"] == form["frees"]
    assert tree(run / "step_200") == content
