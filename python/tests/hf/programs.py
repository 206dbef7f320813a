"""Jobs with the real Trainer and accelerate. Prints one line of JSON: what happened in each.

Arguments: the beginning of the runs' URIs, a directory, names of functions.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import sys
import time
from typing import Any, Optional

import torch
import torch.distributed as dist
from accelerate import Accelerator
from accelerate.utils import ProjectConfiguration
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_jit_checkpoint import CheckpointManager

import holdfast
import holdfast.hf
from holdfast._nodes import find_nodes
from holdfast.errors import HoldfastError


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(16, 16)

    def forward(self, x: Any, labels: Any = None) -> dict[str, Any]:
        y = self.layer(x)
        return {"loss": ((y - labels) ** 2).mean(), "logits": y}


class DieAt(TrainerCallback):
    """Ends the process in the step, before the Trainer saves."""

    def __init__(self, step: int) -> None:
        self._step = step

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step + 1 == self._step:
            raise KeyboardInterrupt


def data_set() -> list[dict[str, Any]]:
    """The same each time. Models that are made after it begin the same too."""
    torch.manual_seed(1)
    return [{"x": torch.randn(16), "labels": torch.randn(16)} for _ in range(64)]


def trainer(directory: str, steps: int, callbacks: list[Any], **more: Any) -> Trainer:
    data = data_set()
    arguments = TrainingArguments(
        directory,
        max_steps=steps,
        save_steps=2,
        logging_steps=1,
        per_device_train_batch_size=4,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        **more,
    )
    sets: dict[str, Any] = {"train_dataset": data, "eval_dataset": data[:8]}
    return Trainer(Model(), arguments, callbacks=callbacks, **sets)


def weights(made: Trainer) -> list[float]:
    model = made.accelerator.unwrap_model(made.model)
    return [float(value) for value in model.layer.weight.flatten()]


def failure(call: Any) -> Optional[list[str]]:
    try:
        call()
    except HoldfastError as error:
        return [type(error).__name__, error.message]
    return None


def train(uri: str, directory: str) -> dict[str, Any]:
    """A job that is interrupted and resumed on another machine, beside one that is not."""
    first, second, whole = (os.path.join(directory, name) for name in ("a", "b", "whole"))
    uninterrupted = trainer(whole, 6, [])
    uninterrupted.train()
    callbacks = [DieAt(6), holdfast.hf.CheckpointCallback(uri)]
    interrupted = trainer(first, 6, callbacks, save_total_limit=1)
    nothing = holdfast.hf.resume(uri, first)
    try:
        interrupted.train()
    except KeyboardInterrupt:
        pass
    with holdfast.connect(uri, writer=None) as run:
        wait_for(run, 4)
    resumed = trainer(second, 6, [holdfast.hf.CheckpointCallback(uri, remove_local=True)])
    found = holdfast.hf.resume(uri, second)
    resumed.train(resume_from_checkpoint=found)
    with holdfast.connect(uri, writer=None) as run:
        versions = [each.version for each in run.versions()]
        metrics = dict(run.versions()[0].metrics)
        files = [file.name for file in run.files(4)]
    return {
        "nothing": nothing,
        "found": found,
        "versions": versions,
        "metrics": sorted(metrics),
        "files": files,
        "left": sorted(os.listdir(first)),
        "removed": sorted(name for name in os.listdir(second) if not name.startswith(".")),
        "equal": weights(uninterrupted) == weights(resumed),
    }


class TerminateAt(TrainerCallback):
    """SIGTERM after the step, as a cluster sends it."""

    def __init__(self, step: int) -> None:
        self._step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step != self._step:
            return
        [manager] = [one for one in gc.get_objects() if isinstance(one, CheckpointManager)]
        manager.kill_wait = 0
        os.kill(os.getpid(), signal.SIGTERM)
        while not manager.is_checkpoint_requested:
            time.sleep(0.01)


def sigterm(uri: str, directory: str) -> dict[str, Any]:
    """The Trainer writes a checkpoint at SIGTERM. One that an earlier start left there is not it."""
    stale = os.path.join(directory, "checkpoint-5")
    os.makedirs(stale)
    with open(os.path.join(stale, "trainer_state.json"), "w", encoding="ascii") as file:
        file.write("{}")
    callbacks = [TerminateAt(3), holdfast.hf.CheckpointCallback(uri)]
    options = {"enable_jit_checkpoint": True, "save_strategy": "no"}
    trainer(directory, 6, callbacks, **options).train()
    shorter = trainer(directory, 5, [holdfast.hf.CheckpointCallback(uri)], save_strategy="no")
    shorter.train()
    with holdfast.connect(uri, writer=None) as run:
        return {"versions": [each.version for each in run.versions()]}


def best(uri: str, directory: str) -> dict[str, Any]:
    """The directory of the best model stays: the Trainer reads it at its end."""
    options = {"eval_strategy": "steps", "eval_steps": 2, "load_best_model_at_end": True}
    callback = holdfast.hf.CheckpointCallback(uri, remove_local=True)
    made = trainer(directory, 4, [callback], **options)
    made.train()
    kept = os.path.basename(str(made.state.best_model_checkpoint))
    return {"kept": kept, "left": sorted(os.listdir(directory))}


def again(uri: str, directory: str) -> dict[str, Any]:
    """Directories that the Trainer has written are there when a job resumes."""
    made = trainer(directory, 2, [holdfast.hf.CheckpointCallback(uri)])
    made.train()
    path = os.path.join(directory, "checkpoint-2")
    os.truncate(os.path.join(path, "model.safetensors"), 10)
    results = [holdfast.hf.resume(uri, directory) for _ in range(3)]
    # Another step was restored here, and the Trainer has removed its directory since.
    with holdfast.connect(uri) as run:
        run.save(4, buffers={"a": b"1"}).wait()
    later = os.path.join(directory, "later")
    os.mkdir(later)
    for name in ("checkpoint-2", "checkpoint-4", "checkpoint-5.before-resume", "checkpoint-x.before-resume"):
        os.mkdir(os.path.join(later, name))
        with open(os.path.join(later, name, "torn"), "wb"):
            pass
    holdfast.hf.resume(uri, later, version=2)
    notes = len([name for name in os.listdir(later) if ".made-" in name])
    shutil.rmtree(os.path.join(later, "checkpoint-2"))
    holdfast.hf.resume(uri, later)
    return {
        "notes": notes,
        "beside": sorted(name.partition(".holdfast-")[0] for name in os.listdir(later)),
        "results": results,
        "torn": os.path.getsize(os.path.join(f"{path}.before-resume", "model.safetensors")),
        "whole": os.path.getsize(os.path.join(path, "model.safetensors")),
        "left": sorted(name for name in os.listdir(directory) if name.startswith("checkpoint")),
    }


def accelerate(uri: str, directory: str) -> dict[str, Any]:
    accelerator = Accelerator(cpu=True)
    model = accelerator.prepare(Model())
    nothing = holdfast.hf.AcceleratorCheckpoints(accelerator, uri, directory).load_state()
    with holdfast.hf.AcceleratorCheckpoints(accelerator, uri, directory) as checkpoints:
        for version in (1, 2):
            with torch.no_grad():
                model.layer.weight.fill_(version)
            checkpoints.save_state(version, metrics={"loss": version / 2})
    left = sorted(os.listdir(directory))
    with torch.no_grad():
        model.layer.weight.fill_(0)
    other = holdfast.hf.AcceleratorCheckpoints(accelerator, uri, directory)
    latest, value = other.load_state(), float(model.layer.weight[0][0])
    earlier, before = other.load_state(1), float(model.layer.weight[0][0])
    naming = ProjectConfiguration(directory, automatic_checkpoint_naming=True)
    named = Accelerator(project_config=naming)
    return {
        "nothing": nothing,
        "left": left,
        "loaded": [latest, value, earlier, before],
        "refused": failure(lambda: holdfast.hf.AcceleratorCheckpoints(named, uri, directory)),
    }


def odd(uri: str, directory: str) -> dict[str, Any]:
    """Entries of a directory that are no files."""
    elsewhere = os.path.join(directory, "elsewhere")
    os.mkdir(elsewhere)
    accelerator = Accelerator(cpu=True)
    accelerator.prepare(Model())
    written: list[str] = []

    def add_odd(models: Any, weights: Any, target: str) -> None:
        os.makedirs(os.path.join(target, "empty", "inner"))
        for name in written:
            os.symlink(elsewhere, os.path.join(target, name))

    accelerator.register_save_state_pre_hook(add_odd)
    with holdfast.hf.AcceleratorCheckpoints(accelerator, uri, directory) as checkpoints:
        checkpoints.save_state(1)
        checkpoints.finish()
        written.append("weights")
        linked = failure(lambda: checkpoints.save_state(2))
    restored = holdfast.hf.resume(uri, os.path.join(directory, "other"))
    assert restored is not None
    return {
        "linked": linked,
        "restored": os.path.basename(restored),
        "empty": os.listdir(os.path.join(restored, "empty", "inner")),
        "stays": os.path.isdir(os.path.join(directory, "checkpoint-2")),
    }


def mistakes(uri: str, directory: str) -> dict[str, Any]:
    def train_with(*arguments: Any, **options: Any) -> Optional[list[str]]:
        callback = holdfast.hf.CheckpointCallback(*arguments, **options)
        return failure(trainer(directory, 2, [callback]).train)

    return {
        "no run": train_with("/tmp/run"),
        "a writer": train_with(uri, writer=(0, 1)),
        "a reader that writes": failure(lambda: holdfast.hf.resume(uri, directory, attempt="a")),
        "no such version": failure(lambda: holdfast.hf.resume(uri, directory, version=7)),
        "no agent": train_with(uri, agent=f"{directory}/none.sock", timeout=0.1),
    }


def nodes(uri: str, directory: str) -> dict[str, Any]:
    """Two processes, each alone on its node with a directory of its own."""
    rank = int(os.environ["RANK"])
    here = os.path.join(directory, f"node-{rank}")
    made = trainer(here, 4, [holdfast.hf.CheckpointCallback(uri)], save_total_limit=1)
    made.train()
    trained = weights(made)
    elsewhere = os.path.join(directory, f"other-{rank}")
    found = holdfast.hf.resume(uri, elsewhere)
    assert found is not None
    loaded = trainer(elsewhere, 4, [])
    loaded.train(resume_from_checkpoint=found)
    return {
        "here": sorted(os.listdir(os.path.join(here, "checkpoint-4"))),
        "found": sorted(os.listdir(found)),
        "equal": weights(loaded) == trained,
        "failures": failures_of_one(uri, directory, rank),
    }


def failures_of_one(uri: str, directory: str, rank: int) -> dict[str, Any]:
    """What fails on one rank is raised on both."""

    class Odd(Exception):
        """Cannot be sent to another process."""

    def odd() -> None:
        if rank == 1:
            raise Odd("of rank 1")

    def with_another_run() -> None:
        callback = holdfast.hf.CheckpointCallback(f"{uri}-{rank}" if rank else "./none")
        trainer(directory, 2, [callback]).train()

    local_rank = os.environ.pop("LOCAL_RANK") if rank == 1 else ""
    unknown = failure(find_nodes)
    if rank == 1:
        os.environ["LOCAL_RANK"] = local_rank
    return {
        "odd": failure(lambda: find_nodes().together(odd)),
        "rank 0 has no run": failure(with_another_run),
        "rank 1 does not know its place": unknown,
    }


def wait_for(run: Any, version: int) -> None:
    while (latest := run.latest()) is None or latest.version < version:
        pass


if __name__ == "__main__":
    found = {}
    for job in sys.argv[3:]:
        own = os.path.join(sys.argv[2], job)
        os.makedirs(own, exist_ok=True)
        found[job] = globals()[job](f"{sys.argv[1]}-{job}", own)
    print(json.dumps(found))
    if dist.is_initialized():
        dist.destroy_process_group()
