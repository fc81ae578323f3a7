"""The command that resumes from a checkpoint: checked, shown, copied."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Button, Static

from ckptui.tui import messages, text, work
from ckptui.tui.screens.base import Dialog
from ckptui.tui.screens.dialogs import button
from ckptui.tui.text import safe

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from ckptui.tui.snapshot import Row


class ResumeDialog(Dialog[None]):
    """One line to paste into a shell; quitting with it prints it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,c", "copy", "copy", show=False),
        Binding("q", "back", "close", show=False),
        Binding("up,k", "scroll_text(-1)", "up", show=False),
        Binding("down,j", "scroll_text(1)", "down", show=False),
        Binding("left", "app.focus_previous", "previous", show=False),
        Binding("right", "app.focus_next", "next", show=False),
    ]

    def __init__(self, row: Row) -> None:
        super().__init__()
        self._row = row
        self.line: str | None = None
        """The checked command, once it is there."""

    def compose(self) -> ComposeResult:
        """The line, what to know about it, and what to do with it."""
        with Vertical(classes="box wide") as box:
            box.border_title = safe(f"Resume from {self._row.checkpoint.name}")
            with VerticalScroll(classes="dialog-text", can_focus=False):
                yield Static(safe("Checking the checkpoint ..."), id="text")
                yield Static(id="line")
                yield Static(id="notes")
            with Horizontal(classes="buttons"):
                yield button("Close", "close")
                yield button("Copy again", "copy")
                yield button("Quit and print it", "leave")

    def on_mount(self) -> None:
        """Check it in the background."""
        self._allow(ready=False)
        self.query_one("#close").focus()
        path, checkpoint = self._row.run.path, self._row.checkpoint
        scan = self.browser.reader.scan
        self.browser.start(
            "resume",
            f"checking {checkpoint.name}",
            lambda _: work.compose_resume(path, checkpoint, scan),
            target=self,
        )

    def _allow(self, *, ready: bool) -> None:
        self.query_one("#copy", Button).disabled = not ready
        self.query_one("#leave", Button).disabled = not ready

    @on(messages.ResumeReady)
    def _ready(self, event: messages.ResumeReady) -> None:
        self.line = event.command.shell
        self._say("The checkpoint is complete and resumable. Run this in a shell:")
        self.query_one("#line", Static).update(safe(self.line))
        warnings = [f"! {words}" for words in event.command.warnings]
        self.query_one("#notes", Static).update(text.lines(*warnings))
        self._allow(ready=True)
        self.browser.copy(self.line)

    @on(messages.JobFailed)
    def _failed(self, event: messages.JobFailed) -> None:
        event.stop()
        self._say(event.what)

    def copied(self, event: messages.Copied) -> None:
        """Say which way the line went."""
        if event.what == self.line:
            self._say(f"Complete and resumable. Copied by {event.way}; run it in a shell:")

    def _say(self, words: str) -> None:
        self.query_one("#text", Static).update(safe(words))

    def action_copy(self) -> None:
        """Copy the line once more."""
        if self.line is not None:
            self.browser.copy(self.line)

    @on(Button.Pressed, "#close")
    def _close(self) -> None:
        self.action_back()

    @on(Button.Pressed, "#copy")
    def _copy(self) -> None:
        self.action_copy()

    @on(Button.Pressed, "#leave")
    def _leave(self) -> None:
        if self.line is not None:
            self.browser.leave_with(self.line)
