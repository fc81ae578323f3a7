from __future__ import annotations

import io
import json
import math
import os
import pickle
import struct
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ckptui.checkpoint import State
from ckptui.scan import scan_run
from ckptui.verify import FileProblem, Report, verify_checkpoint
from tests.factory import digest, make_checkpoint, make_run, safetensors_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from ckptui.checkpoint import Checkpoint

WEIGHTS = "model.safetensors"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path / "run", [100])


@pytest.fixture
def folder(run: Path) -> Path:
    return run / "step_100"


def only(run: Path) -> Checkpoint:
    (found,) = scan_run(run).checkpoints
    return found


def check(run: Path, *, full: bool = False) -> Report:
    return verify_checkpoint(only(run), full=full)


def told(report: Report) -> dict[str, str]:
    return {problem.file: problem.what for problem in report.problems}


def edit_marker(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    marker = json.loads((folder / "checkpoint.json").read_text())
    change(marker)
    (folder / "checkpoint.json").write_text(json.dumps(marker))


def relist(folder: Path) -> None:
    """Make the marker list what lies in the folder now, as if it had been saved so."""

    def change(marker: dict[str, Any]) -> None:
        marker["files"] = [
            {
                "name": path.relative_to(folder).as_posix(),
                "size": path.stat().st_size,
                "digest": digest(path.read_bytes()),
            }
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name != "checkpoint.json"
        ]

    edit_marker(folder, change)


def test_a_whole_checkpoint_is_ok_quick_and_verified_in_full(run: Path) -> None:
    quick, full = check(run), check(run, full=True)
    assert (quick.level, quick.status, quick.problems) == ("quick", "ok", ())
    assert (full.level, full.status, full.problems) == ("full", "verified", ())


def test_a_full_check_reads_every_listed_byte_once_and_says_so(run: Path, folder: Path) -> None:
    counts: list[int] = []
    verify_checkpoint(only(run), full=True, progress=counts.append)
    sizes = [p.stat().st_size for p in folder.iterdir() if p.name != "checkpoint.json"]
    assert sum(counts) == sum(sizes)
    counts.clear()
    verify_checkpoint(only(run), progress=counts.append)
    assert counts == []


@pytest.mark.parametrize("name", ["config.json", WEIGHTS, "recipe_state.json"])
def test_a_changed_bit_is_found_in_full_only(name: str, run: Path, folder: Path) -> None:
    data = bytearray((folder / name).read_bytes())
    data[-2] ^= 1
    (folder / name).write_bytes(data)
    assert check(run).status == "ok"
    report = check(run, full=True)
    assert report.status == "failed"
    assert report.problems == (FileProblem(name, "has other content than was written"),)


def test_a_missing_and_a_cut_off_file_are_named(run: Path, folder: Path) -> None:
    (folder / "config.json").unlink()
    weights = folder / WEIGHTS
    weights.write_bytes(weights.read_bytes()[:-5])
    size = weights.stat().st_size
    for full in (False, True):
        report = check(run, full=full)
        assert report.status == "failed"
        assert told(report) == {
            "config.json": "is missing",
            WEIGHTS: f"has {size} bytes instead of {size + 5}",
        }


def test_b35_a_pointer_in_place_of_weights_is_told_as_such(run: Path, folder: Path) -> None:
    (folder / WEIGHTS).write_bytes(b"version https://git-lfs.github.com/spec/v1\noid x\nsize 9\n")
    report = check(run)
    assert report.status == "failed"
    assert told(report)[WEIGHTS].endswith(": it is a Git LFS pointer, not the file it stands for")


def test_a_broken_header_fails_though_size_and_digest_agree(run: Path, folder: Path) -> None:
    (folder / WEIGHTS).write_bytes(struct.pack("<Q", 2**40) + bytes(100))
    relist(folder)
    for full in (False, True):
        report = check(run, full=full)
        assert report.status == "failed"
        (problem,) = report.problems
        assert problem.file == WEIGHTS
        assert problem.what.startswith("is no safetensors file: it claims a header of")


def test_b32_a_partial_checkpoint_fails_naming_the_piece(run: Path, folder: Path) -> None:
    (folder / "checkpoint.json").unlink()
    (folder / WEIGHTS).write_bytes(b"")
    report = check(run)
    assert report.status == "failed"
    assert told(report) == {
        "checkpoint.json": "is missing: the save never finished",
        WEIGHTS: "is empty",
    }
    assert check(run, full=True).status == "failed"


@pytest.mark.parametrize(
    ("content", "what"),
    [(b"", "is empty"), (b'{"step": 21', "is unreadable"), (b"[]", "is unreadable")],
)
def test_b28_a_torn_marker_fails(content: bytes, what: str, run: Path, folder: Path) -> None:
    (folder / "checkpoint.json").write_bytes(content)
    assert told(check(run)) == {"checkpoint.json": what}
    assert check(run).status == "failed"


def test_the_marker_is_read_anew(run: Path, folder: Path) -> None:
    listed = only(run)
    (folder / "checkpoint.json").unlink()
    assert verify_checkpoint(listed).status == "failed"
    (folder / "config.json").unlink()
    partial = only(run)
    assert partial.state is State.PARTIAL
    make_checkpoint(run.parent / "other", "step_100", step=100)
    folder.rename(run / "step_1")
    (run.parent / "other" / "step_100").rename(folder)
    assert verify_checkpoint(partial, full=True).status == "verified"


def test_a_folder_that_is_gone_fails(run: Path, folder: Path) -> None:
    listed = only(run)
    folder.rename(run / "elsewhere")
    report = verify_checkpoint(listed)
    assert report.status == "failed"
    assert "cannot be listed" in told(report)[""]


# --- what is more than there should be


def test_b34_b30_extra_files_are_a_warning(run: Path, folder: Path) -> None:
    (folder / "model-00003-of-00003.safetensors").write_bytes(
        safetensors_bytes({"old": [math.nan]})
    )
    (folder / "model.safetensors.tmp").write_bytes(b"")
    (folder / ".config.json.0a1b.tmp").write_bytes(b"")
    (folder / ".tmpAb3x9Z").write_bytes(b"")
    (folder / "notes.tmpl.txt").write_bytes(b"")
    (folder / "sub").mkdir()
    (folder / "sub" / "more.txt").write_bytes(b"")
    left = "was left by an unfinished write and can be reclaimed"
    for full in (False, True):
        report = check(run, full=full)
        assert report.status == "warning"
        assert told(report) == {
            ".config.json.0a1b.tmp": left,
            ".tmpAb3x9Z": left,
            "model-00003-of-00003.safetensors": "is no part of this checkpoint",
            "model.safetensors.tmp": left,
            "notes.tmpl.txt": "is no part of this checkpoint",
            "sub/more.txt": "is no part of this checkpoint",
        }


def test_b19_b20_sidecars_are_ignored_at_every_level(run: Path, folder: Path) -> None:
    (folder / "._model.safetensors").write_bytes(b"\x00" * 4096)
    (folder / "._recipe_state.json").write_bytes(b"\x00" * 4096)
    (folder / ".DS_Store").write_bytes(b"x")
    (folder / ".ipynb_checkpoints").mkdir()
    (folder / ".ipynb_checkpoints" / "config-checkpoint.json").write_bytes(b"{}")
    assert check(run, full=True).status == "verified"


def test_b30_an_empty_shard_and_a_leftover_are_both_named(run: Path, folder: Path) -> None:
    shards = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    (folder / WEIGHTS).unlink()
    for number, name in enumerate(shards):
        (folder / name).write_bytes(safetensors_bytes({f"w{number}": [1.0]}))
    index = {"weight_map": {"w0": shards[0], "w1": shards[1]}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    relist(folder)
    assert check(run, full=True).status == "verified"
    size = (folder / shards[1]).stat().st_size
    (folder / shards[1]).write_bytes(b"")
    (folder / f"{shards[1]}.tmp").write_bytes(b"x")
    report = check(run)
    assert report.status == "failed"
    assert told(report) == {
        shards[1]: f"has 0 bytes instead of {size}: it is empty",
        f"{shards[1]}.tmp": "was left by an unfinished write and can be reclaimed",
    }


# --- shards and their index


@pytest.fixture
def sharded(folder: Path) -> Path:
    (folder / WEIGHTS).unlink()
    (folder / "model-00001-of-00002.safetensors").write_bytes(safetensors_bytes({"a": [1.0]}))
    (folder / "model-00002-of-00002.safetensors").write_bytes(safetensors_bytes({"b": [1.0]}))
    return folder


def index_of(folder: Path, content: object) -> None:
    (folder / "model.safetensors.index.json").write_text(json.dumps(content))
    relist(folder)


@pytest.mark.parametrize(
    ("weight_map", "file", "what"),
    [
        (
            {"a": "model-00001-of-00002.safetensors", "c": "model-00002-of-00002.safetensors"},
            "model-00002-of-00002.safetensors",
            "lacks c, which the index says it holds",
        ),
        (
            {"a": "model-00001-of-00002.safetensors", "b": "model-00009-of-00002.safetensors"},
            "model-00009-of-00002.safetensors",
            "is named by model.safetensors.index.json but no part of the checkpoint",
        ),
        (
            {"a": "../../outside.safetensors"},
            "../../outside.safetensors",
            "is named by model.safetensors.index.json but no part of the checkpoint",
        ),
        ({}, "model.safetensors.index.json", "names no weights"),
        ([], "model.safetensors.index.json", "names no weights"),
    ],
)
def test_an_index_that_does_not_fit_its_shards_fails(
    weight_map: object, file: str, what: str, run: Path, sharded: Path
) -> None:
    (run.parent / "outside.safetensors").write_bytes(safetensors_bytes({"a": [1.0]}))
    index_of(sharded, {"weight_map": weight_map})
    for full in (False, True):
        report = check(run, full=full)
        assert report.status == "failed"
        assert told(report) == {file: what}


def test_an_unreadable_index_fails(run: Path, sharded: Path) -> None:
    (sharded / "model.safetensors.index.json").write_bytes(b"{")
    relist(sharded)
    report = check(run)
    assert report.status == "failed"
    assert told(report) == {"model.safetensors.index.json": "is no readable JSON object"}


def test_a_missing_shard_or_index_is_told_once(run: Path, sharded: Path) -> None:
    names = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    index_of(sharded, {"weight_map": {"a": names[0], "b": names[1]}})
    (sharded / names[0]).unlink()
    assert check(run).problems == (FileProblem(names[0], "is missing"),)
    (sharded / "model.safetensors.index.json").unlink()
    assert [p.what for p in check(run).problems] == ["is missing", "is missing"]


def test_b45_tied_weights_are_stored_once_and_pass(run: Path, folder: Path) -> None:
    (folder / "config.json").write_text('{"tie_word_embeddings": true}')
    (folder / WEIGHTS).write_bytes(safetensors_bytes({"embed.weight": [1.0, 2.0]}))
    relist(folder)
    assert check(run, full=True).status == "verified"


# --- links and names that lead out


def test_links_are_failures_and_never_followed(run: Path, folder: Path) -> None:
    secret = run.parent / "secret.json"
    secret.write_bytes((folder / "config.json").read_bytes())
    (folder / "config.json").unlink()
    (folder / "config.json").symlink_to(secret)
    report = check(run, full=True)
    assert report.status == "failed"
    assert told(report) == {"config.json": "is a link, not a file of this checkpoint"}


def test_a_linked_marker_or_index_is_not_followed(run: Path, sharded: Path) -> None:
    index = sharded / "model.safetensors.index.json"
    index_of(sharded, {"weight_map": {"a": "model-00001-of-00002.safetensors"}})
    index.rename(run.parent / "index.json")
    index.symlink_to(run.parent / "index.json")
    assert told(check(run)) == {index.name: "is a link, not a file of this checkpoint"}
    marker = sharded / "checkpoint.json"
    marker.rename(run.parent / "marker.json")
    marker.symlink_to(run.parent / "marker.json")
    report = check(run)
    assert report.status == "failed"
    assert told(report)["checkpoint.json"] == "is a link, not a file of this checkpoint"


def test_an_extra_link_is_a_warning(run: Path, folder: Path) -> None:
    (folder / "extra").symlink_to(run.parent)
    (folder / "dangling").symlink_to("nowhere")
    report = check(run, full=True)
    assert report.status == "warning"
    assert set(told(report)) == {"extra", "dangling"}


@pytest.mark.parametrize("name", ["../secret.json", "/etc/passwd", "a/../../secret.json", ".."])
def test_names_that_lead_out_fail_and_are_not_opened(name: str, run: Path, folder: Path) -> None:
    (run / "secret.json").write_bytes(b"secret")
    entry = {"name": name, "size": 6, "digest": digest(b"secret")}
    edit_marker(folder, lambda marker: marker["files"].append(entry))
    report = check(run, full=True)
    assert report.status == "failed"
    assert told(report) == {name: "leads out of the checkpoint"}


def test_a_name_listed_twice_with_two_sizes_fails(run: Path, folder: Path) -> None:
    entry = {"name": "config.json", "size": 1, "digest": None}
    edit_marker(folder, lambda marker: marker["files"].insert(0, entry))
    assert check(run).status == "failed"


# --- pickles


def zipped() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02}q\x00.")
    return stream.getvalue()


@pytest.mark.parametrize("name", ["optimizer.pt", "weights.pth", "pytorch_model.bin", "last.ckpt"])
def test_b36_a_torn_zip_fails_without_being_loaded(name: str, run: Path, folder: Path) -> None:
    (folder / name).write_bytes(zipped()[:100])
    extra = check(run)
    assert extra.status == "failed"
    assert FileProblem(name, "is cut off: its zip directory is missing") in extra.problems
    relist(folder)
    assert told(check(run)) == {name: "is cut off: its zip directory is missing"}
    (folder / name).write_bytes(zipped())
    relist(folder)
    assert check(run).status == "ok"


def test_other_files_may_begin_as_a_zip_does(run: Path, folder: Path) -> None:
    (folder / "notes.txt").write_bytes(zipped()[:100])
    relist(folder)
    assert check(run, full=True).status == "verified"


def test_b46_a_pickle_is_never_run(run: Path, folder: Path) -> None:
    pwned = run.parent / "PWNED"

    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (pwned,))

    (folder / "trap.pt").write_bytes(pickle.dumps(Trap()))
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Trap()))
    (folder / "trap.bin").write_bytes(stream.getvalue())
    relist(folder)
    assert check(run, full=True).status == "verified"
    assert not pwned.exists()
    pickle.loads((folder / "trap.pt").read_bytes())
    assert pwned.exists()


