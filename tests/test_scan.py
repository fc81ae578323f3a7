"""From a directory to records: nothing hidden, nothing followed, nothing changed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ckptui import leases, lock, pins, remove, schema
from ckptui.checkpoint import Run, State
from ckptui.errors import NotFoundError, StorageError
from ckptui.scan import absolute, is_run, kind_of, scan, scan_run, through_link
from tests.factory import RUN_ID, make_checkpoint, make_run
from tests.users import as_ordinary_user


def names(run: Run) -> list[str]:
    return [c.name for c in run.checkpoints]


def snapshot(path: Path) -> dict[str, tuple[int, int]]:
    return {str(p): (p.lstat().st_size, p.lstat().st_mtime_ns) for p in sorted(path.rglob("*"))}


class TestKinds:
    def test_a_root_a_run_and_a_checkpoint_are_told_apart(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / "run", [1])
        assert kind_of(tmp_path) == "root"
        assert kind_of(run) == "run"
        assert kind_of(run / "step_1") == "checkpoint"
        assert is_run(run)
        assert not is_run(tmp_path)
        assert not is_run(tmp_path / "none")

    def test_a_run_may_have_a_checkpoints_name(self, tmp_path: Path) -> None:
        make_run(tmp_path / "step_5", [1])
        assert kind_of(tmp_path / "step_5") == "run"

    def test_a_link_to_a_checkpoint_stands_for_it(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / "run", [1, 2])
        (run / "latest").symlink_to("step_2")
        (run / "best").symlink_to("latest")
        (tmp_path / "away").symlink_to(run / "step_1")
        assert through_link(run / "latest") == run / "step_2"
        assert through_link(run / "best").name == "step_2"
        assert kind_of(tmp_path / "away") == "checkpoint"
        root = scan(run / "latest")
        assert names(root.runs[0]) == ["step_2"]
        (tmp_path / "to-run").symlink_to(run)
        assert kind_of(tmp_path / "to-run") == "run"
        assert scan_run(tmp_path / "to-run").path == tmp_path / "to-run"

    @pytest.mark.parametrize("kind", ["missing", "file", "loop", "dangling"])
    def test_what_is_no_directory_is_told_in_a_sentence(self, tmp_path: Path, kind: str) -> None:
        path = tmp_path / "x"
        if kind == "file":
            path.write_bytes(b"")
        elif kind == "loop":
            path.symlink_to(path)
        elif kind == "dangling":
            path.symlink_to("nowhere")
        for look in (kind_of, scan, scan_run):
            with pytest.raises((NotFoundError, StorageError)):
                look(path)

    def test_paths_lose_their_dots_but_not_their_links(self, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to("real")
        assert absolute(tmp_path / "a" / ".." / "link" / ".") == tmp_path / "link"


class TestRoots:
    def test_runs_are_found_at_every_level_that_is_searched(self, tmp_path: Path) -> None:
        for level in range(1, 8):
            make_run(tmp_path.joinpath(*"abcdefg"[:level]) / "run", [level])
        root = scan(tmp_path)
        assert [r.path.relative_to(tmp_path).as_posix() for r in root.runs] == [
            "a/b/c/d/e/run",
            "a/b/c/d/run",
            "a/b/c/run",
            "a/b/run",
            "a/run",
        ]
        assert "deeper than 6 levels" in root.problems[0].what
        assert len(scan(tmp_path, depth=9).runs) == 7

    def test_some_folders_are_never_searched(self, tmp_path: Path) -> None:
        for folder in (".hidden", "site-packages", "node_modules", "__pycache__"):
            make_run(tmp_path / folder / "run", [1])
        make_run(tmp_path / "run", [1])
        make_run(tmp_path / "run" / "step_1" / "inner", [1])
        make_run(tmp_path / "elsewhere", [1])
        (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
        (tmp_path / "loop").symlink_to(tmp_path)
        assert [r.name for r in scan(tmp_path).runs] == ["elsewhere", "run"]

    def test_an_empty_root_has_no_runs(self, tmp_path: Path) -> None:
        assert scan(tmp_path).runs == ()

    def test_runs_are_reported_as_they_are_found_and_a_scan_can_be_stopped(
        self, tmp_path: Path
    ) -> None:
        for name in "abcd":
            make_run(tmp_path / name, [1])
        seen: list[str] = []
        scan(tmp_path, on_run=lambda r: seen.append(r.name), cancelled=lambda: len(seen) >= 2)
        assert seen == ["a", "b"]

    def test_a_scan_changes_nothing(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / "run", [1, 2])
        pins.pin(scan_run(run).checkpoints[0])
        before = snapshot(tmp_path)
        scan(tmp_path)
        assert snapshot(tmp_path) == before

    def test_an_unreadable_folder_costs_only_itself(self, open_folder: Path) -> None:
        """As an ordinary user: a locked run, a locked checkpoint and a locked sub-folder."""
        run = make_run(open_folder / "run", [1, 2, 3])
        (run / "step_2").chmod(0)
        (run / "step_3" / "sub").mkdir(mode=0)
        (make_run(open_folder / "locked", [1])).chmod(0)
        assert as_ordinary_user(
            open_folder,
            "root = scan.scan(folder)\n"
            "print([(c.name, str(c.state)) for r in root.runs for c in r.checkpoints])\n"
            "print([p.path.name for p in root.problems])",
        ) == [
            "[('step_1', 'ok'), ('step_2', 'unknown'), ('step_3', 'unknown')]",
            "['locked']",
        ]


class TestRuns:
    def test_a_run_is_described(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / "run", [10, 9, 100], policy=["keep-last 3"])
        (run / "notes.txt").write_text("x")
        found = scan_run(run)
        assert names(found) == ["step_9", "step_10", "step_100"]
        assert (found.run_id, found.layout, found.live) == (RUN_ID, "native", False)
        assert found.policy == ("keep-last 3",)
        assert found.ignored == ("notes.txt",)
        assert found.size == sum(c.size for c in found.checkpoints)
        assert found.problems == ()

    @pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": 99}', b"\x00" * 100])
    def test_an_unreadable_run_file_leaves_a_native_run_with_a_problem(
        self, tmp_path: Path, content: bytes
    ) -> None:
        run = make_run(tmp_path / "run", [1, 2])
        (run / "run.json").write_bytes(content)
        found = scan_run(run)
        assert (found.layout, found.attempts, found.policy) == ("native", (), None)
        assert names(found) == ["step_1", "step_2"]
        assert all(c.state is State.OK for c in found.checkpoints)
        assert "run.json" in found.problems[0].what

    def test_a_marker_alone_makes_a_native_run_and_nothing_else_does(self, tmp_path: Path) -> None:
        make_checkpoint(tmp_path / "native", "step_1", step=1)
        (tmp_path / "native" / "step_2").mkdir()
        found = scan_run(tmp_path / "native")
        assert found.layout == "native"
        assert [c.state for c in found.checkpoints] == [State.OK, State.PARTIAL]
        for n in (1, 2):
            (tmp_path / "theirs" / f"step_{n}").mkdir(parents=True)
        found = scan_run(tmp_path / "theirs")
        assert found.layout == "unknown"
        assert {c.state for c in found.checkpoints} == {State.UNKNOWN}

    def test_b55_links_are_aliases_and_dangling_ones_are_told(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / "run", [200, 300])
        (run / "best").symlink_to("step_200")
        (run / "last").symlink_to(run / "step_300")
        (run / "step_400").symlink_to("step_300")
        (run / "old").symlink_to("step_050")
        (run / "loop").symlink_to("loop")
        (run / "out").symlink_to("/etc")
        found = scan_run(run)
        assert {c.name: c.aliases for c in found.checkpoints} == {
            "step_200": ("best",),
            "step_300": ("last", "step_400"),
        }
        assert found.ignored == ("out",)
        told = " ".join(p.what for p in found.problems)
        assert "old points to step_050, which is not there" in told
        assert "loop points to loop, which is not there" in told

    def test_a_run_reached_through_a_link_knows_its_aliases(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / "real" / "run", [1])
        (run / "latest").symlink_to("step_1")
        (tmp_path / "link").symlink_to(tmp_path / "real")
        found = scan_run(tmp_path / "link" / "run")
        assert found.checkpoints[0].aliases == ("latest",)

    def test_a_link_for_our_own_folder_is_told(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / "run", [1])
        (tmp_path / "outside").mkdir()
        (run / ".ckptui").symlink_to(tmp_path / "outside")
        assert any("is a link" in p.what for p in scan_run(run).problems)

    def test_a_link_with_a_checkpoints_name_is_no_checkpoint(self, tmp_path: Path) -> None:
        elsewhere = make_run(tmp_path / "elsewhere", [7])
        run = make_run(tmp_path / "run", [1])
        (run / "step_7").symlink_to(elsewhere / "step_7")
        (run / "step_8").symlink_to(run)
        assert names(scan_run(run)) == ["step_1"]

    def test_two_run_ids_in_one_folder_are_told(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / "run", [1])
        make_checkpoint(run, "step_2", step=2, run_id="b" * 32)
        found = scan_run(run)
        assert found.run_id is None
        assert found.run_ids == (RUN_ID, "b" * 32)
        assert "2 runs" in found.problems[0].what

    def test_b24_two_names_of_one_number_are_told(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / "run", [100])
        make_checkpoint(run, "step_0100", step=100)
        found = scan_run(run)
        assert len(found.checkpoints) == 2
        assert "two names of one number" in found.problems[0].what

    def test_b137_a_lower_step_saved_later_is_told(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / "run")
        make_checkpoint(run, "step_60", step=60, created="2026-01-01T00:00:00Z")
        make_checkpoint(run, "step_1", step=1, created="2026-01-02T00:00:00Z")
        assert "saved after" in scan_run(run).problems[0].what

    def test_the_trash_is_counted_and_never_listed(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / "run", [1, 2, 3])
        gone = scan_run(run).checkpoints[0]
        remove.move_to_trash([gone], why="rm")
        (run / ".ckptui" / "trash" / "left-by-a-crash").mkdir()
        found = scan_run(run)
        assert names(found) == ["step_2", "step_3"]
        assert found.trash_count == len(remove.list_trash(run)) == 1
        assert found.trash_size >= gone.size

    def test_a_pin_without_its_checkpoint_is_told_unless_it_is_in_the_trash(
        self, tmp_path: Path
    ) -> None:
        run = make_run(tmp_path / "run", [1, 2])
        pins.pin(scan_run(run).checkpoints[0])
        shutil.rmtree(run / "step_1")
        assert "step_1 is pinned but is not there" in [p.what for p in scan_run(run).problems]

    def test_a_lease_protects(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / "run", [1, 2])
        leases.write_lease(scan_run(run).checkpoints[0], fork=tmp_path / "f", fork_run_id="f" * 32)
        assert list(scan_run(run).protected) == ["step_1"]

    def test_hostile_names_come_back_as_they_are(self, tmp_path: Path) -> None:
        raw = os.fsencode(tmp_path) + b"/ru\xffn\n\x1b[2J"
        run = make_run(Path(os.fsdecode(raw)), [1])
        (run / os.fsdecode(b"st\xe9p_\n1")).mkdir()
        (run / "step_5\n").mkdir()
        (run / "step_\u0663").mkdir()
        root = scan(tmp_path)
        assert os.fsencode(root.runs[0].path) == raw
        assert names(root.runs[0]) == ["step_1"]
        assert len(root.runs[0].ignored) == 3

    def test_a_scan_of_a_run_that_changes_gives_every_checkpoint_whole_or_not_at_all(
        self, tmp_path: Path
    ) -> None:
        run = make_run(tmp_path / "run", range(1, 8))
        code = (
            "import sys; from pathlib import Path; from ckptui import remove\n"
            "from ckptui.scan import scan_run\n"
            "run = Path(sys.argv[1])\n"
            "for _ in range(40):\n"
            "    moved = remove.move_to_trash(scan_run(run).checkpoints, why='rm')\n"
            "    remove.restore(remove.find_item(run, moved))\n"
        )
        child = subprocess.Popen([sys.executable, "-c", code, str(run)])
        while child.poll() is None:
            for c in scan_run(run).checkpoints:
                assert c.state is State.OK, c.problems
        assert child.returncode == 0
        assert len(scan_run(run).checkpoints) == 7


class TestStaging:
    def staged(self, run: Path, name: str = "step_5-abcdef") -> Path:
        return make_checkpoint(run / ".ckptui" / "staging", name, step=5)

    def test_what_a_live_owner_stages_is_being_written(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / "run", [1])
        self.staged(run)
        with lock.acquire(run, report=lambda _: None):
            found = scan_run(run)
        assert found.live
        staged = found.checkpoints[-1]
        assert (staged.name, staged.state, staged.staged) == ("step_5", State.WRITING, True)
        assert not staged.complete
        assert staged.path.parent.name == "staging"

    def test_what_a_dead_owner_left_is_partial(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / "run", [1])
        held = lock.acquire(run, report=lambda _: None)
        held._stop.set()
        path = lock.lock_path(run)
        path.write_text(json.dumps({**json.loads(path.read_text()), "start_time": 1}))
        self.staged(run, f"step_5-{held.token}aa")
        found = scan_run(run)
        assert not found.live
        assert found.checkpoints[-1].state is State.PARTIAL
        assert "never finished" in found.checkpoints[-1].problems[0].what

    def test_without_a_lock_only_old_staging_is_given_up(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / "run", [1])
        folder = self.staged(run)
        assert scan_run(run).checkpoints[-1].state is State.WRITING
        old = time.time() - 2 * 3600
        for path in (*folder.iterdir(), folder):
            os.utime(path, (old, old))
        assert scan_run(run).checkpoints[-1].state is State.PARTIAL

    def test_odd_names_in_staging_are_no_checkpoints(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / "run", [1])
        staging = run / schema.TOOL_DIR / schema.STAGING
        for name in ("x", "step_5", "-", "step_x-aa"):
            (staging / name).mkdir(parents=True)
        (staging / "step_6-aa").symlink_to(run / "step_1")
        assert names(scan_run(run)) == ["step_1"]
