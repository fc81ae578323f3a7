"""`diff`: two checkpoints or two runs, in words and in JSON."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli import forms
from tests.cli.harness import answer, ckptui, ok
from tests.factory import make_checkpoint, make_run

if TYPE_CHECKING:
    from pathlib import Path

ROW = {"key": str, "kind": forms.words("same", "changed", "removed", "added", "unknown")}
DIFF = {
    "version": forms.whole,
    "a": {"what": str, "name": str, "path": forms.path},
    "b": {"what": str, "name": str, "path": forms.path},
    "differs": bool,
    "facts": [ROW],
    "config": [ROW],
    "metrics": [
        {
            **ROW,
            "which": forms.words("here", "best", "last"),
            "a": (forms.number, forms.NONE),
            "b": (forms.number, forms.NONE),
            "difference": (forms.number, forms.NONE),
        }
    ],
    "files": [ROW],
    "tensors": [ROW],
    "problems": [str],
}


def differing(*words: str | Path) -> dict[str, Any]:
    found = answer("diff", *words)
    forms.check(found, DIFF)
    return found


@pytest.fixture
def other(run: Path) -> Path:
    """A run beside the first, with other settings."""
    path = make_run(run.parent / "other", [30], metrics={30: {"eval_loss": 0.3}})
    (path / "config.yaml").write_text("seed: 1\n")
    return path


def test_checkpoints_are_named_as_everywhere_and_only_what_differs_is_listed(run: Path) -> None:
    found = differing("10", "latest", "--run", run)
    assert (found["a"]["name"], found["b"]["name"]) == ("step_10", "step_100")
    assert [r["key"] for r in found["facts"]] == ["step"]
    assert found["config"] == []
    (eval_loss,) = (m for m in found["metrics"] if m["key"] == "eval_loss")
    assert eval_loss["difference"] == pytest.approx(-0.3)
    # The log counts too where the marker is silent, at exactly the step.
    assert {m["key"]: (m["a"], m["b"]) for m in found["metrics"]}["loss"] == (0.9, 0.09)
    assert {f["key"] for f in found["files"]} == {"model.safetensors", "recipe_state.json"}
    assert found["tensors"] == []
    text = ok("diff", "10", "latest", "--run", run).out
    assert "Config: 1 the same" in text
    assert "-0.3 better" in text
    assert "other content" in text
    assert "config.json" not in text


def test_all_lists_what_is_the_same_too(run: Path) -> None:
    found = differing("step_10", "step_20", "--run", run, "--all")
    assert {(r["key"], r["kind"]) for r in found["config"]} == {("seed", "same")}
    assert "config.json" in {f["key"] for f in found["files"]}
    assert "seed" in ok("diff", "step_10", "step_20", "--run", run, "--all").out


def test_the_exit_code_tells_of_a_difference_only_when_asked(run: Path) -> None:
    assert ckptui("diff", "step_10", "step_20", "--run", run).code == 0
    assert ckptui("diff", "step_10", "step_20", "--run", run, "--fail-on-diff").code == 1
    assert ckptui("diff", "step_10", "step_10", "--run", run, "--fail-on-diff").code == 0
    assert answer("diff", "step_10", "step_20", "--run", run, "--fail-on-diff", code=1)["differs"]
    (run / "step_10" / "recipe_config.yaml").write_bytes(b"a: [ ")
    found = ckptui("diff", "step_10", "step_10", "--run", run, "--fail-on-diff")
    assert found.code == 1
    assert "recipe_config.yaml is no readable YAML." in found.err


def test_runs_are_compared_by_path_or_by_name_where_they_stand(
    run: Path, other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = differing(run, other)
    assert (found["a"]["what"], found["b"]["what"]) == ("run", "run")
    assert found["config"] == [{"key": "seed", "a": 0, "b": 1, "kind": "changed"}]
    assert ("eval_loss", "best") in {(m["key"], m["which"]) for m in found["metrics"]}
    assert {r["key"] for r in found["facts"]} >= {"checkpoints", "last_step"}
    monkeypatch.chdir(run.parent)
    assert differing("my-run", "other")["config"] == found["config"]
    text = ok("diff", "my-run", "other").out
    assert "0.1 @30" in text
    assert "Files" not in text


def test_checkpoints_of_two_runs_are_compared_by_path(run: Path, other: Path) -> None:
    found = differing(run / "step_30", other / "step_30")
    assert found["facts"] == []
    assert [m["key"] for m in found["metrics"]] == ["eval_loss", "loss", "lr"]


def test_a_run_and_a_checkpoint_cannot_be_compared(run: Path) -> None:
    error = answer("diff", run, "step_10", "--run", run, code=1)
    forms.check(error, forms.ERROR)
    assert error["error"]["kind"] == "refused"
    assert "compare two checkpoints or two runs" in error["error"]["message"]


def test_what_is_not_there_is_a_sentence(run: Path) -> None:
    for words in (
        ("step_10", "step_11", "--run", run),
        ("./none", "step_10", "--run", run),
        (run.parent / "none", run),
    ):
        assert answer("diff", *words, code=1)["error"]["kind"] == "not_found"
    assert answer("diff", "", "step_10", "--run", run, code=2)["error"]["kind"] == "usage"


def test_hostile_settings_are_shown_and_never_obeyed(run: Path) -> None:
    evil = "\\x1b]0;owned\\x07[red]"
    text = f'"k{evil}": "v{evil}"\nseed: 1\n'
    make_checkpoint(
        run, "step_200", step=200, extra_files={"recipe_config.yaml": os.fsencode(text)}
    )
    out = ok("diff", "step_10", "step_200", "--run", run).out
    assert "\x1b" not in out
    assert "\\x1b]0;owned\\x07[red]" in out
    assert differing("step_10", "step_200", "--run", run)["config"]


def test_tensors_in_a_form_that_is_not_read_are_said_to_be_not_read(tmp_path: Path) -> None:
    run = tmp_path / "run"
    for name in ("step_6", "step_12"):
        (run / name).mkdir(parents=True)
        (run / name / "__0_0.distcp").write_bytes(b"\0" * 64)
    out = ok("diff", run / "step_6", run / "step_12").out
    assert "Tensors: not read" in out
    assert "Of A and B: tensors are read from safetensors files alone" in out
    assert "none on either side" not in out.split("Tensors:")[1]
