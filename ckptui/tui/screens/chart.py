"""Curves of metrics on the whole screen; the cursor snaps to checkpoints and acts on them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.binding import BindingType
from textual.message import Message
from textual.widgets import Static

from ckptui.columns import Curve
from ckptui.display import picture
from ckptui.tui import chart_words, curve, keys, plotted
from ckptui.tui.chart_keys import CHART
from ckptui.tui.screens.base import BrowserScreen
from ckptui.tui.series import EMPTY, ordered
from ckptui.tui.text import fit, plain, safe
from ckptui.tui.ticks import Ticks, whole
from ckptui.tui.widgets.chart import Chart, Shown
from ckptui.tui.widgets.numbers import Numbers
from ckptui.tui.widgets.words import OneLine

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual.content import Content
    from textual.widget import Widget

    from ckptui.display.picture import Trace
    from ckptui.tui.jobs import Job
    from ckptui.tui.keys import Key
    from ckptui.tui.listing import Look
    from ckptui.tui.series import Series
    from ckptui.tui.snapshot import Row, RunView
    from ckptui.tui.widgets.keybar import Hint

_AT_ONCE = 1000
"""Checkpoints up to which their ticks take no time that anybody could feel."""
_NEED_CHECKPOINT: Final = frozenset(
    {"pin", "note", "resume", "trash_chosen", "verify", "mark", "detail"}
)
_NEED_METRIC: Final = frozenset(
    {"best", "dip", "smoother", "rougher", "log", "outliers", "axes", "table", "copy"}
)
_OF_CURVES: Final = frozenset({"zoom_in", "zoom_out", "log", "outliers", "axes"})
_OF_THE_LIST: Final = frozenset({"mark", "trash_chosen"})
"""Deeds that need the list behind to show the same run."""
_RUN_GONE = "its run was removed or renamed elsewhere"


class ChartScreen(BrowserScreen):
    """Curves, large, or their numbers."""

    KEYS = CHART
    HEADING = "Chart"
    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = keys.bindings(KEYS)

    @dataclass
    class TicksMade(Message):
        """The ticks of many checkpoints are ready."""

        rows: tuple[Row, ...]
        ticks: Ticks

    @dataclass
    class CurvesSmoothed(Message):
        """Curves were smoothed."""

        weight: float
        done: Mapping[plotted.Source, tuple[Curve, Curve]]

    def __init__(self, key: str | None, run: Path) -> None:
        """A chart of one run, whatever the list behind shows later.

        Args:
            key: The checkpoint to begin at.
            run: The run.
        """
        super().__init__()
        self.run = run
        self.view: RunView | None = None
        """The run as it was known last."""
        self.metric: str | None = None
        self.step: int | None = None
        """Where the cursor stands, also should its checkpoint go."""
        self.ticks = Ticks()
        self.metrics: list[str] = []
        """Those chosen, where several were."""
        self.others: list[Path] = []
        """Runs that are laid over."""
        self.traces: list[Trace] = []
        self.smoothing = plotted.Smoothing()
        self.window = plotted.Window()
        self.shown = Shown()
        self._ready = False
        self._key = key
        self._rows: tuple[Row, ...] | None = None
        """What the ticks stand for."""
        self._listed: Ticks | None = None
        """The ticks without one that is gone, while the cursor stands on that."""
        self.sources: list[plotted.Source] = []
        """What each trace is a curve of."""
        self._smoothing_now: Job | None = None
        self._titles: tuple[Content, Content] | None = None
        self._series: Series | None = None
        """Its metrics as they were known last; None until they are read."""
        self._away = False
        """Whether the run itself is gone."""
        self._nowhere = False
        """Whether it was said that the cursor is on no checkpoint."""

    def parts(self) -> Iterable[Widget]:
        """The chart or the numbers, and the words below."""
        plain_only = self.browser.ascii_only
        yield Chart(id="large-chart", ascii_only=plain_only, words=2)
        yield Numbers(id="chart-numbers", ascii_only=plain_only)
        yield OneLine(id="status")

    def on_mount(self) -> None:
        """Draw what is known."""
        self._ready = True
        self.browser.reader.also |= {self.run}
        self.state_changed()

    def on_screen_resume(self) -> None:
        """What was done on another screen meanwhile, verified for one, is shown."""
        self.state_changed()

    def on_resize(self) -> None:
        """The words in the frame are made to measure."""
        super().on_resize()
        self.call_after_refresh(self.draw)

    def on_unmount(self) -> None:
        """Nobody asks for the other runs' metrics any more."""
        self.browser.reader.also -= {self.run, *self.others}

    @property
    def chart(self) -> Chart:
        """The curves."""
        return self.query_one(Chart)

    @property
    def numbers(self) -> Numbers:
        """The table."""
        return self.query_one(Numbers)

    @property
    def tabled(self) -> bool:
        """Whether the numbers are shown instead of the curves."""
        return self.has_class("-numbers")

    @property
    def look(self) -> Look:
        """What the words depend on besides the checkpoint."""
        found = self._series if self._series is not None else EMPTY
        return replace(self.browser.main.look, series=found, metric=self.metric)

    @property
    def listed(self) -> bool:
        """Whether the list behind shows the same run."""
        return self.browser.reader.run_path == self.run

    @property
    def series(self) -> dict[Path, Series]:
        """The metrics of all runs, as far as they are read; of its own also after that is gone."""
        found = dict(self.browser.reader.series)
        if self._series is not None:
            found[self.run] = self._series
        return found

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Of the run, those that matter most first."""
        if self._series is not None and self._series.names:
            return self._series.names
        view = self.view
        return ordered(view.summary.metrics, view.run.policy) if view is not None else ()

    @property
    def whole(self) -> tuple[int, int]:
        """The first and the last step of all there is to show."""
        return whole(self.traces, self.ticks)

    @property
    def key(self) -> str | None:
        """Of the checkpoint at which the cursor stands, gone or not."""
        return self._key

    @property
    def current(self) -> Row | None:
        """The checkpoint under the cursor."""
        if self.tabled and self.numbers.current != self.step:
            return None
        return self.ticks.row(self._key)

    @property
    def chosen(self) -> list[Row]:
        """What is acted on: the checkpoint under the cursor, whatever is marked in the list."""
        return [self.current] if self.current is not None else []

    # What is known

    def state_changed(self) -> None:
        """Draw anew."""
        if not self._ready:
            return
        reader = self.browser.reader
        view = reader.views.get(self.run)
        self._series = reader.series.get(self.run, self._series)
        if view is None:
            self._lose()
        else:
            self._find(view)
        if self.listed and view is not None:
            self.metric = reader.metric
        elif self.metric not in self.metric_names:
            self.metric = next(iter(self.metric_names), None)
        self.draw()

    def _find(self, view: RunView) -> None:
        """Take in what is known of the run now."""
        if self._away:
            self._away = False
            self.say(f"{view.run.name} is there again.")
        self.view, rows = view, view.rows
        if rows is self._rows:
            return
        arranged, look = self.browser.main.shown, self.look
        if arranged.source is rows and isinstance(arranged.ticks, Ticks):
            self._take(rows, arranged.ticks)
        elif len(rows) <= _AT_ONCE:
            self._take(rows, curve.ticks_of(rows, look))
        else:
            self.browser.start(
                "ticks",
                "placing the checkpoints",
                lambda _: self.TicksMade(rows, curve.ticks_of(rows, look)),
                target=self,
            )

    def _lose(self) -> None:
        """The run is gone: what was known of it stays, and no key acts on it or on another."""
        if self._away:
            return
        self._away, self._rows, self._listed = True, None, None
        self.ticks = curve.all_gone(self.ticks, _RUN_GONE)
        self.say(f"{self.run.name} is gone: removed or renamed elsewhere.")

    @on(TicksMade)
    def _ticks_made(self, event: TicksMade) -> None:
        event.stop()
        view = self.browser.reader.views.get(self.run)
        if view is not None and event.rows is view.rows:
            self._take(event.rows, event.ticks)
            self.draw()

    def _take(self, rows: tuple[Row, ...], ticks: Ticks) -> None:
        """Take other checkpoints; the cursor stays on its own, though that be gone.

        On another one without a word, the next key would act on that.
        """
        old = self.ticks.row(self._key)
        self._rows, self.ticks, self._listed = rows, ticks, None
        at = ticks.find(self._key)
        if at is None and self._stay_aside(rows, old):
            return
        if at is None and old is not None and old.key not in self.browser.moved:
            ghost = curve.gone(old, rows)
            if ghost is not None:
                self._listed, self.ticks = ticks, ticks.with_row(ghost)
                if not old.gone:
                    self.say(f"{ghost.checkpoint.name} is gone: {ghost.gone}.")
                return
        if at is None:
            at = ticks.nearest(self.step) if self.step is not None else len(ticks) - 1
        if at is not None and at >= 0:
            self._key, self.step = ticks.keys[at], ticks.steps[at]
            self._be_somewhere()
            if old is not None and curve.replaced(old, ticks.rows[at]):
                name = old.checkpoint.name
                self.say(f"{name} was replaced: another checkpoint has its name now.")

    def _be_somewhere(self) -> None:
        """Say no longer that the cursor is on no checkpoint."""
        if self._nowhere:
            self._nowhere = False
            self.say("")

    def _stay_aside(self, rows: tuple[Row, ...], old: Row | None) -> bool:
        """Stay with a checkpoint that has no tick; whether that is so.

        One of an abandoned branch stands at its step until the cursor leaves it. What has no step
        has no place: the cursor is nowhere then, rather than on another one without a word.
        """
        row = next((r for r in rows if r.key == self._key), None)
        if row is not None and row.checkpoint.step is not None and not row.checkpoint.current:
            self._listed, self.ticks = self.ticks, self.ticks.with_row(row, "-")
            self.step = row.checkpoint.step
            if old is None or old.checkpoint.current:
                self.say(f"{row.checkpoint.name} is of an abandoned branch, not of this curve.")
            return True
        if self._key is None or self.step is not None:
            return False
        if not self._nowhere:
            self.say(chart_words.no_place(row, Path(self._key).name))
        self._nowhere = True
        return True

    def lay_over(self, runs: Sequence[Path]) -> None:
        """Draw the curves of other runs too."""
        reader = self.browser.reader
        reader.also = (reader.also - frozenset(self.others)) | frozenset(runs)
        self.others = list(runs)
        reader.read_metrics()
        self.draw()

    def draw(self) -> None:
        """Show the curves as they are now."""
        reader, look, view = self.browser.reader, self.look, self.view
        metrics = [n for n in self.metrics if n in self.metric_names]
        if len(metrics) < 2:
            metrics = [look.metric] if look.metric is not None else []
        runs = [self.run, *(path for path in self.others if path in reader.views)]
        names = {p: reader.views[p].run.name if p in reader.views else p.name for p in runs}
        read = self.series
        found = plotted.curves(runs, metrics, read)
        self._smooth(found)
        self.sources = list(found)
        self.traces = plotted.traces(
            found,
            self.smoothing,
            names=names if len(runs) > 1 else {},
            unread=frozenset(p for p in runs if p not in read),
        )
        self.window.follow(self.whole, self.step)
        shown = replace(self.shown, steps=self.window.steps)
        self.chart.set_cursor(self._key)
        self.chart.show(
            self.traces,
            self.ticks,
            shown=shown,
            empty=curve.why_empty(look),
            caption=self._caption,
        )
        name = view.run.name if view is not None else self.run.name
        name = f"{name} (gone)" if self._away else name
        title = self._in_frame(chart_words.title(name, self.traces, log=shown.log))
        words = chart_words.ways(shown, self.smoothing.weight, *self._hints_on(shown))
        ways = self._in_frame(words)
        if (title, ways) != self._titles:  # the same once more would draw everything anew
            self._titles = (title, ways)
            self.chart.border_title = self.numbers.border_title = title
            self.chart.border_subtitle = ways
        if self.tabled:
            own = sum(run == self.run for run, _ in self.sources)
            self.numbers.show(self.traces, self.ticks, shown.steps, own=own)

    def _in_frame(self, words: str) -> Content:
        """Words that stand in the frame: Textual would cut them with an ellipsis beyond ASCII."""
        dots = "~" if self.browser.ascii_only else "…"
        room = max(1, self.size.width - 6)
        return safe(fit(plain(words), room, ellipsis=dots).rstrip())

    def _hints_on(self, shown: Shown) -> list[str]:
        """What the curves do not show as they are drawn, and which keys do."""
        first, last = shown.steps or self.whole
        plain_axis = len(self.traces) == 1 and not (shown.log or shown.robust)
        acts = picture.seen_better(self.traces[0], first, last) if plain_axis else ()
        found = [self.browser.wishes.shown_key(k) for k in CHART if k.act in acts]
        hints = []
        if found:
            step = picture.flat_from(self.traces[0], first, last)
            hints.append(f"flat from step {step} on: {' or '.join(found)} shows more")
        beyond = curve.beyond_steps(self.ticks, [t.metric for t in self.traces])
        return hints + ([f"{beyond} not drawn: step too large"] if beyond else [])

    def _smooth(self, found: Mapping[plotted.Source, Curve]) -> None:
        """Have smoothed in the background what is not yet."""
        running = self._smoothing_now is not None and self._smoothing_now.running
        work = self.smoothing.to_do(found, anew=not running)
        if work is not None:
            self._smoothing_now = self.browser.start(
                "smooth",
                "smoothing",
                lambda _: self.CurvesSmoothed(work.weight, work.done()),
                target=self,
            )

    @on(CurvesSmoothed)
    def _curves_smoothed(self, event: CurvesSmoothed) -> None:
        event.stop()
        self.smoothing.take(event.weight, event.done)
        self.draw()

    def _caption(self, key: str) -> list[str]:
        row, look = self.ticks.row(key), self.look
        if row is None:
            return []
        return [
            chart_words.values(row, look, self.traces, self.sources),
            chart_words.about(row, look, marked=key in self.browser.main.marked),
        ]

    def say(self, words: str) -> None:
        """Show a line of words."""
        self.query_one("#status", Static).update(safe(f" {words}"))

    # Keys

    def why_not(self, key: Key) -> str | None:
        """Also where there is no checkpoint, or no metric, to act on."""
        reason = super().why_not(key)
        if reason is None and key.changes and self.view is not None:
            reason = self.view.read_only
        if reason is None and key.act in _NEED_CHECKPOINT and self.current is None:
            if self.tabled and self.ticks:
                return "No checkpoint was saved at this step; left and right go to one."
            return "No checkpoint here."
        here = self.current
        if reason is None and key.act in _NEED_CHECKPOINT and here is not None and here.gone:
            return f"{here.checkpoint.name} is gone: {here.gone}."
        if reason is None and key.act in _OF_THE_LIST and not self.listed:
            return "The list behind shows another run now: choose this one there first."
        if reason is None and key.act == "copy" and self._away:
            return f"{self.run.name} is gone: removed or renamed elsewhere."
        if reason is None and key.act in _NEED_METRIC and not self.traces:
            return "No metrics in this run."
        if reason is None and key.act in _OF_CURVES and self.tabled:
            return "That is for the curves; t shows them."
        return reason

    def usable(self, key: Key) -> bool:
        """What depends on where the cursor stands keeps its place in the key bar."""
        return super().why_not(key) is None and not (self.tabled and key.act in _OF_CURVES)

    def hints(self) -> list[Hint]:
        """The key that shows the numbers shows the curves again."""
        words = {"table": "curves"} if self.tabled else {}
        return [(shown, words.get(word, word)) for shown, word in super().hints()]

    async def perform(self, act: str) -> None:
        """Do the deed of this name."""
        # Not before it is needed: some of these deeds open screens that can open this one.
        from ckptui.tui.screens.chart_actions import ACTIONS  # noqa: PLC0415

        ACTIONS[act](self)

    def move(self, by: int) -> None:
        """Go to the checkpoint before or after."""
        at = self.ticks.find(self._key)
        here = self.numbers.current
        if self.tabled and here is not None and self.current is None:
            steps = self.ticks.steps
            self.go(bisect_left(steps, here) - 1 if by < 0 else bisect_right(steps, here))
        elif at is not None:
            self.go(at + by)
        else:
            self.go(len(self.ticks) - 1)

    def go(self, at: int) -> None:
        """Put the cursor on a checkpoint, in the list too."""
        if not self.ticks:
            return
        at = max(0, min(len(self.ticks) - 1, at))
        left = self.ticks.keys[at] != self._key
        self._be_somewhere()
        self._key, self.step = self.ticks.keys[at], self.ticks.steps[at]
        before = self.window.steps
        self.window.follow(self.whole, self.step)
        if not (left and self._leave_aside()) and before != self.window.steps:
            self.draw()
        self.chart.set_cursor(self._key)
        if self.tabled:
            self.numbers.go(self.step)
        self._select()

    def _leave_aside(self) -> bool:
        """Drop the tick that stands only while the cursor is there; whether there was one."""
        if self._listed is None:
            return False
        self.ticks, self._listed = self._listed, None
        self.say("")
        self.draw()
        return True

    def _select(self) -> None:
        """Put the cursor of the list where this one is, if the list shows the same run."""
        if self.listed and self._key is not None:
            self.browser.main.select(Path(self._key))

    def choose_metric(self, name: str) -> None:
        """Show another metric, in the list too, if that shows the same run."""
        self.metric = name
        if self.listed:
            self.browser.reader.metric = name
        self.browser.state_changed()

    @on(Chart.Pointed)
    def _pointed(self, event: Chart.Pointed) -> None:
        self.go(self.ticks.find(event.key) or 0)

    # The numbers

    def show_numbers(self, numbers: bool) -> None:
        """Show the numbers instead of the curves, or the curves again."""
        self.set_class(numbers, "-numbers")
        self.show_keys()
        self.draw()
        if numbers:
            self.numbers.go(self.step)
            self.set_focus(self.numbers)
        else:
            self.set_focus(None)

    @on(Numbers.Moved)
    def _numbers_moved(self) -> None:
        step = self.numbers.current
        at = self.ticks.nearest(step) if step is not None else None
        if not self.tabled or at is None or step == self.step or self.ticks.steps[at] != step:
            return
        self._key, self.step = self.ticks.keys[at], step
        self._leave_aside()
        self.chart.set_cursor(self._key)
        self._select()

    @on(Numbers.Chosen)
    async def _numbers_chosen(self) -> None:
        await self.action_press("detail")
