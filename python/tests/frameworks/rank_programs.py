"""Runs a program on two ranks, once for each number of steps, and prints where each has begun.

The ranks are forks of this process, which imports the frameworks once.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import traceback
from importlib import import_module
from typing import Any
from unittest import mock

from holdfast.errors import HoldfastError

from .jobs import ANSWER

_SIZE = 2
_AFTER = "after: "


def deepspeed() -> None:
    """Its shared memory would be compiled by a C++ compiler first. Otherwise it uses gloo."""
    ops: Any = import_module("deepspeed.ops")
    ops.__compatible_ops__["deepspeed_shm_comm"] = False


def megatron() -> None:
    """Two calls need a GPU, to synchronize it and to name it for small tensors."""
    import_module("megatron.core.dist_checkpointing")
    mock.patch("torch.cuda.synchronize").start()
    mock.patch("torch.cuda.current_device", return_value="cpu").start()


def rl() -> None:
    import_module("torch.distributed")


def after_deepspeed(names: dict[str, Any]) -> list[Any]:
    """A model that is written for other programs is no checkpoint, and a tag needs a version."""
    engine, local = names["engine"], names["local"]
    engine.save_16bit_model(os.path.join(local, "model"))
    try:
        engine.save_checkpoint(local, tag="last")
    except HoldfastError as error:
        return [type(error).__name__, error.message, os.listdir(os.path.join(local, "model"))]
    return []


def main(name: str, path: str, directory: str, steps: list[str]) -> None:
    globals()[name]()
    with open(path, encoding="utf-8") as file:
        code = compile(file.read(), path, "exec")
    for number, count in enumerate(steps):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        # Each time on other machines.
        here = os.path.join(directory, str(number))
        ranks = [_forked(name, code, rank, port, here, count) for rank in range(_SIZE)]
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in ranks]
        said = [_read(f"{here}-{rank}") for rank in range(_SIZE)]
        if any(codes):
            raise SystemExit("\n".join(said))
        lines = [line for one in said for line in one.splitlines()]
        shown = [line for line in lines if line.startswith(("begins ", _AFTER))]
        print(ANSWER + json.dumps(shown), flush=True)


def _forked(name: str, code: Any, rank: int, port: int, here: str, steps: str) -> int:
    """Begins a rank. Its output goes to a file."""
    pid = os.fork()
    if pid != 0:
        return pid
    status = 1
    try:
        output = os.open(f"{here}-{rank}", os.O_CREAT | os.O_WRONLY)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.environ.update(
            STEPS=steps, LOCAL=here, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(_SIZE)
        )
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        names: dict[str, Any] = {"__name__": "__main__"}
        exec(code, names)
        after = globals().get(f"after_{name}")
        if after is not None:
            print(_AFTER + json.dumps(after(names)))
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
