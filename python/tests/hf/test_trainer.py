"""The real Trainer and accelerate, each job in processes of its own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from typing import Any, Union

from ..real_agent import RealAgentCase
from ..support import PYTHON_ROOT
from .forked import Forked

_DOCUMENT = os.path.join(PYTHON_ROOT, "..", "docs", "huggingface.md")
#: Long enough for a busy machine.
_SECONDS = 200.0


def _two_ranks() -> dict[str, str]:
    """What both ranks of a job have in their environment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "lo"}
    return {**where, "WORLD_SIZE": "2"}


class Jobs(RealAgentCase):
    def begin(self, *jobs: str, **environment: str) -> Forked:
        return self.fork("programs", [self.uri, self.directory, *jobs], environment)

    def fork(self, module: str, words: list[str], environment: dict[str, str]) -> Forked:
        own = {"HOLDFAST_AGENT": self.agent.socket, **environment}
        return Forked(f"tests.hf.{module}", words, own)

    def said(self, *jobs: Union[Forked, subprocess.Popen[str]]) -> list[str]:
        """What each has printed, when all have ended well."""
        try:
            said = [job.communicate(timeout=_SECONDS) for job in jobs]
        finally:
            for job in jobs:
                job.kill()
        errors = "\n".join(each[1][-3000:] for each in said)
        self.assertEqual([job.returncode for job in jobs], [0] * len(jobs), errors)
        return [each[0] for each in said]

    def ended(self, *jobs: Forked) -> list[dict[str, Any]]:
        return [json.loads(each.splitlines()[-1]) for each in self.said(*jobs)]

    def setUp(self) -> None:
        super().setUp()
        self.directory = tempfile.mkdtemp(dir=self.agent.directory)

    def test_one_process(self) -> None:
        """One process for all, because the imports take longer than the jobs."""
        jobs = ["train", "sigterm", "best", "again", "accelerate", "odd", "mistakes"]
        [found] = self.ended(self.begin(*jobs))
        for job in jobs:
            with self.subTest(job):
                getattr(self, f"check_{job}")(found[job])

    def check_train(self, found: dict[str, Any]) -> None:
        """A job goes on elsewhere as if it had not been interrupted."""
        self.assertIsNone(found["nothing"])
        self.assertEqual(os.path.basename(found["found"]), "checkpoint-4")
        self.assertEqual(found["versions"], [6, 4, 2])
        self.assertTrue(found["equal"])
        self.assertEqual(found["metrics"], ["epoch", "grad_norm", "learning_rate", "loss"])
        self.assertIn("optimizer.pt", found["files"])
        self.assertIn("trainer_state.json", found["files"])
        self.assertEqual(found["left"], ["checkpoint-4"])
        self.assertEqual(found["removed"], ["checkpoint-4"], "resume has made it, not the Trainer")

    def check_sigterm(self, found: dict[str, Any]) -> None:
        self.assertEqual(found["versions"], [3])

    def check_best(self, found: dict[str, Any]) -> None:
        """The best model stays for the Trainer, which reads it at its end."""
        self.assertEqual(found["left"], [found["kept"]])

    def check_again(self, found: dict[str, Any]) -> None:
        """A resume puts a directory of the Trainer aside."""
        path = os.path.join(self.directory, "again", "checkpoint-2")
        self.assertEqual(found["results"], [path] * 3)
        self.assertEqual(found["torn"], 10)
        self.assertGreater(found["whole"], 1000)
        self.assertEqual(found["left"], ["checkpoint-2", "checkpoint-2.before-resume"])
        # Nothing of earlier resumes stays, and nothing else goes.
        self.assertEqual(found["notes"], 1)
        beside = [".checkpoint-4", "checkpoint-4", "checkpoint-4.before-resume", "checkpoint-x.before-resume"]
        self.assertEqual(found["beside"], beside)

    def check_accelerate(self, found: dict[str, Any]) -> None:
        self.assertIsNone(found["nothing"])
        self.assertEqual(found["left"], [])
        self.assertEqual(found["loaded"], [2, 2.0, 1, 1.0])
        self.assertEqual(found["refused"][0], "InvalidArgument")
        self.assertIn("automatic_checkpoint_naming", found["refused"][1])

    def check_odd(self, found: dict[str, Any]) -> None:
        """Empty directories come back, and nothing below a link is left out without a word."""
        self.assertEqual((found["restored"], found["empty"]), ("checkpoint-1", []))
        kind, message = found["linked"]
        self.assertEqual(kind, "InvalidArgument")
        self.assertIn("checkpoint-2/weights is a symbolic link; replace it", message)
        self.assertTrue(found["stays"])

    def check_mistakes(self, found: dict[str, Any]) -> None:
        kind, message = found["no run"]
        self.assertEqual(kind, "InvalidArgument")
        self.assertIn("expected a run, as s3://bucket/run or an alias, got '/tmp/run'", message)
        self.assertEqual(
            found["a writer"],
            ["InvalidArgument", "writer: the ranks of torch.distributed give it"],
        )
        self.assertEqual(
            found["a reader that writes"], ["InvalidArgument", "attempt: resume only reads"]
        )
        self.assertEqual(found["no such version"][0], "NotFound")
        self.assertEqual(found["no agent"][0], "AgentUnavailable")

    def test_the_program_of_the_document(self) -> None:
        with open(_DOCUMENT, encoding="utf-8") as file:
            program = file.read().split("```python\n")[1].split("```")[0]
        self.assertLessEqual(len(program.splitlines()), 30)
        for steps in ("10", "20"):
            out = os.path.join(self.directory, steps)
            own = {"RUN": self.uri, "OUT": out, "STEPS": steps}
            self.said(self.start_program(program, own))
        versions = [each.version for each in self.connect(writer=None).versions()]
        self.assertEqual(versions, [20, 10])

    def start_program(self, program: str, environment: dict[str, str]) -> subprocess.Popen[str]:
        own = {"PYTHONPATH": PYTHON_ROOT, "HOLDFAST_AGENT": self.agent.socket}
        return subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", program],
            env={**os.environ, **own, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def test_a_model_that_fsdp_shards_resumes_as_if_never_stopped(self) -> None:
        names = self.resume_sharded("fsdp")
        # accelerate writes them by DCP.
        for part in ("pytorch_model_fsdp_0", "optimizer_0"):
            self.assertLessEqual({f"{part}/.metadata", f"{part}/__1_0.distcp"}, names)

    def test_a_model_that_deepspeed_shards_resumes_as_if_never_stopped(self) -> None:
        names = self.resume_sharded("deepspeed")
        self.assertIn("latest", names)
        optimizers = [name for name in names if name.endswith("optim_states.pt")]
        self.assertEqual(len(optimizers), 2, names)

    def resume_sharded(self, kind: str) -> set[str]:
        """Trains to the end, and again from version 4 elsewhere. The names of its files."""
        first, second = (os.path.join(self.directory, name) for name in ("a", "b"))
        whole = self.sharded(kind, first)
        resumed = self.sharded(kind, second, "4")
        self.assertEqual([each["began"] for each in (*whole, *resumed)], [0, 0, 4, 4])
        self.assertEqual(resumed[0]["weights"], whole[0]["weights"])
        self.assertEqual(whole[0]["sharded"], kind == "fsdp")
        run = self.connect(writer=None)
        self.assertEqual([each.version for each in run.versions()][-1], 4)
        return {file.name for file in run.files(4)}

    def sharded(self, kind: str, directory: str, *version: str) -> list[dict[str, Any]]:
        words = [kind, self.uri, directory, *version]
        own = {**_two_ranks(), "LOCAL_WORLD_SIZE": "2", "DS_ACCELERATOR": "cpu"}
        ranks = [{"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(2)]
        return self.ended(*[self.fork("sharded", words, {**own, **rank}) for rank in ranks])

    def test_two_nodes_with_directories_of_their_own(self) -> None:
        common = {**_two_ranks(), "LOCAL_RANK": "0"}
        jobs = [self.begin("nodes", **common, RANK=str(rank)) for rank in range(2)]
        first, second = [each["nodes"] for each in self.ended(*jobs)]
        self.assertEqual(second["here"], ["rng_state_1.pth"])
        self.assertEqual(first["found"], sorted([*first["here"], *second["here"]]))
        self.assertEqual(first["found"], second["found"])
        self.assertTrue(first["equal"] and second["equal"])
        self.assertEqual(first["failures"], second["failures"])
        self.assertEqual(first["failures"]["odd"], ["Unexpected", "Odd: of rank 1"])
        self.assertEqual(first["failures"]["rank 0 has no run"][0], "InvalidArgument")
        self.assertEqual(first["failures"]["rank 1 does not know its place"][0], "InvalidConfig")
