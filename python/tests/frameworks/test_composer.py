"""The trainer of Composer, in a process of its own: it issues many warnings."""

from __future__ import annotations

from typing import Any

from .jobs import JobCase


class Composer(JobCase):
    def test_jobs(self) -> None:
        """One process for all, because the import takes longer than the jobs."""
        path = self.program("composer", f"{self.uri}-run")
        found = self.job("composer_jobs", self.uri, self.directory, path)[-1]
        self.check_document(found["document"])
        self.check_reading(found["reading"])
        self.check_writing(found["writing"])

    def check_document(self, found: Any) -> None:
        """A trainer on a new machine resumes from the run, and local rotation does no harm."""
        first, second = found
        self.assertEqual(first, ["begins at batch 0", ["ep2-ba8-rank0.pt", "latest-rank0.pt"]])
        self.assertEqual(second[0], "begins at batch 8")
        run = self.connect(uri=f"{self.uri}-run", writer=None)
        self.assertEqual([one.version for one in run.versions()], [12, 8, 4])

    def check_reading(self, found: dict[str, Any]) -> None:
        self.assertEqual(found["latest"], 12)
        for objects in ("objects", "objects after a rollback"):
            self.assertEqual(found[objects], ["step-4/ep1-ba4-rank0.pt"])
        self.assertEqual([found["same"], found["uri"], found["empty list"]], [True, True, []])
        for name, kind, text in [
            ("there already", "FileExistsError", "overwrite is False"),
            ("no such version", "FileNotFoundError", "version 5"),
            ("no such file", "FileNotFoundError", "no such file in the version"),
            ("a version is no link to the latest", "FileNotFoundError", "version 5"),
            ("no name of an object", "FileNotFoundError", "expected step-N/FILE"),
            ("empty run", "FileNotFoundError", "nothing was committed"),
            ("upload", "Unsupported", "CheckpointDestination(RUN)"),
            ("no agent", "ObjectStoreTransientError", "no agent answers"),
        ]:
            with self.subTest(name):
                self.assertEqual(found[name][0], kind, found[name])
                self.assertIn(text, found[name][1])
        self.assertEqual(found["left"], ["file.pt", "named.pt"])

    def check_writing(self, found: dict[str, Any]) -> None:
        self.assertEqual(found["versions"], ["step-1/a.pt"])
        self.assertEqual(found["again"][0], "Conflict", found["again"])
        self.assertEqual(found["sharded"][0], "Unsupported")
        self.assertIn("holdfast watch", found["sharded"][1])
