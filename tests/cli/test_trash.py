"""`trash list`, `restore` and `empty`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.cli import forms
from tests.cli.harness import answer, ckptui, names, ok, tree
from tests.factory import make_checkpoint

if TYPE_CHECKING:
    from pathlib import Path


def items(run: Path) -> list[dict[str, Any]]:
    found = answer("trash", "list", "--run", run)
    forms.check(found, forms.TRASH)
    return list(found["items"])


def results(*words: str | Path, code: int = 0) -> list[dict[str, Any]]:
    found = answer(*words, code=code)
    forms.check(found, forms.TRASH_RESULTS)
    return list(found["results"])


def test_list_tells_what_when_and_why(run: Path) -> None:
    size = sum(len(d) for d in tree(run / "step_10").values())
    ok("rm", "step_10", "--run", run, "--yes")
    ok("prune", run, "--keep-last", "2", "--yes")
    first, second = items(run)
    assert (first["name"], first["step"], first["why"], first["size"]) == (
        "step_10",
        10,
        "rm",
        size,
    )
    assert first["path"] == str(run / ".ckptui" / "trash" / first["id"] / "step_10")
    assert (first["run"], first["pinned"]) == (str(run), False)
    assert (second["name"], second["why"]) == ("step_20", "prune")
    lines = ok("trash", "list", "--run", run).out.splitlines()
    assert [line.split()[0] for line in lines] == ["id", first["id"], second["id"]]


def test_an_empty_trash_is_no_failure(run: Path) -> None:
    assert items(run) == []
    assert ok("trash", "list", "--run", run).err == f"The trash of {run} is empty.\n"


def test_restore_brings_back_the_same_bytes_by_name_or_id(run: Path) -> None:
    before = {n: tree(run / n) for n in ("step_10", "step_20")}
    ok("rm", "step_10", "step_20", "--run", run, "--yes")
    found = items(run)
    done = results("trash", "restore", "step_10", found[1]["id"], "--run", run)
    assert [(r["id"], r["name"], r["done"], r["error"], r["freed"]) for r in done] == [
        (i["id"], i["name"], True, None, 0) for i in found
    ]
    assert {n: tree(run / n) for n in before} == before
    assert items(run) == []


def test_restore_onto_a_taken_name_is_refused_and_the_others_come_back(run: Path) -> None:
    ok("rm", "step_10", "step_20", "--run", run, "--yes")
    make_checkpoint(run, "step_10", step=10)
    done = results("trash", "restore", "step_10", "step_20", "--run", run, code=1)
    assert [(r["name"], r["done"]) for r in done] == [("step_10", False), ("step_20", True)]
    assert "taken" in done[0]["error"]
    told = ckptui("trash", "restore", "step_10", "--run", run)
    assert told.code == 1
    assert "! step_10: " in told.err


def test_what_is_not_there_is_not_found_and_nothing_is_restored(run: Path) -> None:
    ok("rm", "step_10", "--run", run, "--yes")
    found = answer("trash", "restore", "step_10", "step_11", "--run", run, code=1)
    forms.check(found, forms.ERROR)
    assert found["error"]["kind"] == "not_found"
    assert "step_10" in found["error"]["candidates"][0]
    assert "step_10" not in names(run)


def test_one_name_twice_in_the_trash_needs_the_id(run: Path) -> None:
    ok("rm", "step_10", "--run", run, "--yes")
    make_checkpoint(run, "step_10", step=10)
    ok("rm", "step_10", "--run", run, "--yes")
    error = answer("trash", "restore", "step_10", "--run", run, code=1)["error"]
    assert error["kind"] == "ambiguous"
    assert error["candidates"] == [i["id"] for i in items(run)]


def test_empty_gives_the_space_back(run: Path) -> None:
    ok("rm", "step_10", "step_20", "--run", run, "--yes")
    (first, second) = items(run)
    done = results("trash", "empty", first["id"], "--run", run, "--yes")
    assert [(r["id"], r["done"], r["freed"]) for r in done] == [(first["id"], True, first["size"])]
    told = ok("trash", "empty", "--run", run, "--yes")
    assert told.out.startswith("deleted step_20, freed ")
    assert items(run) == []
    assert second["id"] not in str(list((run / ".ckptui" / "trash").iterdir()))


def test_empty_without_yes_off_a_terminal_is_wrong_usage(run: Path) -> None:
    assert ckptui("trash", "empty", "--run", run).code == 2
    ok("rm", "step_10", "--run", run, "--yes")
    assert ckptui("trash", "empty", "--run", run).code == 2
    error = answer("trash", "empty", "--run", run, code=2)
    forms.check(error, forms.ERROR)
    assert len(items(run)) == 1


def test_older_than_leaves_the_younger(run: Path) -> None:
    ok("rm", "step_10", "step_20", "--run", run, "--yes")
    old = items(run)[0]
    entry = run / ".ckptui" / "trash" / old["id"] / "entry.json"
    record = json.loads(entry.read_text())
    entry.write_text(json.dumps({**record, "when": "2020-01-01T00:00:00Z"}))
    done = results("trash", "empty", "--older-than", "7d", "--run", run, "--yes")
    assert [r["id"] for r in done] == [old["id"]]
    assert results("trash", "empty", "--older-than", "7d", "--run", run, "--yes") == []
    for bad in ("7", "0.5d", "", "x"):
        assert ckptui("trash", "empty", "--older-than", bad, "--run", run, "--yes").code == 2


def test_a_pinned_item_goes_only_when_named(run: Path) -> None:
    ok("rm", "step_10", "step_20", "--run", run, "--yes")
    pins = run / ".ckptui" / "pins"
    pins.mkdir()
    (pins / "step_10.json").write_text("{}")
    assert [i["pinned"] for i in items(run)] == [True, False]
    told = ok("trash", "empty", "--run", run, "--yes")
    assert "step_10 is pinned and stays in the trash" in told.err
    assert [i["name"] for i in items(run)] == ["step_10"]
    results("trash", "empty", "step_10", "--run", run, "--yes")
    assert items(run) == []


def test_bare_trash_is_help(run: Path) -> None:
    found = ok("trash")
    assert "restore" in found.out
