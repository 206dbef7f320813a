"""An agent that goes away and comes back loses no save."""

from __future__ import annotations

import os
import threading
import time
import warnings
from typing import Any

import holdfast

from .fake_agent import FINAL, FakeAgent, Refusal
from .support import TIMEOUT, FakeAgentCase


class Reconnecting(FakeAgentCase):
    def setUp(self) -> None:
        super().setUp()
        self.run_ = self.connect()

    def test_a_call_after_a_restart_does_not_notice_it(self) -> None:
        self.run_.save(1, buffers={"a": b"1"}).wait()
        self.agent.vanish()
        self.agent.start()
        latest = self.run_.latest()
        self.assertEqual(latest and latest.version, 1)
        self.run_.save(2, buffers={"a": b"2"}).wait()
        lives = {one["life"] for one in self.requests("POST", "/writers")}
        self.assertEqual((len(lives), len(self.requests("POST", "/writers"))), (1, 2))

    def test_a_second_agent_that_takes_the_socket_over_while_the_first_runs_is_joined(self) -> None:
        self.agent.is_holding = True
        handle = self.run_.save(1, buffers={"a": b"1"})
        second = FakeAgent()
        self.addCleanup(second.close)
        os.rename(second.socket, self.agent.socket)
        # The next calls make connections of their own, as calls of several threads do.
        self.run_._saver._link.close()
        self.run_.save(2, buffers={"a": b"2"}).wait()
        handle.wait()
        self.assertEqual(second.committed, {1: {"a": b"1"}, 2: {"a": b"2"}})
        self.assertLess(len(second.requests), 40)

    def test_unfinished_saves_are_repeated_with_their_ids_from_the_same_segments(self) -> None:
        self.agent.is_holding = True
        one = self.run_.save(1, buffers={"a": b"1"}, metrics={"m": 1})
        two = self.run_.save(2, buffers={"a": b"2"}, sealed=False)
        two.seal(buffers={}, metrics={"m": 2})
        self.agent.vanish()
        self.agent.start()
        self.assertEqual((one.state, two.state), ("accepted", "accepted"))
        posts = self.requests("POST", "/saves")
        self.assertEqual([{**post, "isRepeated": True} for post in posts[:2]], posts[2:])
        seals = self.requests("POST", "/seal")
        self.assertEqual((len(seals), seals[0]), (2, seals[1]))
        for handle in (one, two):
            self.agent.finish(handle.save_id, "committed")
            handle.wait()
        self.assertEqual(self.agent.committed, {1: {"a": b"1"}, 2: {"a": b"2"}})

    def test_a_save_that_a_restarted_agent_goes_on_with_is_not_repeated(self) -> None:
        self.agent.is_holding = True
        handle = self.run_.save(1, buffers={"a": b"1"}, sealed=False)
        handle.seal(buffers={"b": b"2"})
        known = dict(self.agent.saves)
        self.agent.vanish()
        self.agent.saves.update(known)
        self.agent.start()
        self.assertEqual(handle.state, "accepted")
        self.assertEqual(len(self.requests("POST", "/saves")), 1)
        self.assertEqual(len(self.requests("POST", "/seal")), 1)

    def test_a_trainer_that_makes_no_call_has_its_staged_saves_repeated_all_the_same(self) -> None:
        self.agent.is_holding = True
        handle = self.run_.save(1, buffers={"a": b"1"})
        self.agent.vanish()
        self.agent.is_holding = False
        self.agent.start()
        self.until(lambda: self.agent.committed == {1: {"a": b"1"}})
        self.assertEqual(handle.wait().state, "committed")
        # Without a save in progress there is nothing to bring.
        joined = len(self.requests("POST", "/writers"))
        self.agent.vanish()
        self.agent.start()
        self.assertEqual(len(self.requests("POST", "/writers")), joined)

    def test_staged_saves_are_repeated_also_if_the_agent_stays_away_for_longer_than_a_turn(self) -> None:
        from holdfast import _keeper

        _keeper._TURN_SECONDS, saved = 0.05, _keeper._TURN_SECONDS
        self.addCleanup(setattr, _keeper, "_TURN_SECONDS", saved)
        self.agent.is_holding = True
        self.run_.save(1, buffers={"a": b"1"})
        with self.assertLogs("holdfast", "DEBUG") as logs:
            self.agent.vanish()
            self.until(lambda: any("not back yet" in line for line in logs.output))
        self.agent.is_holding = False
        self.agent.start()
        self.until(lambda: self.agent.committed == {1: {"a": b"1"}})

    def test_a_run_that_is_dropped_without_closing_ends(self) -> None:
        import gc

        from holdfast import _keeper

        _keeper._LOOK_SECONDS, saved = 0.05, _keeper._LOOK_SECONDS
        self.addCleanup(setattr, _keeper, "_LOOK_SECONDS", saved)
        run = holdfast.connect("file:///b", agent=self.agent.socket)
        run.save(1, buffers={"a": b"1"}).wait()
        (writer,) = [one for one in self.agent.writers.values() if one["join"]["uri"] == "file:///b"]
        self.until(lambda: len(writer["events"]) == 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            del run
            gc.collect()
            self.until(lambda: writer["events"] == [])

    def test_a_save_whose_writer_another_thread_joins_again_meanwhile_is_begun_once(self) -> None:
        writer = self.run_._saver.writer()
        assert writer is not None
        races = [True]

        def race(method: str, path: str) -> None:
            if path.endswith("/saves") and races:
                races.clear()
                # As the thread that watches for the agent's end, just before this answer.
                writer._leave_events()
                writer.ensure(time.monotonic() + TIMEOUT)
                raise Refusal(404, "NotFound", "this agent does not know the writer")

        self.agent.before = race
        self.run_.save(1, buffers={"a": b"1"}).wait()
        ids = {one["saveId"] for one in self.requests("POST", "/saves")}
        self.assertEqual((len(ids), self.agent.committed), (1, {1: {"a": b"1"}}))

    def _remove_segments(self) -> int:
        """As an agent that takes this process for ended. Returns how many there were."""
        (writer_id,) = self.agent.writers
        stage = os.path.join(self.agent.directory, writer_id)
        names = os.listdir(stage)
        for name in names:
            os.unlink(os.path.join(stage, name))
        return len(names)

    def test_segments_that_the_agent_has_removed_are_made_anew(self) -> None:
        self.run_.save(1, buffers={"a": b"1"}).wait()
        self.assertEqual(self._remove_segments(), 1)
        self.run_.save(2, buffers={"a": b"2"}).wait()
        self.assertEqual(len(self.requests("POST", "/saves")), 2)
        self.assertEqual(self.agent.committed[2], {"a": b"2"})

    def test_a_segment_that_the_agent_removes_during_the_save_is_copied_once_more(self) -> None:
        removed: list[int] = []

        def remove(method: str, path: str) -> None:
            if path.endswith("/saves") and not removed:
                removed.append(self._remove_segments())

        self.agent.before = remove
        self.run_.save(1, buffers={"a": b"1"}).wait()
        self.assertEqual((removed, self.agent.committed), ([1], {1: {"a": b"1"}}))

    def test_a_file_that_is_missing_is_asked_for_once(self) -> None:
        with self.assertRaises(holdfast.NotFound):
            self.run_.save(1, files={"f": self.path("missing")}, buffers={"a": b"1"})
        self.assertEqual(len(self.requests("POST", "/saves")), 1)

    def test_saves_that_were_not_brought_when_the_time_was_over_are_brought_later(self) -> None:
        self.agent.is_holding = True
        handle = self.run_.save(1, buffers={"a": b"1"})
        writer = self.run_._saver.writer()
        assert writer is not None
        self.agent.vanish()
        is_silent = [True]

        def be_silent(method: str, path: str) -> None:
            if path.endswith(handle.save_id) and is_silent[0]:
                raise Refusal(503, "Unavailable", isStopping=True)

        self.agent.before = be_silent
        self.agent.start()
        with self.assertRaises(holdfast.Unavailable):
            writer.ensure(time.monotonic() + 0.2)
        self.assertTrue(writer.is_connected())
        is_silent[0] = False
        self.assertEqual(handle.state, "accepted")
        self.assertEqual(len(self.requests("POST", "/saves")), 2)

    def _restart_at(self, ends: str, count: int) -> None:
        """A new agent, which the thread that watches has just joined, each time the old answers."""
        writer = self.run_._saver.writer()
        assert writer is not None
        left = [count]
        joining = threading.Lock()

        def race(method: str, path: str) -> None:
            # Joining sends the same requests.
            if path.endswith(ends) and left[0] > 0 and not joining.locked():
                left[0] -= 1
                with joining:
                    writer._leave_events()
                    writer.ensure(time.monotonic() + TIMEOUT)
                raise Refusal(404, "NotFound", "the old agent, or the new one, does not know it yet")

        self.agent.before = race

    def test_a_save_is_not_taken_for_forgotten_while_another_thread_brings_it_to_new_agents(
        self,
    ) -> None:
        self.agent.is_holding = True
        handle = self.run_.save(1, buffers={"a": b"1"})
        self._restart_at(handle.save_id, 3)
        self.assertEqual(handle.state, "accepted")
        self.agent.finish(handle.save_id, "committed")
        handle.wait()

    def test_a_seal_that_meets_a_new_agent_is_repeated_there(self) -> None:
        handle = self.run_.save(1, buffers={"a": b"1"}, sealed=False)
        self._restart_at("/seal", 2)
        handle.seal(buffers={"b": b"2"}).wait()
        self.assertEqual(self.agent.committed, {1: {"a": b"1", "b": b"2"}})

    def test_a_cancel_that_meets_a_new_agent_is_repeated_there(self) -> None:
        self.agent.is_holding = True
        handle = self.run_.save(1, buffers={"a": b"1"})
        self._restart_at(handle.save_id, 2)
        handle.cancel()
        self.assertEqual(handle.state, "cancelled")

    def test_a_segment_of_a_save_that_the_agent_has_forgotten_is_never_used_again(self) -> None:
        self.agent.is_holding = True
        handle = self.run_.save(1, buffers={"a": b"1"})
        del self.agent.saves[handle.save_id]
        self.agent.writers[next(iter(self.agent.writers))]["saves"].clear()
        with self.assertRaises(holdfast.OutcomeUnknown):
            handle.wait()
        for version in (2, 3):
            self.run_.save(version, buffers={"a": b"%d" % version})
        paths = [one["files"][0]["source"]["path"] for one in self.requests("POST", "/saves")]
        self.assertEqual(len(set(paths)), 3)

    def test_leaving_ends_the_stream_although_a_thread_waits_for_its_end(self) -> None:
        from holdfast import _keeper

        # Otherwise it would end when that thread looks again.
        _keeper._LOOK_SECONDS, saved = 1000.0, _keeper._LOOK_SECONDS
        self.addCleanup(setattr, _keeper, "_LOOK_SECONDS", saved)
        self.run_.save(1, buffers={"a": b"1"}).wait()
        (writer,) = self.agent.writers.values()
        self.until(lambda: len(writer["events"]) == 1)
        self.run_.close()
        self.until(lambda: writer["events"] == [])

    def test_finished_saves_are_not_repeated(self) -> None:
        self.run_.save(1, buffers={"a": b"1"}).wait()
        self.agent.vanish()
        self.agent.start()
        self.run_.save(2, buffers={"a": b"2"}).wait()
        self.assertEqual(len(self.requests("POST", "/saves")), 2)

    def test_a_wait_survives_the_restart(self) -> None:
        self.agent.is_holding = True
        handle = self.run_.save(1, buffers={"a": b"1"})

        def restart() -> None:
            self.until(lambda: any(given.get("wait") for given in self.requests("GET", handle.save_id)))
            self.agent.vanish()
            time.sleep(0.05)
            self.agent.is_holding = False
            self.agent.start()

        thread = threading.Thread(target=restart)
        thread.start()
        handle.wait(timeout=TIMEOUT)
        thread.join()
        self.assertEqual(self.agent.committed, {1: {"a": b"1"}})

    def test_a_save_that_cannot_be_repeated_fails_and_says_why(self) -> None:
        with open(self.path("f"), "wb") as file:
            file.write(b"1")
        self.agent.is_holding = True
        handle = self.run_.save(1, files={"f": self.path("f")})
        os.unlink(self.path("f"))
        self.agent.vanish()
        self.agent.start()
        with self.assertRaises(holdfast.NotFound):
            self.run_.latest()
        self.assertEqual(handle.state, "failed")

    def test_a_connection_that_breaks_in_mid_answer_is_repeated_by_its_id(self) -> None:
        broken: list[str] = []

        def cut(method: str, path: str) -> Any:
            if path.endswith("/saves") and not broken:
                broken.append(path)
                server = self.agent._server
                assert server is not None
                # The last connection that was opened may be another; all of them break.
                for connection in list(server.connections):
                    try:
                        connection.shutdown(2)
                    except OSError:
                        pass
            return None

        self.agent.before = cut
        self.run_.save(1, buffers={"a": b"1"}).wait()
        ids = [one["saveId"] for one in self.requests("POST", "/saves")]
        self.assertGreater(len(ids), 1)
        self.assertEqual(len(set(ids)), 1)

    def test_connections_that_the_agent_has_closed_while_idle_are_not_used(self) -> None:
        self.run_.latest()
        for connection in self.run_._link._idle:
            assert connection.sock is not None
            connection.sock.shutdown(2)
        self.assertIsNone(self.run_.latest())

    def test_an_agent_that_stays_away_is_told_after_the_timeout(self) -> None:
        run = self.connect(timeout=0.2)
        handle = run.save(1, buffers={"a": b"1"})
        self.agent.vanish()
        for call in (run.latest, lambda: run.save(2, buffers={"a": b"2"})):
            begin = time.monotonic()
            with self.assertRaises(holdfast.AgentUnavailable):
                call()
            self.assertLess(time.monotonic() - begin, TIMEOUT)
        self.agent.start()
        self.assertEqual(handle.wait().state, "committed")

    def test_an_agent_that_does_not_answer_is_told_after_the_timeout(self) -> None:
        run = self.connect(timeout=0.2)
        stop = threading.Event()
        self.addCleanup(stop.set)

        def be_silent(method: str, path: str) -> None:
            stop.wait(TIMEOUT)

        self.agent.is_holding = True
        handle = self.run_.save(1, buffers={"a": b"1"})
        self.agent.before = be_silent
        with self.assertRaises(holdfast.AgentUnavailable):
            run.latest()
        with self.assertRaises(holdfast.TimedOut):
            handle.wait(timeout=0.1)

    def test_a_segment_that_a_silent_agent_may_read_is_never_used_again(self) -> None:
        run = self.connect(timeout=0.2)
        stop = threading.Event()
        self.addCleanup(stop.set)
        silent = [True]

        def wait(method: str, path: str) -> None:
            if path.endswith("/saves") and silent[0]:
                stop.wait(TIMEOUT)

        self.agent.before = wait
        with self.assertRaises(holdfast.AgentUnavailable):
            run.save(1, buffers={"a": b"1"})
        silent[0] = False
        run.save(2, buffers={"a": b"2"})
        first, *_, last = self.requests("POST", "/saves")
        paths = [one["files"][0]["source"]["path"] for one in (first, last)]
        self.assertNotEqual(*paths)
        self.assertFalse(os.path.exists(paths[0]))

    def test_a_save_that_the_agent_has_forgotten_has_an_unknown_outcome(self) -> None:
        self.agent.is_holding = True
        handle = self.run_.save(1, buffers={"a": b"1"})
        del self.agent.saves[handle.save_id]
        self.agent.writers[next(iter(self.agent.writers))]["saves"].clear()
        with self.assertRaisesRegex(holdfast.OutcomeUnknown, "no longer knows the save of version 1"):
            handle.wait()

    def test_a_writer_that_is_fenced_when_it_joins_again_says_so_at_each_call(self) -> None:
        self.agent.is_holding = True
        handle = self.run_.save(1, buffers={"a": b"1"})
        self.agent.vanish()

        def fence(method: str, path: str) -> None:
            if path == "/v1/writers":
                raise Refusal(409, "Fenced", overtakenBy="attempt")

        # The keeper may be the first to join again.
        self.agent.before = fence
        self.agent.start()
        for call in (handle.wait, self.run_.latest, lambda: self.run_.save(2)):
            with self.assertRaises(holdfast.Fenced) as caught:
                call()
            self.assertEqual(caught.exception.details, {"overtakenBy": "attempt"})

    def test_a_server_that_is_no_agent_is_told_at_once(self) -> None:
        for answer in ((200, b"\x00\x01"), (404, b"not found")):
            self.agent.before = lambda method, path: answer
            with self.assertRaises(holdfast.ProtocolError):
                self.connect()

    def test_an_agent_that_stops_is_unavailable(self) -> None:
        self.agent.before = lambda method, path: (503, {"status": "stopping"})
        with self.assertRaisesRegex(holdfast.Unavailable, "the agent is stopping"):
            self.connect(timeout=0.2)
        self.agent.before = lambda method, path: None

    def test_each_call_waits_for_the_successor_of_an_agent_that_stops(self) -> None:
        self.run_.save(1, buffers={"a": b"1"}).wait()
        refused: list[str] = []

        def stop(method: str, path: str) -> None:
            if path.endswith("/events") or path in refused:
                return
            refused.append(path)
            raise Refusal(503, "Unavailable", "the agent stops", isStopping=True)

        self.agent.before = stop
        handle = self.run_.save(2, buffers={"a": b"2"}).wait()
        self.assertEqual(self.run_.read("a", 2), b"2")
        latest = self.run_.latest()
        self.assertEqual((latest and latest.version, handle.state), (2, "committed"))
        kinds = {path.rpartition("/")[2] for path in refused}
        self.assertLessEqual({"saves", "files", "latest", "2"}, kinds)

    def test_an_unavailable_store_is_told_at_once(self) -> None:
        def refuse(method: str, path: str) -> None:
            raise Refusal(503, "Unavailable", "the store does not answer")

        self.agent.before = refuse
        with self.assertRaisesRegex(holdfast.Unavailable, "the store does not answer"):
            self.run_.latest()
        self.assertEqual(len(self.requests("GET", "/v1/latest")), 1)

    def test_a_segment_of_a_save_that_a_stopping_agent_refuses_is_never_used_again(self) -> None:
        run = self.connect(timeout=0.2)
        stopping = [True]

        def stop(method: str, path: str) -> None:
            if path.endswith("/saves") and stopping[0]:
                raise Refusal(503, "Unavailable", "the agent stops", isStopping=True)

        self.agent.before = stop
        # An earlier try may have reached the agent, and its answer was lost.
        with self.assertRaises(holdfast.Unavailable):
            run.save(1, buffers={"a": b"1"})
        stopping[0] = False
        run.save(2, buffers={"a": b"2"})
        first, *_, last = self.requests("POST", "/saves")
        paths = [one["files"][0]["source"]["path"] for one in (first, last)]
        self.assertNotEqual(*paths)

    def test_states_of_a_newer_agent_are_in_progress(self) -> None:
        self.agent.is_holding = True
        handle = self.run_.save(1, buffers={"a": b"1"})
        self.agent.finish(handle.save_id, "polishing")
        self.assertNotIn("polishing", FINAL)
        self.assertEqual((handle.state, handle.done()), ("polishing", False))
        self.agent.finish(handle.save_id, "committed")
        handle.wait()
