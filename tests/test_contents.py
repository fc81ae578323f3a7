"""Settings, files and tensors read for looking at: nothing that lies there raises or is obeyed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ckptui import contents
from ckptui.checkpoint import Checkpoint, FileEntry, Parent
from ckptui.scan import scan_run
from ckptui.settings import parse_yaml
from tests.factory import RUN_ID, make_checkpoint, make_run, safetensors_bytes


def one(run: Path) -> Checkpoint:
    return scan_run(run).checkpoints[0]


def test_settings_are_read_one_by_one_by_their_dotted_names(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("a: 1\noptimizer: {lr: 2.0e-5, betas: [0.9, 0.95]}\nempty: {}\nnone: null\n")
    found = contents.read_config(path)
    assert found.values == {
        "a": 1,
        "optimizer.lr": 2e-5,
        "optimizer.betas": [0.9, 0.95],
        "empty": {},
        "none": None,
    }
    assert found.problem is None


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"a: [", "no readable YAML"),
        (b"!!python/object/apply:os.system ['touch owned']", "no readable YAML"),
        (b"\xff\xfe\x00", "no readable YAML"),
        (b"just words", "holds no settings"),
        (b"", "holds no settings"),
        (b"[" * 10_000, "no readable YAML"),
        (b"a: 0x" + b"f" * 5000, "no readable YAML"),
        (b"x: " + b"y" * (2**20 + 1), "larger than"),
    ],
    ids=["cut", "object", "bytes", "text", "empty", "deep", "number", "long"],
)
def test_settings_that_cannot_be_read_are_a_sentence(
    tmp_path: Path, data: bytes, words: str
) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(data)
    found = contents.read_config(path)
    assert found.values is None
    assert found.problem is not None
    assert words in found.problem
    assert found.problem.endswith(".")
    assert not (tmp_path / "owned").exists()


def test_settings_that_are_not_there_are_missing(tmp_path: Path) -> None:
    assert contents.read_config(tmp_path / "config.yaml").missing
    os.mkfifo(tmp_path / "pipe.yaml")
    assert "not a regular file" in str(contents.read_config(tmp_path / "pipe.yaml").problem)


def test_links_and_merges_in_yaml_do_not_multiply() -> None:
    lines = ["a0: &a0 {" + ", ".join(f"k{i}: {i}" for i in range(50)) + "}"]
    lines += [f"a{n}: &a{n} [" + ", ".join([f"*a{n - 1}"] * 10) + "]" for n in range(1, 9)]
    with pytest.raises(ValueError, match="no readable YAML"):
        parse_yaml("\n".join(lines).encode())
    merging = "b: &b {x: 1}\nc: {<<: [" + ", ".join(["*b"] * 101) + "]}"
    with pytest.raises(ValueError, match="no readable YAML"):
        parse_yaml(merging.encode())
    assert parse_yaml(b"a: &a {<<: *a}") == {"a": {}}
    assert parse_yaml(b"a: &a {x: 1}\nb: {<<: *a, y: 2}")["b"] == {"x": 1, "y": 2}


def test_files_are_compared_with_what_lies_there(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1])
    folder = run / "step_1"
    (folder / "config.json").unlink()
    (folder / "model.safetensors").write_bytes(b"short")
    (folder / "extra.txt").write_text("x")
    found = {f.name: f for f in contents.look_at_files(one(run))}
    assert found["config.json"].found is None
    assert (found["model.safetensors"].size, found["model.safetensors"].found) != (5, None)
    assert found["model.safetensors"].found == 5
    assert found["extra.txt"] == contents.FoundFile("extra.txt", None, None, 1)
    assert found["recipe_config.yaml"].size == found["recipe_config.yaml"].found


def test_a_checkpoint_that_is_gone_has_no_files_to_look_at(tmp_path: Path) -> None:
    checkpoint = one(make_run(tmp_path / "run", [1]))
    checkpoint.path.rename(tmp_path / "away")
    with pytest.raises(FileNotFoundError):
        contents.look_at_files(checkpoint)


def test_tensors_come_from_headers_and_a_known_digest_is_not_read_again(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1])
    checkpoint = one(run)
    known: dict[str, Any] = {}
    first = contents.read_tensors(checkpoint.path, checkpoint.files, known=known)
    assert [(t.name, t.dtype, t.shape, t.file, t.size, t.elements) for t in first.tensors] == [
        ("layer.weight", "F32", (3,), "model.safetensors", 12, 3),
        ("optimizer.exp_avg", "F32", (2,), "recipe_state.safetensors", 8, 2),
    ]
    (checkpoint.path / "model.safetensors").unlink()
    again = contents.read_tensors(checkpoint.path, checkpoint.files, known=known)
    assert again.tensors == first.tensors
    alone = contents.read_tensors(checkpoint.path, checkpoint.files)
    assert alone.problems == ("model.safetensors is missing.",)


def test_what_cannot_be_read_of_the_tensors_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "step_1"
    folder.mkdir()
    (folder / "bad.safetensors").write_bytes(b"\xff" * 30)
    (folder / "real.safetensors").write_bytes(safetensors_bytes({"x": [1.0]}))
    (folder / "link.safetensors").symlink_to(folder / "real.safetensors")
    names = ["bad.safetensors", "link.safetensors", "../x.safetensors", "model.bin", "notes.txt"]
    found = contents.read_tensors(folder, [FileEntry(n, 1, None) for n in names])
    assert found.tensors == ()
    assert len(found.problems) == 3
    assert "bad.safetensors" in found.problems[0]
    assert found.unread == ("model.bin",)


def test_a_parent_is_found_only_where_it_still_is_itself(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1])
    parent = Parent(name="step_1", step=1, run_id=RUN_ID, attempt=1)
    assert contents.parent_folder(run, parent) == run / "step_1"
    other = Parent(name="step_1", step=1, run_id=RUN_ID, attempt=2)
    assert contents.parent_folder(run, other) is None
    assert contents.parent_folder(run, Parent(name="step_9")) is None
    assert contents.parent_folder(run, Parent(name="x", path="/")) is None
    assert contents.parent_folder(run, Parent(name="x", path="/\0/step_1")) is None
    make_checkpoint(tmp_path / "other", "step_5", step=5)
    far = Parent(name="step_5", path=str(tmp_path / "other" / "step_5"))
    assert contents.parent_folder(run, far) == tmp_path / "other" / "step_5"
