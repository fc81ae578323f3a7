from __future__ import annotations

import os
import shutil
import threading
from typing import TYPE_CHECKING, Any

import pytest

from ckptui.checkpoint import Root, Run, State
from ckptui.tui import inspecting, pages, surroundings
from ckptui.tui.pages import count_text
from ckptui.tui.screens.compare import CompareScreen
from ckptui.tui.screens.detail import DetailScreen
from ckptui.tui.screens.detail_keys import TABS
from ckptui.tui.screens.prune import PruneScreen
from ckptui.tui.screens.resume import ResumeDialog
from ckptui.tui.screens.verify import VerifyScreen
from ckptui.tui.widgets.table import Table
from tests.factory import RUN_ID, make_checkpoint, make_run
from tests.records import one
from tests.tui.driver import ESC, SIZES, Driver, drive

if TYPE_CHECKING:
    from pathlib import Path

    from ckptui.checkpoint import Checkpoint
    from ckptui.verify import Report

LOSSES = {10: 3.0, 20: 1.0, 30: 2.0}


@pytest.fixture(autouse=True)
def _no_tmux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMUX", raising=False)


def parent(name: str, step: int, attempt: int = 1, path: str | None = None) -> dict[str, Any]:
    return {"name": name, "step": step, "run_id": RUN_ID, "attempt": attempt, "path": path}


def three(path: Path) -> Path:
    """Three checkpoints, each the parent of the next; the last with other settings."""
    attempts: list[dict[str, Any]] = [
        {"attempt": 1, "parent": None, "start_step": 0, "started": "2026-01-01T00:00:00Z"},
        {
            "attempt": 2,
            "parent": parent("step_20", 20),
            "start_step": 20,
            "started": "2026-01-01T01:00:00Z",
            "host": "node7",
        },
    ]
    run = make_run(
        path,
        attempts=attempts,
        policy=["keep-last 2", "keep-best 1:eval_loss:min"],
        rows=[
            {"step": s, "attempt": 1 if s < 21 else 2, "loss": float(40 - s)} for s in (10, 20, 30)
        ],
    )
    before = None
    for step, loss in LOSSES.items():
        config = b"seed: 1\noptimizer: {lr: 0.5}\n" if step == 30 else b"seed: 0\nepochs: 2\n"
        make_checkpoint(
            run,
            f"step_{step}",
            step=step,
            attempt=2 if step == 30 else 1,
            metrics={"eval_loss": loss},
            parent=before,
            extra_files={"recipe_config.yaml": config},
        )
        before = parent(f"step_{step}", step)
    return run


def detail(d: Driver) -> DetailScreen:
    assert isinstance(d.app.screen, DetailScreen), d.app.screen
    return d.app.screen


def cells(screen: DetailScreen) -> dict[str, list[str]]:
    return {e.key: [c if isinstance(c, str) else c[0] for c in e.cells] for e in screen.table.rows}


