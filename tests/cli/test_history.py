"""`metrics` and `log`."""

from __future__ import annotations

import csv
import io
import json
import subprocess
from typing import TYPE_CHECKING, Any

from tests.cli import forms
from tests.cli.harness import answer, ckptui, ok, process
from tests.factory import make_checkpoint, make_run

if TYPE_CHECKING:
    from pathlib import Path

ATTEMPTS = (
    {"attempt": 1, "parent": None, "start_step": 0},
    {"attempt": 2, "parent": {"name": "step_2"}, "start_step": 2},
)
ROWS = (
    {"step": 1, "epoch": 0, "attempt": 1, "loss": 3.5, "time": "2026-01-01T00:00:01Z"},
    {"step": 2, "epoch": 0, "attempt": 1, "loss": 3.25},
    {"step": 2, "attempt": 1, "eval_loss": 3.0},
    {"step": 3, "epoch": 0.5, "attempt": 1, "loss": 9.0},
    {"step": 3, "epoch": 0.5, "attempt": 2, "loss": "NaN", "note": "text"},
)


def rewound(path: Path) -> Path:
    return make_run(path, [2], rows=ROWS, attempts=ATTEMPTS)


def history(*words: str | Path) -> dict[str, Any]:
    found = answer("metrics", *words)
    forms.check(found, forms.METRICS)
    return found


def test_one_row_per_step_of_the_present_history(tmp_path: Path) -> None:
    run = rewound(tmp_path / "r")
    found = history(run)
    assert found["run"] == str(run)
    assert [(r["step"], r["attempt"], r["metrics"]) for r in found["rows"]] == [
        (1, 1, {"loss": 3.5}),
        (2, 1, {"loss": 3.25, "eval_loss": 3.0}),
        (3, 2, {"loss": None}),
    ]
    assert found["rows"][0]["time"] == "2026-01-01T00:00:01.000000Z"
    assert found["rows"][1]["time"] is None


def test_all_attempts_shows_what_a_rewind_abandoned(tmp_path: Path) -> None:
    found = history(rewound(tmp_path / "r"), "--all-attempts")
    assert [(r["step"], r["attempt"]) for r in found["rows"]] == [(1, 1), (2, 1), (3, 1), (3, 2)]


def test_a_damaged_line_costs_only_itself(tmp_path: Path) -> None:
    run = rewound(tmp_path / "r")
    with (run / "metrics.jsonl").open("a") as f:
        f.write('{"step": 4, "loss"\n{"step": 5, "attempt": 2, "loss": 1.0}\n')
    found = history(run)
    assert [r["step"] for r in found["rows"]] == [1, 2, 3, 5]
    assert [p["path"] for p in found["problems"]] == [str(run / "metrics.jsonl")]
    assert "line 6 is damaged" in ok("metrics", run).err


def test_metrics_can_be_chosen(tmp_path: Path) -> None:
    run = rewound(tmp_path / "r")
    found = history(run, "--metric", "eval_loss")
    assert [(r["step"], r["metrics"]) for r in found["rows"]] == [(2, {"eval_loss": 3.0})]
    both = ok("metrics", run, "--metric", "eval_loss", "--metric", "loss").out.splitlines()
    assert both[0].split() == ["step", "epoch", "attempt", "eval_loss", "loss"]
    error = answer("metrics", run, "--metric", "acc", code=1)["error"]
    assert (error["kind"], error["candidates"]) == ("not_found", ["loss", "eval_loss"])


def test_the_table_tells_not_logged_from_not_finite(tmp_path: Path) -> None:
    lines = ok("metrics", rewound(tmp_path / "r")).out.splitlines()
    assert [line.split() for line in lines] == [
        ["step", "epoch", "attempt", "loss", "eval_loss"],
        ["1", "0", "1", "3.5", "-"],
        ["2", "0", "1", "3.25", "3"],
        ["3", "0.5", "2", "nan", "-"],
    ]


def test_csv_is_exact(tmp_path: Path) -> None:
    rows = [{"step": 1, "attempt": 1, "loss": 0.1 + 0.2, 'a,"b"\n': 1}]
    run = make_run(tmp_path / "r", [], rows=rows)
    found = list(csv.reader(io.StringIO(ok("metrics", run, "--csv").out)))
    assert found == [
        ["step", "epoch", "time", "attempt", "loss", 'a,"b"\\n'],
        ["1", "", "", "1", repr(0.1 + 0.2), "1"],
    ]
    rewound_rows = list(
        csv.reader(io.StringIO(ok("metrics", rewound(tmp_path / "s"), "--csv").out))
    )
    assert rewound_rows[1] == ["1", "0", "2026-01-01T00:00:01.000000Z", "1", "3.5", ""]
    assert rewound_rows[3][4] == "nan"


