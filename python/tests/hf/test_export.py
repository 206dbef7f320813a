"""A model that ranks have saved in parts is one that transformers loads."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from ..torch.ranks import TIMEOUT, WorldCase

_PROGRAM = """
import sys
import torch
from transformers import AutoModelForCausalLM

expected, *directories = sys.argv[1:]
for directory in directories:
    state = AutoModelForCausalLM.from_pretrained(directory).state_dict()
    for name, value in torch.load(expected, weights_only=True).items():
        assert torch.equal(state.pop(name), value), name
    assert not state, list(state)
"""


class Export(WorldCase):
    SIZE = 2

    def test_a_sharded_model_is_loaded_by_its_name(self) -> None:
        saved = self.world.call("save_language_model", checkpoint_id=f"{self.uri}/1", path=self.path("saved"))
        self.assertEqual(saved, [["ok", None]] * 2)
        for files, options in ((1, []), (4, ["--file-size", "20KiB"])):
            exported = self.path(f"model-{files}")
            self.export(self.uri, exported, "--prefix", "model.", *options)
            names = [name for name in os.listdir(exported) if name.endswith(".safetensors")]
            self.assertGreaterEqual(len(names), files)
            shutil.copy(self.path("saved/config.json"), exported)
        places = [self.path(name) for name in ("saved/expected.pt", "model-1", "model-4")]
        words = [sys.executable, "-I", "-B", "-c", _PROGRAM, *places]
        done = subprocess.run(words, cwd="/", capture_output=True, text=True, timeout=4 * TIMEOUT)
        self.assertEqual(done.returncode, 0, done.stderr)
