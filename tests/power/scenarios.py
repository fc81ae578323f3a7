"""What is done to a run while it is recorded, and how a user goes on after the power is back.

Each scenario tells by `note` what it has been promised: that a save call returned, a pin, and so
on.
"""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from ckptui import TrainingRun, leases, leftovers, pins, prune, remove
from ckptui.checkpoint import Checkpoint
from ckptui.retention import parse_rule, plan_prune
from ckptui.save import Draft, save_checkpoint
from ckptui.scan import scan_run
from tests.factory import RUN_ID, make_run, safetensors_bytes


class Note(Protocol):
    def __call__(self, what: str, run: Path, name: str = "", number: int = 0) -> None: ...


class Scenario(Protocol):
    """Something that is recorded."""

    torch: bool
    """Whether it trains with torch."""

    def prepare(self, root: Path) -> None:
        """Make what is there, durable, before the recording."""

    def act(self, root: Path, note: Note) -> None:
        """Do what is recorded."""

    def go_on(self, run: Path) -> None:
        """Use the run again, after a crash, and leave one more checkpoint in it."""


def quiet(_: str) -> None:
    """Nobody reads the reports."""


def at(run: Path, name: str) -> Checkpoint:
    return next(c for c in scan_run(run).checkpoints if c.name == name and not c.staged)


class Trained:
    """A tiny model, trained: everything a user does to its run over a few days."""

    torch = True
    beside = False
    """Whether it is saved beside training."""

    def prepare(self, root: Path) -> None:
        import torch

        _ = root
        torch.set_num_threads(1)

    def act(self, root: Path, note: Note) -> None:
        run = root / "outputs" / "run"
        self.train(run, 4, note, policy=["keep-last 2"], config={"a": 1})
        pins.pin(at(run, "step_3"), note="good")
        note("pinned", run, "step_3")
        self.train(run, 7, note, policy=["keep-last 2"], prune_to_trash=True)
        assert pins.unpin(at(run, "step_3"))
        note("unpinned", run, "step_3")
        item = move_away(run, "step_6", note)
        remove.restore(remove.find_item(run, item))
        note("restored", run, "step_6")
        move_away(run, "step_3", note)
        for found in remove.list_trash(run):
            assert remove.empty(found).error is None
        self.train(run, 8, note, resume=run / "step_6", rewind=3)
        fork = root / "outputs" / "fork"
        self.train(fork, 8, note, resume=run / "step_7", before_saving=lambda: trim(run, note))
        trim(run, note)

    def train(self, run: Path, until: int, note: Note, **more: Any) -> None:
        train(run, until, note, beside=self.beside, **more)

    def go_on(self, run: Path) -> None:
        steps = train(run, None, None, policy=["keep-last 3"])
        found = scan_run(run)
        assert f"step_{steps}" in [c.name for c in found.checkpoints if c.resumable]


class TrainedBeside(Trained):
    """The same, saved in the background."""

    beside = True


def train(
    run: Path,
    until: int | None,
    note: Note | None,
    *,
    beside: bool = False,
    before_saving: Callable[[], None] = lambda: None,
    **settings: Any,
) -> int:
    """Train to a step, or one step further, and save after each."""
    import torch

    torch.manual_seed(1)
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with TrainingRun(run, report=quiet, **settings) as training:
        training.register(model=model, optimizer=optimizer)
        step = training.resume()
        if note is not None:
            note("attempt", run, number=training.attempt)
        before_saving()
        while True:
            loss = model(torch.ones(1, 2)).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            training.log(step, loss=loss)
            training.log(step, lr=0.1)
            if beside:
                training.async_save(step).add_done_callback(
                    functools.partial(saved, note, run, step)
                )
            else:
                training.save(step)
                saved(note, run, step)
            if until is None or step >= until:
                return step


def saved(note: Note | None, run: Path, step: int, done: Future[Checkpoint] | None = None) -> None:
    """Note that a checkpoint was promised to stand."""
    if done is not None:
        done.result()
    if note is not None:
        note("saved", run, f"step_{step}", step)
        note("logged", run, number=step)


def move_away(run: Path, name: str, note: Note) -> str:
    item = remove.move_to_trash([at(run, name)], why="rm")
    note("removed", run, name)
    return item


def trim(run: Path, note: Note) -> None:
    """Prune a run by hand; what a fork still needs stays."""
    found = scan_run(run)
    plan = plan_prune(
        found.checkpoints,
        [parse_rule("keep-last 1")],
        now=datetime.now(UTC),
        protected=leases.leased(run),
    )
    for removal in prune.execute(plan, delete=True):
        assert removal.error is None, removal.error
        note("removed", run, removal.checkpoint.name)


