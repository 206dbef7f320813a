"""Threads of one process that save to one run, or load from it, at the same time."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import Future
from typing import Any, Callable
from unittest import mock

from holdfast.errors import InvalidArgument, NotFound, TimedOut, Unsupported

from ..real_agent import RealAgentCase
from .ranks import require_torch

require_torch()

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner

import holdfast.torch as hdcp
from holdfast.torch._writers import writer_of


class Between(DefaultSavePlanner):
    """Does something in the middle of a save, between two steps of the writer."""

    def __init__(self, do: Callable[[], Any]) -> None:
        super().__init__()
        self._do = do

    def create_local_plan(self) -> Any:
        self._do()
        return super().create_local_plan()


def state_of(version: int) -> dict[str, torch.Tensor]:
    return {"w": torch.full((4,), float(version))}


class Threads(RealAgentCase):
    def setUp(self) -> None:
        super().setUp()
        # DCP says that it runs alone.
        self.ignore_warnings(UserWarning)
        self.writer = hdcp.Writer(self.uri, no_dist=True, agent=self.agent.socket)
        self.addCleanup(self.writer.close)

    def loaded(self, version: int) -> float:
        state = state_of(0)
        reader = hdcp.Reader(self.uri, no_dist=True, agent=self.agent.socket)
        self.addCleanup(reader.close)
        hdcp.load(state, checkpoint_id=version, storage_reader=reader, no_dist=True)
        return float(state["w"][0])

    def together(self, *works: Callable[[], Any]) -> list[Any]:
        """Begins each in a thread of its own. What each returned or raised."""
        found: list[Any] = [None] * len(works)
        gate = threading.Barrier(len(works))

        def run(index: int) -> None:
            gate.wait()
            try:
                found[index] = works[index]()
            except BaseException as error:
                found[index] = error

        threads = [threading.Thread(target=run, args=(index,)) for index in range(len(works))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        return found

    def test_saves_of_two_threads_follow_each_other(self) -> None:
        def save(version: int) -> None:
            how = hdcp.async_save if version // 10 % 2 else hdcp.save
            options: dict[str, Any] = {"checkpoint_id": version, "storage_writer": self.writer, "no_dist": True}
            answer = how(state_of(version), **options)
            if isinstance(answer, Future):
                answer.result(60)

        for first in range(10, 160, 10):
            versions = first, first + 1
            found = self.together(*(lambda version=version: save(version) for version in versions))
            for version, error in zip(versions, found):
                with self.subTest(version):
                    if error is None:
                        self.assertEqual(self.loaded(version), version)
                        continue
                    # The other thread was first, with the higher version. In the background, the
                    # next save raises that too.
                    self.assertIn("Conflict", str(error) + type(error).__name__)
                    with self.assertRaises(NotFound):
                        self.loaded(version)

    def test_the_writer_of_a_run_is_made_once(self) -> None:
        uri = f"{self.uri}-made"
        with mock.patch.dict(os.environ, {"HOLDFAST_AGENT": self.agent.socket}):
            found = self.together(*[lambda: writer_of(uri, None, True)] * 4)
        self.assertEqual({type(one) for one in found}, {hdcp.Writer})
        self.assertEqual(len({id(one) for one in found}), 1)

    def test_a_save_of_dcp_that_another_thread_interrupts_commits_nothing(self) -> None:
        def save(version: int, **options: Any) -> None:
            dcp.save(
                state_of(version),
                checkpoint_id=f"step-{version}",
                storage_writer=self.writer,
                no_dist=True,
                **options,
            )

        def of_another_thread() -> None:
            self.assertEqual(self.together(lambda: save(2)), [None])

        with self.assertRaises(CheckpointException) as caught:
            save(1, planner=Between(of_another_thread))
        self.assertIn("another thread has begun a save with this Writer", str(caught.exception))
        self.assertEqual([one.version for one in self.writer.run.versions()], [2])
        self.assertEqual(self.loaded(2), 2)
        save(3)
        self.assertEqual(self.loaded(3), 3)

    def test_a_save_within_a_save_of_the_same_thread_is_refused_and_the_outer_one_goes_on(self) -> None:
        options: dict[str, Any] = {"storage_writer": self.writer, "no_dist": True}

        def within() -> None:
            # As a signal handler does.
            with self.assertRaisesRegex(Unsupported, "in the middle of a save"):
                hdcp.save(state_of(2), checkpoint_id=2, **options)

        hdcp.save(state_of(1), checkpoint_id=1, planner=Between(within), **options)
        self.assertEqual([one.version for one in self.writer.run.versions()], [1])
        self.assertEqual(self.loaded(1), 1)

    def test_a_turn_that_does_not_come_in_time(self) -> None:
        options: dict[str, Any] = {"storage_writer": self.writer, "no_dist": True}

        def of_another_thread() -> None:
            [error] = self.together(
                lambda: hdcp.save(state_of(2), checkpoint_id=2, timeout=0.1, **options)
            )
            self.assertIsInstance(error, TimedOut)
            self.assertIn("of another thread with this Writer did not end in 0.1 s", str(error))

        hdcp.save(state_of(1), checkpoint_id=1, planner=Between(of_another_thread), **options)
        self.assertEqual([one.version for one in self.writer.run.versions()], [1])

    def test_a_timeout_that_passes_is_told_as_it_was_given(self) -> None:
        options: dict[str, Any] = {"storage_writer": self.writer, "no_dist": True}
        with self.assertRaises(CheckpointException) as caught:
            hdcp.save(
                state_of(1),
                checkpoint_id=1,
                timeout=0.25,
                planner=Between(lambda: time.sleep(0.3)),
                **options,
            )
        self.assertIn("TimedOut: version 1 was not committed within 0.25 s", str(caught.exception))
        with self.assertRaisesRegex(InvalidArgument, "expected seconds as int or float, got '2'"):
            hdcp.save(state_of(1), checkpoint_id=1, timeout="2", **options)
        hdcp.save(state_of(1), checkpoint_id=1, timeout=30, **options)
        self.assertEqual(self.loaded(1), 1)
