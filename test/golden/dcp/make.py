"""Makes the checkpoint beside this, with PyTorch 2.15: two ranks save one state by DCP's own writer.

    python3 make.py DIRECTORY
"""

import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor


def save(rank: int, directory: str, port: int) -> None:
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    state = {
        "model": {
            "rows": distribute_tensor(torch.arange(14.0).reshape(7, 2), mesh, [Shard(0)]),
            "columns": distribute_tensor(
                torch.arange(12, dtype=torch.bfloat16).reshape(2, 6), mesh, [Shard(1)]
            ),
            "count": torch.tensor(5),
            "none": torch.zeros(0, 3),
        },
        "strided": {"t": torch.arange(6.0).reshape(2, 3).t()},
        "step": 5,
    }
    dcp.save(state, storage_writer=dcp.FileSystemWriter(directory))
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(save, args=(sys.argv[1], 29_511), nprocs=2)
