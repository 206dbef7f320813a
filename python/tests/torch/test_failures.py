"""Failures that leave torn or mixed checkpoints elsewhere: of ranks, of the agent, of bytes."""

from __future__ import annotations

import os
import signal
from typing import Any

from .ranks import Rank, World, WorldCase, ended, wait_until

OK = ["ok", None]


class Failures(WorldCase):
    SIZE = 3

    def save(self, world: World, step: int, seed: int, **options: Any) -> list[Any]:
        return world.call("ending_save", uri=self.uri, step=step, seed=seed, **options)

    def begin_save(self, world: World, step: int, seed: int, **options: Any) -> None:
        for rank in world.ranks:
            rank.begin("ending_save", uri=self.uri, step=step, seed=seed, **options)

    def assert_latest(self, world: World, version: int, seed: int) -> None:
        answers = world.call("load_latest_own", uri=self.uri, size=3)
        self.assertEqual(answers, [["ok", [version, seed, True]]] * len(world.ranks))

    def assert_killed(self, rank: Rank) -> None:
        with self.assertRaises(EOFError):
            rank.end()
        rank.process.join()
        self.assertEqual(rank.process.exitcode, -signal.SIGKILL)

    def test_all_ranks_are_killed_in_mid_save(self) -> None:
        for number, place in enumerate(("begun", "copied", "delivered")):
            self.uri = f"{self.uri}-{place}"
            first = self.own_world(3)
            self.assertEqual(self.save(first, 1, 1), [OK] * 3)
            # A new version, and then a version that is there.
            step = 2 if number < 2 else 1
            self.begin_save(first, step, 50, place=place)
            for rank in first.ranks:
                self.assert_killed(rank)
            self.assert_latest(self.world, 1, 1)
            second = self.own_world(3)
            self.assertEqual(self.save(second, 2, 60), [OK] * 3)
            self.assert_latest(second, 2, 60)

    def test_a_version_that_is_there_is_never_replaced(self) -> None:
        self.assertEqual(self.save(self.world, 1, 1), [OK] * 3)
        answers = self.save(self.own_world(3), 1, 50)
        self.assertEqual([one[1] for one in answers[0][1]], ["Conflict"], answers)
        self.assert_latest(self.world, 1, 1)

    def test_ranks_are_killed_when_the_commit_was_handed_over(self) -> None:
        world = self.own_world(3)
        self.begin_save(world, 1, 5, place="posted", ranks=[0], number=signal.SIGSTOP)
        wait_until(lambda: _state(world.ranks[0].pid) == "T", "the stop of a rank")
        # A rank that saw the end of another one would give up its part.
        for rank in world.ranks:
            rank.signal(signal.SIGSTOP)
        world.close()
        run = self.run_of()
        wait_until(lambda: run.latest() is not None, "the commit by the agent", timeout=180)
        self.assert_latest(self.world, 1, 5)

    def test_the_agent_is_killed_while_saves_are_in_progress(self) -> None:
        self.assertEqual(self.save(self.world, 1, 1), [OK] * 3)
        for step, place in ((2, "copied"), (3, "delivered"), (4, "posted")):
            self.begin_save(self.world, step, step, place=place, ranks=[0], pid=self.agent.pid)
            self.agent.wait_for_end()
            self.agent.start()
            self.assertEqual(ended(self.world.ranks), [OK] * 3)
            self.assert_latest(self.world, step, step)

    def test_a_stopped_attempt_wakes_after_its_successor_has_saved(self) -> None:
        first = self.own_world(3)
        for place in ("copied", "delivered", "finishing"):
            self.uri = f"{self.uri}-{place}"
            stopped = first.ranks[0]
            self.begin_save(first, 7, 1, place=place, ranks=[0], number=signal.SIGSTOP)
            wait_until(lambda: _state(stopped.pid) == "T", "the stop of a rank")
            second = self.own_world(3)
            self.assertEqual(self.save(second, 7, 2), [OK] * 3)
            stopped.signal(signal.SIGCONT)
            for answer in ended(first.ranks):
                self.assertEqual(answer[0], "CheckpointException", place)
                self.assertEqual({one[1] for one in answer[1]}, {"Fenced"}, answer)
            self.assert_latest(second, 7, 2)
            second.close()

    def test_a_rank_that_hangs_is_named_and_the_next_save_succeeds(self) -> None:
        arguments: dict[str, Any] = {"uri": self.uri, "step": 1, "directory": self.directory}
        # It makes the writer.
        self.assertEqual(self.world.call("save_with_clock", **arguments), [OK] * 3)
        for step, hung in ((1, 2), (2, 0), (3, 1)):
            waiting = [rank for rank in range(3) if rank != hung]
            directory = self.path(f"clock-{step}")
            os.mkdir(directory)
            arguments.update(step=10 * step, directory=directory)
            for rank in waiting:
                self.world.ranks[rank].begin("save_with_clock", **arguments)
            wait_until(
                lambda: all(os.path.exists(f"{directory}/waits-{rank}") for rank in waiting),
                "the wait of the other ranks",
            )
            for rank in waiting if hung == 0 else [0]:
                open(f"{directory}/over-{rank}", "w").close()
            answers = ended([self.world.ranks[rank] for rank in waiting])
            answers += self.world.call("save_with_clock", only=[hung], **arguments)
            text = f"rank {hung} of 3 did not begin the save in time"
            for answer in answers:
                self.assertEqual(answer[0], "Incomplete")
                self.assertIn(text, answer[1])
            arguments.update(step=10 * step + 1, directory=self.directory)
            self.assertEqual(self.world.call("save_with_clock", **arguments), [OK] * 3)
            self.assert_latest(self.world, 10 * step + 1, 10 * step + 1)

    def test_a_rank_that_dies_ends_the_save_of_the_others(self) -> None:
        for place in ("begun", "delivered"):
            world = self.own_world(3)
            self.begin_save(world, 1, 1, place=place, ranks=[1])
            self.assert_killed(world.ranks[1])
            for answer in ended([world.ranks[0], world.ranks[2]]):
                self.assertNotEqual(answer[0], "ok")
            self.assertEqual(self.run_of().latest(), None)
            world.close()

    def test_a_changed_byte_is_named(self) -> None:
        self.assertEqual(self.save(self.world, 1, 1), [OK] * 3)
        files = {file.name: file.key for file in self.run_of().files(1)}
        objects = next(name for name in files if name.endswith(".objects"))
        for name in ("rank-00001.safetensors", objects, "metadata.json"):
            path = f"{self.uri.removeprefix('file://')}/{files[name]}"
            _flip(path)
            for answer in self.world.call("load_latest_own", uri=self.uri, size=3):
                found = answer[1][0][1:] if answer[0] == "CheckpointException" else answer
                self.assertEqual(found[0], "Corrupt", answer)
                self.assertIn(name, found[1])
            _flip(path)
        self.assert_latest(self.world, 1, 1)

    def test_two_saves_in_progress_are_committed_in_order(self) -> None:
        answers = self.world.call("saves_in_flight", uri=self.uri, count=10)
        for rank, (ended_as, asked) in enumerate(answers):
            self.assertEqual(ended_as, [OK] * 20)
            # The part of rank 0 waits, unless the earlier save has ended already.
            self.assertEqual(any(asked), rank == 0, asked)
            self.assertFalse(any(asked[::2]), asked)
        self.assertEqual([one.version for one in self.run_of().versions()], [*range(20, 0, -1)])

    def test_a_failure_that_no_later_save_raises_is_logged(self) -> None:
        name, lines = self.world.call("close_after_a_failure", uri=self.uri)[0]
        self.assertEqual(name, "Conflict")
        self.assertEqual(len(lines), 1)
        self.assertIn("version 1 was not saved: ", lines[0])

    def test_a_copy_that_fails_on_a_rank_commits_nothing(self) -> None:
        for step, rank in ((1, 0), (3, 2)):
            for answer in self.world.call("save_without_room", uri=self.uri, step=step, rank=rank):
                self.assertEqual(answer, ["CheckpointException", [[rank, "OSError", "[Errno 28] No space left on device"]]])
            self.assertEqual(self.save(self.world, step + 1, step), [OK] * 3)
            self.assertEqual(self.run_of().versions()[0].version, step + 1)
            self.assert_latest(self.world, step + 1, step)
        self.assertEqual([one.version for one in self.run_of().versions()], [4, 2])


def _state(pid: int) -> str:
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rpartition(")")[2].split()[0]


def _flip(path: str) -> None:
    """The last byte of a file. Files of a run are read-only."""
    os.chmod(path, 0o600)
    with open(path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_END)
        file.write(bytes([byte ^ 1]))
