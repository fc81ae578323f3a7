"""`TrainingRun`: any loop saves, is killed, goes on exactly, forks, rewinds and prunes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ckptui
from ckptui import leases, pins, remove
from ckptui.errors import (
    CkptuiError,
    LockedError,
    NotFoundError,
    NotResumableError,
    RefusedError,
    RunExistsError,
    UsageError,
)
from ckptui.metrics import read_metrics
from ckptui.retention import newest_resumable
from ckptui.scan import scan_run
from ckptui.verify import verify_checkpoint

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch

Step = tuple[int, float, float, int]


class Tied(torch.nn.Module):  # type: ignore[name-defined,misc] # torch comes from importorskip
    """Tied weights, a buffer and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.second = torch.nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.norm = torch.nn.BatchNorm1d(4)
        self.drop = torch.nn.Dropout(0.1)

    def forward(self, x: Any) -> Any:
        return self.second(self.drop(self.norm(self.first(x))))


def train(
    path: Path, total: int, *, every: int = 5, crash: int | None = None, **options: Any
) -> list[Step]:
    """Train up to `total` steps; `crash` leaves right after that step, as an error does."""
    torch.manual_seed(0)
    model = Tied()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 12])
    counters = {"seen": 0}
    steps: list[Step] = []
    options.setdefault("report", lambda _: None)
    with ckptui.TrainingRun(path, **options) as run:
        run.register(model=model, optimizer=optimizer, scheduler=scheduler, counters=counters)
        step = run.resume()
        while step < total:
            inputs = torch.randn(16, 4)
            loss = (model(inputs) - inputs).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            step += 1
            counters["seen"] += 16
            steps.append((step, loss.item(), optimizer.param_groups[0]["lr"], counters["seen"]))
            run.log(step, loss=loss)
            if step % every == 0:
                run.save(step, epoch=0)
            if step == crash:
                raise KeyboardInterrupt
    return steps


def crash(path: Path, at: int, **options: Any) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(path, 1000, crash=at, **options)


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> list[Step]:
    return train(tmp_path_factory.mktemp("straight") / "run", 20)


def names(path: Path) -> list[str]:
    return [c.name for c in scan_run(path).checkpoints]


def test_a_run_goes_on_exactly_after_crashes(tmp_path: Path, straight: list[Step]) -> None:
    run = tmp_path / "run"
    for at in (7, 11, 18):
        crash(run, at)
    assert train(run, 20) == straight[15:]
    history = read_metrics(run, scan_run(run).attempts).current()
    assert [row.step for row in history] == list(range(1, 21))
    assert [row.metrics["loss"] for row in history] == [s[1] for s in straight]


def test_every_checkpoint_it_leaves_verifies_in_full(tmp_path: Path) -> None:
    train(tmp_path / "run", 10)
    for checkpoint in scan_run(tmp_path / "run").checkpoints:
        assert verify_checkpoint(checkpoint, full=True).status == "verified"
        assert checkpoint.metrics.keys() == {"loss"}
        assert checkpoint.resumable


def test_the_same_state_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        train(tmp_path / name, 5)
    for file in ("model.safetensors", "recipe_state.safetensors"):
        one, two = ((tmp_path / n / "step_5" / file).read_bytes() for n in ("one", "two"))
        assert one == two


def test_a_fork_goes_on_exactly_and_by_the_same_words_again(
    tmp_path: Path, straight: list[Step]
) -> None:
    run, fork = tmp_path / "run", tmp_path / "fork"
    train(run, 15)
    source = run / "step_10"
    before = {p: p.stat().st_mtime_ns for p in run.rglob("*") if p.is_file()}
    crash(fork, 17, resume=source)
    assert train(fork, 20, resume=source) == straight[15:]
    assert train(fork, 20, resume=source) == []
    assert scan_run(fork).run_id != scan_run(run).run_id
    changed = {p for p in before if p.stat().st_mtime_ns != before[p]}
    assert not changed
    with pytest.raises(RunExistsError):
        train(run, 20, resume=fork / "step_15")


def test_a_fork_that_has_not_saved_keeps_its_source(tmp_path: Path) -> None:
    run, fork = tmp_path / "run", tmp_path / "fork"
    train(run, 15)
    crash(fork, 12, resume=run / "step_10")
    assert "step_10" in leases.leased(run)
    assert scan_run(run).protected.keys() == {"step_10"}
    (source,) = [c for c in scan_run(run).checkpoints if c.name == "step_10"]
    with pytest.raises(CkptuiError, match="fork"):
        remove.move_to_trash([source], why="prune")
    # It begins again at its source, not at step 0, and gives the source free once it has saved.
    train(fork, 15, resume="auto")
    assert not leases.leased(run)


