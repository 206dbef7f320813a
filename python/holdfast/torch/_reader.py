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
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from .._connect import connect
from .._reader import Version
from .._tensors import require_memory
from ..checkpoint import File
from ..errors import Corrupt, InvalidArgument, NotFound, Unsupported
from ..run import Run
from . import _records
from ._boxes import ByteRange, blocks, byte_range
from ._filled import check_filled
from ._group import Ranks, ranks_of
from ._ids import CheckpointId, parse_id
from ._layout import DISTCP
from ._one_thread import OneThread
from ._rows import Rows

# What is not read straight into its tensor is read in blocks of this many bytes.
_BLOCK_BYTES = 64 << 20


class Reader(StorageReader):
    """Loads checkpoints of ``torch.distributed.checkpoint`` from a run, by the agent of the node.

        dcp.load(state, checkpoint_id="step-100", storage_reader=Reader("s3://bucket/run"))

    Without a ``checkpoint_id`` it loads the latest version, the same one on all ranks: they agree
    by a broadcast. The agent verifies all bytes, and reads what several ranks of the node ask for at
    the same time once. Bytes go straight into tensors in this machine's memory.

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
        self._found: Optional[Version] = None
        #: Whose load the state is of.
        self.threads = OneThread("load", "Reader")
        self._files: dict[str, File] = {}
        #: What DCP asks for next was read already.
        self._is_ready = False
        #: Why the record was not read: DCP asks again for the record of this rank.
        self._failure: Optional[Exception] = None
        self._metadata: Optional[Metadata] = None
        #: Whether the record is of all ranks.
        self._is_whole = True
        self._layout = ""
        #: The last chunk of a file of ``torch.save``: a rank may need several parts of it.
        self._chunk: Optional[tuple[tuple[str, int], torch.Tensor]] = None

    @property
    def run(self) -> Run:
        """The run, to look at its checkpoints."""
        return self._run

    @property
    def version(self) -> Optional[int]:
        """The version that was loaded last."""
        return None if self._found is None else self._found.number

    @property
    def checkpoint_id(self) -> Optional[str]:
        return None if self._found is None else f"{self._run.uri}/step-{self._found.number}"

    def reset(self, checkpoint_id: Optional[CheckpointId] = None) -> None:
        self._found = None
        self._is_ready = False
        self._failure = None
        self._metadata = None
        if checkpoint_id is None:
            return
        uri, version = parse_id(checkpoint_id)
        if uri is not None and uri != self._run.uri.rstrip("/"):
            raise InvalidArgument(
                f"checkpoint_id: {checkpoint_id!r} is in another run than this reader's, {self._run.uri}"
            )
        self._asked = version

    def require_ranks(self, ranks: Ranks) -> None:
        """``InvalidArgument``: other ranks load than those that this reader was made for."""
        if (ranks.rank, ranks.size) != (self._ranks.rank, self._ranks.size):
            raise InvalidArgument(
                f"storage_reader: it was made for {self._ranks.size} ranks, and {ranks.size} load; make "
                "it with the same process_group and no_dist"
            )

    def find(self) -> int:
        """Finds the version and reads its record before DCP loads it: errors keep their classes.

        If a rank fails, all do. ``NotFound``: no such version. ``Unsupported``: it was not saved by
        ``Writer``, or without collectives by another count of ranks. ``Corrupt``: its record is
        damaged.
        """
        self._found = self._ranks.from_first(self._find_with_record)
        self._ranks.on_all(self._read_record)
        self._is_ready = True
        return self._found.number

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """``NotFound``: no such version. ``Unsupported``: it was not saved by ``Writer``."""
        rank = kwargs.get("rank")
        if rank is None and not self._is_ready:
            self._failure = None
            try:
                # Only the latest may change meanwhile, so only then all ranks have to agree.
                known = self._asked is not None
                self._found = self._find() if known else self._ranks.from_first(self._find)
                self._read_record()
            except Exception as error:
                self._failure = error
        if self._failure is not None:
            raise self._failure
        assert self._found is not None and self._metadata is not None
        if rank is None and not self._is_whole:
            # DCP asks again, with a rank.
            self._is_ready = True
            raise NotFound(f"version {self._found.number} was saved without collectives")
        self._is_ready = False
        return self._metadata

    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        rank = kwargs.get("rank", self._ranks.rank)
        if rank != self._ranks.rank:
            raise InvalidArgument(
                f"this reader is rank {self._ranks.rank} of its group, and loads as rank {rank}; make it "
                "with the process_group or no_dist that loads"
            )
        self._metadata = metadata

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Fills the tensors of the plan. ``Corrupt``: bytes that do not match their checksums."""
        assert self._metadata is not None and self._found is not None
        check_filled(plan, planner, self._metadata)
        rows = Rows(self._run, self._found)
        later = []
        reads = [self._read_of(item) for item in plan.items]
        for read in sorted(reads, key=lambda one: (one.file, one.range.start)):
            if read.item.type == LoadItemType.BYTE_IO:
                planner.load_bytes(read.item, io.BytesIO(self._bytes_of(read.file, read.range)))
                continue
            target = _checked_target(read.item, planner.resolve_tensor(read.item).detach())
            if self._layout == DISTCP:
                target.copy_(self._unpickled(read))
            elif read.range.is_exact and _is_direct(target, read.dtype):
                rows.add(read.file, read.range, target)
                later.append((read.item, target))
                continue
            else:
                self._copy_blocks(read, target)
            planner.commit_tensor(read.item, target)
        rows.flush()
        self._chunk = None
        for item, target in later:
            planner.commit_tensor(item, target)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def close(self) -> None:
        self._run.close()

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: CheckpointId) -> bool:
        try:
            parse_id(checkpoint_id)
        except InvalidArgument:
            return False
        return True

    def _find(self) -> Version:
        if self._asked is None and self._run.latest() is None:
            raise NotFound(f"{self._run.uri} has no checkpoint yet")
        found, _ = self._run._find(self._asked)
        return found

    def _find_with_record(self) -> Version:
        found = self._find()
        files = self._files_of(found)
        if not {_records.file_name(None), _records.file_name(0)} & files.keys():
            raise self._no_record(found, files)
        return found

    def _files_of(self, found: Version) -> dict[str, File]:
        again, files = self._run._find(found.number)
        if again != found:
            raise NotFound(f"version {found.number} was replaced while it was loaded; load it again")
        return {file.name: file for file in files}

    def _read_record(self) -> None:
        """Of all ranks, or else of this one."""
        found = self._found
        assert found is not None
        self._files = files = self._files_of(found)
        self._is_whole = _records.file_name(None) in files
        name = _records.file_name(None if self._is_whole else self._ranks.rank)
        if name not in files:
            if _records.file_name(0) not in files:
                raise self._no_record(found, files)
            # It has fewer ranks.
            name = _records.file_name(0)
        data = self._bytes_of(name, ByteRange(0, files[name].size_bytes, True))
        record = _records.decode(bytes(data), f"{name} of version {found.number}")
        if not self._is_whole and record.ranks != self._ranks.size:
            raise Unsupported(
                f"version {found.number} was saved without collectives by {record.ranks} ranks, so it can "
                f"be loaded only by as many, and these are {self._ranks.size}"
            )
        self._metadata, self._layout = record.metadata, record.layout

    def _no_record(self, found: Version, files: dict[str, File]) -> Unsupported:
        what = "a .metadata of another program" if ".metadata" in files else "no metadata.json"
        return Unsupported(
            f"version {found.number} of {self._run.uri} was not saved by holdfast.torch: it has {what}. "
            "Pickles are never loaded from a store",
            {"version": found.number},
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

    def _bytes_of(self, file: str, where: ByteRange) -> bytearray:
        assert self._found is not None
        data = bytearray(where.length)
        with memoryview(data) as view:
            self._run._read_row([view], file, self._found, where.start)
        return data

    def _copy_blocks(self, read: _Read, target: torch.Tensor) -> None:
        """Reads the part of a chunk that the plan asks for, block by block."""
        assert self._metadata is not None and read.dtype is not None
        item, item_bytes = read.item, read.dtype.itemsize
        chunk_start = self._metadata.storage_data[item.storage_index].offset
        strides = _row_strides(read.sizes)
        for box in blocks(
            read.sizes, item.storage_offsets, item.lengths, item_bytes, _BLOCK_BYTES
        ):
            if 0 in box.lengths:
                continue
            offsets = [a + b for a, b in zip(item.storage_offsets, box.offsets)]
            where = byte_range(read.sizes, offsets, box.lengths, item_bytes)
            data = self._bytes_of(read.file, where._replace(start=chunk_start + where.start))
            block = torch.frombuffer(data, dtype=read.dtype).as_strided(box.lengths, strides)
            _narrowed(target, box.offsets, box.lengths).copy_(block)

    def _unpickled(self, read: _Read) -> torch.Tensor:
        """The same of a chunk that ``torch.save`` has written, which is read as a whole."""
        place = read.file, read.range.start
        if self._chunk is None or self._chunk[0] != place:
            data = io.BytesIO(self._bytes_of(read.file, read.range))
            loaded = torch.load(data, map_location="cpu", weights_only=True)
            if not isinstance(loaded, torch.Tensor) or loaded.shape != read.sizes:
                raise Corrupt(f"tensor {read.item.storage_index.fqn!r} is not what metadata.json says")
            self._chunk = place, loaded
        chunk = self._chunk[1]
        return _narrowed(chunk, tuple(read.item.storage_offsets), tuple(read.item.lengths))


class _Read(NamedTuple):
    item: ReadItem
    file: str
    range: ByteRange
    dtype: Optional[torch.dtype]
    #: Of the whole chunk.
    sizes: torch.Size


def _checked_target(item: ReadItem, target: torch.Tensor) -> torch.Tensor:
    name = item.dest_index.fqn
    if target.shape != item.lengths:
        raise InvalidArgument(
            f"tensor {name!r}: the plan reads {list(item.lengths)} into {list(target.shape)}"
        )
    if target.is_meta:
        raise InvalidArgument(f"tensor {name!r} is on the meta device; allocate it before it is loaded")
    if not is_traceable_wrapper_subclass(target):
        require_memory(name, target)
    return target


def _is_direct(target: torch.Tensor, dtype: Optional[torch.dtype]) -> bool:
    """Whether bytes of a file can be read straight into its memory."""
    return (
        target.device.type == "cpu"
        and target.dtype == dtype
        and target.layout == torch.strided
        and target.is_contiguous()
        and not target.is_conj()
        and not target.is_neg()
        and not is_traceable_wrapper_subclass(target)
    )


def _narrowed(
    tensor: torch.Tensor, offsets: tuple[int, ...], lengths: tuple[int, ...]
) -> torch.Tensor:
    for dim, (offset, length) in enumerate(zip(offsets, lengths)):
        tensor = tensor.narrow(dim, offset, length)
    return tensor


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
