"""The train loop: what it calls, in which order, and what each failure costs."""

from __future__ import annotations

import io
import os
import sys
import types
from typing import Any, Callable, Optional
from unittest import mock

import holdfast
import holdfast.torchelastic as torchelastic
from holdfast.torchelastic import checkpoint, train_loop

from .support import TestCase

STATS = torchelastic.SimpleWorkerStats(2.0)


class Stop(Exception):
    """As in a job that still uses the coordinator of torchelastic."""


Stop.__name__ = "StopException"
Stop.__module__ = "torchelastic.coordinator"


class Coordinator(torchelastic.LocalCoordinator):
    """Writes down what the loop calls. ``worlds``: rank and size of each rendezvous."""

    def __init__(self, calls: list[str], worlds: Optional[list[tuple[int, int]]] = None) -> None:
        super().__init__()
        self.calls = calls
        self.worlds = worlds or []
        self.errors: list[BaseException] = []
        self.barriers: list[Optional[Exception]] = []
        self.rendezvous_after: list[int] = []

    def rendezvous_barrier(self) -> tuple[Any, int, int]:
        self.calls.append("rendezvous")
        _, rank, size = super().rendezvous_barrier()
        return (None, *self.worlds.pop(0)) if self.worlds else (None, rank, size)

    def barrier(self) -> None:
        self.calls.append("barrier")
        failure = self.barriers.pop(0) if self.barriers else None
        if failure is not None:
            raise failure

    def should_rendezvous(self, state: Any) -> bool:
        return state.value in self.rendezvous_after

    def signal_training_done(self) -> None:
        self.calls.append("done")
        super().signal_training_done()

    def monitor_progress(self, state: Any, worker_stats: Any) -> None:
        self.calls.append(f"monitor {worker_stats.get_progress_rate()}")

    def report_progress(self, state: Any) -> None:
        self.calls.append("report")

    def on_error(self, e: BaseException) -> None:
        self.errors.append(e)


class State(torchelastic.State):
    def __init__(self, calls: list[str], due: bool = False) -> None:
        self.calls = calls
        self.value = 0
        self.due = due
        self.is_rolled_back = True

    def sync(self, world_size: int, rank: int) -> Any:
        self.calls.append(f"sync {rank}/{world_size}")

    def snapshot(self) -> Any:
        self.calls.append("snapshot")
        return self.value if self.is_rolled_back else None

    def apply(self, snapshot: Any) -> None:
        self.calls.append(f"apply {snapshot}")
        self.value = snapshot

    def save(self, stream: Any) -> None:
        stream.write(b"%d" % self.value)

    def load(self, stream: Any) -> None:
        self.value = int(stream.read())
        self.calls.append(f"load {self.value}")

    def should_save_checkpoint(self, rank: int) -> bool:
        return self.due


class Memory(checkpoint.CheckpointManager):
    """``failures``: what each save raises at its commit."""

    def __init__(self, calls: list[str], *contents: bytes) -> None:
        self.calls = calls
        self.found = [Kept(self, number, content) for number, content in enumerate(contents)]
        self.failures: list[Optional[Exception]] = []
        self.discarding: Optional[Exception] = None

    def create_checkpoint(self) -> Any:
        return Kept(self, len(self.found), b"")

    def get_checkpoint(self, sequence_id: int) -> Any:
        return self.found[sequence_id]

    def get_latest_checkpoint(self) -> Any:
        return self.found[-1] if self.found else None

    def list_checkpoints(self) -> Any:
        return self.found[::-1]


class Joined(Memory):
    def __init__(self, calls: list[str], *contents: bytes) -> None:
        super().__init__(calls, *contents)
        self.joining: Optional[Exception] = None

    def join(self) -> None:
        self.calls.append("join")
        if self.joining is not None:
            raise self.joining

    def leave(self) -> None:
        self.calls.append("leave")


