"""A rank of a Trainer whose model is sharded by FSDP or DeepSpeed. Prints one line of JSON.

    sharded.py fsdp|deepspeed URI DIRECTORY [VERSION]

It trains to step 6 and saves at step 4 and 6. With ``VERSION`` it first resumes from that.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from typing import Any, Optional

import torch.distributed as dist
from accelerate.state import AcceleratorState
from accelerate.utils import DistributedType
from transformers import Trainer, TrainerCallback, TrainingArguments

import holdfast.hf

from .programs import Model, data_set

STEPS = 6


class Began(TrainerCallback):
    """Notes the step at which the training begins."""

    step: Optional[int] = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.step = state.global_step


def fsdp() -> dict[str, Any]:
    """accelerate has FSDP for accelerators only, so its choice of a kind is overridden."""
    init = AcceleratorState.__init__

    def with_fsdp(self: Any, *args: Any, **options: Any) -> None:
        init(self, *args, **options)
        if options.get("fsdp_plugin") is not None:
            self.distributed_type = DistributedType.FSDP
            self.fsdp_plugin = options["fsdp_plugin"]

    AcceleratorState.__init__ = with_fsdp
    config = {
        "version": 2,
        "auto_wrap_policy": "SIZE_BASED_WRAP",
        "min_num_params": 10,
        "state_dict_type": "SHARDED_STATE_DICT",
        "cpu_ram_efficient_loading": False,
    }
    return {"use_cpu": True, "fsdp": "full_shard", "fsdp_config": config}


def deepspeed() -> dict[str, Any]:
    """Its shared memory would be compiled by a C++ compiler first. Otherwise it uses gloo."""
    ops: Any = import_module("deepspeed.ops")
    ops.__compatible_ops__["deepspeed_shm_comm"] = False
    adam = {"type": "Adam", "params": {"lr": "auto", "torch_adam": True}}
    batch = {"train_micro_batch_size_per_gpu": "auto"}
    return {"deepspeed": {**batch, "zero_optimization": {"stage": 2}, "optimizer": adam}}


def main(kind: str, uri: str, directory: str, version: Optional[str] = None) -> None:
    options = {"fsdp": fsdp, "deepspeed": deepspeed}[kind]()
    data = data_set()
    arguments = TrainingArguments(
        directory,
        max_steps=STEPS,
        save_steps=4,
        save_total_limit=1,
        per_device_train_batch_size=4,
        report_to=[],
        disable_tqdm=True,
        **options,
    )
    began = Began()
    # Version 6 of the run is committed already when the job is resumed from an earlier one.
    own = uri if version is None else f"{uri}-resumed"
    callbacks = [holdfast.hf.CheckpointCallback(own, remove_local=True), began]
    trainer = Trainer(Model(), arguments, train_dataset=data, callbacks=callbacks)
    found = None
    if version is not None:
        found = holdfast.hf.resume(uri, directory, version=int(version))
    trainer.train(resume_from_checkpoint=found)
    weight: Any = trainer.model_wrapped.get_parameter(
        "module.layer.weight" if kind == "deepspeed" else "layer.weight"
    )
    whole = weight.full_tensor() if kind == "fsdp" else weight
    said = {"began": began.step, "weights": whole.flatten().tolist(), "sharded": whole is not weight}
    print("\n" + json.dumps(said), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
