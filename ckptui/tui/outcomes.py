"""What is said of the things that were done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckptui import display

if TYPE_CHECKING:
    from ckptui.tui import messages


def of_pin(event: messages.PinChanged) -> str:
    """What became of a pin."""
    name = event.checkpoint.name
    if not event.changed:
        return f"{name} was {'pinned' if event.pinned else 'not pinned'} already."
    if event.pinned and event.note:
        return f"Pinned {name} again, with its note: {event.note}"
    if event.pinned:
        return f"Pinned {name}. p takes the pin away, n changes its note."
    again = "p pins it again" + (", with its note." if event.note else ".")
    if event.goes:
        # In the order in which a narrow line may cut it.
        return f"Unpinned {name}: goes for good at the next save, by the run's own rules; {again}"
    return f"Unpinned {name}. {again}"


def of_save(event: messages.SaveAnswered) -> str | None:
    """What became of the request to save; None where it was refused."""
    if event.answer is None:
        return "Not saved: this run is not being trained now."
    if event.answer.checkpoint is None:
        return None
    return f"Saved {event.answer.checkpoint} of {event.run.name}, as you asked."


def of_removal(event: messages.RemovalEnded) -> str:
    """What a removal has moved."""
    done = sum(1 for r in event.removals if r.done)
    if not done:
        return "Nothing was moved."
    them = "it" if done == 1 else "them"
    return f"Moved {done} to the trash. z brings {them} back, T shows the trash."


def of_emptying(event: messages.TrashEmptied) -> str:
    """What was deleted for good."""
    if not event.count and not event.freed:
        return "Nothing was deleted."
    return f"Deleted {event.count} for good, freed {display.size(event.freed)}."
