"""The ways of saving that are compared: ours, torch's, safetensors', and those of three trainers.

All save the same model and optimizer, each as its documentation says. None but ours is a
dependency: what is not installed raises ImportError when it is made.
"""

from __future__ import annotations

import importlib
import json
import logging
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch.utils.data import DataLoader

from ckptui import TrainingRun
from ckptui.scan import scan_run
from ckptui.verify import verify_checkpoint
from tests.benchmarks.workload import Reference

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future
    from pathlib import Path

    from tests.benchmarks.workload import Training


class Method:
    """One way of saving a training state, and of going on from what it saved."""

    label: ClassVar[str]
    asynchronous: ClassVar[bool] = False
    durable: ClassVar[bool] = False
    """Whether it syncs its files itself; for the others the benchmark does, after the call."""
    ours: ClassVar[bool] = False

    def __init__(self, training: Training, folder: Path) -> None:
        self.training = training
        self.folder = folder

    def prepare(self) -> None:
        """What its users would have at hand before they save; not timed."""

    def save(self, step: int) -> Future[Any] | None:
        """Save; what is still to be waited for, if it goes on in the background."""
        raise NotImplementedError

    def after_copy(self) -> float | None:
        """Seconds from the end of the last save's copy until it was durable, where it tells."""
        return None

    def written(self, step: int) -> tuple[Path, ...]:
        """The files and folders of one save."""
        return (self.folder / f"step_{step}",)

    def discard(self, step: int) -> None:
        """Remove what one save wrote."""
        for path in self.written(step):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    def close(self) -> None:
        """End it in good order."""

    def verify(self) -> None:
        """Let the method itself say that what it wrote is whole, where it can."""

    def resume(self, step: int, loaded: Callable[[], None]) -> None:
        """Load, call `loaded`, and take a step; in a process where nothing was saved."""
        self.load(step)
        loaded()
        self.training.step()

    def load(self, step: int) -> None:
        """Put the saved state into the training."""
        raise NotImplementedError


class Nothing(Method):
    """No state at all: what starting a process, building the model and one step take."""

    label = "nothing loaded"

    def load(self, step: int) -> None:
        pass


class Ours(Method):
    label = "ckptui save"
    durable = True
    ours = True

    def __init__(self, training: Training, folder: Path) -> None:
        super().__init__(training, folder)
        self._run: TrainingRun | None = None

    def _entered(self, resume: Path | None) -> TrainingRun:
        run = TrainingRun(self.folder, resume=resume, report=logging.getLogger(__name__).warning)
        run.__enter__()
        run.register(model=self.training.model, optimizer=self.training.optimizer)
        run.resume()
        return run

    def prepare(self) -> None:
        if self._run is None:
            self._run = self._entered(None)

    def save(self, step: int) -> Future[Any] | None:
        assert self._run is not None
        self._run.save(step)
        return None

    def close(self) -> None:
        if self._run is not None:
            self._run.__exit__(None, None, None)

    def verify(self) -> None:
        found = scan_run(self.folder).checkpoints
        assert found
        for checkpoint in found:
            report = verify_checkpoint(checkpoint, full=True)
            assert report.status == "verified", report

    def load(self, step: int) -> None:
        self._run = self._entered(self.folder / f"step_{step}")


class OursInBackground(Ours):
    label = "ckptui async_save"
    asynchronous = True

    def save(self, step: int) -> Future[Any]:
        assert self._run is not None
        return self._run.async_save(step)

    def after_copy(self) -> float | None:
        assert self._run is not None
        times = self._run.save_times
        return times.durable - times.copied if times is not None else None


class RawInThread(Method):
    """Not a checkpoint, but the least that could be done in the background: a control."""

    label = "(copy, raw write in a thread)"
    asynchronous = True
    durable = True

    def __init__(self, training: Training, folder: Path) -> None:
        super().__init__(training, folder)
        self._state: Reference | None = None
        self._pool = ThreadPoolExecutor(1)
        self._seconds = 0.0

    def prepare(self) -> None:
        if self._state is None:
            self._state = Reference(self.training, self.folder)

    def save(self, step: int) -> Future[Any]:
        assert self._state is not None
        self._state.copy()
        return self._pool.submit(self._write, self._state, self.folder / f"step_{step}")

    def _write(self, state: Reference, file: Path) -> None:
        begun = time.monotonic()
        state.write_to(file)
        self._seconds = time.monotonic() - begun

    def after_copy(self) -> float | None:
        return self._seconds

    def load(self, step: int) -> None:
        self.training.warm_up()  # for the optimizer to have what is read
        Reference(self.training, self.folder).read_from(self.folder / f"step_{step}")


class TorchSave(Method):
    label = "torch.save, one file"

    def save(self, step: int) -> Future[Any] | None:
        state = {
            "model": self.training.model.state_dict(),
            "optimizer": self.training.optimizer.state_dict(),
        }
        torch.save(state, self.folder / f"step_{step}")
        return None

    def load(self, step: int) -> None:
        state = torch.load(self.folder / f"step_{step}", weights_only=True, mmap=True)
        self.training.model.load_state_dict(state["model"])
        self.training.optimizer.load_state_dict(state["optimizer"])


