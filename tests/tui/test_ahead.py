"""What keys need is there before they are pressed."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from tests.cli.harness import environment
from tests.tui.driver import small_run

if TYPE_CHECKING:
    from pathlib import Path

PRESS_ALL = """
import asyncio, sys
from pathlib import Path
from ckptui.tui import ahead
from ckptui.tui.app import Browser
from ckptui.tui.wishes import Wishes

KEYS = [
    "slash s t enter escape", "s escape", "s down enter", "M escape", "p", "n escape", "x escape",
    "d escape", "z", "r escape", "c left escape", "equals_sign escape", "enter 2 3 4 5 6 escape",
    "V escape", "T escape", "l escape", "y escape", "question_mark escape", "colon escape", "m",
]

async def main(run):
    app = Browser(run, Wishes(refresh=False))
    async with app.run_test(size=(120, 40)) as pilot:
        while app.jobs.oldest_running() is not None or not app.main.checkpoints.rows:
            await pilot.pause(0.01)
        ahead.bring()
        before = set(sys.modules)
        for keys in KEYS:
            await pilot.press(*keys.split())
            for _ in range(200):
                if app.jobs.oldest_running() is None:
                    break
                await pilot.pause(0.01)
            assert app.screen is app.main, (keys, app.screen)
    late = (n for n in sys.modules if n not in before)
    print(*sorted(n for n in late if n.partition(".")[0] in {"ckptui", "textual"}))

asyncio.run(main(Path(sys.argv[1])))
"""


def test_no_key_has_to_import_what_it_needs(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    done = subprocess.run(
        [sys.executable, "-c", PRESS_ALL, run],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
