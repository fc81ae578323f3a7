"""Names on disk are matched in full, and mean the same both ways."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptui import schema
from ckptui.schema import ParsedName


@given(st.integers(min_value=0, max_value=10**60))
def test_a_built_name_parses_to_its_number(number: int) -> None:
    assert schema.parse_name(schema.step_name(number)) == ParsedName("step", number)
    assert schema.parse_name(schema.epoch_name(number)) == ParsedName("epoch", number)


def test_zero_padding_is_read_as_the_number() -> None:
    assert schema.parse_name("step_0900000") == ParsedName("step", 900_000)


@pytest.mark.parametrize(
    "name",
    [
        "step_",
        "step_-1",
        "step_+1",
        "step_1 ",
        " step_1",
        "step_1\n",
        "step_1_final",
        "step_1-hf",
        "step_1.tmp",
        "step_1e3",
        "step_1_000",
        "Step_1",
        "step-1",
        "checkpoint-1",
        "epoch_1.5",
        "step_٣",  # an Arabic digit: int() would read it
        "step_²",
        "._step_1",
        "",
    ],
)
def test_anything_else_is_no_checkpoint_name(name: str) -> None:
    assert schema.parse_name(name) is None


def test_weights_files_are_whole_or_numbered_shards() -> None:
    assert schema.is_weights_file("model.safetensors")
    assert schema.is_weights_file("model-00001-of-00002.safetensors")
    assert not schema.is_weights_file("recipe_state.safetensors")
    assert not schema.is_weights_file("._model.safetensors")
    assert not schema.is_weights_file("model-1-of-2.safetensors")


@pytest.mark.parametrize("name", ["._x", ".DS_Store", ".ipynb_checkpoints", ".nfs0000abcd"])
def test_sidecars_of_desktops_and_mounts_are_junk(name: str) -> None:
    assert schema.is_junk(name)
    assert not schema.is_junk(name.lstrip("."))


@given(st.datetimes(timezones=st.just(UTC), min_value=datetime(1970, 1, 1)))  # noqa: DTZ001 - hypothesis wants naive bounds
def test_times_round_trip_to_the_microsecond(when: datetime) -> None:
    assert schema.parse_time(schema.format_time(when)) == when


def test_times_of_other_zones_and_none_are_read_as_utc() -> None:
    east = datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    assert schema.parse_time(east.isoformat()) == datetime(2026, 1, 1, tzinfo=UTC)
    assert schema.parse_time("2026-01-01T00:00:00") == datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("value", [None, 5, "", "yesterday", "2026-13-01", [], "9999999-01-01"])
def test_what_is_no_time_is_none(value: object) -> None:
    assert schema.parse_time(value) is None
