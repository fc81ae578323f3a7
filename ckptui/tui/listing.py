"""The checkpoint list: its columns, what stands in them, and their order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from ckptui import display, schema
from ckptui.checkpoint import State
from ckptui.display.units import measured
from ckptui.tui.series import EMPTY, Series
from ckptui.tui.widgets.table import Cell, Column

if TYPE_CHECKING:
    from datetime import datetime

    from ckptui.tui.filters import Context
    from ckptui.tui.snapshot import Row
    from ckptui.tui.widgets.chart import Tick

_NAMES: Final = "checkpoint"
_STATE_STYLE: Final = {
    State.OK: "good",
    State.WEIGHTS: "",
    State.ADAPTER: "",
    State.WRITING: "accent",
    State.PARTIAL: "warn",
    State.BROKEN: "bad",
    State.UNKNOWN: "dim",
}
SORTS: Final = (
    ("step", "Step"),
    ("state", "State"),
    ("metric", "Metric"),
    ("size", "Size"),
    ("age", "Age"),
    ("kept", "Kept by"),
)
"""Keys and words of the sort menu."""


@dataclass(frozen=True, slots=True)
class Look:
    """What the cells depend on besides the row."""

    now: datetime
    series: Series = EMPTY
    metric: str | None = None
    second: str | None = None
    marked: frozenset[str] = field(default_factory=frozenset)
    verified: Mapping[tuple[object, ...], str] = field(default_factory=dict)
    """What verifying has found in this session, by path and identity."""
    columns: tuple[str, ...] | None = None
    """Names of the columns that the user wants, as `ls --columns` has them; None: the usual."""


def columns(rows: Sequence[Row], look: Look) -> tuple[Column, ...]:
    """The columns for these rows, in the order they are shown."""
    if look.columns is not None:
        return _chosen(rows, look, look.columns)
    names = [r.checkpoint.name for r in rows]
    width = min(26, max([10, *(len(name) for name in names)]))
    # A step column says something new only where names do not carry the step already.
    stepped = any(
        r.checkpoint.step is not None and r.checkpoint.name != schema.step_name(r.checkpoint.step)
        for r in rows
    )
    found = [
        Column(key="flags", title="", width=3, rank=4, stays=True),
        Column(key=_NAMES, title="Checkpoint", width=width, rank=0, stays=True),
    ]
    if stepped:
        found.append(Column(key="step", title="Step", width=8, right=True, rank=3))
    found.append(Column(key="state", title="State", width=8, rank=1))
    if look.metric is not None:
        title = display.visible(look.metric)
        found.append(Column(key="metric", title=title, width=9, right=True, rank=2))
    if look.second is not None:
        title = display.visible(look.second)
        found.append(Column(key="second", title=title, width=9, right=True, rank=8))
    found += [
        Column(key="size", title="Size", width=9, right=True, rank=5),
        Column(key="age", title="Age", width=6, right=True, rank=6),
        Column(key="epoch", title="Epoch", width=6, right=True, rank=9),
        Column(key="kept", title="Kept by", width=12, room=20, grows=True, rank=7),
    ]
    return tuple(found)


_CHOSEN: Final = {
    "flags": Column(key="flags", title="", width=3),
    "step": Column(key="step", title="Step", width=8, right=True),
    "epoch": Column(key="epoch", title="Epoch", width=6, right=True),
    "state": Column(key="state", title="State", width=8),
    "size": Column(key="size", title="Size", width=9, right=True),
    "age": Column(key="age", title="Age", width=6, right=True),
    "created": Column(key="created", title="Created (UTC)", width=19),
    "kept": Column(key="kept", title="Kept by", width=20, grows=True),
    "note": Column(key="note", title="Note", width=12, grows=True),
    "attempt": Column(key="attempt", title="Attempt", width=7, right=True),
    "run": Column(key="run", title="Run", width=12),
    "path": Column(key="path", title="Path", width=20, grows=True),
}
NAMES: Final = ("flags", "name", "metrics", *(n for n in _CHOSEN if n != "flags"))
"""What a list can have for columns besides single metrics; as `ls --columns` has them."""


def _chosen(rows: Sequence[Row], look: Look, names: Sequence[str]) -> tuple[Column, ...]:
    """The columns of these names, the first ones kept longest where there is no room for all."""
    width = min(26, max([10, *(len(r.checkpoint.name) for r in rows)]))
    found: list[Column] = []
    for name in names:
        if name == "name":
            found.append(Column(key=_NAMES, title="Checkpoint", width=width))
        elif name == "metrics":
            found += [
                Column(key=key, title=display.visible(metric), width=9, right=True)
                for key, metric in (("metric", look.metric), ("second", look.second))
                if metric is not None
            ]
        elif name in _CHOSEN:
            found.append(_CHOSEN[name])
        else:
            title = display.visible(name)
            found.append(Column(key=f"metric:{name}", title=title, width=9, right=True))
    return tuple(replace(c, rank=0 if c.key == _NAMES else i + 1) for i, c in enumerate(found))


def cell(row: Row, column: Column, look: Look) -> Cell:
    """What stands in a column of a row, with its style."""
    c = row.checkpoint
    text, style = _text(row, column.key, look)
    faint = not c.current or row.unread or bool(row.gone) or row.hidden
    return (text, "dim" if faint and style not in {"bad", "warn"} else style)


def _text(row: Row, key: str, look: Look) -> tuple[str, str]:
    c = row.checkpoint
    match key:
        case "flags":
            found = look.verified.get((c.path, *c.identity), "") if look.verified else ""
            marked = row.key in look.marked
            return flags(row, marked=marked, verified=found, metric=look.metric), "accent"
        case "checkpoint":
            return c.name, "strong"
        case "step":
            return ("-" if c.step is None else str(c.step)), ""
        case "state":
            if row.gone:
                return "gone", "bad"
            return ("...", "dim") if row.unread else (c.state.value, _STATE_STYLE[c.state])
        case "metric":
            return metric_text(row, look.metric, look.series)
        case "second":
            return metric_text(row, look.second, look.series)
        case "size":
            return ("-" if row.unread else display.size(c.size)), ""
        case "age":
            return display.age(c.created, look.now), ""
        case "epoch":
            return ("-" if c.epoch is None else f"{c.epoch:g}"), ""
        case "kept":
            return (
                ("hidden by the filter now", "warn") if row.hidden else (why(row), _why_style(row))
            )
        case "created":
            return (f"{c.created:%Y-%m-%d %H:%M:%S}" if c.created else "-"), "dim"
        case "attempt":
            return ("-" if c.attempt is None else str(c.attempt)), ""
        case "note":
            return c.note, ""
        case "run":
            return row.run.name, "dim"
        case "path":
            return str(c.path), "dim"
        case _:
            return metric_text(row, key.removeprefix("metric:"), look.series)


def metric_text(row: Row, name: str | None, series: Series) -> tuple[str, str]:
    """A metric's own value at a checkpoint, with its style: `-` where it has none."""
    there, value = series.at(row.checkpoint, name) if name is not None else (False, None)
    if name is None or not there:
        return "-", "dim"
    text, best = measured(name, value), name in row.standing.best and not row.gone
    return text, ("warn" if value is None else "good" if best else "")


