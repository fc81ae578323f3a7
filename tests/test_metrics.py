from __future__ import annotations

import json
import math
import os
import random
import shutil
import time
import tracemalloc
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ckptui import metrics, schema
from ckptui.checkpoint import Attempt, is_current
from ckptui.errors import StorageError, UsageError
from ckptui.metrics import History, MetricsWriter, json_number, read_metrics

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

shared_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
FIRST = Attempt(attempt=1, start_step=0)


def log(run: Path, *lines: object) -> Path:
    """A log of these lines: texts and bytes as they are, anything else as JSON."""
    data = b"".join(
        (line if isinstance(line, bytes) else _text(line).encode()) + b"\n" for line in lines
    )
    path = run / "metrics.jsonl"
    path.write_bytes(data)
    return path


def _text(line: object) -> str:
    return line if isinstance(line, str) else json.dumps(line)


def _kind(value: object) -> str:
    return type(value).__name__


def row(step: int, attempt: int = 1, **values: object) -> dict[str, object]:
    return {"step": step, "epoch": 0, "time": None, "attempt": attempt, **values}


def attempts(*starts: int) -> list[Attempt]:
    return [Attempt(attempt=i + 1, start_step=start) for i, start in enumerate(starts)]


def values(history: History, name: str) -> dict[int, float | None]:
    return {r.step: r.metrics[name] for r in history.current() if name in r.metrics}


def wrong(history: History) -> list[str]:
    return [problem.what for problem in history.problems]


# --- reading


def test_rows_come_back_in_order_with_all_they_hold(tmp_path: Path) -> None:
    log(
        tmp_path,
        row(2, loss=0.5),
        {
            "step": 1,
            "epoch": 0.5,
            "time": "2026-01-02T03:04:05Z",
            "attempt": 1,
            "loss": 1,
            "lr": 1e-5,
        },
    )
    found = read_metrics(tmp_path, [FIRST])
    assert [r.step for r in found.rows] == [1, 2]
    first = found.rows[0]
    assert first.epoch == 0.5
    assert first.time == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert first.attempt == 1
    assert first.metrics == {"loss": 1, "lr": 1e-5}
    assert first.current
    assert found.rows[1].time is None
    assert found.problems == ()


def test_a_run_without_a_log_has_no_history(tmp_path: Path) -> None:
    assert read_metrics(tmp_path, []) == History()
    assert read_metrics(tmp_path / "absent", []) == History()
    log(tmp_path)
    assert read_metrics(tmp_path, []) == History()


@pytest.mark.parametrize(
    "line",
    [
        '{"step": 2',
        "",
        "x",
        "[]",
        "3",
        "null",
        '{"step": 2}{"step": 3}',
        '{"step": 2} x',
        '{"loss": 1.0}',
        '{"step": null}',
        '{"step": "2"}',
        '{"step": true}',
        '{"step": 2.5}',
        '{"step": -2}',
        '{"step": NaN}',
        '{"step": 1e999}',
        '{"step": 2, "attempt": "1"}',
        '{"step": 2, "attempt": 1.5}',
        '{"step": 2, "attempt": true}',
        '{"step": 2, "attempt": false}',
        b'{"step": 2, "loss\xff": 1}',
        b"\x00\x00\x00",
        '{"a":' * 5000,
        '{"step": ' + "9" * 5000 + "}",
    ],
    ids=lambda line: repr(line)[:30],
)
def test_a_damaged_line_costs_only_itself(line: str | bytes, tmp_path: Path) -> None:
    path = log(tmp_path, row(1, loss=1.0), line, row(3, loss=3.0))
    found = read_metrics(tmp_path, [FIRST])
    assert values(found, "loss") == {1: 1.0, 3: 3.0}
    if line == "":
        assert found.problems == ()
    else:
        assert wrong(found) == ["line 2 is damaged"]
        assert found.problems[0].path == path