class Plain:
    """One thing done to a run that was never touched before: nothing else makes it durable."""

    torch = False
    steps: Sequence[int] = (1, 2, 3)

    def prepare(self, root: Path) -> None:
        make_run(root / "outputs" / "run", self.steps)

    def act(self, root: Path, note: Note) -> None:
        self.on(root / "outputs" / "run", note)

    def on(self, run: Path, note: Note) -> None:
        raise NotImplementedError

    def go_on(self, run: Path) -> None:
        leftovers.clear(run)
        save(run, 9)
        pins.pin(at(run, "step_9"))
        for item in remove.list_trash(run):
            remove.empty(item)
        found = scan_run(run)
        assert "step_9" in [c.name for c in found.checkpoints if c.resumable and c.pinned]
        assert not [c for c in found.checkpoints if c.staged]
        assert not found.trash_count


def save(run: Path, step: int) -> Checkpoint:
    draft = Draft(
        name=f"step_{step}",
        step=step,
        epoch=0,
        run_id=RUN_ID,
        attempt=1,
        contains=("weights", "optimizer"),
        resumable=True,
    )
    return save_checkpoint(run, draft, lambda folder: fill(folder, step))


def fill(folder: Path, step: int) -> None:
    (folder / "model.safetensors").write_bytes(safetensors_bytes({"w": [1.0, float(step)]}))
    (folder / "recipe_state.json").write_text(f'{{"format": 1, "steps_run": {step}}}')
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "tokenizer.json").write_text("{}")


class Save(Plain):
    """Two saves, the second of which replaces what a crash left."""

    def prepare(self, root: Path) -> None:
        super().prepare(root)
        left = root / "outputs" / "run" / "step_5"
        left.mkdir()
        (left / "model.safetensors").write_bytes(b"half")

    def on(self, run: Path, note: Note) -> None:
        for step in (4, 5):
            note("saved", run, save(run, step).name, step)


class SaveByFiles(Save):
    """The same where folders cannot be renamed: file by file, the marker last."""

    def prepare(self, root: Path) -> None:
        super().prepare(root)
        rename = os.rename

        def refuse(source: Any, target: Any, **more: Any) -> None:
            if Path(source).is_dir():
                raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), os.fspath(source))
            rename(source, target, **more)

        os.rename = refuse  # type: ignore[assignment] # only what is called here

    def on(self, run: Path, note: Note) -> None:
        note("saved", run, save(run, 4).name, 4)


class SaveAnew(Plain):
    """The first checkpoint of a run that is only a `run.json` yet."""

    steps = ()

    def on(self, run: Path, note: Note) -> None:
        note("saved", run, save(run, 1).name, 1)


class Pin(Plain):
    """Pinned, unpinned, and pinned with another note."""

    def on(self, run: Path, note: Note) -> None:
        pins.pin(at(run, "step_1"), note="a")
        note("pinned", run, "step_1")
        pins.pin(at(run, "step_2"))
        note("pinned", run, "step_2")
        pins.pin(at(run, "step_1"), note="b")
        pins.unpin(at(run, "step_2"))
        note("unpinned", run, "step_2")


class Removal(Plain):
    """Moved to the trash, and brought back; then emptied away."""

    def on(self, run: Path, note: Note) -> None:
        item = move_away(run, "step_1", note)
        remove.restore(remove.find_item(run, item))
        note("restored", run, "step_1")
        item = move_away(run, "step_2", note)
        assert remove.empty(remove.find_item(run, item)).error is None


class Pruning(Plain):
    """Pruned at once, a pinned one among them."""

    steps = (1, 2, 3, 4)

    def on(self, run: Path, note: Note) -> None:
        pins.pin(at(run, "step_2"))
        note("pinned", run, "step_2")
        trim(run, note)


class InPlace(Plain):
    """Deleted where folders cannot be renamed."""

    def on(self, run: Path, note: Note) -> None:
        assert remove.delete_in_place(at(run, "step_1")).error is None
        note("deleted", run, "step_1")


class Leased(Plain):
    """A fork asks for its source, on a run that was never touched."""

    def on(self, run: Path, note: Note) -> None:
        fork = run.parent / "fork"
        with TrainingRun(fork, resume=run / "step_2", report=quiet):
            note("attempt", fork, number=1)
            note("leased", run, "step_2")
            trim(run, note)


class Rewound(Plain):
    """A rewind, on a run that was never touched."""

    def on(self, run: Path, note: Note) -> None:
        with TrainingRun(run, resume=run / "step_1", rewind=2, report=quiet):
            note("attempt", run, number=2)
            note("removed", run, "step_2")
            note("removed", run, "step_3")


SCENARIOS: dict[str, Scenario] = {
    "trained": Trained(),
    "trained-beside": TrainedBeside(),
    "save": Save(),
    "save-anew": SaveAnew(),
    "save-by-files": SaveByFiles(),
    "pin": Pin(),
    "removal": Removal(),
    "pruning": Pruning(),
    "in-place": InPlace(),
    "leased": Leased(),
    "rewound": Rewound(),
}
