"""The printed line: run by a real shell it gets exactly the words that were meant."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from ckptui import pins
from ckptui.errors import (
    CkptuiError,
    NewerFormatError,
    NotResumableError,
    RefusedError,
    UsageError,
)
from ckptui.recorded import check_template
from ckptui.resume import decide
from ckptui.resume_command import resume_command
from ckptui.scan import scan_run
from ckptui.settings import read_settings
from tests.factory import make_checkpoint, make_run

if TYPE_CHECKING:
    from ckptui.resume_command import ResumeCommand

HOSTILE = [
    "with spaces",
    "quote's",
    'double"quotes',
    "$(touch PWNED)",
    "`touch PWNED`",
    "a;touch PWNED;b",
    "[brackets]*?",
    "-leading-dash",
    "back\\slash",
    "{output_dir};touch PWNED;{checkpoint}",
    "$HOME & !x | > < #",
    "\x1b[2J",
    os.fsdecode(b"bytes\xff"),
    "-rf\t~",
]


def command(run: Path, name: str = "step_2", **more: Any) -> ResumeCommand:
    found = scan_run(run)
    return resume_command(found, next(c for c in found.checkpoints if c.name == name), **more)


def record(run: Path, **values: object) -> None:
    path = run / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def loop(path: Path, template: str, steps: tuple[int, ...] = (1, 2)) -> Path:
    """A run of somebody's own training loop, which recorded a command."""
    run = make_run(path, steps, recipe=None)
    record(run, command=template, cwd=str(path.parent))
    return run


def words_of(shell: str, cwd: Path) -> list[str]:
    """The words that `sh` makes of a line: `show` prints its arguments."""
    done = subprocess.run(
        ["sh", "-c", os.fsencode(shell)],
        cwd=cwd,
        capture_output=True,
        check=True,
        env={**os.environ, "PATH": f"{cwd}:{os.environ['PATH']}"},
    )
    return [os.fsdecode(w) for w in done.stdout.split(b"\0")[:-1]]


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    """An empty directory with a program that prints its arguments."""
    folder = tmp_path / "cwd"
    folder.mkdir()
    show = folder / "show"
    show.write_text("#!/bin/sh\nprintf '%s\\0' \"$@\"\n")
    show.chmod(0o755)
    return folder


class TestQuoting:
    @pytest.mark.parametrize("name", HOSTILE)
    def test_a_shell_gives_a_recipe_the_words_that_were_meant(
        self, tmp_path: Path, cwd: Path, name: str
    ) -> None:
        run = make_run(tmp_path / name, [1, 2])
        for found in (
            command(run, python="show"),
            command(run, "step_1", python="show"),
            command(run, "step_1", python="show", in_place=True),
        ):
            assert words_of(found.shell, cwd) == list(found.argv[1:])
        assert os.listdir(cwd) == ["show"]

    @pytest.mark.parametrize("name", HOSTILE)
    def test_a_shell_gives_a_recorded_command_the_words_that_were_meant(
        self, tmp_path: Path, cwd: Path, name: str
    ) -> None:
        run = loop(tmp_path / name / "run", "show --from={checkpoint} {output_dir}")
        for checkpoint in (run / "step_1", run / "step_2"):
            (checkpoint / "recipe_config.yaml").touch()
        line = command(run, "step_1").shell
        fork = tmp_path / name / "run-from-step_1"
        assert words_of(line, cwd) == [f"--from={run / 'step_1'}", str(fork)]
        line = command(run, "step_2").shell
        assert words_of(line, cwd) == [f"--from={run / 'step_2'}", str(run)]
        assert "PWNED" not in os.listdir(cwd)
        assert "PWNED" not in os.listdir(run.parent)

    @pytest.mark.parametrize("end", ["\n", "\r"])
    def test_a_path_with_a_line_break_is_refused(self, tmp_path: Path, end: str) -> None:
        run = make_run(tmp_path / f"a{end}touch PWNED", [1])
        with pytest.raises(RefusedError, match="line break"):
            command(run, "step_1")
        run = loop(tmp_path / f"b{end}touch PWNED", "show {checkpoint}", (1,))
        with pytest.raises(RefusedError, match="line break"):
            command(run, "step_1")

    @pytest.mark.parametrize(
        "template",
        [
            'show "{checkpoint}"',
            "show '{checkpoint}'",
            "show `show {checkpoint}`",
            'show "a b" "x={checkpoint}"',
            "show \\{checkpoint}",
            "show ${checkpoint}",
            "show $'{output_dir}'",
            'show "$(show {checkpoint})"',
        ],
    )
    def test_a_place_within_quotes_is_refused(self, tmp_path: Path, template: str) -> None:
        """There the quotes around a path would end the command's own."""
        with pytest.raises(RefusedError):
            check_template(template)
        with pytest.raises(RefusedError):
            command(loop(tmp_path / "r;$(touch PWNED)", template))

    @pytest.mark.parametrize(
        "template",
        [
            "show {checkpoint}",
            "show 'a b' {checkpoint} \"c\" {output_dir}",
            "show 'it'\\''s' {checkpoint}",
            'show "a \\" b" {checkpoint}',
            "show --x={checkpoint}",
            "show {other} '{}'",
        ],
    )
    def test_a_place_outside_of_quotes_is_fine(self, template: str) -> None:
        check_template(template)


