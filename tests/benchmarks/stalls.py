"""One process that drives the browser, or a stock table with the same rows, under a heartbeat.

`python -m tests.benchmarks.stalls browser|table RUN` prints what it met as JSON; `browser.py`
starts it, several times and in turn. The terminal is Textual's headless one, 120x40: everything is
composed and drawn, only the writing of the bytes is left out.
"""

from __future__ import annotations

import asyncio
import gc
import json
import shutil
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.app import App
from textual.message import Message
from textual.widgets import DataTable, Input

from ckptui.scan import scan
from ckptui.tui.app import Browser
from ckptui.tui.listing import SORTS
from ckptui.tui.wishes import Wishes
from tests.benchmarks.heartbeat import Heartbeat
from tests.factory import make_checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import ComposeResult
    from textual.pilot import Pilot

    from ckptui.checkpoint import Checkpoint

SIZE = (120, 40)
FILTERS = ("step>=9", "99", "eval_loss<1.01")
"""Typed one character after the other."""
PAGES = 25


async def until(holds: Callable[[], bool], pilot: Pilot[Any], *, patience: float = 120.0) -> None:
    """Let the loop go on until something holds."""
    end = asyncio.get_running_loop().time() + patience
    while not holds():
        if asyncio.get_running_loop().time() > end:
            raise TimeoutError
        await asyncio.sleep(0.005)
    await pilot.pause()


async def press(pilot: Pilot[Any], *keys: str) -> None:
    """Press keys one after the other, as a person does: each is answered before the next."""
    for key in keys:
        await pilot.press(key)
        await asyncio.sleep(0.02)


def spelled(text: str) -> list[str]:
    """The keys of a text, as the pilot knows them."""
    names = {">": "greater_than_sign", "<": "less_than_sign", "=": "equals_sign"}
    names |= {".": "full_stop", "_": "underscore"}
    return [names.get(c, c) for c in text]


async def browser(run: Path, beat: Heartbeat) -> None:
    """The browser: loads, sorts, filters, pages, and takes in a refresh."""
    app = Browser(run, Wishes(refresh=False, ascii_only=False))

    def idle() -> bool:
        return app.jobs.oldest_running() is None

    with beat.phase("first frame"):
        context = app.run_test(size=SIZE)
        pilot = await context.__aenter__()
    table = app.main.checkpoints
    count = sum(1 for p in run.iterdir() if p.name.startswith("step_"))
    with beat.phase("loading"):
        await until(lambda: len(table.rows) == count and idle(), pilot)
        await asyncio.sleep(0.2)
        await until(idle, pilot)
    with beat.phase("nothing"):
        await asyncio.sleep(1.0)
    with beat.phase("sorting"):
        for at in range(len(SORTS)):
            await press(pilot, "s", "home", *["down"] * at, "enter")
            await until(idle, pilot)
            await press(pilot, "S")
            await until(idle, pilot)
        await press(pilot, "s", "home", "enter", "S")
        await until(idle, pilot)
    with beat.phase("filtering"):
        for words in FILTERS:
            await press(pilot, "slash", *spelled(words), "enter")
            await until(idle, pilot)
            await press(pilot, "escape")
            await until(idle, pilot)
    with beat.phase("paging"):
        await press(pilot, *["pagedown"] * PAGES, "end", *["pageup"] * PAGES, "home")
        await press(pilot, *["down"] * PAGES)
    with beat.phase("marking"):
        await press(pilot, *["space"] * 10, "escape")
    with beat.phase("refresh, nothing new"):
        await press(pilot, "ctrl+r")
        await until(idle, pilot)
        await asyncio.sleep(0.2)
    new = make_checkpoint(
        run, "step_99999999", step=99_999_999, metrics={"eval_loss": 1.0, "loss": 1.0}
    )
    with beat.phase("refresh, one more"):
        await press(pilot, "ctrl+r")
        await until(lambda: len(table.rows) == count + 1 and idle(), pilot)
        await asyncio.sleep(0.2)
    await context.__aexit__(None, None, None)
    shutil.rmtree(new)


