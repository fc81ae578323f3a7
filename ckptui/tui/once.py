"""One frame of the browser as text: for bug reports, tests and documents."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ckptui import guard
from ckptui.errors import UsageError
from ckptui.tui.app import Browser
from ckptui.tui.key_names import is_key
from ckptui.tui.wishes import Wishes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from textual.pilot import Pilot

    from ckptui.preferences import Preferences

PATIENCE_SECONDS = 30.0


def frame(
    path: Path,
    *,
    keys: Sequence[str] = (),
    size: tuple[int, int] = (80, 24),
    filter_text: str = "",
    preferences: Preferences,
) -> str:
    """What the browser shows of a path once everything is read, without a terminal.

    Nothing is changed, whatever the keys say.

    Args:
        path: A root, a run or a checkpoint.
        keys: Pressed one after the other, as Textual spells them.
        size: Columns and lines.
        filter_text: The filter to begin with.
        preferences: What holds for this user.

    Raises:
        UsageError: A key is none, or the preferences name what there is not.
    """
    wishes = Wishes(preferences=preferences, filter_text=filter_text, refresh=False, one_frame=True)
    for key in keys:
        _check(key)
    app = Browser(path, wishes)
    wishes.check(app.available_themes)
    shown: list[str] = []

    async def drive(pilot: Pilot[object]) -> None:
        await _settled(app, pilot)
        for key in keys:
            await pilot.press(key)
            await _settled(app, pilot)
        if not app.return_code:  # it has not crashed
            shown.append(app.frame)
            app.exit()

    guard.forbid_changes("a single frame changes nothing")
    try:
        app.run(headless=True, size=size, auto_pilot=drive)
    finally:
        guard.allow_changes()
    if not shown:
        raise SystemExit(app.return_code or 1)  # why is told already
    return shown[0]


def _check(key: str) -> None:
    """See that there is such a key.

    Raises:
        UsageError: There is none.
    """
    if not is_key(key):
        msg = f"{key} is no key; they are spelled as in enter, escape, ctrl+r, pageup or /."
        raise UsageError(msg)


async def _settled(app: Browser, pilot: Pilot[object]) -> None:
    """Wait until no background work goes on and all that it has sent is shown."""
    waited = 0.0
    quiet = 0
    while waited < PATIENCE_SECONDS and quiet < 3:
        await pilot.pause()
        still = app.in_turn.idle and app.jobs.oldest_running() is None
        quiet = quiet + 1 if still else 0
        await asyncio.sleep(0.01)
        waited += 0.01
    await pilot.pause()
