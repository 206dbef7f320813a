"""``save``, ``async_save`` and ``load``, with the parameters of DCP's functions of these names."""

from __future__ import annotations

import atexit
import io
import logging
import threading
from concurrent.futures import Future
from typing import Any, Mapping, Optional

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import LoadPlanner, ReadItem, SavePlanner

from ..errors import HoldfastError, InvalidArgument
from ._ids import CheckpointId, parse_id
from ._reader import Reader
from ._writer import Writer

_log = logging.getLogger("holdfast")
_writers: dict[tuple[str, Any, bool], Writer] = {}


class WeightsLoadPlanner(DefaultLoadPlanner):
    """DCP's planner, but objects of a checkpoint cannot run code: only weights are unpickled."""

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        name = read_item.dest_index.fqn
        try:
            torch.load(value, weights_only=True)
        except Exception as error:
            raise InvalidArgument(
                f"{name!r} is an object whose class torch does not load as weights; allow it by "
                "torch.serialization.add_safe_globals, or pass planner=DefaultLoadPlanner() if you "
                f"trust all writers of the store: {error}"
            ) from None
        value.seek(0)
        super().load_bytes(read_item, value)


def save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: Optional[CheckpointId] = None,
    storage_writer: Optional[Writer] = None,
    planner: Optional[SavePlanner] = None,
    process_group: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
    metrics: Optional[Mapping[str, float]] = None,
    metadata: Optional[Mapping[str, str]] = None,
) -> Metadata:
    """As ``torch.distributed.checkpoint.save``. Returns when the checkpoint is committed.

    ``checkpoint_id``: ``s3://bucket/run/step-100``; with a ``storage_writer``, ``step-100`` or 100 is
    enough. Without a writer, one is made for each run and group and used again. ``metrics``,
    ``metadata``: of the checkpoint; those of the coordinator count.

    An error of a rank is raised on all ranks, as DCP's ``CheckpointException``. Then nothing is
    committed.
    """
    writer = _writer_for(storage_writer, checkpoint_id, process_group, no_dist)
    writer.waits = True
    writer.metrics, writer.metadata = metrics, metadata
    return _save(writer, state_dict, checkpoint_id, planner, process_group, no_dist, use_collectives)


def async_save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: Optional[CheckpointId] = None,
    storage_writer: Optional[Writer] = None,
    planner: Optional[SavePlanner] = None,
    process_group: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
    metrics: Optional[Mapping[str, float]] = None,
    metadata: Optional[Mapping[str, str]] = None,
) -> Future[Metadata]:
    """As ``save``, but returns when all ranks have copied their tensors, which may change then.

    The agent does the rest, without a thread or a collective of the trainer. The future ends when
    the checkpoint is committed. A failure is also raised by the next save on each rank.
    """
    writer = _writer_for(storage_writer, checkpoint_id, process_group, no_dist)
    writer.waits = False
    writer.metrics, writer.metadata = metrics, metadata
    found = _save(writer, state_dict, checkpoint_id, planner, process_group, no_dist, use_collectives)
    handle = writer.handle
    assert handle is not None
    future: Future[Metadata] = Future()

    def wait() -> None:
        try:
            handle.wait("committed")
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(found)

    threading.Thread(target=wait, name="holdfast-wait", daemon=True).start()
    return future


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: Optional[CheckpointId] = None,
    storage_reader: Optional[Reader] = None,
    planner: Optional[LoadPlanner] = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> int:
    """As ``torch.distributed.checkpoint.load``. Returns the version that was loaded.

    ``checkpoint_id``: ``s3://bucket/run/step-100``, or ``s3://bucket/run/latest`` for the latest.
    ``planner``: by default one that unpickles weights only.
    """
    reader = storage_reader
    if reader is None:
        uri = None if checkpoint_id is None else parse_id(checkpoint_id).uri
        if uri is None:
            raise InvalidArgument(f"checkpoint_id: {checkpoint_id!r} names no run")
        reader = Reader(uri, process_group=process_group, no_dist=no_dist)
    try:
        if checkpoint_id is None:
            reader.reset()
        dcp.load(
            state_dict,
            checkpoint_id=None if checkpoint_id is None else str(checkpoint_id),
            storage_reader=reader,
            planner=planner or WeightsLoadPlanner(),
            process_group=process_group,
            no_dist=no_dist,
        )
        assert reader.version is not None
        return reader.version
    finally:
        if storage_reader is None:
            reader.close()


def _save(
    writer: Writer,
    state_dict: dict[str, Any],
    checkpoint_id: Optional[CheckpointId],
    planner: Optional[SavePlanner],
    process_group: Any,
    no_dist: bool,
    use_collectives: bool,
) -> Metadata:
    try:
        return dcp.save(
            state_dict,
            checkpoint_id=None if checkpoint_id is None else str(checkpoint_id),
            storage_writer=writer,
            planner=planner,
            process_group=process_group,
            no_dist=no_dist,
            use_collectives=use_collectives,
        )
    except BaseException:
        writer.abandon()
        raise


def _writer_for(
    given: Optional[Writer], checkpoint_id: Optional[CheckpointId], group: Any, no_dist: bool
) -> Writer:
    if checkpoint_id is None:
        raise InvalidArgument("checkpoint_id: expected one for each save, as in s3://bucket/run/step-100")
    uri, _ = parse_id(checkpoint_id)
    if given is not None:
        if not isinstance(given, Writer):
            raise InvalidArgument(f"storage_writer: expected a Writer, got {type(given).__name__}")
        return given
    if uri is None:
        raise InvalidArgument(
            f"checkpoint_id: {checkpoint_id!r} names no run; expected as in s3://bucket/run/step-100"
        )
    key = (uri, group, no_dist)
    if key not in _writers:
        _writers[key] = Writer(uri, process_group=group, no_dist=no_dist)
    return _writers[key]


def _close_writers() -> None:
    for writer in _writers.values():
        try:
            writer.close()
        except HoldfastError as error:
            _log.error("a save of %s has failed: %s", writer.run.uri, error)


atexit.register(_close_writers)
