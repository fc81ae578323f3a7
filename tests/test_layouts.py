"""What a checkpoint's folder says, whatever lies in it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ckptui import schema
from ckptui.checkpoint import Checkpoint, State
from ckptui.layouts.files import list_files, size_once
from ckptui.layouts.marker import MarkerError, parse_marker, read_marker
from ckptui.scan import scan_run
from tests.factory import RUN_ID, make_checkpoint, make_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path / "run", [1, 2])


def at(run: Path, name: str = "step_2") -> Checkpoint:
    return next(c for c in scan_run(run).checkpoints if c.name == name)


def edit_marker(run: Path, name: str = "step_2", **changes: Any) -> None:
    path = run / name / schema.MARKER
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


class TestFiles:
    def test_every_regular_file_is_listed_with_its_size(self, tmp_path: Path) -> None:
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "x").write_bytes(b"12")
        (tmp_path / "y").write_bytes(b"345")
        (tmp_path / "link").symlink_to("y")
        os.mkfifo(tmp_path / "fifo")
        found = list_files(tmp_path)
        assert found.sizes == {"a/x": 2, "y": 3}
        assert found.links == ["link"]
        assert (found.size, found.shared, found.error) == (5, (), None)

    def test_links_are_not_followed_not_even_in_a_loop(self, tmp_path: Path) -> None:
        (tmp_path / "up").symlink_to(tmp_path)
        (tmp_path / "self").symlink_to("self")
        (tmp_path / "out").symlink_to("/etc")
        found = list_files(tmp_path)
        assert sorted(found.links) == ["out", "self", "up"]
        assert found.size == 0

    def test_a_folder_that_is_not_there_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            list_files(tmp_path / "none")

    def test_a_file_that_vanishes_meanwhile_costs_only_itself(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in "abc":
            (tmp_path / name).write_bytes(b"1")
        real = os.scandir

        class Vanishing:
            """A listing whose file `b` is gone by the time it is looked at."""

            def __init__(self, path: str) -> None:
                self.path, self.entries = Path(path), real(path)

            def __enter__(self) -> Vanishing:
                return self

            def __exit__(self, *_: object) -> None:
                self.entries.close()

            def __iter__(self) -> Any:
                for entry in sorted(self.entries, key=lambda e: e.name):
                    if entry.name == "b":
                        (self.path / "b").unlink()
                    yield entry

        monkeypatch.setattr(os, "scandir", Vanishing)
        assert list_files(tmp_path).sizes == {"a": 1, "c": 1}

    def test_b85_hard_links_count_once(self, tmp_path: Path) -> None:
        one, other = tmp_path / "one", tmp_path / "other"
        one.mkdir()
        other.mkdir()
        (one / "w").write_bytes(b"x" * 1000)
        os.link(one / "w", one / "again")
        os.link(one / "w", other / "w")
        first, second = list_files(one), list_files(other)
        assert (first.size, second.size) == (1000, 1000)
        assert (first.shared[0].links, first.shared[0].here) == (3, 2)
        assert size_once([(first.size, first.shared), (second.size, second.shared)]) == 1000


GOOD: dict[str, Any] = {
    "format": 1,
    "run_id": "r",
    "attempt": 2,
    "step": 5,
    "epoch": 0,
    "created": "2026-01-01T00:00:00Z",
    "contains": ["weights"],
    "resumable": True,
    "metrics": {"loss": 1.5, "lr": None},
    "files": [{"name": "a", "size": 1, "digest": "xxh3_128:00"}],
}


class TestMarker:
    def parse(self, **changes: Any) -> Any:
        return parse_marker(json.dumps({**GOOD, **changes}).encode())

    def test_a_marker_is_read(self) -> None:
        found = self.parse()
        assert (found.step, found.attempt, found.resumable) == (5, 2, True)
        assert found.metrics == {"loss": 1.5, "lr": None}
        assert found.files[0].name == "a"

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"{",
            b"null",
            b"[]",
            b'{"format": 1}',
            b"\x00" * 4096,
            b"[" * 200_000,
            b'{"format": 1, "files": [], "step": 1}',
            b'{"format": 1, "files": ["a"]}',
            b'{"format": 1, "files": [{"name": "", "size": 1}]}',
            b'{"format": 1, "files": [{"name": "a", "size": "1"}]}',
            b'{"format": 1, "files": [{"name": "a", "size": 1.0}]}',
            b'{"format": "1", "files": [{"name": "a", "size": 1}]}',
            b'{"format": true, "files": [{"name": "a", "size": 1}]}',
            b'{"format": 0, "files": [{"name": "a", "size": 1}]}',
            b'{"format": 1, "step": ' + b"9" * 5000 + b', "files": [{"name": "a", "size": 1}]}',
        ],
    )
    def test_damage_is_told(self, data: bytes) -> None:
        with pytest.raises(MarkerError) as e:
            parse_marker(data)
        assert not e.value.newer

    def test_a_newer_format_is_told_apart(self) -> None:
        with pytest.raises(MarkerError) as e:
            self.parse(format=2)
        assert e.value.newer

    @pytest.mark.parametrize("odd", [None, "5", -1, 1.5, True, [], {}])
    def test_values_of_the_wrong_type_are_unknown(self, odd: Any) -> None:
        found = self.parse(step=odd, attempt=odd, run_id=[odd], created={}, parent=[odd])
        assert (found.step, found.attempt) == (None, None)
        assert (found.run_id, found.created, found.parent) == (None, None, None)

    def test_only_true_is_resumable(self) -> None:
        for odd in (1, "true", None, [True]):
            assert not self.parse(resumable=odd).resumable

    def test_b132_metrics_that_strict_json_lacks_are_null(self) -> None:
        data = json.dumps({**GOOD, "metrics": {}}).replace(
            '"metrics": {}',
            '"metrics": {"a": NaN, "b": 1e400, "c": "Infinity", "d": null, "e": "text", "f": [1],'
            ' "g": true, "h": 1' + "0" * 400 + ', "i": 3}',
        )
        found = parse_marker(data.encode())
        assert found.metrics == dict.fromkeys("abcdh") | {"i": 3}

    def test_a_fifo_a_folder_and_a_huge_file_neither_hang_nor_crash(self, tmp_path: Path) -> None:
        for kind in ("fifo", "folder", "huge"):
            folder = tmp_path / kind
            folder.mkdir()
            marker = folder / schema.MARKER
            if kind == "fifo":
                os.mkfifo(marker)
            elif kind == "folder":
                marker.mkdir()
            else:
                with marker.open("wb") as f:
                    f.truncate(2**40)
            with pytest.raises(MarkerError):
                read_marker(str(folder))

    def test_a_file_system_that_reads_in_pieces_is_read_whole(
        self, run: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = os.read
        monkeypatch.setattr(os, "read", lambda fd, n: real(fd, min(n, 7)))
        assert at(run).state is State.OK


class TestCheckpoint:
    def test_a_whole_checkpoint_is_described(self, run: Path) -> None:
        found = at(run)
        assert (found.state, found.complete, found.resumable) == (State.OK, True, True)
        assert (found.step, found.run_id, found.attempt) == (2, RUN_ID, 1)
        assert found.size == sum(p.stat().st_size for p in found.path.iterdir())
        assert found.problems == ()

    def test_without_a_marker_it_is_partial_and_names_the_piece(self, run: Path) -> None:
        make_checkpoint(run, "step_9", step=9, marker=False)
        found = at(run, "step_9")
        assert (found.state, found.complete, found.step) == (State.PARTIAL, False, 9)
        assert found.problems[0].what == "checkpoint.json is missing"

    @pytest.mark.parametrize("content", [b"", b'{"step": 21', b"\x00" * 4096])
    def test_b28_a_torn_marker_is_partial(self, run: Path, content: bytes) -> None:
        (run / "step_2" / schema.MARKER).write_bytes(content)
        found = at(run)
        assert (found.state, found.step) == (State.PARTIAL, 2)
        assert schema.MARKER in found.problems[0].what

    def test_a_fifo_for_a_marker_is_partial(self, run: Path) -> None:
        (run / "step_2" / schema.MARKER).unlink()
        os.mkfifo(run / "step_2" / schema.MARKER)
        assert at(run).state is State.PARTIAL

    def test_a_newer_format_is_unknown(self, run: Path) -> None:
        edit_marker(run, format=7)
        found = at(run)
        assert found.state is State.UNKNOWN
        assert "newer" in found.problems[0].what

    @pytest.mark.parametrize("damage", ["missing", "short", "long", "link", "folder", "fifo"])
    def test_a_listed_file_that_is_not_as_written_makes_it_broken(
        self, run: Path, damage: str
    ) -> None:
        path = run / "step_2" / "model.safetensors"
        data = path.read_bytes()
        path.unlink()
        if damage == "short":
            path.write_bytes(data[:-5])
        elif damage == "long":
            path.write_bytes(data + b"x")
        elif damage == "link":
            (run / "elsewhere").write_bytes(data)
            path.symlink_to(run / "elsewhere")
        elif damage == "folder":
            path.mkdir()
        elif damage == "fifo":
            os.mkfifo(path)
        found = at(run)
        assert (found.state, found.complete, found.resumable) == (State.BROKEN, False, False)
        assert "model.safetensors" in found.problems[0].what

    @pytest.mark.parametrize(
        "name", ["../step_1/config.json", "/etc/passwd", "a/../../step_1/config.json", ".", "./x"]
    )
    def test_a_marker_cannot_vouch_for_files_outside(self, run: Path, name: str) -> None:
        size = (run / "step_1" / "config.json").stat().st_size
        edit_marker(run, files=[{"name": name, "size": size, "digest": None}])
        assert at(run).state is State.BROKEN

    def test_weights_and_adapters_are_complete_but_not_resumable(self, run: Path) -> None:
        edit_marker(run, resumable=False)
        assert at(run).state is State.WEIGHTS
        edit_marker(run, contains=["weights", "adapter"])
        found = at(run)
        assert (found.state, found.complete, found.resumable) == (State.ADAPTER, True, False)

    def test_the_state_wins_over_the_name_and_the_difference_is_told(self, run: Path) -> None:
        edit_marker(run, step=799)
        found = at(run)
        assert found.step == 799
        assert "799" in found.problems[0].what

    def test_b25_an_unknown_step_stays_unknown_and_zero_is_a_step(self, run: Path) -> None:
        make_checkpoint(run, "epoch_3", step=None, epoch=3)
        make_checkpoint(run, "step_0", step=0)
        assert at(run, "epoch_3").step is None
        assert at(run, "step_0").step == 0
        names = [c.name for c in scan_run(run).checkpoints]
        assert names == ["step_0", "step_1", "step_2", "epoch_3"]

    def test_hostile_texts_are_carried_as_they_are(self, run: Path) -> None:
        evil = "\x1b[2J[red]\nx\u202e"
        edit_marker(run, metrics={evil: 1.0}, contains=[evil], created=evil, nonfinite=[evil])
        found = at(run)
        assert dict(found.metrics) == {evil: 1.0}
        assert found.created is None
        assert found.complete

    def test_a_checkpoint_of_an_abandoned_branch_is_not_current(self, tmp_path: Path) -> None:
        run = make_run(
            tmp_path / "r",
            [10, 20, 30],
            attempts=[{"attempt": 1, "start_step": 0}, {"attempt": 2, "start_step": 10}],
        )
        make_checkpoint(run, "step_15", step=15, attempt=2)
        assert {c.name: c.current for c in scan_run(run).checkpoints} == {
            "step_10": True,
            "step_15": True,
            "step_20": False,
            "step_30": False,
        }
