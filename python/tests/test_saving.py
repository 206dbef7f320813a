"""Saves, their states and their failures."""

from __future__ import annotations

import array
import os
import threading
import time
from typing import Any
from unittest import mock

import holdfast
from holdfast._payload import Payload
from holdfast._writer import Writer

from .fake_agent import Refusal
from .support import TIMEOUT, FakeAgentCase


class Joining(FakeAgentCase):
    def test_a_run_joins_once_with_all_that_the_agent_asks_for(self) -> None:
        run = self.connect(attempt="a7", writer=(2, 5), retention={"keepLast": 3})
        run.save(1, buffers={"a": b"x"})
        (joined,) = self.requests("POST", "/writers")
        self.assertRegex(joined.pop("life"), "^[0-9a-f]{32}$")
        self.assertRegex(joined.pop("process"), rf"^{os.getpid()}-\d+-\d+-[0-9a-f-]{{36}}$")
        expected = {
            "uri": "file:///a/run",
            "attempt": "a7",
            "index": 2,
            "count": 5,
            "pid": os.getpid(),
            "clientVersion": holdfast.__version__,
            "retention": {"keepLast": 3},
        }
        self.assertEqual(joined, expected)

    def test_one_writer_draws_an_attempt_and_several_need_one(self) -> None:
        one, two = self.connect(), self.connect()
        self.assertRegex(one.attempt or "", "^[0-9a-f]{32}$")
        self.assertNotEqual(one.attempt, two.attempt)
        with self.assertRaisesRegex(holdfast.InvalidArgument, "HOLDFAST_ATTEMPT"):
            self.connect(writer=(0, 2))
        os.environ["HOLDFAST_ATTEMPT"] = "e1"
        self.assertEqual(self.connect(writer=(0, 2)).attempt, "e1")

    def test_a_run_that_only_reads_disturbs_no_writer(self) -> None:
        run = self.connect(writer=None)
        self.assertIsNone(run.latest())
        self.assertEqual(self.requests("POST", "/writers"), [])
        with self.assertRaisesRegex(holdfast.InvalidArgument, "opened to read"):
            run.save(1)

    def test_odd_arguments_are_refused_by_name_before_anything_is_sent(self) -> None:
        for options, words in (
            ({"uri": ""}, "uri"),
            ({"uri": 1}, "uri"),
            ({"writer": (1, 1)}, "writer"),
            ({"writer": (0, 1, 2)}, "writer"),
            ({"writer": "01"}, "writer"),
            ({"writer": (0.5, 1)}, "writer"),
            ({"attempt": " "}, "attempt"),
            ({"attempt": "x" * 257}, "attempt"),
            ({"attempt": 3}, "attempt"),
            ({"writer": None, "attempt": "a"}, "attempt and retention"),
            ({"timeout": 0}, "timeout"),
            ({"timeout": "5"}, "timeout"),
            ({"timeout": True}, "timeout"),
            ({"timeout": float("inf")}, "timeout"),
            ({"timeout": float("nan")}, "timeout"),
            ({"uri": "\ud800"}, "uri: .* is not valid Unicode"),
            ({"attempt": "\ud800"}, "attempt: .* is not valid Unicode"),
            ({"writer": (10**5000, 10**5001)}, "writer: expected an index below the count"),
            ({"start": 1}, "start: expected True or False"),
            ({"agent": 3}, "agent: expected a path, got int"),
            ({"agent": b"/s"}, "agent: expected a path as str, got bytes"),
            ({"stage": b"/s", "start": True}, "stage: expected a path as str"),
            ({"retention": 3}, "retention: expected a dict"),
            ({"retention": {"keepLast": b"3"}}, "retention: expected numbers, text"),
        ):
            call: dict[str, Any] = {"uri": "file:///x", "agent": self.agent.socket, **options}
            with self.assertRaisesRegex(holdfast.InvalidArgument, f"^{words}", msg=words):
                holdfast.connect(**call)
        self.assertEqual(self.agent.requests, [])

    def test_a_token_is_sent_with_each_request_and_never_shown(self) -> None:
        with open(self.path("token"), "w", encoding="ascii") as file:
            file.write("s3cret-token\n")
        os.environ["HOLDFAST_AGENT_TOKEN_FILE"] = self.path("token")
        run = self.connect()
        run.save(1, buffers={"a": b""}).wait()
        self.assertEqual(set(self.agent.tokens), {"Bearer s3cret-token"})
        self.assertNotIn("s3cret", f"{run!r} {run.__dict__}")

    def test_a_wrong_token_is_denied(self) -> None:
        def deny(method: str, path: str) -> None:
            raise Refusal(401, "Denied", "a bearer token is needed")

        self.agent.before = deny
        with self.assertRaisesRegex(holdfast.Denied, "bearer token"):
            self.connect()

    def test_a_token_file_that_holds_none_is_refused(self) -> None:
        os.environ["HOLDFAST_AGENT_TOKEN_FILE"] = self.path("token")
        with self.assertRaisesRegex(holdfast.InvalidConfig, "No such file"):
            self.connect()
        for text in (b"", b"two words", b"\xff\xfe", b"line\nline", b"x" * 5000):
            with open(self.path("token"), "wb") as file:
                file.write(text)
            with self.assertRaisesRegex(holdfast.InvalidConfig, "does not hold a token"):
                self.connect()


