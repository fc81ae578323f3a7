"""Which checkpoints a listing shows, and in which order: `--filter` and `--sort`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ckptui.display.rows import rows_of
from ckptui.fields import Facts, no_such_metric, own_metric

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from ckptui.checkpoint import Checkpoint, Run
    from ckptui.fields import Lookup
    from ckptui.filters import Filter
    from ckptui.sorting import Sort


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What is shown of a run; without a filter and an order, all of it as it stands."""

    filter: Filter | None = None
    sort: Sort | None = None
    columns: tuple[str, ...] = ()
    """Metrics that columns name."""
    by_name: bool = True
    """Whether the columns were asked for now, not preferred for all runs."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that are needed, in the order a person would want to see them."""
        return tuple(dict.fromkeys((*self.named, *self.columns)))

    @property
    def named(self) -> tuple[str, ...]:
        """The metrics that somebody has just typed."""
        by = (self.sort.field,) if self.sort is not None and self.sort.metric else ()
        asked = self.filter.metrics if self.filter is not None else ()
        return tuple(dict.fromkeys((*asked, *by, *(self.columns if self.by_name else ()))))

    def facts(self, run: Run, *, now: datetime, whole: Run | None = None) -> list[Facts]:
        """Every checkpoint of a run with what can be asked of it.

        Args:
            run: Those to choose from.
            now: For ages.
            whole: The run with all its checkpoints, where `run` has only some of them.

        Raises:
            StorageError: A metric has to be looked up in the log, which cannot be read.
        """
        at = metric_lookup(run, self.metrics)
        return [Facts(c, s, run, at, now) for c, s in rows_of(run, now=now, whole=whole)]

    def pick(self, rows: Sequence[Facts]) -> list[Facts]:
        """Those that are shown, in their order."""
        picked = list(rows)
        if self.filter is not None:
            test = self.filter.test
            picked = [it for it in picked if test(it)]
        if self.sort is not None:
            from ckptui.sorting import sort_facts  # noqa: PLC0415 - only where it is asked for

            picked = sort_facts(picked, self.sort)
        return picked


def parse_choice(
    filter_text: str | None, sort: str | None, columns: Iterable[str], *, by_name: bool
) -> Choice:
    """The choice that options mean.

    Args:
        filter_text: In the filter language.
        sort: A field or a metric, with a `-` before it for the other direction.
        columns: Metrics that columns name.
        by_name: Whether they do so because the line says so.

    Raises:
        UsageError: One of them is malformed.
    """
    chosen_filter = chosen_sort = None
    if filter_text is not None:
        from ckptui.filters import parse_filter  # noqa: PLC0415 - only where it is asked for

        chosen_filter = parse_filter(filter_text)
    if sort is not None:
        from ckptui.sorting import parse_sort  # noqa: PLC0415 - as above

        chosen_sort = parse_sort(sort)
    return Choice(filter=chosen_filter, sort=chosen_sort, columns=tuple(columns), by_name=by_name)


def metric_lookup(run: Run, names: Sequence[str]) -> Lookup:
    """Where values of metrics come from: the marker; else the log at just that step and attempt.

    The log is read only where one of `names` is missing from a marker.

    Raises:
        StorageError: The log is there and cannot be read.
    """
    lacking = any(
        name not in c.metrics
        for c in run.checkpoints
        if c.step is not None and c.attempt is not None
        for name in names
    )
    if not lacking:
        return own_metric
    from ckptui.metrics import read_metrics  # noqa: PLC0415 - a log may be long

    rows = read_metrics(run.path, run.attempts).rows
    logged = {(row.step, row.attempt): row.metrics for row in rows}

    def look(c: Checkpoint, name: str) -> tuple[bool, float | None]:
        if name in c.metrics or c.step is None or c.attempt is None:
            return own_metric(c, name)
        row = logged.get((c.step, c.attempt), {})
        return name in row, row.get(name)

    return look


def unknown_metrics(choice: Choice, rows: Iterable[Facts]) -> list[str]:
    """The metrics that were named and that nothing listed has, each with what may be meant."""
    missing = dict.fromkeys(choice.named)
    known: set[str] = set()
    for it in rows:
        known.update(it.checkpoint.metrics)
        for name in list(missing):
            if it.at(it.checkpoint, name)[0]:
                del missing[name]
        if not missing:
            return []
    return [no_such_metric(name, known) for name in missing]
