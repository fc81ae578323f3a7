"""Noticing that a run has changed, by a handful of `stat` calls instead of a scan."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from ckptui import schema
from ckptui.tui.pulse import Pulse, Pulses

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_TOOL = schema.TOOL_DIR
_WATCHED = (
    "",
    schema.RUN_FILE,
    _TOOL,
    f"{_TOOL}/{schema.PINS}",
    f"{_TOOL}/{schema.TRASH}",
    f"{_TOOL}/{schema.STAGING}",
    f"{_TOOL}/{schema.LEASES}",
)
"""Folders whose times change when a checkpoint, a pin, a trash item or a staging comes or goes."""

Signs = tuple[object, ...]


class Look(NamedTuple):
    """What one look at a run has shown."""

    stirred: bool
    """Something other than the metric log may have changed."""
    logged: bool
    """The metric log has changed."""
    pulse: Pulse


class Watch:
    """Remembers how runs looked. One thread at a time may use it."""

    def __init__(self) -> None:
        self._pulses = Pulses()
        self._signs: dict[Path, Signs] = {}
        self._logs: dict[Path, Signs] = {}
        self._roots: dict[Path, Signs] = {}

    def look(self, run: Path) -> Look:
        """Whether a run has changed since the last look; the first one always says so."""
        signs = tuple(_sign(os.path.join(run, name)) for name in _WATCHED)  # noqa: PTH118 - many a second
        log = _sign(os.path.join(run, schema.METRICS_FILE))  # noqa: PTH118 - as above
        pulse = self._pulses.feel(run)
        saving = pulse.owner.saving if pulse.owner is not None else None
        every: Signs = (*signs, pulse.life, saving)
        found = Look(self._signs.get(run) != every, self._logs.get(run) != log, pulse)
        self._signs[run], self._logs[run] = every, log
        return found

    def root_changed(self, root: Path) -> bool:
        """Whether something came to or left a root since the last look; not at the first one."""
        signs = _sign(os.fspath(root))
        before = self._roots.get(root)
        self._roots[root] = signs
        return before is not None and before != signs

    def forget(self, keep: Callable[[Path], bool]) -> None:
        """Forget the runs that are no longer there."""
        for known in (self._signs, self._logs):
            for run in [r for r in known if not keep(r)]:
                del known[run]


def _sign(path: str) -> Signs:
    try:
        info = os.stat(path)  # noqa: PTH116 - many a second
    except OSError as e:
        return (e.errno,)
    return (info.st_ino, info.st_mtime_ns, info.st_size)
