"""The keys, the letters and the words."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from ckptui.tui import keys, listing
from ckptui.tui.screens.base import BrowserScreen
from ckptui.tui.widgets.keybar import KeyBar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual.widget import Widget

STATES = (
    ("ok", "complete, and training can continue from it"),
    ("weights", "complete, but without what resuming needs"),
    ("adapter", "complete, but only an adapter"),
    ("writing", "being written by a live trainer"),
    ("partial", "the marker is missing: never counted"),
    ("broken", "a listed file is missing or too short"),
    ("unknown", "not ours, or no access: never touched"),
)
FILTER = (
    ("eval 200", "names that hold both words"),
    ("step>=2000", "also epoch, size>10G, age<2h, any metric"),
    ("state:ok", "also pin:yes, note:lr, kept:best, has:eval_loss"),
    ("a | b   !a", "either; not"),
)
PROMISES = (
    "Nothing is deleted by a key: x and d show a plan first, and what goes lies in the trash",
    "until you empty it there (T) by typing a number. z brings back the last move.",
)


class HelpScreen(BrowserScreen):
    """A page to scroll through."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark,f1,enter", "back", "back", show=False)
    ]

    def parts(self) -> Iterable[Widget]:
        """The page."""
        with VerticalScroll(id="page") as page:
            page.border_title = "Help"
            yield Static(_text())
        yield KeyBar([("up down", "scroll"), ("esc", "back")])

    def on_mount(self) -> None:
        """Scroll with the keys."""
        self.query_one("#page").focus()


def _text() -> Content:
    sections = (
        ("Moving", keys.MOVES),
        ("Doing", tuple((k.shown, k.help) for k in keys.BROWSE)),
        ("Letters before a name", listing.FLAGS),
        ("States", STATES),
        ("Filter", FILTER),
    )
    lines = [line for title, pairs in sections for line in _section(title, pairs)]
    lines += [Content(line) for line in PROMISES]
    return Content("\n").join(lines)


def _section(title: str, pairs: Sequence[tuple[str, str]]) -> list[Content]:
    rows = [Content.assemble((f"  {k:<12}", "bold"), text) for k, text in pairs]
    return [Content.assemble((title, "bold $text-accent")), *rows, Content("")]
