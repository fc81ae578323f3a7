"""Every key that is shown anywhere does what its label says.

`DEEDS` has an entry for each key of each screen; a key without one fails the first test. Each is
pressed in the browser of a real run at 80x24, under every spelling it has.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from ckptui.scan import scan_run
from ckptui.tui.every_key import all_screens
from tests.cases.harness import ckptui, standing
from tests.factory import RUN_ID, make_checkpoint
from tests.live_trainer import LiveTrainer
from tests.tui.driver import Driver, driving, small_run

if TYPE_CHECKING:
    from pathlib import Path

    from _pytest.mark import ParameterSet

Check = Callable[["Scene"], bool]


@dataclass
class Scene:
    """The browser after a key, and what it was before."""

    d: Driver
    run: Path
    was: dict[str, Any] = field(default_factory=dict)

    def remember(self) -> None:
        """Note what a key may change."""
        d = self.d
        self.was = {
            "text": d.text,
            "names": d.names,
            "current": d.current,
            "metric": d.app.reader.metric,
            "height": d.main.checkpoints.size.height,
            "columns": d.main.checkpoints.shown_columns,
            "standing": standing(self.run),
            "span": self.span,
        }

    @property
    def screen(self) -> str:
        return type(self.d.app.screen).__name__

    @property
    def says(self) -> str:
        return self.d.words

    @property
    def current(self) -> str:
        return self.d.current

    @property
    def pins(self) -> set[str]:
        folder = self.run / ".ckptui" / "pins"
        return {p.stem for p in folder.glob("*.json")} if folder.exists() else set()

    @property
    def marked(self) -> set[str]:
        return {key.rpartition("/")[2] for key in self.d.main.marked}

    @property
    def trash(self) -> int:
        return scan_run(self.run).trash_count

    @property
    def untouched(self) -> bool:
        return bool(standing(self.run) == self.was["standing"])

    @property
    def span(self) -> float:
        """Steps that the chart shows."""
        from ckptui.tui.screens.chart import ChartScreen

        screen = self.d.app.screen
        if not isinstance(screen, ChartScreen):
            return 0.0
        lines = self.d.lines
        below = next((i for i, line in enumerate(lines) if "└" in line), None)
        if below is None:  # the table
            return 0.0
        labels = [w for w in lines[below + 1].replace("│", " ").split() if w.isdigit()]
        return float(labels[-1]) - float(labels[0])


@dataclass(frozen=True)
class Deed:
    """One key of one screen: what comes before it, after it, and what must hold then."""

    holds: Check
    before: tuple[str, ...] = ()
    then: tuple[str, ...] = ()
    prepare: Callable[[Path], object] | None = None
    """Done to the run right before the key."""
    live: bool = False
    """Whether the run is being trained."""
    several: bool = False
    """Whether there is another run beside it."""


OPEN: dict[str, tuple[str, ...]] = {
    "BrowseScreen": (),
    "ChartScreen": ("c",),
    "CompareScreen": ("down", "equals_sign"),
    "DetailScreen": ("down", "enter"),
    "PruneScreen": ("x",),
    "TrashScreen": ("T",),
    "VerifyScreen": ("V",),
    "JournalScreen": ("l",),
    "HelpScreen": ("question_mark",),
}
"""The keys that lead to each screen; Compare and Detail are of step_900."""


def _more(run: Path) -> None:
    make_checkpoint(run, "step_1100", step=1100, metrics={"eval_loss": 1.9})


def _screen(name: str) -> Check:
    return lambda s: s.screen == name


def _page(title: str, *words: str) -> Deed:
    """A page of the detail screen, opened by its number from another one."""
    before = ("2",) if title != "2 files" else ("3",)
    return Deed(lambda s: f"[{title}]" in s.says and all(w in s.says for w in words), before)


HELP = Deed(lambda s: s.screen == "HelpScreen" and "type to search" in s.says)
BACK = Deed(lambda s: s.screen == "BrowseScreen" and "Never" not in s.says)
RESUME = Deed(lambda s: s.screen == "ResumeDialog" and "resume_from=" in s.says)
NOTE = Deed(
    lambda s: (
        f"{s.current}" in s.pins
        and "why not" in (s.run / ".ckptui/pins").joinpath(f"{s.current}.json").read_text()
    ),
    then=(*"why not", "enter"),
)
PIN = Deed(lambda s: s.current in s.pins and "Pinned" in s.says)
VERIFY = Deed(lambda s: s.screen == "VerifyScreen" and "verified" in s.says)
TRASH = Deed(lambda s: s.screen == "PruneScreen" and s.current in s.says and s.untouched, before=())
COPY_COMMAND = Deed(lambda s: "Copied by" in s.says and "ckptui " in s.says)
COPY_MENU = Deed(lambda s: s.screen == "CopyMenu" and "enter copies" in s.says)

DEEDS: dict[str, dict[str, Deed]] = {
    "BrowseScreen": {
        "help": HELP,
        "filter": Deed(lambda s: s.d.names == ["step_900"], then=(*"900", "enter")),
        "save_now": Deed(lambda s: "Saved step_" in s.says and len(s.d.names) == 10, live=True),
        "mark": Deed(lambda s: s.marked == {"step_1000"} and s.current == "step_900"),
        "pin": PIN,
        "prune": Deed(
            lambda s: s.screen == "PruneScreen" and "no rule keeps it" in s.says and s.untouched
        ),
        "undo": Deed(
            lambda s: (
                "step_800" not in s.was["standing"]
                and "step_800" in standing(s.run)
                and "Restored" in s.says
            ),
            before=("down", "down", "d", "M", "escape"),
        ),
        "resume": RESUME,
        "chart": Deed(_screen("ChartScreen")),
        "metric": Deed(
            lambda s: s.d.app.reader.metric != s.was["metric"] and "Metric: loss" in s.says
        ),
        "compare": Deed(
            lambda s: s.screen == "CompareScreen" and "step_800" in s.says, before=("down",)
        ),
        "trash_chosen": Deed(TRASH.holds, before=("down", "down")),
        "verify": VERIFY,
        "copy": COPY_MENU,
        "sort": Deed(lambda s: s.d.main.order.sort != "step", then=("down", "enter")),
        "reverse": Deed(lambda s: s.d.names == s.was["names"][::-1]),
        "range": Deed(
            lambda s: s.marked == {"step_1000", "step_900", "step_800"}, then=("down", "down", "v")
        ),
        "mark_all": Deed(lambda s: s.marked == set(s.d.names)),
        "invert": Deed(lambda s: s.marked == set(s.d.names) - {"step_1000"}, before=("space",)),
        "note": NOTE,
        "trash": Deed(lambda s: s.screen == "TrashScreen" and "step_100 " in s.says),
        "journal": Deed(lambda s: s.screen == "JournalScreen" and "rm" in s.says),
        "rescan": Deed(lambda s: s.d.names[0] == "step_1100", prepare=_more),
        "pause": Deed(lambda s: s.d.app.paused and "PAUSED" in s.d.lines[0]),
        "full": Deed(lambda s: s.d.main.checkpoints.size.height > s.was["height"]),
        "columns": Deed(
            lambda s: s.d.main.checkpoints.shown_columns != s.was["columns"],
            then=("space", "enter"),
        ),
        "palette": Deed(lambda s: s.current == "step_300", then=(*"step_300", "enter")),
    },
    "ChartScreen": {
        "help": HELP,
        "previous": Deed(lambda s: s.current == "step_900" and "step_900" in s.says),
        "next": Deed(lambda s: s.current == "step_900", before=("left", "left")),
        "first": Deed(lambda s: s.current == "step_200"),
        "last": Deed(lambda s: s.current == "step_1000", before=("home",)),
        "metric": Deed(lambda s: "Metric: loss" in s.says),
        "back": BACK,
        "zoom_in": Deed(lambda s: s.span < s.was["span"]),
        "zoom_out": Deed(lambda s: s.span > s.was["span"], before=("up", "up")),
        "whole": Deed(lambda s: s.span > s.was["span"] and s.span >= 800, before=("up",) * 3),
        "pin": PIN,
        "smoother": Deed(lambda s: "Smoothed 0.6" in s.says and "(smoothed" in s.says),
        "rougher": Deed(lambda s: "Smoothed 0.6" in s.says, before=("plus", "plus")),
        "table": Deed(lambda s: "Step eval_loss Checkpoint" in s.says),
        "metrics": Deed(
            lambda s: "loss" in s.d.lines[0].replace("eval_loss", ""),
            then=("down", "space", "enter"),
        ),
        "log": Deed(lambda s: "(log)" in s.says),
        "best": Deed(lambda s: s.current == "step_1000", before=("home",)),
        "dip": Deed(
            lambda s: s.current == "step_1000" and "lowest at step 1000" in s.says,
            before=("home",),
        ),
        "overlay": Deed(
            lambda s: "other" in s.says and s.screen == "ChartScreen",
            then=("space", "enter"),
            several=True,
        ),
        "resume": RESUME,
        "outliers": Deed(lambda s: "stand at the edges" in s.says),
        "axes": Deed(lambda s: "axis" in s.says),
        "note": NOTE,
        "mark": Deed(lambda s: s.marked == {"step_1000"} and "1 marked" in s.says),
        "trash_chosen": Deed(TRASH.holds, before=("left", "left")),
        "verify": VERIFY,
        "detail": Deed(_screen("DetailScreen")),
        "copy": Deed(lambda s: "Copied by" in s.says and "ckptui ls" in s.says),
        "close": BACK,
    },
    "CompareScreen": {
        "help": HELP,
        "only": Deed(lambda s: "shown too" in s.says and "= epoch" in s.says),
        "swap": Deed(lambda s: "A step_900 B step_800" in s.says),
        "next_part": Deed(lambda s: "> Config" in s.says),
        "previous_part": Deed(lambda s: "> Tensors" in s.says),
        "copy": Deed(lambda s: "Copied by" in s.says and "ckptui diff step_800" in s.says),
        "back": BACK,
    },
    "DetailScreen": {
        "help": HELP,
        "next_tab": Deed(lambda s: "[2 files]" in s.says),
        "previous_tab": Deed(lambda s: "[6 lineage]" in s.says),
        "back": BACK,
        "only": Deed(lambda s: "seed" in s.says and "seed" not in s.was["text"], before=("5",)),
        "filter": Deed(
            lambda s: "model.safetensors" in s.says and "config.json" not in s.says,
            before=("2",),
            then=(*"model", "enter"),
        ),
        "pin": PIN,
        "resume": RESUME,
        "compare": Deed(lambda s: s.screen == "CompareScreen" and "A step_800" in s.says),
        "next_checkpoint": Deed(lambda s: "step_800 " in s.says and "step_900 " not in s.says),
        "previous_checkpoint": Deed(lambda s: "step_1000 " in s.says),
        "copy": COPY_MENU,
        "verify": VERIFY,
        "trash_chosen": Deed(TRASH.holds),
        "note": NOTE,
        "open_overview": _page("1 overview", "Kept by", "Saved"),
        "open_files": _page("2 files", "recipe_state.json", "Digest"),
        "open_tensors": _page("3 tensors", "layer.weight", "F32"),
        "open_metrics": _page("4 metrics", "To best", "eval_loss"),
        "open_config": _page("5 config", "differ"),
        "open_lineage": _page("6 lineage", "came from", "step_800"),
    },
    "PruneScreen": {
        "edit_rules": Deed(
            lambda s: "remove 8" in s.says and s.untouched,
            then=("home", "ctrl+k", *"keep-last 1", "enter"),
        ),
        "flip": Deed(
            lambda s: "remove 6" in s.says and "remove 7" in s.was["text"], before=("down",) * 2
        ),
        "pin": Deed(lambda s: s.pins == {"step_800"}, before=("down",) * 2),
        "only": Deed(lambda s: "keep step_900" not in s.says and "remove step_800" in s.says),
        "copy": COPY_COMMAND,
        "move_to_trash": Deed(
            lambda s: standing(s.run) == {"step_1000", "step_900"} and s.trash == 8
        ),
        "all_words": Deed(lambda s: s.screen == "MessageDialog" and "best by" in s.says),
        "undo": Deed(
            lambda s: len(s.was["standing"]) == 2 and len(standing(s.run)) == 9, before=("M",)
        ),
        "back": Deed(lambda s: BACK.holds(s) and s.untouched),
    },
    "TrashScreen": {
        "restore": Deed(lambda s: "step_100" in standing(s.run) and "Restored" in s.says),
        "mark": Deed(lambda s: "1 marked" in s.says),
        "restore_all": Deed(lambda s: "step_100" in standing(s.run) and s.trash == 0),
        "empty_trash": Deed(lambda s: s.trash == 0 and s.untouched, then=("1", "enter")),
        "delete_items": Deed(lambda s: s.trash == 0 and s.untouched, then=("1", "enter")),
        "copy": Deed(lambda s: "ckptui trash restore" in s.says and s.trash == 1),
        "back": BACK,
    },
    "VerifyScreen": {
        "stop": Deed(lambda s: "Everything is checked" in s.says or "stopped" in s.says.lower()),
        "level": Deed(lambda s: "quick" in s.says and "nothing wrong" in s.says),
        "all_of_run": Deed(lambda s: "9 of 9 checked" in s.says),
        "only": Deed(lambda s: "Nothing was found" in s.says),
        "copy": Deed(lambda s: "ckptui verify" in s.says and "Copied by" in s.says),
        "back": BACK,
    },
    "JournalScreen": {
        "filter": Deed(
            lambda s: "step_100" in s.was["text"] and "rm step_100" not in s.says,
            then=(*"unpin", "enter"),
        ),
        "copy": COPY_MENU,
        "back": BACK,
    },
}


def cases() -> list[ParameterSet]:
    """Each screen, deed and spelling of its key; other spellings only in the slow run."""
    return [
        pytest.param(screen.__name__, key.act, spelling, marks=[pytest.mark.slow] if at else [])
        for screen in all_screens()
        for key in screen.KEYS
        for at, spelling in enumerate(key.key.split(","))
    ]


def make(path: Path, *, several: bool) -> Path:
    run = small_run(path / "runs" / "run")
    shutil.rmtree(run / "step_900")
    parent = {"run_id": RUN_ID, "step": 800, "attempt": 1, "name": "step_800"}
    metrics = {"eval_loss": 2.1, "loss": 2.0}
    make_checkpoint(run, "step_900", step=900, metrics=metrics, parent=parent)
    ckptui("rm", "step_100", "--run", run, "--yes")
    if several:
        small_run(path / "runs" / "other")
    return run


@pytest.fixture(autouse=True)
def _no_tmux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMUX", raising=False)


def test_every_key_of_every_screen_has_an_entry_here_and_no_other() -> None:
    there = {(screen.__name__, key.act) for screen in all_screens() for key in screen.KEYS}
    assert there == {(screen, act) for screen, acts in DEEDS.items() for act in acts}


@pytest.mark.parametrize(("screen", "act", "spelling"), cases())
def test_a_key_does_what_its_label_says(
    tmp_path: Path, screen: str, act: str, spelling: str
) -> None:
    deed = DEEDS[screen][act]
    run = make(tmp_path, several=deed.several)

    async def go() -> None:
        async with driving(run.parent if deed.several else run) as d:
            await d.settle()
            if deed.several:
                d.app.choose_run(run)
                await d.settle()
            await d.press(*OPEN[screen])
            for key in deed.before:
                await d.press(key)
            assert type(d.app.screen).__name__ == screen
            scene = Scene(d, run)
            scene.remember()
            if deed.prepare is not None:
                deed.prepare(run)
            await d.press(spelling)
            for key in deed.then:
                await d.press(key)
            if deed.live:
                await d.until(lambda: deed.holds(scene))
            assert deed.holds(scene), f"{screen}: {spelling} ({act})\n{d.text}"

    with ExitStack() as stack:
        if deed.live:
            stack.enter_context(LiveTrainer(run))
        asyncio.run(go())
