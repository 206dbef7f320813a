"""Forks, spawned processes, threads, exits, and asyncio."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import unittest
from typing import Any

import holdfast

from .support import PYTHON_ROOT, TIMEOUT, FakeAgentCase, python_child



def spawned(socket: str) -> None:
    """Runs in another process, which imports this module anew."""
    with holdfast.connect("file:///a/run", agent=socket, writer=None) as run:
        assert run.read("a") == b"1"


_FIRST_SAVE_AT_THE_END = """
import atexit, sys, holdfast
run = holdfast.connect("file:///a/run", attempt="a1", agent=sys.argv[1])
atexit.register(lambda: print(run.save(1, buffers={"a": b"1"}).wait().state))
"""


class Ends(FakeAgentCase):
    def test_a_process_may_begin_its_first_save_at_its_end(self) -> None:
        """No thread starts there any more."""
        words = [sys.executable, "-c", _FIRST_SAVE_AT_THE_END, self.agent.socket]
        own = {**os.environ, "PYTHONPATH": PYTHON_ROOT}
        done = subprocess.run(words, env=own, capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual((done.stdout, done.returncode), ("committed\n", 0), done.stderr)


class Forks(FakeAgentCase):
    def setUp(self) -> None:
        super().setUp()
        self.run_ = self.connect(attempt="a1")
        self.run_.save(1, buffers={"a": b"1"}).wait()

    def test_a_child_reads_on_connections_of_its_own_and_the_parent_goes_on(self) -> None:
        self.assertEqual(python_child(lambda: self.run_.read("a") != b"1"), 0)
        self.run_.save(2, buffers={"a": b"2"}).wait()
        self.assertEqual(len(self.requests("POST", "/writers")), 1)

    def test_a_child_that_saves_is_a_new_life_of_the_same_writer(self) -> None:
        def save() -> int:
            return int(self.run_.save(2, buffers={"a": b"2"}).wait().state != "committed")

        self.assertEqual(python_child(save), 0)
        first, second = self.requests("POST", "/writers")
        self.assertNotEqual(first["life"], second["life"])
        self.assertNotEqual(first["pid"], second["pid"])
        self.assertEqual(first["attempt"], second["attempt"])
        self.assertEqual(self.agent.committed[2], {"a": b"2"})

    def test_a_child_leaves_files_and_stream_of_its_parent_alone(self) -> None:
        def leave() -> None:
            self.run_.close()

        self.assertEqual(python_child(leave), 0)
        self.run_.save(2, buffers={"a": b"2"}).wait()
        self.assertEqual([one for one in self.agent.requests if one[0] == "DELETE"], [])
        paths = {one["files"][0]["source"]["path"] for one in self.requests("POST", "/saves")}
        self.assertEqual(len(paths), 1)

    def test_a_child_that_outlives_its_parent_does_not_hold_the_writer(self) -> None:
        # The middle process is the trainer, and its child goes on for a while.
        reader, writer = os.pipe()

        kept: list[holdfast.Run] = []

        def train() -> None:
            run = holdfast.connect("file:///b", agent=self.agent.socket)
            kept.append(run)
            run.save(1, buffers={"a": b"1"}).wait()
            if os.fork() == 0:
                os.close(writer)
                os.read(reader, 1)
                os._exit(0)

        self.assertEqual(python_child(train), 0)
        try:
            joined = [one for one in self.agent.writers.values() if one["join"]["uri"] == "file:///b"]
            self.until(lambda: joined[0]["events"] == [])
        finally:
            os.close(writer)
            os.close(reader)

    def test_a_child_of_a_process_whose_threads_hold_locks_does_not_hang(self) -> None:
        self.agent.is_holding = True
        handle = self.run_.save(2, buffers={"a": b"2"})
        thread = threading.Thread(target=handle.wait)
        thread.start()
        self.run_._saver._writer._lock.acquire()  # type: ignore[union-attr]
        try:
            self.assertEqual(python_child(lambda: self.run_.read("a") != b"1"), 0)
        finally:
            self.run_._saver._writer._lock.release()  # type: ignore[union-attr]
        self.agent.finish(handle.save_id, "committed")
        thread.join(TIMEOUT)

    def test_a_handle_of_the_parent_cannot_be_followed_by_a_child(self) -> None:
        self.agent.is_holding = True
        handle = self.run_.save(2, buffers={"a": b"2"})

        def follow() -> int:
            try:
                handle.wait()
            except holdfast.InvalidArgument as error:
                return int("only by the process that began" not in str(error))
            return 1

        self.assertEqual(python_child(follow), 0)

    def test_a_spawned_process_reads(self) -> None:
        process = multiprocessing.get_context("spawn").Process(target=spawned, args=(self.agent.socket,))
        process.start()
        process.join(TIMEOUT)
        self.assertEqual(process.exitcode, 0)
        process.close()


class Exits(FakeAgentCase):
    def test_a_process_ends_at_once_in_each_way_while_saves_are_in_progress(self) -> None:
        self.agent.is_holding = True
        for ending in (
            "",
            "os._exit(0)",
            "run.close()",
            "threading.Thread(target=handle.wait, daemon=True).start()",
            "asyncio.run(stop_waiting(handle))",
        ):
            script = (
                "import asyncio, holdfast, os, threading\n"
                "async def stop_waiting(handle):\n"
                "    try: await asyncio.wait_for(handle.committed(), 0.05)\n"
                "    except asyncio.TimeoutError: pass\n"
                f"run = holdfast.connect('file:///x', agent={self.agent.socket!r})\n"
                f"handle = run.save(1, buffers={{'a': b'1'}})\n{ending}\n"
            )
            environment = {**os.environ, "PYTHONPATH": PYTHON_ROOT}
            done = subprocess.run(
                [sys.executable, "-B", "-c", script],
                env=environment,
                capture_output=True,
                timeout=TIMEOUT,
            )
            self.assertEqual((done.returncode, done.stderr), (0, b""), ending)

    def test_an_interrupt_ends_a_wait(self) -> None:
        self.agent.is_holding = True
        handle = self.connect().save(1, buffers={"a": b"1"})
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            handle.wait()
        timer.join()
        self.agent.finish(handle.save_id, "committed")
        handle.wait()


class Asyncio(FakeAgentCase):
    def test_awaiting_does_not_stop_the_loop(self) -> None:
        self.agent.is_holding = True
        run = self.connect()

        async def train() -> list[str]:
            handle = run.save(1, buffers={"a": b"1"})
            await handle.staged()
            waiting = asyncio.ensure_future(handle.committed(TIMEOUT))
            steps = 0
            while not any(given.get("wait") for given in self.requests("GET", handle.save_id)):
                await asyncio.sleep(0.001)
                steps += 1
            self.assertGreater(steps, 0)
            # Otherwise the interpreter would wait for them at its end.
            ours = [one for one in threading.enumerate() if one.name.startswith("holdfast")]
            self.assertEqual([one.daemon for one in ours], [True] * len(ours))
            self.assertIn("holdfast-wait", [one.name for one in ours])
            self.agent.finish(handle.save_id, "committed")
            return [(await waiting).state, (await handle).state]

        self.assertEqual(asyncio.run(train()), ["committed", "committed"])

    def test_a_failure_and_a_deadline_are_raised_where_they_are_awaited(self) -> None:
        self.agent.is_holding = True
        run = self.connect()

        async def train() -> None:
            handle = run.save(1, buffers={"a": b"1"})
            with self.assertRaises(holdfast.TimedOut):
                await handle.committed(timeout=0.02)
            self.agent.finish(handle.save_id, "failed", error={"code": "StorageFull", "message": "m"})
            with self.assertRaises(holdfast.StorageFull):
                await handle

        asyncio.run(train())

    def test_waits_that_are_cancelled_share_one_thread_with_those_that_go_on(self) -> None:
        self.agent.is_holding = True
        run = self.connect()

        def waiting() -> int:
            return sum(one.name == "holdfast-wait" for one in threading.enumerate())

        async def train() -> list[str]:
            handle = run.save(1, buffers={"a": b"1"})
            before = waiting()
            for number in range(100):
                timeout = 5.0 if number % 2 else None
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(handle.committed(timeout), 0.002)
            self.assertEqual(waiting() - before, 1)
            others = [asyncio.ensure_future(handle.committed()) for _ in range(10)]
            await asyncio.sleep(0.01)
            others.pop().cancel()
            self.assertEqual(waiting() - before, 1)
            self.agent.finish(handle.save_id, "committed")
            return [(await one).state for one in others]

        self.assertEqual(asyncio.run(train()), ["committed"] * 9)

    def test_a_wait_of_no_time_asks_once(self) -> None:
        self.agent.is_holding = True
        run = self.connect()

        async def train() -> str:
            handle = run.save(1, buffers={"a": b"1"})
            with self.assertRaises(holdfast.TimedOut):
                await handle.committed(0)
            self.agent.finish(handle.save_id, "committed")
            return (await handle.committed(0)).state

        self.assertEqual(asyncio.run(train()), "committed")

    def test_a_wait_goes_on_in_another_loop_when_the_last_one_was_left(self) -> None:
        self.agent.is_holding = True
        handle = self.connect().save(1, buffers={"a": b"1"})

        async def leave() -> None:
            asyncio.ensure_future(handle.committed())
            await asyncio.sleep(0.02)

        asyncio.run(leave())
        timer = threading.Timer(0.1, self.agent.finish, (handle.save_id, "committed"))
        timer.start()

        async def wait() -> str:
            return (await handle).state

        self.assertEqual(asyncio.run(wait()), "committed")
        timer.join()

    def test_many_saves_are_awaited_at_once(self) -> None:
        run = self.connect()

        async def train() -> list[Any]:
            handles = [run.save(version, buffers={"a": b"1"}) for version in range(10)]
            return await asyncio.gather(*(handle.committed() for handle in handles))

        self.assertEqual([handle.version for handle in asyncio.run(train())], list(range(10)))


class Imports(unittest.TestCase):
    def test_importing_loads_neither_http_nor_ctypes_nor_numpy(self) -> None:
        script = (
            "import sys, holdfast\n"
            "print([name for name in ('http.client', 'ctypes', 'json', 'numpy', 'subprocess',"
            " 'asyncio', 'logging') if name in sys.modules])"
        )
        done = subprocess.run(
            [sys.executable, "-S", "-B", "-c", script],
            env={**os.environ, "PYTHONPATH": PYTHON_ROOT},
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.stdout, "[]\n", done.stderr)

    def test_each_public_name_is_there(self) -> None:
        for name in holdfast.__all__:
            self.assertIsNotNone(getattr(holdfast, name))
        self.assertTrue(set(holdfast.__all__) <= set(dir(holdfast)))
        with self.assertRaisesRegex(AttributeError, "no attribute 'nothing'"):
            holdfast.nothing
