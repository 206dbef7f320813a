"""What one rank writes: its chunks of tensors and its objects, as files of the checkpoint."""

from __future__ import annotations

import io
import json
from typing import Any, Iterable, NamedTuple, Union

import torch
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner, WriteItem, WriteItemType
from torch.distributed.checkpoint.storage import WriteResult
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from .. import _dtypes
from .._array_source import ArraySource, CopyInto
from .._payload import Payload
from .._tensors import require_memory
from ..errors import InvalidArgument
from ._torch_files import torch_saved

#: Safetensors files, as stock readers of Hugging Face and DCP join them.
SAFETENSORS = "safetensors"
#: Files of ``torch.save``, as the stock ``FileSystemReader`` reads them.
DISTCP = "distcp"
LAYOUTS = (SAFETENSORS, DISTCP)

# The keys with which stock readers join chunks of several files.
_SHARDING_KEY = "DCP_SHARDING_INFO"
_HEADER = {"DCP_VERSION": "1.0", "format": "pt"}


class _Chunk(NamedTuple):
    item: WriteItem
    #: In the whole tensor.
    offsets: torch.Size
    tensor: torch.Tensor


def add_plan(
    payload: Payload, plan: SavePlan, planner: SavePlanner, rank: int, layout: str
) -> list[WriteResult]:
    """Adds the files of this rank to ``payload``. Nothing is copied yet.

    ``InvalidArgument``: a tensor cannot be saved, or is not what the plan says.
    """
    chunks: list[_Chunk] = []
    objects: list[tuple[WriteItem, io.BytesIO]] = []
    for item in plan.items:
        data = planner.resolve_data(item)
        if item.type == WriteItemType.BYTE_IO:
            objects.append((item, _checked_object(item, data)))
        else:
            chunks.append(_checked_chunk(item, data))
    objects_name = f"__{rank}_0.distcp" if layout == DISTCP else f"rank-{rank:05d}.objects"
    if not plan.items:
        # Each writer of a checkpoint delivers a file.
        payload.add_buffer(objects_name, b"")
    parts = [(item, data.getbuffer().nbytes, _copier(data)) for item, data in objects]
    if layout == DISTCP:
        parts += [(chunk.item, *torch_saved(chunk.tensor)) for chunk in chunks]
        return _add_joined(payload, objects_name, parts)
    results = _add_joined(payload, objects_name, parts)
    for place, group in enumerate(_by_file(chunks)):
        suffix = "" if place == 0 else f"-{place + 1}"
        results += _add_chunks(payload, f"rank-{rank:05d}{suffix}.safetensors", group)
    return results


def _by_file(chunks: Iterable[_Chunk]) -> list[dict[str, _Chunk]]:
    """A file has one chunk of each tensor: its header has one place for each name."""
    files: list[dict[str, _Chunk]] = []
    counts: dict[str, int] = {}
    for chunk in chunks:
        name = chunk.item.index.fqn
        place = counts.get(name, 0)
        counts[name] = place + 1
        if place == len(files):
            files.append({})
        files[place][name] = chunk
    return files


def _add_chunks(payload: Payload, file: str, chunks: dict[str, _Chunk]) -> list[WriteResult]:
    if "__metadata__" in chunks:
        raise InvalidArgument("tensor '__metadata__': safetensors keeps this name for itself")
    sources = {name: _source(name, chunk.tensor) for name, chunk in chunks.items()}
    sharding = {name: {"saved_offsets": list(chunk.offsets)} for name, chunk in chunks.items()}
    header = {_SHARDING_KEY: json.dumps(sharding, separators=(",", ":")), **_HEADER}
    made = payload.add_safetensors(file, sources, header)
    return [
        WriteResult(
            index=chunks[entry.name].item.index,
            size_in_bytes=entry.size,
            storage_data=_StorageInfo(file, entry.offset, entry.size),
        )
        for entry in made.entries
    ]


def _add_joined(
    payload: Payload, file: str, parts: list[tuple[WriteItem, int, CopyInto]]
) -> list[WriteResult]:
    results = []
    offset = 0
    for item, size, _ in parts:
        results.append(WriteResult(item.index, size, _StorageInfo(file, offset, size)))
        offset += size
    if parts:
        payload.add_joined(file, [(size, copy_into) for _, size, copy_into in parts])
    return results


def _copier(data: io.BytesIO) -> CopyInto:
    def copy_into(target: memoryview) -> None:
        target[:] = data.getbuffer()

    return copy_into


def _source(name: str, tensor: torch.Tensor) -> ArraySource:
    dtype = _dtypes.of_torch(tensor.dtype)
    if dtype is None:
        raise InvalidArgument(
            f"tensor {name!r} has the type {tensor.dtype}, which safetensors does not have; "
            f"save with layout={DISTCP!r}"
        )

    def copy_into(target: memoryview) -> None:
        there = torch.frombuffer(target, dtype=tensor.dtype).view(tensor.shape)
        # One pass copies from the device, in C order, with conjugates resolved.
        there.copy_(tensor)

    return ArraySource(dtype, tuple(tensor.shape), copy_into)


def _checked_object(item: WriteItem, data: Union[torch.Tensor, io.BytesIO, Any]) -> io.BytesIO:
    if isinstance(data, io.BytesIO):
        return data
    raise InvalidArgument(
        f"planner: {item.index.fqn!r} is an object in the plan, and resolve_data returned "
        f"a {type(data).__name__}"
    )


def _checked_chunk(item: WriteItem, data: Union[torch.Tensor, io.BytesIO, Any]) -> _Chunk:
    name, planned = item.index.fqn, item.tensor_data
    if not isinstance(data, torch.Tensor) or planned is None:
        raise InvalidArgument(
            f"planner: {name!r} is a tensor in the plan, and resolve_data returned "
            f"a {type(data).__name__}"
        )
    if data.is_meta:
        raise InvalidArgument(f"tensor {name!r} is on the meta device, so it has no elements to save")
    if data.layout != torch.strided:
        raise InvalidArgument(f"tensor {name!r} has the layout {data.layout}; save a dense tensor")
    if data.is_quantized:
        raise InvalidArgument(f"tensor {name!r} is quantized; save its int_repr and its scales")
    if is_traceable_wrapper_subclass(data):
        raise InvalidArgument(
            f"tensor {name!r} is a {type(data).__name__}, which wraps other tensors; save those"
        )
    require_memory(name, data)
    if data.shape != planned.chunk.sizes or data.dtype != planned.properties.dtype:
        raise InvalidArgument(
            f"tensor {name!r} is {data.dtype} {list(data.shape)}, and the plan says "
            f"{planned.properties.dtype} {list(planned.chunk.sizes)}"
        )
    # A file of `torch.save` would need the class of a subclass, and hold its attributes.
    return _Chunk(item, planned.chunk.offsets, data.detach().as_subclass(torch.Tensor))
