"""Reads from DCP's ``.metadata`` which files belong to a checkpoint."""

from __future__ import annotations

import io
import pickle
import re
from typing import Any, Mapping

from ..errors import Incomplete, InvalidArgument, Unsupported

METADATA = ".metadata"
METADATA_TMP = ".metadata.tmp"

_RANK = re.compile(r"^__(\d+)(?:_\d+\.distcp|\.metadata(?:\.tmp)?)$")
_MODULES = (
    "torch.distributed.checkpoint.metadata",
    "torch.distributed.checkpoint.filesystem",
)
_NAMES = {
    ("torch", "Size"),
    ("torch", "device"),
    ("torch.serialization", "_get_layout"),
    ("collections", "OrderedDict"),
    ("builtins", "set"),
}


def refuse_other_ranks(name: str) -> None:
    """``Unsupported``: the file is of a rank above 0, or of a save without collectives."""
    found = _RANK.match(name)
    if found is None or (found.group(1) == "0" and name.endswith(".distcp")):
        return
    raise Unsupported(
        f"{name!r} is the file of one rank of several, and a file system cannot commit what several "
        "processes write; use holdfast.torch.save, or its Writer as storage_writer"
    )


def files_named_by(metadata: bytes, files: Mapping[str, bytes]) -> set[str]:
    """The files of a checkpoint, if they hold all tensors and objects.

    DCP writes its metadata also if one of its threads could not write a file. ``Incomplete``: a part
    is in no file. ``Unsupported``: a rank has written files elsewhere.
    """
    found = _load(metadata)
    places = found.storage_data
    for index in _indices(found.state_dict_metadata):
        if index not in places:
            raise Incomplete(
                f"no file holds {index.fqn!r}: DCP could not write it; nothing was committed"
            )
    for index, place in places.items():
        refuse_other_ranks(place.relative_path)
        size = len(files.get(place.relative_path, b""))
        if place.relative_path not in files or place.offset + place.length > size:
            raise Incomplete(
                f"{place.relative_path!r} does not hold {index.fqn!r}: bytes {place.offset} to "
                f"{place.offset + place.length}, and it has {size}; nothing was committed"
            )
    return {place.relative_path for place in places.values()}


def _indices(entries: Mapping[str, Any]) -> list[Any]:
    from torch.distributed.checkpoint.metadata import MetadataIndex, TensorStorageMetadata

    indices = []
    for name, entry in entries.items():
        if isinstance(entry, TensorStorageMetadata):
            indices += [MetadataIndex(name, chunk.offsets) for chunk in entry.chunks]
        else:
            indices.append(MetadataIndex(name))
    return indices


def _load(metadata: bytes) -> Any:
    try:
        found = _Unpickler(io.BytesIO(metadata)).load()
        found.storage_data.items()
        found.state_dict_metadata.items()
    except Exception as error:
        raise InvalidArgument(
            f"{METADATA_TMP} is not the metadata of a checkpoint of DCP: {error}"
        ) from error
    return found


class _Unpickler(pickle.Unpickler):
    """Creates only objects of the classes of metadata, because a pickle can call any function."""

    def find_class(self, module: str, name: str) -> Any:
        is_type = module == "torch" and isinstance(getattr(_torch(), name, None), _torch().dtype)
        if module in _MODULES or (module, name) in _NAMES or is_type:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it has {module}.{name}")


def _torch() -> Any:
    import torch

    return torch
