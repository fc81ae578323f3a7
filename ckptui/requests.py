"""Asking a live trainer to save now, and answering.

A request is a small file in `.ckptui/requests/`, its answer another one beside it. Nobody waits for
a file to be locked: the asker writes its request and looks for the answer; the trainer's thread
lists the folder twice a second and raises a flag, which is all that the training loop reads.

A request names the lock's owner that it is meant for, so that the next owner of the run never meets
what was asked of a former one. What a request says beyond that is for people to read: whatever
stands in it, all that it can bring about is a save.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ckptui import guard, journal, schema
from ckptui.durable import (
    read_json_object,
    refuse_links,
    replace_passing_file,
    to_json,
    token,
    tool_dir,
)
from ckptui.errors import FormatError, NotFoundError, RefusedError, StorageError
from ckptui.lock import is_live, read_owner

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from pathlib import Path

    from ckptui.checkpoint import Owner


class NotTrainedError(RefusedError):
    """No live process trains the run, so there is nobody to ask."""


LOOK_SECONDS = 0.5
"""How often a trainer looks for requests."""
ENDED = "Training ended before it could save."
"""What a trainer that stops answers to everybody still waiting."""

_MAX_SIZE = 2**16
"""Bytes of a request or an answer."""
_MAX_TEXT = 1000
_MOST = 1000
"""Requests that are met together: more in the folder wait for the next look."""
_LEFT_SECONDS = 600.0
"""After this long nobody is there to fetch an answer."""
_STOP_SECONDS = 5.0
"""How long `Inbox.stop` waits for a disk that does not answer."""
_GONE_LOOKS = 3
"""Looks in a row without a lock before its owner counts as gone: one who judges a lock has it in
hand for a moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Somebody's wish that a run be saved now."""

    id: str
    who: str | None
    host: str | None
    when: datetime | None
    owner: str
    """Token of the lock's owner it is meant for; empty where the asker could not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of a request: a checkpoint's name, or why there is none."""

    checkpoint: str | None
    error: str | None
    when: datetime | None


def ask(run: Path) -> Request:
    """Ask the process that trains a run to save now. An owner on another machine counts as alive.

    Raises:
        NotFoundError: There is no such folder.
        NotTrainedError: No live process trains the run.
        RefusedError: A link stands where the request should, or changes are forbidden.
        StorageError: The request cannot be written.
    """
    guard.require_changes_allowed(f"ask {run.name} for a save", run)
    if not run.is_dir():
        msg = f"There is no run {run}."
        raise NotFoundError(msg)
    owner = _owner_to_ask(run)
    request = Request(
        id=token(),
        who=journal.user(),
        host=journal.host(),
        when=schema.parse_time(schema.now_text()),
        owner=owner.token,
    )
    content = {
        "id": request.id,
        "who": request.who,
        "host": request.host,
        "when": schema.format_time(request.when) if request.when else None,
        "owner": request.owner,
    }
    try:
        folder = tool_dir(run, schema.REQUESTS)
        replace_passing_file(folder / schema.request_file(request.id), to_json(content))
    except OSError as e:
        msg = f"The trainer of {run} cannot be asked: {e.strerror} ({e.filename})."
        raise StorageError(msg, path=run) from e
    return request


def _owner_to_ask(run: Path) -> Owner:
    owner = read_owner(run)
    for _ in range(_GONE_LOOKS - 1):
        if owner is not None:
            break
        time.sleep(0.1)
        owner = read_owner(run)
    if owner is None:
        msg = f"{run} is not being trained now, so nobody can save it."
        raise NotTrainedError(msg)
    if not is_live(owner):
        msg = (
            f"{run} is not being trained now, so nobody can save it: process {owner.pid}, which "
            "had it, is gone."
        )
        raise NotTrainedError(msg)
    return owner


