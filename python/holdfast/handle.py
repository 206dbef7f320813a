"""A save in progress."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Generator, Literal, Mapping, Optional

from ._arguments import FilePath, check_choice, check_timeout
from ._awaited import Awaited
from ._link import GRACE_SECONDS
from ._payload import DEFAULT_ARRAYS_NAME, Payload
from ._saving import Saver, extras
from ._saves import COMMITTED, Save
from ._writer import Writer
from .errors import AgentUnavailable, InvalidArgument, TimedOut

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_POLL_SECONDS = 20.0

Durability = Literal["none", "staged", "committed"]
Goal = Literal["staged", "committed"]

_STAGED = ("staged", "committed")


class Handle:
    """A save that ``Run.save`` began. Safe for threads.

    There are two degrees of durability. ``staged``: the save survives the trainer, because the
    agent continues it. ``committed``: the checkpoint is in the store and survives the machine.
    """

    def __init__(self, saver: Saver, writer: Writer, save: Save) -> None:
        self._saver = saver
        self._writer = writer
        self._save = save
        self._awaited: dict[Goal, Awaited] = {}

    @property
    def version(self) -> int:
        return self._save.version

    @property
    def save_id(self) -> str:
        """The id that the agent's log shows, 32 hex digits."""
        return self._save.id

    @property
    def state(self) -> str:
        """``open``, ``accepted``, ``uploading``, ``delivered`` or ``committed``.

        A save that ended without a commit is ``failed``, ``fenced``, ``incomplete``,
        ``outcomeUnknown`` or ``cancelled``. Asks the agent, except for a save that has ended.
        ``AgentUnavailable``: it does not answer.
        """
        return self._asked().state

    @property
    def durability(self) -> Durability:
        """``none``, ``staged`` or ``committed``. Asks the agent, as ``state`` does."""
        return _durability(self._asked())

    @property
    def fields(self) -> Mapping[str, Any]:
        """The agent's last description: bytes done, missing writers, the id of the checkpoint."""
        return dict(self._save.fields)

    def done(self) -> bool:
        """Whether the save has ended, committed or not."""
        return self._asked().is_final

    def error(self) -> Optional[Exception]:
        """Why the save ended without a commit. ``None``: it was committed, or is in progress.

        No later call of the run raises this failure.
        """
        save = self._asked()
        return self._writer.tell(save) if save.is_final else None

    def wait(self, until: Goal = "committed", timeout: Optional[float] = None) -> Handle:
        """Waits until the save is ``staged`` or ``committed``.

        ``timeout`` in seconds; ``None``: until the save has ended. ``TimedOut``: the save continues
        and has not got that far. If the save ended without a commit: the error of its failure.
        ``AgentUnavailable``: the agent went away and did not return.
        """
        self._wait(until, timeout)
        return self

    def cancel(self) -> None:
        """Stops the save unless its commit is decided. ``state`` says which."""
        self._own_writer().cancel(self._save, self._saver.deadline())

    def _own_failure(self) -> None:
        """For plugins: only this handle raises the failure of the save, and no call of the run."""
        self._writer.tell(self._save)

    def seal(
        self,
        *,
        files: Optional[Mapping[str, FilePath]] = None,
        buffers: Optional[Mapping[str, ReadableBuffer]] = None,
        metrics: Optional[Mapping[str, float]] = None,
        metadata: Optional[Mapping[str, str]] = None,
    ) -> Handle:
        """Adds files to a save that began with ``sealed=False``, and lets its upload begin.

        ``Conflict``: it was sealed before. ``TimedOut``: two earlier saves still use both segments.
        """
        payload = Payload(files, buffers, None, DEFAULT_ARRAYS_NAME)
        self._saver.seal(self._own_writer(), self._save, payload, extras(metrics, metadata))
        return self

    async def staged(self, timeout: Optional[float] = None) -> Handle:
        """As ``wait('staged')``, for ``asyncio``."""
        return await self._wait_aside("staged", timeout)

    async def committed(self, timeout: Optional[float] = None) -> Handle:
        """As ``wait('committed')``, for ``asyncio``."""
        return await self._wait_aside("committed", timeout)

    def __await__(self) -> Generator[Any, None, Handle]:
        return self.committed().__await__()

    def __repr__(self) -> str:
        return f"<holdfast.Handle version={self.version} state={self._save.state!r}>"

    def _asked(self) -> Save:
        if not self._save.is_final:
            self._own_writer().ask(self._save, None, 0, self._saver.deadline())
        return self._save

    def _own_writer(self) -> Writer:
        """``InvalidArgument``: the run was closed, or this process is a child of the trainer."""
        if self._saver.writer() is not self._writer:
            raise InvalidArgument(
                f"the save of version {self.version} can be followed only by the process that began "
                "it, and only until its run is closed"
            )
        return self._writer

    def _is_reached(self, until: str) -> bool:
        """Raises the failure of a save that ended without a commit."""
        save = self._save
        if save.is_final and save.state != COMMITTED:
            error = self._writer.tell(save)
            assert error is not None
            raise error
        return save.state == COMMITTED or (until == "staged" and _durability(save) in _STAGED)

    def _wait(
        self, until: str, timeout: Optional[float], is_left: Callable[[], bool] = lambda: False
    ) -> bool:
        """``False``: it was left. Otherwise the goal is reached."""
        check_choice("until", until, ("staged", "committed"))
        timeout = check_timeout(timeout)
        end = None if timeout is None else time.monotonic() + timeout
        save = self._save
        while not self._is_reached(until):
            if is_left():
                return False
            left = _POLL_SECONDS if end is None else max(0.0, end - time.monotonic())
            writer = self._own_writer()
            wait_seconds = min(left, _POLL_SECONDS, writer.wait_seconds_max)
            deadline = time.monotonic() + wait_seconds + self._saver.timeout
            if end is not None:
                deadline = min(deadline, end + GRACE_SECONDS)
            try:
                writer.ask(save, until if left > 0 else None, int(wait_seconds * 1000), deadline)
            except AgentUnavailable:
                if end is None or time.monotonic() < end:
                    raise
                raise _too_late(save, until, timeout) from None
            if end is not None and time.monotonic() >= end and not _has_reached(save, until):
                raise _too_late(save, until, timeout)
        return True

    async def _wait_aside(self, until: Goal, timeout: Optional[float]) -> Handle:
        import asyncio

        timeout = check_timeout(timeout)
        if self._is_reached(until):
            return self
        self._own_writer()
        # A task that does not wait only asks. The others share a thread, however many there are.
        if timeout == 0:
            awaited = Awaited(partial(self._wait, until, 0))
        else:
            awaited = self._awaited.setdefault(until, Awaited(partial(self._wait, until, None)))
        future = awaited.join()
        try:
            await asyncio.wait([future], timeout=timeout or None)
            if not future.done():
                raise _too_late(self._save, until, timeout)
            future.result()
        finally:
            future.cancel()
        return self


def _durability(save: Save) -> Durability:
    """``committed`` only if the state says so as well."""
    if save.state == COMMITTED:
        return "committed"
    return "staged" if save.fields.get("durability") == "staged" else "none"


def _has_reached(save: Save, until: str) -> bool:
    return save.is_final or (until == "staged" and _durability(save) in _STAGED)


def _too_late(save: Save, until: str, timeout: Optional[float]) -> TimedOut:
    return TimedOut(
        f"version {save.version} was not {until} within {timeout:g} s; it continues ({save.state})",
        {"version": save.version, "state": save.state},
    )
