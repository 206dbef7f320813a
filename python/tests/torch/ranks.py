"""Ranks of a job as processes, which share one import of torch. The test process needs no torch.

A rank runs functions of the modules beside this by their names. Its answers are data.
"""

from __future__ import annotations

import faulthandler
import importlib.util
import logging
import multiprocessing
import multiprocessing.forkserver
import os
import signal
import subprocess
import time
import traceback
import unittest
import warnings
from importlib import import_module
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from typing import Any, Iterable, Optional

from ..support import PYTHON_ROOT, TestCase

#: Long enough for a busy machine. No test waits as long.
TIMEOUT = 60.0
#: Where ranks look for functions.
_MODULES = ["programs", "kinds", "mistakes", "failures"]
_PRELOADED = ["holdfast.torch", *(f"tests.torch.{name}" for name in _MODULES)]

# An error of DCP repeats the traces of all ranks.
_TRACE_CHARACTERS = 1500

Answer = Any


def _context() -> multiprocessing.context.ForkServerContext:
    os.environ["PYTHONPATH"] = PYTHON_ROOT
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    return context


class RankFailed(AssertionError):
    """A function of a rank raised, and the test did not expect it."""


class Rank:
    """One process."""

    def __init__(self, process: ForkServerProcess, channel: Connection) -> None:
        self.process = process
        self._channel = channel

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def begin(self, function: str, **arguments: Any) -> None:
        self._channel.send((function, arguments))

    def end(self, timeout: float = TIMEOUT) -> Answer:
        """The answer of the function. ``RankFailed``: it raised. ``EOFError``: the rank ended."""
        if not self._channel.poll(timeout):
            # It prints where each of its threads is.
            self.signal(signal.SIGUSR1)
            time.sleep(0.5)
            raise AssertionError(f"rank process {self.pid} did not answer within {timeout} s")
        kind, value = self._channel.recv()
        if kind == "raised":
            raise RankFailed(value)
        return value

    def has_answered(self) -> bool:
        return self._channel.poll(0)

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        if self.process.is_alive():
            self.signal(signal.SIGKILL)
            self.signal(signal.SIGCONT)
        self.process.join(TIMEOUT)
        self._channel.close()


def require_torch() -> None:
    """``SkipTest``: it is not installed."""
    if importlib.util.find_spec("torch") is None:
        raise unittest.SkipTest("torch is not installed")


class World:
    """The ranks of one incarnation of a job."""

    def __init__(self, size: int, environment: dict[str, str], group_timeout: float = TIMEOUT) -> None:
        context = _context()
        self.ranks: list[Rank] = []
        for rank in range(size):
            here, there = context.Pipe()
            process = context.Process(target=serve, args=(there, environment), daemon=True)
            process.start()
            there.close()
            self.ranks.append(Rank(process, here))
        self.ranks[0].begin("open_store", size=size)
        port = self.ranks[0].end()
        for rank, one in enumerate(self.ranks):
            one.begin("join", rank=rank, size=size, port=port, timeout=group_timeout)
        for one in self.ranks:
            one.end()

    def call(self, function: str, only: Optional[Iterable[int]] = None, **arguments: Any) -> list[Answer]:
        """Runs a function on ranks at the same time, and returns their answers."""
        chosen = self.ranks if only is None else [self.ranks[rank] for rank in only]
        for one in chosen:
            one.begin(function, **arguments)
        return ended(chosen)

    def close(self) -> None:
        for one in self.ranks:
            one.kill()


def ended(ranks: list[Rank], timeout: float = TIMEOUT) -> list[Answer]:
    """Answers of all, also if one of them raised."""
    answers: list[Answer] = []
    failures: list[str] = []
    for place, one in enumerate(ranks):
        try:
            answers.append(one.end(timeout))
        except (RankFailed, EOFError) as error:
            failures.append(f"rank {place}: {error}")
    if failures:
        raise RankFailed("\n".join(failures))
    return answers


class WorldCase(TestCase):
    """Tests that share ranks. Each has a run of its own."""

    SIZE = 4
    world: World
    agent: Any
    _count = 0

    @classmethod
    def setUpClass(cls) -> None:
        from ..real_agent import RealAgent

        require_torch()
        cls.agent = RealAgent()
        cls.addClassCleanup(cls.agent.close)
        cls.world = cls.started()
        cls.addClassCleanup(cls.world.close)

    @classmethod
    def started(cls, size: Optional[int] = None, **options: Any) -> World:
        """More ranks, with the same agent."""
        environment = {"HOLDFAST_AGENT": cls.agent.socket, "GLOO_SOCKET_IFNAME": "lo"}
        return World(cls.SIZE if size is None else size, environment, **options)

    def setUp(self) -> None:
        super().setUp()
        WorldCase._count += 1
        self.uri = f"file://{self.agent.directory}/run-{WorldCase._count}"

    def own_world(self, size: int, **options: Any) -> World:
        """Ranks for one test, which may kill them."""
        world = self.started(size, **options)
        self.addCleanup(world.close)
        return world

    def export(self, uri: str, directory: str, *options: str) -> None:
        """By the command."""
        words = [*self.agent.command, "export", uri, directory, *options]
        done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual(done.returncode, 0, done.stderr)

    def run_of(self) -> Any:
        """The run, as another program sees it."""
        import holdfast

        run = holdfast.connect(self.uri, writer=None, agent=self.agent.socket)
        self.addCleanup(run.close)
        return run


def serve(channel: Connection, environment: dict[str, str]) -> None:
    """The loop of a rank."""
    faulthandler.register(signal.SIGUSR1)
    os.environ.update(environment)
    for name in ("RANK", "WORLD_SIZE", "HOLDFAST_ATTEMPT", "MASTER_ADDR", "MASTER_PORT"):
        os.environ.pop(name, None)
    # DCP logs the trace of each record that it does not find.
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    functions: dict[str, Any] = {}
    for name in _MODULES:
        functions.update(vars(import_module(f".{name}", __package__)))
    while True:
        try:
            function, arguments = channel.recv()
        except EOFError:
            return
        answer: tuple[str, Any]
        try:
            answer = "returned", functions[function](**arguments)
        except BaseException:
            answer = "raised", traceback.format_exc()[-_TRACE_CHARACTERS:]
        channel.send(answer)


def wait_until(condition: Any, what: str, timeout: float = TIMEOUT, pause: float = 0.01) -> None:
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not happen within {timeout} s")
        time.sleep(pause)
