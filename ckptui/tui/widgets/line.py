"""A line to type into that obeys its keys in the order in which they are typed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.binding import Binding
from textual.widgets import Input

if TYPE_CHECKING:
    from textual import events


_EDITING = {
    binding.action
    for binding in Input.BINDINGS
    if isinstance(binding, Binding) and binding.action != "submit"
}
"""What the keys of an input do to its text; entering it is for the screen to act on."""


class Line(Input):
    """An input whose own keys act at once.

    Textual inserts letters where they arrive but runs ctrl+u, backspace and the arrows only after
    they have travelled up to the app. Of keys that come in one burst, as over a slow connection,
    ctrl+u then deletes what was typed after it.
    """

    def on_mount(self) -> None:
        """A cursor that blinks writes to the terminal twice a second."""
        self.cursor_blink = False

    async def _on_key(self, event: events.Key) -> None:
        if event.is_printable:
            return
        for binding in self._bindings.key_to_bindings.get(event.key, ()):
            if binding.action in _EDITING:
                event.stop()
                event.prevent_default()
                await self.run_action(binding.action)
                return
