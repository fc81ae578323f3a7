"""Settings as text, from YAML and from `key=value`, given the types that a class declares.

Both sources keep every value as the text that was written. A path named `007` stays `007`, and
`1e-5`, which YAML takes for a string, is a number wherever a number is declared.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
import types
import typing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, cast

import yaml

from ckptui.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import TypeAlias

    Tree: TypeAlias = str | list["Tree"] | dict[str, "Tree"] | None

T = TypeVar("T")

_TRUE = frozenset({"true", "yes", "on"})
_FALSE = frozenset({"false", "no", "off"})
_NULL_TAG = "tag:yaml.org,2002:null"


def parse_yaml(text: str, where: str) -> Tree:
    """The YAML document in `text`: mappings, lists, and scalars as they are written.

    Raises:
        UsageError: It is no YAML, repeats a key or uses an alias; `where` names it in the message.
    """
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.SafeLoader)):
            msg = f"{where} uses a YAML alias (*name); write the value out."
            raise UsageError(msg)
        node = yaml.compose(text, yaml.SafeLoader)
    except yaml.MarkedYAMLError as e:
        line = f", line {e.problem_mark.line + 1}" if e.problem_mark else ""
        msg = f"{where}{line}: this is not YAML: {e.problem or e.context}."
        raise UsageError(msg) from e
    except (yaml.YAMLError, RecursionError) as e:
        msg = f"{where} is not YAML that can be read."
        raise UsageError(msg) from e
    return None if node is None else _tree(node, where)


def _tree(node: yaml.Node, where: str) -> Tree:
    if isinstance(node, yaml.ScalarNode):
        return None if node.tag == _NULL_TAG else cast("str", node.value)
    if isinstance(node, yaml.SequenceNode):
        return [_tree(child, where) for child in node.value]
    found: dict[str, Tree] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            msg = f"{where}, line {line}: a setting's name must be a word."
            raise UsageError(msg)
        if key.value in found:
            msg = f"{where}, line {line}: {key.value} is set a second time."
            raise UsageError(msg)
        found[key.value] = _tree(value, where)
    return found


def assign(tree: dict[str, Tree], key: str, value: Tree) -> None:
    """Set a dotted key in a tree, making the mappings on the way."""
    *parents, last = key.split(".")
    for name in parents:
        child = tree.get(name)
        if not isinstance(child, dict):
            child = tree[name] = {}
        tree = child
    tree[last] = value


def names(cls: type, prefix: str = "") -> Iterator[str]:
    """The dotted names of all settings that a dataclass declares, groups first."""
    hints = typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):
        yield prefix + field.name
        kind = hints[field.name]
        if dataclasses.is_dataclass(kind):
            yield from names(cast("type", kind), f"{prefix}{field.name}.")


def near(name: str, known: Iterable[str]) -> str:
    """A question that offers the nearest known name, or an empty string."""
    known = list(known)
    found = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if not found:
        last = name.rpartition(".")[2]
        by_last = {k.rpartition(".")[2]: k for k in reversed(known)}
        found = [by_last[m] for m in difflib.get_close_matches(last, by_last, n=1, cutoff=0.7)]
    return f" Did you mean {found[0]}?" if found else ""


def build(cls: type[T], tree: Mapping[str, Tree], *, known: Iterable[str], prefix: str = "") -> T:
    """An instance of the dataclass `cls` with the values of a tree, converted to declared types.

    Args:
        cls: The dataclass.
        tree: Values by field name.
        known: All dotted names, to offer one where a key is unknown.
        prefix: What stands before the field names in messages.

    Raises:
        UsageError: A key is unknown or missing, or a value does not fit its type.
    """
    hints = typing.get_type_hints(cls)
    values: dict[str, Any] = {}
    for key, value in tree.items():
        name = prefix + key
        if key not in hints:
            msg = f"There is no setting {name}.{near(name, known)}"
            raise UsageError(msg)
        values[key] = convert(name, value, hints[key], known=known)
    for field in dataclasses.fields(cast("Any", cls)):
        required = (
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        )
        if required and field.name not in values:
            msg = f"The setting {prefix}{field.name} is missing."
            raise UsageError(msg)
    return cls(**values)


def convert(name: str, value: Tree, kind: Any, *, known: Iterable[str] = ()) -> Any:
    """A value as the declared type wants it.

    Raises:
        UsageError: It does not fit.
    """
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None or value == "null":
            return None
        (kind,) = (a for a in args if a is not types.NoneType)
        return convert(name, value, kind, known=known)
    if value is None:
        msg = f"{name} is null; it must be {_wanted(kind)}."
        raise UsageError(msg)
    if dataclasses.is_dataclass(kind):
        if isinstance(value, str):
            value = parse_yaml(value, name)
        if not isinstance(value, dict):
            msg = f"{name} is a group of settings; set one of them, like {_example(name, kind)}."
            raise UsageError(msg)
        return build(cast("type", kind), value, known=known, prefix=f"{name}.")
    if origin is tuple:
        return _sequence(name, value, args)
    if not isinstance(value, str):
        msg = f"{name} must be {_wanted(kind)}, not {_shape(value)}."
        raise UsageError(msg)
    return _scalar(name, value, kind)


def parse_size(name: str, text: str) -> int:
    """Bytes, from a number with or without kB, MB, GB or TB, which are powers of 1000.

    Raises:
        UsageError: It is none, or zero.
    """
    found = re.fullmatch(r"(\d{1,18}(?:\.\d{1,9})?) ?([kKMGT]?)B?", text.strip(), re.ASCII)
    size = int(float(found[1]) * 1000 ** " KMGT".index(found[2].upper() or " ")) if found else 0
    if size < 1:
        msg = f"{name} is {text!r}; it must be a size like 500MB or 5GB."
        raise UsageError(msg)
    return size


def _sequence(name: str, value: Tree, args: tuple[Any, ...]) -> tuple[Any, ...]:
    if isinstance(value, str):
        inner = value.strip()
        if inner.startswith("[") and inner.endswith("]"):
            inner = inner[1:-1]
        value = [part.strip().strip("'\"") for part in inner.split(",")] if inner.strip() else []
    if not isinstance(value, list):
        msg = f"{name} must be a list, not {_shape(value)}."
        raise UsageError(msg)
    if args[-1] is Ellipsis:
        return tuple(convert(name, part, args[0]) for part in value)
    if len(value) != len(args):
        msg = f"{name} must have {len(args)} values, not {len(value)}."
        raise UsageError(msg)
    return tuple(convert(name, part, kind) for part, kind in zip(value, args, strict=True))


def _scalar(name: str, text: str, kind: Any) -> Any:
    if kind is str or kind is Path:
        if not text:
            msg = f"{name} is empty."
            raise UsageError(msg)
        return Path(text) if kind is Path else text
    if typing.get_origin(kind) is Literal:
        choices = [str(choice) for choice in typing.get_args(kind)]
        if text not in choices:
            msg = f"{name} is {text!r}; it must be {_wanted(kind)}.{near(text, choices)}"
            raise UsageError(msg)
        return text
    word = text.strip().lower()
    if kind is bool and word in _TRUE | _FALSE:
        return word in _TRUE
    try:
        if kind is int:
            return int(word)
        if kind is float and math.isfinite(number := float(word)):
            return number
    except ValueError:
        pass
    msg = f"{name} is {text!r}; it must be {_wanted(kind)}."
    raise UsageError(msg)


def _wanted(kind: Any) -> str:
    if typing.get_origin(kind) is Literal:
        *most, last = map(str, typing.get_args(kind))
        return f"{', '.join(most)} or {last}" if most else last
    words = {
        int: "a whole number",
        float: "a finite number",
        bool: "true or false",
        Path: "a path",
        str: "a word",
    }
    return words.get(kind, "a list" if typing.get_origin(kind) is tuple else "a group of settings")


def _shape(value: Tree) -> str:
    return "a list" if isinstance(value, list) else "a group of settings"


def _example(name: str, kind: Any) -> str:
    return f"{name}.{dataclasses.fields(kind)[0].name}"
