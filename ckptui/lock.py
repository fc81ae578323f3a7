"""The lock of a run: one training process at a time, and everybody can see whether it lives.

The lock is a JSON file that its owner rewrites every few seconds with a higher counter. On the
same boot the owner is dead exactly when its process is gone; seen from another machine, or from
another container, whose process numbers are not ours, it is dead when the counter has stood still
for `STILL_SECONDS` on the observer's own clock. Advisory locks of the system are not used: loader
workers inherit them, and network file systems do not agree on them.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ckptui import guard, journal, process, schema
from ckptui.checkpoint import Owner
from ckptui.durable import (
    read_bytes,
    read_json_object,
    replace_file,
    sync_dir,
    to_json,
    token,
    tool_dir,
    write_file,
)
from ckptui.errors import LockedError, NotFoundError, StorageError
from ckptui.run_file import whole

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

BEAT_SECONDS = 10.0
STILL_SECONDS = 120.0
_IN_HAND_SECONDS = 60.0

_LOOKS = (0.0, 0.05, 0.2)
"""Seconds before each look for a lock that is not to be seen: somebody who judged an older one may
have it in hand for a moment, and a network file system may fail for one."""

_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


def lock_path(run: Path) -> Path:
    """Where the lock of a run stands."""
    return run / schema.TOOL_DIR / schema.LOCK


def read_owner(run: Path) -> Owner | None:
    """The owner that the run's lock names, alive or not; None without a lock.

    A lock that cannot be read has an owner about whom nothing is known.
    """
    try:
        raw = read_json_object(lock_path(run), limit=schema.MAX_LINE_SIZE)
    except FileNotFoundError:
        # A link to nothing takes the name too: nobody could make a lock there.
        return _UNREADABLE if lock_path(run).is_symlink() else None
    except StorageError:
        return _UNREADABLE
    name = raw.get("token")
    if not isinstance(name, str):
        return _UNREADABLE
    where = raw.get("directory")
    return Owner(
        token=name,
        host=_text(raw.get("host")),
        boot_id=_text(raw.get("boot_id")),
        pid=whole(raw.get("pid")),
        start_time=whole(raw.get("start_time")),
        pid_space=_text(raw.get("pid_space")),
        counter=whole(raw.get("counter")) or 0,
        step=whole(raw.get("step")),
        saving=_text(raw.get("saving")),
        directory=(where[0], where[1])
        if isinstance(where, list) and len(where) == 2 and all(type(v) is int for v in where)
        else None,
    )


_UNREADABLE = Owner(
    token="", host=None, boot_id=None, pid=None, start_time=None, counter=0, step=None, saving=None
)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def is_local(owner: Owner) -> bool:
    """Whether the owner's process, alive or not, can be looked up here and now."""
    return (
        owner.pid is not None
        and process.is_here(owner.boot_id, owner.pid_space)
        and owner.host == journal.host()
    )


def is_live(owner: Owner) -> bool:
    """Whether the owner may be alive, by one look.

    An owner on another machine counts as alive until its counter has been watched standing still.
    """
    if owner.pid is None or not is_local(owner):
        return True
    return process.is_running(owner.pid, owner.start_time)


def is_surely_live(owner: Owner, run: Path) -> bool:
    """Whether one look is enough to know that the owner is alive and at work on this very run."""
    return is_local(owner) and is_live(owner) and owner.directory in (None, _directory(run))


def is_dead(owner: Owner, run: Path, *, report: Callable[[str], None]) -> bool:
    """Whether the owner is surely gone; where its process cannot tell, its counter is watched.

    That is so on another machine, and for a lock that was copied together with its run: the process
    that it names is alive, but at work elsewhere.
    """
    if not is_live(owner):
        return True
    if is_surely_live(owner, run):
        return False
    if owner is _UNREADABLE:
        report(f"The lock of {run} cannot be read; watching it for {STILL_SECONDS:.0f} s.")
    else:
        report(
            f"{run} is locked from {owner.host}, process {owner.pid}; watching for "
            f"{STILL_SECONDS:.0f} s whether it is alive."
        )
    seen = signs_of_life(run, owner)
    end = time.monotonic() + STILL_SECONDS
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(2.0, left))
        now = read_owner(run)
        if now is None:
            return True
        if signs_of_life(run, now) != seen:
            return False
    return True


