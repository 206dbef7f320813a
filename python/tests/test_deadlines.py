"""Calls end in time although the agent does not answer. A clock is moved, so no test waits."""

from __future__ import annotations

import io
import socket
import time
from typing import Any, Callable
from unittest import mock

import holdfast
from holdfast import _http
from holdfast._reader import Version

from .support import FakeAgentCase

TIMEOUT = 3.0
GRACE = 2.0


class Clock:
    """Stands still. An agent that does not answer moves it to the deadline of a request."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += max(0.001, seconds)

    def ask(self, *_: Any, **__: Any) -> Any:
        connection, _method, _target, _body, deadline = _
        self.now = max(self.now, deadline)
        raise socket.timeout("timed out")


class Frozen(FakeAgentCase):
    def setUp(self) -> None:
        super().setUp()
        self.agent.is_holding = True
        self.run_ = self.connect(timeout=TIMEOUT)
        self.handle = self.run_.save(1, buffers={"a": b"1"})
        self.agent.finish(self.handle.save_id, "committed")
        self.handle.wait()
        self.handle = self.run_.save(2, buffers={"a": b"2"}, sealed=False)
        self.clock = Clock()

    def freeze(self) -> None:
        for name, value in (("monotonic", self.clock.monotonic), ("sleep", self.clock.sleep)):
            patch = mock.patch.object(time, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        ask = self.clock.ask
        patched = mock.patch.object(_http.Connection, "ask", lambda *given, **more: ask(*given))
        patched.start()
        self.addCleanup(patched.stop)

    def lasts(self, call: Callable[[], Any], limit: float, error: type[Exception]) -> None:
        # There is news of a save, so that each call asks for its state first.
        writer = self.run_._saver.writer()
        assert writer is not None
        writer._news.note()
        begin = self.clock.now
        with self.assertRaises(error):
            call()
        self.assertLessEqual(self.clock.now - begin, limit + 0.01)

    def test_a_call_of_the_run_ends_when_the_agent_was_silent_for_the_timeout(self) -> None:
        run = self.run_
        self.freeze()
        for call in (
            run.latest,
            run.versions,
            run.files,
            lambda: run.read("a"),
            lambda: run.read("a", 1),
            lambda: run.read_into(bytearray(1), "a"),
            lambda: run.open("a"),
            lambda: run.load_arrays(into={}),
            lambda: run.annotate(1, metrics={"m": 1.0}),
            lambda: run.pin(1, "p"),
            lambda: run.unpin(1, "p"),
            lambda: run.request_save_model("t", 1000),
            lambda: run.save(3, buffers={"a": b"3"}),
            lambda: self.handle.seal(buffers={}),
            lambda: self.handle.state,
            self.handle.cancel,
        ):
            self.lasts(call, TIMEOUT, holdfast.AgentUnavailable)

    def test_a_read_of_a_stream_ends_when_no_answer_has_begun_for_the_timeout(self) -> None:
        """On a new connection and on one that has served before."""
        reader = self.run_._reader
        self.freeze()
        for _ in range(2):
            target = [memoryview(bytearray(1))]
            read = lambda: reader.read_ranges(Version(1, None), "a", 0, target, TIMEOUT)  # noqa: E731
            self.lasts(read, TIMEOUT, holdfast.AgentUnavailable)
            self.run_._link.close()

    def test_a_call_with_a_timeout_of_its_own_ends_soon_after_it(self) -> None:
        self.freeze()
        for timeout in (0.5, 1.0):
            limit = timeout + GRACE
            self.lasts(lambda: self.handle.wait(timeout=timeout), limit, holdfast.TimedOut)
        # The fake agent answers after 2 s at the latest.
        limit = 2 + TIMEOUT
        self.lasts(lambda: self.handle.wait(timeout=30.0), limit, holdfast.AgentUnavailable)

        def restore(timeout: float) -> None:
            self.run_._reader.restore(self.path("out"), 1, {}, timeout, TIMEOUT)

        for timeout in (0.5, 1.0, 30.0):
            limit = min(timeout, TIMEOUT) + GRACE
            self.lasts(lambda: restore(timeout), limit, holdfast.AgentUnavailable)

    def test_a_save_with_a_timeout_of_its_own_ends_soon_after_it(self) -> None:
        self.freeze()
        for timeout in (0.5, 30.0):
            limit = min(timeout + GRACE, TIMEOUT)
            save = lambda: self.run_.save(3, buffers={"a": b"3"}, timeout=timeout)  # noqa: E731
            self.lasts(save, limit, holdfast.AgentUnavailable)

    def test_a_first_save_of_a_process_ends_as_soon(self) -> None:
        self.run_._saver.forget()
        self.freeze()
        begin = self.clock.now
        with self.assertRaises(holdfast.AgentUnavailable):
            self.run_.save(3, buffers={"a": b"3"}, timeout=0.5)
        self.assertLessEqual(self.clock.now - begin, 0.5 + GRACE + 0.01)

    def test_a_wait_bears_an_agent_that_is_away_for_the_timeout_of_the_run(self) -> None:
        self.run_._saver.timeout = 10.0
        self.freeze()
        begin = self.clock.now
        with self.assertRaises(holdfast.AgentUnavailable):
            self.handle.wait(timeout=30.0)
        self.assertGreaterEqual(self.clock.now - begin, 10.0)

    def test_a_run_that_is_closed_does_not_wait_for_the_agent_for_long(self) -> None:
        self.freeze()
        begin = self.clock.now
        self.run_.close()
        self.assertLessEqual(self.clock.now - begin, TIMEOUT + 0.01)

    def test_bytes_that_stop_coming_are_told_after_the_timeout_and_not_called_corrupt(self) -> None:
        run = self.run_

        class Silent(io.BytesIO):
            length = 1
            status = 200
            will_close = True

            def isclosed(self) -> bool:
                return False

            def getheader(self, name: str) -> str:
                return name

            def readinto(self, _: Any) -> int:
                raise socket.timeout("timed out")

        silent: Any = lambda connection, method, target, body, deadline, **_: Silent()  # noqa: E731
        requests: list[str] = []
        ask = _http.Connection.ask

        def asked(connection: Any, method: str, target: str, *rest: Any, **more: Any) -> Any:
            requests.append(target.partition("?")[0])
            files = target.startswith("/v1/files")
            return (silent if files else ask)(connection, method, target, *rest, **more)

        with mock.patch.object(_http.Connection, "ask", asked):
            with self.assertRaisesRegex(holdfast.AgentUnavailable, "no byte of 'a' for 3 s"):
                run.read("a", 1)
        self.assertEqual(requests.count("/v1/files"), 1)
        self.assertNotIn("/healthz", requests)
