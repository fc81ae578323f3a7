"""Read-only as a guarantee: with the switch on, no function changes anything on the disk."""

from __future__ import annotations

import inspect
import json
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ckptui import guard, leftovers, lock, pins, prune, remove, requests
from ckptui.errors import ReadOnlyError, RefusedError
from ckptui.retention import KeepLast, PrunePlan, plan_prune
from ckptui.scan import scan_run
from tests.cli.harness import Terminal, process, strict
from tests.factory import make_checkpoint, make_run
from tests.live_trainer import DEAF, LiveTrainer
from tests.records import NOW
from tests.users import as_ordinary_user

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from ckptui.checkpoint import Checkpoint


@pytest.fixture(autouse=True)
def _allowed_again(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(guard.ENV, raising=False)
    yield
    guard.allow_changes()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with everything that can be changed: pins, trash, what kills left, a dead lock."""
    run = make_run(tmp_path / "run", range(1, 7))
    checkpoints = by_name(run)
    pins.pin(checkpoints["step_2"], note="dip")
    remove.move_to_trash([checkpoints["step_1"]], why="rm")
    trash = run / ".ckptui" / "trash"
    make_checkpoint(trash / "20250101T000000000000-aaaaaa.deleting", "step_9", step=9)
    (trash / "20250101T000000000000-bbbbbb.deleting").mkdir()
    (trash / "20250101T000000000000-cccccc").mkdir()
    os.utime(trash / "20250101T000000000000-cccccc", (1, 1))
    make_checkpoint(run / ".ckptui" / "staging", "step_7-0123", step=7, marker=False)
    owner = {"token": "t", "host": "h", "boot_id": "b", "pid": 1, "counter": 0}
    (run / ".ckptui" / "lock").write_text(json.dumps(owner))
    return run


def by_name(run: Path) -> dict[str, Checkpoint]:
    return {c.name: c for c in scan_run(run).checkpoints}


def everything(path: Path) -> dict[str, object]:
    """All names below a path with kind, content, links and times of change."""
    found: dict[str, object] = {}
    for folder, folders, files in os.walk(path):
        for name in (*folders, *files):
            whole = Path(folder) / name
            info = whole.lstat()
            content = whole.read_bytes() if name in files else b""
            found[str(whole)] = (info.st_mode, info.st_ino, info.st_mtime_ns, content)
        found[folder] = os.stat(folder).st_mtime_ns  # noqa: PTH116 - beside os.walk
    return found


def item(run: Path, *, begun: bool = False) -> remove.TrashItem:
    """What lies in the trash: whole, or with its deletion begun."""
    return next(i for i in remove.list_trash(run) if i.id.endswith(remove.DELETING) is begun)


def plan_of(run: Path) -> PrunePlan:
    return plan_prune(scan_run(run).checkpoints, [KeepLast(1)], now=NOW)


CHANGES: dict[str, Callable[[Path], object]] = {
    "pin": lambda run: pins.pin(by_name(run)["step_3"]),
    "pin again with a note": lambda run: pins.pin(by_name(run)["step_2"], note="new"),
    "unpin": lambda run: pins.unpin(by_name(run)["step_2"]),
    "move to the trash": lambda run: remove.move_to_trash([by_name(run)["step_3"]], why="rm"),
    "rewind": lambda run: remove.move_to_trash([by_name(run)["step_6"]], why="rewind"),
    "delete in place": lambda run: remove.delete_in_place(by_name(run)["step_3"]),
    "restore": lambda run: remove.restore(item(run)),
    "empty": lambda run: remove.empty(item(run)),
    "go on with a deletion": lambda run: remove.empty(item(run, begun=True)),
    "drop staging": lambda run: remove.drop_staging(run / ".ckptui/staging/step_7-0123"),
    "forget": lambda run: remove.forget(run / ".ckptui/trash/20250101T000000000000-cccccc"),
    "clear the trash": leftovers.clear_trash,
    "clear everything": leftovers.clear,
    "prune": lambda run: list(prune.execute(plan_of(run))),
    "prune for good": lambda run: list(prune.execute(plan_of(run), delete=True)),
    "begin to prune": lambda run: prune.execute(plan_of(run)),
    "unlock": lambda run: lock.unlock(run, report=print),
    "ask": requests.ask,
}


@pytest.mark.parametrize("by", ["switch", "environment"])
@pytest.mark.parametrize("what", CHANGES)
def test_nothing_on_the_disk_changes_while_changes_are_forbidden(
    run: Path, monkeypatch: pytest.MonkeyPatch, what: str, by: str
) -> None:
    if by == "switch":
        guard.forbid_changes("it is an audit")
    else:
        monkeypatch.setenv(guard.ENV, "1")
    before = everything(run.parent)
    with pytest.raises(ReadOnlyError) as caught:
        CHANGES[what](run)
    assert everything(run.parent) == before
    assert isinstance(caught.value, RefusedError)
    message = str(caught.value)
    assert message.startswith("ckptui is read-only here and does not ")
    assert message.endswith(("it is an audit.", "CKPTUI_READ_ONLY is set."))
    assert "\n" not in message


@pytest.mark.parametrize("what", sorted(CHANGES.keys() - {"begin to prune", "unlock", "ask"}))
def test_each_of_them_does_change_the_disk_once_they_are_allowed(run: Path, what: str) -> None:
    before = everything(run.parent)
    guard.forbid_changes("for a while")
    guard.allow_changes()
    CHANGES[what](run)
    assert everything(run.parent) != before


def test_a_live_trainer_is_not_asked(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", [1])
    with LiveTrainer(run, DEAF):
        guard.forbid_changes("x")
        with pytest.raises(ReadOnlyError, match="ask r for a save"):
            requests.ask(run)
        assert not (run / ".ckptui" / "requests").exists()


@pytest.mark.parametrize(("value", "off"), [("", True), ("0", True), ("1", False), ("no", False)])
def test_the_environment_forbids_with_anything_but_zero(
    monkeypatch: pytest.MonkeyPatch, value: str, off: bool
) -> None:
    monkeypatch.setenv(guard.ENV, value)
    assert (guard.forbidden() is None) is off
    guard.allow_changes()
    assert (guard.forbidden() is None) is off


def test_the_switch_is_thrown_for_every_thread_and_between_two_removals(run: Path) -> None:
    steps = prune.execute(plan_of(run))
    first = next(steps)
    assert first.done
    thread = threading.Thread(target=guard.forbid_changes, args=("enough",))
    thread.start()
    thread.join()
    before = everything(run)
    rest = list(steps)
    assert rest
    assert not any(r.done for r in rest)
    assert all("enough" in str(r.error) for r in rest)
    assert everything(run) == before


def test_the_trainer_of_a_run_goes_on_and_only_there(tmp_path: Path) -> None:
    run, other = (make_run(tmp_path / n, (1, 2, 3)) for n in ("r", "s"))
    (tmp_path / "link").symlink_to(run)
    guard.forbid_changes("x")
    with lock.acquire(run, report=print):
        assert pins.pin(by_name(tmp_path / "link")["step_1"])
        assert all(r.done for r in prune.execute(plan_of(run)))
        with pytest.raises(ReadOnlyError):
            pins.pin(by_name(other)["step_1"])
    with pytest.raises(ReadOnlyError):
        pins.unpin(by_name(run)["step_1"])


@pytest.mark.parametrize(
    "line",
    [
        "pin step_3 step_4",
        "unpin step_2 step_3",
        "prune {run} --keep-last 1 --yes",
        "prune {run} --keep-last 1",
        "prune {run} --incomplete --delete --yes",
        "rm step_3 --yes",
        "rm step_3",
        "trash restore step_1",
        "trash empty --yes",
        "trash empty",
        "trash empty step_1 --yes",
        "save-now {run} --wait 0",
        "save-now {run}",
        "unlock {run}",
        "demo --no-browse",
    ],
)
def test_a_command_that_would_change_something_is_refused_in_one_sentence(
    run: Path, line: str
) -> None:
    make_checkpoint(run, "step_8", step=8, marker=False)
    if "--incomplete" in line:
        (run / ".ckptui" / "lock").unlink()  # what may still be being written stays anyway
    words = line.format(run=run).split()
    env = {"CKPTUI_READ_ONLY": "1", "CKPTUI_RUN": str(run)}
    before = everything(run.parent)
    done = process(*words, env=env, cwd=run.parent)
    assert (done.returncode, b"Traceback" in done.stderr) == (1, False)
    told = done.stderr.decode().splitlines()[-1]
    assert told.startswith("ckptui: ckptui is read-only here and does not ")
    assert told.endswith(": CKPTUI_READ_ONLY is set.")
    if "demo" not in line:
        yes = [] if "--yes" in words or words[0] not in ("prune", "rm") else ["--yes"]
        error = strict(process(*words, "--json", *yes, env=env).stdout.decode())["error"]
        assert error["kind"] == "refused"
        assert error["message"] == told.removeprefix("ckptui: ")
    assert everything(run.parent) == before


def test_nobody_is_asked_what_is_refused_anyway(run: Path) -> None:
    terminal = Terminal("prune", run, "--keep-last", "1", env={"CKPTUI_READ_ONLY": "1"})
    assert terminal.end() == 1
    assert "[y/N]" not in terminal.text
    assert "read-only here" in terminal.text


@pytest.mark.parametrize(
    "line",
    [
        "ls",
        "show latest",
        "metrics",
        "log",
        "verify",
        "prune --keep-last 1 -n",
        "trash list",
    ],
)
def test_what_only_looks_works_as_ever(run: Path, line: str) -> None:
    env = {"CKPTUI_READ_ONLY": "1"}
    before = everything(run.parent)
    assert process(*line.split(), env=env, cwd=run).returncode == 0
    assert everything(run.parent) == before


def test_a_run_that_can_be_changed_is_not_read_only(run: Path) -> None:
    assert guard.why_read_only(run) is None
    guard.forbid_changes("browse was started with --read-only")
    assert guard.why_read_only(run) == "read-only: browse was started with --read-only"


def test_a_folder_of_somebody_else_names_its_owner(open_folder: Path) -> None:
    make_run(open_folder / "run", [1])
    (open_folder / "run" / ".ckptui" / "trash").mkdir(parents=True)
    lines = as_ordinary_user(
        open_folder,
        """
from ckptui import guard
print(guard.why_read_only(folder / "run"))
print(guard.why_read_only(Path("/")))
for name in ("run/.ckptui/trash", "run/.ckptui", "run"):
    (folder / name).chmod(0o555)
    print(guard.why_read_only(folder / "run"))
print(guard.why_read_only(folder / "none"))
(folder / "run").chmod(0)
print(guard.why_read_only(folder / "run"))
(folder / "run").chmod(0o755)
""",
    )
    assert lines == [
        "None",
        "read-only: owned by root",
        "read-only: the permissions of trash forbid writing",
        "read-only: the permissions of .ckptui forbid writing",
        "read-only: the permissions of run forbid writing",
        "None",
        "read-only: the permissions of run forbid writing",
    ]


def test_an_owner_without_a_name_is_a_number(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives a folder away")
    os.chown(run, 4_000_000, -1)
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    assert guard.why_read_only(run) == "read-only: owned by user 4000000"


def test_a_read_only_disk_is_told(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs(run)
    flags = list(real)
    flags[8] |= os.ST_RDONLY
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(flags))
    assert guard.why_read_only(run) == "read-only file system"


def test_a_run_that_cannot_be_looked_at_says_why(run: Path) -> None:
    (run / ".ckptui" / "pins" / "step_2.json").unlink()
    (run / ".ckptui" / "pins").rmdir()
    (run / ".ckptui" / "pins").symlink_to("pins")
    assert guard.why_read_only(run) == f"read-only: {os.strerror(40)}"


GUARDED = {
    *("move_to_trash", "delete_in_place", "restore", "empty", "drop_staging", "forget"),
    *("pin", "unpin", "execute", "unlock", "ask"),
}
HARMLESS = {
    *("find_item", "list_trash", "is_pinned", "pin_path", "read_pins", "read_owner", "lock_path"),
    *("read_pin", "refuse_unpinnable"),
    *("is_live", "is_local", "is_surely_live", "is_dead", "signs_of_life"),
    "move_folder",  # moves what it is told to; saving publishes with it
    "acquire",  # begins a training
    *("wait", "withdraw"),  # take back what only `ask` may have written
}


@pytest.mark.parametrize("module", [remove, pins, prune, lock, requests])
def test_a_new_function_that_changes_a_run_is_to_be_listed_here(module: ModuleType) -> None:
    """So that nobody forgets the guard: what asks it is tried above, the rest is known to look."""
    public = {n for n, f in vars(module).items() if inspect.isfunction(f) and not n.startswith("_")}
    own = {n for n in public if vars(module)[n].__module__ == module.__name__}
    assert own <= GUARDED | HARMLESS
    for name in own & GUARDED:
        assert "guard.require_changes_allowed(" in inspect.getsource(vars(module)[name])