def signs_of_life(run: Path, owner: Owner) -> tuple[object, ...]:
    """What changes while the owner of a lock is alive."""
    if owner is not _UNREADABLE:
        return (owner.token, owner.counter)
    # Of a lock that only its owner may read, the beat shows in the file that takes its place.
    try:
        found = lock_path(run).lstat()
    except OSError:
        return ()
    return (found.st_ino, found.st_mtime_ns, found.st_size)


def _directory(run: Path) -> tuple[int, int] | None:
    try:
        found = run.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


@dataclass(slots=True)
class RunLock:
    """The right to train on a run. A thread keeps its counter going until `release`."""

    run: Path
    token: str
    _counter: int = 0
    _step: int | None = None
    _saving: str | None = None
    _mutex: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _process: int = field(default_factory=os.getpid)
    _held: bool = False

    def __enter__(self) -> RunLock:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def content(self) -> bytes:
        """The lock file's bytes."""
        record: dict[str, Any] = {
            "token": self.token,
            "host": journal.host(),
            "boot_id": process.boot_id(),
            "pid": os.getpid(),
            "start_time": process.start_time(os.getpid()),
            "pid_space": process.pid_space(),
            "counter": self._counter,
            "step": self._step,
            "saving": self._saving,
            "directory": _directory(self.run),
        }
        return to_json(record)

    def check(self) -> None:
        """Make sure the lock is still ours.

        Raises:
            LockedError: Another process took it over, or it was removed: write nothing more.
        """
        for wait in _LOOKS:
            time.sleep(wait)
            owner = read_owner(self.run)
            if owner is not None and owner.token == self.token:
                return
            if owner is not None and owner is not _UNREADABLE:
                break
        msg = (
            f"The lock of {self.run} is no longer ours: another process took the run over "
            "while this one stood still, or the lock was removed. Nothing more is written."
        )
        raise LockedError(msg)

    def show(self, *, step: int | None = None, saving: str | None = None) -> None:
        """Tell readers the present step and, at once, which checkpoint is being written."""
        with self._mutex:
            changed = saving != self._saving
            self._step, self._saving = step if step is not None else self._step, saving
        if changed:
            self._beat()

    def at(self, step: int) -> None:
        """Tell readers the present step, with the next beat: this costs nothing."""
        self._step = step

    def start(self) -> None:
        """Begin to keep the counter going."""
        self._thread = threading.Thread(target=self._run, name="ckptui-lock", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(BEAT_SECONDS):
            self._beat()

    def _beat(self) -> None:
        # A full or failing disk must not stop training; readers elsewhere see the counter stand.
        with self._mutex, contextlib.suppress(OSError, LockedError):
            self.check()
            self._counter += 1
            replace_file(lock_path(self.run), self.content())

    def release(self) -> None:
        """Stop the counter and remove the lock, if it is still ours.

        A process that was forked from the owner has no lock to give back.
        """
        if os.getpid() != self._process:
            return
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if self._held:
            self._held = False
            guard.end_training(self.run)
        with contextlib.suppress(OSError, LockedError):
            self.check()
            _remove(self.run, self.token)


def acquire(run: Path, *, report: Callable[[str], None]) -> RunLock:
    """Take the lock of a run whose owner is dead or absent.

    Raises:
        LockedError: A live process owns the run.
        RefusedError: A link stands where the lock's folder should.
        StorageError: The lock cannot be written.
    """
    lock = RunLock(run=run, token=token(8))
    try:
        tool_dir(run)
        while not _create(lock):
            owner = read_owner(run)
            if owner is None:
                continue
            if not is_dead(owner, run, report=report):
                raise LockedError(_who(run, owner))
            if _remove(run, owner.token):
                report(f"Took over the lock of a process that is gone ({owner.pid}).")
    except OSError as e:
        msg = f"{run} cannot be locked: {e.strerror} ({e.filename})."
        raise StorageError(msg, path=run) from e
    guard.begin_training(run)
    lock._held = True
    _tidy(run)
    lock.start()
    return lock


def _tidy(run: Path) -> None:
    """Remove what processes that were killed over a lock have left beside it."""
    with contextlib.suppress(OSError):
        for name in os.listdir(run / schema.TOOL_DIR):
            path = run / schema.TOOL_DIR / name
            if name.startswith(f"{schema.LOCK}.") and name.endswith(".old"):
                # It may be in the hand of a process that is about to put it back.
                left = time.time() - path.lstat().st_mtime > _IN_HAND_SECONDS
            else:
                left = name.startswith((f"{schema.LOCK}.", f".{schema.LOCK}."))
            if left:
                path.unlink()


def unlock(run: Path, *, report: Callable[[str], None]) -> Owner:
    """Remove the lock of a dead owner, and return that owner.

    Raises:
        NotFoundError: There is no lock.
        LockedError: The owner is alive.
        ReadOnlyError: Changes are forbidden.
        StorageError: The lock cannot be removed.
    """
    guard.require_changes_allowed(f"unlock {run.name}", run)
    owner = read_owner(run)
    if owner is None:
        msg = f"{run} has no lock."
        raise NotFoundError(msg)
    if not is_dead(owner, run, report=report):
        raise LockedError(_who(run, owner))
    try:
        removed = _remove(run, owner.token)
    except OSError as e:
        msg = f"The lock of {run} cannot be removed: {e.strerror}."
        raise StorageError(msg, path=lock_path(run)) from e
    if not removed:
        msg = f"The lock of {run} changed hands just now, so it was left alone."
        raise LockedError(msg)
    journal.record(run, "unlock", reason=f"process {owner.pid} on {owner.host} is gone")
    return owner


def _who(run: Path, owner: Owner) -> str:
    if owner is _UNREADABLE or owner.pid is None:
        return f"{run} is locked by an owner that cannot be told."
    at = f", at step {owner.step}" if owner.step is not None else ""
    return f"{run} is being trained by process {owner.pid} on {owner.host}{at}."


def _create(lock: RunLock) -> bool:
    """Put the lock in place unless there is one: a link fails where the name is taken."""
    path = lock_path(lock.run)
    own = path.with_name(f"{schema.LOCK}.{lock.token}")
    content = lock.content()
    write_file(own, content)
    try:
        _link(own, path, content)
    except (FileExistsError, FileNotFoundError):
        return False  # another one has the lock, and may have tidied up around it
    finally:
        with contextlib.suppress(OSError):
            own.unlink()
    sync_dir(path.parent)
    return True


def _remove(run: Path, owner_token: str) -> bool:
    """Take away the lock that carries `owner_token`; False if another stood there by then.

    The lock is renamed aside first, so of several that want it gone one wins; what was renamed is
    looked at again, and put back if it is not the one that was judged.
    """
    path = lock_path(run)
    now = read_owner(run)
    if now is None or now.token != owner_token:
        return False
    aside = path.with_name(f"{schema.LOCK}.{token()}.old")
    try:
        path.rename(aside)
    except FileNotFoundError:
        return False
    try:
        data = read_bytes(aside, limit=schema.MAX_LINE_SIZE)
        found = json.loads(data).get("token", "")
    except (OSError, StorageError, ValueError, AttributeError, RecursionError):
        data, found = b"", ""
    if found != owner_token:
        # Another one took over between the two looks: it gets its lock back.
        with contextlib.suppress(FileExistsError, FileNotFoundError):
            _link(aside, path, data)
    aside.unlink(missing_ok=True)
    return bool(found == owner_token)


def _link(own: Path, path: Path, content: bytes) -> None:
    """Give `own` the name `path` unless that is taken.

    Raises:
        FileExistsError: It is taken.
        OSError: The disk refused.
    """
    try:
        os.link(own, path)
    except OSError as e:
        if e.errno not in _NO_LINKS:
            raise
        write_file(path, content)
