"""Jobs of frameworks in processes of their own, with a real agent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

from ..real_agent import RealAgentCase
from ..support import PYTHON_ROOT
from . import documents

#: Long enough for a busy machine.
_SECONDS = 300.0
#: Before each answer. Frameworks print other lines.
ANSWER = "answer: "


class JobCase(RealAgentCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = tempfile.mkdtemp(dir=self.agent.directory)

    def program(self, document: str, uri: str) -> str:
        """The path of the program of a document, for this run."""
        path = os.path.join(self.directory, f"{document}.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(documents.program(document, uri))
        return path

    def job(self, module: str, *words: str, **environment: str) -> list[Any]:
        """The answers that a module beside this has printed."""
        own = {
            "PYTHONPATH": PYTHON_ROOT,
            "HOLDFAST_AGENT": self.agent.socket,
            "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": "lo",
        }
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", f"tests.frameworks.{module}", *words],
            env={**os.environ, **own, **environment},
            capture_output=True,
            text=True,
            timeout=_SECONDS,
        )
        self.assertEqual(done.returncode, 0, done.stderr[-4000:])
        lines = [line for line in done.stdout.splitlines() if line.startswith(ANSWER)]
        return [json.loads(line.removeprefix(ANSWER)) for line in lines]