def test_a_torn_last_line_is_damaged_and_a_whole_one_without_its_end_is_not(tmp_path: Path) -> None:
    path = log(tmp_path, row(1, loss=1.0))
    path.write_bytes(path.read_bytes() + b'{"step": 2, "loss": 2.0}')
    assert values(read_metrics(tmp_path, [FIRST]), "loss") == {1: 1.0, 2: 2.0}
    path.write_bytes(path.read_bytes()[:-3])
    found = read_metrics(tmp_path, [FIRST])
    assert values(found, "loss") == {1: 1.0}
    assert wrong(found) == ["line 2 is damaged"]


def test_many_damaged_lines_are_summed_up(tmp_path: Path) -> None:
    log(tmp_path, *["x"] * 1000, row(1, loss=1.0))
    found = read_metrics(tmp_path, [FIRST])
    assert len(found.rows) == 1
    assert len(found.problems) == 21
    assert wrong(found)[19] == "line 20 is damaged"
    assert wrong(found)[20] == "980 more lines are damaged"


def test_a_line_longer_than_a_line_may_be_is_passed_over(tmp_path: Path) -> None:
    limit = schema.MAX_LINE_SIZE

    def padded(size: int) -> str:
        text = '{"step": 7, "loss": 1.0, "pad": ""}'
        return text[:-2] + "x" * (size - len(text)) + text[-2:]

    log(tmp_path, row(1, loss=1.0), padded(limit + 1), row(3, loss=3.0))
    found = read_metrics(tmp_path, [FIRST])
    assert values(found, "loss") == {1: 1.0, 3: 3.0}
    assert wrong(found) == ["line 2 is longer than a line may be"]
    for end in ("\n", ""):
        for size, steps in ((limit, [7]), (limit + 1, []), (2 * limit, []), (3 * limit, [])):
            (tmp_path / "metrics.jsonl").write_text(padded(size) + end)
            found = read_metrics(tmp_path, [FIRST])
            assert [r.step for r in found.rows] == steps
            assert len(found.problems) == 1 - len(steps)
    log(tmp_path, padded(3 * limit), "x")
    assert wrong(read_metrics(tmp_path, [FIRST]))[1] == "line 2 is damaged"


def test_an_endless_line_is_never_held_whole(tmp_path: Path) -> None:
    with (tmp_path / "metrics.jsonl").open("wb") as f:
        f.truncate(2**26)  # a hole: one line of zeros
        f.seek(0, 2)
        f.write(b'\n{"step": 3}\n')
    tracemalloc.start()
    try:
        found = read_metrics(tmp_path, [FIRST])
        assert tracemalloc.get_traced_memory()[1] < 2**23
    finally:
        tracemalloc.stop()
    assert [r.step for r in found.rows] == [3]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.5", 1.5),
        ("3", 3),
        ("-0.0", -0.0),
        ("1e-320", 1e-320),
        ("null", None),
        ("NaN", None),
        ("Infinity", None),
        ("-Infinity", None),
        ('"NaN"', None),
        ('"Infinity"', None),
        ('"-Infinity"', None),
        ("1e400", None),
        ("-1e400", None),
        ("1" + "0" * 400, None),
        ("123456789012345678901234567890", 123456789012345678901234567890),
    ],
)
def test_b132_values_are_finite_numbers_or_null(
    text: str, value: float | None, tmp_path: Path
) -> None:
    log(tmp_path, f'{{"step": 1, "x": {text}}}')
    found = read_metrics(tmp_path, [FIRST])
    assert found.rows[0].metrics == {"x": value}
    assert found.problems == ()


@pytest.mark.parametrize("text", ["true", "false", '"text"', '"nan"', "[1]", "{}", '{"a": 1}'])
def test_what_is_no_number_is_no_metric(text: str, tmp_path: Path) -> None:
    log(tmp_path, f'{{"step": 1, "x": {text}, "y": 1}}')
    found = read_metrics(tmp_path, [FIRST])
    assert found.rows[0].metrics == {"y": 1}
    assert found.problems == ()