class TestRecipe:
    def test_the_newest_continues_in_place_and_an_older_one_forks(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / "run", [1, 2])
        newest = command(run)
        assert newest.argv[-2:] == ("resume_from=latest", f"output_dir={run}")
        older = command(run, "step_1")
        assert older.argv[-2:] == (
            f"resume_from={run / 'step_1'}",
            f"output_dir={tmp_path / 'run-from-step_1'}",
        )
        (tmp_path / "run-from-step_1").mkdir()
        assert command(run, "step_1").argv[-1].endswith("run-from-step_1-2")
        given = command(run, fork=tmp_path / "mine")
        assert given.argv[-2:] == (f"resume_from={run / 'step_2'}", f"output_dir={tmp_path}/mine")
        back = command(run, "step_1", in_place=True)
        assert back.argv[-3:-1] == (f"resume_from={run / 'step_1'}", "rewind=2")
        assert "1 newer" in back.warnings[0]

    def test_both_ways_at_once_is_wrong_usage(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError):
            command(make_run(tmp_path / "r", [1, 2]), fork=tmp_path / "f", in_place=True)

    def test_a_line_that_training_would_refuse_is_not_printed(self, tmp_path: Path) -> None:
        run = make_run(
            tmp_path / "run",
            [1, 2, 3],
            attempts=[{"attempt": 1, "start_step": 0}, {"attempt": 2, "start_step": 1}],
        )
        make_checkpoint(run, "step_9", step=9, attempt=2)
        with pytest.raises(RefusedError, match="abandoned branch"):
            command(run, "step_2", in_place=True)
        pins.pin(next(c for c in scan_run(run).checkpoints if c.name == "step_9"))
        with pytest.raises(RefusedError, match="step_9, which is pinned"):
            command(run, "step_1", in_place=True)

    def test_the_line_of_one_of_several_run_ids_names_its_checkpoint(self, tmp_path: Path) -> None:
        """Which of them is the latest, training refuses to say."""
        run = make_run(tmp_path / "run", [1, 3])
        make_checkpoint(run, "step_2", step=2, run_id="f" * 32)
        for name in ("step_2", "step_3"):
            found = command(run, name)
            assert found.argv[-2:] == (f"resume_from={run / name}", f"output_dir={run}")
            assert found.output == run
            assert "2 run ids" in found.warnings[0]
            decision = decide(run, str(run / name))
            assert (decision.action, decision.checkpoint) == ("continue", found.checkpoint)
        assert command(run, "step_1").output == tmp_path / "run-from-step_1"

    def test_the_newest_below_one_that_cannot_be_judged_is_refused_as_training_does(
        self, tmp_path: Path
    ) -> None:
        run = make_run(tmp_path / "run", [1, 2])
        marker = make_checkpoint(run, "step_3", step=3) / "checkpoint.json"
        marker.write_text(json.dumps({**json.loads(marker.read_text()), "format": 99}))
        for ask in (lambda: command(run), lambda: decide(run, "latest")):
            with pytest.raises(NotResumableError, match="cannot be judged"):
                ask()
        assert "resume_from=" in command(run, "step_1").shell

    def test_what_cannot_be_resumed_is_refused(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / "run", [1, 2])
        make_checkpoint(run, "step_3", step=3, resumable=False)
        make_checkpoint(run, "step_4", step=4, marker=False)
        with pytest.raises(NotResumableError, match="weights only"):
            command(run, "step_3")
        with pytest.raises(NotResumableError, match="partial"):
            command(run, "step_4")
        weights = run / "step_2" / "model.safetensors"
        weights.write_bytes(b"\xff" * weights.stat().st_size)
        with pytest.raises(NotResumableError, match=r"model\.safetensors"):
            command(run, "step_2")

    def test_settings_that_changed_since_are_set_back(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / "run", [1, 2])
        (run / "config.yaml").write_text("seed: 7\nlr_scheduler: {name: linear}\noutput_dir: x\n")
        text = "seed: 0\nlr_scheduler: {name: 'a; b'}\nx: null\noutput_dir: y\nresume_from: z\n"
        path = run / "step_2" / "recipe_config.yaml"
        path.write_text(text)
        edit_size(run / "step_2", "recipe_config.yaml")
        found = command(run)
        assert {"seed=0", "lr_scheduler.name=a; b", "x=null"} <= set(found.argv)
        assert not any(w.startswith("resume_from=z") for w in found.argv)
        assert found.config is not None
        assert found.config["output_dir"] == str(run)
        assert "resume_from" not in found.config

    def test_a_damaged_config_of_the_run_gives_way_to_the_checkpoints_own(
        self, tmp_path: Path
    ) -> None:
        run = make_run(tmp_path / "run", [1])
        (run / "config.yaml").write_text("{")
        assert str(run / "step_1" / "recipe_config.yaml") in command(run, "step_1").argv

    def test_a_damaged_run_file_does_not_hide_the_recipe_but_a_newer_one_stops(
        self, tmp_path: Path
    ) -> None:
        run = make_run(tmp_path / "run", [1])
        (run / "run.json").write_text("{")
        assert "resume_from=latest" in command(run, "step_1").argv
        (run / "run.json").write_text('{"format": 2}')
        with pytest.raises(NewerFormatError):
            command(run, "step_1")

    def test_a_written_config_is_used_and_written_only_if_the_line_is_good(
        self, tmp_path: Path
    ) -> None:
        run = make_run(tmp_path / "run", [1])
        file = tmp_path / "c.yaml"
        found = command(run, "step_1", write_config=file)
        assert str(file) in found.argv
        assert yaml.safe_load(file.read_text())["output_dir"] == str(run)
        bad = make_run(tmp_path / "a\nb", [1])
        with pytest.raises(RefusedError):
            command(bad, "step_1", write_config=tmp_path / "d.yaml")
        assert not (tmp_path / "d.yaml").exists()

    def test_a_run_cannot_name_a_module(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / "run", [1], recipe="os; touch PWNED")
        with pytest.raises(RefusedError, match="no command"):
            command(run, "step_1")


