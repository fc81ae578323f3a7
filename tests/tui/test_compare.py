from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from ckptui.display.differences import sections
from ckptui.tui.inspecting import Two
from ckptui.tui.screens.compare import CompareScreen
from tests.factory import make_checkpoint, make_run, safetensors_bytes
from tests.tui.driver import ESC, SIZES, Driver, drive, small_run

if TYPE_CHECKING:
    from pathlib import Path

    from ckptui.differences import Comparison
    from ckptui.display.differences import Section


@pytest.fixture(autouse=True)
def _no_tmux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMUX", raising=False)


def changed_run(path: Path) -> Path:
    run = make_run(path, [10, 20], metrics={s: {"eval_loss": 1.0 / s} for s in (10, 20)})
    long = "/data/" + "very/" * 40 + "deep"
    config = f"seed: 1\noptimizer: {{lr: 0.1}}\ndataset: {long}\n"
    make_checkpoint(
        run,
        "step_30",
        step=30,
        metrics={"eval_loss": 0.5, "acc": 0.9},
        resumable=False,
        extra_files={"recipe_config.yaml": config.encode()},
    )
    return run


async def compare(d: Driver, first: int = 0, second: int = -1) -> CompareScreen:
    rows = sorted(d.main.checkpoints.rows, key=lambda row: row.checkpoint.step or 0)
    screen = CompareScreen(rows[first], rows[second])
    d.app.push_screen(screen)
    await d.settle()
    return screen


@pytest.mark.parametrize("size", [*SIZES, (50, 15)])
def test_only_what_differs_is_listed_part_by_part(tmp_path: Path, size: tuple[int, int]) -> None:
    async def script(d: Driver) -> None:
        screen = await compare(d)
        found = {line.key: (line.sign, line.a, line.b) for line in screen.comparison_lines}
        assert found["step"] == ("~", "10", "30")
        assert found["resumable"] == ("~", "yes", "no")
        assert found["seed"] == ("~", "0", "1")
        assert found["optimizer.lr"] == ("+", "-", "0.1")
        assert found["eval_loss"] == ("~", "0.1", "0.5")
        assert found["acc"] == ("+", "-", "0.9")
        assert found["recipe_state.json"][0] == "-"
        assert "config.json" not in found
        assert "A step_10" in d.lines[0]
        assert "Facts:" in d.text
        assert "worse" in {line.key: line.note for line in screen.comparison_lines}["eval_loss"]

    drive(changed_run(tmp_path / "run"), script, size=size)


