"""torchelastic's trainer: its own example with the import changed, and its old directories."""

from __future__ import annotations

import io
import os
import pickle
import sys
import types
import unittest
from typing import Any, Optional
from unittest import mock

import holdfast
import holdfast.torchelastic as torchelastic
import holdfast.torchelastic.checkpoint.api as checkpoint
from holdfast import _reader

from .real_agent import RealAgent, RealAgentCase
from .support import TIMEOUT, TestCase


class MyState(torchelastic.State):
    """As in torchelastic's example: a model, and the position in the data."""

    def __init__(self, steps: int = 10) -> None:
        self.weights = [0.0] * 4
        self.position = 0
        self.steps = steps
        self.world: list[tuple[int, int]] = []

    def sync(self, world_size: int, rank: int) -> Any:
        self.world.append((world_size, rank))
        return self

    def capture_snapshot(self) -> Any:
        return {"weights": list(self.weights), "position": self.position}

    def apply_snapshot(self, snapshot: Any) -> None:
        self.weights, self.position = snapshot["weights"], snapshot["position"]

    def should_save_checkpoint(self, rank: int) -> bool:
        return self.position % 5 == 0


class DocumentedState(MyState):
    """The names of torchelastic's documents."""

    def capture_snapshot(self) -> Any:
        return torchelastic.State.capture_snapshot(self)

    def apply_snapshot(self, snapshot: Any) -> None:
        torchelastic.State.apply_snapshot(self, snapshot)

    def snapshot(self) -> Any:
        return MyState.capture_snapshot(self)

    def apply(self, snapshot: Any) -> None:
        MyState.apply_snapshot(self, snapshot)


def train_step(state: MyState) -> Any:
    if state.position == state.steps:
        raise StopIteration
    state.position += 1
    state.weights = [weight + state.position for weight in state.weights]
    return state, torchelastic.SimpleWorkerStats(1.0)


class ManagerCase(RealAgentCase):
    """The tests of this file share an agent."""

    _shared: Optional[RealAgent] = None

    @classmethod
    def setUpClass(cls) -> None:
        if ManagerCase._shared is None:
            ManagerCase._shared = RealAgent()
            unittest.addModuleCleanup(ManagerCase._shared.close)
        cls.agent = ManagerCase._shared

    def setUp(self) -> None:
        super().setUp()
        os.environ["HOLDFAST_AGENT"] = self.agent.socket
        self.addCleanup(checkpoint.set_checkpoint_manager, None)

    def manager(self, **options: Any) -> checkpoint.RunCheckpointManager:
        manager = checkpoint.RunCheckpointManager(self.uri, **options)
        self.addCleanup(manager.close)
        return manager

    def directory_manager(self, directory: str) -> checkpoint.FileSystemCheckpointManager:
        manager = checkpoint.FileSystemCheckpointManager(directory)
        self.addCleanup(manager.close)
        return manager

    def ids(self, manager: checkpoint.CheckpointManager) -> list[int]:
        found: list[Any] = list(manager.list_checkpoints())
        return [one.sequence_id for one in found]

    def write(self, manager: checkpoint.CheckpointManager, **contents: bytes) -> Any:
        made: Any = manager.create_checkpoint()
        for key, content in contents.items():
            with made.open_output_stream(key) as stream:
                stream.write(content)
        made.commit()
        return made

    def old(self, directory: str, name: str, **contents: bytes) -> None:
        os.makedirs(os.path.join(directory, name))
        for key, content in contents.items():
            with open(os.path.join(directory, name, key), "wb") as file:
                file.write(content)


