"""Running code as a user who is not root, for what permissions forbid."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

NOBODY = 65534

_BEGIN = """
import os, sys
from pathlib import Path
from datetime import UTC, datetime
import xxhash
from ckptui import leases, lock, locate, pins, prune, remove
from ckptui import requests, resume, retention, save, scan
from ckptui.errors import CkptuiError
if os.geteuid() == 0:
    # Only now: the interpreter itself may lie where an ordinary user cannot read it.
    os.setgroups([])
    os.setgid({nobody})
    os.setuid({nobody})
folder = Path(sys.argv[1])
"""


def as_ordinary_user(folder: Path, code: str) -> list[str]:
    """Give `folder` to an ordinary user, run `code` as them, and return the lines it printed.

    The code finds the modules of ckptui imported, and the folder under that name. The folder must
    lie where everybody may pass through.
    """
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    done = subprocess.run(
        [sys.executable, "-c", _BEGIN.format(nobody=NOBODY) + code, str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
