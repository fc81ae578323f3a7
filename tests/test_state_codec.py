from __future__ import annotations

import collections
import decimal
import enum
import json
import math
import struct
import types
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptui.durable import to_json
from ckptui.state_codec import CodecError, DamagedError, decode, encode


def through_json(value: object) -> object:
    """`value` encoded, written as JSON, read and decoded."""
    tensors: dict[str, Any] = {}
    text = to_json(encode(value, "state", tensors))
    return decode(json.loads(text), "state", tensors)


def same(a: object, b: object) -> bool:
    """Equal in value and in every type within; NaN equals NaN, -0.0 is not 0.0."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float) and isinstance(b, float):
        return struct.pack("d", a) == struct.pack("d", b) or (math.isnan(a) and math.isnan(b))
    if isinstance(a, dict) and isinstance(b, dict):
        return len(a) == len(b) and all(
            same(k, other) and same(v, b[other]) for (k, v), other in zip(a.items(), b, strict=True)
        )
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


class Colour(enum.IntEnum):
    RED = 1


class Word(enum.StrEnum):
    ONE = "one"


class Pair(NamedTuple):
    a: int
    b: int


class Ours(dict[str, int]):
    pass


plain = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.just(math.nan),
    st.text(),
    st.binary(),
)
keys = st.one_of(
    st.text(), st.integers(), st.booleans(), st.none(), st.binary(), st.tuples(st.integers())
)
values = st.recursive(
    plain,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.text(), inner, max_size=4),
        st.dictionaries(st.sampled_from(["$tuple", "$tensor", "$", "a"]), inner, max_size=3),
        st.dictionaries(keys, inner, max_size=4),
        st.dictionaries(keys, inner, max_size=4).map(collections.OrderedDict),
        st.dictionaries(keys, st.integers(), max_size=4).map(collections.Counter),
    ),
    max_leaves=20,
)


@given(values)
def test_every_value_comes_back_as_it_was(value: object) -> None:
    assert same(through_json(value), value)


@pytest.mark.parametrize(
    "value",
    [
        -0.0,
        5e-324,
        1.7976931348623157e308,
        0.1 + 0.2,
        10**400,
        -(2**63),
        (),
        {},
        {"": ()},
        {"a": {1: (math.inf, -math.inf)}},
        {"$dict": [[1, 2]]},
        {True: 1, "True": 2},
        "\x00\u2028\U0001f600",
        b"\x00\xff",
    ],
)
def test_values_on_the_edge(value: object) -> None:
    assert same(through_json(value), value)


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {1, 2},
        frozenset(),
        1j,
        bytearray(b"x"),
        range(3),
        Path("/x"),
        decimal.Decimal(1),
        len,
        lambda: 0,
        Colour.RED,
        Word.ONE,
        Pair(1, 2),
        Ours(a=1),
        collections.defaultdict(int),
        collections.deque([1]),
        types.SimpleNamespace(a=1),
        types.MappingProxyType({}),
        int,
    ],
    ids=lambda v: type(v).__name__,
)
def test_anything_else_is_refused_by_its_path(value: object) -> None:
    with pytest.raises(CodecError, match=r"^state\.optimizer\.0\.betas is a ") as caught:
        encode({"optimizer": [{"betas": value}]}, "state", {})
    assert caught.value.exit_code == 1


def test_a_refused_key_is_refused_too() -> None:
    with pytest.raises(CodecError, match=r"^state\.a\.<key>"):
        encode({"a": {frozenset(): 1}}, "state", {})


@pytest.mark.parametrize(
    "stored",
    [
        {"$unknown": 1},
        {"$tuple": 3},
        {"$float": "nan"},
        {"$float": []},
        {"$bytes": "*"},
        {"$bytes": 3},
        {"$dict": [[1]]},
        {"$dict": [[[], 1]]},
        {"$dict": 1},
        {"$tensor": "absent"},
        {"$tensor": []},
        {"$numpy": []},
        {"$numpy": ["<f4"]},
        {"$numpy": ["|O", "AAAAAAAAAAA="]},
        {"$numpy": ["<f4", "AAAA"]},
        {"$numpy": ["<f4", "AAAAAA==", [2]]},
        {"$numpy": ["<f4", "AAAAAA==", [-1]]},
        {"$numpy": ["<f4", "AAAAAA==", "x"]},
        {"$dtype": "load"},
        {"$dtype": "no_such"},
        {"$dtype": 1},
        {"$size": "x"},
    ],
    ids=str,
)
def test_damaged_forms_are_told_by_their_path(stored: object) -> None:
    with pytest.raises(DamagedError, match=r"^state\.0\.a "):
        decode([{"a": stored}], "state", {})


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(max_size=3), inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ["$tuple", "$float", "$bytes", "$dict", "$ordered", "$counter", "$numpy", "$tensor"]
            ),
            inner,
            min_size=1,
            max_size=1,
        ),
    ),
    max_leaves=12,
)


@given(json_values)
def test_any_json_decodes_or_is_damaged(stored: object) -> None:
    try:
        decode(stored, "state", {})
    except DamagedError as e:
        assert str(e)  # noqa: PT017 - other errors must surface as they are


def numpy_values() -> list[Any]:
    np = pytest.importorskip("numpy")
    return [
        np.float64(0.1),
        np.float32("nan"),
        np.int64(-3),
        np.uint8(255),
        np.bool_(True),
        np.str_("text"),
        np.str_(""),
        np.bytes_(b"x"),
        np.datetime64("2026-01-01T00:00:00", "ns"),
        np.complex64(1 + 2j),
        np.arange(6, dtype="<i8").reshape(2, 3),
        np.arange(6, dtype=">f4").reshape(2, 3).T,
        np.arange(10)[::-2],
        np.zeros((0, 3)),
        np.array(5.0),
        np.array([True, False]),
        np.array(["ab", "c"]),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    ]


def test_numpy_values_come_back_with_dtype_and_shape() -> None:
    np = pytest.importorskip("numpy")
    for value in numpy_values():
        back = through_json({"x": value})
        assert isinstance(back, dict)
        assert type(back["x"]) is type(value)
        assert back["x"].dtype == value.dtype
        assert back["x"].shape == value.shape
        assert back["x"].tobytes() == value.tobytes()
        if isinstance(back["x"], np.ndarray):
            assert back["x"].flags.writeable


def test_numpy_values_that_are_more_than_numbers_are_refused() -> None:
    np = pytest.importorskip("numpy")
    for value in (
        np.array([object()]),
        np.ma.masked_array([1, 2], [True, False]),
        np.zeros(2, dtype=[("a", "i4")]),
        np.random.default_rng(0),
        np.dtype("f4"),
        np.void(b"xx"),
    ):
        with pytest.raises(CodecError, match=r"^state\.x is a numpy"):
            encode({"x": value}, "state", {})
