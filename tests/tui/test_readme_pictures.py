"""The pictures of the README: made from a real demo run, and no older than the screens they show.

`CKPTUI_UPDATE_PICTURES=1 pytest tests/tui/test_readme_pictures.py` draws them anew. What is
compared is the text: digits and curves are masked, since another torch trains to other losses.
"""

from __future__ import annotations

import asyncio
import html
import json
import os
import re
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ckptui import schema
from ckptui.tui.app import Browser
from ckptui.tui.screens import prune
from ckptui.tui.wishes import Wishes
from tests.cli.harness import process
from tests.tui.driver import Driver
from tests.tui.worlds import DISK

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.torch, pytest.mark.slow]

IMAGES = Path(__file__).parents[2] / "docs" / "images"
UPDATE = "CKPTUI_UPDATE_PICTURES"
SIZE = (112, 28)
HOME = "/data/research"
"""Where the pictures are taken, to whoever looks at them."""
BEGAN = datetime(2026, 1, 1, 9, tzinfo=UTC)
NOW = BEGAN + timedelta(hours=2)
PICTURES = {
    "browse": (),
    "chart": ("down", "down", "c"),
    "prune": ("x", "e", "home", "ctrl+k", *"keep-last 2", "enter"),
}
"""The keys that lead to each."""


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder with `outputs/demo`, whose path is as long as the one that the pictures show."""
    pytest.importorskip("transformers")
    base = Path(tempfile.mkdtemp(prefix="c", dir="/tmp"))
    assert len(str(base)) == len(HOME)
    try:
        made = process("demo", "--output", base / "outputs", "--no-browse")
        assert made.returncode == 0, made.stderr
        _at_fixed_times(base / "outputs" / "demo")
        yield base
    finally:
        shutil.rmtree(base)


def _at_fixed_times(run: Path) -> None:
    """As if a step had taken 20 seconds from nine o'clock on."""
    for marker in run.glob(f"*/{schema.MARKER}"):
        record = json.loads(marker.read_text())
        saved = BEGAN + timedelta(seconds=20 * record["step"])
        record["created"] = saved.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        marker.write_text(json.dumps(record))
    for pin in (run / schema.TOOL_DIR / "pins").glob("*.json"):
        record = json.loads(pin.read_text())
        marker = run / pin.stem / schema.MARKER
        record["created"] = json.loads(marker.read_text())["created"]
        pin.write_text(json.dumps(record))


async def drawn(place: Path, keys: tuple[str, ...]) -> tuple[str, list[str]]:
    """The screen as SVG, and its lines."""
    app = Browser(
        place / "outputs" / "demo", Wishes(refresh=False, ascii_only=False), clock=lambda: NOW
    )
    async with app.run_test(size=SIZE) as pilot:
        d = Driver(app, pilot)
        await d.settle()
        for key in keys:
            await d.press(key)
        picture = app.export_screenshot(title="ckptui browse outputs/demo")
        return picture.replace(str(place), HOME), d.text.replace(str(place), HOME).split("\n")


@pytest.mark.parametrize("name", PICTURES)
def test_the_picture_in_the_readme_is_the_screen(
    place: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setattr("shutil.disk_usage", lambda _: DISK)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(prune, "LOOK", 0.0)  # the button is ready when the picture is taken
    picture, lines = asyncio.run(drawn(place, PICTURES[name]))
    path = IMAGES / f"{name}.svg"
    if os.environ.get(UPDATE):
        path.write_text(picture)
    stored = path.read_text()
    for private in (str(place), str(Path.home()), "/tmp", os.uname().nodename):
        assert private not in stored or len(private) < 3, private
    assert masked(lines_of(stored)) == masked(lines), f"{UPDATE}=1 draws it anew"


def test_the_pictures_are_in_the_readme() -> None:
    readme = (IMAGES.parents[1] / "README.md").read_text()
    for name in PICTURES:
        assert f"docs/images/{name}.svg" in readme
        assert (IMAGES / f"{name}.svg").exists()


def lines_of(picture: str) -> list[str]:
    """The lines of text in an SVG of Textual's: each piece stands at its own cell."""
    cell = float(re.findall(r'textLength="([\d.]+)"[^>]*>\S<', picture)[0])
    found: dict[int, str] = {}
    piece = r'<text class="[^"]*" x="([\d.]+)" [^>]*clip-path="url\(#[^)]*-line-(\d+)\)">([^<]*)<'
    for x, line, text in re.findall(piece, picture):
        before = found.get(int(line), "").ljust(round(float(x) / cell))
        found[int(line)] = before + html.unescape(text)
    return [found.get(at, "") for at in range(max(found) + 1)]


def masked(lines: list[str]) -> list[str]:
    """Lines without what another machine would have otherwise, and without blanks."""
    text = "\n".join(lines).replace("\xa0", " ")
    text = re.sub(r"[\u2800-\u28ff▁-█▏-▕|^*]", " ", text)
    text = re.sub(r"[-+]?\d[\d.e+-]*|\bsame\b", "0", text)
    text = re.sub(r"\b0 [kMGT]?B\b", "0", text)  # memory is the machine's
    text = re.sub(r"─+", "─", text)
    return [" ".join(line.split()) for line in text.split("\n") if line.strip()]
