"""The client and a real agent."""

from __future__ import annotations

import array
import itertools
import json
import os
import shutil
import socket
import time
import unittest
import urllib.parse
from fractions import Fraction
from typing import Any, Callable, cast
from unittest import mock

import holdfast
from holdfast import _reader, _segments

from .real_agent import RealAgentCase
from .support import TIMEOUT, optional

np: Any = optional("numpy")


class Checkpoints(RealAgentCase):
    def test_all_that_a_save_takes_is_read_back(self) -> None:
        with open(self.path("f"), "wb") as file:
            file.write(b"from a file")
        run = self.connect()
        self.assertIsNone(run.latest())
        weights = array.array("f", range(1000))
        handle = run.save(
            2**60,
            files={"dir/f": self.path("f")},
            buffers={"b": b"bytes", "empty": b""},
            arrays={"w": weights, "none": array.array("d")},
            metrics={"loss": 0.5},
            metadata={"k": "v"},
        )
        self.assertIn(handle.wait("staged").durability, ("staged", "committed"))
        self.assertEqual(handle.wait().durability, "committed")
        latest = run.latest()
        assert latest is not None
        self.assertEqual((latest.version, latest.metrics, latest.state), (2**60, {"loss": 0.5}, "live"))
        names = ["b", "dir/f", "empty", "model.safetensors"]
        self.assertEqual([one.name for one in run.files()], names)
        self.assertEqual((run.read("dir/f"), run.read("b"), run.read("empty")), (b"from a file", b"bytes", b""))
        into = {"w": array.array("f", bytes(4000))}
        run.load_arrays(into=into)
        self.assertEqual(into["w"], weights)
        part = bytearray(3)
        run.read_into(part, "b", offset=1)
        self.assertEqual(part, b"yte")
        restored = run.restore(self.path("out"), only=["b"])
        self.assertEqual((restored.version, restored.file_count), (2**60, 1))
        with open(self.path("out", "b"), "rb") as file:
            self.assertEqual(file.read(), b"bytes")

    def test_versions_pins_and_annotations(self) -> None:
        run = self.connect()
        for version in (1, 2, 3):
            run.save(version, buffers={"a": b"%d" % version}).wait()
        self.assertEqual([one.version for one in run.versions()], [3, 2, 1])
        self.assertEqual([one.version for one in run.versions(limit=2)], [3, 2])
        run.annotate(2, metrics={"acc": 0.9})
        run.pin(2, "best")
        found = {one.version: one for one in run.versions()}[2]
        self.assertEqual((found.metrics, found.pins), ({"acc": 0.9}, ("best",)))
        run.unpin(2, "best")
        self.assertEqual(run.read("a", 1), b"1")

    def test_segments_are_used_again_and_old_versions_keep_their_bytes(self) -> None:
        run = self.connect()
        data = bytearray(3 << 20)
        for version in range(5):
            data[:] = bytes([version]) * len(data)
            run.save(version, buffers={"a": data})
        run.save(5, buffers={"a": b"last"}).wait()
        for version in range(5):
            self.assertEqual(run.read("a", version), bytes([version]) * len(data))

    def test_a_save_in_memory_and_one_on_disk(self) -> None:
        for kind in ("memfd", "disk"):
            with mock.patch.object(_segments, "_refusal", lambda *given: "" if given[1] == kind else "no"):
                run = self.connect(uri=f"{self.uri}-{kind}")
                run.save(1, buffers={"a": b"1" * 5000}).wait()
                self.assertEqual(run.read("a"), b"1" * 5000)
                staged = [one for one in self.agent.staged() if "segment" in one]
                self.assertEqual(len(staged), 1 if kind == "disk" else 0)
                run.close()

    def test_nothing_is_left_in_the_stage_when_the_run_is_closed(self) -> None:
        run = self.connect()
        run.save(1, buffers={"a": b"1"}).wait()
        run.close()
        self.until(lambda: self.agent.staged() == [])

    def test_two_writers_share_a_version(self) -> None:
        runs = [self.connect(attempt="a1", writer=(index, 2)) for index in range(2)]
        first = runs[0].save(1, buffers={"r0": b"0"})
        with self.assertRaises(holdfast.TimedOut):
            first.wait(timeout=0.05)
        with self.assertRaisesRegex(holdfast.TimedOut, "committed within 0.0625 s"):
            # Not a float, as numbers of numpy.
            first.wait(timeout=cast(float, Fraction(1, 16)))
        runs[1].save(1, buffers={"r1": b"1"}).wait()
        first.wait()
        self.assertEqual((runs[0].read("r1"), runs[1].read("r0")), (b"1", b"0"))

    def test_a_writer_that_never_delivers_is_named(self) -> None:
        run = self.connect(attempt="a1", writer=(0, 2))
        handle = run.save(1, buffers={"a": b"1"}, timeout=0.5)
        with self.assertRaises(holdfast.Incomplete) as caught:
            handle.wait()
        self.assertIn("1", str(caught.exception))
        self.assertEqual((handle.state, handle.fields["missingWriters"]), ("incomplete", [1]))
        self.assertIsNone(run.latest())

    def test_writers_that_disagree_on_their_number_are_refused(self) -> None:
        self.connect(attempt="a1", writer=(0, 2)).save(1, buffers={"a": b"1"})
        with self.assertRaises(holdfast.WorldSizeMismatch):
            self.connect(attempt="a1", writer=(1, 3))

    def test_a_newer_attempt_fences_the_older_at_its_next_call(self) -> None:
        old = self.connect(attempt="a1")
        old.save(1, buffers={"a": b"1"}).wait()
        new = self.connect(attempt="a2")
        with self.assertRaises(holdfast.Fenced):
            old.save(2, buffers={"a": b"old"}).wait()
        new.save(2, buffers={"a": b"new"}).wait()
        self.assertEqual(new.read("a"), b"new")

    def test_a_version_that_is_not_above_the_last_is_a_conflict(self) -> None:
        run = self.connect()
        run.save(5, buffers={"a": b"1"}).wait()
        handle = run.save(4, buffers={"a": b"2"})
        self.until(handle.done)
        with self.assertRaises(holdfast.Conflict):
            run.latest()
        self.assertEqual(run.read("a"), b"1")

    def test_an_unsealed_save_is_never_uploaded(self) -> None:
        run = self.connect()
        handle = run.save(1, buffers={"a": b"1"}, sealed=False)
        with self.assertRaises(holdfast.TimedOut):
            handle.wait("staged", 0.05)
        handle.seal(buffers={"b": b"2"}).wait()
        self.assertEqual((run.read("a"), run.read("b")), (b"1", b"2"))
        dropped = run.save(2, buffers={"a": b"never"}, sealed=False)
        self.assertEqual(dropped.state, "open")
        run.close()
        self.assertEqual([one.version for one in self.connect(writer=None).versions()], [1])

    def test_a_stopped_save_is_not_committed(self) -> None:
        run = self.connect(attempt="a1", writer=(0, 2))
        handle = run.save(1, buffers={"a": b"1"})
        handle.cancel()
        self.until(handle.done)
        self.assertNotEqual(handle.state, "committed")
        self.assertIsNone(run.latest())

    def test_damage_in_the_store_is_corrupt_and_is_never_returned(self) -> None:
        run = self.connect()
        data = os.urandom(100_000)
        run.save(1, buffers={"a": data}).wait()
        path = os.path.join(self.uri[len("file://") :], run.files()[0].key)
        os.chmod(path, 0o600)
        with open(path, "r+b") as file:
            file.seek(50_000)
            file.write(bytes([data[50_000] ^ 1]))
        for call in (lambda: run.read("a"), lambda: run.restore(self.path("to"), 1)):
            with self.assertRaises(holdfast.Corrupt):
                call()

    def test_a_directory_that_an_agent_finished_before_it_died_is_taken(self) -> None:
        run = self.connect()
        run.save(1, buffers={"a": b"12345"}).wait()
        run.restore(self.path("to"))
        # What was there when the call began is not known any more, nor which agent.
        pids = itertools.count()
        with mock.patch.object(_reader, "_is_free", return_value=True), mock.patch.object(
            _reader.Reader, "_agent", lambda *_: next(pids)
        ):
            self.assertEqual(run.restore(self.path("to")).file_count, 1)
            with open(self.path("to", "mine"), "w", encoding="utf-8"):
                pass
            with self.assertRaises(holdfast.TargetExists):
                run.restore(self.path("to"))
        self.assertEqual(sorted(os.listdir(self.path("to"))), ["a", "mine"])

    def test_a_checkpoint_of_a_run_that_was_removed_is_never_one_of_the_run_that_took_its_place(self) -> None:
        def begin(content: bytes) -> None:
            with self.connect(attempt=content.decode()) as run:
                run.save(3, buffers={"a": content}, arrays={"x": bytearray(content)}).wait()

        begin(b"former")
        joined = self.connect(attempt="joined")
        joined.annotate(3, metadata={"k": "v"})
        reader = self.connect(writer=None)
        former = [reader.latest(), *reader.versions()]
        shutil.rmtree(self.uri.removeprefix("file://"))
        begin(b"present")
        for one in former:
            assert one is not None
            calls: dict[str, Callable[[], Any]] = {
                "read": lambda: reader.read("a", one),
                "read_into": lambda: reader.read_into(bytearray(6), "a", one),
                "files": lambda: reader.files(one),
                "open": lambda: reader.open("a", one).read(),
                "load_arrays": lambda: reader.load_arrays(one),
                "restore": lambda: reader.restore(self.path("restored"), one),
            }
            for name, call in calls.items():
                with self.subTest(name), self.assertRaisesRegex(holdfast.NotFound, "another checkpoint"):
                    call()
        changes: tuple[Callable[[], Any], ...] = (
            lambda: joined.annotate(3, metrics={"loss": 1.0}),
            lambda: joined.pin(3, "best"),
            lambda: joined.unpin(3, "best"),
        )
        for change in changes:
            with self.assertRaisesRegex(holdfast.Fenced, "not the one that this trainer joined"):
                change()
        latest = reader.latest()
        assert latest is not None
        self.assertEqual((dict(latest.metrics), latest.pins), ({}, ()))
        self.assertEqual(reader.read("a", latest), b"present")
        self.assertEqual(reader.restore(self.path("restored"), latest).version, 3)

    def test_bad_reads_have_the_errors_of_their_kind(self) -> None:
        run = self.connect()
        run.save(1, buffers={"a": b"12345"}).wait()
        with self.assertRaises(holdfast.InvalidArgument):
            run.read_into(bytearray(3), "a", offset=4)
        for call in (
            lambda: run.read("b"),
            lambda: run.read("a", 2),
            lambda: run.files(7),
            lambda: run.load_arrays(),
            lambda: run.annotate(9, metrics={"m": 1}),
            lambda: run.restore(self.path("to"), 3),
        ):
            with self.assertRaises(holdfast.NotFound):
                call()
        os.makedirs(self.path("to", "x"))
        with self.assertRaises(holdfast.TargetExists):
            run.restore(self.path("to"))
        other = self.connect(uri=f"{self.uri}-none", writer=None)
        self.assertIsNone(other.latest())
        with self.assertRaises(holdfast.InvalidConfig):
            self.connect(uri="nosuch://x")

    @unittest.skipIf(np is None, "numpy is not installed")
    def test_numpy_arrays_of_any_order_come_back_equal(self) -> None:
        run = self.connect()
        base = np.arange(600, dtype="f8").reshape(20, 30)
        run.save(1, arrays={"t": base.T, "half": base[::2].astype("f2"), "big": base.astype(">f4")}).wait()
        got = run.load_arrays()
        self.assertTrue(np.array_equal(got["t"], base.T))
        self.assertTrue(np.array_equal(got["half"], base[::2].astype("f2")))
        self.assertTrue(np.array_equal(got["big"], base.astype("f4")))


