from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ckptui.checkpoint import Checkpoint, Pin, Problem, Root, Run, State
from tests.factory import make_run
from tests.tui.driver import ESC, SIZES, Driver, drive

if TYPE_CHECKING:
    from pathlib import Path

EVIL = [
    "step_[old]",
    "a[/b]",
    "[@click=app.quit]x[/]",
    "[bold]",
    "[/]",
    f"{ESC}]0;owned{ESC}\\",
    f"{ESC}[2J\u202e",
    "line\nbreak\r\t",
    "\udcff\udcfe",
]


def evil_root(path: Path) -> Root:
    """Everything that can carry a foreign string, carrying one."""
    runs = []
    for i, word in enumerate(["".join(EVIL), *EVIL]):
        run_path = path / f"run{i}{word}".replace("/", "")
        broken = Checkpoint(
            run=run_path,
            name=word,
            path=run_path / word.replace("/", ""),
            step=i,
            state=State.BROKEN,
            complete=False,
            resumable=False,
            metrics={word: 1.0, "eval_loss": 2.0},
            aliases=(word,),
            contains=(word,),
            nonfinite=(word,),
            pin=Pin(name=word, note=word, who=word),
            problems=(Problem(path=run_path, what=word),),
        )
        others = [
            replace(broken, name=other, path=run_path / str(n), state=State.OK, complete=True)
            for n, other in enumerate(EVIL)
        ]
        runs.append(
            Run(
                path=run_path,
                name=word,
                run_id=None,
                layout="native",
                checkpoints=(broken, *others),
                ignored=(word,),
                policy=(f"keep-best 1:{word}",),
                problems=(Problem(path=run_path, what=word),),
            )
        )
    return Root(path=path, runs=tuple(runs), ignored=tuple(EVIL))


@pytest.mark.parametrize("size", SIZES)
def test_hostile_text_is_shown_and_never_obeyed(tmp_path: Path, size: tuple[int, int]) -> None:
    def scan(path: Path, **_: object) -> Root:
        return evil_root(path)

    async def script(d: Driver) -> None:
        seen = d.text
        await d.press("escape")
        for _ in EVIL:
            await d.press("up")
            check(d.text)
            seen += d.text
        await d.press("enter")
        for key in ("space", "m", "enter", "c", "x", "T", "l", "r", "n", "V", "d", "s", "slash"):
            await d.press(key)
            check(d.text)
            seen += d.text
            while d.app.screen is not d.main:
                await d.press("escape")
            d.main.checkpoints.focus()
        d.app.say("[/b][@click=app.quit]" + ESC)
        d.app.explain("[/b]", "[/]" + ESC)
        await d.settle()
        check(d.text)
        assert "[/]" in d.text
        assert d.app.is_running
        for word in ("step_[old]", "a[/b]", "[bold]", "]0;owned"):
            assert word in seen

    drive(tmp_path, script, size=size, scan=scan)


def check(text: str) -> None:
    assert not set(text) & {ESC, "\u202e", "\r", "\t", "\x07", "\udcff", "\x85"}


def test_hostile_names_on_a_real_disk(tmp_path: Path) -> None:
    for name in ("run[old]", "a[b]", f"{ESC}]0;owned\x07", os.fsdecode(b"\xff\xfe")):
        try:
            make_run(tmp_path / name, [1], metrics={1: {"a[/b]": 1.0, f"{ESC}[2J": 2.0}})
        except (OSError, UnicodeError):
            continue  # a file system that knows no such names

    async def script(d: Driver) -> None:
        await d.press("escape", "home")
        for _ in range(4):
            assert ESC not in d.text
            await d.press("down", "y", "escape")
        assert "run[old]" in d.text

    drive(tmp_path, script, size=(160, 45))
