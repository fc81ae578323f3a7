from __future__ import annotations

import json
import math
import os
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ckptui import metric_log, schema
from ckptui.checkpoint import Attempt
from ckptui.columns import MAX_STEP, Column, Curve
from ckptui.errors import StorageError
from ckptui.metric_log import MetricLog
from ckptui.metrics import read_metrics

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from ckptui.columns import Point
    from ckptui.metric_log import Logged

shared_folder = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=200
)
VALUES = st.sampled_from([1, 2.5, -1.0, 0, 10**20, "NaN", "Infinity", None, "text", True, [1]])
ROWS = st.builds(
    lambda step, attempt, values: {"step": step, "attempt": attempt, **values},
    st.integers(0, 30),
    st.integers(1, 4),
    st.dictionaries(st.sampled_from(["loss", "eval_loss", "lr"]), VALUES),
)
LINES = st.one_of(
    ROWS.map(lambda row: json.dumps(row).encode()),
    st.sampled_from(
        [b"", b"  \t", b"x", b"[]", b'{"step": ', b"\xff", b'{"step": 99999999999999999999}']
    ),
    st.just(b'{"step": 3, "pad": "' + b"x" * 90 + b'", "loss": 7}'),
)


def whole(
    run: Path, attempts: Sequence[Attempt]
) -> tuple[dict[str, Any], dict[Any, Any], list[str]]:
    """What a whole reading finds: the present history, everything logged, and what is wrong."""
    history = read_metrics(run, attempts)
    curves: dict[str, list[Point]] = {}
    for row in history.current():
        for name, value in row.metrics.items():
            curves.setdefault(name, []).append((row.step, value))
    logged = {(r.attempt, r.step): dict(r.metrics) for r in history.rows if r.metrics}
    return {n: sorted(c) for n, c in curves.items()}, logged, [p.what for p in history.problems]


def followed(found: Logged) -> tuple[dict[str, Any], dict[Any, Any], list[str]]:
    """The same of what was followed."""
    logged: dict[tuple[int, int], dict[str, float | None]] = {}
    for attempt, curves in found.by_attempt.items():
        for name, curve in curves.items():
            for step, value in curve:
                logged.setdefault((attempt, step), {})[name] = value
    current = {name: list(curve) for name, curve in found.current.items()}
    return current, logged, [p.what for p in found.problems]


def attempts(*starts: int) -> list[Attempt]:
    return [Attempt(attempt=i + 1, start_step=start) for i, start in enumerate(starts)]