# --- digests


def test_without_all_digests_nothing_is_verified(run: Path, folder: Path) -> None:
    edit_marker(folder, lambda marker: marker["files"][0].update(digest=None))
    report = check(run, full=True)
    assert (report.status, report.problems) == ("ok", ())


def test_a_digest_of_an_unknown_kind_is_a_warning(run: Path, folder: Path) -> None:
    edit_marker(folder, lambda marker: marker["files"][0].update(digest="sha512:00"))
    report = check(run, full=True)
    assert report.status == "warning"
    assert told(report) == {"config.json": "has a digest of an unknown kind, sha512"}
    assert check(run).status == "ok"


# --- health


def test_b44_the_quick_check_takes_the_markers_word(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [100], nonfinite=["layer.weight", "other"])
    report = check(run)
    assert report.status == "warning"
    assert told(report) == {"": "weights hold NaN or infinity: layer.weight and 1 more"}


@pytest.mark.parametrize("name", [WEIGHTS, "generator.safetensors", "adapter_model.safetensors"])
def test_b44_the_full_check_reads_the_weights(name: str, run: Path, folder: Path) -> None:
    (folder / name).write_bytes(safetensors_bytes({"good": [1.0], "bad": [1.0, math.inf]}))
    relist(folder)
    assert check(run).status == "ok"
    report = check(run, full=True)
    assert report.status == "warning"
    assert told(report) == {"": "weights hold NaN or infinity: bad"}


