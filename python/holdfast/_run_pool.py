"""Runs that plugins open by their names: each once in a process, because a second writer of a process
would fence the first."""

from __future__ import annotations

import atexit
import os
import threading
from typing import NamedTuple, Optional

from ._connect import connect
from ._link import log
from .errors import HoldfastError, InvalidArgument
from .run import Run


class Options(NamedTuple):
    """How to reach the agent, as for ``holdfast.connect``."""

    agent: Optional[str] = None
    start: Optional[bool] = None
    attempt: Optional[str] = None
    timeout: float = 30.0


class RunPool:
    """Safe for threads. The child of a fork opens its own runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readers: dict[tuple[str, Options], Run] = {}
        #: By run and agent.
        self._writers: dict[tuple[str, Optional[str]], Run] = {}
        os.register_at_fork(after_in_child=self._forget)

    def reader(self, uri: str, options: Options) -> Run:
        """A run that disturbs no writer."""
        key = uri, options._replace(attempt=None)
        with self._lock:
            run = self._readers.get(key)
            if run is None:
                run = self._readers[key] = _open(uri, None, options._replace(attempt=None))
            return run

    def writer(self, uri: str, options: Options) -> Run:
        """The only writer of its attempt. Others of this process share it.

        ``InvalidArgument``: this process writes the run as another attempt.
        """
        key = uri, options.agent or os.environ.get("HOLDFAST_AGENT")
        with self._lock:
            run = self._writers.get(key)
            if run is None:
                run = self._writers[key] = _open(uri, (0, 1), options)
            if options.attempt not in (None, run.attempt):
                raise InvalidArgument(
                    f"attempt: this process writes {uri} as attempt {run.attempt!r}, got {options.attempt!r}"
                )
            return run

    def close(self) -> None:
        """Leaves all runs. The next call opens them again."""
        with self._lock:
            runs = [*self._readers.values(), *self._writers.values()]
            self._readers, self._writers = {}, {}
        for run in runs:
            try:
                run.close()
            except HoldfastError as error:
                # At the end of the process there is no caller to raise it to.
                log.error("%s: a save failed, and no later call has raised it: %s", run.uri, error)

    def _forget(self) -> None:
        self._lock = threading.Lock()
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
