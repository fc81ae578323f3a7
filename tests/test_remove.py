"""Into the trash, back, or for good: nothing followed, nothing half, nothing that must stay."""

from __future__ import annotations

import errno
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ckptui import journal, leftovers, pins, process, remove
from ckptui.errors import CkptuiError, NotFoundError, RefusedError, StorageError
from ckptui.scan import scan_run
from tests.factory import make_checkpoint, make_run
from tests.sweep import tree

if TYPE_CHECKING:
    from collections.abc import Callable

    from ckptui.checkpoint import Checkpoint
    from ckptui.remove import TrashItem


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path / "run", [1, 2, 3])


def at(run: Path, name: str) -> Checkpoint:
    return next(c for c in scan_run(run).checkpoints if c.name == name)


def names(run: Path) -> list[str]:
    return [c.name for c in scan_run(run).checkpoints]


def trash(run: Path, *which: str) -> TrashItem:
    item = remove.move_to_trash([at(run, n) for n in which], why="rm")
    return remove.find_item(run, item)


def no_folder_renames(monkeypatch: pytest.MonkeyPatch, code: int = errno.ENOSYS) -> None:
    rename: Callable[..., None] = os.rename

    def refuse(source: str, target: str, **more: int) -> None:
        if Path(source).is_dir():
            raise OSError(code, os.strerror(code))
        rename(source, target, **more)

    monkeypatch.setattr(os, "rename", refuse)