def test_nan_in_recipe_state_is_no_fault_of_the_weights(run: Path, folder: Path) -> None:
    (folder / "recipe_state.safetensors").write_bytes(safetensors_bytes({"best": [math.nan]}))
    relist(folder)
    assert check(run, full=True).status == "verified"


# --- what is not ours, not yet, or not known


def test_an_unknown_layout_has_nothing_to_verify_against(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "step_10"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"")
    for full in (False, True):
        report = check(tmp_path / "run", full=full)
        assert report.status == "warning"
        assert "not written by a trainer that ckptui knows" in told(report)[""]
    bare = replace(only(tmp_path / "run"), problems=())
    assert verify_checkpoint(bare).problems == (
        FileProblem("", "was not checked: nothing tells what should be here"),
    )


def test_what_was_unknown_and_is_ours_by_now_is_checked(run: Path) -> None:
    unknown = replace(only(run), state=State.UNKNOWN)
    assert verify_checkpoint(unknown, full=True).status == "verified"


def test_a_newer_format_is_a_warning(run: Path, folder: Path) -> None:
    listed = only(run)
    edit_marker(folder, lambda marker: marker.update(format=2))
    for checkpoint in (listed, only(run)):
        report = verify_checkpoint(checkpoint, full=True)
        assert report.status == "warning"
        assert not report.looked
        what = "was not checked: checkpoint.json has format 2, newer than this ckptui knows"
        assert told(report) == {"": what}


