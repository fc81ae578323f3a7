"""What the cases share: the command line as it is called, folders of bytes, snapshots of them."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from ckptui.cli import main
from ckptui.layouts.files import list_files
from tests.factory import digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

SECOND = 1_750_000_000
"""A whole second of modification time."""
FAR_FUTURE = 4_070_908_800
"""1 January 2099."""


@dataclass(frozen=True)
class Answer:
    """What a command answered."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """stdout as strict JSON."""
        return json.loads(self.out, parse_constant=_refuse)

    @property
    def said(self) -> str:
        return self.out + self.err


def _refuse(word: str) -> None:
    msg = f"{word} is no JSON"
    raise AssertionError(msg)


def ckptui(*words: str | Path, code: int = 0) -> Answer:
    """Run a command in this process; anything but an exit, or another code, fails the test."""
    runner = CliRunner(env={"CKPTUI_RUN": None, "COLUMNS": "200"})
    found = runner.invoke(main, [str(w) for w in words])
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    assert found.exit_code == code, found.output
    assert "Traceback" not in found.output
    return Answer(found.exit_code, found.stdout, found.stderr)


def listed(run: Path) -> list[dict[str, Any]]:
    """The checkpoints that `ls` lists for one run, in its order."""
    (form,) = ckptui("ls", run, "--json").json()["runs"]
    found: list[dict[str, Any]] = form["checkpoints"]
    return found


def run_form(run: Path) -> dict[str, Any]:
    """What `ls` says about one run."""
    (form,) = ckptui("ls", run, "--json").json()["runs"]
    assert isinstance(form, dict)
    return form


def latest(run: Path) -> str:
    """The name of the checkpoint that `latest` means."""
    return str(ckptui("show", "latest", "--run", run, "--json").json()["checkpoint"]["name"])


def resumed(run: Path, word: str = "latest") -> str:
    """The name of the checkpoint that `resume-cmd` continues."""
    form = ckptui("resume-cmd", word, "--run", run, "--json").json()
    return str(form["checkpoint"]["name"])


def standing(run: Path) -> set[str]:
    """The checkpoints that stand on the disk, whatever anybody lists."""
    return {p.name for p in run.iterdir() if p.is_dir() and p.name.startswith(("step_", "epoch_"))}


def prune(run: Path, *rules: str) -> set[str]:
    """Prune for real; the checkpoints that still stand."""
    ckptui("prune", run, *rules, "--yes")
    return standing(run)


def plan(run: Path, *rules: str) -> dict[str, str]:
    """What a dry run would do: name -> action."""
    form = ckptui("prune", run, *rules, "--dry-run", "--json").json()
    assert form["executed"] is False
    return {row["name"]: row["action"] for row in form["plan"]}


def verified(path: Path, *, full: bool = True, code: int = 0) -> dict[str, dict[str, Any]]:
    """What `verify` says: name -> report."""
    words = ["--full"] if full else []
    form = ckptui("verify", path, *words, "--json", code=code).json()
    return {row["name"]: row for row in form["checkpoints"]}


def tree(folder: Path) -> dict[str, tuple[str, bytes, int]]:
    """Everything below a folder: kind, content or target, and time of change."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            entry = ("link", os.fsencode(path.readlink()), 0)
        elif path.is_dir():
            entry = ("folder", b"", 0)
        else:
            entry = ("file", path.read_bytes(), path.stat().st_mtime_ns)
        found[str(path.relative_to(folder))] = entry
    return found


def write(folder: Path, files: Mapping[str, bytes]) -> Path:
    """A folder with these files; an empty mapping makes an empty folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def seal(folder: Path) -> None:
    """Make the marker list what lies in the folder now, as if it had been saved so."""
    marker = folder / "checkpoint.json"
    record = json.loads(marker.read_text())
    names = sorted(list_files(folder).sizes.keys() - {"checkpoint.json"})
    record["files"] = [
        {
            "name": n,
            "size": (folder / n).stat().st_size,
            "digest": digest((folder / n).read_bytes()),
        }
        for n in names
    ]
    marker.write_text(json.dumps(record))


def remark(folder: Path, **fields: Any) -> None:
    """Change fields of a marker; `...` takes one away."""
    marker = folder / "checkpoint.json"
    record = json.loads(marker.read_text())
    record.update(fields)
    marker.write_text(json.dumps({k: v for k, v in record.items() if v is not ...}))


def set_times(path: Path, seconds: int) -> None:
    """Give a folder and everything in it one time of change."""
    for each in [*path.rglob("*"), path]:
        os.utime(each, (seconds, seconds))


def assert_left_alone(root: Path) -> None:
    """Hold that a folder of another trainer is no run to us, and that no command changes it."""
    before = tree(root)
    assert not [
        c
        for run in ckptui("ls", root, "--json").json()["runs"]
        for c in run["checkpoints"]
        if c["state"] != "unknown" or c["latest"] or c["resumable"]
    ]
    ckptui("show", "latest", "--run", root, code=1)
    ckptui("verify", root)
    for rules in (["--keep-last", "1"], ["--incomplete"], ["--keep-last", "1", "--incomplete"]):
        for how in ([], ["--delete"]):
            words = ["prune", str(root), *rules, *how, "--all-runs", "--yes"]
            ckptui(*words, code=1 if not ckptui("ls", root, "--json").json()["runs"] else 0)
    assert tree(root) == before


def assert_ignored_within(run: Path, foreign: Iterable[str]) -> None:
    """Hold that folders of another trainer inside a native run are told as ignored and stay."""
    names = set(foreign)
    before = {name: tree(run / name) for name in names}
    assert names <= set(run_form(run)["ignored"])
    said = ckptui("prune", run, "--keep-last", "1", "--incomplete", "--yes").said
    assert f"{len(names)} other name" in said
    assert {name: tree(run / name) for name in names} == before
