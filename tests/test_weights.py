"""Weights come back with every bit, dtype and tie, or training does not go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ckptui.errors import NotResumableError, RefusedError
from ckptui.tensors import read_header
from ckptui.weights import check_module, read_weights, weights_file, write_weights

if TYPE_CHECKING:
    from pathlib import Path

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def model(*, tied: bool = True, dtype: Any = None) -> Any:
    made = torch.nn.Sequential(
        torch.nn.Linear(3, 4, bias=False),
        torch.nn.BatchNorm1d(4),
        torch.nn.Linear(3, 4, bias=False),
    )
    if tied:
        made[2].weight = made[0].weight
    return made.to(dtype) if dtype else made


def state(module: Any) -> dict[str, Any]:
    return {k: v.clone() for k, v in module.state_dict().items()}


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert value.dtype == other[name].dtype
        assert torch.equal(value, other[name]), name


@pytest.mark.parametrize("dtype", [None, "float16", "bfloat16", "float64"])
def test_parameters_and_buffers_come_back_bit_for_bit(tmp_path: Path, dtype: str | None) -> None:
    kind = getattr(torch, dtype) if dtype else None
    one, other = model(dtype=kind), model(dtype=kind)
    one[1].running_mean.fill_(0.125)
    write_weights(tmp_path, "model", one)
    read_weights(tmp_path, "model", other)
    assert_same(state(one), state(other))
    assert other[2].weight is other[0].weight


def test_the_same_state_gives_the_same_bytes_in_order(tmp_path: Path) -> None:
    one = model()
    files = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_weights(tmp_path / name, "model", one)
        files.append((tmp_path / name / weights_file("model")).read_bytes())
    assert files[0] == files[1]


def test_b45_tied_weights_are_stored_once(tmp_path: Path) -> None:
    write_weights(tmp_path, "model", model())
    names = {t.name for t in read_header(tmp_path / weights_file("model")).tensors}
    assert "0.weight" in names
    assert "2.weight" not in names


def test_a_model_that_is_not_tied_any_more_is_refused(tmp_path: Path) -> None:
    write_weights(tmp_path, "model", model())
    with pytest.raises(NotResumableError, match=r"lacks weights.*2\.weight"):
        read_weights(tmp_path, "model", model(tied=False))


def test_another_model_is_refused_and_not_half_loaded(tmp_path: Path) -> None:
    write_weights(tmp_path, "model", model())
    later = model()
    later[1].double()  # the first tensor fits, a later one does not
    for other in (
        later,
        model(dtype=torch.float64),
        torch.nn.Sequential(torch.nn.Linear(3, 5, bias=False), torch.nn.BatchNorm1d(5)),
        torch.nn.Linear(2, 2),
    ):
        before = state(other)
        with pytest.raises(NotResumableError):
            read_weights(tmp_path, "model", other)
        assert_same(state(other), before)


@pytest.mark.parametrize("damage", ["missing", "cut", "junk", "empty"])
def test_damaged_weights_are_told_in_a_sentence(tmp_path: Path, damage: str) -> None:
    write_weights(tmp_path, "model", model())
    path = tmp_path / weights_file("model")
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes({"cut": path.read_bytes()[:-3], "junk": b"x" * 99, "empty": b""}[damage])
    with pytest.raises(NotResumableError):
        read_weights(tmp_path, "model", model())


def test_strided_shared_and_empty_tensors_are_kept_apart(tmp_path: Path) -> None:
    class Odd(torch.nn.Module):  # type: ignore[misc, name-defined] # torch is Any here
        def __init__(self) -> None:
            super().__init__()
            base = torch.arange(6.0).reshape(2, 3)
            self.register_buffer("whole", base)
            self.register_buffer("turned", base.t())
            self.register_buffer("row", base[1])
            self.register_buffer("none", torch.empty(0, 3))
            self.register_buffer("other_none", torch.empty(0))
            self.register_buffer("scalar", torch.tensor(3, dtype=torch.int64))
            self.register_buffer("derived", torch.ones(1), persistent=False)

    one, other = Odd(), Odd()
    write_weights(tmp_path, "odd", one)
    with torch.no_grad():
        other.whole.zero_()
        other.scalar.zero_()
    read_weights(tmp_path, "odd", other)
    assert_same(state(one), state(other))
    names = {t.name for t in read_header(tmp_path / "odd.safetensors").tensors}
    assert names == {"whole", "turned", "row", "none", "other_none", "scalar"}


def test_wrappers_anywhere_leave_no_mark_in_the_names(tmp_path: Path) -> None:
    plain = model()
    averaged = torch.optim.swa_utils.AveragedModel(plain)
    write_weights(tmp_path, "model", torch.nn.DataParallel(plain))
    names = {t.name for t in read_header(tmp_path / weights_file("model")).tensors}
    assert not any("module" in n for n in names)
    check_module("ema", averaged)


def test_extra_state_is_refused_by_the_place_where_it_is() -> None:
    class Hidden(torch.nn.Linear):  # type: ignore[misc, name-defined] # torch is Any here
        def get_extra_state(self) -> Any:
            return {}

    with pytest.raises(RefusedError, match=r"model\.1 is a Hidden"):
        check_module("model", torch.nn.Sequential(torch.nn.Linear(1, 1), Hidden(1, 1)))
    check_module("model", torch.nn.Linear(1, 1))


def test_weights_that_a_hub_would_leave_out_are_kept(tmp_path: Path) -> None:
    """`_keys_to_ignore_on_save` names what a constructor makes anew; training has changed it."""
    one, other = model(tied=False), model(tied=False)
    one._keys_to_ignore_on_save = ["0.weight"]
    other._keys_to_ignore_on_save = ["0.weight"]
    write_weights(tmp_path, "model", one)
    read_weights(tmp_path, "model", other)
    assert_same(state(one), state(other))


def test_elements_that_share_memory_are_refused_at_once() -> None:
    module = torch.nn.Module()
    module.register_buffer("mask", torch.randn(1, 4).expand(3, 4))
    with pytest.raises(RefusedError, match=r"model\.mask share memory"):
        check_module("model", module)
    module.mask = module.mask.clone()
    check_module("model", module)