def wait(run: Path, request: Request, *, timeout: float, poll: float = 0.2) -> Answer:
    """Wait for the answer; however this ends, request and answer are gone from the disk.

    An owner that dies, loses the run or does not answer in time is an answer too: an error in a
    sentence.

    Args:
        run: The run that was asked.
        request: From `ask`.
        timeout: Seconds.
        poll: Seconds between two looks.
    """
    end = time.monotonic() + timeout
    missed = 0
    try:
        while True:
            answer = _read_answer(run, request)
            if answer is not None:
                return answer
            owner = read_owner(run)
            missed = missed + 1 if owner is None else 0
            error = _why_hopeless(run, request, owner, missed)
            left = end - time.monotonic()
            if error is None and left <= 0:
                error = _too_late(run, owner, timeout)
            if error is not None:
                # Withdrawn first: an answer that is not there by now was not given.
                _unlink(run, schema.request_file(request.id))
                return _read_answer(run, request) or _failed(error)
            time.sleep(max(0.0, min(poll, left)))
    finally:
        withdraw(run, request)


def withdraw(run: Path, request: Request) -> None:
    """Take a request back, and its answer, so that nobody meets it later."""
    _unlink(run, schema.request_file(request.id))
    _unlink(run, schema.answer_file(request.id))


def _why_hopeless(run: Path, request: Request, owner: Owner | None, missed: int) -> str | None:
    """Why no answer can come any more, if that is so."""
    if owner is None:
        return f"The training of {run} ended without an answer." if missed >= _GONE_LOOKS else None
    if request.owner and owner.token and owner.token != request.owner:
        return f"Another process took over {run} before the one that was asked could save."
    if not is_live(owner):
        return f"Process {owner.pid}, which trained {run}, died before it answered."
    return None


def _too_late(run: Path, owner: Owner | None, timeout: float) -> str:
    who = f"process {owner.pid} on {owner.host}" if owner and owner.pid else "its owner"
    busy = f"; it is saving {owner.saving}" if owner and owner.saving else ""
    return (
        f"The trainer of {run} ({who}) did not answer within {timeout:g} s{busy}. The request is "
        "withdrawn; had it been seen already, it may save at its next chance."
    )


def _failed(error: str) -> Answer:
    return Answer(checkpoint=None, error=error, when=None)


def _read_answer(run: Path, request: Request) -> Answer | None:
    """The answer, if one can be read."""
    try:
        raw = _read(refuse_links(run, schema.REQUESTS), schema.answer_file(request.id))
    except (OSError, RefusedError, StorageError):
        return None
    name, error = _text(raw.get("checkpoint")), _text(raw.get("error"))
    if name is not None and schema.parse_name(name) is None:
        name = None
    if name is None and error is None:
        error = f"The trainer of {run} answered neither with a checkpoint nor with a reason."
    return Answer(checkpoint=name, error=error, when=schema.parse_time(raw.get("when")))


def _read(folder: Path, name: str) -> dict[str, object]:
    """The JSON object of a regular file.

    Raises:
        FileNotFoundError: It is gone.
        FormatError: It is a link, no file, too large or no JSON object.
        StorageError: It cannot be read.
    """
    path = folder / name
    if not stat.S_ISREG(path.lstat().st_mode):
        msg = f"{path} is not a regular file."
        raise FormatError(msg, path=path)
    return read_json_object(path, limit=_MAX_SIZE)


def _text(value: object) -> str | None:
    return value[:_MAX_TEXT] if isinstance(value, str) and value else None


def _unlink(run: Path, name: str) -> None:
    with contextlib.suppress(OSError, RefusedError):
        (refuse_links(run, schema.REQUESTS) / name).unlink()


