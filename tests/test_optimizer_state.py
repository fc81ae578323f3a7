from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from ckptui.errors import NotResumableError, RefusedError
from ckptui.recipe_state import (
    bare,
    capture_optimizer,
    parameter_names,
    read,
    restore_optimizer,
    write,
)
from ckptui.state_codec import CodecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import torch
else:
    torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def net(dtype: Any = None) -> Any:
    """Two layers; matrices only, for some optimizers take nothing else."""
    return torch.nn.Sequential(
        torch.nn.Linear(6, 5, bias=False), torch.nn.Tanh(), torch.nn.Linear(5, 3, bias=False)
    ).to(dtype)


def train(model: Any, optimizer: Any, steps: int, seed: int = 0) -> None:
    """A few optimizer steps on data that depend on the seed alone."""
    generator = torch.Generator().manual_seed(seed)
    first = next(p for p in model.parameters() if p.dim() > 1)
    for _ in range(steps):
        x = torch.randn(4, first.shape[1], generator=generator).to(first.dtype)
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()


def bits(tensor: Any) -> tuple[Any, ...]:
    """What makes two tensors the same: dtype, shape and every bit."""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return (tensor.dtype, tuple(tensor.shape), flat.view(torch.uint8).tolist())


def same_weights(a: Any, b: Any) -> bool:
    return [bits(p) for p in a.parameters()] == [bits(p) for p in b.parameters()]


def state_bits(optimizer: Any) -> list[Any]:
    """All state of an optimizer in the order of its parameters, tensors as their bits."""
    found = []
    for group in optimizer.param_groups:
        fields = {k: v for k, v in group.items() if k not in ("params", "param_names")}
        found.append({k: bits(v) if torch.is_tensor(v) else v for k, v in fields.items()})
        for parameter in group["params"]:
            values = optimizer.state.get(parameter, {})
            found.append({k: bits(v) if torch.is_tensor(v) else v for k, v in values.items()})
    return found


def stored(tmp_path: Path, optimizer: Any, modules: dict[str, Any]) -> Any:
    """The optimizer's state as it comes back from the disk."""
    folder = tmp_path / f"saved-{len(list(tmp_path.iterdir()))}"
    folder.mkdir()
    write(folder, {"optimizers": {"optimizer": capture_optimizer(optimizer, modules)}})
    return read(folder)["optimizers"]["optimizer"]


optim = torch.optim
OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "AdamW": lambda p: optim.AdamW(p, lr=0.01, foreach=False, fused=False),
    "AdamW foreach": lambda p: optim.AdamW(p, lr=0.01, foreach=True),
    "AdamW fused": lambda p: optim.AdamW(p, lr=0.01, fused=True),
    "AdamW amsgrad": lambda p: optim.AdamW(p, lr=0.01, amsgrad=True, betas=(0.8, 0.99)),
    "AdamW differentiable lr": lambda p: optim.AdamW(p, lr=torch.tensor(0.01)),
    "Adam": lambda p: optim.Adam(p, lr=0.01, weight_decay=0.1),
    "SGD": lambda p: optim.SGD(p, lr=0.01),
    "SGD momentum": lambda p: optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True),
    "SGD fused": lambda p: optim.SGD(p, lr=0.01, momentum=0.9, fused=True),
    "Adafactor": lambda p: optim.Adafactor(p, lr=0.01),
    "NAdam": lambda p: optim.NAdam(p, lr=0.01),
    "RAdam": lambda p: optim.RAdam(p, lr=0.01),
    "RMSprop": lambda p: optim.RMSprop(p, lr=0.01, momentum=0.9, centered=True),
    "Adagrad": lambda p: optim.Adagrad(p, lr=0.01),
    "Adadelta": lambda p: optim.Adadelta(p),
    "Adamax": lambda p: optim.Adamax(p, lr=0.01),
    "ASGD": lambda p: optim.ASGD(p, lr=0.01),
    "Rprop": lambda p: optim.Rprop(p, lr=0.01),
    "Muon": lambda p: optim.Muon(p, lr=0.01),
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_b106_restored_state_is_identical_and_training_goes_on_as_if_never_stopped(
    kind: str, dtype: str, tmp_path: Path
) -> None:
    make = OPTIMIZERS[kind]
    model = net(getattr(torch, dtype))
    optimizer = make(model.parameters())
    train(model, optimizer, 3)
    back = stored(tmp_path, optimizer, {"model": model})

    again = copy.deepcopy(model)
    resumed = make(again.parameters())
    restore_optimizer(resumed, {"model": again}, back)
    assert state_bits(resumed) == state_bits(optimizer)

    train(model, optimizer, 3, seed=1)
    train(again, resumed, 3, seed=1)
    assert same_weights(model, again)
    assert state_bits(resumed) == state_bits(optimizer)


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_before_the_first_step_nothing_is_invented(kind: str, tmp_path: Path) -> None:
    model = net()
    optimizer = OPTIMIZERS[kind](model.parameters())
    back = stored(tmp_path, optimizer, {"model": model})
    again = copy.deepcopy(model)
    resumed = OPTIMIZERS[kind](again.parameters())
    restore_optimizer(resumed, {"model": again}, back)
    assert state_bits(resumed) == state_bits(optimizer)
    train(model, optimizer, 2)
    train(again, resumed, 2)
    assert same_weights(model, again)


