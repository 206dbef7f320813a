"""The client starts an agent: one of several starters, and all wait for it."""

from __future__ import annotations

import fcntl
import os
import shlex
import signal
import socket
import threading
import time
from unittest import mock

import holdfast
from holdfast._place import AgentPlace, find_place, open_socket
from holdfast._start import agent_command, default_stage, start_agent

from .real_agent import agent_command as real_command
from .support import TIMEOUT, TestCase

# Stands for the command: notes how it was called, and serves nothing.
_NOTE = 'echo "$@" >> "$0.calls"; '


class Starting(TestCase):
    def setUp(self) -> None:
        super().setUp()
        os.environ["XDG_RUNTIME_DIR"] = self.directory
        self.place = find_place(None)
        self.addCleanup(self.stop)

    def stop(self) -> None:
        """Ends the agent that a test has started."""
        try:
            connection, pid = open_socket(self.place, TIMEOUT)
        except (holdfast.HoldfastError, OSError):
            return
        connection.close()
        os.kill(pid, signal.SIGKILL)

    def use_real_agent(self) -> None:
        os.environ["HOLDFAST_COMMAND"] = " ".join(shlex.quote(word) for word in real_command())

    def script(self, text: str) -> str:
        path = self.path("command")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{text}\n")
        os.chmod(path, 0o755)
        os.environ["HOLDFAST_COMMAND"] = path
        return path

    def calls(self) -> list[str]:
        with open(self.path("command.calls"), encoding="utf-8") as file:
            return file.read().splitlines()

    def test_two_starters_get_one_agent_in_a_session_of_its_own(self) -> None:
        self.use_real_agent()
        pids: list[int] = []
        errors: list[BaseException] = []

        def start() -> None:
            try:
                with holdfast.connect(
                    f"file://{self.directory}/run",
                    writer=None,
                    start=True,
                    stage=self.path("stage"),
                    timeout=60,
                ) as run:
                    answer = run._link.call("GET", "/healthz", deadline=time.monotonic() + TIMEOUT)
                    pids.append(answer["pid"])
            except BaseException as error:
                errors.append(error)

        # Runs that only read connect at their first call, so both begin here.
        threads = [threading.Thread(target=start) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        self.assertEqual(errors, [])
        self.assertEqual(len(pids), 2)
        self.assertEqual(len(set(pids)), 1)
        self.assertEqual(os.getsid(pids[0]), pids[0])
        os.environ["HOLDFAST_AGENT_START"] = "1"
        with holdfast.connect(f"file://{self.directory}/run", stage=self.path("stage")) as run:
            run.save(1, buffers={"a": b"1"}).wait()
            os.kill(pids[0], signal.SIGKILL)
            run.save(2, buffers={"a": b"2"}).wait()
            self.assertEqual([one.version for one in run.versions()], [2, 1])
        with open(self.path("holdfast", "agent.log"), encoding="utf-8") as file:
            self.assertIn('"event":"ready"', file.read())

    def test_the_command_gets_socket_stage_configuration_and_idle_time(self) -> None:
        self.script(_NOTE + "echo it failed >&2; exit 3")
        os.environ["HOLDFAST_AGENT_CONFIG"] = self.path("config.json")
        with self.assertRaisesRegex(holdfast.AgentUnavailable, "has ended before .* it failed") as caught:
            start_agent(self.place, self.path("stage"), time.monotonic() + TIMEOUT)
        self.assertEqual(caught.exception.details["exitStatus"], 3)
        expected = (
            f"agent --socket {self.place.socket} --stage {self.path('stage')} "
            f"--config {self.path('config.json')} --idle-exit 10m"
        )
        self.assertEqual(self.calls(), [expected])

    def test_an_agent_that_ends_at_once_is_not_told_with_the_log_of_an_earlier_one(self) -> None:
        for text, told in (("echo it failed >&2; exit 3", "it failed"), ("exit 4", "it said nothing")):
            self.script(text)
            with self.assertRaisesRegex(holdfast.AgentUnavailable, f"before it was ready: {told}$"):
                start_agent(self.place, self.path("stage"), time.monotonic() + TIMEOUT)

    def test_an_agent_that_is_not_ready_in_time_is_told(self) -> None:
        self.script(_NOTE + "exec sleep 60")
        begin = time.monotonic()
        with self.assertRaisesRegex(holdfast.AgentUnavailable, "is not ready yet") as caught:
            holdfast.connect("file:///x", start=True, stage=self.path("stage"), timeout=0.2)
        self.assertLess(time.monotonic() - begin, TIMEOUT)
        os.kill(caught.exception.details["pid"], signal.SIGKILL)

    def test_a_starter_waits_for_another_until_its_time_is_over(self) -> None:
        self.script("exit 1")
        os.mkdir(self.place.directory, 0o700)
        fd = os.open(self.place.directory, os.O_RDONLY)
        self.addCleanup(os.close, fd)
        fcntl.flock(fd, fcntl.LOCK_EX)
        with self.assertRaisesRegex(holdfast.AgentUnavailable, "another process has been starting"):
            start_agent(self.place, self.path("stage"), time.monotonic() + 0.05)

    def test_an_agent_that_runs_already_is_not_started_again(self) -> None:
        self.script(_NOTE)
        os.mkdir(self.place.directory, 0o700)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(self.place.socket)
            os.chmod(self.place.socket, 0o600)
            server.listen()
            with mock.patch("holdfast._start._spawn") as spawn:
                start_agent(self.place, self.path("stage"), time.monotonic() + TIMEOUT)
        os.unlink(self.place.socket)
        spawn.assert_not_called()

    def test_a_command_that_is_not_there_is_named(self) -> None:
        for given, words in (("/no/such", "is not a program"), ("'", "HOLDFAST_COMMAND"), (" ", "not a program")):
            os.environ["HOLDFAST_COMMAND"] = given
            with self.assertRaisesRegex(holdfast.InvalidConfig, words):
                holdfast.connect("file:///x", start=True, timeout=5)
        del os.environ["HOLDFAST_COMMAND"]
        os.environ["PATH"] = self.directory
        with self.assertRaisesRegex(holdfast.InvalidConfig, "holdfast was not found"):
            agent_command()

    def test_the_command_is_given_bundled_or_on_the_path(self) -> None:
        path = self.path("holdfast")
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n")
        os.chmod(path, 0o755)
        os.environ["PATH"] = self.directory
        self.assertEqual(agent_command(), [path])
        with mock.patch("holdfast._start.bundled_command", return_value=["/node", "/command.mjs"]):
            self.assertEqual(agent_command(), ["/node", "/command.mjs"])
        os.environ["HOLDFAST_COMMAND"] = f"{path} --flag 'a b'"
        self.assertEqual(agent_command(), [path, "--flag", "a b"])

    def test_a_directory_that_others_may_enter_is_refused_and_nothing_is_started(self) -> None:
        self.script(_NOTE)
        os.mkdir(self.place.directory, 0o755)
        os.chmod(self.place.directory, 0o755)
        with self.assertRaisesRegex(holdfast.InvalidConfig, "chmod 700"):
            holdfast.connect("file:///x", start=True, timeout=5)
        self.assertFalse(os.path.exists(self.path("command.calls")))

    def test_the_stage_is_in_memory_if_there_is_some(self) -> None:
        place = AgentPlace("/d/agent.sock", "/d", False)
        with mock.patch("os.access", return_value=True):
            self.assertRegex(default_stage(place), f"^/dev/shm/holdfast-{os.geteuid()}-[0-9a-f]{{8}}$")
        with mock.patch("os.access", return_value=False):
            self.assertEqual(default_stage(place), "/d/stage")
