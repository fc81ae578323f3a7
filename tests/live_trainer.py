"""A process that owns a run as a trainer does: the real lock, an inbox, and real saves.

It makes a step every few milliseconds and looks for requests as a training loop would.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

from ckptui import lock, requests
from ckptui.save import Draft, save_checkpoint
from tests.cli.harness import HERE, environment
from tests.factory import RUN_ID, safetensors_bytes

HOLDS, SAVES, FAILS, DEAF, LATE = "holds", "saves", "fails", "deaf", "late"
"""What it does with a request: takes it and keeps it, saves, says why not, never looks, or looks
for the first time once two are there."""
FIRST_STEP = 2000


class LiveTrainer:
    """Starts the process and ends it; `pid` is its number."""

    def __init__(self, run: Path, mode: str = SAVES) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.live_trainer", str(run), mode],
            cwd=HERE,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid
        self.expect("ready")

    def __enter__(self) -> LiveTrainer:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def expect(self, word: str) -> None:
        """Wait for a line of it."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line == f"{word}\n", line

    def finish(self) -> None:
        """Let it end by itself, as at the last step."""
        self._process.communicate()
        assert self._process.returncode == 0

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._process.kill()
        self._process.communicate()


def main() -> None:
    run, mode = Path(sys.argv[1]), sys.argv[2]
    lock.BEAT_SECONDS = 0.05
    requests.LOOK_SECONDS = 0.02
    over = threading.Event()
    threading.Thread(target=_wait_for_the_end, args=[over], daemon=True).start()
    step = FIRST_STEP
    with lock.acquire(run, report=lambda _: None) as held:
        inbox = requests.Inbox(run)
        started = mode not in (DEAF, LATE)
        if started:
            inbox.start()
        held.show(step=step)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while not over.is_set():
            time.sleep(0.005)
            step += 1
            held.show(step=step)
            if mode == LATE and not started and _asked(run) >= 2:
                started = True
                inbox.start()
            if inbox.waiting:
                asked = inbox.take()
                if mode == FAILS:
                    inbox.answer(asked, error="The disk is full.")
                elif mode in (SAVES, LATE):
                    inbox.answer(asked, checkpoint=_save(run, held, step))
                sys.stdout.write("taken\n" * len(asked))
                sys.stdout.flush()
        inbox.stop()


def _wait_for_the_end(over: threading.Event) -> None:
    sys.stdin.read()
    over.set()


def _asked(run: Path) -> int:
    folder = run / ".ckptui" / "requests"
    return len(list(folder.glob("[0-9a-f]*.json"))) if folder.exists() else 0


def _save(run: Path, held: lock.RunLock, step: int) -> str:
    name = f"step_{step}"

    def write(folder: Path) -> None:
        time.sleep(0.1)
        weights = safetensors_bytes({"layer.weight": [float(step)]})
        (folder / "model.safetensors").write_bytes(weights)

    draft = Draft(
        name=name,
        step=step,
        epoch=0,
        run_id=RUN_ID,
        attempt=1,
        contains=("weights",),
        resumable=False,
    )
    held.show(step=step, saving=name)
    saved = save_checkpoint(run, draft, write, lock=held)
    held.show(step=step, saving=None)
    return saved.name


if __name__ == "__main__":
    main()