def test_state_replaces_what_the_optimizer_had(tmp_path: Path) -> None:
    model = net()
    back = stored(tmp_path, optim.SGD(model.parameters(), lr=0.5, momentum=0.9), {"model": model})
    other = net()
    resumed = optim.SGD(other.parameters(), lr=0.01, momentum=0.5)
    train(other, resumed, 2)
    restore_optimizer(resumed, {"model": other}, back)
    assert not any(resumed.state.values())
    assert resumed.param_groups[0]["lr"] == 0.5
    assert resumed.param_groups[0]["momentum"] == 0.9


class Master(torch.optim.Optimizer):
    """SGD on fp32 copies of bf16 weights, with lists and texts in its state."""

    def __init__(self, params: Any, lr: float = 0.01) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        assert closure is None
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state.update(
                        master=p.float().clone(), seen=[torch.zeros(2), [torch.zeros(())]], kind="m"
                    )
                state["seen"][0] += 1
                state["master"] -= group["lr"] * p.grad.float()
                p.copy_(state["master"])


def test_fp32_state_of_bf16_weights_keeps_its_dtype(tmp_path: Path) -> None:
    model = net(torch.bfloat16)
    optimizer = Master(model.parameters())
    train(model, optimizer, 3)
    back = stored(tmp_path, optimizer, {"model": model})

    again = copy.deepcopy(model)
    cast = Master(again.parameters())
    cast.load_state_dict(optimizer.state_dict())
    assert cast.state[again[0].weight]["master"].dtype is torch.bfloat16  # what torch would do

    resumed = Master(again.parameters())
    restore_optimizer(resumed, {"model": again}, back)
    values = resumed.state[again[0].weight]
    assert bits(values["master"]) == bits(optimizer.state[model[0].weight]["master"])
    assert values["kind"] == "m"
    assert bits(values["seen"][0]) == bits(torch.full((2,), 3.0))
    train(model, optimizer, 3, seed=1)
    train(again, resumed, 3, seed=1)
    assert same_weights(model, again)


def test_restored_tensors_are_copies(tmp_path: Path) -> None:
    model = net(torch.bfloat16)
    optimizer = Master(model.parameters())
    train(model, optimizer, 1)
    back = stored(tmp_path, optimizer, {"model": model})
    resumed = Master(model.parameters())
    restore_optimizer(resumed, {"model": model}, back)
    mine, theirs = resumed.state[model[0].weight], back["state"]["0.weight"]
    assert mine["master"].data_ptr() != theirs["master"].data_ptr()
    assert mine["seen"][1][0].data_ptr() != theirs["seen"][1][0].data_ptr()

    plain = optim.AdamW(model.parameters())
    train(model, plain, 1)
    back = stored(tmp_path, plain, {"model": model})
    restore_optimizer(plain, {"model": model}, back)
    mine, theirs = plain.state[model[0].weight], back["state"]["0.weight"]
    assert not {t.data_ptr() for t in mine.values()} & {t.data_ptr() for t in theirs.values()}


