"""A program for each of several ranks: fits a sharded model, and prints what it ended with.

    sharded_fit.py RUN EPOCHS [SAVE_TIMEOUT LATE]

``LATE``: seconds by which the last rank is late for its second save. At the first one all ranks join
the run, for which each waits as long as the process group does.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
import warnings
from typing import Any, Optional

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.fabric.plugins.environments.torchelastic import TorchElasticEnvironment
from torch.distributed.fsdp import fully_shard

import holdfast.torch
from holdfast.lightning import ModelCheckpoint, ModelParallelStrategy


class Model(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(4, 6)

    def configure_model(self) -> None:
        mesh: Any = self.device_mesh
        fully_shard(self.layer, mesh=mesh["data_parallel"])

    def training_step(self, batch: Any, _: int) -> Any:
        return self.layer(batch).pow(2).mean()

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam(self.parameters(), lr=0.1)


def main(run: str, epochs: int, save_timeout: Optional[float] = None, late: float = 0.0) -> None:
    warnings.simplefilter("ignore")
    if late > 0 and os.environ["RANK"] != "0":
        _delay_saves(late)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    size = int(os.environ["WORLD_SIZE"])
    trainer = Trainer(
        accelerator="cpu",
        devices=size,
        strategy=ModelParallelStrategy(
            data_parallel_size=size, tensor_parallel_size=1, save_timeout=save_timeout
        ),
        callbacks=[ModelCheckpoint(run, every_n_train_steps=2)],
        plugins=[TorchElasticEnvironment()],
        max_epochs=epochs,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
    )
    model = Model()
    loader: Any = torch.utils.data.DataLoader
    began: list[int] = []
    model.on_train_start = lambda: began.append(trainer.global_step)  # type: ignore[method-assign]
    try:
        trainer.fit(model, loader(torch.ones(16, 4), batch_size=4), ckpt_path="last")
    except BaseException as error:
        if save_timeout is None:
            raise
        print(json.dumps([type(error).__name__, str(error)]), flush=True)
        # The group cannot end in order: a rank has left it.
        os._exit(0)
    sharded: Any = model.layer.weight
    weight = sharded.full_tensor()
    if trainer.global_rank == 0:
        print(json.dumps([began[0], trainer.global_step, weight.sum().item()]))
    torch.distributed.destroy_process_group()


def _delay_saves(seconds: float) -> None:
    """Behind the collectives of Lightning, so that the other ranks come to their saves."""
    save = holdfast.torch.async_save

    def late_save(*args: Any, **options: Any) -> Any:
        time.sleep(seconds)
        return save(*args, **options)

    def first_save(*args: Any, **options: Any) -> Any:
        holdfast.torch.async_save = late_save
        return save(*args, **options)

    holdfast.torch.async_save = first_save


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *map(float, sys.argv[3:]))
