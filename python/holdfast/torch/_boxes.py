"""Where a part of a chunk is in the bytes of the chunk."""

from __future__ import annotations

from typing import NamedTuple, Sequence


class ByteRange(NamedTuple):
    start: int
    length: int
    #: Whether all of its bytes are wanted.
    is_exact: bool


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
