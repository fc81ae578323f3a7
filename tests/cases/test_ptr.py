"""Links, trackers and stored paths: none is believed more than the folders that are there.

ckptui makes no pointer of its own: what is the latest follows from the checkpoints themselves.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ckptui import TrainingRun
from ckptui.errors import NotFoundError
from ckptui.resume import decide
from tests.cases import foreign
from tests.cases.harness import (
    assert_ignored_within,
    assert_left_alone,
    ckptui,
    latest,
    listed,
    plan,
    prune,
    resumed,
    run_form,
    standing,
    tree,
    write,
)
from tests.factory import make_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.recipe.harness import At, Trainer

    Kill = Callable[[str, int], At]

TRACKER = "latest_checkpointed_iteration.txt"


def links(run: Path) -> dict[str, bool]:
    """Each link in a run, and whether it leads to something."""
    return {p.name: p.exists() for p in run.iterdir() if p.is_symlink()}


def assert_no_silent_fresh_start(root: Path) -> None:
    """Hold that training into a folder of another trainer says that nothing of it is resumed."""
    ckptui("resume-cmd", "latest", "--run", root, code=1)
    with pytest.raises(NotFoundError):
        decide(root, "latest")
    (told,) = decide(root, "auto").messages
    assert str(root) in told
    assert "starts at step 0" in told


def problems(run: Path) -> str:
    return "; ".join(p["what"] for p in run_form(run)["problems"])


@pytest.mark.parametrize("text", [b"30", b"", b"abc"], ids=["absent", "empty", "no number"])
def test_B48_a_tracker_that_names_nothing_is_not_believed(tmp_path: Path, text: bytes) -> None:
    run = make_run(tmp_path / "run", [10])
    write(run, {TRACKER: text})
    write(run / "iter_0000030", {})
    assert latest(run) == resumed(run) == "step_10"
    assert_ignored_within(run, [TRACKER, "iter_0000030"])
    found = decide(run, "auto")
    assert (found.action, found.checkpoint and found.checkpoint.name) == ("continue", "step_10")

    root = tmp_path / "megatron"
    foreign.megatron(root / "iter_0000010")
    write(root, {TRACKER: text})
    assert_left_alone(root)
    assert_no_silent_fresh_start(root)


@pytest.mark.parametrize("pointer", [None, b"global_step999"], ids=["none", "to nothing"])
def test_B49_without_a_pointer_what_is_there_is_found(
    tmp_path: Path, pointer: bytes | None
) -> None:
    run = make_run(tmp_path / "run", [100, 200])
    if pointer is not None:
        write(run, {"latest": pointer})
        assert_ignored_within(run, ["latest"])
    assert latest(run) == resumed(run) == "step_200"

    root = tmp_path / "deepspeed"
    for step in (100, 200):
        write(root / f"global_step{step}", {"mp_rank_00_model_states.pt": foreign.zipped()})
    if pointer is not None:
        write(root, {"latest": pointer})
    assert_left_alone(root)
    assert_no_silent_fresh_start(root)


def test_B50_a_link_to_nothing_is_named_and_the_latest_is_found(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [100, 200])
    (run / "latest").symlink_to("step_050")

    assert "link latest points to step_050, which is not there" in problems(run)
    assert "latest points to step_050" in ckptui("ls", run).err
    assert latest(run) == resumed(run) == "step_200"
    for how in ("latest", "auto"):
        found = decide(run, how).checkpoint
        assert found is not None
        assert found.name == "step_200"
    # The link by its path is no way to a checkpoint, and says so.
    ckptui("show", run / "latest", code=1)
    assert prune(run, "--keep-last", "1") == {"step_200"}
    assert links(run) == {"latest": False}


def test_B50_pruning_leaves_no_link_without_its_target(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", range(100, 600, 100))
    (run / "latest").symlink_to("step_500")
    (run / "best").symlink_to("step_200")
    (run / "chain").symlink_to("best")
    (run / "whole").symlink_to(run / "step_300")

    form = ckptui("prune", run, "--keep-last", "1", "--dry-run", "--json").json()
    reasons = {r["name"]: r["reasons"] for r in form["plan"]}
    assert reasons["step_200"] == ["links 'best' and 'chain' point here"]
    assert reasons["step_300"] == ["link 'whole' points here"]
    ckptui("prune", run, "--keep-last", "1", "--delete", "--yes")
    assert standing(run) == {"step_200", "step_300", "step_500"}
    assert links(run) == {"latest": True, "best": True, "chain": True, "whole": True}

    # Named outright it goes, and the link that loses its target is told before.
    told = ckptui("rm", "step_200", "--run", run, "--dry-run").said
    assert "best" in told
    assert "will point to nothing without step_200" in told
    assert standing(run) == {"step_200", "step_300", "step_500"}


@pytest.mark.torch
def test_B50_the_policy_of_a_training_keeps_what_links_point_to(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(2, 1)
    with TrainingRun(tmp_path / "run", policy=["keep-last 1"]) as run:
        run.register(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
        run.resume()
        run.save(1)
        (run.path / "good").symlink_to("step_1")
        for step in (2, 3, 4):
            run.save(step)
    assert standing(tmp_path / "run") == {"step_1", "step_4"}
    assert links(tmp_path / "run") == {"good": True}


@pytest.mark.torch
def test_B51_a_run_is_moved_and_goes_on_from_elsewhere(
    tmp_path: Path, trainer: Trainer, kill_at: Kill, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = tmp_path / "old" / "run", tmp_path / "new" / "home" / "run"
    trainer.run(output_dir=old, at=kill_at("save", 6))
    assert not [p for p in old.rglob("*") if p.is_symlink()]  # it makes none that could break
    (old / "good").symlink_to("step_4")
    (old / "whole").symlink_to(old / "step_2")
    new.parent.mkdir(parents=True)
    (tmp_path / "old").rename(new.parent / "moved")
    (new.parent / "moved" / "run").rename(new)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)

    where = Path("../new/home/run")
    shown = ckptui("show", "latest", "--run", where, "--json").json()["checkpoint"]
    assert shown["path"] == str(new / "step_6")
    (form,) = ckptui("ls", where, "--json").json()["runs"]
    assert {c["name"]: c["aliases"] for c in form["checkpoints"]}["step_4"] == ["good"]
    assert [p["what"] for p in form["problems"]] == [
        f"link whole points to {old / 'step_2'}, which is not there"
    ]
    asked = ckptui("resume-cmd", "latest", "--run", where, "--json").json()
    assert str(old) not in json.dumps(asked["argv"])
    outcome = trainer.run_with(asked["argv"][3:])
    assert outcome.code == 0, outcome.message()
    assert latest(new) == "step_12"
    assert not (tmp_path / "old").exists()


@pytest.mark.parametrize("how", [[], ["--delete"]], ids=["trash", "delete"])
def test_B53_a_copied_run_is_pruned_and_unpinned_without_touching_the_first(
    tmp_path: Path, how: list[str]
) -> None:
    one, copy = make_run(tmp_path / "A", [1, 2, 3, 4, 5]), tmp_path / "B"
    ckptui("pin", "1", "--run", one, "--note", "good")
    ckptui("pin", "2", "--run", one)
    ckptui("rm", "step_4", "--run", one, "--yes")
    before = tree(one)
    subprocess.run(["cp", "-r", os.fspath(one), os.fspath(copy)], check=True)

    assert {c["name"]: c["note"] for c in listed(copy) if c["pinned"]}["step_1"] == "good"
    ckptui("unpin", "2", "--run", copy)
    ckptui("prune", copy, "--keep-last", "1", *how, "--yes")
    assert standing(copy) == {"step_1", "step_5"}
    ckptui("trash", "restore", "step_4", "--run", copy)
    assert standing(copy) == {"step_1", "step_4", "step_5"}
    ckptui("rm", "step_4", "--run", copy, "--delete", "--yes")
    ckptui("trash", "empty", "--run", copy, "--yes")
    assert tree(one) == before
    assert {c["name"] for c in listed(one) if c["pinned"]} == {"step_1", "step_2"}


@pytest.mark.parametrize("word", ["rel/runs", "./rel/runs/", "rel/runs/.", "rel/../rel/runs"])
@pytest.mark.parametrize("how", [[], ["--delete"]], ids=["trash", "delete"])
def test_B54_a_relative_path_is_joined_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str, how: list[str]
) -> None:
    root = make_run(tmp_path / "rel" / "runs", [1, 2, 3])
    other = make_run(tmp_path / "rel" / "other", [1, 2])
    untouched = tree(other)
    sizes = {c["name"]: c["size"] for c in listed(root)}
    monkeypatch.chdir(tmp_path)

    form = ckptui("prune", word, "--keep-last", "1", *how, "--yes", "--json").json()
    assert [(r["run"], r["name"], r["done"]) for r in form["results"]] == [
        (str(root), name, True) for name in ("step_1", "step_2")
    ]
    assert {r["path"] for r in form["plan"]} == {str(root / f"step_{n}") for n in (1, 2, 3)}
    assert standing(root) == {"step_3"}
    expected = sizes["step_1"] + sizes["step_2"] if how else 0
    assert form["freed"] == expected
    trashed = ckptui("trash", "list", "--run", word, "--json").json()["items"]
    assert sorted(i["name"] for i in trashed) == ([] if how else ["step_1", "step_2"])
    assert tree(other) == untouched
    assert sorted(p.name for p in tmp_path.iterdir()) == ["rel"]


def test_B55_links_beside_folders_are_aliases_and_count_nothing(tmp_path: Path) -> None:
    plain = make_run(tmp_path / "plain", [200, 300])
    run = Path(shutil.copytree(plain, tmp_path / "run"))
    (run / "best").symlink_to("step_200")
    (run / "last").symlink_to("step_300")

    assert {c["name"]: c["aliases"] for c in listed(run)} == {
        "step_200": ["best"],
        "step_300": ["last"],
    }
    for name in ("step_200", "step_300"):
        shown = [
            ckptui("show", name, "--run", r, "--json").json()["checkpoint"]["size"]
            for r in (plain, run)
        ]
        assert shown[0] == shown[1]
    total = ckptui("ls", plain).out.splitlines()[0].replace(str(plain), "")
    assert ckptui("ls", run).out.splitlines()[0].replace(str(run), "") == total
    assert set(plan(run, "--keep-last", "1")) == {"step_200", "step_300"}
    assert plan(run, "--keep-last", "2") == {"step_200": "keep", "step_300": "keep"}
    # `last` does not take the place of the one that is kept, and `best` protects its target.
    assert plan(plain, "--keep-last", "1") == {"step_200": "remove", "step_300": "keep"}
    assert prune(run, "--keep-last", "1") == {"step_200", "step_300"}
    (run / "best").unlink()
    frees = ckptui("prune", run, "--keep-last", "1", "--delete", "--yes", "--json").json()
    assert frees["freed"] == frees["frees"] == next(c["size"] for c in listed(plain))
    assert standing(run) == {"step_300"}
    assert links(run) == {"last": True}
    shown = ckptui("show", run / "last", "--json").json()["checkpoint"]
    assert shown["path"] == str(run / "step_300")


def test_B56_two_files_called_last_are_no_checkpoints(tmp_path: Path) -> None:
    files: dict[str, Any] = {
        "last.ckpt": foreign.zipped(),
        "last-v1.ckpt": foreign.zipped(),
        "epoch=1-step=200.ckpt": foreign.zipped(),
    }
    run = make_run(tmp_path / "run", [100])
    write(run, files)
    assert latest(run) == resumed(run) == "step_100"
    assert_ignored_within(run, files)

    root = tmp_path / "lightning"
    write(root, files)
    assert_left_alone(root)
    assert_no_silent_fresh_start(root)
