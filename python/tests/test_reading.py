"""Reading checkpoints: summaries, bytes, arrays, restores."""

from __future__ import annotations

import array
import ctypes
import http.client
import json
import struct
import sys
import threading
import unittest
from typing import Any, Callable, Optional
from unittest import mock

import holdfast

from .fake_agent import Refusal
from .support import FakeAgentCase, optional
from .test_arrays import Tensor

np: Any = optional("numpy")


class Summaries(FakeAgentCase):
    def test_no_checkpoint_yet_is_none_and_a_store_that_cannot_be_read_is_not(self) -> None:
        run = self.connect(writer=None)
        self.assertIsNone(run.latest())
        self.assertEqual(run.versions(), [])
        for call in (lambda: run.read("a"), lambda: run.files(), lambda: run.load_arrays()):
            with self.assertRaisesRegex(holdfast.NotFound, "nothing was committed"):
                call()
        for code, status in (("Unavailable", 503), ("Corrupt", 500)):
            def fail(method: str, path: str, code: str = code, status: int = status) -> None:
                raise Refusal(status, code)

            self.agent.before = fail
            with self.assertRaises(holdfast.errors.ERROR_CLASSES[code]):
                run.latest()

    def test_a_summary_has_numbers_and_all_that_a_newer_agent_tells(self) -> None:
        run = self.connect()
        run.save(2**60, buffers={"a": b"12345"}).wait()
        found = run.latest()
        assert found is not None
        self.assertEqual((found.version, found.size_bytes, found.file_count), (2**60, 5, 1))
        self.assertEqual((found.is_latest, found.lineage), (True, "l1"))
        self.assertEqual(found.fields["aFieldOfANewerAgent"], True)
        self.assertEqual(run.files()[0].name, "a")
        self.assertEqual([one.version for one in run.versions(limit=1)], [2**60])

    def test_answers_that_are_no_checkpoints_are_protocol_errors(self) -> None:
        run = self.connect(writer=None)
        for answer in ({}, {"version": "x"}, {"version": None}):
            self.agent.before = lambda method, path: (200, answer)
            for call in (run.latest, run.versions, lambda: run.files(1)):
                with self.assertRaises(holdfast.ProtocolError):
                    call()


