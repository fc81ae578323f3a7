"""Every screen and every state of it as text, at three sizes: whole, and as it was left.

`CKPTUI_UPDATE_SNAPSHOTS=1` stores what is shown; see `screens_text`.
"""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from ckptui import prune
from ckptui.errors import StorageError
from tests.factory import make_checkpoint, make_run
from tests.tui import screens_text
from tests.tui.driver import SIZES, Driver, driving
from tests.tui.worlds import World, world

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ckptui.prune import Removal
    from ckptui.retention import PrunePlan

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Picture:
    """How a screen comes about."""

    make: Callable[[World], Path]
    keys: tuple[str, ...] = ()
    patch: Callable[[Patch, World], object] | None = None
    """What is wrong with the machine."""
    meanwhile: Callable[[World], object] | None = None
    """Done to the disk before the last key."""
    script: Callable[[Driver], Awaitable[None]] | None = None
    """Instead of waiting until nothing goes on."""
    options: Mapping[str, Any] = field(default_factory=dict)
    sizes: tuple[tuple[int, int], ...] = tuple(SIZES)


def _rich(w: World) -> Path:
    run = w.rich()
    w.trashed(run)
    return run


def _live(w: World) -> Path:
    return w.rich(live=True)


def _folders(w: World) -> Path:
    for name in ("notes", "logs", "iter_0000100"):
        (w.outputs / name).mkdir(parents=True)
    return w.outputs


def _fresh(w: World) -> Path:
    w.several()
    return w.outputs / "fresh"


def _plain(w: World) -> Path:
    """A run of checkpoints without metrics."""
    return make_run(w.outputs / "plain", range(100, 600, 100))


def _thousands(w: World) -> Path:
    steps = range(1, 2001)
    metrics = {s: {"eval_loss": 1 + 100 / s} for s in steps}
    return make_run(w.outputs / "long", steps, metrics=metrics, policy=["keep-last 3"])


# What goes wrong


def _forbidden(patch: Patch, w: World) -> None:
    real, closed = os.scandir, str(w.outputs / "my-run" / "step_40000")

    def scandir(path: Any = ".") -> Any:
        if isinstance(path, str | os.PathLike) and os.fspath(path) == closed:
            raise PermissionError(errno.EACCES, "Permission denied", closed)
        return real(path)

    patch.setattr(os, "scandir", scandir)


def _no_space(patch: Patch, w: World) -> None:
    full = type("Usage", (), {"total": 10**13, "used": 10**13 - 10**6, "free": 10**6})()
    patch.setattr("shutil.disk_usage", lambda _: full)

    def pin(checkpoint: Any, **_: Any) -> bool:
        msg = f"{checkpoint.name} is not pinned: No space left on device."
        raise StorageError(msg, path=checkpoint.path)

    patch.setattr("ckptui.pins.pin", pin)


def _hung(patch: Patch, w: World) -> None:
    real, gone = os.scandir, str(w.outputs / "my-run" / "step_40000")

    def scandir(path: Any = ".") -> Any:
        if isinstance(path, str | os.PathLike) and os.fspath(path) == gone:
            threading.Event().wait()
        return real(path)

    patch.setattr(os, "scandir", scandir)


async def _for_twelve_seconds(d: Driver) -> None:
    await d.until(lambda: d.app.jobs.oldest_running() is not None)
    await d.pilot.pause(0.3)
    job = d.app.jobs.oldest_running()
    assert job is not None
    job.started = time.monotonic() - 12.2
    d.app.main.show_header()
    await d.pilot.pause()


def _halfway(patch: Patch, w: World) -> None:
    real = prune.execute

    def execute(plan: PrunePlan, **options: Any) -> Iterator[Removal]:
        for at, removal in enumerate(real(plan, **options)):
            yield removal
            if at == 1:
                threading.Event().wait(5)

    patch.setattr(prune, "execute", execute)


async def _at_the_second(d: Driver) -> None:
    await d.pilot.press("x")
    await d.settle()
    await d.pilot.press("M")
    await d.until(lambda: "2 of 5" in d.words)


async def _and_quitting(d: Driver) -> None:
    await _at_the_second(d)
    await d.pilot.press("q")
    await d.until(lambda: "Still at work" in d.text)


def _vanish(w: World) -> None:
    (w.outputs / "my-run" / "step_41500").rename(w.home / "away")


def _grow(w: World) -> None:
    make_checkpoint(w.outputs / "my-run", "step_42500", step=42500, metrics={"eval_loss": 1.9})