class Sources(RealAgentCase):
    def test_paths_that_an_agent_does_not_open_are_refused_and_the_others_served_on(self) -> None:
        os.mkdir(self.path("inside"))
        with open(self.path("inside", "f"), "wb") as file:
            file.write(b"1")
        with open(self.path("outside"), "wb") as file:
            file.write(b"2")
        os.symlink(self.path("outside"), self.path("inside", "link"))
        agent = self.started({"roots": [self.path("inside")]})
        run = self.connect(agent=agent.socket)
        os.mkfifo(self.path("inside", "pipe"))
        for path, kind in (
            (self.path("outside"), holdfast.Denied),
            (self.path("inside", "link"), holdfast.Denied),
            (self.path("inside", "missing"), holdfast.NotFound),
            (self.path("inside"), holdfast.HoldfastError),
            (self.path("inside", "pipe"), holdfast.HoldfastError),
            ("/dev/zero", holdfast.Denied),
            (f"/proc/{agent.pid}/environ", holdfast.Denied),
        ):
            with self.assertRaises(kind, msg=path):
                run.save(1, files={"f": path})
        run.save(1, files={"f": self.path("inside", "f")}).wait()
        self.assertEqual(run.read("f"), b"1")

    def test_a_file_that_changes_while_it_is_read_fails_the_save(self) -> None:
        with open(self.path("f"), "wb") as file:
            file.write(b"1" * 1000)
        run = self.connect()
        handle = run.save(1, files={"f": self.path("f")}, sealed=False)
        with open(self.path("f"), "r+b") as file:
            file.truncate(10)
        handle.seal()
        with self.assertRaises(holdfast.SourceChanged):
            handle.wait()
        self.assertIsNone(run.latest())

    def test_an_alias_and_a_token_of_the_configuration(self) -> None:
        with open(self.path("token"), "w", encoding="ascii") as file:
            file.write("a-token-of-some-length")
        os.chmod(self.path("token"), 0o400)
        runs = {"prod": {"uri": f"file://{self.directory}/prod"}}
        agent = self.started({"tokenFile": self.path("token"), "runs": runs}).socket
        with self.assertRaises(holdfast.Denied):
            self.connect(uri="prod", agent=agent)
        os.environ["HOLDFAST_AGENT_TOKEN_FILE"] = self.path("token")
        run = self.connect(uri="prod", agent=agent)
        run.save(1, buffers={"a": b"1"}).wait()
        self.assertTrue(os.path.isdir(self.path("prod")))
        with self.assertRaises(holdfast.Denied):
            self.connect(uri=f"file://{self.directory}/other", agent=agent)