class Example(ManagerCase):
    def run_example(
        self, steps: int, kind: type[MyState] = MyState, step: Any = train_step
    ) -> MyState:
        checkpoint_dir = self.path("check points")
        checkpoint_manager = checkpoint.FileSystemCheckpointManager(checkpoint_dir)
        self.addCleanup(checkpoint_manager.close)
        checkpoint.set_checkpoint_manager(checkpoint_manager)
        state = kind(steps)
        coordinator = torchelastic.LocalCoordinator()
        self.assertIs(torchelastic.train(coordinator, step, state), state)
        return state

    def test_it_trains_saves_and_goes_on_in_the_next_process(self) -> None:
        first = self.run_example(12)
        self.assertEqual((first.position, first.world), (12, [(1, 0)]))
        steps: list[int] = []

        def step(state: MyState) -> Any:
            steps.append(state.position)
            return train_step(state)

        second = self.run_example(15, DocumentedState, step)
        # From the checkpoint of step 10.
        self.assertEqual(steps, [10, 11, 12, 13, 14, 15])
        self.assertEqual(second.weights, [float(sum(range(16)))] * 4)
        manager = self.directory_manager(self.path("check points"))
        self.assertEqual(self.ids(manager), [2, 1, 0])
        self.assertEqual(os.listdir(self.path("check points")), ["holdfast"])

    def test_its_old_directories_are_read_and_the_new_numbers_are_above(self) -> None:
        directory = self.path("check points")
        for number in (3, 9, 10):
            state = pickle.dumps({"weights": [1.0] * 4, "position": number})
            self.old(directory, str(number), default=state)
        # A crash of torchelastic in mid-save.
        self.old(directory, "11", default=state[:-9])
        self.old(directory, "12")
        with self.assertLogs("holdfast", "WARNING") as logs:
            state_after = self.run_example(15)
        self.assertIn("checkpoint 12 cannot be used", logs.output[0])
        self.assertIn("from checkpoint 10", logs.output[0])
        self.assertEqual(state_after.weights, [1.0 + sum(range(11, 16))] * 4)
        self.assertEqual(self.ids(self.directory_manager(directory)), [13, 12, 11, 10, 9, 3])
        self.assertEqual(self.run_example(16).weights, [1.0 + sum(range(11, 17))] * 4)

    def test_a_generator_of_steps(self) -> None:
        def steps(state: MyState) -> Any:
            for _ in range(3):
                yield train_step(state)

        state = MyState(99)
        torchelastic.run_train(torchelastic.LocalCoordinator(), steps, state)
        self.assertEqual(state.position, 3)


class Managers(ManagerCase):
    def test_a_checkpoint_is_there_as_a_whole_when_it_is_committed(self) -> None:
        manager = self.manager()
        self.assertEqual((manager.get_latest_checkpoint(), self.ids(manager)), (None, []))
        made = manager.create_checkpoint()
        with made.open_output_stream("model") as stream:
            stream.write(b"draft")
        with made.open_output_stream("model") as stream:
            stream.write(b"model")
        with made.open_output_stream("optimizer") as stream:
            stream.write(b"")
        self.assertIsNone(manager.get_latest_checkpoint())
        made.commit()
        made.commit()
        made.discard()
        self.assertEqual(made.open_input_stream("model").read(), b"model")
        latest: Any = self.manager().get_latest_checkpoint()
        self.assertEqual(latest.sequence_id, 0)
        self.assertEqual(latest.open_input_stream("optimizer").read(), b"")
        for call in (made.open_output_stream, latest.open_output_stream):
            with self.assertRaisesRegex(holdfast.InvalidArgument, "already committed"):
                call("model")
        with self.assertRaises(holdfast.NotFound):
            latest.open_input_stream("other")
        self.assertEqual(self.write(manager, a=b"1").sequence_id, 1)
        found: Any = manager.get_checkpoint(0)
        self.assertEqual(found.sequence_id, 0)
        self.assertIsNone(manager.get_checkpoint(2))

    def test_what_is_not_whole_is_not_committed(self) -> None:
        manager = self.manager()
        made = manager.create_checkpoint()
        with self.assertRaisesRegex(holdfast.InvalidArgument, "no file to commit"):
            made.commit()
        with self.assertRaises(ZeroDivisionError):
            with made.open_output_stream("failed") as stream:
                stream.write(b"a part")
                raise ZeroDivisionError
        open_stream = made.open_output_stream("open")
        with self.assertRaisesRegex(holdfast.InvalidArgument, "failed, open; write those keys again"):
            made.commit()
        open_stream.close()
        with self.assertRaisesRegex(holdfast.InvalidArgument, "not committed"):
            made.open_input_stream("open")
        made.discard()
        with self.assertRaisesRegex(holdfast.InvalidArgument, "was discarded"):
            made.commit()
        with self.assertRaisesRegex(holdfast.InvalidArgument, "already discarded"):
            made.open_output_stream("open")
        self.assertEqual(self.ids(manager), [])
        for key in ("", ".", "..", "a/b", "a\\b", "a\0", "x" * 256, 7):
            given: Any = key
            for call in (made.open_output_stream, made.open_input_stream):
                with self.assertRaisesRegex(holdfast.InvalidArgument, "^key"):
                    call(given)

    def test_the_next_rank_0_takes_the_run_over_and_it_may_come_back(self) -> None:
        one, two = self.manager(), self.manager()
        self.write(one, default=b"1")
        two.join()
        with self.assertRaises(holdfast.Fenced):
            self.write(one, default=b"from a frozen rank 0")
        self.assertEqual(self.write(two, default=b"2").sequence_id, 1)
        two.leave()
        one.leave()
        self.assertEqual(self.write(one, default=b"3").sequence_id, 2)
        self.assertEqual(self.ids(two), [2, 1, 0])

    def test_the_variable_of_the_attempt_does_not_matter(self) -> None:
        os.environ["HOLDFAST_ATTEMPT"] = "of all ranks"
        self.test_the_next_rank_0_takes_the_run_over_and_it_may_come_back()

    def test_retention_is_of_the_run(self) -> None:
        manager = self.manager(retention={"keepLast": 1})
        for number in range(3):
            self.write(manager, default=b"%d" % number)
        self.until(lambda: self.ids(manager) == [2])

    def test_old_names_are_read_as_torchelastic_reads_them(self) -> None:
        directory = self.path("old")
        for name, content in (("-1", b"a"), ("007", b"b"), ("7", b"c"), ("03", b"d")):
            self.old(directory, name, default=content)
        for name in ("8x", "1.5", "", "٣"):
            os.makedirs(os.path.join(directory, name, "x") if name else directory, exist_ok=True)
        with open(os.path.join(directory, "9"), "wb"):
            pass
        manager = self.manager(old_directory=directory)
        self.assertEqual(self.ids(manager), [7, 3, -1])
        latest: Any = manager.get_latest_checkpoint()
        with latest.open_input_stream("default") as stream:
            self.assertEqual(stream.read(), b"c")
        with self.assertRaises(holdfast.NotFound):
            latest.open_input_stream("other")
        with self.assertRaisesRegex(holdfast.InvalidArgument, "^key"):
            latest.open_input_stream("../7/default")
        with self.assertRaisesRegex(holdfast.InvalidArgument, "only read"):
            latest.open_output_stream("default")
        latest.commit()
        latest.discard()
        self.assertEqual(self.write(manager, default=b"new").sequence_id, 8)
        self.assertEqual(self.ids(manager), [8, 7, 3, -1])
        # torchelastic was used again meanwhile.
        self.old(directory, "20", default=b"e")
        latest = manager.get_latest_checkpoint()
        self.assertEqual(latest.sequence_id, 20)

    def test_what_a_rollback_left_behind_is_not_listed(self) -> None:
        manager = self.manager()
        for number in range(2):
            self.write(manager, default=b"%d" % number)
        reader = manager._read()
        newest, oldest = reader.versions()
        left = newest._replace(fields={**newest.fields, "isLeftBehind": True})
        with mock.patch.object(holdfast.Run, "versions", lambda run: [left, oldest]):
            self.assertEqual(self.ids(manager), [0])
            manager.leave()
            self.assertEqual(manager.create_checkpoint().sequence_id, 2)

    def test_a_thing_that_is_no_manager_is_refused(self) -> None:
        for given in ("s3://bucket/run", object(), 3):
            odd: Any = given
            with self.assertRaisesRegex(holdfast.InvalidArgument, "without create_checkpoint"):
                checkpoint.set_checkpoint_manager(odd)
        self.assertIsNone(checkpoint.get_checkpoint_manager())


