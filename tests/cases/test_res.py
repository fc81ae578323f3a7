"""A resumed training goes on exactly where it was, or says why it cannot."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from tests.cases.harness import (
    ckptui,
    listed,
    seal,
    standing,
    tree,
)
from tests.factory import make_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.recipe.harness import At, Outcome, Trainer

    Uninterrupted = Callable[..., tuple[Path, Outcome]]
    Kill = Callable[[str, int], At]
    Stop = Callable[[int], At]

EXACT = ("loss", "lr", "grad_norm", "eval_loss")


def history(run: Path) -> dict[int, dict[str, Any]]:
    """What a run logged, as the command line tells it: step -> what repeats exactly."""
    rows = ckptui("metrics", run, "--json").json()["rows"]
    return {r["step"]: {k: v for k, v in r["metrics"].items() if k in EXACT} for r in rows}


def lines(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def state(folder: Path) -> dict[str, Any]:
    found = json.loads((folder / "recipe_state.json").read_text())
    assert isinstance(found, dict)
    return found


def with_state(folder: Path, **changes: Any) -> None:
    """Change the stored recipe state, the marker with it; `...` takes a key away."""
    changed = {k: v for k, v in {**state(folder), **changes}.items() if v is not ...}
    (folder / "recipe_state.json").write_text(json.dumps(changed))
    seal(folder)


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


@pytest.mark.torch
def test_B103_the_step_goes_on_after_a_stop(
    tmp_path: Path, trainer: Trainer, stop_at: Stop
) -> None:
    run = tmp_path / "run"
    assert trainer.run(output_dir=run, at=stop_at(5)).code == 75
    assert trainer.run(output_dir=run, resume_from="auto").code == 0

    assert next(r["step"] for r in lines(run) if r["attempt"] == 2) == 6
    assert max(r["step"] for r in lines(run) if r["attempt"] == 1) == 5
    epochs = {c["name"]: c["epoch"] for c in listed(run)}
    assert epochs == {
        "step_2": 0,
        "step_4": 0,
        "step_5": 1,
        "step_6": 1,
        "step_8": 1,
        "step_10": 2,
        "step_12": 2,
    }


@pytest.mark.torch
def test_B104_the_rate_neither_warms_up_again_nor_jumps(
    tmp_path: Path, trainer: Trainer, uninterrupted: Uninterrupted, kill_at: Kill
) -> None:
    run = tmp_path / "run"
    for at in (kill_at("save", 2), kill_at("log", 5), kill_at("log", 9)):
        trainer.run(output_dir=run, resume_from="auto", at=at)
    assert trainer.run(output_dir=run, resume_from="auto").code == 0

    whole, _ = uninterrupted()
    rates = {step: values["lr"] for step, values in history(run).items()}
    assert rates == {step: values["lr"] for step, values in history(whole).items()}
    assert rates[1] < rates[2] < rates[3] > rates[5] > rates[12]


@pytest.mark.torch
@pytest.mark.parametrize("kind", ["AdamW", "SGD", "Adafactor"])
def test_B106_optimizer_state_comes_back_identical(tmp_path: Path, kind: str) -> None:
    torch = pytest.importorskip("torch")
    from ckptui import TrainingRun
    from ckptui.recipe_state import capture_optimizer, read

    more = {"momentum": 0.9} if kind == "SGD" else {}

    def build() -> tuple[Any, Any]:
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1))
        return model, getattr(torch.optim, kind)(model.parameters(), lr=0.1, **more)

    def same(one: Any, other: Any) -> bool:
        if isinstance(one, dict):
            return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
        if isinstance(one, list | tuple):
            return len(one) == len(other) and all(map(same, one, other))
        if torch.is_tensor(one):
            return bool(one.dtype == other.dtype and torch.equal(one, other))
        return bool(one == other)

    model, optimizer = build()
    with TrainingRun(tmp_path / "run") as run:
        run.register(model=model, optimizer=optimizer)
        run.resume()
        for _ in range(3):
            model(torch.ones(2, 3)).sum().backward()
            optimizer.step()
        saved = run.save(3)
    before = capture_optimizer(optimizer, {"model": model})
    assert before["state"]

    model, optimizer = build()
    with TrainingRun(tmp_path / "run") as run:
        run.register(model=model, optimizer=optimizer)
        assert run.resume() == 3
    assert same(capture_optimizer(optimizer, {"model": model}), before)
    assert same(read(saved.path)["optimizers"]["optimizer"], before)


@pytest.mark.torch
@pytest.mark.parametrize("absent", ["all", "one parameter"])
def test_B106_absent_optimizer_state_is_an_error(
    tmp_path: Path, trainer: Trainer, absent: str
) -> None:
    run = tmp_path / "run"
    assert trainer.run(output_dir=run, max_steps=2, epochs=...).code == 0
    optimizers = state(run / "step_2")["optimizers"]
    if absent == "all":
        with_state(run / "step_2", optimizers={})
    else:
        kept = optimizers["optimizer"]["state"]
        kept.pop(min(kept))
        with_state(run / "step_2", optimizers=optimizers)
    before = tree(run / "step_2")

    outcome = trainer.run(
        output_dir=run, max_steps=4, epochs=..., allow_changed="max_steps", resume_from="auto"
    )
    assert outcome.code == 1
    assert "optimizer" in outcome.message()
    assert standing(run) == {"step_2"}
    assert tree(run / "step_2") == before


@pytest.mark.torch
@pytest.mark.parametrize("every", [2, None], ids=["steps", "epochs"])
def test_B107_dropout_is_the_same_after_any_kind_of_save(
    tmp_path: Path,
    trainer: Trainer,
    uninterrupted: Uninterrupted,
    kill_at: Kill,
    every: int | None,
) -> None:
    run = tmp_path / "run"
    how: dict[str, Any] = {"save_every_n_steps": every, "resume_from": "auto", "output_dir": run}
    trainer.run(**how, at=kill_at("log", 7))
    assert trainer.run(**how).code == 0

    whole, _ = uninterrupted(save_every_n_steps=every)
    assert history(run) == history(whole)
    assert standing(run) == standing(whole)
    last = "step_12" if every else "epoch_2"
    assert weights(run / last) == weights(whole / last)


@pytest.mark.torch
def test_B108_a_damaged_random_state_is_never_passed_over_in_silence(
    tmp_path: Path, trainer: Trainer
) -> None:
    run, fork = tmp_path / "run", tmp_path / "fork"
    assert trainer.run(output_dir=run, epochs=1).code == 0
    stored = run / "step_4" / "recipe_state.safetensors"
    data = bytearray(stored.read_bytes())
    data[-3] ^= 0xFF
    stored.write_bytes(bytes(data))

    asked = trainer.run(output_dir=fork, epochs=1, resume_from=run / "step_4")
    assert asked.code == 1
    assert "recipe_state.safetensors has other content" in asked.message()
    assert not fork.exists()
    back = trainer.run(output_dir=run, epochs=1, resume_from="auto")
    assert back.code == 0
    assert "step_4 is damaged and passed over" in back.message()


@pytest.mark.torch
@pytest.mark.parametrize("damage", ["gone", "empty", "cut"])
def test_B108_a_random_state_that_cannot_be_set_stops_the_start(
    tmp_path: Path, trainer: Trainer, damage: str
) -> None:
    run = tmp_path / "run"
    plain: dict[str, Any] = {"output_dir": run, "epochs": ..., "save_every_n_steps": 2}
    assert trainer.run(**plain, max_steps=2).code == 0
    rng = state(run / "step_2")["rng"]
    damaged: dict[str, Any] = {
        "gone": ...,
        "empty": {},
        "cut": {**rng, "python": "nonsense"},
    }
    with_state(run / "step_2", rng=damaged[damage])

    outcome = trainer.run(**plain, max_steps=4, allow_changed="max_steps", resume_from="auto")
    assert outcome.code == 1
    assert "random" in outcome.message()
    assert standing(run) == {"step_2"}
    assert not [r for r in lines(run) if r["step"] > 2]


@pytest.mark.torch
def test_B109_random_numbers_are_set_last(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    numpy = pytest.importorskip("numpy")
    from ckptui import TrainingRun

    def draws() -> tuple[float, float, float]:
        return random.random(), float(numpy.random.rand()), float(torch.rand(()))

    def start(folder: Path) -> tuple[Any, Any]:
        run = TrainingRun(folder)
        model = torch.nn.Linear(2, 1)
        return run, {"model": model, "optimizer": torch.optim.SGD(model.parameters(), lr=0.1)}

    run, objects = start(tmp_path / "run")
    with run:
        run.register(**objects)
        run.resume()
        run.save(1)
        expected = draws()
    torch.manual_seed(99)
    random.seed(99)
    numpy.random.seed(99)
    run, objects = start(tmp_path / "run")
    with run:
        run.register(**objects)
        run.resume()
        evaluation = torch.utils.data.DataLoader(
            range(8), batch_size=2, generator=torch.Generator()
        )
        assert len(list(evaluation)) == 4
        assert draws() == expected


@pytest.mark.torch
def test_B109_evaluating_does_not_change_what_training_draws(
    tmp_path: Path, trainer: Trainer, uninterrupted: Uninterrupted, kill_at: Kill
) -> None:
    run = tmp_path / "run"
    trainer.run(output_dir=run, eval_every_n_steps=1, at=kill_at("log", 6))
    # The resumed one evaluates, and loads with workers, where the first did not.
    assert trainer.run(output_dir=run, num_workers=2, resume_from="auto").code == 0
    whole, _ = uninterrupted()
    assert {s: v["loss"] for s, v in history(run).items()} == {
        s: v["loss"] for s, v in history(whole).items()
    }


@pytest.mark.torch
def test_B110_averaged_weights_their_counter_and_a_scaler_return(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from ckptui import TrainingRun

    def start() -> tuple[Any, dict[str, Any]]:
        model = torch.nn.Linear(2, 1)
        return TrainingRun(tmp_path / "run"), {
            "model": model,
            "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
            "average": torch.optim.swa_utils.AveragedModel(model),
            "scaler": torch.amp.GradScaler("cpu", init_scale=512.0, growth_interval=3),
        }

    run, first = start()
    with run:
        run.register(**first)
        run.resume()
        for _ in range(5):
            first["optimizer"].zero_grad()
            first["scaler"].scale(first["model"](torch.ones(3, 2)).sum()).backward()
            first["scaler"].step(first["optimizer"])
            first["scaler"].update()
            first["average"].update_parameters(first["model"])
        first["average"].eval()
        first["model"].eval()
        run.save(5)
    assert int(first["average"].n_averaged) == 5

    run, second = start()
    with run:
        run.register(**second)
        assert run.resume() == 5
    for name in ("model", "average"):
        one, other = first[name].state_dict(), second[name].state_dict()
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one), name
    assert second["scaler"].state_dict() == first["scaler"].state_dict()
    assert not torch.equal(second["model"].weight, second["average"].module.weight)


@pytest.mark.torch
def test_B111_optimizer_steps_are_not_taken_for_batches(
    tmp_path: Path, trainer: Trainer, uninterrupted: Uninterrupted, kill_at: Kill
) -> None:
    run = tmp_path / "run"
    how: dict[str, Any] = {
        "batch_size": 1,
        "gradient_accumulation_steps": 4,
        "epochs": 2,
        "max_steps_per_epoch": 4,
        "save_every_n_steps": 3,
    }
    trainer.run(output_dir=run, at=kill_at("save", 3), **how)
    assert state(run / "step_3")["data"]["batches"] == 12
    rest = trainer.run(output_dir=run, resume_from="auto", **how)
    assert rest.code == 0
    _, whole = uninterrupted(**how)
    assert [len(json.loads(group)) for group in whole.order] == [4] * 8
    assert rest.order == whole.order[3:]


@pytest.mark.torch
def test_B111_twenty_batches_are_skipped_after_five_steps_of_four(
    tmp_path: Path, trainer: Trainer, material: Path, kill_at: Kill
) -> None:
    run = tmp_path / "run"
    how: dict[str, Any] = {
        "dataset": material / "eighteen.jsonl",
        "batch_size": 1,
        "gradient_accumulation_steps": 4,
        "epochs": 2,
        "save_every_n_steps": 5,
    }
    trainer.run(output_dir=run, at=kill_at("save", 5), **how)
    # 18 batches make 5 steps, the last of 2: the next epoch begins.
    data = state(run / "step_5")["data"]
    assert (data["epoch"], data["batches"]) == (1, 0)
    rest = trainer.run(output_dir=run, resume_from="auto", **how)
    assert [len(json.loads(group)) for group in rest.order] == [4, 4, 4, 4, 2]


@pytest.mark.torch
def test_B112_a_longer_training_goes_on_with_the_next_epoch(
    tmp_path: Path, trainer: Trainer, material: Path, uninterrupted: Uninterrupted
) -> None:
    run = tmp_path / "run"
    how: dict[str, Any] = {
        "dataset": material / "eighteen.jsonl",
        "gradient_accumulation_steps": 1,
        "save_every_n_steps": None,
    }
    first = trainer.run(output_dir=run, epochs=2, **how)
    assert (first.code, len(first.order)) == (0, 18)
    longer = trainer.run(
        output_dir=run, epochs=3, resume_from="auto", allow_changed="epochs", **how
    )
    assert (longer.code, len(longer.order)) == (0, 9)
    assert standing(run) == {"epoch_0", "epoch_1", "epoch_2"}

    whole, said = uninterrupted(epochs=3, **how)
    assert longer.order == said.order[18:]
    mine, theirs = history(run), history(whole)
    assert [mine[s]["lr"] for s in range(19, 28)] == [theirs[s]["lr"] for s in range(19, 28)]


@pytest.mark.torch
def test_B113_no_batch_is_trained_twice_and_none_left_out(
    tmp_path: Path, trainer: Trainer, uninterrupted: Uninterrupted, stop_at: Stop
) -> None:
    run = tmp_path / "run"
    seen = trainer.run(output_dir=run, at=stop_at(3)).order
    seen += trainer.run(output_dir=run, resume_from="auto", at=stop_at(6)).order
    seen += trainer.run(output_dir=run, resume_from="auto").order
    _, whole = uninterrupted()
    assert seen == whole.order
    assert len(seen) == 12


@pytest.mark.torch
@pytest.mark.parametrize("word", ["auto", "latest", "path"])
def test_B114_a_finished_run_is_finished(tmp_path: Path, trainer: Trainer, word: str) -> None:
    run = tmp_path / "run"
    assert trainer.run(output_dir=run, epochs=1).code == 0
    before = tree(run)
    source = run / "step_4" if word == "path" else word
    again = trainer.run(output_dir=run, epochs=1, resume_from=source)
    assert (again.code, again.order) == (0, [])
    assert "nothing to do" in again.message()
    assert tree(run) == before


def test_B115_an_absent_step_is_no_fresh_start(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [100, 200])
    before = tree(run)
    for words in (["999"], ["step_999"], [str(run / "step_999")]):
        error = ckptui("resume-cmd", *words, "--run", run, "--json", code=1).json()["error"]
        assert error["kind"] == "not_found"
        assert error["candidates"] == ["step_100", "step_200"]
        assert "step_100, step_200" in error["message"]
    assert tree(run) == before


@pytest.mark.torch
def test_B115_training_from_an_absent_step_does_not_begin(tmp_path: Path, trainer: Trainer) -> None:
    run = make_run(tmp_path / "run", [100, 200])
    before = tree(run)
    outcome = trainer.run(output_dir=tmp_path / "fork", resume_from=run / "step_999")
    assert outcome.code == 1
    assert "step_100, step_200" in outcome.message()
    assert not (tmp_path / "fork").exists()
    assert tree(run) == before


def test_B117_another_number_of_processes_is_told_before_the_start(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [100])
    assert ckptui("resume-cmd", "latest", "--run", run).err == ""
    with_state(run / "step_100", world_size=4)
    assert "saved by 4 processes" in ckptui("resume-cmd", "latest", "--run", run).err


@pytest.mark.torch
def test_B117_training_says_that_another_number_of_processes_saved_it(
    tmp_path: Path, trainer: Trainer, kill_at: Kill
) -> None:
    run = tmp_path / "run"
    trainer.run(output_dir=run, at=kill_at("save", 6))
    with_state(run / "step_6", world_size=4)
    outcome = trainer.run(output_dir=run, resume_from="auto")
    assert outcome.code == 0
    assert "step_6 was saved by 4 processes" in outcome.message()


@pytest.mark.torch
def test_B118_a_run_goes_on_in_its_own_folder_without_naming_it(
    tmp_path: Path, trainer: Trainer, kill_at: Kill
) -> None:
    run = tmp_path / "run"
    trainer.run(output_dir=run, at=kill_at("save", 6))
    outcome = trainer.run_with(["--config", str(run / "config.yaml"), "resume_from=latest"])
    assert outcome.code == 0
    assert str(run) in outcome.message()
    assert {p.name for p in tmp_path.iterdir()} == {"run", "processes"}
    assert sorted(history(run)) == list(range(1, 13))


@pytest.mark.torch
def test_B118_without_an_output_folder_nothing_begins(
    tmp_path: Path, trainer: Trainer, uninterrupted: Uninterrupted
) -> None:
    whole, _ = uninterrupted()
    before = tree(whole)
    outcome = trainer.run(output_dir=..., resume_from=whole / "step_6")
    assert outcome.code == 2
    assert "output_dir" in outcome.message()
    assert tree(whole) == before
