"""Restored checkpoints are plain files for stock tools, without Holdfast."""

from __future__ import annotations

import os
import subprocess
import sys

from .ranks import TIMEOUT, WorldCase

OK = ["ok", None]
_KINDS = os.path.join(os.path.dirname(__file__), "stock_kinds.py")


class Stock(WorldCase):
    SIZE = 2

    def test_stock_readers_load_a_restored_checkpoint(self) -> None:
        uri = self.uri
        for layout in ("safetensors", "distcp"):
            self.uri = f"{uri}-{layout}"
            writer = {"uri": self.uri, "layout": layout}
            self.assertEqual(self.world.call("save", checkpoint_id=5, seed=5, writer=writer), [OK] * 2)
            self.run_of().restore(self.path(layout))
            self.export(self.uri, self.path(f"{layout}-exported"), "--prefix", "model.")
            self.export(self.uri, self.path(f"{layout}-distcp"), "--layout", "distcp", "--file-size", "1KiB")
        self.world.call("write_expected", path=self.path("expected.pt"), seed=5)
        program = os.path.join(os.path.dirname(__file__), "stock_program.py")
        # Isolated: neither PYTHONPATH nor the working directory lead to Holdfast.
        words = [sys.executable, "-I", "-B", program, self.directory]
        done = subprocess.run(words, cwd="/", capture_output=True, text=True, timeout=4 * TIMEOUT)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(done.stdout.splitlines()), 36)

    def test_stock_readers_load_tensors_of_every_type_exported_as_distcp(self) -> None:
        saved = self.path("saved")
        os.mkdir(saved)
        kinds = subprocess.run(
            [sys.executable, "-I", "-B", _KINDS, "save", f"{saved}/model.safetensors"], cwd="/", timeout=TIMEOUT
        )
        self.assertEqual(kinds.returncode, 0)
        words = [*self.agent.command, "save", saved, self.uri]
        self.assertEqual(subprocess.run(words, capture_output=True, timeout=TIMEOUT).returncode, 0)
        self.export(self.uri, self.path("distcp"), "--layout", "distcp")
        words = [sys.executable, "-I", "-B", _KINDS, "load", self.path("distcp")]
        done = subprocess.run(words, cwd="/", capture_output=True, text=True, timeout=4 * TIMEOUT)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(len(done.stdout.splitlines()), 40)
