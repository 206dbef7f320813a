"""Mistakes of programs, for the ranks of the tests."""

from __future__ import annotations

import dataclasses
import os
import pickle
from typing import Any, Callable

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import SavePlan, WriteItem
from torch.distributed.tensor import Shard, distribute_tensor
from torch.testing._internal.two_tensor import TwoTensor

import holdfast.torch as hdcp

from .kinds import shards
from .programs import caught, mesh_of, numbers


class Custom:
    """An object that is no weights."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Custom)


def _freed() -> torch.Tensor:
    tensor = torch.ones(4)
    tensor.untyped_storage().resize_(0)
    return tensor


def _odd_value(kind: str) -> Any:
    values: dict[str, Callable[[], Any]] = {
        "meta": lambda: torch.empty(2, device="meta"),
        "sparse": lambda: torch.eye(3).to_sparse(),
        "quantized": lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
        "freed": _freed,
        "complex128": lambda: torch.ones(2, dtype=torch.complex128),
        "wrapper": lambda: TwoTensor(torch.ones(2), torch.ones(2)),
        "unpicklable": lambda: lambda: None,
    }
    return values[kind]()


class _OddPlanner(DefaultSavePlanner):
    """Makes one mistake, in the plan of the first ranks or in what it returns for a plan."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        plans, metadata = super().create_global_plan(all_plans)
        first, second = plans[0].items, plans[1].items
        one = next(item for item in first if item.tensor_data is not None)
        if self._kind == "two ranks":
            second = [*second, one]
        elif self._kind == "twice":
            first = [*first, one]
        elif self._kind == "not written":
            first = [item for item in first if item is not one]
        elif self._kind == "not planned":
            known = metadata.state_dict_metadata
            metadata = dataclasses.replace(
                metadata, state_dict_metadata={name: known[name] for name in known if name != one.index.fqn}
            )
        elif self._kind == "planner data":
            metadata = dataclasses.replace(metadata, planner_data=Custom())
        plans[0] = dataclasses.replace(plans[0], items=first)
        plans[1] = dataclasses.replace(plans[1], items=second)
        return plans, metadata

    def resolve_data(self, write_item: WriteItem) -> Any:
        value: Any = super().resolve_data(write_item)
        if write_item.tensor_data is None:
            return torch.ones(1) if self._kind == "object as tensor" else value
        odd = {"shape": value[:1], "type": value.double(), "tensor as object": 5}
        return odd.get(self._kind, value)


def own(seed: int) -> dict[str, Any]:
    """A tensor of each rank, and an object."""
    return {f"own-{dist.get_rank()}": numbers(3, 2, seed=seed), "step": seed}


def save_odd_value(uri: str, step: int, kind: str, rank: int) -> Any:
    state = own(step)
    if dist.get_rank() == rank:
        state["odd"] = _odd_value(kind)
    return caught(lambda: hdcp.save(state, checkpoint_id=f"{uri}/step-{step}") and None)


def save_odd_name(uri: str, step: int) -> Any:
    state = {**own(step), "__metadata__": torch.ones(2)}
    return caught(lambda: hdcp.save(state, checkpoint_id=f"{uri}/step-{step}") and None)


def save_odd_plan(uri: str, step: int, kind: str) -> Any:
    return caught(
        lambda: hdcp.save(own(step), checkpoint_id=f"{uri}/step-{step}", planner=_OddPlanner(kind)) and None
    )


def save_own(uri: str, step: int, seed: int, **options: Any) -> Any:
    return caught(lambda: hdcp.save(own(seed), checkpoint_id=f"{uri}/step-{step}", **options) and None)


def load_own(uri: str, step: int) -> Any:
    """The seed of the object, and whether all tensors are of this seed."""
    size = dist.get_world_size()
    state: dict[str, Any] = {f"own-{rank}": torch.zeros(3, 2) for rank in range(size)}
    state["step"] = 0

    def do() -> Any:
        hdcp.load(state, checkpoint_id=f"{uri}/step-{step}")
        same = [torch.equal(state[f"own-{rank}"], numbers(3, 2, seed=state["step"])) for rank in range(size)]
        return [state["step"], all(same)]

    return caught(do)


