"""Checkpoints that are not whole, or look as if they were not."""

from __future__ import annotations

import json
import pickle
import struct
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest

from ckptui.tensors import read_header
from tests.cases import foreign
from tests.cases.harness import (
    assert_ignored_within,
    assert_left_alone,
    ckptui,
    latest,
    listed,
    plan,
    prune,
    remark,
    resumed,
    run_form,
    seal,
    standing,
    tree,
    verified,
    write,
)
from tests.factory import make_checkpoint, make_run, safetensors_bytes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.recipe.harness import Trainer

NAN = float("nan")
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0a1b2c\nsize 134217728\n"


def states(run: Path) -> dict[str, str]:
    return {c["name"]: c["state"] for c in listed(run)}


def problems(run: Path, name: str) -> str:
    (found,) = [c for c in listed(run) if c["name"] == name]
    return "; ".join(p["what"] for p in found["problems"])


def files_named(report: dict[str, Any]) -> set[str]:
    return {p["file"] for p in report["problems"]}


def shard(folder: Path, count: int = 2) -> list[str]:
    """Turn the weights of a checkpoint into shards with an index; their names."""
    (folder / "model.safetensors").unlink()
    names = [f"model-{n:05}-of-{count:05}.safetensors" for n in range(1, count + 1)]
    mapping = {f"layer{n}.weight": name for n, name in enumerate(names, 1)}
    for tensor, name in mapping.items():
        (folder / name).write_bytes(safetensors_bytes({tensor: [1.0, 2.0]}))
    index = {"metadata": {"total_size": 8 * count}, "weight_map": mapping}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    seal(folder)
    return names


@pytest.mark.parametrize("lacking", ["checkpoint.json", "recipe_state.json"])
def test_B26_the_newest_without_its_state_is_stepped_over_and_named(
    tmp_path: Path, lacking: str
) -> None:
    run = make_run(tmp_path / "run", [100, 200])
    (run / "step_200" / lacking).unlink()

    answer = ckptui("show", "latest", "--run", run)
    assert answer.out.startswith("step_100 ")
    assert "step_200" in answer.err
    assert f"{lacking} is missing" in answer.err
    line = ckptui("resume-cmd", "latest", "--run", run)
    assert "resume_from=latest" in line.out
    assert "step_200" in line.err
    assert f"{lacking} is missing" in line.err
    assert resumed(run) == "step_100"
    refused = ckptui("resume-cmd", "step_200", "--run", run, "--json", code=1).json()["error"]
    assert refused["kind"] == "not_resumable"
    assert lacking in refused["message"]

    root = tmp_path / "transformers"
    foreign.transformers(root / "checkpoint-100")
    foreign.transformers(root / "checkpoint-200", without="trainer_state.json")
    assert_left_alone(root)


@pytest.mark.torch
@pytest.mark.parametrize("lacking", ["checkpoint.json", "recipe_state.json"])
def test_B26_training_steps_back_with_a_line(
    tmp_path: Path, trainer: Trainer, lacking: str
) -> None:
    run = tmp_path / "run"
    assert trainer.run(output_dir=run, epochs=1).code == 0
    (run / "step_4" / lacking).unlink()
    outcome = trainer.run(output_dir=run, epochs=1, resume_from="auto")
    assert outcome.code == 0
    assert f"{lacking} is missing" in outcome.message()
    assert states(run) == {"step_2": "ok", "step_4": "ok"}


def test_B27_weights_that_are_cut_off_are_no_checkpoint(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [100, 200])
    weights = run / "step_200" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-5])

    report = verified(run, code=1)["step_200"]
    assert report["status"] == "failed"
    assert files_named(report) == {"model.safetensors"}
    assert verified(run / "step_100")["step_100"]["status"] == "verified"
    assert states(run)["step_200"] == "broken"
    assert latest(run) == resumed(run) == "step_100"


