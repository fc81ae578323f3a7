"""What would go and why, before anything goes; then the same list while it goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Button, Input, Static

from ckptui.retention import Action, PlanRow
from ckptui.tui import messages, planned, text, work
from ckptui.tui.rules_line import command_line, remove_line, rules_text
from ckptui.tui.screens.base import BrowserScreen
from ckptui.tui.screens.dialogs import button
from ckptui.tui.text import plain, safe
from ckptui.tui.widgets.keybar import KeyBar
from ckptui.tui.widgets.table import Cell, Column, Table

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from textual.message import Message
    from textual.widget import Widget

    from ckptui.checkpoint import Checkpoint, Run
    from ckptui.prune import Removal
    from ckptui.retention import PrunePlan
    from ckptui.tui.jobs import Job

HINTS = [
    ("enter", "press"),
    ("tab", "next"),
    ("e", "edit rules"),
    ("space", "keep row"),
    ("o", "only removals"),
    ("y", "copy as command"),
]
DONE_HINTS = [("enter", "close"), ("z", "undo"), ("o", "only removals"), ("esc", "back")]


class PruneScreen(BrowserScreen):
    """A plan by rules, or for chosen checkpoints; Cancel has the focus."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("down,j", "move(1)", "down", show=False),
        Binding("pageup", "page(-1)", "page up", show=False),
        Binding("pagedown", "page(1)", "page down", show=False),
        Binding("left", "app.focus_previous", "previous", show=False),
        Binding("right", "app.focus_next", "next", show=False),
        Binding("e", "edit", "edit rules", show=False),
        Binding("space", "flip", "keep row", show=False),
        Binding("o", "only", "only removals", show=False),
        Binding("y", "copy", "copy as command", show=False),
        Binding("z", "undo", "undo", show=False),
    ]

    def __init__(self, run: Run, chosen: tuple[Checkpoint, ...] | None) -> None:
        """Prepare a preview.

        Args:
            run: The run.
            chosen: What to remove; None for what no rule keeps.
        """
        super().__init__()
        self._run = run
        self._chosen = chosen
        self._text = plain(rules_text(run.policy))
        self._keep: set[str] = set()
        self._only = False
        self._refused: str | None = None
        self._results: dict[Path, Removal] = {}
        self._ended: messages.RemovalEnded | None = None
        self._progress = ""
        self.plan: PrunePlan | None = None
        """What is on the screen; None while none could be made."""
        self.moving = False

    def parts(self) -> Iterable[Widget]:
        """Rules, plan, summary, buttons."""
        yield Static(id="header")
        if self._chosen is None:
            yield Input(self._text, id="rules", select_on_focus=False)
        yield Table[PlanRow](
            id="plan",
            key=lambda row: row.checkpoint.path,
            cell=self._cell,
            columns=planned.columns(self._run, self.browser.reader.metric),
            empty="Making the plan ...",
            ascii_only=self.browser.ascii_only,
        )
        yield Static(id="summary")
        with Horizontal(classes="buttons"):
            yield button("Cancel", "cancel")
            yield button("Move to trash", "move")
        yield KeyBar(HINTS if self._chosen is None else [HINTS[0], HINTS[1], HINTS[5]])

    def on_mount(self) -> None:
        """Make the plan; Enter right away does no harm."""
        if self._chosen is None:
            rules = self.query_one("#rules", Input)
            rules.border_title = "Rules, separated by commas"
        self.query_one("#move", Button).disabled = True
        self.query_one("#cancel").focus()
        self._plan_anew()

    @property
    def table(self) -> Table[PlanRow]:
        """The plan's rows."""
        return self.query_one("#plan", Table)

    @property
    def _request(self) -> work.Request:
        if self._chosen is not None:
            return work.ByName(self._chosen)
        return work.ByRules(self._text, frozenset(self._keep))

    def _plan_anew(self) -> None:
        browser, path, request = self.browser, self._run.path, self._request
        scan, now = browser.reader.scan, browser.clock()

        def make(_: Job) -> Message:
            return messages.PlanMade(request, work.make_plan(path, request, scan, now))

        self.plan = None
        browser.start("plan", "making the plan", make, target=self)
        self._show()

    @on(messages.PlanMade)
    def _made(self, event: messages.PlanMade) -> None:
        if event.request != self._request or self.moving:
            return  # the rules were changed meanwhile: another plan is on its way
        self.plan, self._refused = event.plan, None
        self._show()

    @on(messages.JobFailed)
    def _not_planned(self, event: messages.JobFailed) -> None:
        event.stop()
        if not self.moving:
            self.plan, self._refused = None, event.what
            self._show()

    def _cell(self, row: PlanRow, column: Column) -> Cell:
        result = self._results.get(row.checkpoint.path)
        series, metric = self.browser.reader.current_series, self.browser.reader.metric
        return planned.cell(row, column, result, series, metric)

    def _show(self) -> None:
        table, plan = self.table, self.plan
        rows = list(reversed(plan.rows)) if plan is not None else []
        if self._only:
            rows = [row for row in rows if row.action is not Action.KEEP]
        table.set_empty(self._refused or ("Making the plan ..." if plan is None else "No rows."))
        table.set_rows(rows)
        table.border_title = safe(planned.title(plan))
        count = len(plan.removals) if plan is not None else 0
        move = self.query_one("#move", Button)
        move.label = safe(f"Move {count} to trash")
        move.disabled = not count or self.moving or self._ended is not None
        move.display = self._ended is None
        close = "Close" if self._ended is not None else "Stop" if self.moving else "Cancel"
        self.query_one("#cancel", Button).label = safe(close)
        self._show_words()

    def _show_words(self) -> None:
        word = "Prune" if self._chosen is None else "Move to trash"
        state = f"{word} preview: nothing has been moved yet"
        if self._ended is not None:
            state = f"{word}: done"
        elif self._progress:
            state = f"{word}: {self._progress}"
        room = max(12, self.size.width - len(state) - 13)
        path = text.fit_path(plain(self.browser.short_path(self._run.path)), room)
        self.query_one("#header", Static).update(safe(f" ckptui  {path}   {state}"))
        lines = planned.summary(self.plan, self._refused, self._ended, live=self._run.live)
        self.query_one("#summary", Static).update(text.lines(*(f" {line}" for line in lines)))

    # Keys

    def action_move(self, by: int) -> None:
        """Move in the plan wherever the focus is."""
        self.table.action_move(by)

    def action_page(self, by: int) -> None:
        """Page through the plan wherever the focus is."""
        self.table.action_page(by)

    def action_edit(self) -> None:
        """Change the rules."""
        if self._chosen is None and not self.moving and self._ended is None:
            self.query_one("#rules").focus()

    @on(Input.Changed, "#rules")
    def _rules_changed(self, event: Input.Changed) -> None:
        if event.value != self._text:
            self._text = event.value
            self.plan, self._refused = None, "The rules have changed: enter makes the plan."
            self._show()

    @on(Input.Submitted, "#rules")
    def _rules_done(self) -> None:
        self._refused = None
        self.query_one("#cancel").focus()
        self._plan_anew()

    def action_flip(self) -> None:
        """Keep a row that would go, or let it go again."""
        row = self.table.current
        if row is None or self._chosen is not None or self.moving or self._ended is not None:
            return
        name = row.checkpoint.name
        if name in self._keep:
            self._keep.remove(name)
        elif row.action is Action.REMOVE:
            self._keep.add(name)
        else:
            return
        self._plan_anew()

    def action_only(self) -> None:
        """Show everything, or only what does not stay."""
        self._only = not self._only
        self._show()

    def action_copy(self) -> None:
        """Copy the command that does the same."""
        if self._chosen is None:
            line = command_line(self._run.path, self._text, self._keep)
        else:
            line = remove_line(self._run.path, [c.name for c in self._chosen])
        self.browser.copy(line)
        self._progress = "copied as a command"
        self._show_words()

    def action_undo(self) -> None:
        """Leave what is done, and bring back what it moved."""
        if self._ended is not None and any(r.done for r in self._results.values()):
            self.dismiss()
            why_not = self.browser.changes.bring_back()
            if why_not is not None:
                self.browser.say(why_not)

    def action_back(self) -> None:
        """Leave; while things move, stop after the current one."""
        if not self.moving:
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
    def _move(self) -> None:
        if self.plan is None or self.moving or self._ended is not None:
            return
        if self.browser.jobs.running("remove"):
            self._refused = "Another removal is still going on."
            self._show_words()
            return
        self.moving = True
        self._progress = f"moving 0 of {len(self.plan.removals)}"
        self.browser.changes.remove(self._request, self.plan, self._run.path)
        self._show()
        self.query_one("#cancel").focus()

    # What the app tells while it moves

    def progressed(self, event: messages.CheckpointRemoved) -> None:
        """One target was dealt with."""
        self._results[event.removal.checkpoint.path] = event.removal
        self._progress = f"moving {event.done} of {event.of}, esc stops"
        self.table.refresh_rows()
        self._show_words()

    def ended(self, event: messages.RemovalEnded) -> None:
        """The removal is over."""
        self.moving = False
        self._ended = event
        self._progress = ""
        self.query_one(KeyBar).set_hints(DONE_HINTS)
        self._show()

    def failed(self, what: str) -> None:
        """The removal was refused: the plan on the screen no longer holds."""
        self.moving = False
        self._progress = ""
        self._refused = what
        self.plan = None
        self._show()