@pytest.mark.parametrize("size", [*SIZES, (40, 10)])
def test_every_page_opens_by_its_digit_and_by_tab_and_says_which_it_is(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    async def script(d: Driver) -> None:
        await d.press("enter")
        screen = detail(d)
        for i, tab in enumerate(TABS, 1):
            await d.press(str(i))
            assert screen.tab == tab
            assert tab + "]" in d.lines[0].replace(f"{i} {tab}", tab)
            assert "step_30" in d.text
        await d.press("tab")
        assert screen.tab == "overview"
        await d.press("tab", "tab")
        assert screen.tab == "tensors"
        await d.press("shift+tab")
        assert screen.tab == "files"
        await d.press("shift+tab", "shift+tab")
        assert screen.tab == "lineage"
        await d.press("enter")
        assert d.app.screen is d.main

    drive(three(tmp_path / "run"), script, size=size)


def test_a_click_on_a_name_opens_its_page(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        await d.press("enter")
        for tab in ("tensors", "lineage", "overview"):
            await d.pilot.click("#tabs", offset=(d.lines[0].index(tab), 0))
            await d.settle()
            assert detail(d).tab == tab

    drive(three(tmp_path / "run"), script)


def test_the_overview_says_what_it_is_good_for(tmp_path: Path) -> None:
    run = three(tmp_path / "run")
    make_checkpoint(run, "step_40", step=40, attempt=2, nonfinite=["layer.weight"])

    async def script(d: Driver) -> None:
        await d.press("enter")
        for words in ("complete and resumable", "NaN or infinity in layer.weight"):
            assert words in d.words

    drive(run, script)


def test_files_are_shown_beside_what_lies_there(tmp_path: Path) -> None:
    run = three(tmp_path / "run")
    (run / "step_30" / "config.json").unlink()
    (run / "step_30" / "recipe_state.json").write_bytes(b"short")
    (run / "step_30" / "notes.txt").write_text("x")

    async def script(d: Driver) -> None:
        await d.press("enter", "2")
        found = cells(detail(d))
        assert found["config.json"][1:3] == ["-", "missing"]
        assert found["recipe_state.json"][1:3] == ["5 B", "other size"]
        assert found["notes.txt"][2] == "extra"
        assert found["model.safetensors"][2] == "ok"
        assert found["checkpoint.json"][2] == "marker"
        assert "3 not as recorded" in d.text
        assert "digest xxh3_128:" in d.text

    drive(run, script)


def test_columns_without_room_come_with_the_arrow(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        await d.press("enter", "2")
        assert "Digest" not in d.text
        await d.press("right")
        assert "Digest" in d.text

    drive(three(tmp_path / "run"), script, size=(60, 20))


def test_tensors_say_how_many_parameters_the_weights_have(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        await d.press("enter", "3")
        found = cells(detail(d))
        assert found["model.safetensors/layer.weight"][:3] == ["layer.weight", "F32", "3"]
        assert "2 tensors, 1 weights: 3 parameters, F32" in d.text

    drive(three(tmp_path / "run"), script)
    assert [count_text(n) for n in (0, 999, 1000, 124_439_808, 7_241_732_096)] == [
        "0",
        "999",
        "1.00 k",
        "124 M",
        "7.24 B",
    ]


def test_a_broken_header_is_a_sentence(tmp_path: Path) -> None:
    run = three(tmp_path / "run")
    for name in ("model.safetensors", "recipe_state.safetensors"):
        path = run / "step_30" / name
        path.write_bytes(b"\xff" * path.stat().st_size)

    async def script(d: Driver) -> None:
        await d.press("enter", "3")
        assert "is no safetensors file" in d.words
        assert "2 problems" in d.text

    drive(run, script)


def test_metrics_are_set_against_the_best_and_the_previous_checkpoint(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        await d.press("enter", "4")
        found = cells(detail(d))
        assert found["eval_loss"][1:6] == ["2", "+1", "1 @20", "+1 worse", "1"]
        assert found["loss"][1:6] == ["10", "best", "this one", "-10 better", "20"]
        assert "previous checkpoint step_20" in d.text
        await d.press("]", "]")  # the list shows the newest first
        assert cells(detail(d))["eval_loss"][4:6] == ["-", "-"]
        assert "the first checkpoint" in d.text

    drive(three(tmp_path / "run"), script, size=(160, 45))


def test_settings_are_set_against_the_parent_and_the_first(tmp_path: Path) -> None:
    run = three(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("enter", "5")
        found = cells(detail(d))
        assert found == {
            "seed": ["~", "seed", "1", "0", "0"],
            "optimizer.lr": ["~", "optimizer.lr", "0.5", "not set", "not set"],
            "epochs": ["~", "epochs", "not set", "2", "2"],
        }
        assert "3 differ from step_20, 3 from the first" in d.text
        await d.press("]")
        assert "No setting differs" in d.text
        await d.press("o")
        assert cells(detail(d))["seed"] == ["=", "seed", "0", "same", "same"]
        (run / "step_10" / "recipe_config.yaml").unlink()
        await d.press("]")
        assert "recipe_config.yaml is missing." in d.words
        await d.press("[")
        assert "parent step_10: recipe_config.yaml is missing." in d.words
        assert "from parent" not in d.text

    drive(run, script)


def test_lineage_goes_both_ways_and_lists_the_attempts(tmp_path: Path) -> None:
    run = three(tmp_path / "root" / "run")
    fork = make_run(tmp_path / "root" / "fork", run_id="b" * 32)
    there = str(run / "step_20")
    make_checkpoint(
        fork, "step_25", step=25, run_id="b" * 32, parent=parent("step_20", 20, path=there)
    )

    async def script(d: Driver) -> None:
        d.app.choose_run(run)
        await d.settle()
        d.main.select(run / "step_20")
        d.main.checkpoints.focus()
        await d.press("enter", "6")
        rows = [(c[0], c[1]) for c in cells(detail(d)).values()]
        assert rows == [
            ("went on to", "step_30"),
            ("went on to", "step_25"),
            ("this one", "step_20"),
            ("came from", "step_10"),
            ("attempt 2", "from step_20"),
            ("attempt 1", "from the start"),
        ]
        assert "fork fork" in d.text
        assert "1 before it, 2 continuations" in d.text

    drive(tmp_path / "root", script, size=(160, 45))


def test_a_fork_is_found_though_its_base_was_moved(tmp_path: Path) -> None:
    run = three(tmp_path / "root" / "moved")
    fork = make_run(tmp_path / "root" / "fork", run_id="b" * 32)
    before = parent("step_20", 20, path="/where/it/was/step_20")
    make_checkpoint(fork, "step_25", step=25, run_id="b" * 32, parent=before)

    async def script(d: Driver) -> None:
        views = d.app.reader.views
        child = views[fork].rows[0]
        known = inspecting.known_parent(views, child)
        assert known is not None
        assert known.checkpoint.path == run / "step_20"
        page = surroundings.lineage_page(known, known.run, [v.run for v in views.values()])
        assert [e.key.split()[0] for e in page.entries][:3] == ["next", "next", "this"]

    drive(tmp_path / "root", script, size=(160, 45))


def test_a_filter_shows_only_lines_that_hold_all_words(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        await d.press("enter", "2", "slash", *"safe")
        assert set(cells(detail(d))) == {"model.safetensors", "recipe_state.safetensors"}
        assert "2 of 6 shown" in d.text
        await d.press("space", *"model", "enter")
        assert set(cells(detail(d))) == {"model.safetensors"}
        await d.press("3")
        assert len(cells(detail(d))) == 2
        await d.press("2", "slash", "tab")
        assert not detail(d).has_class("-filtering")
        assert detail(d).tab == "tensors"
        await d.press("2", "escape")
        assert len(cells(detail(d))) == 6
        await d.press("slash", *"nothing")
        assert "No line holds nothing." in d.text
        await d.press("escape", "escape")
        assert d.app.screen is d.main

    drive(three(tmp_path / "run"), script)


@pytest.mark.parametrize("size", SIZES)
def test_its_keys_act_on_the_checkpoint_it_names(tmp_path: Path, size: tuple[int, int]) -> None:
    run = three(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("down", "enter", "p")
        assert (run / ".ckptui/pins/step_20.json").exists()
        assert "pinned" in d.text
        d.main.select(run / "step_30")  # whatever the list does behind
        await d.press("n", *"why", "enter")
        assert detail(d).row.checkpoint.note == "why"
        await d.press("r")
        assert isinstance(d.app.screen, ResumeDialog)
        assert "step_20" in d.text
        await d.press("escape", "V")
        assert isinstance(d.app.screen, VerifyScreen)
        assert "step_20" in d.text
        await d.press("escape", "y")
        assert "step_20" in d.text
        await d.press("enter")
        assert d.app.clipboard == str(run / "step_20")
        await d.press("escape", "equals_sign")
        assert isinstance(d.app.screen, CompareScreen)
        assert "A step_10" in d.lines[0]
        await d.press("escape", "p", "d")
        assert isinstance(d.app.screen, PruneScreen)
        assert "step_20" in d.text
        assert (run / "step_20").exists()

    drive(run, script, size=size)


def test_brackets_walk_through_the_list_and_the_page_stays(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        await d.press("enter", "2", "]")
        assert detail(d).row.checkpoint.name == "step_20"
        assert detail(d).tab == "files"
        assert "step_20" in d.text
        assert "2 of 3" in d.lines[0]
        assert d.current == "step_20"
        await d.press("]", "]")
        assert "step_10 is the last here." in d.text
        await d.press("[", "[", "[")
        assert "step_30 is the first here." in d.text

    drive(three(tmp_path / "run"), script)


def test_a_checkpoint_that_vanishes_is_told_as_gone_and_nothing_acts_on_it(tmp_path: Path) -> None:
    run = three(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("enter")
        (run / "step_30").rename(tmp_path / "away")
        d.app.reader.read_runs([run])
        await d.settle()
        assert "GONE" in d.text
        for key in ("p", "n", "r", "V", "d", "equals_sign"):
            await d.press(key)
            assert isinstance(d.app.screen, DetailScreen)
            assert "step_30 is gone." in d.lines[-2]
        await d.press("2")
        assert "step_30 is gone." in d.lines[2]
        assert "No such file" not in d.lines[2]
        (tmp_path / "away").rename(run / "step_30")
        d.app.reader.read_runs([run])
        await d.settle()
        assert "GONE" not in d.text

    drive(run, script)


def test_pages_of_one_that_is_gone_say_so_and_no_longer_what_was_missing(tmp_path: Path) -> None:
    run = three(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("enter", "6")
        (run / "step_30").rename(tmp_path / "away")
        d.app.reader.read_runs([run])
        await d.settle()
        assert cells(detail(d))[f"this {run / 'step_30'} 2"][4] == "gone"
        assert "p pin" not in d.lines[-1]
        await d.press("1")
        assert "step_30 is gone. What follows is the last that was seen." in d.words
        assert "was ok" in d.words
        assert "Best by" not in d.text
        await d.press("3")
        assert "model.safetensors is missing." in d.text
        assert "no tensors" not in d.text
        await d.press("4")
        assert "is missing" not in d.text

    drive(run, script)


def test_comparing_with_a_parent_that_is_removed_is_not_offered(tmp_path: Path) -> None:
    run = three(tmp_path / "run")
    shutil.rmtree(run / "step_20")

    async def script(d: Driver) -> None:
        await d.press("enter")
        assert "= compare" not in d.lines[-1]
        await d.press("equals_sign")
        assert "Its parent is removed, so there is nothing to compare with." in d.text
        await d.press("right_square_bracket")
        assert "training began with it" not in d.text

    drive(run, script, size=(120, 40))


def test_the_words_of_a_filter_are_shown_while_it_holds(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        await d.press("enter", "2", "slash", *"json", "enter")
        assert "/json: 3 of 6 shown" in d.text
        await d.press("1", "slash", *"step", "enter")
        assert "/step:" in d.text

    drive(three(tmp_path / "run"), script)


def test_another_checkpoint_of_the_same_name_is_not_taken_for_it(tmp_path: Path) -> None:
    run = three(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("enter")
        (run / "step_30").rename(tmp_path / "away")
        make_checkpoint(run, "step_30", step=30, attempt=3)
        d.app.reader.read_runs([run])
        await d.settle()
        assert detail(d).gone == "step_30 is gone; another checkpoint has its name now."

    drive(run, script)


def test_pages_follow_what_changes_on_the_disk(tmp_path: Path) -> None:
    run = three(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("enter", "6")
        make_checkpoint(run, "step_40", step=40, attempt=2, parent=parent("step_30", 30, 2))
        d.app.reader.read_runs([run])
        await d.settle()
        assert "step_40" in " ".join(c[1] for c in cells(detail(d)).values())

    drive(run, script)


def test_a_checkpoint_that_is_being_written_is_followed_to_its_name(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    staged = one(
        5,
        run=run,
        path=run / ".ckptui/staging/step_5-x",
        state=State.WRITING,
        staged=True,
        created_text=None,
    )
    published = one(5, run=run, path=run / "step_5", created_text="2026-01-01T00:00:00Z")
    there = [staged]

    def scan(path: Path, **_: object) -> Root:
        found = Run(path=run, name="run", run_id="a", layout="native", checkpoints=tuple(there))
        return Root(path=path, runs=(found,))

    async def script(d: Driver) -> None:
        await d.press("enter")
        assert "step_5  writing" in d.text
        there[:] = [published]
        d.app.reader.read_runs([run])
        await d.settle()
        assert "step_5  ok" in d.text
        assert detail(d).row.checkpoint.path == run / "step_5"

    drive(run, script, scan=scan)


def test_the_first_checkpoint_has_no_parent_to_compare_with(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        await d.press("end", "enter", "equals_sign")
        assert "step_10 has no parent: training began with it." in d.text
        await d.press("4")
        assert "the first checkpoint" in d.text
        await d.press("6")
        assert "none before it" in d.text

    drive(three(tmp_path / "run"), script)


def test_of_what_has_no_marker_it_is_not_told_how_it_began(tmp_path: Path) -> None:
    run = three(tmp_path / "run")
    (run / "step_30" / "checkpoint.json").write_text("{")

    async def script(d: Driver) -> None:
        assert "no metrics at this step" not in d.text
        assert "metrics not known: nothing tells which attempt saved it" in d.text
        await d.press("enter", "equals_sign")
        assert "What step_30 came from is not known: checkpoint.json is unreadable." in d.words
        assert "Metrics not known: nothing tells which attempt saved it" in d.words
        await d.press("4")
        assert "The log has values at this step, but nothing tells which attempt" in d.words
        assert "metrics not known, no previous checkpoint is known" in d.words
        await d.press("6")
        assert "what was before it is not known" in d.words

    drive(run, script)


def test_where_the_one_before_is_removed_none_is_the_first_checkpoint(tmp_path: Path) -> None:
    run = three(tmp_path / "run")
    shutil.rmtree(run / "step_10")

    async def script(d: Driver) -> None:
        d.main.select(run / "step_20")
        await d.press("enter", "4")
        assert "came from step_10, which is removed" in d.words
        await d.press("6", "end", "up", "up")
        assert "step_10 was removed; only it recorded whether anything was before it." in d.words
        assert "Attempt 1 began from the start." in d.words
        assert "unknown" not in d.text

    drive(run, script)


def test_a_parent_in_a_run_that_is_not_open_is_read_from_the_disk(tmp_path: Path) -> None:
    base = three(tmp_path / "base")
    fork = make_run(tmp_path / "fork", run_id="b" * 32)
    for step, path in ((25, str(base / "step_20")), (26, str(base / "step_9"))):
        make_checkpoint(
            fork,
            f"step_{step}",
            step=step,
            run_id="b" * 32,
            parent=parent(path.rpartition("/")[2], 20, path=path),
        )

    async def script(d: Driver) -> None:
        await d.press("enter", "equals_sign")
        assert "is not there any more" in d.words
        await d.press("]", "equals_sign")
        assert isinstance(d.app.screen, CompareScreen)
        assert "A step_20 of base" in d.lines[0]

    drive(fork, script)


def test_what_is_still_being_read_never_shows_another_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = pages.files_page
    gate = threading.Event()

    def slow(checkpoint: Checkpoint, report: Report | None) -> pages.Page:
        if checkpoint.name == "step_20":
            assert gate.wait(20)
        return real(checkpoint, report)

    monkeypatch.setattr(pages, "files_page", slow)

    async def script(d: Driver) -> None:
        await d.press("enter", "2")
        assert cells(detail(d))
        await d.pilot.press("]")
        await d.until(lambda: "Reading ..." in d.text)
        assert "step_20" in d.text
        assert not detail(d).table.rows
        await d.pilot.press("]")
        await d.until(lambda: bool(detail(d).table.rows))
        gate.set()
        await d.settle()
        assert "step_10" in d.text
        assert str(10) in detail(d).table.border_title  # type: ignore[operator] # it has one

    drive(three(tmp_path / "run"), script)


def test_news_that_change_nothing_draw_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def script(d: Driver) -> None:
        await d.press("enter", "2")
        table = detail(d).table
        drawn: list[int] = []
        monkeypatch.setattr(table, "set_rows", lambda rows, **_: drawn.append(len(rows)))
        detail(d).state_changed()
        await d.settle()
        assert not drawn

    drive(three(tmp_path / "run"), script)


def test_ten_thousand_files_are_a_table_like_any_other(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1])
    for i in range(10_000):
        (run / "step_1" / f"extra-{i:05}").touch()

    async def script(d: Driver) -> None:
        await d.press("enter", "2", "end")
        assert "extra-09999" in d.text
        assert "10006 files" in d.text

    drive(run, script)


def test_hostile_names_and_settings_are_shown_and_never_obeyed(tmp_path: Path) -> None:
    evil = f"[@click=app.quit]{ESC}]0;owned\x07"
    text = '"k[/b]\\x1b[2J": "[red]\\x1b]0;owned\\x07"\n'
    run = make_run(
        tmp_path / "run",
        [1],
        metrics={1: {evil: 1.0}},
        parent={"name": evil, "path": "/" + evil, "run_id": evil},
        extra_files={"recipe_config.yaml": os.fsencode(text), f"a{evil}": b"x"},
    )

    async def script(d: Driver) -> None:
        await d.press("enter")
        for i in range(1, len(TABS) + 1):
            await d.press(str(i), "o")
            assert not set(d.text) & {ESC, "\x07"}
            await d.press("down")
            if i > 1:
                await d.press("slash", "]", "escape")
            assert not set(d.text) & {ESC, "\x07"}
            assert isinstance(d.app.screen, DetailScreen)

    drive(run, script)


@pytest.mark.parametrize("size", SIZES)
def test_the_overview_is_as_wide_after_other_pages_as_before(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    async def script(d: Driver) -> None:
        await d.press("enter")
        before = d.lines[1:-1]
        assert "ok: complete and resumable" in d.text
        await d.press("2", "1")
        assert d.lines[1:-1] == before
        await d.press(*["tab"] * len(TABS))
        assert d.lines[1:-1] == before

    drive(three(tmp_path / "run"), script, size=size)


def test_letters_typed_after_the_slash_are_words_on_the_overview_too(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        await d.press("enter")
        assert "words that a line must hold" not in d.text
        await d.press("slash", *"prd")
        assert not detail(d).row.checkpoint.pinned
        assert "No line holds prd." in d.text
        assert d.lines[-1].split("  ")[:2] == [" enter to the lines", "tab page"]
        assert "p pin" not in d.lines[-1]
        await d.press(*["backspace"] * 3, *"saved")
        assert "Saved" in d.text
        assert "resumable" not in d.text
        assert "2 of " in d.text  # when, and how long ago
        await d.press("enter")
        assert "resumable" not in d.text
        assert "p pin" in d.lines[-1]
        assert "words that a line must hold" not in d.text
        await d.press("escape")
        assert "resumable" in d.text
        await d.press("escape")
        assert d.app.screen is d.main

    drive(three(tmp_path / "run"), script)


def test_the_key_for_all_settings_says_what_it_does_next(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        await d.press("enter", "5")
        assert "o all" in d.lines[-1]
        await d.press("o")
        assert "o differing" in d.lines[-1]
        await d.press("o")
        assert "o all" in d.lines[-1]

    drive(three(tmp_path / "run"), script, size=(160, 45))


def test_lineage_goes_on_across_checkpoints_that_are_removed(tmp_path: Path) -> None:
    attempts: list[dict[str, Any]] = [
        {"attempt": 1, "parent": None, "start_step": 0, "started": "2026-01-01T00:00:00Z"},
        {
            "attempt": 2,
            "parent": parent("step_30", 30),
            "start_step": 30,
            "started": "2026-01-01T01:00:00Z",
        },
    ]
    run = make_run(tmp_path / "run", attempts=attempts)
    # 20 and 30 of the first attempt and 35 of the second are removed; 40 was abandoned.
    for step, attempt, before in [(10, 1, None), (40, 1, (30, 1)), (50, 2, (35, 2))]:
        make_checkpoint(
            run,
            f"step_{step}",
            step=step,
            attempt=attempt,
            parent=parent(f"step_{before[0]}", *before) if before is not None else None,
        )

    async def script(d: Driver) -> None:
        d.main.select(run / "step_50")
        await d.press("enter", "6")
        rows = [(c[0], c[1], c[4]) for c in cells(detail(d)).values()][:4]
        assert rows == [
            ("this one", "step_50", "ok"),
            ("came from", "step_35", "removed"),
            ("earlier", "step_10", "ok"),
            ("attempt 2", "from step_30", "2026-01-01 01:00"),
        ]
        d.main.select(run / "step_10")
        await d.press("escape")
        d.main.select(run / "step_10")
        await d.press("enter", "6")
        rows = [(c[0], c[1], c[4]) for c in cells(detail(d)).values()][:3]
        assert rows == [
            ("went on to", "step_50", "ok, via step_35"),
            ("went on to", "step_40", "ok, via step_30"),
            ("this one", "step_10", "ok"),
        ]
        assert "none before it, 2 continuations" in d.text

    drive(run, script, size=(160, 45))


def test_what_is_not_known_of_a_lineage_is_said_in_words(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    make_checkpoint(run, "step_50", step=50, parent=parent("step_35", 35))

    async def script(d: Driver) -> None:
        await d.press("enter", "6", "end", "up")
        assert "earlier" in d.text
        assert "not known" in d.text
        assert "step_35 was removed; only it recorded whether anything was before it." in d.text
        assert "1 before it, no continuation is known" in d.text

    drive(run, script, size=(120, 40))


@pytest.mark.parametrize("text", [b"short", None])
def test_damage_that_the_list_has_not_seen_is_read_anew(tmp_path: Path, text: bytes | None) -> None:
    run = three(tmp_path / "run")

    async def script(d: Driver) -> None:
        await d.press("enter")
        assert "complete and resumable" in d.text
        path = run / "step_30" / "model.safetensors"
        folder = path.parent.stat()
        if text is None:
            path.unlink()
        else:
            path.write_bytes(text)
        os.utime(path.parent, ns=(folder.st_atime_ns, folder.st_mtime_ns))
        await d.press("2")
        assert "other size" in d.text or "missing" in d.text
        await d.press("1")
        assert "complete and resumable" not in d.text
        assert detail(d).row.checkpoint.state is State.BROKEN

    drive(run, script)


def test_a_narrow_lineage_still_says_what_is_removed(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    make_checkpoint(run, "step_50", step=50, parent=parent("step_35", 35))

    async def script(d: Driver) -> None:
        await d.press("enter", "6")
        line = next(x for x in d.lines if "step_35" in x)
        assert "removed" in line

    drive(run, script, size=(60, 20))


def test_what_verification_found_is_said_wherever_the_checkpoint_is(tmp_path: Path) -> None:
    run = three(tmp_path / "run")
    path = run / "step_30" / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)

    async def script(d: Driver) -> None:
        await d.press("enter")
        assert "resumable" in d.text
        await d.press("V", "escape")
        assert "step_30  ok, FAILED when verified" in d.text
        assert "by the sizes of its files, but not by their content" in d.words
        assert "complete and resumable" not in d.text
        await d.press("right_square_bracket", "V", "escape")
        assert "in this session: every byte is as it was written" in d.words
        await d.press("left_square_bracket", "2")
        assert "FAILED when verified" in d.lines[1]
        files = cells(detail(d))
        assert files["model.safetensors"][2] == "FAILED"
        assert files["config.json"][2] == "verified"
        d.app.screen.query_one("#files", Table).cursor = list(files).index("model.safetensors")
        await d.settle()
        assert "has other content than was written" in d.words
        await d.press("right_square_bracket")
        assert {c[2] for c in cells(detail(d)).values()} == {"verified", "marker"}
        await d.press("left_square_bracket")
        await d.press("escape")
        assert "step_30   ok, latest   FAILED when verified" in d.text
        await d.press("c")
        assert "step 30   FAILED when verified" in d.text

    drive(run, script)


def test_of_what_has_no_step_no_metrics_are_known(tmp_path: Path) -> None:
    make_checkpoint(tmp_path / "run", "epoch_1", step=1, marker=False)

    async def script(d: Driver) -> None:
        await d.press("enter", "4")
        assert "Nothing tells at which step it was saved: its metrics are not known." in d.words
        assert "metrics not known" in d.words

    drive(tmp_path / "run", script)