class Streams(ManagerCase):
    def test_a_file_is_read_from_any_place(self) -> None:
        run = self.connect()
        data = os.urandom(3_000_000)
        run.save(1, buffers={"a": data, "empty": b""}).wait()
        read_ranges = _reader.Reader.read_ranges
        with run.open("a") as stream:
            self.assertEqual(stream.read(10), data[:10])
            self.assertEqual(stream.seek(-5, io.SEEK_END), len(data) - 5)
            self.assertEqual(stream.read(), data[-5:])
            self.assertEqual(stream.read(), b"")
            self.assertEqual(stream.seek(len(data) + 9), len(data) + 9)
            self.assertEqual(stream.read(1), b"")
            stream.seek(1)
            with mock.patch.object(_reader.Reader, "read_ranges", autospec=True) as ask:
                ask.side_effect = read_ranges
                self.assertEqual(stream.read(), data[1:])
            # What is buffered, and all the rest at once.
            self.assertLessEqual(ask.call_count, 2)
            stream.seek(7)
            self.assertEqual((stream.seek(3, io.SEEK_CUR), stream.tell()), (10, 10))
            for offset, whence in ((-1, io.SEEK_SET), (0, 9)):
                with self.assertRaises(ValueError):
                    stream.seek(offset, whence)
        with run.open("empty", 1) as stream:
            self.assertEqual(stream.read(), b"")
        with self.assertRaises(holdfast.NotFound):
            run.open("b")

    def test_damage_is_an_error_of_the_read(self) -> None:
        run = self.connect()
        run.save(1, buffers={"a": b"1" * 10_000}).wait()
        path = os.path.join(self.uri[len("file://") :], run.files()[0].key)
        os.chmod(path, 0o600)
        with open(path, "r+b") as file:
            file.write(b"2")
        with run.open("a") as stream, self.assertRaises(holdfast.Corrupt):
            stream.read()


