from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len

from ckptui.checkpoint import FileEntry, Pin, State
from ckptui.standing import Standing
from ckptui.tui import facts, listing
from ckptui.tui.listing import Look
from ckptui.tui.snapshot import Row
from ckptui.tui.widgets.detail import Detail, fact_lines
from tests.factory import make_checkpoint
from tests.records import many, one, run_of
from tests.tui.driver import Driver, drive, small_run

if TYPE_CHECKING:
    from pathlib import Path

    from ckptui.checkpoint import Checkpoint

NOW = datetime(2026, 6, 1, tzinfo=UTC)
LOOK = Look(now=NOW)


def row(checkpoint: Checkpoint, *others: Checkpoint, **fields: object) -> Row:
    run = run_of([*others, checkpoint])
    return replace(Row(run, checkpoint, Standing()), **fields)  # type: ignore[arg-type] # of a row


def told(found: list[facts.Fact]) -> dict[str, str]:
    return {f.label: f.text for f in found if f.label}


def test_what_goes_at_the_next_save_is_said_where_the_reason_to_stay_would_be() -> None:
    found = told(facts.full(row(one(1), going=True), LOOK))
    assert found["Goes"] == "at the next save, by the run's own rules; p keeps it"
    assert "Kept by" not in found
    kept = Row(run_of([one(1)]), one(1), Standing(kept_by=("last 3",)))
    assert told(facts.full(kept, LOOK))["Kept by"] == "last 3"
    assert told(facts.full(row(one(1)), LOOK))["Kept by"] == "the run has no policy"


def test_what_is_gone_or_not_yet_read_is_said_first() -> None:
    gone = facts.full(row(one(1), gone="removed meanwhile"), LOOK)
    assert (gone[0].label, gone[0].text) == ("Gone", "removed meanwhile")
    unread = told(facts.full(row(one(1), unread=True), LOOK))
    assert unread["Reading"] == "only its name is known so far"
    assert "State" not in unread
    lines = facts.short(row(one(1), gone="removed meanwhile"), LOOK, width=80)
    assert lines[2] == "gone      removed meanwhile"


def test_a_pin_has_its_note_on_a_line_of_its_own() -> None:
    pin = Pin(name="step_1", who="ann", when=NOW - timedelta(hours=2), note="before the LR drop")
    found = facts.full(row(one(1, pin=pin)), LOOK)
    assert told(found)["Pin"] == "pinned by ann, 2 h ago: no rule removes it"
    assert told(found)["Note"] == "before the LR drop"
    ahead = replace(pin, when=NOW + timedelta(hours=2))  # by another host's clock
    found = facts.full(row(one(1, pin=ahead)), LOOK)
    assert told(found)["Pin"] == "pinned by ann, in the future: no rule removes it"
    unreadable = facts.full(row(one(1, pin=Pin(name="step_1", readable=False))), LOOK)
    assert any("protects all the same" in f.text for f in unreadable)


def test_metrics_are_set_against_the_checkpoint_before() -> None:
    earlier = [one(s, metrics={"loss": 5.0 - s}) for s in (1, 2)]
    broken = one(3, state=State.BROKEN, metrics={"loss": 0.0})
    here = one(4, metrics={"loss": 2.5, "acc": None})
    found = [f.text for f in facts.full(row(here, *earlier, broken), LOOK, width=50)]
    assert "Metrics here, and since step_2" in found
    (loss,) = (text for text in found if text.startswith("loss"))
    assert loss.split()[:3] == ["loss", "2.5", "-0.5"]
    (acc,) = (text for text in found if text.startswith("acc"))
    assert acc.split()[:2] == ["acc", "nan"]


@pytest.mark.parametrize("name", ["loss", "損失", "e\u0301val"])
@pytest.mark.parametrize("width", [20, 34, 60])
def test_values_stand_below_each_other_whatever_the_names(name: str, width: int) -> None:
    here = one(4, metrics={name: 2.5, "other_metric": 1.0})
    found = [f.text for f in facts.full(row(here), LOOK, width=width) if f.wide and "." in f.text]
    ends = {cell_len(text[: text.index(".")]) for text in found}
    assert len(ends) == 1


def test_resuming_is_said_to_go_on_or_to_fork() -> None:
    older, newer = one(1), one(2)
    weights = one(3, state=State.WEIGHTS)
    run = run_of([older, newer, weights])
    said = [
        told(facts.full(Row(run, c, Standing()), LOOK)).get("Resume")
        for c in (older, newer, weights, one(1, current=False))
    ]
    assert said == [
        "forks; newer checkpoints stay (r)",
        "goes on in place (r)",
        None,
        "forks from an abandoned branch (r)",
    ]


