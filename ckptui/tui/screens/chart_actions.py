"""What the keys of the chart do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast, get_args

from ckptui import display
from ckptui.display.picture import AxisChoice
from ckptui.retention import direction
from ckptui.tui import curve, plotted
from ckptui.tui.screens import actions
from ckptui.tui.screens.detail import DetailScreen
from ckptui.tui.screens.dialogs import MultiMenuDialog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ckptui.tui.screens.browse import BrowseScreen
    from ckptui.tui.screens.chart import ChartScreen


def _as_on_browse(act: str) -> Callable[[ChartScreen], None]:
    """What the main screen does to its checkpoint, done to the one under this cursor."""

    def do(screen: ChartScreen) -> None:
        # What these ask of a screen is `browser`, `current` and `chosen`: this one has them.
        actions.ACTIONS[act](cast("BrowseScreen", screen))

    return do


def _help(screen: ChartScreen) -> None:
    screen.browser.action_help()


def _back(screen: ChartScreen) -> None:
    screen.action_back()


# The cursor


def _previous(screen: ChartScreen) -> None:
    screen.move(-1)


def _next(screen: ChartScreen) -> None:
    screen.move(1)


def _first(screen: ChartScreen) -> None:
    screen.go(0)


def _last(screen: ChartScreen) -> None:
    screen.go(len(screen.ticks) - 1)


def _best(screen: ChartScreen) -> None:
    name = screen.traces[0].metric
    rows = screen.ticks.rows
    found = [at for at, r in enumerate(rows) if name in r.standing.best and not r.gone]
    if not found:
        screen.say(f"No checkpoint is the best by {name}: no rule or known direction ranks by it.")
        return
    here = screen.ticks.find(screen.key)
    at, others = found[0], ""
    if len(found) > 1:
        # Each run id in the folder has a best one: that of the checkpoint under the cursor counts.
        own = rows[here].checkpoint.run_id if here is not None else None
        at = next((i for i in found if rows[i].checkpoint.run_id == own), at)
        others = f" of its run id, one of {len(found)} in this folder"
    screen.go(at)
    screen.say(f"{rows[at].checkpoint.name} is the best by {name}{others}.")


def _dip(screen: ChartScreen) -> None:
    trace = screen.traces[0]
    mode = direction(trace.metric) or "min"
    first, last = screen.window.steps or screen.whole
    found = curve.lowest(trace.smooth or trace.curve, mode, first, last)
    at = screen.ticks.nearest(found[0]) if found is not None else None
    if found is None or at is None:
        screen.say("There is no checkpoint to go to." if found else "No finite value here.")
        return
    step, value = found
    away = abs(screen.ticks.steps[at] - step)
    name = screen.ticks.rows[at].checkpoint.name
    screen.go(at)
    smoothed = "Smoothed " if trace.smooth else ""
    word = "lowest" if mode == "min" else "highest"
    where = f"{display.plural(away, 'step')} from {name}" if away else f"at {name}"
    screen.say(
        f"{smoothed}{trace.metric} is {word} at step {step}, {where}: {display.number(value)}"
    )


# What is drawn


def _metric(screen: ChartScreen) -> None:
    names = screen.metric_names
    if not names:
        screen.say("No metrics in this run.")
        return
    screen.metrics = []
    at = (names.index(screen.metric) + 1) % len(names) if screen.metric in names else 0
    screen.choose_metric(names[at])
    screen.browser.say(f"Metric: {names[at]} ({at + 1} of {len(names)})")


def _metrics(screen: ChartScreen) -> None:
    names = screen.metric_names
    if not names:
        screen.say("No metrics in this run.")
        return

    def answered(found: list[str] | None) -> None:
        if not found:
            return
        screen.metrics = found[: plotted.MOST]
        own = screen.metric if screen.metric in screen.metrics else screen.metrics[0]
        screen.choose_metric(own)
        _say_if_many(screen, found)

    chosen = screen.metrics or [screen.metric or names[0]]
    options = [(name, name) for name in names]
    screen.browser.push_screen(MultiMenuDialog("Metrics in one chart", options, chosen), answered)


def _overlay(screen: ChartScreen) -> None:
    reader = screen.browser.reader
    others = [view for path, view in reader.views.items() if path != screen.run]
    if not others:
        screen.say("There is no other run here; browse the folder that holds several.")
        return

    def answered(found: list[str] | None) -> None:
        if found is not None:
            screen.lay_over([Path(path) for path in found[: plotted.MOST - 1]])
            _say_if_many(screen, found)

    chosen = [str(path) for path in screen.others]
    options = [(str(v.run.path), screen.browser.short_path(v.run.path)) for v in others]
    screen.browser.push_screen(MultiMenuDialog("Runs to lay over", options, chosen), answered)


def _say_if_many(screen: ChartScreen, wanted: list[str]) -> None:
    if len(wanted) > len(screen.traces):
        screen.say(f"One chart shows at most {plotted.MOST} curves: the first are here.")


def _smoother(screen: ChartScreen) -> None:
    _smooth(screen, 1)


def _rougher(screen: ChartScreen) -> None:
    _smooth(screen, -1)


def _smooth(screen: ChartScreen, by: int) -> None:
    screen.smoothing.step(by)
    weight = screen.smoothing.weight
    screen.say(f"Smoothed {weight:g}; dots: as logged." if weight else "As logged.")
    screen.draw()


def _log(screen: ChartScreen) -> None:
    screen.shown = replace(screen.shown, log=not screen.shown.log)
    screen.draw()


def _outliers(screen: ChartScreen) -> None:
    screen.shown = replace(screen.shown, robust=not screen.shown.robust)
    words = "The lowest and the highest percent of the values stand at the edges, as v and ^."
    screen.say(words if screen.shown.robust else "All values are in the picture.")
    screen.draw()


def _axes(screen: ChartScreen) -> None:
    choices: tuple[AxisChoice, ...] = get_args(AxisChoice)
    choice = choices[(choices.index(screen.shown.axes) + 1) % len(choices)]
    screen.shown = replace(screen.shown, axes=choice)
    words = {"auto": "Axes as suits.", "one": "One axis for all.", "own": "An axis for each."}
    screen.say(words[choice])
    screen.draw()


def _zoom_in(screen: ChartScreen) -> None:
    screen.window.zoom(screen.whole, screen.step, closer=True)
    screen.draw()


def _zoom_out(screen: ChartScreen) -> None:
    screen.window.zoom(screen.whole, screen.step, closer=False)
    screen.draw()


def _whole(screen: ChartScreen) -> None:
    screen.window.steps = None
    screen.draw()


def _table(screen: ChartScreen) -> None:
    screen.show_numbers(not screen.tabled)


# The checkpoint


def _mark(screen: ChartScreen) -> None:
    row, main = screen.current, screen.browser.main
    if row is None:
        return
    main.flip_mark(row)
    word = "Marked" if row.key in main.marked else "Unmarked"
    screen.say(f"{word} {row.checkpoint.name}: {len(main.marked)} marked.")
    screen.draw()


def _detail(screen: ChartScreen) -> None:
    if screen.current is not None:
        screen.browser.push_screen(DetailScreen(screen.current, screen.look))


def _copy(screen: ChartScreen) -> None:
    line = plotted.command(screen.sources, screen.series)
    if line:
        screen.browser.copy(line)
    else:
        screen.say("There are no numbers to print yet.")


ACTIONS: Mapping[str, Callable[[ChartScreen], None]] = {
    "help": _help,
    "back": _back,
    "close": _back,
    "previous": _previous,
    "next": _next,
    "first": _first,
    "last": _last,
    "best": _best,
    "dip": _dip,
    "metric": _metric,
    "metrics": _metrics,
    "overlay": _overlay,
    "smoother": _smoother,
    "rougher": _rougher,
    "log": _log,
    "outliers": _outliers,
    "axes": _axes,
    "zoom_in": _zoom_in,
    "zoom_out": _zoom_out,
    "whole": _whole,
    "table": _table,
    "mark": _mark,
    "detail": _detail,
    "copy": _copy,
    **{act: _as_on_browse(act) for act in ("pin", "note", "resume", "trash_chosen", "verify")},
}
"""By the names that `chart_keys` uses."""
