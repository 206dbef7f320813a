"""What ranks do in the tests. Each function runs on all ranks of a test at the same time."""

from __future__ import annotations

import datetime
import os
from typing import Any, Callable, Optional

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import holdfast
import holdfast.torch as hdcp

torch.set_num_threads(1)

_stores: list[Any] = []
_groups: dict[int, Any] = {}
_futures: dict[int, Any] = {}
_writers: dict[str, hdcp.Writer] = {}


def open_store(size: int) -> int:
    """On rank 0: the place where the ranks meet."""
    store = dist.TCPStore("127.0.0.1", 0, size, is_master=True, wait_for_workers=False)
    _stores.append(store)
    return int(store.port)


def join(rank: int, size: int, port: int, timeout: float) -> None:
    if rank > 0:
        _stores.append(dist.TCPStore("127.0.0.1", port, size, is_master=False))
    store = _stores[0]
    limit = datetime.timedelta(seconds=timeout)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=limit)


def group_of(count: Optional[int]) -> Any:
    """The first ranks. ``None``: all. All ranks call it."""
    if count is None:
        return None
    if count not in _groups:
        _groups[count] = dist.new_group(list(range(count)))
    return _groups[count]


def is_outside(count: Optional[int]) -> bool:
    return count is not None and dist.get_rank() >= count


def mesh_of(count: Optional[int]) -> DeviceMesh:
    group: Any = dist.group.WORLD if count is None else group_of(count)
    return DeviceMesh.from_group(group, "cpu")


def caught(do: Callable[[], Any]) -> Any:
    """``["ok", answer]``, or the errors of the ranks as ``[rank, class, message]``."""
    try:
        return ["ok", do()]
    except CheckpointException as error:
        found = [[rank, one[0]] for rank, one in sorted(error.failures.items())]
        return ["CheckpointException", [[rank, type(one).__name__, str(one)] for rank, one in found]]
    except Exception as error:
        return [type(error).__name__, str(error)]


def numbers(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool or not (dtype.is_floating_point or dtype.is_complex):
        return torch.randint(0, 2, shape, generator=generator).to(dtype)
    if dtype.is_complex:
        real = torch.randn(*shape, 2, generator=generator)
        return torch.view_as_complex(real).to(dtype)
    return torch.randn(*shape, generator=generator).to(dtype)


def state_of(count: Optional[int], seed: int, is_blank: bool = False) -> dict[str, Any]:
    """Tensors sharded by rows and by columns, replicated ones, plain ones, and objects."""
    mesh = mesh_of(count)

    def value(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        if is_blank:
            return torch.zeros(*shape, dtype=dtype)
        return numbers(*shape, seed=seed, dtype=dtype)

    return {
        "model": {
            "rows": distribute_tensor(value(101, 7), mesh, [Shard(0)]),
            "columns": distribute_tensor(value(5, 33, dtype=torch.bfloat16), mesh, [Shard(1)]),
            "replicated": distribute_tensor(value(4, 4), mesh, [Replicate()]),
            "few": distribute_tensor(value(2, 3), mesh, [Shard(0)]),
            "plain": value(3, 5),
        },
        "step": 0 if is_blank else seed,
        "nested": [0.0, {"a": 0}] if is_blank else [0.5, {"a": seed}],
    }


def difference(state: dict[str, Any], seed: int) -> list[str]:
    """Names of what is not as ``state_of`` with this seed made it."""
    wrong = []
    shapes = {"rows": (101, 7), "columns": (5, 33), "replicated": (4, 4), "few": (2, 3), "plain": (3, 5)}
    for name, shape in shapes.items():
        tensor = state["model"][name]
        whole = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        if not torch.equal(whole, numbers(*shape, seed=seed, dtype=whole.dtype)):
            wrong.append(name)
    if (state["step"], state["nested"]) != (seed, [0.5, {"a": seed}]):
        wrong.append("objects")
    return wrong


def save(
    checkpoint_id: Any, seed: int, count: Optional[int] = None, writer: Optional[dict[str, Any]] = None,
    **options: Any,
) -> Any:
    """By ``holdfast.torch.save``. ``writer``: options of a ``Writer``, which is kept by its run."""
    group = group_of(count)
    if is_outside(count):
        return None
    state = state_of(count, seed)
    if writer is not None:
        options["storage_writer"] = writer_for(group, **writer)
    return caught(
        lambda: hdcp.save(state, checkpoint_id=checkpoint_id, process_group=group, **options)
        and None
    )


def writer_for(group: Any, uri: str, **options: Any) -> hdcp.Writer:
    if uri not in _writers:
        _writers[uri] = hdcp.Writer(uri, process_group=group, **options)
    return _writers[uri]


def begin_async_save(checkpoint_id: str, seed: int, step: int, **options: Any) -> Any:
    """Changes the tensors as soon as the call returns."""
    state = state_of(None, seed)

    def do() -> None:
        _futures[step] = hdcp.async_save(state, checkpoint_id=checkpoint_id, **options)
        state["model"]["rows"].to_local().zero_()
        state["model"]["plain"].zero_()

    return caught(do)


def end_async_save(step: int) -> Any:
    return caught(lambda: type(_futures.pop(step).result(60)).__name__)


def load(checkpoint_id: Any, seed: int, count: Optional[int] = None, **options: Any) -> Any:
    """The version, and what differs from the state that ``seed`` makes."""
    group = group_of(count)
    if is_outside(count):
        return None
    state = state_of(count, seed, is_blank=True)

    def do() -> Any:
        version = hdcp.load(state, checkpoint_id=checkpoint_id, process_group=group, **options)
        return [version, difference(state, seed)]

    return caught(do)


def attempt_of(uri: str) -> Optional[str]:
    from holdfast.torch import _writers as cache

    return cache._writers[uri][1].run.attempt


def environment(name: str) -> Optional[str]:
    return os.environ.get(name)


def version() -> str:
    return holdfast.__version__


def write_expected(path: str, seed: int) -> None:
    """What ``state_of`` holds, whole, by the names that DCP gives."""
    state = state_of(None, seed)
    whole: dict[str, Any] = {"step": state["step"]}
    for name, tensor in state["model"].items():
        whole[f"model.{name}"] = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    if dist.get_rank() == 0:
        torch.save(whole, path)


def save_language_model(checkpoint_id: str, path: str) -> Any:
    """A small model of transformers, sharded. Rank 0 leaves its configuration and tensors in ``path``."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    model: Any = LlamaForCausalLM(config)
    if dist.get_rank() == 0:
        model.config.architectures = [type(model).__name__]
        model.config.save_pretrained(path)
        whole = {name: value.clone() for name, value in model.state_dict().items()}
        torch.save(whole, os.path.join(path, "expected.pt"))
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh_of(None))
    fully_shard(model, mesh=mesh_of(None))
    state = {"model": get_model_state_dict(model)}
    return caught(lambda: hdcp.save(state, checkpoint_id=checkpoint_id) and None)