def test_groups_keep_their_own_fields(tmp_path: Path) -> None:
    def make(model: Any) -> Any:
        groups: list[dict[str, Any]] = [
            {"params": [model[2].weight], "lr": 0.1, "weight_decay": 0.0, "tag": ("a", None)},
            {"params": [model[0].weight], "betas": (0.5, 0.6)},
        ]
        return optim.AdamW(groups, lr=0.01)

    model = net()
    optimizer = make(model)
    schedule = optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (step + 1))
    train(model, optimizer, 2)
    schedule.step()
    back = stored(tmp_path, optimizer, {"model": model})
    assert [g["params"] for g in back["param_groups"]] == [["2.weight"], ["0.weight"]]

    again = copy.deepcopy(model)
    resumed = make(again)
    restore_optimizer(resumed, {"model": again}, back)
    assert state_bits(resumed) == state_bits(optimizer)
    assert resumed.param_groups[0]["tag"] == ("a", None)
    assert resumed.param_groups[1]["betas"] == (0.5, 0.6)
    assert resumed.param_groups[0]["initial_lr"] == 0.1
    assert resumed.param_groups[0]["lr"] == 0.05


def test_the_order_of_parameters_within_a_group_does_not_matter(tmp_path: Path) -> None:
    model = net()
    optimizer = optim.AdamW(model.parameters())
    train(model, optimizer, 2)
    back = stored(tmp_path, optimizer, {"model": model})
    resumed = optim.AdamW(reversed(list(model.parameters())))
    restore_optimizer(resumed, {"model": model}, back)
    for parameter in model.parameters():
        for key in ("exp_avg", "exp_avg_sq", "step"):
            assert bits(resumed.state[parameter][key]) == bits(optimizer.state[parameter][key])


def test_named_parameters_of_the_optimizer_do_not_matter(tmp_path: Path) -> None:
    model = net()
    optimizer = optim.AdamW(model.named_parameters())
    train(model, optimizer, 1)
    back = stored(tmp_path, optimizer, {"model": model})
    assert "param_names" not in back["param_groups"][0]
    resumed = optim.AdamW(model.parameters())
    restore_optimizer(resumed, {"model": model}, back)
    assert state_bits(resumed) == state_bits(optimizer)


def test_frozen_and_unused_parameters_stay_without_state(tmp_path: Path) -> None:
    model = net()
    model[0].weight.requires_grad_(False)
    model.extra = torch.nn.Linear(1, 1)
    optimizer = optim.AdamW(model.parameters())
    x = torch.randn(4, 6)
    model[2](model[1](model[0](x))).sum().backward()
    optimizer.step()
    assert optimizer.state[model.extra.bias] == {}  # asking leaves an empty entry behind
    back = stored(tmp_path, optimizer, {"model": model})
    assert sorted(back["state"]) == ["2.weight"]
    assert back["stateless"] == ["0.weight", "extra.bias", "extra.weight"]
    resumed = optim.AdamW(model.parameters())
    restore_optimizer(resumed, {"model": model}, back)
    assert [p for p, values in resumed.state.items() if values] == [model[2].weight]


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(7, 4)
        self.head = torch.nn.Linear(4, 7, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x: Any) -> Any:
        return self.head(self.embed(x))


def test_b45_tied_weights_have_one_name_and_one_state(tmp_path: Path) -> None:
    def once(model: Any, optimizer: Any) -> None:
        optimizer.zero_grad()
        model(torch.arange(7)).square().mean().backward()
        optimizer.step()

    model = Tied()
    optimizer = optim.AdamW(model.parameters())
    once(model, optimizer)
    back = stored(tmp_path, optimizer, {"model": model})
    assert list(back["state"]) == ["embed.weight"]
    again = copy.deepcopy(model)
    resumed = optim.AdamW(again.parameters())
    restore_optimizer(resumed, {"model": again}, back)
    once(model, optimizer)
    once(again, resumed)
    assert bits(model.head.weight) == bits(again.head.weight)


