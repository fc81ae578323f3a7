"""Benchmarks run only when asked for: `pytest -m benchmark -s tests/benchmarks`."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect benchmarks unless `-m` names them."""
    if "benchmark" in config.option.markexpr:
        return
    left = [i for i in items if i.get_closest_marker("benchmark") is None]
    if len(left) < len(items):
        config.hook.pytest_deselected(items=[i for i in items if i not in left])
        items[:] = left
