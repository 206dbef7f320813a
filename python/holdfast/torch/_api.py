"""``save``, ``async_save`` and ``load``, with the parameters of DCP's functions of these names."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import Future
from typing import Any, ContextManager, Iterator, Mapping, Optional

from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import LoadPlanner, SavePlanner

from ..errors import InvalidArgument
from ..handle import Handle
from ._group import ranks_of
from ._ids import CheckpointId, parse_id
from ._planner import WeightsLoadPlanner
from ._reader import Reader
from ._writer import Writer, check_timeout, telling
from ._writers import writer_of


def save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: Optional[CheckpointId] = None,
    storage_writer: Optional[Writer] = None,
    planner: Optional[SavePlanner] = None,
    process_group: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
    timeout: Optional[float] = None,
    metrics: Optional[Mapping[str, float]] = None,
    metadata: Optional[Mapping[str, str]] = None,
) -> Metadata:
    """As ``torch.distributed.checkpoint.save``. Returns when the checkpoint is committed.

    ``checkpoint_id``: ``s3://bucket/run/step-100``; with a ``storage_writer``, ``step-100`` or 100 is
    enough. Without a writer, one is made for the run and used again as long as its process group
    lasts. ``timeout``: seconds until the checkpoint has to be committed, by default that of the writer;
    all ranks pass the same. ``metrics``, ``metadata``: of the checkpoint; those of the coordinator count.

    ``Incomplete``: with a ``timeout``, some ranks did not call this in time; it names them by number.
    All ranks that call this raise it. A late rank raises it too, and takes part in the next save.
    ``TimedOut``: all ranks called this in time, and the commit came too late.

    The saves of several threads with one writer follow each other. All ranks make them in one order.
    ``Unsupported``: a signal handler calls this in the middle of a save of its thread.

    An error of a rank is raised on all ranks, as DCP's ``CheckpointException``, which is no
    ``Exception``. Then nothing is committed, unless it holds an ``OutcomeUnknown``.
    """
    writer, version = _writer_for(storage_writer, checkpoint_id, process_group, no_dist)
    with _turn_of(writer, timeout) as left, _settings(writer, True, left, metrics, metadata):
        writer.await_ranks(version)
        return _save(
            writer, state_dict, checkpoint_id, planner, process_group, no_dist, use_collectives
        )


def async_save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: Optional[CheckpointId] = None,
    storage_writer: Optional[Writer] = None,
    planner: Optional[SavePlanner] = None,
    process_group: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
    timeout: Optional[float] = None,
    metrics: Optional[Mapping[str, float]] = None,
    metadata: Optional[Mapping[str, str]] = None,
) -> Future[Metadata]:
    """As ``save``, but returns when all ranks have copied their tensors, which may change then.

    The agent uploads and commits, also if the trainer ends meanwhile. The future ends with the commit
    or the failure; a thread that only waits for it sets it. The next save raises a failure too, on
    all ranks. If two saves are in progress, the later is committed after the earlier has ended. A
    third waits.
    """
    writer, version = _writer_for(storage_writer, checkpoint_id, process_group, no_dist)
    with _turn_of(writer, timeout) as left, _settings(writer, False, left, metrics, metadata):
        seconds = writer.timeout
        writer.await_ranks(version)
        found = _save(
            writer, state_dict, checkpoint_id, planner, process_group, no_dist, use_collectives
        )
        handle = writer.handle
        assert handle is not None
        writer.follow(handle)
    future: Future[Metadata] = Future()
    # It cannot be cancelled: other ranks continue with the save.
    future.set_running_or_notify_cancel()
    threading.Thread(
        target=_wait, args=(writer, handle, future, found, seconds), name="holdfast-wait", daemon=True
    ).start()
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

    On all ranks: ``NotFound``: there is no such version. ``Unsupported``: another program saved it.
    Later errors are DCP's ``CheckpointException`` with the errors of the ranks: ``Corrupt`` for
    damaged bytes, ``RuntimeError`` and ``ValueError`` for tensors that the checkpoint has not or that
    differ. After an error the tensors are undefined.
    """
    reader = storage_reader
    if reader is None:
        uri = None if checkpoint_id is None else parse_id(checkpoint_id).uri
        if uri is None:
            raise InvalidArgument(
                f"checkpoint_id: {checkpoint_id!r} names no run; expected as in "
                "s3://bucket/run/step-100 or s3://bucket/run/latest"
            )
        ranks = ranks_of(process_group, no_dist)
        options = {"process_group": process_group, "no_dist": no_dist}
        made: list[Reader] = []
        try:
            # A rank without an agent would leave the others waiting.
            ranks.on_all(lambda: made.append(Reader(uri, **options)))
        except BaseException:
            for one in made:
                one.close()
            raise
        reader = made[0]
    elif not isinstance(reader, Reader):
        raise InvalidArgument(f"storage_reader: expected a Reader, got {type(reader).__name__}")
    try:
        with reader.threads.alone():
            reader.require_ranks(ranks_of(process_group, no_dist))
            reader.reset(checkpoint_id)
            version = reader.find()
            state_dict_loader.load(
                state_dict,
                # It was taken over by `reset`, which a second time would forget what was found.
                storage_reader=reader,
                planner=planner or WeightsLoadPlanner(),
                process_group=process_group,
                no_dist=no_dist,
            )
            return version
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
        found: Metadata = state_dict_saver.save(
            state_dict,
            checkpoint_id=None if checkpoint_id is None else str(checkpoint_id),
            storage_writer=writer,
            planner=planner,
            process_group=process_group,
            no_dist=no_dist,
            use_collectives=use_collectives,
        )
    except BaseException as error:
        writer.abandon(error)
        raise
    writer.settle()
    return found


