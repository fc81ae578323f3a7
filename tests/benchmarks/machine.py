"""The machine that figures come from: what it is, and what else it was doing."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path

PACKAGES = (
    "torch",
    "safetensors",
    "transformers",
    "accelerate",
    "lightning",
    "torchtune",
    "torchao",
    "xxhash",
    "numpy",
)


def describe(*folders: Path) -> list[str]:
    """Lines about processor, memory, load, versions, and the file systems of `folders`."""
    lines = [
        f"{platform.system()} {platform.release()}, {platform.machine()}, {_processor()}, "
        f"{os.cpu_count()} cores, {_memory('MemTotal')} GiB memory, "
        f"{_memory('MemAvailable')} GiB available, {load()}, {_priority()}",
        f"Python {platform.python_version()}, "
        + ", ".join(f"{name} {_version(name)}" for name in PACKAGES),
    ]
    lines += [f"{folder}: {file_system(folder)}" for folder in folders]
    return lines


def load() -> str:
    """The load averages of this moment."""
    return "load " + " ".join(f"{n:.2f}" for n in os.getloadavg())


def file_system(folder: Path) -> str:
    """Kind and source of the file system that a folder lies on."""
    try:
        mounts = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return "file system unknown"
    place = folder.resolve()
    best = ("", "unknown", "")
    for line in mounts:
        source, at, kind, *_ = line.split()
        # The last mount over the longest path is the one that counts.
        if place.is_relative_to(at) and len(at) >= len(best[0]):
            best = (at, kind, source)
    return f"{best[1]} on {best[2]}"


def _priority() -> str:
    """What the scheduler favours this process by; others may take its cores otherwise."""
    try:
        group = Path("/proc/self/autogroup").read_text(encoding="utf-8").split()[-1]
    except (FileNotFoundError, IndexError):
        group = "0"
    return f"nice {os.nice(0)}, session's nice {group}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return platform.processor() or "processor unknown"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "processor unknown"


def _memory(field: str) -> str:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return "?"
    found = [int(line.split()[1]) for line in lines if line.startswith(f"{field}:")]
    return f"{found[0] / 2**20:.0f}" if found else "?"


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
