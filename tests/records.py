"""Records of checkpoints without a disk, for what decides purely."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from ckptui.checkpoint import Checkpoint, Pin, Run, State
from ckptui.retention import KeepBest, KeepEvery, KeepLast, KeepWithin

if TYPE_CHECKING:
    from collections.abc import Sequence

NOW = datetime(2026, 6, 1, tzinfo=UTC)
RUN = Path("/run")


def one(step: int | None, **fields: Any) -> Checkpoint:
    """A complete resumable checkpoint, unless `fields` say otherwise."""
    name = fields.pop("name", f"step_{step}")
    state = fields.pop("state", State.OK)
    values: dict[str, Any] = {
        "run": RUN,
        "name": name,
        "path": RUN / name,
        "step": step,
        "run_id": "a",
        "attempt": 1,
        "state": state,
        "complete": state in (State.OK, State.WEIGHTS, State.ADAPTER),
        "resumable": state is State.OK,
        "size": 100,
    }
    return Checkpoint(**{**values, **fields})


def many(*steps: int, **fields: Any) -> list[Checkpoint]:
    return [one(s, **fields) for s in steps]


def with_metric(metric: str, values: dict[int, float | None]) -> list[Checkpoint]:
    return [one(s, metrics={metric: v}) for s, v in values.items()]


def run_of(checkpoints: Sequence[Checkpoint], **fields: Any) -> Run:
    values = {"path": RUN, "name": "run", "run_id": "a", "layout": "native"}
    return Run(**{**values, "checkpoints": tuple(checkpoints), **fields})


@st.composite
def checkpoints_strategy(draw: st.DrawFn, *, links: bool = False) -> list[Checkpoint]:
    count = draw(st.integers(0, 9))
    found = []
    for i in range(count):
        state = draw(
            st.sampled_from([State.OK] * 5 + [State.WEIGHTS, State.BROKEN, State.PARTIAL])
            if i % 3
            else st.sampled_from(State)
        )
        staged = state is State.WRITING or (state is State.PARTIAL and draw(st.booleans()))
        name = f"step_{i}"
        metrics = draw(
            st.dictionaries(
                st.sampled_from(["loss", "acc"]),
                st.one_of(st.none(), st.sampled_from([0.0, 1.0, 2.0]), st.floats(-9, 9)),
            )
        )
        found.append(
            one(
                draw(st.one_of(st.none(), st.integers(0, 12))),
                name=name,
                path=RUN / (".ckptui/staging" if staged else ".") / name,
                state=state,
                staged=staged,
                run_id=draw(st.sampled_from(["a", "a", "a", "b", None])),
                attempt=draw(st.integers(1, 2)),
                current=draw(st.sampled_from([True, True, True, False])),
                created=draw(
                    st.one_of(
                        st.none(),
                        st.integers(-3, 30).map(lambda d: NOW - timedelta(days=d)),
                    )
                ),
                metrics=metrics,
                nonfinite=draw(st.sampled_from([(), (), ("w",)])),
                pin=draw(st.sampled_from([None, None, Pin(name=name)])) if not staged else None,
                aliases=draw(st.sampled_from([(), (), (), ("best",)])) if not staged else (),
                size=draw(st.integers(0, 50)),
            )
        )
    return found


rules_strategy = st.lists(
    st.one_of(
        st.integers(1, 4).map(KeepLast),
        st.integers(1, 5).map(KeepEvery),
        st.builds(
            KeepBest,
            st.integers(1, 3),
            st.sampled_from(["loss", "acc"]),
            st.sampled_from([None, "min", "max"]),
        ),
        st.integers(1, 20).map(lambda d: KeepWithin(timedelta(days=d), f"{d}d")),
    ),
    min_size=1,
    max_size=3,
)
protected_strategy = st.dictionaries(
    st.integers(0, 9).map(lambda i: f"step_{i}"), st.just("in use"), max_size=2
)
