"""Bytes that the browser writes to the terminal, by what is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.tui.terminal import CKPTUI, Pty

if TYPE_CHECKING:
    from pathlib import Path

SIZE = (120, 40)
DEEDS: tuple[tuple[str, bytes], ...] = (
    ("cursor down", b"\x1b[B"),
    ("cursor down again", b"\x1b[B"),
    ("page down", b"\x1b[6~"),
    ("a dialog opens (sort)", b"s"),
    ("it closes", b"\x1b"),
    ("help opens", b"?"),
    ("it closes again", b"\x1b"),
    ("turn the order around", b"S"),
    ("a refresh, nothing new", b"\x1b[15~"),
    ("nothing for three seconds", b""),
)
THEMES: tuple[tuple[str, dict[str, str | None]], ...] = (
    ("textual-dark", {"TEXTUAL_THEME": "textual-dark"}),
    ("ansi-dark", {"TEXTUAL_THEME": "ansi-dark"}),
    ("NO_COLOR", {"NO_COLOR": "1"}),
)


def measure(run: Path, env: dict[str, str | None]) -> dict[str, int]:
    """Bytes by deed; the first paint includes what the scan and the metrics then add."""
    found = {}
    with Pty((*CKPTUI, "browse", run), size=SIZE, env=env) as terminal:
        terminal.until(lambda data: b"step_" in data)
        found["first screen with rows"] = len(terminal.data)
        terminal.quiet(1.5)
        found["until all is read"] = len(terminal.data)
        for name, keys in DEEDS:
            start = len(terminal.data)
            if keys:
                terminal.send(keys)
                terminal.quiet(2.5 if "refresh" in name else 0.4, patience=10)
            else:
                terminal.quiet(3.0, patience=3.0)
            found[name] = len(terminal.data) - start
            assert terminal.process.poll() is None, "it has ended"
        terminal.send(b"q")
        terminal.ended()
    return found


def report(run: Path) -> None:
    """Print the bytes of each deed, by theme."""
    columns = {name: measure(run, env) for name, env in THEMES}
    print(f"\nBytes written to a terminal of 120x40, {run.name}")
    print(f"  {'':<28}" + "".join(f"{name:>14}" for name in columns))
    for deed in next(iter(columns.values())):
        print(f"  {deed:<28}" + "".join(f"{found[deed]:>14,}" for found in columns.values()))
