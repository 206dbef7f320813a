"""The ``StorageReader`` of DCP."""

from __future__ import annotations

import io
from typing import Any, NamedTuple, Optional

import torch
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex, TensorStorageMetadata
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem
from torch.distributed.checkpoint.storage import StorageReader
from torch.futures import Future

from .._connect import connect
from ..errors import Corrupt, InvalidArgument, NotFound, Unsupported
from ..run import Run
from . import _records
from ._boxes import ByteRange, byte_range
from ._group import ranks_of
from ._ids import CheckpointId, parse_id
from ._layout import DISTCP


class Reader(StorageReader):
    """Loads checkpoints of ``torch.distributed.checkpoint`` from a run, by the agent of the node.

        dcp.load(state, checkpoint_id="step-100", storage_reader=Reader("s3://bucket/run"))

    Without a ``checkpoint_id`` it loads the latest version, the same one on all ranks. The agent
    verifies all bytes, and reads what several ranks of the node ask for once. Bytes go straight into
    tensors in this machine's memory.

    ``uri``: the run. ``version``: ``None`` for the latest. ``process_group``, ``no_dist``: as for
    ``dcp.load``. ``options``: of ``holdfast.connect``.
    """

    def __init__(
        self,
        uri: str,
        version: Optional[int] = None,
        *,
        process_group: Any = None,
        no_dist: bool = False,
        **options: Any,
    ) -> None:
        self._ranks = ranks_of(process_group, no_dist)
        self._run = connect(uri, writer=None, **options)
        self._asked = version
        self._version: Optional[int] = None
        self._metadata: Optional[Metadata] = None
        self._layout = ""

    @property
    def run(self) -> Run:
        """The run, to look at its checkpoints."""
        return self._run

    @property
    def version(self) -> Optional[int]:
        """The version that was loaded last."""
        return self._version

    @property
    def checkpoint_id(self) -> Optional[str]:
        return None if self._version is None else f"{self._run.uri}/step-{self._version}"

    def reset(self, checkpoint_id: Optional[CheckpointId] = None) -> None:
        self._version = None
        self._metadata = None
        if checkpoint_id is None:
            return
        uri, version = parse_id(checkpoint_id)
        if uri is not None and uri != self._run.uri.rstrip("/"):
            raise InvalidArgument(
                f"checkpoint_id: {checkpoint_id!r} is in another run than this reader's, {self._run.uri}"
            )
        self._asked = version

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """``NotFound``: no such version. ``Unsupported``: it was not saved by ``Writer``."""
        rank = kwargs.get("rank")
        if self._version is None:
            self._version = self._ranks.from_first(self._find_version)
        data = self._read_record(self._version, rank)
        where = f"{_records.file_name(rank)} of version {self._version}"
        self._metadata, self._layout = _records.decode(data, where)
        return self._metadata

    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        self._metadata = metadata

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Fills the tensors of the plan. ``Corrupt``: bytes that do not match their checksums."""
        assert self._metadata is not None and self._version is not None
        rows = _Rows(self._run, self._version)
        later = []
        reads = [self._read_of(item) for item in plan.items]
        for read in sorted(reads, key=lambda one: (one.file, one.range.start)):
            if read.item.type == LoadItemType.BYTE_IO:
                planner.load_bytes(read.item, io.BytesIO(self._bytes_of(read)))
                continue
            target = planner.resolve_tensor(read.item).detach()
            if target.shape != read.item.lengths:
                raise InvalidArgument(
                    f"tensor {read.item.dest_index.fqn!r}: the plan reads {list(read.item.lengths)} "
                    f"into {list(target.shape)}"
                )
            if self._layout != DISTCP and read.range.is_exact and _is_direct(target, read.dtype):
                rows.add(read.file, read.range, target)
                later.append((read.item, target))
                continue
            target.copy_(self._tensor_of(read))
            planner.commit_tensor(read.item, target)
        rows.flush()
        for item, target in later:
            planner.commit_tensor(item, target)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def close(self) -> None:
        self._run.close()

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: CheckpointId) -> bool:
        return True

    def _find_version(self) -> int:
        if self._asked is not None:
            return self._asked
        latest = self._run.latest()
        if latest is None:
            raise NotFound(f"{self._run.uri} has no checkpoint yet")
        return latest.version

    def _read_record(self, version: int, rank: Optional[int]) -> bytes:
        name = _records.file_name(rank)
        names = {file.name for file in self._run.files(version)}
        if name in names:
            return self._run.read(name, version)
        if rank is None and _records.file_name(self._ranks.rank) in names:
            raise NotFound(f"version {version} was saved without collectives")
        what = "a .metadata of another program" if ".metadata" in names else "no metadata.json"
        raise Unsupported(
            f"version {version} of {self._run.uri} was not saved by holdfast.torch: it has {what}. "
            "Pickles are never loaded from a store"
        )

    def _read_of(self, item: ReadItem) -> _Read:
        assert self._metadata is not None
        index = item.storage_index
        info: _StorageInfo = self._metadata.storage_data[index]
        entry = self._metadata.state_dict_metadata[index.fqn]
        if item.type == LoadItemType.BYTE_IO or not isinstance(entry, TensorStorageMetadata):
            whole = ByteRange(info.offset, info.length, True)
            return _Read(item, info.relative_path, whole, None, torch.Size())
        sizes = _chunk_sizes(entry, index)
        dtype = entry.properties.dtype
        if self._layout == DISTCP:
            found = ByteRange(info.offset, info.length, False)
        else:
            if info.length != sizes.numel() * dtype.itemsize:
                raise Corrupt(f"metadata.json gives tensor {index.fqn!r} {info.length} bytes")
            found = byte_range(sizes, item.storage_offsets, item.lengths, dtype.itemsize)
            found = found._replace(start=info.offset + found.start)
        return _Read(item, info.relative_path, found, dtype, sizes)

    def _bytes_of(self, read: _Read) -> bytearray:
        data = bytearray(read.range.length)
        self._run.read_into(data, read.file, self._version, read.range.start)
        return data

    def _tensor_of(self, read: _Read) -> torch.Tensor:
        """The part of a chunk that the plan asks for."""
        item, data = read.item, self._bytes_of(read)
        if self._layout == DISTCP:
            chunk = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
            for dim, (offset, length) in enumerate(zip(item.storage_offsets, item.lengths)):
                chunk = chunk.narrow(dim, offset, length)
            return chunk
        assert read.dtype is not None
        flat = torch.frombuffer(data, dtype=read.dtype) if data else torch.empty(0, dtype=read.dtype)
        strides = _row_strides(read.sizes)
        return flat.as_strided(tuple(item.lengths), strides) if data else flat.view(item.lengths)


class _Read(NamedTuple):
    item: ReadItem
    file: str
    range: ByteRange
    dtype: Optional[torch.dtype]
    #: Of the whole chunk.
    sizes: torch.Size


class _Rows:
    """Reads ranges that follow each other with one request, straight into tensors."""

    def __init__(self, run: Run, version: int) -> None:
        self._run = run
        self._version = version
        self._file = ""
        self._start = 0
        self._end = 0
        self._targets: list[memoryview] = []
        #: Their memory has to stay until it is filled.
        self._owners: list[torch.Tensor] = []

    def add(self, file: str, where: ByteRange, target: torch.Tensor) -> None:
        if where.length == 0:
            return
        from .._memory import view_at

        if self._file != file or self._end != where.start:
            self.flush()
            self._file, self._start = file, where.start
        self._end = where.start + where.length
        self._targets.append(view_at(target.data_ptr(), where.length))
        self._owners.append(target)

    def flush(self) -> None:
        if self._targets:
            self._run._read_row(self._targets, self._file, self._version, self._start)
        self._targets, self._owners, self._end, self._file = [], [], 0, ""


def _is_direct(target: torch.Tensor, dtype: Optional[torch.dtype]) -> bool:
    """Whether bytes of a file can be read straight into its memory."""
    return (
        target.device.type == "cpu"
        and target.dtype == dtype
        and target.is_contiguous()
        and not target.is_conj()
        and not target.is_neg()
    )


def _chunk_sizes(entry: TensorStorageMetadata, index: MetadataIndex) -> torch.Size:
    if index.index is not None and index.index < len(entry.chunks):
        hinted = entry.chunks[index.index]
        if hinted.offsets == index.offset:
            return hinted.sizes
    return next(chunk.sizes for chunk in entry.chunks if chunk.offsets == index.offset)


def _row_strides(sizes: torch.Size) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for side in reversed(sizes):
        strides.insert(0, step)
        step *= side
    return tuple(strides)