def flags(row: Row, *, marked: bool = False, verified: str = "", metric: str | None = None) -> str:
    """The letters before a name; see `FLAGS`. Without a metric, best by any counts."""
    c = row.checkpoint
    held = {
        "x": marked,
        "!": bool(c.nonfinite or row.gone)
        or c.state in {State.BROKEN, State.PARTIAL}
        or verified == "failed",
        "~": c.state is State.WRITING,
        "P": c.pinned,
        "*": not row.gone
        and (metric in row.standing.best if metric is not None else bool(row.standing.best)),
        "R": resumed_from(row),
        "g": row.going,
        "V": verified == "verified",
        "-": not c.current,
    }
    return "".join(letter for letter, holds in held.items() if holds)


FLAGS: Final = (
    ("x", "marked"),
    ("!", "broken, partial, failed when verified, or NaN in the weights"),
    ("~", "being written"),
    ("P", "pinned: no rule removes it"),
    ("*", "best by the metric that the list shows (m)"),
    ("R", "the run was last resumed from it"),
    ("V", "verified in this session: every byte is as it was written"),
    ("g", "goes at the next save, by the run's own policy"),
    ("-", "of an abandoned branch: a later attempt trained these steps anew"),
)


def resumed_from(row: Row) -> bool:
    """Whether the run's latest attempt went on from this checkpoint of its own."""
    attempts, c = row.run.attempts, row.checkpoint
    parent = attempts[-1].parent if attempts else None
    return parent is not None and parent.path is None and parent.name == c.name and c.current


ABANDONED: Final = "abandoned branch"
"""What `why` says of one that nothing keeps and no rule counts."""


def why(row: Row) -> str:
    """Why a checkpoint stays, or what is wrong with it; the words of `ls`."""
    if row.gone:
        return row.gone
    if row.unread:
        return "reading"
    if row.checkpoint.state is State.WRITING:
        return "being written"
    if row.going:
        return "goes at next save: p pins"
    from ckptui.display.tables import kept_text  # noqa: PLC0415 - names are shown without

    return kept_text(row.checkpoint, row.standing)


def pin_text(row: Row) -> str:
    """What the pin of a checkpoint says."""
    note = row.checkpoint.note
    return f"pin: {note}" if note else "pinned"


def _why_style(row: Row) -> str:
    c = row.checkpoint
    if row.going:
        return "warn"
    return "bad" if (c.problems and not c.complete) or row.gone else "dim"


def context(look: Look) -> Context:
    """What a filter looks at besides the row."""
    from ckptui.tui.filters import Context  # noqa: PLC0415 - most lists are shown whole

    return Context(look.series, look.now)


def ticks(rows: Iterable[Row], look: Look) -> Sequence[Tick]:
    """The marks of rows below the curve."""
    from ckptui.tui.curve import ticks_of  # noqa: PLC0415 - a low window shows no curve

    return ticks_of(rows, look)


def sort_rows(rows: Sequence[Row], key: str, look: Look, *, descending: bool) -> list[Row]:
    """Rows in the order asked for; those without a value come last either way.

    Args:
        rows: Ascending by step, as a run has them.
        key: One of `SORTS`.
        look: What the values depend on.
        descending: Whether the highest comes first.
    """
    if key == "step":
        have = [row for row in rows if row.checkpoint.step is not None]
        lack = [row for row in rows if row.checkpoint.step is None]
        return [*reversed(have), *reversed(lack)] if descending else [*have, *lack]
    from ckptui.fields import Facts  # noqa: PLC0415 - the list begins in the order of steps
    from ckptui.sorting import Sort, sort_facts  # noqa: PLC0415 - as above

    at, now = look.series.at, look.now
    row_of = {id(row.checkpoint): row for row in rows}
    facts = [Facts(row.checkpoint, row.standing, row.run, at, now) for row in rows]
    by_metric = key == "metric"
    field = (look.metric or "") if by_metric else key
    found = sort_facts(facts, Sort(field, by_metric, descending))
    return [row_of[id(it.checkpoint)] for it in found]