def test_a_rewind_sets_the_newer_ones_aside_as_one_item(
    tmp_path: Path, straight: list[Step]
) -> None:
    run = tmp_path / "run"
    train(run, 20)
    with pytest.raises(RefusedError, match="rewind=2"):
        train(run, 20, resume=run / "step_10")
    with pytest.raises(UsageError, match="next one is 2"):
        train(run, 20, resume=run / "step_10", rewind=7)
    crash(run, 13, resume=run / "step_10", rewind=2)
    assert names(run) == ["step_5", "step_10"]
    (item,) = remove.list_trash(run)
    assert (item.names, item.why) == (("step_15", "step_20"), "rewind")
    # The same words again go on, also once there are newer ones.
    assert train(run, 20, resume=run / "step_10", rewind=2) == straight[10:]
    assert train(run, 20, resume=run / "step_10", rewind=2) == []
    history = read_metrics(run, scan_run(run).attempts)
    assert [row.step for row in history.current()] == list(range(1, 21))
    assert len(history.rows) > 20


def test_what_a_rewind_left_comes_back_as_abandoned(tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(run, 15)
    crash(run, 12, resume=run / "step_10", rewind=2)
    (item,) = remove.list_trash(run)
    remove.restore(item)
    found = scan_run(run)
    assert [(c.name, c.current) for c in found.checkpoints] == [
        ("step_5", True),
        ("step_10", True),
        ("step_15", False),
    ]
    newest = newest_resumable(found.checkpoints)
    assert newest is not None
    assert newest.name == "step_10"


def test_a_rewind_over_a_pinned_one_is_refused_and_touches_nothing(tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(run, 15)
    (newest,) = [c for c in scan_run(run).checkpoints if c.name == "step_15"]
    pins.pin(newest)
    with pytest.raises(RefusedError, match="pinned"):
        train(run, 20, resume=run / "step_10", rewind=2)
    assert names(run) == ["step_5", "step_10", "step_15"]
    assert len(scan_run(run).attempts) == 1


def test_the_policy_removes_after_each_save_and_pins_are_honoured(tmp_path: Path) -> None:
    run = tmp_path / "run"
    policy = ["keep-last 2"]
    crash(run, 11, policy=policy)
    (first, _) = scan_run(run).checkpoints
    pins.pin(first)
    train(run, 30, policy=policy)
    assert names(run) == ["step_5", "step_25", "step_30"]
    assert not remove.list_trash(run)
    assert scan_run(run).policy == ("keep-last 2",)


def test_a_second_trainer_is_refused_while_the_first_lives(tmp_path: Path) -> None:
    with (
        ckptui.TrainingRun(tmp_path / "run", report=lambda _: None),
        pytest.raises(LockedError, match="being trained"),
        ckptui.TrainingRun(tmp_path / "run", report=lambda _: None),
    ):
        pass


def test_a_fresh_run_where_one_is_is_refused(tmp_path: Path) -> None:
    train(tmp_path / "run", 5)
    with pytest.raises(RunExistsError):
        train(tmp_path / "run", 10, resume=None)


def test_latest_needs_something_to_continue(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        train(tmp_path / "run", 5, resume="latest")
    assert not (tmp_path / "run").exists()


def test_a_damaged_newest_one_is_passed_over_with_a_line(
    tmp_path: Path, straight: list[Step]
) -> None:
    run = tmp_path / "run"
    train(run, 10)
    weights = run / "step_10" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    lines: list[str] = []
    with pytest.raises(NotResumableError, match="damaged"):
        train(run, 20, resume=run / "step_10")
    assert train(run, 20, report=lines.append) == straight[5:]
    assert any("step_10 is damaged" in line for line in lines)


def test_another_model_is_refused_and_the_run_is_free_again(tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(run, 5)
    model = torch.nn.Linear(4, 5)
    with ckptui.TrainingRun(run, report=lambda _: None) as resumed:
        resumed.register(model=model, optimizer=torch.optim.AdamW(model.parameters()))
        with pytest.raises(NotResumableError):
            resumed.resume()
    assert not scan_run(run).live
    train(run, 10)


def test_calls_outside_the_context_are_refused(tmp_path: Path) -> None:
    run = ckptui.TrainingRun(tmp_path / "run")
    with pytest.raises(UsageError, match="context manager"):
        run.log(1, loss=1.0)
    with pytest.raises(UsageError, match="no state"):
        run.register(thing=object())
