"""What is known of the disk, and when to look again."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING

from ckptui.errors import CkptuiError
from ckptui.tui import messages, series, snapshot
from ckptui.tui.pauses import keep_from_the_collector
from ckptui.tui.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from textual.message import Message

    from ckptui.layouts.memory import Memory
    from ckptui.tui.early import Early
    from ckptui.tui.jobs import Job, Jobs
    from ckptui.tui.pulse import Pulse
    from ckptui.tui.series import Series
    from ckptui.tui.snapshot import Row, RunView, Scan, Snapshot

WATCH_SECONDS = 1.0
"""How often it is looked whether a run has changed."""
FULL_SECONDS = 30.0
"""How often everything is scanned again."""
RECHECK_SECONDS = 600.0
"""How often at least a scan also reads again what does not look changed."""
RECHECK_PATIENCE = 200.0
"""Sooner than that after this many times as long as the last one took."""
PATIENCE = 10.0
"""Reading is repeated only after this many times as long as it took."""
WATCHED = 200
"""Runs that are watched at most, besides the one that is listed and those that are trained."""


class Reader:
    """Runs, their metrics, and the background work that reads them."""

    def __init__(
        self,
        path: Path,
        scan: Scan | None,
        clock: Callable[[], datetime],
        jobs: Jobs,
        start: Callable[[str, str, Callable[[Job], Message | None]], Job],
        *,
        early: Early | None = None,
    ) -> None:
        self.path = path
        self._early = early
        self._given = scan
        self.clock = clock
        self._jobs = jobs
        self._start = start
        self._watch = Watch()
        self.views: dict[Path, RunView] = {}
        self.found: Snapshot | None = None
        """The last whole scan; None until the first one has ended."""
        self.failure: str | None = None
        """Why the last scan failed."""
        self.run_path: Path | None = None
        """The run whose checkpoints are listed, though it be gone meanwhile."""
        self.series: dict[Path, Series] = {}
        self.metric: str | None = None
        """The metric in the list and the chart."""
        self.also: frozenset[Path] = frozenset()
        """Further runs whose metrics are wanted, to lay them over the others."""
        self._held = False
        """Whether the run stays listed until the user chooses another one."""
        self._last: RunView | None = None
        """The run that is listed as it was seen last."""
        self._logged: set[Path] = set()
        """Runs whose metric log has changed since it was read."""
        self._rows_read: dict[Path, tuple[Row, ...]] = {}
        """The rows of a run when its metrics were read."""
        self._rescanning: tuple[Path, ...] = ()
        self._rechecked: Job | None = None

    @cached_property
    def scan(self) -> Scan:
        """Reads the disk as it is, whatever was read before: for plans."""
        if self._given is not None:
            return self._given
        from ckptui.scan import scan  # noqa: PLC0415 - the first names are shown without

        return scan

    @cached_property
    def _memory(self) -> Memory:
        from ckptui.layouts.memory import Memory  # noqa: PLC0415 - as above

        return Memory()

    @cached_property
    def _glance(self) -> Scan:
        """Reads anew only what has changed: for what is on the screen."""
        if self._given is not None:
            return self._given
        from ckptui.scan import scan  # noqa: PLC0415 - as above

        return partial(scan, memory=self._memory)

    @property
    def view(self) -> RunView | None:
        """The run whose checkpoints are listed."""
        return self.views.get(self.run_path) if self.run_path is not None else None

    @property
    def lost(self) -> RunView | None:
        """The run that is listed as it was last, where it is gone; None while it is there."""
        last = self._last
        gone = last is not None and last.run.path == self.run_path and self.view is None
        return last if gone else None

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
        return self.current_series.names or series.ordered(view.summary.metrics, view.run.policy)

    # Starting to read

    def read_all(self, *, recheck: bool = True) -> None:
        """Scan everything; a scan that still goes on is given up.

        Args:
            recheck: Read again also what does not look changed.
        """
        path, clock = self.path, self.clock
        first = self.found is None
        before = dict(self.views)

        def read(job: Job) -> Message | None:
            def found(view: RunView) -> None:
                if not job.cancelled:
                    job.post(messages.RunFound(view))

            scan, memory = self._glance, self._memory
            memory.recheck = recheck and not first
            try:
                taken = snapshot.take(
                    path,
                    scan,
                    clock,
                    on_view=found if first else None,
                    cancelled=job.is_cancelled,
                    before=before.get,
                )
            finally:
                memory.recheck = False
            keep_from_the_collector(sum(len(v.rows) for v in taken.views))
            return None if job.superseded else messages.RootScanned(taken)

        self._supersede("scan")
        job = self._start("scan", f"scanning {path}", self._alone(read))
        if recheck:
            self._rechecked = job

    def take_early(self, seconds: float) -> None:
        """Take in the names that an early look has found after at most so many seconds."""
        view = self._early.view(seconds) if self._early is not None else None
        if view is not None:
            self.take_run(view)

    def stop_scan(self) -> bool:
        """Stop the first scan and keep what it has found; False if none goes on."""
        job = self._jobs.latest("scan")
        if self.found is not None or job is None or not job.running:
            return False
        job.cancelled = True
        return True

    def read_runs(self, paths: Sequence[Path]) -> None:
        """Read some runs again, after something was done to them."""
        if self._jobs.running("rescan"):
            # What goes on may have looked before the change that is asked about now.
            paths = [*paths, *(p for p in self._rescanning if p not in paths)]
            self._supersede("rescan")
        self._rescanning = tuple(paths)
        before = {p: self.views.get(p) for p in paths}

        def read(job: Job) -> Message | None:
            views = {p: self._read_again(p, before[p]) for p in paths}
            return None if job.superseded else messages.RunsRescanned(views)

        if paths:
            self._start("rescan", f"reading {paths[0]}", self._alone(read))

    def _read_again(self, path: Path, before: RunView | None) -> RunView | None:
        """A run read anew; None where it is gone and what is browsed is still there."""
        try:
            return snapshot.rescan(path, self._glance, self.clock, before)
        except CkptuiError:
            if path == self.path or path.exists() or not self.path.exists():
                raise
            return None

    def _alone(self, read: Callable[[Job], Message | None]) -> Callable[[Job], Message | None]:
        """The work with the memory of earlier scans for itself."""

        def one_at_a_time(job: Job) -> Message | None:
            with self._memory.in_use:
                return read(job)

        return one_at_a_time

    def _supersede(self, group: str) -> None:
        old = self._jobs.latest(group)
        if old is not None:
            old.cancelled = old.superseded = True

    def read_metrics(self, *, changed: Iterable[Path] = ()) -> None:
        """Read the metric logs that are wanted, as far as they have changed or were never read."""
        self._logged.update(changed)
        for path in self._wanted():
            view = self.views.get(path)
            if view is None or view.run.unread:
                continue
            # The curves hold the checkpoints' own values too.
            rows = self._rows_read.get(path)
            if path in self._logged or rows is not view.rows:
                self._read_metrics_of(view)

    def _wanted(self) -> list[Path]:
        first = [self.run_path] if self.run_path is not None else []
        return [*first, *sorted(self.also - set(first))]

    def _read_metrics_of(self, view: RunView) -> None:
        group = f"metrics {view.run.path}"
        if self._jobs.running(group):
            return  # asked again once that has ended
        run, before = view.run, self.series.get(view.run.path)
        self._logged.discard(run.path)
        self._rows_read[run.path] = view.rows

        def read(_: Job) -> Message | None:
            found = series.read(run, before)
            return messages.MetricsRead(run.path, found or before or series.EMPTY)

        self._start(group, f"reading the metrics of {run.name}", read)

    def read_if_due(self) -> None:
        """Look at what may have changed; the more rarely, the longer it takes."""
        if self._jobs.running("scan"):
            return
        if self._due("scan", FULL_SECONDS):
            self.read_all(recheck=self._recheck_is_due())
        elif self._due("watch", WATCH_SECONDS, patience=1.0):
            self._look()

    def _recheck_is_due(self) -> bool:
        """Whether to read again what looks the same: a file may be cut short where it lies."""
        last = self._rechecked
        if last is None:
            return True
        return last.since >= min(RECHECK_SECONDS, RECHECK_PATIENCE * last.seconds)

    def _look(self) -> None:
        """Look in the background whether runs have changed, and read those that have."""
        watch, root = self._watch, self.path
        before = dict(self.views)
        first = [p for p in self._wanted() if p in before]
        first += [p for p, view in before.items() if view.run.live and p not in first]
        paths = [*first, *(p for p in before if p not in first)][: WATCHED + len(first)]
        watch.forget(before.__contains__)

        def look(job: Job) -> Message | None:
            views: dict[Path, RunView | None] = {}
            pulses: dict[Path, Pulse] = {}
            logged = set()
            for path in paths:
                seen = watch.look(path)
                pulses[path] = seen.pulse
                if seen.stirred:
                    with self._memory.in_use:
                        view = self._read_again(path, before[path])
                    views[path] = view
                    keep_from_the_collector(len(view.rows) if view is not None else 0)
                if seen.logged:
                    logged.add(path)
            more = root not in before and watch.root_changed(root)
            found = messages.RunsLookedAt(views, pulses, logged, root_changed=more)
            return None if job.superseded else found

        self._start("watch", f"looking at {root}", look)

    def _due(self, group: str, every: float, *, patience: float = PATIENCE) -> bool:
        job = self._jobs.latest(group)
        if job is None:
            return True
        # Half a tick of slack, or what is due every second would be done every other.
        return not job.running and job.since + 0.5 >= max(every, patience * job.seconds)

    # Taking in what was read

    def take_run(self, view: RunView) -> None:
        """A first scan has found a run, or read on in a large one."""
        if self.found is None:
            self._put(view)

    def take_all(self, found: Snapshot) -> bool:
        """A scan has ended; whether that showed anything new."""
        news = self.found is None or self.failure is not None
        news = news or _about(self.found) != _about(found)
        self.found, self.failure = found, None
        old, self.views = self.views, {}
        for view in found.views:
            known = old.get(view.run.path)
            # A run that was read alone since this scan began is known better already.
            newer = known is not None and known.began > view.began
            self.views[view.run.path] = known if known is not None and newer else view
        there = self.views.keys() | {self.run_path}
        self.series = {p: known for p, known in self.series.items() if p in there}
        if not self._held:
            # Only the first time: what is listed is acted on, so it must not change by itself.
            self.run_path = _most_wanted(found.views)
            self.hold()
        self._settle()
        return news or differ(old, self.views)

    def take_runs(self, views: Mapping[Path, RunView | None]) -> bool:
        """Some runs were read again; whether that showed anything new."""
        before = {path: self.views.get(path) for path in views}
        for path, view in views.items():
            known = self.views.get(path)
            if view is None:
                self.views.pop(path, None)
            elif known is None or known.began <= view.began:
                self._put(view)
        self._settle()
        return differ(before, {path: self.views.get(path) for path in views})

    def take_pulses(self, pulses: Mapping[Path, Pulse]) -> bool:
        """The locks of some runs were looked at; whether one tells something new."""
        changed = False
        for path, pulse in pulses.items():
            view = self.views.get(path)
            if view is not None and view.pulse != pulse:
                changed = changed or view.pulse.words != pulse.words
                self.views[path] = snapshot.with_pulse(view, pulse)
        return changed

    def take_metrics(self, event: messages.MetricsRead) -> bool:
        """The metrics of a run were read; whether that showed anything new."""
        changed = self.series.get(event.run) is not event.series
        self.series[event.run] = event.series
        self._settle()
        return changed

    def choose(self, run: Path) -> None:
        """List the checkpoints of another run."""
        self.run_path = run
        self.hold()
        self._settle()

    def hold(self) -> None:
        """Keep listing the run that is listed, if any, until another one is chosen."""
        self._held = self._held or self.run_path is not None

    def _put(self, view: RunView) -> None:
        self.views[view.run.path] = view
        if self.run_path is None:
            self.run_path = view.run.path
            self._settle()

    def _settle(self) -> None:
        if self.run_path not in self.views and not self._held:
            self.run_path = next(iter(self.views), None)
        view = self.view
        if view is None:
            return
        self._last = view
        if self.metric not in self.metrics:
            self.metric = next(iter(self.metrics), None)


def differ(old: Mapping[Path, RunView | None], new: Mapping[Path, RunView | None]) -> bool:
    """Whether views differ in what they list or say; cheap however long the lists are."""
    return old.keys() != new.keys() or any(_differs(old[path], new[path]) for path in new)


def _differs(a: RunView | None, b: RunView | None) -> bool:
    if a is None or b is None:
        return a is not b
    return a.rows is not b.rows or snapshot.aside(a) != snapshot.aside(b)


def _about(found: Snapshot | None) -> tuple[object, ...]:
    """What a scan tells besides its runs."""
    if found is None:
        return ()
    full = found.disk_used
    return (found.problems, found.ignored, found.partial, None if full is None else f"{full:.0%}")


def _most_wanted(views: Sequence[RunView]) -> Path | None:
    """The run to show first: one that is being trained, else the one saved to last."""
    dated = [(v.run.live, v.summary.last_saved, v.run.path) for v in views]
    known = [(live, when, path) for live, when, path in dated if when is not None]
    if known:
        return max(known)[2]
    return views[0].run.path if views else None
