"""Writing for people and programs: results on stdout, all else on stderr, and nothing obeyed.

Click's own `echo` writes UTF-8 where the terminal knows only ASCII; here such a terminal gets
escapes.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any

from ckptui.display.text import is_plain, visible
from ckptui.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType


def prepare() -> None:
    """Make the three streams safe to use, whatever the shell has handed over."""
    # In this order: a closed descriptor is taken by the next file that is opened.
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: PTH123, SIM115 - for the whole run
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - as above
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - as above
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    sys.excepthook = tell_crash


def tell_crash(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """An unexpected error with its traceback, on stderr; it may quote what lies on the disk."""
    import traceback  # noqa: PLC0415 - only for a crash

    for block in traceback.format_exception(kind, error, trace):
        for line in block.rstrip("\n").split("\n"):
            tell(line)


def say(text: str) -> None:
    """Lines of a listing, on stdout; whatever slipped in that a terminal would obey is spelled.

    Raises:
        BrokenPipeError: Its reader has left; there is no point in listing more.
    """
    try:
        sys.stdout.write("\n".join(map(visible, text.split("\n"))) + "\n")
        sys.stdout.flush()
    except OSError:
        forget_stdout()  # or Python would fail at exit on what is left in its buffer
        raise


def say_names(names: Iterable[str], *, null: bool) -> None:
    """Names for another command, one a line, what a terminal would obey spelled out.

    Args:
        names: As the disk has them.
        null: Each ends with a NUL character instead, and off a terminal its bytes are the disk's.

    Raises:
        BrokenPipeError: Their reader has left.
    """
    if not null:
        for name in names:
            say(visible(name))
        return
    sys.stdout.flush()
    as_is = not sys.stdout.isatty()
    data = b"".join(os.fsencode(n if as_is else visible(n)) + b"\0" for n in names)
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
    except OSError:
        forget_stdout()
        raise


def report(text: str) -> None:
    """A line about what was done, on stdout; once its reader has left, nowhere."""
    with contextlib.suppress(BrokenPipeError):
        say(text)


def print_json(form: dict[str, Any]) -> None:
    """Print a form: indented for a person, compact for a program."""
    from ckptui.display.strict import strict_json  # noqa: PLC0415 - not for a --help

    report(strict_json(form, indent=2 if sys.stdout.isatty() else None))


def say_shell(line: str) -> None:
    """A line for a shell, byte for byte.

    Raises:
        RefusedError: A terminal would obey what is in it.
    """
    if sys.stdout.isatty() and not is_plain(line):
        msg = (
            f"The line holds characters that a terminal would obey, so it is not shown here; send "
            f"it into a file or a pipe: {line}"
        )
        raise RefusedError(msg)
    try:
        data = os.fsencode(line)
    except UnicodeEncodeError:  # a setting may hold what this locale's file names cannot
        data = line.encode("utf-8", "surrogateescape")
    sys.stdout.flush()
    sys.stdout.buffer.write(data + b"\n")
    sys.stdout.flush()


def tell(text: str) -> None:
    """A line for the person, on stderr; where nobody reads it, nothing stops."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(visible(text) + "\n")
        sys.stderr.flush()


def forget_stdout() -> None:
    """Let what is still to be written go nowhere: the reader of the pipe has left."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
