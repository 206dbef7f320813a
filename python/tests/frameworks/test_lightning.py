"""``holdfast.lightning`` with Lightning's trainer and a real agent."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import pathlib
import socket
import subprocess
import sys
from typing import Any
from unittest import mock

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.plugins.io import AsyncCheckpointIO
from lightning.pytorch.strategies import ModelParallelStrategy as LightningModelParallel

import holdfast
from holdfast._saving import Saver
from holdfast.lightning import CheckpointIO, ModelCheckpoint, ModelParallelStrategy
from holdfast.run import Run

from . import sharded_fit
from .documents import program
from .test_fsspec import FsspecCase
from ..support import PYTHON_ROOT


class Model(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(4, 1)
        self.began = -1

    def on_train_start(self) -> None:
        self.began = self.trainer.global_step

    def training_step(self, batch: Any, _: int) -> Any:
        loss = self.layer(batch).pow(2).mean()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam(self.parameters(), lr=0.1)


class LightningCase(FsspecCase):
    def setUp(self) -> None:
        super().setUp()
        self.ignore_warnings()
        logging.disable(logging.WARNING)
        self.addCleanup(logging.disable, logging.NOTSET)

    def trainer(self, epochs: int = 1, callback: Any = None, **options: Any) -> Trainer:
        return Trainer(
            **{
                "accelerator": "cpu",
                "devices": 1,
                "max_epochs": epochs,
                "plugins": [CheckpointIO()],
                "callbacks": [callback or ModelCheckpoint(self.uri, every_n_train_steps=2)],
                "default_root_dir": self.directory,
                "logger": False,
                "enable_progress_bar": False,
                "enable_model_summary": False,
                **options,
            }
        )

    def fit(self, epochs: int = 1, ckpt_path: Any = "last", **options: Any) -> tuple[Trainer, Model]:
        trainer, model = self.trainer(epochs, **options), Model()
        loader: Any = torch.utils.data.DataLoader
        trainer.fit(model, loader(torch.ones(16, 4), batch_size=4), ckpt_path=ckpt_path)
        return trainer, model

    def versions(self) -> list[int]:
        with self.connect(writer=None) as run, contextlib.suppress(holdfast.NotFound):
            return sorted(one.version for one in run.versions())
        return []


class Fitting(LightningCase):
    def test_fit_resumes_from_the_last_and_ends_as_if_never_stopped(self) -> None:
        _, first = self.fit(1)
        self.assertEqual((first.began, self.versions()), (0, [2, 4]))
        _, resumed = self.fit(2)
        self.assertEqual((resumed.began, self.versions()), (4, [2, 4, 6, 8]))
        _, whole = self.fit(2, callback=ModelCheckpoint(f"{self.uri}-whole", every_n_train_steps=2))
        self.assertTrue(torch.equal(resumed.layer.weight, whole.layer.weight))
        self.assertEqual(os.listdir(self.directory), [])

    def test_the_program_of_the_document(self) -> None:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            exec(program("lightning", self.uri), {})
        last = printed.getvalue().splitlines()[-1]
        self.assertEqual(last, self.at("step-16", "checkpoint.ckpt"))
        self.assertEqual(self.versions(), [4, 8, 12, 16])

    def test_a_checkpoint_by_its_url_and_the_best(self) -> None:
        trainer, model = self.fit(2)
        for path in ("step-4", "step-4/checkpoint.ckpt", "epoch=0-step=4.ckpt"):
            _, again = self.fit(1, self.at(path), callback=ModelCheckpoint(f"{self.uri}-b", every_n_epochs=9))
            self.assertEqual(again.began, 4)
        best = str(trainer.checkpoint_callback.best_model_path)  # type: ignore[union-attr]
        self.assertEqual(best, self.at("step-8", "checkpoint.ckpt"))
        loaded = Model.load_from_checkpoint(best)
        self.assertTrue(torch.equal(loaded.layer.weight, model.layer.weight))

    def test_names_with_a_step_and_rotation_that_removes_nothing(self) -> None:
        callback = ModelCheckpoint(
            self.base, "{epoch}-{step}", save_top_k=1, monitor="loss", every_n_train_steps=1
        )
        trainer, _ = self.fit(1, callback=callback)
        # Only what is better than all before is saved.
        versions = self.versions()
        self.assertGreater(len(versions), 1)
        self.assertEqual(callback.best_model_path, self.at(f"epoch=0-step={versions[-1]}.ckpt"))
        trainer.strategy.remove_checkpoint(self.at(f"step-{versions[0]}"))
        self.assertEqual(self.versions(), versions)

    def test_a_save_that_fails_is_raised_by_the_next_call(self) -> None:
        plugin = CheckpointIO()
        plugin.save_checkpoint({"a": 5}, self.at("step-5"))
        plugin.teardown()
        plugin.save_checkpoint({"a": 4}, self.at("step-6"))
        with mock.patch.object(Run, "save", _at_version(5)):
            plugin.save_checkpoint({"a": 7}, self.at("step-7"))
        self.until(plugin._handles.handles[-1].done)
        with self.assertRaises(holdfast.Conflict):
            plugin.save_checkpoint({"a": 8}, self.at("step-8"))
        self.assertEqual(self.versions(), [5, 6])

    def test_a_save_that_fails_leaves_no_view_of_a_stream_in_its_traceback(self) -> None:
        """Python 3.12.1 crashes when it collects one."""
        given: list[Any] = []

        def fail(_: Run, version: int, *, buffers: dict[str, Any], **__: Any) -> Any:
            given.extend(buffers.values())
            raise holdfast.Conflict("said")

        with mock.patch.object(Run, "save", fail), self.assertRaises(holdfast.Conflict):
            CheckpointIO().save_checkpoint({"a": 5}, self.at("step-5"))
        self.assertEqual([type(one) for one in given], [bytes])

    def test_the_end_waits_and_raises_what_failed(self) -> None:
        plugin = CheckpointIO()
        plugin.save_checkpoint({"a": 5}, self.at("step-5"))
        plugin.teardown()
        self.assertEqual(self.versions(), [5])
        with mock.patch.object(Run, "save", _at_version(5)):
            plugin.save_checkpoint({"a": 6}, self.at("step-6"))
        with self.assertRaises(holdfast.Conflict):
            plugin.teardown()
        with mock.patch.object(Run, "save", _at_version(5)):
            plugin.save_checkpoint({"a": 6}, self.at("step-6"))
        self.until(plugin._handles.handles[-1].done)
        # Its failure arrives when the next save has begun already.
        with mock.patch.object(Saver, "raise_failure"):
            plugin.save_checkpoint({"a": 8}, self.at("step-8"))
        with self.assertRaises(holdfast.Conflict):
            plugin.teardown()
        waiting = CheckpointIO(waits=True)
        waiting.save_checkpoint({"a": 9}, self.at("step-9"))
        self.assertEqual(waiting.load_checkpoint(self.at("latest")), {"a": 9})

    def test_all_ranks_load_the_version_that_rank_0_found(self) -> None:
        plugin = CheckpointIO(waits=True)
        for version in (1, 2):
            plugin.save_checkpoint({"a": version}, self.at(f"step-{version}"))
        with self.connect(writer=None) as run:
            sent: list[Any] = [run.versions()[1], None]

        def broadcast(box: list[Any]) -> None:
            box[:] = sent

        with mock.patch.multiple(
            torch.distributed,
            is_initialized=lambda: True,
            get_rank=lambda: 1,
            broadcast_object_list=broadcast,
        ):
            self.assertEqual(plugin.load_checkpoint(self.at("latest")), {"a": 1})
            sent[:] = [None, holdfast.Unavailable("gone")]
            with self.assertRaises(holdfast.Unavailable):
                plugin.load_checkpoint(self.at("latest"))

    def test_sharded_models_resume_on_another_number_of_ranks(self) -> None:
        first = self.fit_sharded(2, self.uri, 1)
        self.assertEqual(first[:2], [0, 4])
        second = self.fit_sharded(1, self.uri, 2)
        self.assertEqual(second[:2], [4, 8])
        torch.manual_seed(0)
        layer = torch.nn.Linear(4, 6)
        optimizer = torch.optim.Adam(layer.parameters(), lr=0.1)
        for _ in range(8):
            optimizer.zero_grad()
            layer(torch.ones(4, 4)).pow(2).mean().backward()
            optimizer.step()
        self.assertAlmostEqual(second[2], layer.weight.sum().item(), places=4)
        self.assertEqual(self.versions(), [2, 4, 6, 8])

    def test_a_rank_that_is_late_for_a_save_is_named_at_the_timeout(self) -> None:
        name, why = self.fit_sharded(2, self.uri, 1, "5", "20")
        self.assertEqual(name, "Incomplete")
        self.assertRegex(why, r"\b1\b")
        self.assertEqual(self.versions(), [2])

    def fit_sharded(self, size: int, run: str, epochs: int, *more: str) -> list[Any]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        ranks = [
            subprocess.Popen(
                [sys.executable, "-m", sharded_fit.__name__, run, str(epochs), *more],
                cwd=PYTHON_ROOT,
                env={
                    **os.environ,
                    **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"},
                    **{"TORCHELASTIC_RUN_ID": "test", "GROUP_RANK": "0"},
                    **{"RANK": str(rank), "LOCAL_RANK": str(rank)},
                    **{"WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size)},
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(size)
        ]
        try:
            printed = [rank.communicate(timeout=360) for rank in ranks]
        finally:
            for one in ranks:
                one.kill()
                one.wait()
        self.assertEqual([one.returncode for one in ranks], [0] * size, printed)
        found: list[Any] = json.loads(printed[0][0].splitlines()[-1])
        return found


class BadInput(LightningCase):
    def test_paths(self) -> None:
        plugin = CheckpointIO()
        refused = [
            (self.at("last.ckpt"), "has no version"),
            (self.at("epoch=1-loss=0.12.ckpt"), "has no version"),
            (self.base, "names no version"),
            (pathlib.Path(self.at("step-1")), "removed a slash"),
            ("s3:/bucket/run/step-1", "removed a slash"),
            ("/tmp/run/step-1.ckpt", "in no run"),
            ("s3://bucket/run/step-1", "in no run"),
        ]
        for path, why in refused:
            for ask in (lambda: plugin.save_checkpoint({}, path), lambda: plugin.load_checkpoint(path)):
                with self.assertRaisesRegex(holdfast.InvalidArgument, why, msg=str(path)):
                    ask()
        with self.assertRaisesRegex(holdfast.InvalidArgument, "can only be loaded"):
            plugin.save_checkpoint({}, self.at("latest"))
        with self.assertRaisesRegex(holdfast.InvalidArgument, "storage_options"):
            plugin.save_checkpoint({}, self.at("step-1"), storage_options={})

    def test_what_is_missing_and_what_another_program_saved(self) -> None:
        plugin = CheckpointIO()
        for path in (self.at("step-1"), self.at("latest")):
            with self.assertRaises(FileNotFoundError):
                plugin.load_checkpoint(path)
        self.save(1, **{".metadata": b"x", "__0_0.distcp": b"y"})
        with self.assertRaisesRegex(holdfast.Unsupported, "version 1 is no checkpoint of Lightning.*distcp"):
            plugin.load_checkpoint(self.at("step-1"))
        with self.assertRaisesRegex(holdfast.Unsupported, "no checkpoint of Lightning"):
            self.fit(1)

    def test_options_of_the_callback(self) -> None:
        refused: list[tuple[dict[str, Any], str]] = [
            ({"save_last": True}, "latest version is the last"),
            ({"dirpath": "x"}, "the run is the directory"),
            ({"run": self.at("step-1")}, "is not a run"),
            ({"run": "holdfast:/prod"}, "removed a slash"),
            ({"run": pathlib.Path("/tmp/run")}, "expected str"),
        ]
        for options, why in refused:
            with self.assertRaisesRegex(holdfast.InvalidArgument, why):
                ModelCheckpoint(**{"run": self.uri, **options})

    def test_a_trainer_that_would_save_elsewhere(self) -> None:
        for plugins in ([], [AsyncCheckpointIO(CheckpointIO())]):
            with self.assertRaisesRegex(holdfast.Unsupported, r"plugins=\[holdfast.lightning.CheckpointIO"):
                self.fit(1, None, plugins=plugins)
        trainer = mock.Mock(strategy=LightningModelParallel())
        with self.assertRaisesRegex(holdfast.Unsupported, "holdfast.lightning.ModelParallelStrategy"):
            ModelCheckpoint(self.uri).setup(trainer, Model(), "fit")
        with self.assertRaisesRegex(holdfast.InvalidArgument, "save_distributed_checkpoint"):
            ModelParallelStrategy(save_distributed_checkpoint=False)


def _at_version(version: int) -> Any:
    """A save of a version that is committed with other content, which only the agent can know."""
    save: Any = Run.save

    def other(run: Run, _: int, **options: Any) -> Any:
        return save(run, version, **options)

    return other