def test_forms_that_other_writers_use_are_read(tmp_path: Path) -> None:
    log(
        tmp_path,
        b'\xef\xbb\xbf{"step": 1, "loss": 1.0}\r',
        '  {"step": 2.0, "loss": 2.0}\t',
        '{"step": 3, "attempt": null, "time": 1700000000, "epoch": "x", "loss": 3.0}',
        '{"step": 4, "loss": 9.0, "loss": 4.0}',
    )
    found = read_metrics(tmp_path, [FIRST])
    assert values(found, "loss") == {1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0}
    assert [type(r.step) for r in found.rows] == [int] * 4
    assert [(r.attempt, r.time, r.epoch) for r in found.rows] == [(1, None, None)] * 4
    assert found.problems == ()


def test_rows_of_one_step_and_attempt_merge_by_name(tmp_path: Path) -> None:
    log(
        tmp_path,
        {"step": 5, "epoch": 1, "time": "2026-01-01T00:00:00Z", "loss": 1.0, "lr": 0.1},
        {"step": 5, "eval_loss": 2.0, "lr": 0.2},
        {"step": 5, "time": "2026-01-01T00:00:09Z", "loss": 3.0},
        {"step": 5, "loss": None},
    )
    (only,) = read_metrics(tmp_path, [FIRST]).rows
    assert only.metrics == {"loss": None, "lr": 0.2, "eval_loss": 2.0}
    assert only.epoch == 1
    assert only.time == datetime(2026, 1, 1, 0, 0, 9, tzinfo=UTC)


def test_what_cannot_be_read_is_told_and_does_not_hang(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").mkdir()
    folder = read_metrics(tmp_path, [FIRST])
    (tmp_path / "metrics.jsonl").rmdir()
    os.mkfifo(tmp_path / "metrics.jsonl")
    for found in (folder, read_metrics(tmp_path, [FIRST])):
        assert found.rows == ()
        assert "not a regular file" in found.problems[0].what


# --- which rows are current


def test_after_a_rewind_the_abandoned_rows_stay_and_are_not_current(tmp_path: Path) -> None:
    log(
        tmp_path,
        *(row(s, 1, loss=float(s)) for s in range(1, 6)),
        *(row(s, 2, loss=s + 0.5) for s in range(4, 7)),
    )
    found = read_metrics(tmp_path, attempts(0, 3))
    assert [(r.step, r.attempt, r.current) for r in found.rows] == [
        (1, 1, True),
        (2, 1, True),
        (3, 1, True),
        (4, 1, False),
        (4, 2, True),
        (5, 1, False),
        (5, 2, True),
        (6, 2, True),
    ]
    assert values(found, "loss") == {1: 1.0, 2: 2.0, 3: 3.0, 4: 4.5, 5: 5.5, 6: 6.5}


def test_b133_two_rewinds_in_a_row_leave_one_value_a_step(tmp_path: Path) -> None:
    log(
        tmp_path,
        *(row(s, 1, loss=1.0) for s in range(1, 10)),
        *(row(s, 2, loss=2.0) for s in range(7, 9)),
        *(row(s, 3, loss=3.0) for s in range(4, 6)),
    )
    found = read_metrics(tmp_path, attempts(0, 6, 3))
    assert values(found, "loss") == {1: 1.0, 2: 1.0, 3: 1.0, 4: 3.0, 5: 3.0}
    assert len(found.rows) == 13


def test_of_two_current_attempts_the_later_value_wins(tmp_path: Path) -> None:
    log(tmp_path, row(3, 1, loss=1.0, lr=0.1), row(3, 2, loss=2.0, eval_loss=5.0))
    found = read_metrics(tmp_path, attempts(0, 3))
    (only,) = found.current()
    assert only.metrics == {"loss": 2.0, "lr": 0.1, "eval_loss": 5.0}
    assert only.attempt == 2
    assert len(found.rows) == 2


def test_a_run_that_lost_the_record_of_its_first_attempt_still_knows_the_rewind(
    tmp_path: Path,
) -> None:
    log(tmp_path, row(9, 1, loss=1.0), row(4, 2, loss=2.0))
    found = read_metrics(tmp_path, [Attempt(attempt=2, start_step=3)])
    assert values(found, "loss") == {4: 2.0}


@shared_folder
@given(
    st.lists(st.integers(0, 8), max_size=5),
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 6), st.floats(-9, 9)), max_size=30),
)
def test_current_rows_are_those_the_contract_names(
    tmp_path: Path, starts: list[int], rows: list[tuple[int, int, float]]
) -> None:
    made = attempts(*starts)
    log(tmp_path, *(row(s, a, loss=v) for s, a, v in rows))
    found = read_metrics(tmp_path, made)
    last = {(s, a): v for s, a, v in rows}
    assert [(r.step, r.attempt) for r in found.rows] == sorted(last)
    for r in found.rows:
        assert r.metrics == {"loss": last[r.step, r.attempt]}
        assert r.current is is_current(r.attempt, r.step, made)
    current = found.current()
    assert [r.step for r in current] == sorted({r.step for r in found.rows if r.current})
    for r in current:
        newest = max(a for s, a in last if s == r.step and is_current(a, s, made))
        assert r.metrics == {"loss": last[r.step, newest]}


