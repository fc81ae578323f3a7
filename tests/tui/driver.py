"""Driving the browser without a terminal: waiting for its threads, reading its screen."""

from __future__ import annotations

import asyncio
import re
import threading
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ckptui import remove
from ckptui.tui.app import Browser
from ckptui.tui.screens import prune
from ckptui.tui.wishes import Wishes
from tests.factory import make_run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
    from pathlib import Path

    import pytest
    from textual.pilot import Pilot

    from ckptui.checkpoint import Checkpoint
    from ckptui.tui.screens.browse import BrowseScreen
    from ckptui.tui.snapshot import Scan

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SIZES = [(80, 24), (160, 45), (60, 20)]
ESC = "\x1b"


class Driver:
    """An app under test with its pilot."""

    def __init__(self, app: Browser, pilot: Pilot[Any]) -> None:
        self.app = app
        self.pilot = pilot

    @property
    def main(self) -> BrowseScreen:
        return self.app.main

    @property
    def names(self) -> list[str]:
        return [row.checkpoint.name for row in self.main.checkpoints.rows]

    @property
    def current(self) -> str:
        row = self.main.current
        assert row is not None
        return row.checkpoint.name

    async def settle(self) -> None:
        """Wait until no key or background work goes on and all it has sent is shown."""
        quiet = 0
        for _ in range(1000):
            await self.pilot.pause()
            still = self.app.in_turn.idle and self.app.jobs.oldest_running() is None
            quiet = quiet + 1 if still else 0
            if quiet == 3:  # what has ended may have begun something else
                return
        raise AssertionError("it never came to rest:\n" + self.text)

    async def until(self, holds: Callable[[], bool]) -> None:
        for _ in range(1000):
            await self.pilot.pause()
            if holds():
                return
            await asyncio.sleep(0.01)
        raise AssertionError("what was waited for did not come:\n" + self.text)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.settle()

    @property
    def text(self) -> str:
        """What is on the screen, line by line."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip) for strip in strips)

    @property
    def words(self) -> str:
        """The same without frames and line breaks, for sentences that may be wrapped anywhere."""
        return " ".join(re.sub("[│╭╮╰╯─]", " ", self.text).split())

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n")


@asynccontextmanager
async def driving(
    path: Path, *, size: tuple[int, int] = (80, 24), scan: Scan | None = None, **options: Any
) -> AsyncIterator[Driver]:
    wishes = Wishes(**{"refresh": False, "ascii_only": False} | options)
    app = Browser(path, wishes, scan=scan, clock=lambda: NOW)
    prune.LOOK = 0.0  # scripts do not read; a test of its own has people's time
    async with app.run_test(size=size) as pilot:
        yield Driver(app, pilot)


def drive(
    path: Path,
    script: Callable[[Driver], Coroutine[Any, Any, None]],
    *,
    size: tuple[int, int] = (80, 24),
    scan: Scan | None = None,
    **options: Any,
) -> str | None:
    """Run a script against the browser once its first scan is shown; what the app returns."""
    result: list[str | None] = []

    async def run() -> None:
        async with driving(path, size=size, scan=scan, **options) as driver:
            await driver.settle()
            await script(driver)
        result.append(driver.app.return_value)

    asyncio.run(run())
    return result[0]


METRICS = {step: {"eval_loss": 3.0 - step / 1000, "loss": 2.0} for step in range(100, 1100, 100)}


def small_run(path: Path) -> Path:
    return make_run(
        path,
        range(100, 1100, 100),
        metrics=METRICS,
        policy=["keep-last 2", "keep-best 1:eval_loss:min"],
        rows=[{"step": s, "attempt": 1, "loss": 3.0 - s / 1000} for s in range(1, 1001)],
    )


def held_removals(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Removals that say when they begin, and wait until they may go on."""
    began, go_on = threading.Event(), threading.Event()
    real = remove.move_to_trash

    def slow(
        checkpoints: Sequence[Checkpoint], *, why: remove.Why, reason: str | None = None
    ) -> str:
        began.set()
        go_on.wait(60)
        return real(checkpoints, why=why, reason=reason)

    monkeypatch.setattr(remove, "move_to_trash", slow)
    return began, go_on
