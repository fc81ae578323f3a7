"""A comparison in words, for both front ends, and in JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from ckptui.contents import ONLY_SAFETENSORS
from ckptui.differences import DIFFERENT, METRICS_IN_DOUBT, Kind, change
from ckptui.display.text import number, size
from ckptui.display.units import teller

if TYPE_CHECKING:
    from ckptui.checkpoint import FileEntry
    from ckptui.contents import FoundTensor, Value
    from ckptui.differences import Comparison, Difference, Measured, Side

T = TypeVar("T")

SIGNS = {Kind.CHANGED: "~", Kind.REMOVED: "-", Kind.ADDED: "+", Kind.SAME: "=", Kind.UNKNOWN: "?"}
"""One letter each, so that no colour is needed."""


_ALIKE = {"Tensors": "of the same dtype and shape", "Files": "of the same size"}
_UNTOLD_FILES = "Their content is not compared: not both sides have a digest recorded."
_UNTOLD_TENSORS = "Their values are not read, and digests of their files are missing."
_OTHER_FILES = "Their values are not read, but they lie in files whose content differs (see Files)."


@dataclass(frozen=True, slots=True)
class Line:
    """One thing on both sides, as texts."""

    sign: str
    key: str
    a: str
    b: str
    note: str
    """What the difference is."""
    kind: Kind
    whole: tuple[str, str]
    """Both sides with all there is to say: exact numbers, digests, places."""


@dataclass(frozen=True, slots=True)
class Section:
    """The lines about one matter."""

    title: str
    lines: tuple[Line, ...]
    """What is the same included."""
    why_untold: str = ""
    """Why some of it is neither the same nor different, if any is, in a sentence."""
    unread: str = ""
    """Why nothing is known of it, though there may be something, in a sentence."""
    different: tuple[Line, ...] = field(init=False, repr=False, compare=False)
    """The lines that differ."""
    same: int = field(init=False, repr=False, compare=False)
    """How many lines are known to be the same."""
    unknown: int = field(init=False, repr=False, compare=False)
    """How many are neither: their content was not compared."""

    def __post_init__(self) -> None:
        """Look through the lines once: there may be a hundred thousand."""
        different = tuple(line for line in self.lines if line.kind in DIFFERENT)
        same = sum(1 for line in self.lines if line.kind is Kind.SAME)
        object.__setattr__(self, "different", different)
        object.__setattr__(self, "same", same)
        object.__setattr__(self, "unknown", len(self.lines) - len(different) - same)

    @property
    def untold(self) -> str:
        """Why some of it is neither the same nor different; empty where all is one of them."""
        return self.unread or (self.why_untold if self.unknown else "")

    @property
    def summary(self) -> str:
        """How many differ, and how."""
        counts = Counter(line.kind for line in self.lines)
        words = {
            Kind.CHANGED: "changed",
            Kind.REMOVED: "only in A",
            Kind.ADDED: "only in B",
            Kind.SAME: "the same",
            Kind.UNKNOWN: _ALIKE.get(self.title, "not compared"),
        }
        found = [f"{counts[kind]} {word}" for kind, word in words.items() if counts[kind]]
        return ", ".join(found) or self.none

    @property
    def none(self) -> str:
        """Why there is no line."""
        if not self.unread:
            return "none on either side"
        return "not read" if self.title == "Tensors" else "not known"


def sections(comparison: Comparison) -> tuple[Section, ...]:
    """Everything about a comparison, matter by matter; of runs, what runs have."""
    c = comparison
    found = [
        Section("Facts", tuple(_fact_line(d) for d in c.facts)),
        Section("Config", tuple(_line(d, value_text, _value_note) for d in c.config)),
        Section(
            "Metrics",
            tuple(_metric_line(d, c) for d in c.metrics),
            unread=" ".join(
                f"Of {x} {METRICS_IN_DOUBT}."
                for x, side in (("A", c.a), ("B", c.b))
                if not side.measured
            ),
        ),
    ]
    if c.a.what == "checkpoint":
        files = (_line(d, _file_text, _file_note, whole=_whole_file) for d in c.files)
        tensors = (_line(d, tensor_text, _tensor_note, whole=_whole_tensor) for d in c.tensors)
        found += [
            Section("Files", tuple(files), _UNTOLD_FILES),
            Section("Tensors", tuple(tensors), _why_untold(c), _why_unread(c)),
        ]
    return tuple(found)


def _why_untold(c: Comparison) -> str:
    """Why the values of tensors are not known to be the same: other files, or no digests."""
    differ = {f.key for f in c.files if f.kind in DIFFERENT}
    digests = [{f.name for f in side.files if f.digest} for side in (c.a, c.b)]
    found = set()
    for d in c.tensors:
        if d.kind is Kind.UNKNOWN and d.a is not None and d.b is not None:
            told = d.a.file in digests[0] and d.b.file in digests[1]
            found.add(told or (d.a.file == d.b.file and d.a.file in differ))
    return "" if not found else _OTHER_FILES if found == {True} else _UNTOLD_TENSORS


def _why_unread(c: Comparison) -> str:
    sides = [x for x, side in (("A", c.a), ("B", c.b)) if side.tensors.all_unread]
    return f"Of {' and '.join(sides)}: {ONLY_SAFETENSORS}." if sides else ""


def _line(
    d: Difference[T],
    text: Callable[[T], str],
    note: Callable[[Difference[T]], str],
    *,
    whole: Callable[[T], str] | None = None,
    key: str = "",
) -> Line:
    def sides(text: Callable[[T], str]) -> tuple[str, str]:
        # Null is a value of a setting; what a side lacks is told by the kind.
        a = "-" if d.kind is Kind.ADDED else text(d.a)  # type: ignore[arg-type] # it is there
        b = "-" if d.kind is Kind.REMOVED else text(d.b)  # type: ignore[arg-type] # as above
        return a, b

    a, b = sides(text)
    words = _note(d.kind) or note(d)
    return Line(SIGNS[d.kind], key or d.key, a, b, words, d.kind, sides(whole or text))


def _fact_line(d: Difference[Value]) -> Line:
    key = d.key.replace("_", " ")
    if d.key == "size":
        return _line(d, lambda v: size(v if isinstance(v, int) else None), _size_note, key=key)
    return _line(d, _fact_text, _value_note, key=key)


def _size_note(d: Difference[Value]) -> str:
    return more(d.b - d.a) if isinstance(d.a, int) and isinstance(d.b, int) else ""


def more(by: int) -> str:
    """By how many bytes something grew or shrank."""
    return f"{'-' if by < 0 else '+'}{size(abs(by))}"


def _fact_text(value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    return "-" if value is None else str(value)


def _note(kind: Kind) -> str:
    return {Kind.REMOVED: "only in A", Kind.ADDED: "only in B", Kind.SAME: "same"}.get(kind, "")


def value_text(value: Value) -> str:
    """A setting as it would be written in YAML, on one line."""
    # Quotes where a bare word would be read as something else, or as nothing at all.
    if isinstance(value, str) and value and value == value.strip() and not _special(value):
        return value
    return json.dumps(value, ensure_ascii=False)


def _special(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _value_note(d: Difference[Value]) -> str:
    x, y = d.a, d.b
    if isinstance(x, bool) or isinstance(y, bool):
        return ""
    if isinstance(x, int | float) and isinstance(y, int | float):
        return signed(y - x)
    return ""


def signed(value: float, told: Callable[[float], str] = number) -> str:
    """A difference with its sign: `+12`, `-0.0031`."""
    return f"{'-' if value < 0 else '+'}{told(abs(value))}"


def _metric_line(d: Difference[Measured], comparison: Comparison) -> Line:
    told = teller(d.key, next((m.value for m in (d.a, d.b) if m is not None), None))

    def text(measured: Measured) -> str:
        at = f" @{measured.step}" if d.which and measured.step is not None else ""
        return told(measured.value) + at

    def note(d: Difference[Measured]) -> str:
        by = change(d)
        return "" if by is None else metric_change(by, comparison.b.directions.get(d.key), told)

    def whole(measured: Measured) -> str:
        at = f" at step {measured.step}" if measured.step is not None else ""
        return ("not finite" if measured.value is None else repr(measured.value)) + at

    return _line(d, text, note, whole=whole, key=f"{d.key} {d.which}".strip())


def metric_change(by: float, mode: str | None, told: Callable[[float], str] = number) -> str:
    """A metric's change with its sign, and whether that is better, where it is known."""
    if not by or mode is None:
        return signed(by, told) if by else "same"
    return f"{signed(by, told)} {'better' if (by < 0) is (mode == 'min') else 'worse'}"


