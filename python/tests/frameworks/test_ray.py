"""``holdfast.ray`` with Ray Train, pyarrow and a real agent."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from typing import Any
from unittest import mock

import pyarrow.fs
import ray.train
from ray.train.v2._internal.execution import storage as ray_storage

import holdfast
import holdfast.ray
from holdfast import _requirements
from holdfast.ray import _snapshot, _training

from . import ray_programs
from .documents import program
from .test_fsspec import FsspecCase
from ..support import PYTHON_ROOT

_MARKER = "/name/.validate_storage_marker"
_SNAPSHOT = "/name/checkpoint_manager_snapshot.json"


class RayCase(FsspecCase):
    def setUp(self) -> None:
        super().setUp()
        self.files: Any = holdfast.ray.filesystem(self.uri)

    def storage(self) -> Any:
        return ray_storage.StorageContext("/", "name", self.files)

    def training(self, rank: int = 0, storage: Any = None) -> ExitStack:
        """As in a training function of this rank."""
        stack = ExitStack()
        context = mock.Mock()
        context.get_world_rank.return_value = rank
        context.get_storage.return_value = storage or self.storage()
        stack.enter_context(mock.patch.object(ray.train, "get_context", lambda: context))
        stack.enter_context(mock.patch.object(_training, "broadcast_from_rank_zero", lambda data: data))
        return stack

    def checkpoint(self, **files: bytes) -> Any:
        directory = tempfile.mkdtemp(dir=self.directory)
        for name, data in files.items():
            os.makedirs(os.path.dirname(os.path.join(directory, name)), exist_ok=True)
            with open(os.path.join(directory, name), "wb") as file:
                file.write(data)
        return ray.train.Checkpoint.from_directory(directory)

    def read(self, path: str) -> bytes:
        with self.files.open_input_stream(path) as file:
            return bytes(file.read())


class Training(RayCase):
    def test_the_program_of_the_document_saves_and_resumes(self) -> None:
        with open(self.path("program.py"), "w", encoding="utf-8") as file:
            file.write(program("ray", self.uri))
        # Ray makes sockets below it, and their paths have to be short.
        directory = tempfile.mkdtemp(prefix="hfr-")
        self.addCleanup(shutil.rmtree, directory, ignore_errors=True)
        result = subprocess.run(
            [sys.executable, "-m", ray_programs.__name__, self.path("program.py"), directory, "2", "3"],
            cwd=PYTHON_ROOT,
            env={**os.environ, **ray_programs.ENVIRONMENT},
            capture_output=True,
            text=True,
            timeout=400,
        )
        self.assertEqual(result.returncode, 0, result.stderr[-4000:])
        told = [json.loads(line) for line in result.stdout.splitlines()]
        expected = ["/experiment/step-2 {'loss': 0.5}", f"/experiment/step-3 {{'loss': {1 / 3}}}"]
        self.assertEqual(told, expected, result.stderr[-4000:])
        with self.connect(writer=None) as run:
            # A second run that began anew would have met version 1 (Conflict).
            self.assertEqual([one.version for one in run.versions()], [3, 2, 1])
            self.assertEqual([one.metrics for one in run.versions()][1], {"loss": 0.5})
            self.assertEqual(run.read("state", 3), b"3")

    def test_an_upload_is_a_committed_version_that_all_ranks_find(self) -> None:
        with self.training():
            self.assertIsNone(holdfast.ray.get_checkpoint())
            given = self.checkpoint(**{"a": b"1", "dir/b": b"2"})
            saved = holdfast.ray.upload(given, "step-7")
            found = holdfast.ray.get_checkpoint()
        assert found is not None
        self.assertEqual((saved.path, found.path), ("/name/step-7", "/name/step-7"))
        with pickle.loads(pickle.dumps(found)).as_directory() as directory:
            with open(os.path.join(directory, "dir", "b"), "rb") as file:
                self.assertEqual(file.read(), b"2")
        self.assertEqual(self.fs.cat(self.at("step-7", "a")), b"1")

    def test_empty_directories_come_back(self) -> None:
        with self.training():
            given = self.checkpoint(**{"dir/b": b"2"})
            for name in ("dir/none", "assets"):
                os.mkdir(os.path.join(given.path, name))
            holdfast.ray.upload(given, "step-7")
            found = holdfast.ray.get_checkpoint()
        assert found is not None
        with found.as_directory() as directory:
            self.assertEqual(sorted(os.listdir(directory)), ["assets", "dir"])
            self.assertEqual(sorted(os.listdir(os.path.join(directory, "dir"))), ["b", "none"])
            self.assertEqual(os.listdir(os.path.join(directory, "assets")), [])

    def test_nothing_below_a_link_is_left_out_without_a_word(self) -> None:
        target = self.path("elsewhere")
        os.mkdir(target)
        with open(os.path.join(target, "w.bin"), "wb"):
            pass
        for target in (target, os.path.join(target, "w.bin")):
            given = self.checkpoint(state=b"1")
            os.symlink(target, os.path.join(given.path, "weights"))
            with self.training(), self.assertRaisesRegex(
                holdfast.InvalidArgument, "/weights is a symbolic link; replace it"
            ):
                holdfast.ray.upload(given, "step-7")
        self.assertFalse(self.fs.exists(self.at("step-7")))

    def test_a_version_is_never_saved_twice(self) -> None:
        with self.training():
            holdfast.ray.upload(self.checkpoint(a=b"1"), "step-7")
            with self.assertRaises(holdfast.Conflict):
                holdfast.ray.upload(self.checkpoint(a=b"2"), "step-7")
        self.assertEqual(self.fs.cat(self.at("step-7", "a")), b"1")

    def test_a_rank_above_0_learns_the_latest_from_rank_0_and_its_error(self) -> None:
        with self.training(rank=1):
            with mock.patch.object(_training, "broadcast_from_rank_zero", lambda _: {"version": 4}):
                found = holdfast.ray.get_checkpoint()
                assert found is not None
                self.assertEqual(found.path, "/name/step-4")
            told = {"error": holdfast.Unavailable("gone")}
            with mock.patch.object(_training, "broadcast_from_rank_zero", lambda _: told):
                with self.assertRaises(holdfast.Unavailable):
                    holdfast.ray.get_checkpoint()


class Files(RayCase):
    def test_the_list_of_checkpoints_is_a_view_of_the_run(self) -> None:
        storage = self.storage()
        self.assertFalse(ray_storage._exists_at_fs_path(self.files, _SNAPSHOT))
        with self.assertRaises(FileNotFoundError):
            self.read(_SNAPSHOT)
        self.save(1, a=b"1")
        self.save(10, a=b"10")
        told = {"latest_checkpoint_result": {"checkpoint_dir_name": "step-10", "metrics": {}}}
        told["latest_checkpoint_result"]["metrics"] = {"loss": 0.5, "note": "text", "bad": float("nan")}
        for _ in range(2):
            with self.files.open_output_stream(storage.checkpoint_manager_snapshot_path) as file:
                file.write(json.dumps(told).encode())
        found = json.loads(self.read(_SNAPSHOT))
        latest = {"version": 0, "checkpoint_dir_name": "step-10", "metrics": {"loss": 0.5}}
        self.assertEqual(found["latest_checkpoint_result"], latest)
        names = [one["checkpoint_dir_name"] for one in found["checkpoint_results"]]
        self.assertEqual((names, found["current_report_index"]), (["step-1", "step-10"], 2))

    def test_metrics_that_cannot_be_kept_are_dropped(self) -> None:
        self.save(1, a=b"1")
        with self.connect(writer=None) as run:
            for told in (
                {"latest_checkpoint_result": {"checkpoint_dir_name": "step-9", "metrics": {"a": 1}}},
                {"latest_checkpoint_result": None},
            ):
                _snapshot.keep_metrics(run, json.dumps(told).encode())
            many = {f"m{index}": index for index in range(300)}
            told = {"latest_checkpoint_result": {"checkpoint_dir_name": "step-1", "metrics": many}}
            with self.assertLogs("holdfast", "WARNING"):
                _snapshot.keep_metrics(run, json.dumps(told).encode())
            self.assertEqual([one.metrics for one in run.versions()], [{}])

    def test_another_form_of_the_list_is_refused(self) -> None:
        self.save(1, a=b"1")
        missing = {"ray.train.v2._internal.execution.checkpoint.checkpoint_manager": None}
        with mock.patch.dict(sys.modules, missing), self.assertRaisesRegex(holdfast.Unsupported, "otherwise"):
            self.read(_SNAPSHOT)

    def test_a_storage_that_cannot_be_reached_is_an_error_at_the_beginning(self) -> None:
        os.environ["HOLDFAST_AGENT"] = self.path("none.sock")
        with mock.patch.object(holdfast.ray._files, "Options", lambda **_: _options()):
            files = holdfast.ray.filesystem(self.uri)
        with self.assertRaises(holdfast.AgentUnavailable):
            ray_storage.StorageContext("/", "name", files)
        # A worker on another node only looks for Ray's marker.
        with self.assertRaises(holdfast.AgentUnavailable):
            files.get_file_info(_MARKER)

    def test_listings(self) -> None:
        self.save(1, **{"a": b"1", "dir/b": b"22"})
        found = self.files.get_file_info(pyarrow.fs.FileSelector("/name/step-1", recursive=True))
        told = [(one.path, one.type.name, one.size) for one in found]
        self.assertEqual(
            sorted(told),
            [
                ("/name/step-1/a", "File", 1),
                ("/name/step-1/dir", "Directory", None),
                ("/name/step-1/dir/b", "File", 2),
            ],
        )
        (run,) = self.files.get_file_info(pyarrow.fs.FileSelector("/name"))
        self.assertEqual((run.path, run.type.name), ("/name/step-1", "Directory"))
        gone = pyarrow.fs.FileSelector("/name/step-2", allow_not_found=True)
        self.assertEqual(self.files.get_file_info(gone), [])
        with self.assertRaises(FileNotFoundError):
            self.files.get_file_info(pyarrow.fs.FileSelector("/name/step-2"))
        self.assertEqual(self.files, holdfast.ray.filesystem(self.uri))
        self.assertNotEqual(self.files, holdfast.ray.filesystem(f"{self.uri}x"))

    def test_rotation_removes_nothing_and_all_other_changes_are_refused(self) -> None:
        self.save(1, a=b"1")
        ray_storage.delete_fs_path(self.files, "/name/step-1")
        changes: list[Any] = [
            lambda: self.files.delete_file("/name/step-1/a"),
            lambda: self.files.delete_dir_contents("/name/step-1"),
            lambda: self.files.delete_dir_contents("/", accept_root_dir=True),
            lambda: self.files.move("/name/step-1/a", "/name/step-1/b"),
            lambda: self.files.copy_file("/name/step-1/a", "/name/step-1/b"),
            lambda: self.files.open_append_stream("/name/step-1/a"),
        ]
        for change in changes:
            with self.assertRaisesRegex(holdfast.Unsupported, "never change"):
                change()
        self.assertEqual(self.read("/name/step-1/a"), b"1")


class BadInput(RayCase):
    def test_a_copy_gives_no_sign_of_its_end(self) -> None:
        for name in ("step-1", "checkpoint_2026-01-01_00-00-00.000000"):
            with self.assertRaisesRegex(holdfast.Unsupported, "checkpoint_upload_fn=holdfast.ray.upload"):
                self.storage().persist_current_checkpoint(self.checkpoint(a=b"1"), name)
        self.assertEqual(self.fs.find(self.base), [])

    def test_uploads_that_are_refused(self) -> None:
        with self.training():
            for name in ("checkpoint_2026-01-01_00-00-00.000000", "step-", "step-1.5", "last"):
                with self.assertRaisesRegex(holdfast.InvalidArgument, "has no version"):
                    holdfast.ray.upload(self.checkpoint(a=b"1"), name)
            with self.assertRaisesRegex(holdfast.InvalidArgument, "has no file"):
                holdfast.ray.upload(self.checkpoint(), "step-1")
        with self.training(rank=1), self.assertRaisesRegex(holdfast.Unsupported, "rank 1.*holdfast.torch"):
            holdfast.ray.upload(self.checkpoint(a=b"1"), "step-1")
        local = ray_storage.StorageContext(self.directory, "name")
        with self.training(storage=local), self.assertRaisesRegex(holdfast.Unsupported, "storage_filesystem="):
            holdfast.ray.upload(self.checkpoint(a=b"1"), "step-1")
        self.assertEqual(self.fs.find(self.base), [])

    def test_paths(self) -> None:
        with self.assertRaisesRegex(holdfast.InvalidArgument, 'storage_path="/"'):
            ray_storage.StorageContext("/root/ray_results", "name", self.files)
        with self.assertRaisesRegex(holdfast.InvalidArgument, "expected step-N"):
            self.files.get_file_info("/name/checkpoint_1")
        for run in ("", 5):
            with self.assertRaises(holdfast.InvalidArgument):
                holdfast.ray.filesystem(run)  # type: ignore[arg-type]

    def test_old_packages(self) -> None:
        with mock.patch.object(_requirements, "version", return_value="2.9.3"):
            with self.assertRaisesRegex(holdfast.Unsupported, r"ray 2.9.3.*holdfast\[ray\]"):
                _requirements.require("ray", holdfast.ray.OLDEST_RAY, "ray")


def _options() -> Any:
    from holdfast._run_pool import Options

    return Options(timeout=0.1)
