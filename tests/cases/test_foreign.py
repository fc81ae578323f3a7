"""torchtune's folders carry the names of ours: without our marker they are unknown, and stay."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from ckptui import TrainingRun
from ckptui.errors import RunExistsError
from tests.cases import foreign
from tests.cases.harness import assert_left_alone, ckptui, listed, plan, standing, tree
from tests.factory import make_run

SAMPLES = Path(
    os.environ.get("CKPTUI_SAMPLES") or Path(__file__).parents[2].parent / "shared" / "samples"
)
"""Folders that other trainers really wrote."""


def assert_untouchable(root: Path) -> None:
    before = tree(root)
    found = listed(root)
    assert found
    assert {c["state"] for c in found} == {"unknown"}
    assert not [c for c in found if c["complete"] or c["resumable"] or c["latest"] or c["best"]]
    assert set(plan(root, "--keep-last", "1", "--incomplete").values()) == {"skip"}
    assert_left_alone(root)
    for c in found:
        name = c["name"]
        for words in (["pin"], ["rm", "--yes"], ["rm", "--delete", "--yes"], ["resume-cmd"]):
            ckptui(*words, name, "--run", root, code=1)
            ckptui(*words, c["path"], code=1)
        shown = ckptui("show", name, "--run", root, "--json").json()["checkpoint"]
        assert shown["state"] == "unknown"
    assert tree(root) == before


def test_torchtune_folders_are_unknown_and_untouchable(tmp_path: Path) -> None:
    root = tmp_path / "torchtune"
    for step in (5, 10, 15):
        foreign.torchtune(root / f"step_{step}")
    foreign.torchtune(root / "step_16", state=False)
    (root / "step_20").mkdir()
    foreign.torchtune(root / "epoch_0")
    assert_untouchable(root)


def test_training_into_a_folder_of_torchtune_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "torchtune"
    foreign.torchtune(root / "step_5")
    before = tree(root)
    for word in (None, "auto", "latest"):
        with pytest.raises(RunExistsError, match="did not write"):
            TrainingRun(root, resume=word).__enter__()
    assert tree(root) == before


def test_a_folder_of_torchtune_beside_a_run_is_not_taken_for_it(tmp_path: Path) -> None:
    run = make_run(tmp_path / "root" / "run", [1, 2])
    foreign.torchtune(tmp_path / "root" / "torchtune" / "step_3")
    other = tree(tmp_path / "root" / "torchtune")
    ckptui("prune", tmp_path / "root", "--keep-last", "1", "--yes", code=1)
    ckptui("prune", tmp_path / "root", "--keep-last", "1", "--all-runs", "--delete", "--yes")
    assert standing(run) == {"step_2"}
    assert tree(tmp_path / "root" / "torchtune") == other


@pytest.mark.parametrize(
    "name",
    ["epochs-061", "steps-main", "killed-061-between-shards", "killed-main-in-recipe-state"],
)
def test_what_torchtune_really_wrote_is_unknown_and_untouchable(tmp_path: Path, name: str) -> None:
    source = SAMPLES / "torchtune" / name
    if not source.is_dir():
        pytest.skip("the folders that torchtune wrote are not here")
    root = tmp_path / name
    shutil.copytree(source, root)
    for path in [root, *root.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    assert_untouchable(root)