class Bytes(FakeAgentCase):
    DATA = bytes(range(256)) * 4096

    def setUp(self) -> None:
        super().setUp()
        self.run_ = self.connect()
        self.run_.save(5, buffers={"big": self.DATA, "empty": b""}).wait()

    def test_whole_files_and_ranges_go_straight_into_the_buffer(self) -> None:
        self.assertEqual(self.run_.read("big"), self.DATA)
        self.assertEqual(self.run_.read("empty", 5), b"")
        part = array.array("H", bytes(2000))
        self.run_.read_into(part, "big", 5, offset=300)
        self.assertEqual(part.tobytes(), self.DATA[300:2300])

    def test_reads_of_the_latest_name_the_version_that_was_latest_first(self) -> None:
        self.run_.read("big")
        (query,) = self.requests("GET", "/files")
        self.assertEqual((query["version"], query["lineage"]), ("5", "l1"))

    def test_a_read_begins_with_the_call_by_which_the_agent_holds_the_checkpoint(self) -> None:
        self.run_.read("big")
        self.run_.read("big", 5)
        with self.run_.open("big", 5) as stream:
            stream.read()
        self.assertEqual(len(self.requests("GET", "/v1/versions/latest")), 1)
        self.assertEqual(len(self.requests("GET", "/v1/versions/5")), 2)
        self.assertEqual(self.requests("GET", "/v1/latest"), [])
        # The lineage lets the agent find what it holds without another look at the store.
        self.assertEqual({query["lineage"] for query in self.requests("GET", "/files")}, {"l1"})

    def test_an_answer_that_is_cut_is_continued_where_it_ended(self) -> None:
        self.agent.cuts = [100_000, 1, 300_000]
        self.assertEqual(self.run_.read("big"), self.DATA)
        offsets = [int(query["offset"]) for query in self.requests("GET", "/files")]
        self.assertEqual(offsets, [0, 100_000, 100_001, 400_001])

    def test_the_rest_of_a_cut_answer_is_that_of_the_same_checkpoint(self) -> None:
        self.agent.cuts = [100_000, 1]
        self.run_.read_into(bytearray(len(self.DATA)), "big", 5)
        asked = [
            (query.get("lineage"), query.get("manifestKey")) for query in self.requests("GET", "/files")
        ]
        self.assertEqual(asked, [(None, None), ("l1", "manifests/l1"), ("l1", "manifests/l1")])

    def test_the_rest_of_another_checkpoint_is_a_protocol_error(self) -> None:
        def replaced(method: str, path: str) -> None:
            if path == "/v1/files" and self.requests("GET", "/files")[1:]:
                self.agent.lineage = "l2"

        self.agent.before = replaced
        self.agent.cuts = [100_000]
        with self.assertRaisesRegex(holdfast.ProtocolError, "bytes of another checkpoint"):
            self.run_.read_into(bytearray(len(self.DATA)), "big", 5)
        headers = {"Content-Length": "4"}
        with mock.patch.object(http.client.HTTPResponse, "getheader", lambda _, name: headers.get(name)):
            with self.assertRaisesRegex(holdfast.ProtocolError, "does not say of which checkpoint"):
                self.run_.read_into(bytearray(4), "big", 5)

    def test_an_answer_that_is_cut_at_the_same_byte_again_is_damage(self) -> None:
        self.agent.cuts = [1000, 0]
        with self.assertRaisesRegex(holdfast.Corrupt, "at byte 1000 of 'big' of version 5"):
            self.run_.read("big")
        self.agent.cuts = [0, 0]
        with self.assertRaises(holdfast.Corrupt):
            self.run_.read("big")
        self.assertEqual(self.run_.read("big"), self.DATA)

    def test_a_connection_that_ends_before_each_answer_is_damage_too(self) -> None:
        def end(method: str, path: str) -> None:
            if path == "/v1/files":
                raise ConnectionError

        self.agent.before = end
        with self.assertRaisesRegex(holdfast.Corrupt, "at byte 0 of 'big'"):
            self.run_.read("big")

    def test_an_agent_that_was_killed_twice_at_the_same_byte_is_no_damage(self) -> None:
        kills = [1, 2, 3]

        def die(method: str, path: str) -> None:
            if path == "/v1/files" and kills:
                self.agent.pid = kills.pop()
                raise ConnectionError

        self.agent.before = die
        self.assertEqual(self.run_.read("big"), self.DATA)

    def test_the_errors_of_a_read_are_those_of_the_agent(self) -> None:
        with self.assertRaises(holdfast.InvalidArgument):
            self.run_.read_into(bytearray(10), "big", offset=len(self.DATA) - 5)
        with self.assertRaises(holdfast.NotFound):
            self.run_.read("missing")
        with self.assertRaises(holdfast.NotFound):
            self.run_.read("big", 6)

    def test_a_length_that_was_not_asked_for_is_a_protocol_error(self) -> None:
        self.agent.before = lambda _, path: (200, b"123") if path == "/v1/files" else None
        with self.assertRaisesRegex(holdfast.ProtocolError, "3 bytes instead of 4"):
            self.run_.read_into(bytearray(4), "big")

    def test_odd_arguments_of_reads_are_refused_by_name_before_anything_is_sent(self) -> None:
        run, sent = self.run_, len(self.agent.requests)
        calls: list[tuple[Callable[[], Any], str]] = [
            (lambda: run.versions(0), "limit: expected 1 to"),
            (lambda: run.files("1"), "version: expected an integer"),  # type: ignore[arg-type]
            (lambda: run.read("big", -1), "version: expected 0 to"),
            (lambda: run.read(b"big"), "name: expected the name of a file"),  # type: ignore[arg-type]
            (lambda: run.read("\ud800"), "name: .* is not valid Unicode"),
            (lambda: run.read_into(bytearray(1), None), "name: expected"),  # type: ignore[arg-type]
            (lambda: run.read_into(bytearray(1), "big", 1.0), "version: expected"),  # type: ignore[arg-type]
            (lambda: run.read_into(bytearray(1), "big", 1, -1), "offset: expected 0 to"),
            (lambda: run.open("big", 2**63), "version: expected 0 to"),
            (lambda: run.load_arrays("x"), "version: expected"),  # type: ignore[arg-type]
            (lambda: run.pin(1, b"x"), "name: expected text"),  # type: ignore[arg-type]
            (lambda: run.unpin(1, ""), "name: expected text"),
            (lambda: run.request_save_model(3, 1), "trainer_id: expected text"),  # type: ignore[arg-type]
            (lambda: run.request_save_model("a", 0), "block_ms: expected 1 to"),
        ]
        for call, words in calls:
            with self.assertRaisesRegex(holdfast.InvalidArgument, f"^{words}"):
                call()
        self.assertEqual(len(self.agent.requests), sent)

    def test_a_buffer_that_cannot_be_filled_is_refused(self) -> None:
        for buffer in (b"bytes", memoryview(bytearray(8))[::2], "text", None):
            with self.assertRaisesRegex(holdfast.InvalidArgument, "^buffer: expected a writable"):
                self.run_.read_into(buffer, "big")  # type: ignore[arg-type]


