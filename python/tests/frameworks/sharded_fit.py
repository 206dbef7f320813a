"""A program for each of several ranks: fits a sharded model, and prints what it ended with."""

from __future__ import annotations

import json
import logging
import os
import sys
import warnings
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.fabric.plugins.environments.torchelastic import TorchElasticEnvironment
from torch.distributed.fsdp import fully_shard

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


def main(run: str, epochs: int) -> None:
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    size = int(os.environ["WORLD_SIZE"])
    trainer = Trainer(
        accelerator="cpu",
        devices=size,
        strategy=ModelParallelStrategy(data_parallel_size=size, tensor_parallel_size=1),
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
    trainer.fit(model, loader(torch.ones(16, 4), batch_size=4), ckpt_path="last")
    sharded: Any = model.layer.weight
    weight = sharded.full_tensor()
    if trainer.global_rank == 0:
        print(json.dumps([began[0], trainer.global_step, weight.sum().item()]))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
