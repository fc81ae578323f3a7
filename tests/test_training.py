"""`TrainingRun`: a loop that is stopped anywhere and started again ends with the same bits."""

from __future__ import annotations

import errno
import json
import os
import random
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ckptui import TrainingRun, leases, pins, remove
from ckptui.checkpoint import State
from ckptui.errors import (
    LockedError,
    NewerFormatError,
    NotResumableError,
    RefusedError,
    RunExistsError,
    StorageError,
    UsageError,
)
from ckptui.metrics import read_metrics
from ckptui.run_file import read_run_file
from ckptui.scan import scan_run
from ckptui.verify import verify_checkpoint

if TYPE_CHECKING:
    from ckptui.checkpoint import Checkpoint

torch = pytest.importorskip("torch")
numpy = pytest.importorskip("numpy")
pytestmark = pytest.mark.torch


def quiet(_: str) -> None:
    """Nobody reads the report."""


def enter(path: Path, **more: Any) -> TrainingRun:
    return TrainingRun(path, **{"report": quiet, **more})


def names(run: Path) -> list[str]:
    return [c.name for c in scan_run(run).checkpoints]


def tiny(seed: int = 0) -> Any:
    torch.manual_seed(seed)
    return torch.nn.Linear(2, 1)


def sgd(model: Any) -> Any:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def train(path: Path, until: int, *, every: int = 1, **more: Any) -> list[tuple[int, float]]:
    """A loop of everything that has state; the losses it saw by step."""
    random.seed(7)
    numpy.random.seed(7)
    torch.manual_seed(7)
    body = torch.nn.Sequential(
        torch.nn.Linear(4, 8, bias=False),
        torch.nn.BatchNorm1d(8),
        torch.nn.Dropout(0.3),
        torch.nn.Linear(8, 4, bias=False),
        torch.nn.Linear(4, 8, bias=False),
    )
    body[4].weight = body[0].weight  # tied
    head = torch.nn.Linear(8, 1).to(torch.bfloat16)
    adam = torch.optim.AdamW(body.parameters(), lr=1e-2)
    other = torch.optim.SGD(head.parameters(), lr=1e-2, momentum=0.9)
    warm = torch.optim.lr_scheduler.LinearLR(adam, total_iters=5)
    steps = torch.optim.lr_scheduler.MultiStepLR(other, [2, 4, 4])
    counters: dict[Any, Any] = {"seen": 0, ("a", 1): [1.5], "mean": torch.zeros(2)}
    losses = []
    with enter(path, **more) as run:
        run.register(body=body, head=head, adam=adam, other=other)
        run.register(warm=warm, steps=steps, counters=counters)
        step = run.resume()
        while step < until:
            x = torch.randn(6, 4)
            out = head(body(x).to(torch.bfloat16)).float()
            loss = (out - x.sum(1, keepdim=True)).square().mean()
            loss.backward()
            for part in (adam, other):
                part.step()
                part.zero_grad()
            warm.step()
            steps.step()
            step += 1
            counters["seen"] += len(x)
            counters["mean"] += out.mean().detach()
            losses.append((step, loss.item()))
            run.log(step, loss=loss, lr=warm.get_last_lr()[0])
            if step % every == 0:
                run.save(step, epoch=0)
    return losses


def content(run: Path, name: str) -> dict[str, bytes]:
    """Everything in a checkpoint but its marker, which tells when it was saved."""
    return {p.name: p.read_bytes() for p in (run / name).iterdir() if p.name != "checkpoint.json"}