def test_several_modules_under_one_optimizer_carry_their_names(tmp_path: Path) -> None:
    a, b = net(), net()
    optimizer = optim.SGD([*a.parameters(), *b.parameters()], lr=0.1, momentum=0.9)
    train(a, optimizer, 1)
    modules = {"encoder": a, "decoder": b}
    back = stored(tmp_path, optimizer, modules)
    assert sorted(back["state"]) == ["encoder.0.weight", "encoder.2.weight"]
    resumed = optim.SGD([*a.parameters(), *b.parameters()], lr=0.1, momentum=0.9)
    restore_optimizer(resumed, modules, back)
    assert state_bits(resumed) == state_bits(optimizer)


class Holder(torch.nn.Module):
    """A model with a part that is really called `module`."""

    def __init__(self) -> None:
        super().__init__()
        self.module = torch.nn.Linear(2, 2, bias=False)
        self._orig_mod = torch.nn.Linear(2, 2, bias=False)


class DataParallel(Holder):
    """Somebody's own class with the name of a wrapper."""


@pytest.mark.parametrize("kind", [Holder, DataParallel])
def test_a_real_part_called_module_keeps_its_name(kind: Any) -> None:
    model = kind()
    assert sorted(parameter_names({"model": model}).values()) == [
        "_orig_mod.weight",
        "module.weight",
    ]
    assert bare(model) is model
    assert bare(torch.nn.DataParallel(model)) is model


def wrapped_in(kind: str, model: Any) -> Any:
    if kind == "compile":
        return torch.compile(model, backend="eager")
    if kind == "DataParallel":
        return torch.nn.DataParallel(model)
    if kind == "both":
        return torch.nn.DataParallel(torch.compile(model, backend="eager"))
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    if kind == "checkpointed":
        return checkpoint_wrapper(model)
    if kind == "checkpointed parts":
        model[0] = checkpoint_wrapper(model[0])
        return model
    model[2] = torch.compile(model[2], backend="eager")
    return model


@pytest.mark.parametrize(
    "kind",
    ["compile", "DataParallel", "both", "checkpointed", "checkpointed parts", "compiled parts"],
)
def test_wrapping_changes_no_name_and_no_state(kind: str, tmp_path: Path) -> None:
    model = net()
    optimizer = optim.AdamW(model.parameters())
    train(model, optimizer, 2)
    plain = stored(tmp_path, optimizer, {"model": model})

    inner = copy.deepcopy(model)
    wrapped = wrapped_in(kind, inner)
    resumed = optim.AdamW(wrapped.parameters())
    restore_optimizer(resumed, {"model": wrapped}, plain)
    assert state_bits(resumed) == state_bits(optimizer)
    again = stored(tmp_path, resumed, {"model": wrapped})
    assert list(again["state"]) == ["0.weight", "2.weight"]
    first, second = (tmp_path / f"saved-{i}" for i in (0, 1))
    for name in ("recipe_state.json", "recipe_state.safetensors"):
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_distributed_wrapping_changes_no_name(tmp_path: Path) -> None:
    import torch.distributed as dist

    if not dist.is_available():
        pytest.skip("this torch has no distributed part")
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        model = net()
        wrapped = torch.nn.parallel.DistributedDataParallel(model)
        assert parameter_names({"model": wrapped}) == parameter_names({"model": model})
        assert bare(wrapped) is model
    finally:
        dist.destroy_process_group()


def test_b110_an_averaged_model_is_no_wrapper_for_it_has_a_counter() -> None:
    average = torch.optim.swa_utils.AveragedModel(net())
    assert bare(average) is average
    assert sorted(parameter_names({"ema": average}).values()) == [
        "module.0.weight",
        "module.2.weight",
    ]


def test_a_part_that_refers_to_the_whole_is_named_once() -> None:
    model = net()
    model[0].parent = model
    assert list(parameter_names({"model": model}).values()) == ["0.weight", "2.weight"]


def test_kernels_are_this_process_own_choice(tmp_path: Path) -> None:
    model = net()
    plain = optim.AdamW(model.parameters(), foreach=False)
    train(model, plain, 2)
    back = stored(tmp_path, plain, {"model": model})
    fused = optim.AdamW(model.parameters(), fused=True)
    restore_optimizer(fused, {"model": model}, back)
    assert fused.param_groups[0]["fused"] is True
    train(model, fused, 1)
    assert fused.state[model[0].weight]["step"].item() == 3

    back = stored(tmp_path, fused, {"model": model})
    plain = optim.AdamW(model.parameters(), foreach=True)
    restore_optimizer(plain, {"model": model}, back)
    assert plain.param_groups[0]["fused"] is None
    assert plain.param_groups[0]["foreach"] is True
    train(model, plain, 1)


