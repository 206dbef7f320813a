"""Saves tensors of every type and shape with safetensors, or loads them with PyTorch's DCP alone.

    stock_kinds.py save FILE | load DIRECTORY

It imports nothing of this package, and Holdfast cannot be imported.
"""

import importlib.util
import sys

import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import save_file
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

_TYPES = (
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.bool),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint64, torch.uint32, torch.uint16, torch.uint8),
    *(torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu),
)
_SHAPES = ((), (5,), (3, 1, 4), (0, 3), (2, 0))


def kinds() -> dict[str, torch.Tensor]:
    made = {}
    for dtype in _TYPES:
        for shape in _SHAPES:
            count = torch.Size(shape).numel()
            made[f"{dtype}.{list(shape)}"] = torch.arange(1.0, count + 1).reshape(shape).to(dtype)
    made["ü.weight"] = torch.arange(1 << 20, dtype=torch.float32).reshape(1024, 1024)
    return made


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return a.numel() == 0 or torch.equal(a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8))


def main(what: str, place: str) -> None:
    assert importlib.util.find_spec("holdfast") is None
    expected = kinds()
    if what == "save":
        save_file(expected, place)
        return
    state = {name: torch.zeros_like(value) for name, value in expected.items()}
    dcp.load(state, checkpoint_id=place)
    dcp_to_torch_save(place, f"{place}.pt")
    converted = torch.load(f"{place}.pt", weights_only=True)
    assert converted.keys() == expected.keys()
    for name, value in expected.items():
        assert same(state[name], value), name
        assert same(converted[name], value), name
        print(name)


main(sys.argv[1], sys.argv[2])
