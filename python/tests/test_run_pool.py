"""Runs that plugins open by their names."""

from __future__ import annotations

import threading
import time
from typing import Any, Optional
from unittest import mock

import holdfast
from holdfast import _run_pool
from holdfast._run_pool import Options, RunPool

from .support import URI, FakeAgentCase


class Pool(FakeAgentCase):
    def setUp(self) -> None:
        super().setUp()
        self.pool = RunPool()
        self.addCleanup(self.pool.close)
        self.options = Options(agent=self.agent.socket)

    def test_a_run_is_opened_once_for_readers_and_once_for_writers(self) -> None:
        pool, options = self.pool, self.options
        self.assertIs(pool.reader(URI, options), pool.reader(URI, options._replace(attempt="a")))
        self.assertIs(pool.writer(URI, options), pool.writer(URI, options))
        with self.assertRaisesRegex(holdfast.InvalidArgument, "writes file:///a/run as attempt"):
            pool.writer(URI, options._replace(attempt="another"))
        former = pool.reader(URI, options)
        pool.close()
        self.assertIsNot(pool.reader(URI, options), former)

    def test_a_run_that_is_being_opened_delays_only_those_that_want_it_and_not_for_ever(self) -> None:
        may_go_on, has_begun = threading.Event(), threading.Event()
        opened = holdfast.connect

        def slow(uri: str, **more: Any) -> holdfast.Run:
            if uri.endswith("slow"):
                has_begun.set()
                may_go_on.wait(20)
            return opened(uri, **more)

        with mock.patch.object(_run_pool, "connect", slow):
            other = threading.Thread(target=lambda: self.pool.writer(f"{URI}/slow", self.options))
            other.start()
            self.assertTrue(has_begun.wait(20))
            self.pool.writer(URI, self.options)
            self.pool.reader(URI, self.options)
            begin = time.monotonic()
            with self.assertRaisesRegex(holdfast.AgentUnavailable, "another thread"):
                self.pool.writer(f"{URI}/slow", self.options._replace(timeout=0.05))
            self.assertLess(time.monotonic() - begin, 10)
            may_go_on.set()
            other.join(20)
        self.assertEqual(self.pool.writer(f"{URI}/slow", self.options).uri, f"{URI}/slow")

    def test_a_signal_handler_gets_an_error_while_its_thread_opens_the_run(self) -> None:
        failures: list[Optional[str]] = []
        opened = holdfast.connect

        def interrupted(uri: str, **more: Any) -> holdfast.Run:
            try:
                self.pool.writer(uri, self.options)
            except holdfast.Unavailable as error:
                failures.append(error.message)
            return opened(uri, **more)

        with mock.patch.object(_run_pool, "connect", interrupted):
            run = self.pool.writer(URI, self.options)
        self.assertEqual(failures, ["a signal handler cannot use a run that its thread is opening"])
        self.assertIs(self.pool.writer(URI, self.options), run)