def _file_text(file: FileEntry) -> str:
    return size(file.size)


def _file_note(d: Difference[FileEntry]) -> str:
    if d.a is None or d.b is None:
        return ""
    if d.kind is Kind.UNKNOWN:
        return "same size, no digest"
    return more(d.b.size - d.a.size) if d.b.size != d.a.size else "other content"


def _whole_file(file: FileEntry) -> str:
    return f"{file.size} B, {file.digest or 'no digest recorded'}"


def tensor_text(tensor: FoundTensor) -> str:
    """The dtype and the shape of a tensor."""
    return f"{tensor.dtype} {shape_text(tensor.shape)}"


def _whole_tensor(tensor: FoundTensor) -> str:
    return f"{tensor_text(tensor)}, {size(tensor.size)} in {tensor.file}"


def shape_text(shape: Sequence[int]) -> str:
    """A shape as people write it: `4096x1024`, `scalar`."""
    return "x".join(map(str, shape)) or "scalar"


def _tensor_note(d: Difference[FoundTensor]) -> str:
    if d.a is None or d.b is None:
        return ""
    if d.kind is Kind.UNKNOWN:
        return "same dtype, shape"
    parts = [
        word
        for word, x, y in (("dtype", d.a.dtype, d.b.dtype), ("shape", d.a.shape, d.b.shape))
        if x != y
    ]
    return ", ".join(parts)


