"""A program for two processes: both save by DCP's own writer to one version."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

dcp: Any = import_module("torch.distributed.checkpoint")


def main(base: str, store: str, rank: int) -> None:
    import holdfast.fsspec  # noqa: F401

    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    tensor = distribute_tensor(torch.arange(8.0), init_device_mesh("cpu", (2,)), [Shard(0)])
    try:
        dcp.save({"a": tensor}, checkpoint_id=f"{base}/step-1")
    except BaseException as error:
        print(error)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