# --- writing


def written(run: Path) -> list[dict[str, Any]]:
    lines = (run / "metrics.jsonl").read_bytes().splitlines()

    def strict(name: str) -> None:
        raise AssertionError(name)

    return [json.loads(line, parse_constant=strict) for line in lines]


def test_a_row_is_one_line_of_strict_json(tmp_path: Path) -> None:
    writer = MetricsWriter(tmp_path, 3)
    writer.write(7, 1, {"loss": 0.1, "tokens": 5})
    writer.write(8, None, {})
    writer.sync()
    writer.close()
    first, second = written(tmp_path)
    assert list(first) == ["step", "epoch", "time", "attempt", "loss", "tokens"]
    assert schema.parse_time(first.pop("time")) is not None
    assert first == {"step": 7, "epoch": 1, "attempt": 3, "loss": 0.1, "tokens": 5}
    assert second["epoch"] is None


@shared_folder
@given(
    st.dictionaries(
        st.text(max_size=5).filter(lambda name: name not in metrics.RESERVED),
        st.one_of(st.floats(), st.integers(-(10**299), 10**299)),
        max_size=4,
    )
)
def test_what_is_written_reads_back_exactly(tmp_path: Path, values: dict[str, float]) -> None:
    run = tmp_path / "run"
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir()
    writer = MetricsWriter(run, 1)
    writer.write(3, 0.25, values)
    writer.close()
    written(run)
    found = read_metrics(run, [FIRST])
    assert found.problems == ()
    (only,) = found.rows
    assert (only.step, only.epoch, only.attempt) == (3, 0.25, 1)
    expected = {k: v if isinstance(v, int) or math.isfinite(v) else None for k, v in values.items()}
    assert repr(only.metrics) == repr(expected)


def test_a_name_that_is_not_utf_8_is_written_and_read(tmp_path: Path) -> None:
    writer = MetricsWriter(tmp_path, 1)
    writer.write(1, 0, {"loss\udc80\n": 1.0})
    writer.close()
    assert read_metrics(tmp_path, [FIRST]).rows[0].metrics == {"loss\udc80\n": 1.0}


def test_values_that_are_not_finite_are_written_by_name(tmp_path: Path) -> None:
    writer = MetricsWriter(tmp_path, 1)
    writer.write(1, math.nan, {"a": math.nan, "b": math.inf, "c": -math.inf})
    writer.close()
    (only,) = written(tmp_path)
    assert (only["epoch"], only["a"], only["b"], only["c"]) == (
        "NaN",
        "NaN",
        "Infinity",
        "-Infinity",
    )
    assert read_metrics(tmp_path, [FIRST]).rows[0].metrics == {"a": None, "b": None, "c": None}