class TestExactness:
    def test_a_loop_stopped_and_resumed_ends_with_the_same_bits(self, tmp_path: Path) -> None:
        whole = train(tmp_path / "whole", 8)
        parts: list[tuple[int, float]] = []
        for until in (3, 4, 8):
            parts += train(tmp_path / "parts", until)
        assert parts == whole
        for step in range(1, 9):
            one = content(tmp_path / "whole", f"step_{step}")
            assert content(tmp_path / "parts", f"step_{step}") == one
        assert {c.state for c in scan_run(tmp_path / "parts").checkpoints} == {State.OK}

    def test_steps_that_were_lost_are_trained_again_to_the_same_values(
        self, tmp_path: Path
    ) -> None:
        whole = train(tmp_path / "whole", 8)
        first = train(tmp_path / "parts", 5, every=3)
        assert train(tmp_path / "parts", 8) == whole[3:]
        assert first == whole[:5]
        found = scan_run(tmp_path / "parts")
        rows = read_metrics(found.path, found.attempts).current()
        assert [(r.step, r.metrics["loss"]) for r in rows] == whole

    def test_a_fork_goes_on_with_the_same_bits(self, tmp_path: Path) -> None:
        whole = train(tmp_path / "whole", 6)
        source = tmp_path / "whole" / "step_2"
        before = content(tmp_path / "whole", "step_2")
        assert train(tmp_path / "fork", 6, resume=source) == whole[2:]
        assert content(tmp_path / "whole", "step_2") == before
        assert content(tmp_path / "fork", "step_6") == content(tmp_path / "whole", "step_6")

    @pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, from within compile
    def test_a_compiled_wrapper_changes_no_name(self, tmp_path: Path) -> None:
        model = tiny()
        with enter(tmp_path / "r") as run:
            run.register(model=torch.compile(model), optimizer=sgd(model))
            run.resume()
            model(torch.ones(1, 2)).sum().backward()
            run.save(1)
        plain = tiny(1)
        with enter(tmp_path / "r") as run:
            run.register(model=plain, optimizer=sgd(plain))
            assert run.resume() == 1
        assert torch.equal(plain.weight, model.weight)

    def test_state_of_the_loop_comes_back(self, tmp_path: Path) -> None:
        model = tiny()
        stored = {"data": {"epoch": 1, "batch": (2, 3)}, "note": float("inf")}
        with enter(tmp_path / "r") as run:
            run.register(model=model, optimizer=sgd(model))
            assert run.resume() == 0
            assert run.state == {}
            run.save(1, state=stored)
        with enter(tmp_path / "r") as run:
            run.register(model=model, optimizer=sgd(model))
            run.resume()
            assert run.state == stored
        assert "data" in scan_run(tmp_path / "r").checkpoints[0].contains

    def test_plain_state_alone_can_be_resumed(self, tmp_path: Path) -> None:
        values = {"n": 1}
        with enter(tmp_path / "r") as run:
            run.register(values=values)
            run.resume()
            values["n"] = 5
            run.save(1)
        other: dict[str, int] = {"old": 1}
        with enter(tmp_path / "r") as run:
            run.register(values=other)
            assert run.resume() == 1
        assert other == {"n": 5}

    def test_an_object_with_state_is_saved_and_restored(self, tmp_path: Path) -> None:
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
        with enter(tmp_path / "r") as run:
            run.register(scaler=scaler)
            run.save(1)
        other = torch.amp.GradScaler("cpu", init_scale=2.0)
        with enter(tmp_path / "r") as run:
            run.register(scaler=other)
            run.resume()
        assert other.state_dict() == scaler.state_dict()


KILLED = """
import os, signal, sys
from pathlib import Path
import torch
from tests.test_training import train
from ckptui import writer
real = writer.save_checkpoint
def saving(run, draft, write, **more):
    def then_die(folder):
        write(folder)
        if draft.step == 3:
            os.kill(os.getpid(), signal.SIGKILL)
    return real(run, draft, then_die, **more)
writer.save_checkpoint = saving
train(Path(sys.argv[1]), 6)
"""


