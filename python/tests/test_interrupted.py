"""A signal handler that raises, such as Ctrl-C, may end a save at any moment. It loses no segment."""

from __future__ import annotations

import dis
import gc
import os
import sys
from types import CodeType, FrameType
from typing import Any, Callable, Optional
from unittest import mock

from holdfast import _memory, _payload, _saving, _segments
from holdfast._payload import Payload
from holdfast._saving import Saver, Staged
from holdfast._segments import SegmentPool, Stage

from .support import FakeAgentCase, TestCase

_FILES = {module.__file__ for module in (_memory, _payload, _saving, _segments)}


class Interrupt(BaseException):
    """What the handler raises."""


class Moments:
    """Raises at one of the moments when CPython runs signal handlers: begin or end of a call."""

    def __init__(self, moment: int) -> None:
        self._left = moment
        self._names: dict[CodeType, dict[int, str]] = {}
        self._last: dict[FrameType, str] = {}

    def run(self, work: Callable[[], None]) -> Optional[Interrupt]:
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
        if code.co_filename not in _FILES:
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
