"""The columns of a listing: what `--columns` names and what stands in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ckptui import schema
from ckptui.display.tables import chosen_metrics, flags, kept_text, table
from ckptui.display.text import age, size
from ckptui.display.units import measured
from ckptui.errors import UsageError
from ckptui.fields import FIELDS, is_metric

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ckptui.fields import Facts

METRICS = "metrics"
"""The column that stands for the metrics worth one each."""
DEFAULT = ("flags", "name", "step", "epoch", "state", METRICS, "size", "age", "kept")
"""The columns of `ls` where nobody asks for others."""


class Column(NamedTuple):
    """One column: its heading and its text."""

    head: str
    text: Callable[[Facts], str]
    right: bool = False
    """Numbers stand to the right."""


def _step(it: Facts) -> str:
    return "-" if it.checkpoint.step is None else str(it.checkpoint.step)


def _epoch(it: Facts) -> str:
    return "-" if it.checkpoint.epoch is None else f"{it.checkpoint.epoch:g}"


def _attempt(it: Facts) -> str:
    return "-" if it.checkpoint.attempt is None else str(it.checkpoint.attempt)


def _created(it: Facts) -> str:
    when = it.checkpoint.created
    return "-" if when is None else schema.format_time(when)[: len("2026-01-31T12:00:00")] + "Z"


COLUMNS: Mapping[str, Column] = {
    "flags": Column("", lambda it: flags(it.checkpoint, it.standing)),
    "name": Column("name", lambda it: it.checkpoint.name),
    "step": Column("step", _step, right=True),
    "epoch": Column("epoch", _epoch, right=True),
    "state": Column("state", lambda it: str(it.checkpoint.state)),
    "size": Column("size", lambda it: size(it.checkpoint.size), right=True),
    "age": Column("age", lambda it: age(it.checkpoint.created, it.now), right=True),
    "created": Column("created", _created),
    "kept": Column("kept by", lambda it: kept_text(it.checkpoint, it.standing)),
    "note": Column("note", lambda it: it.checkpoint.note or "-"),
    "attempt": Column("attempt", _attempt, right=True),
    "run": Column("run", lambda it: it.run.name),
    "path": Column("path", lambda it: str(it.checkpoint.path)),
}
"""Every column that is no metric's."""


def parse_columns(text: str) -> tuple[str, ...]:
    """The columns in a list with commas: names of columns and of metrics, `"..."` a metric's.

    Raises:
        UsageError: One is empty or named twice.
    """
    return check_columns([part.strip() for part in text.split(",")])


def check_columns(names: Sequence[str]) -> tuple[str, ...]:
    """Names of columns as they were given.

    Raises:
        UsageError: There is none, or one is empty or named twice.
    """
    for place, name in enumerate(names):
        if not name:
            msg = f"Column {place + 1} has no name; give some of {known_columns()} or metrics."
            raise UsageError(msg)
        if name in FIELDS and name not in COLUMNS:
            msg = f"{name} is no column; there are {known_columns()} and those of metrics."
            raise UsageError(msg)
        if name in names[:place]:
            msg = f"The column {name} is named twice."
            raise UsageError(msg)
    if not names:
        msg = f"No column is named; give some of {known_columns()} or metrics."
        raise UsageError(msg)
    return tuple(names)


def known_columns() -> str:
    """The names of all columns that are no metric's."""
    return ", ".join((*COLUMNS, METRICS))


def metrics_of(names: Iterable[str]) -> tuple[str, ...]:
    """The metrics that columns name."""
    return tuple(is_metric(name)[0] for name in names if name != METRICS and name not in COLUMNS)


def run_table(
    rows: Sequence[Facts], columns: Sequence[str] = DEFAULT, *, also: Sequence[str] = ()
) -> str:
    """The checkpoints of a run in the order they come.

    Args:
        rows: With where each stands.
        columns: Names of columns and of metrics.
        also: Metrics that the column `metrics` shows whatever else it does.
    """
    named = metrics_of(columns)
    more: list[str] = []
    if METRICS in columns:
        own = chosen_metrics(it.checkpoint for it in rows)
        more = [m for m in dict.fromkeys((*also, *own)) if m not in named]
    starred = frozenset((*named, *more)) or None
    shown: list[Column] = []
    for name in columns:
        if name == METRICS:
            shown += [_metric(m) for m in more]
        elif name == "flags":
            shown.append(Column("", lambda it: flags(it.checkpoint, it.standing, starred)))
        elif name in COLUMNS:
            shown.append(COLUMNS[name])
        else:
            shown += [_metric(metric) for metric in metrics_of([name])]
    cells = [[column.text(it) for column in shown] for it in rows]
    right = [place for place, column in enumerate(shown) if column.right]
    return table([column.head for column in shown], cells, right=right)


def _metric(name: str) -> Column:
    def text(it: Facts) -> str:
        there, value = it.at(it.checkpoint, name)
        return measured(name, value) if there else "-"

    return Column(name, text, right=True)