def lines(rows: Iterable[Mapping[str, object]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


@shared_folder
@given(
    st.lists(LINES, max_size=40),
    st.sampled_from([b"\n", b"\r\n"]),
    st.booleans(),
    st.booleans(),
    st.lists(st.integers(0, 3000), max_size=6),
    st.lists(st.integers(0, 20), max_size=4),
    st.integers(1, 300),
)
def test_a_log_that_was_followed_says_what_a_whole_reading_says(
    tmp_path: Path,
    parts: list[bytes],
    end: bytes,
    bom: bool,
    ended: bool,
    cuts: list[int],
    starts: list[int],
    chunk: int,
) -> None:
    data = (b"\xef\xbb\xbf" if bom else b"") + end.join(parts) + (end if ended else b"")
    made = attempts(0, *starts)
    path = tmp_path / "metrics.jsonl"
    path.unlink(missing_ok=True)
    log = MetricLog(tmp_path)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(metric_log, "_CHUNK", chunk)
        patched.setattr(schema, "MAX_LINE_SIZE", 100)
        for cut in [*sorted(cuts), len(data)]:
            path.write_bytes(data[:cut])
            log.update()
            assert followed(log.logged(made)) == whole(tmp_path, made)
            assert followed(log.logged(made[:1])) == whole(tmp_path, made[:1])


def test_only_what_was_appended_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(lines({"step": s, "loss": s / 2} for s in range(10_000)))
    log = MetricLog(tmp_path)
    assert log.update()
    read = 0
    real = os.pread

    def counted(descriptor: int, size: int, offset: int) -> bytes:
        nonlocal read
        data = real(descriptor, size, offset)
        read += len(data)
        return data

    monkeypatch.setattr(os, "pread", counted)
    assert not log.update()
    assert read == 0
    with path.open("ab") as f:
        f.write(lines([{"step": 10_000, "loss": 1.0}]))
    assert log.update()
    assert 0 < read < 2000
    assert log.logged([]).current["loss"][-1] == (10_000, 1.0)


@pytest.mark.parametrize("how", ["shrunk", "replaced", "rewritten", "tail", "gone"])
def test_another_log_under_the_name_is_read_from_its_start(tmp_path: Path, how: str) -> None:
    path = tmp_path / "metrics.jsonl"
    old = lines({"step": s, "loss": 1.0} for s in range(1000))
    path.write_bytes(old)
    log = MetricLog(tmp_path)
    log.update()
    new = lines({"step": s, "loss": 2.0} for s in range(1000))
    match how:
        case "shrunk":
            os.truncate(path, len(lines({"step": s, "loss": 1.0} for s in range(10))))
        case "replaced":
            (tmp_path / "new").write_bytes(old[:-1] + b"\n" + new)
            (tmp_path / "new").replace(path)
        case "rewritten":
            with path.open("r+b") as f:
                f.write(new + new)
        case "tail":
            with path.open("r+b") as f:
                f.seek(len(old) - 8)
                f.write(b"9.5}   \n" + new)
        case _:
            path.unlink()
    assert log.update()
    assert followed(log.logged([])) == whole(tmp_path, [])
    assert not log.update()


def test_curves_stay_as_they_were_while_the_log_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    made = attempts(0, 20)
    log = MetricLog(tmp_path)
    kept = []
    with path.open("wb", buffering=0) as f:
        for step in range(1, 200):
            late = step - 5 if step % 7 == 0 else step
            row = {"step": late, "attempt": 1 + (step > 20), "loss": step * 1.5}
            f.write(lines([row]))
            log.update()
            curve = log.logged(made).current["loss"]
            kept.append((curve, list(curve)))
    for curve, was in kept:
        assert list(curve) == was


def test_what_is_no_file_and_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    log = MetricLog(tmp_path)
    assert not log.update()
    (tmp_path / "metrics.jsonl").mkdir()
    assert log.update()
    assert "not a regular file" in log.logged([]).problems[0].what
    assert not log.update()
    (tmp_path / "metrics.jsonl").rmdir()
    (tmp_path / "metrics.jsonl").symlink_to("metrics.jsonl")
    with pytest.raises(StorageError, match="cannot be read"):
        log.update()


def test_memory_stays_small_beside_the_log(tmp_path: Path) -> None:
    rows = ({"step": s, "loss": s / 3, "lr": 1e-4, "norm": s / 7} for s in range(20_000))
    (tmp_path / "metrics.jsonl").write_bytes(lines(rows))
    log = MetricLog(tmp_path)
    tracemalloc.start()
    try:
        log.update()
        log.logged([])
        # Three metrics of 16 bytes a point, arrays grow by an eighth ahead.
        assert tracemalloc.get_traced_memory()[0] < 20_000 * 3 * 16 * 1.5
    finally:
        tracemalloc.stop()


# --- columns


@given(st.lists(st.tuples(st.integers(0, 400), st.one_of(st.none(), st.floats(-9, 9)))))
def test_of_two_values_at_a_step_the_later_wins(points: list[Point]) -> None:
    assert list(Curve.of(points)) == sorted(dict(points).items())


@given(
    st.lists(st.one_of(st.none(), st.floats(-1e308, 1e308)), max_size=700),
    st.integers(0, 700),
    st.integers(0, 700),
)
def test_the_extent_of_any_part_is_that_of_its_finite_values(
    values: list[float | None], one: int, two: int
) -> None:
    curve = Curve.of(enumerate(values))
    first, last = sorted((min(one, len(values)), min(two, len(values))))
    finite = [v for v in values[first:last] if v is not None]
    wanted = (min(finite), max(finite)) if finite else (math.inf, -math.inf)
    assert curve.extent(first, last) == wanted
    assert len(curve.gaps_between(first, last)) == last - first - len(finite)


def test_integers_come_back_as_such_and_the_largest_step_fits() -> None:
    curve = Curve.of([(1, 5), (2, None), (MAX_STEP, 10**9)])
    assert [type(value) for _, value in curve] == [int, type(None), int]
    assert curve.until(2)[-1] == (2, None)
    assert curve.until(math.inf)[-1] == (MAX_STEP, 10**9)
    column = Column(curve)
    column.append(MAX_STEP, 0.5)
    assert list(column.curve()) == [(1, 5.0), (2, None), (MAX_STEP, 0.5)]
    assert list(curve)[-1] == (MAX_STEP, 10**9)


def test_a_curve_is_a_sequence_of_points() -> None:
    curve = Curve.of((s, s / 2) for s in range(0, 20, 2))
    assert curve[2] == (4, 2.0)
    assert curve[-1] == (18, 9.0)
    assert curve[::4] == [(0, 0.0), (8, 4.0), (16, 8.0)]
    assert curve.at(4) == (True, 2.0)
    assert curve.at(5) == (False, None)
    assert curve.find(5) == 3
    assert curve.place(3.0, 0, len(curve)) == 3
    assert curve.place(3.0, 4, len(curve)) is None
    assert curve.changed({4: 2.0}) is curve
    assert curve.changed({5: None})[3] == (5, None)
    with pytest.raises(IndexError):
        curve[10]
