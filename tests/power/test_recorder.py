"""The recorder sees every operation, in the order in which the system did them."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.power.model import Create, Link, Remove, Rename, Sync, describe
from tests.power.record import BEGIN
from tests.power.scenarios import SCENARIOS
from tests.power.simulate import record, scratch

TRACED = "rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,rmdir,link,linkat,symlink"
SYNCS = "fsync,fdatasync,sync_file_range,sync,syncfs"


def strace_works() -> bool:
    if shutil.which("strace") is None:
        return False
    command = ["strace", "-o", os.devnull, "true"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not strace_works(), reason="no strace, or it may not trace here")
@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_system_calls_are_the_recorded_ones(name: str, tmp_path: Path) -> None:
    if SCENARIOS[name].torch:
        pytest.importorskip("torch")
    root = scratch()
    try:
        log = tmp_path / "strace"
        calls = f"trace={TRACED},{SYNCS},open,openat,creat"
        wrapper = ("strace", "-f", "-y", "-s", "4096", "-o", str(log), "-e", calls)
        recording = record(name, root, wrapper=wrapper)
        kinds = Create | Link | Remove | Rename | Sync
        seen = [describe(o) for o in recording.operations if isinstance(o, kinds)]
        assert _ordered(seen) == _ordered(traced(log, root, set(recording.start.tree())))
    finally:
        shutil.rmtree(root)


def traced(log: Path, root: Path, there: set[str]) -> list[str]:
    """The operations on names below `root`, and the syncs, as strace saw them succeed."""
    pending: dict[str, str] = {}
    found = []
    lines = log.read_text().splitlines()
    begin = next(i for i, line in enumerate(lines) if BEGIN in line)
    for line in lines[begin + 1 :]:
        thread, _, call = line.partition(" ")
        call = call.strip()
        if call.endswith("<unfinished ...>"):
            pending[thread] = call.removesuffix("<unfinished ...>")
            continue
        if resumed := re.match(r"<\.\.\. \w+ resumed>", call):
            call = pending.pop(thread) + call[resumed.end() :]
        found += _operation(call, os.fspath(root) + "/", there)
    return _in_one(found)


def _ordered(found: list[str]) -> list[str]:
    """The same with files that were made one after another by name: compiled code makes several."""
    grouped = itertools.groupby(found, lambda line: line.startswith("create "))
    return [line for made, lines in grouped for line in (sorted(lines) if made else lines)]


def _in_one(found: list[str]) -> list[str]:
    """What compiled code did at once: the tensors' writer makes a file by another name first."""
    for old, new in [line.split(" -> ") for line in found if re.search(r"/\.tmp\w{6} -> ", line)]:
        made = old.replace("rename ", "create ", 1)
        if made in found:
            found.remove(made)
            found[found.index(f"{old} -> {new}")] = f"create {new}"
    return found


def _operation(call: str, root: str, there: set[str]) -> list[str]:
    match = re.match(r"(\w+)\((.*)\)\s+= (-?\d+)", call)
    if match is None or int(match[3]) < 0 or root[:-1] not in match[2]:
        return []
    name, text = match[1], match[2]
    if name in SYNCS.split(","):
        synced = re.findall(r"<([^>]*)>", text)[0]
        return [describe(Sync(0, f"{synced}/".removeprefix(root).rstrip("/")))]
    paths = []
    for folder, quoted in re.findall(r'(?:(?:AT_FDCWD|\d+)<([^>]*)>, )?"([^"]*)"', text):
        path = quoted if quoted.startswith("/") else f"{folder}/{quoted}"
        paths.append(path.removeprefix(root))
    first = paths[0]
    if name in ("open", "openat", "creat"):
        if ("O_CREAT" not in text and name != "creat") or first in there:
            return []
        there.add(first)
        return [describe(Create(0, "", 0, False, first))]
    if name.startswith("mkdir"):
        there.add(first)
        return [describe(Create(0, "", 0, True, first))]
    if name.startswith("link"):
        there.add(paths[1])
        return [describe(Link(0, "", 0, paths[1]))]
    if name.startswith("rename"):
        moved = {p for p in there if p == first or p.startswith(f"{first}/")}
        there -= moved
        there |= {paths[1] + p.removeprefix(first) for p in moved}
        return [describe(Rename(0, "", 0, "", 0, first, paths[1]))]
    if name.startswith("unlink") or name == "rmdir":
        there.discard(first)
        is_folder = name == "rmdir" or "AT_REMOVEDIR" in text
        return [describe(Remove(0, "", 0, is_folder, first))]
    raise AssertionError(f"not understood: {call}")
