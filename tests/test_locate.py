"""From what a person types to the run or checkpoint meant, or a sentence with candidates."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ckptui import remove
from ckptui.errors import AmbiguousError, CkptuiError, NotFoundError, RefusedError, UsageError
from ckptui.locate import find_checkpoint, find_checkpoints, find_run
from ckptui.scan import scan_run
from tests.factory import make_checkpoint, make_run

if TYPE_CHECKING:
    from ckptui.checkpoint import Checkpoint


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(
        tmp_path / "root" / "run",
        [0, 10, 20, 30],
        metrics={
            10: {"eval_loss": 0.5, "f1": 0.5, "odd": 1.0},
            20: {"eval_loss": 0.2, "f1": 0.9, "odd": 2.0},
            30: {"eval_loss": 0.2, "f1": None, "odd": 3.0},
        },
    )


def find(text: str, run: Path, **more: str) -> Checkpoint:
    return find_checkpoint(text, run, cwd=run, env={}, **more)[1]


class TestRun:
    def test_a_path_to_a_run_a_checkpoint_or_a_root_with_one_run(self, run: Path) -> None:
        for given in (run, run / "step_10", run.parent, run.parent.parent):
            assert find_run(given, cwd=Path("/"), env={}) == run
        assert find_run(Path("run"), cwd=run.parent, env={}) == run
        assert find_run(Path("run/."), cwd=run.parent, env={}) == run
        assert find_run(Path("../run"), cwd=run, env={}) == run

    def test_without_a_path_the_environment_then_above_then_below(self, run: Path) -> None:
        other = make_run(run.parent / "other", [1])
        assert find_run(None, cwd=run, env={"CKPTUI_RUN": str(other)}) == other
        assert find_run(None, cwd=run / "step_10", env={"CKPTUI_RUN": ""}) == run
        with pytest.raises(AmbiguousError) as e:
            find_run(None, cwd=run.parent, env={})
        assert set(e.value.candidates) == {str(run), str(other)}

    def test_a_link_to_a_checkpoint_means_its_run(self, run: Path) -> None:
        (run / "latest").symlink_to("step_30")
        assert find_run(run / "latest", cwd=run, env={}) == run

    def test_none_and_nowhere_are_told(self, tmp_path: Path) -> None:
        with pytest.raises(NotFoundError, match="no run"):
            find_run(None, cwd=tmp_path, env={})
        with pytest.raises(NotFoundError):
            find_run(tmp_path / "none", cwd=tmp_path, env={})


class TestCheckpoint:
    @pytest.mark.parametrize(
        ("text", "name"),
        [
            ("step_10", "step_10"),
            ("10", "step_10"),
            ("0010", "step_10"),
            ("0", "step_0"),
            ("latest", "step_30"),
            ("best", "step_30"),
            ("best:eval_loss", "step_30"),
            ("best:f1", "step_20"),
            ("best:odd:max", "step_30"),
            ("best:odd:min", "step_10"),
        ],
    )
    def test_names_numbers_and_ranks(self, run: Path, text: str, name: str) -> None:
        assert find(text, run).name == name

    def test_paths_from_anywhere(self, run: Path) -> None:
        (run / "best").symlink_to("step_10")
        for text in (str(run / "step_10"), "./step_10", "../run/step_10/", "./best"):
            assert find(text, run).path == run / "step_10"

    def test_a_keyword_wins_over_a_name_and_a_name_over_an_alias(self, run: Path) -> None:
        (run / "latest").symlink_to("step_10")
        (run / "good").symlink_to("step_20")
        assert find("latest", run).name == "step_30"
        assert find("good", run).name == "step_20"

    def test_b24_a_number_that_two_have_is_refused(self, run: Path) -> None:
        make_checkpoint(run, "step_0010", step=10)
        with pytest.raises(AmbiguousError) as e:
            find("10", run)
        assert set(e.value.candidates) == {"step_10", "step_0010"}
        assert find("step_0010", run).name == "step_0010"

    def test_b115_an_absent_step_names_those_that_are_there(self, run: Path) -> None:
        with pytest.raises(NotFoundError) as e:
            find("999", run)
        assert "step_30" in e.value.candidates
        with pytest.raises(NotFoundError, match="Did you mean step_10"):
            find("step_1", run)
        with pytest.raises(NotFoundError) as e:
            find(str(run / "step_999"), run)
        assert "step_30" in e.value.candidates

    @pytest.mark.parametrize("text", ["", "-5", "--all"])
    def test_what_can_be_no_checkpoint_is_wrong_usage(self, run: Path, text: str) -> None:
        with pytest.raises(UsageError):
            find(text, run)

    @pytest.mark.parametrize(
        "text",
        [
            "..",
            ".",
            "/",
            "/etc",
            "x" * 5000,
            "9" * 5000,
            "./loop",
            "\u0663",
            "best:nothing",
            "a\nb",
        ],
    )
    def test_odd_words_are_refused_in_a_sentence(self, run: Path, text: str) -> None:
        (run / "loop").symlink_to("loop")
        with pytest.raises(CkptuiError):
            find(text, run)

    def test_an_unknown_direction_is_refused(self, run: Path) -> None:
        with pytest.raises(RefusedError, match="best:odd:min"):
            find("best:odd", run)

    def test_a_run_is_no_checkpoint(self, run: Path) -> None:
        with pytest.raises(NotFoundError, match="is a run"):
            find(str(run), run)

    def test_two_run_ids_need_a_choice(self, run: Path) -> None:
        make_checkpoint(run, "step_40", step=40, run_id="b" * 32)
        with pytest.raises(AmbiguousError, match="2 run ids"):
            find("latest", run)
        assert find("latest", run, run_id="bb").name == "step_40"
        assert find("latest", run, run_id="0123").name == "step_30"
        with pytest.raises(NotFoundError):
            find("latest", run, run_id="c")

    def test_nothing_complete_is_no_latest(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / "r")
        make_checkpoint(run, "step_1", step=1, marker=False)
        with pytest.raises(NotFoundError, match="no complete checkpoint"):
            find("latest", run)

    def test_an_item_in_the_trash_is_found_by_its_id_only(self, run: Path) -> None:
        item = remove.move_to_trash([find("10", run)], why="rm")
        found = find(item, run)
        assert (found.name, found.staged) == ("step_10", True)
        for text in ("step_10", "10"):
            with pytest.raises(NotFoundError):
                find(text, run)
        both = remove.move_to_trash([find("20", run), find("0", run)], why="rewind")
        with pytest.raises(AmbiguousError):
            find(both, run)

    def test_several_words_give_each_checkpoint_once(self, run: Path) -> None:
        found = find_checkpoints(["30", "latest", "step_10", "./step_10"], run, cwd=run, env={})
        assert [c.name for _, c in found] == ["step_30", "step_10"]

    def test_a_copied_checkpoint_stands_alone(self, run: Path, tmp_path: Path) -> None:
        make_checkpoint(tmp_path / "usb", "step_10", step=10)
        there, found = find_checkpoint(str(tmp_path / "usb" / "step_10"), cwd=run, env={})
        assert found.complete
        assert there.path == tmp_path / "usb"

    def test_an_undecodable_path_is_found(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / os.fsdecode(b"r\xff"), [1])
        assert find(str(run / "step_1"), run).name == "step_1"

    def test_the_record_is_that_of_the_scan(self, run: Path) -> None:
        there, found = find_checkpoint("latest", run, cwd=run, env={})
        assert there == scan_run(run)
        assert found in there.checkpoints