def test_a_loop_killed_within_a_save_goes_on_exactly(tmp_path: Path) -> None:
    whole = train(tmp_path / "whole", 6)
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "r")],
        cwd=Path(__file__).parent.parent,
        env={**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -9, done.stderr
    found = scan_run(tmp_path / "r")
    assert [c.name for c in found.checkpoints if c.complete] == ["step_1", "step_2"]
    assert train(tmp_path / "r", 6) == whole[2:]
    assert content(tmp_path / "r", "step_6") == content(tmp_path / "whole", "step_6")
    assert not list((tmp_path / "r" / ".ckptui" / "staging").iterdir())


def test_the_loop_of_the_readme_runs_and_goes_on(tmp_path: Path) -> None:
    text = (Path(__file__).parent.parent / "README.md").read_text()
    found = re.search(r"## Your own training loop\n\n```python\n(.*?)```", text, re.DOTALL)
    assert found is not None
    script = found[1]
    assert len([line for line in script.splitlines() if line.strip()]) <= 30
    (tmp_path / "train.py").write_text(script)
    half = script.replace("step < 200", "step < 130")

    def run(code: str, folder: str) -> Path:
        where = tmp_path / folder
        where.mkdir(exist_ok=True)
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=where,
            check=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
        )
        return where / "outputs" / "loop"

    whole = run(script, "whole")
    run(half, "parts")
    parts = run(script, "parts")
    assert "step_200" in names(whole)
    # The loop does not seed Python's own generator, so only the tensors are alike.
    for name in ("model.safetensors", "recipe_state.safetensors"):
        assert content(parts, "step_200")[name] == content(whole, "step_200")[name]