class FakeTorch(types.ModuleType):
    """Saves as torch did before 2020, or as it does now."""

    def __init__(self, start: bytes) -> None:
        super().__init__("torch")
        self.loaded: list[dict[str, Any]] = []

        def save(value: Any, stream: Any) -> None:
            stream.write(start + pickle.dumps(value))

        def load(stream: Any, weights_only: bool = True) -> Any:
            self.loaded.append({"weights_only": weights_only})
            stream.seek(len(start))
            return pickle.load(stream)

        def load_old(stream: Any) -> Any:
            return load(stream)

        self.save = save
        self.load: Any = load if start.startswith(b"PK") else load_old


class States(TestCase):
    def saved(self, state: torchelastic.State) -> io.BytesIO:
        stream = io.BytesIO()
        state.save(stream)
        stream.seek(0)
        return stream

    def test_torch_saves_the_snapshot_if_the_trainer_uses_it(self) -> None:
        old = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
        for start, given in ((b"PK\x03\x04", {"weights_only": False}), (old, {"weights_only": True})):
            torch = FakeTorch(start)
            state, found = MyState(), MyState()
            state.position = 4
            with mock.patch.dict(sys.modules, {"torch": torch}):
                found.load(self.saved(state))
            self.assertEqual((found.position, torch.loaded), (4, [given]))

    def test_a_state_that_has_no_snapshots(self) -> None:
        class Bare(torchelastic.State):
            def __init__(self) -> None:
                self.synced = 0

            def sync(self, world_size: int, rank: int) -> Any:
                self.synced += 1

        state = Bare()
        self.assertIsNone(state.capture_snapshot())
        state.apply_snapshot(None)
        with self.assertRaisesRegex(holdfast.Unsupported, "Bare has nothing to save"):
            state.save(io.BytesIO())
        with self.assertRaisesRegex(holdfast.Unsupported, "Bare has snapshots, but no apply"):
            state.apply_snapshot({})
        with self.assertRaisesRegex(holdfast.Corrupt, "no bytes"):
            state.load(io.BytesIO())
        self.assertFalse(state.should_save_checkpoint(0))

    def test_nothing_of_torch_is_imported(self) -> None:
        if "torch" not in sys.modules:
            found = MyState()
            found.load(self.saved(MyState()))
            self.assertNotIn("torch", sys.modules)


class Saves(ManagerCase):
    """What the loop does about checkpoints that fail, with a real run."""

    def test_a_damaged_checkpoint_is_skipped_and_damage_of_all_is_an_error(self) -> None:
        manager = self.manager()
        checkpoint.set_checkpoint_manager(manager)
        torchelastic.train(torchelastic.LocalCoordinator(), train_step, MyState(10))
        run = self.connect(writer=None)

        def damage(version: int) -> None:
            path = os.path.join(self.uri[len("file://") :], run.files(version)[0].key)
            os.chmod(path, 0o600)
            with open(path, "r+b") as file:
                file.write(b"?")

        damage(1)
        state = MyState(6)
        with self.assertLogs("holdfast", "WARNING"):
            torchelastic.train(torchelastic.LocalCoordinator(), train_step, state)
        self.assertEqual((state.position, state.weights), (6, [21.0] * 4))
        damage(0)
        untouched = MyState(6)
        with self.assertRaises(holdfast.Corrupt):
            torchelastic.train(torchelastic.LocalCoordinator(), train_step, untouched)
        self.assertEqual(untouched.world, [])

    def test_an_agent_that_is_away_costs_checkpoints_and_no_step(self) -> None:
        agent = self.started({})
        manager = self.manager(agent=agent.socket, timeout=TIMEOUT)
        checkpoint.set_checkpoint_manager(manager)
        state = MyState(10)

        def wait_for(seconds: float) -> None:
            assert manager._writer is not None
            manager._writer._saver.timeout = seconds

        def step(given: MyState) -> Any:
            if given.position == 3:
                agent.kill()
                wait_for(0.1)
            if given.position == 8:
                agent.start()
                wait_for(TIMEOUT)
            return train_step(given)

        coordinator = torchelastic.LocalCoordinator()
        with self.assertLogs("holdfast", "WARNING") as logs:
            torchelastic.train(coordinator, step, state)
        self.assertTrue(any("could not be saved" in line for line in logs.output), logs.output)
        self.assertEqual(state.position, 10)
        found: Optional[Any] = self.manager(timeout=TIMEOUT).get_latest_checkpoint()
        assert found is not None
        with found.open_input_stream("default") as stream:
            self.assertEqual(pickle.load(stream)["position"], 10)