def test_the_plot_shows_checkpoints_and_gaps(tmp_path: Path) -> None:
    rows = [{"step": s, "loss": 9 / s if s != 50 else "NaN"} for s in range(1, 101)]
    run = make_run(tmp_path / "r", (10, 100), rows=rows)
    drawn = process("metrics", run, "--plot", env={"COLUMNS": "80"}).stdout.decode()
    lines = drawn.splitlines()
    assert lines[0] == "loss"
    assert max(map(len, lines)) <= 80
    assert any("\u2800" < c <= "\u28ff" for c in drawn)
    ticks = next(line for line in lines if line.strip().startswith("+"))
    assert ticks.count("|") == 2
    assert ticks.count("x") == 1
    assert "x a value that is not finite" in lines[-1]


def test_the_plot_is_ascii_where_the_terminal_knows_nothing_else(tmp_path: Path) -> None:
    rows = [{"step": s, "loss": 9 / s} for s in range(1, 101)]
    run = make_run(tmp_path / "r", [10], rows=rows)
    env = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "COLUMNS": "20"}
    drawn = process("metrics", run, "--plot", env=env)
    assert drawn.returncode == 0
    assert drawn.stdout.isascii()
    assert drawn.stdout.count(b"\n") == 14


def test_an_empty_history_is_no_failure(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", [1])
    (run / "metrics.jsonl").unlink()
    assert history(run)["rows"] == []
    for how in ([], ["--plot"], ["--csv"]):
        found = ok("metrics", run, *how)
        assert found.out == ""
        assert "No metrics were logged" in found.err


def test_forms_exclude_each_other(run: Path) -> None:
    assert ckptui("metrics", run, "--plot", "--csv").code == 2
    assert ckptui("metrics", run, "--csv", "--json").code == 2
    assert ckptui("metrics", run, "--run", run).code == 2


def test_the_log_tells_what_was_done(run: Path) -> None:
    ok("pin", "step_10", "--run", run, "--note", "dip")
    ok("rm", "step_20", "--run", run, "--yes")
    found = answer("log", run)
    forms.check(found, forms.LOG)
    assert found["run"] == str(run)
    assert [(e["what"], e["checkpoints"], e["reason"]) for e in found["events"]] == [
        ("pin", ["step_10"], "dip"),
        ("rm", ["step_20"], "named"),
    ]
    text = ok("log", "--run", run).out
    assert [line.split()[-2:] for line in text.splitlines()[1:]] == [
        ["step_10", "dip"],
        ["step_20", "named"],
    ]


def test_a_log_of_others_may_know_less(run: Path) -> None:
    tool = run / ".ckptui"
    tool.mkdir()
    (tool / "journal.jsonl").write_text('{"what": "saved"}\nnonsense\n')
    found = answer("log", run)
    forms.check(found, forms.LOG)
    assert found["events"] == [
        {
            "time": None,
            "who": None,
            "host": None,
            "what": "saved",
            "checkpoints": [],
            "reason": None,
        }
    ]
    assert len(found["problems"]) == 1
    assert "line 2 is damaged" in ok("log", run).err


def test_a_run_without_a_log_is_no_failure(run: Path) -> None:
    assert answer("log", run)["events"] == []
    assert "Nothing is recorded" in ok("log", run).err


def test_a_root_with_one_run_means_that_run(run: Path) -> None:
    assert history(run.parent)["run"] == str(run)
    assert answer("log", run.parent)["run"] == str(run)


def test_a_fifo_in_place_of_the_log_does_not_hang(run: Path) -> None:
    (run / "metrics.jsonl").unlink()
    subprocess.run(["mkfifo", str(run / "metrics.jsonl")], check=True)
    assert history(run)["rows"] == []


def test_huge_and_odd_values_stay_strict(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", [])
    lines = ['{"step": 1, "a": 1e400, "b": NaN, "c": %s, "d": true, "e": 7}' % ("9" * 400)]
    (run / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    assert history(run)["rows"][0]["metrics"] == {"a": None, "b": None, "c": None, "e": 7}
    assert json.dumps(history(run), allow_nan=False)
    ok("metrics", run, "--plot")


def test_memory_is_told_in_bytes_and_exactly_in_csv(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", rows=[{"step": 1, "attempt": 1, "peak_memory": 408_300_000}])
    out = ok("metrics", run).out
    assert "408.3 MB" in out
    assert "4.08e+08" not in out
    assert "408300000" in ok("metrics", run, "--csv").out
    make_checkpoint(run, "step_1", step=1, metrics={"peak_memory": 408_300_000})
    assert "408.3 MB" in ok("ls", run, "--columns", "name,peak_memory").out
    assert "408.3 MB" in ok("show", "step_1", "--run", run).out
