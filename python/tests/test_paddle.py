"""Paddle's election, and the model of each trainer in a directory of its own."""

from __future__ import annotations

import os
import signal
import stat
from typing import Any, Optional
from unittest import mock

import holdfast
from holdfast import _identity, _reader
from holdfast.paddle import Client, saving

from .real_agent import RealAgentCase
from .support import TIMEOUT, TestCase

MINUTE_MS = 60_000


class Election(RealAgentCase):
    def client(self, uri: Optional[str] = None) -> Client:
        client = Client(uri or self.uri, agent=self.agent.socket, timeout=TIMEOUT)
        self.addCleanup(client.close)
        return client

    def test_one_trainer_is_elected_for_its_time(self) -> None:
        one, two = self.client(), self.client()
        self.assertIs(one.request_save_model("a", 10 * MINUTE_MS), True)
        self.assertIs(two.request_save_model("b", 10 * MINUTE_MS), False)
        self.assertIs(two.request_save_model(7, 10 * MINUTE_MS), False)
        self.assertIs(one.request_save_model("a", MINUTE_MS), True)
        with self.client(f"{self.uri}-other") as other:
            self.assertIs(other.request_save_model(7, MINUTE_MS), True)

    def test_a_writer_of_the_run_may_ask_too(self) -> None:
        run = self.connect()
        run.save(1, buffers={"a": b"1"}).wait()
        self.assertTrue(run.request_save_model("a", MINUTE_MS))
        self.assertEqual(run.read("a"), b"1")

    def test_odd_arguments_are_refused(self) -> None:
        client = self.client()
        for trainer in ("", ".a", "a/b", "a\\b", "a\n", "x" * 256, "\ud800", None, True, 1.5, b"a"):
            given: Any = trainer
            with self.assertRaisesRegex(holdfast.InvalidArgument, "^trainer_id", msg=repr(trainer)):
                client.request_save_model(given, MINUTE_MS)
        for block_ms in (0, -1, 0.5, float("nan"), "1", None, 7 * 24 * 60 * MINUTE_MS + 1):
            given = block_ms
            with self.assertRaises(holdfast.InvalidArgument, msg=repr(block_ms)):
                client.request_save_model("a", given)
        self.assertTrue(client.request_save_model("x" * 255, 7 * 24 * 60 * MINUTE_MS))

    def test_a_yes_that_comes_too_late_is_an_error(self) -> None:
        client = self.client()
        times = iter([0.0, 60.0])
        with mock.patch("holdfast.run.time") as clock:
            clock.monotonic = lambda: next(times)
            with mock.patch.object(_reader.Reader, "elect", return_value=True):
                with self.assertRaisesRegex(holdfast.TimedOut, "60000 ms had passed"):
                    client.request_save_model("a", MINUTE_MS)

    def test_an_agent_that_does_not_answer_elects_no_trainer(self) -> None:
        client = Client(self.uri, agent=self.path("none.sock"), timeout=0.1)
        self.addCleanup(client.close)
        with self.assertRaises(holdfast.AgentUnavailable):
            client.request_save_model("a", MINUTE_MS)


