"""What an attack on the whole product found: each fault stays mended."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ckptui import durable, pins, prune, remove
from ckptui.checkpoint import State
from ckptui.display.text import size
from ckptui.errors import FormatError, NotFoundError, NotResumableError, StorageError
from ckptui.metrics import MetricsWriter, read_metrics
from ckptui.resume_command import resume_command
from ckptui.retention import Action, KeepLast, PrunePlan, plan_prune
from ckptui.scan import scan_run
from ckptui.tensors import read_header
from tests.factory import make_run

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent.parent


def plan(run: Path) -> PrunePlan:
    return plan_prune(scan_run(run).checkpoints, [KeepLast(1)], now=datetime.now(UTC))


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_does_not_keep_anybody_from_making_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run", [1, 2, 3])
    monkeypatch.setattr(remove, "write_file", full)
    done = list(prune.execute(plan(run), delete=True))
    assert [(r.done, r.error) for r in done] == [(True, None), (True, None)]
    assert all(r.freed > 0 for r in done)
    assert [c.name for c in scan_run(run).checkpoints] == ["step_3"]
    assert not remove.list_trash(run)


def test_where_not_even_a_folder_fits_it_is_deleted_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run", [1, 2, 3])
    monkeypatch.setattr(remove, "tool_dir", full)
    assert all(r.done and r.freed for r in prune.execute(plan(run), delete=True))
    assert [c.name for c in scan_run(run).checkpoints] == ["step_3"]


def test_what_goes_to_the_trash_of_a_full_disk_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run", [1, 2])
    monkeypatch.setattr(remove, "write_file", full)
    (done,) = prune.execute(plan(run))
    assert done.done
    (item,) = remove.list_trash(run)
    assert (item.name, item.step) == ("step_1", 1)
    remove.restore(item)
    assert [c.name for c in scan_run(run).checkpoints] == ["step_1", "step_2"]


def test_the_metric_log_is_not_written_through_a_link(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1])
    outside = tmp_path / "outside.log"
    outside.write_text("mine\n")
    (run / "metrics.jsonl").unlink()
    (run / "metrics.jsonl").symlink_to(outside)
    with pytest.raises(StorageError):
        MetricsWriter(run, 1)
    assert outside.read_text() == "mine\n"


def test_a_metric_log_that_never_ends_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1])
    (run / "metrics.jsonl").unlink()
    (run / "metrics.jsonl").symlink_to("/dev/zero")
    (problem,) = read_metrics(run, ()).problems
    assert "not a regular file" in problem.what


def test_a_pin_that_another_has_made_is_never_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run", [1, 2])
    (first, _) = scan_run(run).checkpoints
    create: Callable[..., None] = durable.create_file
    away = tmp_path / "away"

    def late(path: Path, content: bytes) -> None:
        # Between our look and our pin another one pins, and a remover has it in hand.
        path.write_bytes(b'{"note": "of another"}')
        first.path.rename(away)
        create(path, content)

    monkeypatch.setattr(pins, "create_file", late)
    with pytest.raises(NotFoundError):
        pins.pin(first)
    # The remover looks now, sees a pin, and renames back.
    assert pins.is_pinned(run, "step_1")


def test_pins_that_cannot_be_read_protect_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run", [1, 2, 3])
    scandir: Callable[..., object] = os.scandir

    def refuse(path: object = ".") -> object:
        if str(path).endswith("/pins"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    found = scan_run(run)
    assert any("counts as pinned" in p.what for p in found.problems)
    assert {row.action for row in plan(run).rows} == {Action.KEEP}


def test_sizes_that_no_file_can_have_are_no_marker(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1])
    marker = run / "step_1" / "checkpoint.json"
    marker.write_text(marker.read_text().replace('"size": 132', '"size": 1' + "0" * 4000))
    (found,) = scan_run(run).checkpoints
    assert found.state is State.PARTIAL
    assert size(10**30)


def test_settings_that_python_refuses_to_read_are_no_traceback(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1])
    (run / "config.yaml").write_text("seed: " + "9" * 5000 + "\n")
    found = scan_run(run)
    with contextlib.suppress(NotResumableError):
        assert resume_command(found, found.checkpoints[0]).shell


def test_a_pipe_in_place_of_weights_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    os.mkfifo(path)
    writer = os.open(path, os.O_RDWR)
    try:
        with pytest.raises(FormatError, match="not a regular file"):
            read_header(path)
    finally:
        os.close(writer)


@pytest.mark.torch
def test_the_recipe_shows_a_hostile_path_and_does_not_obey_it(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    config = tmp_path / "config.yaml"
    config.write_text("model: nowhere\ndataset: nowhere.jsonl\noutput_dir: out\n")
    name = os.fsencode(tmp_path) + b"/r\x1b[31m\n\xff"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "recipe_integration.full_finetune_single_device",
            "--config",
            str(config),
            b"model=" + name,
        ],
        capture_output=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])},
    )
    assert done.returncode in (1, 2)
    assert b"\x1b" not in done.stderr
    assert b"\\x1b[31m\\n\\xff" in done.stderr
    assert done.stderr.count(b"\n") == 1
