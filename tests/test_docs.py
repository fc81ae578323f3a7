"""What the documents say is so: their code runs and their fields are there."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

import ckptui
from ckptui import pins, remove
from ckptui.cli import main
from ckptui.fields import FIELDS
from ckptui.filters import parse_filter
from ckptui.preferences import NAMES, load
from ckptui.retention import KeepBest, KeepEvery, KeepLast, plan_prune
from ckptui.scan import scan_run
from ckptui.tui.every_key import all_screens
from tests.factory import make_run

HERE = Path(__file__).parent.parent
README = HERE / "README.md"

pytestmark = pytest.mark.skipif(
    not README.exists(), reason="the documents are not beside the tests"
)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(), flags=re.DOTALL)


def test_every_command_line_of_the_readme_is_understood() -> None:
    lines = [
        line.split("#")[0].removeprefix("$ ").strip()
        for block in blocks("console")
        for line in block.splitlines()
        if line.startswith("$ ckptui")
    ]
    assert len(lines) >= 7
    for line in lines:
        words = shlex.split(line)[1:]
        result = CliRunner().invoke(main, [words[0], "--help"])
        assert result.exit_code == 0, line
        for option in (w for w in words if w.startswith("--")):
            assert option in result.output, f"{line}: {words[0]} has no {option}"


def test_every_line_filter_and_setting_of_the_usage_page_is_understood(tmp_path: Path) -> None:
    text = (HERE / "docs" / "usage.md").read_text()
    lines = re.findall(r"^\$ ckptui (.*)$", text, re.MULTILINE)
    assert len(lines) >= 7
    for line in lines:
        words = shlex.split(re.split(r" [|>]| #", re.sub(r"'[^']*'", "x", line))[0])
        result = CliRunner().invoke(main, [words[0], "--help"])
        for option in (w for w in words if w.startswith("-") and w != "-size"):
            assert option in result.output, line
    terms = re.findall(r"^\| (`.*?) \|", text.partition("## Settings")[0], re.MULTILINE)
    found = [term for row in terms for term in re.findall(r"`([^`]+)`", row)]
    assert len(found) > 20
    for term in [*found, *re.findall(r"--filter '([^']*)'", text)]:
        parse_filter(term)
    fields = {re.match(r"\W*([a-z]*)", term)[1] for term in found}  # type: ignore[index]
    assert set(FIELDS) <= fields
    (block,) = re.findall(r"```toml\n(.*?)```", text, flags=re.DOTALL)
    (tmp_path / "c.toml").write_text(block)
    loaded = load({"CKPTUI_CONFIG": str(tmp_path / "c.toml")})
    assert {loaded.origins[name] for name in NAMES} == {"file"}
    source = "".join(p.read_text() for p in Path(ckptui.__file__).parent.rglob("*.py"))
    for variable in re.findall(r"^\| `([A-Z_]+)`", text, re.MULTILINE):
        assert f'"{variable}"' in source or variable == "NO_COLOR"


def test_the_retention_table_of_the_readme_is_what_the_plan_says(tmp_path: Path) -> None:
    rows = re.findall(
        r"^\| (\d+) +\| (\S+) +\| (kept|removed): (.*?) +\|$", README.read_text(), re.MULTILINE
    )
    assert len(rows) == 6
    metrics = {
        int(step): {"eval_loss": None if value == "nan" else float(value)}
        for step, value, _, _ in rows
    }
    run = make_run(tmp_path / "run", metrics, metrics=metrics)
    plan = plan_prune(
        scan_run(run).checkpoints,
        [KeepLast(2), KeepEvery(1000), KeepBest(1, "eval_loss")],
        now=datetime.now(UTC),
    )
    words = {"keep": "kept", "remove": "removed"}
    said = [(str(r.checkpoint.step), words[r.action], ", ".join(r.reasons)) for r in plan.rows]
    assert said == [(step, action, why) for step, _, action, why in rows]


@pytest.mark.torch
def test_the_training_loop_of_the_readme_runs_and_resumes(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (loop,) = blocks("python")
    assert len(loop.strip().splitlines()) <= 35
    short = tmp_path / "short.py"
    short.write_text(loop.replace("step < 200", "step < 100"))
    whole = tmp_path / "train.py"
    whole.write_text(loop)
    straight = tmp_path / "straight"
    straight.mkdir()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE)}
    for script, folder in ((short, tmp_path), (whole, tmp_path), (whole, straight)):
        done = subprocess.run(
            [sys.executable, str(script)],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
    resumed = scan_run(tmp_path / "outputs" / "loop")
    assert [c.name for c in resumed.checkpoints][-1] == "step_200"
    assert len(resumed.attempts) == 2
    weights = [
        (root / "outputs/loop/step_200/model.safetensors").read_bytes()
        for root in (tmp_path, straight)
    ]
    assert weights[0] == weights[1]


@pytest.mark.torch
def test_every_field_on_disk_is_described_in_the_format(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    import ckptui

    described = (HERE / "docs" / "format.md").read_text()
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    with ckptui.TrainingRun(tmp_path / "run", policy=["keep-last 2"]) as run:
        run.register(model=model, optimizer=optimizer)
        run.resume()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        run.log(1, loss=1.0)
        run.save(1, epoch=0)
        lock = json.loads((run.path / ".ckptui/lock").read_text())
        run.save(2, epoch=0)
    saved = {c.name: c for c in scan_run(run.path).checkpoints}
    pins.pin(saved["step_1"], note="why")
    pin = json.loads((run.path / ".ckptui/pins/step_1.json").read_text())
    pins.unpin(saved["step_1"])
    item = remove.move_to_trash([saved["step_1"]], why="rm")
    entry = json.loads((run.path / ".ckptui/trash" / item / "entry.json").read_text())
    folder = run.path / "step_2"
    written = {
        "run.json": json.loads((run.path / "run.json").read_text()),
        "attempt": json.loads((run.path / "run.json").read_text())["attempts"][0],
        "checkpoint.json": json.loads((folder / "checkpoint.json").read_text()),
        "recipe_state.json": json.loads((folder / "recipe_state.json").read_text()),
        "journal": json.loads((run.path / ".ckptui/journal.jsonl").read_text().splitlines()[0]),
        "lock": lock,
        "pin": pin,
        "entry": entry,
    }
    for file, content in written.items():
        for key in content:
            assert f"`{key}`" in described, f"docs/format.md does not describe {key} of {file}"


@pytest.mark.torch
def test_every_setting_of_the_recipe_is_described() -> None:
    from recipe_integration.config import SETTINGS

    described = (HERE / "docs" / "recipe.md").read_text()
    told = [n for n in SETTINGS if f"`{n}`" in described or f"`{n}." in described]
    assert set(SETTINGS) == set(told)


def test_the_page_about_the_browser_lists_every_key() -> None:
    rows = (HERE / "docs" / "browser.md").read_text().splitlines()
    for kind in all_screens():
        for key in kind.KEYS:
            assert f"| {kind.HEADING} | `{key.shown}` | `{key.act}` | {key.help} |" in rows