def save_different_versions(uri: str) -> Any:
    state = own(1)
    checkpoint_id = f"{uri}/step-{10 + dist.get_rank()}"
    return caught(lambda: hdcp.save(state, checkpoint_id=checkpoint_id) and None)


def save_nothing_on_a_rank(uri: str, step: int, rank: int) -> Any:
    state = {} if dist.get_rank() == rank else {"w": numbers(2, 2, seed=step), "step": step}
    return caught(lambda: hdcp.save(state, checkpoint_id=f"{uri}/step-{step}") and None)


def save_shards_alone(uri: str) -> Any:
    """A sharded tensor, and only rank 0 saves its part."""
    state = {"w": distribute_tensor(numbers(8, 2), mesh_of(None), [Shard(0)])}
    if dist.get_rank() != 0:
        return None
    return caught(lambda: hdcp.save(state, checkpoint_id=f"{uri}/step-1", no_dist=True) and None)


def save_by_writer_of_one(uri: str) -> Any:
    writer = hdcp.Writer(f"{uri}-{dist.get_rank()}", no_dist=True)
    answer = caught(lambda: hdcp.save(own(1), checkpoint_id="step-1", storage_writer=writer) and None)
    writer.close()
    return answer


def save_outside_of_group(uri: str) -> Any:
    group = dist.new_group([0, 1])
    if dist.get_rank() < 2:
        return None
    return [
        caught(lambda: hdcp.save(own(1), checkpoint_id=f"{uri}/1", process_group=group)),
        caught(lambda: hdcp.load(own(1), checkpoint_id=f"{uri}/1", process_group=group)),
    ]


def save_by_two_groups(uri: str) -> Any:
    """All ranks, then two of them."""
    group = dist.new_group([0, 1])
    first = caught(lambda: hdcp.save(own(1), checkpoint_id=f"{uri}/1") and None)
    if dist.get_rank() > 1:
        return [first]
    return [first, caught(lambda: hdcp.save(own(2), checkpoint_id=f"{uri}/2", process_group=group) and None)]


def join_without_agent(uri: str, rank: int) -> Any:
    options: dict[str, Any] = {}
    if dist.get_rank() == rank:
        options = {"agent": "/tmp/holdfast-no-agent/agent.sock", "connect_timeout": 0.5}
    return caught(lambda: hdcp.Writer(uri, **options).close())


def save_while_busy(uri: str, rank: int) -> Any:
    """Both segments of a rank are in use."""
    writer = hdcp.Writer(uri, when_busy="raise")
    inner = writer.run._saver._writer
    assert inner is not None
    taken = []
    if dist.get_rank() == rank:
        taken = [inner.pool.take(inner.stage, 1), inner.pool.take(inner.stage, 1)]
    answers = [caught(lambda: hdcp.save(own(1), checkpoint_id=1, storage_writer=writer) and None)]
    for segment in taken:
        assert segment is not None
        inner.pool.give_back(segment)
    answers.append(caught(lambda: hdcp.save(own(2), checkpoint_id=2, storage_writer=writer) and None))
    writer.close()
    return answers


