"""The ``StorageWriter`` of DCP."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import logging
import pickle
import threading
import time
from typing import Any, Iterator, Mapping, Optional

from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner
from torch.distributed.checkpoint.storage import StorageWriter, WriteResult
from torch.futures import Future

from .._arguments import check_seconds
from .._attempt import attempt as shared_attempt
from .._connect import connect
from .._payload import Payload
from .._saving import Staged, WhenBusy, extras
from ..errors import HoldfastError, InvalidArgument, TimedOut
from ..handle import Handle
from ..run import Run
from . import _records
from ._checks import Results, check_complete, check_covered, check_own, check_versions
from ._group import ranks_of
from ._ids import CheckpointId, parse_id
from ._layout import DISTCP, LAYOUTS, SAFETENSORS, add_plan
from ._one_thread import OneThread, step_of_one_thread
from ._roll_call import RollCall

_log = logging.getLogger("holdfast")

# Room for the records of the coordinator, so that they fit behind its tensors.
_RECORDS_BYTES = 64 << 10
_CHUNK_RECORD_BYTES = 1 << 10
# As stock writers name the version of their metadata.
_DCP_VERSION = "1.0.0"


class Writer(StorageWriter):
    """Saves checkpoints of ``torch.distributed.checkpoint`` to a run, by the agent of the node.

        dcp.save(state, checkpoint_id="step-100", storage_writer=Writer("s3://bucket/run"))

    Make it once, on all ranks of the group at the same time: they agree on an attempt id. Each rank
    copies its tensors once, into memory that it shares with its agent. ``finish`` returns when the
    checkpoint is committed, or at once if ``waits`` is false. Use ``holdfast.torch.async_save`` for
    saves in the background: ``dcp.async_save`` copies all tensors once more.

    ``uri``: the run. ``process_group``: the ranks that save; its size is the count of writers.
    ``no_dist``: this process alone. ``layout``: ``safetensors``, or ``distcp`` for the files of stock
    DCP. ``timeout``: seconds until a save has to be committed; then ``Incomplete`` names the ranks
    that are missing, or ``TimedOut`` says that all have begun. ``holdfast.torch.save`` waits for ranks that have not begun no longer than that;
    ``save`` of DCP waits for them as long as the process group does. ``when_busy``: as for ``Run.save``, ``wait`` or ``raise``.
    ``connect_timeout``: seconds, the ``timeout`` of ``holdfast.connect``. ``options``: the others of it.

    Threads use it one after another: ``holdfast.torch.save`` waits for its turn. In functions of DCP,
    a save is ``Unsupported`` if another thread begins one meanwhile.

    A rank that cannot join the run fails on all ranks.
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
        when_busy: WhenBusy = "wait",
        connect_timeout: float = 30.0,
        **options: Any,
    ) -> None:
        if layout not in LAYOUTS:
            raise InvalidArgument(f"layout: expected one of {', '.join(LAYOUTS)}, got {layout!r}")
        timeout = check_timeout(timeout)
        if when_busy not in ("wait", "raise"):
            # Ranks that skip a save have to agree on it.
            raise InvalidArgument(f"when_busy: expected wait or raise, got {when_busy!r}")
        self._ranks = ranks_of(process_group, no_dist)
        if attempt is None and not self._ranks.is_alone:
            attempt = shared_attempt(self._ranks.group)
        writer = (self._ranks.rank, self._ranks.size)

        def join() -> Run:
            return connect(uri, attempt=attempt, writer=writer, timeout=connect_timeout, **options)

        self._join = join
        runs: list[Run] = []
        try:
            self._ranks.on_all(lambda: runs.append(join()))
        except BaseException:
            for run in runs:
                run.close()
            raise
        self._run = runs[0]
        self._roll_call = RollCall(self._ranks)
        #: Whose save the state below is of.
        self.threads = OneThread("save", "Writer")
        #: Versions of which this life of the writer may have delivered a part.
        self._begun: set[int] = set()
        self._layout = layout
        #: Seconds until the next save has to be committed.
        self.timeout = timeout
        #: The same for the save that has begun, of ``time.monotonic()``.
        self.end: Optional[float] = None
        self._when_busy: WhenBusy = when_busy
        self.waits = waits
        #: Metrics and metadata of the next save. Those of the coordinator count.
        self.metrics: Optional[Mapping[str, float]] = None
        self.metadata: Optional[Mapping[str, str]] = None
        self._version: Optional[int] = None
        self._staged: Optional[Staged] = None
        self._handle: Optional[Handle] = None
        #: This rank does not know yet whether the ranks have ended the save together.
        self._is_unsettled = False
        self._writes_records = False
        self._has_collectives = True
        self._records_bytes = _RECORDS_BYTES
        self._lock = threading.RLock()
        #: Background saves in progress, and the failures of such saves, by their versions.
        self._followed: dict[int, Handle] = {}
        self._failures: dict[int, BaseException] = {}

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
        """Begins a new checkpoint. ``InvalidArgument``: the id has no version, or another run.

        A save of another thread that is in progress ends as ``Unsupported``, unless it has got so far
        that it is only waited for.
        """
        with self.threads.step:
            self.threads.begin()
            self._reset(checkpoint_id)

    def _reset(self, checkpoint_id: Optional[CheckpointId]) -> None:
        if self._staged is not None or (self._is_unsettled and self.waits):
            # DCP has ended the last save. It tells only the coordinator how.
            self.abandon()
        self._is_unsettled = False
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

    def await_ranks(self, version: int) -> None:
        """Begins a save that has a ``timeout``: waits for all ranks before DCP does, for ever.

        ``Incomplete``: names the ranks that do not come.
        """
        if self.timeout is not None:
            self.end = time.monotonic() + self.timeout
            self._roll_call.wait(self.end, version)

    @step_of_one_thread
    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        rank = kwargs.get("rank", self._ranks.rank)
        if rank != self._ranks.rank:
            raise InvalidArgument(
                f"this writer is rank {self._ranks.rank} of its group, and saves as rank {rank}; "
                "make it with the process_group or no_dist that saves"
            )
        self._has_collectives = bool(kwargs.get("use_collectives", True))
        self._writes_records = is_coordinator or not self._has_collectives
        if self._version is None:
            raise InvalidArgument("checkpoint_id: pass one for each save, as in 'step-100'")
        self._raise_failure()
        if self._version in self._begun:
            self._join_again()

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        if self._has_collectives and len(plans) != self._ranks.size:
            raise InvalidArgument(
                f"this writer's group has {self._ranks.size} ranks, and {len(plans)} save; make it "
                "with the process_group or no_dist that saves"
            )
        items = [item for plan in plans for item in plan.items]
        # Names occur in both records. A cached plan is empty, and then the last figure holds.
        needed = sum(_CHUNK_RECORD_BYTES + 8 * len(item.index.fqn) for item in items)
        self._records_bytes = max(self._records_bytes, _RECORDS_BYTES + needed)
        return plans

    @step_of_one_thread
    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Copies this rank's chunks. Its part is in the agent when this returns."""
        assert self._version is not None
        payload = Payload()
        results = add_plan(payload, plan, planner, self._ranks.rank, self._layout)
        check_own(plan, results)
        room = self._records_bytes if self._writes_records else 0
        timeout = self.timeout if self.end is None else self.end - time.monotonic()
        if timeout is not None and timeout <= 0:
            raise too_late(self._version, self.timeout)
        self._staged = self._run._stage(payload, timeout, room, self._when_busy)
        if not self._writes_records:
            self._post({})
        done: Future[list[WriteResult]] = Future()
        done.set_result(Results(results, self._version))
        return done

    @step_of_one_thread
    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Commits, if the ranks have written all that the metadata names.

        ``InvalidArgument``: they have not. ``Incomplete``: a rank did not deliver in time.
        ``Fenced``: a newer attempt owns the run.
        """
        staged = self._staged
        assert staged is not None and self._version is not None
        check_versions(results, self._version)
        storage = check_complete(metadata, results, self._layout != DISTCP)
        if self._has_collectives:
            check_covered(metadata)
        rank = None if self._has_collectives else self._ranks.rank
        whole = dataclasses.replace(metadata, storage_data=storage, version=_DCP_VERSION)
        stock_name = ".metadata" if rank is None else f"__{rank}.metadata"
        staged.payload.add_buffer(stock_name, _pickled(whole))
        record = _records.encode(metadata, storage, self._layout, self._ranks.size)
        staged.payload.add_buffer(_records.file_name(rank), record)
        more = extras(self.metrics, self.metadata)
        self.metrics, self.metadata = None, None
        self._post(more)
        assert self._handle is not None
        if self.waits:
            with telling(self._version, self.timeout):
                self._handle.wait("committed")
            self._is_unsettled = False

    def settle(self) -> None:
        """Notes that all ranks have ended the save without an error."""
        if self.threads.is_mine():
            self._is_unsettled = False

    def abandon(self, error: Optional[BaseException] = None) -> None:
        """Drops what a save that failed has left. ``error``: what DCP has raised on all ranks."""
        if self.threads.is_mine():
            staged, self._staged = self._staged, None
            if staged is not None:
                staged.discard()
            handle, self._handle = self._handle, None
            if handle is not None and self._is_unsettled:
                _drop(handle, is_told=self._writes_records)
            self._is_unsettled = False
        # The other ranks' parts of a background save that DCP has reported as failed.
        for version in _versions_in(error):
            with self._lock:
                earlier = self._followed.pop(version, None)
                self._failures.pop(version, None)
            if earlier is not None:
                _drop(earlier, is_told=True)

    def follow(self, handle: Handle) -> None:
        """Makes the failure of a background save that of the next save."""
        handle._own_failure()
        with self._lock:
            self._followed[handle.version] = handle

    def ended(self, handle: Handle, error: Optional[BaseException]) -> None:
        """Notes how a background save has ended."""
        with self._lock:
            # Otherwise its failure was reported already.
            if self._followed.pop(handle.version, None) is not None and error is not None:
                self._failures[handle.version] = error

    def close(self) -> None:
        """Leaves the run. Saves in progress continue in the agent."""
        staged, self._staged = self._staged, None
        if staged is not None:
            staged.discard()
        self._run.close()
        with self._lock:
            failures, self._failures = self._failures, {}
        for version, error in failures.items():
            _log.error("version %s was not saved: %s", version, error)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: CheckpointId) -> bool:
        try:
            return parse_id(checkpoint_id).version is not None
        except HoldfastError:
            return False

    def __reduce__(self) -> Any:
        raise InvalidArgument(
            "a Writer belongs to its process; for saves in the background use "
            "holdfast.torch.async_save, which needs no other process"
        )

    def _join_again(self) -> None:
        """Becomes a new life of the writer, so that no part of an earlier try counts.

        Otherwise the coordinator could commit with the earlier part of a rank, before the new one
        is delivered.
        """
        with self._lock:
            in_progress = list(self._followed.values())
        for handle in in_progress:
            with contextlib.suppress(HoldfastError):
                handle.wait("committed")
        self._run.close()
        self._run = self._join()
        self._begun.clear()

    def _raise_failure(self) -> None:
        with self._lock:
            version = min(self._failures, default=None)
            failure = None if version is None else self._failures.pop(version)
        if failure is not None:
            raise failure

    def _order(self) -> dict[str, Any]:
        """Commits a save after the one that is in progress.

        No rank can commit it without the coordinator's part, so that one waits. An earlier agent
        refuses a field that it does not know.
        """
        with self._lock:
            return {"inOrder": True} if self._writes_records and self._followed else {}

    def _post(self, more: Mapping[str, Any]) -> None:
        staged, self._staged = self._staged, None
        assert staged is not None and self._version is not None
        self._begun.add(self._version)
        self._handle = self._run._post(staged, self._version, {**more, **self._order()})
        self._is_unsettled = True
        if self.waits:
            # DCP raises it.
            self._handle._own_failure()


def too_late(version: int, timeout: Optional[float]) -> TimedOut:
    """``timeout``: what the caller gave. Its rest is all that the agent knows."""
    message = f"version {version} was not committed within {timeout:g} s from the call"
    return TimedOut(message, {"version": str(version)})


@contextlib.contextmanager
def telling(version: int, timeout: Optional[float]) -> Iterator[None]:
    try:
        yield
    except TimedOut as error:
        if timeout is None:
            raise
        raise too_late(version, timeout) from error


def check_timeout(timeout: Optional[float]) -> Optional[float]:
    """``None``, or a number of seconds above 0, which may be infinite."""
    if timeout is None:
        return None
    seconds = check_seconds(timeout)
    if not seconds > 0:
        raise InvalidArgument(f"timeout: expected seconds above 0, got {timeout!r}")
    return seconds


def _drop(handle: Handle, is_told: bool) -> None:
    """Stops a part that no checkpoint needs. One that is committed stays.

    ``is_told``: DCP has raised the failure of this part, if it has one.
    """
    try:
        error = handle.error()
        if error is not None and not is_told:
            _log.error("this rank's part of version %s: %s", handle.version, error)
        elif error is None and not handle.done():
            handle.cancel()
    except HoldfastError as error:
        # The agent drops it at its deadline.
        _log.debug("version %s was not cancelled: %s", handle.version, error)


def _versions_in(error: Optional[BaseException]) -> set[int]:
    """The versions whose failures DCP has brought to all ranks."""
    failures = getattr(error, "failures", None)
    raised = [one[0] for one in failures.values()] if isinstance(failures, dict) else [error]
    found = [str(one.details.get("version")) for one in raised if isinstance(one, HoldfastError)]
    return {int(version) for version in found if version.isdecimal()}


def _pickled(metadata: Metadata) -> bytes:
    stream = io.BytesIO()
    pickle.dump(metadata, stream)
    return stream.getvalue()
