"""The file-system model itself: what it takes back, and what it must not."""

from __future__ import annotations

from tests.power.model import (
    ROOT,
    Crashes,
    Create,
    Link,
    Operation,
    Remove,
    Rename,
    State,
    Sync,
    Tree,
    Truncate,
    Write,
)
from tests.power.simulate import enumerate_losses


def left(operations: list[Operation], start: State | None = None) -> list[Tree]:
    """Every directory that a power loss after the last operation can leave, once each."""
    crashes = Crashes(tuple(operations), start or State())
    found: list[Tree] = []
    for cut, fates in enumerate_losses(crashes, seed=0, subsets=0):
        tree = crashes.tree(cut, fates)
        if cut == len(operations) and tree not in found:
            found.append(tree)
    return found


def create(name: str, node: int, parent: int = ROOT) -> Create:
    return Create(parent, name, node, False, name)


def folder(name: str, node: int, parent: int = ROOT) -> Create:
    return Create(parent, name, node, True, name)


def rename(old: str, new: str, node: int, old_parent: int = ROOT, parent: int = ROOT) -> Rename:
    return Rename(old_parent, old, parent, new, node, old, new)


def write(node: int, data: bytes, offset: int = 0) -> Write:
    return Write(node, offset, data, "")


def sync(node: int) -> Sync:
    return Sync(node, "")


def test_content_that_was_not_synced_may_be_lost_torn_or_zero() -> None:
    found = left([create("a", 1), sync(ROOT), write(1, b"data")])
    assert found == [{"a": b"data"}, {"a": b""}, {"a": b"da"}, {"a": b"\0\0\0\0"}]


def test_a_synced_file_keeps_its_content_but_not_its_name() -> None:
    assert left([create("a", 1), write(1, b"data"), sync(1)]) == [{"a": b"data"}, {}]


def test_a_synced_file_with_a_synced_name_stays() -> None:
    assert left([create("a", 1), write(1, b"data"), sync(1), sync(ROOT)]) == [{"a": b"data"}]


def test_a_write_before_another_may_be_lost_alone() -> None:
    found = left([create("a", 1), sync(ROOT), write(1, b"one"), write(1, b"two", 3)])
    assert {"a": b"\0\0\0two"} in found
    assert {"a": b"one"} in found


def test_replacing_a_file_by_one_that_was_not_synced_may_lose_both() -> None:
    start = State({ROOT: {"a": 1}}, {1: b"old"})
    steps: list[Operation] = [create("t", 2), write(2, b"new"), rename("t", "a", 2), sync(ROOT)]
    assert {"a": b""} in left(steps, start)
    steps.insert(2, sync(2))
    assert left(steps, start) == [{"a": b"new"}]


def test_a_rename_is_there_or_not_and_never_half() -> None:
    start = State({ROOT: {"a": 1, "d": 2}, 1: {"f": 3}, 2: {}}, {3: b"x"})
    old: Tree = {"a": None, "a/f": b"x", "d": None}
    new: Tree = {"d": None, "d/a": None, "d/a/f": b"x"}
    move = rename("a", "a", 1, ROOT, 2)
    assert left([move], start) == [new, old]
    assert left([move, sync(ROOT)], start) == [new, old]
    assert left([move, sync(2)], start) == [new]


def test_what_is_in_a_folder_goes_with_the_folders_name() -> None:
    steps: list[Operation] = [folder("d", 1), create("f", 2, 1), write(2, b"x"), sync(2), sync(1)]
    assert left(steps) == [{"d": None, "d/f": b"x"}, {}]


def test_a_durable_rename_needs_no_durable_old_name() -> None:
    start = State({ROOT: {"s": 1}, 1: {}})
    steps: list[Operation] = [folder("p", 2, 1), rename("p", "final", 2, 1, ROOT), sync(ROOT)]
    assert left(steps, start) == [{"s": None, "final": None}]


def test_names_in_one_folder_are_lost_in_any_combination() -> None:
    found = left([create("a", 1), create("b", 2)])
    assert found == [{"a": b"", "b": b""}, {}, {"b": b""}, {"a": b""}]


def test_a_removal_that_was_not_synced_may_be_undone() -> None:
    start = State({ROOT: {"a": 1}}, {1: b"x"})
    remove = Remove(ROOT, "a", 1, False, "a")
    assert left([remove], start) == [{}, {"a": b"x"}]
    assert left([remove, sync(ROOT)], start) == [{}]


def test_a_link_has_the_content_of_its_file() -> None:
    steps: list[Operation] = [
        create("t", 1),
        write(1, b"x"),
        sync(1),
        Link(ROOT, "a", 1, "a"),
        Remove(ROOT, "t", 1, False, "t"),
        sync(ROOT),
    ]
    assert left(steps) == [{"a": b"x"}]
    assert {} in left(steps[:-1])


def test_a_file_made_shorter_may_be_long_again() -> None:
    start = State({ROOT: {"a": 1}}, {1: b"data"})
    assert left([Truncate(1, 1, "a")], start) == [{"a": b"d"}, {"a": b"data"}]
