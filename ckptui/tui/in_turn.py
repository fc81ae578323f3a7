"""Keys that come in a burst, each obeyed where the one before it has led.

Over a slow connection, or pasted, several keys arrive at once. Textual hands each to what has the
focus at that moment; so of `/` and text typed at once the letters would still go to the list, which
takes them for commands: `p` pins, `d` opens a removal. Here a key waits until the one before it has
run its course: through its widget, up to the app, and through the focus or the screen it changed.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from textual.app import App
    from textual.dom import DOMNode
    from textual.events import Key
    from textual.screen import Screen

PATIENCE_SECONDS = 0.5
"""A key that takes longer than this does not hold up the next one."""


class InTurn:
    """The queue of keys of an app."""

    def __init__(self, app: App[Any], obey: Callable[[Key], Awaitable[None]]) -> None:
        self._app = app
        self._obey = obey
        self._waiting: deque[Key] = deque()
        self._since: float | None = None
        """When the key that is under way was handed on; None while there is none."""
        self._last = 0.0
        self._turn = 0
        self._rounds = 1
        self._target: DOMNode = app

    @property
    def idle(self) -> bool:
        """Whether every key that came has run its course."""
        return self._since is None

    @property
    def quiet(self) -> float:
        """Seconds since the last key came."""
        return time.monotonic() - self._last

    async def take(self, key: Key) -> None:
        """Hand a key on, or keep it until its turn."""
        self._last = time.monotonic()
        self._waiting.append(key)
        if self._since is None or time.monotonic() - self._since > PATIENCE_SECONDS:
            await self._next()

    async def _next(self) -> None:
        if not self._waiting:
            self._since = None
            return
        key = self._waiting.popleft()
        self._since = time.monotonic()
        self._turn += 1
        turn, before = self._turn, self._app.screen
        target: DOMNode = self._app.focused or before
        await self._obey(key)
        self._app.set_timer(PATIENCE_SECONDS, lambda: self._done(turn))
        # What enter submits goes the same way up once more before it changes anything.
        self._rounds = 2 if key.key == "enter" else 1
        self._target = target
        self._follow(target, turn, before)

    def _follow(self, node: DOMNode, turn: int, before: Screen[Any]) -> None:
        """Go the way of the key: from node to node, behind it in the queue of each."""
        if node is self._app or node.parent is None:
            # Once round the app's own queue: what the key did may have put a change of focus there.
            self._app.call_later(lambda: self._app.call_later(self._settle, turn, before))
        elif not node.call_later(self._up, node, turn, before):
            self._done_soon(turn)

    def _up(self, node: DOMNode, turn: int, before: Screen[Any]) -> None:
        self._follow(node.parent or self._app, turn, before)

    def _settle(self, turn: int, before: Screen[Any]) -> None:
        """A screen that the key has opened gets its focus before the next key."""
        now = self._app.screen
        self._rounds -= 1
        if self._rounds > 0 and now is before and self._target.is_attached:
            self._follow(self._target, turn, before)
            return
        if now is before or not now.call_after_refresh(self._done_soon, turn):
            self._done_soon(turn)

    def _done_soon(self, turn: int) -> None:
        self._app.call_later(self._done, turn)

    async def _done(self, turn: int) -> None:
        if turn == self._turn and self._since is not None:
            await self._next()
