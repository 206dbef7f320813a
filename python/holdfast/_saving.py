"""Saving: the writer of this process, its segments, and the order of the steps of a save."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from typing import TYPE_CHECKING, Any, Mapping, Optional

from ._link import Link, log
from ._payload import Payload, check_metadata, check_metrics
from ._saves import Save
from ._segments import Segment
from ._writer import Writer
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
)

if TYPE_CHECKING:
    from .run import WhenBusy

_NEWS_SECONDS = 1.0
_CLOSE_SECONDS = 5.0


class _SegmentGone(NotFound):
    """The agent has removed the segment: it took this process for ended."""


class Saver:
    """What ``Run`` and ``Handle`` share. ``join`` is ``None`` for a run that only reads."""

    def __init__(self, link: Link, join: Optional[Mapping[str, Any]], timeout: float) -> None:
        self.timeout = timeout
        self._link = link
        self._join = join
        self._writer: Optional[Writer] = None
        self._pid = os.getpid()

    def deadline(self) -> float:
        """When a call that begins now has to have its answer."""
        return time.monotonic() + self.timeout

    def writer(self) -> Optional[Writer]:
        """The writer of this process. A child of a fork has none until it saves."""
        if self._pid != os.getpid():
            self.forget()
        return self._writer

    def raise_failure(self, deadline: float) -> None:
        """At the beginning of each call: raises what an earlier save has left to raise."""
        writer = self.writer()
        if writer is not None:
            writer.refresh(deadline)
            failure = writer.next_failure()
            if failure is not None:
                raise failure

    def joined(self) -> Writer:
        """The writer, which joins the run first if it has not joined yet."""
        if self._join is None:
            raise InvalidArgument("the run was opened to read: connect(…, writer=(index, count))")
        writer = self.writer()
        if writer is None:
            deadline = self.deadline()
            health = self._link.call("GET", "/healthz", deadline=deadline)
            # Process ids that differ are of different namespaces, where /proc shows others.
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
        try:
            return self._save(payload, body, end, when_busy)
        except (_SegmentGone, StorageFull) as error:
            if isinstance(error, NoStagingSpace) or not payload.is_staged:
                raise
            # The bytes are here, so they are copied once more, to a place that has room.
            return self._save(payload, body, end, when_busy)

    def _save(
        self,
        payload: Payload,
        body: dict[str, Any],
        end: Optional[float],
        when_busy: WhenBusy,
    ) -> Optional[tuple[Writer, Save]]:
        writer = self.joined()
        segment: Optional[Segment] = None
        if payload.is_staged:
            segment = self._segment(writer, payload.size, end, when_busy)
            if segment is None:
                return None
        is_posted = False
        try:
            if segment is not None:
                payload.copy_into(segment)
            body = {"saveId": secrets.token_hex(16), **body, "files": payload.sources(segment)}
            if end is not None:
                body["timeoutMs"] = max(1, int((end - time.monotonic()) * 1000))
            save = Save(body, segment)
            is_posted = True
            writer.post(save, self.deadline())
        except BaseException as error:
            # An agent that did not answer may have begun, and may read the segment later. One that
            # stops may have taken the place of one that did not answer.
            was_refused = isinstance(error, HoldfastError) and not isinstance(error, Unavailable)
            if segment is not None:
                # In a full directory, each segment keeps the room that records need.
                is_kept = not isinstance(error, StorageFull) and (was_refused or not is_posted)
                writer.pool.give_back(segment, reusable=is_kept)
                if isinstance(error, NotFound) and not segment.is_there():
                    raise _SegmentGone(error.message, error.details) from None
            raise
        return writer, save

    def seal(
        self, writer: Writer, save: Save, payload: Payload, extras: Mapping[str, Any]
    ) -> None:
        """Adds files to an unsealed save and seals it."""
        if save.state != "open":
            raise Conflict(f"the save of version {save.version} was sealed before: it is {save.state}")
        segment: Optional[Segment] = None
        if payload.is_staged:
            segment = self._segment(writer, payload.size, self.deadline(), "wait")
            assert segment is not None
            payload.copy_into(segment)
            # It is given back with the save.
            save.segments.append(segment)
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
        """Leaves. Returns a failure that no call has raised."""
        writer = self.writer()
        if writer is None:
            return None
        self._writer = None
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
        writer, self._writer = self._writer, None
        self._link.forget()
        if writer is not None:
            writer.forget()

    def _segment(
        self, writer: Writer, size: int, end: Optional[float], when_busy: WhenBusy
    ) -> Optional[Segment]:
        while True:
            segment = writer.pool.take(writer.stage, size)
            if segment is None:
                writer.refresh(self.deadline())
                segment = writer.pool.take(writer.stage, size)
            if segment is not None or when_busy == "skip":
                return segment
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