def test_what_is_being_written_is_no_failure(run: Path) -> None:
    staged = replace(only(run), state=State.WRITING, staged=True)
    report = verify_checkpoint(staged, full=True)
    assert report.status == "warning"
    assert told(report) == {"": "was not checked: it is being written right now"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_cannot_be_read_fails_with_the_reason(run: Path, folder: Path) -> None:
    listed = only(run)
    (folder / WEIGHTS).chmod(0)
    for full in (False, True):
        report = verify_checkpoint(listed, full=full)
        assert report.status == "failed"
        assert told(report)[WEIGHTS] == "cannot be read: Permission denied"


def test_a_fifo_in_a_checkpoint_does_not_hang(run: Path, folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    os.mkfifo(folder / WEIGHTS)
    report = check(run, full=True)
    assert report.status == "failed"
    assert told(report) == {WEIGHTS: "is missing"}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_any_single_change_of_a_listed_file_is_found_in_full(
    tmp_path: Path, data: st.DataObject
) -> None:
    run = tmp_path / "run"
    if not run.exists():
        make_run(run, [100])
    folder = run / "step_100"
    listed = only(run)
    names = sorted(p.name for p in folder.iterdir() if p.name != "checkpoint.json")
    path = folder / data.draw(st.sampled_from(names))
    before = path.read_bytes()
    content = bytearray(before)
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content[: data.draw(st.sampled_from([len(content), place]))])
    try:
        report = verify_checkpoint(listed, full=True)
    finally:
        path.write_bytes(before)
    assert report.status == "failed"
    assert {problem.file for problem in report.problems} == {path.name}
