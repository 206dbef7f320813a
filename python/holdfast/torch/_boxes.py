"""Computes where a part of a chunk lies in the bytes of the chunk."""

from __future__ import annotations

from typing import Iterator, NamedTuple, Sequence


class ByteRange(NamedTuple):
    start: int
    length: int
    #: Whether all of its bytes are wanted.
    is_exact: bool


class Box(NamedTuple):
    """A part of an array: a range in each dimension."""

    offsets: tuple[int, ...]
    lengths: tuple[int, ...]


def byte_range(
    sizes: Sequence[int], offsets: Sequence[int], lengths: Sequence[int], item_bytes: int
) -> ByteRange:
    """The smallest range with a box of ``lengths`` at ``offsets`` of an array in C order."""
    if 0 in lengths:
        return ByteRange(0, 0, True)
    first, last, step, count = 0, 0, item_bytes, 1
    for side, offset, length in zip(reversed(sizes), reversed(offsets), reversed(lengths)):
        first += offset * step
        last += (offset + length - 1) * step
        step *= side
        count *= length
    length_bytes = last + item_bytes - first
    return ByteRange(first, length_bytes, length_bytes == count * item_bytes)


def blocks(
    sizes: Sequence[int],
    offsets: Sequence[int],
    lengths: Sequence[int],
    item_bytes: int,
    bytes_max: int,
) -> Iterator[Box]:
    """Divides a box into boxes whose ranges have at most ``bytes_max`` bytes.

    They are relative to the box. A single element is never divided.
    """
    whole = byte_range(sizes, offsets, lengths, item_bytes)
    dim = next((dim for dim, length in enumerate(lengths) if length > 1), None)
    if whole.length <= bytes_max or dim is None:
        yield Box((0,) * len(lengths), tuple(lengths))
        return
    row_bytes = item_bytes
    for side in sizes[dim + 1 :]:
        row_bytes *= side
    rows = max(1, bytes_max // row_bytes)
    for row in range(0, lengths[dim], rows):
        count = min(rows, lengths[dim] - row)
        shifted = [*offsets[:dim], offsets[dim] + row, *offsets[dim + 1 :]]
        part = [*lengths[:dim], count, *lengths[dim + 1 :]]
        for box in blocks(sizes, shifted, part, item_bytes, bytes_max):
            inner = list(box.offsets)
            inner[dim] += row
            yield Box(tuple(inner), box.lengths)