class Arrays(FakeAgentCase):
    def setUp(self) -> None:
        super().setUp()
        self.run_ = self.connect()
        self.arrays: dict[str, array.array[Any]] = {
            "f": array.array("f", [1, 2, 3]),
            "d": array.array("d", [4, 5]),
            "g": array.array("f", [6]),
            "e": array.array("i"),
        }
        self.run_.save(1, arrays=self.arrays).wait()

    def test_without_numpy_they_are_views_of_the_right_type_and_shape(self) -> None:
        grid = memoryview(bytes(6)).cast("B", (2, 3))
        scalar = ctypes.c_int(7)
        self.run_.save(2, arrays={"grid": grid, "s": scalar, **self.arrays}).wait()
        with mock.patch.dict(sys.modules, numpy=None):
            got = self.run_.load_arrays()
        for name, value in self.arrays.items():
            self.assertEqual(got[name].tolist(), value.tolist())
        self.assertEqual((got["grid"].shape, got["grid"].format), ((2, 3), "B"))
        self.assertEqual(got["s"].tolist(), [7])

    def test_given_arrays_are_filled_in_place_and_neighbours_share_a_request(self) -> None:
        into = {
            name: array.array(value.typecode, bytes(len(value) * value.itemsize))
            for name, value in self.arrays.items()
        }
        before = len(self.requests("GET", "/files"))
        got = self.run_.load_arrays(into=into)
        self.assertIs(got["f"], into["f"])
        self.assertEqual(into, self.arrays)
        self.assertEqual(len(self.requests("GET", "/files")) - before, 2, "the header, and the elements")
        only: dict[str, Any] = {"d": array.array("d", [0, 0]), "g": array.array("f", [0])}
        self.run_.load_arrays(into=only)
        self.assertEqual((only["d"], only["g"]), (self.arrays["d"], self.arrays["g"]))

    def test_a_mapping_that_makes_its_values_when_it_is_asked_is_asked_once(self) -> None:
        class Made(dict[str, Any]):
            def items(self) -> Any:
                return ((name, array.array("d", [0, 0])) for name in ("d",))

        for _ in range(20):
            got = self.run_.load_arrays(into=Made(d=None))
            self.assertEqual(got["d"], self.arrays["d"])

    def test_arrays_that_share_memory_are_refused_and_views_side_by_side_are_not(self) -> None:
        self.run_.save(2, arrays={"a": b"aaaa", "b": b"bbbb", "none": b""}).wait()
        memory = memoryview(bytearray(8))
        with self.assertRaisesRegex(holdfast.InvalidArgument, "arrays 'a' and 'b' share memory"):
            self.run_.load_arrays(into={"b": memory[3:7], "a": memory[:4]})
        self.assertEqual(bytes(memory), bytes(8))
        self.run_.load_arrays(into={"b": memory[4:], "a": memory[:4], "none": memory[2:2]})
        self.assertEqual(bytes(memory), b"aaaabbbb")

    def test_names_of_the_same_memory_must_have_the_same_elements(self) -> None:
        self.run_.save(2, arrays={"a": b"same", "tied": b"same", "other": b"diff"}).wait()
        memory = memoryview(bytearray(4))
        self.run_.load_arrays(into={"tied": memory, "a": memory})
        self.assertEqual(bytes(memory), b"same")
        with self.assertRaisesRegex(holdfast.InvalidArgument, "'a' and 'other' are the same memory"):
            self.run_.load_arrays(into={"other": memory, "a": memory})

    def test_a_long_header_takes_a_second_request(self) -> None:
        arrays = {f"a-long-name-of-an-array-{number}": b"x" for number in range(2000)}
        self.run_.save(2, arrays=arrays).wait()
        self.assertEqual(len(self.run_.load_arrays()), 2000)

    def test_arrays_that_do_not_fit_are_refused_and_nothing_is_written(self) -> None:
        for value, words in (
            (array.array("d", [0, 0, 0]), r"is F64 \[3\], and the file has F32 \[3\]"),
            (array.array("f", [0, 0]), r"is F32 \[2\]"),
            (bytes(12), "writable, contiguous"),
            (Tensor(bytes(12), (3,), "float32", conjugate=True), "changed signs"),
            (memoryview(bytearray(24)).cast("f")[::2], "writable, contiguous"),
            ([0, 0, 0], "cannot be filled"),
        ):
            good = array.array("d", [0, 0])
            with self.assertRaisesRegex(holdfast.InvalidArgument, words):
                self.run_.load_arrays(into={"d": good, "f": value})
            self.assertEqual(good.tolist(), [0, 0])
        with self.assertRaisesRegex(holdfast.NotFound, "has no array 'x'"):
            self.run_.load_arrays(into={"x": array.array("f")})
        with self.assertRaises(holdfast.NotFound):
            self.run_.load_arrays(name="other")

    def test_files_that_are_not_safetensors_are_corrupt(self) -> None:
        def file(header: Any, body: bytes = b"", length: Optional[int] = None) -> bytes:
            text = header if isinstance(header, bytes) else json.dumps(header).encode()
            return struct.pack("<Q", len(text) if length is None else length) + text + body

        entry = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
        bad = [
            b"",
            b"short",
            file({}, length=200_000_000),
            file({}, length=3),
            file(b"no json"),
            file([]),
            file({"a": 1}),
            file({"a": {"dtype": "F32"}}),
            file({"a": {**entry, "shape": [2]}}, b"1234"),
            file({"a": {**entry, "shape": [-1]}}, b"1234"),
            file({"a": {**entry, "data_offsets": [4, 8]}}, b"12345678"),
            file({"a": entry, "b": entry}, b"1234"),
            file({"a": entry}, b"12345"),
            file({"a": entry}, b"12"),
        ]
        for version, data in enumerate(bad, 10):
            self.run_.save(version, buffers={"m": data}).wait()
            with self.assertRaises(holdfast.Corrupt, msg=repr(data)):
                self.run_.load_arrays(version, "m")

    def test_a_type_of_a_newer_format_is_given_as_bytes(self) -> None:
        header = json.dumps({"a": {"dtype": "F4", "shape": [4], "data_offsets": [0, 2]}}).encode()
        self.run_.save(3, buffers={"m": struct.pack("<Q", len(header)) + header + b"ab"}).wait()
        got = self.run_.load_arrays(3, "m")["a"]
        self.assertEqual(bytes(got), b"ab")


