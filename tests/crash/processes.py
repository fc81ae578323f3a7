"""Processes forked from a warm one: a training or a command line, watched and perhaps killed."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ckptui.lock
from ckptui.cli import main as command_line
from ckptui.training import TrainingRun
from tests.crash.strike import Striker
from tests.recipe import preloaded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

TRACE = "strace"
"""Beside a traced process's output: what `strace` wrote down."""

TIMEOUT = 120.0
"""Seconds after which a process counts as hanging."""


@dataclass(frozen=True, kw_only=True)
class Strike:
    """Where a process is to be killed."""

    at: int
    """The number of the operation on the run before which it is killed."""
    torn: float | None = None
    """Share of the bytes in flight that still reach the file in hand."""
    calls: tuple[str, ...] = ()
    """Names of system calls: then `strace` counts those that one thread makes, whatever they touch,
    and kills at the entry of one. None is killed where `at` is 0, and they are only written down.
    """


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a process ended."""

    code: int
    stdout: str
    stderr: str
    hit: str | None
    """The operation before which it was killed."""
    kinds: tuple[str, ...]
    """The kinds of its operations in order, if it lived to tell."""

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL


@dataclass(frozen=True, kw_only=True)
class Moments:
    """What a training does to itself and to others on its way."""

    pin_from: int | None = None
    """Once this step is logged, `meanwhile` is called beside it; the step after waits for it."""
    term_at: int | None = None
    """It gets SIGTERM when this step is logged."""


class Waiting:
    """A process at work."""

    def __init__(
        self,
        pid: int,
        folder: Path,
        told: int,
        answer: int,
        *,
        meanwhile: Callable[[], None] | None,
        tracer: subprocess.Popen[str] | None,
    ) -> None:
        self.pid = pid
        self._tracer = tracer
        self._folder = folder
        self._told = told
        self._answer = answer
        self._meanwhile = meanwhile

    def wait(self) -> Ended:
        """Wait for its end, answering it meanwhile."""
        hit: str | None = None
        kinds: tuple[str, ...] = ()
        hangs = False
        for line in self._lines():
            word, _, rest = line.partition(" ")
            if word == "hangs":
                hangs = True
                os.kill(self.pid, signal.SIGKILL)
            elif word == "hit":
                hit = rest
            elif word == "did":
                kinds = tuple(rest.split())
            elif word == "meanwhile" and self._meanwhile is not None:
                self._meanwhile()
                with contextlib.suppress(BrokenPipeError):  # it may have been killed meanwhile
                    os.write(self._answer, b".")
        os.close(self._told)
        os.close(self._answer)
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        if self._tracer is not None:
            self._tracer.communicate()
            if code == -signal.SIGKILL:
                hit = _last_call(self._folder / TRACE)
        ended = Ended(
            code=code,
            stdout=(self._folder / "stdout").read_text(),
            stderr=(self._folder / "stderr").read_text(),
            hit=hit,
            kinds=kinds,
        )
        assert not hangs, f"it did not end within {TIMEOUT:.0f} s: {ended.stderr}"
        return ended

    def is_alive(self) -> bool:
        """Whether it still runs; one that has ended is left for `wait`."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def _lines(self) -> Iterator[str]:
        """What the process tells until it ends; `hangs` where that takes too long."""
        rest = b""
        end = time.monotonic() + TIMEOUT
        while True:
            ready, _, _ = select.select([self._told], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                end = time.monotonic() + TIMEOUT
                yield "hangs"
                continue
            data = os.read(self._told, 65536)
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            yield from (line.decode() for line in lines)


def start(
    action: Callable[[Callable[[str], None], int], int],
    run: Path,
    folder: Path,
    *,
    strike: Strike | None = None,
    meanwhile: Callable[[], None] | None = None,
) -> Waiting:
    """Fork a process that does `action`, and is killed where `strike` says.

    Args:
        action: What it does; gets what tells a line, and the descriptor of answers; its exit code.
        run: The folder on which its operations count.
        folder: Takes its stdout and stderr.
        strike: Where to kill it; None: nowhere.
        meanwhile: Called beside it when it asks for that.
    """
    folder.mkdir(parents=True)
    hearing, telling = os.pipe()
    asking, answering = os.pipe()
    pid = os.fork()
    if pid:
        os.close(telling)
        os.close(asking)
        tracer = _trace(pid, folder / TRACE, strike) if strike and strike.calls else None
        if tracer is not None:
            os.write(answering, b".")
        return Waiting(pid, folder, hearing, answering, meanwhile=meanwhile, tracer=tracer)
    # From here on in the child, which never comes back.
    code = 1
    try:
        os.close(hearing)
        os.close(answering)
        write = os.write

        def tell(line: str) -> None:
            write(telling, f"{line}\n".encode())

        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for name, descriptor in (("stdout", 1), ("stderr", 2)):
            opened = os.open(folder / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            os.dup2(opened, descriptor)
        sys.stdout = os.fdopen(1, "w", buffering=1)
        sys.stderr = os.fdopen(2, "w", buffering=1)
        striker = Striker(
            str(run),
            stop=strike.at if strike else 0,
            torn=strike.torn if strike else None,
            tell=lambda what: tell(f"hit {what}"),
        )
        if strike and strike.calls:
            os.read(asking, 1)  # until the tracer is there
        else:
            striker.install()
        code = action(tell, asking)
        sys.stdout.flush()
        sys.stderr.flush()
        tell(f"did {' '.join(striker.kinds)}")
    except BaseException:  # noqa: BLE001 - as the interpreter does with what nobody caught
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def _trace(pid: int, log: Path, strike: Strike) -> subprocess.Popen[str]:
    """Attach `strace` to a process that waits for it."""
    names = ",".join(strike.calls)
    words = ["strace", "-f", "-y", "-s", "0", "-o", str(log), "-e", f"trace={names}"]
    if strike.at:
        words += ["-e", f"inject={names}:signal=SIGKILL:when={strike.at}"]
    tracer = subprocess.Popen([*words, "-p", str(pid)], stderr=subprocess.PIPE, text=True)
    assert tracer.stderr is not None
    for line in tracer.stderr:
        if "attached" in line:
            return tracer
        msg = f"strace cannot attach: {line}"
        raise AssertionError(msg)
    raise AssertionError("strace ended")


def _last_call(log: Path) -> str | None:
    """The system call that a traced process was killed at."""
    calls = [line for line in log.read_text().splitlines() if "+++" not in line]
    return " ".join(calls[-1].split()[1:])[:200] if calls else None


def start_training(
    arguments: Sequence[str],
    run: Path,
    folder: Path,
    *,
    strike: Strike | None = None,
    moments: Moments | None = None,
    meanwhile: Callable[[], None] | None = None,
) -> Waiting:
    """Fork a training with these command-line arguments."""

    def action(tell: Callable[[str], None], asking: int) -> int:
        # Beats often, so that the thread that keeps the lock takes part in the race.
        ckptui.lock.BEAT_SECONDS = 0.1
        _watch(moments or Moments(), tell, asking)
        (folder / "order").touch()
        return preloaded.run("train", list(arguments), folder, None)

    return start(action, run, folder, strike=strike, meanwhile=meanwhile)


def _watch(moments: Moments, tell: Callable[[str], None], asking: int) -> None:
    log = TrainingRun.log
    asked: int | None = None

    def watched(self: TrainingRun, step: int, **values: Any) -> None:
        nonlocal asked
        if asked is not None and step > asked:
            os.read(asking, 1)
            asked = None
        log(self, step, **values)
        if "loss" not in values:
            return
        if moments.pin_from is not None and asked is None and step == moments.pin_from:
            asked = step
            tell("meanwhile")
        if step == moments.term_at:
            os.kill(os.getpid(), signal.SIGTERM)

    TrainingRun.log = watched  # type: ignore[method-assign]


def start_command(
    words: Sequence[str], run: Path, folder: Path, *, strike: Strike | None = None
) -> Waiting:
    """Fork a `ckptui` command."""

    def action(tell: Callable[[str], None], asking: int) -> int:
        del tell, asking
        try:
            command_line(list(words), prog_name="ckptui")
        except SystemExit as e:
            return e.code if isinstance(e.code, int) else int(e.code is not None)
        return 0

    return start(action, run, folder, strike=strike)
