"""Two checkpoints, or two runs, side by side: what differs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.message import Message
from textual.widgets import Static

from ckptui import display
from ckptui.differences import Kind
from ckptui.display.differences import Line, Section, sections
from ckptui.tui import inspecting, keys, messages
from ckptui.tui.inspecting import Two
from ckptui.tui.keys import BACK, Key, same
from ckptui.tui.screens.base import BrowserScreen
from ckptui.tui.text import fit, lines, plain, safe
from ckptui.tui.widgets.table import Cell, Column, Table
from ckptui.tui.widgets.words import OneLine, SomeLines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from textual.binding import BindingType
    from textual.widget import Widget

    from ckptui.checkpoint import Checkpoint, Run
    from ckptui.tui.jobs import Job
    from ckptui.tui.snapshot import Row, RunView
    from ckptui.tui.widgets.keybar import Hint

STACKED = 60
"""Below so many columns one value stands over the other."""
PATIENCE = 0.3
"""Seconds before the screen says that it reads."""
UNREAD = "Not compared"
"""Heading of what could not be read."""
_SIGNS = "   ~ changed  - only in A  + only in B"
_SIGNS_TOO = f"{_SIGNS}  = same"
_UNTOLD = "  ? not read"
_STYLES = {Kind.CHANGED: "warn", Kind.REMOVED: "bad", Kind.ADDED: "good"}

KEYS = (
    same("help", help="show the keys, the letters and the words", bar=True),
    Key(
        key="o",
        shown="o",
        act="only",
        word="all",
        help="also what is the same, or only what differs",
        bar=True,
    ),
    Key(
        key="x",
        shown="x",
        act="swap",
        word="swap",
        help="swap the two sides",
        bar=True,
    ),
    Key(
        key="tab",
        shown="tab",
        act="next_part",
        word="part",
        help="the next part: facts, config, metrics, files, tensors",
        bar=True,
    ),
    Key(
        key="shift+tab",
        shown="shift+tab",
        act="previous_part",
        word="previous part",
        help="the part before",
    ),
    BACK,
    same("copy", help="copy the command line that compares the same"),
)


@dataclass(frozen=True, slots=True)
class Item:
    """A line of the table: the heading of a part, a difference, or one side of it."""

    section: Section
    line: Line | None = None
    side: str = ""
    """`A` or `B` where the sides stand one over the other; empty for both or for the key."""

    @property
    def key(self) -> tuple[str, str, str]:
        """What identifies it."""
        return self.section.title, self.line.key if self.line else "", self.side


class CompareScreen(BrowserScreen):
    """A table of differences, part by part, and the values under the cursor in full."""

    KEYS = KEYS
    HEADING = "Compare"
    BINDINGS: ClassVar[list[BindingType]] = keys.bindings(KEYS)

    @dataclass
    class Compared(Message):
        """Both sides were read."""

        two: Two
        parts: tuple[Section, ...]
        problems: tuple[str, ...]

    def __init__(self, a: Row | Two, b: Row | None = None) -> None:
        """Compare two checkpoints; `of_runs` compares runs."""
        super().__init__()
        self._two = a if isinstance(a, Two) else Two.of_rows(a, b or a)
        self._everything = False
        self._parts: tuple[Section, ...] = ()
        self._problems: tuple[str, ...] = ()
        self._failure: str | None = None
        self._job: Job | None = None

    @classmethod
    def of_runs(cls, a: RunView, b: RunView) -> CompareScreen:
        """Compare two runs: settings, the best and last values of metrics, numbers."""
        return cls(Two.of_views(a, b))

    def parts(self) -> Iterable[Widget]:
        """What is compared, the table, the values under the cursor, a line of words."""
        yield Static(id="compare-head")
        yield Table[Item](
            id="compare",
            key=lambda item: item.key,
            cell=_cell,
            ascii_only=self.browser.ascii_only,
        )
        yield SomeLines(id="whole")
        yield OneLine(id="status")

    @property
    def table(self) -> Table[Item]:
        """The table of differences."""
        return self.query_one("#compare", Table)

    @property
    def comparison_lines(self) -> list[Line]:
        """The lines that are shown, without the headings."""
        return [i.line for i in self.table.rows if i.line is not None and i.side != "B"]

    def on_mount(self) -> None:
        """Read both sides in the background."""
        self.table.focus()
        self.set_timer(PATIENCE, self._say_reading)
        self._show_head()
        self._read()

    def _say_reading(self) -> None:
        if not self._parts and self._failure is None:
            self.table.set_empty("Reading both sides ...")

    def _read(self) -> None:
        two = self._two
        before = inspecting.known_series(self.browser.reader, two.a[0].path, two.b[0].path)

        def work(job: Job) -> Message:
            found = inspecting.compare_two(two, before, job)
            return self.Compared(two, sections(found), found.problems)

        self._job = self.browser.start("compare", "reading what is compared", work, target=self)

    @on(Compared)
    def _compared(self, event: Compared) -> None:
        if event.two != self._two:
            return
        self._parts, self._problems = event.parts, event.problems
        self._show()

    @on(messages.JobFailed)
    def _failed(self, event: messages.JobFailed) -> None:
        event.stop()
        self._failure = event.what
        self.table.set_empty(event.what)

    def state_changed(self) -> None:
        """One side may be gone by now."""
        self._show_head()

    def on_resize(self) -> None:
        """The values stand side by side, or one over the other."""
        self.call_after_refresh(self._show)

    # What is shown

    def _show(self) -> None:
        self._show_head()
        if not self._parts:
            return
        stacked = self.size.width < STACKED
        table = self.table
        table.set_columns(STACKED_COLUMNS if stacked else _columns(self._two))
        table.set_rows(list(self._items(stacked=stacked)))
        differing = sum(len(part.different) for part in self._parts)
        unknown = sum(part.unknown for part in self._parts)
        nothing = "No difference found" if unknown or self._problems else "Nothing differs"
        told = display.plural(differing, "difference") if differing else nothing
        signs = (_SIGNS_TOO + _UNTOLD * bool(unknown)) if self._everything else _SIGNS
        table.border_title = safe(told + signs)
        rest = f"{sum(part.same for part in self._parts)} the same"
        if unknown:
            rest += f", {unknown} not compared"
        table.border_subtitle = safe(
            f"{rest}, shown too" if self._everything else f"{rest}, o shows them"
        )

    def _items(self, *, stacked: bool) -> Iterator[Item]:
        if self._problems:
            unread = Section(
                UNREAD,
                tuple(Line("!", p, "", "", "", Kind.REMOVED, ("", "")) for p in self._problems),
            )
            yield Item(unread)
            yield from (Item(unread, line) for line in unread.lines)
        for part in self._parts:
            yield Item(part)
            for line in part.lines if self._everything else part.different:
                yield Item(part, line)
                if stacked:
                    yield Item(part, line, "A")
                    yield Item(part, line, "B")

    def _show_head(self) -> None:
        words = [
            f"{letter} {name_of(run, c)}{self._gone(run, c)}"
            for letter, (run, c) in (("A", self._two.a), ("B", self._two.b))
        ]
        if self._two.a[0].path != self._two.b[0].path and self._two.a[1] is not None:
            words = [
                f"{word} of {run.name}"
                for word, (run, _) in zip(words, (self._two.a, self._two.b), strict=True)
            ]
        text = f" Compare   {'   '.join(words)}"
        ellipsis = "~" if self.browser.ascii_only else "…"
        fitted = fit(plain(text), self.size.width, ellipsis=ellipsis)
        self.query_one("#compare-head", Static).update(safe(fitted))

    def _gone(self, run: Run, checkpoint: Checkpoint | None) -> str:
        reader = self.browser.reader
        view = reader.views.get(run.path)
        if view is None:
            # A run of another root is not watched.
            return " (gone)" if run.path.is_relative_to(self.browser.path) else ""
        if checkpoint is None:
            return ""
        for row in view.rows:
            if row.checkpoint.path == checkpoint.path:
                same = row.checkpoint.identity == checkpoint.identity and not row.gone
                return "" if same else " (replaced)"
        return " (gone)"

    @on(Table.Moved)
    def _moved(self) -> None:
        item = self.table.current
        if item is None:
            text = lines()
        elif item.line is None and item.section.title == UNREAD:
            text = lines(f" {UNREAD}: what stands below could not be read.")
        elif item.line is not None and item.section.title == UNREAD:
            text = lines(f" {item.line.key}")
        elif item.line is None:
            part = item.section
            more = [f" {part.untold}"] if part.untold else []
            text = lines(f" {part.title}: {part.summary}", *more)
        else:
            n = item.line
            head = f" {n.key}: {n.note or str(n.kind)}"
            text = lines(head, *(f" {x}  {side}" for x, side in zip("AB", n.whole, strict=True)))
        self.query_one("#whole", Static).update(text)

    def say(self, words: str) -> None:
        """Show a line of words."""
        self.query_one("#status", Static).update(safe(f" {words}"))

    # Keys

    def hints(self) -> list[Hint]:
        """The key that shows everything says what it does next."""
        words = {"all": "differing"} if self._everything else {}
        return [(shown, words.get(word, word)) for shown, word in super().hints()]

    def action_only(self) -> None:
        """Show what is the same too, or only what differs."""
        self._everything = not self._everything
        self.show_keys()
        self._show()

    def action_swap(self) -> None:
        """Swap the two sides."""
        self._two = self._two.swapped
        self._show_head()
        self._read()

    def action_next_part(self) -> None:
        """Go to the next heading."""
        self._go(1)

    def action_previous_part(self) -> None:
        """Go to the heading before."""
        self._go(-1)

    def _go(self, by: int) -> None:
        table = self.table
        heads = [i for i, item in enumerate(table.rows) if item.line is None]
        if not heads:
            return
        if by > 0:
            table.cursor = next((i for i in heads if i > table.cursor), heads[0])
        else:
            table.cursor = next((i for i in reversed(heads) if i < table.cursor), heads[-1])

    def action_copy(self) -> None:
        """Copy the command line that compares the same."""
        self.browser.copy(self._two.command)

    def action_back(self) -> None:
        """Go back; what is still being read is not waited for."""
        if self._job is not None:
            self._job.cancelled = True
        self.dismiss()


STACKED_COLUMNS = (Column(key="text", title="Key, A over B", width=20, grows=True),)


def name_of(run: Run, checkpoint: Checkpoint | None) -> str:
    """How a side is called."""
    return checkpoint.name if checkpoint is not None else run.name


def _columns(two: Two) -> tuple[Column, ...]:
    a, b = (display.visible(name_of(*side)) for side in (two.a, two.b))
    return (
        Column(key="sign", title="", width=1),
        Column(key="key", title="Key", width=16, grows=True),
        Column(key="a", title=f"A {a}", width=10, grows=True),
        Column(key="b", title=f"B {b}", width=10, grows=True),
        Column(key="note", title="Difference", width=14, grows=True),
    )


def _cell(item: Item, column: Column) -> Cell:
    if item.line is None:
        return _heading(item.section, column.key), "strong"
    line, style = item.line, _STYLES.get(item.line.kind, "dim")
    match column.key:
        case "sign":
            return line.sign, style
        case "key":
            return line.key
        case "a":
            return line.a
        case "b":
            return line.b
        case "note":
            return line.note, style
        case _ if item.side:
            return f"  {item.side}  {line.a if item.side == 'A' else line.b}"
        case _:
            return f"{line.sign} {line.key}  {line.note}", style


def _heading(section: Section, column: str) -> str:
    if section.title == UNREAD:
        return f"{UNREAD}:" if column in {"key", "text"} else ""
    differing, alike, unknown = len(section.different), section.same, section.unknown
    match column:
        case "key":
            return f"{section.title}:"
        case "a" if not section.lines:
            return section.none.split(" on ")[0]
        case "a":
            return f"{differing} differ" if differing else "not known" if unknown else "no change"
        case "b":
            of = "shape" if section.title == "Tensors" else "size"
            return f"{alike} same" if alike else f"{unknown} same {of}" if unknown else ""
        case "note" if unknown and alike:
            return f"{unknown} not compared"
        case "note" if unknown:
            return "not compared"
        case "text":
            return f"{section.title}: {section.summary}"
        case _:
            return ""
