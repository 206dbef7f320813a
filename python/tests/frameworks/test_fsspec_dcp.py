"""DCP's own writer and reader over ``holdfast.fsspec``."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import pickle
import subprocess
import sys
import threading
from importlib import import_module
from typing import Any
from unittest import mock

import torch
from torch.distributed.checkpoint import filesystem
from torch.distributed.checkpoint.api import CheckpointException

import holdfast
from holdfast.fsspec import _pending

from . import two_ranks
from .documents import program
from .test_fsspec import FsspecCase
from ..support import PYTHON_ROOT

dcp: Any = import_module("torch.distributed.checkpoint")


def state(value: float) -> dict[str, Any]:
    return {"a": torch.full((1000,), value), "b": {"bf": torch.full((3,), value, dtype=torch.bfloat16), "n": value}}


class Dcp(FsspecCase):
    def setUp(self) -> None:
        super().setUp()
        # DCP says that it overwrites, that it runs alone, and that the file has no descriptor.
        self.ignore_warnings(UserWarning)
        logging.disable(logging.CRITICAL)
        self.addCleanup(logging.disable, logging.NOTSET)

    def load(self, version: int) -> dict[str, Any]:
        loaded = state(-1.0)
        dcp.load(loaded, storage_reader=dcp.FsspecReader(self.at(f"step-{version}")))
        return loaded

    def failed_save(self, version: int, **options: Any) -> str:
        with self.assertRaises(BaseException) as caught:
            dcp.save(state(1.0), storage_writer=dcp.FsspecWriter(self.at(f"step-{version}"), **options))
        return str(caught.exception)

    def versions(self) -> list[str]:
        with self.connect(writer=None) as run, contextlib.suppress(holdfast.NotFound):
            return [f"step-{one.version}" for one in reversed(run.versions())]
        return []

    def test_save_and_load_by_the_writer_and_by_the_id_alone(self) -> None:
        dcp.save(state(1.0), storage_writer=dcp.FsspecWriter(self.at("step-100"), thread_count=2))
        dcp.save(state(2.0), checkpoint_id=self.at("step-200"))
        dcp.async_save(state(3.0), checkpoint_id=self.at("step-300")).result()
        self.assertEqual(self.versions(), ["step-100", "step-200", "step-300"])
        for version, value in ((100, 1.0), (200, 2.0), (300, 3.0)):
            loaded = self.load(version)
            self.assertTrue(torch.equal(loaded["a"], state(value)["a"]))
            self.assertTrue(torch.equal(loaded["b"]["bf"], state(value)["b"]["bf"]))
            self.assertEqual(loaded["b"]["n"], value)
        self.assertEqual(len(_pending.pending._versions), 0)

    def test_the_program_of_the_document(self) -> None:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(program("fsspec", self.uri), {})
        names = [".metadata", "__0_0.distcp", "config.json", "part-0"]
        self.assertEqual(printed.getvalue(), f"200 {names}\n")

    def test_nothing_is_visible_before_the_rename(self) -> None:
        seen: list[Any] = []
        rename = type(self.fs).mv

        def look(fs: Any, *paths: str) -> None:
            seen.append((self.versions(), fs.exists(self.at("step-1")), fs.exists(paths[0])))
            rename(fs, *paths)

        with mock.patch.object(type(self.fs), "mv", look):
            dcp.save(state(1.0), checkpoint_id=self.at("step-1"))
        self.assertEqual(seen, [([], False, False)])
        self.assertEqual(self.versions(), ["step-1"])

    def test_a_version_is_never_saved_twice(self) -> None:
        dcp.save(state(1.0), checkpoint_id=self.at("step-1"))
        self.assertIn("FileExistsError", self.failed_save(1))
        self.assertEqual(self.load(1)["b"]["n"], 1.0)

    def test_a_save_that_failed_is_saved_again_with_nothing_of_the_first(self) -> None:
        dumped = mock.patch.object(pickle, "dump", side_effect=OSError("no metadata"))
        with dumped:
            self.assertIn("no metadata", self.failed_save(1, thread_count=2))
        self.assertEqual(self.versions(), [])
        dcp.save(state(2.0), checkpoint_id=self.at("step-1"))
        self.assertEqual(self.load(1)["b"]["n"], 2.0)
        names = [path.rpartition("/")[2] for path in self.fs.ls(self.at("step-1"), detail=False)]
        self.assertEqual(names, [".metadata", "__0_0.distcp"])

    def test_a_thread_of_dcp_that_cannot_write_fails_the_save(self) -> None:
        write = filesystem._write_item

        def fail(*given: Any, **more: Any) -> Any:
            if threading.current_thread() is not threading.main_thread():
                raise OSError("no space")
            return write(*given, **more)

        with mock.patch.object(filesystem, "_write_item", fail), mock.patch("threading.excepthook"):
            told = self.failed_save(1, thread_count=2)
        self.assertRegex(told, "Incomplete: no file holds")
        self.assertEqual(self.versions(), [])

    def test_a_file_that_is_too_short_fails_the_save(self) -> None:
        with mock.patch.object(_pending.pending, "put", _cut(_pending.pending.put)):
            self.assertRegex(self.failed_save(1), "does not hold")
        self.assertEqual(self.versions(), [])

    def test_metadata_that_is_none_or_that_calls_a_function_is_refused(self) -> None:
        calls = pickle.dumps(_Calls(self.path("called")))
        for data in (b"no pickle", calls, pickle.dumps({})):
            self.fs.makedirs(self.at("step-1"))
            with self.fs.open(self.at("step-1", ".metadata.tmp"), "wb") as file:
                file.write(data)
            with self.assertRaisesRegex(holdfast.InvalidArgument, "not the metadata"):
                self.fs.rename(self.at("step-1", ".metadata.tmp"), self.at("step-1", ".metadata"))
        self.assertFalse(os.path.exists(self.path("called")))
        with self.assertRaises(FileNotFoundError):
            self.fs.rename(self.at("step-1", ".metadata.tmp"), self.at("step-1", ".metadata"))

    def test_a_save_that_was_fenced_fails(self) -> None:
        dcp.save(state(1.0), checkpoint_id=self.at("step-1"))
        with self.connect() as other:
            other.save(2, buffers={"a": b""}).wait()
            self.assertIn("Fenced", self.failed_save(3))
        self.assertEqual(self.versions(), ["step-1", "step-2"])

    def test_several_ranks_are_told_of_the_writer_that_can(self) -> None:
        store = self.path("store")
        command = [sys.executable, "-m", two_ranks.__name__, self.base, store]
        ranks = [
            subprocess.Popen(
                [*command, str(rank)],
                cwd=PYTHON_ROOT,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for rank in range(2)
        ]
        try:
            for rank in ranks:
                printed, _ = rank.communicate(timeout=180)
                self.assertRegex(printed, r"Unsupported: '__1_0.distcp'.*holdfast.torch", printed)
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()
        self.assertEqual(self.versions(), [])

    def test_ranks_without_collectives_are_told_too(self) -> None:
        self.fs.makedirs(self.at("step-1"))
        for name in ("__0.metadata.tmp", "__3_0.distcp"):
            with self.assertRaisesRegex(holdfast.Unsupported, "holdfast.torch"):
                self.fs.open(self.at("step-1", name), "wb")

    def test_a_checkpoint_of_another_program(self) -> None:
        self.save(1, a=b"1")
        with self.assertRaises((CheckpointException, AssertionError)):
            self.load(1)
        with self.assertRaisesRegex(FileNotFoundError, "'.metadata'"):
            self.fs.open(self.at("step-1", ".metadata"))


class _Calls:
    """Its pickle makes a directory."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


def _cut(put: Any) -> Any:
    def cut(key: Any, name: str, data: bytes) -> None:
        put(key, name, data[:-1] if name.endswith(".distcp") else data)

    return cut
