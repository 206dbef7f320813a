"""Kinds of tensors, models, planners and ways to call DCP, for the ranks of the tests."""

from __future__ import annotations

from typing import Any, Optional

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard

import holdfast.torch as hdcp
from holdfast.torch import _reader

from .programs import caught, difference, numbers, state_of

_DTYPES = [
    "bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64",
    "float16", "bfloat16", "float32", "float64", "complex64",
    "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu",
]  # fmt: skip
_planners: dict[str, DefaultSavePlanner] = {}


def stock_save(uri: str, step: int, seed: int, **options: Any) -> Any:
    """``dcp.save`` of torch, with one writer for all saves of the run."""
    writer = _stock_writer(uri, **options)
    writer.metrics = {"loss": 0.5}
    return caught(
        lambda: type(dcp.save(state_of(None, seed), checkpoint_id=f"step-{step}", storage_writer=writer)).__name__
    )


def stock_async_save(uri: str, step: int, seed: int, is_shared: bool) -> Any:
    """``dcp.async_save`` of torch, by default or with a stager in shared memory and a thread."""
    writer = _stock_writer(uri)
    stager = None
    if is_shared:
        stager = DefaultStager(
            StagingOptions(
                use_pinned_memory=False,
                use_shared_memory=True,
                use_async_staging=True,
                use_non_blocking_copy=False,
            )
        )
    state = state_of(None, seed)

    def do() -> str:
        answer: Any = dcp.async_save(state, checkpoint_id=f"step-{step}", storage_writer=writer, async_stager=stager)
        future = answer if stager is None else answer.upload_completion
        if stager is not None:
            answer.staging_completion.result(60)
        state["model"]["plain"].zero_()
        name = type(future.result(60)).__name__
        if stager is not None:
            stager.close()
        return name

    return caught(do)


def stock_load(uri: str, seed: int, step: Optional[int] = None) -> Any:
    """``dcp.load`` of torch; without a step twice by one reader, as a trainer that evaluates does."""
    reader = hdcp.Reader(uri)
    state = state_of(None, seed, is_blank=True)
    dcp.load(state, checkpoint_id=None if step is None else f"step-{step}", storage_reader=reader)
    return [reader.version, difference(state, seed)]


_readers: dict[str, hdcp.Reader] = {}


def stock_load_latest(uri: str, seed: int) -> Any:
    if uri not in _readers:
        _readers[uri] = hdcp.Reader(uri)
    state = state_of(None, seed, is_blank=True)
    dcp.load(state, storage_reader=_readers[uri])
    return [_readers[uri].version, difference(state, seed)]


def _stock_writer(uri: str, **options: Any) -> hdcp.Writer:
    from .programs import writer_for

    return writer_for(None, uri, **options)


def cached_plan_save(uri: str, step: int, rows: int, is_wide: bool) -> Any:
    """With DCP's cache of plans. ``is_wide``: rank 1 has a tensor more."""
    planner = _planners.setdefault(uri, DefaultSavePlanner(enable_plan_caching=True))
    state: dict[str, Any] = {f"own-{dist.get_rank()}": numbers(rows, 3, seed=step), "step": step}
    if is_wide and dist.get_rank() == 1:
        state["wide"] = numbers(2, 2, seed=step)
    return caught(lambda: hdcp.save(state, checkpoint_id=f"{uri}/step-{step}", planner=planner) and None)


def cached_plan_load(uri: str, step: int, rows: int, is_wide: bool) -> Any:
    state: dict[str, Any] = {f"own-{rank}": torch.zeros(rows, 3) for rank in range(dist.get_world_size())}
    if is_wide:
        state["wide"] = torch.zeros(2, 2)
    state["step"] = 0
    hdcp.load(state, checkpoint_id=f"{uri}/step-{step}")
    expected = {name: numbers(*value.shape, seed=step) for name, value in state.items() if name != "step"}
    wrong = [name for name, value in expected.items() if not torch.equal(state[name], value)]
    return wrong + ([] if state["step"] == step else ["step"])


def sub_group_save(uri: str, step: int, members: list[int], **options: Any) -> Any:
    """Only these ranks save, each a tensor of its own."""
    group: Any = dist.new_group(members)
    if dist.get_rank() not in members:
        return None
    mesh = DeviceMesh.from_group(group, "cpu")
    from torch.distributed.tensor import Shard, distribute_tensor

    state = {"w": distribute_tensor(numbers(9, 2, seed=step), mesh, [Shard(0)])}
    return caught(
        lambda: hdcp.save(state, checkpoint_id=f"{uri}/step-{step}", process_group=group, **options) and None
    )


