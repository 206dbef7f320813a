"""Ranks and the agent are killed at places that a seed draws. No committed checkpoint is lost or mixed.

``HOLDFAST_TEST_LONG``: how many incarnations. ``HOLDFAST_TEST_SEED``: plays a failure again.
"""

from __future__ import annotations

import os
import random
import signal
import time
from typing import Any

from .ranks import RankFailed, World, WorldCase

SIZE = 3
_INCARNATIONS = int(os.environ.get("HOLDFAST_TEST_LONG") or 0) or 5
_SAVES = 3
_PLACES = ["begun", "copied", "delivered", "finishing", "posted"]
OK = ["ok", None]


class RandomEnds(WorldCase):
    SIZE = SIZE

    def test_nothing_that_was_committed_is_lost_or_mixed(self) -> None:
        seed = int(os.environ.get("HOLDFAST_TEST_SEED") or random.SystemRandom().getrandbits(32))
        self.random = random.Random(seed)
        self.committed: dict[int, int] = {}
        self.log: list[str] = []
        try:
            for _ in range(_INCARNATIONS):
                self.play()
        except (AssertionError, RankFailed):
            print(f"(seed {seed})", *self.log, sep="\n")
            raise
        self.assertGreater(len(self.committed), 0)

    def play(self) -> None:
        """One incarnation of the job: it loads, and saves until its end or its last step."""
        world = self.own_world(SIZE)
        try:
            step = self.check(world) + 1
            for step in range(step, step + _SAVES):
                if not self.save(world, step):
                    break
        finally:
            world.close()

    def check(self, world: World) -> int:
        """All ranks load the same whole checkpoint, at least the last one that was reported."""
        answers = world.call("load_latest_own", uri=self.uri, size=SIZE)
        self.log.append(f"loads {answers[0]}")
        newest = max(self.committed, default=0)
        if answers[0][0] == "NotFound":
            self.assertEqual((newest, answers), (0, [answers[0]] * SIZE))
            return 0
        self.assertEqual(answers, [answers[0]] * SIZE)
        version, seed, is_whole = answers[0][1]
        self.assertTrue(is_whole)
        self.assertGreaterEqual(version, newest)
        self.assertEqual(self.committed.setdefault(version, seed), seed)
        return int(version)

    def save(self, world: World, step: int) -> bool:
        """Whether the incarnation goes on."""
        seed = self.random.getrandbits(31)
        victim = self.random.choice(["none", "agent", "ranks", "ranks"])
        ranks = self.random.sample(range(SIZE), self.random.randint(1, SIZE))
        options: dict[str, Any] = {
            "uri": self.uri,
            "step": step,
            "seed": seed,
            "place": "" if victim == "none" else self.random.choice(_PLACES),
            "ranks": ranks[:1] if victim == "agent" else ranks,
            "pid": self.agent.pid if victim == "agent" else 0,
            "is_async": self.random.random() < 0.5,
        }
        self.log.append(f"saves {options}")
        for rank in world.ranks:
            rank.begin("ending_save", **options)
        is_dead = self.revive_agent(world) if victim == "agent" else False
        answers = [_answer(rank) for rank in world.ranks]
        self.log.append(f"{answers}, the agent {'was' if is_dead else 'was not'} killed")
        if OK in answers:
            self.assertEqual(self.committed.setdefault(step, seed), seed)
        # Without a failure of a rank, the save succeeds. It survives an agent that is started again.
        if victim != "ranks":
            self.assertEqual(answers, [OK] * SIZE)
        return answers == [OK] * SIZE

    def revive_agent(self, world: World) -> bool:
        """Starts the agent again, if the ranks reach the place where one of them kills it."""
        while self.agent.is_running():
            if all(rank.has_answered() for rank in world.ranks):
                return False
            time.sleep(0.01)
        self.agent.wait_for_end()
        self.agent.start()
        return True


def _answer(rank: Any) -> Any:
    try:
        return rank.end()
    except EOFError:
        rank.process.join()
        assert rank.process.exitcode == -signal.SIGKILL, rank.process.exitcode
        return "killed"
