"""Saving beside training: exactly the state of its step, and nothing lost when it goes wrong."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from ckptui.errors import LockedError, RefusedError, StorageError, UsageError
from ckptui.scan import scan_run
from ckptui.state_codec import CodecError
from ckptui.training import TrainingRun
from ckptui.verify import verify_checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

STATE = ("model.safetensors", "recipe_state.safetensors", "recipe_state.json")


def wide(*, width: int = 256, layers: int = 6) -> Any:
    """A model of some megabytes, so that a copy takes long enough to be torn."""
    parts: list[Any] = []
    for _ in range(layers):
        parts += [torch.nn.Linear(width, width), torch.nn.BatchNorm1d(width), torch.nn.ReLU()]
    return torch.nn.Sequential(*parts)


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "plain": lambda p: torch.optim.AdamW(p, lr=1e-2, foreach=False),
    "foreach": lambda p: torch.optim.AdamW(p, lr=1e-2, foreach=True),
    "fused": lambda p: torch.optim.AdamW(p, lr=1e-2, fused=True),
    "sgd": lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9),
    "adafactor": lambda p: torch.optim.Adafactor(p, lr=1e-2),
}


@pytest.fixture
def slow_copy(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """The copy begins late and takes its time, unless the event is set."""
    from ckptui import snapshot

    quick = threading.Event()
    real = snapshot._copy

    def late(into: Any, source: Any) -> None:
        quick.wait(0.004)
        real(into, source)

    monkeypatch.setattr(snapshot, "_copy", late)
    yield quick
    quick.set()


class Loop:
    """A training as quick as it can be: dropout, batch norm, and steps without a pause."""

    def __init__(self, path: Path, kind: str, *, dtype: Any = None) -> None:
        torch.manual_seed(1)
        self.model = wide()
        if dtype is not None:
            self.model.to(dtype)
        self.dtype = dtype or torch.float32
        self.optimizer = OPTIMIZERS[kind](self.model.parameters())
        self.run = TrainingRun(path, resume=None, report=lambda _: None)

    def step(self) -> None:
        x = torch.nn.functional.dropout(torch.ones(8, 256, dtype=self.dtype), 0.5)
        self.model(x).square().mean().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


def contents(run: Path, step: int) -> dict[str, bytes]:
    return {name: (run / f"step_{step}" / name).read_bytes() for name in STATE}


@pytest.mark.parametrize("dtype", [None, "bfloat16"])
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_the_copy_is_exactly_the_state_of_its_step(
    tmp_path: Path, slow_copy: threading.Event, kind: str, dtype: str | None
) -> None:
    found = []
    for way in ("beside", "waiting"):
        loop = Loop(tmp_path / way, kind, dtype=getattr(torch, dtype) if dtype else None)
        with loop.run as run:
            run.register(model=loop.model, optimizer=loop.optimizer)
            run.resume()
            for step in range(1, 13):
                loop.step()
                if step in (1, 4, 8):
                    run.async_save(step) if way == "beside" else run.save(step)
        found.append([contents(tmp_path / way, step) for step in (1, 4, 8)])
    assert found[0] == found[1]


def test_without_the_hook_the_copy_would_be_torn(
    tmp_path: Path, slow_copy: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the test above relies on: this training is quick enough to be caught."""
    monkeypatch.setattr("ckptui.background.versions_of", lambda _: [])
    monkeypatch.setattr("ckptui.background.samples", lambda _: None)
    found = []
    for way in ("beside", "waiting"):
        loop = Loop(tmp_path / way, "fused")
        with loop.run as run:
            run.register(model=loop.model, optimizer=loop.optimizer)
            run.resume()
            assert run._work is not None
            for hook in run._work.hooks.values():
                hook.remove()
            for step in range(1, 9):
                loop.step()
                if step == 4:
                    run.async_save(step) if way == "beside" else run.save(step)
        found.append(contents(tmp_path / way, 4))
    assert found[0] != found[1]