def test_B28_an_empty_or_torn_state_makes_nothing_complete(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [100, 200, 210, 220, 230])
    (run / "step_200" / "recipe_state.json").write_bytes(b"")
    (run / "step_210" / "recipe_state.json").write_bytes(b'{"step": 21')
    (run / "step_220" / "checkpoint.json").write_bytes(b"")
    (run / "step_230" / "checkpoint.json").write_bytes(b'{"step": 23')

    assert states(run) == {
        "step_100": "ok",
        "step_200": "broken",
        "step_210": "broken",
        "step_220": "partial",
        "step_230": "partial",
    }
    assert "recipe_state.json has 0 bytes" in problems(run, "step_200")
    assert "checkpoint.json is empty" in problems(run, "step_220")
    assert "checkpoint.json is unreadable" in problems(run, "step_230")
    ckptui("ls", run)
    assert latest(run) == resumed(run) == "step_100"


def test_B30_a_failed_write_of_shards_is_named_and_its_rest_reclaimable(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [300])
    good, empty = shard(run / "step_300")
    (run / "step_300" / empty).write_bytes(b"")
    write(run / "step_300", {f"{empty}.tmp": b"half", ".tmpAbC123": b"half"})

    report = verified(run, code=1)["step_300"]
    assert report["status"] == "failed"
    told = {p["file"]: p["what"] for p in report["problems"]}
    assert "has 0 bytes" in told[empty]
    assert "can be reclaimed" in told[f"{empty}.tmp"]
    assert "can be reclaimed" in told[".tmpAbC123"]
    assert good not in told
    assert states(run) == {"step_300": "broken"}


def test_B31_a_folder_without_its_last_written_file_is_no_candidate(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [10])
    make_checkpoint(run, "step_20", step=20, marker=False)
    assert latest(run) == resumed(run) == "step_10"
    assert states(run) == {"step_10": "ok", "step_20": "partial"}

    root = tmp_path / "dcp"
    foreign.torch_distributed(root / "step-10")
    foreign.torch_distributed(root / "step-20", metadata=False)
    assert_left_alone(root)


def test_B32_a_marker_over_a_gap_in_the_shards_does_not_pass(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [10, 20])
    shard(run / "step_10", 3)
    _, gap, _ = shard(run / "step_20", 3)
    (run / "step_20" / gap).unlink()

    report = verified(run, code=1)["step_20"]
    assert report["status"] == "failed"
    assert gap in files_named(report)
    assert states(run) == {"step_10": "ok", "step_20": "broken"}
    # A marker that was written over the gap itself is no better.
    seal(run / "step_20")
    report = verified(run, code=1)["step_20"]
    assert (report["status"], files_named(report)) == ("failed", {gap})
    ckptui("resume-cmd", "step_20", "--run", run, code=1)

    fired = tmp_path / "PWNED"
    root = tmp_path / "dcp"
    foreign.torch_distributed(root / "step-10", shards=(0, 1, 2))
    foreign.torch_distributed(root / "step-20", shards=(0, 2))
    (root / "step-20" / ".metadata").write_bytes(pickle.dumps(foreign.Bomb(fired)))
    assert_left_alone(root)
    assert not fired.exists()


def test_B34_a_shard_of_an_earlier_save_is_noted_and_counts_for_nothing(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [100])
    names = shard(run / "step_100")
    old = "model-00003-of-00003.safetensors"
    write(run / "step_100", {old: safetensors_bytes({"layer9.weight": [NAN]})})

    report = verified(run)["step_100"]
    assert report["status"] == "warning"
    assert report["problems"] == [{"file": old, "what": "is no part of this checkpoint"}]
    shown = ckptui("show", "step_100", "--run", run, "--json").json()["checkpoint"]
    assert {t["file"] for t in shown["tensors"]} == {*names, "recipe_state.safetensors"}
    assert "layer9.weight" not in {t["name"] for t in shown["tensors"]}
    assert old not in {f["name"] for f in shown["files"]}
    assert shown["state"] == "ok"