class Inbox:
    """The requests to a trainer that holds the lock of its run.

    The loop reads `waiting`, which costs nothing. Once it is true, `take` hands the requests out,
    and `answer` tells what came of them; it may be called from any thread. A disk that fails or
    hangs is never felt by training: it only means that nobody asks.
    """

    def __init__(self, run: Path) -> None:
        self.waiting = False
        """Whether somebody has asked and was not handed out yet."""
        self._run = run
        self._owner = ""
        self._pending: dict[str, Request] = {}
        self._taken: dict[str, Request] = {}
        self._answered: set[str] = set()
        """Ids that are still on the disk, where they could not be removed."""
        self._mutex = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to look for requests, with the lock held; what a former owner left is dropped."""
        owner = read_owner(self._run)
        self._owner = owner.token if owner is not None else ""
        self._stop.clear()
        self._thread = threading.Thread(target=self._watch, name="ckptui-requests", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop looking, and tell everybody still waiting that training has ended.

        Finish a save that is to answer a request before. Where the disk hangs, this returns after a
        few seconds all the same.
        """
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)
            self._thread = None
        self.waiting = False

    def take(self) -> tuple[Request, ...]:
        """Everything asked so far and not withdrawn since; each request is handed out once."""
        with self._mutex:
            found = dict(self._pending)
            self._taken.update(found)
            self._pending.clear()
            self.waiting = False
        # A look back at the disk: what was withdrawn within the last half second is not met.
        withdrawn = {i for i, r in found.items() if not self._is_there(r)}
        with self._mutex:
            for number in withdrawn:
                self._taken.pop(number, None)
        return tuple(r for i, r in found.items() if i not in withdrawn)

    def answer(
        self,
        requests: Iterable[Request],
        *,
        checkpoint: str | None = None,
        error: str | None = None,
    ) -> None:
        """Tell the askers the checkpoint's name, or in a sentence why there is none."""
        content = to_json({"checkpoint": checkpoint, "error": error, "when": schema.now_text()})
        for request in requests:
            with self._mutex:
                self._taken.pop(request.id, None)
                self._answered.add(request.id)
            if not self._is_there(request):
                continue
            with contextlib.suppress(OSError, RefusedError):
                folder = refuse_links(self._run, schema.REQUESTS)
                replace_passing_file(folder / schema.answer_file(request.id), content)
            _unlink(self._run, schema.request_file(request.id))

    def _is_there(self, request: Request) -> bool:
        path = self._run / schema.TOOL_DIR / schema.REQUESTS / schema.request_file(request.id)
        return os.path.lexists(path)

    def _watch(self) -> None:
        self._look(first=True)
        while not self._stop.wait(LOOK_SECONDS):
            self._look()
        self._look()
        with self._mutex:
            left = [*self._pending.values(), *self._taken.values()]
            self._pending.clear()
        self.answer(left, error=ENDED)

    def _look(self, *, first: bool = False) -> None:
        """List the folder once, and read what is new in it."""
        with self._mutex:
            known = self._pending.keys() | self._taken.keys() | self._answered
        try:
            folder = refuse_links(self._run, schema.REQUESTS)
            names = os.listdir(folder)
        except (FileNotFoundError, RefusedError):
            folder, names = self._run, []
        except OSError:
            return  # it may come back
        there: set[str] = set()
        new: list[Request] = []
        for name in names:
            parsed = schema.parse_request_file(name)
            if parsed is None or parsed.is_answer:
                self._drop_if_left(folder / name)
                continue
            there.add(parsed.id)
            if parsed.id not in known and len(new) < _MOST:
                request = self._read_request(folder, parsed.id, first=first)
                new += [request] if request is not None else []
        with self._mutex:
            self._pending = {i: r for i, r in self._pending.items() if i in there}
            self._pending.update((r.id, r) for r in new)
            self._answered &= there
            self.waiting = bool(self._pending)

    def _read_request(self, folder: Path, number: str, *, first: bool) -> Request | None:
        """A request to this owner; what can be none is removed, what is for another one left."""
        name = schema.request_file(number)
        try:
            raw = _read(folder, name)
        except FormatError:
            _unlink(self._run, name)
            return None
        except (OSError, StorageError):
            return None  # withdrawn, or not to be read now
        meant = _text(raw.get("owner")) or ""
        # Dropped only at the start, right after the lock was taken: an owner that was suspended and
        # lost its run must not take away what is meant for the one that has it now.
        if first and meant != self._owner:
            _unlink(self._run, name)
        if meant not in ("", self._owner) or (first and meant != self._owner):
            return None
        return Request(
            id=number,
            who=_text(raw.get("who")),
            host=_text(raw.get("host")),
            when=schema.parse_time(raw.get("when")),
            owner=meant,
        )

    def _drop_if_left(self, path: Path) -> None:
        """Remove an answer that nobody fetched, or what a killed writer left."""
        if not path.name.endswith((".json", ".tmp")):
            return
        with contextlib.suppress(OSError):
            if time.time() - path.lstat().st_mtime > _LEFT_SECONDS:
                path.unlink()