def test_what_the_loop_changes_at_once_is_of_the_call(tmp_path: Path) -> None:
    """Buffers, generators, plain state and schedulers move on before the copy is made."""
    model = wide(layers=2)
    optimizer = OPTIMIZERS["foreach"](model.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    values: dict[str, Any] = {"n": 1, "history": [torch.zeros(3)]}
    with TrainingRun(tmp_path / "r", report=lambda _: None) as run:
        run.register(model=model, optimizer=optimizer, scheduler=scheduler, values=values)
        run.resume()
        model(torch.ones(4, 256)).sum().backward()
        optimizer.step()
        scheduler.step()
        run.save(1)
        torch.manual_seed(5)
        before = torch.get_rng_state()
        mean = model[1].running_mean.clone()
        rate = optimizer.param_groups[0]["lr"]
        run.async_save(2)
        values["n"] = 2
        values["history"][0] += 1
        model(torch.rand(4, 256))
        scheduler.step()
        run.wait()
    torch.manual_seed(0)
    for group in optimizer.param_groups:
        group["lr"] = 0
    with TrainingRun(tmp_path / "r", report=lambda _: None) as run:
        run.register(model=model, optimizer=optimizer, scheduler=scheduler, values=values)
        assert run.resume() == 2
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(model[1].running_mean, mean)
    assert optimizer.param_groups[0]["lr"] == rate
    assert values["n"] == 1
    assert torch.equal(values["history"][0], torch.zeros(3))


def test_a_marked_boundary_is_saved_in_the_middle_of_accumulating(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout())
    optimizer = torch.optim.AdamW(model.parameters())
    values = {"batches": 0}
    with TrainingRun(tmp_path / "r", report=lambda _: None) as run:
        run.register(model=model, optimizer=optimizer, values=values)
        run.resume()
        model(torch.rand(4, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        run.mark(1)
        run.save(1)
        whole = contents(tmp_path / "r", 1)
        values["batches"] = 3
        model(torch.rand(4, 4)).sum().backward()
        run.async_save(1).result()  # met by the one that stands
    with TrainingRun(tmp_path / "other", report=lambda _: None) as run:
        run.register(model=model, optimizer=optimizer, values=values)
        run.resume()
        optimizer.zero_grad()
        run.mark(1)
        before = (torch.get_rng_state(), model[1].running_mean.clone())
        values["batches"] = 4
        model(torch.rand(4, 4)).sum().backward()
        run.save(1)
    assert contents(tmp_path / "r", 1) == whole
    with TrainingRun(tmp_path / "other", report=lambda _: None) as run:
        run.register(model=model, optimizer=optimizer, values=values)
        run.resume()
    assert values == {"batches": 3}
    assert torch.equal(torch.get_rng_state(), before[0])
    assert torch.equal(model[1].running_mean, before[1])


def refuse(monkeypatch: pytest.MonkeyPatch, number: int = errno.EIO) -> None:
    def write(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("ckptui.output._ThroughTheCache.write", write)


def test_an_error_comes_with_the_next_step_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = Loop(tmp_path / "r", "fused")
    with loop.run as run:
        run.register(model=loop.model, optimizer=loop.optimizer)
        run.resume()
        loop.step()
        run.save(1)
        loop.step()
        refuse(monkeypatch)
        future = run.async_save(2)
        assert isinstance(future.exception(), StorageError)
        with pytest.raises(StorageError, match=r"Saving step_2 .* failed: Input/output error"):
            loop.step()
        monkeypatch.undo()
        loop.step()
        assert run.async_save(3).result().complete
    assert [c.name for c in scan_run(tmp_path / "r").checkpoints] == ["step_1", "step_3"]
    assert not list((tmp_path / "r/.ckptui/staging").iterdir())


def test_an_error_nobody_stepped_into_comes_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = Loop(tmp_path / "r", "sgd")
    loop.run.__enter__()
    loop.run.register(model=loop.model, optimizer=loop.optimizer)
    loop.run.resume()
    loop.step()
    refuse(monkeypatch, errno.EROFS)
    loop.run.async_save(1)
    with pytest.raises(StorageError, match="Read-only"):
        loop.run.__exit__(None, None, None)
    assert not (tmp_path / "r/.ckptui/lock").exists()


def test_training_may_go_on_without_what_the_disk_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    loop = Loop(tmp_path / "r", "sgd")
    loop.run = TrainingRun(tmp_path / "r", on_save_error="report", report=said.append)
    with loop.run as run:
        run.register(model=loop.model, optimizer=loop.optimizer)
        run.resume()
        loop.step()
        refuse(monkeypatch)
        run.async_save(1).exception()
        loop.step()
        assert len(said) == 1
        assert "Training goes on" in said[0]
        monkeypatch.undo()
        run.async_save(2)
    assert [c.name for c in scan_run(tmp_path / "r").checkpoints] == ["step_2"]


def test_one_save_is_in_flight_and_the_next_one_waits_with_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ckptui.output import _ThroughTheCache

    go = threading.Event()
    real = _ThroughTheCache.write

    def write(*arguments: Any) -> None:
        go.wait(10)
        real(*arguments)

    monkeypatch.setattr(_ThroughTheCache, "write", write)
    said: list[str] = []
    loop = Loop(tmp_path / "r", "fused")
    loop.run = TrainingRun(tmp_path / "r", report=said.append)
    with loop.run as run:
        run.register(model=loop.model, optimizer=loop.optimizer)
        run.resume()
        loop.step()
        run.async_save(1)
        loop.step()  # the copy is made, the writing hangs
        threading.Timer(0.3, go.set).start()
        begun = time.monotonic()
        run.async_save(2)
        assert time.monotonic() - begun > 0.2
    assert said == ["step_2 waits: step_1 is still being written."]
    assert [c.name for c in scan_run(tmp_path / "r").checkpoints] == ["step_1", "step_2"]


def test_the_buffer_is_used_again(tmp_path: Path) -> None:
    loop = Loop(tmp_path / "r", "fused")
    with loop.run as run:
        run.register(model=loop.model, optimizer=loop.optimizer)
        run.resume()
        assert run._work is not None
        buffer = run._work.writer.background._buffer
        places = set()
        for step in range(1, 5):
            loop.step()
            run.async_save(step).result()
            places.add(buffer._memory.data_ptr())
        assert len(places) == 1
        state = sum((tmp_path / "r/step_4" / name).stat().st_size for name in STATE[:2])
        assert buffer.size < state + 4096


def test_the_memory_can_be_taken_before_the_first_save(tmp_path: Path) -> None:
    loop = Loop(tmp_path / "r", "fused")
    with loop.run as run:
        run.register(model=loop.model, optimizer=loop.optimizer)
        run.resume()
        loop.step()
        run.reserve()
        assert run._work is not None
        saver = run._work.writer.background
        end = time.monotonic() + 20
        while not saver._buffer.size:
            assert time.monotonic() < end
            time.sleep(0.01)
        place = saver._buffer._memory.data_ptr()
        run.async_save(1).result()
        assert saver._buffer._memory.data_ptr() == place
    (saved,) = scan_run(tmp_path / "r").checkpoints
    assert verify_checkpoint(saved, full=True).status == "verified"


def test_a_save_after_the_last_step_is_joined_at_the_end(tmp_path: Path) -> None:
    loop = Loop(tmp_path / "r", "plain")
    with loop.run as run:
        run.register(model=loop.model, optimizer=loop.optimizer)
        run.resume()
        loop.step()
        run.async_save(1)
    (saved,) = scan_run(tmp_path / "r").checkpoints
    assert verify_checkpoint(saved, full=True).status == "verified"
    assert run.save_times is None  # nothing is at work any more


def test_a_loop_that_fails_still_gets_its_checkpoint(tmp_path: Path) -> None:
    loop = Loop(tmp_path / "r", "plain")

    def train() -> None:
        with loop.run as run:
            run.register(model=loop.model, optimizer=loop.optimizer)
            run.resume()
            loop.step()
            run.async_save(1)
            raise KeyError(1)

    with pytest.raises(KeyError):
        train()
    assert scan_run(tmp_path / "r").checkpoints[0].complete


@pytest.mark.parametrize("through", ["weight", "data", "numpy"])
def test_weights_edited_during_the_copy_are_refused(
    tmp_path: Path, slow_copy: threading.Event, through: str
) -> None:
    """What goes through `.data` or numpy counts no version."""
    loop = Loop(tmp_path / "r", "fused")
    with loop.run as run:
        run.register(model=loop.model, optimizer=loop.optimizer)
        run.resume()
        loop.step()
        future = run.async_save(1)
        for weight in (loop.model[0].weight, loop.model[-3].weight):
            if through == "weight":
                with torch.no_grad():
                    weight.mul_(2)
            elif through == "data":
                weight.data.mul_(2)
            else:
                weight.detach().numpy()[:] *= 2
        assert isinstance(future.exception(), RefusedError)
        with pytest.raises(RefusedError, match="registered optimizer"):
            loop.step()
        assert run.save(2).complete
    assert [c.name for c in scan_run(tmp_path / "r").checkpoints] == ["step_2"]


def test_an_optimizer_in_the_backward_pass_needs_the_other_way(tmp_path: Path) -> None:
    model = wide(layers=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(lambda _: None)
    with TrainingRun(tmp_path / "r", report=lambda _: None) as run:
        run.register(model=model, optimizer=optimizer)
        run.resume()
        with pytest.raises(RefusedError, match=r"model\.0\.weight .*backward.*use save\(\)"):
            run.async_save(1)
        assert run.save(1).complete


def test_a_parameter_of_an_unknown_optimizer_needs_the_other_way(tmp_path: Path) -> None:
    model, average = wide(layers=1), wide(layers=1)
    optimizer = torch.optim.SGD([model[0].weight], lr=0.1)
    with TrainingRun(tmp_path / "r", report=lambda _: None) as run:
        run.register(model=model, average=average, optimizer=optimizer)
        run.resume()
        with pytest.raises(RefusedError, match=r"model\.0\.bias is trained by no registered"):
            run.async_save(1)
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name == "0.weight")
        assert run.async_save(1).result().complete  # `average` has no optimizer at all


def test_tensors_in_odd_layouts_are_copied_by_their_elements(tmp_path: Path) -> None:
    model = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters())
    values = {
        "turned": torch.arange(6.0).reshape(2, 3).t(),
        "one": torch.tensor(3),
        "none": torch.empty(0, 2),
    }
    for name, way in (("a", "save"), ("b", "async_save")):
        with TrainingRun(tmp_path / name, report=lambda _: None) as run:
            run.register(model=model, optimizer=optimizer, values=values)
            run.resume()
            model.zero_grad()
            model(torch.ones(1, 3, 5, 5)).sum().backward()
            if name == "a":
                optimizer.step()
            torch.manual_seed(0)
            getattr(run, way)(1)
    assert contents(tmp_path / "a", 1) == contents(tmp_path / "b", 1)


def test_a_rate_that_is_a_tensor_is_that_of_the_step(tmp_path: Path) -> None:
    """Schedulers change it in place, and not in `step`."""
    model = wide(layers=1)
    rate = torch.tensor(0.1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, foreach=False, capturable=True)
    with TrainingRun(tmp_path / "r", report=lambda _: None) as run:
        run.register(model=model, optimizer=optimizer)
        run.resume()
        future = run.async_save(1)
        for group in optimizer.param_groups:
            group["lr"].fill_(0.05)
        future.result()
    with TrainingRun(tmp_path / "r", report=lambda _: None) as run:
        run.register(model=model, optimizer=optimizer)
        run.resume()
    assert optimizer.param_groups[0]["lr"].item() == pytest.approx(0.1)


def test_a_fresh_run_that_never_called_resume_waits_for_the_copy_too(
    tmp_path: Path, slow_copy: threading.Event
) -> None:
    found = []
    for way in ("beside", "waiting"):
        loop = Loop(tmp_path / way, "fused")
        with loop.run as run:
            run.register(model=loop.model, optimizer=loop.optimizer)
            loop.step()
            run.async_save(1) if way == "beside" else run.save(1)
            loop.step()
        found.append(contents(tmp_path / way, 1))
    assert found[0] == found[1]


@pytest.mark.parametrize("way", ["save", "async_save"])
def test_conjugated_views_are_written_as_what_they_stand_for(tmp_path: Path, way: str) -> None:
    value = torch.randn(4, dtype=torch.complex64)
    model = torch.nn.Module()
    model.z = torch.nn.Parameter(value.conj())
    assert model.z.is_conj()
    with TrainingRun(tmp_path / "r", report=lambda _: None) as run:
        run.register(model=model, values={"n": 1})
        getattr(run, way)(1)
    other = torch.nn.Module()
    other.z = torch.nn.Parameter(torch.zeros_like(value))
    with TrainingRun(tmp_path / "r", report=lambda _: None) as run:
        run.register(model=other, values={"n": 0})
        run.resume()
    assert torch.equal(other.z.detach(), value.conj().resolve_conj())


class Odd:
    """Parameters whose memory does not hold their values."""

    @staticmethod
    def sparse() -> Any:
        return torch.eye(3).to_sparse()

    @staticmethod
    def meta() -> Any:
        return torch.empty(3, device="meta")

    @staticmethod
    def two() -> Any:
        from torch.testing._internal.two_tensor import TwoTensor

        return TwoTensor(torch.ones(3), torch.ones(3))  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("kind", ["sparse", "meta", "two", "lazy"])
@pytest.mark.parametrize("way", ["save", "async_save"])
def test_what_has_no_memory_of_its_own_is_refused_by_its_name(
    tmp_path: Path, kind: str, way: str
) -> None:
    model = torch.nn.Module()
    if kind == "lazy":
        model.odd = torch.nn.LazyLinear(3).weight
    else:
        model.odd = torch.nn.Parameter(getattr(Odd, kind)(), requires_grad=False)
    with TrainingRun(tmp_path / "r", report=lambda _: None) as run:
        run.register(model=model, values={"n": 1})
        with pytest.raises(RefusedError, match=r"model\.odd "):
            getattr(run, way)(1)


@pytest.mark.parametrize("ends", ["step", "exit", "error"])
def test_a_forked_process_has_no_part_in_the_run(
    tmp_path: Path, slow_copy: threading.Event, ends: str
) -> None:
    """It neither waits for a thread that it has not, nor gives the lock back, nor prunes."""
    loop = Loop(tmp_path / "r", "sgd")
    with loop.run as run:
        run.register(model=loop.model, optimizer=loop.optimizer)
        run.resume()
        loop.step()
        future = run.async_save(1)
        child = os.fork()
        if not child:
            signal.alarm(20)
            if ends == "step":
                loop.optimizer.step()
            else:
                run.__exit__(KeyError if ends == "error" else None, None, None)
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert (tmp_path / "r/.ckptui/lock").exists()
        assert future.result().complete
        run.save(2)
    assert not (tmp_path / "r/.ckptui/lock").exists()


def test_a_failure_before_keeps_no_later_state_from_being_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is well again, and this may be the last save before a job's time is up."""
    said: list[str] = []
    loop = Loop(tmp_path / "r", "sgd")
    loop.run = TrainingRun(tmp_path / "r", report=said.append)
    with loop.run as run:
        run.register(model=loop.model, optimizer=loop.optimizer)
        run.resume()
        loop.step()
        refuse(monkeypatch)
        run.async_save(1).exception()
        monkeypatch.undo()
        assert run.save(1).complete
    assert len(said) == 1
    assert "Saving step_1" in said[0]


def test_what_writes_files_cannot_wait_for_its_own_save(tmp_path: Path) -> None:
    with TrainingRun(tmp_path / "r", report=lambda _: None) as run:
        run.register(values={"n": 1})
        future = run.async_save(1, files=lambda _: run.wait())
        with pytest.raises(UsageError, match="cannot wait for step_1"):
            future.result(timeout=20)
        with pytest.raises(UsageError):
            run.wait()
        done = run.async_save(2)
        done.add_done_callback(lambda _: run.wait())  # by then it stands
        assert done.result(timeout=20).complete


def test_losing_the_run_is_no_fault_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another owner sweeps staging away under the save; training must not go on after that."""
    from ckptui.output import _ThroughTheCache

    real = _ThroughTheCache.write

    def write(*arguments: Any) -> None:
        (tmp_path / "r/.ckptui/lock").write_text('{"token": "another"}')
        shutil.rmtree(tmp_path / "r/.ckptui/staging")
        real(*arguments)

    loop = Loop(tmp_path / "r", "sgd")
    loop.run = TrainingRun(tmp_path / "r", on_save_error="report", report=lambda _: None)
    with loop.run as run:
        run.register(model=loop.model, optimizer=loop.optimizer)
        run.resume()
        loop.step()
        monkeypatch.setattr(_ThroughTheCache, "write", write)
        run.async_save(1).exception()
        with pytest.raises(LockedError):
            loop.step()


def test_who_asked_hears_of_a_save_that_failed(tmp_path: Path) -> None:
    from ckptui import requests

    with TrainingRun(tmp_path / "r", report=lambda _: None) as run:
        run.register(values={"n": object()})
        for way in ("save", "async_save"):
            request = requests.ask(tmp_path / "r")
            end = time.monotonic() + 20
            while not run.save_requested:
                assert time.monotonic() < end
                time.sleep(0.05)
            with pytest.raises(CodecError):
                getattr(run, way)(1)
            answer = requests.wait(tmp_path / "r", request, timeout=5)
            assert "cannot hold" in (answer.error or "")


def test_nobody_can_cancel_a_save(tmp_path: Path, slow_copy: threading.Event) -> None:
    loop = Loop(tmp_path / "r", "sgd")
    with loop.run as run:
        run.register(model=loop.model, optimizer=loop.optimizer)
        run.resume()
        loop.step()
        future = run.async_save(1)
        assert not future.cancel()
        loop.step()
        assert future.result().complete


def test_an_embedding_that_renormalises_itself_needs_the_other_way(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Embedding(5, 3, max_norm=0.1), torch.nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with TrainingRun(tmp_path / "r", report=lambda _: None) as run:
        run.register(model=model, optimizer=optimizer)
        run.resume()
        run.mark(1)
        with pytest.raises(RefusedError, match=r"model\.0 has a max_norm"):
            run.async_save(1)
        assert run.save(1).complete


def test_a_mark_is_void_once_another_step_was_taken(tmp_path: Path) -> None:
    loop = Loop(tmp_path / "r", "sgd")
    with loop.run as run:
        run.register(model=loop.model, optimizer=loop.optimizer)
        run.resume()
        loop.step()
        run.mark(1)
        loop.step()
        with pytest.raises(UsageError, match=r"since mark\(1\)"):
            run.save(1)
        run.mark(2)
        assert run.save(2).complete


def test_an_optimizer_around_another_one_is_refused(tmp_path: Path) -> None:
    class Around(torch.optim.Optimizer):  # type: ignore[misc, name-defined] # torch is Any here
        def __init__(self, inner: Any) -> None:
            self.optimizer = inner

    loop = Loop(tmp_path / "r", "sgd")
    with loop.run as run, pytest.raises(UsageError, match="one inside"):
        run.register(model=loop.model, optimizer=Around(loop.optimizer))


def test_weights_replaced_after_the_call_are_none_of_its_business(
    tmp_path: Path, slow_copy: threading.Event
) -> None:
    loop = Loop(tmp_path / "r", "sgd")
    with loop.run as run:
        run.register(model=loop.model, optimizer=loop.optimizer)
        run.resume()
        loop.step()
        run.save(1)
        before = (tmp_path / "r/step_1/model.safetensors").read_bytes()
        future = run.async_save(2)
        state = {k: torch.zeros_like(v) for k, v in loop.model.state_dict().items()}
        loop.model.load_state_dict(state, assign=True)
        assert future.result().complete
        assert (tmp_path / "r/step_2/model.safetensors").read_bytes() == before


def test_the_error_of_the_loop_is_not_hidden_by_that_of_a_save(tmp_path: Path) -> None:
    said: list[str] = []

    def files(_: Path) -> None:
        raise ValueError("cannot write this")

    def train() -> None:
        with TrainingRun(tmp_path / "r", report=said.append) as run:
            run.register(values={"n": 1})
            run.async_save(1, files=files)
            raise KeyError("the loop's own")

    with pytest.raises(KeyError, match="the loop's own"):
        train()
    assert said == ["cannot write this"]
    assert not (tmp_path / "r/.ckptui/lock").exists()


def test_nothing_registered_is_nothing_to_save(tmp_path: Path) -> None:
    with TrainingRun(tmp_path / "r", policy="keep-last 3", report=lambda _: None) as run:
        assert run.policy == ("keep-last 3",)
        for way in (run.save, run.async_save):
            with pytest.raises(UsageError, match="Nothing is registered"):
                way(1)


def test_state_that_only_a_state_dict_knows_is_refused(tmp_path: Path) -> None:
    class Ahead(torch.optim.SGD):  # type: ignore[misc, name-defined] # torch is Any here
        def state_dict(self) -> Any:
            return {**super().state_dict(), "slow": [1]}

    class Packed(torch.nn.Linear):  # type: ignore[misc, name-defined] # torch is Any here
        def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
            super()._save_to_state_dict(destination, prefix, keep_vars)
            destination[prefix + "packed"] = torch.ones(1)

    model = torch.nn.Sequential(torch.nn.Linear(2, 2), Packed(2, 2))
    with TrainingRun(tmp_path / "r", report=lambda _: None) as run:
        with pytest.raises(RefusedError, match=r"Ahead, which keeps slow"):
            run.register(optimizer=Ahead(model.parameters(), lr=0.1))
        with pytest.raises(RefusedError, match=r"model\.1\.packed"):
            run.register(model=model)


def test_a_save_that_waits_is_not_torn_by_another_thread_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ckptui.output import _ThroughTheCache

    loop = Loop(tmp_path / "r", "foreach")
    real = _ThroughTheCache.write

    def write(*arguments: Any) -> None:
        with torch.no_grad():
            loop.model[0].weight.mul_(2)  # as a loop would that goes on
        real(*arguments)

    with loop.run as run:
        run.register(model=loop.model, optimizer=loop.optimizer)
        run.resume()
        loop.step()
        monkeypatch.setattr(_ThroughTheCache, "write", write)
        with pytest.raises(RefusedError, match="by another thread"):
            run.save(1)
    assert scan_run(tmp_path / "r").checkpoints == ()


def test_a_step_may_be_any_whole_number_and_the_lock_goes_on(tmp_path: Path) -> None:
    import json

    with TrainingRun(tmp_path / "r", report=lambda _: None) as run:
        run.register(values={"n": 1})
        run.mark(torch.tensor(3))
        with pytest.raises(TypeError):
            run.mark(1.5)  # type: ignore[arg-type]
        assert run._work is not None
        run._work.lock._beat()
        assert json.loads((tmp_path / "r/.ckptui/lock").read_text())["step"] == 3


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_cuda_the_stream_that_trains_waits_for_the_copy(tmp_path: Path) -> None:
    found = []
    for way in ("beside", "waiting"):
        torch.manual_seed(1)
        model = wide(width=2048, layers=4).cuda()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)
        with TrainingRun(tmp_path / way, report=lambda _: None) as run:
            run.register(model=model, optimizer=optimizer)
            run.resume()
            for step in range(1, 9):
                model(torch.ones(8, 2048, device="cuda")).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
                if step in (2, 5):
                    run.async_save(step) if way == "beside" else run.save(step)
        found.append([contents(tmp_path / way, step) for step in (2, 5)])
    assert found[0] == found[1]
