"""Tensors of stock DCP that ``holdfast export`` does not copy byte by byte."""

from __future__ import annotations

import os
import subprocess
import unittest
from typing import Any

from ..real_agent import agent_command
from ..support import TestCase
from .ranks import require_torch

require_torch()

import torch
import torch.distributed.checkpoint as dcp


class OddTensors(TestCase):
    def setUp(self) -> None:
        super().setUp()
        # DCP says that it runs alone, PyTorch that it hardly computes with complex32.
        self.ignore_warnings(UserWarning)

    def exported(self, name: str, state: dict[str, Any], layout: str) -> tuple[int, str]:
        """The exit status of the export of what stock DCP saves, and what it says."""
        source = self.path(f"{name}-{layout}-source")
        uri = f"file://{self.path(f'{name}-{layout}-run')}"
        dcp.save(state, checkpoint_id=source, no_dist=True)
        self.called("save", source, uri)
        return self.called(
            "export", uri, self.path(f"{name}-{layout}"), "--layout", layout, may_fail=True
        )

    def called(self, *words: str, may_fail: bool = False) -> tuple[int, str]:
        done = subprocess.run(
            [*agent_command(), *words], capture_output=True, text=True, timeout=60
        )
        if not may_fail:
            self.assertEqual(done.returncode, 0, done.stderr)
        return done.returncode, done.stdout + done.stderr

    def test_conjugated_and_negated_tensors_are_refused(self) -> None:
        plain = torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex64)
        for name, tensor, mark in (
            ("conj", plain.conj(), "conj"),
            ("neg", torch._neg_view(torch.arange(4.0)), "neg"),
            ("imaginary", plain.conj().imag.clone(memory_format=torch.preserve_format), ""),
        ):
            for layout in ("safetensors", "distcp"):
                with self.subTest(name, layout=layout):
                    status, said = self.exported(name, {"w": tensor}, layout)
                    if mark:
                        self.assertNotEqual(status, 0, said)
                        self.assertIn(f'has the mark "{mark}"; only elements without marks are read', said)
                        self.assertIn("resolve_conj", said)
                        self.assertFalse(os.path.exists(self.path(f"{name}-{layout}")))
                    else:
                        self.assertEqual(status, 0, said)

    def test_types_that_safetensors_does_not_have(self) -> None:
        for dtype in (torch.complex128, torch.complex32):
            name = str(dtype).partition(".")[2]
            state = {"x": torch.tensor([1 + 2j, 3 - 4j]).to(dtype), "y": torch.ones(3)}
            with self.subTest(name):
                status, said = self.exported(name, state, "safetensors")
                self.assertNotEqual(status, 0, said)
                self.assertIn(f"has the type {name}, which safetensors does not have", said)
                self.assertIn("layout distcp", said)
                self.assertEqual(self.exported(name, state, "distcp")[0], 0)
                loaded = {"x": torch.zeros(2, dtype=dtype), "y": torch.zeros(3)}
                dcp.load(loaded, checkpoint_id=self.path(f"{name}-distcp"), no_dist=True)
                self.assertEqual(loaded["x"].tolist(), state["x"].tolist())
                self.assertEqual(loaded["y"].tolist(), [1.0] * 3)


if __name__ == "__main__":
    unittest.main()
