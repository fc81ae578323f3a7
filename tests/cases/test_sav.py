"""What a save leaves: one complete checkpoint of its step, whatever happens around it.

B96, B99 and B100 are in `tests/test_save.py`, B98 in `tests/test_pins.py`.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cases.harness import ckptui, latest, listed, standing, tree, verified
from tests.factory import make_checkpoint, make_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.recipe.harness import At, Outcome, Trainee, Trainer

    Uninterrupted = Callable[..., tuple[Path, Outcome]]
    Kill = Callable[[str, int], At]
    Stop = Callable[[int], At]

pytestmark = pytest.mark.torch
ROOT = Path(__file__).parents[2]


def lines(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def saves(run: Path) -> Counter[str]:
    """How often each checkpoint was saved, as the journal tells it."""
    events = ckptui("log", run, "--json").json()["events"]
    return Counter(name for e in events if e["what"] == "save" for name in e["checkpoints"])


def starts(run: Path) -> list[int]:
    """The step that each attempt began with."""
    record = json.loads((run / "run.json").read_text())
    return [a["start_step"] for a in record["attempts"]]


def content(folder: Path) -> dict[str, bytes]:
    """What a checkpoint holds of weights and tensors of the recipe state."""
    return {p.name: p.read_bytes() for p in sorted(folder.glob("*.safetensors"))}


def wait_for(condition: Callable[[], bool], trainee: Trainee) -> None:
    """Wait for something a training does; that it ends before is a failure."""
    end = time.monotonic() + 120
    while not condition():
        assert trainee.process.exitcode is None, (trainee.folder / "stderr").read_text()
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.001)


def stop(trainee: Trainee) -> float:
    """Ask the whole process group to stop, as a scheduler does; seconds until it has."""
    group = trainee.process.pid or 0
    begun = time.monotonic()
    os.killpg(group, signal.SIGTERM)
    outcome = trainee.wait()
    took = time.monotonic() - begun
    assert outcome.code == 75, outcome.stderr
    assert "SIGTERM" in outcome.message()
    while True:  # no loader worker stays behind, nor goes on writing
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return took
        assert time.monotonic() < begun + 60, "a worker is left"
        time.sleep(0.01)


def assert_current_step_is_saved_once(run: Path) -> int:
    """Hold that the newest checkpoint is of the last step that was trained; that step."""
    found = listed(run)
    assert [c["state"] for c in found] == ["ok"] * len(found)
    step: int = max(row["step"] for row in lines(run))
    assert found[-1]["step"] == step
    assert standing(run) == {c["name"] for c in found}
    assert saves(run) == Counter(dict.fromkeys(standing(run), 1))
    assert not list((run / ".ckptui" / "staging").iterdir())
    return step


WRITES = """
import json, os, sys
done = []
CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
def hook(event, args):
    if event == "open" and isinstance(args[2], int) and args[2] & CHANGES:
        done.append(["write", os.fspath(args[0]), ""] if not isinstance(args[0], int) else None)
    elif event in ("os.rename", "os.link"):
        done.append([event, os.fspath(args[0]), os.fspath(args[1])])
    elif event == "os.mkdir":
        done.append([event, os.fspath(args[0]), ""])
