"""A training that is killed and resumed is bit-identical to one that was never interrupted."""

from __future__ import annotations

import json
import random
import signal
from typing import TYPE_CHECKING, Any

import pytest

from ckptui.scan import scan_run
from ckptui.verify import verify_checkpoint
from tests.recipe.harness import At, content, names, rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.recipe.harness import Trainer

pytestmark = pytest.mark.torch

STEP_KILLS = [
    At("log", 1),  # before the first save
    At("save", 2),  # right after a save
    At("log", 4),  # at an epoch boundary, before its save
    At("log", 7),  # in the middle of an epoch
    At("log", 7),  # and a second time in the same epoch
    At("saving", 8),  # while a checkpoint is being written
    At("evaluate", 10),
    At("save", 12),  # when all is done but the leaving
]

EPOCH_KILLS = [
    At("log", 3),  # before the first save
    At("save", 4),
    At("log", 6),
    At("log", 7),  # twice in one epoch
    At("log", 8),  # at the boundary, before its save
    At("saving", 8),
    At("evaluate", 12),
]


def last(run: Path) -> Path:
    return max(
        run.glob("*/checkpoint.json"), key=lambda p: json.loads(p.read_text())["step"]
    ).parent


def assert_equal_runs(one: Path, other: Path) -> None:
    assert rows(one) == rows(other)
    assert content(last(one)) == content(last(other))
    assert names(one) == names(other)


def killed_again_and_again(trainer: Trainer, run: Path, kills: list[At], **settings: Any) -> None:
    for kill in kills:
        outcome = trainer.run(output_dir=run, resume_from="auto", at=kill, **settings)
        assert outcome.code == -signal.SIGKILL, outcome.stderr
    outcome = trainer.run(output_dir=run, resume_from="auto", **settings)
    assert outcome.code == 0, outcome.stderr
    outcome.message()


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="fp32"),
        pytest.param({"num_workers": 2}, id="fp32-workers"),
        pytest.param({"dtype": "bf16"}, id="bf16"),
        pytest.param({"save_every_n_steps": None}, id="epochs"),
        pytest.param({"dtype": "bf16_mixed"}, id="mixed", marks=pytest.mark.slow),
        pytest.param({"dtype": "bf16", "num_workers": 2}, id="bf16-w", marks=pytest.mark.slow),
        pytest.param(
            {"save_every_n_steps": None, "num_workers": 2}, id="epochs-w", marks=pytest.mark.slow
        ),
        pytest.param(
            {"max_steps_per_epoch": 3, "epochs": 5, "max_steps": 13},
            id="cut",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            {"enable_activation_checkpointing": True}, id="recompute", marks=pytest.mark.slow
        ),
        pytest.param(
            {"optimizer__name": "sgd", "optimizer__momentum": 0.9, "clip_grad_norm": None},
            id="sgd",
            marks=pytest.mark.slow,
        ),
        pytest.param({"optimizer__name": "adafactor"}, id="adafactor", marks=pytest.mark.slow),
        pytest.param({"deterministic": True}, id="deterministic", marks=pytest.mark.slow),
        pytest.param({"optimizer__fused": False}, id="foreach", marks=pytest.mark.slow),
    ],
)
def test_a_run_killed_at_every_kind_of_moment_equals_an_uninterrupted_one(
    trainer: Trainer, reference: Callable[..., Path], tmp_path: Path, settings: dict[str, Any]
) -> None:
    kills = STEP_KILLS if settings.get("save_every_n_steps", 2) else EPOCH_KILLS
    killed_again_and_again(trainer, tmp_path / "run", kills, **settings)
    assert_equal_runs(tmp_path / "run", reference(**settings))


def nothing_half_written_is_listed(run: Path) -> None:
    if not (run / "run.json").exists():
        return  # killed before it was a run
    for checkpoint in scan_run(run).checkpoints:
        if checkpoint.complete:
            report = verify_checkpoint(checkpoint, full=True)
            assert report.status == "verified", report


SWEPT: list[dict[str, Any]] = [
    {},
    {"keep_last_n_checkpoints": 1},
    {"save_every_n_steps": None},
]


@pytest.mark.parametrize(
    ("seed", "settings"),
    [
        pytest.param(0, {"keep_last_n_checkpoints": 2}, id="0"),
        *(
            pytest.param(
                seed,
                SWEPT[seed % 3] | {"num_workers": 2 * (seed % 2)},
                id=f"{seed}",
                marks=pytest.mark.slow,
            )
            for seed in range(1, 13)
        ),
    ],
)
def test_a_run_killed_before_any_file_operation_resumes_without_help(
    trainer: Trainer,
    reference: Callable[..., Path],
    tmp_path: Path,
    seed: int,
    settings: dict[str, Any],
) -> None:
    """A seeded sweep: each attempt dies before the n-th file operation on its run."""
    source = random.Random(seed)
    run = tmp_path / "run"
    again: dict[str, Any] = {"output_dir": run, "resume_from": "auto", **settings}
    kills = 0
    for _ in range(25 if seed else 7):
        outcome = trainer.run(**again, at=At("disk", source.randrange(1, 90)))
        outcome.message()
        nothing_half_written_is_listed(run)
        if outcome.code == 0:
            break
        assert outcome.code == -signal.SIGKILL, outcome.stderr
        kills += 1
    else:
        assert trainer.run(**again).code == 0
    assert kills >= 2
    whole = reference(**settings)
    assert rows(run) == rows(whole)
    assert content(last(run)) == content(last(whole))
    # Killed after its last save, a run is finished, and nothing of it is touched any more: what
    # that save would have pruned is still there.
    assert set(names(run)) >= set(names(whole))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_run_killed_at_any_time_resumes_without_help(
    trainer: Trainer, reference: Callable[..., Path], tmp_path: Path, seed: int
) -> None:
    source = random.Random(seed)
    run = tmp_path / "run"
    settings: dict[str, Any] = {"num_workers": 2 * (seed % 2)}
    for _ in range(12):
        trainee = trainer.start(output_dir=run, resume_from="auto", **settings)
        trainee.process.join(source.uniform(0.02, 0.9))
        trainee.process.kill()
        assert trainee.wait().code in (0, -signal.SIGKILL)
        nothing_half_written_is_listed(run)
    assert trainer.run(output_dir=run, resume_from="auto", **settings).code == 0
    assert_equal_runs(run, reference(**settings))
