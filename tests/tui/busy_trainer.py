"""A process that trains as far as a browser can tell: logs steps, saves, and prunes as it goes.

`python -m tests.tui.busy_trainer RUN` owns the run's lock, logs ten rows a second and saves every
second; of its checkpoints the last three stay. It ends when its stdin does. No torch is needed.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

from ckptui import lock
from ckptui.metrics import MetricsWriter
from ckptui.prune import execute
from ckptui.retention import plan_prune
from ckptui.rules import parse_rule
from ckptui.save import Draft, save_checkpoint
from ckptui.scan import scan_run
from tests.factory import RUN_ID, safetensors_bytes

EVERY = 10
"""Steps between two saves."""


def main() -> None:
    run = Path(sys.argv[1])
    over = threading.Event()
    threading.Thread(target=_wait_for_the_end, args=[over], daemon=True).start()
    with lock.acquire(run, report=lambda _: None) as held:
        log = MetricsWriter(run, 1)
        step = 0
        while not over.wait(0.1):
            step += 1
            held.show(step=step)
            log.write(step, 0, {"loss": 1 + math.exp(-step / 500), "lr": 1e-4})
            if step % EVERY == 0:
                _save(run, held, step)
                _prune(run)


def _wait_for_the_end(over: threading.Event) -> None:
    sys.stdin.read()
    over.set()


def _save(run: Path, held: lock.RunLock, step: int) -> None:
    def write(folder: Path) -> None:
        time.sleep(0.05)
        (folder / "model.safetensors").write_bytes(safetensors_bytes({"w": [float(step)] * 100}))

    draft = Draft(
        name=f"step_{step}",
        step=step,
        epoch=0,
        run_id=RUN_ID,
        attempt=1,
        contains=("weights",),
        resumable=False,
        metrics={"eval_loss": 2 + math.exp(-step / 500)},
    )
    held.show(step=step, saving=draft.name)
    save_checkpoint(run, draft, write, lock=held)
    held.show(step=step, saving=None)


def _prune(run: Path) -> None:
    found = scan_run(run)
    plan = plan_prune(found.checkpoints, [parse_rule("keep-last 3")], now=datetime.now(UTC))
    for _ in execute(plan, delete=True):
        pass


if __name__ == "__main__":
    main()
