"""Directories of one process. ``test_ranks`` has two."""

from __future__ import annotations

import errno
import os
import shutil
from typing import Any
from unittest import mock

import holdfast
from holdfast.directories import DirectoryCheckpoints
from holdfast.errors import Conflict, InvalidArgument, NotFound, TargetExists

from ..real_agent import RealAgentCase, save_again


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

    def test_each_node_gets_the_checkpoint_that_was_found_first(self) -> None:
        with self.checkpoints() as made:
            for version in (1, 2):
                path = self.write(made, version, "old")
                made.save(version)
        shutil.rmtree(made.path(2))
        found = holdfast.Run.latest

        def replaced(run: holdfast.Run) -> Any:
            latest = found(run)
            save_again(self.uri, 2, self.path("again"), file=b"new")
            return latest

        with mock.patch.object(holdfast.Run, "latest", replaced):
            self.assertEqual(made.resume(), 2)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "old")
        self.assertEqual(made.resume(), 2)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "new")

    def test_a_link_that_was_put_aside_is_in_the_way_of_no_later_resume(self) -> None:
        with self.checkpoints() as made:
            self.write(made, 7, "saved")
            made.save(7)
        elsewhere = self.path("on-another-disk")
        os.rename(made.path(7), elsewhere)
        os.symlink(elsewhere, made.path(7))
        for _ in range(3):
            # The trainer is killed while it writes.
            self.write(made, 7, "torn")
            with open(os.path.join(made.path(7), "more"), "wb"):
                pass
            self.assertEqual(made.resume(), 7)
            self.assertEqual(os.listdir(made.path(7)), ["file"])
        self.assertEqual(sorted(os.listdir(elsewhere)), ["file", "more"])
        self.assertFalse(os.path.islink(f"{made.path(7)}.before-resume"))

    def test_a_directory_that_cannot_be_put_aside_is_named(self) -> None:
        with self.checkpoints() as made:
            self.write(made, 7, "saved")
            made.save(7)
        self.write(made, 7, "torn")
        with mock.patch("os.rename", side_effect=OSError(errno.EROFS, "Read-only file system")):
            with self.assertRaisesRegex(TargetExists, "before-resume: Read-only file system"):
                made.resume()

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

    def test_a_version_that_is_committed_is_saved_again_only_with_the_same_content(self) -> None:
        made = self.checkpoints()
        path = self.write(made, 100, "first")
        made.save(100)
        self.write(made, 200, "diverged")
        made.save(200)
        # As it was saved, gone, and written again alike.
        made.save(200)
        shutil.rmtree(made.path(200))
        made.save(200)
        self.write(made, 200, "diverged")
        made.save(200)
        made.finish()
        shutil.rmtree(made.path(200))
        self.write(made, 200, "another")
        with self.assertRaisesRegex(Conflict, "200 is committed already, with other content"):
            made.save(200)
            made.finish()
        with self.connect(writer=None) as run:
            self.assertEqual(run.read("file", 200), b"diverged")
            self.assertEqual([one.version for one in run.versions()], [200, 100])
        self.assertTrue(os.path.exists(path))

    def test_a_directory_that_is_to_be_removed_stays_if_it_has_changed(self) -> None:
        made = self.checkpoints(remove_local=True)
        with self.assertLogs("holdfast", "WARNING") as logged:
            for version in range(1, 6):
                self.write(made, version, "saved")
                os.mkdir(os.path.join(made.path(version), "empty"))
                made.save(version)
                # The next call may remove it, or say why it stays.
                self.change(made, version)
            made.finish()
        left = sorted(name for name in os.listdir(self.directory) if name.startswith("step-"))
        self.assertEqual(left, ["step-2", "step-3", "step-4"])
        self.assertEqual(sorted(os.listdir(made.path(2))), ["empty", "file", "later"])
        self.assertEqual(len(logged.output), 3)
        self.assertIn("step-2 stays: it was changed after it was saved as version 2", logged.output[0])

    def change(self, made: Any, version: int) -> None:
        if version == 2:
            with open(os.path.join(made.path(2), "later"), "w", encoding="utf-8") as file:
                file.write("in no version")
        elif version == 3:
            os.mkdir(os.path.join(made.path(3), "empty", "later"))
        elif version == 4:
            # A trainer that goes back writes a step again.
            shutil.move(made.path(4), self.path("aside"))
            self.write(made, 4, "saved")
            os.utime(os.path.join(made.path(4), "file"), ns=self.times(self.path("aside/file")))
            os.mkdir(os.path.join(made.path(4), "empty"))

    def times(self, path: str) -> tuple[int, int]:
        facts = os.stat(path)
        return (facts.st_atime_ns, facts.st_mtime_ns)

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
