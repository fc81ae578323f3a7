"""The real bash, zsh and fish, typed into: what TAB inserts and shows, and that nothing is run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.harness import ok
from tests.cli.interactive import SHELLS, Shell
from tests.factory import make_run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

METRICS = (
    *("eval_loss", "odd name", "it's $(touch pwned) `touch pwned`", 'two "quotes" ; touch pwned'),
    *("* ? [a-z] {x,y}", "bang!touch", "~tilde", "slash\\back\\", "漢字 name", "$HOME", "#hash"),
    *("esc\x1b]0;pwned\x07", "line\ntouch pwned", "tab\there", "bidi\u202e"),
)
HOSTILE = [m for m in METRICS if m.isprintable()]
"""Each begins with another character; those with control characters are never offered."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with three checkpoints, one in the trash, and metrics of odd names."""
    tmp_path = tmp_path_factory.mktemp("shells")
    run = make_run(
        tmp_path / "outputs" / "my-run",
        (1, 10, 20, 1000),
        metrics={1000: dict.fromkeys(METRICS, 1.0)},
        rows=[{"step": 1, "attempt": 1, "zeta_loss": 1.0}],
    )
    ok("rm", "step_1", "--run", run, "--yes")
    (run / ".ckptui" / "trash" / "odd id;touch pwned" / "step_7").mkdir(parents=True)
    (run / "sub dir").mkdir()
    return tmp_path


@pytest.fixture(scope="module", params=SHELLS)
def shell(request: pytest.FixtureRequest, folder: Path) -> Iterator[Shell]:
    """A shell in that run."""
    with Shell(request.param, folder, cwd=folder / "outputs" / "my-run") as shell:
        yield shell


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ckptui resu", ["resume-cmd"]),
        ("ckptui trash resto", ["trash", "restore"]),
        ("ckptui prune --keep-la", ["prune", "--keep-last"]),
        ("ckptui show step_2", ["show", "step_20"]),
        ("ckptui show step_1", ["show", "step_10"]),
        ("ckptui show step_20 --ru", ["show", "step_20", "--run"]),
        ("ckptui diff step_20 step_100", ["diff", "step_20", "step_1000"]),
        ("ckptui trash restore step_", ["trash", "restore", "step_"]),
        ("ckptui trash restore odd", ["trash", "restore", "odd id;touch pwned"]),
        ("ckptui metrics -m eval", ["metrics", "-m", "eval_loss"]),
        ("ckptui metrics -m zeta", ["metrics", "-m", "zeta_loss"]),
        ("ckptui show best:eval", ["show", "best:eval_loss"]),
        ("ckptui prune --keep-best 2:eval", ["prune", "--keep-best", "2:eval_loss"]),
        ("ckptui prune --keep-best=2:eval_loss:mi", ["prune", "--keep-best=2:eval_loss:min"]),
        ("ckptui ls --sort -eval", ["ls", "--sort", "-eval_loss"]),
        ("ckptui ls --sort=eval", ["ls", "--sort=eval_loss"]),
        ("ckptui ls --columns name,eval", ["ls", "--columns", "name,eval_loss"]),
        ("ckptui ls --filter 'step>1 state:wei", ["ls", "--filter", "step>1 state:weights"]),
        ("ckptui ls --filter '!has:eval", ["ls", "--filter", "!has:eval_loss"]),
        ('ckptui ls --filter "step>1 has:eval', ["ls", "--filter", "step>1 has:eval_loss"]),
        ("ckptui ls --filter has:eval", ["ls", "--filter", "has:eval_loss"]),
        ("ckptui ls su", ["ls", "sub dir/"]),
        ("ckptui ls ../", ["ls", "../my-run/"]),
        ("ckptui show --run ../my", ["show", "--run", "../my-run/"]),
        ("ckptui show ./step_2", ["show", "./step_20/"]),
        ("ckptui completion z", ["completion", "zsh"]),
        ("ckptui nonsense s", ["nonsense", "s"]),
    ],
)
def test_tab_inserts(shell: Shell, line: str, words: list[str]) -> None:
    found = shell.completed(line)
    # A slash at the end of a folder goes in zsh once the next key comes.
    assert [w.rstrip("/") for w in found] == ["ckptui", *(w.rstrip("/") for w in words)]


def test_tab_shows_what_there_is_with_names_in_numeric_order(shell: Shell) -> None:
    shown = shell.offered("ckptui show ", "latest")
    at = [shown.index(name) for name in ("step_10", "step_20", "step_1000", "latest", "best")]
    assert at == sorted(at)
    shown = shell.offered("ckptui p", "prune")
    assert {"pin", "prune"} <= set(shown)


@pytest.mark.parametrize("quote", ["", "'", '"'])
def test_a_name_of_any_characters_is_one_word_and_runs_nothing(
    shell: Shell, folder: Path, quote: str
) -> None:
    for name in HOSTILE:
        start = name[0]
        if quote == "" and start in "*~$#":
            continue  # who begins with these has to quote them
        if (quote == '"' and "!" in name) or (quote == "'" and "'" in name):
            continue  # bash has no way to write that in such quotes
        if (quote + start == '"$' and shell.kind != "bash") or (
            start == "*" and shell.kind == "fish"
        ):
            continue  # they complete their own variables there; fish takes a * for a pattern
        found = shell.completed(f"ckptui metrics -m {quote}{start}")
        assert found == ["ckptui", "metrics", "-m", name]
    assert not list(folder.rglob("pwned"))


def test_control_characters_never_come_near_the_terminal(shell: Shell, folder: Path) -> None:
    shown = " ".join(shell.offered("ckptui metrics -m ", "zeta_loss"))
    assert "eval_loss" in shown
    for word in ("esc", "line", "tab", "bidi"):
        assert word not in shown
    assert not list(folder.rglob("pwned"))


@pytest.mark.parametrize("kind", SHELLS)
def test_thousands_of_checkpoints_are_no_matter(tmp_path: Path, kind: str) -> None:
    run = make_run(tmp_path / "r")
    for step in range(5000):
        (run / f"step_{step}").mkdir()
    with Shell(kind, tmp_path, cwd=run) as shell:
        assert shell.completed("ckptui show step_499") == ["ckptui", "show", "step_499"]
        assert shell.completed("ckptui show step_4998") == ["ckptui", "show", "step_4998"]


@pytest.mark.parametrize("kind", SHELLS)
def test_without_a_run_the_shell_stays_silent(tmp_path: Path, kind: str) -> None:
    (tmp_path / "empty").mkdir()
    with Shell(kind, tmp_path, cwd=tmp_path / "empty") as shell:
        assert shell.completed("ckptui show s") == ["ckptui", "show", "s"]
        assert "Traceback" not in shell.text
        assert "rror" not in shell.text


@pytest.mark.parametrize("kind", SHELLS)
def test_the_command_may_be_a_path_an_alias_or_another_name(tmp_path: Path, kind: str) -> None:
    run = make_run(tmp_path / "r", (10, 20))
    with Shell(kind, tmp_path, cwd=run) as shell:
        (tmp_path / f"home-{kind}" / "ckptui").symlink_to(tmp_path / "bin" / "ckptui")
        assert shell.completed("~/ckptui show step_1")[1:] == ["show", "step_10"]
        assert shell.completed("../bin/ckptui show step_1")[1:] == ["show", "step_10"]
        more = "; complete -F _ckptui_completion ck" if kind == "bash" else ""
        shell.run(f"alias ck=ckptui{more}")
        assert shell.completed("ck show step_2")[1:] == ["show", "step_20"]
