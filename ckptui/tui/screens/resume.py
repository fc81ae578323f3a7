"""The command that resumes from a checkpoint: checked, shown, copied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Button, Static

from ckptui.tui import clipboard, messages, text
from ckptui.tui.planned import wrap
from ckptui.tui.resuming import Check, Examined, config_path, examine, typed_path
from ckptui.tui.screens.dialogs import Box, InputDialog, scrolled
from ckptui.tui.text import plain, safe
from ckptui.tui.widgets.buttons import Buttons, button

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from textual.widget import Widget

    from ckptui.tui.jobs import Job
    from ckptui.tui.snapshot import Row

_CHANGED = "The run has changed: checking again ..."
_MARKS = {True: "yes ", False: "NO  ", None: "note"}


class ResumeDialog(Box[None]):
    """One line to paste into a shell; quitting with it prints it."""

    CLASSES = "box wide"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,c", "copy", "copy", show=False),
        Binding("w", "write", "write the config", show=False),
        Binding("p", "leave", "quit and print it", show=False),
        Binding("t", "instead", "take the newest that is resumable", show=False),
        Binding("q", "back", "close", show=False),
        Binding("up,k", "scroll_text(-1)", "up", show=False),
        Binding("down,j", "scroll_text(1)", "down", show=False),
        Binding("left", "app.focus_previous", "previous", show=False),
        Binding("right", "app.focus_next", "next", show=False),
    ]

    @dataclass
    class Looked(Message):
        """A checkpoint was examined."""

        found: Examined
        config: Path | None
        """Where its settings were written."""

    def __init__(self, row: Row) -> None:
        super().__init__(f"Resume from {row.checkpoint.name}")
        self._path = row.run.path
        self._checkpoint = row.checkpoint
        self.line: str | None = None
        """The checked command, once it is there."""
        self.found: Examined | None = None
        """What came of the checks."""
        self._seen: object = None
        """What was known of the run when it was last begun to check."""
        self._renewing = False
        """Whether the run has changed since the line that is shown was checked."""
        self._config: Path | None = None
        """Where the check that goes on writes the settings."""
        self._job: Job | None = None

    def parts(self) -> Iterable[Widget]:
        """The line, what to know about it, the checks, and what to do with it."""
        yield scrolled(
            Static(id="line"),
            Static(id="notes"),
            Static(safe("Checking the checkpoint ..."), id="text"),
        )
        yield Static(id="hint", classes="dim")
        yield Buttons(
            button("Close", "close"),
            button("Copy", "copy", letter="y"),
            button("Quit and print it", "leave", letter="p"),
            button("Write config", "write", letter="w"),
            button("Take it", "instead", letter="t"),
        )

    def on_mount(self) -> None:
        """Check it in the background."""
        self.set_focus(self.query_one("#close"))
        self._examine()

    def _examine(self, *, config: Path | None = None) -> None:
        path, checkpoint, scan = self._path, self._checkpoint, self.browser.reader.scan
        verified = self.browser.verified.get((checkpoint.path, *checkpoint.identity))

        def look(_: Job) -> Message:
            found = examine(path, checkpoint, scan, config=config, verified=verified)
            return self.Looked(found, config)

        self._seen, self._config = self._known(), config
        self._allow()
        self._job = self.browser.start("resume", f"checking {checkpoint.name}", look, target=self)

    def _known(self) -> object:
        """What the line follows from, as far as it is listed now."""
        view = self.browser.reader.views.get(self._path)
        if view is None:
            return None
        found = [
            (c.path, c.identity, c.state, c.current, c.resumable)
            for c in view.run.checkpoints
            if not c.staged
        ]
        return found, view.run.live is not None, view.run.attempts

    def state_changed(self) -> None:
        """Check again what has changed: a newer one may be there, or another one in its place."""
        if self.is_mounted and self._known() != self._seen:
            self._renewing = True
            self._say(_CHANGED)
            self._examine()

    @on(Looked)
    def _looked(self, event: Looked) -> None:
        if self._is_old():
            return
        found = event.found
        renewed, self._renewing = self._renewing, False
        self.found = found
        self.line = found.command.shell if found.command is not None else None
        self.query_one("#text", Static).update(
            text.lines(*(line for check in found.checks for line in self._told(check)))
        )
        notes = [f"! {words}" for words in found.command.warnings] if found.command else []
        if event.config is not None:
            notes.insert(0, f"Written to {event.config}")
        line = self.line
        if line is not None:
            again = "Checked again, as the run has changed: " if renewed else ""
            self._say(f"{again}y copies the line, p quits and prints it.")
        else:
            known = any(found.why_not == check.words for check in found.checks)
            line = "" if known else found.why_not
            if found.instead is not None:
                notes.append(f"The newest that is resumable is {found.instead.name}: t takes it.")
            self._say("There is no command for it.")
        shown = self.query_one("#line", Static)
        shown.update(safe(line))
        shown.display = bool(line)
        below = self.query_one("#notes", Static)
        below.update(text.lines(*notes))
        below.display = bool(notes)
        self._allow()

    @on(messages.JobFailed)
    def _failed(self, event: messages.JobFailed) -> None:
        event.stop()
        if self._is_old():
            return
        if self._config is not None and not self._renewing:  # the line holds without the file
            self._say(event.what)
            return
        self.line = self.found = None
        self._renewing = False
        for name in ("line", "notes"):
            self.query_one(f"#{name}").display = False
        self.query_one("#text", Static).update(safe(event.what))
        self._say("There is no command for it.")
        self._allow()
        self.set_focus(self.query_one("#close"))

    def _is_old(self) -> bool:
        """Whether what arrives was found by a check that another one has followed."""
        return self._job is not None and self._job.running

    def _told(self, check: Check) -> list[str]:
        """A check in lines, their beginning below its words."""
        width = self.query_one("#text").size.width or self.size.width - 8
        first, *rest = wrap(plain(check.words), width - 6)
        return [f"{_MARKS[check.passed]}  {first}", *(f"      {line}" for line in rest)]

    def _allow(self) -> None:
        """Let the buttons do what is possible now, and leave out what never will be."""
        ready = self.line is not None
        for name in ("copy", "leave", "write"):
            self.query_one(f"#{name}", Button).disabled = not ready
        command = self.found.command if self.found is not None else None
        self.query_one("#write").display = command is None or command.config is not None
        instead = self.found.instead if self.found is not None else None
        take = self.query_one("#instead", Button)
        take.display = instead is not None
        if instead is not None:
            take.label = safe(f"Take {instead.name}")
            for name in ("copy", "leave", "write"):
                self.query_one(f"#{name}").display = False
        self.query_one(Buttons).stand()
        self.call_after_refresh(self.fit)

    def copied(self, event: messages.Copied) -> None:
        """Say which way the line went."""
        if event.what == self.line:
            self._say(f"{clipboard.told(event.way)} p quits and prints it.")

    def not_copied(self, words: str) -> None:
        """Say why the line did not go anywhere."""
        self._say(words)

    def _say(self, words: str) -> None:
        self.query_one("#hint", Static).update(safe(words))
        self.call_after_refresh(self.fit)

    # Keys

    def action_copy(self) -> None:
        """Copy the line once more."""
        if self._renewing:
            self._say(_CHANGED)
        elif self.line is not None:
            self.browser.copy(self.line)

    def action_leave(self) -> None:
        """Quit; the line is printed where the browser was started."""
        if self._renewing:
            self._say(_CHANGED)
        elif self.line is not None:
            self.browser.leave_with(self.line)

    def action_write(self) -> None:
        """Ask where to write the settings, and let the line use that file."""
        command = self.found.command if self.found is not None else None
        if command is None:
            return
        if command.config is None:
            self._say("The run brings its own command, so there are no settings to write.")
            return
        if self.browser.read_only is not None:
            self._say(self.browser.read_only)
            return

        def answered(line: str | None) -> None:
            if line is not None and line.strip():
                self._examine(config=typed_path(line))

        offered = plain(config_path(self._path, self._checkpoint))
        words = "The file to write the settings to; the command then names it."
        self.browser.push_screen(InputDialog("Write the config", words, value=offered), answered)

    def action_instead(self) -> None:
        """Go on with the newest one that training can continue from."""
        if self.found is not None and self.found.instead is not None:
            self._checkpoint = self.found.instead
            self.found = None
            box = self.query_one(".box")
            box.border_title = safe(f"Resume from {self._checkpoint.name}")
            for button_of in self.query(Button):
                button_of.display = True
            self.set_focus(self.query_one("#close"))
            self._examine()

    @on(Button.Pressed)
    async def _pressed(self, event: Button.Pressed) -> None:
        deed = {"close": "back"}.get(event.button.id or "", event.button.id)
        await self.run_action(str(deed))