def arguments(uri: str) -> Any:
    """Errors before any rank does something. They are the same on all ranks."""
    state = own(1)
    writer = hdcp.Writer(f"{uri}-given")
    wrong_object: Any = object()
    wrong_word: Any = "skip"
    try:
        return {
            "no id": caught(lambda: hdcp.save(state)),
            "latest": caught(lambda: hdcp.save(state, checkpoint_id=f"{uri}/latest")),
            "no run": caught(lambda: hdcp.save(state, checkpoint_id="step-1")),
            "other run": caught(lambda: hdcp.save(state, checkpoint_id=f"{uri}/step-1", storage_writer=writer)),
            "no writer": caught(lambda: hdcp.save(state, checkpoint_id=1, storage_writer=wrong_object)),
            "layout": caught(lambda: hdcp.Writer(uri, layout="zip")),
            "timeout": caught(lambda: hdcp.save(state, checkpoint_id=1, storage_writer=writer, timeout=0)),
            "timeout of a writer": caught(lambda: hdcp.Writer(uri, timeout=float("nan"))),
            "busy": caught(lambda: hdcp.Writer(uri, when_busy=wrong_word)),
            "pickle": caught(lambda: pickle.dumps(writer)),
            "metrics": caught(lambda: hdcp.save(state, checkpoint_id=1, storage_writer=writer, metrics={"loss": float("nan")})),
            "load no id": caught(lambda: hdcp.load(state)),
            "load no run": caught(lambda: hdcp.load(state, checkpoint_id="step-1")),
            "no reader": caught(lambda: hdcp.load(state, checkpoint_id=1, storage_reader=wrong_object)),
        }
    finally:
        writer.close()


def load_names(uri: str, names: dict[str, list[int]], step: int = 1) -> Any:
    state = {name: torch.zeros(*shape) for name, shape in names.items()}
    return caught(lambda: hdcp.load(state, checkpoint_id=f"{uri}/step-{step}"))


def load_by_reader_of_one(uri: str) -> Any:
    reader = hdcp.Reader(uri, no_dist=True)
    answer = caught(lambda: hdcp.load(own(1), checkpoint_id=1, storage_reader=reader))
    reader.close()
    return answer


def unsafe_object(uri: str) -> Any:
    hdcp.save({"custom": Custom(), "w": numbers(2)}, checkpoint_id=f"{uri}/step-1")
    refused = caught(lambda: hdcp.load({"custom": None, "w": torch.zeros(2)}, checkpoint_id=f"{uri}/step-1"))
    state: dict[str, Any] = {"custom": None, "w": torch.zeros(2)}
    hdcp.load(state, checkpoint_id=f"{uri}/step-1", planner=DefaultLoadPlanner())
    return [refused, state["custom"] == Custom()]


def other_sharding_without_collectives(uri: str) -> Any:
    mesh = mesh_of(None)
    whole = numbers(8, 8)
    hdcp.save({"w": distribute_tensor(whole, mesh, [Shard(0)])}, checkpoint_id=f"{uri}/step-1", use_collectives=False)
    state = {"w": distribute_tensor(torch.zeros(8, 8), mesh, [Shard(1)])}
    return caught(lambda: hdcp.load(state, checkpoint_id=f"{uri}/step-1"))


def caught_stock_load(uri: str, step: int) -> Any:
    reader = hdcp.Reader(uri, step)
    answer = caught(lambda: dcp.load(own(1), storage_reader=reader))
    reader.close()
    return answer


def stock_load_by_reader_of_one(uri: str) -> Any:
    reader = hdcp.Reader(uri, no_dist=True)
    answer = caught(lambda: dcp.load(own(1), storage_reader=reader))
    reader.close()
    return answer


def load_in_a_wrong_environment(uri: str, rank: int, variable: str) -> Any:
    """The environment of one rank is wrong."""
    if dist.get_rank() == rank:
        os.environ[variable] = "/no/such"
    try:
        return caught(lambda: hdcp.load(own(1), checkpoint_id=f"{uri}/latest"))
    finally:
        os.environ.pop(variable, None)


def moved_shards_without_collectives(uri: str) -> Any:
    """Each rank loads what its neighbour has saved, of which its own record has nothing."""
    rank, size = dist.get_rank(), dist.get_world_size()
    whole = numbers(2 * size, 3, seed=1)
    options: dict[str, Any] = {"checkpoint_id": f"{uri}/step-1"}
    hdcp.save({"s": shards(rank, size, whole)}, use_collectives=False, **options)
    return caught(lambda: hdcp.load({"s": shards((rank + 1) % size, size, None)}, **options))
