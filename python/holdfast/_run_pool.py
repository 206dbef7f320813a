"""Runs that plugins open by their names: each once in a process, because a second writer of a process
would fence the first."""

from __future__ import annotations

import atexit
import os
import threading
from typing import NamedTuple, Optional

from ._connect import connect
from ._link import log
from .errors import HoldfastError
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
        self._runs: dict[tuple[str, bool, Options], Run] = {}
        os.register_at_fork(after_in_child=self._forget)

    def reader(self, uri: str, options: Options) -> Run:
        """A run that disturbs no writer."""
        return self._open(uri, False, options._replace(attempt=None))

    def writer(self, uri: str, options: Options) -> Run:
        """The only writer of its attempt."""
        return self._open(uri, True, options)

    def close(self) -> None:
        """Leaves all runs. The next call opens them again."""
        with self._lock:
            runs, self._runs = list(self._runs.values()), {}
        for run in runs:
            try:
                run.close()
            except HoldfastError as error:
                # At the end of the process there is no caller to raise it to.
                log.error("%s: a save failed, and no later call has raised it: %s", run.uri, error)

    def _open(self, uri: str, writes: bool, options: Options) -> Run:
        key = uri, writes, options
        with self._lock:
            run = self._runs.get(key)
            if run is None:
                run = connect(
                    uri,
                    writer=(0, 1) if writes else None,
                    attempt=options.attempt,
                    agent=options.agent,
                    start=options.start,
                    timeout=options.timeout,
                )
                self._runs[key] = run
            return run

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._runs = {}


runs = RunPool()
atexit.register(runs.close)