def edit_size(folder: Path, name: str) -> None:
    marker = folder / "checkpoint.json"
    content = json.loads(marker.read_text())
    for entry in content["files"]:
        if entry["name"] == name:
            entry["size"] = (folder / name).stat().st_size
    marker.write_text(json.dumps(content))


class TestRecorded:
    def test_without_a_command_it_is_refused_in_a_sentence(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / "run", [1], recipe="mine")
        with pytest.raises(RefusedError, match="records no command"):
            command(run, "step_1")

    def test_an_older_one_needs_a_place_to_fork_into(self, tmp_path: Path) -> None:
        run = loop(tmp_path / "run", "python train.py")
        assert command(run).shell == f"cd {shlex.quote(str(tmp_path))} && python train.py"
        with pytest.raises(RefusedError, match="output_dir"):
            command(run, "step_1")
        with pytest.raises(RefusedError, match="in place"):
            command(run, "step_1", in_place=True)

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
    def test_a_run_of_another_user_brings_no_command(self, tmp_path: Path) -> None:
        run = loop(tmp_path / "run", "touch PWNED {checkpoint}")
        os.chown(run / "run.json", 65534, 65534)
        with pytest.raises(RefusedError, match="another user"):
            command(run)
        mine = tmp_path / "mine.json"
        (run / "run.json").rename(mine)
        os.chown(mine, 0, 0)
        (run / "run.json").symlink_to(mine)
        os.lchown(run / "run.json", 65534, 65534)
        with pytest.raises(RefusedError, match="another user"):
            command(run)


class TestSettings:
    @pytest.mark.parametrize(
        "text",
        [
            "",
            "just text",
            "[1, 2]",
            "{",
            "a: !!python/object/apply:os.system ['touch PWNED']",
            "a: &a [*a]",
            "a: 2024-13-45",
            "a: " + "9" * 5000,
            "[" * 2000,
            "\x00",
            "a: &a [x, x, x, x, x, x, x, x, x]\n"
            + "".join(
                f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n"
                for old, new in zip("abcdefgh", "bcdefghi", strict=True)
            ),
        ],
    )
    def test_hostile_yaml_is_refused_in_a_sentence(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "config.yaml"
        path.write_text(text)
        with pytest.raises(CkptuiError):
            read_settings(path)

    def test_values_come_out_as_json_can_hold_them(self, tmp_path: Path) -> None:
        path = tmp_path / "config.yaml"
        path.write_text("a: .nan\nb: 2024-01-02\n3: true\nc: {d: [1, null]}\ne: .inf\n")
        found = read_settings(path)
        assert found == {
            "a": "nan",
            "b": "2024-01-02",
            "3": True,
            "c": {"d": [1, None]},
            "e": "inf",
        }
        json.dumps(found, allow_nan=False)

    def test_a_missing_file_is_told(self, tmp_path: Path) -> None:
        with pytest.raises(NotResumableError, match="is missing"):
            read_settings(tmp_path / "none")
