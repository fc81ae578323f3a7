"""Runs that look the same on every machine: fixed names, sizes, times and paths.

`World` is a home with `outputs` in it, in a folder whose name differs only in eight digits.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ckptui import schema
from tests.factory import RUN_ID, make_checkpoint, make_run

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

OTHER_ID = "fedcba9876543210fedcba9876543210"


TB = 10**12
DISK = shutil._ntuple_diskusage(10 * TB, 4 * TB, 6 * TB)


class World:
    """A home folder to browse in; the working folder, and `~`."""

    def __init__(self, base: Path) -> None:
        self.hidden = base.name.rpartition("-")[2]
        """What differs in its path from world to world."""
        self.home = base / "home"
        self.home.mkdir()
        self.outputs = self.home / "outputs"

    def rich(self, name: str = "my-run", *, live: bool = False) -> Path:
        """A run with a checkpoint of every kind."""
        run = make_run(
            self.outputs / name,
            range(36500, 42500, 500),
            metrics={s: _metrics(s) for s in range(36500, 42500, 500)},
            policy=["keep-last 3", "keep-best 1:eval_loss:min", "keep-every 2000"],
            rows=[
                {"step": s, "epoch": s // 20000, "attempt": 1, **_metrics(s)}
                for s in range(100, 42100, 100)
            ],
        )
        (run / "step_38000/model.safetensors").write_bytes(b"short")
        (run / "step_37000/checkpoint.json").unlink()
        shutil.rmtree(run / "step_39000")
        make_checkpoint(
            run, "step_39000", step=39000, resumable=False, metrics=_metrics(39000), epoch=1
        )
        shutil.rmtree(run / "step_37500")
        make_checkpoint(
            run,
            "step_37500",
            step=37500,
            metrics={"eval_loss": None, "loss": 9.71},
            nonfinite=["layer.weight"],
            epoch=1,
        )
        shutil.rmtree(run / "step_41000")
        parent = {"run_id": RUN_ID, "step": 40500, "attempt": 1, "name": "step_40500"}
        make_checkpoint(
            run,
            "step_41000",
            step=41000,
            metrics=_metrics(41000),
            epoch=1,
            parent=parent,
            extra_files={"recipe_config.yaml": b"seed: 0\noptimizer:\n  lr: 1.0e-05\n"},
        )
        self.pin(run, "step_38500", "before the LR drop")
        if live:
            self.lock(run, step=42500, saving="step_42500")
            staged = run / schema.TOOL_DIR / schema.STAGING / "step_42500-0123456789abcdef"
            staged.mkdir(parents=True)
            (staged / "model.safetensors").write_bytes(b"\0" * 3000)
        return run

    def pin(self, run: Path, name: str, note: str | None = None) -> None:
        """Pin a checkpoint, as somebody did on New Year's Day."""
        marker = json.loads((run / name / "checkpoint.json").read_text())
        pins = run / schema.TOOL_DIR / "pins"
        pins.mkdir(parents=True, exist_ok=True)
        row = {key: marker[key] for key in ("run_id", "step", "created")}
        row |= {"who": "ada", "host": "node-1", "when": "2026-01-01T09:00:00Z", "note": note}
        (pins / f"{name}.json").write_text(json.dumps(row))

    def lock(self, run: Path, **fields: object) -> None:
        """Let this process own a run, as a trainer does."""
        boot = Path("/proc/sys/kernel/random/boot_id")
        row = {
            "token": "0123456789abcdef",
            "host": os.uname().nodename,
            "boot_id": boot.read_text().strip() if boot.exists() else None,
            "pid": os.getpid(),
            "start_time": None,
            "counter": 7,
            "saving": None,
        }
        (run / schema.TOOL_DIR).mkdir(exist_ok=True)
        (run / schema.TOOL_DIR / schema.LOCK).write_text(json.dumps(row | fields))

    def trashed(self, run: Path) -> None:
        """Two checkpoints in the trash of a run, and the journal that tells of it."""
        home = run / schema.TOOL_DIR / schema.TRASH
        for step, why in ((35500, "prune"), (36000, "rm")):
            make_checkpoint(
                home / f"20260101T0930{step // 500:02d}-c0ffee", f"step_{step}", step=step
            )
            item = next(home.glob(f"*/step_{step}")).parent
            row = {"name": f"step_{step}", "step": step, "home": f"step_{step}"}
            entry = {"when": "2026-01-01T09:30:00Z", "why": why, "checkpoints": [row]}
            (item / schema.TRASH_ENTRY).write_text(json.dumps(entry))
        deeds: list[dict[str, Any]] = [
            {"what": "pin", "checkpoints": ["step_38500"], "reason": "before the LR drop"},
            {"what": "prune", "checkpoints": ["step_35500"], "reason": "no rule keeps it"},
            {"what": "restore", "checkpoints": ["step_36000"], "reason": None},
            {"what": "rm", "checkpoints": ["step_36000"], "reason": "named"},
        ]
        lines = [
            {"time": f"2026-01-01T09:{30 + at}:00Z", "who": "ada", "host": "node-1"} | deed
            for at, deed in enumerate(deeds)
        ]
        (run / schema.TOOL_DIR / schema.JOURNAL).write_text(
            "".join(json.dumps(line) + "\n" for line in lines)
        )

    def several(self) -> Path:
        """A root with runs of every kind."""
        self.rich()
        make_run(
            self.outputs / "lora-r16", range(100, 1300, 100), metrics=_all(range(100, 1300, 100))
        )
        make_run(self.outputs / "sweep" / "lr1e-5", range(10, 60, 10))
        broken = make_run(self.outputs / "ablate-2", [10, 20, 30])
        (broken / "step_30/checkpoint.json").unlink()
        make_run(self.outputs / "fresh", [])
        return self.outputs

    def two_ids(self) -> Path:
        """Two runs in one folder."""
        run = make_run(self.outputs / "mixed", [100, 200, 300], metrics=_all([100, 200, 300]))
        for step in (250, 350):
            make_checkpoint(run, f"step_{step}", step=step, run_id=OTHER_ID, metrics=_metrics(step))
        return run


def _metrics(step: int) -> dict[str, float | None]:
    dip = 0.01 if step == 41000 else 0.0
    fall = math.exp(-step / 9000)
    return {
        "eval_loss": round(1.9 + 0.7 * fall - dip, 4),
        "loss": round(1.6 + 0.8 * fall + 0.03 * math.sin(step), 4),
    }


def _all(steps: range | list[int]) -> dict[int, dict[str, float | None]]:
    return {step: _metrics(step) for step in steps}


@contextmanager
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A new world, with the working folder in its home and nothing of the machine showing."""
    # Digits alone: what is left of them behind an ellipsis cannot be taken for a word.
    base = Path(f"/tmp/ckptui-{secrets.randbelow(10**8):08}")
    base.mkdir(mode=0o700)
    made = World(base)
    monkeypatch.chdir(made.home)
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.setattr("shutil.disk_usage", lambda _: DISK)
    monkeypatch.setattr("ckptui.resume_command._interpreter", lambda: "python")
    for name in ("TMUX", "NO_COLOR", "CKPTUI_ASCII", "TEXTUAL_THEME"):
        monkeypatch.delenv(name, raising=False)
    try:
        yield made
    finally:
        monkeypatch.undo()
        shutil.rmtree(base)