def test_a_tensor_rate_keeps_its_identity(tmp_path: Path) -> None:
    model = net()
    back = stored(tmp_path, optim.SGD(model.parameters(), lr=torch.tensor(0.25)), {"model": model})
    rate = torch.tensor(0.5)
    resumed = optim.SGD(model.parameters(), lr=rate)
    restore_optimizer(resumed, {"model": model}, back)
    assert resumed.param_groups[0]["lr"] is rate
    assert rate.item() == 0.25
    other = optim.SGD(model.parameters(), lr=0.5)
    restore_optimizer(other, {"model": model}, back)
    assert other.param_groups[0]["lr"].item() == 0.25


@pytest.mark.parametrize(
    ("options", "where"),
    [({}, "cpu"), ({"foreach": True}, "cpu"), ({"capturable": True}, "meta")],
    ids=str,
)
def test_the_count_of_steps_stays_where_the_optimizer_keeps_it(
    options: dict[str, Any], where: str, tmp_path: Path
) -> None:
    model = net()
    optimizer = optim.AdamW(model.parameters())
    train(model, optimizer, 1)
    back = stored(tmp_path, optimizer, {"model": model})
    elsewhere = net().to("meta")
    resumed = optim.AdamW(elsewhere.parameters(), **options)
    restore_optimizer(resumed, {"model": elsewhere}, back)
    values = resumed.state[elsewhere[0].weight]
    assert values["step"].device.type == where
    assert values["exp_avg"].device.type == "meta"


@pytest.mark.parametrize("fused", [False, True])
def test_moments_of_strided_weights_lie_as_their_weights_do(fused: bool, tmp_path: Path) -> None:
    def once(model: Any, optimizer: Any) -> None:
        generator = torch.Generator().manual_seed(5)
        optimizer.zero_grad()
        x = torch.randn(2, 3, 5, 5, generator=generator).to(memory_format=torch.channels_last)
        model(x).square().mean().backward()
        optimizer.step()

    model: Any = torch.nn.Conv2d(3, 4, 3)
    model.to(memory_format=torch.channels_last)
    assert not model.weight.is_contiguous()
    optimizer = optim.AdamW(model.parameters(), fused=fused)
    once(model, optimizer)
    back = stored(tmp_path, optimizer, {"model": model})
    again = copy.deepcopy(model)
    resumed = optim.AdamW(again.parameters(), fused=fused)
    restore_optimizer(resumed, {"model": again}, back)
    assert state_bits(resumed) == state_bits(optimizer)
    values = resumed.state[again.weight]
    assert values["exp_avg"].stride() == model.weight.stride()
    assert not values["exp_avg"].requires_grad
    once(model, optimizer)
    once(again, resumed)
    assert same_weights(model, again)


# --- refusals


def test_lbfgs_is_refused_in_a_sentence() -> None:
    model = net()
    with pytest.raises(RefusedError, match=r"LBFGS keeps .* cannot be saved exactly"):
        capture_optimizer(optim.LBFGS(model.parameters()), {"model": model})


def test_state_outside_of_parameters_is_refused() -> None:
    model = net()
    optimizer: Any = optim.SGD(model.parameters(), lr=0.1)
    optimizer.state["global_step"] = {"n": 3}
    with pytest.raises(RefusedError, match="outside its parameters"):
        capture_optimizer(optimizer, {"model": model})


def test_state_without_a_safe_form_is_refused_by_its_path(tmp_path: Path) -> None:
    model = net()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    optimizer.state[model[0].weight]["queue"] = {1, 2}
    with pytest.raises(CodecError, match=r"^optimizers\.optimizer\.state\.0\.weight\.queue is a"):
        stored(tmp_path, optimizer, {"model": model})


def test_parameters_of_no_registered_module_are_refused() -> None:
    model = net()
    loose = torch.nn.Parameter(torch.zeros(3))
    optimizer = optim.SGD([*model.parameters(), loose], lr=0.1)
    with pytest.raises(RefusedError, match=r"shape \(3,\) .*register every module"):
        capture_optimizer(optimizer, {"model": model})


