"""Agents and trainers that are killed, frozen, stopped and started again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from typing import Any, Optional
from unittest import mock

import holdfast
from holdfast._payload import Payload

from .real_agent import RealAgent, RealAgentCase
from .support import TIMEOUT


class Restarts(RealAgentCase):
    def test_the_agent_is_killed_and_a_trainer_that_makes_no_call_delivers_all_the_same(self) -> None:
        run = self.connect(attempt="a1", writer=(0, 2))
        handle = run.save(1, buffers={"r0": b"0" * 100_000})
        handle.wait("staged")
        self.agent.kill()
        self.agent.start()
        other = self.connect(attempt="a1", writer=(1, 2))
        other.save(1, buffers={"r1": b"1"}).wait()
        handle.wait()
        self.assertEqual(run.read("r0"), b"0" * 100_000)

    def test_a_run_goes_on_with_an_agent_that_was_stopped_and_started(self) -> None:
        run = self.connect()
        run.save(1, buffers={"a": b"1"}).wait()
        self.agent.stop()
        self.agent.start()
        run.save(2, buffers={"a": b"2"}).wait()
        self.assertEqual([one.version for one in run.versions()], [2, 1])

    def test_a_run_that_was_begun_again_while_no_agent_ran_is_not_that_of_its_trainer(self) -> None:
        for keeps_stage in (True, False):
            with self.subTest(keeps_stage=keeps_stage):
                agent = self.started({})
                uri = f"file://{agent.directory}/run"
                former = self.connect(uri=uri, agent=agent.socket, attempt="former")
                former.save(1, buffers={"a": b"1"}).wait()
                agent.kill()
                shutil.rmtree(uri.removeprefix("file://"))
                if not keeps_stage:
                    # Only the trainer knows which run it had joined.
                    agent.move_stage()
                agent.start()
                new = self.connect(uri=uri, agent=agent.socket, attempt="new")
                self.assertIsNone(new.latest())
                new.save(1, buffers={"a": b"new"}).wait()
                with self.assertRaisesRegex(holdfast.Fenced, "not the one that this trainer joined"):
                    former.save(3000, buffers={"a": b"3000"}).wait()
                new.save(2, buffers={"a": b"new"}).wait()
                self.assertEqual([one.version for one in new.versions()], [2, 1])

    def test_a_committed_save_stays_committed_if_its_files_are_gone_when_it_is_repeated(self) -> None:
        for is_sealed in (True, False):
            with self.subTest(is_sealed=is_sealed):
                agent = self.started({})
                uri = f"file://{agent.directory}/run"
                run = self.connect(uri=uri, agent=agent.socket)
                path = os.path.join(agent.directory, "file")
                with open(path, "wb") as file:
                    file.write(b"1")
                handles = [run.save(version, files={"a": path}) for version in (1, 2)]
                if not is_sealed:
                    handles.append(run.save(3, buffers={"b": b"1"}, sealed=False))
                    handles[-1].seal(files={"a": path})
                # The trainer makes no call that would tell it of the commits.
                reader = self.connect(uri=uri, agent=agent.socket, writer=None)
                self.until(lambda: len(reader.versions()) == len(handles))
                os.unlink(path)
                agent.kill()
                agent.move_stage()
                agent.start()
                latest = run.latest()
                assert latest is not None
                self.assertEqual(latest.version, len(handles))
                for handle in handles:
                    self.assertEqual(handle.wait().state, "committed")
                run.save(9, buffers={"a": b"9"}).wait()

    def test_a_committed_save_that_was_removed_since_is_of_unknown_outcome_when_it_is_repeated(self) -> None:
        run = self.connect()
        path = os.path.join(self.agent.directory, "file")
        with open(path, "wb") as file:
            file.write(b"1")
        first = run.save(1, files={"a": path})
        run.save(2, buffers={"a": b"2"}).wait()
        collect = ["gc", self.uri, "--keep", "1", "--grace", "0s", "--force", "--apply", "--quiet"]
        for _ in range(2):
            subprocess.run(
                [*self.agent.command, *collect], check=True, timeout=60, stdout=subprocess.DEVNULL
            )
        os.unlink(path)
        self.agent.kill()
        self.agent.move_stage()
        self.agent.start()
        with self.assertRaisesRegex(holdfast.OutcomeUnknown, "see whether the run has the version"):
            first.wait()
        run.save(3, buffers={"a": b"3"}).wait()

    def test_a_save_that_was_not_sent_fails_if_its_files_are_gone_when_it_is_repeated(self) -> None:
        agent = self.started({"saveBytesPerSecondMax": 1000})
        run = self.connect(agent=agent.socket)
        path = os.path.join(agent.directory, "file")
        with open(path, "wb") as file:
            file.write(b"1" * 100_000)
        handle = run.save(1, files={"a": path})
        agent.kill()
        os.unlink(path)
        agent.unlimit()
        agent.move_stage()
        agent.start()
        with self.assertRaisesRegex(holdfast.NotFound, "file"):
            handle.wait()
        self.assertIsNone(run.latest())

    def test_the_next_agent_has_another_staging_directory(self) -> None:
        agent = self.started({"saveBytesPerSecondMax": 1000})
        run = self.connect(agent=agent.socket)
        # Memory without a name would have no directory.
        run._saver.joined().pool._memfd_name = None
        # They would take minutes.
        sealed = run.save(1, buffers={"a": b"1" * 100_000})
        unsealed = run.save(2, buffers={"a": b"2" * 100_000}, sealed=False)
        agent.kill()
        agent.unlimit()
        agent.move_stage()
        agent.start()
        unsealed.seal(metrics={"loss": 1.0})
        sealed.wait()
        unsealed.wait()
        for version in (3, 4, 5):
            run.save(version, buffers={"a": b"%d" % version * 100_000}).wait()
        for one in run.versions():
            self.assertEqual(run.read("a", one.version), b"%d" % one.version * 100_000)
        self.assertEqual(len(run.versions()), 5)

    def test_the_next_agent_has_another_directory_than_that_of_a_staged_payload(self) -> None:
        agent = self.started({})
        saver = self.connect(agent=agent.socket)._saver
        saver.joined().pool._memfd_name = None
        staged = saver.stage(Payload(buffers={"a": b"bytes"}), None, "raise")
        assert staged is not None
        agent.kill()
        agent.move_stage()
        agent.start()
        writer, save = saver.post(staged, {"version": 1})
        writer.ask(save, "committed", 10_000, saver.deadline())
        self.assertEqual(save.state, "committed")

    def test_calls_of_a_frozen_agent_end_in_time(self) -> None:
        run = self.connect()
        handle = run.save(1, buffers={"a": b"1"}, sealed=False)
        # A busy machine needs longer to join.
        run._timeout = run._saver.timeout = 0.3
        patch = mock.patch("holdfast.handle.GRACE_SECONDS", 0.1)
        patch.start()
        self.addCleanup(patch.stop)
        self.agent.signal(signal.SIGSTOP)
        with self.assertRaises(holdfast.AgentUnavailable):
            run.latest()
        with self.assertRaises(holdfast.HoldfastError):
            handle.wait(timeout=0.1)
        with self.assertRaises(holdfast.AgentUnavailable):
            run.save(2, buffers={"a": b"2"})
        self.agent.signal(signal.SIGCONT)
        run._timeout = run._saver.timeout = TIMEOUT
        self.until(lambda: _answers(run))
        handle.seal().wait(timeout=TIMEOUT)
        self.assertEqual(run.read("a", 1), b"1")

    def test_an_agent_that_was_late_commits_no_other_bytes(self) -> None:
        """It finds requests of saves that were given up, whose memory or file is another by then."""
        path = os.path.join(self.agent.directory, "model")
        run = self.connect()

        def given_up(version: int, **content: Any) -> None:
            run._timeout = run._saver.timeout = 0.3
            with self.assertRaises(holdfast.AgentUnavailable):
                run.save(version, **content)

        def write(version: int) -> dict[str, str]:
            with open(path, "wb") as file:
                file.write(b"%d" % version * 1000)
            return {"a": path}

        run.save(1, buffers={"a": b"1" * 1000}).wait()
        self.agent.signal(signal.SIGSTOP)
        given_up(2, buffers={"a": b"2" * 1000})
        given_up(3, files=write(3))
        write(4)
        # The memory of version 5 has the descriptor that version 2 had.
        threading.Timer(0.5, lambda: self.agent.signal(signal.SIGCONT)).start()
        run._timeout = run._saver.timeout = TIMEOUT
        run.save(5, buffers={"a": b"5" * 1000}).wait()
        for one in run.versions():
            self.assertEqual(run.read("a", one.version), b"%d" % one.version * 1000)

    def test_saves_in_memory_and_in_files_stay_in_order_when_the_agent_is_killed(self) -> None:
        # The first save would take minutes.
        agent = self.started({"saveBytesPerSecondMax": 1000})
        run = self.connect(agent=agent.socket)

        def save(version: int, place: str) -> holdfast.Handle:
            def refusal(stage: Any, kind: str, *_: Any) -> str:
                return "" if kind == place else "refused"

            with mock.patch("holdfast._segments._refusal", refusal):
                return run.save(version, buffers={"a": b"%d" % version * 100_000})

        handles = [save(1, "memfd"), save(2, "disk")]
        agent.kill()
        agent.unlimit()
        agent.start()
        for handle in handles:
            self.assertEqual(handle.wait().state, "committed")

    def test_random_kills_lose_nothing_that_was_committed(self) -> None:
        run = self.connect()
        committed: list[int] = []
        stop = threading.Event()
        errors: list[BaseException] = []

        def train() -> None:
            try:
                for version in range(1, 1000):
                    if stop.is_set():
                        return
                    handle = run.save(version, buffers={"a": b"%d" % version * 1000})
                    handle.wait("committed")
                    committed.append(version)
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=train)
        thread.start()
        for round_ in range(4):
            self.until(lambda: len(committed) > 3 * round_ or bool(errors))
            self.agent.kill()
            self.agent.start()
        stop.set()
        thread.join(TIMEOUT)
        self.assertEqual(errors, [])
        versions = [one.version for one in run.versions()]
        self.assertEqual(sorted(set(committed) - set(versions)), [])
        for version in committed:
            self.assertEqual(run.read("a", version), b"%d" % version * 1000)


def _answers(run: holdfast.Run) -> bool:
    try:
        run.latest()
    except holdfast.HoldfastError:
        return False
    return True


class Trainers(RealAgentCase):
    """Trainers that end in each way."""

    def trainer(
        self, script: str, agent: Optional[RealAgent] = None
    ) -> "subprocess.CompletedProcess[str]":
        head = (
            "import holdfast, os, sys, array\n"
            f"run = holdfast.connect({self.uri!r}, agent={(agent or self.agent).socket!r})\n"
        )
        root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        return subprocess.run(
            [sys.executable, "-B", "-c", head + script],
            env={**os.environ, "PYTHONPATH": root},
            capture_output=True,
            text=True,
            timeout=TIMEOUT * 2,
        )

    def committed(self) -> list[int]:
        run = self.connect(writer=None)
        try:
            return [one.version for one in run.versions()]
        except holdfast.NotFound:
            return []

    def test_a_staged_save_survives_a_trainer_that_exits_without_closing(self) -> None:
        for version, ending in enumerate(("", "os._exit(0)", "os.kill(os.getpid(), 9)"), 1):
            done = self.trainer(f"run.save({version}, buffers={{'a': b'{version}'}})\n{ending}")
            self.assertEqual(done.stderr, "")
            self.until(lambda: self.committed()[:1] == [version])
        self.assertEqual(self.connect(writer=None).read("a", 3), b"3")

    def test_an_unsealed_save_of_a_killed_trainer_never_appears(self) -> None:
        self.trainer("run.save(1, buffers={'a': b'1'}, sealed=False)\nos.kill(os.getpid(), 9)")
        self.until(lambda: self.agent.staged() == [])
        self.assertEqual(self.committed(), [])

    def test_memory_without_a_name_ends_with_both(self) -> None:
        """SIGKILL of both, with bytes in memory without a name."""
        # The second file has to wait for minutes.
        agent = self.started({"saveBytesPerSecondMax": 1000})
        done = self.trainer(
            "from holdfast import _segments\n"
            "_segments._refusal = lambda stage, kind, *_: '' if kind == 'memfd' else 'refused'\n"
            "run.save(1, buffers={'a': b'1'}).wait()\n"
            "run.save(2, buffers={'a': b'2' * 100_000, 'b': b'2' * 100_000})\n"
            "run.save(3, buffers={'a': b'3'}, sealed=False, when_busy='wait')\n"
            "os.kill(os.getpid(), 9)",
            agent,
        )
        self.assertEqual(done.stderr, "")
        agent.kill()
        agent.start()
        self.until(lambda: agent.staged() == [])
        run = self.connect(agent=agent.socket, writer=None)
        self.assertEqual([one.version for one in run.versions()], [1])

    def test_a_restarted_trainer_is_a_new_life_and_saves_on(self) -> None:
        os.environ["HOLDFAST_ATTEMPT"] = "a1"
        for version in (1, 2):
            done = self.trainer(f"run.save({version}, buffers={{'a': b'1'}}).wait()\nos._exit(3)")
            self.assertEqual((done.returncode, done.stderr), (3, ""))
        self.assertEqual(self.committed(), [2, 1])
