"""What the tests share."""

from __future__ import annotations

import os
import tempfile
import time
import unittest
import warnings
from importlib import import_module
from typing import Any, Callable, Optional

import holdfast

from .fake_agent import FakeAgent

#: Long enough for a busy machine. No test waits as long.
TIMEOUT = 20.0
URI = "file:///a/run"
#: Directory from which ``holdfast`` and ``tests`` can be imported.
PYTHON_ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))

_VARIABLES = [
    "HOLDFAST_AGENT",
    "HOLDFAST_AGENT_CONFIG",
    "HOLDFAST_AGENT_START",
    "HOLDFAST_AGENT_TOKEN_FILE",
    "HOLDFAST_AGENT_UID",
    "HOLDFAST_ATTEMPT",
    "HOLDFAST_COMMAND",
    "XDG_RUNTIME_DIR",
    "RANK",
    "WORLD_SIZE",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_RESTART_COUNT",
    "TORCHELASTIC_RUN_ID",
]


def optional(name: str) -> Any:
    """A module, or ``None`` if it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        return None


class TestCase(unittest.TestCase):
    """Has a directory of its own, and an environment without Holdfast's variables."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory(prefix="holdfast-test-")
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        saved = dict(os.environ)
        self.addCleanup(_restore_environment, saved)
        for name in _VARIABLES:
            os.environ.pop(name, None)

    def path(self, *names: str) -> str:
        return os.path.join(self.directory, *names)

    def ignore_warnings(self, category: type[Warning] = Warning) -> None:
        """Until the test ends. The suite makes each warning an error."""
        catching = warnings.catch_warnings()
        catching.__enter__()
        self.addCleanup(catching.__exit__, None, None, None)
        warnings.simplefilter("ignore", category)

    def until(self, condition: Callable[[], bool]) -> None:
        """Waits for what another thread or process does."""
        end = time.monotonic() + TIMEOUT
        while not condition():
            self.assertLess(time.monotonic(), end, "it did not happen in time")
            time.sleep(0.005)


def _restore_environment(saved: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(saved)


class FakeAgentCase(TestCase):
    """A test with a fake agent."""

    def setUp(self) -> None:
        super().setUp()
        self.agent = FakeAgent()
        self.addCleanup(self.agent.close)

    def connect(self, **options: Any) -> holdfast.Run:
        options = {"agent": self.agent.socket, "timeout": TIMEOUT, **options}
        run = holdfast.connect(URI, **options)
        self.addCleanup(_close, run)
        return run

    def requests(self, method: str, path: str) -> list[Any]:
        """Bodies and queries of the requests so far whose path ends with ``path``."""
        return [
            given
            for made, where, given in self.agent.requests
            if made == method and where.endswith(path)
        ]


def _close(run: holdfast.Run) -> None:
    try:
        run.close()
    except holdfast.HoldfastError:
        pass


def python_child(run: Callable[[], Optional[int]]) -> int:
    """Runs a function in a fork and returns its exit status. 99: it raised."""
    pid = os.fork()
    if pid == 0:
        status = 99
        try:
            status = run() or 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
