"""Verification of checkpoints, as it goes on."""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import BindingType
from textual.widgets import Static

from ckptui import display
from ckptui.checkpoint import Checkpoint, State, order
from ckptui.tui import keys, messages, text, work
from ckptui.tui.keys import Key, same
from ckptui.tui.screens.base import BrowserScreen
from ckptui.tui.screens.copying import CopyDialog
from ckptui.tui.text import safe
from ckptui.tui.verified import Findings, Meter, found_words, of
from ckptui.tui.widgets.table import Cell, Column, Table
from ckptui.tui.widgets.words import OneLine, SomeLines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual.timer import Timer
    from textual.widget import Widget

    from ckptui.tui.jobs import Job
    from ckptui.tui.widgets.keybar import Hint
    from ckptui.verify import Report

_STYLE = {"verified": "good", "ok": "good", "warning": "warn", "failed": "bad"}
_RANK = {"failed": 0, "warning": 1}

EVERY = 0.25
"""Seconds between two redraws of the progress at least."""
_MAX_PROBLEMS = 6


class VerifyScreen(BrowserScreen):
    """Verification of the chosen checkpoints, or of all of the run."""

    HEADING = "Verify"
    KEYS = (
        Key(
            key="s",
            shown="s",
            act="stop",
            word="stop, go on",
            help="stop within a file, or go on with what is not checked yet",
            bar=True,
        ),
        Key(
            key="f",
            shown="f",
            act="level",
            word="full or quick",
            help="full: every file against its digest, weights for NaN; quick: sizes and headers",
            bar=True,
        ),
        Key(
            key="a",
            shown="a",
            act="all_of_run",
            word="all of the run",
            help="check all checkpoints of the run",
            bar=True,
        ),
        Key(
            key="o",
            shown="o",
            act="only",
            word="only findings",
            help="show all, or only those with something found",
            bar=True,
        ),
        same("copy", help="copy the command that checks the same"),
        keys.BACK,
    )
    BINDINGS: ClassVar[list[BindingType]] = keys.bindings(KEYS)

    def __init__(self, checkpoints: Sequence[Checkpoint], *, full: bool = True) -> None:
        super().__init__()
        self._checkpoints = tuple(sorted(checkpoints, key=order, reverse=True))
        self.full = full
        """Whether all content is read, or only sizes and headers are looked at."""
        self.findings = Findings()
        """What was found, at the level that is chosen now."""
        self._read: dict[tuple[object, ...], int] = {}
        self._only = False
        self._failure = ""
        self._job: Job | None = None
        self._meter = Meter(0, time.monotonic())
        self._due: Timer | None = None

    def parts(self) -> Iterable[Widget]:
        """The list, what was found in one, how far it is."""
        width = min(26, max([10, *(len(c.name) for c in self._checkpoints)]))
        yield Table[Checkpoint](
            id="verify",
            key=lambda c: str(c.path),
            cell=self._cell,
            columns=(
                Column(key="name", title="Checkpoint", width=width, rank=0),
                Column(key="status", title="Check", width=9, rank=1),
                Column(key="size", title="Size", width=9, right=True, rank=3),
                Column(key="what", title="Found", width=16, grows=True, rank=2),
            ),
            ascii_only=self.browser.ascii_only,
        )
        yield SomeLines(id="found")
        yield OneLine(id="status")

    def on_mount(self) -> None:
        """Begin."""
        self.set_focus(self.table)
        self._begin()

    @property
    def table(self) -> Table[Checkpoint]:
        """The checkpoints."""
        return self.query_one("#verify", Table)

    @property
    def going_on(self) -> bool:
        """Whether checkpoints are being read now."""
        return self._job is not None and self._job.running and not self._job.cancelled

    @property
    def _todo(self) -> list[Checkpoint]:
        return self.findings.left(self._checkpoints)

    def _begin(self) -> None:
        todo, full = self._todo, self.full
        self._failure = ""
        if todo:
            self._read.clear()
            self._meter = Meter(sum(self._work(c) for c in todo), time.monotonic())
            self._job = self.browser.start(
                "verify",
                f"verifying {todo[0].run}",
                lambda job: work.verify_all(todo, job, full=full),
                target=self,
            )
        self._show()

    def _work(self, checkpoint: Checkpoint) -> int:
        """How much there is to do: bytes, or for a quick check one a checkpoint."""
        return checkpoint.size if self.full else 1

    # What is shown

    def _show(self) -> None:
        if self._due is not None:
            self._due.stop()
            self._due = None
        level = "every file, weights for NaN" if self.full else "sizes and headers"
        word = "full" if self.full else "quick"
        self.table.border_title = safe(f"Verify, {word}" + f": {level}" * (self.size.width > 60))
        rows: list[Checkpoint] = list(self._checkpoints)
        if self._only:
            rows = [c for c in rows if self._is_bad(c)]
        if not self.going_on:  # nothing moves under the cursor while it goes on
            rows.sort(key=self._rank)
        yet = " yet" if self._todo else ""
        self.table.set_empty(f"Nothing was found{yet}. o shows all." if self._only else "")
        self.table.set_rows(rows)
        self._show_words()
        self.show_keys()

    def _show_soon(self) -> None:
        """Draw the progress, if it was not drawn just now."""
        if self._due is None:
            self._due = self.set_timer(EVERY, self._show_progress)

    def _show_progress(self) -> None:
        self._due = None
        self.table.refresh_rows()
        self._show_words()

    def _show_words(self) -> None:
        self.query_one("#status", Static).update(safe(f" {self._failure or self._words()}"))
        self._show_found()

    def _words(self) -> str:
        words = self.findings.told(self._checkpoints)
        if self.going_on:
            return f"{words}; {self._meter.told(time.monotonic(), bytes_counted=self.full)}"
        if not self._todo:
            return words
        stopped = self._job is not None and self._job.cancelled
        return f"{words}, stopped: s goes on" if stopped else f"{words}; s checks the rest"

    @on(Table.Moved)
    def _show_found(self) -> None:
        current = self.table.current
        report = self.findings.report(current) if current is not None else None
        lines = (
            [f"{p.file or report.checkpoint.name} {p.what}" for p in report.problems]
            if report
            else []
        )
        if current is not None and not lines and (words := self._found(current)):
            lines = [f"{current.name}: {words}"]
        more = len(lines) - _MAX_PROBLEMS
        tail = [f"and {more} more"] if more > 0 else []
        shown = text.lines(*(f" {line}" for line in [*lines[:_MAX_PROBLEMS], *tail]))
        self.query_one("#found", Static).update(shown)

    def _found(self, checkpoint: Checkpoint) -> str:
        report, gone = self.findings.report(checkpoint), self.findings.is_gone(checkpoint)
        return found_words(report, gone=gone)

    def _is_bad(self, checkpoint: Checkpoint) -> bool:
        report = self.findings.report(checkpoint)
        return report is not None and report.status in _RANK

    def _rank(self, checkpoint: Checkpoint) -> int:
        report = self.findings.report(checkpoint)
        return _RANK.get(report.status, 2) if report is not None else 2

    def _cell(self, checkpoint: Checkpoint, column: Column) -> Cell:
        report = self.findings.report(checkpoint)
        match column.key:
            case "name":
                return checkpoint.name, "strong"
            case "status":
                return self._status(checkpoint, report)
            case "size":
                return display.size(checkpoint.size)
            case _:
                bad = report is not None and report.status == "failed"
                return self._found(checkpoint), "bad" if bad else "dim"

    def _status(self, checkpoint: Checkpoint, report: Report | None) -> Cell:
        if report is not None:
            return (report.status, _STYLE[report.status]) if report.looked else ("unchecked", "dim")
        if self.findings.is_gone(checkpoint):
            return "gone", "dim"
        read = self._read.get(of(checkpoint))
        if read is None or not self.going_on:
            return "-", "dim"
        return f"{min(0.99, read / checkpoint.size if checkpoint.size else 0):.0%}", "accent"

    def on_resize(self) -> None:
        """The title is made to measure."""
        self.call_after_refresh(self._show)

    def say(self, words: str) -> None:
        """Show a line of words until there is progress."""
        self.query_one("#status", Static).update(safe(f" {words}"))

    # What the work tells

    @on(messages.BytesVerified)
    def _progressed(self, event: messages.BytesVerified) -> None:
        key = of(event.checkpoint)
        if self.full:
            self._meter.add(event.read - self._read.get(key, 0))
        self._read[key] = event.read
        self._show_soon()

    @on(messages.CheckpointVerified)
    def _verified(self, event: messages.CheckpointVerified) -> None:
        if (event.report.level == "full") is not self.full:
            return  # from before the other level was chosen
        checkpoint = event.report.checkpoint
        self.findings.reports[of(checkpoint)] = event.report
        self._done(checkpoint)

    @on(messages.CheckpointMissed)
    def _missed(self, event: messages.CheckpointMissed) -> None:
        self.findings.gone.add(of(event.checkpoint))
        self._done(event.checkpoint)

    def _done(self, checkpoint: Checkpoint) -> None:
        read = self._read.get(of(checkpoint), 0) if self.full else 0
        self._meter.add(self._work(checkpoint) - read)
        self._show_soon()

    @on(messages.VerifyEnded)
    def _ended(self) -> None:
        if not self.going_on:
            self._show()

    @on(messages.JobFailed)
    def _failed(self, event: messages.JobFailed) -> None:
        event.stop()
        self._failure = event.what
        self._show()

    # Keys

    def why_not(self, key: Key) -> str | None:
        """Why a key does nothing now."""
        if key.act == "stop" and not self.going_on and not self._todo:
            return "Everything is checked."
        if key.act == "all_of_run" and self.going_on:
            return "Stop this first, with s."
        return super().why_not(key)

    def action_stop(self) -> None:
        """Stop at the next piece of a file, or go on with what is left."""
        if self._job is not None and self.going_on:
            self._job.cancelled = True
            self._show()
        else:
            self._begin()

    def action_level(self) -> None:
        """Choose between all content and sizes with headers, and begin anew."""
        if self._job is not None:
            self._job.cancelled = True
        self.full = not self.full
        self.findings.forget()
        self._begin()

    def _listed(self) -> tuple[Checkpoint, ...] | None:
        """The checkpoints of the run as they are listed now; None where it is not listed."""
        view = self.browser.reader.views.get(self._checkpoints[0].run)
        return view.run.checkpoints if view is not None else None

    def state_changed(self) -> None:
        """Tell of what is there now: what was found in one is nothing about another."""
        listed = self._listed()
        if listed is not None and self.is_mounted:
            before, gone = self._checkpoints, set(self.findings.gone)
            self._checkpoints = self.findings.renewed(before, listed)
            if self._checkpoints != before or self.findings.gone != gone:
                self._show()

    def action_all_of_run(self) -> None:
        """Go on with all checkpoints of the run."""
        listed = self._listed()
        if listed is not None:
            self._checkpoints = tuple(reversed(listed))
            self._begin()

    def action_only(self) -> None:
        """Show all, or only those with something found."""
        self._only = not self._only
        self._show()

    def hints(self) -> list[Hint]:
        """The key that leaves out what is fine shows it again."""
        words = {"only findings": "all"} if self._only else {}
        return [(shown, words.get(word, word)) for shown, word in super().hints()]

    def action_copy(self) -> None:
        """Copy the command that checks the same."""
        # As the command does, without what is being written: it cannot be checked yet.
        there = [
            c
            for c in self._checkpoints
            if not self.findings.is_gone(c) and c.state is not State.WRITING
        ]
        if not there:
            self.say("Nothing to copy: none of them is there to be checked.")
            return
        paths = {c.path for c in there}
        run = {c.path for c in self._listed() or () if c.state is not State.WRITING}
        whole = len(paths) > 1 and bool(run) and run <= paths
        named = [there[0].run] if whole else [c.path for c in there]
        level = ["--full"] if self.full else []
        line = shlex.join(["ckptui", "verify", *map(str, named), *level])
        self.browser.push_screen(CopyDialog("The same as a command", line))

    def action_back(self) -> None:
        """Stop and go back; reading leaves nothing half done."""
        if self._job is not None:
            self._job.cancelled = True
        self.dismiss()