class TableApp(App[None]):
    """A stock DataTable of the same rows, read by a thread like ours."""

    class Scanned(Message):
        """The thread has ended."""

        def __init__(self, rows: list[tuple[str, ...]]) -> None:
            super().__init__()
            self.rows = rows

    def __init__(self, run: Path) -> None:
        super().__init__()
        self.animation_level = "none"
        self.folder = run
        self.all: list[tuple[str, ...]] = []
        self.busy = False

    def compose(self) -> ComposeResult:
        yield Input(compact=True)
        yield DataTable(cursor_type="row")

    @property
    def table(self) -> DataTable[str]:
        return self.query_one(DataTable)

    def on_mount(self) -> None:
        columns = ("Checkpoint", "State", "eval_loss", "loss", "Size", "Age", "Epoch", "Kept by")
        self.table.add_columns(*((name, name) for name in columns))
        self.table.focus()
        self.read()

    def read(self) -> None:
        self.busy = True

        def work() -> None:
            checkpoints = scan(self.folder).runs[0].checkpoints
            self.post_message(self.Scanned([_cells(c) for c in reversed(checkpoints)]))

        threading.Thread(target=work, daemon=True).start()

    def on_table_app_scanned(self, event: Scanned) -> None:
        self.all = event.rows
        self.fill(self.all)
        self.busy = False

    def fill(self, rows: list[tuple[str, ...]]) -> None:
        self.table.clear()
        self.table.add_rows(rows)

    def on_input_changed(self, event: Input.Changed) -> None:
        self.fill([row for row in self.all if event.value in row[0]])


def _cells(c: Checkpoint) -> tuple[str, ...]:
    loss = [f"{c.metrics.get(name) or 0:.4f}" for name in ("eval_loss", "loss")]
    return (c.name, c.state.value, *loss, f"{c.size}", f"{c.created:%H:%M}", f"{c.epoch}", "-")


async def table(run: Path, beat: Heartbeat) -> None:
    """The stock table: the same, as far as it can."""
    app = TableApp(run)
    with beat.phase("first frame"):
        context = app.run_test(size=SIZE)
        pilot = await context.__aenter__()
    with beat.phase("loading"):
        await until(lambda: not app.busy, pilot)
        await asyncio.sleep(0.2)
        await pilot.pause()
    with beat.phase("nothing"):
        await asyncio.sleep(1.0)
    with beat.phase("sorting"):
        for column in list(app.table.columns)[: len(SORTS)]:
            for reverse in (True, False):
                app.table.sort(column, reverse=reverse)
                await pilot.pause()
                await asyncio.sleep(0.02)
    with beat.phase("filtering"):
        app.query_one(Input).focus()
        for words in ("step_9", "99", "7777"):
            await press(pilot, *spelled(words))
            app.query_one(Input).value = ""
            await pilot.pause()
            await asyncio.sleep(0.02)
    app.table.focus()
    with beat.phase("paging"):
        await press(pilot, *["pagedown"] * PAGES, "end", *["pageup"] * PAGES, "home")
        await press(pilot, *["down"] * PAGES)
    with beat.phase("refresh, nothing new"):
        app.read()
        await until(lambda: not app.busy, pilot)
        await asyncio.sleep(0.2)
        await pilot.pause()
    await context.__aexit__(None, None, None)


async def _main(which: str, run: Path) -> None:
    async with Heartbeat() as beat:
        await {"browser": browser, "table": table}[which](run, beat)
    print(json.dumps({name: phase.as_json() for name, phase in beat.phases.items()}))


if __name__ == "__main__":
    gc.set_threshold(100_000)  # as the command does
    asyncio.run(_main(sys.argv[1], Path(sys.argv[2])))
