"""The browser: owns the state, starts background work, and hands what it learns to the screens."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import events, on
from textual.app import App
from textual.binding import Binding, BindingType

from ckptui.tui import ahead, ending, keyboard, messages, outcomes, text
from ckptui.tui.in_turn import InTurn
from ckptui.tui.jobs import Job, Jobs
from ckptui.tui.moved import Moved
from ckptui.tui.pauses import Pauses
from ckptui.tui.reader import Reader
from ckptui.tui.screens.base import BrowserScreen, Dialog
from ckptui.tui.screens.browse import BrowseScreen
from ckptui.tui.wishes import Wishes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import RenderableType
    from textual.events import Event
    from textual.message import Message
    from textual.message_pump import MessagePump

    from ckptui.checkpoint import Run
    from ckptui.tui.changes import Changes
    from ckptui.tui.early import Early
    from ckptui.tui.screens.dialogs import Words
    from ckptui.tui.snapshot import Scan
    from ckptui.verify import Report


def browse(path: Path, wishes: Wishes, *, early: Early | None = None) -> str | None:
    """Run the browser on a root, a run or a checkpoint.

    Args:
        path: What to browse.
        wishes: How.
        early: A look at its names that was begun already.

    Returns:
        A line to print once the terminal is back: the path that was picked, or the command that
        resumes; or None.

    Raises:
        UsageError: The preferences name a key or a theme that there is not.
        SystemExit: A signal has ended it, with the code that shells give that.
    """
    keyboard.adapt()
    app = Browser(path, wishes, early=early)
    wishes.check(app.available_themes)
    line = app.run(mouse=wishes.preferences.mouse)
    if app.return_code:
        raise SystemExit(app.return_code)
    return line


FAULT = "This is a fault of ckptui; nothing is lost. Please report the lines above."
AGE_TICKS = 5
"""Seconds after which the ages in the list are brought up to date."""
EARLY_SECONDS = 0.03
"""How long drawing waits for the first names: an empty list drawn first costs as much."""


def _working_folder() -> Path:
    try:
        return Path.cwd()
    except OSError:  # it was deleted meanwhile
        return Path("/")


class Browser(App[str]):
    """Runs, their checkpoints, and what to do with them."""

    TITLE = "ckptui"
    CSS_PATH = "ckptui.tcss"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 - the base class declares it so
        (0, "-tiny-width"),
        (40, "-narrow"),
        (76, "-normal"),
        (110, "-wide"),
        (150, "-huge"),
    ]
    VERTICAL_BREAKPOINTS = [  # noqa: RUF012 - as above
        (0, "-tiny-height"),
        (10, "-low"),
        (20, "-medium"),
        (34, "-tall"),
    ]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "leave", "quit", show=False, priority=True),
        Binding("ctrl+c", "leave", "quit", show=False),
    ]

    def __init__(
        self,
        path: Path,
        wishes: Wishes | None = None,
        *,
        scan: Scan | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        early: Early | None = None,
    ) -> None:
        """Prepare to browse.

        Args:
            path: A root, a run or a checkpoint.
            wishes: How; None for the defaults.
            scan: Reads the disk; None for `ckptui.scan.scan`.
            clock: The present time, aware.
            early: A look at the names there that was begun already.
        """
        super().__init__()
        self.animation_level = "none"
        self.path = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow links
        self.wishes = wishes if wishes is not None else Wishes()
        self.ascii_only = self.wishes.plain
        self.clock = clock
        self.jobs = Jobs()
        self.pauses = Pauses()
        self.in_turn = InTurn(self, super().on_event)
        self.reader = Reader(self.path, scan, clock, self.jobs, self.start, early=early)
        self.main = BrowseScreen()
        self.moved = Moved()
        """Checkpoints that this session moved to the trash."""
        self.verified: dict[tuple[object, ...], str] = {}
        """What verifying has found in this session, by path and identity."""
        self.reports: dict[tuple[object, ...], Report] = {}
        """The same in full."""
        self.paused = False
        self.leaving = False
        self._changes: Changes | None = None
        self._ticks = 0
        self._signal: int | None = None
        """What has told us to end."""
        self._here = _working_folder()
        self._home = Path("~").expanduser() if "HOME" in os.environ else None

    def short_path(self, path: Path) -> str:
        """A path as its owner would type it."""
        return text.short_path(path, here=self._here, home=self._home)

    @property
    def read_only(self) -> str | None:
        """Why nothing may be changed, in a sentence; None where it may."""
        if self.wishes.one_frame:
            return "A single frame changes nothing."
        if self.wishes.read_only:
            return "Read-only: started with --read-only."
        view = self.reader.view
        return view.read_only if view is not None else None

    @property
    def looks_read_only(self) -> str | None:
        """The same for what is shown: a single frame looks as it would to who may do things."""
        return None if self.wishes.one_frame else self.read_only

    @property
    def changes(self) -> Changes:
        """What this session changes on the disk."""
        if self._changes is None:
            from ckptui.tui.changes import Changes  # noqa: PLC0415 - see `screens`

            self._changes = Changes(
                self.reader.scan, self.clock, self.jobs, self.start, self._run_at
            )
        return self._changes

    def _run_at(self, path: Path) -> Run | None:
        view = self.reader.views.get(path)
        return view.run if view is not None else None

    @property
    def at_work(self) -> bool:
        """Whether something is being moved or deleted now."""
        return self._changes is not None and self._changes.going_on

    def start(
        self,
        group: str,
        label: str,
        run: Callable[[Job], Message | None],
        *,
        target: MessagePump | None = None,
        patient: bool = False,
    ) -> Job:
        """Do something in the background; what it returns goes to `target`, else to the app."""
        return self.jobs.start(
            group, label, run, target=target or self, crashed=self, patient=patient
        )

    def get_default_screen(self) -> BrowseScreen:
        """The first screen, with the names that are known by now."""
        self.reader.take_early(EARLY_SECONDS)
        return self.main

    async def on_event(self, event: Event) -> None:
        """Keys take their turns; everything else is handled as it comes."""
        if isinstance(event, events.Key) and not event.is_forwarded:
            self.reader.hold()  # what a key was meant for must not change under it
            await self.in_turn.take(event)
        else:
            await super().on_event(event)

    def on_resize(self) -> None:
        """Draw all anew: sizes that follow each other at once leave a torn screen otherwise."""
        self.call_later(lambda: self.screen.refresh())

    def on_mount(self) -> None:
        """Show the main screen and look at the disk for the first time."""
        if self.ascii_only:
            self.add_class("-ascii")
        if self.wishes.preferences.theme is not None:
            self.theme = self.wishes.preferences.theme
        elif os.environ.get("NO_COLOR"):
            self.theme = "ansi-dark"  # of all themes those alone keep to the terminal's own colours
        if self.wishes.preferences.keys:
            self.set_keymap(dict(self.wishes.preferences.keys))
        if self.wishes.read_only:
            from ckptui import guard  # noqa: PLC0415 - few begin so

            guard.forbid_changes("browse was started with --read-only")
        if not self.is_headless:
            self._heed_signals()
        self.pauses.begin()
        # What is known already is drawn before more is read.
        self.call_after_refresh(self.reader.read_all)
        if not self.wishes.one_frame:
            self.set_timer(ahead.AFTER_SECONDS, ahead.begin)
        if self.wishes.refresh:
            self.set_interval(1.0, self._tick)

    def _fatal_error(self) -> None:
        """Say where a fault of ours lies, in lines that can be read and reported."""
        lines = traceback.format_exc().splitlines()
        self._exit_renderables.append(Text("\n".join([*map(text.plain, lines), FAULT])))
        self._close_messages_no_wait()

    def panic(self, *renderables: RenderableType) -> None:
        """End with a fault that another thread has met; by itself this would pass for success."""
        super().panic(*renderables)
        self._return_code = 1

    def _heed_signals(self) -> None:
        """Leave the terminal as it was when told to end, and nothing half done."""
        if threading.current_thread() is not threading.main_thread():
            return  # signals belong to whoever runs us
        loop = asyncio.get_running_loop()

        def told(number: int) -> None:
            with contextlib.suppress(RuntimeError):  # the loop may have ended meanwhile
                loop.call_soon_threadsafe(self._told_to_end, number)

        ending.heed(told)

    def _told_to_end(self, number: int) -> None:
        again = self._signal is not None
        self._signal = number
        if self.at_work and not again:
            self.leaving = True
            self.changes.stop()
            self.say("Leaving after the current one.")
        else:
            self._end()

    def _end(self) -> None:
        code = 0 if self._signal is None else 128 + self._signal
        self.exit(return_code=code)

    def on_unmount(self) -> None:
        """Leave the interpreter as it was."""
        self.pauses.end()
        if self.wishes.read_only:
            from ckptui import guard  # noqa: PLC0415 - see `on_mount`

            guard.allow_changes()

    def _tick(self) -> None:
        self.main.show_header()
        self._ticks += 1
        if self._ticks % AGE_TICKS == 0:
            self.main.show_ages()
        if not self.jobs.running("scan"):
            self.pauses.tidy(self.in_turn.quiet)
        if not self.paused and not self.leaving:
            self.reader.read_if_due()

    # Telling the screens

    def _screens(self) -> Iterator[BrowserScreen]:
        return (s for s in self.screen_stack if isinstance(s, BrowserScreen))

    def state_changed(self) -> None:
        """Let every open screen show what is known now."""
        self.moved.look_at(self.reader.views)
        for screen in self._screens():
            screen.state_changed()
        for dialog in self.screen_stack:
            if isinstance(dialog, Dialog):
                dialog.state_changed()

    def say(self, words: str) -> None:
        """Show a line of words at the bottom of the screens that have one."""
        for screen in self._screens():
            screen.say(words)

    def explain(self, title: str, words: Words) -> None:
        """Show something that must be read."""
        from ckptui.tui.screens.dialogs import MessageDialog  # noqa: PLC0415 - see `screens`

        self.push_screen(MessageDialog(title, words))

    # What was read

    @on(messages.RunFound)
    def _run_found(self, event: messages.RunFound) -> None:
        self.reader.take_run(event.view)
        self.state_changed()

    @on(messages.RootScanned)
    def _root_scanned(self, event: messages.RootScanned) -> None:
        first = self.reader.found is None
        if self.reader.take_all(event.snapshot):
            self.state_changed()
        self.reader.read_metrics()
        if first and event.snapshot.chosen is not None:
            self.main.select(event.snapshot.chosen)

    @on(messages.RunsRescanned)
    def _runs_rescanned(self, event: messages.RunsRescanned) -> None:
        if self._changes is not None:
            self._changes.pins.shown()
        if self.reader.take_runs(event.views):
            self.state_changed()
        self.reader.read_metrics()

    @on(messages.RunsLookedAt)
    def _runs_looked_at(self, event: messages.RunsLookedAt) -> None:
        changed = self.reader.failure is not None
        self.reader.failure = None
        changed = self.reader.take_runs(event.views) or changed
        if self.reader.take_pulses(event.pulses) or changed:
            self.state_changed()
        self.reader.read_metrics(changed=event.logged)
        if event.root_changed:
            self.reader.read_all(recheck=False)

    @on(messages.MetricsRead)
    def _metrics_read(self, event: messages.MetricsRead) -> None:
        if self.reader.take_metrics(event):
            self.state_changed()
        self.reader.read_metrics()

    def choose_run(self, path: Path) -> None:
        """List the checkpoints of another run."""
        if path != self.reader.run_path:
            self.reader.choose(path)
            self.state_changed()
            self.reader.read_metrics()

    @on(messages.JobFailed)
    def _job_failed(self, event: messages.JobFailed) -> None:
        if event.group == "scan":
            self.reader.failure = event.what
            self.state_changed()
        elif event.group in {"rescan", "watch"}:
            self.reader.failure = event.what  # until a look succeeds
            self.state_changed()
        elif event.group.startswith("metrics"):
            self.say(event.what)
        elif event.group == "remove":
            self.changes.removal_over()
            for screen in self._screens():
                screen.failed(event.what)
        else:
            self.changes.pins.failed(event.group)
            self.explain("Not done", event.what)
            self.say(event.what)  # in place of the words that it goes on
        self._leave_if_due()

    @on(messages.JobCrashed)
    def _job_crashed(self, event: messages.JobCrashed) -> None:
        raise event.error

    # What was changed

    @on(messages.PinChanged)
    def _pin_changed(self, event: messages.PinChanged) -> None:
        self.say(outcomes.of_pin(event))
        self.reader.read_runs([event.checkpoint.run])
        self.changes.pins.ended(event, self.jobs.latest("rescan"))

    @on(messages.SaveAnswered)
    def _save_answered(self, event: messages.SaveAnswered) -> None:
        words = outcomes.of_save(event)
        if words is not None:
            self.say(words)
        else:
            error = event.answer.error if event.answer is not None else None
            self.explain("Not saved", error or "The trainer gave no reason.")
        self.reader.read_runs([event.run])

    @on(messages.CheckpointRemoved)
    def _checkpoint_removed(self, event: messages.CheckpointRemoved) -> None:
        if event.removal.item is not None:
            self.changes.moved(event.removal.item)
            self.moved.add(event.run, str(event.removal.checkpoint.path))
        for screen in self._screens():
            screen.progressed(event)

    @on(messages.RemovalEnded)
    def _removal_ended(self, event: messages.RemovalEnded) -> None:
        self.changes.removal_over()
        for screen in self._screens():
            screen.ended(event)
        self.say(outcomes.of_removal(event))
        self.reader.read_runs([event.run])
        self._leave_if_due()

    @on(messages.RestoreEnded)
    def _restore_ended(self, event: messages.RestoreEnded) -> None:
        self.changes.restored(event)

    @on(messages.ItemsRestored)
    def _items_restored(self, event: messages.ItemsRestored) -> None:
        if event.names:
            where = f" in {event.run.name}" if event.run != self.reader.run_path else ""
            self.say(f"Restored {', '.join(event.names)}{where}.")
        if event.errors:
            self.explain("Not everything was restored", event.errors)
            if not event.names:
                self.say("Nothing was restored.")  # in place of the words that it goes on
        self.reader.read_runs([event.run])
        self._leave_if_due()

    @on(messages.TrashEmptied)
    def _trash_emptied(self, event: messages.TrashEmptied) -> None:
        self.say(outcomes.of_emptying(event))
        if event.errors:
            self.explain("Not everything was deleted", event.errors)
        self.reader.read_runs([event.run])
        self._leave_if_due()

    @on(messages.CheckpointVerified)
    def _checkpoint_verified(self, event: messages.CheckpointVerified) -> None:
        report, checkpoint = event.report, event.report.checkpoint
        key = (checkpoint.path, *checkpoint.identity)
        if report.status != "ok" or key not in self.verified:
            self.verified[key] = report.status  # a quick look takes nothing of a full one back
            self.reports[key] = report
        self.main.show_marks()

    # The clipboard, help, and leaving

    def copy(self, what: str) -> None:
        """Hand a text to the terminal's clipboard, whichever way it takes."""
        from ckptui.tui import clipboard  # noqa: PLC0415 - see `screens`

        if self.wishes.one_frame:
            return  # the clipboard is somebody's
        why_not = clipboard.why_not(what)
        if why_not is not None:
            self.say(why_not)
            if isinstance(self.screen, Dialog):
                self.screen.not_copied(why_not)
            return
        self.start(
            "copy",
            "copying",
            lambda _: messages.Copied(what, "tmux" if clipboard.through_tmux(what) else "OSC 52"),
        )

    @on(messages.Copied)
    def _copied(self, event: messages.Copied) -> None:
        if event.way != "tmux":
            self.copy_to_clipboard(event.what)
        self.say(f"Copied by {event.way}: {event.what}")
        if isinstance(self.screen, BrowserScreen | Dialog):
            self.screen.copied(event)

    def action_help(self, *, search: bool = False) -> None:
        """Show what can be done on this screen; with `search` also where one can go."""
        from ckptui.tui.screens.help import HelpScreen  # noqa: PLC0415 - see `screens`

        if isinstance(self.screen, BrowserScreen) and not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen(self.screen, search=search))

    async def action_quit(self) -> None:
        """Leave the way `q` does."""
        self.action_leave()

    def action_leave(self) -> None:
        """Quit; asks first while checkpoints are being moved or deleted."""
        if self.leaving or not self.at_work:
            self.exit()
            return
        from ckptui.tui.screens.dialogs import QuestionDialog  # noqa: PLC0415 - see `screens`

        self.push_screen(
            QuestionDialog(
                "Still at work",
                "Checkpoints are being moved or deleted. Stop after the current one?",
                yes="Stop and quit",
                no="Go on",
            ),
            self._leave_soon,
        )

    def _leave_soon(self, answer: bool | None) -> None:
        if not answer:
            return
        self.leaving = True
        self.changes.stop()
        self.say("Leaving after the current one; q again leaves at once.")
        self._leave_if_due()

    def _leave_if_due(self) -> None:
        if self.leaving and not self.at_work:
            self._end()

    @property
    def frame(self) -> str:
        """What is on the screen, line by line."""
        strips = self.screen._compositor.render_strips()
        return "\n".join("".join(part.text for part in strip).rstrip() for strip in strips)

    def leave_with(self, line: str) -> None:
        """Quit and have a line printed."""
        self.exit(line)
