"""A real agent, on runs in a local directory."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import unittest
from typing import Any, Optional

import holdfast

from .support import TIMEOUT, TestCase

_ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))


def agent_command() -> list[str]:
    """The words before ``agent``. ``SkipTest``: there is no Node."""
    given = os.environ.get("HOLDFAST_TEST_COMMAND")
    if given:
        words: list[str] = json.loads(given)
        return words
    node = shutil.which("node")
    if node is None:
        raise unittest.SkipTest("node is not on the PATH")
    return [node, "--conditions=holdfast-source", f"{_ROOT}/packages/cli/src/main.ts"]


def save_again(uri: str, version: int, directory: str, **files: bytes) -> None:
    """Rolls the run back to version 1, and saves another checkpoint of this number."""
    os.makedirs(directory)
    for name, content in files.items():
        with open(os.path.join(directory, name), "wb") as file:
            file.write(content)
    for words in (
        ["rollback", uri, "--to", "1", "--reason", "test"],
        ["save", directory, uri, "--version", str(version)],
    ):
        subprocess.run(
            [*agent_command(), *words], check=True, timeout=60, stdout=subprocess.DEVNULL
        )


class RealAgent:
    """Its directory holds its socket, its stage and the runs."""

    def __init__(self, config: Optional[dict[str, Any]] = None) -> None:
        self.command = agent_command()
        self.directory = tempfile.mkdtemp(prefix="hf-")
        self.socket = os.path.join(self.directory, "agent.sock")
        self._stage = os.path.join(self.directory, "stage")
        self._config = config
        self._process: Optional[subprocess.Popen[bytes]] = None
        self.start()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        words = [*self.command, "agent", "--socket", self.socket, "--stage", self._stage]
        if self._config is not None:
            path = os.path.join(self.directory, "config.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(self._config, file)
            words += ["--config", path]
        with open(os.path.join(self.directory, "log"), "ab") as log:
            process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log)
        self._process = process
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise AssertionError(f"the agent ended: {self.log()}")

    def move_stage(self) -> None:
        """The next agent has another staging directory."""
        self._stage += "-2"

    def unlimit(self) -> None:
        """The next agent has no configuration."""
        self._config = None

    def log(self) -> str:
        with open(os.path.join(self.directory, "log"), encoding="utf-8") as file:
            return file.read()

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        """As a crash."""
        self._end(signal.SIGKILL)

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def wait_for_end(self) -> None:
        """Another process has sent a signal to it."""
        process, self._process = self._process, None
        assert process is not None and process.stdout is not None
        process.wait(TIMEOUT)
        process.stdout.close()

    def stop(self) -> None:
        """Saves in progress may end first."""
        self._end(signal.SIGTERM)

    def staged(self) -> list[str]:
        """Paths of all that is staged."""
        return [
            os.path.join(place, name)
            for place, _, names in os.walk(self._stage)
            for name in names
            if name != ".lock"
        ]

    def close(self) -> None:
        self._end(signal.SIGKILL)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _end(self, number: int) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        if number == signal.SIGKILL:
            process.send_signal(signal.SIGCONT)
        try:
            process.wait(TIMEOUT)
        finally:
            process.kill()
            if process.stdout is not None:
                process.stdout.close()


class RealAgentCase(TestCase):
    """Tests that share an agent. Each has a run of its own."""

    agent: RealAgent
    _count = 0

    @classmethod
    def setUpClass(cls) -> None:
        cls.agent = RealAgent()
        cls.addClassCleanup(cls.agent.close)

    def setUp(self) -> None:
        super().setUp()
        RealAgentCase._count += 1
        self.uri = f"file://{self.agent.directory}/run-{RealAgentCase._count}"

    def started(self, config: dict[str, Any]) -> RealAgent:
        """Another agent, with a configuration."""
        agent = RealAgent(config)
        self.addCleanup(agent.close)
        return agent

    def connect(self, **options: Any) -> holdfast.Run:
        uri = options.pop("uri", self.uri)
        run = holdfast.connect(uri, **{"agent": self.agent.socket, "timeout": TIMEOUT, **options})
        self.addCleanup(_close, run)
        return run


def _close(run: holdfast.Run) -> None:
    try:
        run.close()
    except holdfast.HoldfastError:
        # The test has seen it, or was about something else.
        pass
