"""Loads restored checkpoints with PyTorch and safetensors alone. Takes the directory that holds them.

It imports nothing of this package, and Holdfast cannot be imported.
"""

import importlib.util
import os
import sys
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from safetensors import safe_open
from safetensors.torch import load_file
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

Tensors = dict[str, torch.Tensor]


def main(directory: str) -> None:
    assert importlib.util.find_spec("holdfast") is None
    expected = torch.load(f"{directory}/expected.pt", weights_only=True)
    tensors = {name: value for name, value in expected.items() if isinstance(value, torch.Tensor)}

    state = {name: torch.zeros_like(value) for name, value in tensors.items()}
    dcp.load(state, storage_reader=dcp.HuggingFaceStorageReader(f"{directory}/safetensors"))
    compare("HuggingFaceStorageReader", state, tensors)

    model = {name.removeprefix("model."): value for name, value in tensors.items()}
    whole: dict[str, Any] = {"step": 0}
    whole["model"] = {name: torch.zeros_like(value) for name, value in model.items()}
    dcp.load(whole, checkpoint_id=f"{directory}/distcp")
    compare("FileSystemReader", whole["model"], model)
    assert whole["step"] == expected["step"], whole["step"]

    dcp_to_torch_save(f"{directory}/distcp", f"{directory}/converted.pt")
    converted = torch.load(f"{directory}/converted.pt", weights_only=True)
    compare("dcp_to_torch_save", converted["model"], model)
    assert converted["step"] == expected["step"]

    parts: dict[str, list[torch.Tensor]] = {name: [] for name in tensors}
    for file in sorted(os.listdir(f"{directory}/safetensors")):
        if file.endswith(".safetensors"):
            with safe_open(f"{directory}/safetensors/{file}", "pt") as opened:
                for name in opened.keys():
                    parts[name].append(opened.get_tensor(name))
    rows = torch.cat(parts["model.rows"])
    compare("safe_open", {"model.rows": rows}, {"model.rows": tensors["model.rows"]})

    for layout in ("safetensors", "distcp"):
        exported = load_file(f"{directory}/{layout}-exported/model.safetensors")
        compare(f"load_file of {layout}", exported, model)

        whole["model"] = {name: torch.zeros_like(value) for name, value in model.items()}
        dcp.load({"model": whole["model"]}, checkpoint_id=f"{directory}/{layout}-distcp")
        compare(f"FileSystemReader of {layout}", whole["model"], model)


def compare(reader: str, found: Tensors, expected: Tensors) -> None:
    assert found.keys() == expected.keys(), f"{reader}: {found.keys()}"
    for name, value in expected.items():
        assert torch.equal(found[name], value), f"{reader}: {name} differs"
        print(reader, name)


main(sys.argv[1])
