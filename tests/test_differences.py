"""What differs: pure comparisons of values, and of what was read from real tiny runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ckptui.checkpoint import FileEntry
from ckptui.contents import Config, FoundTensor, Tensors
from ckptui.differences import (
    Kind,
    Measured,
    Side,
    best_of,
    change,
    checkpoint_side,
    compare,
    compare_values,
    run_side,
)
from ckptui.metric_log import MetricLog
from ckptui.scan import scan_run
from tests.factory import make_checkpoint, make_run

if TYPE_CHECKING:
    from ckptui.differences import Comparison


def side(**fields: Any) -> Side:
    values: dict[str, Any] = {
        "what": "checkpoint",
        "name": "step_1",
        "path": Path("/run/step_1"),
        "config": Config(path=Path("/run/step_1/recipe_config.yaml"), values={}),
    }
    return Side(**{**values, **fields})


def kinds(part: Any) -> dict[str, str]:
    return {d.key: str(d.kind) for d in part}


def test_settings_are_same_changed_removed_or_added_in_the_order_of_the_first() -> None:
    found = compare_values({"a": 1, "b": [1], "c": None}, {"new": 0, "c": None, "a": 2, "b": [1]})
    assert [(d.key, d.a, d.b, d.kind) for d in found] == [
        ("a", 1, 2, Kind.CHANGED),
        ("b", [1], [1], Kind.SAME),
        ("c", None, None, Kind.SAME),
        ("new", None, 0, Kind.ADDED),
    ]
    assert kinds(compare_values({"x": None}, {})) == {"x": "removed"}
    assert kinds(compare_values({"x": True}, {"x": 1})) == {"x": "changed"}
    assert kinds(compare_values({"x": 1}, {"x": 1.0})) == {"x": "same"}


def test_files_are_told_apart_by_size_and_digest_and_unknown_without() -> None:
    def files(*entries: tuple[str, int, str | None]) -> Side:
        return side(files=tuple(FileEntry(*e) for e in entries))

    a = files(("w", 5, "x:1"), ("s", 5, "x:1"), ("n", 5, None), ("k", 5, "x:1"), ("old", 1, "x:1"))
    b = files(("w", 5, "x:2"), ("s", 5, "x:1"), ("n", 5, "x:1"), ("k", 5, "y:1"), ("n2", 1, "x:1"))
    assert kinds(compare(a, b).files) == {
        "w": "changed",
        "s": "same",
        "n": "unknown",
        "k": "unknown",
        "old": "removed",
        "n2": "added",
    }
    assert kinds(compare(files(("f", 1, None)), files(("f", 2, None))).files) == {"f": "changed"}
    assert compare(files(("f", 1, None)), files(("f", 1, None))).differs  # nobody can tell


def test_tensors_of_files_with_the_same_digest_are_the_same() -> None:
    def tensors(digest: str, **forms: tuple[str, tuple[int, ...]]) -> Side:
        found = tuple(FoundTensor(n, d, s, "m.safetensors", 4) for n, (d, s) in forms.items())
        return side(files=(FileEntry("m.safetensors", 9, digest),), tensors=Tensors(tensors=found))

    a = tensors("x:1", w=("F32", (2, 3)), gone=("F32", ()))
    assert kinds(compare(a, a).tensors) == {"w": "same", "gone": "same"}
    assert not compare(a, a).differs
    b = tensors("x:2", w=("BF16", (2, 3)), new=("F32", ()))
    assert kinds(compare(a, b).tensors) == {"w": "changed", "gone": "removed", "new": "added"}
    other = tensors("x:2", w=("F32", (2, 3)), gone=("F32", (1,)))
    assert kinds(compare(a, other).tensors) == {"w": "unknown", "gone": "changed"}


def test_metrics_say_by_how_much_and_nan_has_no_difference() -> None:
    a = side(metrics={("loss", ""): Measured(2.0, 1), ("x", ""): Measured(None, 1)})
    b = side(metrics={("loss", ""): Measured(1.5, 2), ("x", ""): Measured(1.0, 2)})
    found = {d.key: d for d in compare(a, b).metrics}
    assert change(found["loss"]) == -0.5
    assert found["x"].kind is Kind.CHANGED
    assert change(found["x"]) is None
    assert change(compare(a, side()).metrics[0]) is None
    huge = side(metrics={("loss", ""): Measured(1.7e308, 1)})
    low = side(metrics={("loss", ""): Measured(-1.7e308, 1)})
    assert change(compare(low, huge).metrics[0]) is None


def test_settings_that_cannot_be_read_are_a_problem_unless_both_sides_have_none() -> None:
    missing = Config(path=Path("/a.yaml"), values=None, problem="/a.yaml is missing.", missing=True)
    neither = compare(side(config=missing), side(config=missing))
    assert neither.problems == ()
    assert not neither.differs
    one = compare(side(config=missing), side())
    assert one.problems == ("/a.yaml is missing.",)
    assert one.differs
    assert one.config == ()


def test_the_best_value_is_finite_by_direction_and_of_equal_ones_the_later() -> None:
    curve = [(1, 3.0), (2, None), (3, 1.0), (4, 1.0), (5, 2.0)]
    assert best_of(curve, "min") == Measured(1.0, 4)
    assert best_of(curve, "max") == Measured(3.0, 1)
    assert best_of([(1, None)], "min") is None


def of_checkpoints(run: Path, other: Path | None = None) -> Comparison:
    there, elsewhere = scan_run(run), scan_run(other or run)
    a, b = there.checkpoints[0], elsewhere.checkpoints[-1]
    return compare(
        checkpoint_side(a, there, logged={"loss": 5.0, "eval_loss": 9.0}),
        checkpoint_side(b, elsewhere),
    )


def test_two_checkpoints_of_a_run_as_they_lie_there(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1, 2], metrics={s: {"eval_loss": s / 2} for s in (1, 2)})
    make_checkpoint(
        run,
        "step_3",
        step=3,
        attempt=2,
        resumable=False,
        weights=[1.0, 2.0],
        metrics={"eval_loss": 0.25},
        extra_files={"recipe_config.yaml": b"seed: 1\noptimizer: {lr: 0.1}\n"},
    )
    found = of_checkpoints(run)
    assert kinds(found.facts) == {
        "step": "changed",
        "epoch": "same",
        "attempt": "changed",
        "state": "changed",
        "resumable": "changed",
        "holds": "changed",
    }
    assert kinds(found.config) == {"seed": "changed", "optimizer.lr": "added"}
    # The marker wins over the log, which gives what the marker lacks.
    assert [(d.key, d.a, d.kind) for d in found.metrics] == [
        ("eval_loss", Measured(0.5, 1), Kind.CHANGED),
        ("loss", Measured(5.0, 1), Kind.REMOVED),
    ]
    assert kinds(found.files)["model.safetensors"] == "changed"
    assert kinds(found.files)["recipe_state.json"] == "removed"
    assert kinds(found.tensors) == {"layer.weight": "changed", "optimizer.exp_avg": "removed"}


def test_a_checkpoint_does_not_differ_from_a_copy_of_itself(tmp_path: Path) -> None:
    a = make_run(tmp_path / "a", [1])
    b = make_run(tmp_path / "b", [1])
    there, elsewhere = scan_run(a), scan_run(b)
    sides = [checkpoint_side(r.checkpoints[0], r) for r in (there, elsewhere)]
    assert not compare(*sides).differs


def test_two_runs_by_settings_best_and_last_metrics_and_numbers(tmp_path: Path) -> None:
    def read(name: str, lr: str, *, steps: tuple[int, ...], low: float) -> Side:
        path = make_run(
            tmp_path / name,
            steps,
            metrics={s: {"eval_loss": low + abs(s - 2)} for s in steps},
            rows=[{"step": s, "attempt": 1, "lr": s / 10, "eval_loss": 0.0} for s in range(1, 4)]
            if name == "a"
            else [{"step": s, "attempt": 1, "lr": s / 10} for s in range(1, 4)],
            policy=["keep-best 1:eval_loss:min"],
        )
        (path / "config.yaml").write_text(f"optimizer: {{lr: {lr}}}\n")
        run = scan_run(path)
        log = MetricLog(path)
        log.update()
        return run_side(run, log.logged(run.attempts).current)

    found = compare(
        read("a", "0.1", steps=(1, 2, 3), low=1.0), read("b", "0.2", steps=(1, 2), low=0.5)
    )
    assert kinds(found.config) == {"optimizer.lr": "changed"}
    assert [(d.key, d.which, d.a, d.b) for d in found.metrics] == [
        ("eval_loss", "best", Measured(1.0, 2), Measured(0.5, 2)),
        ("eval_loss", "last", Measured(2.0, 3), Measured(0.5, 2)),
        ("lr", "last", Measured(0.3, 3), Measured(0.3, 3)),
    ]
    facts = {d.key: (d.a, d.b) for d in found.facts}
    assert facts["checkpoints"] == (3, 2)
    assert facts["resumes_from"] == ("step_3", "step_2")
    assert not found.files
    assert not found.tensors
