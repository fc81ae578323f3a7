"""Loading a state costs the memory that stays, and not a second copy of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

ROOT = Path(__file__).parent.parent

SCRIPT = """
import sys, threading
import torch
import ckptui

def anonymous():
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("RssAnon")) * 1024

torch.set_num_threads(1)
model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024, bias=False) for _ in range(16)))
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
weights = sum(p.numel() * 4 for p in model.parameters())
with ckptui.TrainingRun(sys.argv[1]) as run:
    run.register(model=model, optimizer=optimizer)
    over, peak = threading.Event(), anonymous()
    def watch():
        global peak
        while not over.wait(0.001):
            peak = max(peak, anonymous())
    if sys.argv[2] == "save":
        run.resume()
        sum(p.sum() for p in model.parameters()).backward()
        optimizer.step()
        run.save(1)
    else:
        before = anonymous()
        watcher = threading.Thread(target=watch)
        watcher.start()
        assert run.resume() == 1
        over.set()
        watcher.join()
        # The moments, which there were not before, are twice the weights.
        print((peak - before - 2 * weights) / (3 * weights))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory in use from /proc")
def test_loading_takes_no_second_copy_of_the_state(tmp_path: Path) -> None:
    above = ""
    for what in ("save", "load"):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(tmp_path / "r"), what],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        above = done.stdout
    assert float(above) < 0.2, f"{above} states more than what stays"