class Saving(TestCase):
    def save(self, trainer: Any = "a", content: str = "model") -> None:
        with saving(self.path("pass-7"), trainer) as directory:
            os.mkdir(os.path.join(directory, "parts"))
            with open(os.path.join(directory, "parts", "w"), "w", encoding="ascii") as file:
                file.write(content)

    def test_two_that_were_both_elected_leave_two_whole_models(self) -> None:
        with saving(self.path("pass-7"), "a") as one, saving(self.path("pass-7"), 1) as two:
            for place in (one, two):
                with open(os.path.join(place, "model.tar"), "w", encoding="ascii") as file:
                    file.write(place)
            names = os.listdir(self.path("pass-7"))
            self.assertTrue(all(name.startswith(".") for name in names), names)
        self.assertEqual(sorted(os.listdir(self.path("pass-7"))), ["1", "a"])
        for name, place in (("a", one), ("1", two)):
            with open(self.path("pass-7", name, "model.tar"), encoding="ascii") as file:
                self.assertEqual(file.read(), place)

    def test_files_and_directories_are_durable_before_the_model_appears(self) -> None:
        synced: list[tuple[bool, bool]] = []

        def fsync(fd: int) -> None:
            is_directory = stat.S_ISDIR(os.fstat(fd).st_mode)
            synced.append((is_directory, os.path.isdir(self.path("pass-7", "a"))))

        with mock.patch("os.fsync", fsync):
            self.save()
        # The file, its directory, the model; then the directory in which it has appeared.
        self.assertEqual(synced, [(False, False), (True, False), (True, False), (True, True)])

    def test_nothing_appears_after_a_failure(self) -> None:
        with self.assertRaises(ZeroDivisionError):
            with saving(self.path("pass-7"), "a") as directory:
                open(os.path.join(directory, "part"), "wb").close()
                raise ZeroDivisionError
        with self.assertRaisesRegex(holdfast.InvalidArgument, "no file was written"):
            with saving(self.path("pass-7"), "a"):
                pass
        self.assertEqual(os.listdir(self.path("pass-7")), [])

    def test_a_directory_that_cannot_be_read_is_an_error(self) -> None:
        """Also for root, to whom all directories are open."""
        scandir = os.scandir

        def fail(path: Any) -> Any:
            if str(path).endswith("parts"):
                raise PermissionError(13, "Permission denied", path)
            return scandir(path)

        with self.assertRaises(PermissionError), mock.patch("os.scandir", fail):
            self.save()
        self.assertEqual(os.listdir(self.path("pass-7")), [])

    def test_a_model_that_is_there_stays(self) -> None:
        self.save(content="first")
        with self.assertRaises(holdfast.TargetExists):
            self.save(content="second")
        # Another process of this trainer was faster.
        for is_file in (False, True):
            target = self.path("pass-7", "b")
            with self.assertRaises(holdfast.TargetExists):
                with saving(self.path("pass-7"), "b") as directory:
                    open(os.path.join(directory, "f"), "wb").close()
                    os.makedirs(f"{target}/x") if not is_file else open(target, "wb").close()
            os.rename(target, self.path(f"moved-{len(os.listdir(self.directory))}"))
        with open(self.path("pass-7", "a", "parts", "w"), encoding="ascii") as file:
            self.assertEqual(file.read(), "first")
        self.assertEqual(os.listdir(self.path("pass-7")), ["a"])

    def test_an_id_that_leads_elsewhere_is_refused(self) -> None:
        for trainer in ("..", "../a", "/a", "a/b", ""):
            with self.assertRaisesRegex(holdfast.InvalidArgument, "^trainer_id"):
                self.save(trainer)
        self.assertEqual(os.listdir(self.directory), [])

    def test_what_a_killed_trainer_left_is_removed_and_nothing_else(self) -> None:
        pid = os.fork()
        if pid == 0:
            with saving(self.path("pass-7"), "a") as directory:
                open(os.path.join(directory, "part"), "wb").close()
                os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(pid, 0)
        (left,) = os.listdir(self.path("pass-7"))
        self.save("b")
        self.assertIn(left, os.listdir(self.path("pass-7")))
        with saving(self.path("pass-7"), "a") as alive:
            open(os.path.join(alive, "f"), "wb").close()
            self.assertNotIn(left, os.listdir(self.path("pass-7")))
            self.save("a", "the life that was faster")
            self.assertTrue(os.path.exists(alive))
            with open(self.path("pass-7", "a", "parts", "w"), encoding="ascii") as file:
                self.assertEqual(file.read(), "the life that was faster")
            os.rename(self.path("pass-7", "a"), self.path("pass-7", "c"))

    def test_only_a_process_of_this_boot_and_namespace_is_certainly_gone(self) -> None:
        own = _identity.process_identity()
        assert own is not None
        pid, start, rest = own.split("-", 2)
        self.assertFalse(_identity.is_certainly_gone(own))
        self.assertTrue(_identity.is_certainly_gone(f"{pid}-{int(start) + 1}-{rest}"))
        self.assertTrue(_identity.is_certainly_gone(f"4194305-{start}-{rest}"))
        for other in (f"4194305-{start}-1{rest}", f"4194305-{start}-{rest[:-1]}x", "", "4194305"):
            self.assertFalse(_identity.is_certainly_gone(other), other)
        with mock.patch.object(_identity, "process_identity", lambda proc: None):
            self.assertFalse(_identity.is_certainly_gone(f"4194305-{start}-{rest}"))