def refused(optimizer: Any, model: Any, back: Any, why: str) -> None:
    """Restoring is refused, and the optimizer is left as it was."""
    before = state_bits(optimizer)
    with pytest.raises(NotResumableError, match=why):
        restore_optimizer(optimizer, {"model": model}, back)
    assert state_bits(optimizer) == before


def test_another_optimizer_is_refused(tmp_path: Path) -> None:
    model = net()
    back = stored(tmp_path, optim.SGD(model.parameters(), lr=0.1), {"model": model})
    other = optim.AdamW(model.parameters())
    refused(other, model, back, r"torch\.optim\.sgd\.SGD, this one is torch\.optim\.adamw\.AdamW")


def test_other_groups_are_refused(tmp_path: Path) -> None:
    model = net()
    back = stored(tmp_path, optim.SGD(model.parameters(), lr=0.1), {"model": model})
    apart = optim.SGD([{"params": [p]} for p in model.parameters()], lr=0.1)
    refused(apart, model, back, "has 1 parameter groups, this one has 2")
    fewer = optim.SGD([model[0].weight], lr=0.1)
    refused(fewer, model, back, r"Group 0 .* other parameters, 2\.weight")


def test_a_lost_state_is_refused(tmp_path: Path) -> None:
    model = net()
    optimizer = optim.AdamW(model.parameters())
    train(model, optimizer, 1)
    back = stored(tmp_path, optimizer, {"model": model})
    del back["state"]["2.weight"]
    refused(optim.AdamW(model.parameters()), model, back, r"lacks the optimizer state of 2\.weight")


def test_state_of_an_unknown_parameter_is_refused(tmp_path: Path) -> None:
    model = net()
    optimizer = optim.AdamW(model.parameters())
    train(model, optimizer, 1)
    back = stored(tmp_path, optimizer, {"model": model})
    back["state"]["9.weight"] = {}
    refused(optim.AdamW(model.parameters()), model, back, r"unknown parameters: 9\.weight")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("param_groups", None),
        ("param_groups", {}),
        ("param_groups", [1]),
        ("param_groups", [{}]),
        ("param_groups", [{"params": [1]}]),
        ("state", []),
        ("state", {"0.weight": 1}),
        ("stateless", None),
        ("stateless", [1]),
    ],
)
def test_damaged_state_is_refused(key: str, value: object, tmp_path: Path) -> None:
    model = net()
    back = stored(tmp_path, optim.SGD(model.parameters(), lr=0.1), {"model": model})
    refused(optim.SGD(model.parameters(), lr=0.1), model, {**back, key: value}, "damaged")


def test_schedulers_go_through_the_codec_and_continue(tmp_path: Path) -> None:
    schedules = optim.lr_scheduler
    makers: dict[str, Callable[[Any], Any]] = {
        "lambda": lambda o: schedules.LambdaLR(o, lambda s: 1 / (1 + s)),
        "multi": lambda o: schedules.MultiStepLR(o, [2, 2, 5]),
        "cosine": lambda o: schedules.CosineAnnealingLR(o, 7),
        "warm": lambda o: schedules.CosineAnnealingWarmRestarts(o, 3),
        "cycle": lambda o: schedules.OneCycleLR(o, 0.1, total_steps=12),
        "sequence": lambda o: schedules.SequentialLR(
            o, [schedules.LinearLR(o), schedules.ExponentialLR(o, 0.9)], [4]
        ),
    }
    for name, make in makers.items():
        model = net()
        optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        schedule = make(optimizer)
        for _ in range(3):
            optimizer.step()
            schedule.step()
        folder = tmp_path / name
        folder.mkdir()
        captured = capture_optimizer(optimizer, {"model": model})
        write(folder, {"optimizer": captured, "schedule": schedule.state_dict()})
        back = read(folder)
        resumed = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        continued = make(resumed)
        restore_optimizer(resumed, {"model": model}, back["optimizer"])
        continued.load_state_dict(back["schedule"])
        for _ in range(6):
            assert resumed.param_groups[0]["lr"] == optimizer.param_groups[0]["lr"]
            for o, s in ((optimizer, schedule), (resumed, continued)):
                o.step()
                s.step()
