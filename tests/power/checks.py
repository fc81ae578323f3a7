"""What must be true of a directory that a power loss left: looked up on the disk, then judged.

`look` rebuilds nothing and promises nothing: it asks ckptui what it makes of the directory. `judge`
compares that with what the scenario had been promised before the power failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ckptui import journal, leases
from ckptui.checkpoint import Checkpoint, State
from ckptui.errors import CkptuiError
from ckptui.layouts.native_checkpoint import describe_folder
from ckptui.metrics import read_metrics
from ckptui.pins import read_pins
from ckptui.ranking import newest_resumable
from ckptui.remove import DELETING, list_trash
from ckptui.resume import decide
from ckptui.run_file import read_run_file
from ckptui.scan import scan_run
from ckptui.verify import verify_checkpoint
from tests.power.model import Operation, Remove, Rename, Tree, below
from tests.power.recorder import Note, Recording

RUNS = ("outputs/run", "outputs/fork")


@dataclass(frozen=True, slots=True)
class Facts:
    """What ckptui makes of one run."""

    complete: frozenset[str] = frozenset()
    """Published checkpoints that are listed as complete."""
    pinned: frozenset[str] = frozenset()
    """Names whose pin parses."""
    leased: frozenset[str] = frozenset()
    attempts: frozenset[int] = frozenset()
    rows: frozenset[int] = frozenset()
    """Steps of which all metrics can be read."""
    action: str = ""
    faults: tuple[str, ...] = ()
    """What is wrong whatever was promised."""


def look(run: Path, tree: Tree, inside: str, verified: dict[int, str]) -> Facts:
    """Ask ckptui about a run as it lies on the disk now.

    Args:
        run: The run's folder.
        tree: What was put there.
        inside: The run's folder in `tree`.
        verified: What a full verification said of checkpoints with this content, by its hash; the
            same content is not read again.
    """
    if not run.is_dir():
        return Facts(action=_decided(run)[0])
    faults: list[str] = []
    try:
        found = scan_run(run)
    except CkptuiError as e:
        # A folder without run.json and without a checkpoint is no run yet.
        if any(_has_content(tree, inside)):
            faults.append(f"scan_run: {e}")
        return Facts(action=_decided(run)[0], faults=tuple(faults))
    published = [c for c in found.checkpoints if not c.staged]
    complete = [c for c in published if c.complete]
    faults += [f"run: {p.what}" for p in found.problems]
    for c in complete:
        key = hash((c.name, *below(tree, f"{inside}/{c.name}").items()))
        if key not in verified:
            report = verify_checkpoint(c, full=True)
            verified[key] = f"{report.status} {report.problems or ''}".strip()
        if verified[key] != "verified" or c.problems:
            faults.append(f"{c.name}: {verified[key]} {c.problems or ''}")
    pins: dict[str, bool] = {}
    attempts: set[int] = set()
    rows: set[int] = set()
    try:
        pins = {name: pin.readable for name, pin in read_pins(run).items()}
        faults += [f"the pin of {name} cannot be read" for name, ok in pins.items() if not ok]
        record = read_run_file(run)
        attempts = {a.attempt for a in record.attempts} if record else set()
        history = read_metrics(run, found.attempts)
        # Rows that no save has made durable yet may be damaged: their steps are trained again.
        rows = {row.step for row in history.rows if {"loss", "lr"} <= row.metrics.keys()}
        _, damage = journal.read(run)
        faults += list(_in_the_middle(run / ".ckptui" / "journal.jsonl", damage))
        for item in list_trash(run):
            for name in item.names:
                there = describe_folder(run, name, item.folder / name, staged=True)
                broken = there is not None and there.state is State.BROKEN
                if broken and not item.id.endswith(DELETING):
                    faults.append(f"{name} in the trash item {item.id} is broken")
    except CkptuiError as e:
        faults.append(f"{type(e).__name__}: {e}")
    newest = newest_resumable(complete)
    action, source = _decided(run, newest)
    if (newest.name if newest else None) != source and not action.startswith("fork"):
        faults.append(f"auto means {action} {source}, but {newest and newest.name} is there")
    return Facts(
        complete=frozenset(c.name for c in complete),
        pinned=frozenset(name for name, ok in pins.items() if ok),
        leased=frozenset(leases.leased(run)),
        attempts=frozenset(attempts),
        rows=frozenset(rows),
        action=action,
        faults=tuple(faults),
    )


def _has_content(tree: Tree, inside: str) -> Iterator[str]:
    """What makes a folder a run: its run.json or a checkpoint with a marker."""
    for path in tree:
        below = path.removeprefix(f"{inside}/").split("/")
        if path.startswith(f"{inside}/") and (
            below == ["run.json"] or (len(below) == 2 and below[1] == "checkpoint.json")
        ):
            yield path


def _in_the_middle(path: Path, problems: Iterable[object]) -> Iterator[str]:
    """Damaged lines that are not the last one: a torn last line is what a crash may leave."""
    found = list(problems)
    if not found:
        return
    lines = path.read_bytes().split(b"\n")
    last = len(lines) if lines[-1] else len(lines) - 1
    for problem in found:
        if f"line {last} is damaged" not in str(problem):
            yield f"{path.name}: {problem}"


def _decided(run: Path, verified: Checkpoint | None = None) -> tuple[str, str | None]:
    """What a training with `resume=auto` would do."""
    try:
        decision = decide(run, "auto", verified=verified)
    except CkptuiError as e:
        return f"{type(e).__name__}: {e}", None
    return decision.action, decision.checkpoint.name if decision.checkpoint else None


@dataclass(frozen=True, slots=True)
class Promise:
    """What holds from one point of the recording on, up to another one."""

    what: str
    run: str
    name: str
    number: int
    begins: int
    """The first cut at which it holds."""
    ends: int
    """The first cut at which it holds no more."""
    content: Tree


def promises(recording: Recording) -> list[Promise]:
    """Everything the scenario was promised, with its time.

    A checkpoint's place is promised from the return of its save (or restore) until the recorded
    rename that takes it away; its content, here or in the trash, until its deletion begins.
    """
    operations = recording.operations
    found = []
    contents: dict[tuple[str, str], Tree] = {}
    before = start_contents(recording)
    notes = [Note(0, "saved", run, name, 0, tree) for (run, name), tree in before.items()]
    for note in [*notes, *recording.notes]:
        ends = _end(note, operations, recording.notes)
        found.append(Promise(note.what, note.run, note.name, note.number, note.at, ends, note.tree))
        if note.what == "saved":
            contents[note.run, note.name] = note.tree
        if note.what in ("saved", "restored"):
            content = contents[note.run, note.name]
            ends = _deletion(note, operations)
            found.append(Promise("kept", note.run, note.name, 0, note.at, ends, content))
    return found


def start_contents(recording: Recording) -> dict[tuple[str, str], Tree]:
    """The complete checkpoints that were there before the recording."""
    tree = recording.start.tree()
    found: dict[tuple[str, str], Tree] = {}
    for path in tree:
        folder, _, name = path.rpartition("/")
        run, _, checkpoint = folder.rpartition("/")
        if name == "checkpoint.json" and run in RUNS:
            found[run, checkpoint] = below(tree, folder)
    return found


_FOREVER = 1 << 60


def _end(note: Note, operations: tuple[Operation, ...], notes: tuple[Note, ...]) -> int:
    """The first cut at which what a note says is not promised any more."""
    home = f"{note.run}/{note.name}"
    pin = f"{note.run}/.ckptui/pins/{note.name}.json"
    for i, operation in enumerate(operations):
        if i < note.at:
            continue
        taken = (isinstance(operation, Rename) and operation.old_path == home) or (
            isinstance(operation, Remove) and operation.path.startswith(f"{home}/")
        )
        put = isinstance(operation, Rename) and operation.path == home
        match note.what:
            case "saved" | "restored" if taken:
                return i + 1
            case "removed" if put:
                return i + 1
            case "pinned" if isinstance(operation, Remove) and operation.path == pin:
                return i + 1
            case "unpinned" if getattr(operation, "path", "") == pin:
                return i + 1
            case _:
                pass
    if note.what == "leased":
        later = [n.at for n in notes if n.what == "saved" and n.run != note.run and n.at > note.at]
        return min(later, default=_FOREVER)
    return _FOREVER


def _deletion(note: Note, operations: tuple[Operation, ...]) -> int:
    """The first cut at which the deletion of a checkpoint, wherever it lies, may have begun."""
    place = f"{note.run}/{note.name}"
    for i, operation in enumerate(operations):
        if i < note.at:
            continue
        if isinstance(operation, Rename):
            if place == operation.old_path or place.startswith(f"{operation.old_path}/"):
                place = operation.path + place.removeprefix(operation.old_path)
                if operation.path.endswith(DELETING):
                    return i + 1
        elif isinstance(operation, Remove) and operation.path.startswith(f"{place}/"):
            return i + 1
    return _FOREVER


def judge(cut: int, tree: Tree, facts: dict[str, Facts], promised: Iterable[Promise]) -> list[str]:
    """What is wrong in a directory left by a power loss after `cut` operations."""
    found = [f"{run}: {fault}" for run, fact in facts.items() for fault in fact.faults]
    for promise in promised:
        if not promise.begins <= cut < promise.ends:
            continue
        fact = facts[promise.run]
        broken = ""
        match promise.what:
            case "saved" | "restored":
                if promise.name not in fact.complete:
                    broken = "is not there and complete"
            case "kept":
                if not _is_kept(tree, promise):
                    broken = "is neither in its place nor in the trash as it was saved"
            case "pinned":
                if promise.name not in fact.pinned:
                    broken = "has no pin that can be read"
            case "unpinned":
                if promise.name in fact.pinned:
                    broken = "is pinned again"
            case "removed":
                if promise.name in fact.complete:
                    broken = "is back"
            case "leased":
                if promise.name not in fact.leased or promise.name not in fact.complete:
                    broken = "is not protected for the fork"
            case "logged":
                if promise.number not in fact.rows:
                    broken = f"the row of step {promise.number} is lost"
            case "attempt":
                if promise.number not in fact.attempts:
                    broken = f"attempt {promise.number} is not recorded"
            case "deleted":
                pass  # its space is given back at some time: no name is promised to be gone
            case _:
                broken = f"unknown promise {promise.what}"
        if broken:
            found.append(f"{promise.run}: {promise.what} {promise.name}: {broken}")
    return found


def _is_kept(tree: Tree, promise: Promise) -> bool:
    ends = (f"{promise.run}/{promise.name}", f"{promise.run}/.ckptui/trash/")
    for path, content in tree.items():
        candidate = content is None and path.startswith(ends)
        if candidate and path.endswith(f"/{promise.name}") and below(tree, path) == promise.content:
            return True
    return False
