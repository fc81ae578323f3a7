"""The browser in a real terminal: tmux draws, keys go in, the screen is read back."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len

from ckptui.scan import scan_run
from tests.factory import make_run
from tests.tui.terminal import CKPTUI, Pty, Tmux, tmux, words

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.tmux,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]

REVERSED = re.compile(r"\x1b\[(?:\d+;)*7(?:;\d+)*m")


@pytest.fixture
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tmux]:
    with tmux(tmp_path_factory.mktemp("t")) as one:
        yield one


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(
        tmp_path / "my run",
        range(100, 700, 100),
        metrics={s: {"eval_loss": 1.0 + s / 1000} for s in range(100, 700, 100)},
        rows=[{"step": s, "attempt": 1, "loss": 3.0 - s / 1000} for s in range(1, 601)],
        policy=["keep-last 2"],
    )


def standing(run: Path) -> set[int | None]:
    return {c.step for c in scan_run(run).checkpoints}


def cursor_line(text: str) -> str:
    """The line of the list that the cursor stands on; empty while that is being drawn."""
    lines = [x for x in text.split("\n") if re.match(r"[│|]>", x)]
    return lines[0] if len(lines) == 1 else ""


def back(terminal: Tmux) -> None:
    """Press esc, and wait for the main screen: all of it, not what was left of it before."""
    terminal.keys("Escape")

    def whole(text: str) -> bool:
        lines = text.split("\n")
        title = len(lines) > 1 and re.search("[─-] Checkpoints [─-]", lines[1])
        return bool(title) and "ckptui" in lines[0] and "/ filter" in text and "q quit" in text

    terminal.until(whole, "the main screen")


def leave(terminal: Tmux) -> str:
    """Press q; what stands on the terminal then, which is as it was before."""
    terminal.keys("q")
    text = terminal.wait("RC=0")
    assert terminal.ask("#{alternate_on}") == "0"
    assert terminal.ask("#{cursor_flag}") == "1"
    assert terminal.ask("#{mouse_any_flag}") == "0"
    terminal.keys("clear; stty -a", "Enter")
    stty = terminal.wait("icanon")
    assert re.search(r"(?<!-)icanon", stty)
    assert re.search(r"(?<!-)echo\b", stty)
    assert re.search(r"(?<!-)isig", stty)
    return text


def test_start_filter_pin_prune_undo_resume_quit(terminal: Tmux, run: Path) -> None:
    terminal.start(*CKPTUI, "browse", run)
    first = terminal.wait(">", "step_600", "eval_loss", "newest resumable", "q quit")
    assert len(first.rstrip("\n").split("\n")) == 24
    assert [cell_len(line) for line in first.rstrip("\n").split("\n")] == [80] * 24

    terminal.keys("/")
    terminal.wait("words, step>=2000")
    terminal.type("step>=500")
    terminal.gone("step_400")
    terminal.keys("Enter")
    terminal.wait(" / step>=500", "by step")
    terminal.keys("Down")
    terminal.until(lambda text: "step_500" in cursor_line(text), "the cursor on the second")
    terminal.keys("Escape")
    terminal.wait("step_100", "of 6")

    terminal.keys("Down", "p")
    terminal.wait("Pinned step_400")
    assert (run / ".ckptui/pins/step_400.json").exists()

    terminal.keys("x")
    terminal.wait("remove 3", "no rule keeps it", "[ Move 3 to trash", "Cancel")
    assert standing(run) == {100, 200, 300, 400, 500, 600}
    terminal.keys("Tab", "Enter")
    terminal.wait("Moved 3 to the trash")
    assert standing(run) == {400, 500, 600}
    back(terminal)
    terminal.wait("3 checkpoints")

    terminal.keys("z")
    terminal.wait("Restored", "6 checkpoints")
    assert standing(run) == {100, 200, 300, 400, 500, 600}

    terminal.keys("Home", "r")
    terminal.wait("Resume from step_600", "resume_from=latest")
    terminal.keys("y")
    terminal.wait("Copied by tmux")
    buffer = terminal.tmux("show-buffer")
    assert "resume_from=latest" in buffer
    assert f"'{run}/" in buffer
    terminal.keys("Tab", "Tab", "Enter")
    left = terminal.wait("RC=0")
    assert buffer in left.replace("\n", "")  # printed on leaving
    assert "Traceback" not in left


def test_what_is_typed_ahead_goes_where_it_was_meant_to(terminal: Tmux, run: Path) -> None:
    terminal.start(*CKPTUI, "browse", run)
    terminal.wait("step_600", "newest resumable", "q quit")
    terminal.type("/pinned:step")  # as a paste comes: `p`, `d` and `n` are deeds of the list
    terminal.wait("/ pinned:step")
    back(terminal)
    terminal.type("n")
    terminal.type("xdp")
    terminal.wait("Note for step_600", "xdp")
    terminal.keys("Enter")
    terminal.wait("Pinned step_600")
    assert {p.stem for p in (run / ".ckptui/pins").iterdir()} == {"step_600"}
    assert "xdp" in (run / ".ckptui/pins/step_600.json").read_text()
    assert standing(run) == {100, 200, 300, 400, 500, 600}
    leave(terminal)


def test_q_quits_and_the_terminal_is_as_before(terminal: Tmux, run: Path) -> None:
    terminal.start(*CKPTUI, "browse", run)
    terminal.wait("step_600", "q quit")
    assert terminal.ask("#{alternate_on}") == "1"
    text = leave(terminal)
    assert "step_600 " not in text
    assert "Traceback" not in text


def test_the_window_may_change_its_size_at_any_moment(terminal: Tmux, run: Path) -> None:
    terminal.start(*CKPTUI, "browse", run)
    for columns, lines in ((40, 10), (20, 5), (160, 45), (60, 20), (300, 80), (80, 24)):
        terminal.resize(columns, lines)  # also while it starts
    terminal.wait("step_600", "q quit")
    terminal.keys("Down", "Down")
    terminal.until(lambda text: "step_400" in cursor_line(text), "the cursor on the third")
    asked = "ckptui needs at"
    for key, word in (("?", "type to search"), ("x", "Move"), ("c", "[ ] move"), ("", "step_400")):
        if key:
            terminal.keys(key)
        terminal.wait(word)
        terminal.resize(20, 5)
        terminal.until(lambda text: asked in text or "─╮" in text[:40], "20x5")
        terminal.resize(40, 10)
        terminal.gone(asked)
        terminal.resize(80, 24)
        terminal.wait(word)
        if key:
            back(terminal)
    terminal.resize(40, 10)
    terminal.until(lambda text: "step_400" in cursor_line(text) and "q quit" in text, "40x10")
    terminal.resize(20, 5)
    terminal.wait(asked)
    terminal.resize(80, 24)
    leave(terminal)


def test_a_size_there_and_back_at_once_leaves_no_torn_screen(run: Path) -> None:
    with Pty((*CKPTUI, "browse", run)) as terminal:
        terminal.until(lambda data: b"step_600" in data)
        terminal.quiet(1.0)
        start = len(terminal.data)
        terminal.resize(40, 10, signal_it=False)  # the terminal has cut what it shows,
        terminal.resize(80, 24)  # and the program hears of the size that it knows
        terminal.quiet(1.0)
        assert "step_100" in words(terminal.data[start:])
        assert "q quit" in words(terminal.data[start:])


@pytest.mark.parametrize(
    "env",
    [
        {"NO_COLOR": "1"},
        {"NO_COLOR": "1", "TEXTUAL_THEME": "ansi-dark"},
        {"TEXTUAL_THEME": "ansi-dark"},
        {"TEXTUAL_THEME": "ansi-light", "TERM": "vt100"},
    ],
    ids=str,
)
def test_the_cursor_is_seen_without_colours_and_in_those_of_the_terminal(
    terminal: Tmux, run: Path, env: dict[str, str]
) -> None:
    terminal.start(*CKPTUI, "browse", run, env=env)
    terminal.wait("step_600", "q quit")
    terminal.keys("Down")
    terminal.until(lambda text: "step_500" in cursor_line(text), "the cursor on the second")
    lines = terminal.coloured.split("\n")
    (line,) = [x for x in lines if "step_500" in x and "step_600" not in x and "│" in x][:1]
    assert REVERSED.search(line), line
    assert not REVERSED.search(next(x for x in lines if "step_400" in x))
    if "NO_COLOR" in env and "TEXTUAL_THEME" in env:
        assert not re.search(r"\x1b\[(?:\d+;)*(?:3[0-8]|4[0-8]|9\d|10\d)\b", terminal.coloured)
    leave(terminal)


def test_a_dumb_terminal_gets_the_listing(terminal: Tmux, run: Path) -> None:
    terminal.start(*CKPTUI, "browse", run, env={"TERM": "dumb"})
    text = terminal.wait("step_100", "step_600", "RC=0")
    assert "q quit" not in text


@pytest.mark.parametrize("env", [{"LC_ALL": "C", "LANG": "C"}, {"CKPTUI_ASCII": "1"}], ids=str)
def test_an_ascii_terminal_gets_ascii(terminal: Tmux, run: Path, env: dict[str, str]) -> None:
    terminal.start(*CKPTUI, "browse", run, env=env)
    terminal.wait("step_600", "q quit")
    for keys, word in (((), "step_600"), (("x",), "Move"), (("?",), "Help"), (("c",), "[ ] move")):
        terminal.keys(*keys) if keys else None
        text = terminal.wait(word)
        assert text.isascii(), [char for char in text if not char.isascii()]
        if keys:
            back(terminal)
    leave(terminal)


def test_a_signal_leaves_the_terminal_as_it_was(terminal: Tmux, run: Path) -> None:
    terminal.start(*CKPTUI, "browse", run)
    terminal.wait("step_600", "q quit")
    terminal.keys("C-c")  # in raw mode a key like any other: it must not leave a torn terminal
    terminal.wait("step_600")
    leave(terminal)