class Saving(FakeAgentCase):
    def test_files_buffers_and_arrays_arrive_as_they_are(self) -> None:
        with open(self.path("f"), "wb") as file:
            file.write(b"from a file")
        run = self.connect()
        numbers = array.array("i", [1, 2, 3])
        data = bytearray(b"mutable")
        handle = run.save(
            2**62,
            files={"a/f": self.path("f")},
            buffers={"b": data, "empty": b"", "n": memoryview(numbers)},
            arrays={"w": numbers},
            arrays_name="w.safetensors",
            metrics={"loss": 1},
            metadata={"k": "v"},
        )
        data[:] = b"changed"
        handle.wait()
        files = self.agent.committed[2**62]
        self.assertEqual(sorted(files), ["a/f", "b", "empty", "n", "w.safetensors"])
        self.assertEqual((files["a/f"], files["b"], files["empty"]), (b"from a file", b"mutable", b""))
        self.assertEqual(files["n"], numbers.tobytes())
        self.assertTrue(files["w.safetensors"].endswith(numbers.tobytes()))
        (request,) = self.requests("POST", "/saves")
        self.assertEqual(request["version"], str(2**62))
        self.assertEqual((request["metrics"], request["metadata"]), ({"loss": 1.0}, {"k": "v"}))
        self.assertEqual(handle.save_id, request["saveId"])

    def test_a_relative_path_is_of_this_process_not_of_the_agent(self) -> None:
        with open(self.path("f"), "wb") as file:
            file.write(b"1")
        here = os.getcwd()
        self.addCleanup(os.chdir, here)
        os.chdir(self.directory)
        self.connect().save(1, files={"f": "f"}).wait()
        self.assertEqual(self.agent.committed[1], {"f": b"1"})

    def test_odd_arguments_are_refused_by_name_before_anything_is_sent(self) -> None:
        run = self.connect()
        for options, words in (
            ({"version": -1}, "version"),
            ({"version": 2**63}, "version"),
            ({"version": "1"}, "version"),
            ({"version": True}, "version"),
            ({"version": 1.0}, "version"),
            ({"files": ["f"]}, "files"),
            ({"files": {"f": b"bytes"}}, "file 'f'"),
            ({"files": {"f": 3}}, "file 'f'"),
            ({"files": {"f": "a\0b"}}, "file 'f'"),
            ({"files": {"f": "\udcff"}}, "file 'f'"),
            ({"files": {"": "f"}}, "files"),
            ({"files": {3: "f"}}, "files"),
            ({"buffers": {"\ud800": b""}}, "buffers"),
            ({"buffers": {"b": "text"}}, "buffer 'b'"),
            ({"buffers": {"b": memoryview(b"abcd")[::2]}}, "buffer 'b'"),
            ({"buffers": {"b": b""}, "files": {"b": "/f"}}, "two files have the name 'b'"),
            ({"buffers": {"model.safetensors": b""}, "arrays": {}}, "two files"),
            ({"arrays": {"w": [1]}}, "array 'w'"),
            ({"arrays": {}, "arrays_name": ""}, "arrays_name"),
            ({"metrics": {"m": "x"}}, "metric 'm'"),
            ({"metrics": {"m": float("nan")}}, "metric 'm' is nan"),
            ({"metrics": {"m": 10**400}}, "metric 'm' is too large; expected a number that a float can hold"),
            ({"metrics": {"m": -(10**5000)}}, "metric 'm' is too large"),
            ({"metrics": {"m": type("Odd", (), {"__float__": lambda _: 1 // 0})()}}, "metric 'm': expected"),
            ({"version": 10**5000}, "version: expected 0 to .*, got a value of type int"),
            ({"timeout": 10**5000}, "timeout: expected seconds"),
            ({"sealed": 1}, "sealed: expected True or False"),
            ({"buffers": {"b": _released()}}, "buffer 'b' gives no view of its bytes"),
            ({"arrays": {"w": _released()}}, "array 'w' gives no view of its bytes"),
            ({"metrics": {"m": float("inf")}}, "metric 'm' is inf"),
            ({"metadata": {"m": 1}}, "metadata 'm'"),
            ({"metadata": [1]}, "metadata"),
            ({"when_busy": "later"}, "when_busy"),
        ):
            call: dict[str, Any] = {"version": 1, **options}
            with self.assertRaisesRegex(holdfast.InvalidArgument, f"^{words}", msg=words):
                run.save(**call)
        self.assertEqual(self.requests("POST", "/saves"), [])
        run.save(1, buffers={"a": b"1"}).wait()
        run.save(2, buffers={"a": b"1"}).wait()

    def test_a_refused_save_has_no_effect_and_its_segment_is_used_again(self) -> None:
        run = self.connect()
        refusals = iter(["Conflict", "InvalidArgument", "Denied"])

        def refuse(method: str, path: str) -> None:
            if path.endswith("/saves"):
                code = next(refusals, None)
                if code is not None:
                    raise Refusal(409, code, f"{code}!", token="t")

        self.agent.before = refuse
        for kind in (holdfast.Conflict, holdfast.InvalidArgument, holdfast.Denied):
            with self.assertRaises(kind) as caught:
                run.save(1, buffers={"a": b"1"})
            self.assertEqual(caught.exception.details, {"token": "t"})
        run.save(1, buffers={"a": b"1"}).wait()
        sources = [one["files"][0]["source"]["path"] for one in self.requests("POST", "/saves")]
        self.assertEqual(len(set(sources)), 1)

    def test_a_file_that_is_not_there_is_not_found_and_the_writer_stays(self) -> None:
        run = self.connect()
        with self.assertRaises(holdfast.NotFound):
            run.save(1, files={"f": self.path("missing")})
        self.assertEqual(len(self.requests("POST", "/writers")), 1)

    def test_one_file_of_the_agent_without_a_code_or_without_json_is_a_protocol_error(self) -> None:
        for status, answer in ((500, {}), (200, b"<html>"), (200, b"[]"), (202, {})):
            run = self.connect()
            self.agent.before = lambda _, path: (status, answer) if path.endswith("/saves") else None
            with self.assertRaises(holdfast.ProtocolError):
                run.save(1, buffers={"a": b"1"})
            self.agent.before = lambda _, path: None


class Waiting(FakeAgentCase):
    def setUp(self) -> None:
        super().setUp()
        self.agent.is_holding = True
        self.run_ = self.connect()

    def save(self, version: int = 1, **options: Any) -> holdfast.Handle:
        handle: holdfast.Handle = self.run_.save(version, **{"buffers": {"a": b"1"}, **options})
        return handle

    def test_staged_is_told_at_once_and_committed_only_by_the_state_of_that_name(self) -> None:
        handle = self.save()
        self.assertIs(handle.wait("staged", 0), handle)
        self.assertEqual((handle.state, handle.durability, handle.done()), ("accepted", "staged", False))
        with self.assertRaisesRegex(holdfast.TimedOut, "was not committed within 0 s; it continues"):
            handle.wait("committed", 0)
        # A durability that the state contradicts does not count.
        self.agent.saves[handle.save_id]["durability"] = "committed"
        self.assertEqual(handle.durability, "none")
        with self.assertRaises(holdfast.TimedOut):
            handle.wait(timeout=0.05)
        self.agent.finish(handle.save_id, "committed")
        self.assertEqual(handle.wait().durability, "committed")
        self.assertTrue(handle.done())
        self.assertIsNone(handle.error())

    def test_a_wait_ends_when_the_save_is_committed_meanwhile(self) -> None:
        handle = self.save()
        thread = threading.Timer(0.05, self.agent.finish, (handle.save_id, "committed"))
        thread.start()
        self.assertEqual(handle.wait(timeout=TIMEOUT).state, "committed")
        thread.join()

    def test_a_goal_of_another_name_is_refused(self) -> None:
        for goal in ("delivered", "", None):
            with self.assertRaisesRegex(holdfast.InvalidArgument, "until: expected staged or committed"):
                self.save().wait(goal)  # type: ignore[arg-type]
            self.agent.finish(self.requests("POST", "/saves")[-1]["saveId"], "committed")

    def test_each_end_without_a_commit_is_the_error_of_its_kind(self) -> None:
        for state, kind in (
            ("failed", holdfast.Unexpected),
            ("fenced", holdfast.Fenced),
            ("incomplete", holdfast.Incomplete),
            ("outcomeUnknown", holdfast.OutcomeUnknown),
            ("cancelled", holdfast.Aborted),
        ):
            handle = self.save()
            self.agent.finish(handle.save_id, state, missingWriters=[3])
            with self.assertRaises(kind) as caught:
                handle.wait()
            self.assertEqual(caught.exception.details, {"missingWriters": [3], "version": 1})
            with self.assertRaises(kind):
                handle.wait("staged")
            self.run_.latest()

    def test_the_error_that_the_agent_tells_counts(self) -> None:
        error = {"code": "SourceChanged", "message": "changed", "details": {"file": "a"}, "retryable": True}
        handle = self.save()
        self.agent.finish(handle.save_id, "failed", error=error)
        with self.assertRaisesRegex(holdfast.SourceChanged, "^changed$") as caught:
            handle.wait()
        self.assertTrue(caught.exception.retryable)
        self.assertIsInstance(handle.error(), holdfast.SourceChanged)

    def test_a_failure_surfaces_at_the_next_call_once(self) -> None:
        calls = [
            lambda: self.run_.save(9, buffers={"a": b"1"}),
            self.run_.latest,
            lambda: self.run_.versions(),
            lambda: self.run_.read("a"),
            lambda: self.run_.annotate(1, metrics={}),
            self.run_.close,
        ]
        for call in calls:
            self.agent.finish(self.save().save_id, "failed", error={"code": "Corrupt", "message": "m"})
            with self.assertRaises(holdfast.Corrupt):
                call()
            if call != self.run_.close:
                self.assertIsNone(self.run_.latest())
        self.assertEqual(len(self.requests("POST", "/saves")), len(calls), "a failed call sends nothing")

    def test_two_failures_surface_one_after_the_other(self) -> None:
        first, second = self.save(1), self.save(2)
        self.agent.finish(first.save_id, "failed", error={"code": "Denied", "message": "1"})
        self.agent.finish(second.save_id, "failed", error={"code": "StorageFull", "message": "2"})
        with self.assertRaises(holdfast.Denied):
            self.run_.latest()
        with self.assertRaises(holdfast.StorageFull):
            self.run_.latest()
        self.run_.latest()

    def test_the_error_of_a_block_hides_no_other_and_is_not_hidden(self) -> None:
        handle = self.save()
        with self.assertRaises(KeyError):
            with self.run_:
                self.agent.finish(handle.save_id, "failed", error={"code": "Denied", "message": "1"})
                raise KeyError

    def test_a_stopped_save_is_no_failure_of_the_next_call(self) -> None:
        handle = self.save()
        handle.cancel()
        self.assertEqual(handle.state, "cancelled")
        self.run_.latest()
        with self.assertRaises(holdfast.Aborted):
            handle.wait()

    def test_an_unsealed_save_takes_more_files_and_is_staged_when_it_is_sealed(self) -> None:
        handle = self.save(sealed=False)
        self.assertEqual((handle.state, handle.durability), ("open", "none"))
        with self.assertRaises(holdfast.TimedOut):
            handle.wait("staged", 0)
        handle.seal(buffers={"meta": b"data"}, metrics={"m": 1}).wait("staged")
        (request,) = self.requests("POST", "/seal")
        self.assertEqual(request["metrics"], {"m": 1.0})
        self.agent.finish(handle.save_id, "committed")
        handle.wait()
        self.assertEqual(self.agent.committed[1], {"a": b"1", "meta": b"data"})
        for _ in range(3):
            with self.assertRaisesRegex(holdfast.Conflict, "it is committed"):
                handle.seal(buffers={"late": b"data"})
        self.save(2), self.save(3)

    def test_a_refused_seal_can_be_repeated(self) -> None:
        handle = self.run_.save(1, buffers={"a": b"1"}, sealed=False)
        refusals = [Refusal(507, "StorageFull", "no room for the record")]

        def refuse(method: str, path: str) -> None:
            if path.endswith("/seal") and refusals:
                raise refusals.pop()

        self.agent.before = refuse
        with self.assertRaises(holdfast.StorageFull):
            handle.seal(buffers={"b": b"2"})
        self.agent.is_holding = False
        handle.seal(buffers={"b": b"3"}).wait()
        self.assertEqual(self.agent.committed, {1: {"a": b"1", "b": b"3"}})

    def test_a_save_whose_record_has_no_room_is_copied_to_another_segment(self) -> None:
        refusals = [Refusal(507, "StorageFull", "no room for the record")] * 3

        def refuse(method: str, path: str) -> None:
            if path.endswith("/saves") and refusals:
                raise refusals.pop()

        self.agent.before = refuse
        with self.assertRaises(holdfast.StorageFull):
            self.save(1)
        self.agent.is_holding = False
        self.run_.save(2, buffers={"a": b"22"}).wait()
        self.assertEqual(self.agent.committed, {2: {"a": b"22"}})
        paths = [one["files"][0]["source"]["path"] for one in self.requests("POST", "/saves")]
        self.assertEqual([os.path.exists(path) for path in paths], [False, False, False, True])
        self.assertEqual(len(set(paths)), 4)

    def test_a_seal_that_finds_no_segment_ends_in_time(self) -> None:
        one = self.save(1, sealed=False)
        self.save(2, sealed=False)
        self.run_._saver.timeout = 0.1
        with self.assertRaisesRegex(holdfast.TimedOut, "both segments"):
            one.seal(buffers={"b": b"data"})

    def test_when_both_segments_are_in_use_a_save_waits_skips_or_raises(self) -> None:
        one, two = self.save(1), self.save(2)
        self.assertIsNone(self.save(3, when_busy="skip"))
        with self.assertRaisesRegex(holdfast.Unavailable, "both segments") as caught:
            self.save(3, when_busy="raise")
        self.assertTrue(caught.exception.retryable)
        with self.assertRaises(holdfast.TimedOut):
            self.save(3, timeout=0.05)
        timer = threading.Timer(0.05, self.agent.finish, (two.save_id, "committed"))
        timer.start()
        three = self.save(3)
        timer.join()
        self.assertEqual((one.state, two.state, three.state), ("accepted", "committed", "accepted"))
        sources = [one["files"][0]["source"]["path"] for one in self.requests("POST", "/saves")]
        self.assertEqual(sources[2], sources[1])
        self.assertNotEqual(sources[0], sources[1])


    def test_news_that_could_not_be_fetched_are_fetched_again(self) -> None:
        saves = [self.save(1), self.save(2)]
        for save in saves:
            assert save is not None
            self.agent.finish(save.save_id, "committed")
        refusals = iter([Refusal(403, "Denied", "not now")])

        def refuse(method: str, path: str) -> None:
            if method == "GET" and len(path.split("/")) == 4 and "/writers/" in path:
                for refusal in refusals:
                    raise refusal

        self.agent.before = refuse
        with self.assertRaises(holdfast.Denied):
            for _ in range(100):
                self.run_.latest()
                time.sleep(0.05)
        third = self.save(3, timeout=TIMEOUT)
        assert third is not None
        self.assertEqual(third.version, 3)

    def test_a_deadline_is_told_to_the_agent_in_milliseconds(self) -> None:
        self.save(1, timeout=100)
        self.save(2)
        first, second = self.requests("POST", "/saves")
        self.assertTrue(90_000 < first["timeoutMs"] <= 100_000)
        self.assertNotIn("timeoutMs", second)

    def test_a_wait_blocks_no_other_thread(self) -> None:
        handle = self.save()
        thread = threading.Thread(target=handle.wait)
        thread.start()
        self.until(lambda: any(given.get("wait") for given in self.requests("GET", handle.save_id)))
        self.assertIsNone(self.run_.latest())
        two = self.save(2)
        self.agent.finish(two.save_id, "committed")
        two.wait()
        self.assertTrue(thread.is_alive())
        self.agent.finish(handle.save_id, "committed")
        thread.join(TIMEOUT)
        self.assertFalse(thread.is_alive())

    def test_a_close_waits_for_the_saves_that_other_threads_begin(self) -> None:
        for number in range(10):
            attempt, begun = f"a{number}", threading.Event()
            run = self.connect(attempt=attempt)
            handles: list[holdfast.Handle] = []
            errors: list[Exception] = []

            def work(first: int = 100 * number) -> None:
                try:
                    for version in range(first, first + 100):
                        handles.append(run.save(version, buffers={"a": b"1"}))
                        begun.set()
                except Exception as error:
                    errors.append(error)

            thread = threading.Thread(target=work)
            thread.start()
            self.assertTrue(begun.wait(TIMEOUT))
            run.close()
            thread.join(TIMEOUT)
            joins = [one for one in self.requests("POST", "/writers") if one["attempt"] == attempt]
            self.assertEqual(len(joins), 1, "it joined again, and would take over from itself")
            self.assertEqual([repr(error) for error in errors], ["InvalidArgument('the run is closed')"])
            told = {one["version"] for one in self.requests("POST", "/saves")}
            self.assertLessEqual({str(handle.version) for handle in handles}, told)

    def test_a_run_that_is_closed_in_the_middle_of_a_save_by_its_own_thread(self) -> None:
        """As a signal handler may do."""
        run = self.connect(attempt="own")
        began = time.monotonic()
        with mock.patch.object(Payload, "copy_into", side_effect=lambda _: run.close()):
            with self.assertRaisesRegex(holdfast.InvalidArgument, "the run is closed"):
                run.save(1, buffers={"a": b"1"})
        self.assertLess(time.monotonic() - began, 2)
        joins = [one["attempt"] for one in self.requests("POST", "/writers")]
        self.assertEqual(joins.count("own"), 1)
        self.assertEqual(self.requests("POST", "/saves"), [])

    def test_a_save_that_interrupts_two_saves_of_its_thread_has_no_segment_to_wait_for(self) -> None:
        """As signal handlers that save do."""
        self.agent.is_holding = False
        run = self.connect()
        copy_into, post = Payload.copy_into, Writer.post
        for moment, method in ((Payload, "copy_into"), (Writer, "post")):
            left = [2, 1]
            refused: list[BaseException] = []

            def interrupted(*arguments: Any) -> Any:
                if left:
                    version = 10 * left.pop()
                    try:
                        run.save(version, buffers={"a": b"1"})
                    except holdfast.HoldfastError as error:
                        refused.append(error)
                return (copy_into if moment is Payload else post)(*arguments)

            with self.subTest(method), mock.patch.object(moment, method, interrupted):
                run.save(30, buffers={"a": b"1"}).wait()
                self.assertEqual([type(error) for error in refused], [holdfast.Unsupported])
                self.assertIn("interrupts two others of its thread", str(refused[0]))
                run = self.connect(attempt=f"after-{method}")

    def test_many_threads_save_and_wait_on_one_run(self) -> None:
        self.agent.is_holding = False
        errors: list[BaseException] = []

        def work(first: int) -> None:
            try:
                for version in range(first, first + 10):
                    self.save(version, buffers={"a": b"%d" % version}).wait()
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(100 * number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(TIMEOUT)
        self.assertEqual(errors, [])
        expected = {100 * n + i: {"a": b"%d" % (100 * n + i)} for n in range(6) for i in range(10)}
        self.assertEqual(self.agent.committed, expected)

    def test_the_choice_of_the_segments_place_is_logged_with_its_reason(self) -> None:
        with self.assertLogs("holdfast", "INFO") as logged:
            self.save()
        self.assertIn("tmpfs (the test says so)", logged.output[0])

    def test_no_room_says_how_many_bytes_and_the_run_goes_on(self) -> None:
        with mock.patch("holdfast._segments.memory_available", return_value=0):
            with self.assertRaises(holdfast.NoStagingSpace) as caught:
                self.save()
        self.assertEqual(caught.exception.bytes_needed, 2 << 20)
        self.save()


class Closing(FakeAgentCase):
    def test_closing_leaves_and_unlinks_only_what_no_save_uses(self) -> None:
        run = self.connect()
        self.agent.is_holding = True
        done, going = run.save(1, buffers={"a": b"1"}), run.save(2, buffers={"a": b"2"})
        self.agent.finish(done.save_id, "committed")
        done.wait()
        run.close()
        run.close()
        self.assertEqual(len(self.agent.requests) and self.agent.requests[-1][0], "DELETE")
        (stage,) = [one for one in os.listdir(self.agent.directory) if one.startswith("w-")]
        (left,) = os.listdir(os.path.join(self.agent.directory, stage))
        source = self.requests("POST", "/saves")[1]["files"][0]["source"]
        self.assertEqual(source["path"], os.path.join(self.agent.directory, stage, left))
        self.until(lambda: self.agent.writers[stage]["events"] == [])
        self.assertEqual(done.state, "committed")
        with self.assertRaisesRegex(holdfast.InvalidArgument, "until its run is closed"):
            going.wait()
        for call in (run.latest, lambda: run.save(3), run.versions):
            with self.assertRaisesRegex(holdfast.InvalidArgument, "the run is closed"):
                call()

    def test_closing_without_an_agent_does_not_wait_for_one(self) -> None:
        run = self.connect()
        self.agent.vanish()
        begin = time.monotonic()
        run.close()
        self.assertLess(time.monotonic() - begin, TIMEOUT / 2)


def _released() -> memoryview:
    view = memoryview(b"1")
    view.release()
    return view
