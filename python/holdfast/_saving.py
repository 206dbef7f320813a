"""Saving: the writer of this process, its segments, and the order of the steps of a save."""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import time
from typing import Any, Iterator, Literal, Mapping, Optional

from ._arguments import check_metadata, check_metrics
from ._link import GRACE_SECONDS, Link, log
from ._payload import Payload
from ._saves import Save
from ._segments import Segment
from ._writer import Writer, closed
from .errors import (
    AgentUnavailable,
    Conflict,
    HoldfastError,
    InvalidArgument,
    NoStagingSpace,
    NotFound,
    StorageFull,
    TimedOut,
    Unavailable,
    Unsupported,
)

#: What a save does while earlier saves still use both segments of this process.
WhenBusy = Literal["wait", "skip", "raise"]

_NEWS_SECONDS = 1.0
_CLOSE_SECONDS = 5.0


class _SegmentGone(NotFound):
    """The agent took this process for ended and removed it, or has another staging directory."""


class Staged:
    """A payload in a segment, which the agent does not know yet."""

    def __init__(self, writer: Writer, payload: Payload, end: Optional[float]) -> None:
        self.writer = writer
        self.payload = payload
        #: When the checkpoint must be committed, of ``time.monotonic()``.
        self.end = end
        self.segment: Optional[Segment] = None
        #: The thread that posts or discards it.
        self.thread: Optional[int] = threading.get_ident()

    def hold(self, segment: Segment) -> None:
        """Copies into ``segment`` and uses it from now on."""
        self.segment = segment
        self.payload.forget_copy()
        try:
            self.payload.copy_into(segment)
        except BaseException:
            self.discard()
            raise

    def discard(self, reusable: bool = True) -> Optional[Segment]:
        """Gives its segment back."""
        segment, self.segment = self.segment, None
        if segment is not None:
            self.writer.pool.give_back(segment, reusable)
        return segment


class _Calls:
    """The calls in progress, by thread. After ``end`` a thread begins no other one."""

    def __init__(self) -> None:
        self.is_ended = False
        # A signal handler may call while its thread holds the lock.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._threads: list[int] = []

    @contextlib.contextmanager
    def one(self) -> Iterator[None]:
        thread = threading.get_ident()
        with self._lock:
            if self.is_ended and thread not in self._threads:
                raise closed()
            self._threads.append(thread)
        try:
            yield
        finally:
            with self._lock:
                self._threads.remove(thread)
                self._changed.notify_all()

    def end(self, deadline: float) -> None:
        """Waits for the calls of other threads, until ``deadline``."""
        own = threading.get_ident()
        with self._lock:
            self.is_ended = True
            self._changed.wait_for(
                lambda: all(thread == own for thread in self._threads),
                max(0.0, deadline - time.monotonic()),
            )


