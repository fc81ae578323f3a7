"""The command that a prune preview copies does what the plan on the screen says."""

from __future__ import annotations

import os
import shlex
import shutil
from typing import TYPE_CHECKING

import pytest

from ckptui.scan import scan_run
from ckptui.tui.screens.copying import CopyDialog
from ckptui.tui.screens.prune import PruneScreen
from tests.cli.harness import ok
from tests.factory import make_checkpoint
from tests.tui.driver import Driver, drive, small_run
from tests.tui.test_gone import look

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(autouse=True)
def _no_tmux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMUX", raising=False)


def preview(d: Driver) -> PruneScreen:
    assert isinstance(d.app.screen, PruneScreen)
    return d.app.screen


def paths(run: Path) -> set[Path]:
    return {c.path for c in scan_run(run).checkpoints}


def replace(run: Path) -> None:
    """Another checkpoint takes the name of one."""
    remove(run)
    created = "2026-01-01T11:00:00.000000Z"
    make_checkpoint(run, "step_900", step=900, created=created, weights=[7.0, 7.0])


def remove(run: Path) -> None:
    shutil.rmtree(run / "step_900")


def nothing(run: Path) -> None:
    """The disk stays as it is."""
    del run


@pytest.mark.parametrize(
    ("keys", "rules", "change"),
    [
        pytest.param(["down", "space", "space", "d"], "", replace, id="chosen, then replaced"),
        pytest.param(["down", "space", "space", "d"], "", remove, id="chosen, then gone"),
        pytest.param(["x", "down", "space"], "", replace, id="let go, then replaced"),
        pytest.param(["x", "down", "space"], "", remove, id="let go, then gone"),
        pytest.param(["x", "down", "space"], "keep-last 1", nothing, id="let go, then by rules"),
        pytest.param(["x"], "keep-last 4, keep-last 1", nothing, id="a rule twice"),
        pytest.param(["x"], "-- keep-last 2, keep-best 1:eval_loss:min", nothing, id="spelled"),
        pytest.param(["x", "down", "down", "space"], "", remove, id="rules, and one gone"),
    ],
)
def test_the_copied_line_does_what_the_plan_says(
    tmp_path: Path, keys: list[str], rules: str, change: Callable[[Path], None]
) -> None:
    run = small_run(tmp_path / "run")
    left: set[Path] = set()

    async def script(d: Driver) -> None:
        await d.press(*keys)
        if rules:
            await d.press("e", "ctrl+u", *rules, "enter")
        change(run)
        await look(d)
        plan = preview(d).plan
        assert plan is not None
        assert plan.removals
        left.update(paths(run) - {row.checkpoint.path for row in plan.removals})
        await d.press("y")
        assert isinstance(d.app.screen, CopyDialog)

        for line in d.app.screen.text.split(" && "):
            ok(*shlex.split(line)[1:], "--yes")

    drive(run, script)
    assert paths(run) == left
    assert run / "step_1000" in left


def test_a_name_kept_by_hand_that_is_gone_is_not_in_the_line(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("x")
        for name in ("step_800", "step_700"):
            preview(d).table.select(run / name)
            await d.press("space")
        shutil.rmtree(run / "step_800")
        await look(d)
        await d.press("y")
        assert d.app.clipboard.endswith("--keep step_700")

    drive(run, script)


def test_one_press_lets_go_what_has_the_name_of_one_let_go_before(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("x", "down", "space")
        replace(run)
        await look(d)
        assert "remove 8" in d.text
        await d.press("space")
        assert "remove 9" in d.text
        await d.press("space")
        assert "remove 8" in d.text

    drive(run, script)


def test_no_line_is_offered_that_cannot_work(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("down", "d")
        assert "y copy" in d.text
        await d.press("space")
        assert "y copies" not in d.text
        assert "y copy" not in d.text
        await d.press("y")
        assert "Nothing goes by this plan, so there is no command." in d.text
        await d.press("escape", "x", "e", *", keep-foo 3", "enter", "y")
        assert "There is no plan now" in d.text
        await d.press("e", "ctrl+u", *"keep-last 9", "enter", "M")
        assert "Prune: done" in d.text
        assert "y copies" not in d.text
        await d.press("y")
        assert isinstance(d.app.screen, PruneScreen)

    drive(run, script, size=(100, 30))


def test_no_line_names_one_that_another_hides(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    left = make_checkpoint(run / ".ckptui" / "staging", "step_900-dead", step=900, marker=False)
    for path in (*left.iterdir(), left):
        os.utime(path, (1, 1))

    async def script(d: Driver) -> None:
        (one,) = [c for c in scan_run(run).checkpoints if c.staged]
        await d.press("x")
        preview(d).table.select(one.path)
        await d.press("space")
        assert "remove 9" in d.text
        await d.press("y")
        assert "No command can name this step_900" in d.text

    drive(run, script)
