"""The metric loggers of one attempt: begun where the checkpoint stands, kept in step with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ckptui import schema
from ckptui.durable import read_json_object
from ckptui.errors import CkptuiError, UsageError
from ckptui.loggers import KINDS, Begin
from ckptui.metrics import read_metrics
from ckptui.run_file import read_run_file, write_run_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ckptui.attempt import Begun
    from ckptui.loggers import MetricLogger
    from ckptui.resume import Decision

    Row = tuple[int, float | None, Mapping[str, float]]


class Loggers:
    """Several loggers as one.

    Raises:
        UsageError: Two are of one kind: they would share an identity; or a backend is not
            installed: that is to be known before a run is touched.
    """

    def __init__(self, loggers: Sequence[MetricLogger]) -> None:
        self._loggers = tuple(loggers)
        self._started: list[MetricLogger] = []
        kinds = [logger.kind for logger in loggers]
        for kind in kinds:
            if kind in KINDS and find_spec(kind) is None:
                msg = f"The logger {kind} is not installed: pip install 'ckptui[{kind}]'."
                raise UsageError(msg)
            if kinds.count(kind) > 1:
                msg = f"There are several loggers of the kind {kind}; one is enough."
                raise UsageError(msg)

    def start(
        self,
        run: Path,
        decision: Decision,
        begun: Begun,
        config: Mapping[str, Any] | None,
        report: Callable[[str], None],
    ) -> None:
        """Begin the attempt in each, and keep in `run.json` what going on will take.

        Raises:
            CkptuiError: A backend is not installed, or cannot begin.
        """
        if not self._loggers:
            return
        source = decision.checkpoint
        known = _known(run, decision)
        for logger in self._loggers:
            logger.start(
                Begin(
                    run=run,
                    run_id=begun.run_id,
                    attempt=begun.attempt,
                    action="fresh" if decision.action == "restart" else decision.action,
                    start_step=(source.step or 0) if source else 0,
                    previous=known.get(logger.kind),
                    rows=lambda: _rows(run, decision),
                    config=config,
                    report=report,
                )
            )
            self._started.append(logger)
        record = read_run_file(run)
        if record is not None:
            write_run_file(run, replace(record, loggers={**record.loggers, **self._identities()}))

    def log(self, step: int, values: Mapping[str, float], epoch: float | None) -> None:
        """Pass a row on."""
        for logger in self._started:
            logger.log(step, values, epoch)

    def flush(self) -> None:
        """Make what was logged survive this process."""
        for logger in self._started:
            logger.flush()

    def state(self) -> dict[str, Any]:
        """What the recipe state of a checkpoint keeps; empty without loggers."""
        return {"loggers": self._identities()} if self._started else {}

    def close(self) -> None:
        """End all."""
        while self._started:
            self._started.pop().close()

    def _identities(self) -> dict[str, Any]:
        return {logger.kind: logger.identity() for logger in self._started}


def _known(run: Path, decision: Decision) -> Mapping[str, Any]:
    """The identities to go on under: those of the run, or of the checkpoint that is forked from."""
    source = decision.checkpoint
    found: object = None
    if decision.action != "fork":
        record = read_run_file(run)
        found = record.loggers if record is not None else None
    if not found and source is not None:
        try:
            path = source.path / schema.RECIPE_STATE_JSON
            found = read_json_object(path, limit=schema.MAX_JSON_SIZE).get("loggers")
        except (CkptuiError, OSError):
            found = None
    if not isinstance(found, Mapping):
        return {}
    return {kind: identity for kind, identity in found.items() if isinstance(identity, dict)}


def _rows(run: Path, decision: Decision) -> Iterable[Row]:
    """The rows that lead to what is gone on from, by step."""
    source = decision.checkpoint
    if source is None:
        return ()
    if decision.action == "fork":
        return _branch(source.run, source.attempt or 1, source.step or 0)
    return _branch(run, decision.attempt, source.step or 0)


def _branch(run: Path, attempt: int, step: int, generations: int = 100) -> Iterator[Row]:
    """The rows of the branch that ends at a step of an attempt, from its farthest ancestor on."""
    try:
        record = read_run_file(run)
    except CkptuiError:
        record = None
    attempts = [a for a in (record.attempts if record is not None else ()) if a.attempt <= attempt]
    origin = attempts[0].parent if attempts else None
    if origin is not None and origin.path is not None and generations:
        before = Path(origin.path).parent
        yield from _branch(before, origin.attempt or 1, origin.step or 0, generations - 1)
    for row in read_metrics(run, attempts).current():
        if row.step <= step and row.attempt <= attempt:
            yield row.step, row.epoch, _numbers(row.metrics)


def _numbers(metrics: Mapping[str, float | None]) -> dict[str, float]:
    return {name: float("nan") if value is None else value for name, value in metrics.items()}