# JSON


def comparison_form(comparison: Comparison, *, everything: bool) -> dict[str, Any]:
    """What `diff` answers; without `everything` only what differs."""
    c = comparison

    def rows(part: Iterable[Difference[T]], form: Callable[[T], Any]) -> list[dict[str, Any]]:
        return [
            {
                "key": d.key,
                "a": None if d.a is None else form(d.a),
                "b": None if d.b is None else form(d.b),
                "kind": str(d.kind),
            }
            for d in part
            if everything or d.kind in DIFFERENT
        ]

    return {
        "a": _side_form(c.a),
        "b": _side_form(c.b),
        "differs": c.differs,
        "facts": rows(c.facts, lambda value: value),
        "config": rows(c.config, lambda value: value),
        "metrics": [
            {
                "key": d.key,
                "which": d.which or "here",
                "a": d.a.value if d.a else None,
                "b": d.b.value if d.b else None,
                "a_step": d.a.step if d.a else None,
                "b_step": d.b.step if d.b else None,
                "difference": change(d),
                "kind": str(d.kind),
            }
            for d in c.metrics
            if everything or d.kind in DIFFERENT
        ],
        "files": rows(c.files, lambda f: {"size": f.size, "digest": f.digest}),
        "tensors": rows(
            c.tensors, lambda t: {"dtype": t.dtype, "shape": list(t.shape), "file": t.file}
        ),
        "problems": list(c.problems),
    }


def _side_form(side: Side) -> dict[str, Any]:
    return {"what": side.what, "name": side.name, "path": str(side.path), **dict(side.facts)}
