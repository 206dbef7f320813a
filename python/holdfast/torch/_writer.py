"""The ``StorageWriter`` of DCP."""

from __future__ import annotations

import dataclasses
import io
import pickle
from typing import Any, Mapping, Optional

from torch.distributed.checkpoint.metadata import BytesStorageMetadata, Metadata, MetadataIndex
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner
from torch.distributed.checkpoint.storage import StorageWriter, WriteResult
from torch.futures import Future

from .._attempt import attempt as shared_attempt
from .._connect import connect
from .._payload import Payload
from .._saving import Staged, extras
from ..errors import HoldfastError, InvalidArgument
from ..handle import Handle
from ..run import Run
from . import _records
from ._group import ranks_of
from ._ids import CheckpointId, parse_id
from ._layout import LAYOUTS, SAFETENSORS, add_plan

# Room for the records of the coordinator, so that they fit behind its tensors.
_RECORDS_BYTES = 64 << 10
_CHUNK_RECORD_BYTES = 1 << 10


class Writer(StorageWriter):
    """Saves checkpoints of ``torch.distributed.checkpoint`` to a run, by the agent of the node.

        dcp.save(state, checkpoint_id="step-100", storage_writer=Writer("s3://bucket/run"))

    Make it once, on all ranks of the group at the same time: they agree on an attempt id. Each rank
    copies its tensors once, into memory that it shares with its agent. ``finish`` returns when the
    checkpoint is committed, or at once if ``waits`` is false. Use ``holdfast.torch.async_save`` for
    saves in the background: ``dcp.async_save`` copies all tensors once more.

    ``uri``: the run. ``process_group``: the ranks that save; its size is the count of writers.
    ``no_dist``: this process alone. ``layout``: ``safetensors``, or ``distcp`` for the files of stock
    DCP. ``timeout``: seconds until a save has to be committed; then the ranks that are missing are
    named by ``Incomplete``. ``options``: of ``holdfast.connect``.
    """

    def __init__(
        self,
        uri: str,
        *,
        process_group: Any = None,
        no_dist: bool = False,
        attempt: Optional[str] = None,
        layout: str = SAFETENSORS,
        timeout: Optional[float] = None,
        waits: bool = True,
        **options: Any,
    ) -> None:
        if layout not in LAYOUTS:
            raise InvalidArgument(f"layout: expected one of {', '.join(LAYOUTS)}, got {layout!r}")
        self._ranks = ranks_of(process_group, no_dist)
        if attempt is None and not self._ranks.is_alone:
            attempt = shared_attempt(self._ranks.group)
        writer = (self._ranks.rank, self._ranks.size)
        self._run = connect(uri, attempt=attempt, writer=writer, **options)
        self._layout = layout
        self._timeout = timeout
        self.waits = waits
        #: Metrics and metadata of the next save.
        self.metrics: Optional[Mapping[str, float]] = None
        self.metadata: Optional[Mapping[str, str]] = None
        self._version: Optional[int] = None
        self._staged: Optional[Staged] = None
        self._handle: Optional[Handle] = None
        self._is_finished = True
        self._writes_records = False
        self._has_collectives = True
        self._records_bytes = _RECORDS_BYTES

    @property
    def run(self) -> Run:
        """The run, to read, annotate and pin checkpoints."""
        return self._run

    @property
    def checkpoint_id(self) -> Optional[str]:
        """The id of the version that is being saved."""
        return None if self._version is None else f"{self._run.uri}/step-{self._version}"

    @property
    def handle(self) -> Optional[Handle]:
        """This rank's part of the last save. It follows the whole checkpoint."""
        return self._handle

    def reset(self, checkpoint_id: Optional[CheckpointId] = None) -> None:
        """Begins a new checkpoint. ``InvalidArgument``: the id has no version, or another run."""
        self.abandon()
        self._handle = None
        self._version = None
        if checkpoint_id is None:
            return
        uri, version = parse_id(checkpoint_id)
        if uri is not None and uri != self._run.uri.rstrip("/"):
            raise InvalidArgument(
                f"checkpoint_id: {checkpoint_id!r} is in another run than this writer's, {self._run.uri}"
            )
        if version is None:
            raise InvalidArgument("checkpoint_id: 'latest' can only be loaded; name a version")
        self._version = version

    def abandon(self) -> None:
        """Drops what a save that failed has left. DCP has raised its error."""
        staged, self._staged = self._staged, None
        if staged is not None:
            staged.discard()
        if self._handle is not None and not self._is_finished:
            self._is_finished = True
            try:
                self._handle.cancel()
            except HoldfastError:
                # It ends without its coordinator.
                pass

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        rank = kwargs.get("rank", self._ranks.rank)
        if rank != self._ranks.rank:
            raise InvalidArgument(
                f"this writer is rank {self._ranks.rank} of its group, and saves as rank {rank}; "
                "make it with the process_group that saves"
            )
        self._has_collectives = bool(kwargs.get("use_collectives", True))
        self._writes_records = is_coordinator or not self._has_collectives
        if self._version is None:
            raise InvalidArgument("checkpoint_id: pass one for each save, as in 'step-100'")

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        items = [item for plan in plans for item in plan.items]
        # Names occur in both records. A cached plan is empty, and then the last figure holds.
        needed = sum(_CHUNK_RECORD_BYTES + 8 * len(item.index.fqn) for item in items)
        self._records_bytes = max(self._records_bytes, _RECORDS_BYTES + needed)
        return plans

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Copies this rank's chunks. Its part is in the agent when this returns."""
        payload = Payload()
        results = add_plan(payload, plan, planner, self._ranks.rank, self._layout)
        room = self._records_bytes if self._writes_records else 0
        self._staged = self._run._stage(payload, self._timeout, room)
        if not self._writes_records:
            self._post({})
        done: Future[list[WriteResult]] = Future()
        done.set_result(results)
        return done

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Commits, if the ranks have written all that the metadata names.

        ``InvalidArgument``: they have not. ``Incomplete``: a rank did not deliver in time.
        ``Fenced``: a newer attempt owns the run.
        """
        staged = self._staged
        assert staged is not None
        storage = {result.index: result.storage_data for rank in results for result in rank}
        _check_complete(metadata, results, storage)
        rank = None if self._has_collectives else self._ranks.rank
        whole = dataclasses.replace(metadata, storage_data=storage)
        stock_name = ".metadata" if rank is None else f"__{rank}.metadata"
        staged.payload.add_buffer(stock_name, _pickled(whole))
        record = _records.encode(metadata, storage, self._layout)
        staged.payload.add_buffer(_records.file_name(rank), record)
        self._post(extras(self.metrics, self.metadata))
        assert self._handle is not None
        if self.waits:
            self._handle.wait("committed")
        self._is_finished = True

    def close(self) -> None:
        """Leaves the run. Saves in progress go on in the agent."""
        self.abandon()
        self._run.close()

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: CheckpointId) -> bool:
        try:
            return parse_id(checkpoint_id).version is not None
        except HoldfastError:
            return False

    def _post(self, more: Mapping[str, Any]) -> None:
        staged, self._staged = self._staged, None
        assert staged is not None and self._version is not None
        self._is_finished = False
        self._handle = self._run._post(staged, self._version, more)


def _pickled(metadata: Metadata) -> bytes:
    stream = io.BytesIO()
    pickle.dump(metadata, stream)
    return stream.getvalue()


def _check_complete(
    metadata: Metadata,
    results: list[list[WriteResult]],
    storage: Mapping[MetadataIndex, Any],
) -> None:
    """Whether each chunk of the metadata was written, once."""
    if len(storage) != sum(len(rank) for rank in results):
        raise InvalidArgument("planner: two ranks have written the same chunk")
    wanted = set()
    for name, entry in metadata.state_dict_metadata.items():
        if isinstance(entry, BytesStorageMetadata):
            wanted.add(MetadataIndex(name))
        else:
            wanted.update(MetadataIndex(name, chunk.offsets) for chunk in entry.chunks)
    for index in wanted - storage.keys():
        where = "" if index.offset is None else f" at {list(index.offset)}"
        raise InvalidArgument(f"planner: no rank has written {index.fqn!r}{where}, which is in the plan")
    for index in storage.keys() - wanted:
        raise InvalidArgument(f"planner: a rank has written {index.fqn!r}, which is not in the plan")
