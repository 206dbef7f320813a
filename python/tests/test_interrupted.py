"""A signal handler that raises, such as Ctrl-C, may end a save at any moment. It loses no segment."""

from __future__ import annotations

import dis
import gc
import os
import sys
from types import CodeType, FrameType
from typing import Any, Callable, Optional
from unittest import mock

import holdfast
from holdfast import _events, _memory, _payload, _saving, _segments, _writer
from holdfast._link import Link
from holdfast._payload import Payload
from holdfast._saving import Saver, Staged
from holdfast._segments import SegmentPool, Stage

from .support import FakeAgentCase, TestCase

_FILES = {module.__file__ for module in (_memory, _payload, _saving, _segments)}
_NEWS_FILES = {module.__file__ for module in (_events, _writer)}


class Interrupt(BaseException):
    """What the handler raises."""


class Moments:
    """Raises at one of the moments when CPython runs signal handlers: begin or end of a call."""

    def __init__(self, moment: int, files: set[Optional[str]] = _FILES) -> None:
        self._left = moment
        self._files = files
        self._names: dict[CodeType, dict[int, str]] = {}
        self._last: dict[FrameType, str] = {}

    def run(self, work: Callable[[], object]) -> Optional[Interrupt]:
        """``None``: the work has fewer moments."""
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            work()
        except Interrupt as error:
            return error
        finally:
            sys.settrace(before)
            self._last.clear()
        return None

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if code.co_filename not in self._files:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            if code not in self._names:
                self._names[code] = {each.offset: each.opname for each in dis.get_instructions(code)}
            last = self._last.get(frame, "")
            self._last[frame] = self._names[code].get(frame.f_lasti, "")
            if last.startswith("CALL"):
                self._pass()
        elif event == "call":
            self._pass()
        return self._trace

    def _pass(self) -> None:
        self._left -= 1
        if self._left == 0:
            sys.settrace(None)
            raise Interrupt


class _Writer:
    """As much of a writer as staging needs."""

    def __init__(self, pool: SegmentPool, stage: Stage) -> None:
        self.pool = pool
        self.stage = stage

    def refresh(self, deadline: float) -> None:
        pass


def _memfds() -> int:
    links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    return sum("memfd:" in os.readlink(link) for link in links if os.path.islink(link))


class Interrupted(TestCase):
    def check(self, kind: str) -> None:
        pool = SegmentPool("holdfast-x", lambda _: None)
        writer: Any = _Writer(pool, Stage(self.directory, kind))
        saver: Any = Saver(mock.Mock(), {}, 10.0)
        saver.joined = lambda end=None: writer

        def stage() -> Staged:
            payload = Payload(buffers={"a": b"bytes of a save"})
            staged: Optional[Staged] = saver.stage(payload, None, "raise")
            assert staged is not None
            return staged

        def work() -> None:
            stage().discard()
            # Without a warm segment, the next save makes one.
            pool._drop_free()

        before = len(os.listdir("/proc/self/fd"))
        memfds = _memfds()
        count = 0
        while True:
            count += 1
            error = Moments(count).run(work)
            if error is None:
                break
            # A notebook keeps the traceback, with all variables in it.
            stage().discard()
            del error
            gc.collect()
            stage().discard()
            self.assertLessEqual(_memfds() - memfds, 2, count)
            self.assertLessEqual(len(os.listdir(self.directory)), 2, count)
            if count % 5 == 0:
                pool._drop_free()
                self.assertEqual(os.listdir(self.directory), [], count)
                self.assertEqual(len(os.listdir("/proc/self/fd")), before, count)
        self.assertGreater(count, 50)
        pool.close()
        self.assertEqual(os.listdir(self.directory), [])
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)

    def test_in_the_directory(self) -> None:
        self.check("tmpfs")

    def test_in_a_memfd(self) -> None:
        self.check("none")


class News(FakeAgentCase):
    """Two saves have used both segments, and the agent tells that they have ended."""

    def setUp(self) -> None:
        super().setUp()
        self.agent.is_holding = True
        self.run_ = self.connect()
        self.version = 0

    def end_two_saves(self) -> None:
        """Of which the client has not heard yet."""
        for handle in (self.save(), self.save()):
            self.agent.finish(handle.save_id, "committed")

    def forget_ended(self) -> None:
        """Each call would take longer than the one before."""
        for writer in self.agent.writers.values():
            writer["saves"].clear()

    def save(self) -> holdfast.Handle:
        self.version += 1
        return self.run_.save(self.version, buffers={"a": b"x"}, when_busy="raise")

    def test_it_is_not_lost_at_any_moment(self) -> None:
        count = 0
        while True:
            count += 1
            self.end_two_saves()
            if Moments(count, _NEWS_FILES).run(lambda: self.run_.latest()) is None:
                break
            for _ in range(2):
                self.agent.finish(self.save().save_id, "committed")
                self.run_.latest()
            self.forget_ended()
        self.assertGreater(count, 20)

    def test_a_signal_handler_that_saves_while_its_thread_asks_for_it_hears_of_it_too(self) -> None:
        self.end_two_saves()
        call = Link.call
        asked: list[str] = []
        saved: list[holdfast.Handle] = []

        def interrupted(link: Any, method: str, path: str, *given: Any, **more: Any) -> Any:
            if method == "GET" and path.count("/") == 3:
                asked.append(path)
                if len(asked) == 1:
                    saved.append(self.save())
            return call(link, method, path, *given, **more)

        with mock.patch.object(Link, "call", interrupted):
            self.run_.latest()
        self.assertEqual([one.version for one in saved], [3])

    def test_a_failure_is_raised_although_the_call_that_heard_of_it_was_interrupted(self) -> None:
        count = 0
        while True:
            count += 1
            handle = self.save()
            self.agent.finish(handle.save_id, "failed")
            failures: list[BaseException] = []

            def work() -> None:
                try:
                    self.run_.latest()
                except holdfast.HoldfastError as error:
                    failures.append(error)

            interrupt = Moments(count, _NEWS_FILES).run(work)
            if interrupt is not None and isinstance(interrupt.__context__, holdfast.Unexpected):
                # It came while the failure was being raised, and shows it.
                failures.append(interrupt.__context__)
            work()
            self.assertGreater(len(failures), 0, count)
            # If it was noted in the interrupted call, it may be raised twice.
            work()
            if interrupt is None:
                break
            self.forget_ended()
        self.assertGreater(count, 20)


class Copies(FakeAgentCase):
    def test_a_copy_that_keeps_a_view_does_not_hide_the_interrupt(self) -> None:
        run = self.connect()

        def interrupted(target: memoryview, _: Any) -> None:
            # As NumPy does.
            held = _memory._PyBuffer()
            _memory._get_buffer(target, held, 0)
            self.addCleanup(_memory._release_buffer, held)
            raise Interrupt

        for version in range(1, 5):
            with mock.patch.object(_memory, "copy_buffer", interrupted):
                with self.assertRaises(Interrupt):
                    run.save(version, buffers={"a": b"x"})
        run.save(9, buffers={"a": b"x"})
        self.assertLessEqual(_memfds(), 2)
