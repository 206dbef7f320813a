"""Runs that plugins open by their names: each once in a process, because a second writer of a process
would fence the first."""

from __future__ import annotations

import atexit
import os
import threading
from typing import Callable, NamedTuple, Optional

from ._connect import connect
from ._link import log
from .errors import AgentUnavailable, HoldfastError, InvalidArgument, Unavailable
from .run import Run


class Options(NamedTuple):
    """How to reach the agent, as for ``holdfast.connect``."""

    agent: Optional[str] = None
    start: Optional[bool] = None
    attempt: Optional[str] = None
    timeout: float = 30.0


class _Place:
    """Of one run, which is opened once. Other runs do not wait for that."""

    def __init__(self) -> None:
        self.run: Optional[Run] = None
        # A signal handler may call while its thread opens the run.
        self._lock = threading.RLock()
        self._is_opening = False

    def opened(self, timeout: float, make: Callable[[], Run]) -> Run:
        if self.run is not None:
            return self.run
        if not self._lock.acquire(timeout=timeout):
            raise AgentUnavailable(
                f"another thread of this process has been opening the run for {timeout:g} s"
            )
        try:
            return self.run or self._open(make)
        finally:
            self._lock.release()

    def _open(self, make: Callable[[], Run]) -> Run:
        if self._is_opening:
            raise Unavailable("a signal handler cannot use a run that its thread is opening")
        self._is_opening = True
        try:
            self.run = make()
            return self.run
        finally:
            self._is_opening = False


class RunPool:
    """Safe for threads. The child of a fork opens its own runs."""

    def __init__(self) -> None:
        self._readers: dict[tuple[str, Options], _Place] = {}
        #: By run and agent.
        self._writers: dict[tuple[str, Optional[str]], _Place] = {}
        os.register_at_fork(after_in_child=self._forget)

    def reader(self, uri: str, options: Options) -> Run:
        """A run that disturbs no writer."""
        options = options._replace(attempt=None)
        place = self._readers.setdefault((uri, options), _Place())
        return place.opened(options.timeout, lambda: _open(uri, None, options))

    def writer(self, uri: str, options: Options) -> Run:
        """The only writer of its attempt. Others of this process share it.

        ``InvalidArgument``: this process writes the run as another attempt.
        """
        key = uri, options.agent or os.environ.get("HOLDFAST_AGENT")
        place = self._writers.setdefault(key, _Place())
        run = place.opened(options.timeout, lambda: _open(uri, (0, 1), options))
        if options.attempt not in (None, run.attempt):
            raise InvalidArgument(
                f"attempt: this process writes {uri} as attempt {run.attempt!r}, got {options.attempt!r}"
            )
        return run

    def close(self) -> None:
        """Leaves all runs. The next call opens them again."""
        places = [*self._readers.values(), *self._writers.values()]
        self._forget()
        for run in [place.run for place in places if place.run is not None]:
            try:
                run.close()
            except HoldfastError as error:
                # At the end of the process there is no caller to raise it to.
                log.error("%s: a save failed, and no later call has raised it: %s", run.uri, error)

    def _forget(self) -> None:
        self._readers, self._writers = {}, {}


def _open(uri: str, writer: Optional[tuple[int, int]], options: Options) -> Run:
    return connect(
        uri,
        writer=writer,
        attempt=options.attempt,
        agent=options.agent,
        start=options.start,
        timeout=options.timeout,
    )


runs = RunPool()
atexit.register(runs.close)