class Saver:
    """What ``Run`` and ``Handle`` share. ``join`` is ``None`` for a run that only reads."""

    def __init__(self, link: Link, join: Optional[Mapping[str, Any]], timeout: float) -> None:
        self.timeout = timeout
        self._link = link
        self._join = join
        self._writer: Optional[Writer] = None
        self._calls = _Calls()
        self._pid = os.getpid()

    def deadline(self, end: Optional[float] = None) -> float:
        """Latest time of the answer to a call that begins now.

        ``end``: end of the call's own timeout. If the agent does not answer, the call may end a
        little later.
        """
        deadline = time.monotonic() + self.timeout
        return deadline if end is None else min(deadline, end + GRACE_SECONDS)

    def writer(self) -> Optional[Writer]:
        """The writer of this process. A child of a fork has none until it saves."""
        if self._pid != os.getpid():
            self.forget()
        return self._writer

    @property
    def run_id(self) -> Optional[str]:
        """Of the run that this process has joined. ``None``: it has not joined."""
        writer = self.writer()
        return None if writer is None else writer.run_id

    def raise_failure(self, deadline: float) -> None:
        """Called at the beginning of each call. Raises the failure of an earlier save."""
        writer = self.writer()
        if writer is not None:
            writer.refresh(deadline)
            failure = writer.next_failure()
            if failure is not None:
                try:
                    raise failure
                finally:
                    # Not before: a signal handler that raises would make the failure unknown.
                    writer.note_raised(failure)

    def joined(self, end: Optional[float] = None) -> Writer:
        """The writer, which joins the run first if it has not joined yet."""
        if self._join is None:
            raise InvalidArgument("the run was opened to read: connect(…, writer=(index, count))")
        writer = self.writer()
        if writer is None:
            if self._calls.is_ended:
                # A new writer would take over from the one that has left.
                raise closed()
            deadline = self.deadline(end)
            health = self._link.call("GET", "/healthz", deadline=deadline)
            # If the ids differ, the agent is in another namespace and cannot use our /proc entry.
            is_visible = self._link.peer_pid == health.get("pid")
            writer = Writer(self._link, self._join, is_visible, log.info)
            writer.ensure(deadline)
            self._writer = writer
        return writer

    def save(
        self,
        payload: Payload,
        body: dict[str, Any],
        end: Optional[float],
        when_busy: WhenBusy,
    ) -> Optional[tuple[Writer, Save]]:
        """Copies and posts. ``None``: skipped, because no segment was free."""
        with self._calls.one():
            staged = self.stage(payload, end, when_busy)
            return None if staged is None else self.post(staged, body)

    def stage(
        self, payload: Payload, end: Optional[float], when_busy: WhenBusy, room: int = 0
    ) -> Optional[Staged]:
        """Copies what the payload has so far, and tells the agent nothing.

        ``room``: bytes of the segment for what is added to the payload before it is posted. ``None``:
        no segment was free. The caller posts or discards the result.
        """
        with self._calls.one():
            return self._stage(payload, end, when_busy, room)

    def _stage(
        self, payload: Payload, end: Optional[float], when_busy: WhenBusy, room: int
    ) -> Optional[Staged]:
        writer = self.joined(end)
        staged = Staged(writer, payload, end)
        if payload.is_staged:
            try:
                segment = self._segment(staged, payload.size + room, end, when_busy)
                if segment is None:
                    return None
                staged.hold(segment)
            except BaseException:
                # A traceback that is kept, as in a notebook, would keep the segment.
                writer.pool.release(staged)
                raise
        return staged

    def post(self, staged: Staged, body: dict[str, Any]) -> tuple[Writer, Save]:
        """Begins the save of what was staged. Ends the use of ``staged``, also if it fails."""
        payload = staged.payload
        try:
            with self._calls.one():
                return self._post(staged, body)
        except (_SegmentGone, StorageFull) as error:
            if isinstance(error, NoStagingSpace) or not payload.is_staged:
                raise
            # The trainer still has the bytes, so they are copied again, to a place with room.
            again = self.stage(payload, staged.end, "wait")
            assert again is not None
            return self._post(again, body)

    def _post(self, staged: Staged, body: dict[str, Any]) -> tuple[Writer, Save]:
        writer, payload = staged.writer, staged.payload
        is_posted = False
        try:
            if self.joined(staged.end) is not writer:
                raise InvalidArgument("this save was begun by another process")
            writer.ensure(self.deadline(staged.end))
            if staged.segment is not None and not staged.segment.is_usable(writer.stage):
                raise _SegmentGone("the agent cannot open the segment", {"path": staged.segment.path})
            self._finish_copy(staged)
            segment = staged.segment
            body = {"saveId": secrets.token_hex(16), **body, "files": payload.sources(segment)}
            if staged.end is not None:
                body["timeoutMs"] = max(1, int((staged.end - time.monotonic()) * 1000))
            save = Save(body, segment)
            is_posted = True
            with save.told_by_this_thread():
                if segment is not None:
                    writer.pool.hand_over(segment, save)
                writer.post(save, self.deadline(staged.end))
        except BaseException as error:
            # An agent that did not answer may have begun the save, and may read the segment later.
            # The agent that answers "stopping" may be the successor of such an agent.
            was_refused = isinstance(error, HoldfastError) and not isinstance(error, Unavailable)
            # The directory is full: a kept segment would take the room that records need.
            is_kept = not isinstance(error, StorageFull) and (was_refused or not is_posted)
            segment = staged.discard(reusable=is_kept)
            if segment is not None and isinstance(error, NotFound) and not segment.is_there():
                raise _SegmentGone(error.message, error.details) from None
            raise
        return writer, save

    def _finish_copy(self, staged: Staged) -> None:
        """Copies what was added since ``stage``, into a larger segment if it does not fit."""
        payload, segment = staged.payload, staged.segment
        if not payload.is_staged:
            return
        if segment is not None and payload.size <= segment.size:
            payload.copy_into(segment)
            return
        staged.discard()
        segment = self._segment(staged, payload.size, staged.end, "wait")
        assert segment is not None
        staged.hold(segment)

    def seal(
        self, writer: Writer, save: Save, payload: Payload, extras: Mapping[str, Any]
    ) -> None:
        """Adds files to an unsealed save and seals it."""
        with self._calls.one():
            self._seal(writer, save, payload, extras)

    def _seal(
        self, writer: Writer, save: Save, payload: Payload, extras: Mapping[str, Any]
    ) -> None:
        if save.state != "open":
            raise Conflict(f"the save of version {save.version} was sealed before: it is {save.state}")
        segment: Optional[Segment] = None
        if payload.is_staged:
            staged = Staged(writer, payload, self.deadline())
            try:
                segment = self._segment(staged, payload.size, staged.end, "wait")
                assert segment is not None
                payload.copy_into(segment)
                # It is given back with the save.
                save.segments.append(segment)
                writer.pool.hand_over(segment, save)
            except BaseException:
                writer.pool.release(staged)
                raise
        body = {"files": payload.sources(segment), **extras}
        try:
            writer.seal(save, body, self.deadline())
        except HoldfastError as error:
            # A refused seal may be repeated, and then needs a segment again.
            if segment is not None and not isinstance(error, Unavailable):
                save.segments.remove(segment)
                writer.pool.give_back(segment)
            raise

    def close(self) -> Optional[HoldfastError]:
        """Leaves. Returns a failure that no call has raised.

        Waits a while for saves that other threads are beginning: what they return is staged.
        """
        self.writer()  # a child drops that of its parent
        self._calls.end(time.monotonic() + min(self.timeout, _CLOSE_SECONDS))
        writer, self._writer = self._writer, None
        if writer is None:
            return None
        deadline = time.monotonic() + min(self.timeout, _CLOSE_SECONDS)
        with contextlib.suppress(HoldfastError):
            if writer.is_connected():
                writer.refresh(deadline)
        failure = writer.next_failure()
        writer.leave(deadline)
        return failure

    def forget(self) -> None:
        """In the child of a fork: drops what belongs to the parent."""
        self._pid = os.getpid()
        # Its lock may be held by a thread that the child does not have.
        self._calls = _Calls()
        writer, self._writer = self._writer, None
        self._link.forget()
        if writer is not None:
            writer.forget()

    def _segment(
        self, staged: Staged, size: int, end: Optional[float], when_busy: WhenBusy
    ) -> Optional[Segment]:
        writer = staged.writer
        while True:
            segment = writer.pool.take(writer.stage, size, staged)
            if segment is None:
                writer.refresh(self.deadline(end))
                segment = writer.pool.take(writer.stage, size, staged)
            if segment is not None or when_busy == "skip":
                return segment
            if self._calls.is_ended:
                raise closed()
            if writer.pool.is_all_of_thread(threading.get_ident()):
                raise Unsupported(
                    "this save interrupts two others of its thread, which use both segments of the run; "
                    "a signal handler leaves a note for the training loop"
                )
            if when_busy == "raise":
                raise Unavailable("two earlier saves still use both segments; wait for one")
            left = _NEWS_SECONDS if end is None else end - time.monotonic()
            if left <= 0:
                raise TimedOut("two earlier saves still used both segments when the time was over")
            writer.wait_for_news(min(left, _NEWS_SECONDS))


def extras(
    metrics: Optional[Mapping[str, float]], metadata: Optional[Mapping[str, str]]
) -> dict[str, Any]:
    """The optional fields of a request, checked."""
    given = {"metrics": check_metrics(metrics), "metadata": check_metadata(metadata)}
    return {name: value for name, value in given.items() if value is not None}
