"""`python -m tests.power.record SCENARIO FOLDER OUTPUT`: a scenario in a process of its own."""

from __future__ import annotations

import contextlib
import pickle
import sys
from pathlib import Path

from tests.power import scenarios
from tests.power.recorder import Recorder

BEGIN = "the-recording-begins"
"""A folder that is never there: asking to remove it tells who traces where the recording begins."""


def main() -> None:
    """Run a scenario in an empty folder, and write its recording to a file."""
    name, root, output = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    scenario = scenarios.SCENARIOS[name]
    scenario.prepare(root)
    with contextlib.suppress(FileNotFoundError):
        (root / BEGIN).rmdir()
    recorder = Recorder(root)
    recorder.start()
    scenario.act(root, recorder.note)
    output.write_bytes(pickle.dumps(recorder.finish(name)))


if __name__ == "__main__":
    main()
