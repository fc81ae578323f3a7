"""No power loss, at any moment, takes what a call that returned has promised."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.power import scenarios
from tests.power.model import Operation, Rename, Sync, Write
from tests.power.recorder import Recording
from tests.power.simulate import Simulation, enumerate_losses, record, scratch, simulate

QUICK = tuple(name for name, scenario in scenarios.SCENARIOS.items() if not scenario.torch)


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_every_power_loss_leaves_what_was_promised(name: str) -> None:
    result = simulate(name, seed=0, subsets=1000)
    assert not result.failures, result.failures
    assert result.prefixes == result.operations + 1
    assert result.resumed


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("name", [n for n in scenarios.SCENARIOS if n not in QUICK])
def test_a_sample_of_power_losses_while_training_leaves_what_was_promised(name: str) -> None:
    pytest.importorskip("torch")
    result = simulate(name, seed=0, subsets=1000, seconds=30)
    assert not result.failures, result.failures
    assert result.resumed


@pytest.fixture
def root() -> Iterator[Path]:
    root = scratch()
    yield root
    shutil.rmtree(root)


def is_folder_sync(operation: Operation) -> bool:
    return isinstance(operation, Sync) and "." not in operation.path.rpartition("/")[2][1:]


def is_file_sync(operation: Operation) -> bool:
    return isinstance(operation, Sync) and not is_folder_sync(operation)


@pytest.mark.parametrize("missing", [is_folder_sync, is_file_sync])
@pytest.mark.parametrize("name", ["save", "pin"])
def test_without_its_syncs_it_would_not(
    name: str, missing: Callable[[Operation], bool], root: Path
) -> None:
    """The simulation finds what it is there to find."""
    recording = record(name, root)
    assert fails(without(recording, {i for i, o in enumerate(recording.operations) if missing(o)}))


def test_each_sync_of_a_save_is_needed(root: Path) -> None:
    """But for that of its folder before the marker is in it: there is another one after."""
    recording = record("save-anew", root)
    published = next(
        i
        for i, o in enumerate(recording.operations)
        if isinstance(o, Rename) and o.path.endswith("step_1")
    )
    written = next(i for i, o in enumerate(recording.operations) if isinstance(o, Write))
    needless = []
    for i, operation in enumerate(recording.operations[: published + 2]):
        if i > written and isinstance(operation, Sync) and not fails(without(recording, {i})):
            needless.append(operation.path)
    assert len(needless) <= 1
    assert all("/staging/" in path and path.count("/") == 4 for path in needless)


def without(recording: Recording, missing: set[int]) -> Recording:
    """The same recording as it would be had some syncs not been called."""
    kept = [i for i in range(len(recording.operations)) if i not in missing]
    return dataclasses.replace(
        recording,
        operations=tuple(recording.operations[i] for i in kept),
        notes=tuple(
            dataclasses.replace(n, at=sum(i < n.at for i in kept)) for n in recording.notes
        ),
    )


def fails(recording: Recording) -> bool:
    """Whether some power loss breaks a promise."""
    simulation = Simulation(recording)
    losses = enumerate_losses(simulation.crashes, seed=0, subsets=100)
    return any(simulation.examine(cut, fates) for cut, fates in losses)