import torch
from ckptui import TrainingRun
from recipe_integration.full_finetune_single_device import main
from recipe_integration.model import load_model
run, recipe, *arguments = sys.argv[1:]
sys.addaudithook(hook)
model = torch.nn.Linear(2, 1)
with TrainingRun(run) as training:
    training.register(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    training.resume()
    training.save(1)
code = main([*arguments, "output_dir=" + recipe])
print(json.dumps([code, [d for d in done if d is not None]]))
"""


@pytest.fixture
def other_mount(tmp_path: Path) -> Iterator[Path]:
    shared = Path("/dev/shm")
    if not shared.is_dir() or shared.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs a second file system at /dev/shm")
    folder = Path(tempfile.mkdtemp(dir=shared))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("kind", ["another mount", "absent", "not writable"])
def test_B95_staging_is_beside_its_target_whatever_the_temporary_folder_is(
    tmp_path: Path, settings: dict[str, Any], request: pytest.FixtureRequest, kind: str
) -> None:
    from tests.recipe.harness import word

    if kind == "another mount":
        temporary: Path = request.getfixturevalue("other_mount")
    else:
        temporary = tmp_path / "absent" if kind == "absent" else Path("/proc")
    run, recipe = tmp_path / "run", tmp_path / "recipe"
    arguments = [f"{k}={word(v)}" for k, v in {**settings, "epochs": 1}.items()]
    done = subprocess.run(
        [sys.executable, "-c", WRITES, str(run), str(recipe), *arguments],
        env={**os.environ, "TMPDIR": str(temporary), "OMP_NUM_THREADS": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    code, events = json.loads(done.stdout.splitlines()[-1])
    assert code == 0, done.stderr
    assert standing(run) == {"step_1"}
    assert standing(recipe) == {"step_2", "step_4"}
    for folder in (run, recipe):
        assert {r["status"] for r in verified(folder).values()} == {"verified"}
    published = [(a, b) for what, a, b in events if what == "os.rename" and "step_" in Path(b).name]
    assert [Path(b).name for _, b in published] == ["step_1", "step_2", "step_4"]
    for source, target in published:
        assert Path(source).parent == Path(target).parent / ".ckptui" / "staging"
    # Nothing of either training was written anywhere else; torch alone has a cache of its own.
    touched = {p for event in events for p in event[1:] if p and not p.startswith("/dev/")}
    elsewhere = {p for p in touched if not p.startswith((f"{run}/", f"{recipe}/"))}
    assert not {p for p in elsewhere - {f"{run}", f"{recipe}"} if "torchinductor" not in p}
    if kind == "another mount":
        assert not [p for p in temporary.rglob("*") if "torchinductor" not in str(p)]


def test_B97_a_fresh_training_does_not_begin_where_a_higher_step_stands(
    tmp_path: Path, trainer: Trainer
) -> None:
    run = make_run(tmp_path / "run", [500])
    before = tree(run)
    fresh = trainer.run(output_dir=run, max_steps=100, epochs=..., save_every_n_steps=100)
    assert fresh.code == 1
    assert "already holds a run" in fresh.message()
    assert tree(run) == before
    assert latest(run) == "step_500"


def test_B97_a_lower_step_is_not_saved_below_a_newer_one(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from ckptui import TrainingRun
    from ckptui.errors import RefusedError, RunExistsError, UsageError

    where = tmp_path / "run"

    def start(**how: Any) -> TrainingRun:
        model = torch.nn.Linear(2, 1)
        run = TrainingRun(where, policy=["keep-last 1"], report=lambda _: None, **how)
        run.register(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
        return run

    with start(resume=None) as run:
        run.resume()
        run.save(500)
    before = tree(where / "step_500")
    with pytest.raises(RunExistsError), start(resume=None):
        pass
    with start() as run:
        assert run.resume() == 500
        with pytest.raises(UsageError, match="lies before step 500"):
            run.save(100)
    assert tree(where / "step_500") == before
    # An older one that is left from somewhere does not become the newest, and is no way back.
    make_checkpoint(where, "step_100", step=100, run_id=listed(where)[0]["run_id"])
    with pytest.raises(RefusedError, match="rewind="), start(resume=where / "step_100"):
        pass
    assert latest(where) == "step_500"
    assert tree(where / "step_500") == before


def test_B97_a_rewind_keeps_what_it_abandons_restorable(
    tmp_path: Path, trainer: Trainer, stop_at: Stop
) -> None:
    run = tmp_path / "run"
    assert trainer.run(output_dir=run).code == 0
    kept = {name: content(run / name) for name in ("step_10", "step_12")}
    back = trainer.run(
        output_dir=run, resume_from=run / "step_8", rewind=2, at=stop_at(9), num_workers=0
    )
    assert back.code == 75, back.message()
    assert standing(run) == {"step_2", "step_4", "step_6", "step_8", "step_9"}
    items = ckptui("trash", "list", "--run", run, "--json").json()["items"]
    assert [i["why"] for i in items] == ["rewind"]
    ckptui("trash", "restore", items[0]["id"], "--run", run)
    assert {name: content(run / name) for name in kept} == kept


@pytest.fixture(scope="module")
def slow_to_evaluate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """So many texts to evaluate on that a signal surely comes before the last."""
    from recipe_integration import demo

    path = tmp_path_factory.mktemp("evaluation") / "eval.jsonl"
    texts = demo.write_texts(60) * 40
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


@pytest.fixture(scope="module")
def slow_to_save(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose save takes long enough to be met while it is written."""
    from recipe_integration import demo

    folder = tmp_path_factory.mktemp("model") / "base"
    demo.write_base(folder, demo.write_texts(60), hidden=192, layers=4, seed=3, dropout=0.1)
    return folder


def test_B101_a_stop_while_evaluating_saves_the_step_and_does_not_wait_for_the_evaluation(
    tmp_path: Path, trainer: Trainer, slow_to_evaluate: Path
) -> None:
    run = tmp_path / "run"
    how: dict[str, Any] = {
        "output_dir": run,
        "resume_from": "auto",
        "num_workers": 2,
        "dataset__eval_source": slow_to_evaluate,
        "batch_size": 1,
        "max_steps": 4,
        "epochs": ...,
        "save_every_n_steps": 100,
        "eval_every_n_steps": 3,
    }
    trainee = trainer.start(**how)
    wait_for(lambda: (run / "metrics.jsonl").exists() and len(lines(run)) == 3, trainee)
    time.sleep(0.1)  # it is in the middle of the evaluation then, not at its first batch
    took = stop(trainee)
    # No save was due at that step: it is made because the training is told to stop.
    assert assert_current_step_is_saved_once(run) == 3
    assert not [row for row in lines(run) if "eval_loss" in row]

    assert trainer.run(**how).code == 0
    assert starts(run) == [0, 3]
    assert standing(run) == {"step_3", "step_4"}
    assert saves(run) == {"step_3": 1, "step_4": 1}
    trained, evaluated = lines(run)[-2:]
    assert (trained["step"], evaluated["step"], "eval_loss" in evaluated) == (4, 4, True)
    whole = _seconds(evaluated) - _seconds(trained)
    assert took < whole / 2, f"stopping took {took} s, a whole evaluation takes {whole} s"


def _seconds(row: dict[str, Any]) -> float:
    from ckptui.schema import parse_time

    found = parse_time(row["time"])
    assert found is not None
    return found.timestamp()


def test_B101_a_stop_while_saving_leaves_one_complete_checkpoint_of_the_step(
    tmp_path: Path, trainer: Trainer, slow_to_save: Path
) -> None:
    how: dict[str, Any] = {
        "model": slow_to_save,
        "resume_from": "auto",
        "num_workers": 2,
        "save_every_n_steps": 1,
        "eval_every_n_steps": 100,
        "epochs": 2,
        "max_steps": ...,
    }
    run, whole = tmp_path / "run", tmp_path / "whole"
    stopped: list[int] = []
    for _ in range(3):
        trainee = trainer.start(output_dir=run, **how)
        first = stopped[-1] if stopped else 0

        def writes(first: int = first) -> bool:
            staging = run / ".ckptui" / "staging"
            try:
                names = os.listdir(staging)
            except FileNotFoundError:
                return False
            steps = [n.partition("-")[0] for n in names if n.startswith("step_")]
            return any(int(n[5:]) > first for n in steps)

        wait_for(writes, trainee)
        stop(trainee)
        stopped.append(assert_current_step_is_saved_once(run))
    assert stopped == sorted(set(stopped))
    assert trainer.run(output_dir=run, **how).code == 0
    assert starts(run) == [0, *stopped]
    assert standing(run) == {f"step_{n}" for n in range(1, 9)}
    assert saves(run) == Counter(dict.fromkeys(standing(run), 1))
    assert trainer.run(output_dir=whole, **{**how, "num_workers": 0}).code == 0
    assert content(run / "step_8") == content(whole / "step_8")


@pytest.mark.parametrize("every", [10, 30])
def test_B102_the_last_step_is_saved_once_and_names_count_completed_steps(
    tmp_path: Path, trainer: Trainer, every: int
) -> None:
    run = tmp_path / "run"
    how: dict[str, Any] = {
        "output_dir": run,
        "epochs": ...,
        "max_steps": 100,
        "save_every_n_steps": every,
        "eval_every_n_steps": 50,
        "gradient_accumulation_steps": 1,
    }
    done = trainer.run(**how)
    assert done.code == 0, done.message()
    steps = sorted({*range(every, 101, every), 100})
    assert [c["step"] for c in listed(run)] == steps
    assert saves(run) == Counter({f"step_{n}": 1 for n in steps})
    assert len(done.order) == 100
    for step in steps:
        folder = run / f"step_{step}"
        state = json.loads((folder / "recipe_state.json").read_text())
        assert state["steps_run"] == step
        assert json.loads((folder / "checkpoint.json").read_text())["step"] == step
    assert [row["step"] for row in lines(run) if "loss" in row] == list(range(1, 101))
    before = tree(run)
    assert trainer.run(**how, resume_from="auto").code == 0
    assert tree(run) == before
