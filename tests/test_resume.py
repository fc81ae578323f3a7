"""Where training begins: every row of the contract's table, and every command run twice."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ckptui import TrainingRun, pins, remove, scan
from ckptui.errors import (
    AmbiguousError,
    CkptuiError,
    NewerFormatError,
    NotFoundError,
    NotResumableError,
    RefusedError,
    RunExistsError,
    StorageError,
    UsageError,
)
from ckptui.resume import decide
from ckptui.scan import scan_run
from tests.factory import RUN_ID, make_checkpoint, make_run
from tests.sweep import tree

if TYPE_CHECKING:
    from ckptui.resume import Decision


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path / "run", [1, 2, 3])


def chosen(decision: Decision) -> str | None:
    return decision.checkpoint.name if decision.checkpoint else None


def damage(folder: Path, name: str = "model.safetensors") -> None:
    """Other content of the same size: only the digest tells."""
    path = folder / name
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))


def begin(path: Path, **more: Any) -> TrainingRun:
    """Enter and leave once, as a process that is killed before its first save."""
    with TrainingRun(path, report=lambda _: None, **more) as training:
        return training


class TestFresh:
    @pytest.mark.parametrize("resume", [None, ""])
    def test_null_is_fresh_and_refused_where_a_run_is(
        self, tmp_path: Path, run: Path, resume: str | None
    ) -> None:
        assert decide(tmp_path / "new", resume).action == "fresh"
        with pytest.raises(RunExistsError, match="already holds a run"):
            decide(run, resume)

    def test_a_folder_with_other_things_in_it_is_fresh(self, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").write_text("x")
        assert decide(tmp_path, None).action == "fresh"

    def test_b97_somebody_elses_steps_are_never_trained_into(self, tmp_path: Path) -> None:
        (tmp_path / "theirs" / "step_500").mkdir(parents=True)
        for resume in (None, "auto", "latest"):
            with pytest.raises(RunExistsError, match="did not write"):
                decide(tmp_path / "theirs", resume)

    def test_a_checkpoint_is_no_place_for_a_run(self, run: Path) -> None:
        for resume in (None, "auto"):
            with pytest.raises(RefusedError, match="is a checkpoint"):
                decide(run / "step_1", resume)

    def test_deciding_changes_nothing(self, run: Path) -> None:
        before = tree(run)
        for resume in ("auto", "latest", run / "step_3"):
            decide(run, resume)
        assert tree(run) == before
        assert not (run / ".ckptui").exists()


class TestWords:
    @pytest.mark.parametrize("word", ["auto", "latest"])
    def test_the_newest_resumable_is_continued(self, run: Path, word: str) -> None:
        found = decide(run, word)
        assert (found.action, chosen(found), found.attempt) == ("continue", "step_3", 2)
        assert found.messages == ()

    def test_no_run_is_fresh_for_auto_and_an_error_for_latest(self, tmp_path: Path) -> None:
        assert decide(tmp_path / "new", "auto").action == "fresh"
        with pytest.raises(NotFoundError):
            decide(tmp_path / "new", "latest")

    def test_a_run_that_saved_nothing_starts_again_with_the_next_attempt(
        self, tmp_path: Path
    ) -> None:
        run = make_run(tmp_path / "run")
        make_checkpoint(run, "step_5", step=5, marker=False)
        found = decide(run, "auto")
        assert (found.action, chosen(found), found.attempt) == ("restart", None, 2)
        with pytest.raises(NotFoundError):
            decide(run, "latest")
        assert begin(run).run_id == RUN_ID

    def test_complete_but_none_resumable_is_refused(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / "run", [1], resumable=False)
        for word in ("auto", "latest"):
            with pytest.raises(NotResumableError, match="weights only"):
                decide(run, word)

    def test_b41_a_newer_one_without_optimizer_is_passed_over_and_told(self, run: Path) -> None:
        make_checkpoint(run, "step_9", step=9, resumable=False)
        found = decide(run, "auto")
        assert chosen(found) == "step_3"
        assert "step_9 is newer but cannot be resumed" in found.messages[0]

    def test_b26_incomplete_ones_are_passed_over_and_told(self, run: Path) -> None:
        make_checkpoint(run, "step_8", step=8, marker=False)
        make_checkpoint(run, "step_9", step=9)
        (run / "step_9" / "recipe_state.json").unlink()
        found = decide(run, "auto")
        assert chosen(found) == "step_3"
        told = " ".join(found.messages)
        assert "step_8 is partial" in told
        assert "recipe_state.json is missing" in told

    def test_damage_steps_back_with_a_line(self, run: Path) -> None:
        damage(run / "step_3")
        found = decide(run, "auto")
        assert chosen(found) == "step_2"
        assert "step_3 is damaged and passed over" in found.messages[0]

    def test_all_damaged_is_refused_rather_than_started_over(self, run: Path) -> None:
        for name in ("step_1", "step_2", "step_3"):
            damage(run / name)
        with pytest.raises(NotResumableError, match="Every resumable"):
            decide(run, "auto")

    def test_what_is_known_to_be_sound_is_not_read_again(self, run: Path) -> None:
        first = decide(run, "auto")
        damage(run / "step_3")
        assert chosen(decide(run, "auto", verified=first.checkpoint)) == "step_3"

    def test_abandoned_and_staged_ones_are_never_continued(self, tmp_path: Path) -> None:
        run = make_run(
            tmp_path / "run",
            [1, 2, 3],
            attempts=[{"attempt": 1, "start_step": 0}, {"attempt": 2, "start_step": 1}],
        )
        make_checkpoint(run / ".ckptui" / "staging", "step_9-ab", step=9)
        found = decide(run, "auto")
        assert (chosen(found), found.attempt) == ("step_1", 3)

    def test_two_run_ids_are_refused(self, run: Path) -> None:
        make_checkpoint(run, "step_9", step=9, run_id="b" * 32)
        with pytest.raises(AmbiguousError):
            decide(run, "auto")

    def test_weights_that_are_not_finite_are_told(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / "run", [1], nonfinite=["w"])
        assert "NaN or infinity" in decide(run, "auto").messages[0]


class TestWhatCannotBeRead:
    @pytest.mark.parametrize("newer", [True, False])
    def test_nothing_goes_on_below_one_that_cannot_be_judged(self, run: Path, newer: bool) -> None:
        """It may be sound: going on would abandon it."""
        marker = run / "step_3" / "checkpoint.json"
        if newer:
            marker.write_text(json.dumps({**json.loads(marker.read_text()), "format": 2}))
        else:
            marker.unlink()
            marker.symlink_to(marker)
        for word in ("auto", "latest"):
            with pytest.raises(NotResumableError, match="cannot be judged"):
                decide(run, word)

    def test_an_older_one_that_cannot_be_judged_stops_nothing(self, run: Path) -> None:
        marker = run / "step_1" / "checkpoint.json"
        marker.write_text(json.dumps({**json.loads(marker.read_text()), "format": 2}))
        assert chosen(decide(run, "auto")) == "step_3"

    def test_a_run_file_of_a_newer_ckptui_stops_everything(self, run: Path) -> None:
        (run / "run.json").write_text('{"format": 2}')
        for resume in ("auto", run / "step_1"):
            with pytest.raises(NewerFormatError):
                decide(run, resume)

    def test_a_damaged_run_file_costs_its_attempts_only(self, run: Path) -> None:
        (run / "run.json").write_text("{")
        found = decide(run, "auto")
        assert (chosen(found), found.attempt) == ("step_3", 2)

    def test_a_damaged_run_file_without_checkpoints_is_not_started_over(
        self, tmp_path: Path
    ) -> None:
        run = make_run(tmp_path / "run")
        (run / "run.json").write_text("{")
        with pytest.raises(NotResumableError, match="damaged"):
            decide(run, "auto")

    def test_a_folder_that_cannot_be_listed_is_no_fresh_start(
        self, run: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(_: Path) -> object:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(scan, "list_entries", fail)
        for resume in (None, "auto", run / "step_1"):
            with pytest.raises(StorageError):
                decide(run, resume)

    def test_a_run_file_that_cannot_be_read_decides_nothing(self, run: Path) -> None:
        (run / "run.json").unlink()
        (run / "run.json").symlink_to("run.json")
        with pytest.raises(StorageError):
            decide(run, "auto")


class TestPaths:
    def test_elsewhere_forks(self, run: Path, tmp_path: Path) -> None:
        for source, name in ((run / "step_1", "step_1"), (run, "step_3")):
            found = decide(tmp_path / "fork", source)
            assert (found.action, chosen(found), found.attempt) == ("fork", name, 1)

    def test_a_fork_that_began_goes_on_like_auto(self, run: Path, tmp_path: Path) -> None:
        fork, source = tmp_path / "fork", run / "step_1"
        begin(fork, resume=source)
        found = decide(fork, source)
        assert (found.action, chosen(found), found.attempt) == ("fork", "step_1", 2)
        assert decide(fork, "auto").action == "fork"
        make_checkpoint(fork, "step_2", step=2, run_id=str(scan_run(fork).run_id))
        for words in (source, str(source), "auto", "latest"):
            found = decide(fork, words)
            assert (found.action, chosen(found)) == ("continue", "step_2")
            assert found.checkpoint is not None
            assert found.checkpoint.run == fork

    def test_the_same_words_work_once_the_source_is_gone(self, run: Path, tmp_path: Path) -> None:
        fork, source = tmp_path / "fork", run / "step_1"
        begin(fork, resume=source)
        make_checkpoint(fork, "step_2", step=2, run_id=str(scan_run(fork).run_id))
        remove.move_to_trash([scan_run(run).checkpoints[0]], why="rm")
        assert chosen(decide(fork, source)) == "step_2"

    def test_a_runs_path_goes_on_although_that_run_has_advanced(
        self, run: Path, tmp_path: Path
    ) -> None:
        begin(tmp_path / "fork", resume=run)
        make_checkpoint(run, "step_4", step=4)
        found = decide(tmp_path / "fork", run)
        assert (found.action, chosen(found)) == ("fork", "step_3")

    def test_another_fork_in_the_folder_is_refused(self, run: Path, tmp_path: Path) -> None:
        begin(tmp_path / "fork", resume=run / "step_1")
        other = make_run(tmp_path / "other", [1], run_id="c" * 32)
        for source in (run / "step_2", other / "step_1", other):
            with pytest.raises(RunExistsError, match="holds another run"):
                decide(tmp_path / "fork", source)

    def test_the_newest_inside_continues_and_an_older_one_is_refused(self, run: Path) -> None:
        assert decide(run, run / "step_3").action == "continue"
        with pytest.raises(RefusedError, match="rewind=2"):
            decide(run, run / "step_1")

    def test_a_rewind_is_made_once_and_the_same_words_go_on(self, run: Path) -> None:
        words: dict[str, Any] = {"resume": run / "step_1", "rewind": 2}
        found = decide(run, run / "step_1", rewind=2)
        assert (found.action, chosen(found), found.attempt) == ("rewind", "step_1", 2)
        begin(run, **words)
        assert [c.name for c in scan_run(run).checkpoints] == ["step_1"]
        make_checkpoint(run, "step_2", step=2, attempt=2)
        make_checkpoint(run, "step_7", step=7, attempt=2)
        found = decide(run, run / "step_1", rewind=2)
        assert (found.action, chosen(found), found.attempt) == ("continue", "step_7", 3)
        assert len(remove.list_trash(run)) == 1

    def test_a_rewind_through_a_link_is_made_once_too(self, run: Path, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(run)
        begin(run, resume=run / "step_1", rewind=2)
        found = decide(run, tmp_path / "link" / "step_1", rewind=2)
        assert (found.action, found.attempt) == ("continue", 3)

    def test_a_rewind_with_another_number_is_wrong_usage(self, run: Path) -> None:
        with pytest.raises(UsageError, match="the next one is 2"):
            decide(run, run / "step_1", rewind=7)

    def test_a_rewind_abandons_nothing_pinned(self, run: Path) -> None:
        pins.pin(scan_run(run).checkpoints[1])
        with pytest.raises(RefusedError, match="step_2, which is pinned"):
            decide(run, run / "step_1", rewind=2)

    def test_b133_two_rewinds_in_a_row_leave_one_history(self, run: Path) -> None:
        begin(run, resume=run / "step_2", rewind=2)
        make_checkpoint(run, "step_3", step=3, attempt=2)
        begin(run, resume=run / "step_1", rewind=3)
        found = scan_run(run)
        assert [c.name for c in found.checkpoints] == ["step_1"]
        assert [(a.attempt, a.start_step) for a in found.attempts] == [(1, 0), (2, 2), (3, 1)]
        assert [i.names for i in remove.list_trash(run)] == [("step_3",), ("step_2", "step_3")]

    def test_an_abandoned_one_is_not_gone_back_to(self, tmp_path: Path) -> None:
        run = make_run(
            tmp_path / "run",
            [1, 2],
            attempts=[{"attempt": 1, "start_step": 0}, {"attempt": 2, "start_step": 1}],
        )
        with pytest.raises(RefusedError, match="abandoned branch"):
            decide(run, run / "step_2", rewind=3)
        assert decide(tmp_path / "fork", run / "step_2").action == "fork"

    def test_a_path_refuses_damage_and_weights(self, run: Path, tmp_path: Path) -> None:
        damage(run / "step_3")
        with pytest.raises(NotResumableError, match="is damaged"):
            decide(run, run / "step_3")
        make_checkpoint(run, "step_9", step=9, resumable=False)
        with pytest.raises(NotResumableError, match="weights only"):
            decide(tmp_path / "fork", run / "step_9")

    def test_b115_an_absent_one_names_those_that_are_there(self, run: Path) -> None:
        with pytest.raises(NotFoundError) as e:
            decide(run, run / "step_999")
        assert "step_3" in e.value.candidates

    @pytest.mark.parametrize("odd", ["/", "/etc", "/etc/passwd", "no/where", "loop", "\x1b[2J"])
    def test_odd_paths_are_refused_in_a_sentence(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, odd: str
    ) -> None:
        monkeypatch.chdir(tmp_path)
        Path("loop").symlink_to("loop")
        with pytest.raises(CkptuiError):
            decide(tmp_path / "out", odd)

    def test_a_copied_checkpoint_and_a_moved_run_are_found(self, run: Path, tmp_path: Path) -> None:
        make_checkpoint(tmp_path / "usb", "step_3", step=3)
        assert decide(tmp_path / "fork", tmp_path / "usb" / "step_3").action == "fork"
        run.rename(tmp_path / "moved")
        assert chosen(decide(tmp_path / "moved", "auto")) == "step_3"

    def test_a_link_to_a_checkpoint_stands_for_it(self, run: Path, tmp_path: Path) -> None:
        (run / "best").symlink_to("step_2")
        found = decide(tmp_path / "fork", run / "best")
        assert found.checkpoint is not None
        assert found.checkpoint.path == run / "step_2"
        assert os.fspath(found.checkpoint.run) == str(run)
