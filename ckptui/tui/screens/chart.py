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
from ckptui.tui.text import safe
from ckptui.tui.ticks import Ticks, whole
from ckptui.tui.widgets.chart import Chart, Shown
from ckptui.tui.widgets.numbers import Numbers

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual.content import Content
    from textual.widget import Widget

    from ckptui.display.picture import Trace
    from ckptui.tui.jobs import Job
    from ckptui.tui.keys import Key
    from ckptui.tui.listing import Look
    from ckptui.tui.snapshot import Row
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

    def __init__(self, key: str | None) -> None:
        super().__init__()
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
        self._sources: list[plotted.Source] = []
        """What each trace is a curve of."""
        self._smoothing_now: Job | None = None
        self._titles: tuple[Content, Content] | None = None

    def parts(self) -> Iterable[Widget]:
        """The chart or the numbers, and the words below."""
        plain_only = self.browser.ascii_only
        yield Chart(id="large-chart", ascii_only=plain_only, words=2)
        yield Numbers(id="chart-numbers", ascii_only=plain_only)
        yield Static(id="status")

    def on_mount(self) -> None:
        """Draw what is known."""
        self._ready = True
        self.state_changed()

    def on_screen_resume(self) -> None:
        """What was done on another screen meanwhile, verified for one, is shown."""
        self.state_changed()

    def on_unmount(self) -> None:
        """Nobody asks for the other runs' metrics any more."""
        self.browser.reader.also -= frozenset(self.others)

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
        return self.browser.main.look

    @property
    def whole(self) -> tuple[int, int]:
        """The first and the last step of all there is to show."""
        return whole(self.traces, self.ticks)

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
        view = self.browser.reader.view
        rows = view.rows if view is not None else ()
        arranged, look = self.browser.main.shown, self.look
        if rows is not self._rows:
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
        self.draw()

    @on(TicksMade)
    def _ticks_made(self, event: TicksMade) -> None:
        event.stop()
        view = self.browser.reader.view
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

    def lay_over(self, runs: Sequence[Path]) -> None:
        """Draw the curves of other runs too."""
        reader = self.browser.reader
        reader.also = (reader.also - frozenset(self.others)) | frozenset(runs)
        self.others = list(runs)
        reader.read_metrics()
        self.draw()

    def draw(self) -> None:
        """Show the curves as they are now."""
        reader, look = self.browser.reader, self.look
        view = reader.view or reader.lost
        metrics = [n for n in self.metrics if n in reader.metrics]
        if len(metrics) < 2:
            metrics = [look.metric] if look.metric is not None else []
        runs = [view.run.path] if view is not None else []
        runs += [path for path in self.others if path in reader.views and path not in runs]
        found = plotted.curves(runs, metrics, reader.series)
        self._smooth(found)
        self._sources = list(found)
        self.traces = plotted.traces(
            found,
            self.smoothing,
            names={p: reader.views[p].run.name for p in runs} if len(runs) > 1 else {},
            unread=frozenset(p for p in runs if p not in reader.series),
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
        name = view.run.name if view is not None else ""
        title = safe(chart_words.title(name, self.traces, log=shown.log))
        ways = safe(chart_words.ways(shown, self.smoothing.weight, *self._hints_on(shown)))
        if (title, ways) != self._titles:  # the same once more would draw everything anew
            self._titles = (title, ways)
            self.chart.border_title = self.numbers.border_title = title
            self.chart.border_subtitle = ways
        if self.tabled:
            self.numbers.show(self.traces, self.ticks, shown.steps)

    def _hints_on(self, shown: Shown) -> list[str]:
        """What the curves do not show as they are drawn, and which keys do."""
        first, last = shown.steps or self.whole
        plain_axis = len(self.traces) == 1 and not (shown.log or shown.robust)
        acts = picture.seen_better(self.traces[0], first, last) if plain_axis else ()
        found = [self.browser.wishes.shown_key(k) for k in CHART if k.act in acts]
        hints = [f"flat from step {(first + last) // 2} on: {' or '.join(found)} shows more"]
        beyond = curve.beyond_steps(self.ticks, [t.metric for t in self.traces])
        return (hints if found else []) + (
            [f"{beyond} not drawn: step too large"] if beyond else []
        )

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
            chart_words.values(row, look, self.traces, self._sources),
            chart_words.about(row, look, marked=key in self.browser.main.marked),
        ]

    def say(self, words: str) -> None:
        """Show a line of words."""
        self.query_one("#status", Static).update(safe(f" {words}"))

    # Keys

    def why_not(self, key: Key) -> str | None:
        """Also where there is no checkpoint, or no metric, to act on."""
        reason = super().why_not(key)
        if reason is None and key.act in _NEED_CHECKPOINT and self.current is None:
            if self.tabled and self.ticks:
                return "No checkpoint was saved at this step; left and right go to one."
            return "No checkpoint here."
        here = self.current
        if reason is None and key.act in _NEED_CHECKPOINT and here is not None and here.gone:
            return f"{here.checkpoint.name} is gone: {here.gone}."
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

    def go(self, at: int) -> None:
        """Put the cursor on a checkpoint, in the list too."""
        if not self.ticks:
            return
        at = max(0, min(len(self.ticks) - 1, at))
        left = self.ticks.keys[at] != self._key
        self._key, self.step = self.ticks.keys[at], self.ticks.steps[at]
        before = self.window.steps
        self.window.follow(self.whole, self.step)
        if self._listed is not None and left:
            self.ticks, self._listed = self._listed, None
            self.say("")
            self.draw()
        elif before != self.window.steps:
            self.draw()
        self.chart.set_cursor(self._key)
        if self.tabled:
            self.numbers.go(self.step)
        self.browser.main.select(Path(self._key))

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
        if self.tabled and at is not None and step != self.step and self.ticks.steps[at] == step:
            self._key, self.step = self.ticks.keys[at], step
            self.chart.set_cursor(self._key)
            self.browser.main.select(Path(self._key))

    @on(Numbers.Chosen)
    async def _numbers_chosen(self) -> None:
        await self.action_press("detail")
