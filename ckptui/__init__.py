"""ckptui: browse, pin, prune, verify and resume the checkpoints of training runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ckptui._version import __version__

if TYPE_CHECKING:
    from ckptui.training import TrainingRun

__all__ = ["TrainingRun", "__version__"]


def __getattr__(name: str) -> Any:
    """Import `TrainingRun` when it is first asked for: the command line never needs it."""
    if name == "TrainingRun":
        from ckptui.training import TrainingRun  # noqa: PLC0415 - lazy on purpose

        return TrainingRun
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
