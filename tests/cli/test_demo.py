"""`demo`: what it needs, what it prints, how it stops."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from ckptui.scan import scan_run
from tests.cli.harness import COMMAND, Terminal, environment, process

if TYPE_CHECKING:
    from pathlib import Path


def test_without_the_recipe_it_says_what_to_install(tmp_path: Path) -> None:
    names = ("torch", "transformers", "tokenizers", "numpy")
    hidden = f"import sys; sys.modules.update(dict.fromkeys({names}))"
    code = f"{hidden}; from ckptui.cli import main; main(['demo'])"
    done = subprocess.run(
        [*COMMAND[:1], "-c", code],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == b""
    assert done.stderr.decode().splitlines() == [
        f"ckptui: The demo trains for real and needs {', '.join(names)}: "
        "pip install 'ckptui[recipe]'."
    ]
    assert list(tmp_path.iterdir()) == [tmp_path / "away"]


@pytest.mark.torch
def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    (tmp_path / "file").write_text("")
    done = process("demo", "--output", tmp_path / "file", "--no-browse")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"cannot be written" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.torch
def test_ctrl_c_stops_after_a_save(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    terminal = Terminal("demo", "--output", tmp_path / "-o", "--no-browse")
    terminal.wait_for("Training ")
    run = tmp_path / "-o" / "demo"
    end = time.monotonic() + 60
    while not (run / "metrics.jsonl").exists() and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.5)
    terminal.type("\x03")
    assert terminal.end() == 130, terminal.text
    assert "Traceback" not in terminal.text
    found = scan_run(run)
    assert found.live is False
    assert found.owner is None
    assert [c.resumable for c in found.checkpoints]
    assert all(c.resumable for c in found.checkpoints)
