"""Real tiny native runs, written with the standard library alone."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import xxhash

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

RUN_ID = "0123456789abcdef0123456789abcdef"


def safetensors_bytes(tensors: Mapping[str, Sequence[float]]) -> bytes:
    """A safetensors file of 1-d float32 tensors."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name in sorted(tensors):
        raw = struct.pack(f"<{len(tensors[name])}f", *tensors[name])
        offsets = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": "F32", "shape": [len(tensors[name])], "data_offsets": offsets}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def digest(data: bytes) -> str:
    return "xxh3_128:" + xxhash.xxh3_128_hexdigest(data)


def make_checkpoint(
    run: Path,
    name: str,
    *,
    step: int | None,
    epoch: int | None = 0,
    attempt: int = 1,
    run_id: str = RUN_ID,
    metrics: Mapping[str, float | None] | None = None,
    created: str | None = None,
    resumable: bool = True,
    weights: Sequence[float] | None = None,
    nonfinite: Iterable[str] = (),
    parent: Mapping[str, object] | None = None,
    extra_files: Mapping[str, bytes] | None = None,
    marker: bool = True,
) -> Path:
    """A complete checkpoint folder; `marker=False` leaves it as a crash would without a rename."""
    folder = run / name
    folder.mkdir(parents=True)
    values = weights if weights is not None else [float(step or 0), 1.0, 2.0]
    files: dict[str, bytes] = {
        "config.json": b'{"model_type": "tiny"}\n',
        "model.safetensors": safetensors_bytes({"layer.weight": values}),
        "recipe_config.yaml": b"seed: 0\n",
    }
    if resumable:
        state = {"format": 1, "steps_run": step, "epochs_run": 0, "seed": 0}
        files["recipe_state.json"] = json.dumps(state).encode()
        files["recipe_state.safetensors"] = safetensors_bytes({"optimizer.exp_avg": [0.5, 0.25]})
    files.update(extra_files or {})
    entries = []
    for file_name, data in sorted(files.items()):
        path = folder / file_name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        entries.append({"name": file_name, "size": len(data), "digest": digest(data)})
    if marker:
        number = step or 0
        record: dict[str, object] = {
            "format": 1,
            "run_id": run_id,
            "attempt": attempt,
            "parent": parent,
            "step": step,
            "epoch": epoch,
            "created": created
            or f"2026-01-{1 + number // 86400 % 28:02d}T{number // 3600 % 24:02d}:"
            f"{number // 60 % 60:02d}:{number % 60:02d}.000000Z",
            "save_seconds": 0.1,
            "contains": ["weights"]
            + (["optimizer", "scheduler", "rng", "data"] if resumable else []),
            "resumable": resumable,
            "metrics": dict(metrics or {}),
            "nonfinite": list(nonfinite),
            "files": entries,
        }
        if step is None:
            del record["step"]
        (folder / "checkpoint.json").write_text(json.dumps(record))
    return folder


def make_run(
    path: Path,
    steps: Iterable[int] = (),
    *,
    metrics: Mapping[int, Mapping[str, float | None]] | None = None,
    policy: Sequence[str] | None = None,
    run_id: str = RUN_ID,
    attempts: Sequence[Mapping[str, object]] | None = None,
    recipe: str | None = "recipe_integration.full_finetune_single_device",
    rows: Iterable[Mapping[str, object]] = (),
    **checkpoint: Any,
) -> Path:
    """A native run with one complete checkpoint a step.

    `metrics` maps a step to what its checkpoint carries, `rows` are written to `metrics.jsonl`,
    and further keywords go to every `make_checkpoint`.
    """
    path.mkdir(parents=True, exist_ok=True)
    first = {"attempt": 1, "parent": None, "start_step": 0, "started": "2026-01-01T00:00:00Z"}
    record = {
        "format": 1,
        "run_id": run_id,
        "created": "2026-01-01T00:00:00.000000Z",
        "recipe": recipe,
        "command": None,
        "argv": [],
        "cwd": "/",
        "python": "3.11",
        "policy": list(policy) if policy is not None else None,
        "attempts": list(attempts) if attempts is not None else [first],
        "loggers": {},
    }
    (path / "run.json").write_text(json.dumps(record))
    (path / "config.yaml").write_text("seed: 0\n")
    with (path / "metrics.jsonl").open("w") as f:
        f.writelines(json.dumps(row) + "\n" for row in rows)
    for step in steps:
        make_checkpoint(
            path,
            f"step_{step}",
            step=step,
            run_id=run_id,
            metrics=(metrics or {}).get(step),
            **checkpoint,
        )
    return path