def test_sizes_are_told_by_what_the_files_are_for() -> None:
    files = (
        FileEntry("model-00001-of-00002.safetensors", 2000, None),
        FileEntry("model-00002-of-00002.safetensors", 1000, None),
        FileEntry("recipe_state.safetensors", 500, None),
        FileEntry("tokenizer.json", 20, None),
    )
    found = [f.text.strip() for f in facts.full(row(one(1, files=files)), LOOK)]
    assert "3 kB weights, 2 files" in found
    assert "500 B recipe state" in found
    assert "20 B the rest" in found


def test_of_a_broken_one_what_lies_there_is_told_beside_what_was_recorded() -> None:
    files = (FileEntry("model.safetensors", 3000, None), FileEntry("config.json", 20, None))
    found = told(facts.full(row(one(1, files=files, size=1500, state=State.BROKEN)), LOOK))
    assert found["Size"] == "1.5 kB there"
    assert found["Recorded"] == "3 kB in 2 files:"
    assert "Recorded" not in told(facts.full(row(one(1, files=files)), LOOK))


def test_what_is_gone_is_the_best_no_more() -> None:
    here = row(one(4, metrics={"loss": 2.5}), standing=Standing(best=("loss",)))
    look = replace(LOOK, metric="loss")
    assert "Best by" in told(facts.full(here, look))
    assert "loss 2.5*" in facts.short(here, look, width=70)[1]
    assert listing.flags(here, metric="loss") == "*"
    gone = replace(here, gone="removed meanwhile")
    assert "Best by" not in told(facts.full(gone, look))
    assert not any("*" in fact.text for fact in facts.full(gone, look))
    assert "*" not in facts.short(gone, look, width=70)[1]
    assert listing.flags(gone, metric="loss") == "!"
    assert listing.flags(gone) == "!"


@pytest.mark.parametrize("width", [20, 30, 40, 50, 80])
def test_a_number_that_has_no_room_is_left_out_whole(width: int) -> None:
    here = row(one(4, metrics={"loss": 2.5, "grad_norm": 0.1234, "lr": 0.002925}))
    line = facts.short(here, LOOK, width=width)[1]
    assert cell_len(line) <= width
    assert set(line.split("   ")) <= {"loss 2.5", "grad_norm 0.1234", "lr 0.002925"}
    assert "loss 2.5" in line


def test_durations_are_said_as_people_say_them() -> None:
    assert [facts.seconds(s) for s in (0.009, 0.9999, 3.14, 125.0)] == [
        "9 ms",
        "1.0 s",
        "3.1 s",
        "2 m 5 s",
    ]


def test_long_lines_are_wrapped_beside_their_label() -> None:
    text = fact_lines([facts.Fact("Path", "/a/" + "long/" * 20)], 40).plain
    assert all(cell_len(line) <= 40 for line in text.split("\n"))
    assert text.replace("\n", "").replace(" ", "").endswith("long/" * 20)


@pytest.mark.parametrize("size", [(80, 24), (120, 24), (160, 45)])
def test_the_pane_follows_the_cursor_and_does_not_lay_the_screen_out_anew(
    tmp_path: Path, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def script(d: Driver) -> None:
        pane = d.main.query_one(Detail)
        assert pane.text.startswith("step_1000")
        asked: list[tuple[int, bool]] = []

        def refresh(*regions: object, layout: bool = False, **_: object) -> None:
            asked.append((len(regions), layout))

        monkeypatch.setattr(pane, "refresh", refresh)
        await d.press("down")
        assert pane.text.startswith("step_900")
        assert asked
        assert set(asked) == {(1, False)}  # line by line
        asked.clear()
        pane.show(d.main.current, d.main.look)
        assert not asked  # nothing new, nothing drawn
        lines = pane.text.split("\n")
        assert len(lines) <= pane.size.height
        assert all(cell_len(line) <= pane.size.width for line in lines)

    drive(small_run(tmp_path / "run"), script, size=size)


def test_where_the_pane_has_no_room_for_all_it_says_so(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    make_checkpoint(
        run, "step_2000", step=2000, metrics={f"metric_{i}": float(i) for i in range(40)}
    )

    async def script(d: Driver) -> None:
        await d.press("home")
        assert "enter shows the rest" in d.text

    drive(run, script, size=(160, 30))


def test_many_checkpoints_do_not_slow_the_pane_down() -> None:
    earlier = many(*range(1, 2000), metrics={"loss": 1.0})
    here = one(2000, metrics={"loss": 2.0})
    assert "+1" in " ".join(f.text for f in facts.full(row(here, *earlier), LOOK))


def test_a_failed_verification_is_told_beside_the_list_at_once(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        row = d.main.current
        assert row is not None
        pane = d.main.query_one("#detail", Detail)
        assert facts.FAILED not in pane.text
        d.app.verified[(row.checkpoint.path, *row.checkpoint.identity)] = "failed"
        d.main.show_marks()
        assert facts.FAILED in pane.text

    drive(run, script)
