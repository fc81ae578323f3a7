"""The first frame: names of the newest checkpoints, before anything else is read."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from ckptui.checkpoint import Root
from ckptui.tui.app import Browser
from ckptui.tui.early import FIRST, Early, names_of
from ckptui.tui.wishes import Wishes
from tests.factory import make_run

if TYPE_CHECKING:
    from pathlib import Path


def test_the_newest_names_are_known_and_nothing_is_believed_of_them(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", range(1, FIRST + 51))
    (run / "step_x").mkdir()
    (run / "step_999").write_text("no folder")
    view = names_of(run)
    assert view is not None
    assert len(view.rows) == FIRST
    assert view.rows[-1].checkpoint.name == f"step_{FIRST + 50}"
    assert all(row.unread and not row.checkpoint.complete for row in view.rows)
    assert len(view.run.unread) == FIRST + 50


def test_a_folder_without_checkpoints_and_a_missing_one_have_no_names(tmp_path: Path) -> None:
    assert names_of(tmp_path) is None
    early = Early(tmp_path / "missing")
    assert early.view(30) is None
    assert early.failed


def test_names_are_on_the_first_frame_and_the_rest_comes_behind(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", range(1, FIRST + 51))
    go = threading.Event()

    def slow(path: Path, **_: object) -> Root:
        go.wait(60)
        from ckptui.scan import scan

        return scan(path)

    async def script() -> None:
        early = Early(path)
        early.view(30)
        app = Browser(path, Wishes(refresh=False), scan=slow, early=early)
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.pause()
            assert app.main.current is not None
            assert app.main.current.checkpoint.name == f"step_{FIRST + 50}"
            assert f"{FIRST + 50} checkpoints, 0 read" in app.frame
            assert "reading" in app.frame
            await pilot.press("down", "p")
            await pilot.pause()
            assert "is still being read" in app.frame
            assert app.main.current.checkpoint.name == f"step_{FIRST + 49}"
            go.set()
            for _ in range(1000):
                await pilot.pause(0.01)
                if not app.main.current.unread:
                    break
            assert app.main.current.checkpoint.name == f"step_{FIRST + 49}"
            assert len(app.main.checkpoints.rows) == FIRST + 50
            assert app.main.current.checkpoint.complete

    asyncio.run(script())
