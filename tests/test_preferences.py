"""The user's own settings: where they are looked for, what they say, what is told of mistakes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ckptui.errors import PreferencesError, UsageError
from ckptui.preferences import NAMES, Preferences, load, preferences_path

WHOLE = """
theme = "textual-light"
columns = ["flags", "name", "val/loss"]
rules = ["keep-last 3", "keep-best 1:eval_loss:min"]
ascii = true
mouse = false

[keys]
pin = "P"
"mark-all" = "ctrl+a"
"""


def written(folder: Path, text: str | bytes) -> dict[str, str]:
    """An environment whose file holds a text."""
    path = folder / "c.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return {"CKPTUI_CONFIG": str(path)}


def refusal(folder: Path, text: str | bytes) -> PreferencesError:
    with pytest.raises(UsageError) as caught:
        load(written(folder, text))
    assert isinstance(caught.value, PreferencesError)
    assert str(caught.value).startswith(str(folder / "c.toml"))
    assert caught.value.exit_code == 2
    return caught.value


def test_the_file_is_found_by_the_first_that_names_it() -> None:
    every = {"CKPTUI_CONFIG": "/a/b.toml", "XDG_CONFIG_HOME": "/x", "HOME": "/h"}
    assert preferences_path(every) == Path("/a/b.toml")
    assert preferences_path({**every, "CKPTUI_CONFIG": ""}) == Path("/x/ckptui/config.toml")
    default = Path("/h/.config/ckptui/config.toml")
    assert preferences_path({"HOME": "/h"}) == default
    assert preferences_path({"HOME": "/h", "XDG_CONFIG_HOME": ""}) == default
    assert preferences_path({"HOME": "/h", "XDG_CONFIG_HOME": "not/absolute"}) == default
    assert preferences_path({"CKPTUI_CONFIG": "c"}) == Path.cwd() / "c"
    assert preferences_path({}).is_absolute()


def test_without_a_file_everything_has_its_default(tmp_path: Path) -> None:
    for env in ({"HOME": str(tmp_path)}, {"HOME": "/dev/null"}, {"CKPTUI_CONFIG": os.devnull}):
        found = load(env)
        assert found == Preferences(origins=dict.fromkeys(NAMES, "default"))
        assert found.mouse is True


def test_everything_that_a_file_sets_is_there(tmp_path: Path) -> None:
    found = load(written(tmp_path, WHOLE))
    assert found == Preferences(
        keys={"pin": "P", "mark-all": "ctrl+a"},
        theme="textual-light",
        columns=("flags", "name", "val/loss"),
        rules=("keep-last 3", "keep-best 1:eval_loss:min"),
        ascii=True,
        mouse=False,
        file=tmp_path / "c.toml",
        origins=dict.fromkeys(NAMES, "file"),
    )


def test_a_file_may_set_one_thing_be_a_link_and_begin_with_a_mark(tmp_path: Path) -> None:
    written(tmp_path, b"\xef\xbb\xbfmouse = false\r\n")
    (tmp_path / "link").symlink_to("c.toml")
    found = load({"CKPTUI_CONFIG": str(tmp_path / "link")})
    assert found.mouse is False
    assert found.origins == {**dict.fromkeys(NAMES, "default"), "mouse": "file"}


def test_the_environment_wins(tmp_path: Path) -> None:
    env = written(tmp_path, WHOLE)
    found = load({**env, "CKPTUI_ASCII": "0", "TEXTUAL_THEME": "nord"})
    assert (found.ascii, found.theme) == (False, "nord")
    assert (found.origins["ascii"], found.origins["theme"]) == ("environment", "environment")
    assert found.origins["mouse"] == "file"
    assert load({"HOME": str(tmp_path), "CKPTUI_ASCII": "1"}).ascii is True
    assert load({**env, "CKPTUI_ASCII": ""}).ascii is True


@pytest.mark.parametrize(
    ("text", "key", "says"),
    [
        ("them = 'x'", "them", "them is no setting; did you mean theme?"),
        ("zzz = 1", "zzz", "there are keys, theme, columns, rules, ascii, mouse."),
        ("mouse = 'no'", "mouse", "mouse must be true or false, without quotes."),
        ("ascii = 1", "ascii", "must be true or false"),
        ("theme = ''", "theme", "theme must be a name in quotes."),
        ("theme = true", "theme", "must be a name"),
        ("columns = 'name'", "columns", "must be a list of texts"),
        ("columns = [1]", "columns", "must be a list of texts"),
        ("columns = ['']", "columns", "must be a list of texts"),
        ("columns = []", "columns", "names no column"),
        ("columns = ['a', 'b', 'a']", "columns", "names a twice"),
        ("rules = ['keep-lots 3']", "rules", "holds what is no rule: 'keep-lots 3' is no"),
        ("rules = ['keep-last 0']", "rules", "holds what is no rule: keep-last takes"),
        ("rules = [['keep-last 3']]", "rules", "must be a list of texts"),
        ("keys = 'p'", "keys", "keys must be a table"),
        ("[keys]\npin = 1", "keys.pin", "keys.pin must be a key in quotes"),
        ("[keys]\npin = ''", "keys.pin", "must be a key in quotes"),
        ("[keys.pin]\na = 'b'", "keys.pin", "must be a key in quotes"),
        ("mouse = ", None, "is no TOML: invalid value (at "),
        ("mouse = true\nmouse = false", None, "is no TOML: cannot overwrite a value (at "),
        (b"theme = '\xff'", None, "is no TOML: byte 9 is not UTF-8."),
        ("a = " + "[" * 100_000, None, "is nested too deeply."),
        ("#" * (2**20 + 1), None, "is larger than"),
    ],
)
def test_a_mistake_is_told_with_file_and_key(
    tmp_path: Path, text: str | bytes, key: str | None, says: str
) -> None:
    error = refusal(tmp_path, text)
    assert says in str(error)
    assert error.key == key
    assert error.path == tmp_path / "c.toml"
    assert "\n" not in str(error)
    assert str(error).endswith((".", "?"))


def test_a_file_that_was_named_must_be_there_and_be_a_file(tmp_path: Path) -> None:
    for name, says in (("none", "which CKPTUI_CONFIG names"), ("", "not a regular file")):
        with pytest.raises(PreferencesError, match=says):
            load({"CKPTUI_CONFIG": str(tmp_path / name)})
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(PreferencesError, match="not a regular file"):
        load({"CKPTUI_CONFIG": str(tmp_path / "fifo")})