def load_alone(uri: str, step: int, names: dict[str, list[int]], **options: Any) -> Any:
    """One rank loads tensors of the seed ``step`` by itself. Returns what differs."""
    if dist.get_rank() != 0:
        return None
    state: dict[str, Any] = {name: torch.zeros(*shape) for name, shape in names.items()}

    def do() -> list[str]:
        hdcp.load(state, checkpoint_id=f"{uri}/step-{step}", no_dist=True, **options)
        return [name for name, value in state.items() if not torch.equal(value, numbers(*value.shape, seed=step))]

    return caught(do)


def save_alone(uri: str, step: int, names: dict[str, list[int]], **options: Any) -> Any:
    if dist.get_rank() != 0:
        return None
    state = {name: numbers(*shape, seed=step) for name, shape in names.items()}
    return caught(
        lambda: hdcp.save(state, checkpoint_id=f"{uri}/step-{step}", no_dist=True, **options) and None
    )


class Shards(torch.Tensor):
    """A local tensor that knows where its parts are in the whole, as DCP's protocol asks."""

    global_shape: tuple[int, ...]
    global_offsets: tuple[tuple[int, ...], ...]
    local_offsets: tuple[tuple[int, ...], ...]
    local_sizes: tuple[tuple[int, ...], ...]


def shards(rank: int, size: int, fill: Optional[torch.Tensor]) -> torch.Tensor:
    """Two parts of each rank: rows ``rank`` and ``size + rank``, between padding."""
    local = torch.zeros(5, 3)
    tensor = local.as_subclass(Shards)
    tensor.global_shape = (2 * size, 3)
    tensor.global_offsets = ((rank, 0), (size + rank, 0))
    tensor.local_offsets = ((1, 0), (3, 0))
    tensor.local_sizes = ((1, 3), (1, 3))
    if fill is not None:
        local[1] = fill[rank]
        local[3] = fill[size + rank]
    return tensor


def checkpointable(uri: str, layout: str) -> Any:
    rank, size = dist.get_rank(), dist.get_world_size()
    whole = numbers(2 * size, 3, seed=1)
    writer = hdcp.Writer(uri, layout=layout)
    hdcp.save({"s": shards(rank, size, whole)}, checkpoint_id="step-1", storage_writer=writer)
    target = shards((rank + 1) % size, size, None)
    hdcp.load({"s": target}, checkpoint_id=f"{uri}/step-1")
    plain = torch.zeros(2 * size, 3)
    hdcp.load({"s": plain}, checkpoint_id=f"{uri}/step-1")
    writer.close()
    moved = shards((rank + 1) % size, size, whole)
    return [torch.equal(target.as_subclass(torch.Tensor), moved.as_subclass(torch.Tensor)), torch.equal(plain, whole)]


def _sources() -> dict[str, torch.Tensor]:
    kinds: dict[str, torch.Tensor] = {}
    for name in _DTYPES:
        dtype = getattr(torch, name)
        kinds[name] = numbers(3, 5, seed=2).abs().to(dtype) if name.startswith("float8") else numbers(3, 5, dtype=dtype)
    base = numbers(6, 8, seed=3)
    kinds["zero dimensions"] = torch.tensor(2.5)
    kinds["empty"] = torch.zeros(0, 4)
    kinds["transposed"] = base.t()
    kinds["strided"] = base[::2, 1:7:2]
    kinds["expanded"] = base[:1].expand(4, 8)
    kinds["view"] = base[2:4]
    kinds["same storage"] = base
    kinds["conjugate"] = numbers(3, 2, dtype=torch.complex64).conj()
    kinds["negative"] = numbers(3, 2, dtype=torch.complex64).conj().imag
    kinds["parameter"] = torch.nn.Parameter(numbers(2, 2))
    kinds["four dimensions"] = numbers(2, 3, 4, 5).to(memory_format=torch.channels_last)
    return kinds


def kinds_of_tensors(uri: str, layout: str) -> Any:
    """Names of the kinds that a load does not bring back, into several kinds of targets."""
    if dist.get_rank() != 0:
        return None
    sources = _sources()
    names = list(sources)
    if layout == "distcp":
        sources["complex128"] = numbers(2, 2, dtype=torch.complex128)
    writer = hdcp.Writer(uri, no_dist=True, layout=layout)
    hdcp.save(dict(sources), checkpoint_id=1, storage_writer=writer, no_dist=True)
    writer.close()
    wrong = []
    blank = {name: torch.zeros(value.shape, dtype=value.dtype) for name, value in sources.items()}
    hdcp.load(blank, checkpoint_id=f"{uri}/1", no_dist=True)
    for name, value in sources.items():
        if not torch.equal(_bits(blank[name]), _bits(value.detach().resolve_conj().resolve_neg())):
            wrong.append(name)
    wide: dict[str, Any] = {name: torch.zeros(*sources[name].shape, 2)[..., 0] for name in ("view", "transposed")}
    wide["float32"] = torch.zeros(3, 5, dtype=torch.float64)
    hdcp.load(wide, checkpoint_id=f"{uri}/1", no_dist=True)
    wrong += [f"into another {name}" for name in wide if not torch.equal(wide[name], sources[name].to(wide[name].dtype))]
    return [wrong, len(names)]


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(torch.uint8) if tensor.dtype.itemsize == 1 else tensor


