from __future__ import annotations

import gc
import sys
import weakref

import pytest

from ckptui.tui import pauses
from ckptui.tui.pauses import Pauses


class Cycle:
    def __init__(self) -> None:
        self.me = self


def old_cycle() -> weakref.ref[Cycle]:
    """A cycle in the oldest generation, held by nobody."""
    cycle = Cycle()
    gc.collect()
    return weakref.ref(cycle)


def test_everything_is_as_it_was_afterwards() -> None:
    before = (sys.getswitchinterval(), gc.isenabled())
    kept = Pauses()
    kept.begin()
    assert sys.getswitchinterval() == pytest.approx(pauses.SWITCH_SECONDS)
    assert not gc.isenabled()
    kept.end()
    assert (sys.getswitchinterval(), gc.isenabled()) == before


def test_a_full_round_that_is_felt_waits_until_nobody_types(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pauses, "FULL_EVERY_SECONDS", 0.0)
    monkeypatch.setattr(pauses, "FELT_SECONDS", 0.0)  # every round counts as felt
    kept = Pauses()
    kept.begin()
    try:
        dead = old_cycle()
        kept.tidy(idle=1.0)
        assert dead() is not None
        kept.tidy(idle=pauses.IDLE_SECONDS)
        assert dead() is None
    finally:
        kept.end()


def test_young_garbage_goes_at_once() -> None:
    kept = Pauses()
    kept.begin()
    try:
        young = weakref.ref(Cycle())
        kept.tidy(idle=0.0)
        assert young() is None
    finally:
        kept.end()