class TestTrash:
    def test_a_checkpoint_goes_and_comes_back_byte_for_byte(self, run: Path) -> None:
        before = tree(run / "step_2")
        item = trash(run, "step_2")
        assert names(run) == ["step_1", "step_3"]
        assert (item.name, item.step, item.why, item.pinned) == ("step_2", 2, "rm", False)
        assert item.when is not None
        assert item.size == sum(len(v) for v in before.values())
        assert remove.restore(item) == ("step_2",)
        assert tree(run / "step_2") == before
        assert remove.list_trash(run) == ()
        events, _ = journal.read(run)
        assert [e.what for e in events] == ["rm", "restore"]

    def test_several_are_one_item(self, run: Path) -> None:
        item = trash(run, "step_1", "step_3")
        assert (item.names, item.step) == (("step_1", "step_3"), 1)
        assert remove.restore(item) == ("step_1", "step_3")

    def test_a_taken_name_is_not_restored_onto(self, run: Path) -> None:
        item = trash(run, "step_1", "step_2")
        make_checkpoint(run, "step_2", step=2, attempt=2)
        before = tree(run / "step_2")
        with pytest.raises(RefusedError, match="is taken"):
            remove.restore(item)
        assert tree(run / "step_2") == before
        assert names(run) == ["step_2", "step_3"]

    def test_even_a_dangling_link_takes_a_name(self, run: Path) -> None:
        item = trash(run, "step_1")
        (run / "step_1").symlink_to("nowhere")
        with pytest.raises(RefusedError, match="is taken"):
            remove.restore(item)

    def test_restoring_twice_tells_that_it_is_gone(self, run: Path) -> None:
        item = trash(run, "step_1")
        remove.restore(item)
        shutil.rmtree(run / "step_1")
        with pytest.raises(NotFoundError):
            remove.restore(item)

    def test_what_is_gone_already_is_told_and_leaves_no_item(self, run: Path) -> None:
        found = at(run, "step_1")
        shutil.rmtree(found.path)
        with pytest.raises(NotFoundError):
            remove.move_to_trash([found], why="rm")
        assert remove.list_trash(run) == ()
        assert not list((run / ".ckptui" / "trash").iterdir())

    def test_one_that_was_replaced_meanwhile_stays(self, run: Path) -> None:
        found = at(run, "step_1")
        shutil.rmtree(found.path)
        make_checkpoint(run, "step_1", step=1, attempt=2)
        with pytest.raises(remove.ChangedError, match="has changed"):
            remove.move_to_trash([found], why="prune")
        assert at(run, "step_1").attempt == 2

    def test_one_that_was_completed_meanwhile_stays(self, run: Path) -> None:
        make_checkpoint(run, "step_9", step=9, marker=False)
        found = at(run, "step_9")
        shutil.rmtree(found.path)
        make_checkpoint(run, "step_9", step=9)
        with pytest.raises(remove.ChangedError):
            remove.move_to_trash([found], why="prune")
        assert at(run, "step_9").complete

    def test_one_that_became_a_link_stays(self, run: Path) -> None:
        found = at(run, "step_1")
        found.path.rename(run / "elsewhere")
        found.path.symlink_to("elsewhere")
        with pytest.raises(remove.ChangedError, match="no folder"):
            remove.move_to_trash([found], why="prune")
        assert (run / "elsewhere" / "model.safetensors").exists()

    def test_one_that_is_pinned_by_now_stays(self, run: Path) -> None:
        found = at(run, "step_1")
        pins.pin(found)
        with pytest.raises(remove.ChangedError, match="pinned now"):
            remove.move_to_trash([found], why="prune")
        assert at(run, "step_1").complete

    def test_one_that_is_replaced_between_the_look_and_the_move_comes_back(
        self, run: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found = at(run, "step_1")
        real = remove.move_folder
        swapped: list[bool] = []

        def swap(source: Path, target: Path) -> None:
            if not swapped:
                swapped.append(True)
                shutil.rmtree(source)
                make_checkpoint(run, "step_1", step=1, attempt=2)
            real(source, target)

        monkeypatch.setattr(remove, "move_folder", swap)
        with pytest.raises(remove.ChangedError):
            remove.move_to_trash([found], why="prune")
        assert at(run, "step_1").attempt == 2


class TestLinks:
    @pytest.mark.parametrize("link", [".ckptui", ".ckptui/trash"])
    def test_nothing_is_moved_or_deleted_through_a_link(self, run: Path, link: str) -> None:
        outside = run.with_name("outside")
        place = outside / "trash" if link == ".ckptui" else outside
        make_checkpoint(place / "an-item", "step_8", step=8)
        if link != ".ckptui":
            (run / ".ckptui").mkdir()
        (run / link).symlink_to(outside)
        before = tree(outside)
        with pytest.raises(RefusedError, match="is a link"):
            remove.move_to_trash([at(run, "step_1")], why="rm")
        assert remove.list_trash(run) == ()
        with pytest.raises(NotFoundError):
            remove.find_item(run, "an-item")
        assert tree(outside) == before
        assert names(run) == ["step_1", "step_2", "step_3"]

    def test_an_item_that_is_a_link_is_no_item(self, run: Path) -> None:
        outside = run.with_name("outside")
        make_checkpoint(outside, "step_8", step=8)
        item = trash(run, "step_1")
        (item.folder.parent / "zz").symlink_to(outside)
        assert [i.id for i in remove.list_trash(run)] == [item.id]
        forged = replace(item, id="zz", names=("step_8",), homes=("step_8",))
        for act in (remove.empty, remove.restore):
            with pytest.raises(CkptuiError):
                act(forged)
        assert (outside / "step_8" / "model.safetensors").exists()

    def test_staging_that_is_a_link_is_not_swept(self, run: Path) -> None:
        outside = run.with_name("outside")
        make_checkpoint(outside, "precious", step=8)
        (run / ".ckptui").mkdir()
        (run / ".ckptui" / "staging").symlink_to(outside)
        assert leftovers.clear(run) == 0
        remove.drop_staging(run / ".ckptui" / "staging")
        assert (outside / "precious" / "model.safetensors").exists()

    def test_links_inside_a_checkpoint_go_and_their_targets_stay(self, run: Path) -> None:
        outside = run.with_name("outside")
        outside.mkdir()
        (outside / "data").write_text("precious")
        (run / "step_1" / "out").symlink_to(outside)
        (run / "step_1" / "file").symlink_to(outside / "data")
        (run / "step_1" / "loop").symlink_to(".")
        assert remove.empty(trash(run, "step_1")).error is None
        assert (outside / "data").read_text() == "precious"
        assert names(run) == ["step_2", "step_3"]

    @pytest.mark.parametrize("odd", ["..", ".", "", "../../step_1", "a/b", "/etc"])
    def test_an_id_leads_nowhere_else(self, run: Path, odd: str) -> None:
        trash(run, "step_2")
        with pytest.raises(NotFoundError):
            remove.find_item(run, odd)


class TestEntries:
    def entry(self, run: Path, text: str) -> TrashItem:
        item = trash(run, "step_1")
        (item.folder / "entry.json").write_text(text)
        return remove.find_item(run, item.id)

    @pytest.mark.parametrize(
        "text", ["", "{", "[]", "[" * 10_000, '{"checkpoints": 7}', '{"checkpoints": [7, {}]}']
    )
    def test_a_damaged_entry_does_not_hide_the_checkpoint(self, run: Path, text: str) -> None:
        before = tree(run / "step_1")
        item = self.entry(run, text)
        assert (item.names, item.step) == (("step_1",), 1)
        remove.restore(item)
        assert tree(run / "step_1") == before

    @pytest.mark.parametrize(
        "home",
        ["../../outside", "/tmp/x", ".ckptui/staging/..", ".ckptui/staging/../../x", "step_7", 5],
    )
    def test_an_entry_cannot_send_a_checkpoint_elsewhere(self, run: Path, home: Any) -> None:
        rows = [{"name": "step_1", "from": home, "step": "NaN"}]
        item = self.entry(run, json.dumps({"checkpoints": rows, "why": "\x1b[2J", "when": "never"}))
        assert item.homes == ("step_1",)
        assert item.why == "rm"
        remove.restore(item)
        assert names(run) == ["step_1", "step_2", "step_3"]

    def test_a_staged_one_goes_back_to_staging(self, run: Path) -> None:
        folder = make_checkpoint(run / ".ckptui" / "staging", "step_9-ab", step=9, marker=False)
        old = 10**9
        for path in (folder, *folder.iterdir()):
            os.utime(path, (old, old))
        item = trash(run, "step_9")
        remove.restore(item)
        assert folder.exists()


class TestEmptying:
    def test_space_comes_back_and_a_pin_goes_with_its_checkpoint(self, run: Path) -> None:
        item = trash(run, "step_1")
        size = sum(len(v) for v in tree(item.path).values())
        pins.pin_path(run, "step_1").parent.mkdir()
        pins.pin_path(run, "step_1").write_text("{}")
        emptied = remove.empty(remove.find_item(run, item.id))
        assert (emptied.freed, emptied.error) == (size, None)
        assert not pins.is_pinned(run, "step_1")

    def test_the_pin_of_one_that_stands_again_stays(self, run: Path) -> None:
        item = trash(run, "step_1")
        make_checkpoint(run, "step_1", step=1, attempt=2)
        pins.pin(at(run, "step_1"))
        remove.empty(item)
        assert at(run, "step_1").pinned

    def test_a_pin_made_during_the_deletion_stays(
        self, run: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        item = trash(run, "step_1")
        real = remove._delete_tree

        def meanwhile(path: Path) -> remove.Emptied:
            pins.pin_path(run, "step_1").parent.mkdir(exist_ok=True)
            pins.pin_path(run, "step_1").write_text("{}")
            return real(path)

        monkeypatch.setattr(remove, "_delete_tree", meanwhile)
        remove.empty(item)
        assert pins.is_pinned(run, "step_1")

    def test_what_began_to_be_deleted_is_told_and_not_restored(self, run: Path) -> None:
        item = trash(run, "step_1")
        item.folder.rename(item.folder.with_name(item.id + remove.DELETING))
        (again,) = remove.list_trash(run)
        assert "not finished" in again.problems[0].what
        with pytest.raises(RefusedError, match="had begun"):
            remove.restore(again)
        assert remove.empty(again).error is None
        assert remove.list_trash(run) == ()

    def test_emptying_twice_frees_nothing_more_and_is_told_once(self, run: Path) -> None:
        item = trash(run, "step_2")
        remove.empty(item)
        again = remove.empty(item)
        assert (again.freed, again.error, again.last) == (0, None, False)
        assert [e.what for e in journal.read(run)[0]].count("empty") == 1

    def test_two_at_one_item_tell_of_it_once(
        self, run: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The second one finds it half deleted, and takes the rest away under the first."""
        item = trash(run, "step_2")
        unlink = os.unlink
        answers = []

        def first(path: Any, **more: Any) -> None:
            monkeypatch.setattr(os, "unlink", unlink)
            unlink(path, **more)
            (half,) = remove.list_trash(run)
            answers.append(remove.empty(half))

        monkeypatch.setattr(os, "unlink", first)
        answers.append(remove.empty(item))
        assert [a.last for a in answers] == [True, False]
        assert sum(a.freed for a in answers) == item.size
        assert [e.what for e in journal.read(run)[0]].count("empty") == 1

    def test_what_was_brought_back_in_that_moment_is_not_deleted(
        self, run: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        item = trash(run, "step_2")
        rename = Path.rename

        def late(self: Path, target: Any) -> Path:
            monkeypatch.setattr(Path, "rename", rename)
            remove.restore(item)
            item.folder.mkdir(exist_ok=True)
            return rename(self, target)

        monkeypatch.setattr(Path, "rename", late)
        emptied = remove.empty(item)
        assert "step_2 was brought back" in (emptied.error or "")
        assert at(run, "step_2").complete
        assert "empty" not in [e.what for e in journal.read(run)[0]]

    def test_the_journal_says_why_it_was_emptied(self, run: Path) -> None:
        remove.empty(trash(run, "step_1"), reason="the disk was full")
        remove.empty(trash(run, "step_2"))
        told = [(e.checkpoints, e.reason) for e in journal.read(run)[0] if e.what == "empty"]
        assert told == [(("step_1",), "the disk was full"), (("step_2",), None)]

    def test_a_hard_link_frees_only_with_its_last_name(self, run: Path) -> None:
        os.link(run / "step_1" / "model.safetensors", run / "step_2" / "extra.bin")
        size = (run / "step_1" / "model.safetensors").stat().st_size
        item = trash(run, "step_1")
        whole = sum(len(v) for v in tree(item.path).values())
        assert remove.empty(item).freed == whole - size

    @pytest.mark.parametrize("call", ["rmdir", "unlink"])
    def test_what_will_not_go_is_told_and_the_rest_goes(
        self, run: Path, monkeypatch: pytest.MonkeyPatch, call: str
    ) -> None:
        real: Callable[..., None] = getattr(os, call)

        def refuse(path: Any, **more: Any) -> None:
            if str(path).endswith(("step_1", "config.json")):
                raise OSError(errno.ENOTEMPTY, "Directory not empty")
            real(path, **more)

        item = trash(run, "step_1")
        monkeypatch.setattr(os, call, refuse)
        emptied = remove.empty(item)
        assert emptied.error is not None
        assert "cannot be deleted" in emptied.error
        assert emptied.freed > 0
        monkeypatch.undo()
        (rest,) = remove.list_trash(run)
        assert not (rest.folder / "step_1" / "checkpoint.json").exists()
        assert names(run) == ["step_2", "step_3"]

    def test_b80_a_folder_that_may_not_be_written_costs_only_itself(
        self, open_folder: Path
    ) -> None:
        from tests.users import as_ordinary_user

        run = make_run(open_folder / "run", [1, 2], extra_files={"sub/a": b"1234"})
        (run / "step_1" / "sub").chmod(0o555)
        code = (
            "run = folder / 'run'\n"
            "for c in scan.scan_run(run).checkpoints:\n"
            "    item = remove.move_to_trash([c], why='rm')\n"
            "    done = remove.empty(remove.find_item(run, item))\n"
            "    print(c.name, c.size - done.freed, done.error)\n"
        )
        first, second = as_ordinary_user(open_folder, code)
        assert first.startswith("step_1 4 ")
        assert "Permission denied" in first
        assert second == "step_2 0 None"


class TestWithoutFolderRenames:
    @pytest.mark.parametrize("code", [errno.ENOSYS, errno.EOPNOTSUPP])
    def test_b100_files_move_one_by_one_and_come_back(
        self, run: Path, monkeypatch: pytest.MonkeyPatch, code: int
    ) -> None:
        (run / "step_1" / "deep" / "er").mkdir(parents=True)
        (run / "step_1" / "deep" / "er" / "x").write_text("x")
        before = tree(run / "step_1")
        no_folder_renames(monkeypatch, code)
        item = trash(run, "step_1")
        assert not (run / "step_1").exists()
        assert tree(item.path) == before
        remove.restore(item)
        assert tree(run / "step_1") == before
        assert remove.list_trash(run) == ()
        assert remove.empty(trash(run, "step_1")).error is None
        assert names(run) == ["step_2", "step_3"]

    def test_a_pinned_one_is_put_back(self, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        before = tree(run / "step_1")
        found = at(run, "step_1")
        no_folder_renames(monkeypatch)
        answers = [False, True]
        monkeypatch.setattr(remove, "is_pinned", lambda *_: answers.pop(0))
        with pytest.raises(remove.ChangedError):
            remove.move_to_trash([found], why="prune")
        assert tree(run / "step_1") == before

    @pytest.mark.parametrize("fails_at", range(1, 7))
    def test_a_disk_that_fails_in_between_gets_everything_back(
        self, run: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int
    ) -> None:
        before = tree(run / "step_1")
        found = at(run, "step_1")
        no_folder_renames(monkeypatch)
        rename: Callable[..., None] = os.rename
        moves: list[str] = []

        def failing(source: str, target: str, **more: int) -> None:
            if "step_1" in str(source) and Path(source).is_file():
                moves.append(str(source))
                if len(moves) == fails_at:
                    raise OSError(errno.EIO, "Input/output error")
            rename(source, target, **more)

        monkeypatch.setattr(os, "rename", failing)
        with pytest.raises(StorageError):
            remove.move_to_trash([found], why="prune")
        assert tree(run / "step_1") == before
        assert remove.list_trash(run) == ()


@pytest.mark.parametrize("entry", [None, "gone", "alive", "other"])
@pytest.mark.parametrize("old", [False, True])
def test_sweeping_forgets_items_that_nothing_was_moved_into(
    run: Path, entry: str | None, old: bool
) -> None:
    folder = run / ".ckptui/trash/20260101T000000000000-abcdef"
    folder.mkdir(parents=True)
    if entry is not None:
        kinds: dict[str, dict[str, int | str | None]] = {
            "gone": {"start_time": 1},
            "other": {"boot_id": "x"},
            "alive": {},
        }
        changes = kinds[entry]
        who = {"process": {**process.identity(), **changes}}
        (folder / "entry.json").write_text(json.dumps(who))
    if old:
        os.utime(folder, (1, 1))
    leftovers.clear(run)
    assert folder.exists() == (not old and entry != "gone")


@pytest.mark.parametrize("part", ["pins", "leases", "requests"])
def test_sweeping_takes_temporary_files_of_writers_that_are_gone(run: Path, part: str) -> None:
    folder = run / ".ckptui" / part
    folder.mkdir(parents=True, exist_ok=True)
    for name in (".old.json.abc.tmp", ".new.json.abc.tmp", "step_1.json"):
        (folder / name).write_text("{}")
    os.utime(folder / ".old.json.abc.tmp", (1, 1))
    os.utime(folder / "step_1.json", (1, 1))
    leftovers.clear(run)
    assert {p.name for p in folder.iterdir()} == {".new.json.abc.tmp", "step_1.json"}


def test_sweeping_finishes_a_deletion(run: Path) -> None:
    item = trash(run, "step_2")
    item.folder.rename(item.folder.with_name(item.id + remove.DELETING))
    other = trash(run, "step_1")
    assert leftovers.clear(run) == item.size
    assert [i.id for i in remove.list_trash(run)] == [other.id]
    assert len(list((run / ".ckptui/trash").iterdir())) == 1


def test_sweeping_takes_staging_and_torn_temporary_files_only(run: Path) -> None:
    make_checkpoint(run / ".ckptui" / "staging", "step_9-ab", step=9)
    (run / ".run.json.abc.tmp").write_text("{")
    (run / ".config.yaml.abc.tmp").write_text("{")
    (run / ".mine.tmp").write_text("keep")
    assert leftovers.clear(run) > 0
    assert sorted(n for n in os.listdir(run) if n.startswith(".")) == [".ckptui", ".mine.tmp"]
    assert not list((run / ".ckptui" / "staging").iterdir())
    assert names(run) == ["step_1", "step_2", "step_3"]