def _turn_of(writer: Writer, timeout: Optional[float]) -> ContextManager[Optional[float]]:
    return writer.threads.alone(check_timeout(timeout))


@contextlib.contextmanager
def _settings(
    writer: Writer,
    waits: bool,
    timeout: Optional[float],
    metrics: Optional[Mapping[str, float]],
    metadata: Optional[Mapping[str, str]],
) -> Iterator[None]:
    """Settings of one save. The writer keeps its own."""
    before = writer.waits, writer.timeout
    writer.waits = waits
    if timeout is not None:
        writer.timeout = timeout
    writer.metrics = writer.metrics if metrics is None else metrics
    writer.metadata = writer.metadata if metadata is None else metadata
    try:
        yield
    finally:
        writer.waits, writer.timeout = before
        writer.metrics, writer.metadata = None, None
        writer.end = None


def _wait(
    writer: Writer,
    handle: Handle,
    future: Future[Metadata],
    found: Metadata,
    seconds: Optional[float],
) -> None:
    try:
        with telling(handle.version, seconds):
            handle.wait("committed")
    except BaseException as error:
        writer.ended(handle, error)
        future.set_exception(error)
    else:
        writer.ended(handle, None)
        future.set_result(found)


def _writer_for(
    given: Optional[Writer], checkpoint_id: Optional[CheckpointId], group: Any, no_dist: bool
) -> tuple[Writer, int]:
    if checkpoint_id is None:
        raise InvalidArgument("checkpoint_id: expected one for each save, as in s3://bucket/run/step-100")
    uri, version = parse_id(checkpoint_id)
    if version is None:
        raise InvalidArgument("checkpoint_id: 'latest' can only be loaded; name a version")
    if given is not None:
        if not isinstance(given, Writer):
            raise InvalidArgument(f"storage_writer: expected a Writer, got {type(given).__name__}")
        return given, version
    if uri is None:
        raise InvalidArgument(
            f"checkpoint_id: {checkpoint_id!r} names no run; expected as in s3://bucket/run/step-100"
        )
    return writer_of(uri, group, no_dist), version
