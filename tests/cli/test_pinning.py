"""`pin` and `unpin`."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from ckptui import locate
from ckptui.scan import scan_run
from tests.cli import forms
from tests.cli.harness import answer, ckptui, names, ok
from tests.factory import make_checkpoint, make_run

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from ckptui.checkpoint import Run


def changed(*words: str | Path, code: int = 0) -> dict[str, Any]:
    found = answer(*words, code=code)
    forms.check(found, forms.PINS)
    return found


def test_pin_answers_with_what_changed_as_it_stands_now(run: Path) -> None:
    found = changed("pin", "step_10", "20", "latest", "--run", run, "--note", "why not")
    assert [(c["name"], c["pinned"], c["note"]) for c in found["changed"]] == [
        ("step_10", True, "why not"),
        ("step_20", True, "why not"),
        ("step_100", True, "why not"),
    ]
    assert found["unchanged"] == []
    assert found["changed"][2]["latest"] is True
    again = changed("pin", "step_10", "step_30", "--run", run)
    assert [c["name"] for c in again["changed"]] == ["step_30"]
    assert [(c["name"], c["note"]) for c in again["unchanged"]] == [("step_10", "why not")]
    other = changed("pin", "step_10", "--run", run, "--note", "better")
    assert [(c["name"], c["note"]) for c in other["changed"]] == [("step_10", "better")]


def test_unpin_takes_it_away_once(run: Path) -> None:
    ok("pin", "step_10", "--run", run)
    found = changed("unpin", "step_10", "step_20", "--run", run)
    assert [(c["name"], c["pinned"]) for c in found["changed"]] == [("step_10", False)]
    assert [c["name"] for c in found["unchanged"]] == ["step_20"]


def test_a_name_given_twice_counts_once(run: Path) -> None:
    found = changed("pin", "step_10", "10", run / "step_10", "--run", run)
    assert [c["name"] for c in found["changed"]] == ["step_10"]


def test_the_text_says_what_changed(run: Path) -> None:
    first = ok("pin", "step_10", "--run", run)
    assert (first.out, first.err) == ("pinned step_10\n", "")
    again = ok("pin", "step_10", "--run", run)
    assert (again.out, again.err) == ("", "step_10 was pinned already.\n")
    assert ok("unpin", "step_10", "--run", run).out == "unpinned step_10\n"
    assert ok("unpin", "step_10", "--run", run).err == "step_10 was not pinned.\n"


def test_all_are_found_before_the_first_is_pinned(run: Path) -> None:
    assert ckptui("pin", "step_10", "step_11", "--run", run).code == 1
    assert not (run / ".ckptui" / "pins").exists()


def test_one_that_fails_does_not_stop_the_others(run: Path) -> None:
    (run / "step_20" / "checkpoint.json").write_text('{"format": 99}')
    found = changed("pin", "step_10", "step_20", "step_30", "--run", run, code=1)
    assert [c["name"] for c in found["changed"]] == ["step_10", "step_30"]
    (failed,) = found["failed"]
    assert (failed["name"], failed["path"]) == ("step_20", str(run / "step_20"))
    told = ckptui("pin", "step_10", "step_20", "--run", run)
    assert told.code == 1
    assert "! step_20: " in told.err


def test_a_single_failure_is_the_error_itself(tmp_path: Path) -> None:
    run = tmp_path / "foreign"
    make_checkpoint(run, "step_1", step=1, marker=False)
    error = answer("pin", "step_1", "--run", run, code=1)
    forms.check(error, forms.ERROR)
    assert error["error"]["kind"] == "refused"
    assert not (run / ".ckptui").exists()


def test_an_incomplete_one_may_be_pinned(run: Path) -> None:
    make_checkpoint(run, "step_200", step=200, marker=False)
    assert changed("pin", "step_200", "--run", run)["changed"][0]["state"] == "partial"


def test_what_lies_in_the_trash_cannot_be_pinned_or_unpinned(run: Path) -> None:
    ok("rm", "step_10", "--run", run, "--yes")
    (item,) = answer("trash", "list", "--run", run)["items"]
    for command in ("pin", "unpin"):
        error = answer(command, item["id"], "--run", run, code=1)["error"]
        assert error["kind"] == "refused"
        assert "brings it back" in error["message"]


def test_many_names_cost_one_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path / "r", range(1, 31))
    scans = []

    def counted(path: Path) -> Run:
        scans.append(path)
        return scan_run(path)

    monkeypatch.setattr(locate, "scan_run", counted)
    ok("pin", *[f"step_{i}" for i in range(1, 31)], "--run", run)
    assert scans == [run]


def test_a_pinned_one_outlives_every_prune(run: Path) -> None:
    ok("pin", "step_10", "--run", run)
    ok("prune", run, "--keep-last", "1", "--yes")
    assert names(run) == ["step_10", "step_100"]
    shutil.rmtree(run / "step_10")
    assert ckptui("pin", "step_10", "--run", run).code == 1