class Kept(checkpoint.Checkpoint):
    def __init__(self, manager: Memory, sequence_id: int, content: bytes) -> None:
        self.manager = manager
        self.sequence_id = sequence_id
        self.content = content

    def open_output_stream(self, key: str) -> Any:
        kept = self

        class Stream(io.BytesIO):
            def close(self) -> None:
                kept.content = kept.content if self.closed else self.getvalue()
                super().close()

        return Stream()

    def open_input_stream(self, key: str) -> Any:
        assert key == "default"
        if self.content == b"gone":
            raise holdfast.NotFound("gone")
        if self.content == b"away":
            raise holdfast.Unavailable("away")
        if self.content == b"refused":
            raise PermissionError(13, "refused")
        return io.BytesIO(self.content)

    def commit(self) -> None:
        failure = self.manager.failures.pop(0) if self.manager.failures else None
        if failure is not None:
            raise failure
        self.manager.calls.append(f"commit {self.content.decode()}")
        self.manager.found.append(self)

    def discard(self) -> None:
        self.manager.calls.append("discard")
        if self.manager.discarding is not None:
            raise self.manager.discarding


class LoopCase(TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.calls: list[str] = []
        self.coordinator = Coordinator(self.calls)
        self.state = State(self.calls)
        self.addCleanup(checkpoint.set_checkpoint_manager, None)

    def manage(self, manager: Memory) -> None:
        checkpoint.set_checkpoint_manager(manager)

    def train(self, *steps: Optional[BaseException], quiet: bool = True) -> None:
        """Each step adds 1 to the value, and raises what is given."""
        left = list(steps)

        def step(state: State) -> Any:
            if not left:
                raise StopIteration
            state.value += 1
            self.calls.append(f"step {state.value}")
            failure = left.pop(0)
            if failure is not None:
                raise failure
            return state, STATS

        run: Callable[[], Any] = lambda: torchelastic.train(self.coordinator, step, self.state)
        if quiet:
            with mock.patch.object(train_loop.log, "warning"):
                self.assertIs(run(), self.state)
        else:
            self.assertIs(run(), self.state)


class Order(LoopCase):
    def test_of_a_world_and_of_a_step(self) -> None:
        self.state.due = True
        self.manage(Joined(self.calls, b"7"))
        self.train(None)
        world = ["snapshot", "rendezvous", "barrier", "join", "load 7", "sync 0/1", "barrier"]
        step = ["snapshot", "step 8", "monitor 2.0", "commit 8", "barrier", "report"]
        self.assertEqual(self.calls, [*world, *step, "snapshot", "done", "leave"])

    def test_without_a_manager_nothing_is_saved(self) -> None:
        self.state.due = True
        self.train(None)
        self.assertNotIn("commit 1", self.calls)

    def test_the_coordinator_may_ask_for_a_save(self) -> None:
        self.manage(Memory(self.calls))
        with mock.patch.object(Coordinator, "should_save_checkpoint", lambda coordinator: True):
            self.train(None)
        self.assertIn("commit 1", self.calls)

    def test_workers_that_come_or_leave_start_a_world_without_load_and_without_going_back(self) -> None:
        self.manage(Joined(self.calls, b"7"))
        self.coordinator.worlds = [(0, 1), (1, 2), (0, 2)]
        self.coordinator.rendezvous_after = [8, 9]
        self.train(None, None, None)
        told = [call for call in self.calls if call.split()[0] in ("join", "leave", "load", "sync", "step")]
        first = ["join", "load 7", "sync 0/1", "step 8"]
        self.assertEqual(
            told, [*first, "leave", "sync 1/2", "step 9", "join", "sync 0/2", "step 10", "leave"]
        )

    def test_another_rank_neither_loads_nor_saves(self) -> None:
        self.state.due = True
        self.manage(Memory(self.calls, b"7"))
        self.coordinator.worlds = [(1, 2)]
        self.train(None)
        self.assertEqual(self.calls.count("barrier"), 3)
        self.assertEqual([one for one in self.calls if one.startswith(("load", "commit"))], [])

    def test_the_coordinator_ends_training(self) -> None:
        for failure in (torchelastic.StopException("over"), Stop("over")):
            self.setUp()
            self.train(None, failure)
            self.assertEqual((self.state.value, self.coordinator.errors), (2, []))
        self.setUp()
        self.coordinator.stop()
        self.train(None)
        self.assertEqual(self.calls, [])

    def test_the_barrier_is_of_torch_if_a_coordinator_has_none(self) -> None:
        old = types.SimpleNamespace(
            rendezvous_barrier=lambda: (None, 0, 1),
            should_stop_training=lambda: self.calls.count("torch") > 1,
        )
        torch: Any = types.ModuleType("torch.distributed")
        torch.is_available = torch.is_initialized = lambda: True
        torch.barrier = lambda: self.calls.append("torch")
        with mock.patch.dict(sys.modules, {"torch.distributed": torch}):
            torchelastic.train(old, lambda state: None, self.state)
            torchelastic.LocalCoordinator().barrier()
        self.assertEqual(self.calls.count("torch"), 3)
        torchelastic.LocalCoordinator().barrier()


class Failures(LoopCase):
    def test_one_that_a_retry_may_cure_goes_back_one_step_and_meets_the_others_again(self) -> None:
        self.manage(Joined(self.calls, b"7"))
        failure = RuntimeError("connection closed")
        self.train(None, failure, None)
        self.assertEqual((self.state.value, self.coordinator.errors), (9, [failure]))
        at = self.calls.index("step 9")
        again = ["leave", "apply 8", "snapshot", "rendezvous", "barrier", "join", "sync 0/1"]
        self.assertEqual(self.calls[at + 1 : at + 8], again)

    def test_without_snapshots_the_state_stays(self) -> None:
        self.state.is_rolled_back = False
        self.train(None, RuntimeError("x"), None)
        self.assertEqual(self.state.value, 3)

    def test_100_of_them_end_the_worker(self) -> None:
        with self.assertRaisesRegex(RuntimeError, "Exceeded max number of recoverable failures: 100"):
            self.train(*[RuntimeError("x")] * 200)
        self.assertEqual(len(self.coordinator.errors), 101)
        self.assertEqual(self.calls.count("rendezvous"), 100)

    def test_others_end_it_at_once_and_are_told_to_the_coordinator(self) -> None:
        for failure in (ValueError("x"), torchelastic.NonRetryableException("x"), holdfast.Fenced("x")):
            self.setUp()
            with self.assertRaises(type(failure)) as caught:
                self.train(failure)
            self.assertIs(caught.exception, failure)
            self.assertEqual((self.coordinator.errors, self.state.value), ([failure], 1))

    def test_a_state_that_cannot_go_back_ends_it(self) -> None:
        for failure, kind in (
            (RuntimeError("no"), torchelastic.NonRetryableException),
            (ValueError("no"), ValueError),
        ):
            self.setUp()
            with mock.patch.object(State, "apply", side_effect=failure):
                with self.assertRaisesRegex(kind, "no"):
                    self.train(RuntimeError("x"))

    def test_a_step_that_returns_something_else_is_told_so(self) -> None:
        for returned in (None, 3, (1, 2, 3)):
            with self.assertRaisesRegex(holdfast.InvalidArgument, "^train_step: expected it to return"):
                torchelastic.train(Coordinator([]), lambda state: returned, self.state)


class Saving(LoopCase):
    def setUp(self) -> None:
        super().setUp()
        self.state.due = True
        self.manager = Joined(self.calls)
        self.manage(self.manager)

    def test_a_failure_that_passes_costs_a_checkpoint_and_no_step(self) -> None:
        for failure in (
            holdfast.Unavailable("x"),
            holdfast.Throttled("x"),
            holdfast.OutcomeUnknown("x"),
            holdfast.Conflict("x"),
            RuntimeError("x"),
        ):
            self.setUp()
            self.manager.failures = [failure]
            self.train(None, None)
            self.assertEqual(self.coordinator.errors, [failure])
            told = [one for one in self.calls if one.split()[0] in ("step", "discard", "commit")]
            self.assertEqual(told, ["step 1", "discard", "step 2", "commit 2"])
            self.assertEqual(self.calls.count("rendezvous"), 1)

    def test_a_failure_that_lasts_ends_the_worker_after_the_barrier(self) -> None:
        for failure in (holdfast.Denied("x"), holdfast.Fenced("x"), OSError(28, "full")):
            self.setUp()
            self.manager.failures = [failure]
            with self.assertRaises(type(failure)):
                self.train(None)
            self.assertEqual(self.calls[-3:], ["discard", "barrier", "leave"])

    def test_a_save_of_the_state_that_never_works_ends_the_worker_at_last(self) -> None:
        self.manager.failures = [RuntimeError("x")] * 200
        self.coordinator.rendezvous_after = list(range(1000))
        with self.assertRaisesRegex(RuntimeError, "Exceeded max number"):
            self.train(*[None] * 200)
        self.assertEqual(self.state.value, 100)

    def test_a_checkpoint_that_cannot_be_discarded_hides_no_failure(self) -> None:
        self.manager.failures = [holdfast.Denied("the cause")]
        self.manager.discarding = ValueError("another")
        with self.assertLogs("holdfast", "WARNING"), self.assertRaisesRegex(holdfast.Denied, "the cause"):
            self.train(None, quiet=False)

    def test_a_rank_0_that_was_replaced_while_it_was_frozen_meets_the_others_again(self) -> None:
        self.coordinator.barriers = [None, None, RuntimeError("a worker has left")]
        self.manager.failures = [holdfast.Fenced("replaced")]
        self.train(None, None)
        self.assertEqual((self.state.value, self.calls.count("rendezvous")), (1, 2))

    def test_a_failure_that_lasts_counts_even_if_the_world_has_ended(self) -> None:
        self.coordinator.barriers = [None, None, RuntimeError("a worker has left")]
        self.manager.failures = [holdfast.Denied("x")]
        with self.assertRaises(holdfast.Denied):
            self.train(None)

    def test_a_run_that_cannot_be_joined_for_a_while_is_joined_by_the_first_save(self) -> None:
        self.manager.joining = holdfast.Unavailable("x")
        self.train(None)
        self.assertIn("commit 1", self.calls)
        self.manager.joining = holdfast.Denied("x")
        self.coordinator = Coordinator(self.calls)
        with self.assertRaises(holdfast.Denied):
            self.train(None)


class Loading(LoopCase):
    def test_an_older_one_is_loaded_if_the_newest_cannot_be_used(self) -> None:
        for damage in (b"not a number", b"gone", b""):
            self.setUp()
            self.manage(Memory(self.calls, b"5", b"6", damage, damage))
            self.train(None)
            loads = [one for one in self.calls if one.split()[0] in ("apply", "load")]
            self.assertEqual(loads, ["apply 0", "apply 0", "load 6"])

    def test_if_none_can_be_used_training_never_begins(self) -> None:
        for newest, kind in ((b"?", holdfast.Corrupt), (b"gone", holdfast.NotFound)):
            self.setUp()
            self.manage(Memory(self.calls, b"?", newest))
            with self.assertRaises(kind):
                self.train(None)
            self.assertNotIn("sync 0/1", self.calls)

    def test_errors_that_say_nothing_about_the_bytes_are_raised_at_once(self) -> None:
        for newest, kind in ((b"away", holdfast.Unavailable), (b"refused", PermissionError)):
            self.setUp()
            self.manage(Memory(self.calls, b"5", newest))
            with self.assertRaises(kind):
                self.train(None)
        for failure in (MemoryError(), torchelastic.NonRetryableException("x")):
            self.setUp()
            self.manage(Memory(self.calls, b"5", b"6"))
            with mock.patch.object(State, "load", side_effect=failure):
                with self.assertRaises(type(failure)):
                    self.train(None)

    def test_checkpoints_that_are_there_and_cannot_be_the_latest_are_no_first_start(self) -> None:
        manager = Memory(self.calls, b"5")
        self.manage(manager)
        with mock.patch.object(Memory, "get_latest_checkpoint", lambda manager: None):
            with self.assertRaisesRegex(holdfast.Corrupt, "none of them can be loaded"):
                self.train(None)

    def test_a_manager_whose_checkpoints_have_no_ids_offers_no_older_ones(self) -> None:
        manager = Memory(self.calls, b"5", b"?")
        for one in manager.found:
            del one.sequence_id
        self.manage(manager)
        with self.assertRaises(holdfast.Corrupt):
            self.train(None)


class Modules(TestCase):
    def test_the_names_are_where_torchelastic_has_them(self) -> None:
        from importlib import import_module

        for place, name in (
            ("checkpoint", "FileSystemCheckpointManager"),
            ("checkpoint.api", "set_checkpoint_manager"),
            ("coordinator", "NonRetryableException"),
            ("state", "State"),
            ("train_loop", "run_train"),
            ("worker_stats", "WorkerStats"),
        ):
            self.assertTrue(hasattr(import_module(f"holdfast.torchelastic.{place}"), name), name)
        self.assertTrue(os.path.isabs(train_loop.__file__))