def test_B35_a_pointer_and_a_monstrous_header_are_told_apart(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 2, 3, 4])
    monster = struct.pack("<Q", 2**40) + b"{}" + bytes(64)
    for step, data in ((1, POINTER), (2, POINTER), (3, monster), (4, monster)):
        (run / f"step_{step}" / "model.safetensors").write_bytes(data)
    for step in (2, 4):  # a marker made after the file was spoiled
        seal(run / f"step_{step}")

    tracemalloc.start()
    reports = verified(run, code=1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**27  # not the 2**40 bytes that the header claims
    for step, word in ((1, "pointer"), (2, "pointer"), (3, "header"), (4, "header")):
        report = reports[f"step_{step}"]
        assert report["status"] == "failed"
        (what,) = {p["what"] for p in report["problems"] if p["file"] == "model.safetensors"}
        assert word in what, what
    assert verified(run, full=False, code=1)["step_2"]["status"] == "failed"


def test_B36_a_zip_without_its_directory_fails_without_being_loaded(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 2])
    torn = foreign.zipped()[:100]
    write(run / "step_1", {"optimizer.pt": torn})
    write(run / "step_2", {"optimizer.pt": torn})
    seal(run / "step_1")

    for name, report in verified(run, code=1).items():
        assert report["status"] == "failed", name
        told = {p["what"] for p in report["problems"] if p["file"] == "optimizer.pt"}
        assert "is cut off: its zip directory is missing" in told


def test_B38_a_complete_one_is_never_cleaned_up(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [100, 300])
    make_checkpoint(run, "step_200", step=200, marker=False)
    before = tree(run / "step_300")

    assert plan(run, "--incomplete") == {
        "step_100": "keep",
        "step_200": "remove",
        "step_300": "keep",
    }
    assert prune(run, "--incomplete") == {"step_100", "step_300"}
    assert prune(run, "--incomplete") == {"step_100", "step_300"}
    assert tree(run / "step_300") == before


def test_B39_unmarked_is_not_in_progress_and_does_not_go_by_itself(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [200, 400])
    make_checkpoint(run, "step_100", step=100, marker=False)
    make_checkpoint(run / ".ckptui" / "staging", "step_500-abc", step=500, marker=False)

    assert states(run) == {
        "step_100": "partial",
        "step_200": "ok",
        "step_400": "ok",
        "step_500": "writing",
    }
    assert prune(run, "--keep-last", "1") == {"step_100", "step_400"}
    assert plan(run, "--incomplete")["step_500"] == "keep"

    root = tmp_path / "orbax"
    for name in ("100", "200", "300.orbax-checkpoint-tmp-17"):
        foreign.orbax(root / name)
    write(root / "200", {"commit_success.txt": b""})
    assert_left_alone(root)


def test_B39_a_markerless_folder_where_nothing_is_ours_is_never_removed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    make_checkpoint(root, "step_100", step=100, marker=False)
    assert states(root) == {"step_100": "unknown"}
    assert_left_alone(root)


def test_B40_an_adapter_is_valid_and_needs_its_base(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [7000])
    folder = make_checkpoint(run, "step_8000", step=8000, resumable=False)
    (folder / "model.safetensors").rename(folder / "adapter_model.safetensors")
    write(folder, {"adapter_config.json": b'{"base_model_name_or_path": "tiny"}'})
    remark(folder, contains=["adapter"])
    seal(folder)

    assert states(run) == {"step_7000": "ok", "step_8000": "adapter"}
    assert verified(run)["step_8000"]["status"] == "verified"
    assert latest(run) == "step_8000"
    refused = ckptui("resume-cmd", "step_8000", "--run", run, "--json", code=1).json()["error"]
    assert refused["kind"] == "not_resumable"
    assert "adapter" in refused["message"]
    assert "base model" in refused["message"]
    assert resumed(run) == "step_7000"

    root = tmp_path / "transformers"
    foreign.transformers(root / "checkpoint-8000", without="model.safetensors")
    write(root / "checkpoint-8000", {"adapter_config.json": b"{}"})
    assert_left_alone(root)


