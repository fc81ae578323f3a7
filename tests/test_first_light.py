"""The whole job on real training through the command line: train, list, pin, prune, resume."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent.parent
HARSH = "a b'c\"[x]$(touch HACKED);echo"

pytestmark = [pytest.mark.torch, pytest.mark.slow]


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}


def ckptui(*words: str | Path, cwd: Path | None = None, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "ckptui", *map(str, words)],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == code, (words, done.stdout, done.stderr)
    return done.stdout


def as_json(*words: str | Path) -> Any:
    return json.loads(ckptui(*words, "--json"))


def digests(folder: Path) -> dict[str, str]:
    return {
        str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


def losses(run: Path) -> dict[int, tuple[Any, Any]]:
    rows = as_json("metrics", run)["rows"]
    return {r["step"]: (r["metrics"]["loss"], r["metrics"]["lr"]) for r in rows}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    root = tmp_path_factory.mktemp("first-light")
    printed = ckptui("demo", "--no-browse", "--output", root, cwd=root)
    assert printed == f"{root}/demo\n"
    return root


def names(run: Path) -> list[str]:
    return [c["name"] for c in as_json("ls", run)["runs"][0]["checkpoints"]]


def test_the_demo_leaves_checkpoints_with_steps_and_metrics(demo: Path) -> None:
    (run,) = as_json("ls", demo)["runs"]
    checkpoints = run["checkpoints"]
    assert len(checkpoints) >= 6
    assert [c["step"] for c in checkpoints] == sorted(c["step"] for c in checkpoints)
    assert all(c["state"] == "ok" and c["metrics"]["eval_loss"] > 0 for c in checkpoints)
    assert checkpoints[-1]["metrics"]["eval_loss"] < checkpoints[0]["metrics"]["eval_loss"]
    assert any(c["pinned"] for c in checkpoints)
    curve = losses(demo / "demo")
    assert curve[max(curve)][0] < curve[1][0] / 2
    done = {e["what"] for e in as_json("log", demo / "demo")["events"]}
    assert {"start", "save", "pin", "prune"} <= done
    assert {r["status"] for r in as_json("verify", demo, "--full")["checkpoints"]} == {"verified"}


def test_prune_leaves_the_pinned_and_the_newest_and_can_be_undone(
    demo: Path, tmp_path: Path
) -> None:
    run = tmp_path / "demo"
    shutil.copytree(demo / "demo", run)
    before = names(run)
    extra = next(n for n in before[:-1] if n != "step_50")
    ckptui("pin", extra, "--run", run)
    pinned = {c["name"] for c in as_json("ls", run)["runs"][0]["checkpoints"] if c["pinned"]}
    planned = as_json("prune", run, "--keep-last", "1", "--dry-run")
    content = {n: digests(run / n) for n in before}
    done = as_json("prune", run, "--keep-last", "1", "--yes")
    assert done["plan"] == planned["plan"]
    assert done["executed"]
    assert set(names(run)) == pinned | {before[-1]}
    gone = [n for n in before if n not in names(run)]
    assert gone
    ckptui("trash", "restore", gone[0], "--run", run)
    assert digests(run / gone[0]) == content[gone[0]]
    ckptui("trash", "empty", "--yes", "--run", run)
    size = sum((run / gone[0] / name).stat().st_size for name in content[gone[0]])
    again = as_json("prune", run, "--keep-last", "1", "--yes", "--delete")
    assert again["freed"] == again["frees"] == size
    assert not list((run / ".ckptui" / "trash").iterdir())


def test_the_printed_line_continues_exactly_from_a_harsh_path(demo: Path, tmp_path: Path) -> None:
    run = tmp_path / HARSH / "run"
    shutil.copytree(demo / "demo", run)
    empty = tmp_path / "empty"
    empty.mkdir()
    line = ckptui("resume-cmd", "step_200", "--run", run, cwd=empty)
    for _ in range(2):
        done = subprocess.run(
            ["sh", "-c", line], cwd=empty, env=environment(), capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        fork = run.with_name("run-from-step_200")
        original, continued = losses(run), losses(fork)
        assert min(continued) == 201
        assert continued == {step: original[step] for step in continued}
        assert max(continued) == max(original)
    assert not list(empty.iterdir())
    weights = [(r / "step_300" / "model.safetensors").read_bytes() for r in (run, fork)]
    assert weights[0] == weights[1]
    # The newest one is where the run ended: its line finds nothing to do and changes nothing.
    state = digests(run)
    line = ckptui("resume-cmd", "latest", "--run", run, cwd=empty)
    done = subprocess.run(
        ["sh", "-c", line], cwd=empty, env=environment(), capture_output=True, text=True
    )
    assert done.returncode == 0
    assert digests(run) == state


def test_every_checkpoint_loads_and_evaluate_repeats_its_loss(demo: Path) -> None:
    from transformers import AutoModelForCausalLM

    for row in as_json("ls", demo)["runs"][0]["checkpoints"]:
        model = AutoModelForCausalLM.from_pretrained(row["path"])
        assert sum(p.numel() for p in model.parameters()) > 10_000
    newest = row["path"]
    done = subprocess.run(
        [sys.executable, "-m", "recipe_integration.evaluate", newest],
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    measured = float(done.stdout.split()[1])
    assert measured == pytest.approx(row["metrics"]["eval_loss"], rel=1e-5)
