"""Metrics in their units."""

from __future__ import annotations

import math

import pytest

from ckptui.display.units import measured


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("peak_memory", 402_000_000, "402 MB"),
        ("peak_memory", 4.02e8, "402 MB"),
        ("gpu/mem.reserved", 2e9, "2 GB"),
        ("bytes_read", 512, "512 B"),
        ("bytes_read", -2048, "-2 kB"),
        # Some log GiB or MiB under such names, or no amount at all.
        ("peak_memory_active", 12.25, "12.25"),
        ("peak_memory", 20480, "20480"),
        ("memory_gib", 4e8, "4e+08"),
        ("memory_util", 4e8, "4e+08"),
        ("loss", 4e8, "4e+08"),
        ("remembered", 4e8, "4e+08"),
        ("peak_memory", None, "nan"),
        ("peak_memory", math.inf, "inf"),
    ],
)
def test_only_what_is_surely_in_bytes_is_told_so(name: str, value: float | None, text: str) -> None:
    assert measured(name, value) == text