@unittest.skipIf(np is None, "numpy is not installed")
class NumpyArrays(FakeAgentCase):
    def test_arrays_come_back_as_they_were_saved(self) -> None:
        run = self.connect()
        arrays = {
            "grid": np.arange(12, dtype="f4").reshape(3, 4),
            "half": np.ones(3, "f2"),
            "flags": np.array([True, False]),
            "complex": np.array([1 + 2j], "c8"),
            "none": np.zeros((0, 3), "i8"),
            "scalar": np.array(5, "u2"),
        }
        run.save(1, arrays=arrays).wait()
        got = run.load_arrays()
        for name, value in arrays.items():
            self.assertEqual((got[name].dtype, got[name].shape), (value.dtype, value.shape))
            self.assertTrue(np.array_equal(got[name], value), name)
        into = {name: np.full_like(value, 9) for name, value in arrays.items()}
        run.load_arrays(into=into)
        for name, value in arrays.items():
            self.assertTrue(np.array_equal(into[name], value), name)

    def test_numpy_arrays_that_cannot_be_filled_are_refused(self) -> None:
        run = self.connect()
        run.save(1, arrays={"a": np.zeros((2, 2), "f4")}).wait()
        frozen = np.zeros((2, 2), "f4")
        frozen.flags.writeable = False
        for value in (frozen, np.zeros((4, 4), "f4")[::2, ::2], np.zeros((2, 2), ">f4")):
            with self.assertRaisesRegex(holdfast.InvalidArgument, "writable, contiguous"):
                run.load_arrays(into={"a": value})

    def test_bfloat16_without_a_package_for_it_is_bare_bytes(self) -> None:
        run = self.connect()
        header = json.dumps({"a": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
        run.save(1, buffers={"model.safetensors": struct.pack("<Q", len(header)) + header + b"abcd"}).wait()
        with mock.patch.dict(sys.modules, ml_dtypes=None):
            got = run.load_arrays()["a"]
        self.assertEqual((got.dtype, got.shape, got.tobytes()), (np.dtype("V2"), (2,), b"abcd"))


class Restores(FakeAgentCase):
    """The fake has no restores: each test says what the agent answers."""

    def setUp(self) -> None:
        super().setUp()
        self.answers: list[Any] = []
        self.run_ = self.connect(writer=None)
        self.agent.before = self.answer

    def answer(self, method: str, path: str) -> Optional[tuple[int, Any]]:
        if "/restores" not in path:
            return None
        if method == "DELETE":
            return 200, {}
        found = self.answers.pop(0)
        if isinstance(found, Refusal):
            raise found
        return 202, found

    DONE = {"state": "restored", "version": "7", "fileCount": 2, "sizeBytes": 10, "skipped": []}

    def test_a_restore_is_followed_until_its_end(self) -> None:
        self.answers = [{"state": "restoring"}, {"state": "restoring"}, self.DONE]
        got = self.run_.restore(self.path("to"), only=["a"], on_corrupt="fallback", replace=True)
        self.assertEqual(got, holdfast.Restored(7, 2, 10, ()))
        (request,) = self.requests("POST", "/restores")
        self.assertRegex(request.pop("restoreId"), "^[0-9a-f]{32}$")
        expected = {
            "uri": "file:///a/run",
            "version": "latest",
            "to": self.path("to"),
            "only": ["a"],
            "onCorrupt": "fallback",
            "replace": True,
        }
        self.assertEqual(request, expected)

    def test_a_directory_that_another_restore_fills_meanwhile_is_not_replaced(self) -> None:
        error = {"code": "TargetExists", "message": "it is not empty"}
        self.answers = [{"state": "failed", "error": error}, self.DONE]
        with self.assertRaises(holdfast.TargetExists):
            self.run_.restore(self.path("to"))
        self.assertEqual(len(self.requests("POST", "/restores")), 1)

    def test_a_restore_to_a_uri_is_refused(self) -> None:
        for to in ("file:///a/b", "s3:/bucket/run"):
            with self.assertRaisesRegex(holdfast.InvalidArgument, "to: expected the path of a directory"):
                self.run_.restore(to)
        self.assertEqual(self.requests("POST", "/restores"), [])

    def test_odd_arguments_of_a_restore_are_refused_by_name_before_anything_is_sent(self) -> None:
        for options, words in (
            ({"to": b"/bytes"}, "to: expected a path as str, got bytes"),
            ({"to": None}, "to: expected a path, got NoneType"),
            ({"to": ""}, "to: expected the path of a directory"),
            ({"to": "a\0b"}, "to: its path contains a zero byte"),
            ({"version": "7"}, "version: expected an integer"),
            ({"only": []}, "only: expected a list of names or globs, at least one"),
            ({"only": "a"}, "only: expected a list of names or globs"),
            ({"only": ["a", b"b"]}, r"only\[1\]: expected text"),
            ({"on_corrupt": b"fail"}, "on_corrupt: expected fail or fallback"),
            ({"replace": "everything"}, "replace: expected True or False"),
            ({"mtimes": 1}, "mtimes: expected True or False"),
        ):
            call: dict[str, Any] = {"to": self.path("to"), **options}
            with self.assertRaisesRegex(holdfast.InvalidArgument, f"^{words}", msg=str(options)):
                self.run_.restore(**call)
        self.assertEqual(self.requests("POST", "/restores"), [])

    def test_a_restarted_agent_is_asked_again_with_the_same_id(self) -> None:
        self.answers = [{"state": "restoring"}, Refusal(404, "NotFound"), self.DONE]
        self.run_.restore(self.path("to"), 7, mtimes=True)
        first, second = self.requests("POST", "/restores")
        self.assertEqual(first, second)

    def test_a_failure_is_the_error_that_the_agent_tells(self) -> None:
        for end, kind in (
            ({"state": "failed", "error": {"code": "Corrupt", "message": "m"}}, holdfast.Corrupt),
            ({"state": "cancelled", "error": None}, holdfast.Aborted),
            ({"state": "odd"}, holdfast.Unexpected),
            ({"state": "restored"}, holdfast.ProtocolError),
            (Refusal(404, "NotFound"), holdfast.NotFound),
        ):
            self.answers = [end]
            with self.assertRaises(kind):
                self.run_.restore(self.path("to"))
        self.assertEqual([one for one in self.agent.requests if one[0] == "DELETE"], [])

    def test_one_that_takes_too_long_is_stopped(self) -> None:
        self.answers = [{"state": "restoring"}] * 5
        with self.assertRaisesRegex(holdfast.TimedOut, "within 0 s; it was stopped"):
            self.run_.restore(self.path("to"), timeout=0)
        self.assertEqual(self.agent.requests[-1][0], "DELETE")

    def test_pins_and_annotations_send_what_was_given(self) -> None:
        self.agent.before = lambda method, path: (200, {})
        self.run_.pin(3, "best")
        self.run_.unpin(3, "best")
        self.run_.annotate(3, metrics={"acc": 1}, metadata={"k": "v"})
        uri = {"uri": "file:///a/run", "version": "3"}
        self.assertEqual(self.requests("POST", "/pins"), [{**uri, "name": "best"}])
        self.assertEqual(self.requests("DELETE", "/pins"), [{**uri, "name": "best"}])
        expected = {**uri, "metrics": {"acc": 1.0}, "metadata": {"k": "v"}}
        self.assertEqual(self.requests("POST", "/annotations"), [expected])


class Threads(FakeAgentCase):
    def test_many_threads_read_on_one_run(self) -> None:
        run = self.connect()
        run.save(1, buffers={"a": bytes(range(256)) * 400}).wait()
        results: list[bytes] = []
        threads = [threading.Thread(target=lambda: results.append(run.read("a"))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, [bytes(range(256)) * 400] * 8)
