"""What the keys of the main screen do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckptui import pins
from ckptui.errors import RefusedError
from ckptui.tui import listing, work
from ckptui.tui.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ckptui.tui.app import Browser
    from ckptui.tui.screens.browse import BrowseScreen
    from ckptui.tui.snapshot import Row


def toggle_pin(browser: Browser, row: Row) -> None:
    """Pin a checkpoint, or take its pin away."""
    browser.changes.pins.toggle(row.checkpoint)


def ask_note(browser: Browser, row: Row) -> None:
    """Ask for the note of a pin, and pin with it."""
    from ckptui.tui.screens.copying import pin_line  # noqa: PLC0415 - see `screens`
    from ckptui.tui.screens.dialogs import InputDialog  # noqa: PLC0415 - as above

    checkpoint = row.checkpoint
    try:
        pins.refuse_unpinnable(checkpoint)  # a refusal costs nobody a note
    except RefusedError as e:
        browser.explain("Not pinned", str(e))
        return

    def answered(note: str | None) -> None:
        if note is not None:
            browser.changes.pins.set(checkpoint, pinned=True, note=note.strip())

    words = "Why it must stay; it is pinned with this note."
    title = f"Note for {checkpoint.name}"
    dialog = InputDialog(
        title,
        words,
        value=plain(browser.changes.pins.note_of(checkpoint)),
        command=lambda note: pin_line(checkpoint, note),
    )
    browser.push_screen(dialog, answered)


def open_resume(browser: Browser, row: Row) -> None:
    """Show the command that resumes from a checkpoint."""
    from ckptui.tui.screens.resume import ResumeDialog  # noqa: PLC0415 - see `screens`

    browser.push_screen(ResumeDialog(row))


def next_metric(browser: Browser) -> None:
    """Go on to the next metric."""
    names = browser.reader.metrics
    if not names:
        browser.say("No metrics in this run.")
        return
    at = names.index(browser.reader.metric) if browser.reader.metric in names else -1
    browser.reader.metric = names[(at + 1) % len(names)]
    browser.state_changed()
    browser.say(f"Metric: {browser.reader.metric} ({(at + 1) % len(names) + 1} of {len(names)})")


def _help(screen: BrowseScreen) -> None:
    screen.browser.action_help()


def _pin(screen: BrowseScreen) -> None:
    if screen.current is not None:
        toggle_pin(screen.browser, screen.current)


def _note(screen: BrowseScreen) -> None:
    if screen.current is not None:
        ask_note(screen.browser, screen.current)


def _prune(screen: BrowseScreen) -> None:
    from ckptui.tui.screens.prune import PruneScreen  # noqa: PLC0415 - see `screens`

    view = screen.browser.reader.view
    if view is None:
        return
    default = screen.browser.wishes.default_rules
    if default is None:
        screen.browser.push_screen(PruneScreen(view.run, None))
    else:
        screen.browser.push_screen(PruneScreen(view.run, None, default=default))


def _trash_chosen(screen: BrowseScreen) -> None:
    from ckptui.tui.screens.prune import PruneScreen  # noqa: PLC0415 - see `screens`

    view, chosen = screen.browser.reader.view, screen.chosen
    if view is None or not chosen:
        return
    checkpoints = tuple(row.checkpoint for row in chosen)
    try:
        # A first look at what the screen knows, so that a refusal costs no dialog.
        work.plan_for(view.run, work.ByName(checkpoints), screen.browser.clock())
    except RefusedError as e:
        screen.browser.explain("Not moved to the trash", str(e))
        return
    screen.browser.push_screen(PruneScreen(view.run, checkpoints))


def _undo(screen: BrowseScreen) -> None:
    why_not = screen.browser.changes.bring_back()
    if why_not is not None:
        screen.say(why_not)


def _trash(screen: BrowseScreen) -> None:
    from ckptui.tui.screens.trash import TrashScreen  # noqa: PLC0415 - see `screens`

    view = screen.browser.reader.view
    if view is not None:
        screen.browser.push_screen(TrashScreen(view.run))


def _chart(screen: BrowseScreen) -> None:
    from ckptui.tui.screens.chart import ChartScreen  # noqa: PLC0415 - see `screens`

    view, current = screen.browser.reader.view, screen.current
    if view is not None:
        screen.browser.push_screen(ChartScreen(current.key if current else None, view.run.path))


def _metric(screen: BrowseScreen) -> None:
    next_metric(screen.browser)


def _resume(screen: BrowseScreen) -> None:
    if screen.current is not None:
        open_resume(screen.browser, screen.current)


def _copy(screen: BrowseScreen) -> None:
    from ckptui.tui.screens.about import open_copy  # noqa: PLC0415 - see `screens`

    if screen.current is not None:
        open_copy(screen.browser, screen.current)


def _compare(screen: BrowseScreen) -> None:
    from ckptui.tui.screens.about import compare_with_parent  # noqa: PLC0415 - see `screens`
    from ckptui.tui.screens.compare import CompareScreen  # noqa: PLC0415 - as above

    if screen.run_list.has_focus:
        _compare_runs(screen)
        return
    chosen = screen.chosen
    if len(chosen) == 2:
        screen.browser.push_screen(CompareScreen(*chosen))
    elif len(chosen) > 2:
        screen.say(f"{len(chosen)} are marked; two can be compared.")
    elif chosen and chosen[0].checkpoint.parent is None:
        from ckptui.tui.inspecting import no_parent  # noqa: PLC0415 - as above

        screen.say(f"{no_parent(chosen[0].checkpoint)} Mark two to compare them.")
    elif chosen:
        compare_with_parent(screen, chosen[0])


def _compare_runs(screen: BrowseScreen) -> None:
    """Compare the run under the cursor with the one that `=` was pressed on before."""
    from ckptui.tui.screens.compare import CompareScreen  # noqa: PLC0415 - see `screens`

    views, here = screen.browser.reader.views, screen.run_list.current
    first = views.get(screen.compare_from) if screen.compare_from is not None else None
    if here is None:
        return
    if first is None or first.run.path == here.run.path:
        screen.compare_from = here.run.path
        screen.say(f"Compare {here.run.name} with: move to another run, then = again.")
        return
    screen.compare_from = None
    screen.browser.push_screen(CompareScreen.of_runs(first, here))


def _full(screen: BrowseScreen) -> None:
    screen.toggle_class("-full")


def _palette(screen: BrowseScreen) -> None:
    screen.browser.action_help(search=True)


def _columns(screen: BrowseScreen) -> None:
    from ckptui.tui.screens.dialogs import MultiMenuDialog  # noqa: PLC0415 - see `screens`

    def answered(names: list[str] | None) -> None:
        if names is not None:
            wanted = {*names, "name"}
            chosen = [n for n in (*listing.NAMES, *metrics) if n in wanted]
            screen.set_columns(None if set(names) in (set(), set(usual)) else chosen)

    metrics = [name for name in screen.browser.reader.metrics if name not in listing.NAMES]
    options = [(n, n) for n in (*listing.NAMES, *metrics) if n != "name"]
    usual = ("flags", "state", "metrics", "size", "age", "epoch", "kept")
    now = screen.columns or usual
    screen.browser.push_screen(MultiMenuDialog("Columns", options, now), answered)


def _rescan(screen: BrowseScreen) -> None:
    screen.browser.reader.read_all()
    screen.say("Reading the disk again.")


def _pause(screen: BrowseScreen) -> None:
    screen.browser.paused = not screen.browser.paused
    paused = screen.browser.paused
    screen.say("Paused: . goes on." if paused else "Reading again by itself.")
    screen.show_header()


def _verify(screen: BrowseScreen) -> None:
    from ckptui.tui.screens.verify import VerifyScreen  # noqa: PLC0415 - see `screens`

    chosen = screen.chosen
    if chosen:
        screen.browser.push_screen(VerifyScreen([row.checkpoint for row in chosen]))


def _journal(screen: BrowseScreen) -> None:
    from ckptui.tui.screens.journal import JournalScreen  # noqa: PLC0415 - see `screens`

    view = screen.browser.reader.view
    if view is not None:
        screen.browser.push_screen(JournalScreen(view.run))


def _save_now(screen: BrowseScreen) -> None:
    view = screen.browser.reader.view
    if view is None:
        return
    if screen.browser.changes.save_now(view.run.path):
        screen.say("Asked to save; waiting for the answer.")
    else:
        screen.say("Asked already; waiting for the answer.")
    screen.show_header()


def _mark(screen: BrowseScreen) -> None:
    screen.toggle_mark()


def _range(screen: BrowseScreen) -> None:
    screen.toggle_range()


def _mark_all(screen: BrowseScreen) -> None:
    screen.mark_rows(screen.checkpoints.rows)


def _invert(screen: BrowseScreen) -> None:
    screen.invert_marks()


def _sort(screen: BrowseScreen) -> None:
    from ckptui.tui.screens.dialogs import MenuDialog  # noqa: PLC0415 - see `screens`

    def answered(key: str | None) -> None:
        if key is not None:
            same = key == screen.sort[0]
            screen.set_sort(key, descending=not screen.sort[1] if same else key == "step")

    metric = screen.browser.reader.metric
    options = [
        (key, f"Metric: {metric}" if key == "metric" else word)
        for key, word in listing.SORTS
        if key != "metric" or metric is not None
    ]
    screen.browser.push_screen(MenuDialog("Order by", options, screen.sort[0]), answered)


def _reverse(screen: BrowseScreen) -> None:
    screen.set_sort(screen.sort[0], descending=not screen.sort[1])


def open_detail(screen: BrowseScreen) -> None:
    """Show everything about the checkpoint under the cursor."""
    from ckptui.tui.screens.detail import DetailScreen  # noqa: PLC0415 - see `screens`

    if screen.current is not None:
        screen.browser.push_screen(DetailScreen(screen.current, screen.look))


ACTIONS: Mapping[str, Callable[[BrowseScreen], None]] = {
    "help": _help,
    "pin": _pin,
    "note": _note,
    "prune": _prune,
    "trash_chosen": _trash_chosen,
    "undo": _undo,
    "trash": _trash,
    "chart": _chart,
    "metric": _metric,
    "resume": _resume,
    "copy": _copy,
    "compare": _compare,
    "full": _full,
    "palette": _palette,
    "columns": _columns,
    "rescan": _rescan,
    "pause": _pause,
    "verify": _verify,
    "journal": _journal,
    "save_now": _save_now,
    "mark": _mark,
    "range": _range,
    "mark_all": _mark_all,
    "invert": _invert,
    "sort": _sort,
    "reverse": _reverse,
}
"""By the names that `keys` uses."""
