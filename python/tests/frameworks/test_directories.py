"""Directories of one process. ``test_ranks`` has two."""

from __future__ import annotations

import os
from typing import Any

from holdfast.directories import DirectoryCheckpoints
from holdfast.errors import Conflict, InvalidArgument, NotFound

from ..real_agent import RealAgentCase


class Directories(RealAgentCase):
    def checkpoints(self, **options: Any) -> DirectoryCheckpoints:
        made = DirectoryCheckpoints(self.uri, self.directory, agent=self.agent.socket, **options)
        self.addCleanup(made.close)
        return made

    def write(self, made: DirectoryCheckpoints, version: int, text: str) -> str:
        os.makedirs(made.path(version), exist_ok=True)
        path = os.path.join(made.path(version), "file")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_a_directory_comes_back_as_it_was_saved(self) -> None:
        trackers = {"latest": "global_step{version}", "number": "{version}"}
        with self.checkpoints(name="global_step{version:04d}", trackers=trackers) as made:
            self.assertIsNone(made.resume())
            path = self.write(made, 7, "saved")
            made.save(7, metrics={"loss": 0.5})
        with open(path, "w", encoding="utf-8") as file:
            file.write("torn")
        self.assertEqual(made.resume(), 7)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "saved")
        self.assertEqual(made.path(7), os.path.join(self.directory, "global_step0007"))
        for name, content in (("latest", "global_step7"), ("number", "7")):
            with open(self.path(name), encoding="utf-8") as file:
                self.assertEqual(file.read(), content)
        names = sorted(name for name in os.listdir(self.directory) if not name.startswith("."))
        self.assertEqual(names, ["global_step0007", "global_step0007.before-resume", "latest", "number"])

    def test_a_save_that_fails_is_raised_by_the_next_call(self) -> None:
        made = self.checkpoints()
        for version, text in ((1, "one"), (2, "two")):
            self.write(made, version, text)
            made.save(version)
        made.finish()
        other = self.checkpoints()
        self.write(other, 2, "another two")
        other.save(2)
        with self.assertRaises(Conflict):
            other.finish()
        with self.assertRaises(NotFound):
            other.resume(3)

    def test_mistakes(self) -> None:
        for name in ("step", "a/{version}", "{other}", "{version", "..{version}/..", "{}"):
            with self.subTest(name), self.assertRaises(InvalidArgument) as caught:
                self.checkpoints(name=name)
            self.assertIn("expected the name of a directory with {version} in it", str(caught.exception))
        for trackers in ({"a/b": "1"}, {"": "1"}, {"a": "{step}"}):
            with self.subTest(trackers), self.assertRaises(InvalidArgument) as caught:
                self.checkpoints(trackers=trackers)
            self.assertIn("trackers: ", str(caught.exception))
        with self.assertRaises(InvalidArgument) as caught:
            self.checkpoints(attempt="a").resume()
        self.assertIn("attempt: resume only reads", str(caught.exception))
