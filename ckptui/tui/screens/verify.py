"""Verification of checkpoints, as it goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.widgets import Static

from ckptui import display
from ckptui.checkpoint import Checkpoint
from ckptui.tui import messages, text, work
from ckptui.tui.screens.base import BrowserScreen
from ckptui.tui.text import safe
from ckptui.tui.widgets.keybar import KeyBar
from ckptui.tui.widgets.table import Cell, Column, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual.widget import Widget

    from ckptui.tui.jobs import Job
    from ckptui.verify import Report

_STYLE = {"verified": "good", "ok": "good", "warning": "warn", "failed": "bad"}


class VerifyScreen(BrowserScreen):
    """Full verification of the chosen checkpoints, or of all of the run."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "all", "all of the run", show=False),
        Binding("s", "stop", "stop", show=False),
    ]

    def __init__(self, checkpoints: Sequence[Checkpoint]) -> None:
        super().__init__()
        self._checkpoints = tuple(checkpoints)
        self._reports: dict[str, Report] = {}
        self._read: dict[str, int] = {}
        self._job: Job | None = None

    def parts(self) -> Iterable[Widget]:
        """The list and a line of words."""
        width = min(26, max([10, *(len(c.name) for c in self._checkpoints)]))
        yield Table[Checkpoint](
            id="verify",
            key=lambda c: str(c.path),
            cell=self._cell,
            columns=(
                Column(key="name", title="Checkpoint", width=width, rank=0),
                Column(key="status", title="Check", width=9, rank=1),
                Column(key="size", title="Size", width=9, right=True, rank=3),
                Column(key="what", title="Found", width=20, grows=True, rank=2),
            ),
            ascii_only=self.browser.ascii_only,
        )
        yield Static(id="found")
        yield Static(id="status")
        yield KeyBar([("a", "all of the run"), ("s", "stop"), ("esc", "back")])

    def on_mount(self) -> None:
        """Begin."""
        self.table.border_title = "Verify: every file against its digest, weights for NaN"
        self.table.focus()
        self._begin()

    @property
    def table(self) -> Table[Checkpoint]:
        """The checkpoints."""
        return self.query_one("#verify", Table)

    def _begin(self) -> None:
        todo = [c for c in self._checkpoints if str(c.path) not in self._reports]
        self.table.set_rows(self._checkpoints)
        self._show_status()
        if not todo:
            return
        self._job = self.browser.start(
            "verify",
            f"verifying {todo[0].run}",
            lambda job: work.verify_all(todo, job, full=True),
            target=self,
        )
        self._show_status()

    def _cell(self, checkpoint: Checkpoint, column: Column) -> Cell:
        report = self._reports.get(str(checkpoint.path))
        match column.key:
            case "name":
                return checkpoint.name, "strong"
            case "status":
                return self._status(checkpoint, report)
            case "size":
                return display.size(checkpoint.size)
            case _:
                return _found(report), ("bad" if report and report.status == "failed" else "dim")

    def _status(self, checkpoint: Checkpoint, report: Report | None) -> Cell:
        if report is not None:
            return report.status, _STYLE[report.status]
        read = self._read.get(str(checkpoint.path))
        if read is None:
            return "-", "dim"
        return f"{min(0.99, read / checkpoint.size if checkpoint.size else 0):.0%}", "accent"

    @on(Table.Moved)
    def _moved(self) -> None:
        current = self.table.current
        report = self._reports.get(str(current.path)) if current is not None else None
        lines = (
            [f"{p.file}: {p.what}" if p.file else p.what for p in report.problems] if report else []
        )
        more = [f"and {len(lines) - 6} more"] if len(lines) > 6 else []
        shown = text.lines(*(f" {line}" for line in [*lines[:6], *more]))
        self.query_one("#found", Static).update(shown)

    @on(messages.BytesVerified)
    def _progressed(self, event: messages.BytesVerified) -> None:
        self._read[str(event.checkpoint.path)] = event.read
        self.table.refresh_rows()

    @on(messages.CheckpointVerified)
    def _verified(self, event: messages.CheckpointVerified) -> None:
        self._reports[str(event.report.checkpoint.path)] = event.report
        self.table.refresh_rows()
        self._moved()
        self._show_status()

    @on(messages.VerifyEnded)
    def _ended(self) -> None:
        self._show_status()

    @on(messages.JobFailed)
    def _failed(self, event: messages.JobFailed) -> None:
        event.stop()
        self.query_one("#status", Static).update(safe(f" {event.what}"))

    def _show_status(self) -> None:
        done = len(self._reports)
        bad = sum(1 for r in self._reports.values() if r.status == "failed")
        warned = sum(1 for r in self._reports.values() if r.status == "warning")
        words = f"{done} of {len(self._checkpoints)} checked, {bad} failed, {warned} with warnings"
        if self._job is not None and self._job.running:
            words += ", s stops"
        elif done < len(self._checkpoints):
            words += ", stopped"
        self.query_one("#status", Static).update(safe(f" {words}"))

    def action_stop(self) -> None:
        """Stop at the next piece of a file."""
        if self._job is not None:
            self._job.cancelled = True

    def action_all(self) -> None:
        """Go on with all checkpoints of the run."""
        view = self.browser.reader.view
        if view is None or (self._job is not None and self._job.running):
            return
        self._checkpoints = tuple(row.checkpoint for row in reversed(view.rows))
        self._begin()

    def action_back(self) -> None:
        """Stop and go back; reading leaves nothing half done."""
        self.action_stop()
        self.dismiss()


def _found(report: Report | None) -> str:
    if report is None:
        return ""
    if not report.problems:
        return "all files as they were written" if report.status == "verified" else "nothing wrong"
    first = report.problems[0]
    more = f" and {len(report.problems) - 1} more" if len(report.problems) > 1 else ""
    return (f"{first.file}: {first.what}" if first.file else first.what) + more