def test_B41_weights_alone_are_for_evaluation_and_not_for_resuming(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [100])
    make_checkpoint(run, "step_200", step=200, resumable=False)

    assert states(run) == {"step_100": "ok", "step_200": "weights"}
    assert latest(run) == "step_200"
    assert run_form(run)["resume_from"] == "step_100"
    assert "step_200 cannot be resumed; step_100 is the newest that can" in ckptui("ls", run).err
    assert resumed(run) == "step_100"
    told = ckptui("resume-cmd", "latest", "--run", run).err
    assert "step_200 is newer but cannot be resumed" in told
    refused = ckptui("resume-cmd", "step_200", "--run", run, code=1).err
    assert "weights only" in refused
    assert prune(run, "--keep-last", "1") == {"step_100", "step_200"}

    root = tmp_path / "transformers"
    foreign.transformers(root / "checkpoint-100")
    foreign.transformers(root / "checkpoint-200", without="optimizer.pt")
    assert_left_alone(root)


def test_B42_a_name_and_a_state_that_disagree_are_both_shown(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [700])
    make_checkpoint(run, "step_800", step=799)

    assert problems(run, "step_800") == "the name says step 800, its state says 799"
    assert states(run) == {"step_700": "ok", "step_800": "ok"}
    assert "step_800" in ckptui("ls", run).out
    assert " 799 " in ckptui("ls", run).out
    told = ckptui("show", "step_800", "--run", run).out
    assert "the name says step 800, its state says 799" in told
    assert verified(run)["step_800"]["status"] == "verified"
    shown = ckptui("resume-cmd", "799", "--run", run, "--json").json()["checkpoint"]
    assert shown["path"] == str(run / "step_800")

    root = tmp_path / "deepspeed"
    foreign.transformers(root / "checkpoint-800")
    inner = {"latest": b"global_step799", "global_step799/mp_rank_00.pt": foreign.zipped()}
    write(root / "checkpoint-800", inner)
    assert_left_alone(root)


def test_B43_a_file_where_a_folder_belongs_and_the_reverse(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [200, 300])
    write(run, {"step_100": b"a file with the name of a checkpoint"})
    write(run, {"epoch=2-step=200.ckpt": foreign.zipped()})
    write(run / "epoch=1-step=100.ckpt", {"meta.pt": foreign.zipped()})
    (run / "step_200" / "model.safetensors").unlink()
    write(run / "step_200" / "model.safetensors", {"part": b"x"})

    assert states(run) == {"step_200": "broken", "step_300": "ok"}
    assert set(run_form(run)["ignored"]) == {
        "step_100",
        "epoch=1-step=100.ckpt",
        "epoch=2-step=200.ckpt",
    }
    ckptui("show", "step_100", "--run", run, code=1)
    ckptui("rm", "step_100", "--run", run, "--yes", code=1)
    ckptui("prune", run, "--incomplete", "--keep-last", "1", "--delete", "--yes")
    assert {p.name for p in run.iterdir() if p.name.startswith("step_")} == {"step_100", "step_300"}
    assert (run / "step_100").read_bytes().startswith(b"a file")

    root = tmp_path / "lightning"
    write(root, {"epoch=2-step=200.ckpt": foreign.zipped()})
    write(root / "epoch=1-step=100.ckpt", {"meta.pt": foreign.zipped()})
    assert_left_alone(root)


def nan_run(path: Path) -> Path:
    """Five checkpoints, of which the last three hold NaN."""
    rows = [
        {"step": s, "attempt": 1, "loss": "NaN" if s >= 300 else 1.0} for s in range(100, 501, 100)
    ]
    run = make_run(path, [100, 200], rows=rows, metrics={100: {"loss": 1.0}, 200: {"loss": 0.9}})
    for step in (300, 400, 500):
        make_checkpoint(
            run,
            f"step_{step}",
            step=step,
            weights=[1.0, NAN],
            nonfinite=["layer.weight"],
            metrics={"loss": None},
        )
    return run


