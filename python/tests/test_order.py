"""A new agent gets the saves of a writer in the order in which the trainer began them."""

from __future__ import annotations

import threading
from typing import Any

from .fake_agent import Refusal
from .support import TIMEOUT, FakeAgentCase

# Longer than the client pauses between two tries.
_OVERTAKE_SECONDS = 1.0


class Order(FakeAgentCase):
    def setUp(self) -> None:
        super().setUp()
        self.agent.is_holding = True
        self.run_ = self.connect()

    def versions(self, since: int) -> list[int]:
        """Those that the agent was asked to save, without the first ``since`` requests."""
        posts = self.agent.requests[since:]
        return [int(body["version"]) for method, path, body in posts if _is_save(method, path)]

    def test_a_save_that_waits_for_the_next_agent_does_not_overtake_an_earlier_one(self) -> None:
        self.run_.save(1, buffers={"a": b"1"})
        has_come, is_over = threading.Event(), threading.Event()

        def keep(method: str, path: str) -> None:
            if _is_save(method, path):
                has_come.set()
                is_over.wait(TIMEOUT)
                raise Refusal(503, "Unavailable", "the agent was killed before it answered")

        self.agent.before = keep
        thread = threading.Thread(target=lambda: self.run_.save(2, buffers={"a": b"2"}))
        thread.start()
        self.assertTrue(has_come.wait(TIMEOUT))
        self.agent.vanish()
        since = len(self.agent.requests)
        has_overtaken = threading.Event()

        def let_overtake(method: str, path: str) -> None:
            if _is_save(method, path) and self.versions(since)[0] == 2:
                self.until(lambda: len(self.agent.writers) > 0)
                has_overtaken.set()
            elif path.rpartition("/")[0].endswith("/saves"):
                # The client asks whether the agent knows version 1, before it repeats the save.
                has_overtaken.wait(_OVERTAKE_SECONDS)

        self.agent.before = let_overtake
        self.agent.start()
        is_over.set()
        thread.join()
        self.assertEqual(self.versions(since)[:2], [1, 2])

    def test_saves_that_are_brought_stay_in_order_if_that_agent_is_killed_meanwhile(self) -> None:
        one = self.run_.save(1, buffers={"a": b"1"})
        two = self.run_.save(2, buffers={"a": b"2"})
        writers: dict[str, dict[str, Any]] = {
            name: {**writer, "events": [], "saves": []} for name, writer in self.agent.writers.items()
        }
        self.agent.vanish()
        since: list[int] = []

        def die(method: str, path: str) -> None:
            if path.endswith(f"/saves/{two.save_id}") and not since:
                since.append(len(self.agent.requests))
                self.agent.vanish()
                # The next one knows the writer from the record of another save.
                self.agent.writers.update(writers)
                self.agent.start()
                raise Refusal(503, "Unavailable", "the agent was killed before it answered")

        self.agent.before = die
        self.agent.start()
        self.assertEqual((one.state, two.state), ("accepted", "accepted"))
        self.assertEqual(self.versions(since[0]), [1, 2])


def _is_save(method: str, path: str) -> bool:
    return method == "POST" and path.endswith("/saves")
