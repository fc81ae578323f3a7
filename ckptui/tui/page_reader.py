"""The pages about one checkpoint: read in the background when first wanted, again when outdated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

from ckptui.tui import pages, surroundings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.message_pump import MessagePump

    from ckptui.tui.app import Browser
    from ckptui.tui.jobs import Job
    from ckptui.tui.messages import JobFailed
    from ckptui.tui.pages import Page
    from ckptui.tui.snapshot import Row, RunView

AROUND = frozenset({"metrics", "config", "lineage"})
"""Pages that say something of other checkpoints too."""
_GROUP = "detail"


@dataclass
class PageRead(Message):
    """A page was read."""

    tab: str
    number: int
    """Which reading it was."""
    page: Page


class PageReader:
    """What is read of each page, what is being read, and why one could not be."""

    def __init__(self, browser: Browser, target: MessagePump) -> None:
        """Read for `target`, which gets `PageRead` and `JobFailed` and hands them back here."""
        self._browser = browser
        self._target = target
        self.pages: dict[str, Page] = {}
        self.failures: dict[str, str] = {}
        """Sentences, by page."""
        self._jobs: dict[str, Job] = {}
        self._wanted: dict[str, int] = {}
        """For each page the number of the reading whose result is wanted."""
        self._number = 0

    def asked(self, tab: str) -> bool:
        """Whether a page is read, or being read."""
        return tab in self._wanted

    def read(self, tab: str, row: Row, view: RunView | None) -> None:
        """Read a page; what an earlier reading of it brings is not wanted any more."""
        self.stop([tab])
        self._number += 1
        self._wanted[tab] = number = self._number
        run = view.run if view is not None else row.run
        reader = self._browser.reader
        before = reader.series.get(run.path)
        runs = [v.run for v in reader.views.values()]
        ascii_only = self._browser.ascii_only
        checked = self._browser.reports.get((row.checkpoint.path, *row.checkpoint.identity))

        def read(job: Job) -> Message:
            match tab:
                case "files":
                    page = pages.files_page(row.checkpoint, checked)
                case "tensors":
                    page = pages.tensors_page(row.checkpoint, job)
                case "metrics":
                    page = surroundings.metrics_page(row, run, before, ascii_only=ascii_only)
                case "config":
                    page = surroundings.config_page(row, run)
                case _:
                    page = surroundings.lineage_page(row, run, runs)
            return PageRead(tab, number, page)

        label = f"reading {row.checkpoint.path}"
        self._jobs[tab] = self._browser.start(f"{_GROUP} {tab}", label, read, target=self._target)

    def take(self, event: PageRead) -> bool:
        """A page was read; whether it is the one that was wanted."""
        if self._wanted.get(event.tab) != event.number:
            return False
        self.pages[event.tab] = event.page
        self.failures.pop(event.tab, None)
        return True

    def take_failure(self, event: JobFailed) -> bool:
        """A job has failed; whether it was the reading of a page."""
        group, _, tab = event.group.partition(" ")
        if group != _GROUP or tab not in self._wanted:
            return False
        self.failures[tab] = event.what
        return True

    def outdate(self, tabs: Iterable[str]) -> None:
        """These pages may say something else by now; what is known of them stays until then."""
        for tab in tabs:
            self._wanted.pop(tab, None)

    def stop(self, tabs: Iterable[str] | None = None) -> None:
        """Stop what is being read, at the next file."""
        for tab, job in self._jobs.items():
            if tabs is None or tab in tabs:
                job.cancelled = True

    def forget(self) -> None:
        """Another checkpoint is meant now."""
        self.stop()
        self.pages.clear()
        self.failures.clear()
        self._wanted.clear()