def test_b125_a_torn_last_line_is_ended_before_the_first_row(tmp_path: Path) -> None:
    path = log(tmp_path, row(1, loss=1.0))
    path.write_bytes(path.read_bytes() + b'{"step": 2, "lo')
    before = path.read_bytes()
    writer = MetricsWriter(tmp_path, 2)
    writer.write(2, 0, {"loss": 2.0})
    writer.close()
    assert path.read_bytes().startswith(before + b"\n{")
    found = read_metrics(tmp_path, attempts(0, 1))
    assert values(found, "loss") == {1: 1.0, 2: 2.0}
    assert wrong(found) == ["line 2 is damaged"]


def test_opening_again_adds_nothing_to_a_whole_log(tmp_path: Path) -> None:
    path = log(tmp_path, row(1, loss=1.0))
    before = path.read_bytes()
    MetricsWriter(tmp_path, 2).close()
    assert path.read_bytes() == before


def test_two_writers_do_not_mix_their_rows(tmp_path: Path) -> None:
    one, two = MetricsWriter(tmp_path, 1), MetricsWriter(tmp_path, 1)
    for step in range(50):
        (one if step % 2 else two).write(step, 0, {"loss": float(step)})
    assert [r["step"] for r in written(tmp_path)] == list(range(50))
    one.close()
    two.close()


@pytest.mark.parametrize("name", sorted(metrics.RESERVED))
def test_a_reserved_name_is_wrong_usage_and_writes_nothing(name: str, tmp_path: Path) -> None:
    writer = MetricsWriter(tmp_path, 1)
    with pytest.raises(UsageError, match=f"'{name}' cannot be a metric's name"):
        writer.write(1, 0, {"loss": 1.0, name: 2.0})
    writer.close()
    assert written(tmp_path) == []


@pytest.mark.parametrize(
    "value", [None, "1.5", b"1", bytearray(b"1"), [1.0], {}, object(), 1j, 10**400], ids=_kind
)
def test_what_is_no_number_is_wrong_usage_and_names_the_metric(value: Any, tmp_path: Path) -> None:
    writer = MetricsWriter(tmp_path, 1)
    with pytest.raises(UsageError, match="The value of loss is no number"):
        writer.write(1, 0, {"loss": value})
    writer.close()
    assert written(tmp_path) == []


@pytest.mark.parametrize("step", [-1, 1.5, "1", None])
def test_what_is_no_step_is_wrong_usage(step: Any, tmp_path: Path) -> None:
    writer = MetricsWriter(tmp_path, 1)
    with pytest.raises(UsageError, match="optimizer steps"):
        writer.write(step, 0, {"loss": 1.0})
    with pytest.raises(UsageError, match="The value of epoch"):
        writer.write(1, "x", {"loss": 1.0})  # type: ignore[arg-type] # what is tested
    writer.close()
    assert written(tmp_path) == []


def test_a_row_that_could_not_be_read_again_is_wrong_usage(tmp_path: Path) -> None:
    writer = MetricsWriter(tmp_path, 1)
    with pytest.raises(UsageError, match="longer than the log takes"):
        writer.write(1, 0, {f"metric_{i}": 0.0 for i in range(100_000)})
    writer.write(1, 0, {"x" * 1000: 1.0})
    writer.close()
    assert len(read_metrics(tmp_path, [FIRST]).rows) == 1


def test_json_number_keeps_integers_whole() -> None:
    assert json_number("x", 2**60 + 1) == 2**60 + 1
    assert type(json_number("x", 3)) is int
    assert type(json_number("x", True)) is float


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    np = pytest.importorskip("numpy")
    writer = MetricsWriter(tmp_path, 1)
    writer.write(
        np.int64(4),
        np.float32(0.5),
        {"a": np.float32(0.1), "b": np.float64(0.1), "c": np.array(3), "d": np.float32("nan")},
    )
    with pytest.raises(UsageError):
        writer.write(5, 0, {"a": np.zeros(2)})
    writer.close()
    (only,) = read_metrics(tmp_path, [FIRST]).rows
    assert (only.step, only.epoch) == (4, 0.5)
    assert only.metrics == {"a": float(np.float32(0.1)), "b": 0.1, "c": 3.0, "d": None}


