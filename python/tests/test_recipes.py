"""The recipes of docs/attempt.md, in environments as the launchers make them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import types
from typing import Any, Iterator
from unittest import mock

import holdfast

from .support import TestCase

_ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
# Rank and attempt. One call writes the line, because tasks share the output.
_TRAINER = """
import holdfast, os
os.write(1, "{} {}\\n".format(os.environ.get("RANK", "-"), holdfast.attempt()).encode())
"""


def recipe(title: str, language: str) -> str:
    """The block of this language in a section of the document."""
    with open(os.path.join(_ROOT, "docs", "attempt.md"), encoding="utf-8") as file:
        section = re.search(rf"^## {title}$(.*?)(?=^## |\Z)", file.read(), re.M | re.S)
    assert section is not None, title
    (block,) = re.findall(rf"^```{language}\n(.*?)^```$", section[1], re.M | re.S)
    return str(block)


class Group:
    """The process group of one incarnation, in a thread for each rank."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._barrier = threading.Barrier(size)
        self._box: Any = None

    def carry(self, rank: int, value: Any) -> Any:
        if rank == 0:
            self._box = value
        self._barrier.wait(20)
        return self._box


class Recipes(TestCase):
    def in_ranks(self, size: int, work: Any) -> list[Any]:
        found: list[Any] = []
        threads = [
            threading.Thread(target=lambda rank=rank: found.append(work(rank))) for rank in range(size)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        self.assertEqual(len(found), size)
        return found

    def assert_joined(self, joined: list[dict[str, Any]], size: int) -> str:
        """All ranks have joined as writers of one attempt, which is returned."""
        self.assertEqual(sorted(one["writer"] for one in joined), [(rank, size) for rank in range(size)])
        (attempt,) = {one["attempt"] for one in joined}
        return str(attempt)

    def test_torchrun(self) -> None:
        code = compile(recipe("torchrun", "python"), "torchrun", "exec")
        # Two nodes with one worker each. The worker of node 1 has failed: only its count has risen.
        os.environ.update({"TORCHELASTIC_RUN_ID": "job7", "WORLD_SIZE": "2"})
        attempts = [self._by_torch(code, count) for count in ("0", "1")]
        self.assertNotEqual(*attempts)
        for attempt in attempts:
            self.assertRegex(attempt, "^[0-9a-f]{32}$")

    def _by_torch(self, code: Any, count: str) -> str:
        own, group = threading.local(), Group(2)
        dist: Any = types.ModuleType("torch.distributed")
        begun: list[str] = []
        dist.init_process_group = begun.append
        dist.is_available = lambda: True
        dist.is_initialized = lambda: len(begun) > 0
        dist.get_rank = lambda group=None: own.rank
        dist.get_world_size = lambda: 2

        def broadcast(box: list[Any], src: int, group_: Any = None, **_: Any) -> None:
            box[0] = group.carry(own.rank, box[0])

        dist.broadcast_object_list = lambda box, src, group=None: broadcast(box, src)
        torch: Any = types.ModuleType("torch")
        torch.distributed = dist
        joined: list[dict[str, Any]] = []

        def work(rank: int) -> None:
            own.rank = rank
            exec(code, {})

        modules = {"torch": torch, "torch.distributed": dist}
        environment = {"TORCHELASTIC_RESTART_COUNT": count}
        with mock.patch.dict(sys.modules, modules), mock.patch.dict(os.environ, environment):
            with mock.patch.object(holdfast, "connect", lambda uri, **given: joined.append(given)):
                self.in_ranks(2, work)
        return self.assert_joined(joined, 2)

    def test_slurm(self) -> None:
        os.mkdir(self.path("bin"))
        # Starts the tasks of a step. The first step fails.
        self._program(
            "srun",
            f"""
            step=$(cat "{self.path("steps")}" 2>/dev/null || echo 0)
            echo $((step + 1)) >"{self.path("steps")}"
            [ "$1" = --kill-on-bad-exit=1 ] || exit 9
            shift
            for task in 0 1 2 3; do SLURM_STEP_ID=$step SLURM_PROCID=$task SLURM_NTASKS=4 "$@" & done
            wait
            [ "$step" -gt 0 ]
            """,
        )
        self._program("python", f"exec '{sys.executable}' -B -c '{_TRAINER}'")
        for restart, names in (("", ["17-0-0", "17-0-1"]), ("2", ["17-2-2"])):
            given = {"SLURM_JOB_ID": "17", "SLURM_RESTART_COUNT": restart}
            lines = self._run(["bash", "-c", recipe("Slurm", "bash")], **given)
            self.assertEqual(sorted(lines), sorted([f"- slurm-{name}" for name in names] * 4))

    def test_a_step_of_slurm_that_runs_torchrun_names_no_attempt(self) -> None:
        os.environ.update({"SLURM_JOB_ID": "17", "SLURM_STEP_ID": "0"})
        os.environ.update({"SLURM_PROCID": "1", "SLURM_NTASKS": "2"})
        self.assertEqual(holdfast.attempt(), "slurm-17-0-0")
        self.assertRegex(holdfast.attempt((0, 1)), "^[0-9a-f]{32}$")
        self.assertEqual(holdfast.attempt(carry=lambda drawn: "f" * 32), "f" * 32)
        for name, value in (("TORCHELASTIC_RUN_ID", "none"), ("RANK", "1"), ("SLURM_STEP_ID", "")):
            with mock.patch.dict(os.environ, {name: value, "WORLD_SIZE": "2"}):
                with self.assertRaisesRegex(holdfast.InvalidArgument, "2 ranks need"):
                    holdfast.attempt()
        with mock.patch.dict(os.environ, {"HOLDFAST_ATTEMPT": "mine"}):
            self.assertEqual(holdfast.attempt(), "mine")

    def test_kubernetes_job(self) -> None:
        pods = self._pods("Kubernetes Job")
        for uid in ("4f6b", "9a01"):
            metadata = {"labels": {"batch.kubernetes.io/controller-uid": uid}}
            lines = [line for index in range(4) for line in self._pod(pods, metadata, index)]
            self.assertEqual(lines, [f"{rank} {uid}" for rank in range(4)])
        self.assertRegex(pods, r"(?m)^  backoffLimit: 0$")
        self.assertRegex(pods, r"(?m)^ +restartPolicy: Never$")

    def test_kubernetes_jobset(self) -> None:
        pods = self._pods("Kubernetes JobSet")
        prefix = "jobset.sigs.k8s.io"
        for uid, restart in (("4f6b", "0"), ("4f6b", "1"), ("9a01", "0")):
            lines = []
            for job in range(2):
                annotations = {
                    f"{prefix}/jobset-uid": uid,
                    f"{prefix}/restart-attempt": restart,
                    f"{prefix}/job-index": str(job),
                }
                for index in range(2):
                    lines += self._pod(pods, {"annotations": annotations}, index)
            self.assertEqual(lines, [f"{rank} jobset-{uid}-{restart}" for rank in range(4)])
        self.assertRegex(pods, r"(?m)^ +backoffLimit: 0$")
        self.assertRegex(pods, r"(?m)^ +restartPolicy: Never$")

    def _pods(self, title: str) -> str:
        os.mkdir(self.path("bin"))
        self._program("python", f"exec '{sys.executable}' -B -c '{_TRAINER}'")
        return recipe(title, "yaml")

    def _pod(self, text: str, metadata: dict[str, dict[str, str]], index: int) -> list[str]:
        """Runs the container of a pod with the environment that Kubernetes makes of the text."""
        environment = {"JOB_COMPLETION_INDEX": str(index)}
        for name, value in _entries(text):
            field = re.fullmatch(r"metadata\.(\w+)\['(.+)'\]", value)
            if field is not None:
                environment[name] = metadata[field[1]][field[2]]
            else:
                environment[name] = re.sub(r"\$\((\w+)\)", lambda one: environment[one[1]], value)
        command = re.search(r'command: \[sh, -c, "(.*)"\]$', text, re.M)
        assert command is not None
        return self._run(["sh", "-c", command[1]], **environment)

    def test_ray(self) -> None:
        code = compile(recipe("Ray", "python"), "ray", "exec")
        attempts = []
        for _ in range(2):
            own, group = threading.local(), Group(3)
            ray, train = types.ModuleType("ray"), types.ModuleType("ray.train")
            collective = types.ModuleType("ray.train.collective")
            context = types.SimpleNamespace(
                get_world_rank=lambda: own.rank, get_world_size=lambda: 3
            )
            setattr(train, "get_context", lambda: context)
            setattr(ray, "train", train)
            carry = lambda value: group.carry(own.rank, value)
            setattr(collective, "broadcast_from_rank_zero", carry)
            joined: list[dict[str, Any]] = []

            def work(rank: int) -> None:
                own.rank = rank
                names: dict[str, Any] = {}
                exec(code, names)
                names["train_loop_per_worker"]({"uri": "s3://bucket/run"})

            modules = {"ray": ray, "ray.train": train, "ray.train.collective": collective}
            with mock.patch.dict(sys.modules, modules):
                with mock.patch.object(holdfast, "connect", lambda uri, **given: joined.append(given)):
                    self.in_ranks(3, work)
            attempts.append(self.assert_joined(joined, 3))
        self.assertNotEqual(*attempts)

    def _program(self, name: str, text: str) -> None:
        path = self.path("bin", name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/bash\n{text}\n")
        os.chmod(path, 0o700)

    def _run(self, words: list[str], **environment: str) -> list[str]:
        """Lines of the output. The command ends with 0."""
        given = {**os.environ, **environment}
        given["PATH"] = f"{self.path('bin')}:{os.environ['PATH']}"
        given["PYTHONPATH"] = os.path.join(_ROOT, "python")
        return subprocess.run(
            words, env=given, stdout=subprocess.PIPE, check=True, text=True, timeout=60
        ).stdout.splitlines()


def _entries(text: str) -> Iterator[tuple[str, str]]:
    """Names and values of ``env``: a value, or the path of a field."""
    pattern = r"name: (\w+)\s*(?:,|\n\s+valueFrom:.*fieldPath:) (?:value: )?\"([^\"]+)\""
    for name, value in re.findall(pattern, text):
        yield name, value
