"""Every error that ckptui raises on purpose.

```
CkptuiError
├── UsageError              usage          a value that can never be right
│   ├── FilterError                        carries the part and its column
│   └── PreferencesError                   the user's own settings; carries the file and the key
├── NotFoundError           not_found
├── AmbiguousError          ambiguous      carries the candidates
├── RefusedError            refused        would lose or mix something
│   ├── UnsafePruneError                   no rule, or a rule that keeps nothing
│   ├── RunExistsError                     a fresh run into a folder that has one
│   ├── CheckpointExistsError              another checkpoint holds the name
│   ├── ReadOnlyError                      changes are forbidden; carries the reason
│   └── ConfigMismatchError                settings changed on resume; carries the keys
├── NotResumableError       not_resumable
├── LockedError             locked         a live trainer owns the run
└── StorageError            io             the disk said no; carries the path
    └── FormatError                        a file is not what its name says
        └── NewerFormatError               a newer ckptui wrote it
```

`kind` is the word that `--json` prints and `exit_code` what the command line returns. A message
is one plain sentence: what, where, what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class CkptuiError(Exception):
    """Base of all errors that a user can cause or meet."""

    kind: ClassVar[str] = "refused"
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, candidates: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.candidates = tuple(candidates)
        """What could have been meant: names or paths."""

    def __str__(self) -> str:
        return self.message


class UsageError(CkptuiError):
    """A value that no state of the disk could make right."""

    kind = "usage"
    exit_code = 2


class FilterError(UsageError):
    """A text that is no filter."""

    def __init__(self, message: str, *, part: str, column: int) -> None:
        super().__init__(message)
        self.part = part
        """What of the filter is wrong."""
        self.column = column
        """Where it is wrong, counted from 1."""


class PreferencesError(UsageError):
    """The user's own settings cannot be understood."""

    def __init__(self, message: str, *, path: Path, key: str | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.key = key
        """Which of them; None where it is the file as a whole."""


class NotFoundError(CkptuiError):
    """There is no such path, run, checkpoint or trash item."""

    kind = "not_found"


class AmbiguousError(CkptuiError):
    """Several things fit; `candidates` names them."""

    kind = "ambiguous"


class RefusedError(CkptuiError):
    """Doing this would lose or mix something."""


class UnsafePruneError(RefusedError):
    """The rules keep nothing, or cannot be applied."""


class RunExistsError(RefusedError):
    """A fresh run was asked for where a run is already."""


class CheckpointExistsError(RefusedError):
    """The name is taken by a checkpoint that must stay."""


class ReadOnlyError(RefusedError):
    """Changes are forbidden, for the whole process."""

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason
        """Why they are, in a few words."""


class ConfigMismatchError(RefusedError):
    """Settings differ from those the checkpoint was trained with."""

    def __init__(self, message: str, *, keys: Iterable[str]) -> None:
        super().__init__(message)
        self.keys = tuple(keys)
        """The settings, as `allow_changed` takes them."""


class NotResumableError(CkptuiError):
    """Training cannot continue from this checkpoint."""

    kind = "not_resumable"


class LockedError(CkptuiError):
    """A live trainer owns the run."""

    kind = "locked"


class StorageError(CkptuiError):
    """The file system refused or failed."""

    kind = "io"

    def __init__(self, message: str, *, path: Path) -> None:
        super().__init__(message)
        self.path = path


class FormatError(StorageError):
    """A file does not hold what its name promises."""


class NewerFormatError(FormatError):
    """A file is sound, but of a format that only a newer ckptui knows."""