@pytest.mark.torch
def test_numbers_of_torch_are_numbers(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    writer = MetricsWriter(tmp_path, 1)
    loss = (torch.ones(3, requires_grad=True) / 3).sum()
    writer.write(1, None, {"loss": loss, "half": torch.tensor([0.1], dtype=torch.bfloat16)})
    for value in (torch.zeros(2), torch.zeros(0), torch.tensor(1j), torch.zeros(1, device="meta")):
        with pytest.raises(UsageError, match="The value of loss"):
            writer.write(2, None, {"loss": value})
    writer.close()
    (only,) = read_metrics(tmp_path, [FIRST]).rows
    assert only.metrics == {"loss": loss.item(), "half": 0.10009765625}


def test_a_log_that_vanished_or_was_replaced_is_told(tmp_path: Path) -> None:
    writer = MetricsWriter(tmp_path, 1)
    writer.write(1, 0, {"loss": 1.0})
    path = tmp_path / "metrics.jsonl"
    path.rename(tmp_path / "elsewhere")
    calls: Iterable[Any] = (lambda: writer.write(2, 0, {"loss": 1.0}), writer.sync)
    for call in calls:
        with pytest.raises(StorageError, match="cannot be written") as caught:
            call()
        assert caught.value.path == path
    path.write_bytes(b"")
    for call in calls:
        with pytest.raises(StorageError, match="replaced by another file"):
            call()
    assert path.read_bytes() == b""
    writer.close()


def test_a_log_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be written"):
        MetricsWriter(tmp_path / "absent", 1)
    (tmp_path / "metrics.jsonl").mkdir()
    with pytest.raises(StorageError, match="cannot be written"):
        MetricsWriter(tmp_path, 1)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_read_only_log_is_told(tmp_path: Path) -> None:
    log(tmp_path, row(1)).chmod(0o444)
    with pytest.raises(StorageError, match="Permission denied"):
        MetricsWriter(tmp_path, 1)


def test_a_closed_log_takes_nothing_and_closes_again(tmp_path: Path) -> None:
    writer = MetricsWriter(tmp_path, 1)
    writer.close()
    with (tmp_path / "other").open("wb") as other:  # takes over the free descriptor
        with pytest.raises(StorageError):
            writer.write(1, 0, {"loss": 1.0})
        with pytest.raises(StorageError):
            writer.sync()
        writer.close()
        other.write(b"x")
    assert (tmp_path / "other").read_bytes() == b"x"


def test_a_full_disk_is_told_and_the_next_row_does_not_grow_on_the_torn_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = MetricsWriter(tmp_path, 1)
    writer.write(1, 0, {"loss": 1.0})
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:9]))
    with pytest.raises(StorageError, match="No space left"):
        writer.write(2, 0, {"loss": 2.0})
    monkeypatch.setattr(os, "write", real)
    writer.write(2, 0, {"loss": 2.5})
    writer.write(3, 0, {"loss": 3.0})
    writer.close()
    found = read_metrics(tmp_path, [FIRST])
    assert values(found, "loss") == {1: 1.0, 2: 2.5, 3: 3.0}
    assert wrong(found) == ["line 2 is damaged"]


def test_a_long_history_is_read_in_a_moment(tmp_path: Path) -> None:
    source = random.Random(0)
    lines = (
        row(s, 1 + s // 1000, loss=source.random(), lr=1e-4, grad_norm=source.random(), mem=10**9)
        for s in range(50_000)
    )
    log(tmp_path, *lines)
    made = attempts(*range(0, 50_000, 1000))
    times = []
    for _ in range(3):
        begun = time.process_time()
        found = read_metrics(tmp_path, made)
        times.append(time.process_time() - begun)
    assert len(found.current()) == 50_000
    # Measured: about 0.35 s, twice what json alone takes; the bound allows for slow machines.
    assert min(times) < 1.5