def in_blocks(uri: str) -> Any:
    """Loads other parts than were saved, with blocks of a few bytes."""
    if dist.get_rank() != 0:
        return None
    whole = numbers(7, 9, 5, seed=4)
    hdcp.save({"w": whole}, checkpoint_id=f"{uri}/1", no_dist=True)
    before, _reader._BLOCK_BYTES = _reader._BLOCK_BYTES, 64
    try:
        into = torch.zeros(5, 9, 7).permute(2, 1, 0)
        hdcp.load({"w": into}, checkpoint_id=f"{uri}/1", no_dist=True)
    finally:
        _reader._BLOCK_BYTES = before
    return torch.equal(into, whole)


class _Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(6, 10)
        self.second = torch.nn.Linear(10, 3)
        self.register_buffer("count", torch.tensor(0.0))

    def forward(self, x: torch.Tensor) -> Any:
        return self.second(self.first(x).relu())


def _trained(mesh: Optional[DeviceMesh], steps: int, seed: int) -> tuple[Any, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    model: Any = _Model()
    if mesh is not None:
        fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for step in range(steps):
        model(numbers(4, 6, seed=step)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, optimizer


def _whole(state: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in state.items():
        if isinstance(value, dict):
            found.update(_whole(value, f"{prefix}{name}."))
        elif isinstance(value, torch.Tensor):
            full = value.full_tensor() if hasattr(value, "full_tensor") else value
            found[prefix + name] = full.detach().clone()
    return found


def fsdp(uri: str, shape: list[int], is_stateful: bool) -> Any:
    """Trains, saves, loads into a new model on a mesh of another shape, and compares."""
    names = ("replicate", "shard") if len(shape) == 2 else ("shard",)
    mesh = init_device_mesh("cpu", tuple(shape), mesh_dim_names=names)
    model, optimizer = _trained(mesh, 2, 1)
    weights, moments = get_state_dict(model, optimizer)
    state: dict[str, Any] = {"model": weights, "optimizer": moments}
    expected = _whole(state)
    if is_stateful:
        state = {"app": _App(model, optimizer)}
        expected = {f"app.{name}": value for name, value in expected.items()}
    hdcp.async_save(state, checkpoint_id=f"{uri}/step-1").result(60)
    other, its = _trained(init_device_mesh("cpu", (dist.get_world_size(),)), 1, 2)
    if is_stateful:
        hdcp.load({"app": _App(other, its)}, checkpoint_id=f"{uri}/latest")
    else:
        into: dict[str, Any] = dict(zip(("model", "optimizer"), get_state_dict(other, its)))
        hdcp.load(into, checkpoint_id=f"{uri}/latest")
        set_state_dict(other, its, model_state_dict=into["model"], optim_state_dict=into["optimizer"])
    weights, moments = get_state_dict(other, its)
    found = _whole({"app": {"model": weights, "optimizer": moments}} if is_stateful else {"model": weights, "optimizer": moments})
    wrong = [name for name in expected if not torch.equal(found[name], expected[name])]
    return [len(expected), wrong]


class _App:
    """``Stateful``, as in the tutorial of DCP."""

    def __init__(self, model: Any, optimizer: torch.optim.Optimizer) -> None:
        self.model = model
        self.optimizer = optimizer

    def state_dict(self) -> dict[str, Any]:
        return dict(zip(("model", "optimizer"), get_state_dict(self.model, self.optimizer)))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        set_state_dict(
            self.model,
            self.optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
        )


def load_keys(uri: str, step: int) -> Any:
    """Without a state to load into, as torch's converter does."""
    reader = hdcp.Reader(uri, step)
    state = _load_state_dict_from_keys(storage_reader=reader)
    return [sorted(state["model"]), torch.equal(state["model"]["rows"], numbers(101, 7, seed=step)), state["step"]]


def group_again(uri: str, step: int) -> Any:
    """Destroys the default group and makes another, in which the ranks have other places."""
    from . import programs

    rank, size = dist.get_rank(), dist.get_world_size()
    store = programs._stores[0]
    dist.destroy_process_group()
    programs._groups.clear()
    place = (rank + 1) % size
    dist.init_process_group("gloo", store=dist.PrefixStore(f"again-{step}", store), rank=place, world_size=size)
    return programs.save(f"{uri}/step-{step}", step)
