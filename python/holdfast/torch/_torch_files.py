"""Tensors as ``torch.save`` writes them, without a second copy in memory."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterator

import torch

from .._array_source import CopyInto
from ..errors import Unexpected


def torch_saved(tensor: torch.Tensor) -> tuple[int, CopyInto]:
    """The size of the tensor as ``torch.save`` writes it, and a function that writes it.

    A first pass, which keeps no bytes, finds the size.
    """
    counter = _Counter()
    _save(tensor, counter)
    size = counter.size

    def copy_into(target: memoryview) -> None:
        place = _Place(target)
        _save(tensor, place)
        if place.size != size:
            raise Unexpected(f"torch.save wrote {place.size} bytes, and {size} the first time")

    return size, copy_into


class _Counter:
    """A file that only counts."""

    def __init__(self) -> None:
        self.size = 0

    def write(self, data: Any) -> int:
        count = memoryview(data).nbytes
        self.size += count
        return count

    def flush(self) -> None:
        pass


class _Place(_Counter):
    """A file in memory of a given size."""

    def __init__(self, target: memoryview) -> None:
        super().__init__()
        self._target = target

    def write(self, data: Any) -> int:
        with memoryview(data) as view:
            end = self.size + view.nbytes
            if end > self._target.nbytes:
                raise Unexpected("torch.save wrote more bytes than the first time")
            self._target[self.size : end] = view.cast("B")
            self.size = end
            return view.nbytes


def _save(tensor: torch.Tensor, file: Any) -> None:
    plain = tensor.resolve_conj().resolve_neg()
    # A view would be saved with all of its storage.
    if plain.device.type != "cpu" or plain.untyped_storage().nbytes() != plain.nbytes:
        plain = plain.to("cpu", copy=True)
    with _without_checksums():
        torch.save(plain, file)


@contextmanager
def _without_checksums() -> Iterator[None]:
    """Turns torch's checksums off: the agent computes stronger ones, and no reader checks torch's."""
    before = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(False)
    try:
        yield
    finally:
        torch.serialization.set_crc32_options(before)
