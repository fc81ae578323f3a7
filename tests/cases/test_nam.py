"""What counts as a checkpoint by its name, and what is only lying beside one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cases import foreign
from tests.cases.harness import (
    assert_ignored_within,
    assert_left_alone,
    ckptui,
    latest,
    listed,
    prune,
    resumed,
    run_form,
    standing,
    tree,
    verified,
    write,
)
from tests.factory import make_checkpoint, make_run, safetensors_bytes

if TYPE_CHECKING:
    from pathlib import Path

JUNK = bytes(4096)


def test_B12_names_with_a_word_after_the_number_are_strays(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [100, 200])
    write(run, {"step_200_final.pt": b"x"})
    write(run / "step_old", {"model.safetensors": foreign.WEIGHTS})

    form = run_form(run)
    assert [c["name"] for c in form["checkpoints"]] == ["step_100", "step_200"]
    assert form["ignored"] == ["step_200_final.pt", "step_old"]
    assert "2 other names ignored" in ckptui("ls", run).out
    assert latest(run) == "step_200"


def test_B13_an_export_beside_its_source_is_neither_latest_nor_removed(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [90, 100])
    write(run / "step_100-hf", {"model.safetensors": foreign.WEIGHTS, "config.json": b"{}"})
    export = tree(run / "step_100-hf")

    assert latest(run) == "step_100"
    assert resumed(run) == "step_100"
    assert prune(run, "--keep-last", "1") == {"step_100", "step_100-hf"}
    assert run_form(run)["ignored"] == ["step_100-hf"]
    assert tree(run / "step_100-hf") == export


def test_B14_a_merged_copy_is_not_counted_and_its_fate_is_told(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [100, 200])
    write(run / "step_100-merged", {"model.safetensors": foreign.WEIGHTS})

    dry = ckptui("prune", run, "--keep-last", "1", "--dry-run")
    assert "keep 1, remove 1" in dry.out
    assert "1 other name not recognised and left alone: step_100-merged" in dry.err

    there = tmp_path / "transformers"
    foreign.transformers(there / "checkpoint-100")
    write(there / "checkpoint-100-merged", {"model.safetensors": foreign.WEIGHTS})
    foreign.transformers(there / "checkpoint-200")
    assert_left_alone(there)


def test_B15_folders_without_a_number_are_never_the_latest(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [5])
    for name in ("latest", "step_old", "step_"):
        write(run / name, {"model.safetensors": foreign.WEIGHTS})
    assert latest(run) == "step_5"
    assert_ignored_within(run, ["latest", "step_old", "step_"])

    bare = tmp_path / "bare"
    for name in ("latest", "checkpoint_old"):
        write(bare / name, {"model.safetensors": foreign.WEIGHTS})
    assert_left_alone(bare)
    assert "no run" in ckptui("show", "latest", "--run", bare, code=1).err


def test_B16_a_prefix_with_an_underscore_is_reported_as_unknown(tmp_path: Path) -> None:
    root = tmp_path / "orbax"
    foreign.orbax(root / "ppo_net_0")
    foreign.orbax(root / "ppo_net_10")
    assert_left_alone(root)
    assert "2 names there were not recognised" in ckptui("ls", root).err

    run = make_run(tmp_path / "run", [1])
    foreign.orbax(run / "ppo_net_0")
    assert_ignored_within(run, ["ppo_net_0"])


def test_B17_a_stray_file_of_a_nested_name_is_reported(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1])
    write(run / "epoch=1-val", {"loss=0.42.ckpt": foreign.zipped()})
    assert_ignored_within(run, ["epoch=1-val"])


def test_B17_a_metric_with_a_slash_is_found_by_its_name(tmp_path: Path) -> None:
    values = {1: {"val/loss": 0.5}, 2: {"val/loss": 0.4}, 3: {"val/loss": 0.6}}
    run = make_run(tmp_path / "run", values, metrics=values)

    for word in ("best:val/loss", "best:val/loss:min"):
        shown = ckptui("show", word, "--run", run, "--json").json()["checkpoint"]
        assert shown["name"] == "step_2"
    ckptui("pin", "best:val/loss", "--run", run)
    assert prune(run, "--keep-best", "1:val/loss") == {"step_2", "step_3"}


@pytest.mark.torch
def test_B17_a_metric_with_a_slash_makes_no_folders(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from ckptui import TrainingRun

    model = torch.nn.Linear(2, 1)
    with TrainingRun(tmp_path / "run") as run:
        run.register(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
        run.resume()
        for step in (1, 2):
            run.log(step, **{"val/loss": 0.42 * step})
            run.save(step, metrics={"val/accuracy": 0.5})

    assert standing(tmp_path / "run") == {"step_1", "step_2"}
    assert run_form(tmp_path / "run")["ignored"] == []
    assert listed(tmp_path / "run")[0]["metrics"] == {"val/loss": 0.42, "val/accuracy": 0.5}


def test_B19_folders_of_notebook_servers_are_ignored_at_every_level(tmp_path: Path) -> None:
    root = tmp_path / "root"
    run = make_run(root / "run", [10])
    write(root / ".ipynb_checkpoints", {"step_5-checkpoint.json": b"{}"})
    for folder in (root, run):
        make_checkpoint(folder / ".ipynb_checkpoints", "step_99", step=99)
    write(run / "step_10" / ".ipynb_checkpoints", {"config-checkpoint.json": b"{}"})

    runs = ckptui("ls", root, "--json").json()["runs"]
    assert [r["path"] for r in runs] == [str(run)]
    assert [c["name"] for c in listed(run)] == ["step_10"]
    assert latest(run) == "step_10"
    assert verified(root)["step_10"]["status"] == "verified"
    assert verified(root)["step_10"]["problems"] == []


def test_B20_sidecars_of_macos_are_not_read(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [10])
    junk = ["._model.safetensors", "._recipe_state.json", "._checkpoint.json", "._config.json"]
    write(run / "step_10", dict.fromkeys(junk, JUNK))
    write(run, dict.fromkeys(["._step_10", "._run.json", "._metrics.jsonl"], JUNK))

    (only,) = listed(run)
    assert (only["name"], only["state"], only["problems"]) == ("step_10", "ok", [])
    assert verified(run)["step_10"] == {
        "run": str(run),
        "name": "step_10",
        "path": str(run / "step_10"),
        "level": "full",
        "status": "verified",
        "problems": [],
    }
    assert latest(run) == "step_10"
    assert prune(run, "--keep-last", "1", "--incomplete") == {"step_10"}
    assert (run / "._step_10").exists()


def test_B21_digits_alone_make_no_checkpoint(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for name in ("2023", "2024", "src"):
        write(root / name, {"notes.txt": b"a", "main.py": b"b"})
    before = tree(root)

    listing = ckptui("ls", root)
    assert listing.out == ""
    assert "No checkpoints" in listing.err
    assert "No checkpoints" in ckptui("prune", root, "--keep-last", "1", "--yes", code=1).err
    assert tree(root) == before


def test_B22_one_level_too_deep_names_the_run_to_use(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [50, 100])

    answer = ckptui("ls", run / "step_100")
    assert f"step_100 is one checkpoint; its run is {run}" in answer.err
    assert "step_50" not in answer.out
    refused = ckptui("prune", run / "step_100", "--keep-last", "1", "--yes", code=1)
    assert str(run) in refused.err
    assert "corrupt" not in answer.said + refused.said
    assert standing(run) == {"step_50", "step_100"}


def test_B23_a_negative_step_is_wrong_usage(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [5, 10])
    before = tree(run)

    for words in (
        ["resume-cmd", "-2"],
        ["resume-cmd", "--", "-2"],
        ["pin", "-5"],
        ["pin", "--", "-5"],
        ["rm", "--yes", "--", "-5"],
        ["show", "--", "-1"],
    ):
        at = words.index("--") if "--" in words else len(words)
        ckptui(*words[:at], "--run", run, *words[at:], code=2)
    ckptui("prune", run, "--keep-every", "-1", "--yes", code=2)
    ckptui("prune", run, "--keep-every=-1", "--yes", code=2)
    ckptui("prune", run, "--keep-within", "-1d", "--yes", code=2)
    assert tree(run) == before


def test_B24_two_names_of_one_step_are_both_shown_and_never_confused(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    make_checkpoint(run, "step_100", step=100, weights=[1.0])
    make_checkpoint(run, "step_0100", step=100, weights=[2.0])
    before = tree(run)

    form = run_form(run)
    assert {c["name"] for c in form["checkpoints"]} == {"step_100", "step_0100"}
    told = [p["what"] for p in form["problems"]]
    assert told == ["step_0100 and step_100 are two names of one number"]
    for words in (["pin"], ["resume-cmd"], ["show"], ["rm", "--yes"]):
        error = ckptui(*words, "100", "--run", run, "--json", code=1).json()["error"]
        assert error["kind"] == "ambiguous"
        assert sorted(error["candidates"]) == ["step_0100", "step_100"]
    assert tree(run) == before

    ckptui("pin", "step_0100", "--run", run)
    assert {c["name"]: c["pinned"] for c in listed(run)} == {"step_0100": True, "step_100": False}
    assert prune(run, "--keep-last", "1") >= {"step_0100"}
    assert (run / "step_0100" / "model.safetensors").read_bytes() == safetensors_bytes(
        {"layer.weight": [2.0]}
    )


def test_B25_step_zero_is_a_step_and_an_unknown_one_is_a_dash(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [0, 10])
    make_checkpoint(run, "epoch_3", step=None, epoch=3)

    assert {c["name"]: c["step"] for c in listed(run)} == {
        "step_0": 0,
        "step_10": 10,
        "epoch_3": None,
    }
    lines = {x.split()[0]: x.split()[1] for x in ckptui("ls", run).out.splitlines() if "_" in x}
    assert (lines["step_0"], lines["epoch_3"]) == ("0", "-")
    assert latest(run) == "step_10"

    ckptui("pin", "0", "--run", run)
    assert [c["name"] for c in listed(run) if c["pinned"]] == ["step_0"]
    ckptui("unpin", "0", "--run", run)
    # 0 is divisible by every number; whose step is unknown cannot be judged and stays.
    assert prune(run, "--keep-every", "7") == {"step_0", "step_10", "epoch_3"}


@pytest.mark.torch
def test_B25_resuming_does_not_write_step_zero_again(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from ckptui import TrainingRun

    where = tmp_path / "run"
    model = torch.nn.Linear(2, 1)
    for start, steps in ((0, (0, 10)), (10, (20,))):
        with TrainingRun(where) as run:
            run.register(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
            assert run.resume() == start
            for step in steps:
                run.save(step)
        if start == 0:
            before = tree(where / "step_0")
    assert tree(where / "step_0") == before
    assert latest(where) == "step_20"
