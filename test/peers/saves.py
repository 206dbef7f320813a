"""Measures saves and loads of sharded tensors on two ranks, each tool in turn.

Arguments: the URI of an empty place in a bucket, the bytes of all tensors together, rounds, and the
path of a file, which gets a line of JSON for each round and tool. The agent of ``HOLDFAST_AGENT``
serves Holdfast; ``AGENT_PID`` is its process.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any, Callable

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from ranks import Job
from tools import TOOLS, Tool, configure
from torch.distributed.checkpoint.storage import StorageWriter, WriteResult
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.futures import Future

_TENSORS = 32
_ROWS = 64
#: The first saves make buffers and connections.
_WARM_UP_ROUNDS = 2
#: How long the speed of the training loop is measured before a save.
_LOOP_SECONDS = 1.0
_SECONDS_MAX = 3600.0


def state_of(total_bytes: int) -> dict[str, Any]:
    columns = total_bytes // _TENSORS // _ROWS // 4
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    return {
        f"layers.{index}.weight": distribute_tensor(torch.rand(_ROWS, columns), mesh, [Shard(0)])
        for index in range(_TENSORS)
    }


def change(state: dict[str, Any]) -> None:
    """Otherwise files of the save before could count as this one's."""
    for tensor in state.values():
        tensor.to_local()[0, 0] += 1


class Nothing(StorageWriter):
    """Only what DCP does itself in a save: plans, and collectives."""

    def reset(self, checkpoint_id: Any = None) -> None:
        pass

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        pass

    def prepare_local_plan(self, plan: Any) -> Any:
        return plan

    def prepare_global_plan(self, plans: Any) -> Any:
        return plans

    def write_data(self, plan: Any, planner: Any) -> Any:
        written: Future[Any] = Future()
        written.set_result([WriteResult(item.index, 0, None) for item in plan.items])
        return written

    def finish(self, metadata: Any, results: Any) -> None:
        pass

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        return True


class Training:
    """A loop of steps, such as those of a trainer that does not wait for its save."""

    def __init__(self) -> None:
        self._a = torch.rand(192, 192)

    def rate(self, goes_on: Callable[[], bool]) -> float:
        """Steps in a second."""
        steps, began = 0, time.monotonic()
        while goes_on():
            torch.mm(self._a, self._a)
            steps += 1
        return steps / (time.monotonic() - began)


def cpu_seconds() -> float:
    """Of this process and its children that have ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def agent_seconds() -> float:
    with open(f"/proc/{os.environ['AGENT_PID']}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Timer:
    """Seconds, CPU seconds of this rank, and of the agent if this is rank 0."""

    def __init__(self) -> None:
        dist.barrier()
        self._began = (time.monotonic(), cpu_seconds(), agent_seconds())

    def took(self) -> dict[str, float]:
        wall, own, agent = self._began
        is_first = dist.get_rank() == 0
        return {
            "seconds": time.monotonic() - wall,
            "cpu": cpu_seconds() - own + (agent_seconds() - agent if is_first else 0.0),
            "ownCpu": cpu_seconds() - own,
        }


def one_round(tool: Tool, state: dict[str, Any], steps: tuple[int, int], training: Training) -> Any:
    warm = {name: torch.empty_like(tensor.to_local()).fill_(0) for name, tensor in state.items()}
    timer = Timer()
    for name, tensor in state.items():
        warm[name].copy_(tensor.to_local())
    copy = timer.took()

    timer = Timer()
    dcp.save(state, storage_writer=Nothing())
    plan = timer.took()

    first, second = steps
    change(state)
    timer = Timer()
    tool.save_state(state, first)
    save = timer.took()

    end = time.monotonic() + _LOOP_SECONDS
    alone = training.rate(lambda: time.monotonic() < end)
    change(state)
    timer = Timer()
    saving = tool.async_save_state(state, second)
    blocked = timer.took()
    beside = training.rate(lambda: not saving.done())
    tool.finish(second, saving)
    done = timer.took()

    loaded = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
    timer = Timer()
    tool.load_state(loaded, second)
    load = timer.took()
    for name, tensor in state.items():
        assert torch.equal(loaded[name].to_local(), tensor.to_local()), name
    timings = {"copy": copy, "plan": plan, "save": save, "blocked": blocked, "done": done, "load": load}
    return {**timings, "loop": beside / alone}


def main(given: str, total_bytes: int, rounds: int, path: str) -> None:
    uri = configure(given)
    tools = [kind(uri) for kind in TOOLS]

    def work(rank: int) -> Any:
        state, training = state_of(total_bytes), Training()
        found = []
        for number in range(rounds + _WARM_UP_ROUNDS):
            for tool in tools:
                steps = (2 * number + 1, 2 * number + 2)
                answer = {"tool": tool.title, **one_round(tool, state, steps, training)}
                if number >= _WARM_UP_ROUNDS:
                    found.append(answer)
                dist.barrier()
                for step in steps if rank == 0 else ():
                    tool.forget(step)
        return found

    ranks = Job(work, group_seconds=600.0).answers(_SECONDS_MAX)
    for rank in ranks:
        if not isinstance(rank, list):
            raise SystemExit(f"a rank has not ended well: {rank}")
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(each)}\n" for each in zip(*ranks))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
