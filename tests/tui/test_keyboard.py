"""Bytes from the terminal, as Textual's parser gets them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from textual import events
from textual._xterm_parser import XTermParser
from textual.drivers import linux_driver

from ckptui.tui import keyboard
from tests.factory import make_run
from tests.tui.terminal import CKPTUI, Pty, words

if TYPE_CHECKING:
    from pathlib import Path

BEGIN, END = b"\x1b[200~", b"\x1b[201~"


def told(*reads: bytes) -> list[str]:
    """What comes of bytes that are read one after the other: keys, and pastes in quotes."""
    keyboard.adapt()
    decode = vars(linux_driver)["getincrementaldecoder"]("utf-8")().decode
    parser = XTermParser()
    found = []
    for data in reads:
        text = decode(data, final=False)
        for event in parser.feed(text) if text else ():
            if isinstance(event, events.Paste):
                found.append(repr(event.text))
            elif isinstance(event, events.Key):
                found.append(event.key)
    return found


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"ab", ["a", "b"]),
        (b"\x1b[A\x1b[B", ["up", "down"]),
        (b"a\xe9b", ["a", "replacement_character", "b"]),
        (BEGIN + b"plain" + END, ["'plain'"]),
        (BEGIN + END, ["''"]),
        (b"x" + BEGIN + b"one" + END + b"y" + BEGIN + b"two" + END, ["x", "'one'", "y", "'two'"]),
        (BEGIN + b"a\x1bMb" + END + b"q", [repr(r"a\x1bMb"), "q"]),
        (BEGIN + b"\x1b[Ad" + END, [repr(r"\x1b[Ad")]),
        (BEGIN + b"\x1b\x1b[201" + END, [repr(r"\x1b\x1b[201")]),
        (BEGIN + b"a" + BEGIN + b"b" + END, [repr(r"a\x1b[200~b")]),
        (BEGIN + "é\x1b".encode() + END, [repr(r"é\x1b")]),
    ],
)
def test_a_paste_is_text_to_its_end_and_nothing_in_it_is_obeyed(
    sent: bytes, expected: list[str]
) -> None:
    assert told(sent) == expected
    for at in range(len(sent)):
        if sent[at - 1 : at] != b"\x1b" or sent[:at].count(BEGIN) > sent[:at].count(END):
            assert told(sent[:at], sent[at:]) == expected, at
    assert told(*(bytes([byte]) for byte in sent)) == expected


def test_pasted_escapes_do_nothing_in_the_list(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", range(100, 400, 100), policy=["keep-last 1"])
    with Pty([*CKPTUI, "browse", run]) as terminal:
        terminal.until(lambda data: "q quit" in words(data))
        terminal.send(BEGIN + b"\x1b\x1b[Bp\x1b[Bp" + END)
        terminal.quiet()
        assert not list((run / ".ckptui").glob("pins/*"))
        terminal.send(b"/")
        terminal.until(lambda data: "esc as before" in words(data))
        terminal.send(BEGIN + b"step_3\x1bp" + END)
        terminal.until(lambda data: r"step_3\x1bp" in words(data))
        terminal.send(b"\r")
        terminal.quiet()
        terminal.send(b"q")
        terminal.ended()
        terminal.assert_restored()
    assert not list((run / ".ckptui").glob("pins/*"))