class Wire(RealAgentCase):
    """The client sends what the published document of the agent describes, and reads its answers."""

    def test_each_call_of_the_client_is_in_the_document(self) -> None:
        run = self.connect()
        handle = run.save(1, buffers={"a": b"1"}, metrics={"m": 1}, metadata={"k": "v"}).wait()
        self.assertEqual(handle.state, "committed")
        link = run._link
        with link.get("/openapi.json", {}, time.monotonic() + TIMEOUT) as response:
            document = json.loads(response.read())
        paths = set(document["paths"])
        used = {
            "/healthz",
            "/v1/writers",
            "/v1/latest",
            "/v1/versions",
            "/v1/files",
            "/v1/restores",
            "/v1/annotations",
            "/v1/pins",
        }
        self.assertEqual(used - paths, set())

    def test_a_client_that_breaks_off_in_mid_request_hinders_no_other(self) -> None:
        run = self.connect()
        broken = socket.socket(socket.AF_UNIX)
        self.addCleanup(broken.close)
        broken.connect(self.agent.socket)
        broken.sendall(b"POST /v1/writers HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
        run.save(1, buffers={"a": b"1"}).wait()
        broken.close()
        run.save(2, buffers={"a": b"2"}).wait()

    def test_names_with_any_characters_travel_in_a_query(self) -> None:
        run = self.connect()
        name = "größe & 100% = 嵌入?/x"
        run.save(1, buffers={name: b"1"}).wait()
        self.assertEqual(run.read(name), b"1")
        self.assertNotEqual(urllib.parse.quote(name), name)
