from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ckptui.errors import UsageError
from ckptui.metrics import read_metrics
from ckptui.scan import scan_run
from ckptui.tui import series
from ckptui.tui.filters import Context, parse_filter
from ckptui.tui.snapshot import view
from tests.factory import make_checkpoint, make_run
from tests.tui.driver import NOW

if TYPE_CHECKING:
    from pathlib import Path


def matching(tmp_path: Path, text: str) -> list[int | None]:
    path = tmp_path / "run"
    if not path.exists():
        make_run(
            path,
            [30, 270],
            metrics={30: {"eval_loss": 2.0}, 270: {"eval_loss": None}},
            policy=["keep-last 1"],
        )
        make_checkpoint(path, "step_9", step=9, marker=False)
    run = scan_run(path)
    context = Context(series.build(run, read_metrics(run.path, run.attempts)), NOW)
    test = parse_filter(text).test
    return [row.checkpoint.step for row in view(run, NOW).rows if test(row, context)]


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("", [9, 30, 270]),
        ("step_3", [30]),
        ("STEP 7", [270]),
        ("step>=30", [30, 270]),
        ("step<270 step>9", [30]),
        ("step=30 | step=270", [30, 270]),
        ("!step=30", [9, 270]),
        ("step!=30", [9, 270]),
        ("state:ok", [30, 270]),
        ("state!=ok", [9]),
        ("eval_loss<3", [30]),
        ("eval_loss!=3", [30]),
        ("has:eval_loss", [30, 270]),
        ("nobody>0", []),
        ("size>1K", [30, 270]),
        ("age>1h", [30, 270]),
        ("pin:yes", []),
        ("kept:newest", [270]),
        ("name=step_9", [9]),
    ],
)
def test_a_filter_chooses(tmp_path: Path, text: str, steps: list[int]) -> None:
    assert matching(tmp_path, text) == steps


@pytest.mark.parametrize(
    "text", ["step>", "step>x", "size>big", "age>soon", "state>ok", "| step>1", "step>1 |"]
)
def test_a_bad_filter_is_refused_with_its_part(text: str) -> None:
    with pytest.raises(UsageError):
        parse_filter(text)
