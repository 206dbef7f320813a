"""The safetensors format: a length of 8 bytes, a header in JSON, and the elements."""

from __future__ import annotations

import json
from typing import Any, Iterable, Mapping, NamedTuple

from . import _dtypes
from ._arguments import shown
from ._array_source import ArraySource, count_of
from .errors import Corrupt, InvalidArgument

#: The format allows no longer header.
HEADER_BYTES_MAX = 100_000_000
#: The elements begin at a multiple of this. The format allows no gaps behind it.
ALIGNMENT = 64
LENGTH_BYTES = 8
#: As NumPy and PyTorch allow.
_DIMENSIONS_MAX = 64
_COUNT_MAX = (1 << 63) - 1


class Entry(NamedTuple):
    """An array in a file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    #: Bytes between the beginning of the file and that of the elements.
    offset: int
    #: Bytes of the elements.
    size: int


class Layout(NamedTuple):
    """A file before it is written."""

    #: The header, with its length in front.
    header: bytes
    entries: tuple[Entry, ...]
    #: Bytes of the whole file.
    size: int


def lay_out(arrays: Mapping[str, ArraySource], metadata: Mapping[str, str] = {}) -> Layout:
    """Gives each array its place.

    Wide elements come first, so each array is aligned to its elements although there are no gaps.
    The same names, types and shapes give the same header.
    """
    order = sorted(arrays, key=lambda name: (-_dtypes.ITEM_BYTES[arrays[name].dtype], name))
    header: dict[str, Any] = {"__metadata__": dict(sorted(metadata.items()))} if metadata else {}
    offset = 0
    for name in order:
        dtype, shape, _ = arrays[name]
        end = offset + arrays[name].size
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": (offset, end)}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(LENGTH_BYTES + len(text)) % ALIGNMENT)
    if len(text) > HEADER_BYTES_MAX:
        raise InvalidArgument(
            f"the header of {len(arrays)} arrays has {len(text)} bytes, and the format allows "
            f"{HEADER_BYTES_MAX}; divide them among several files"
        )
    start = LENGTH_BYTES + len(text)
    entries = tuple(
        Entry(
            name,
            arrays[name].dtype,
            arrays[name].shape,
            start + header[name]["data_offsets"][0],
            arrays[name].size,
        )
        for name in order
    )
    return Layout(len(text).to_bytes(LENGTH_BYTES, "little") + text, entries, start + offset)


def header_bytes(prefix: bytes, file: str, file_bytes: int) -> int:
    """Bytes of the header of a file with ``file_bytes``, whose first 8 bytes are ``prefix``."""
    length = int.from_bytes(prefix, "little")
    if len(prefix) < LENGTH_BYTES or length > min(HEADER_BYTES_MAX, file_bytes - LENGTH_BYTES):
        raise Corrupt(f"{file!r} is no safetensors file: it names a header of {length} bytes")
    return length


def parse_header(header: bytes, file: str, file_bytes: int) -> list[Entry]:
    """The arrays of a file, in the order of their places. ``Corrupt``: it is no such header."""
    start = LENGTH_BYTES + len(header)
    try:
        fields = json.loads(header)
        if not isinstance(fields, dict):
            raise ValueError("it is no JSON object")
        entries = [
            _entry(name, value, start) for name, value in fields.items() if name != "__metadata__"
        ]
        _check_places(entries, start, file_bytes)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise Corrupt(f"the header of {file!r} is no safetensors header: {error}") from None
    return sorted(entries, key=lambda entry: (entry.offset, entry.size))


def _entry(name: str, value: Mapping[str, Any], start: int) -> Entry:
    shape = tuple(_whole(side) for side in value["shape"])
    begin, end = (_whole(place) for place in value["data_offsets"])
    entry = Entry(name, str(value["dtype"]), shape, start + begin, end - begin)
    if min((*shape, begin, end - begin)) < 0:
        raise ValueError(f"array {name!r} has a negative size")
    # NumPy multiplies the sides that are not 0, also those of an array without elements.
    if len(shape) > _DIMENSIONS_MAX or count_of(tuple(side or 1 for side in shape)) > _COUNT_MAX:
        raise ValueError(f"array {name!r} has a shape that no array has")
    item_bytes = _dtypes.ITEM_BYTES.get(entry.dtype)
    if item_bytes is not None and entry.size != count_of(shape) * item_bytes:
        raise ValueError(f"array {name!r} has {entry.size} bytes, which do not fit its shape")
    return entry


def _whole(value: object) -> int:
    if type(value) is not int:
        raise ValueError(f"{shown(value)} is no whole number")
    return value


def _check_places(entries: Iterable[Entry], start: int, file_bytes: int) -> None:
    last = start
    for entry in sorted(entries, key=lambda entry: (entry.offset, entry.size)):
        if entry.offset != last:
            raise ValueError(f"array {entry.name!r} begins at {entry.offset} instead of {last}")
        last += entry.size
    if last != file_bytes:
        raise ValueError(f"its arrays end at {last}, and the file at {file_bytes}")