class Safetensors(Method):
    label = "safetensors save_file"

    def __init__(self, training: Training, folder: Path) -> None:
        super().__init__(training, folder)
        self._library = importlib.import_module("safetensors.torch")

    def save(self, step: int) -> Future[Any] | None:
        tensors = dict(self.training.named_state())
        groups = self.training.optimizer.state_dict()["param_groups"]
        self._library.save_file(
            tensors, self.folder / f"step_{step}", metadata={"param_groups": json.dumps(groups)}
        )
        return None

    def load(self, step: int) -> None:
        file = self.folder / f"step_{step}"
        stored = self._library.load_file(file)
        with importlib.import_module("safetensors").safe_open(file, "pt") as f:
            groups = json.loads(f.metadata()["param_groups"])
        state: dict[int, dict[str, torch.Tensor]] = {}
        with torch.no_grad():
            for number, (name, parameter) in enumerate(self.training.model.named_parameters()):
                parameter.copy_(stored[name])
                state[number] = {
                    key: stored[f"{name}.{key}"] for key in ("exp_avg", "exp_avg_sq", "step")
                }
        self.training.optimizer.load_state_dict({"state": state, "param_groups": groups})


class Dcp(Method):
    label = "DCP save"
    durable = True

    def __init__(self, training: Training, folder: Path) -> None:
        super().__init__(training, folder)
        self._dcp: Any = importlib.import_module("torch.distributed.checkpoint")
        self._state_dict: Any = importlib.import_module("torch.distributed.checkpoint.state_dict")

    def _state(self) -> dict[str, Any]:
        model, optimizer = self._state_dict.get_state_dict(
            self.training.model, self.training.optimizer
        )
        del model["lm_head.weight"]  # tied to the embedding; DCP would write it twice
        return {"model": model, "optimizer": optimizer}

    def save(self, step: int) -> Future[Any] | None:
        self._dcp.save(self._state(), checkpoint_id=self.folder / f"step_{step}")
        return None

    def load(self, step: int) -> None:
        state = self._state()
        self._dcp.load(state, checkpoint_id=self.folder / f"step_{step}")
        self._state_dict.set_state_dict(
            self.training.model,
            self.training.optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
            options=self._state_dict.StateDictOptions(strict=False),
        )


class DcpAsync(Dcp):
    label = "DCP async_save"
    asynchronous = True

    def save(self, step: int) -> Future[Any]:
        found: Future[Any] = self._dcp.async_save(
            self._state(), checkpoint_id=self.folder / f"step_{step}"
        )
        return found


class DcpAsyncKept(DcpAsync):
    label = "DCP async_save, buffer kept"
    in_thread: ClassVar[bool] = False

    def __init__(self, training: Training, folder: Path) -> None:
        super().__init__(training, folder)
        staging: Any = importlib.import_module("torch.distributed.checkpoint.staging")
        options = staging.StagingOptions(
            use_pinned_memory=False,  # as all of these, for CUDA
            use_shared_memory=False,
            use_async_staging=self.in_thread,
            use_non_blocking_copy=False,
        )
        self._stager = staging.DefaultStager(options)

    def save(self, step: int) -> Future[Any]:
        found: Future[Any] = self._dcp.async_save(
            self._state(),
            checkpoint_id=self.folder / f"step_{step}",
            async_stager=self._stager,
        )
        return found

    def close(self) -> None:
        self._stager.close()


class DcpAsyncStaged(DcpAsyncKept):
    label = "DCP async_save, staged in thread"
    in_thread = True

    def __init__(self, training: Training, folder: Path) -> None:
        super().__init__(training, folder)
        self._staging: Future[Any] | None = None
        training.optimizer.register_step_pre_hook(self._join)

    def _join(self, *_: object) -> None:
        """Its users must wait for the copy before they change the weights."""
        if self._staging is not None:
            self._staging.result()
            self._staging = None

    def save(self, step: int) -> Future[Any]:
        response: Any = super().save(step)
        self._staging = response.staging_completion
        found: Future[Any] = response.upload_completion
        return found


class HuggingFace(Method):
    label = "transformers Trainer"

    def __init__(self, training: Training, folder: Path) -> None:
        super().__init__(training, folder)
        self._library: Any = importlib.import_module("transformers")
        self._library.utils.logging.disable_progress_bar()
        importlib.import_module("accelerate")
        self._trainer: Any = None

    def _made(self, until: int) -> Any:
        arguments = self._library.TrainingArguments(
            output_dir=str(self.folder),
            max_steps=until,
            per_device_train_batch_size=len(self.training.batch),
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
            ignore_data_skip=True,
            dataloader_pin_memory=False,
        )
        rows = [{"input_ids": t, "labels": t} for t in self.training.batch] * 1000
        constant = torch.optim.lr_scheduler.LambdaLR(self.training.optimizer, lambda _: 1.0)
        return self._library.Trainer(
            model=self.training.model,
            args=arguments,
            train_dataset=rows,
            optimizers=(self.training.optimizer, constant),
        )

    def prepare(self) -> None:
        if self._trainer is None:
            self._trainer = self._made(1)
            self._trainer.train()

    def save(self, step: int) -> Future[Any] | None:
        self._trainer.state.global_step = step
        self._trainer._save_checkpoint(self._trainer.model, trial=None)
        return None

    def written(self, step: int) -> tuple[Path, ...]:
        return (self.folder / f"checkpoint-{step}",)

    def resume(self, step: int, loaded: Callable[[], None]) -> None:
        trainer = self._made(step + 1)
        begin: Any = self._library.TrainerCallback
        watch = type("Watch", (begin,), {"on_step_begin": lambda *_, **__: loaded()})
        trainer.add_callback(watch())
        trainer.train(resume_from_checkpoint=str(self.written(step)[0]))