def test_B44_weights_that_are_not_finite_are_flagged_and_the_healthy_kept(tmp_path: Path) -> None:
    run = nan_run(tmp_path / "run")

    reports = verified(run)
    assert {n: r["status"] for n, r in reports.items()} == {
        "step_100": "verified",
        "step_200": "verified",
        "step_300": "warning",
        "step_400": "warning",
        "step_500": "warning",
    }
    assert "NaN or infinity: layer.weight" in reports["step_500"]["problems"][0]["what"]
    dry = ckptui("prune", run, "--keep-last", "3", "--dry-run")
    assert "holds NaN or infinity" in dry.err
    assert "every checkpoint with finite weights; step_200 is kept" in dry.err
    assert prune(run, "--keep-last", "3") == {"step_200", "step_300", "step_400", "step_500"}
    assert "No checkpoint with finite weights" in ckptui("rm", "step_200", "--run", run, "-n").err
    line = ckptui("resume-cmd", "latest", "--run", run)
    assert "step_500 holds NaN or infinity" in line.err
    flags = {x.split()[1]: x.split()[0] for x in ckptui("ls", run).out.splitlines() if " nan" in x}
    assert flags == {"step_300": "!", "step_400": "!", "step_500": "!"}
    # A marker that does not know is no excuse: a full check looks for itself.
    remark(run / "step_400", nonfinite=[])
    assert verified(run)["step_400"]["status"] == "warning"


@pytest.mark.torch
def test_B44_the_saver_records_weights_that_are_not_finite(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from ckptui import TrainingRun

    model = torch.nn.Linear(2, 1)
    said: list[str] = []
    with TrainingRun(tmp_path / "run", policy=["keep-last 1"], report=said.append) as run:
        run.register(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
        run.resume()
        run.save(1)
        with torch.no_grad():
            model.bias.fill_(NAN)
        run.save(2, metrics={"loss": NAN})
        run.save(3)
    assert standing(tmp_path / "run") == {"step_1", "step_3"}
    assert listed(tmp_path / "run")[1]["nonfinite"] == ["bias"]
    assert any("finite weights; step_1 is kept" in line for line in said)

    # Going on from it by itself is told as well.
    for word in ("auto", tmp_path / "run" / "step_3"):
        said.clear()
        with TrainingRun(tmp_path / "run", resume=word, report=said.append):
            assert any("step_3 holds NaN or infinity in 1 weight tensor" in line for line in said)


def test_B45_tied_weights_stored_once_are_whole(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1])
    write(run / "step_1", {"config.json": b'{"tie_word_embeddings": true}'})
    seal(run / "step_1")
    assert verified(run)["step_1"]["status"] == "verified"


@pytest.mark.torch
def test_B45_a_tied_model_is_saved_once_and_comes_back_tied(
    uninterrupted: Callable[..., Any],
) -> None:
    transformers = pytest.importorskip("transformers")
    run, _ = uninterrupted()

    header = read_header(run / "step_12" / "model.safetensors")
    assert "lm_head.weight" not in {t.name for t in header.tensors}
    assert {r["status"] for r in verified(run).values()} == {"verified"}
    model = transformers.AutoModelForCausalLM.from_pretrained(run / "step_12")
    assert model.lm_head.weight is model.model.embed_tokens.weight


def test_B46_no_command_ever_unpickles(tmp_path: Path) -> None:
    fired = tmp_path / "PWNED"
    bomb = pickle.dumps(foreign.Bomb(fired))
    run = make_run(tmp_path / "run", [1, 2])
    for name in ("optimizer.pt", "rng_state.pth", "pytorch_model.bin", "training_args.bin"):
        write(run / "step_1", {name: bomb})
    seal(run / "step_1")
    write(run / "checkpoint-3", {"optimizer.pt": bomb, "trainer_state.json": b"{}"})
    write(run, {"last.ckpt": bomb})

    ckptui("ls", run)
    verified(run)
    ckptui("show", "step_1", "--run", run)
    ckptui("resume-cmd", "step_1", "--run", run)
    ckptui("prune", run, "--keep-last", "1", "--yes")
    assert not fired.exists()
    assert_ignored_within(run, ["checkpoint-3", "last.ckpt"])


@pytest.mark.torch
def test_B46_the_recipe_writes_nothing_that_must_be_unpickled(
    uninterrupted: Callable[..., Any],
) -> None:
    run, _ = uninterrupted()
    names = {p.name for p in run.rglob("*") if p.is_file()}
    assert not [n for n in names if n.endswith((".pt", ".pth", ".bin", ".pkl", ".ckpt"))]
    state = ckptui("show", "latest", "--run", run, "--json").json()["checkpoint"]["recipe_state"]
    assert {"python", "torch"} <= state["rng"].keys()
