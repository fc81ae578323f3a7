"""What would go and why, before anything goes; then the same list while it goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Button, Input, Static

from ckptui.errors import CkptuiError
from ckptui.tui import keys, planned, previews, text, work
from ckptui.tui.asked import Asked, command, why_no_command
from ckptui.tui.jobs import describe
from ckptui.tui.previews import Preview
from ckptui.tui.prune_keys import KEYS, MOVE
from ckptui.tui.rules_line import DEFAULT, rules_text
from ckptui.tui.screens.base import BrowserScreen
from ckptui.tui.screens.copying import CopyDialog
from ckptui.tui.screens.dialogs import MessageDialog
from ckptui.tui.series import EMPTY, carried
from ckptui.tui.text import fit, plain, safe
from ckptui.tui.widgets.buttons import Buttons, FlatButton, button
from ckptui.tui.widgets.line import Line
from ckptui.tui.widgets.plan import PlanTable
from ckptui.tui.widgets.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.timer import Timer
    from textual.widget import Widget

    from ckptui.checkpoint import Checkpoint, Run
    from ckptui.retention import PrunePlan
    from ckptui.tui import messages
    from ckptui.tui.jobs import Job
    from ckptui.tui.keys import Key
    from ckptui.tui.snapshot import RunView
    from ckptui.tui.widgets.keybar import Hint

LOOK = 0.4
"""Seconds that a plan must have been on the screen before it is carried out: a key that was typed
ahead must not agree to what nobody has seen."""
PAUSE = 0.15
"""Seconds without a key after which the rules typed so far are planned by."""


class PruneScreen(BrowserScreen):
    """A plan by rules, or for chosen checkpoints; Cancel has the focus."""

    HEADING = "Prune preview"
    KEYS = KEYS
    BINDINGS: ClassVar[list[BindingType]] = [
        *keys.bindings(KEYS),
        Binding("up,k", "rows('move(-1)')", "up", show=False),
        Binding("down,j", "rows('move(1)')", "down", show=False),
        Binding("pageup,ctrl+b", "rows('page(-1)')", "page up", show=False),
        Binding("pagedown,ctrl+f", "rows('page(1)')", "page down", show=False),
        Binding("home,g", "rows('first')", "first", show=False),
        Binding("end,G", "rows('last')", "last", show=False),
        Binding("left", "sideways(-1)", "columns to the left, or the button before", show=False),
        Binding("right", "sideways(1)", "columns to the right, or the next button", show=False),
    ]

    @dataclass
    class Planned(Message):
        """A plan was made, or could not be; nothing has been removed."""

        turn: int
        """Which of the plans that were asked for."""
        found: Preview | None
        why_not: str = ""
        gone: bool = False
        """Whether there is no run at this path any more."""

    def __init__(
        self, run: Run, chosen: tuple[Checkpoint, ...] | None, *, default: str = DEFAULT
    ) -> None:
        """Prepare a preview.

        Args:
            run: The run.
            chosen: What to remove; None for what no rule keeps.
            default: The rules to start with where the run has none of its own.
        """
        super().__init__()
        self._run = run
        self.asked = Asked(chosen, plain(rules_text(run.policy, default)))
        self._only = False
        self._complaint: str | None = None
        self._said = ""
        self._pause: Timer | None = None
        self._turn = 0
        self._gone = False
        """Whether the run was not there when it was looked for last."""
        self._seen = False
        """Whether the plan has been on the screen long enough to be agreed to."""
        self._view: RunView | None = None
        """The run as the app knew it when the plan was asked for."""
        self._looked: tuple[object, ...] = ()
        """What the app's last look at the disk came to."""
        self._found: Preview | None = None
        """The last good plan: what the rows show, even while another one is made."""
        self._ended: messages.RemovalEnded | None = None
        self._progress = ""
        self.plan: PrunePlan | None = None
        """The plan by what is asked for now; None while there is none that could be acted on."""
        self.moving = False

    @property
    def _metric(self) -> str | None:
        """The metric of the rows: the one that the list showed of this run, else its first."""
        reader = self.browser.reader
        if self._run.path == reader.run_path:
            return reader.metric
        names = reader.series.get(self._run.path, EMPTY).names or carried(self._run)
        return next(iter(names), None)

    def parts(self) -> Iterable[Widget]:
        """Rules, plan, what to know, the same as a command, buttons."""
        yield Static(id="header")
        if self.asked.chosen is None:
            yield Line(self.asked.text, id="rules", select_on_focus=False)
        reader, path = self.browser.reader, self._run.path
        yield PlanTable(
            self._run,
            metric=self._metric,
            # Of this run: the list may show another one by now.
            series=lambda: reader.series.get(path, EMPTY),
            ascii_only=self.browser.ascii_only,
        )
        yield Static(id="about", classes="dim")
        yield Static(id="summary")
        yield Static(id="command", classes="dim")
        yield Buttons(
            button("Cancel", "cancel", letter="esc"),
            button("Move to trash", "move", letter=self.browser.wishes.shown_key(MOVE)),
        )

    def on_mount(self) -> None:
        """Make the plan; Enter right away does no harm."""
        if self.asked.chosen is None:
            rules = self.query_one("#rules", Line)
            rules.border_title = "Rules, separated by commas"
        self.query_one("#move", Button).disabled = True
        self.set_focus(self.query_one("#cancel"))
        self._view = self.browser.reader.views.get(self._run.path)
        self._plan_anew()

    @property
    def table(self) -> PlanTable:
        """The plan's rows."""
        return self.query_one(PlanTable)

    # The plan

    def _plan_anew(self, *, known: Run | None = None) -> None:
        """Make the plan again; it is not acted on until that is done."""
        self._turn += 1
        turn = self._turn
        browser, path, request = self.browser, self._run.path, self.asked.request
        scan, now = browser.reader.scan, browser.clock()

        def make(_: Job) -> Message:
            try:
                found = previews.preview(path, request, scan, now, known=known)
            except (CkptuiError, OSError) as e:
                return self.Planned(turn, None, describe(e), gone=not path.is_dir())
            return self.Planned(turn, found)

        self._wait_no_longer()
        self.plan = None
        self._seen = False
        browser.start("plan", "making the plan", make, target=self)
        self._show()

    @property
    def _known(self) -> Run | None:
        """The run as it was read, where that tells what is there now."""
        return None if self._gone else self._run

    def _wait_no_longer(self) -> None:
        if self._pause is not None:
            self._pause.stop()
            self._pause = None

    @on(Planned)
    def _planned(self, event: Planned) -> None:
        if event.turn != self._turn or self.moving or self._ended is not None:
            return  # something else is asked for by now: another plan is on its way
        self._complaint, self._gone = event.why_not or None, event.gone
        if self._complaint is not None:
            self._said = ""  # which tells of a plan by what is there now
        if event.found is not None:
            self._found, self._run = event.found, event.found.run
            self.plan = event.found.plan
            self.call_after_refresh(self._look, event.turn)
        self._show()

    def _look(self, turn: int) -> None:
        """The plan is drawn: from now on it can be read."""
        if LOOK:
            self.set_timer(LOOK, lambda: self._have_seen(turn))
        else:
            self._have_seen(turn)

    def _have_seen(self, turn: int) -> None:
        if turn == self._turn and not self._seen:
            self._seen = True
            self._show_buttons()

    def state_changed(self) -> None:
        """The run may have changed on the disk: then the plan is made anew by what is there."""
        if not self.is_mounted or self.moving or self._ended is not None:
            return
        reader = self.browser.reader
        view = reader.views.get(self._run.path)
        known, self._view = self._view, view
        looked, self._looked = self._looked, (reader.found, reader.failure)
        news = view is not known or looked != self._looked
        if self._gone or reader.failure is not None:
            if news:
                self._plan_anew()  # the run may be back, or may have gone away
            return
        if view is known:
            self.table.refresh_rows()
            return
        if view is not None and previews.same(view.run, self._run):
            return
        if view is None or not previews.same(view.run, self._run, pins=False):
            self._said = "The run has changed on the disk; this is the plan by what is there now."
        self._plan_anew()

    # What is shown

    def _show(self) -> None:
        table = self.table
        found = self._found
        rows = () if found is None else found.leaving if self._only else found.rows
        none = "No rows: o shows all." if self._only else "No rows."
        table.set_empty(self._complaint or ("Making the plan ..." if found is None else none))
        table.set_rows(rows)
        stale = found is not None and self.plan is None and self._ended is None
        asked = found.request if found is not None else None
        typed = isinstance(asked, work.ByRules) and asked.text != self.asked.text
        other = "not by these rules" if typed else "out of date"
        table.border_title = safe(table.title(found) + f"   ({other})" * stale)
        self._show_buttons()
        self._show_words()
        self.show_keys()

    def _show_buttons(self) -> None:
        found = self._found
        count = len(found.going) if found is not None and self.plan is not None else 0
        move = self.query_one("#move", FlatButton)
        move.waiting = not self._seen
        move.refresh()
        move.label = safe(f"Move {count} to trash" if count else "Move to trash")
        move.disabled = not count or self.why_not(MOVE) is not None
        move.display = self._ended is None
        close = "Close" if self._ended is not None else "Stop" if self.moving else "Cancel"
        self.query_one("#cancel", Button).label = safe(close)
        self.query_one(Buttons).stand()

    def _show_words(self) -> None:
        width = self.size.width
        word = "Prune" if self.asked.chosen is None else "Move to trash"
        progress = "done" if self._ended is not None else self._progress
        path = self.browser.short_path(self._run.path)
        line = planned.header(path, word, progress, width, ellipsis=self._dots)
        self.query_one("#header", Static).update(safe(line))
        words = planned.fitted(self._summary(width - 2), width - 2, planned.room(self.size.height))
        self.query_one("#summary", Static).update(text.lines(*words))
        line = ""
        if self._found is not None and self._why_not_copied() is None:
            short = planned.short(self._run.path, max(12, width // 4))
            line = f"y copies: {command(self._found, short)}"
        line = fit(plain(line), width - 2, ellipsis=self._dots)
        self.query_one("#command", Static).update(safe(f" {line}"))
        self._show_row()

    @property
    def _dots(self) -> str:
        return "~" if self.browser.ascii_only else "…"

    def _summary(self, width: int) -> list[str]:
        if self._ended is not None:
            return planned.report(self._ended)
        if self._progress:
            return [f"{self._progress.capitalize()}."]
        lines = []
        if self.browser.read_only is not None:
            lines.append(f"! {self.browser.read_only}")
        if self._complaint is not None:
            return [*lines, f"! {self._complaint}"]
        if self._found is None:
            return [*lines, "..."]
        runs = [view.run for view in self.browser.reader.views.values()]
        verified = self.browser.verified
        return [*lines, *planned.summary(self._found, width, runs=runs, verified=verified)]

    @on(Table.Moved, "#plan")
    def _show_row(self) -> None:
        about = "This was the plan while the run was there." if self._gone else self.table.about
        line = fit(plain(self._said or about), self.size.width - 2, ellipsis=self._dots)
        self.query_one("#about", Static).update(safe(f" {line}"))

    def on_resize(self) -> None:
        """The lines are made to measure."""
        self.call_after_refresh(self._show_words)

    def say(self, words: str) -> None:
        """Show a line of words until the cursor moves; the report says it all by itself."""
        if self._ended is None:
            self._said = words
        self._show_row()

    # Keys

    def line_hints(self) -> tuple[list[Hint], Hint] | None:
        """In the line of rules."""
        if not any(line.has_focus for line in self.query("#rules")):
            return None
        return [("enter", "done"), ("tab", "next")], ("esc", "back to the plan")

    def on_descendant_focus(self) -> None:
        """Other keys count in the line than elsewhere."""
        self.show_keys()

    def why_not(self, key: Key) -> str | None:
        """Why a key does nothing now."""
        return self._out_of_place(key) or super().why_not(key)

    def usable(self, key: Key) -> bool:
        """Whether a key is worth a place in the key bar now."""
        return self._out_of_place(key) is None and super().usable(key)

    def _out_of_place(self, key: Key) -> str | None:
        """Why a key has nothing to act on, whether or not things may be changed."""
        going_on = self.moving or self._ended is not None
        if key.act in {"edit_rules", "flip", "pin", "copy", "move_to_trash"} and going_on:
            return "The plan is being carried out." if self.moving else "The plan was carried out."
        if key.act in {"edit_rules", "flip", "pin", "copy"} and self._gone:
            return "The run is not there any more; esc goes back."
        if key.act == "edit_rules" and self.asked.chosen is not None:
            return "There are no rules here: this is a plan for chosen checkpoints."
        if key.act == "copy":
            return self._why_not_copied()
        done = self._ended is not None and any(r.done for r in self._ended.removals)
        if key.act == "undo" and not done:
            return "Nothing was moved yet." if not self.moving else "The plan is being carried out."
        return None

    def _why_not_copied(self) -> str | None:
        """Why there is no command that does what the plan on the screen says."""
        if self._found is None or self.plan is None:
            return "There is no plan now that a command could do."
        if self.moving or self._ended is not None:
            return "The plan is no longer to be done."
        return why_no_command(self._found)

    async def action_rows(self, action: str) -> None:
        """Move in the plan wherever the focus is."""
        self._said = ""
        await self.table.run_action(action)

    def action_sideways(self, by: int) -> None:
        """Show columns that have no room; where all have, go between the buttons."""
        if not self.table.all_shown:
            self.table.action_sideways(by)
        elif by > 0:
            self.focus_next()
        else:
            self.focus_previous()

    def action_edit_rules(self) -> None:
        """Change the rules."""
        self.set_focus(self.query_one("#rules"))

    @on(Input.Changed, "#rules")
    def _rules_changed(self, event: Input.Changed) -> None:
        if event.value == self.asked.text or self.moving or self._ended is not None:
            return
        self.asked.text, self._said = event.value, ""
        self.plan = None
        self._turn += 1  # what is on its way is by other rules
        self._seen = False
        self._wait_no_longer()
        self._pause = self.set_timer(PAUSE, lambda: self._plan_anew(known=self._known))
        self._show()

    @on(Input.Submitted, "#rules")
    def _rules_done(self) -> None:
        self.set_focus(self.query_one("#cancel"))
        self._plan_anew()

    def action_flip(self) -> None:
        """Keep a row that would go, let one go that only rules keep, or take that back."""
        row = self.table.current
        if row is None:
            return
        was, self._said = self.asked.request, ""
        why = self.asked.flip(self._run, row)
        if why is not None:
            self.say(why)
        elif self.asked.request != was:
            self._plan_anew(known=self._known)

    def action_pin(self) -> None:
        """Pin the row's checkpoint, or take its pin away; the plan follows."""
        row = self.table.current
        if row is None:
            return
        c = row.checkpoint
        if self.browser.changes.pins.toggle(c):
            self.asked.pinned(c)

    def action_only(self) -> None:
        """Show everything, or only what does not stay."""
        self._only = not self._only
        self._show()

    def action_all_words(self) -> None:
        """Show all that is to know, where there is room for it."""
        words = [self.table.about, "", *self._summary(10_000)]
        self.browser.push_screen(MessageDialog("The plan", words))

    def action_copy(self) -> None:
        """Copy the command that does the same, and show it whole."""
        if self._found is not None:
            line = command(self._found, self._run.path)
            self.browser.push_screen(CopyDialog("The same as a command", line))

    def action_undo(self) -> None:
        """Leave what is done, and bring back what it moved."""
        self.dismiss()
        why_not = self.browser.changes.bring_back()
        if why_not is not None:
            self.browser.say(why_not)

    def action_back(self) -> None:
        """Leave the rules, then the screen; while things move, stop after the current one."""
        if not self.moving and any(line.has_focus for line in self.query("#rules")):
            self.set_focus(self.query_one("#cancel"))
            return
        if not self.moving:
            self._wait_no_longer()
            self.dismiss()
            return
        job = self.browser.jobs.latest("remove")
        if job is not None:
            job.cancelled = True
        self._progress = "stopping after the current one"
        self._show_words()

    @on(Button.Pressed, "#cancel")
    def _cancel(self) -> None:
        self.action_back()

    @on(Button.Pressed, "#move")
    def action_move_to_trash(self) -> None:
        """Carry the plan out that is on the screen."""
        if self.plan is None or not self.plan.removals or self.why_not(MOVE) is not None:
            return
        if not self._seen:
            self.say("Read the plan first, then press again.")
            return
        if self.browser.jobs.running("remove"):
            self.say("Another removal is still going on.")
            return
        self.moving = True
        self._said = ""
        self._progress = f"moving 0 of {len(self.plan.removals)}, esc stops"
        self.browser.changes.remove(self.asked.request, self.plan, self._run.path)
        self._show()
        self.set_focus(self.query_one("#cancel"))

    # What the app tells while it moves

    def progressed(self, event: messages.CheckpointRemoved) -> None:
        """One target was dealt with."""
        self.table.results[event.removal.checkpoint.path] = event.removal
        job = self.browser.jobs.latest("remove")
        stops = "stopping" if job is not None and job.cancelled else "esc stops"
        self._progress = f"moving {event.done} of {event.of}, {stops}"
        self.table.refresh_rows()
        self._show_words()

    def ended(self, event: messages.RemovalEnded) -> None:
        """The removal is over."""
        self.moving = False
        self._ended = event
        if self._found is not None:
            self.table.unmoved = planned.unmoved(self._found, event)
        self._progress = ""
        self._show()

    def failed(self, what: str) -> None:
        """The removal was refused: the plan on the screen no longer holds."""
        self.moving = False
        self._progress = ""
        self._complaint = what
        self._plan_anew()