class Lightning(Method):
    label = "Lightning"

    def __init__(self, training: Training, folder: Path) -> None:
        super().__init__(training, folder)
        self._library: Any = importlib.import_module("lightning")
        logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
        self._trainer: Any = None

    def _fit(self, until: int, source: Path | None, loaded: Callable[[], None]) -> Any:
        training = self.training

        def __init__(module: Any) -> None:  # noqa: N807 - the method of the class made below
            base.__init__(module)
            module.model = training.model

        def training_step(module: Any, batch: Any, _: int) -> Any:
            loaded()
            return module.model(input_ids=batch, labels=batch).loss

        base: Any = self._library.LightningModule
        kind = type(
            "Module",
            (base,),
            {
                "__init__": __init__,
                "training_step": training_step,
                "configure_optimizers": lambda _: training.optimizer,
            },
        )
        trainer = self._library.Trainer(
            max_steps=until,
            accelerator="cpu",
            devices=1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=self.folder,
        )
        rows: Any = [training.batch] * 1000
        trainer.fit(kind(), DataLoader(rows, batch_size=None), ckpt_path=source)
        return trainer

    def prepare(self) -> None:
        if self._trainer is None:
            self._trainer = self._fit(1, None, lambda: None)

    def save(self, step: int) -> Future[Any] | None:
        self._trainer.save_checkpoint(self.folder / f"step_{step}")
        return None

    def resume(self, step: int, loaded: Callable[[], None]) -> None:
        self._fit(2, self.folder / f"step_{step}", loaded)


class Torchtune(Method):
    label = "torchtune FullModelHFCheckpointer"

    def __init__(self, training: Training, folder: Path) -> None:
        super().__init__(training, folder)
        self._library: Any = importlib.import_module("torchtune.training")
        self._names: Any = importlib.import_module("torchtune.models.convert_weights")
        config = training.model.config
        self._shape = {
            "num_heads": config.num_attention_heads,
            "num_kv_heads": config.num_key_value_heads,
            "dim": config.hidden_size,
        }
        self._checkpointer: Any = None
        self._weights: dict[str, torch.Tensor] = {}

    def _made(self, weights: str, *, resume: bool) -> Any:
        return self._library.FullModelHFCheckpointer(
            checkpoint_dir=str(self.folder / "start"),
            checkpoint_files=[weights],
            model_type="LLAMA3",
            output_dir=str(self.folder / "out"),
            should_load_recipe_state=resume,
        )

    def prepare(self) -> None:
        if self._checkpointer is None:
            self.training.model.save_pretrained(self.folder / "start")
            self._checkpointer = self._made("model.safetensors", resume=False)
            self._checkpointer.load_checkpoint()
        weights = dict(self.training.model.state_dict())
        del weights["lm_head.weight"]
        # Its own models have their weights by these names and in this order already.
        self._weights = self._names.hf_to_tune(weights, **self._shape)

    def save(self, step: int) -> Future[Any] | None:
        state = {
            "model": self._weights,
            "optimizer": self.training.optimizer.state_dict(),
            "epochs_run": step,
            "seed": 0,
        }
        self._checkpointer.save_checkpoint(state, epoch=step, intermediate_checkpoint=True)
        return None

    def written(self, step: int) -> tuple[Path, ...]:
        return (self.folder / "out" / f"epoch_{step}", self.folder / "out" / "recipe_state")

    def load(self, step: int) -> None:
        weights = f"epoch_{step}/model-00001-of-00001.safetensors"
        state = self._made(weights, resume=True).load_checkpoint()
        named = self._names.tune_to_hf(state["model"], **self._shape)
        self.training.model.load_state_dict(named, strict=False)
        self.training.optimizer.load_state_dict(state["optimizer"])


METHODS: Mapping[str, type[Method]] = {
    "ours_async": OursInBackground,
    "ours": Ours,
    "safetensors": Safetensors,
    "torch_save": TorchSave,
    "raw": RawInThread,
    "dcp": Dcp,
    "dcp_async": DcpAsync,
    "dcp_async_kept": DcpAsyncKept,
    "dcp_async_staged": DcpAsyncStaged,
    "trainer": HuggingFace,
    "lightning": Lightning,
    "torchtune": Torchtune,
}
"""By the names that choose them."""

FLOOR = "nothing"
