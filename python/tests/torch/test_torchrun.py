"""The program of docs/torch.md, as torchrun starts it on two nodes, which are one machine here."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from typing import Any

from .ranks import TIMEOUT, WorldCase, wait_until
from ..support import PYTHON_ROOT

_DOCUMENT = os.path.join(os.path.dirname(__file__), *[".."] * 3, "docs", "torch.md")
_ENDLESS = 1 << 40


class TorchRun(WorldCase):
    SIZE = 1

    def setUp(self) -> None:
        super().setUp()
        with open(_DOCUMENT, encoding="utf-8") as file:
            (program,) = re.findall(r"^```python\n(.*?)^```$", file.read(), re.M | re.S)
        self.assertLessEqual(program.count("\n"), 30)
        self.program = self.path("program.py")
        with open(self.program, "w", encoding="utf-8") as file:
            file.write(program)
        self.outputs: list[str] = []

    def torchrun(self, steps: int, *options: str) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-B", "-m", "torch.distributed.run", "--nproc-per-node=1", *options, self.program]
        environment = {
            **os.environ,
            "PYTHONPATH": PYTHON_ROOT,
            "HOLDFAST_AGENT": self.agent.socket,
            "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1",
            # Otherwise a restarted worker may meet addresses of the one that was killed.
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
            "RUN": self.uri,
            "STEPS": str(steps),
        }
        self.outputs.append(self.path(f"output-{len(self.outputs)}"))
        with open(self.outputs[-1], "wb") as output:
            process = subprocess.Popen(words, stdout=output, stderr=output, env=environment)
        self.addCleanup(_end, process)
        return process

    def output(self, number: int) -> str:
        with open(self.outputs[number], encoding="utf-8") as file:
            return file.read()

    def beginnings(self) -> list[int]:
        """The steps at which both ranks have begun. An incarnation may end before it has begun."""
        found: dict[str, set[int]] = {"0": set(), "1": set()}
        for number in range(len(self.outputs)):
            for rank, step in re.findall(r"^rank (\d) begins at (\d+)$", self.output(number), re.M):
                found[rank].add(int(step))
        return sorted(found["0"] & found["1"])

    def test_a_worker_is_killed_and_the_next_incarnation_goes_on(self) -> None:
        try:
            self.play()
        except AssertionError:
            print(*(self.output(number) for number in range(len(self.outputs))), sep="\n----\n")
            raise

    def play(self) -> None:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        shared = ("--nnodes=2", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=job")
        nodes = [self.torchrun(_ENDLESS, *shared, "--max-restarts=3", "--local-addr=127.0.0.1") for _ in range(2)]
        run = self.run_of()
        self.wait_for_version(run, 10)
        os.kill(_worker_of(nodes[1].pid), signal.SIGKILL)
        wait_until(lambda: len(self.beginnings()) > 1, "the next incarnation", 4 * TIMEOUT, 0.2)
        begins = self.beginnings()
        self.assertEqual(begins[0], 0)
        self.assertGreater(begins[-1], 10)
        self.wait_for_version(run, begins[-1] + 10)
        for node in nodes:
            node.send_signal(signal.SIGTERM)
        for node in nodes:
            node.wait(TIMEOUT)
        self.assert_one_epoch_for_each(run, self.beginnings())

        # One rank loads what two have saved, and trains to the end.
        last = run.latest().version + 15
        alone = self.torchrun(last, "--standalone")
        self.assertEqual(alone.wait(4 * TIMEOUT), 0, self.output(2))
        self.assertIn(f"rank 0 begins at {last - 14}\n", self.output(2))
        self.assertEqual(run.latest().version, last)

    def wait_for_version(self, run: Any, version: int) -> None:
        def is_there() -> bool:
            latest = run.latest()
            return latest is not None and latest.version >= version

        wait_until(is_there, f"version {version}", 4 * TIMEOUT, 0.2)

    def assert_one_epoch_for_each(self, run: Any, begins: list[int]) -> None:
        """Each incarnation saves under one attempt, which has one epoch."""
        epochs: dict[int, set[str]] = {}
        for checkpoint in run.versions():
            incarnation = sum(checkpoint.version >= begin for begin in begins)
            epochs.setdefault(incarnation, set()).add(checkpoint.fields["id"]["epoch"])
        self.assertEqual([len(found) for found in epochs.values()], [1] * len(epochs), epochs)
        self.assertEqual(len(set.union(*epochs.values())), len(epochs))
        self.assertGreater(len(epochs), 1)


def _worker_of(torchrun: int) -> int:
    """The only child of a torchrun."""
    children: list[str] = []
    for thread in os.listdir(f"/proc/{torchrun}/task"):
        with open(f"/proc/{torchrun}/task/{thread}/children", encoding="ascii") as file:
            children += file.read().split()
    (child,) = children
    return int(child)


def _end(process: subprocess.Popen[bytes]) -> None:
    """It ends its worker."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(TIMEOUT)
    finally:
        process.kill()
