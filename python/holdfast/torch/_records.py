"""``metadata.json``: the metadata that DCP needs to load a checkpoint, as JSON and not as a pickle.

It holds the same as DCP's ``.metadata``: shapes, types and chunks of the tensors, the place of each
chunk, and how nested names were flattened.
"""

from __future__ import annotations

import json
from typing import Any, Mapping, NamedTuple, Optional, Sequence

import torch
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)

from ..errors import Corrupt, InvalidArgument, UnsupportedFormat

FILE_NAME = "metadata.json"
_FORMAT = "holdfast-dcp"
_MAJOR = 1

StorageData = Mapping[MetadataIndex, _StorageInfo]


def file_name(rank: Optional[int]) -> str:
    """``rank``: of a save without collectives, in which each rank has a record of its own."""
    return FILE_NAME if rank is None else f"metadata-{rank:05d}.json"


class Record(NamedTuple):
    """A record that was read."""

    #: With its ``storage_data``.
    metadata: Metadata
    #: Of the files.
    layout: str
    #: How many have saved.
    ranks: int


def encode(metadata: Metadata, storage: StorageData, layout: str, ranks: int) -> bytes:
    """``InvalidArgument``: the planner's data does not map flat names to nested ones."""
    tensors: dict[str, Any] = {}
    objects: dict[str, Any] = {}
    for name, entry in metadata.state_dict_metadata.items():
        if isinstance(entry, TensorStorageMetadata):
            tensors[name] = _tensor_record(name, entry, storage)
        else:
            objects[name] = _place(storage[MetadataIndex(name)])
    record = {
        "format": _FORMAT,
        "major": _MAJOR,
        "layout": layout,
        "ranks": ranks,
        "tensors": tensors,
        "objects": objects,
        "paths": _paths(metadata.planner_data),
    }
    return json.dumps(record, separators=(",", ":")).encode()


def decode(data: bytes, where: str) -> Record:
    """``UnsupportedFormat``: a newer Holdfast wrote it. ``Corrupt``: it is no such record."""
    try:
        record = json.loads(data)
        if record["format"] != _FORMAT:
            raise ValueError(f"its format is {record['format']!r}")
        if record["major"] != _MAJOR:
            raise UnsupportedFormat(
                f"{where} has version {record['major']} of its format, and this client reads {_MAJOR}"
            )
        return Record(_metadata(record), str(record["layout"]), int(record["ranks"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Corrupt(f"{where} is no record of a DCP checkpoint: {error!r}") from None


def _tensor_record(name: str, entry: TensorStorageMetadata, storage: StorageData) -> dict[str, Any]:
    return {
        "dtype": str(entry.properties.dtype).rpartition(".")[2],
        "shape": list(entry.size),
        "chunks": [
            {
                "offsets": list(chunk.offsets),
                "sizes": list(chunk.sizes),
                **_place(storage[MetadataIndex(name, chunk.offsets)]),
            }
            for chunk in entry.chunks
        ],
    }


def _place(info: _StorageInfo) -> dict[str, Any]:
    return {"file": info.relative_path, "offset": info.offset, "length": info.length}


def _paths(planner_data: Any) -> Optional[dict[str, list[Any]]]:
    """How the default planner flattened names: ``{"a.b": ("a", "b")}``."""
    if planner_data is None:
        return None
    if isinstance(planner_data, Mapping) and all(
        isinstance(path, Sequence) and all(isinstance(one, (str, int)) for one in path)
        for path in planner_data.values()
    ):
        return {str(name): list(path) for name, path in planner_data.items()}
    raise InvalidArgument(
        f"planner: its planner_data is a {type(planner_data).__name__}, and only nested names, as "
        "those of DefaultSavePlanner, can be saved without a pickle"
    )


def _metadata(record: Mapping[str, Any]) -> Metadata:
    storage: dict[MetadataIndex, _StorageInfo] = {}
    entries: dict[str, Any] = {}
    for name, tensor in record["tensors"].items():
        chunks = []
        for place, chunk in enumerate(tensor["chunks"]):
            offsets, sizes = torch.Size(chunk["offsets"]), torch.Size(chunk["sizes"])
            chunks.append(ChunkStorageMetadata(offsets=offsets, sizes=sizes))
            storage[MetadataIndex(name, offsets, place)] = _info(chunk)
        entries[name] = TensorStorageMetadata(
            properties=TensorProperties(dtype=_dtype(name, tensor["dtype"])),
            size=torch.Size(tensor["shape"]),
            chunks=chunks,
        )
    for name, place in record["objects"].items():
        entries[name] = BytesStorageMetadata()
        storage[MetadataIndex(name)] = _info(place)
    paths = record["paths"]
    return Metadata(
        state_dict_metadata=entries,
        planner_data=None if paths is None else {name: tuple(path) for name, path in paths.items()},
        storage_data=storage,
    )


def _info(place: Mapping[str, Any]) -> _StorageInfo:
    return _StorageInfo(str(place["file"]), int(place["offset"]), int(place["length"]))


def _dtype(name: str, text: str) -> torch.dtype:
    dtype = getattr(torch, text, None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"tensor {name!r} has the unknown type {text!r}")
    return dtype