@pytest.mark.parametrize("size", SIZES)
def test_o_shows_what_is_the_same_too_and_the_cursor_stays(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    async def script(d: Driver) -> None:
        screen = await compare(d)
        fewer = len(screen.table.rows)
        assert ", o shows them" in d.text
        await d.press("tab")
        item = screen.table.current
        assert item is not None
        assert item.section.title == "Config"
        await d.press("o")
        assert len(screen.table.rows) > fewer
        assert screen.table.current is not None
        assert screen.table.current.key == item.key
        assert "config.json" in {line.key for line in screen.comparison_lines}
        await d.press("o")
        assert len(screen.table.rows) == fewer

    drive(changed_run(tmp_path / "run"), script, size=size)


@pytest.mark.parametrize("size", SIZES)
def test_a_long_value_stands_whole_below(tmp_path: Path, size: tuple[int, int]) -> None:
    async def script(d: Driver) -> None:
        screen = await compare(d)
        keys = [i.line.key if i.line else "" for i in screen.table.rows]
        screen.table.cursor = keys.index("dataset")
        await d.settle()
        assert d.words.replace(" ", "").count("very/") >= 40

    drive(changed_run(tmp_path / "run"), script, size=size)


def test_swapping_turns_the_signs_around(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        screen = await compare(d)
        await d.press("x")
        found = {line.key: (line.sign, line.a, line.b) for line in screen.comparison_lines}
        assert found["optimizer.lr"] == ("-", "0.1", "-")
        assert "A step_30" in d.lines[0]

    drive(changed_run(tmp_path / "run"), script)


def test_the_command_line_that_compares_the_same_is_copied(tmp_path: Path) -> None:
    run = changed_run(tmp_path / "a run")

    async def script(d: Driver) -> None:
        await compare(d)
        await d.press("y")
        assert d.app.clipboard == f"ckptui diff step_10 step_30 --run '{run}'"

    drive(run, script)


def test_two_runs_are_compared_by_settings_and_metrics(tmp_path: Path) -> None:
    a = small_run(tmp_path / "root" / "a")
    b = make_run(tmp_path / "root" / "b", [100], metrics={100: {"eval_loss": 0.5}})
    (b / "config.yaml").write_text("seed: 3\n")

    async def script(d: Driver) -> None:
        views = d.app.reader.views
        screen = CompareScreen.of_runs(views[a], views[b])
        d.app.push_screen(screen)
        await d.settle()
        found = {line.key: (line.a, line.b) for line in screen.comparison_lines}
        assert found["seed"] == ("0", "3")
        assert found["eval_loss best"] == ("2 @1000", "0.5 @100")
        assert found["checkpoints"] == ("10", "1")
        assert "A a" in d.lines[0]
        await d.press("y")
        assert d.app.clipboard == f"ckptui diff {a} {b}"

    drive(tmp_path / "root", script, size=(160, 45))


def test_the_same_checkpoint_twice_does_not_differ(tmp_path: Path) -> None:
    async def script(d: Driver) -> None:
        await compare(d, 0, 0)
        assert "Nothing differs" in d.text

    drive(changed_run(tmp_path / "run"), script)


def test_what_cannot_be_read_is_a_sentence(tmp_path: Path) -> None:
    run = changed_run(tmp_path / "run")
    (run / "step_30" / "recipe_config.yaml").write_bytes(b"a: [" + b" " * 200)

    async def script(d: Driver) -> None:
        screen = await compare(d)
        assert "Not compared:" in d.text
        await d.press("home", "down")
        assert "no readable YAML." in d.words
        assert "seed" not in {line.key for line in screen.comparison_lines}

    drive(run, script)


def test_the_head_says_when_a_side_is_gone(tmp_path: Path) -> None:
    run = changed_run(tmp_path / "run")

    async def script(d: Driver) -> None:
        await compare(d)
        (run / "step_30").rename(tmp_path / "away")
        d.app.reader.read_runs([run])
        await d.settle()
        assert "B step_30 (gone)" in d.lines[0]

    drive(run, script)


def test_hostile_settings_are_shown_and_never_obeyed(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [1])
    text = '"k[/b]\\x1b[2J": "[@click=app.quit]\\x1b]0;owned\\x07"\n'
    make_checkpoint(run, "step_2", step=2, extra_files={"recipe_config.yaml": os.fsencode(text)})

    async def script(d: Driver) -> None:
        screen = await compare(d)
        for i in range(len(screen.table.rows)):
            screen.table.cursor = i
            await d.settle()
            assert not set(d.text) & {ESC, "\x07"}
        assert "k[/b]" in d.text or "k[/b]" in " ".join(n.key for n in screen.comparison_lines)
        assert d.app.is_running

    drive(run, script)


def test_sides_that_have_no_name_to_type_are_compared_by_path(tmp_path: Path) -> None:
    a, b = make_run(tmp_path / "a", [1]), make_run(tmp_path / "b", [1])

    async def script(d: Driver) -> None:
        one, other = (d.app.reader.views[path].rows[0] for path in (a, b))
        assert Two.of_rows(one, other).command == f"ckptui diff {a}/step_1 {b}/step_1"

    drive(tmp_path, script)


@pytest.mark.parametrize("size", SIZES)
def test_signs_are_explained_where_they_stand(tmp_path: Path, size: tuple[int, int]) -> None:
    async def script(d: Driver) -> None:
        await compare(d)
        assert "~ changed  - only in A  + only in B" in d.text
        assert "o all" in d.lines[-1]
        await d.press("o")
        assert size[0] < 80 or "= same" in d.text
        assert "o differing" in d.lines[-1]
        await d.press("o")
        assert "o all" in d.lines[-1]

    drive(changed_run(tmp_path / "run"), script, size=size)


def test_what_is_not_compared_says_what_would_tell(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    for step in (10, 20):
        data = safetensors_bytes({"layer.weight": [float(step)]})
        make_checkpoint(run, f"step_{step}", step=step, extra_files={"model.safetensors": data})

    async def script(d: Driver) -> None:
        screen = await compare(d)
        line = next(x for x in d.lines if "Tensors:" in x)
        assert "Tensors: not known 1 same 1 not compared" in " ".join(line.split())
        screen.table.cursor = next(
            i for i, x in enumerate(screen.table.rows) if x.section.title == "Tensors"
        )
        await d.settle()
        assert "1 of the same dtype and shape" in d.words
        assert "they lie in files whose content differs (see Files)" in d.words

    drive(run, script)


def test_what_was_not_read_is_not_counted_as_the_same(tmp_path: Path) -> None:
    run = tmp_path / "run"
    for name, value in (("epoch_0", 1.0), ("epoch_1", 2.0)):
        (run / name).mkdir(parents=True)
        (run / name / "model.safetensors").write_bytes(safetensors_bytes({"w": [value]}))

    async def script(d: Driver) -> None:
        screen = CompareScreen(*d.main.checkpoints.rows)
        d.app.push_screen(screen)
        await d.settle()
        same = sum(part.same for part in screen._parts)
        assert f"{same} the same, 2 not compared, o shows them" in d.text
        lines = [" ".join(x.split()) for x in d.lines]
        assert any("Files: not known 1 same size not compared" in x for x in lines)
        await d.press("tab", "tab", "tab", "tab")
        assert "digests of their files are missing" in d.words
        await d.press("o")
        assert sum(1 for line in screen.comparison_lines if line.sign == "?") == 2
        assert sum(1 for line in screen.comparison_lines if line.sign == "=") == same

    drive(run, script)


def test_metrics_of_one_that_no_attempt_is_known_of_are_not_said_to_be_lacking(
    tmp_path: Path,
) -> None:
    rows = [{"step": s, "attempt": 1, "loss": 1.0 / s} for s in (10, 20)]
    run = make_run(tmp_path / "run", [10, 20], rows=rows)
    (run / "step_20" / "checkpoint.json").write_text("{")

    async def script(d: Driver) -> None:
        screen = await compare(d)
        keys = {line.key for line in screen.comparison_lines}
        assert not keys & {"loss", "checkpoint.json"}  # no marker lists itself
        lines = [" ".join(x.split()) for x in d.lines]
        assert any("Metrics: not known" in x for x in lines)
        assert "step_20: its metrics are not known, since nothing tells" in " ".join(
            screen._problems
        )

    drive(run, script, size=(120, 40))


def test_tensors_in_a_form_that_is_not_read_are_not_told_to_be_none(tmp_path: Path) -> None:
    run = tmp_path / "run"
    for name in ("step_6", "step_12"):
        (run / name).mkdir(parents=True)
        (run / name / "__0_0.distcp").write_bytes(b"\0" * 64)

    async def script(d: Driver) -> None:
        screen = CompareScreen(*d.main.checkpoints.rows)
        d.app.push_screen(screen)
        await d.settle()
        assert any("Tensors: not read" in " ".join(x.split()) for x in d.lines)
        await d.press("tab", "tab", "tab", "tab")
        assert "Of A and B: tensors are read from safetensors files alone" in d.words
        await d.press("escape", "enter", "3")
        assert "no tensors" not in d.text
        assert "not read" in d.text

    drive(run, script)


def test_memory_is_told_in_bytes(tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "run",
        [10, 20],
        metrics={10: {"peak_memory": 402_000_000}, 20: {"peak_memory": 403_262_144}},
    )

    async def script(d: Driver) -> None:
        screen = await compare(d)
        line = next(n for n in screen.comparison_lines if n.key == "peak_memory")
        assert (line.a, line.b, line.note) == ("402 MB", "403.3 MB", "+1.3 MB")
        await d.press("escape", "enter", "4")
        assert "403.3 MB" in d.text
        assert "+1.3 MB" in d.text

    drive(run, script)


def test_a_long_comparison_is_put_in_words_in_the_background(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []

    def spied(comparison: Comparison) -> tuple[Section, ...]:
        threads.append(threading.current_thread())
        return sections(comparison)

    monkeypatch.setattr("ckptui.tui.screens.compare.sections", spied)

    async def script(d: Driver) -> None:
        await compare(d)
        await d.press("x")
        assert len(threads) == 2
        assert threading.main_thread() not in threads

    drive(changed_run(tmp_path / "run"), script)