WIDE = ((80, 24), (160, 45))
DETAIL = ("down", "down", "enter")
PICTURES: dict[str, Picture] = {
    # The main screen and its states
    "browse": Picture(_rich),
    "browse-marked": Picture(_rich, ("space", "down", "space", "down", "down")),
    "browse-filter": Picture(_rich, ("slash", *"state:ok")),
    "browse-no-match": Picture(_rich, ("slash", *"eval_los<1")),
    "browse-bad-filter": Picture(_rich, ("slash", *"step>=x")),
    "browse-full": Picture(_rich, ("f",)),
    "browse-columns-scrolled": Picture(_rich, ("right", "right")),
    "runs": Picture(lambda w: w.several(), ("escape",)),
    "empty": Picture(_folders),
    "missing": Picture(lambda w: w.outputs / "nothing"),
    "no-checkpoints": Picture(_fresh),
    "thousands": Picture(_thousands, ("end",), sizes=WIDE),
    "live": Picture(_live),
    "partial": Picture(_rich, ("end", "up")),
    "broken": Picture(_rich, ("end", "up", "up", "up")),
    "permission": Picture(_rich, ("down",) * 4, _forbidden),
    "read-only": Picture(_rich, ("p",), options={"read_only": True}),
    "vanished": Picture(_rich, ("down", "ctrl+r"), meanwhile=_vanish),
    "one-more": Picture(_rich, ("down", "ctrl+r"), meanwhile=_grow),
    "disk-full": Picture(_rich, patch=_no_space),
    "disk-full-pin": Picture(_rich, ("p",), _no_space),
    "slow-mount": Picture(_rich, patch=_hung, script=_for_twelve_seconds),
    "no-metrics": Picture(_plain),
    "two-run-ids": Picture(lambda w: w.two_ids()),
    "paused": Picture(_live, ("full_stop",)),
    # Pages about one checkpoint
    "detail-overview": Picture(_rich, DETAIL),
    "detail-files": Picture(_rich, (*DETAIL, "2")),
    "detail-tensors": Picture(_rich, (*DETAIL, "3")),
    "detail-metrics": Picture(_rich, (*DETAIL, "4")),
    "detail-config": Picture(_rich, (*DETAIL, "5")),
    "detail-lineage": Picture(_rich, (*DETAIL, "6")),
    "detail-broken": Picture(_rich, ("end", "up", "up", "up", "enter")),
    # The chart
    "chart": Picture(_rich, ("down", "down", "c")),
    "chart-log-smooth": Picture(_rich, ("c", "L", "plus")),
    "chart-table": Picture(_rich, ("c", "t")),
    "chart-several": Picture(_rich, ("c", "M", "down", "space", "enter")),
    "chart-no-metrics": Picture(_plain, ("c",)),
    # Work
    "compare": Picture(_rich, ("down", "down", "equals_sign")),
    "prune-preview": Picture(_rich, ("x",)),
    "prune-nothing": Picture(_plain, ("x",)),
    "prune-live": Picture(_live, ("x",)),
    "prune-moving": Picture(_rich, patch=_halfway, script=_at_the_second),
    "prune-done": Picture(_rich, ("x", "M")),
    "trash-chosen": Picture(_rich, ("down", "down", "down", "d")),
    "trash": Picture(_rich, ("T",)),
    "trash-empty": Picture(_plain, ("T",)),
    "trash-question": Picture(_rich, ("T", "E")),
    "verify": Picture(_rich, ("a", "V")),
    "journal": Picture(_rich, ("l",)),
    "journal-empty": Picture(_plain, ("l",)),
    # Help and dialogs
    "help": Picture(_rich, ("question_mark",)),
    "help-search": Picture(_rich, ("question_mark", *"trash")),
    "palette": Picture(_rich, ("colon", *"step_4")),
    "resume": Picture(_rich, ("r",)),
    "resume-older": Picture(_rich, ("down", "down", "r")),
    "resume-refused": Picture(_rich, ("end", "up", "up", "up", "r")),
    "note": Picture(_rich, ("n", *"the dip")),
    "copy-menu": Picture(_rich, ("y",)),
    "sort-menu": Picture(_rich, ("s",)),
    "columns-menu": Picture(_rich, ("M",)),
    "refused": Picture(_rich, ("d",)),
    "question": Picture(_rich, patch=_halfway, script=_and_quitting),
    "too-small": Picture(_rich, sizes=((39, 12), (30, 7))),
}


@pytest.fixture
def place(monkeypatch: Patch) -> Iterator[World]:
    with world(monkeypatch) as made:
        yield made


@pytest.mark.parametrize(
    ("name", "size"),
    [(name, size) for name, picture in PICTURES.items() for size in picture.sizes],
    ids=lambda value: value if isinstance(value, str) else "x".join(map(str, value)),
)
def test_picture(place: World, monkeypatch: Patch, name: str, size: tuple[int, int]) -> None:
    picture = PICTURES[name]
    path = picture.make(place)
    if picture.patch is not None:
        picture.patch(monkeypatch, place)

    async def run() -> None:
        async with driving(path, size=size, **picture.options) as d:
            if picture.script is not None:
                if picture.keys or name != "slow-mount":
                    await d.settle()
                await picture.script(d)
            else:
                await d.settle()
                for at, key in enumerate(picture.keys):
                    if picture.meanwhile is not None and at == len(picture.keys) - 1:
                        picture.meanwhile(place)
                    await d.press(key)
            screens_text.check(d, name, hidden=place.hidden)
            for job in (d.app.jobs.latest("remove"),):
                if job is not None:
                    job.cancelled = True

    asyncio.run(run())


def test_every_stored_picture_is_of_a_screen() -> None:
    known = {f"{n}-{w}x{h}.txt" for n, p in PICTURES.items() for w, h in p.sizes}
    assert {p.name for p in screens_text.STORED.iterdir()} == known
