"""The command of the wheel, with programs that stand for Node."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Optional
from unittest import mock

import holdfast
from holdfast import _command, _start

from .support import TestCase

_PYTHON_DIRECTORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_NOT_FOUND = "Node 22 or newer is needed and was not found"


class Command(TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.program = self.path("command.mjs")
        with open(self.program, "w", encoding="utf-8"):
            pass
        patched = mock.patch.object(_command, "_PROGRAM", self.program)
        patched.start()
        self.addCleanup(patched.stop)
        self.use()

    def node(self, name: str, script: str) -> str:
        """A program called node. Returns its directory."""
        place = self.path(name)
        os.makedirs(place)
        path = os.path.join(place, "node")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{script}\n")
        os.chmod(path, 0o755)
        return place

    def use(self, *directories: str, extra: Optional[str] = None) -> None:
        os.environ["PATH"] = os.pathsep.join(directories)
        found = extra and mock.Mock(submodule_search_locations=[extra])
        patched = mock.patch.object(_command, "find_spec", return_value=found)
        patched.start()
        self.addCleanup(patched.stop)

    def test_the_first_node_that_is_new_enough(self) -> None:
        old = self.node("old", "echo v20.9.0")
        new = self.node("new", "echo v22.0.0")
        newer = self.node("newer", "echo v24.0.0")
        self.use(self.path("none"), old, new, newer)
        self.assertEqual(_command.bundled_command(), [f"{new}/node", self.program])
        self.assertEqual(_start.agent_command(), [f"{new}/node", self.program])

    def test_the_extra_comes_before_the_path(self) -> None:
        extra = self.node("extra/bin", "echo v24.11.0")
        self.use(self.node("other", "echo v24.0.0"), extra=os.path.dirname(extra))
        self.assertEqual(_command.bundled_command(), [f"{extra}/node", self.program])

    def test_none_is_new_enough_or_runs(self) -> None:
        old = self.node("old", "echo v20.9.0")
        broken = self.node("broken", "echo v24.0.0; exit 1")
        other = self.node("other", "echo something else")
        strange = self.node("strange", "#")
        with open(f"{strange}/node", "wb") as file:
            file.write(b"\x7fELF of another machine")
        self.use(old, broken, other, strange)
        with self.assertRaisesRegex(
            holdfast.InvalidConfig,
            rf"^{_NOT_FOUND} \({old}/node is 20.9.0, {broken}/node does not run, "
            rf"{other}/node does not run, {strange}/node does not run\); run: pip install '.+', or",
        ):
            _command.bundled_command()

    def test_a_directory_relative_to_the_working_directory_is_skipped(self) -> None:
        place = self.node("new", "echo v24.0.0")
        self.use(os.path.relpath(place), "")
        with self.assertRaisesRegex(holdfast.InvalidConfig, f"^{_NOT_FOUND}; run: "):
            _command.bundled_command()

    def test_an_installation_without_the_bundle_takes_the_command_of_the_path(self) -> None:
        os.remove(self.program)
        self.assertIsNone(_command.bundled_command())
        with self.assertRaisesRegex(holdfast.InvalidConfig, "the command holdfast was not found"):
            _start.agent_command()

    def script(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The console script in a process of its own, with this program and PATH."""
        code = (
            "import sys; from holdfast import _command\n"
            "_command.find_spec = lambda name: None\n"
            f"_command._PROGRAM = {self.program!r}\n"
            "_command.main()"
        )
        return subprocess.run(
            [sys.executable, "-B", "-c", code, *words],
            cwd=_PYTHON_DIRECTORY,
            capture_output=True,
            text=True,
        )

    def test_the_script_becomes_the_command_with_its_words_and_status(self) -> None:
        tell = 'if [ "$1" = --version ]; then echo v24.0.0; else echo "$@"; exit 3; fi'
        self.use(self.node("new", tell))
        ended = self.script("list", "two words", "--json")
        self.assertEqual(
            (ended.returncode, ended.stdout, ended.stderr),
            (3, f"{self.program} list two words --json\n", ""),
        )

    def test_the_script_says_in_one_sentence_why_it_cannot(self) -> None:
        for why, status in ((_NOT_FOUND, 126), ("this installation has no command", 126)):
            ended = self.script("list")
            self.assertEqual((ended.returncode, ended.stdout), (status, ""))
            self.assertRegex(ended.stderr, rf"^holdfast: {why}[^\n]+\n$")
            if os.path.exists(self.program):
                os.remove(self.program)
