"""Checks that a save has to pass before it is committed."""

from __future__ import annotations

import math
from typing import Iterable, Mapping

from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import SavePlan
from torch.distributed.checkpoint.storage import WriteResult

from ..errors import InvalidArgument


class Results(list[WriteResult]):
    """What one rank has written, and for which version. It is sent to the coordinator."""

    def __init__(self, results: Iterable[WriteResult], version: int) -> None:
        super().__init__(results)
        self.version = version

    def __reduce__(self) -> tuple[type[Results], tuple[list[WriteResult], int]]:
        return Results, (list(self), self.version)


def check_own(plan: SavePlan, results: list[WriteResult]) -> None:
    """Whether this rank has written its plan, each chunk once."""
    written = [result.index for result in results]
    if len(set(written)) != len(written):
        twice = next(index for index in written if written.count(index) > 1)
        raise InvalidArgument(f"planner: the plan of this rank has {_name(twice)} twice")
    for index in {item.index for item in plan.items} ^ set(written):
        raise InvalidArgument(f"planner: {_name(index)} was planned for this rank or written, not both")


def check_versions(results: list[list[WriteResult]], version: int) -> None:
    """Whether all ranks save the same version."""
    for rank, written in enumerate(results):
        theirs = written.version if isinstance(written, Results) else version
        if theirs != version:
            raise InvalidArgument(
                f"checkpoint_id: rank {rank} saves version {theirs}, and rank 0 saves version {version}"
            )


def check_complete(
    metadata: Metadata, results: list[list[WriteResult]], layout_has_plain_bytes: bool
) -> dict[MetadataIndex, _StorageInfo]:
    """Where each chunk of the metadata is. ``InvalidArgument``: one is missing, or is there twice.

    ``layout_has_plain_bytes``: a chunk has as many bytes as its elements.
    """
    storage: dict[MetadataIndex, _StorageInfo] = {}
    for rank, written in enumerate(results):
        for result in written:
            if result.index in storage:
                raise InvalidArgument(
                    f"planner: rank {rank} has written {_name(result.index)}, and so has another rank"
                )
            storage[result.index] = result.storage_data
    wanted = _wanted(metadata)
    for index in wanted.keys() - storage.keys():
        raise InvalidArgument(f"planner: no rank has written {_name(index)}, which is in the plan")
    for index in storage.keys() - wanted.keys():
        raise InvalidArgument(f"planner: a rank has written {_name(index)}, which is not in the plan")
    if layout_has_plain_bytes:
        for index, size in wanted.items():
            if size is not None and storage[index].length != size:
                raise InvalidArgument(
                    f"planner: {_name(index)} has {size} bytes in the plan, and a rank has written "
                    f"{storage[index].length}"
                )
    return storage


def check_covered(metadata: Metadata) -> None:
    """Whether the chunks of each tensor are all of it. DCP has checked that they do not overlap."""
    for name, entry in metadata.state_dict_metadata.items():
        if isinstance(entry, BytesStorageMetadata):
            continue
        saved = sum(math.prod(chunk.sizes) for chunk in entry.chunks)
        if saved != math.prod(entry.size):
            raise InvalidArgument(
                f"tensor {name!r} has {math.prod(entry.size)} elements, and the ranks that save have "
                f"{saved} of them; save with the process group of all its shards, or with "
                "use_collectives=False"
            )


def _wanted(metadata: Metadata) -> Mapping[MetadataIndex, int | None]:
    """Bytes of each chunk. ``None``: of an object."""
    wanted: dict[MetadataIndex, int | None] = {}
    for name, entry in metadata.state_dict_metadata.items():
        if isinstance(entry, TensorStorageMetadata):
            item_bytes = entry.properties.dtype.itemsize
            for chunk in entry.chunks:
                wanted[MetadataIndex(name, chunk.offsets)] = math.prod(chunk.sizes) * item_bytes
        else:
            wanted[MetadataIndex(name)] = None
    return wanted


def _name(index: MetadataIndex) -> str:
    return repr(index.fqn) + ("" if index.offset is None else f" at {list(index.offset)}")
