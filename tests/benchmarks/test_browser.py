"""What the browser costs; `browser.py` measures and prints, `-s` shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.benchmarks import browser, mounts, written
from tests.benchmarks.many import run_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.benchmark


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the runs are made, once."""
    return tmp_path_factory.mktemp("many")


def test_first_usable_screen_beside_a_bare_app(folder: Path) -> None:
    browser.starts(folder, 15)


def test_stalls_beside_a_stock_table(folder: Path) -> None:
    browser.stalls(folder, 3)


def test_bytes_written_to_the_terminal(folder: Path) -> None:
    written.report(run_of(5000, folder))


def test_keys_and_the_way_out_on_slow_mounts(folder: Path) -> None:
    mounts.report(run_of(5000, folder), 10)
