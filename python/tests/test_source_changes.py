"""Files that a trainer changes after it has handed them over."""

from __future__ import annotations

import json
import mmap
import os
import signal
from typing import Any

import holdfast

from .real_agent import RealAgent, RealAgentCase

_SIZE = 2_000_000


class Mapped(RealAgentCase):
    """Writes through a mapping whose pages were written before the save: no time changes by them."""

    def setUp(self) -> None:
        super().setUp()
        # The saves behind the first one have to wait for minutes.
        self.slow = self.started({"saveBytesPerSecondMax": 1000})
        self.file = os.path.join(self.slow.directory, "state")
        with open(self.file, "wb") as file:
            file.write(b"a" * _SIZE)
        with open(self.file, "r+b") as file:
            self.mapping = mmap.mmap(file.fileno(), _SIZE)
        self.addCleanup(self.mapping.close)
        self.mapping[:] = b"b" * _SIZE

    def begin(self) -> tuple[holdfast.Run, Any]:
        run = self.connect(agent=self.slow.socket)
        self.first = run.save(1, buffers={"a": os.urandom(200_000)})
        handle = run.save(2, files={"state": self.file})
        return run, handle

    def is_settled(self) -> bool:
        for path in self.slow.staged():
            if "seal-" in path and path.endswith(".json"):
                with open(path, encoding="utf-8") as file:
                    record = json.load(file)
                if record["save"]["version"] == "2":
                    return bool(record["isSettled"])
        return False

    def go_on(self, agent: RealAgent) -> None:
        agent.kill()
        agent._config = None
        agent.start()

    def test_a_successor_notices_them(self) -> None:
        run, handle = self.begin()
        self.until(self.is_settled)
        self.mapping[1000:1008] = b"c" * 8
        self.go_on(self.slow)
        with self.assertRaisesRegex(holdfast.SourceChanged, "state was changed or replaced"):
            handle.wait()
        self.first.wait()
        self.assertEqual([one.version for one in run.versions()], [1])

    def test_a_successor_commits_what_was_not_changed(self) -> None:
        run, handle = self.begin()
        self.until(self.is_settled)
        self.go_on(self.slow)
        handle.wait()
        self.assertEqual(run.read("state", 2), b"b" * _SIZE)

    def test_the_agent_that_took_the_file_notices_them(self) -> None:
        run, handle = self.begin()
        self.until(self.is_settled)
        self.mapping[1000:1008] = b"c" * 8
        # It sends all that is staged, without the limit, and then ends.
        self.slow.signal(signal.SIGTERM)
        self.slow.wait_for_end()
        self.slow.start()
        with self.assertRaises(holdfast.SourceChanged):
            handle.wait()
        self.assertEqual([one.version for one in run.versions()], [1])
