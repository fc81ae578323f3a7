"""The browser: owns the state, starts background work, and hands what it learns to the screens."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import App
from textual.binding import Binding, BindingType

from ckptui import scan as scanning
from ckptui.tui import clipboard, messages, series, snapshot, text, work
from ckptui.tui.jobs import Job, Jobs
from ckptui.tui.screens.browse import BrowseScreen
from ckptui.tui.screens.dialogs import MessageDialog, QuestionDialog
from ckptui.tui.screens.help import HelpScreen
from ckptui.tui.screens.prune import PruneScreen

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.message import Message
    from textual.message_pump import MessagePump

    from ckptui.checkpoint import Checkpoint
    from ckptui.tui.series import Series
    from ckptui.tui.snapshot import RunView, Scan

LIVE_SECONDS = 3.0
"""How often a run that is being trained is read again."""
FULL_SECONDS = 30.0
"""How often everything is scanned again."""
PATIENCE = 10.0
"""A scan is repeated only after this many times as long as it took."""
CHANGING = ("remove", "restore", "empty")
"""Groups of work that change what is on the disk and must not be cut off half-way."""


def browse(path: Path) -> str | None:
    """Run the browser on a root, a run or a checkpoint.

    Returns:
        A line to print once the terminal is back, such as the command that resumes; or None.
    """
    return Browser(path).run()


@dataclass
class Undo:
    """What one removal of this session moved into the trash."""

    run: Path
    items: list[str] = field(default_factory=list)


class Browser(App[str]):
    """Runs, their checkpoints, and what to do with them."""

    TITLE = "ckptui"
    CSS_PATH = "ckptui.tcss"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS: ClassVar[list[tuple[int, str]] | None] = [
        (0, "-tiny-width"),
        (40, "-narrow"),
        (76, "-normal"),
        (110, "-wide"),
        (150, "-huge"),
    ]
    VERTICAL_BREAKPOINTS: ClassVar[list[tuple[int, str]] | None] = [
        (0, "-tiny-height"),
        (10, "-low"),
        (20, "-medium"),
        (34, "-tall"),
    ]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "leave", "quit", show=False, priority=True),
    ]

    def __init__(
        self,
        path: Path,
        *,
        scan: Scan = scanning.scan,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        refresh: bool = True,
        ascii_only: bool | None = None,
    ) -> None:
        """Prepare to browse.

        Args:
            path: A root, a run or a checkpoint.
            scan: Reads the disk.
            clock: The present time, aware.
            refresh: Whether to read again by itself.
            ascii_only: Whether to keep to ASCII; None asks the environment.
        """
        super().__init__()
        self.animation_level = "none"
        self.path = path
        self.scan = scan
        self.clock = clock
        self.ascii_only = text.ascii_only() if ascii_only is None else ascii_only
        self.jobs = Jobs()
        self.views: dict[Path, RunView] = {}
        self.found: snapshot.Snapshot | None = None
        """The last whole scan; None until the first one has ended."""
        self.failure: str | None = None
        """Why the last scan failed."""
        self.run_path: Path | None = None
        """The run whose checkpoints are listed."""
        self.series: dict[Path, Series] = {}
        self.metric: str | None = None
        self.undo: list[Undo] = []
        self.paused = False
        self.leaving = False
        self._refresh = refresh
        self.main = BrowseScreen()

    # What screens ask

    @property
    def view(self) -> RunView | None:
        """The run whose checkpoints are listed."""
        return self.views.get(self.run_path) if self.run_path is not None else None

    @property
    def current_series(self) -> Series:
        """The metrics of that run, as far as they are read."""
        return self.series.get(self.run_path, series.EMPTY) if self.run_path else series.EMPTY

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics of that run, those that matter most first."""
        view = self.view
        if view is None:
            return ()
        return self.current_series.names or series.carried(view.run)

    def start(
        self,
        group: str,
        label: str,
        run: Callable[[Job], Message | None],
        *,
        target: MessagePump | None = None,
    ) -> Job:
        """Do something in the background; what it returns goes to `target`, else to the app."""
        return self.jobs.start(group, label, run, target=target or self, crashed=self)

    def say(self, words: str) -> None:
        """Show a line at the bottom of the main screen."""
        self.main.say(words)

    def explain(self, title: str, words: str) -> None:
        """Show something that must be read."""
        self.push_screen(MessageDialog(title, words))

    def choose_run(self, path: Path) -> None:
        """List the checkpoints of another run."""
        if path == self.run_path:
            return
        self.run_path = path
        if self.metric not in self.metrics:
            self.metric = next(iter(self.metrics), None)
        self.main.show_run()
        self.read_metrics()

    # Reading the disk

    def on_mount(self) -> None:
        """Show the main screen and look at the disk for the first time."""
        self.push_screen(self.main)
        self.rescan()
        if self._refresh:
            self.set_interval(1.0, self._tick)

    def rescan(self) -> None:
        """Read everything again, in the background."""
        path, scan, clock = self.path, self.scan, self.clock
        first = self.found is None

        def read(job: Job) -> Message | None:
            def found(view: RunView) -> None:
                if not job.cancelled:
                    job.post(messages.RunFound(view))

            taken = snapshot.take(
                path, scan, clock, on_view=found if first else None, cancelled=job.is_cancelled
            )
            return messages.RootScanned(taken) if not job.cancelled else None

        old = self.jobs.latest("scan")
        if old is not None:
            old.cancelled = True
        self.start("scan", f"scanning {path}", read)
        self.main.show_header()

    def rescan_runs(self, paths: Sequence[Path]) -> None:
        """Read some runs again, in the background."""
        scan, clock = self.scan, self.clock

        def read(_: Job) -> Message:
            return messages.RunsRescanned({p: snapshot.rescan(p, scan, clock) for p in paths})

        if paths and not self.jobs.running("rescan"):
            self.start("rescan", "reading the run again", read)

    def read_metrics(self) -> None:
        """Read the metric log of the run that is listed, if it has changed."""
        view = self.view
        if view is None:
            return
        run, before = view.run, self.series.get(view.run.path)

        def read(_: Job) -> Message | None:
            found = series.read(run, before)
            return messages.MetricsRead(run.path, found) if found is not None else None

        self.start("metrics", f"reading the metrics of {run.name}", read)

    def _tick(self) -> None:
        self.main.show_header()
        if self.paused or self.leaving or self.jobs.running("scan"):
            return
        if self._due("scan", FULL_SECONDS):
            self.rescan()
            return
        live = [path for path, view in self.views.items() if view.run.live]
        if live and self._due("rescan", LIVE_SECONDS):
            self.rescan_runs(live)

    def _due(self, group: str, every: float) -> bool:
        job = self.jobs.latest(group)
        if job is None:
            return True
        return not job.running and job.since > max(every, PATIENCE * job.seconds)

    @on(messages.RunFound)
    def _run_found(self, event: messages.RunFound) -> None:
        if self.found is None:
            self._put(event.view)
            self.main.show_views()

    @on(messages.RootScanned)
    def _root_scanned(self, event: messages.RootScanned) -> None:
        found = event.snapshot
        first = self.found is None
        self.found, self.failure = found, None
        self.views = {}
        for view in found.views:
            self._put(view)
        if self.run_path not in self.views:
            self.run_path = next(iter(self.views), None)
        self._changed()
        if first and found.chosen is not None:
            self.main.select(found.chosen)

    @on(messages.RunsRescanned)
    def _runs_rescanned(self, event: messages.RunsRescanned) -> None:
        for path, view in event.views.items():
            if view is not None:
                self._put(view)
            elif path in self.views:
                del self.views[path]
        if self.run_path not in self.views:
            self.run_path = next(iter(self.views), None)
        self._changed()

    def _put(self, view: RunView) -> None:
        self.views[view.run.path] = view
        if self.run_path is None:
            self.run_path = view.run.path

    def _changed(self) -> None:
        if self.metric not in self.metrics:
            self.metric = next(iter(self.metrics), None)
        self.main.show_views()
        self.read_metrics()

    @on(messages.MetricsRead)
    def _metrics_read(self, event: messages.MetricsRead) -> None:
        self.series[event.run] = event.series
        if event.run == self.run_path:
            if self.metric not in self.metrics:
                self.metric = next(iter(self.metrics), None)
            self.main.show_run()

    @on(messages.JobFailed)
    def _job_failed(self, event: messages.JobFailed) -> None:
        if event.group == "scan":
            self.failure = event.what
            self.main.show_views()
        elif event.group in {"rescan", "metrics"}:
            self.say(event.what)
        else:
            self.explain("Not done", event.what)
        if event.group == "remove":
            self._for_prune(lambda screen: screen.failed(event.what))

    @on(messages.JobCrashed)
    def _job_crashed(self, event: messages.JobCrashed) -> None:
        raise event.error

    # Changing the disk

    def change_pin(self, checkpoint: Checkpoint, *, pinned: bool, note: str | None = None) -> None:
        """Pin a checkpoint, or take its pin away."""
        label = f"{'pinning' if pinned else 'unpinning'} {checkpoint.name}"
        self.start("pin", label, lambda _: work.set_pin(checkpoint, pinned=pinned, note=note))

    @on(messages.PinChanged)
    def _pin_changed(self, event: messages.PinChanged) -> None:
        name = event.checkpoint.name
        if not event.changed:
            self.say(f"{name} was {'pinned' if event.pinned else 'not pinned'} already.")
        elif event.pinned:
            self.say(f"Pinned {name}. p takes the pin away, n changes its note.")
        else:
            self.say(f"Unpinned {name}. p pins it again.")
        self.rescan_runs([event.checkpoint.run])

    def remove(self, request: work.Request, shown: work.PrunePlan, path: Path) -> None:
        """Move to the trash what a shown plan removes."""
        scan, now = self.scan, self.clock()
        self.undo.append(Undo(path))
        self.start(
            "remove",
            "moving checkpoints to the trash",
            lambda job: work.move_to_trash(path, request, shown, scan, now, job),
        )

    @on(messages.CheckpointRemoved)
    def _checkpoint_removed(self, event: messages.CheckpointRemoved) -> None:
        if event.removal.item is not None:
            self.undo[-1].items.append(event.removal.item)
        self._for_prune(lambda screen: screen.progressed(event))

    @on(messages.RemovalEnded)
    def _removal_ended(self, event: messages.RemovalEnded) -> None:
        if self.undo and not self.undo[-1].items:
            self.undo.pop()
        if self.leaving:
            self.exit(self.return_value)
            return
        self._for_prune(lambda screen: screen.ended(event))
        done = sum(1 for r in event.removals if r.done)
        self.say(f"Moved {done} to the trash. z brings them back, T shows the trash.")
        self.rescan_runs([event.run])

    def _for_prune(self, tell: Callable[[PruneScreen], None]) -> None:
        for screen in self.screen_stack:
            if isinstance(screen, PruneScreen):
                tell(screen)

    def bring_back(self) -> None:
        """Restore what the last removal of this session moved."""
        if self.jobs.running("restore") or self.jobs.running("remove"):
            self.say("Still at work; try again in a moment.")
        elif not self.undo:
            self.say("Nothing to undo in this session; T shows the trash.")
        else:
            last = self.undo.pop()
            self.restore(last.run, last.items)

    def restore(self, run: Path, ids: Sequence[str]) -> None:
        """Put trash items back."""
        wanted = tuple(ids)
        self.start("restore", "restoring from the trash", lambda _: work.restore(run, wanted))

    @on(messages.ItemsRestored)
    def _items_restored(self, event: messages.ItemsRestored) -> None:
        if event.names:
            self.say(f"Restored {', '.join(event.names)}.")
        if event.errors:
            self.explain("Not everything was restored", "\n".join(event.errors))
        self.rescan_runs([event.run])
        self._leave_if_due()

    @on(messages.TrashEmptied)
    def _trash_emptied(self, event: messages.TrashEmptied) -> None:
        self.rescan_runs([event.run])
        self._leave_if_due()

    # The clipboard, help, and leaving

    def copy(self, what: str) -> None:
        """Hand a text to the terminal's clipboard, whichever way it takes."""
        self.start(
            "copy",
            "copying",
            lambda _: messages.Copied(what, "tmux" if clipboard.through_tmux(what) else "OSC 52"),
        )

    @on(messages.Copied)
    def _copied(self, event: messages.Copied) -> None:
        if event.way != "tmux":
            try:
                self.copy_to_clipboard(event.what)
            except UnicodeEncodeError:  # a path of bytes that are no text
                self.say("Not copied: it holds bytes that are no text.")
                return
        self.main.copied(event)

    def action_help(self) -> None:
        """Show the keys and words."""
        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen())

    async def action_quit(self) -> None:
        """Leave the way `q` does."""
        self.action_leave()

    def action_leave(self) -> None:
        """Quit; asks first while checkpoints are being moved or deleted."""
        busy = [group for group in CHANGING if self.jobs.running(group)]
        if not busy or self.leaving:
            self.exit(self.return_value)
            return

        def answered(stop: bool | None) -> None:
            if stop:
                self.leaving = True
                for group in busy:
                    job = self.jobs.latest(group)
                    if job is not None:
                        job.cancelled = True
                self.say("Leaving after the current one; q again leaves at once.")
                self._leave_if_due()

        self.push_screen(
            QuestionDialog(
                "Still at work",
                "Checkpoints are being moved or deleted.",
                yes="Stop after the current one and quit",
                no="Go on",
            ),
            answered,
        )

    def _leave_if_due(self) -> None:
        if self.leaving and not any(self.jobs.running(group) for group in CHANGING):
            self.exit(self.return_value)

    def leave_with(self, line: str) -> None:
        """Quit and have a line printed."""
        self.exit(line)