class TestBeginning:
    def save(self, path: Path, *steps: int, **more: Any) -> None:
        model = tiny()
        with enter(path, **more) as run:
            run.register(model=model, optimizer=sgd(model))
            run.resume()
            for step in steps:
                run.save(step)

    def test_a_fresh_run_records_what_it_is(self, tmp_path: Path) -> None:
        path = tmp_path / "r"
        self.save(path, 1, command="python t.py {checkpoint}", policy=["keep-last 2"], config={})
        record = read_run_file(path)
        assert record is not None
        assert record.run_id
        assert (record.command, record.policy) == ("python t.py {checkpoint}", ("keep-last 2",))
        assert record.attempts[0].start_step == 0
        assert (path / "config.yaml").exists()
        assert scan_run(path).checkpoints[0].run_id == record.run_id

    def test_each_start_is_an_attempt_with_its_parent(self, tmp_path: Path) -> None:
        path = tmp_path / "r"
        self.save(path, 1, 2)
        self.save(path, 3)
        record = read_run_file(path)
        assert record is not None
        second = record.attempts[1]
        assert (second.attempt, second.start_step) == (2, 2)
        assert second.parent is not None
        assert (second.parent.name, second.parent.path) == ("step_2", None)
        assert scan_run(path).checkpoints[-1].attempt == 2

    def test_a_fresh_run_into_a_run_is_refused_and_changes_nothing(self, tmp_path: Path) -> None:
        self.save(tmp_path / "r", 1)
        before = (tmp_path / "r" / "run.json").read_bytes()
        with pytest.raises(RunExistsError), enter(tmp_path / "r", resume=None):
            pass
        assert (tmp_path / "r" / "run.json").read_bytes() == before

    def test_a_second_trainer_is_refused(self, tmp_path: Path) -> None:
        with enter(tmp_path / "r"), pytest.raises(LockedError), enter(tmp_path / "r"):
            pass

    def test_a_fork_protects_its_source_until_it_has_saved(self, tmp_path: Path) -> None:
        self.save(tmp_path / "r", 1, 2, 3)
        model = tiny()
        with enter(tmp_path / "f", resume=tmp_path / "r" / "step_1") as run:
            run.register(model=model, optimizer=sgd(model))
            run.resume()
            assert list(leases.leased(tmp_path / "r")) == ["step_1"]
            run.save(2)
            assert leases.leased(tmp_path / "r") == {}
        assert scan_run(tmp_path / "f").run_id != scan_run(tmp_path / "r").run_id

    def test_a_fork_from_a_run_that_cannot_be_written_is_told(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.save(tmp_path / "r", 1)

        def refuse(*_: object, **__: object) -> None:
            raise OSError(errno.EROFS, "Read-only file system")

        monkeypatch.setattr(leases, "write_lease", refuse)
        said: list[str] = []
        with enter(tmp_path / "f", resume=tmp_path / "r", report=said.append):
            pass
        assert "nothing protects step_1" in said[0]

    def test_a_rewind_moves_what_it_abandons_as_one_item(self, tmp_path: Path) -> None:
        path = tmp_path / "r"
        self.save(path, 1, 2, 3)
        more = {"resume": path / "step_1", "rewind": 2}
        self.save(path, 2, **more)
        (item,) = remove.list_trash(path)
        assert (item.names, item.why) == (("step_2", "step_3"), "rewind")
        assert names(path) == ["step_1", "step_2"]
        # The same words once more go on from where that has come to.
        with enter(path, **more) as run:
            assert run.decide().action == "continue"
            assert run.attempt == 3
        assert len(remove.list_trash(path)) == 1

    def test_a_damaged_run_file_is_set_aside_and_the_id_is_kept(self, tmp_path: Path) -> None:
        path = tmp_path / "format" / "r"  # a word that no message may be judged by
        self.save(path, 1)
        run_id = scan_run(path).run_id
        (path / "run.json").write_text("{")
        self.save(path, 2)
        (path / "run.json").write_text("")
        self.save(path, 3)
        assert scan_run(path).run_id == run_id
        assert len(list(path.glob("run.json*.damaged"))) == 2
        assert names(path) == ["step_1", "step_2", "step_3"]

    def test_a_run_of_a_newer_ckptui_is_refused_untouched(self, tmp_path: Path) -> None:
        self.save(tmp_path / "r", 1)
        (tmp_path / "r" / "run.json").write_text('{"format": 2}')
        with pytest.raises(NewerFormatError), enter(tmp_path / "r"):
            pass
        assert (tmp_path / "r" / "run.json").read_text() == '{"format": 2}'

    def test_a_working_directory_that_is_gone_stops_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def gone() -> str:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")

        path = tmp_path / "r"
        monkeypatch.setattr("ckptui.attempt.os.getcwd", gone)
        self.save(path, 1)
        record = read_run_file(path)
        assert record is not None
        assert record.cwd is None

    def test_a_file_in_the_runs_place_is_told(self, tmp_path: Path) -> None:
        (tmp_path / "r").write_text("")
        with pytest.raises(StorageError), enter(tmp_path / "r"):
            pass


class TestGuards:
    def test_work_before_resume_is_refused_where_there_is_something_to_load(
        self, tmp_path: Path
    ) -> None:
        TestBeginning().save(tmp_path / "r", 1)
        model = tiny()
        with enter(tmp_path / "r") as run:
            run.register(model=model, optimizer=sgd(model))
            with pytest.raises(UsageError, match=r"resume\(\) first"):
                run.log(2, loss=1.0)
            with pytest.raises(UsageError, match=r"resume\(\) first"):
                run.save(2)
            run.resume()
            with pytest.raises(UsageError, match=r"before resume\(\)"):
                run.register(late={})

    def test_steps_that_start_over_are_refused(self, tmp_path: Path) -> None:
        TestBeginning().save(tmp_path / "r", 5)
        model = tiny()
        with enter(tmp_path / "r") as run:
            run.register(model=model, optimizer=sgd(model))
            run.resume()
            for act in (lambda: run.save(1), lambda: run.log(4, loss=1.0)):
                with pytest.raises(UsageError, match="before step 5"):
                    act()
        assert names(tmp_path / "r") == ["step_5"]

    def test_saving_what_was_just_resumed_keeps_what_stands(self, tmp_path: Path) -> None:
        TestBeginning().save(tmp_path / "r", 5)
        (there,) = scan_run(tmp_path / "r").checkpoints
        pins.pin(there)
        TestBeginning().save(tmp_path / "r", 5)
        (again,) = scan_run(tmp_path / "r").checkpoints
        assert again.identity == there.identity
        assert remove.list_trash(tmp_path / "r") == ()

    def test_outside_of_the_with_block_nothing_works(self, tmp_path: Path) -> None:
        run = enter(tmp_path / "r")
        for act in (lambda: run.save(1), lambda: run.log(1), run.resume):
            with pytest.raises(UsageError, match="context manager"):
                act()

    def test_what_has_no_state_or_a_taken_name_is_refused(self, tmp_path: Path) -> None:
        with enter(tmp_path / "r") as run:
            run.register(model=tiny())
            with pytest.raises(UsageError, match="no state"):
                run.register(x=3)
            for taken in ("model", "MODEL"):
                with pytest.raises(UsageError, match="already"):
                    run.register(**{taken: {}})
            with pytest.raises(UsageError, match="another use"):
                run.register(recipe_state=tiny())

    def test_a_module_with_hidden_state_is_refused(self, tmp_path: Path) -> None:
        class Hidden(torch.nn.Linear):  # type: ignore[misc, name-defined] # torch is Any here
            def get_extra_state(self) -> Any:
                return {"scale": 1}

        with enter(tmp_path / "r") as run, pytest.raises(RefusedError, match=r"model\.0"):
            run.register(model=torch.nn.Sequential(Hidden(1, 1)))

    def test_state_that_was_saved_and_is_not_registered_is_told(self, tmp_path: Path) -> None:
        model = tiny()
        with enter(tmp_path / "r") as run:
            run.register(model=model, optimizer=sgd(model), counters={"a": 1})
            run.save(1)
        for parts, message in (
            ({"optimizer": sgd(model)}, "not registered now"),
            ({"optimizer": sgd(model), "counters": {}, "more": {}}, "registered now"),
        ):
            with enter(tmp_path / "r") as run:
                run.register(model=model, **parts)
                with pytest.raises(NotResumableError, match=message):
                    run.resume()

    def test_malformed_policies_and_commands_are_refused_at_once(self, tmp_path: Path) -> None:
        for policy in (["keep-last 0"], ["everything"]):
            with pytest.raises(UsageError):
                enter(tmp_path / "r", policy=policy)
        with pytest.raises(RefusedError, match="odd"):
            enter(tmp_path / "r", policy=["keep-best 1:odd"])
        with pytest.raises(RefusedError, match="within quotes"):
            enter(tmp_path / "r", command='python "{checkpoint}"')
        assert not (tmp_path / "r").exists()

    def test_our_own_keys_and_a_missing_epoch_are_refused(self, tmp_path: Path) -> None:
        with enter(tmp_path / "r") as run:
            run.register(values={})
            with pytest.raises(UsageError, match="rng"):
                run.save(1, state={"rng": 1})
            with pytest.raises(UsageError, match="epoch"):
                run.save(1, epoch_end=True)

    def test_numbers_of_other_kinds_are_taken(self, tmp_path: Path) -> None:
        with enter(tmp_path / "r") as run:
            run.register(values={})
            run.log(torch.tensor(1), loss=torch.tensor(1.5, requires_grad=True) * 2, n=3)
            run.save(torch.tensor(1), metrics={"bad": float("nan")})
        found = scan_run(tmp_path / "r").checkpoints[0]
        assert dict(found.metrics) == {"loss": 3.0, "n": 3, "bad": None}


class TestSaving:
    def loop(self, path: Path, steps: int, **more: Any) -> list[str]:
        said: list[str] = []
        model = tiny()
        with enter(path, report=said.append, **more) as run:
            run.register(model=model, optimizer=sgd(model))
            start = run.resume()
            for step in range(start + 1, start + steps + 1):
                run.save(step, metrics={"loss": 1 / step})
        return said

    def test_the_policy_frees_space_and_says_so_in_the_journal(self, tmp_path: Path) -> None:
        self.loop(tmp_path / "r", 5, policy=["keep-last 2"])
        assert names(tmp_path / "r") == ["step_4", "step_5"]
        assert remove.list_trash(tmp_path / "r") == ()

    def test_b64_what_was_there_before_a_resume_counts(self, tmp_path: Path) -> None:
        self.loop(tmp_path / "r", 3, policy=["keep-last 3"])
        self.loop(tmp_path / "r", 3, policy=["keep-last 3"])
        assert names(tmp_path / "r") == ["step_4", "step_5", "step_6"]

    def test_pruning_to_the_trash_can_be_undone(self, tmp_path: Path) -> None:
        self.loop(tmp_path / "r", 3, policy=["keep-last 1"], prune_to_trash=True)
        assert len(remove.list_trash(tmp_path / "r")) == 2

    def test_pins_made_meanwhile_are_honoured(self, tmp_path: Path) -> None:
        model = tiny()
        with enter(tmp_path / "r", policy=["keep-last 1"]) as run:
            run.register(model=model, optimizer=sgd(model))
            pins.pin(run.save(1))
            run.save(2)
            run.save(3)
        assert names(tmp_path / "r") == ["step_1", "step_3"]

    def test_a_name_to_keep_that_is_not_there_yet_stops_no_training(self, tmp_path: Path) -> None:
        said = self.loop(tmp_path / "r", 4, policy=["keep-last 1", "keep step_2,step_99"])
        assert said == []
        assert names(tmp_path / "r") == ["step_2", "step_4"]

    def test_a_metric_that_nobody_has_yet_prunes_nothing_and_stops_nothing(
        self, tmp_path: Path
    ) -> None:
        said = self.loop(tmp_path / "r", 3, policy=["keep-best 1:eval_loss"])
        assert len(names(tmp_path / "r")) == 3
        assert "Nothing was pruned" in said[0]

    def test_a_pruning_that_fails_stops_no_training(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(path: Path) -> object:
            raise StorageError("the disk hiccups", path=path)

        monkeypatch.setattr("ckptui.upkeep.scan_run", fail)
        said = self.loop(tmp_path / "r", 2, policy=["keep-last 1"])
        assert "the disk hiccups" in said[0]
        monkeypatch.undo()
        assert len(names(tmp_path / "r")) == 2

    def test_a_full_disk_is_told_and_older_checkpoints_stay(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        model = tiny()
        with enter(tmp_path / "r") as run:
            run.register(model=model, optimizer=sgd(model))
            run.save(1)

            def full(*_: object, **__: object) -> None:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            monkeypatch.setattr("ckptui.output._ThroughTheCache.write", full)
            with pytest.raises(StorageError, match="No space left"):
                run.save(2)
            monkeypatch.undo()
            assert run.save(2).complete
        assert names(tmp_path / "r") == ["step_1", "step_2"]

    def test_an_owner_that_lost_the_run_neither_saves_nor_prunes(self, tmp_path: Path) -> None:
        model = tiny()
        with enter(tmp_path / "r", policy=["keep-last 1"]) as run:
            run.register(model=model, optimizer=sgd(model))
            run.save(1)
            lock = tmp_path / "r" / ".ckptui" / "lock"
            lock.write_text(json.dumps({"token": "another"}))
            with pytest.raises(LockedError):
                run.save(2)
            with pytest.raises(LockedError):
                run.prune()
        assert names(tmp_path / "r") == ["step_1"]
        assert json.loads(lock.read_text()) == {"token": "another"}

    def test_b44_weights_that_are_not_finite_are_named_for_every_module(
        self, tmp_path: Path
    ) -> None:
        good, bad = tiny(), tiny()
        with torch.no_grad():
            bad.weight[0, 0] = float("nan")
        with enter(tmp_path / "r") as run:
            run.register(model=good, critic=bad, optimizer=sgd(good))
            saved = run.save(1)
        assert saved.nonfinite == ("weight",)

    def test_epochs_have_names_of_their_own(self, tmp_path: Path) -> None:
        with enter(tmp_path / "r") as run:
            run.register(values={})
            run.save(9, epoch=0, epoch_end=True)
        found = scan_run(tmp_path / "r").checkpoints[0]
        assert (found.name, found.step, found.epoch) == ("epoch_0", 9, 0)

    def test_every_saved_checkpoint_verifies(self, tmp_path: Path) -> None:
        train(tmp_path / "r", 2)
        for c in scan_run(tmp_path / "r").checkpoints:
            assert verify_checkpoint(c, full=True).status == "verified"

    def test_a_lower_layer_does_not_import_torch(self) -> None:
        code = "import sys, ckptui; ckptui.TrainingRun; sys.exit('torch' in sys.modules)"
        subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


def test_b95_staging_does_not_lie_in_the_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Renaming from another mount would fail."""
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs a second file system at /dev/shm")
    monkeypatch.setenv("TMPDIR", str(other))
    before = set(other.iterdir())
    seen: list[Path] = []
    with enter(tmp_path / "r") as run:
        run.register(values={"a": 1})
        saved: Checkpoint = run.save(1, files=seen.append)
    assert saved.complete
    assert seen[0].parent == tmp_path / "r" / ".ckptui" / "staging"
    assert set(other.iterdir()) <= before
