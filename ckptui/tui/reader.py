"""What is known of the disk, and when to look again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckptui.tui import messages, series, snapshot
from ckptui.tui.runs import last_saved

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from pathlib import Path

    from textual.message import Message

    from ckptui.checkpoint import Run
    from ckptui.tui.jobs import Job, Jobs
    from ckptui.tui.series import Series
    from ckptui.tui.snapshot import Row, RunView, Scan, Snapshot

LIVE_SECONDS = 3.0
"""How often a run that is being trained is read again."""
FULL_SECONDS = 30.0
"""How often everything is scanned again."""
PATIENCE = 10.0
"""Reading is repeated only after this many times as long as it took."""


class Reader:
    """Runs, their metrics, and the background work that reads them."""

    def __init__(
        self,
        path: Path,
        scan: Scan,
        clock: Callable[[], datetime],
        jobs: Jobs,
        start: Callable[[str, str, Callable[[Job], Message | None]], Job],
    ) -> None:
        self.path = path
        self.scan = scan
        self.clock = clock
        self._jobs = jobs
        self._start = start
        self.views: dict[Path, RunView] = {}
        self.found: Snapshot | None = None
        """The last whole scan; None until the first one has ended."""
        self.failure: str | None = None
        """Why the last scan failed."""
        self.run_path: Path | None = None
        """The run whose checkpoints are listed."""
        self.series: dict[Path, Series] = {}
        self.metric: str | None = None
        """The metric in the list and the chart."""
        self._chosen = False
        """Whether the user has chosen the run."""
        self._rescanning: tuple[Path, ...] = ()
        self._metrics_of: Path | None = None

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

    # Starting to read

    def read_all(self) -> None:
        """Scan everything; a scan that still goes on is given up."""
        path, scan, clock = self.path, self.scan, self.clock
        first = self.found is None

        def read(job: Job) -> Message | None:
            def found(view: RunView) -> None:
                if not job.cancelled:
                    job.post(messages.RunFound(view))

            on_view = found if first else None
            taken = snapshot.take(path, scan, clock, on_view=on_view, cancelled=job.is_cancelled)
            return None if job.superseded else messages.RootScanned(taken)

        self._supersede("scan")
        self._start("scan", f"scanning {path}", read)

    def stop_scan(self) -> bool:
        """Stop the first scan and keep what it has found; False if none goes on."""
        job = self._jobs.latest("scan")
        if self.found is not None or job is None or not job.running:
            return False
        job.cancelled = True
        return True

    def read_runs(self, paths: Sequence[Path]) -> None:
        """Read some runs again."""
        scan, clock = self.scan, self.clock

        if self._jobs.running("rescan"):
            # What goes on may have looked before the change that is asked about now.
            paths = [*paths, *(p for p in self._rescanning if p not in paths)]
            self._supersede("rescan")
        self._rescanning = tuple(paths)

        def read(job: Job) -> Message | None:
            views = {p: snapshot.rescan(p, scan, clock) for p in paths}
            return None if job.superseded else messages.RunsRescanned(views)

        if paths:
            self._start("rescan", f"reading {paths[0]}", read)

    def _supersede(self, group: str) -> None:
        old = self._jobs.latest(group)
        if old is not None:
            old.cancelled = old.superseded = True

    def read_metrics(self) -> None:
        """Read the metric log of the run that is listed, if it has changed."""
        view = self.view
        if view is None:
            return
        if self._metrics_of == view.run.path and not self._due("metrics", 0.0):
            return
        self._metrics_of = view.run.path
        run, before = view.run, self.series.get(view.run.path)

        def read(_: Job) -> Message | None:
            found = series.read(run, before)
            return None if found is None else messages.MetricsRead(run.path, found)

        self._start("metrics", f"reading the metrics of {run.name}", read)

    def read_if_due(self) -> None:
        """Look again at what may have changed; the more rarely, the longer it takes."""
        if self._jobs.running("scan"):
            return
        if self._due("scan", FULL_SECONDS):
            self.read_all()
            return
        live = [path for path, view in self.views.items() if view.run.live]
        if live and self._due("rescan", LIVE_SECONDS):
            self.read_runs(live)

    def _due(self, group: str, every: float) -> bool:
        job = self._jobs.latest(group)
        if job is None:
            return True
        return not job.running and job.since >= max(every, PATIENCE * job.seconds)

    # Taking in what was read

    def take_run(self, view: RunView) -> None:
        """A first scan has found a run."""
        if self.found is None:
            self._put(view)

    def take_all(self, found: Snapshot) -> None:
        """A scan has ended."""
        self.found, self.failure = found, None
        old, self.views = self.views, {}
        for view in found.views:
            known = old.get(view.run.path)
            # A run that was read alone since this scan began is known better already.
            newer = known is not None and known.when > view.when
            self.views[view.run.path] = known if known is not None and newer else view
        if not self._chosen:
            self.run_path = _most_wanted(found.views)
        self._settle()

    def take_runs(self, event: messages.RunsRescanned) -> bool:
        """Some runs were read again; whether that showed anything new."""
        before = [self._content(path) for path in event.views]
        for path, view in event.views.items():
            if view is not None:
                self._put(view)
            else:
                self.views.pop(path, None)
        self._settle()
        return before != [self._content(path) for path in event.views]

    def _content(self, path: Path) -> tuple[Row, ...] | Run | None:
        view = self.views.get(path)
        return None if view is None else view.rows or view.run

    def take_metrics(self, event: messages.MetricsRead) -> None:
        """The metrics of a run were read."""
        self.series[event.run] = event.series
        self._settle()

    def choose(self, run: Path) -> None:
        """List the checkpoints of another run."""
        self.run_path, self._chosen = run, True
        self._settle()

    def _put(self, view: RunView) -> None:
        self.views[view.run.path] = view
        if self.run_path is None:
            self.run_path = view.run.path
            self._settle()

    def _settle(self) -> None:
        if self.run_path not in self.views:
            self.run_path = next(iter(self.views), None)
        if self.metric not in self.metrics:
            self.metric = next(iter(self.metrics), None)


def _most_wanted(views: Sequence[RunView]) -> Path | None:
    """The run to show first: one that is being trained, else the one saved to last."""
    dated = [(v.run.live, last_saved(v), v.run.path) for v in views]
    known = [(live, when, path) for live, when, path in dated if when is not None]
    if known:
        return max(known)[2]
    return views[0].run.path if views else None
